/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting the rows of a result. Where a row holds a fair share of all ids, a bitmap sorts it: setting and reading a bit costs
 * a few clocks while the bitmap (128 KiB at most) stays in the second-level cache, and a summary of its words spares reading
 * those without bits. Other rows go to the sort kernel.
 */
#include "cpu_sort.h"

#include <string.h>

#define BITMAP_LIMIT (1u << 20)
#define IDS_PER_BITMAP_ENTRY 128u /* a bitmap is taken from one id in that many on: about half its words then hold one */

nf_status nf_row_sorter_open(nf_context *ctx, const nf_kernels *kernels, nf_row_sorter *sorter, uint32_t id_limit)
{
    memset(sorter, 0, sizeof *sorter);
    sorter->ctx = ctx;
    sorter->kernels = kernels;
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

nf_status nf_sort_ids(nf_row_sorter *sorter, uint32_t *ids, uint64_t count)
{
    if (count < 2) return NF_OK;
    if (sorter->bits != NULL && count >= sorter->id_limit / IDS_PER_BITMAP_ENTRY && count > NF_TILE) {
        bitmap_sort(sorter, ids, count);
        return NF_OK;
    }
    NF_TRY(need_spare(sorter, count));
    sorter->kernels->sort_ids(ids, count, sorter->spare);
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
    if (count < 2) return NF_OK;
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
