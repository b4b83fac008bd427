/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting the rows of a result. Rows are many and mostly short, so the method goes by length:
 *
 *  - a few ids: insertion;
 *  - ids below 2^20 and not too few: a bitmap with a summary of its words. Setting and reading a bit costs about 1 ns each
 *    while the bitmap (128 KiB at most) stays in the second-level cache, and the ids come out sorted;
 *  - otherwise: radix sort by bytes, least significant first, skipping bytes that all ids share.
 */
#include "cpu_sort.h"

#include <string.h>

#define INSERTION_MOST 16u
#define BITMAP_LIMIT (1u << 20)
#define SUMMARY_WORDS_PER_ID 4u /* a bitmap pays when its summary is not longer than that many words per id */

nf_status nf_row_sorter_open(nf_context *ctx, nf_row_sorter *sorter, uint32_t id_limit)
{
    memset(sorter, 0, sizeof *sorter);
    sorter->ctx = ctx;
    sorter->id_limit = id_limit;
    if (id_limit > BITMAP_LIMIT) return NF_OK;
    sorter->bits = nf_alloc_zero(ctx, id_limit / 64 + 1, sizeof(uint64_t));
    sorter->summary = nf_alloc_zero(ctx, id_limit / 4096 + 1, sizeof(uint64_t));
    return sorter->bits != NULL && sorter->summary != NULL ? NF_OK : nf_alloc_status(ctx);
}

void nf_row_sorter_close(nf_row_sorter *sorter)
{
    nf_free(sorter->bits);
    nf_free(sorter->summary);
    nf_free(sorter->spare);
    nf_free(sorter->keyed);
    memset(sorter, 0, sizeof *sorter);
}

static void insertion_sort(uint32_t *ids, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++) {
        const uint32_t id = ids[i];
        uint64_t       at = i;
        for (; at > 0 && ids[at - 1] > id; at--) ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

static void bitmap_sort(nf_row_sorter *sorter, uint32_t *ids, uint64_t count)
{
    uint64_t *bits = sorter->bits, *summary = sorter->summary;
    for (uint64_t i = 0; i < count; i++) {
        bits[ids[i] >> 6] |= 1ull << (ids[i] & 63);
        summary[ids[i] >> 12] |= 1ull << (ids[i] >> 6 & 63);
    }
    uint32_t *out = ids;
    for (uint32_t s = 0; out < ids + count; s++) {
        for (uint64_t words = summary[s]; words != 0; words &= words - 1) {
            const uint32_t word = s * 64 + (uint32_t)__builtin_ctzll(words);
            for (uint64_t set = bits[word]; set != 0; set &= set - 1) {
                *out++ = word * 64 + (uint32_t)__builtin_ctzll(set);
            }
            bits[word] = 0;
        }
        summary[s] = 0;
    }
}

static nf_status need_spare(nf_row_sorter *sorter, uint64_t count)
{
    if (count <= sorter->spare_count) return NF_OK;
    nf_free(sorter->spare);
    sorter->spare_count = 0;
    sorter->spare = nf_alloc(sorter->ctx, count, sizeof *sorter->spare);
    if (sorter->spare == NULL) return nf_alloc_status(sorter->ctx);
    sorter->spare_count = count;
    return NF_OK;
}

static void radix_sort(uint32_t *ids, uint32_t *spare, uint64_t count)
{
    uint32_t *from = ids, *to = spare;
    for (uint32_t shift = 0; shift < 32; shift += 8) {
        uint64_t start[256] = {0};
        for (uint64_t i = 0; i < count; i++) start[from[i] >> shift & 255]++;
        if (start[from[0] >> shift & 255] == count) continue;
        uint64_t sum = 0;
        for (uint32_t b = 0; b < 256; b++) {
            const uint64_t here = start[b];
            start[b] = sum;
            sum += here;
        }
        for (uint64_t i = 0; i < count; i++) to[start[from[i] >> shift & 255]++] = from[i];
        uint32_t *held = from;
        from = to;
        to = held;
    }
    if (from != ids) memcpy(ids, from, count * sizeof *ids);
}

nf_status nf_sort_ids(nf_row_sorter *sorter, uint32_t *ids, uint64_t count)
{
    if (count <= INSERTION_MOST) {
        insertion_sort(ids, count);
        return NF_OK;
    }
    if (sorter->bits != NULL && sorter->id_limit / 4096 <= count * SUMMARY_WORDS_PER_ID) {
        bitmap_sort(sorter, ids, count);
        return NF_OK;
    }
    NF_TRY(need_spare(sorter, count));
    radix_sort(ids, sorter->spare, count);
    return NF_OK;
}

typedef struct keyed_id {
    double   distance;
    uint32_t id;
} keyed_id;

/* Merges the sorted halves [begin, middle) and [middle, end); takes the left one of equals. */
static void merge(const keyed_id *from, keyed_id *to, uint64_t begin, uint64_t middle, uint64_t end)
{
    uint64_t left = begin, right = middle;
    for (uint64_t out = begin; out < end; out++) {
        const bool take_left = left < middle && (right >= end || from[left].distance <= from[right].distance);
        to[out] = take_left ? from[left++] : from[right++];
    }
}

static const keyed_id *merge_sort(keyed_id *from, keyed_id *to, uint64_t count)
{
    for (uint64_t width = 1; width < count; width *= 2) {
        for (uint64_t begin = 0; begin < count; begin += 2 * width) {
            const uint64_t middle = begin + width < count ? begin + width : count;
            const uint64_t end = begin + 2 * width < count ? begin + 2 * width : count;
            merge(from, to, begin, middle, end);
        }
        keyed_id *held = from;
        from = to;
        to = held;
    }
    return from;
}

nf_status nf_sort_by_distance(nf_row_sorter *sorter, uint32_t *ids, double *distances, uint64_t count)
{
    if (2 * count > sorter->keyed_count) {
        nf_free(sorter->keyed);
        sorter->keyed_count = 0;
        sorter->keyed = nf_alloc(sorter->ctx, 2 * count, sizeof(keyed_id));
        if (sorter->keyed == NULL) return nf_alloc_status(sorter->ctx);
        sorter->keyed_count = 2 * count;
    }
    keyed_id *keyed = sorter->keyed;
    for (uint64_t i = 0; i < count; i++) keyed[i] = (keyed_id){distances[i], ids[i]};
    const keyed_id *sorted = merge_sort(keyed, keyed + count, count);
    for (uint64_t i = 0; i < count; i++) {
        distances[i] = sorted[i].distance;
        ids[i] = sorted[i].id;
    }
    return NF_OK;
}
