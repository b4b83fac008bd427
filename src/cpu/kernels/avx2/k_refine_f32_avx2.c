/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement in binary32 with AVX2.
 *
 * A register block is QUERIES x 16 points. Product: 6 queries, 12 accumulators; a step is 2 loads of points, 6 broadcasts
 * and 12 fused multiply-adds, which two FMA ports take 6 clocks for: the loads hide behind them. Difference: 4 queries, 8
 * accumulators, 8 subtractions and 8 multiply-adds on separate ports.
 *
 * The loops over queries have constant bounds and are unrolled, so that accumulators stay in registers.
 */
#include "cpu/kernels/avx2/k_avx2.h"

#define PRODUCT_QUERIES 6
#define DIFFERENCE_QUERIES 4
#define FEW_QUERIES 2

/* Bits of the points that are not certainly out: accumulators of one query against its limits. */
static inline uint32_t product_bits(__m256 low, __m256 high, float x_limit, const float *y_limit, int predicate_is_less)
{
    const __m256 x = _mm256_set1_ps(x_limit);
    const __m256 limit_low = _mm256_add_ps(x, _mm256_loadu_ps(y_limit));
    const __m256 limit_high = _mm256_add_ps(x, _mm256_loadu_ps(y_limit + 8));
    const __m256 a = predicate_is_less ? _mm256_cmp_ps(low, limit_low, _CMP_LT_OQ) : _mm256_cmp_ps(low, limit_low, _CMP_GE_OQ);
    const __m256 b =
        predicate_is_less ? _mm256_cmp_ps(high, limit_high, _CMP_LT_OQ) : _mm256_cmp_ps(high, limit_high, _CMP_GE_OQ);
    return (uint32_t)_mm256_movemask_ps(a) | (uint32_t)_mm256_movemask_ps(b) << 8;
}

/* Whether every pair of the block is certainly out at a stop. */
static inline __attribute__((always_inline)) int product_all_out(const nf_tile *tile, const uint8_t *query, uint32_t block, uint32_t stop,
                                  __m256 sum[][2], const int queries)
{
    const float *x_out = tile->x_out + stop * NF_TILE;
    const float *y_out = tile->y_out + stop * NF_TILE + block * NF_LANES;
    const __m256 y_low = _mm256_loadu_ps(y_out), y_high = _mm256_loadu_ps(y_out + 8);
    __m256       all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        const __m256 x = _mm256_set1_ps(x_out[query[i]]);
        all = _mm256_and_ps(all, _mm256_cmp_ps(sum[i][0], _mm256_add_ps(x, y_low), _CMP_LT_OQ));
        all = _mm256_and_ps(all, _mm256_cmp_ps(sum[i][1], _mm256_add_ps(x, y_high), _CMP_LT_OQ));
    }
    return _mm256_movemask_ps(all) == 0xff;
}

static inline __attribute__((always_inline)) void product_block(const nf_tile *tile, const uint8_t *query, uint32_t block,
                                                                const int queries)
{
    const float *y = (const float *)tile->y + nf_panel_at(tile->steps, block * NF_LANES, 0);
    const float *x[PRODUCT_QUERIES];
    __m256       sum[PRODUCT_QUERIES][2];
    uint32_t     step = 0;

#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        x[i] = (const float *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            const __m256 y_low = _mm256_loadu_ps(y + step * NF_LANES), y_high = _mm256_loadu_ps(y + step * NF_LANES + 8);
#pragma GCC unroll 6
            for (int i = 0; i < queries; i++) {
                const __m256 value = _mm256_broadcast_ss(x[i] + step * NF_LANES);
                sum[i][0] = _mm256_fmadd_ps(value, y_low, sum[i][0]);
                sum[i][1] = _mm256_fmadd_ps(value, y_high, sum[i][1]);
                NF_PIN(sum[i][0], sum[i][1]);
            }
        }
        if (product_all_out(tile, query, block, stop, sum, queries)) return;
    }
    const uint32_t last = (tile->stop_count - 1) * NF_TILE, at = block * NF_LANES;
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        const uint32_t out = product_bits(sum[i][0], sum[i][1], tile->x_out[last + query[i]], tile->y_out + last + at, 1);
        const uint32_t in = product_bits(sum[i][0], sum[i][1], tile->x_in[query[i]], tile->y_in + at, 0);
        nf_put_masks(tile, query[i], block, ~out, in);
    }
}

