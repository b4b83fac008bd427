/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement in binary32 with NEON.
 *
 * A register block is QUERIES x 16 points: four registers a query. Product: 6 queries, 24 accumulators; a step is 4
 * loads of points, 6 of queries, and 24 fused multiply-adds that take the query's value from a lane. Difference: 4
 * queries, 16 accumulators, as there the value has to be in all lanes, and differences need registers too.
 *
 * The loops over queries have constant bounds and are unrolled, so that accumulators stay in registers.
 */
#include "cpu/kernels/neon/k_neon.h"

#define PRODUCT_QUERIES 6
#define DIFFERENCE_QUERIES 4
#define FEW_QUERIES 2
#define PARTS 4 /* registers of a block of points */

NF_INLINE void load_block(const float *from, float32x4_t v[PARTS])
{
#pragma GCC unroll 4
    for (int j = 0; j < PARTS; j++) v[j] = vld1q_f32(from + 4 * j);
}

/* Lanes whose product is below x + y, or not below it. */
NF_INLINE void product_lanes(const float32x4_t sum[PARTS], float x, const float32x4_t y[PARTS], int less,
                             uint32x4_t lanes[PARTS])
{
#pragma GCC unroll 4
    for (int j = 0; j < PARTS; j++) {
        const float32x4_t limit = vaddq_f32(vdupq_n_f32(x), y[j]);
        lanes[j] = less ? vcltq_f32(sum[j], limit) : vcgeq_f32(sum[j], limit);
    }
}

NF_INLINE uint32x4_t all_lanes(const uint32x4_t lanes[PARTS])
{
    return vandq_u32(vandq_u32(lanes[0], lanes[1]), vandq_u32(lanes[2], lanes[3]));
}

/* Whether every pair of the block is certainly out at a stop. */
NF_INLINE int product_all_out(const nf_tile *tile, const uint8_t *query, uint32_t block, uint32_t stop,
                              float32x4_t sum[][PARTS], const int queries)
{
    const float *x_out = tile->x_out + stop * NF_TILE;
    float32x4_t  y[PARTS];
    uint32x4_t   all = vdupq_n_u32(UINT32_MAX);
    load_block(tile->y_out + stop * NF_TILE + block * NF_LANES, y);
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        uint32x4_t lanes[PARTS];
        product_lanes(sum[i], x_out[query[i]], y, 1, lanes);
        all = vandq_u32(all, all_lanes(lanes));
    }
    return vminvq_u32(all) != 0;
}

NF_INLINE void product_block(const nf_tile *tile, const uint8_t *query, uint32_t block, const int queries)
{
    const float *y = (const float *)tile->y + nf_panel_at(tile->steps, block * NF_LANES, 0);
    const float *x[PRODUCT_QUERIES];
    float32x4_t  sum[PRODUCT_QUERIES][PARTS], at[PARTS];
    uint32_t     step = 0;

#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        x[i] = (const float *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        for (int j = 0; j < PARTS; j++) sum[i][j] = vdupq_n_f32(0.0f);
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            load_block(y + step * NF_LANES, at);
#pragma GCC unroll 6
            for (int i = 0; i < queries; i++) {
                const float32x4_t value = nf_lane_f32(x[i] + step * NF_LANES);
#pragma GCC unroll 4
                for (int j = 0; j < PARTS; j++) NF_FMLA_LANE(sum[i][j], at[j], value);
            }
        }
        if (product_all_out(tile, query, block, stop, sum, queries)) return;
    }
    const uint32_t last = (tile->stop_count - 1) * NF_TILE, first = block * NF_LANES;
    float32x4_t    y_in[PARTS];
    load_block(tile->y_out + last + first, at);
    load_block(tile->y_in + first, y_in);
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        uint32x4_t out[PARTS], in[PARTS];
        product_lanes(sum[i], tile->x_out[last + query[i]], at, 1, out);
        product_lanes(sum[i], tile->x_in[query[i]], y_in, 0, in);
        nf_put_masks(tile, query[i], block, ~nf_mask_of(out), nf_mask_of(in));
    }
}

void nf_k_refine_f32_product_neon(const nf_tile *tile)
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

NF_INLINE void difference_block(const nf_tile *tile, const uint8_t *query, uint32_t block, const int queries)
{
    const float *y = (const float *)tile->y + nf_panel_at(tile->steps, block * NF_LANES, 0);
    const float *out_above = tile->out_above, *sure_upto = tile->sure_upto;
    const float *x[DIFFERENCE_QUERIES];
    float32x4_t  sum[DIFFERENCE_QUERIES][PARTS], at[PARTS];
    uint32_t     step = 0;

#pragma GCC unroll 4
    for (int i = 0; i < queries; i++) {
        x[i] = (const float *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        for (int j = 0; j < PARTS; j++) sum[i][j] = vdupq_n_f32(0.0f);
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            load_block(y + step * NF_LANES, at);
#pragma GCC unroll 4
            for (int i = 0; i < queries; i++) {
                const float32x4_t value = vld1q_dup_f32(x[i] + step * NF_LANES);
#pragma GCC unroll 4
                for (int j = 0; j < PARTS; j++) {
                    const float32x4_t difference = vsubq_f32(value, at[j]);
                    sum[i][j] = vfmaq_f32(sum[i][j], difference, difference);
                    NF_PIN(sum[i][j]);
                }
            }
        }
        /* GT is false for a sum that is not a number: such a pair stays. */
        uint32x4_t all = vdupq_n_u32(UINT32_MAX);
#pragma GCC unroll 4
        for (int i = 0; i < queries; i++) {
            const float32x4_t above = vld1q_dup_f32(out_above + query[i]);
#pragma GCC unroll 4
            for (int j = 0; j < PARTS; j++) all = vandq_u32(all, vcgtq_f32(sum[i][j], above));
        }
        if (vminvq_u32(all) != 0) return;
    }
#pragma GCC unroll 4
    for (int i = 0; i < queries; i++) {
        const float32x4_t above = vld1q_dup_f32(out_above + query[i]), upto = vld1q_dup_f32(sure_upto + query[i]);
        uint32x4_t        out[PARTS], in[PARTS];
#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++) {
            out[j] = vcgtq_f32(sum[i][j], above);
            in[j] = vcleq_f32(sum[i][j], upto);
        }
        nf_put_masks(tile, query[i], block, ~nf_mask_of(out), nf_mask_of(in));
    }
}

void nf_k_refine_f32_difference_neon(const nf_tile *tile)
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
