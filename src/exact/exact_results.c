/* SPDX-License-Identifier: Apache-2.0 */
/* Results at once: a CSR object in memory, and counts alone. */
#include <string.h>

#include "core/core_pool.h"
#include "exact_cosine.h"
#include "exact_private.h"

#define ROWS_PER_TASK 4096u

/* The object that a caller holds, with what it owns. */
typedef struct csr_object {
    nf_csr         view;
    nf_owned_batch owned;
} csr_object;

/* No query at all: one offset. */
static nf_status empty_batch(nf_context *ctx, nf_owned_batch *batch)
{
    batch->indptr = nf_alloc_zero(ctx, 1, sizeof *batch->indptr);
    return batch->indptr != NULL ? NF_OK : nf_alloc_status(ctx);
}

/* Room for a whole result of which only the rows' lengths are known. */
static nf_status allocate_whole(nf_context *ctx, nf_radius_stream *stream, uint64_t rows, uint32_t bytes_per_distance,
                                nf_owned_batch *whole)
{
    uint64_t      *counts = nf_alloc(ctx, rows, sizeof *counts);
    nf_status      status = counts != NULL ? NF_OK : nf_alloc_status(ctx);

    if (status >= 0) status = nf_stream_counts(stream, counts);
    whole->rows = rows;
    if (status >= 0) {
        whole->indptr = nf_alloc(ctx, rows + 1, sizeof *whole->indptr);
        if (whole->indptr == NULL) status = nf_alloc_status(ctx);
    }
    if (status >= 0) {
        whole->indptr[0] = 0;
        for (uint64_t i = 0; i < rows; i++) whole->indptr[i + 1] = whole->indptr[i] + (int64_t)counts[i];
        whole->pairs = (uint64_t)whole->indptr[rows];
        whole->indices = nf_alloc(ctx, whole->pairs, sizeof *whole->indices);
        if (bytes_per_distance != 0) whole->distances = nf_alloc(ctx, whole->pairs, bytes_per_distance);
        if (whole->indices == NULL || (bytes_per_distance != 0 && whole->distances == NULL)) status = nf_alloc_status(ctx);
    }
    nf_free(counts);
    return status;
}

typedef struct placing {
    const nf_owned_batch *batch, *whole;
    uint32_t              bytes_per_distance;
} placing;

static nf_status place_task(void *arg, uint64_t task, uint32_t worker)
{
    const placing        *run = arg;
    const nf_owned_batch *batch = run->batch, *whole = run->whole;
    const uint64_t        size = run->bytes_per_distance, last = (task + 1) * ROWS_PER_TASK;
    (void)worker;
    for (uint64_t i = task * ROWS_PER_TASK; i < batch->rows && i < last; i++) {
        const uint64_t from = (uint64_t)batch->indptr[i], to = (uint64_t)whole->indptr[batch->query_ids[i]];
        const uint64_t count = (uint64_t)batch->indptr[i + 1] - from;
        memcpy(whole->indices + to, batch->indices + from, count * sizeof *batch->indices);
        if (size == 0) continue;
        memcpy((char *)whole->distances + to * size, (const char *)batch->distances + from * size, count * size);
    }
    return NF_OK;
}

/* Copies a batch's rows to their places, by all threads: the memory is fresh, and the kernel gives it page by page. */
static nf_status place_rows(nf_context *ctx, const nf_owned_batch *batch, uint32_t bytes_per_distance,
                            const nf_owned_batch *whole)
{
    placing run = {batch, whole, bytes_per_distance};
    return nf_pool_run(ctx, place_task, &run, (batch->rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
}

/* The engine could not hold the whole result at once: lengths first, then batches, each row to its place. first: the batch
 * that it gave. */
static nf_status assemble(nf_context *ctx, nf_radius_stream *stream, uint64_t rows, uint32_t distances_as,
                          nf_owned_batch *first, nf_owned_batch *whole)
{
    const uint32_t bytes = distances_as == NF_DISTANCES_F64 ? 8 : distances_as == NF_DISTANCES_F32 ? 4 : 0;
    nf_owned_batch batch = *first;
    nf_status      status = allocate_whole(ctx, stream, rows, bytes, whole);

    memset(first, 0, sizeof *first);
    if (status >= 0) status = NF_MORE;
    while (status == NF_MORE) {
        status = place_rows(ctx, &batch, bytes, whole);
        nf_owned_batch_free(&batch);
        if (status >= 0) status = nf_stream_next_owned(stream, true, &batch);
    }
    nf_owned_batch_free(&batch);
    return status;
}

static nf_status fill_csr(nf_context *ctx, nf_radius_stream *stream, const nf_radius_index *index, const nf_matrix *queries,
                          const nf_radius_params *params, csr_object *object)
{
    const uint64_t rows = queries != NULL ? queries->rows : index->rows;
    nf_owned_batch first;
    nf_status      status = nf_stream_next_owned(stream, true, &first);

    if (status == NF_MORE && first.rows < rows) {
        status = assemble(ctx, stream, rows, params->distances, &first, &object->owned);
    } else {
        object->owned = first;
        if (status == NF_OK) status = empty_batch(ctx, &object->owned);
    }
    if (status < 0) {
        nf_owned_batch_free(&object->owned);
        return status;
    }
    nf_free(object->owned.query_ids); /* 0, 1, 2, ... */
    object->owned.query_ids = NULL;
    object->view = (nf_csr){
        .rows = object->owned.rows,
        .columns = index->rows,
        .pairs = object->owned.pairs,
        .indptr = object->owned.indptr,
        .indices = object->owned.indices,
        .distances = object->owned.distances,
        .distances_as = params->distances,
    };
    return NF_OK;
}

nf_status nf_radius_csr(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                        const nf_radius_params *params, nf_csr **out, nf_radius_stats *stats)
{
    if (ctx == NULL || out == NULL) return NF_ERR_ARGUMENT;
    *out = NULL;
    nf_radius_stream *stream = NULL;
    NF_TRY(nf_radius_open(ctx, index, queries, params, &stream));

    csr_object *object = nf_alloc_zero(ctx, 1, sizeof *object);
    nf_status   status = object != NULL ? fill_csr(ctx, stream, index, queries, params, object) : nf_alloc_status(ctx);
    nf_radius_stream_stats(stream, stats);
    nf_radius_close(stream);
    if (status < 0) {
        nf_free(object);
        return status;
    }
    *out = &object->view;
    return NF_OK;
}

void nf_csr_release(nf_csr *csr)
{
    if (csr == NULL) return;
    csr_object *object = (csr_object *)csr; /* the view is its first member */
    nf_owned_batch_free(&object->owned);
    nf_free(object);
}
