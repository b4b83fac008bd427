/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searching: checks, queries as index rows in blocks, the engine's search, and the results: from slots and values to
 * ids and distances, or to exact distances with rerank.
 *
 * Probes by recall: the first entry of the index's table that reaches the recall asked for. Where none does, the codes
 * have too few bits for it, and more lists are of little use: the first entry that is nearly as good as the best. An
 * index without a table: 32 lists and a thirty-second of all lists.
 *
 * Under IP the order of rows does not depend on a query's length, but the error of estimates does: it grows with
 * |q - c|. So queries are scaled to the typical length of centroids, and the values back.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/core_pool.h"
#include "engine/engine_ivf_rows.h"
#include "ivf_filter.h"
#include "ivf_index.h"
#include "ivf_params.h"
#include "matrix/matrix_convert.h"
#include "matrix/matrix_metric.h"

#define BLOCK_BYTES (32u << 20) /* of a block of queries with its results, at most */
#define LEAST_BLOCK_BYTES (64u << 10)
#define MOST_BLOCK_ROWS 16384u
#define TASK_QUERIES 64u
#define NEARLY 0.002 /* of recall: below the noise of the measurement */

typedef struct hit {
    double  distance;
    int64_t id;
} hit;

typedef struct search_job {
    nf_context          *ctx;
    const nf_ivf_index  *index;
    const nf_matrix     *queries;
    nf_ivf_search_params params;
    nf_ivf_question      question; /* k: candidates of the engine's search */
    nf_ivf_counters      counters;
    int64_t             *ids;
    float               *distances;
    uint32_t            *counts;

    uint64_t  block_rows;
    float    *rows;  /* block_rows x dims */
    uint64_t *slots; /* block_rows x candidates */
    float    *values;
    double   *factors; /* block_rows: what queries were multiplied with; NULL: nothing */
    hit      *hits;    /* candidates per worker */
    double   *pair;    /* with rerank: two rows per worker */

    uint64_t first, count; /* the block */
} search_job;

/* ---- results ---- */

static int by_distance(const void *a, const void *b)
{
    const hit *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Mostly they are sorted. */
static void sort_hits(hit *hits, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (by_distance(&hits[i - 1], &hits[i]) > 0) {
            qsort(hits, count, sizeof *hits, by_distance);
            return;
        }
    }
}

/* From an engine's value to a distance, a binary32 number. Clamped only here: clamped values would have lost their
 * order. A value that is no number, which only a damaged index can give, is far away. */
static double distance_of(uint32_t metric, double value)
{
    if (isnan(value)) return INFINITY;
    switch (metric) {
    case NF_METRIC_L2: return (double)(float)sqrt(value > 0.0 ? value : 0.0);
    case NF_METRIC_COSINE: return (double)(float)fmin(fmax(1.0 + value, 0.0), 2.0);
    default: return (double)(float)(0.0 + value); /* never -0 */
    }
}

static uint32_t collect(const search_job *job, uint64_t i, hit *hits)
{
    const nf_ivf_view *view = &job->index->view;
    const uint64_t    *slots = job->slots + i * job->question.k;
    const float       *values = job->values + i * job->question.k;
    uint32_t           count = 0;
    while (count < job->question.k && slots[count] != UINT64_MAX) {
        const double value = (double)values[count] / (job->factors != NULL ? job->factors[i] : 1.0);
        hits[count] = (hit){distance_of(view->metric, value), nf_ivf_id(view, slots[count])};
        count++;
    }
    return count;
}

static bool all_finite(const double *values, uint32_t dims)
{
    double zero = 0.0;
    for (uint32_t i = 0; i < dims; i++) zero += values[i] * 0.0;
    return zero == 0.0;
}

/* Replaces distances by exact ones, and leaves the k nearest. Kept rows with NaN or infinity, which only a damaged
 * index that was opened without full verification can have, are far away. */
