/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole codes with AVX2: unpacking and products with a query.
 *
 * Ex codes are a bit stream, so 8 dims are ex_bits bytes. A byte shuffle brings the two bytes that hold a dim's bits into its
 * 16-bit lane; a product with a power of two and a shift cut them out. A lane tests its bit of
 * the signs. Products multiply 16-bit codes with 16-bit query values and add pairs in 32 bits; four rows at a
 * time share the loads of the query and the final additions.
 */
#include <string.h>

#include "cpu/kernels/avx2/k_ivf_avx2.h"

/* How 16 dims of e bits are cut out of two words of 8 bytes: the byte where a dim begins and the next one (the eighth byte
 * ends with the eighth dim, so it has no next), and the factor that brings the bits to the top of the lane. */
#define BEGIN(e, i) ((i) / 8 * 8 + (i) % 8 * (e) / 8)
#define PAIR(e, i) BEGIN(e, i), (BEGIN(e, i) % 8 < 7 ? BEGIN(e, i) + 1 : BEGIN(e, i))
#define FACTOR(e, i) (uint16_t)((e) == 0 ? 0 : 1 << (16 - (i) % 8 * (e) % 8 - (e)))
#define SIXTEEN(X, e)                                                                                                  \
    X(e, 0), X(e, 1), X(e, 2), X(e, 3), X(e, 4), X(e, 5), X(e, 6), X(e, 7), X(e, 8), X(e, 9), X(e, 10), X(e, 11),      \
        X(e, 12), X(e, 13), X(e, 14), X(e, 15)
#define CUT(e) {{SIXTEEN(PAIR, e)}, {SIXTEEN(FACTOR, e)}}

typedef struct cut {
    uint8_t  bytes[32];
    uint16_t factors[16];
} cut;

static const cut cuts[9] = {CUT(0), CUT(1), CUT(2), CUT(3), CUT(4), CUT(5), CUT(6), CUT(7), CUT(8)};

/* Bits of a 16-bit lane each: 2^ex_bits where set. */
static inline __m256i sign_values(uint16_t signs, __m256i value)
{
    const __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi16((short)signs), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi16(set, bit), value);
}

/* The bytes of 16 dims, or of the last 8: reads 8 bytes at a time, as the contract allows. */
static inline __m128i load_stream(const uint8_t *codes, uint32_t ex_bits)
{
    uint64_t low, high;
    memcpy(&low, codes, sizeof low);
    memcpy(&high, codes + ex_bits, sizeof high);
    const __m128i a = _mm_cvtsi64_si128((long long)low), b = _mm_cvtsi64_si128((long long)high);
    return _mm_unpacklo_epi64(a, b);
}

void nf_k_unpack_avx2(const uint8_t *signs, const uint8_t *codes, uint32_t ex_bits, uint32_t padded, uint16_t *out)
{
    const __m256i  value = _mm256_set1_epi16((short)(1u << ex_bits));
    const uint32_t rows = padded / 8;

    const __m256i bytes = _mm256_loadu_si256((const __m256i *)cuts[ex_bits].bytes);
    const __m256i factors = _mm256_loadu_si256((const __m256i *)cuts[ex_bits].factors);
    const __m128i shift = _mm_cvtsi32_si128((int)(16 - ex_bits));
    for (uint32_t row = 0; row < rows; row += 2) {
        const uint32_t next = row + 1 < rows ? signs[row + 1] : 0;
        __m256i        u = sign_values((uint16_t)(signs[row] | next << 8), value);
        if (ex_bits > 0) {
            const uint8_t *at = codes + (size_t)row * ex_bits;
            const __m128i  stream = row + 1 < rows ? load_stream(at, ex_bits) : load_stream(at, 0);
            __m256i        z = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(stream), bytes);
            z = _mm256_srl_epi16(_mm256_mullo_epi16(z, factors), shift);
            if (row + 1 == rows) z = _mm256_zextsi128_si256(_mm256_castsi256_si128(z));
            u = _mm256_or_si256(u, z);
        }
        _mm256_storeu_si256((__m256i *)(out + (size_t)row * 8), u);
    }
}

static inline __m256i times(const uint16_t *code, __m256i query)
{
    return _mm256_madd_epi16(_mm256_loadu_si256((const __m256i *)code), query);
}

static void four(const uint16_t *codes, size_t stride, const uint32_t *at, const int16_t *query, uint32_t count,
                 int32_t *dots)
{
    const uint16_t *row[4];
    __m256i         sum[4];
    for (int i = 0; i < 4; i++) {
        row[i] = codes + at[i] * stride;
        sum[i] = _mm256_setzero_si256();
    }
    for (uint32_t k = 0; k < count; k += 16) {
        const __m256i q = _mm256_loadu_si256((const __m256i *)(query + k));
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) sum[i] = _mm256_add_epi32(sum[i], times(row[i] + k, q));
    }
    const __m256i pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(sum[0], sum[1]), _mm256_hadd_epi32(sum[2], sum[3]));
    _mm_storeu_si128((__m128i *)dots,
                     _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
}

void nf_k_dots_avx2(const uint16_t *codes, size_t stride, const uint32_t *at, uint32_t at_count, const int16_t *query,
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
