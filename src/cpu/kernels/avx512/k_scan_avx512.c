/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan of short codes with AVX-512: k_scan_avx2.c with two rows of a block in a register, the first row in its lower half.
 * A table is loaded once for each half. The halves are added at the end, so results are the same whole numbers.
 */
#include <immintrin.h>

#include "cpu/kernels/avx512/k_ivf_avx512.h"

#define PAIRS_AT_ONCE 4 /* 8 entries of at most 31 fit into a byte */
#define UPPER_LANES 0xff00u

typedef struct sums {
    __m512i even[NF_SCAN_QUERIES], odd[NF_SCAN_QUERIES]; /* 16 bits: slots 0, 2, ... and 1, 3, ... */
} sums;

/* The table of one nibble for both rows: 16 bytes at lut for the lower half, those 32 bytes on for the upper one. */
static inline __m512i two_tables(const uint8_t *lut)
{
    const __m512i low = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)lut));
    return _mm512_mask_broadcast_i32x4(low, UPPER_LANES, _mm_loadu_si128((const __m128i *)(lut + 32)));
}

static inline __attribute__((always_inline)) void add_pairs(const uint8_t *block, uint32_t first, const int pairs,
                                                            const nf_scan_query *queries, const int n, sums *all)
{
    const __m512i nibble = _mm512_set1_epi8(15), low_bytes = _mm512_set1_epi16(0xff);
    __m512i       sum[NF_SCAN_QUERIES];
#pragma GCC unroll 4
    for (int q = 0; q < n; q++) sum[q] = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int pair = 0; pair < pairs; pair++) {
        const size_t  at = ((size_t)first + 2 * (size_t)pair) * 32;
        const __m512i codes = _mm512_loadu_si512(block + at);
        const __m512i low = _mm512_and_si512(codes, nibble), high = _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble);
#pragma GCC unroll 4
        for (int q = 0; q < n; q++) {
            const uint8_t *lut = queries[q].lut + at;
            const __m512i  a = _mm512_shuffle_epi8(two_tables(lut), low);
            const __m512i  b = _mm512_shuffle_epi8(two_tables(lut + 16), high);
            sum[q] = _mm512_add_epi8(sum[q], _mm512_add_epi8(a, b));
        }
    }
#pragma GCC unroll 4
    for (int q = 0; q < n; q++) {
        all->even[q] = _mm512_add_epi16(all->even[q], _mm512_and_si512(sum[q], low_bytes));
        all->odd[q] = _mm512_add_epi16(all->odd[q], _mm512_srli_epi16(sum[q], 8));
    }
}

/* A last row without a partner. */
static inline __attribute__((always_inline)) void add_row(const uint8_t *block, uint32_t row, const nf_scan_query *queries,
                                                          const int n, sums *all)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i codes = _mm256_loadu_si256((const __m256i *)(block + (size_t)row * 32));
    const __m256i low = _mm256_and_si256(codes, nibble), high = _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble);
#pragma GCC unroll 4
    for (int q = 0; q < n; q++) {
        const __m128i *lut = (const __m128i *)(queries[q].lut + (size_t)row * 32);
        const __m256i  a = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(lut)), low);
        const __m256i  b = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(lut + 1)), high);
        const __m256i  sum = _mm256_add_epi8(a, b);
        all->even[q] = _mm512_add_epi16(all->even[q],
                                        _mm512_zextsi256_si512(_mm256_and_si256(sum, _mm256_set1_epi16(0xff))));
        all->odd[q] = _mm512_add_epi16(all->odd[q], _mm512_zextsi256_si512(_mm256_srli_epi16(sum, 8)));
    }
}

static inline __m256i both_halves(__m512i v)
{
    return _mm256_add_epi16(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
}

/* Factors of 16 slots: those of `slot` and the following 7, and of slot + 16 and the following 7, as the sums lie. */
typedef struct sixteen {
    __m512 add, rescale, error;
} sixteen;

static inline __m512 two_eights(const uint8_t *values)
{
    const __m256 low = _mm256_loadu_ps((const float *)(const void *)values);
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), _mm256_loadu_ps((const float *)(const void *)(values + 64)), 1);
}

