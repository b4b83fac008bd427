/* SPDX-License-Identifier: Apache-2.0 */
/* The AVX2 kernels by name, and small helpers that they share. */
#ifndef NF_K_AVX2_H
#define NF_K_AVX2_H

#include <immintrin.h>

#include "cpu/kernels/kernels.h"

void nf_k_pack_f32_avx2(const nf_rows *rows, float *panel, const uint32_t *stops, uint32_t stop_count, float *squares);
void nf_k_pack_u8_avx2(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums);
void nf_k_refine_f32_product_avx2(const nf_tile *tile);
void nf_k_refine_f32_difference_avx2(const nf_tile *tile);
void nf_k_refine_f64_difference_avx2(const nf_tile *tile);
void nf_k_refine_u8_avx2(const nf_tile *tile);
uint32_t nf_k_mask_positions_avx2(uint64_t mask, uint32_t base, uint32_t *out);
uint64_t nf_k_ids_above_avx2(const uint32_t *ids, uint32_t id);
void nf_k_sort_ids_avx2(uint32_t *ids, uint64_t count, uint32_t *spare);
void nf_k_roots_avx2(double *sums, uint32_t count, double most);
uint64_t nf_k_rows_in_box_avx2(const float *columns, const float *low, const float *high, uint32_t dims);
uint64_t nf_k_rows_near_box_avx2(const float *columns, const float *low, const float *high, uint32_t dims,
                                     const float *most);
float nf_k_gap_square_avx2(const float *a, const float *b, uint32_t dims);
float nf_k_distance_square_avx2(const float *a, const float *b, uint32_t dims);
void nf_k_sums_avx2(nf_store store, const void *x, const void *base, size_t row_bytes, uint32_t dims, const uint32_t *at,
                    uint32_t count, double *sums);

/* Fills the table of nf_k_mask_positions_avx2; called once, before any kernel runs. */
void nf_k_mask_positions_prepare(void);

/* Pins two accumulators at this point of the program. Without it GCC computes the products of all queries of a step before
 * it adds any, runs out of registers, and spills the accumulators in every step. */
#define NF_PIN(a, b) __asm__ volatile("" : "+x"(a), "+x"(b))

/* Transposes 8 x 8 values of 32 bits: v[i] lane j becomes v[j] lane i. */
static inline void nf_transpose_8x8(__m256i v[8])
{
    __m256i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
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
