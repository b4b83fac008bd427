/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest rows of some rows of the data, for measuring recall. The device compares them with all rows in products
 * of binary32 precision and names the nearest of every block, SPARE_CANDIDATES more than are wanted; the host ranks
 * these by exact distances. A true neighbour would be missed only if that many rows of its block were nearer by the
 * device's rounding alone.
 */
#include <stdlib.h>
#include <string.h>

#include "core/core_pool.h"
#include "cuda_ivf_source.h"
#include "cuda_staging.h"
#include "engine/engine_ivf_rows.h"
#include "kernels/k_encode.h"
#include "kernels/k_products.h"
#include "kernels/k_scan.h"
#include "matrix/matrix_convert.h"
#include "matrix/matrix_metric.h"
#include "nearfield/neighbours.h"

#define SPARE_CANDIDATES 24u /* beyond k, per block */

typedef struct found {
    double  distance;
    int64_t id;
} found;

typedef struct truth {
    nf_ivf_source  *source;
    const uint64_t *numbers;
    uint64_t        count;
    uint32_t        k, candidates;
    uint64_t        blocks_count;
    uint64_t        group; /* rows asked for that are compared at a time */
    nf_blocks       taken;
    float          *mean; /* what the source took away */
    float          *queries, *offsets, *values;
    uint32_t       *lists; /* count x candidates: of a block, on the device */
    void           *scratch;
    uint32_t       *named;    /* blocks x count x candidates: rows of the data */
    uint32_t       *named_of; /* blocks: how many each */
    found          *sorted;   /* per worker */
    double         *rows;     /* per worker: two */
    int64_t        *ids;
    double         *distances;
} truth;

static uint64_t values_stride(const nf_ivf_source *source)
{
    return (source->most + 3) / 4 * 4;
}

static nf_status open_truth(nf_context *ctx, truth *at)
{
    const nf_ivf_source *source = at->source;
    const uint32_t       dims = source->data->dims;

    at->taken = (nf_blocks){.device = source->blocks.device, .stream = source->blocks.stream};
    at->blocks_count = (source->data->rows + source->most - 1) / source->most;
    NF_TRY(nf_blocks_take(ctx, &at->taken, at->count * source->stride, sizeof(float), &at->queries));
    NF_TRY(nf_blocks_take(ctx, &at->taken, source->most, sizeof(float), &at->offsets));
    const uint64_t fit = nf_device_memory_left(ctx, at->taken.device) / 8 / (values_stride(source) * sizeof(float));
    at->group = fit < 1 ? 1 : fit < at->count ? fit : at->count;
    const uint64_t scratch = nf_k_nearest_scratch((uint32_t)at->group, (uint32_t)source->most, at->candidates);
    NF_TRY(nf_blocks_take(ctx, &at->taken, at->group * values_stride(source), sizeof(float), &at->values));
    NF_TRY(nf_blocks_take(ctx, &at->taken, at->group * at->candidates, sizeof(uint32_t), &at->lists));
    NF_TRY(nf_blocks_take(ctx, &at->taken, scratch, 1, &at->scratch));
    at->mean = nf_alloc(ctx, dims, sizeof *at->mean);
    if (at->mean == NULL) return nf_alloc_status(ctx);
    memcpy(at->mean, source->host_mean, dims * sizeof *at->mean);
    at->named = nf_alloc(ctx, at->blocks_count * at->count, at->candidates * sizeof *at->named);
    at->named_of = nf_alloc(ctx, at->blocks_count, sizeof *at->named_of);
    const uint32_t workers = nf_pool_workers(ctx, at->count);
    at->sorted = nf_alloc(ctx, workers, at->blocks_count * at->candidates * sizeof *at->sorted);
    at->rows = nf_alloc(ctx, workers, 2 * dims * sizeof *at->rows);
    return at->named == NULL || at->named_of == NULL || at->sorted == NULL || at->rows == NULL ? nf_alloc_status(ctx)
                                                                                               : NF_OK;
}

static void close_truth(truth *at)
{
    nf_blocks_free(&at->taken);
    nf_free(at->mean);
    nf_free(at->named);
    nf_free(at->named_of);
    nf_free(at->sorted);
    nf_free(at->rows);
}

/* The rows asked for, as index rows. */
static nf_status load_queries(nf_context *ctx, truth *at)
{
    nf_ivf_source    *source = at->source;
    const uint32_t    dims = source->data->dims;
    const nf_ivf_rows rows = {
        .matrix = source->data, .what = "data", .metric = source->metric, .count = at->count, .numbers = at->numbers};
    float *values = nf_alloc(ctx, at->count, dims * sizeof *values);
    if (values == NULL) return nf_alloc_status(ctx);
    nf_status status = nf_ivf_rows_convert(ctx, &rows, source->has_mean ? at->mean : NULL, values);
    if (status >= 0) {
        status = nf_ivf_upload_floats(ctx, &source->blocks, values, at->count, dims, source->stride, at->queries);
    }
    nf_free(values);
    return status;
}

