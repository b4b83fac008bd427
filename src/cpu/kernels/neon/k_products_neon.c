/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products with NEON: register blocks of 6 rows x 16 columns, 24 accumulators. A step is 4 loads of the panel, 6
 * of rows, and 24 fused multiply-adds that take the row's value from a lane. Rows left over go in blocks of 4, 2 and 1.
 */
#include "cpu/kernels/neon/k_ivf_neon.h"

#define ROWS 6
#define PARTS 4

NF_INLINE void block(const float *x, size_t x_stride, const float *y, uint32_t dims, float *out, size_t out_stride,
                     const int rows)
{
    float32x4_t  sum[ROWS][PARTS], at[PARTS];
    const float *row[ROWS];

#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        row[i] = x + (size_t)i * x_stride;
        for (int j = 0; j < PARTS; j++) sum[i][j] = vdupq_n_f32(0.0f);
    }
    for (uint32_t k = 0; k < dims; k++) {
#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++) at[j] = vld1q_f32(y + (size_t)k * NF_LANES + 4 * j);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const float32x4_t value = nf_lane_f32(row[i] + k);
#pragma GCC unroll 4
            for (int j = 0; j < PARTS; j++) NF_FMLA_LANE(sum[i][j], at[j], value);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++) vst1q_f32(out + (size_t)i * out_stride + 4 * j, sum[i][j]);
    }
}

/* One row with two blocks of columns: eight accumulators, where one block would leave the units waiting for sums. */
static void one_row(const float *x, const float *y, uint32_t dims, float *out)
{
    const float *const next = y + (size_t)dims * NF_LANES;
    float32x4_t        sum[2 * PARTS];
    for (int j = 0; j < 2 * PARTS; j++) sum[j] = vdupq_n_f32(0.0f);
    for (uint32_t k = 0; k < dims; k++) {
        const float value = x[k];
#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++) {
            const size_t at = (size_t)k * NF_LANES + 4 * (size_t)j;
            sum[j] = vfmaq_n_f32(sum[j], vld1q_f32(y + at), value);
            sum[PARTS + j] = vfmaq_n_f32(sum[PARTS + j], vld1q_f32(next + at), value);
        }
    }
    for (int j = 0; j < 2 * PARTS; j++) vst1q_f32(out + 4 * j, sum[j]);
}

void nf_k_products_neon(const float *x, size_t x_stride, uint32_t x_rows, const float *panel, uint32_t y_rows,
                        uint32_t dims, float *out, size_t out_stride)
{
    uint32_t first = 0;
    if (x_rows == 1) {
        for (; first + 2 * NF_LANES <= y_rows; first += 2 * NF_LANES) {
            one_row(x, panel + nf_panel_at(dims, first, 0), dims, out + first);
        }
    }
    for (; first < y_rows; first += NF_LANES) {
        const float *y = panel + nf_panel_at(dims, first, 0);
        uint32_t     i = 0;
        for (; i + ROWS <= x_rows; i += ROWS) {
            block(x + i * x_stride, x_stride, y, dims, out + i * out_stride + first, out_stride, ROWS);
        }
        if (i + 4 <= x_rows) {
            block(x + i * x_stride, x_stride, y, dims, out + i * out_stride + first, out_stride, 4);
            i += 4;
        }
        if (i + 2 <= x_rows) {
            block(x + i * x_stride, x_stride, y, dims, out + i * out_stride + first, out_stride, 2);
            i += 2;
        }
        if (i < x_rows) block(x + i * x_stride, x_stride, y, dims, out + i * out_stride + first, out_stride, 1);
    }
}

#define LEAST_LANES 8

uint32_t nf_k_least_neon(const float *products, const float *offsets, uint32_t count, float *value)
{
    uint32_t j = 0, least = 0;
    float    best = offsets[0] - products[0];

    if (count >= LEAST_LANES) {
        float32x4_t low[2];
        uint32x4_t  at[2] = {{0, 1, 2, 3}, {4, 5, 6, 7}}, low_at[2] = {at[0], at[1]};
        for (int i = 0; i < 2; i++) low[i] = vsubq_f32(vld1q_f32(offsets + 4 * i), vld1q_f32(products + 4 * i));
        for (j = LEAST_LANES; j + LEAST_LANES <= count; j += LEAST_LANES) {
#pragma GCC unroll 2
            for (uint32_t i = 0; i < 2; i++) {
                const float32x4_t v = vsubq_f32(vld1q_f32(offsets + j + 4 * i), vld1q_f32(products + j + 4 * i));
                const uint32x4_t  less = vcltq_f32(v, low[i]);
                at[i] = vaddq_u32(at[i], vdupq_n_u32(LEAST_LANES));
                low[i] = vbslq_f32(less, v, low[i]);
                low_at[i] = vbslq_u32(less, at[i], low_at[i]);
            }
        }
        float    values[LEAST_LANES];
        uint32_t places[LEAST_LANES];
        for (int i = 0; i < 2; i++) {
            vst1q_f32(values + 4 * i, low[i]);
            vst1q_u32(places + 4 * i, low_at[i]);
        }
        best = values[0];
        least = places[0];
        for (int i = 1; i < LEAST_LANES; i++) {
            if (values[i] < best || (values[i] == best && places[i] < least)) {
                best = values[i];
                least = places[i];
            }
        }
    }
    for (; j < count; j++) {
        if (offsets[j] - products[j] < best) {
            best = offsets[j] - products[j];
            least = j;
        }
    }
    *value = best;
    return least;
}

uint32_t nf_k_nearer_neon(const float *products, const float *offsets, uint32_t count, float limit, uint32_t *places)
{
    const float32x4_t most = vdupq_n_f32(limit);
    uint32_t          found = 0, j = 0;
    for (; j + NF_LANES <= count; j += NF_LANES) {
        uint32x4_t lanes[4];
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++) {
            lanes[i] = vcltq_f32(vsubq_f32(vld1q_f32(offsets + j + 4 * i), vld1q_f32(products + j + 4 * i)), most);
        }
        uint32_t bits = nf_mask_of(lanes);
        for (; bits != 0; bits &= bits - 1) places[found++] = j + (uint32_t)__builtin_ctz(bits);
    }
    for (; j < count; j++) {
        if (offsets[j] - products[j] < limit) places[found++] = j;
    }
    return found;
}

void nf_ivf_kernels_override_neon(nf_ivf_kernels *table)
{
    table->products = nf_k_products_neon;
    table->least = nf_k_least_neon;
    table->nearer = nf_k_nearer_neon;
    table->below = nf_k_below_neon;
    table->rotate = nf_k_rotate_neon;
    table->levels = nf_k_levels_neon;
    table->quantise = nf_k_quantise_neon;
    table->moments = nf_k_moments_neon;
    table->scan = nf_k_scan_neon;
    table->unpack = nf_k_unpack_neon;
    table->dots = nf_k_dots_neon;
}
