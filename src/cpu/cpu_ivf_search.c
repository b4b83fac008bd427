/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searching: chunks of queries are spread over the threads; each is prepared, gets its lists, and scans them. A chunk is as
 * large as CHUNK_BYTES allow: the more queries, the more of them share the pass over a list.
 */
#include <string.h>

#include "core/core_pool.h"
#include "cpu_ivf_search.h"
#include "cpu_ivf_source.h"

#define CHUNK_BYTES ((size_t)8 << 20)
#define CHUNK_MOST 4096u

nf_status nf_cpu_ivf_prepare(nf_context *ctx, nf_memory *memory, const nf_ivf_view *view, nf_ivf_prepared **out)
{
    *out = NULL;
    nf_ivf_prepared *prepared = nf_alloc_zero_in(ctx, memory, 1, sizeof *prepared);
    if (prepared == NULL) return nf_alloc_status(ctx);
    nf_status status = nf_vectors_pack(ctx, memory, view->centroids, view->lists, view->padded, &prepared->panel);
    if (status >= 0) {
        prepared->mean_dots = nf_alloc_in(ctx, memory, view->lists, sizeof(float));
        prepared->rank_offsets = nf_alloc_in(ctx, memory, view->lists, sizeof(float));
        if (prepared->mean_dots == NULL || prepared->rank_offsets == NULL) status = nf_alloc_status(ctx);
    }
    if (status < 0) {
        nf_cpu_ivf_prepared_close(prepared);
        return status;
    }
    double mean = 0;
    for (uint32_t k = 0; k < view->padded; k++) mean += (double)view->mean_rotated[k] * view->mean_rotated[k];
    for (uint32_t list = 0; list < view->lists; list++) {
        double dot = 0;
        for (uint32_t k = 0; k < view->padded; k++) {
            dot += (double)view->centroids[(size_t)list * view->padded + k] * view->mean_rotated[k];
        }
        prepared->mean_dots[list] = (float)(dot + mean);
        prepared->rank_offsets[list] =
            view->metric == NF_METRIC_IP ? -prepared->mean_dots[list] : prepared->panel.half_squares[list];
    }
    *out = prepared;
    return NF_OK;
}

void nf_cpu_ivf_prepared_close(nf_ivf_prepared *prepared)
{
    if (prepared == NULL) return;
    nf_vectors_close(&prepared->panel);
    nf_free(prepared->mean_dots);
    nf_free(prepared->rank_offsets);
    nf_free(prepared);
}

typedef struct worker_state {
    nf_query_chunk chunk;
    nf_scanner     scanner;
} worker_state;

typedef struct search {
    nf_context   *ctx;
    const float  *queries;
    uint64_t      count;
    uint32_t      chunk;
    uint64_t     *slots;
    float        *values;
    worker_state *states;
} search;

static void deliver(const nf_query_chunk *chunk, uint64_t *slots, float *values)
{
    const uint32_t k = chunk->question->k;
    for (uint32_t query = 0; query < chunk->count; query++) {
        nf_top *top = &chunk->tops[query];
        nf_top_sort(top);
        for (uint32_t i = 0; i < k; i++) {
            const bool there = i < top->count;
            slots[(size_t)query * k + i] = there ? top->heap[i].slot : UINT64_MAX;
            values[(size_t)query * k + i] = there ? top->heap[i].value : INFINITY;
        }
    }
}

static double lap(double *since)
{
    const double now = nf_now(), seconds = now - *since;
    *since = now;
    return seconds;
}

static nf_status search_chunk(void *arg, uint64_t task, uint32_t worker)
{
    const search   *job = arg;
    worker_state   *state = &job->states[worker];
    nf_query_chunk *chunk = &state->chunk;
    const uint64_t  first = task * job->chunk;
    const uint32_t  count = (uint32_t)(job->count - first < job->chunk ? job->count - first : job->chunk);
    double         *seconds = state->scanner.counters.seconds, since = nf_now();

    nf_query_chunk_fill(chunk, job->queries + first * chunk->view->dims, count);
    seconds[NF_IVF_STEP_PREPARE] += lap(&since);
    nf_probe_lists(chunk, &state->scanner);
    seconds[NF_IVF_STEP_PROBE] += lap(&since);
    nf_scan_lists(chunk, &state->scanner);
    seconds[NF_IVF_STEP_SCAN] += lap(&since);
    deliver(chunk, job->slots + first * chunk->question->k, job->values + first * chunk->question->k);
    seconds[NF_IVF_STEP_RANK] += lap(&since);
    nf_progress_add(job->ctx, count);
    return NF_OK;
}

