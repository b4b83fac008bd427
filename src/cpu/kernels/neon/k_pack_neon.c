/* SPDX-License-Identifier: Apache-2.0 */
/* Packing with NEON: 4 rows x 4 values of 32 bits at a time through a register transpose; the rest one value at a time.
 */
#include <string.h>

#include "cpu/kernels/neon/k_neon.h"
#include "cpu/kernels/scalar/k_scalar.h"
#include "matrix/matrix_convert.h"

/* v[i] lane j becomes v[j] lane i. */
NF_INLINE void transpose_4x4(uint32x4_t v[4])
{
    const uint32x4_t a = vtrn1q_u32(v[0], v[1]), b = vtrn2q_u32(v[0], v[1]);
    const uint32x4_t c = vtrn1q_u32(v[2], v[3]), d = vtrn2q_u32(v[2], v[3]);
    v[0] = vreinterpretq_u32_u64(vtrn1q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(c)));
    v[1] = vreinterpretq_u32_u64(vtrn1q_u64(vreinterpretq_u64_u32(b), vreinterpretq_u64_u32(d)));
    v[2] = vreinterpretq_u32_u64(vtrn2q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(c)));
    v[3] = vreinterpretq_u32_u64(vtrn2q_u64(vreinterpretq_u64_u32(b), vreinterpretq_u64_u32(d)));
}

static inline uint32_t place_of(const nf_rows *rows, uint32_t column)
{
    return rows->dim_place != NULL ? rows->dim_place[column] : column;
}

/* Four consecutive columns of a row as binary32. */
static inline float32x4_t load_four(const nf_rows *rows, uint32_t row, uint32_t column)
{
    const char *at = (const char *)rows->base + row * rows->row_bytes;
    if (rows->store == NF_STORE_F32) return vld1q_f32((const float *)(const void *)at + column);
    if (rows->store == NF_STORE_F16) {
        return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)(const void *)at + column)));
    }
    const float32x4_t whole = vcvtq_f32_s32(vmovl_s16(vld1_s16((const int16_t *)(const void *)at + column)));
    return vaddq_f32(whole, vdupq_n_f32((float)rows->bias));
}

static inline float load_one(const nf_rows *rows, uint32_t row, uint32_t column)
{
    const char *at = (const char *)rows->base + row * rows->row_bytes;
    if (rows->store == NF_STORE_F32) return ((const float *)(const void *)at)[column];
    if (rows->store == NF_STORE_F16) return nf_f16_to_f32(((const uint16_t *)(const void *)at)[column]);
    return (float)((const int16_t *)(const void *)at)[column] + (float)rows->bias;
}

static void pack_four_rows(const nf_rows *rows, float *panel, uint32_t row)
{
    const uint32_t dims = rows->dims;
    uint32_t       column = 0;
    for (; column + 4 <= dims; column += 4) {
        uint32x4_t v[4];
        for (uint32_t i = 0; i < 4; i++) v[i] = vreinterpretq_u32_f32(load_four(rows, row + i, column));
        transpose_4x4(v);
        for (uint32_t i = 0; i < 4; i++) {
            vst1q_f32(panel + nf_panel_at(dims, row, place_of(rows, column + i)), vreinterpretq_f32_u32(v[i]));
        }
    }
    for (; column < dims; column++) {
        float *to = panel + nf_panel_at(dims, row, place_of(rows, column));
        for (uint32_t i = 0; i < 4; i++) to[i] = load_one(rows, row + i, column);
    }
}

static void squares_f32(const float *panel, uint32_t steps, const uint32_t *stops, uint32_t stop_count, float *squares)
{
    for (uint32_t row = 0; row < NF_TILE; row += NF_LANES) {
        const float *from = panel + nf_panel_at(steps, row, 0);
        float32x4_t  sum[4] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f), vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
        uint32_t     step = 0;
        for (uint32_t stop = 0; stop < stop_count; stop++) {
            for (; step < stops[stop]; step++) {
#pragma GCC unroll 4
                for (uint32_t j = 0; j < 4; j++) {
                    const float32x4_t value = vld1q_f32(from + step * NF_LANES + 4 * j);
                    sum[j] = vfmaq_f32(sum[j], value, value);
                }
            }
            for (uint32_t j = 0; j < 4; j++) vst1q_f32(squares + stop * NF_TILE + row + 4 * j, sum[j]);
        }
    }
}

