/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products with AVX2: register blocks of 6 rows x 16 columns, 12 accumulators. A step is 2 loads of the panel, 6
 * broadcasts and 12 fused multiply-adds, which two FMA ports take 6 clocks for. Rows left over go in blocks of 4, 2 and 1.
 */
#include "cpu/kernels/avx2/k_avx2.h"
#include "cpu/kernels/avx2/k_ivf_avx2.h"

#define ROWS 6

static inline __attribute__((always_inline)) void block(const float *x, size_t x_stride, const float *y, uint32_t dims,
                                                        float *out, size_t out_stride, const int rows)
{
    __m256       sum[ROWS][2];
    const float *row[ROWS];

#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        row[i] = x + (size_t)i * x_stride;
        sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    }
    for (uint32_t k = 0; k < dims; k++) {
        const __m256 low = _mm256_loadu_ps(y + (size_t)k * NF_LANES), high = _mm256_loadu_ps(y + (size_t)k * NF_LANES + 8);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const __m256 value = _mm256_broadcast_ss(row[i] + k);
            sum[i][0] = _mm256_fmadd_ps(value, low, sum[i][0]);
            sum[i][1] = _mm256_fmadd_ps(value, high, sum[i][1]);
            NF_PIN(sum[i][0], sum[i][1]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        _mm256_storeu_ps(out + (size_t)i * out_stride, sum[i][0]);
        _mm256_storeu_ps(out + (size_t)i * out_stride + 8, sum[i][1]);
    }
}

/* One row with four blocks of columns: eight accumulators, where one block would leave the FMA ports waiting for sums. */
static void one_row(const float *x, const float *y, uint32_t dims, float *out)
{
    const size_t block_values = (size_t)dims * NF_LANES;
    __m256       sum[4][2];
    for (int b = 0; b < 4; b++) sum[b][0] = sum[b][1] = _mm256_setzero_ps();
    for (uint32_t k = 0; k < dims; k++) {
        const __m256 value = _mm256_broadcast_ss(x + k);
#pragma GCC unroll 4
        for (int b = 0; b < 4; b++) {
            const float *at = y + (size_t)b * block_values + (size_t)k * NF_LANES;
            sum[b][0] = _mm256_fmadd_ps(value, _mm256_loadu_ps(at), sum[b][0]);
            sum[b][1] = _mm256_fmadd_ps(value, _mm256_loadu_ps(at + 8), sum[b][1]);
        }
    }
    for (int b = 0; b < 4; b++) {
        _mm256_storeu_ps(out + b * NF_LANES, sum[b][0]);
        _mm256_storeu_ps(out + b * NF_LANES + 8, sum[b][1]);
    }
}

void nf_k_products_avx2(const float *x, size_t x_stride, uint32_t x_rows, const float *panel, uint32_t y_rows,
                        uint32_t dims, float *out, size_t out_stride)
{
    uint32_t first = 0;
    if (x_rows == 1) {
        for (; first + 4 * NF_LANES <= y_rows; first += 4 * NF_LANES) {
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

uint32_t nf_k_least_avx2(const float *products, const float *offsets, uint32_t count, float *value)
{
    uint32_t j = 0, least = 0;
    float    best = offsets[0] - products[0];

    if (count >= 8) {
        __m256  low = _mm256_sub_ps(_mm256_loadu_ps(offsets), _mm256_loadu_ps(products));
        __m256i at = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), low_at = at;
        for (j = 8; j + 8 <= count; j += 8) {
            const __m256 v = _mm256_sub_ps(_mm256_loadu_ps(offsets + j), _mm256_loadu_ps(products + j));
            const __m256 less = _mm256_cmp_ps(v, low, _CMP_LT_OQ);
            at = _mm256_add_epi32(at, _mm256_set1_epi32(8));
            low = _mm256_blendv_ps(low, v, less);
            low_at = _mm256_blendv_epi8(low_at, at, _mm256_castps_si256(less));
        }
        float    values[8];
        uint32_t places[8];
        _mm256_storeu_ps(values, low);
        _mm256_storeu_si256((__m256i *)places, low_at);
        best = values[0];
        least = places[0];
        for (int i = 1; i < 8; i++) {
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

uint32_t nf_k_nearer_avx2(const float *products, const float *offsets, uint32_t count, float limit, uint32_t *places)
{
    const __m256 most = _mm256_set1_ps(limit);
    uint32_t     found = 0, j = 0;
    for (; j + 8 <= count; j += 8) {
        const __m256 value = _mm256_sub_ps(_mm256_loadu_ps(offsets + j), _mm256_loadu_ps(products + j));
        uint32_t     bits = (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(value, most, _CMP_LT_OQ));
        for (; bits != 0; bits &= bits - 1) places[found++] = j + (uint32_t)__builtin_ctz(bits);
    }
    for (; j < count; j++) {
        if (offsets[j] - products[j] < limit) places[found++] = j;
    }
    return found;
}

void nf_ivf_kernels_override_avx2(nf_ivf_kernels *table)
{
    table->products = nf_k_products_avx2;
    table->least = nf_k_least_avx2;
    table->nearer = nf_k_nearer_avx2;
    table->below = nf_k_below_avx2;
    table->rotate = nf_k_rotate_avx2;
    table->levels = nf_k_levels_avx2;
    table->quantise = nf_k_quantise_avx2;
    table->moments = nf_k_moments_avx2;
    table->scan = nf_k_scan_avx2;
    table->unpack = nf_k_unpack_avx2;
    table->dots = nf_k_dots_avx2;
}
