/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivered sums with NEON. Reals: two neighbours in the two lanes of a register, so that each lane adds its columns in
 * order, as the definition wants; four such registers at a time hide the latency of the additions. Integers: exact, so
 * one neighbour at a time with its columns across lanes.
 */
#include "cpu/kernels/neon/k_neon.h"
#include "cpu/kernels/scalar/k_scalar.h"
#include "matrix/matrix_convert.h"

#define MOST_U8_DIMS 524288u /* a lane of 32 bits adds at most 2 * 255^2 for 16 dims */
#define MOST_PAIRS 4u

static double sum_u8(const uint8_t *x, const uint8_t *y, uint32_t dims)
{
    uint32x4_t low = vdupq_n_u32(0), high = low;
    uint32_t   k = 0;
    uint64_t   rest = 0;
    for (; k + 16 <= dims; k += 16) {
        const uint8x16_t difference = vabdq_u8(vld1q_u8(x + k), vld1q_u8(y + k));
        low = vpadalq_u16(low, vmull_u8(vget_low_u8(difference), vget_low_u8(difference)));
        high = vpadalq_u16(high, vmull_high_u8(difference, difference));
    }
    for (; k < dims; k++) rest += (uint64_t)((x[k] - y[k]) * (x[k] - y[k]));
    return (double)(vaddlvq_u32(low) + vaddlvq_u32(high) + rest);
}

/* Differences take 16 bits without a sign, their squares 32. */
static double sum_i16(const int16_t *x, const int16_t *y, uint32_t dims)
{
    uint64x2_t low = vdupq_n_u64(0), high = low;
    uint32_t   k = 0;
    uint64_t   rest = 0;
    for (; k + 8 <= dims; k += 8) {
        const uint16x8_t difference = vreinterpretq_u16_s16(vabdq_s16(vld1q_s16(x + k), vld1q_s16(y + k)));
        low = vpadalq_u32(low, vmull_u16(vget_low_u16(difference), vget_low_u16(difference)));
        high = vpadalq_u32(high, vmull_high_u16(difference, difference));
    }
    for (; k < dims; k++) {
        const int64_t difference = (int64_t)x[k] - y[k];
        rest += (uint64_t)(difference * difference);
    }
    return (double)(vaddvq_u64(vaddq_u64(low, high)) + rest);
}

/* Four consecutive columns of a row as binary32, of any store of reals but binary64. */
NF_INLINE float32x4_t load_four(nf_store store, const char *row, uint32_t k)
{
    if (store == NF_STORE_F32) return vld1q_f32((const float *)(const void *)row + k);
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)(const void *)row + k)));
}

NF_INLINE double load_one(nf_store store, const char *row, uint32_t k)
{
    switch (store) {
    case NF_STORE_F16: return (double)nf_f16_to_f32(((const uint16_t *)(const void *)row)[k]);
    case NF_STORE_F32: return (double)((const float *)(const void *)row)[k];
    default: return ((const double *)(const void *)row)[k];
    }
}

/* Four consecutive columns of two rows: v[i] holds column k + i of both. */
NF_INLINE void load_columns(nf_store store, const char *a, const char *b, uint32_t k, float64x2_t v[4])
{
    if (store == NF_STORE_F64) {
        const double *from_a = (const double *)(const void *)a + k, *from_b = (const double *)(const void *)b + k;
        for (int i = 0; i < 4; i += 2) {
            const float64x2_t two_a = vld1q_f64(from_a + i), two_b = vld1q_f64(from_b + i);
            v[i] = vtrn1q_f64(two_a, two_b);
            v[i + 1] = vtrn2q_f64(two_a, two_b);
        }
        return;
    }
    const float32x4_t four_a = load_four(store, a, k), four_b = load_four(store, b, k);
    const float32x4_t low = vzip1q_f32(four_a, four_b), high = vzip2q_f32(four_a, four_b);
    v[0] = vcvt_f64_f32(vget_low_f32(low));
    v[1] = vcvt_high_f64_f32(low);
    v[2] = vcvt_f64_f32(vget_low_f32(high));
    v[3] = vcvt_high_f64_f32(high);
}

