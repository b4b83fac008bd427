/* SPDX-License-Identifier: Apache-2.0 */
/* The NEON kernels by name, and small helpers that they share. */
#ifndef NF_K_NEON_H
#define NF_K_NEON_H

#include <arm_neon.h>

#include "cpu/kernels/kernels.h"

void nf_k_pack_f32_neon(const nf_rows *rows, float *panel, const uint32_t *stops, uint32_t stop_count, float *squares);
void nf_k_pack_u8_neon(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums);
void nf_k_refine_f32_product_neon(const nf_tile *tile);
void nf_k_refine_f32_difference_neon(const nf_tile *tile);
void nf_k_refine_f64_difference_neon(const nf_tile *tile);
void nf_k_refine_u8_neon(const nf_tile *tile);
void nf_k_refine_u8_dot_neon(const nf_tile *tile); /* where the processor has the dot product extension */
uint32_t nf_k_mask_positions_neon(uint64_t mask, uint32_t base, uint32_t *out);
uint64_t nf_k_ids_above_neon(const uint32_t *ids, uint32_t id);
uint64_t nf_k_rows_in_box_neon(const float *columns, const float *low, const float *high, uint32_t dims);
float nf_k_gap_square_neon(const float *a, const float *b, uint32_t dims);
float nf_k_distance_square_neon(const float *a, const float *b, uint32_t dims);
void nf_k_sums_neon(nf_store store, const void *x, const void *base, size_t row_bytes, uint32_t dims, const uint32_t *at,
                    uint32_t count, double *sums);

#define NF_U8_STEP 4u /* dims in a step of a panel of bytes */

#define NF_INLINE static inline __attribute__((always_inline))

/* Pins an accumulator at this point of the program, as NF_PIN does for AVX2. */
#define NF_PIN(a) __asm__ volatile("" : "+w"(a))

/* A value in lane 0 by a plain load, and the multiply-add that takes it from there. By intrinsics, gcc copies the value to
 * all lanes first, which is one more instruction on the ports of the multiply-adds for every four of them. */
NF_INLINE float32x4_t nf_lane_f32(const float *at)
{
    float32x4_t v;
    __asm__("ldr %s0, %1" : "=w"(v) : "m"(*at));
    return v;
}

#define NF_FMLA_LANE(sum, y, x) __asm__("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(sum) : "w"(y), "w"(x))

/* One bit per lane of four registers whose lanes are all ones or zero: NEON has no instruction that collects signs. */
NF_INLINE uint32_t nf_mask_of(const uint32x4_t lanes[4])
{
    const uint32x4_t bit = {1, 2, 4, 8};
    const uint32x4_t low = vorrq_u32(vandq_u32(lanes[0], bit), vandq_u32(lanes[1], vshlq_n_u32(bit, 4)));
    const uint32x4_t high = vorrq_u32(vandq_u32(lanes[2], vshlq_n_u32(bit, 8)), vandq_u32(lanes[3], vshlq_n_u32(bit, 12)));
    return vaddvq_u32(vorrq_u32(low, high));
}

/* Masks of a finished register block: 16 points from block * 16 on. */
static inline void nf_put_masks(const nf_tile *tile, uint32_t query, uint32_t block, uint32_t maybe, uint32_t sure)
{
    const uint32_t left = tile->point_count - block * NF_LANES;
    const uint32_t inside = left >= NF_LANES ? 0xffffu : (1u << left) - 1u;
    tile->maybe[query] |= (uint64_t)(maybe & inside) << (block * NF_LANES);
    tile->sure[query] |= (uint64_t)(maybe & sure & inside) << (block * NF_LANES);
}

static inline void nf_clear_masks(const nf_tile *tile)
{
    for (uint32_t i = 0; i < tile->query_count; i++) {
        tile->maybe[tile->queries[i]] = 0;
        tile->sure[tile->queries[i]] = 0;
    }
}

static inline uint32_t nf_blocks(const nf_tile *tile)
{
    return (tile->point_count + NF_LANES - 1) / NF_LANES;
}

#endif
