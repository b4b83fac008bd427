/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting ids with AVX2: blocks of 64 in eight registers, then merges.
 *
 * A block: the 8 columns of 8 registers are sorted by Batcher's odd-even network (19 comparisons), a transpose turns them
 * into 8 sorted registers, and bitonic merges (Batcher, 1968) join those to runs of 16, 32 and 64: about 7 instructions an
 * id, no branch. Longer runs are merged 8 ids at a time: the lower 8 of 16 merged ids go out, and 8 more are loaded from the
 * run whose next id is smaller.
 */
#include <stdbool.h>
#include <string.h>

#include "cpu/kernels/avx2/k_avx2.h"

#define BLOCK 64u
#define INSERTION_MOST 12u

static inline void exchange(__m256i *low, __m256i *high)
{
    const __m256i a = *low, b = *high;
    *low = _mm256_min_epu32(a, b);
    *high = _mm256_max_epu32(a, b);
}

static inline __m256i reversed(__m256i v)
{
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}

/* Sorts the 8 lanes of a bitonic register. */
static inline __m256i bitonic_lanes(__m256i v)
{
    __m256i other = _mm256_permute2x128_si256(v, v, 1);
    v = _mm256_blend_epi32(_mm256_min_epu32(v, other), _mm256_max_epu32(v, other), 0xf0);
    other = _mm256_shuffle_epi32(v, 0x4e);
    v = _mm256_blend_epi32(_mm256_min_epu32(v, other), _mm256_max_epu32(v, other), 0xcc);
    other = _mm256_shuffle_epi32(v, 0xb1);
    return _mm256_blend_epi32(_mm256_min_epu32(v, other), _mm256_max_epu32(v, other), 0xaa);
}

/* Merges two sorted halves of count registers (2, 4 or 8). */
static inline __attribute__((always_inline)) void merge_halves(__m256i *v, const int count)
{
    const int half = count / 2;
    __m256i   flipped[4];
    for (int i = 0; i < half; i++) flipped[i] = reversed(v[count - 1 - i]);
    for (int i = 0; i < half; i++) v[half + i] = flipped[i];
    for (int distance = half; distance > 0; distance /= 2) {
        for (int i = 0; i < count; i++) {
            if ((i & distance) == 0) exchange(&v[i], &v[i + distance]);
        }
    }
    for (int i = 0; i < count; i++) v[i] = bitonic_lanes(v[i]);
}

static void sort_columns(__m256i v[8])
{
    static const uint8_t pairs[19][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {1, 3}, {4, 6}, {5, 7}, {1, 2}, {5, 6},
                                         {0, 4}, {1, 5}, {2, 6}, {3, 7}, {2, 4}, {3, 5}, {1, 2}, {3, 4}, {5, 6}};
#pragma GCC unroll 19
    for (int i = 0; i < 19; i++) exchange(&v[pairs[i][0]], &v[pairs[i][1]]);
}

/* Sorts 64 ids of from into to. */
static void sort_block(const uint32_t *from, uint32_t *to)
{
    __m256i v[8];
    for (int i = 0; i < 8; i++) v[i] = _mm256_loadu_si256((const __m256i *)(const void *)(from + 8 * i));
    sort_columns(v);
    nf_transpose_8x8(v);
    for (int i = 0; i < 8; i += 2) merge_halves(v + i, 2);
    for (int i = 0; i < 8; i += 4) merge_halves(v + i, 4);
    merge_halves(v, 8);
    for (int i = 0; i < 8; i++) _mm256_storeu_si256((__m256i *)(void *)(to + 8 * i), v[i]);
}

static void insert_sorted(const uint32_t *from, uint32_t *to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t id = from[i];
        uint64_t       at = i;
        for (; at > 0 && to[at - 1] > id; at--) to[at] = to[at - 1];
        to[at] = id;
    }
}

/* Sorts fewer than 64 ids: very few by insertion, others as a block padded with the largest value. */
static void sort_short(const uint32_t *from, uint32_t *to, uint64_t count)
{
    uint32_t block[BLOCK];
    if (count <= INSERTION_MOST) {
        insert_sorted(from, to, count);
        return;
    }
    memset(block, 0xff, sizeof block);
    memcpy(block, from, count * sizeof *from);
    sort_block(block, block);
    memcpy(to, block, count * sizeof *to);
}

/* Merges what is left of two sorted runs, one id at a time. */
static void merge_rest(const uint32_t *a, const uint32_t *a_end, const uint32_t *b, const uint32_t *b_end, uint32_t *out)
{
    while (a < a_end && b < b_end) *out++ = *a < *b ? *a++ : *b++;
    memcpy(out, a, (size_t)(a_end - a) * sizeof *a);
    memcpy(out + (a_end - a), b, (size_t)(b_end - b) * sizeof *b);
}

static void merge_runs(const uint32_t *a, uint64_t a_count, const uint32_t *b, uint64_t b_count, uint32_t *out)
{
    const uint32_t *const a_end = a + a_count, *const b_end = b + b_count;
    uint32_t              held[8];
    __m256i               v[2];

    if (a_count < 8 || b_count < 8) {
        merge_rest(a, a_end, b, b_end, out);
        return;
    }
    v[0] = _mm256_loadu_si256((const __m256i *)(const void *)a);
    v[1] = _mm256_loadu_si256((const __m256i *)(const void *)b);
    a += 8;
    b += 8;
    for (;;) {
        merge_halves(v, 2);
        _mm256_storeu_si256((__m256i *)(void *)out, v[0]);
        out += 8;
        const uint32_t *next = NULL;
        if (a + 8 <= a_end && b + 8 <= b_end) {
            next = *a < *b ? a : b;
        } else if (a + 8 <= a_end && (b == b_end || *a < *b)) {
            next = a;
        } else if (b + 8 <= b_end && (a == a_end || *b < *a)) {
            next = b;
        }
        if (next == NULL) break;
        v[0] = v[1];
        v[1] = _mm256_loadu_si256((const __m256i *)(const void *)next);
        if (next == a) {
            a += 8;
        } else {
            b += 8;
        }
    }
    /* Three sorted runs are left: 8 held ids, and two of which one is shorter than 8. */
    _mm256_storeu_si256((__m256i *)(void *)held, v[1]);
    const uint32_t *h = held, *const h_end = held + 8;
    while (h < h_end) {
        const uint32_t from_a = a < a_end ? *a : UINT32_MAX, from_b = b < b_end ? *b : UINT32_MAX;
        if (*h <= from_a && *h <= from_b) {
            *out++ = *h++;
        } else {
            *out++ = from_a < from_b ? *a++ : *b++;
        }
    }
    merge_rest(a, a_end, b, b_end, out);
}

/* Blocks are sorted into whichever array makes the last merge end in ids. */
void nf_k_sort_ids_avx2(uint32_t *ids, uint64_t count, uint32_t *spare)
{
    bool odd = false;
    for (uint64_t run = BLOCK; run < count; run *= 2) odd = !odd;
    uint32_t *from = odd ? spare : ids, *to = odd ? ids : spare;

    uint64_t block = 0;
    for (; block + BLOCK <= count; block += BLOCK) sort_block(ids + block, from + block);
    sort_short(ids + block, from + block, count - block);
    for (uint64_t run = BLOCK; run < count; run *= 2) {
        for (uint64_t begin = 0; begin < count; begin += 2 * run) {
            const uint64_t left = run < count - begin ? run : count - begin;
            const uint64_t right = run < count - begin - left ? run : count - begin - left;
            merge_runs(from + begin, left, from + begin + left, right, to + begin);
        }
        uint32_t *held = from;
        from = to;
        to = held;
    }
}
