/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement of bytes with the dot product extension of ARMv8.2, exactly: UDOT multiplies the 4 bytes of each of 4
 * points with those of the query, and adds the products to lanes of 32 bits: 16 products an instruction. A register
 * block is 6 queries x 16 points. Compiled with a flag of its own, and called only where the processor has the
 * extension.
 */
#include "cpu/kernels/neon/k_u8_neon.h"

#define QUERIES 6
#define FEW_QUERIES 2

/* As nf_lane_f32 and NF_FMLA_LANE. */
NF_INLINE uint8x16_t lane_bytes(const uint32_t *at)
{
    uint8x16_t v;
    __asm__("ldr %s0, %1" : "=w"(v) : "m"(*at));
    return v;
}

#define UDOT_LANE(sum, y, x) __asm__("udot %0.4s, %1.16b, %2.4b[0]" : "+w"(sum) : "w"(y), "w"(x))

NF_INLINE void u8_block(const nf_tile *tile, const uint8_t *query, uint32_t block, const int queries)
{
    const uint8_t  *y = (const uint8_t *)tile->y + nf_panel_at(tile->steps, block * NF_LANES, 0) * NF_U8_STEP;
    const uint32_t *x[QUERIES];
    uint32x4_t      product[QUERIES][NF_U8_PARTS];
    int32x4_t       value[QUERIES][NF_U8_PARTS];
    uint32_t        step = 0;

#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) {
        x[i] = (const uint32_t *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        for (int j = 0; j < NF_U8_PARTS; j++) {
            product[i][j] = vdupq_n_u32(0);
            value[i][j] = vdupq_n_s32(0);
        }
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            uint8x16_t points[NF_U8_PARTS];
#pragma GCC unroll 4
            for (uint32_t j = 0; j < NF_U8_PARTS; j++) points[j] = vld1q_u8(y + (step * NF_LANES + 4 * j) * NF_U8_STEP);
#pragma GCC unroll 6
            for (int i = 0; i < queries; i++) {
                const uint8x16_t four = lane_bytes(x[i] + step * NF_LANES);
#pragma GCC unroll 4
                for (int j = 0; j < NF_U8_PARTS; j++) UDOT_LANE(product[i][j], points[j], four);
            }
        }
        const int32_t *y_sums = tile->y_sum + stop * NF_TILE + block * NF_LANES;
        int32x4_t      all = vdupq_n_s32(-1);
#pragma GCC unroll 6
        for (int i = 0; i < queries; i++) {
            nf_u8_values(product[i], tile->x_sum[stop * NF_TILE + query[i]], y_sums, value[i]);
            all = vandq_s32(all, nf_u8_all(value[i]));
        }
        if (vmaxvq_s32(all) < 0) return;
    }
#pragma GCC unroll 6
    for (int i = 0; i < queries; i++) nf_u8_put(tile, query[i], block, value[i]);
}

void nf_k_refine_u8_dot_neon(const nf_tile *tile)
{
    nf_clear_masks(tile);
    for (uint32_t block = 0; block < nf_blocks(tile); block++) {
        uint32_t at = 0;
        for (; at + FEW_QUERIES < tile->query_count; at += QUERIES) u8_block(tile, tile->queries + at, block, QUERIES);
        if (at < tile->query_count) u8_block(tile, tile->queries + at, block, FEW_QUERIES);
    }
}
