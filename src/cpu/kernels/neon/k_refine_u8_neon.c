/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement of bytes with NEON, exactly, for processors without the dot product extension. A step is 4 dims of 16
 * points, 4 points to a register. UMULL multiplies the bytes of 2 points with those of the query, UADALP adds the
 * products in pairs to lanes of 32 bits: 8 products in 2 instructions, which many cores run on different ports. (UMLAL
 * of 16-bit lanes is 4 products in one, all on one port.) A point's sum is in two lanes until a stop. A register block
 * is 2 queries x 16 points.
 */
#include <string.h>

#include "cpu/kernels/neon/k_u8_neon.h"

#define QUERIES 2
#define HALVES (2 * NF_U8_PARTS)

NF_INLINE uint8x16_t query_bytes(const uint32_t *at)
{
    return vreinterpretq_u8_u32(vld1q_dup_u32(at));
}

static void u8_block(const nf_tile *tile, const uint8_t *query, uint32_t block)
{
    const uint8_t  *y = (const uint8_t *)tile->y + nf_panel_at(tile->steps, block * NF_LANES, 0) * NF_U8_STEP;
    const uint32_t *x[QUERIES];
    uint32x4_t      half[QUERIES][HALVES];
    int32x4_t       value[QUERIES][NF_U8_PARTS];
    uint32_t        step = 0;

    memset(value, 0, sizeof value);
#pragma GCC unroll 2
    for (int i = 0; i < QUERIES; i++) {
        x[i] = (const uint32_t *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        for (int j = 0; j < HALVES; j++) half[i][j] = vdupq_n_u32(0);
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            uint8x16_t points[NF_U8_PARTS];
#pragma GCC unroll 4
            for (uint32_t j = 0; j < NF_U8_PARTS; j++) points[j] = vld1q_u8(y + (step * NF_LANES + 4 * j) * NF_U8_STEP);
#pragma GCC unroll 2
            for (int i = 0; i < QUERIES; i++) {
                const uint8x16_t four = query_bytes(x[i] + step * NF_LANES);
#pragma GCC unroll 4
                for (int j = 0; j < NF_U8_PARTS; j++) {
                    const uint16x8_t low = vmull_u8(vget_low_u8(points[j]), vget_low_u8(four));
                    const uint16x8_t high = vmull_high_u8(points[j], four);
                    half[i][2 * j] = vpadalq_u16(half[i][2 * j], low);
                    half[i][2 * j + 1] = vpadalq_u16(half[i][2 * j + 1], high);
                    NF_PIN(half[i][2 * j]);
                    NF_PIN(half[i][2 * j + 1]);
                }
            }
        }
        const int32_t *y_sums = tile->y_sum + stop * NF_TILE + block * NF_LANES;
        int32x4_t      all = vdupq_n_s32(-1);
#pragma GCC unroll 2
        for (int i = 0; i < QUERIES; i++) {
            uint32x4_t product[NF_U8_PARTS];
            for (int j = 0; j < NF_U8_PARTS; j++) product[j] = vpaddq_u32(half[i][2 * j], half[i][2 * j + 1]);
            nf_u8_values(product, tile->x_sum[stop * NF_TILE + query[i]], y_sums, value[i]);
            all = vandq_s32(all, nf_u8_all(value[i]));
        }
        if (vmaxvq_s32(all) < 0) return;
    }
#pragma GCC unroll 2
    for (int i = 0; i < QUERIES; i++) nf_u8_put(tile, query[i], block, value[i]);
}

void nf_k_refine_u8_neon(const nf_tile *tile)
{
    nf_clear_masks(tile);
    for (uint32_t block = 0; block < nf_blocks(tile); block++) {
        for (uint32_t at = 0; at < tile->query_count; at += QUERIES) u8_block(tile, tile->queries + at, block);
    }
}