/* What orders rows beside the product: |x|^2 / 2, or under IP the mean's part -<mean, x>. */
static nf_status make_offsets(nf_context *ctx, truth *at)
{
    nf_ivf_source *source = at->source;
    const uint32_t dims = source->data->dims;
    if (source->metric != NF_METRIC_IP) {
        NF_CUDA(ctx, nf_k_half_squares(source->rows, (uint32_t)source->count, dims, source->stride, at->offsets,
                                       source->blocks.stream));
        return NF_OK;
    }
    const nf_k_products job = {.x = source->mean,
                               .y = source->rows,
                               .x_rows = 1,
                               .y_rows = (uint32_t)source->count,
                               .dims = dims,
                               .x_stride = source->stride,
                               .y_stride = source->stride,
                               .precise = true};
    NF_CUDA(ctx, nf_k_values(&job, at->offsets, source->count, source->blocks.stream));
    return NF_OK;
}

/* The nearest rows of the block to some of the rows asked for; to: their numbers in the block. */
static nf_status search_group(nf_context *ctx, truth *at, uint64_t first, uint64_t count, uint32_t named, uint32_t *to)
{
    const nf_ivf_source *source = at->source;
    const cudaStream_t   stream = source->blocks.stream;
    const uint32_t       rows = (uint32_t)source->count;
    const nf_k_products  job = {.x = at->queries + first * source->stride,
                                .y = source->rows,
                                .x_rows = (uint32_t)count,
                                .y_rows = rows,
                                .dims = source->data->dims,
                                .x_stride = source->stride,
                                .y_stride = source->stride,
                                .offset = at->offsets,
                                .precise = true};
    nf_k_turns           turns = {.count = (uint32_t)count, .probes = named, .list = at->lists};

    NF_CUDA(ctx, nf_k_values(&job, at->values, values_stride(source), stream));
    NF_CUDA(ctx, nf_k_nearest_lists(at->values, values_stride(source), rows, &turns, at->scratch, stream));
    return nf_download(ctx, source->blocks.device, stream, to, at->lists, count * named * sizeof *to);
}

static nf_status search_block(nf_context *ctx, truth *at, uint64_t block)
{
    nf_ivf_source *source = at->source;
    const uint32_t named = at->candidates < source->count ? at->candidates : (uint32_t)source->count;
    uint32_t      *to = at->named + block * at->count * at->candidates;

    NF_TRY(make_offsets(ctx, at));
    for (uint64_t first = 0; first < at->count; first += at->group) {
        const uint64_t count = at->count - first < at->group ? at->count - first : at->group;
        NF_TRY(search_group(ctx, at, first, count, named, to + first * named));
    }
    NF_TRY(nf_source_prefetch(ctx, source));
    at->named_of[block] = named;
    for (uint64_t i = 0; i < at->count * named; i++) to[i] += (uint32_t)source->first;
    return NF_OK;
}

static int by_distance(const void *a, const void *b)
{
    const found *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Task: the exact distances of a row asked for and all candidates. */
static nf_status rank_task(void *arg, uint64_t task, uint32_t worker)
{
    const truth     *at = arg;
    const nf_matrix *data = at->source->data;
    found           *sorted = at->sorted + worker * at->blocks_count * at->candidates;
    double          *query = at->rows + (size_t)worker * 2 * data->dims, *row = query + data->dims;
    uint32_t         count = 0;

    nf_matrix_row_f64(data, at->numbers[task], query);
    for (uint64_t block = 0; block < at->blocks_count; block++) {
        const uint32_t *named = at->named + block * at->count * at->candidates + task * at->named_of[block];
        for (uint32_t i = 0; i < at->named_of[block]; i++) {
            nf_matrix_row_f64(data, named[i], row);
            sorted[count++] = (found){nf_metric_distance(at->source->metric, row, query, data->dims), named[i]};
        }
    }
    qsort(sorted, count, sizeof *sorted, by_distance);
    for (uint32_t j = 0; j < at->k; j++) {
        at->ids[task * at->k + j] = sorted[j].id;
        at->distances[task * at->k + j] = sorted[j].distance;
    }
    return NF_OK;
}

static nf_status run_truth(nf_context *ctx, truth *at)
{
    nf_ivf_source *source = at->source;
    uint64_t       count = 0;

    NF_TRY(open_truth(ctx, at));
    NF_TRY(load_queries(ctx, at));
    for (uint64_t first = 0, block = 0; first < source->data->rows; first += count, block++) {
        NF_TRY(nf_cuda_ivf_load(ctx, source, at->source->has_mean ? at->mean : NULL, first, &count));
        NF_TRY(search_block(ctx, at, block));
        NF_TRY(nf_progress_poll(ctx));
    }
    return nf_pool_run(ctx, rank_task, at, at->count);
}

nf_status nf_cuda_ivf_truth(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count, uint32_t k,
                            int64_t *ids, double *distances)
{
    truth    at = {.source = source,
                   .numbers = numbers,
                   .count = count,
                   .k = k,
                   .candidates = k + SPARE_CANDIDATES,
                   .ids = ids,
                   .distances = distances};
    uint64_t most;
    NF_TRY(nf_device_enter(ctx, source->blocks.device));
    if (source->rows == NULL) NF_TRY(nf_cuda_ivf_block_rows(ctx, source, &most));
    const nf_status status = run_truth(ctx, &at);
    close_truth(&at);
    nf_source_unload(source);
    return status;
}
