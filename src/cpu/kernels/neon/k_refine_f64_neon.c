/* SPDX-License-Identifier: Apache-2.0 */
/* Refinement in binary64 with NEON: blocks of 4 queries x 8 points, 16 accumulators. */
#include "cpu/kernels/neon/k_neon.h"

#define QUERIES 4
#define HALF (NF_LANES / 2)
#define PARTS 4

static inline uint32_t bits(const uint64x2_t lanes[PARTS])
{
    const uint64x2_t bit = {1, 2};
    const uint64x2_t low = vorrq_u64(vandq_u64(lanes[0], bit), vandq_u64(lanes[1], vshlq_n_u64(bit, 2)));
    const uint64x2_t high =
        vorrq_u64(vandq_u64(lanes[2], vshlq_n_u64(bit, 4)), vandq_u64(lanes[3], vshlq_n_u64(bit, 6)));
    return (uint32_t)vaddvq_u64(vorrq_u64(low, high));
}

/* Points half * 8 .. half * 8 + 7 of a block. */
static void difference_half(const nf_tile *tile, const uint8_t *query, uint32_t block, uint32_t half)
{
    const double *y = (const double *)tile->y + nf_panel_at(tile->steps, block * NF_LANES + half * HALF, 0);
    const double *out_above = tile->out_above, *sure_upto = tile->sure_upto;
    const double *x[QUERIES];
    float64x2_t   sum[QUERIES][PARTS], at[PARTS];
    uint32_t      step = 0;

#pragma GCC unroll 4
    for (int i = 0; i < QUERIES; i++) {
        x[i] = (const double *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        for (int j = 0; j < PARTS; j++) sum[i][j] = vdupq_n_f64(0.0);
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
#pragma GCC unroll 4
            for (int j = 0; j < PARTS; j++) at[j] = vld1q_f64(y + step * NF_LANES + 2 * j);
#pragma GCC unroll 4
            for (int i = 0; i < QUERIES; i++) {
                const float64x2_t value = vld1q_dup_f64(x[i] + step * NF_LANES);
#pragma GCC unroll 4
                for (int j = 0; j < PARTS; j++) {
                    const float64x2_t difference = vsubq_f64(value, at[j]);
                    sum[i][j] = vfmaq_f64(sum[i][j], difference, difference);
                    NF_PIN(sum[i][j]);
                }
            }
        }
        uint64x2_t all = vdupq_n_u64(UINT64_MAX);
#pragma GCC unroll 4
        for (int i = 0; i < QUERIES; i++) {
            const float64x2_t above = vld1q_dup_f64(out_above + query[i]);
#pragma GCC unroll 4
            for (int j = 0; j < PARTS; j++) all = vandq_u64(all, vcgtq_f64(sum[i][j], above));
        }
        if (vminvq_u32(vreinterpretq_u32_u64(all)) != 0) return;
    }
#pragma GCC unroll 4
    for (int i = 0; i < QUERIES; i++) {
        const float64x2_t above = vld1q_dup_f64(out_above + query[i]), upto = vld1q_dup_f64(sure_upto + query[i]);
        uint64x2_t        out[PARTS], in[PARTS];
#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++) {
            out[j] = vcgtq_f64(sum[i][j], above);
            in[j] = vcleq_f64(sum[i][j], upto);
        }
        nf_put_masks(tile, query[i], block, (~bits(out) & 0xffu) << (half * HALF), bits(in) << (half * HALF));
    }
}

void nf_k_refine_f64_difference_neon(const nf_tile *tile)
{
    nf_clear_masks(tile);
    for (uint32_t block = 0; block < nf_blocks(tile); block++) {
        for (uint32_t half = 0; half < 2; half++) {
            for (uint32_t at = 0; at < tile->query_count; at += QUERIES)
                difference_half(tile, tile->queries + at, block, half);
        }
    }
}