NF_INLINE float64x2_t add_column(float64x2_t sum, float64x2_t x, float64x2_t column)
{
    const float64x2_t difference = vsubq_f64(x, column);
    return vfmaq_f64(sum, difference, difference);
}

/* Sums of 2 * pairs rows. */
NF_INLINE void sum_pairs(nf_store store, const char *x, const char *const y[2 * MOST_PAIRS], uint32_t dims,
                         double *sums, const uint32_t pairs)
{
    float64x2_t sum[MOST_PAIRS];
    uint32_t    k = 0;
#pragma GCC unroll 4
    for (uint32_t p = 0; p < pairs; p++) sum[p] = vdupq_n_f64(0.0);
    for (; k + 4 <= dims; k += 4) {
        float64x2_t from_x[4];
        load_columns(store, x, x, k, from_x);
#pragma GCC unroll 4
        for (uint32_t p = 0; p < pairs; p++) {
            float64x2_t v[4];
            load_columns(store, y[2 * p], y[2 * p + 1], k, v);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) sum[p] = add_column(sum[p], from_x[i], v[i]);
        }
    }
    for (; k < dims; k++) {
        const float64x2_t from_x = vdupq_n_f64(load_one(store, x, k));
#pragma GCC unroll 4
        for (uint32_t p = 0; p < pairs; p++) {
            const float64x2_t v = {load_one(store, y[2 * p], k), load_one(store, y[2 * p + 1], k)};
            sum[p] = add_column(sum[p], from_x, v);
        }
    }
#pragma GCC unroll 4
    for (uint32_t p = 0; p < pairs; p++) vst1q_f64(sums + 2 * p, sum[p]);
}

NF_INLINE void sums_reals(nf_store store, const char *x, const char *base, size_t row_bytes, uint32_t dims,
                          const uint32_t *at, uint32_t count, double *sums)
{
    const char *y[2 * MOST_PAIRS];
    uint32_t    i = 0;
    for (; i + 2 * MOST_PAIRS <= count; i += 2 * MOST_PAIRS) {
        for (uint32_t j = 0; j < 2 * MOST_PAIRS; j++) y[j] = base + at[i + j] * row_bytes;
        sum_pairs(store, x, y, dims, sums + i, MOST_PAIRS);
    }
    for (; i < count; i += 2) { /* the last row twice where it has no other */
        double two[2];
        y[0] = base + at[i] * row_bytes;
        y[1] = base + at[i + 1 < count ? i + 1 : i] * row_bytes;
        sum_pairs(store, x, y, dims, two, 1);
        sums[i] = two[0];
        if (i + 1 < count) sums[i + 1] = two[1];
    }
}

void nf_k_sums_neon(nf_store store, const void *x, const void *base, size_t row_bytes, uint32_t dims,
                    const uint32_t *at, uint32_t count, double *sums)
{
    const char *rows = base;
    switch (store) {
    case NF_STORE_U8:
        if (dims > MOST_U8_DIMS) {
            nf_k_sums_scalar(store, x, base, row_bytes, dims, at, count, sums);
            return;
        }
        for (uint32_t i = 0; i < count; i++) sums[i] = sum_u8(x, (const uint8_t *)rows + at[i] * row_bytes, dims);
        return;
    case NF_STORE_I16:
        for (uint32_t i = 0; i < count; i++) {
            sums[i] = sum_i16(x, (const int16_t *)(const void *)(rows + at[i] * row_bytes), dims);
        }
        return;
    case NF_STORE_F16: sums_reals(NF_STORE_F16, x, rows, row_bytes, dims, at, count, sums); return;
    case NF_STORE_F32: sums_reals(NF_STORE_F32, x, rows, row_bytes, dims, at, count, sums); return;
    case NF_STORE_F64: sums_reals(NF_STORE_F64, x, rows, row_bytes, dims, at, count, sums); return;
    }
}