void nf_k_refine_f32_product_avx2(const nf_tile *tile)
{
    nf_clear_masks(tile);
    for (uint32_t block = 0; block < nf_blocks(tile); block++) {
        uint32_t at = 0;
        for (; at + FEW_QUERIES < tile->query_count; at += PRODUCT_QUERIES) {
            product_block(tile, tile->queries + at, block, PRODUCT_QUERIES);
        }
        if (at < tile->query_count) product_block(tile, tile->queries + at, block, FEW_QUERIES);
    }
}

static inline __attribute__((always_inline)) void difference_block(const nf_tile *tile, const uint8_t *query,
                                                                   uint32_t block, const int queries)
{
    const float *y = (const float *)tile->y + nf_panel_at(tile->steps, block * NF_LANES, 0);
    const float *out_above = tile->out_above, *sure_upto = tile->sure_upto;
    const float *x[DIFFERENCE_QUERIES];
    __m256       sum[DIFFERENCE_QUERIES][2];
    uint32_t     step = 0;

#pragma GCC unroll 4
    for (int i = 0; i < queries; i++) {
        x[i] = (const float *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            const __m256 y_low = _mm256_loadu_ps(y + step * NF_LANES), y_high = _mm256_loadu_ps(y + step * NF_LANES + 8);
#pragma GCC unroll 4
            for (int i = 0; i < queries; i++) {
                const __m256 value = _mm256_broadcast_ss(x[i] + step * NF_LANES);
                const __m256 low = _mm256_sub_ps(value, y_low), high = _mm256_sub_ps(value, y_high);
                sum[i][0] = _mm256_fmadd_ps(low, low, sum[i][0]);
                sum[i][1] = _mm256_fmadd_ps(high, high, sum[i][1]);
                NF_PIN(sum[i][0], sum[i][1]);
            }
        }
        /* GT is false for a sum that is not a number: such a pair stays. */
        __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
#pragma GCC unroll 4
        for (int i = 0; i < queries; i++) {
            const __m256 above = _mm256_broadcast_ss(out_above + query[i]);
            all = _mm256_and_ps(all, _mm256_cmp_ps(sum[i][0], above, _CMP_GT_OQ));
            all = _mm256_and_ps(all, _mm256_cmp_ps(sum[i][1], above, _CMP_GT_OQ));
        }
        if (_mm256_movemask_ps(all) == 0xff) return;
    }
#pragma GCC unroll 4
    for (int i = 0; i < queries; i++) {
        const __m256   above = _mm256_broadcast_ss(out_above + query[i]), upto = _mm256_broadcast_ss(sure_upto + query[i]);
        const uint32_t out = (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(sum[i][0], above, _CMP_GT_OQ)) |
                             (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(sum[i][1], above, _CMP_GT_OQ)) << 8;
        const uint32_t in = (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(sum[i][0], upto, _CMP_LE_OQ)) |
                            (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(sum[i][1], upto, _CMP_LE_OQ)) << 8;
        nf_put_masks(tile, query[i], block, ~out, in);
    }
}

void nf_k_refine_f32_difference_avx2(const nf_tile *tile)
{
    nf_clear_masks(tile);
    for (uint32_t block = 0; block < nf_blocks(tile); block++) {
        uint32_t at = 0;
        for (; at + FEW_QUERIES < tile->query_count; at += DIFFERENCE_QUERIES) {
            difference_block(tile, tile->queries + at, block, DIFFERENCE_QUERIES);
        }
        if (at < tile->query_count) difference_block(tile, tile->queries + at, block, FEW_QUERIES);
    }
}
