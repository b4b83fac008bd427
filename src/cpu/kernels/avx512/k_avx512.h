/* SPDX-License-Identifier: Apache-2.0 */
/* The AVX-512 kernels by name, and small helpers that they share. */
#ifndef NF_K_AVX512_H
#define NF_K_AVX512_H

#include <immintrin.h>

#include "cpu/kernels/kernels.h"

void nf_k_pack_u8_x_avx512(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums);
void nf_k_pack_u8_y_avx512(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums);
void nf_k_refine_f32_product_avx512(const nf_tile *tile);
void nf_k_refine_f32_difference_avx512(const nf_tile *tile);
void nf_k_refine_f64_difference_avx512(const nf_tile *tile);
void nf_k_refine_u8_avx512(const nf_tile *tile);
uint32_t nf_k_mask_positions_avx512(uint64_t mask, uint32_t base, uint32_t *out);
uint64_t nf_k_rows_in_box_avx512(const float *columns, const float *low, const float *high, uint32_t dims);
void nf_k_ranks_avx512(const double *values, uint32_t *ranks);
uint32_t nf_k_pick_avx512(const double *values, const uint32_t *at, uint32_t count, double most, double *picked,
                          uint32_t *picked_at);
uint64_t nf_k_rows_near_box_avx512(const float *columns, const float *low, const float *high, uint32_t dims,
                                     const float *most);

uint32_t nf_k_below_avx512(const float *low, const float *reach, const float *products, uint32_t count, float gain,
                           float limit, uint16_t *masks);

/* Pins an accumulator at this point of the program, so that it stays in its register (see NF_PIN of the AVX2 kernels). */
#define NF_PIN512(a) __asm__ volatile("" : "+v"(a))

/* Points are taken 32 at a time: two blocks of 16. */
#define NF_PAIR_LANES (2 * NF_LANES)

/* Masks of a finished register block: 32 points from first on. */
static inline void nf_put_masks_512(const nf_tile *tile, uint32_t query, uint32_t first, uint32_t maybe, uint32_t sure)
{
    const uint32_t left = tile->point_count - first;
    const uint32_t inside = left >= NF_PAIR_LANES ? 0xffffffffu : (1u << left) - 1u;
    tile->maybe[query] |= (uint64_t)(maybe & inside) << first;
    tile->sure[query] |= (uint64_t)(maybe & sure & inside) << first;
}

static inline void nf_clear_masks_512(const nf_tile *tile)
{
    for (uint32_t i = 0; i < tile->query_count; i++) {
        tile->maybe[tile->queries[i]] = 0;
        tile->sure[tile->queries[i]] = 0;
    }
}

#endif
