/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan of short codes with AVX2, after the "fast scan" of André, Kermarrec and Le Scouarnec (VLDB 2015): sixteen sums
 * of 4 dims are a table in a register, and one byte shuffle looks up 32 slots.
 *
 * A row of a block is 8 dims of 32 slots: its low nibbles go through one table, its high nibbles through the next. Table
 * entries are at most NF_LUT_LEVELS = 31, so the results of 4 rows are added as bytes before they are widened to 16 bits:
 * the widening, half of the work when entries take all 8 bits, is paid once in 8 look-ups. The coarser table adds 0.3 % to
 * the deviation of the estimate (docs/ivf.md), because every table has an offset of its own.
 *
 * Several queries share the loads and the split into nibbles.
 */
#include "cpu/kernels/avx2/k_ivf_avx2.h"

#define ROWS_AT_ONCE 4 /* 8 entries of at most 31 fit into a byte */

typedef struct sums {
    __m256i even[NF_SCAN_QUERIES], odd[NF_SCAN_QUERIES]; /* 16 bits: slots 0, 2, ... and 1, 3, ... */
} sums;

static inline __attribute__((always_inline)) void add_rows(const uint8_t *block, uint32_t first, const int rows,
                                                           const nf_scan_query *queries, const int n, sums *all)
{
    const __m256i nibble = _mm256_set1_epi8(15), low_bytes = _mm256_set1_epi16(0xff);
    __m256i       sum[NF_SCAN_QUERIES];
#pragma GCC unroll 4
    for (int q = 0; q < n; q++) sum[q] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int row = 0; row < rows; row++) {
        const size_t  at = ((size_t)first + (size_t)row) * 32;
        const __m256i codes = _mm256_loadu_si256((const __m256i *)(block + at));
        const __m256i low = _mm256_and_si256(codes, nibble), high = _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble);
#pragma GCC unroll 4
        for (int q = 0; q < n; q++) {
            const __m128i *lut = (const __m128i *)(queries[q].lut + at);
            const __m256i  a = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(lut)), low);
            const __m256i  b = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(lut + 1)), high);
            sum[q] = _mm256_add_epi8(sum[q], _mm256_add_epi8(a, b));
        }
    }
#pragma GCC unroll 4
    for (int q = 0; q < n; q++) {
        all->even[q] = _mm256_add_epi16(all->even[q], _mm256_and_si256(sum[q], low_bytes));
        all->odd[q] = _mm256_add_epi16(all->odd[q], _mm256_srli_epi16(sum[q], 8));
    }
}

/* Factors of 8 slots. */
typedef struct eight {
    __m256 add, rescale, error;
} eight;

static inline eight load_eight(nf_ivf_factors factors, uint32_t slot)
{
    const __m128i half = _mm_loadu_si128((const __m128i *)(factors.error + 2 * slot));
    return (eight){
        _mm256_loadu_ps((const float *)(const void *)(factors.add + 4 * slot)),
        _mm256_loadu_ps((const float *)(const void *)(factors.rescale + 4 * slot)),
        _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16)),
    };
}

/* Which of 8 slots survive, from their sums. */
static inline uint32_t test_eight(__m128i sums16, const eight *factors, const nf_scan_query *query)
{
    const __m256 sum = _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(sums16));
    const __m256 product = _mm256_fmadd_ps(sum, _mm256_set1_ps(query->step), _mm256_set1_ps(query->base));
    const __m256 estimate = _mm256_fmadd_ps(factors->rescale, product, factors->add);
    const __m256 bound = _mm256_fnmadd_ps(factors->error, _mm256_set1_ps(query->width), estimate);
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(bound, _mm256_set1_ps(query->limit), _CMP_NGE_UQ));
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
        for (int q = 0; q < n; q++) all.even[q] = all.odd[q] = _mm256_setzero_si256();
        for (; row + ROWS_AT_ONCE <= rows; row += ROWS_AT_ONCE) add_rows(block, row, ROWS_AT_ONCE, queries, n, &all);
        for (; row < rows; row++) add_rows(block, row, 1, queries, n, &all);

        const nf_ivf_factors factors = nf_ivf_block_factors(block, padded);
        const eight          f0 = load_eight(factors, 0), f1 = load_eight(factors, 8);
        const eight          f2 = load_eight(factors, 16), f3 = load_eight(factors, 24);
        for (int q = 0; q < n; q++) {
            const __m256i a = _mm256_unpacklo_epi16(all.even[q], all.odd[q]); /* slots 0 to 7 and 16 to 23 */
            const __m256i c = _mm256_unpackhi_epi16(all.even[q], all.odd[q]); /* slots 8 to 15 and 24 to 31 */
            survivors[(size_t)q * stride + b] = test_eight(_mm256_castsi256_si128(a), &f0, &queries[q]) |
                                                test_eight(_mm256_castsi256_si128(c), &f1, &queries[q]) << 8 |
                                                test_eight(_mm256_extracti128_si256(a, 1), &f2, &queries[q]) << 16 |
                                                test_eight(_mm256_extracti128_si256(c, 1), &f3, &queries[q]) << 24;
        }
    }
}

void nf_k_scan_avx2(const uint8_t *blocks, uint64_t block_count, uint32_t padded, const nf_scan_query *queries,
                    uint32_t query_count, uint32_t *survivors, size_t stride)
{
    switch (query_count) {
    case 1: scan(blocks, block_count, padded, queries, 1, survivors, stride); break;
    case 2: scan(blocks, block_count, padded, queries, 2, survivors, stride); break;
    case 3: scan(blocks, block_count, padded, queries, 3, survivors, stride); break;
    default: scan(blocks, block_count, padded, queries, 4, survivors, stride); break;
    }
}
