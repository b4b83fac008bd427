/* SPDX-License-Identifier: Apache-2.0 */
/* Refinement in binary64 with AVX-512: blocks of 6 queries x 16 points, 12 accumulators. */
#include "cpu/kernels/avx512/k_avx512.h"

#define QUERIES 6
#define FEW_QUERIES 2

static inline uint32_t both(__mmask8 low, __mmask8 high)
{
    return (uint32_t)low | (uint32_t)high << 8;
}

static inline __attribute__((always_inline)) void difference_block(const nf_tile *tile, const uint8_t *query,
                                                                   uint32_t first, const int queries)
{
    const double *y = (const double *)tile->y + nf_panel_at(tile->steps, first, 0);
    const double *out_above = tile->out_above, *sure_upto = tile->sure_upto;
    const double *x[QUERIES];
    __m512d       sum[QUERIES][2];
    uint32_t      out[QUERIES] = {0}, step = 0;

#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        x[i] = (const double *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        sum[i][0] = sum[i][1] = _mm512_setzero_pd();
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            const __m512d low = _mm512_loadu_pd(y + step * NF_LANES), high = _mm512_loadu_pd(y + step * NF_LANES + 8);
#pragma GCC unroll 6
            for (int i = 0; i < queries; i++) {
                const __m512d value = _mm512_set1_pd(x[i][step * NF_LANES]);
                const __m512d a = _mm512_sub_pd(value, low), b = _mm512_sub_pd(value, high);
                sum[i][0] = _mm512_fmadd_pd(a, a, sum[i][0]);
                sum[i][1] = _mm512_fmadd_pd(b, b, sum[i][1]);
                NF_PIN512(sum[i][0]);
                NF_PIN512(sum[i][1]);
            }
        }
        uint32_t all = 0xffffu;
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            const __m512d above = _mm512_set1_pd(out_above[query[i]]);
            out[i] = both(_mm512_cmp_pd_mask(sum[i][0], above, _CMP_GT_OQ), _mm512_cmp_pd_mask(sum[i][1], above, _CMP_GT_OQ));
            all &= out[i];
        }
        if (all == 0xffffu) return;
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        const __m512d  upto = _mm512_set1_pd(sure_upto[query[i]]);
        const uint32_t in = both(_mm512_cmp_pd_mask(sum[i][0], upto, _CMP_LE_OQ), _mm512_cmp_pd_mask(sum[i][1], upto, _CMP_LE_OQ));
        nf_put_masks_512(tile, query[i], first, ~out[i] & 0xffffu, in);
    }
}

void nf_k_refine_f64_difference_avx512(const nf_tile *tile)
{
    nf_clear_masks_512(tile);
    for (uint32_t first = 0; first < tile->point_count; first += NF_LANES) {
        uint32_t at = 0;
        for (; at + FEW_QUERIES < tile->query_count; at += QUERIES) difference_block(tile, tile->queries + at, first, QUERIES);
        if (at < tile->query_count) difference_block(tile, tile->queries + at, first, FEW_QUERIES);
    }
}
