/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of a build: blocks of rows, converted by all threads, small enough to stay in the caches' reach and inside
 * an eighth of the memory that is left.
 */
#include "cpu_ivf_source.h"

#include <string.h>

#include "cpu_knn.h"
#include "engine/engine_ivf_rows.h"
#include "matrix/matrix_convert.h"

#define BLOCK_BYTES (8u << 20) /* of a block of rows, at most: this and 2 MB per thread */
#define BLOCK_BYTES_THREAD (2u << 20)
#define LEAST_BLOCK_BYTES (64u << 10)

struct nf_ivf_source {
    const nf_matrix *data;
    uint32_t         metric;
    uint64_t         most;           /* rows of a block */
    uint64_t         first, count;   /* the block */
    float           *rows, *rotated; /* rotated: as wide as the first encode asks for */
    nf_centroids     centroids;
};

static nf_ivf_rows rows_of(const nf_ivf_source *source, uint64_t first, uint64_t count)
{
    return (nf_ivf_rows){
        .matrix = source->data, .what = "data", .metric = source->metric, .first = first, .count = count};
}

nf_status nf_cpu_ivf_source_open(nf_context *ctx, const nf_matrix *data, uint32_t metric, nf_ivf_source **out)
{
    nf_ivf_source *source = *out = nf_alloc_zero(ctx, 1, sizeof *source);
    if (source == NULL) return nf_alloc_status(ctx);
    source->data = data;
    source->metric = metric;
    return NF_OK;
}

void nf_cpu_ivf_source_close(nf_ivf_source *source)
{
    if (source == NULL) return;
    nf_free(source->rows);
    nf_free(source->rotated);
    nf_centroids_close(&source->centroids);
    nf_free(source);
}

/* What memory holds, src/ivf has seen to. */
uint64_t nf_cpu_ivf_set_room(nf_context *ctx, const nf_ivf_source *source)
{
    (void)ctx;
    return source->data->rows;
}

nf_status nf_cpu_ivf_sample(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count,
                            float *mean, nf_ivf_set **out)
{
    nf_ivf_rows rows = rows_of(source, 0, count);
    float      *values = nf_alloc(ctx, count, source->data->dims * sizeof *values);

    *out = NULL;
    if (values == NULL) return nf_alloc_status(ctx);
    rows.numbers = numbers;
    nf_status status = nf_ivf_rows_mean(ctx, &rows, mean);
    if (status >= 0) status = nf_ivf_rows_convert(ctx, &rows, mean, values);
    if (status < 0) {
        nf_free(values);
        return status;
    }
    return nf_cpu_ivf_set_new(ctx, values, count, source->data->dims, out);
}

nf_status nf_cpu_ivf_block_rows(nf_context *ctx, nf_ivf_source *source, uint64_t *most)
{
    const nf_memory *memory = nf_context_memory(ctx);
    const uint32_t   dims = source->data->dims;
    const uint64_t   row_bytes =
        2ull * dims * sizeof(float) + 48; /* rotated rows are up to 7 values longer; and 16 for the caller */
    uint64_t bytes = BLOCK_BYTES + (uint64_t)nf_context_threads(ctx) * BLOCK_BYTES_THREAD;

    if (nf_memory_limit(memory) != 0) {
        const uint64_t limit = nf_memory_limit(memory), used = nf_memory_used(memory);
        const uint64_t left = limit > used ? limit - used : 0;
        if (bytes > left / 8) bytes = left / 8;
        if (bytes < LEAST_BLOCK_BYTES) bytes = LEAST_BLOCK_BYTES;
    }
    source->most = bytes / row_bytes + 1;
    if (source->most > source->data->rows) source->most = source->data->rows;
    nf_free(source->rows);
    source->rows = nf_alloc(ctx, source->most, dims * sizeof(float));
    if (source->rows == NULL) return nf_alloc_status(ctx);
    *most = source->most;
    return NF_OK;
}

nf_status nf_cpu_ivf_load(nf_context *ctx, nf_ivf_source *source, const float *mean, uint64_t first, uint64_t *count)
{
    const uint64_t left = source->data->rows - first;
    source->first = first;
    source->count = left < source->most ? left : source->most;
    *count = source->count;
    const nf_ivf_rows rows = rows_of(source, first, source->count);
    return nf_ivf_rows_convert(ctx, &rows, mean, source->rows);
}

nf_status nf_cpu_ivf_use_centroids(nf_context *ctx, nf_ivf_source *source, const float *centroids, uint32_t lists)
{
    nf_centroids_close(&source->centroids);
    return nf_centroids_open(ctx, centroids, lists, source->data->dims, &source->centroids);
}

nf_status nf_cpu_ivf_source_assign(nf_context *ctx, nf_ivf_source *source, uint32_t *labels)
{
    return nf_centroids_assign(ctx, &source->centroids, source->rows, source->count, labels);
}

nf_status nf_cpu_ivf_source_encode(nf_context *ctx, nf_ivf_source *source, const nf_ivf_encode_job *job)
{
    const nf_rotation_map *map = &job->view->rotation;
    if (source->rotated == NULL) {
        source->rotated = nf_alloc(ctx, source->most, map->padded * sizeof(float));
        if (source->rotated == NULL) return nf_alloc_status(ctx);
    }
    NF_TRY(nf_cpu_ivf_rotate(ctx, map, source->rows, source->count, source->rotated));
    return nf_cpu_ivf_encode(ctx, job, source->rotated, source->count);
}

nf_status nf_cpu_ivf_encode_end(nf_context *ctx, nf_ivf_source *source)
{
    (void)ctx; /* everything is in its place */
    nf_free(source->rows);
    nf_free(source->rotated);
    source->rows = source->rotated = NULL;
    return NF_OK;
}

nf_status nf_cpu_ivf_truth(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count, uint32_t k,
                           int64_t *ids, double *distances)
{
    const nf_matrix    *data = source->data;
    const size_t        bytes = data->dims * nf_dtype_bytes((nf_dtype)data->dtype);
    const nf_knn_params params = {.struct_size = sizeof params, .k = k, .metric = source->metric};
    nf_knn_stats        stats = {.struct_size = sizeof stats};
    uint8_t            *raw = nf_alloc(ctx, count, bytes);

    if (raw == NULL) return nf_alloc_status(ctx);
    for (uint64_t i = 0; i < count; i++) memcpy(raw + i * bytes, nf_matrix_row(data, numbers[i]), bytes);
    const nf_matrix queries = {.data = raw, .rows = count, .dims = data->dims, .dtype = data->dtype};
    const nf_status status = nf_cpu_knn(ctx, data, &queries, &params, ids, distances, NULL, &stats);
    nf_free(raw);
    return status;
}
