/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement of bytes with AVX2, exactly: dimensions in pairs of int16, VPMADDWD multiplies and adds a pair, 32 dimensions
 * a clock on two ports. A register block is 6 queries x 16 points, as in binary32.
 * (VPMADDUBSW would take 32 bytes at once, but saturates at 32,767: two products of bytes reach 65,025 each.)
 */
#include "cpu/kernels/avx2/k_avx2.h"

#define QUERIES 6
#define FEW_QUERIES 2

/* floor(radius^2) minus the partial sum of squares: negative means out. */
static inline __m256i value_of(__m256i product, __m256i x_sum, __m256i y_sum)
{
    return _mm256_sub_epi32(_mm256_sub_epi32(_mm256_add_epi32(product, product), x_sum), y_sum);
}

static inline uint32_t signs(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(low)) |
           (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(high)) << 8;
}

static inline __attribute__((always_inline)) void u8_block(const nf_tile *tile, const uint8_t *query, uint32_t block,
                                                           const int queries)
{
    const int32_t *y = (const int32_t *)tile->y + nf_panel_at(tile->steps, block * NF_LANES, 0);
    const int32_t *x[QUERIES];
    __m256i        product[QUERIES][2], value[QUERIES][2];
    uint32_t       step = 0;

#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        x[i] = (const int32_t *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        product[i][0] = product[i][1] = value[i][0] = value[i][1] = _mm256_setzero_si256();
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            const __m256i y_low = _mm256_loadu_si256((const __m256i *)(const void *)(y + step * NF_LANES));
            const __m256i y_high = _mm256_loadu_si256((const __m256i *)(const void *)(y + step * NF_LANES + 8));
#pragma GCC unroll 6
            for (int i = 0; i < queries; i++) {
                const __m256i pair = _mm256_set1_epi32(x[i][step * NF_LANES]);
                product[i][0] = _mm256_add_epi32(product[i][0], _mm256_madd_epi16(pair, y_low));
                product[i][1] = _mm256_add_epi32(product[i][1], _mm256_madd_epi16(pair, y_high));
                NF_PIN(product[i][0], product[i][1]);
            }
        }
        const int32_t *y_sums = tile->y_sum + stop * NF_TILE + block * NF_LANES;
        const __m256i  y_sum_low = _mm256_loadu_si256((const __m256i *)(const void *)y_sums);
        const __m256i  y_sum_high = _mm256_loadu_si256((const __m256i *)(const void *)(y_sums + 8));
        __m256i        all = _mm256_set1_epi32(-1);
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            const __m256i x_sum = _mm256_set1_epi32(tile->x_sum[stop * NF_TILE + query[i]]);
            value[i][0] = value_of(product[i][0], x_sum, y_sum_low);
            value[i][1] = value_of(product[i][1], x_sum, y_sum_high);
            all = _mm256_and_si256(all, _mm256_and_si256(value[i][0], value[i][1]));
        }
        if (_mm256_movemask_ps(_mm256_castsi256_ps(all)) == 0xff) return;
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        const __m256i  from = _mm256_set1_epi32(tile->sure_from[query[i]]);
        const uint32_t out = signs(value[i][0], value[i][1]);
        const uint32_t open = signs(_mm256_cmpgt_epi32(from, value[i][0]), _mm256_cmpgt_epi32(from, value[i][1]));
        nf_put_masks(tile, query[i], block, ~out, ~open);
    }
}

void nf_k_refine_u8_avx2(const nf_tile *tile)
{
    nf_clear_masks(tile);
    for (uint32_t block = 0; block < nf_blocks(tile); block++) {
        uint32_t at = 0;
        for (; at + FEW_QUERIES < tile->query_count; at += QUERIES) u8_block(tile, tile->queries + at, block, QUERIES);
        if (at < tile->query_count) u8_block(tile, tile->queries + at, block, FEW_QUERIES);
    }
}
