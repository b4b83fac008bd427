/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole codes with NEON: unpacking and products with a query.
 *
 * Ex codes are a bit stream, so 8 dims are ex_bits bytes. TBL brings the two bytes that hold a dim's bits into its 16-bit
 * lane, a shift by lane and a mask cut them out. A lane tests its bit of the signs. Products multiply 16-bit codes with
 * 16-bit query values and add them in 32 bits; four rows at a time share the loads of the query.
 */
#include "cpu/kernels/neon/k_ivf_neon.h"

/* How 8 dims of e bits are cut out of 8 bytes: the byte where a dim begins and the next one (where there is none, the bits
 * end with the first), and how far down the bits go. */
#define BEGIN(e, i) ((i) * (e) / 8)
#define PAIR(e, i) BEGIN(e, i), (BEGIN(e, i) < 7 ? BEGIN(e, i) + 1 : BEGIN(e, i))
#define SHIFT(e, i) (-((i) * (e) % 8))
#define EIGHT(X, e) X(e, 0), X(e, 1), X(e, 2), X(e, 3), X(e, 4), X(e, 5), X(e, 6), X(e, 7)
#define CUT(e) {{EIGHT(PAIR, e)}, {EIGHT(SHIFT, e)}}

typedef struct cut {
    uint8_t bytes[16];
    int16_t shifts[8];
} cut;

static const cut cuts[9] = {CUT(0), CUT(1), CUT(2), CUT(3), CUT(4), CUT(5), CUT(6), CUT(7), CUT(8)};

void nf_k_unpack_neon(const uint8_t *signs, const uint8_t *codes, uint32_t ex_bits, uint32_t padded, uint16_t *out)
{
    const uint16x8_t bit = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint16x8_t value = vdupq_n_u16((uint16_t)(1u << ex_bits)), most = vdupq_n_u16((uint16_t)((1u << ex_bits) - 1u));
    const uint8x16_t bytes = vld1q_u8(cuts[ex_bits].bytes);
    const int16x8_t  shifts = vld1q_s16(cuts[ex_bits].shifts);
    const uint32_t   rows = padded / 8;

    for (uint32_t row = 0; row < rows; row++) {
        uint16x8_t u = vandq_u16(vtstq_u16(vdupq_n_u16(signs[row]), bit), value);
        if (ex_bits > 0) {
            const uint8x8_t  stream = vld1_u8(codes + (size_t)row * ex_bits);
            const uint16x8_t pairs = vreinterpretq_u16_u8(vqtbl1q_u8(vcombine_u8(stream, stream), bytes));
            u = vorrq_u16(u, vandq_u16(vshlq_u16(pairs, shifts), most));
        }
        vst1q_u16(out + (size_t)row * 8, u);
    }
    if (rows % 2 != 0) vst1q_u16(out + (size_t)rows * 8, vdupq_n_u16(0));
}

NF_INLINE void some_rows(const uint16_t *codes, size_t stride, const uint32_t *at, const int16_t *query, uint32_t count,
                         int32_t *dots, const int rows)
{
    const int16_t *row[4];
    int32x4_t      low[4], high[4];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        row[i] = (const int16_t *)(codes + at[i] * stride);
        low[i] = high[i] = vdupq_n_s32(0);
    }
    for (uint32_t k = 0; k < count; k += 8) {
        const int16x8_t q = vld1q_s16(query + k);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            const int16x8_t code = vld1q_s16(row[i] + k);
            low[i] = vmlal_s16(low[i], vget_low_s16(code), vget_low_s16(q));
            high[i] = vmlal_high_s16(high[i], code, q);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) { /* modulo 2^32: without signs, as gcc takes vaddq_s32 for one that does not overflow */
        const uint32x4_t sum = vaddq_u32(vreinterpretq_u32_s32(low[i]), vreinterpretq_u32_s32(high[i]));
        dots[i] = (int32_t)vaddvq_u32(sum);
    }
}

void nf_k_dots_neon(const uint16_t *codes, size_t stride, const uint32_t *at, uint32_t at_count, const int16_t *query,
                    uint32_t count, int32_t *dots)
{
    uint32_t i = 0;
    for (; i + 4 <= at_count; i += 4) some_rows(codes, stride, at + i, query, count, dots + i, 4);
    for (; i < at_count; i++) some_rows(codes, stride, at + i, query, count, dots + i, 1);
}
