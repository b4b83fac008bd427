/* SPDX-License-Identifier: Apache-2.0 */
/* Refinement in binary64 with AVX2: blocks of 4 queries x 8 points, 8 accumulators. */
#include "cpu/kernels/avx2/k_avx2.h"

#define QUERIES 4
#define HALF (NF_LANES / 2)

static inline uint32_t bits(__m256d low, __m256d high)
{
    return (uint32_t)_mm256_movemask_pd(low) | (uint32_t)_mm256_movemask_pd(high) << 4;
}

/* Points half * 8 .. half * 8 + 7 of a block. */
static void difference_half(const nf_tile *tile, const uint8_t *query, uint32_t block, uint32_t half)
{
    const double *y = (const double *)tile->y + nf_panel_at(tile->steps, block * NF_LANES + half * HALF, 0);
    const double *out_above = tile->out_above, *sure_upto = tile->sure_upto;
    const double *x[QUERIES];
    __m256d       sum[QUERIES][2];
    uint32_t      step = 0;

#pragma GCC unroll 4
    for (int i = 0; i < QUERIES; i++) {
        x[i] = (const double *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        sum[i][0] = sum[i][1] = _mm256_setzero_pd();
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            const __m256d y_low = _mm256_loadu_pd(y + step * NF_LANES), y_high = _mm256_loadu_pd(y + step * NF_LANES + 4);
#pragma GCC unroll 4
            for (int i = 0; i < QUERIES; i++) {
                const __m256d value = _mm256_broadcast_sd(x[i] + step * NF_LANES);
                const __m256d low = _mm256_sub_pd(value, y_low), high = _mm256_sub_pd(value, y_high);
                sum[i][0] = _mm256_fmadd_pd(low, low, sum[i][0]);
                sum[i][1] = _mm256_fmadd_pd(high, high, sum[i][1]);
                NF_PIN(sum[i][0], sum[i][1]);
            }
        }
        __m256d all = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
#pragma GCC unroll 4
        for (int i = 0; i < QUERIES; i++) {
            const __m256d above = _mm256_broadcast_sd(out_above + query[i]);
            all = _mm256_and_pd(all, _mm256_cmp_pd(sum[i][0], above, _CMP_GT_OQ));
            all = _mm256_and_pd(all, _mm256_cmp_pd(sum[i][1], above, _CMP_GT_OQ));
        }
        if (_mm256_movemask_pd(all) == 0xf) return;
    }
#pragma GCC unroll 4
    for (int i = 0; i < QUERIES; i++) {
        const __m256d  above = _mm256_broadcast_sd(out_above + query[i]), upto = _mm256_broadcast_sd(sure_upto + query[i]);
        const uint32_t out = bits(_mm256_cmp_pd(sum[i][0], above, _CMP_GT_OQ), _mm256_cmp_pd(sum[i][1], above, _CMP_GT_OQ));
        const uint32_t in = bits(_mm256_cmp_pd(sum[i][0], upto, _CMP_LE_OQ), _mm256_cmp_pd(sum[i][1], upto, _CMP_LE_OQ));
        nf_put_masks(tile, query[i], block, (~out & 0xffu) << (half * HALF), in << (half * HALF));
    }
}

void nf_k_refine_f64_difference_avx2(const nf_tile *tile)
{
    nf_clear_masks(tile);
    for (uint32_t block = 0; block < nf_blocks(tile); block++) {
        for (uint32_t half = 0; half < 2; half++) {
            for (uint32_t at = 0; at < tile->query_count; at += QUERIES) difference_half(tile, tile->queries + at, block, half);
        }
    }
}
