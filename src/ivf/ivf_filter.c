/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters: a set of ids becomes one bit per slot, since that is what the scan of blocks can use. The set is either a
 * bitmap, or a list of ids that is sorted once and searched for every row.
 */
#include "ivf_filter.h"

#include <stdlib.h>

#include "core/core_pool.h"

#define TASK_LISTS 64u

/* The set of ids. */
typedef struct id_set {
    const int64_t  *sorted; /* count ids; NULL: bits */
    const uint64_t *bits;
    uint64_t        count;
    bool            forbid;
} id_set;

typedef struct filter_job {
    const nf_ivf_view *view;
    const id_set      *set;
    uint32_t          *allowed;
} filter_job;

static bool in_sorted(const int64_t *ids, uint64_t count, int64_t id)
{
    uint64_t low = 0, high = count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (ids[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && ids[low] == id;
}

static bool allows(const id_set *set, int64_t id)
{
    bool in;
    if (set->bits != NULL) {
        in = (uint64_t)id < set->count && (set->bits[(uint64_t)id / 64] >> ((uint64_t)id % 64) & 1) != 0;
    } else {
        in = in_sorted(set->sorted, set->count, id);
    }
    return in != set->forbid;
}

static nf_status filter_task(void *arg, uint64_t task, uint32_t worker)
{
    const filter_job  *job = arg;
    const nf_ivf_view *view = job->view;
    const uint32_t     begin = (uint32_t)task * TASK_LISTS;
    const uint32_t     end = view->lists - begin < TASK_LISTS ? view->lists : begin + TASK_LISTS;
    (void)worker;
    for (uint32_t list = begin; list < end; list++) {
        const uint64_t first = view->list_start[list], rows = view->list_start[list + 1] - first;
        uint32_t      *words = job->allowed + view->block_start[list];
        for (uint64_t i = 0; i < rows; i++) {
            if (allows(job->set, nf_ivf_id(view, first + i))) words[i / NF_IVF_BLOCK] |= 1u << i % NF_IVF_BLOCK;
        }
    }
    return NF_OK;
}

static nf_status make(nf_context *ctx, const nf_ivf_index *index, const id_set *set, nf_ivf_filter **out)
{
    const nf_ivf_view *view = &index->view;
    const uint64_t     blocks = view->block_start[view->lists];
    nf_ivf_filter     *filter = nf_alloc_zero(ctx, 1, sizeof *filter);

    if (filter == NULL) return nf_alloc_status(ctx);
    filter->file_id = index->info.file_id;
    filter->blocks = blocks;
    filter->allowed = nf_alloc_zero(ctx, blocks, sizeof *filter->allowed);
    nf_status status = filter->allowed != NULL ? NF_OK : nf_alloc_status(ctx);
    if (status >= 0) {
        filter_job job = {view, set, filter->allowed};
        nf_progress_begin(ctx, "filter", 0);
        status = nf_pool_run(ctx, filter_task, &job, (view->lists + TASK_LISTS - 1) / TASK_LISTS);
    }
    if (status < 0) {
        nf_ivf_filter_release(filter);
        return status;
    }
    *out = filter;
    return NF_OK;
}

static int by_id(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

nf_status nf_ivf_filter_ids(nf_context *ctx, const nf_ivf_index *index, const int64_t *ids, uint64_t id_count,
                            uint32_t forbid, nf_ivf_filter **out)
{
    if (ctx == NULL || out == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    *out = NULL;
    if (index == NULL || (ids == NULL && id_count > 0)) return nf_fail(ctx, NF_ERR_ARGUMENT, "index or ids are NULL");
    int64_t *sorted = nf_alloc(ctx, id_count, sizeof *sorted);
    if (sorted == NULL) return nf_alloc_status(ctx);
    for (uint64_t i = 0; i < id_count; i++) sorted[i] = ids[i];
    qsort(sorted, id_count, sizeof *sorted, by_id);
    const id_set    set = {.sorted = sorted, .count = id_count, .forbid = forbid != 0};
    const nf_status status = make(ctx, index, &set, out);
    nf_free(sorted);
    return status;
}

nf_status nf_ivf_filter_bits(nf_context *ctx, const nf_ivf_index *index, const uint64_t *bits, uint64_t bit_count,
                             uint32_t forbid, nf_ivf_filter **out)
{
    static const uint64_t none[1] = {0};
    if (ctx == NULL || out == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    *out = NULL;
    if (index == NULL || (bits == NULL && bit_count > 0))
        return nf_fail(ctx, NF_ERR_ARGUMENT, "index or bits are NULL");
    const id_set set = {.bits = bits != NULL ? bits : none, .count = bit_count, .forbid = forbid != 0};
    return make(ctx, index, &set, out);
}

void nf_ivf_filter_release(nf_ivf_filter *filter)
{
    if (filter == NULL) return;
    nf_free(filter->allowed);
    nf_free(filter);
}