void nf_k_pack_f32_neon(const nf_rows *rows, float *panel, const uint32_t *stops, uint32_t stop_count, float *squares)
{
    if (rows->store == NF_STORE_U8 || rows->store == NF_STORE_F64) {
        nf_k_pack_f32_scalar(rows, panel, stops, stop_count, squares);
        return;
    }
    uint32_t row = 0;
    if (rows->count < NF_TILE) memset(panel, 0, (size_t)NF_TILE * rows->dims * sizeof *panel);
    for (; row + 4 <= rows->count; row += 4) pack_four_rows(rows, panel, row);
    for (; row < rows->count; row++) {
        for (uint32_t column = 0; column < rows->dims; column++) {
            panel[nf_panel_at(rows->dims, row, place_of(rows, column))] = load_one(rows, row, column);
        }
    }
    squares_f32(panel, rows->dims, stops, stop_count, squares);
}

/* One row of bytes, from a column on. */
static void pack_row_u8(const nf_rows *rows, uint8_t *panel, uint32_t steps, uint32_t row, uint32_t column)
{
    const uint8_t *from = (const uint8_t *)rows->base + row * rows->row_bytes;
    for (; column < rows->dims; column++) {
        const uint32_t place = place_of(rows, column);
        panel[nf_panel_at(steps, row, place / NF_U8_STEP) * NF_U8_STEP + place % NF_U8_STEP] = from[column];
    }
}

static void pack_four_rows_u8(const nf_rows *rows, uint8_t *panel, uint32_t steps, uint32_t row)
{
    const uint8_t *from = (const uint8_t *)rows->base + row * rows->row_bytes;
    uint32_t       column = 0;
    for (; column + 16 <= rows->dims; column += 16) {
        uint32x4_t v[4];
        for (uint32_t i = 0; i < 4; i++) v[i] = vreinterpretq_u32_u8(vld1q_u8(from + i * rows->row_bytes + column));
        transpose_4x4(v);
        for (uint32_t i = 0; i < 4; i++) {
            uint8_t *to = panel + nf_panel_at(steps, row, column / NF_U8_STEP + i) * NF_U8_STEP;
            vst1q_u8(to, vreinterpretq_u8_u32(v[i]));
        }
    }
    for (uint32_t i = 0; i < 4; i++) pack_row_u8(rows, panel, steps, row + i, column);
}

/* Sums of squares of 4 points at a time, as the kernel without UDOT forms products. */
static void sums_u8(const uint8_t *panel, uint32_t steps, const uint32_t *stops, uint32_t stop_count, int32_t *sums)
{
    for (uint32_t row = 0; row < NF_TILE; row += 4) {
        const uint8_t *from = panel + nf_panel_at(steps, row, 0) * NF_U8_STEP;
        uint32x4_t     low = vdupq_n_u32(0), high = low;
        uint32_t       step = 0;
        for (uint32_t stop = 0; stop < stop_count; stop++) {
            for (; step < stops[stop]; step++) {
                const uint8x16_t bytes = vld1q_u8(from + step * NF_LANES * NF_U8_STEP);
                low = vpadalq_u16(low, vmull_u8(vget_low_u8(bytes), vget_low_u8(bytes)));
                high = vpadalq_u16(high, vmull_high_u8(bytes, bytes));
            }
            vst1q_s32(sums + stop * NF_TILE + row, vreinterpretq_s32_u32(vpaddq_u32(low, high)));
        }
    }
}

void nf_k_pack_u8_neon(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums)
{
    const uint32_t steps = (rows->dims + NF_U8_STEP - 1) / NF_U8_STEP;
    uint32_t       row = 0;
    if (rows->count < NF_TILE || rows->dims % NF_U8_STEP != 0) memset(panel, 0, (size_t)NF_TILE * steps * NF_U8_STEP);
    if (rows->dim_place == NULL) {
        for (; row + 4 <= rows->count; row += 4) pack_four_rows_u8(rows, panel, steps, row);
    }
    for (; row < rows->count; row++) pack_row_u8(rows, panel, steps, row, 0);
    sums_u8(panel, steps, stops, stop_count, sums);
}
