/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Result "mask-raw": the uncompressed mask is copied to the host and decoded there (RT-HiSS, section V-G, "Uncomp. mask").
 * It is kept so that the paper's ablation can be re-run; compaction on the device is faster.
 */
#include <string.h>

#include "core/core_pool.h"
#include "cuda_refine.h"
#include "cuda_staging.h"

#define ITEMS_PER_TASK 256u

typedef struct decoding {
    const nf_k_item *items;
    const uint32_t  *list, *masks;
    uint32_t         tile;
    uint64_t         count;      /* items */
    uint64_t        *task_pairs; /* per task: how many pairs, then where they go */
    nf_pair         *pairs;      /* NULL: counting */
} decoding;

static uint64_t decode_item(const decoding *run, uint64_t number, nf_pair *out)
{
    const nf_k_item *item = &run->items[number];
    const uint32_t   words = run->tile / 32;
    uint64_t         found = 0;
    for (uint32_t row = 0; row < (item->query_count & ~NF_K_CONTINUED); row++) {
        const uint32_t *bits = run->masks + (number * run->tile + row) * words;
        const uint32_t  at = item->query_from + row, query = run->list != NULL ? run->list[at] : at;
        for (uint32_t w = 0; w < words; w++) {
            for (uint32_t left = bits[w]; left != 0; left &= left - 1, found++) {
                if (out == NULL) continue;
                out[found] = (nf_pair){query, item->point_from + w * 32 + (uint32_t)__builtin_ctz(left)};
            }
        }
    }
    return found;
}

static nf_status decode_task(void *arg, uint64_t task, uint32_t worker)
{
    decoding      *run = arg;
    const uint64_t first = task * ITEMS_PER_TASK, last = first + ITEMS_PER_TASK < run->count ? first + ITEMS_PER_TASK : run->count;
    uint64_t       found = 0;
    (void)worker;
    for (uint64_t number = first; number < last; number++) {
        found += decode_item(run, number, run->pairs != NULL ? run->pairs + run->task_pairs[task] + found : NULL);
    }
    if (run->pairs == NULL) run->task_pairs[task] = found;
    return NF_OK;
}

/* Two passes over the masks: how many pairs each task finds, then the pairs. */
static nf_status decode_all(nf_context *ctx, decoding *run, nf_pair **pairs, uint64_t *found)
{
    const uint64_t tasks = (run->count + ITEMS_PER_TASK - 1) / ITEMS_PER_TASK;
    uint64_t       sum = 0;
    run->task_pairs = nf_alloc_zero(ctx, tasks, sizeof *run->task_pairs);
    if (run->task_pairs == NULL) return nf_alloc_status(ctx);
    nf_status status = nf_pool_run(ctx, decode_task, run, tasks);
    for (uint64_t task = 0; task < tasks; task++) {
        const uint64_t own = run->task_pairs[task];
        run->task_pairs[task] = sum;
        sum += own;
    }
    *found = sum;
    if (status >= 0) {
        *pairs = run->pairs = nf_alloc(ctx, sum, sizeof **pairs);
        status = *pairs != NULL ? nf_pool_run(ctx, decode_task, run, tasks) : nf_alloc_status(ctx);
    }
    nf_free(run->task_pairs);
    return status;
}

static nf_status fetch(nf_context *ctx, const nf_search *search, const void *from, uint64_t count, size_t size, void *out)
{
    void *block = nf_alloc(ctx, count, size);
    memcpy(out, &block, sizeof block);
    if (block == NULL) return nf_alloc_status(ctx);
    return nf_download(ctx, search->device, search->stream, block, from, count * size);
}

nf_status nf_decode_masks(nf_context *ctx, nf_search *search, const nf_work_list *work, const uint32_t *masks, uint32_t tile,
                          uint64_t *found)
{
    nf_k_item *items = NULL;
    uint32_t  *host_masks = NULL, *list = NULL;
    nf_pair   *pairs = NULL;
    uint64_t   count = 0, entries = 0;

    *found = 0;
    NF_CUDA(ctx, cudaMemcpyAsync(&count, work->item_count, sizeof count, cudaMemcpyDeviceToHost, search->stream));
    NF_CUDA(ctx, cudaStreamSynchronize(search->stream));
    nf_status status = fetch(ctx, search, work->items, count, sizeof *items, &items);
    if (status >= 0) status = fetch(ctx, search, masks, count * (tile * tile / 32), sizeof *host_masks, &host_masks);
    for (uint64_t i = 0; status >= 0 && work->list != NULL && i < count; i++) {
        const uint64_t end = (uint64_t)items[i].query_from + (items[i].query_count & ~NF_K_CONTINUED);
        if (end > entries) entries = end;
    }
    if (status >= 0 && work->list != NULL) status = fetch(ctx, search, work->list, entries, sizeof *list, &list);
    if (status >= 0) {
        decoding run = {.items = items, .list = list, .masks = host_masks, .tile = tile, .count = count};
        status = decode_all(ctx, &run, &pairs, found);
    }
    if (status >= 0 && search->store.count + *found <= search->store.capacity) {
        status = nf_upload_rows(ctx, search->device, search->stream, search->store.pairs + search->store.count, pairs, *found,
                                sizeof *pairs, sizeof *pairs);
    }
    nf_free(items);
    nf_free(host_masks);
    nf_free(list);
    nf_free(pairs);
    return status;
}