static uint32_t rerank(const search_job *job, uint64_t i, uint32_t worker, hit *hits, uint32_t count)
{
    const nf_ivf_view *view = &job->index->view;
    const uint64_t    *slots = job->slots + i * job->question.k;
    const nf_matrix    vectors = {
           .data = view->vectors, .rows = view->rows, .dims = view->dims, .dtype = view->vectors_dtype};
    double *query = job->pair + (size_t)worker * 2 * view->dims, *row = query + view->dims;

    nf_matrix_row_f64(job->queries, job->first + i, query);
    for (uint32_t j = 0; j < count; j++) {
        nf_matrix_row_f64(&vectors, slots[j], row);
        const double distance =
            all_finite(row, view->dims) ? nf_metric_distance(view->metric, row, query, view->dims) : INFINITY;
        hits[j].distance = isnan(distance) ? INFINITY : distance;
    }
    sort_hits(hits, count);
    if (count > job->params.k) count = job->params.k;
    for (uint32_t j = 0; j < count; j++) hits[j].distance = (double)(float)hits[j].distance;
    return count;
}

static void deliver(search_job *job, uint64_t i, uint32_t worker)
{
    const uint32_t k = job->params.k;
    const uint64_t query = job->first + i;
    hit           *hits = job->hits + (size_t)worker * job->question.k;
    uint32_t       count = collect(job, i, hits);

    if (job->params.rerank != 0) count = rerank(job, i, worker, hits, count);
    sort_hits(hits, count); /* as delivered: rounding may have made distances equal */
    for (uint32_t j = 0; j < k; j++) {
        job->ids[query * k + j] = j < count ? hits[j].id : -1;
        job->distances[query * k + j] = j < count ? (float)hits[j].distance : INFINITY;
    }
    if (job->counts != NULL) job->counts[query] = count;
}

static nf_status deliver_task(void *arg, uint64_t task, uint32_t worker)
{
    search_job    *job = arg;
    const uint64_t begin = task * TASK_QUERIES, left = job->count - begin;
    const uint64_t end = begin + (left < TASK_QUERIES ? left : TASK_QUERIES);
    for (uint64_t i = begin; i < end; i++) deliver(job, i, worker);
    return NF_OK;
}

/* ---- the search ---- */

static nf_status search_block(search_job *job)
{
    const nf_ivf_index *index = job->index;
    const nf_ivf_rows   rows = {.matrix = job->queries,
                                .what = "queries",
                                .metric = index->view.metric,
                                .first = job->first,
                                .count = job->count,
                                .length = index->ip_length,
                                .factors = job->factors};
    NF_TRY(nf_ivf_rows_convert(job->ctx, &rows, index->view.mean, job->rows));
    NF_TRY(index->engine->ivf->search(job->ctx, &index->view, index->prepared, job->rows, job->count, &job->question,
                                      job->slots, job->values, &job->counters));
    const double started = nf_now();
    NF_TRY(nf_pool_run(job->ctx, deliver_task, job, (job->count + TASK_QUERIES - 1) / TASK_QUERIES));
    job->counters.seconds[NF_IVF_STEP_RERANK] += nf_now() - started;
    return NF_OK;
}

