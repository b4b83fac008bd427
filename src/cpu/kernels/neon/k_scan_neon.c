/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan of short codes with NEON, as k_scan_avx2.c describes it: tables of 16 sums in a register, TBL looks up 16
 * slots. The results of 4 rows are added as bytes before they are widened to 16 bits. Several queries share the loads
 * and the split into nibbles.
 */
#include "cpu/kernels/neon/k_ivf_neon.h"

#define ROWS_AT_ONCE 4 /* 8 entries of at most 31 fit into a byte */

typedef struct sums {
    uint16x8_t slots[NF_SCAN_QUERIES][4]; /* 8 slots each */
} sums;

NF_INLINE void add_rows(const uint8_t *block, uint32_t first, const int rows, const nf_scan_query *queries, const int n,
                        sums *all)
{
    const uint8x16_t nibble = vdupq_n_u8(15);
    uint8x16_t       sum[NF_SCAN_QUERIES][2];
#pragma GCC unroll 4
    for (int q = 0; q < n; q++) sum[q][0] = sum[q][1] = vdupq_n_u8(0);
#pragma GCC unroll 4
    for (int row = 0; row < rows; row++) {
        const size_t at = ((size_t)first + (size_t)row) * 32;
        uint8x16_t   low[2], high[2];
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            const uint8x16_t codes = vld1q_u8(block + at + 16 * h);
            low[h] = vandq_u8(codes, nibble);
            high[h] = vshrq_n_u8(codes, 4);
        }
#pragma GCC unroll 4
        for (int q = 0; q < n; q++) {
            const uint8x16_t a = vld1q_u8(queries[q].lut + at), b = vld1q_u8(queries[q].lut + at + 16);
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                sum[q][h] = vaddq_u8(sum[q][h], vaddq_u8(vqtbl1q_u8(a, low[h]), vqtbl1q_u8(b, high[h])));
                NF_PIN(sum[q][h]);
            }
        }
    }
#pragma GCC unroll 4
    for (int q = 0; q < n; q++) {
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            all->slots[q][2 * h] = vaddw_u8(all->slots[q][2 * h], vget_low_u8(sum[q][h]));
            all->slots[q][2 * h + 1] = vaddw_high_u8(all->slots[q][2 * h + 1], sum[q][h]);
        }
    }
}

/* Factors of 16 slots. */
typedef struct sixteen {
    float32x4_t add[4], rescale[4], error[4];
} sixteen;

NF_INLINE void load_sixteen(nf_ivf_factors factors, uint32_t slot, sixteen *out)
{
#pragma GCC unroll 4
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t   at = slot + 4 * j;
        const uint16x4_t half = vreinterpret_u16_u8(vld1_u8(factors.error + 2 * at));
        out->add[j] = vreinterpretq_f32_u8(vld1q_u8(factors.add + 4 * at));
        out->rescale[j] = vreinterpretq_f32_u8(vld1q_u8(factors.rescale + 4 * at));
        out->error[j] = vreinterpretq_f32_u32(vshll_n_u16(half, 16));
    }
}

/* Which of 16 slots survive, from their sums. */
NF_INLINE uint32_t test_sixteen(const uint16x8_t sums16[2], const sixteen *factors, const nf_scan_query *query)
{
    const float32x4_t step = vdupq_n_f32(query->step), base = vdupq_n_f32(query->base),
                      limit = vdupq_n_f32(query->limit);
    const float32x4_t width = vdupq_n_f32(query->width);
    uint32x4_t        lanes[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const uint16x4_t  four = j % 2 == 0 ? vget_low_u16(sums16[j / 2]) : vget_high_u16(sums16[j / 2]);
        const float32x4_t product = vfmaq_f32(base, vcvtq_f32_u32(vmovl_u16(four)), step);
        const float32x4_t estimate = vfmaq_f32(factors->add[j], factors->rescale[j], product);
        lanes[j] = vcgeq_f32(vfmsq_f32(estimate, factors->error[j], width), limit);
    }
    return ~nf_mask_of(lanes) & 0xffffu;
}

NF_INLINE void scan(const uint8_t *blocks, uint64_t block_count, uint32_t padded, const nf_scan_query *queries,
                    const int n, uint32_t *survivors, size_t stride)
{
    const size_t   block_bytes = nf_ivf_block_bytes(padded);
    const uint32_t rows = padded / 8;
    for (uint64_t b = 0; b < block_count; b++) {
        const uint8_t *block = blocks + b * block_bytes;
        sums           all;
        uint32_t       row = 0;
#pragma GCC unroll 4
        for (int q = 0; q < n; q++) {
            for (int h = 0; h < 4; h++) all.slots[q][h] = vdupq_n_u16(0);
        }
        for (; row + ROWS_AT_ONCE <= rows; row += ROWS_AT_ONCE) add_rows(block, row, ROWS_AT_ONCE, queries, n, &all);
        for (; row < rows; row++) add_rows(block, row, 1, queries, n, &all);

        const nf_ivf_factors factors = nf_ivf_block_factors(block, padded);
        sixteen              first, second;
        load_sixteen(factors, 0, &first);
        load_sixteen(factors, 16, &second);
        for (int q = 0; q < n; q++) {
            survivors[(size_t)q * stride + b] = test_sixteen(all.slots[q], &first, &queries[q]) |
                                                test_sixteen(all.slots[q] + 2, &second, &queries[q]) << 16;
        }
    }
}

void nf_k_scan_neon(const uint8_t *blocks, uint64_t block_count, uint32_t padded, const nf_scan_query *queries,
                    uint32_t query_count, uint32_t *survivors, size_t stride)
{
    switch (query_count) {
    case 1: scan(blocks, block_count, padded, queries, 1, survivors, stride); break;
    case 2: scan(blocks, block_count, padded, queries, 2, survivors, stride); break;
    case 3: scan(blocks, block_count, padded, queries, 3, survivors, stride); break;
    default: scan(blocks, block_count, padded, queries, 4, survivors, stride); break;
    }
}