static inline sixteen load_sixteen(nf_ivf_factors factors, uint32_t slot)
{
    const __m128i low = _mm_loadu_si128((const __m128i *)(factors.error + 2 * slot));
    const __m128i high = _mm_loadu_si128((const __m128i *)(factors.error + 2 * slot + 32));
    const __m512i half = _mm512_cvtepu16_epi32(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1));
    return (sixteen){
        two_eights(factors.add + 4 * slot),
        two_eights(factors.rescale + 4 * slot),
        _mm512_castsi512_ps(_mm512_slli_epi32(half, 16)),
    };
}

static inline uint32_t test_sixteen(__m256i sums16, const sixteen *factors, const nf_scan_query *query)
{
    const __m512 sum = _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(sums16));
    const __m512 product = _mm512_fmadd_ps(sum, _mm512_set1_ps(query->step), _mm512_set1_ps(query->base));
    const __m512 estimate = _mm512_fmadd_ps(factors->rescale, product, factors->add);
    const __m512 bound = _mm512_fnmadd_ps(factors->error, _mm512_set1_ps(query->width), estimate);
    return _mm512_cmp_ps_mask(bound, _mm512_set1_ps(query->limit), _CMP_NGE_UQ);
}

static inline __attribute__((always_inline)) void scan(const uint8_t *blocks, uint64_t block_count, uint32_t padded,
                                                       const nf_scan_query *queries, const int n, uint32_t *survivors,
                                                       size_t stride)
{
    const size_t   block_bytes = nf_ivf_block_bytes(padded);
    const uint32_t rows = padded / 8;
    for (uint64_t b = 0; b < block_count; b++) {
        const uint8_t *block = blocks + b * block_bytes;
        sums           all;
        uint32_t       row = 0;
#pragma GCC unroll 4
        for (int q = 0; q < n; q++) all.even[q] = all.odd[q] = _mm512_setzero_si512();
        for (; row + 2 * PAIRS_AT_ONCE <= rows; row += 2 * PAIRS_AT_ONCE) add_pairs(block, row, PAIRS_AT_ONCE, queries, n, &all);
        for (; row + 2 <= rows; row += 2) add_pairs(block, row, 1, queries, n, &all);
        if (row < rows) add_row(block, row, queries, n, &all);

        const nf_ivf_factors factors = nf_ivf_block_factors(block, padded);
        const sixteen        f0 = load_sixteen(factors, 0), f1 = load_sixteen(factors, 8);
        for (int q = 0; q < n; q++) {
            const __m256i even = both_halves(all.even[q]), odd = both_halves(all.odd[q]);
            const uint32_t a = test_sixteen(_mm256_unpacklo_epi16(even, odd), &f0, &queries[q]); /* slots 0.., 16.. */
            const uint32_t c = test_sixteen(_mm256_unpackhi_epi16(even, odd), &f1, &queries[q]); /* slots 8.., 24.. */
            survivors[(size_t)q * stride + b] = (a & 0xff) | (c & 0xff) << 8 | (a >> 8) << 16 | (c >> 8) << 24;
        }
    }
}

void nf_k_scan_avx512(const uint8_t *blocks, uint64_t block_count, uint32_t padded, const nf_scan_query *queries,
                      uint32_t query_count, uint32_t *survivors, size_t stride)
{
    switch (query_count) {
    case 1: scan(blocks, block_count, padded, queries, 1, survivors, stride); break;
    case 2: scan(blocks, block_count, padded, queries, 2, survivors, stride); break;
    case 3: scan(blocks, block_count, padded, queries, 3, survivors, stride); break;
    default: scan(blocks, block_count, padded, queries, 4, survivors, stride); break;
    }
}
