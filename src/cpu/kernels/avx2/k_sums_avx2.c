/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivered sums with AVX2. Reals: four neighbours in the four lanes of a register, so that each lane adds its columns in
 * order, as the definition wants. Integers: exact, so one neighbour at a time with its columns across lanes.
 */
#include "cpu/kernels/avx2/k_avx2.h"
#include "cpu/kernels/scalar/k_scalar.h"

#define MOST_U8_DIMS 131072u /* a lane of 32 bits adds at most 2 * 255^2 for 16 dims */

static double sum_u8(const uint8_t *x, const uint8_t *y, uint32_t dims)
{
    __m256i  sum = _mm256_setzero_si256();
    uint32_t k = 0, rest = 0;
    for (; k + 16 <= dims; k += 16) {
        const __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(x + k)));
        const __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(y + k)));
        const __m256i difference = _mm256_sub_epi16(a, b);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(difference, difference));
    }
    for (; k < dims; k++) rest += (uint32_t)((x[k] - y[k]) * (x[k] - y[k]));
    const __m256i wide = _mm256_add_epi64(_mm256_cvtepu32_epi64(_mm256_castsi256_si128(sum)),
                                          _mm256_cvtepu32_epi64(_mm256_extracti128_si256(sum, 1)));
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    return (double)((uint64_t)_mm_cvtsi128_si64(two) + (uint64_t)_mm_extract_epi64(two, 1) + rest);
}

static double sum_i16(const int16_t *x, const int16_t *y, uint32_t dims)
{
    __m256d  sum = _mm256_setzero_pd();
    uint32_t k = 0;
    for (; k + 4 <= dims; k += 4) {
        const __m128i a = _mm_cvtepi16_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x + k)));
        const __m128i b = _mm_cvtepi16_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(y + k)));
        const __m256d difference = _mm256_cvtepi32_pd(_mm_sub_epi32(a, b));
        sum = _mm256_fmadd_pd(difference, difference, sum); /* whole numbers below 2^53: exact */
    }
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(sum), _mm256_extractf128_pd(sum, 1));
    double  total = _mm_cvtsd_f64(two) + _mm_cvtsd_f64(_mm_unpackhi_pd(two, two));
    for (; k < dims; k++) total += (double)(x[k] - y[k]) * (double)(x[k] - y[k]);
    return total;
}

/* Four consecutive columns of a row, and one, as binary64. */
static inline __m256d load_four(nf_store store, const char *row, uint32_t k)
{
    switch (store) {
    case NF_STORE_F16: return _mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(const void *)(row + 2 * k))));
    case NF_STORE_F32: return _mm256_cvtps_pd(_mm_loadu_ps((const float *)(const void *)row + k));
    default: return _mm256_loadu_pd((const double *)(const void *)row + k);
    }
}

static inline double load_one(nf_store store, const char *row, uint32_t k)
{
    switch (store) {
    case NF_STORE_F16: return (double)_cvtsh_ss(((const uint16_t *)(const void *)row)[k]);
    case NF_STORE_F32: return (double)((const float *)(const void *)row)[k];
    default: return ((const double *)(const void *)row)[k];
    }
}

/* The last count (1 to 3) columns of a row; nothing beyond them is read. */
static inline __m256d load_last(nf_store store, const char *row, uint32_t k, uint32_t count)
{
    const __m128i lanes = _mm_cmpgt_epi32(_mm_set1_epi32((int)count), _mm_setr_epi32(0, 1, 2, 3));
    uint16_t      half[4] = {0};
    switch (store) {
    case NF_STORE_F16:
        for (uint32_t i = 0; i < count; i++) half[i] = ((const uint16_t *)(const void *)row)[k + i];
        return load_four(NF_STORE_F16, (const char *)half, 0);
    case NF_STORE_F32: return _mm256_cvtps_pd(_mm_maskload_ps((const float *)(const void *)row + k, lanes));
    default: return _mm256_maskload_pd((const double *)(const void *)row + k, _mm256_cvtepi32_epi64(lanes));
    }
}

/* Turns four rows of four columns into four columns. */
static inline void transpose_4x4(__m256d v[4])
{
    const __m256d even_low = _mm256_unpacklo_pd(v[0], v[1]), odd_low = _mm256_unpackhi_pd(v[0], v[1]);
    const __m256d even_high = _mm256_unpacklo_pd(v[2], v[3]), odd_high = _mm256_unpackhi_pd(v[2], v[3]);
    v[0] = _mm256_permute2f128_pd(even_low, even_high, 0x20);
    v[1] = _mm256_permute2f128_pd(odd_low, odd_high, 0x20);
    v[2] = _mm256_permute2f128_pd(even_low, even_high, 0x31);
    v[3] = _mm256_permute2f128_pd(odd_low, odd_high, 0x31);
}

static inline __m256d add_column(nf_store store, const char *x, uint32_t k, __m256d column, __m256d sum)
{
    const __m256d difference = _mm256_sub_pd(_mm256_set1_pd(load_one(store, x, k)), column);
    return _mm256_fmadd_pd(difference, difference, sum);
}

static inline __attribute__((always_inline)) __m256d sum_four(nf_store store, const char *x, const char *const y[4],
                                                              uint32_t dims)
{
    __m256d  sum = _mm256_setzero_pd(), v[4];
    uint32_t k = 0;
    for (; k + 4 <= dims; k += 4) {
        for (uint32_t i = 0; i < 4; i++) v[i] = load_four(store, y[i], k);
        transpose_4x4(v);
        for (uint32_t i = 0; i < 4; i++) sum = add_column(store, x, k + i, v[i], sum);
    }
    const uint32_t last = dims - k;
    if (last == 0) return sum;
    for (uint32_t i = 0; i < 4; i++) v[i] = load_last(store, y[i], k, last);
    transpose_4x4(v);
    sum = add_column(store, x, k, v[0], sum);
    if (last > 1) sum = add_column(store, x, k + 1, v[1], sum);
    if (last > 2) sum = add_column(store, x, k + 2, v[2], sum);
    return sum;
}

static inline __attribute__((always_inline)) void sums_reals(nf_store store, const char *x, const char *base,
                                                             size_t row_bytes, uint32_t dims, const uint32_t *at,
                                                             uint32_t count, double *sums)
{
    for (uint32_t i = 0; i < count; i += 4) {
        const char *y[4];
        double      four[4];
        for (uint32_t j = 0; j < 4; j++) y[j] = base + at[i + j < count ? i + j : i] * row_bytes;
        const __m256d sum = sum_four(store, x, y, dims);
        if (i + 4 <= count) {
            _mm256_storeu_pd(sums + i, sum);
            continue;
        }
        _mm256_storeu_pd(four, sum);
        for (uint32_t j = 0; i + j < count; j++) sums[i + j] = four[j];
    }
}

void nf_k_sums_avx2(nf_store store, const void *x, const void *base, size_t row_bytes, uint32_t dims, const uint32_t *at,
                    uint32_t count, double *sums)
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
