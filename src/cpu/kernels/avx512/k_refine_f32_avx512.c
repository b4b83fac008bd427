/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement in binary32 with AVX-512: register blocks of 8 queries x 32 points (product, 16 accumulators) or 6 x 32
 * (difference). A panel always has room for 64 points, so that both halves of a block can be read whatever the count.
 */
#include "cpu/kernels/avx512/k_avx512.h"

#define PRODUCT_QUERIES 8
#define DIFFERENCE_QUERIES 6
#define FEW_QUERIES 2

static inline uint32_t both(__mmask16 low, __mmask16 high)
{
    return (uint32_t)low | (uint32_t)high << 16;
}

static inline __attribute__((always_inline)) void product_block(const nf_tile *tile, const uint8_t *query, uint32_t first,
                                                                const int queries)
{
    const float *y_low = (const float *)tile->y + nf_panel_at(tile->steps, first, 0);
    const float *y_high = (const float *)tile->y + nf_panel_at(tile->steps, first + NF_LANES, 0);
    const float *x[PRODUCT_QUERIES];
    __m512       sum[PRODUCT_QUERIES][2];
    uint32_t     out[PRODUCT_QUERIES] = {0}, step = 0;

#pragma GCC unroll 8
    for (int i = 0; i < queries; i++) {
        x[i] = (const float *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            const __m512 low = _mm512_loadu_ps(y_low + step * NF_LANES), high = _mm512_loadu_ps(y_high + step * NF_LANES);
#pragma GCC unroll 8
            for (int i = 0; i < queries; i++) {
                const __m512 value = _mm512_set1_ps(x[i][step * NF_LANES]);
                sum[i][0] = _mm512_fmadd_ps(value, low, sum[i][0]);
                sum[i][1] = _mm512_fmadd_ps(value, high, sum[i][1]);
                NF_PIN512(sum[i][0]);
                NF_PIN512(sum[i][1]);
            }
        }
        const float *y_out = tile->y_out + stop * NF_TILE + first;
        const __m512 limit_low = _mm512_loadu_ps(y_out), limit_high = _mm512_loadu_ps(y_out + NF_LANES);
        uint32_t     all = 0xffffffffu;
#pragma GCC unroll 8
        for (int i = 0; i < queries; i++) {
            const __m512 x_out = _mm512_set1_ps(tile->x_out[stop * NF_TILE + query[i]]);
            out[i] = both(_mm512_cmp_ps_mask(sum[i][0], _mm512_add_ps(x_out, limit_low), _CMP_LT_OQ),
                          _mm512_cmp_ps_mask(sum[i][1], _mm512_add_ps(x_out, limit_high), _CMP_LT_OQ));
            all &= out[i];
        }
        if (all == 0xffffffffu) return;
    }
    const __m512 in_low = _mm512_loadu_ps(tile->y_in + first), in_high = _mm512_loadu_ps(tile->y_in + first + NF_LANES);
#pragma GCC unroll 8
    for (int i = 0; i < queries; i++) {
        const __m512   x_in = _mm512_set1_ps(tile->x_in[query[i]]);
        const uint32_t in = both(_mm512_cmp_ps_mask(sum[i][0], _mm512_add_ps(x_in, in_low), _CMP_GE_OQ),
                                 _mm512_cmp_ps_mask(sum[i][1], _mm512_add_ps(x_in, in_high), _CMP_GE_OQ));
        nf_put_masks_512(tile, query[i], first, ~out[i], in);
    }
}

void nf_k_refine_f32_product_avx512(const nf_tile *tile)
{
    nf_clear_masks_512(tile);
    for (uint32_t first = 0; first < tile->point_count; first += NF_PAIR_LANES) {
        uint32_t at = 0;
        for (; at + FEW_QUERIES < tile->query_count; at += PRODUCT_QUERIES) {
            product_block(tile, tile->queries + at, first, PRODUCT_QUERIES);
        }
        if (at < tile->query_count) product_block(tile, tile->queries + at, first, FEW_QUERIES);
    }
}

static inline __attribute__((always_inline)) void difference_block(const nf_tile *tile, const uint8_t *query,
                                                                   uint32_t first, const int queries)
{
    const float *y_low = (const float *)tile->y + nf_panel_at(tile->steps, first, 0);
    const float *y_high = (const float *)tile->y + nf_panel_at(tile->steps, first + NF_LANES, 0);
    const float *out_above = tile->out_above, *sure_upto = tile->sure_upto;
    const float *x[DIFFERENCE_QUERIES];
    __m512       sum[DIFFERENCE_QUERIES][2];
    uint32_t     out[DIFFERENCE_QUERIES] = {0}, step = 0;

#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        x[i] = (const float *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            const __m512 low = _mm512_loadu_ps(y_low + step * NF_LANES), high = _mm512_loadu_ps(y_high + step * NF_LANES);
#pragma GCC unroll 6
            for (int i = 0; i < queries; i++) {
                const __m512 value = _mm512_set1_ps(x[i][step * NF_LANES]);
                const __m512 a = _mm512_sub_ps(value, low), b = _mm512_sub_ps(value, high);
                sum[i][0] = _mm512_fmadd_ps(a, a, sum[i][0]);
                sum[i][1] = _mm512_fmadd_ps(b, b, sum[i][1]);
                NF_PIN512(sum[i][0]);
                NF_PIN512(sum[i][1]);
            }
        }
        uint32_t all = 0xffffffffu;
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            const __m512 above = _mm512_set1_ps(out_above[query[i]]);
            out[i] = both(_mm512_cmp_ps_mask(sum[i][0], above, _CMP_GT_OQ), _mm512_cmp_ps_mask(sum[i][1], above, _CMP_GT_OQ));
            all &= out[i];
        }
        if (all == 0xffffffffu) return;
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        const __m512   upto = _mm512_set1_ps(sure_upto[query[i]]);
        const uint32_t in = both(_mm512_cmp_ps_mask(sum[i][0], upto, _CMP_LE_OQ), _mm512_cmp_ps_mask(sum[i][1], upto, _CMP_LE_OQ));
        nf_put_masks_512(tile, query[i], first, ~out[i], in);
    }
}

void nf_k_refine_f32_difference_avx512(const nf_tile *tile)
{
    nf_clear_masks_512(tile);
    for (uint32_t first = 0; first < tile->point_count; first += NF_PAIR_LANES) {
        uint32_t at = 0;
        for (; at + FEW_QUERIES < tile->query_count; at += DIFFERENCE_QUERIES) {
            difference_block(tile, tile->queries + at, first, DIFFERENCE_QUERIES);
        }
        if (at < tile->query_count) difference_block(tile, tile->queries + at, first, FEW_QUERIES);
    }
}