/* Queries in blocks of at most an eighth of the memory left. */
static nf_status open_blocks(search_job *job)
{
    nf_context        *ctx = job->ctx;
    const nf_ivf_view *view = &job->index->view;
    const nf_memory   *memory = nf_context_memory(ctx);
    const uint32_t     candidates = job->question.k;
    const uint64_t     row_bytes = (uint64_t)view->dims * sizeof(float) + (uint64_t)candidates * 12;
    uint64_t           bytes = BLOCK_BYTES;

    if (nf_memory_limit(memory) != 0) {
        const uint64_t limit = nf_memory_limit(memory), used = nf_memory_used(memory);
        const uint64_t left = limit > used ? limit - used : 0;
        if (bytes > left / 8) bytes = left / 8;
        if (bytes < LEAST_BLOCK_BYTES) bytes = LEAST_BLOCK_BYTES;
    }
    job->block_rows = bytes / row_bytes + 1;
    if (job->block_rows > MOST_BLOCK_ROWS) job->block_rows = MOST_BLOCK_ROWS;
    if (job->block_rows > job->queries->rows) job->block_rows = job->queries->rows;
    const uint32_t workers = nf_pool_workers(ctx, (job->block_rows + TASK_QUERIES - 1) / TASK_QUERIES);
    job->rows = nf_alloc(ctx, job->block_rows, view->dims * sizeof *job->rows);
    job->slots = nf_alloc(ctx, job->block_rows, candidates * sizeof *job->slots);
    job->values = nf_alloc(ctx, job->block_rows, candidates * sizeof *job->values);
    job->hits = nf_alloc(ctx, workers, candidates * sizeof *job->hits);
    job->pair = nf_alloc(ctx, job->params.rerank != 0 ? workers : 0, 2 * view->dims * sizeof *job->pair);
    if (job->index->ip_length > 0.0) {
        job->factors = nf_alloc(ctx, job->block_rows, sizeof *job->factors);
        if (job->factors == NULL) return nf_alloc_status(ctx);
    }
    if (job->rows == NULL || job->slots == NULL || job->values == NULL || job->hits == NULL || job->pair == NULL) {
        return nf_alloc_status(ctx);
    }
    return NF_OK;
}

static void close_blocks(search_job *job)
{
    nf_free(job->rows);
    nf_free(job->slots);
    nf_free(job->values);
    nf_free(job->factors);
    nf_free(job->hits);
    nf_free(job->pair);
}

/* From queries to results by the engine alone. */
static nf_status answer(search_job *job)
{
    const nf_ivf_index  *index = job->index;
    const nf_ivf_results results = {
        .ids = job->ids,
        .distances = job->distances,
        .counts = job->counts,
        .place = job->params.results_place,
        .stream = job->params.stream,
    };
    return index->engine->ivf->answer(job->ctx, &index->view, index->prepared, job->queries, &job->question,
                                      index->ip_length, &results, &job->counters);
}

static nf_status answer_by_blocks(search_job *job)
{
    nf_status status = open_blocks(job);
    while (status >= 0 && job->first < job->queries->rows) {
        const uint64_t left = job->queries->rows - job->first;
        job->count = left < job->block_rows ? left : job->block_rows;
        status = search_block(job);
        job->first += job->count;
    }
    close_blocks(job);
    return status;
}

static uint32_t choose_probes(const nf_ivf_index *index, const nf_ivf_search_params *params)
{
    const uint32_t lists = index->view.lists, points = index->recall_points;
    uint32_t       probes = params->probes;
    if (probes == 0 && points == 0) probes = 32 + lists / 32;
    if (probes == 0) {
        double   wanted = 0.0;
        uint32_t entry = 0;
        for (uint32_t i = 0; i < points; i++) wanted = fmax(wanted, index->recall[i].recall);
        wanted = fmin(wanted >= params->recall ? wanted : wanted - NEARLY, params->recall);
        while (entry + 1 < points && index->recall[entry].recall < wanted) entry++;
        probes = index->recall[entry].probes;
    }
    return probes < lists ? probes : lists;
}

/* Whether the engine does the whole search. */
static bool answers(const search_job *job)
{
    return job->index->engine->ivf->answer != NULL && job->params.rerank == 0;
}

/* Values on a device must be aligned: there a misaligned access ends all work of the process. */
static nf_status check_alignment(const search_job *job, const char *what, const void *data, const nf_matrix *matrix)
{
    const uint64_t bytes = nf_dtype_bytes((nf_dtype)matrix->dtype);
    if ((uintptr_t)data % bytes == 0 && matrix->stride_bytes % bytes == 0) return NF_OK;
    return nf_fail(job->ctx, NF_ERR_ARGUMENT,
                   "%s: on the device, address and stride must be multiples of the %llu bytes of a value", what,
                   (unsigned long long)bytes);
}

