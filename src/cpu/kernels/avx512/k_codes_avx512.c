/* SPDX-License-Identifier: Apache-2.0 */
/* Products of whole codes with a query with AVX-512 VNNI: 32 multiply-adds of 16-bit values in an instruction. A last half
 * register is loaded under a mask. */
#include <immintrin.h>
#include <string.h>

#include "cpu/kernels/avx512/k_ivf_avx512.h"

static void four(const uint16_t *codes, size_t stride, const uint32_t *at, const int16_t *query, uint32_t count,
                 int32_t *dots)
{
    const uint16_t *row[4];
    __m512i         sum[4];
    uint32_t        k = 0;
    for (int i = 0; i < 4; i++) {
        row[i] = codes + at[i] * stride;
        sum[i] = _mm512_setzero_si512();
    }
    for (; k + 32 <= count; k += 32) {
        const __m512i q = _mm512_loadu_si512(query + k);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) sum[i] = _mm512_dpwssd_epi32(sum[i], _mm512_loadu_si512(row[i] + k), q);
    }
    if (k < count) {
        const __m512i q = _mm512_maskz_loadu_epi16(0xffff, query + k);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            sum[i] = _mm512_dpwssd_epi32(sum[i], _mm512_maskz_loadu_epi16(0xffff, row[i] + k), q);
        }
    }
    __m256i half[4];
    for (int i = 0; i < 4; i++) {
        half[i] = _mm256_add_epi32(_mm512_castsi512_si256(sum[i]), _mm512_extracti64x4_epi64(sum[i], 1));
    }
    const __m256i pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(half[0], half[1]), _mm256_hadd_epi32(half[2], half[3]));
    _mm_storeu_si128((__m128i *)dots,
                     _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
}

void nf_k_dots_avx512(const uint16_t *codes, size_t stride, const uint32_t *at, uint32_t at_count, const int16_t *query,
                      uint32_t count, int32_t *dots)
{
    uint32_t i = 0;
    for (; i + 4 <= at_count; i += 4) four(codes, stride, at + i, query, count, dots + i);
    if (i < at_count) { /* repeat the last */
        uint32_t rest[4];
        int32_t  values[4];
        for (uint32_t j = 0; j < 4; j++) rest[j] = at[i + j < at_count ? i + j : at_count - 1];
        four(codes, stride, rest, query, count, values);
        memcpy(dots + i, values, (at_count - i) * sizeof *dots);
    }
}
