/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products with AVX-512: register blocks of 12 rows x 32 columns, 24 accumulators; a step is 2 loads of the panel, 12
 * broadcasts folded into 24 fused multiply-adds. A last odd block of 16 columns goes alone; rows left over in blocks of 4 and 1.
 */
#include "cpu/kernels/avx512/k_avx512.h"
#include "cpu/kernels/avx512/k_ivf_avx512.h"

#define ROWS 12

static inline __attribute__((always_inline)) void block(const float *x, size_t x_stride, const float *y, uint32_t dims,
                                                        float *out, size_t out_stride, const int rows, const int blocks)
{
    const size_t next = (size_t)dims * NF_LANES;
    __m512       sum[ROWS][2];
    const float *row[ROWS];

#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        row[i] = x + (size_t)i * x_stride;
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    }
    for (uint32_t k = 0; k < dims; k++) {
        const __m512 low = _mm512_loadu_ps(y + (size_t)k * NF_LANES);
        const __m512 high = blocks == 2 ? _mm512_loadu_ps(y + next + (size_t)k * NF_LANES) : low;
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            const __m512 value = _mm512_set1_ps(row[i][k]);
            sum[i][0] = _mm512_fmadd_ps(value, low, sum[i][0]);
            if (blocks == 2) sum[i][1] = _mm512_fmadd_ps(value, high, sum[i][1]);
            NF_PIN512(sum[i][0]);
            if (blocks == 2) NF_PIN512(sum[i][1]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        _mm512_storeu_ps(out + (size_t)i * out_stride, sum[i][0]);
        if (blocks == 2) _mm512_storeu_ps(out + (size_t)i * out_stride + NF_LANES, sum[i][1]);
    }
}

static inline __attribute__((always_inline)) void columns(const float *x, size_t x_stride, uint32_t x_rows, const float *y,
                                                          uint32_t dims, float *out, size_t out_stride, const int blocks)
{
    uint32_t i = 0;
    for (; i + ROWS <= x_rows; i += ROWS) {
        block(x + i * x_stride, x_stride, y, dims, out + i * out_stride, out_stride, ROWS, blocks);
    }
    for (; i + 4 <= x_rows; i += 4) {
        block(x + i * x_stride, x_stride, y, dims, out + i * out_stride, out_stride, 4, blocks);
    }
    for (; i < x_rows; i++) block(x + i * x_stride, x_stride, y, dims, out + i * out_stride, out_stride, 1, blocks);
}

/* One row with eight blocks of columns: eight sums under way, where two would leave the FMA ports waiting. */
static void one_row(const float *x, const float *y, uint32_t dims, float *out)
{
    const size_t next = (size_t)dims * NF_LANES;
    __m512       sum[8];
    for (int b = 0; b < 8; b++) sum[b] = _mm512_setzero_ps();
    for (uint32_t k = 0; k < dims; k++) {
        const __m512 value = _mm512_set1_ps(x[k]);
#pragma GCC unroll 8
        for (int b = 0; b < 8; b++) {
            sum[b] = _mm512_fmadd_ps(value, _mm512_loadu_ps(y + (size_t)b * next + (size_t)k * NF_LANES), sum[b]);
        }
    }
    for (int b = 0; b < 8; b++) _mm512_storeu_ps(out + b * NF_LANES, sum[b]);
}

void nf_k_products_avx512(const float *x, size_t x_stride, uint32_t x_rows, const float *panel, uint32_t y_rows,
                          uint32_t dims, float *out, size_t out_stride)
{
    uint32_t first = 0;
    if (x_rows == 1) {
        for (; first + 8 * NF_LANES <= y_rows; first += 8 * NF_LANES) {
            one_row(x, panel + nf_panel_at(dims, first, 0), dims, out + first);
        }
    }
    for (; first + 2 * NF_LANES <= y_rows; first += 2 * NF_LANES) {
        columns(x, x_stride, x_rows, panel + nf_panel_at(dims, first, 0), dims, out + first, out_stride, 2);
    }
    if (first < y_rows) columns(x, x_stride, x_rows, panel + nf_panel_at(dims, first, 0), dims, out + first, out_stride, 1);
}