/* As many queries as CHUNK_BYTES hold, or a worker's share of a quarter of the memory left, but no more than give every thread
 * some. */
static uint32_t chunk_size(nf_context *ctx, const nf_ivf_view *view, const nf_ivf_question *question, uint64_t count)
{
    const nf_memory *memory = nf_context_memory(ctx);
    const uint64_t   threads = nf_context_threads(ctx), share = (count + threads - 1) / threads;
    const uint64_t   limit = nf_memory_limit(memory), used = nf_memory_used(memory);
    uint64_t         bytes = CHUNK_BYTES;
    if (limit != 0 && bytes > (limit > used ? limit - used : 0) / 4 / threads) {
        bytes = (limit > used ? limit - used : 0) / 4 / threads;
    }
    uint64_t size = bytes / nf_query_bytes(view, question);
    if (size > CHUNK_MOST) size = CHUNK_MOST;
    if (size > share) size = share;
    return size > 0 ? (uint32_t)size : 1;
}

static void add_counters(nf_ivf_counters *sum, const nf_ivf_counters *part)
{
    sum->scanned += part->scanned;
    sum->refined += part->refined;
    for (int i = 0; i < NF_IVF_SEARCH_STEPS; i++) sum->seconds[i] += part->seconds[i];
}

nf_status nf_cpu_ivf_search(nf_context *ctx, const nf_ivf_view *view, const nf_ivf_prepared *prepared,
                            const float *queries, uint64_t count, const nf_ivf_question *question, uint64_t *slots,
                            float *values, nf_ivf_counters *counters)
{
    search job = {.ctx = ctx, .queries = queries, .count = count, .slots = slots, .values = values};
    if (count == 0) return NF_OK;
    job.chunk = chunk_size(ctx, view, question, count);
    const uint64_t tasks = (count + job.chunk - 1) / job.chunk;
    const uint32_t workers = nf_pool_workers(ctx, tasks);
    nf_status      status = NF_OK;

    job.states = nf_alloc_zero(ctx, workers, sizeof *job.states);
    if (job.states == NULL) return nf_alloc_status(ctx);
    for (uint32_t i = 0; i < workers && status >= 0; i++) {
        status = nf_query_chunk_open(ctx, view, prepared, question, job.chunk, &job.states[i].chunk);
        if (status >= 0) status = nf_scanner_open(ctx, &job.states[i].chunk, &job.states[i].scanner);
    }
    if (status >= 0) status = nf_pool_run(ctx, search_chunk, &job, tasks);
    for (uint32_t i = 0; i < workers; i++) {
        add_counters(counters, &job.states[i].scanner.counters);
        nf_query_chunk_close(&job.states[i].chunk);
        nf_scanner_close(&job.states[i].scanner);
    }
    nf_free(job.states);
    return status;
}

const nf_ivf_ops nf_cpu_ivf_ops = {
    .source_open = nf_cpu_ivf_source_open,
    .source_close = nf_cpu_ivf_source_close,
    .set_room = nf_cpu_ivf_set_room,
    .sample = nf_cpu_ivf_sample,
    .block_rows = nf_cpu_ivf_block_rows,
    .load = nf_cpu_ivf_load,
    .use_centroids = nf_cpu_ivf_use_centroids,
    .assign = nf_cpu_ivf_source_assign,
    .encode = nf_cpu_ivf_source_encode,
    .encode_end = nf_cpu_ivf_encode_end,
    .truth = nf_cpu_ivf_truth,
    .set_close = nf_cpu_ivf_set_close,
    .set_rows = nf_cpu_ivf_set_rows,
    .set_part = nf_cpu_ivf_set_part,
    .set_group = nf_cpu_ivf_set_group,
    .set_members = nf_cpu_ivf_set_members,
    .set_means = nf_cpu_ivf_set_means,
    .set_sort = nf_cpu_ivf_set_sort,
    .rotate = nf_cpu_ivf_rotate,
    .prepare = nf_cpu_ivf_prepare,
    .prepared_close = nf_cpu_ivf_prepared_close,
    .search = nf_cpu_ivf_search,
};
