/* SPDX-License-Identifier: Apache-2.0 */
/* Packing with AVX2: 8 rows x 8 columns at a time through a register transpose; what is left over, one value at a time. */
#include <string.h>

#include "cpu/kernels/avx2/k_avx2.h"
#include "cpu/kernels/scalar/k_scalar.h"

/* Eight consecutive columns of a row as binary32. */
static inline __m256 load_eight(const nf_rows *rows, uint32_t row, uint32_t column)
{
    const char *at = (const char *)rows->base + row * rows->row_bytes;
    if (rows->store == NF_STORE_F32) return _mm256_loadu_ps((const float *)(const void *)at + column);
    const __m128i half = _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)(const void *)at + column));
    if (rows->store == NF_STORE_F16) return _mm256_cvtph_ps(half);
    const __m256 whole = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(half));
    return _mm256_add_ps(whole, _mm256_set1_ps((float)rows->bias));
}

static inline float load_one(const nf_rows *rows, uint32_t row, uint32_t column)
{
    const char *at = (const char *)rows->base + row * rows->row_bytes;
    if (rows->store == NF_STORE_F32) return ((const float *)(const void *)at)[column];
    if (rows->store == NF_STORE_F16) return _cvtsh_ss(((const uint16_t *)(const void *)at)[column]);
    return (float)((const int16_t *)(const void *)at)[column] + (float)rows->bias;
}

static inline uint32_t place_of(const nf_rows *rows, uint32_t column)
{
    return rows->dim_place != NULL ? rows->dim_place[column] : column;
}

static void pack_eight_rows(const nf_rows *rows, float *panel, uint32_t row)
{
    const uint32_t dims = rows->dims;
    uint32_t       column = 0;
    for (; column + 8 <= dims; column += 8) {
        __m256i v[8];
        for (uint32_t i = 0; i < 8; i++) v[i] = _mm256_castps_si256(load_eight(rows, row + i, column));
        nf_transpose_8x8(v);
        for (uint32_t i = 0; i < 8; i++) {
            float *to = panel + nf_panel_at(dims, row, place_of(rows, column + i));
            _mm256_storeu_ps(to, _mm256_castsi256_ps(v[i]));
        }
    }
    for (; column < dims; column++) {
        float *to = panel + nf_panel_at(dims, row, place_of(rows, column));
        for (uint32_t i = 0; i < 8; i++) to[i] = load_one(rows, row + i, column);
    }
}

static void squares_f32(const float *panel, uint32_t steps, const uint32_t *stops, uint32_t stop_count, float *squares)
{
    for (uint32_t row = 0; row < NF_TILE; row += 8) {
        const float *from = panel + nf_panel_at(steps, row, 0);
        __m256       sum = _mm256_setzero_ps();
        uint32_t     step = 0;
        for (uint32_t stop = 0; stop < stop_count; stop++) {
            for (; step < stops[stop]; step++) {
                const __m256 value = _mm256_loadu_ps(from + step * NF_LANES);
                sum = _mm256_fmadd_ps(value, value, sum);
            }
            _mm256_storeu_ps(squares + stop * NF_TILE + row, sum);
        }
    }
}

void nf_k_pack_f32_avx2(const nf_rows *rows, float *panel, const uint32_t *stops, uint32_t stop_count, float *squares)
{
    if (rows->store == NF_STORE_U8 || rows->store == NF_STORE_F64) {
        nf_k_pack_f32_scalar(rows, panel, stops, stop_count, squares);
        return;
    }
    uint32_t row = 0;
    if (rows->count < NF_TILE) memset(panel, 0, (size_t)NF_TILE * rows->dims * sizeof *panel);
    for (; row + 8 <= rows->count; row += 8) pack_eight_rows(rows, panel, row);
    for (; row < rows->count; row++) {
        for (uint32_t column = 0; column < rows->dims; column++) {
            panel[nf_panel_at(rows->dims, row, place_of(rows, column))] = load_one(rows, row, column);
        }
    }
    squares_f32(panel, rows->dims, stops, stop_count, squares);
}

/* Eight rows of bytes as steps of two int16. */
static void pack_eight_rows_u8(const nf_rows *rows, int32_t *panel, uint32_t steps, uint32_t row)
{
    const uint8_t *from = (const uint8_t *)rows->base + row * rows->row_bytes;
    uint32_t       column = 0;
    for (; column + 16 <= rows->dims; column += 16) {
        __m256i v[8];
        for (uint32_t i = 0; i < 8; i++) {
            v[i] = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(from + i * rows->row_bytes + column)));
        }
        nf_transpose_8x8(v);
        for (uint32_t i = 0; i < 8; i++) {
            _mm256_storeu_si256((__m256i *)(void *)(panel + nf_panel_at(steps, row, column / 2 + i)), v[i]);
        }
    }
    for (; column < rows->dims; column += 2) {
        int32_t *to = panel + nf_panel_at(steps, row, column / 2);
        for (uint32_t i = 0; i < 8; i++) {
            const uint8_t *pair = from + i * rows->row_bytes + column;
            to[i] = pair[0] | (column + 1 < rows->dims ? pair[1] << 16 : 0);
        }
    }
}

static void sums_u8(const int32_t *panel, uint32_t steps, const uint32_t *stops, uint32_t stop_count, int32_t *sums)
{
    for (uint32_t row = 0; row < NF_TILE; row += 8) {
        const int32_t *from = panel + nf_panel_at(steps, row, 0);
        __m256i        sum = _mm256_setzero_si256();
        uint32_t       step = 0;
        for (uint32_t stop = 0; stop < stop_count; stop++) {
            for (; step < stops[stop]; step++) {
                const __m256i pair = _mm256_loadu_si256((const __m256i *)(const void *)(from + step * NF_LANES));
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pair, pair));
            }
            _mm256_storeu_si256((__m256i *)(void *)(sums + stop * NF_TILE + row), sum);
        }
    }
}

void nf_k_pack_u8_avx2(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums)
{
    const uint32_t steps = (rows->dims + 1) / 2;
    if (rows->dim_place != NULL || rows->count % 8 != 0) {
        nf_k_pack_u8_scalar(rows, panel, stops, stop_count, sums);
        return;
    }
    if (rows->count < NF_TILE) memset(panel, 0, (size_t)NF_TILE * steps * sizeof(int32_t));
    for (uint32_t row = 0; row < rows->count; row += 8) pack_eight_rows_u8(rows, panel, steps, row);
    sums_u8(panel, steps, stops, stop_count, sums);
}