/* What only an engine with a device can do. */
static nf_status check_device(const search_job *job)
{
    const nf_ivf_search_params *params = &job->params;
    const char                 *name = job->index->engine->name;
    const bool on_device = job->queries->place != NF_PLACE_HOST || params->results_place != NF_PLACE_HOST;
    if (on_device && job->index->engine->ivf->answer == NULL) {
        return nf_fail(job->ctx, NF_ERR_UNSUPPORTED, "the %s engine needs queries and results in host memory", name);
    }
    if (on_device && params->rerank != 0) {
        return nf_fail(job->ctx, NF_ERR_UNSUPPORTED, "rerank needs queries and results in host memory");
    }
    if (job->queries->place != NF_PLACE_HOST) NF_TRY(check_alignment(job, "queries", job->queries->data, job->queries));
    if (params->precision != NF_PRECISION_AUTO && job->index->engine->ivf->answer == NULL) {
        return nf_fail(job->ctx, NF_ERR_UNSUPPORTED, "the %s engine has the precision auto alone", name);
    }
    return NF_OK;
}

static nf_status check(search_job *job)
{
    nf_context                 *ctx = job->ctx;
    const nf_ivf_index         *index = job->index;
    const nf_ivf_search_params *params = &job->params;
    const nf_ivf_filter        *filter = params->filter;

    NF_TRY(nf_ivf_check_matrix(ctx, job->queries, "queries"));
    if (job->queries->dims != index->view.dims) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "queries have %u dims, the index has %u", job->queries->dims,
                       index->view.dims);
    }
    if (job->queries->rows > 0 && (job->ids == NULL || job->distances == NULL)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "ids or distances are NULL");
    }
    NF_TRY(check_device(job));
    if (params->rerank != 0 && index->view.vectors == NULL) {
        return nf_fail(ctx, NF_ERR_UNSUPPORTED, "rerank is %u, but the index was built without keep_vectors",
                       params->rerank);
    }
    if (filter != NULL &&
        (filter->file_id != index->info.file_id || filter->blocks != index->view.block_start[index->view.lists])) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "the filter was made for another index");
    }
    uint64_t candidates = params->rerank > params->k ? params->rerank : params->k;
    if (candidates > index->view.rows && !answers(job)) candidates = index->view.rows;
    job->question = (nf_ivf_question){
        .k = (uint32_t)candidates,
        .probes = choose_probes(index, params),
        .epsilon0 = params->epsilon0,
        .allowed = filter != NULL ? filter->allowed : NULL,
        .precision = params->precision,
    };
    return NF_OK;
}

static void fill_stats(const search_job *job, double started, nf_ivf_search_stats *stats)
{
    nf_ivf_search_stats full = {
        .probes = job->question.probes, .scanned = job->counters.scanned, .refined = job->counters.refined};
    if (stats == NULL) return;
    full.struct_size = stats->struct_size;
    full.seconds = nf_now() - started;
    memcpy(full.step_seconds, job->counters.seconds, sizeof full.step_seconds);
    memcpy(stats, &full, stats->struct_size < sizeof full ? stats->struct_size : sizeof full);
}

nf_status nf_ivf_search(nf_context *ctx, const nf_ivf_index *index, const nf_matrix *queries,
                        const nf_ivf_search_params *params, int64_t *ids, float *distances, uint32_t *counts,
                        nf_ivf_search_stats *stats)
{
    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    if (index == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "index is NULL");
    search_job job = {
        .ctx = ctx, .index = index, .queries = queries, .ids = ids, .distances = distances, .counts = counts};
    const double started = nf_now();

    NF_TRY(nf_ivf_search_params_take(ctx, params, &job.params));
    NF_TRY(check(&job));
    nf_progress_begin(ctx, "search", queries->rows);
    const nf_status status = answers(&job) ? answer(&job) : answer_by_blocks(&job);
    if (status >= 0) fill_stats(&job, started, stats);
    return status;
}
