/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of a build on the device. Rows that fit into half of the memory left are uploaded once, as they came, and
 * stay. Of others two blocks take turns: while the device works on one, the host's threads upload the next, in the
 * order of rows.
 */
#include "cuda_ivf_source.h"

#include <string.h>

#include "core/core_pool.h"
#include "cuda_staging.h"
#include "engine/engine_ivf_rows.h"
#include "kernels/k_encode.h"
#include "kernels/k_move.h"
#include "kernels/k_products.h"
#include "matrix/matrix_convert.h"
#include "nearfield/neighbours.h"

#define BLOCK_BYTES ((uint64_t)512 << 20) /* of a block as index rows, at most */
#define LEAST_BLOCK_ROWS 64u
#define PIECE_BYTES                                                                                   \
    ((uint64_t)64 << 20) /* of a sample on its way through the host, and an eighth of the memory left \
                          */
#define GATHER_ROWS 64u  /* per task */

/* ---- floats between host and device, with another row length there ---- */

nf_status nf_ivf_upload_floats(nf_context *ctx, nf_blocks *blocks, const float *rows, uint64_t count, uint32_t dims,
                               uint32_t stride, float *to)
{
    const uint64_t bytes = dims * sizeof *rows;
    nf_blocks      packed = {.device = blocks->device, .stream = blocks->stream};
    float         *values = NULL;

    if (dims == stride) return nf_upload_rows(ctx, blocks->device, blocks->stream, to, rows, count, bytes, bytes);
    nf_status status = nf_blocks_take(ctx, &packed, count, bytes, &values);
    if (status >= 0) status = nf_upload_rows(ctx, packed.device, packed.stream, values, rows, count, bytes, bytes);
    if (status >= 0) {
        const cudaError_t error = nf_k_change_stride(values, dims, (uint32_t)count, dims, to, stride, packed.stream);
        status = nf_cuda_check(ctx, error, "nf_k_change_stride");
    }
    nf_blocks_free(&packed);
    return status;
}

nf_status nf_ivf_download_floats(nf_context *ctx, nf_blocks *blocks, const float *from, uint64_t count, uint32_t dims,
                                 uint32_t stride, float *rows)
{
    nf_blocks packed = {.device = blocks->device, .stream = blocks->stream};
    float    *values = NULL;

    if (dims == stride) {
        return nf_download(ctx, blocks->device, blocks->stream, rows, from, count * dims * sizeof *rows);
    }
    nf_status status = nf_blocks_take(ctx, &packed, count, dims * sizeof *values, &values);
    if (status >= 0) {
        const cudaError_t error = nf_k_change_stride(from, stride, (uint32_t)count, dims, values, dims, packed.stream);
        status = nf_cuda_check(ctx, error, "nf_k_change_stride");
    }
    if (status >= 0) status = nf_download(ctx, packed.device, packed.stream, rows, values, count * dims * sizeof *rows);
    nf_blocks_free(&packed);
    return status;
}

/* ---- opening ---- */

static nf_status open_source(nf_context *ctx, nf_ivf_source *source)
{
    const nf_matrix *data = source->data;
    nf_blocks       *blocks = &source->blocks;
    uint64_t         bytes = 0;

    NF_TRY(nf_device_open(ctx, &blocks->device));
    NF_CUDA(ctx, cudaStreamCreateWithFlags(&blocks->stream, cudaStreamNonBlocking));
    NF_CUDA(ctx, cudaStreamCreateWithFlags(&source->copies, cudaStreamNonBlocking));
    NF_TRY(nf_blocks_take(ctx, blocks, source->stride, sizeof(float), &source->mean));
    NF_CUDA(ctx,
            cudaMemsetAsync(source->mean, 0, source->stride * sizeof(float), blocks->stream)); /* beyond dims, too */
    NF_TRY(nf_blocks_take(ctx, blocks, 1, sizeof *source->invalid, &source->invalid));
    source->host_mean = nf_alloc_zero(ctx, data->dims, sizeof(float));
    if (source->host_mean == NULL) return nf_alloc_status(ctx);
    source->resident =
        nf_multiply(data->rows, source->row_bytes, &bytes) && bytes <= nf_device_memory_left(ctx, blocks->device) / 2;
    if (!source->resident) return NF_OK;
    NF_TRY(nf_blocks_take(ctx, blocks, bytes, 1, &source->raw[0]));
    return nf_upload_rows(ctx, blocks->device, blocks->stream, source->raw[0], data->data, data->rows,
                          source->row_bytes, source->pitch);
}

nf_status nf_cuda_ivf_source_open(nf_context *ctx, const nf_matrix *data, uint32_t metric, nf_ivf_source **out)
{
    nf_ivf_source *source = nf_alloc_zero(ctx, 1, sizeof *source);
    *out = NULL;
    if (source == NULL) return nf_alloc_status(ctx);
    source->data = data;
    source->metric = metric;
    source->stride = nf_ivf_stride(data->dims);
    source->row_bytes = data->dims * nf_dtype_bytes((nf_dtype)data->dtype);
    source->pitch = data->stride_bytes != 0 ? data->stride_bytes : source->row_bytes;
    const nf_status status = open_source(ctx, source);
    if (status < 0) {
        nf_cuda_ivf_source_close(source);
        return status;
    }
    *out = source;
    return NF_OK;
}

void nf_cuda_ivf_source_close(nf_ivf_source *source)
{
    if (source == NULL) return;
    nf_encoder_close(source->encoder);
    nf_free(source->encoder);
    if (source->copies != NULL) {
        (void)cudaStreamSynchronize(source->copies);
        (void)cudaStreamDestroy(source->copies);
    }
    nf_source_unload(source);
    nf_blocks_free(&source->blocks);
    if (source->blocks.stream != NULL) (void)cudaStreamDestroy(source->blocks.stream);
    nf_device_release(source->blocks.device);
    nf_free(source->host_mean);
    nf_free(source);
}

/* ---- values ---- */

static nf_k_raw_rows raw_rows(const nf_ivf_source *source, const void *raw)
{
    return (nf_k_raw_rows){.data = raw,
                           .stride_bytes = source->row_bytes,
                           .dtype = source->data->dtype,
                           .dims = source->data->dims,
                           .metric = source->metric};
}

static nf_status forget_invalid(nf_context *ctx, nf_ivf_source *source)
{
    return nf_cuda_check(ctx, cudaMemsetAsync(source->invalid, 0xff, sizeof *source->invalid, source->blocks.stream),
                         "cudaMemsetAsync");
}

/* Names the value that the device met in row `first + i`, or in numbers[i]: by the host's own look at that row. */
static nf_status check_invalid(nf_context *ctx, nf_ivf_source *source, uint64_t first, const uint64_t *numbers)
{
    unsigned long long i;
    NF_TRY(nf_download(ctx, source->blocks.device, source->blocks.stream, &i, source->invalid, sizeof i));
    if (i == UINT64_MAX) return NF_OK;
    const uint64_t row = numbers != NULL ? numbers[i] : first + i;
    float         *values = nf_alloc(ctx, source->data->dims, sizeof *values);
    if (values == NULL) return nf_alloc_status(ctx);
    const nf_ivf_rows rows = {
        .matrix = source->data, .what = "data", .metric = source->metric, .first = row, .count = 1};
    const nf_status status = nf_ivf_rows_convert(ctx, &rows, NULL, values);
    nf_free(values);
    if (status < 0) return status;
    return nf_fail(ctx, NF_ERR_INTERNAL, "row %llu is not allowed for the device, but for the host",
                   (unsigned long long)row);
}

/* ---- sample ---- */

uint64_t nf_cuda_ivf_set_room(nf_context *ctx, const nf_ivf_source *source)
{
    return nf_device_memory_left(ctx, source->blocks.device) / 2 / nf_cuda_ivf_set_row_bytes(source->data->dims);
}

/* The mean, on the host: where rows have to be scaled, sums of the device would differ in the last bits. */
static nf_status mean_on_host(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count,
                              float *mean)
{
    const uint64_t    bytes = source->data->dims * sizeof *mean;
    const nf_ivf_rows rows = {
        .matrix = source->data, .what = "data", .metric = source->metric, .count = count, .numbers = numbers};
    NF_TRY(nf_ivf_rows_mean(ctx, &rows, mean));
    return nf_upload_rows(ctx, source->blocks.device, source->blocks.stream, source->mean, mean, 1, bytes, bytes);
}

static nf_status mean_on_device(nf_context *ctx, nf_ivf_source *source, const uint32_t *which, uint64_t count,
                                float *mean)
{
    const uint32_t dims = source->data->dims;
    nf_blocks      taken = {.device = source->blocks.device, .stream = source->blocks.stream};
    double        *parts = NULL;
    nf_status      status = nf_blocks_take(ctx, &taken, (uint64_t)nf_k_mean_parts() * dims, sizeof *parts, &parts);
    if (status >= 0) {
        status = nf_cuda_check(ctx,
                               nf_k_rows_mean(raw_rows(source, source->raw[0]), which, (uint32_t)count, parts,
                                              source->mean, source->invalid, taken.stream),
                               "nf_k_rows_mean");
    }
    if (status >= 0) status = nf_download(ctx, taken.device, taken.stream, mean, source->mean, dims * sizeof *mean);
    nf_blocks_free(&taken);
    return status;
}

/* All rows are on the device. */
static nf_status sample_resident(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count,
                                 float *mean, nf_ivf_set *set)
{
    nf_blocks taken = {.device = source->blocks.device, .stream = source->blocks.stream};
    uint32_t *host = nf_alloc(ctx, count, sizeof *host), *which = NULL;

    nf_status status = host == NULL ? nf_alloc_status(ctx) : nf_blocks_take(ctx, &taken, count, sizeof *which, &which);
    for (uint64_t i = 0; status >= 0 && i < count; i++) host[i] = (uint32_t)numbers[i];
    if (status >= 0) {
        status =
            nf_upload_rows(ctx, taken.device, taken.stream, which, host, 1, count * sizeof *host, count * sizeof *host);
    }
    if (status >= 0) status = forget_invalid(ctx, source);
    if (status >= 0) {
        status = source->metric == NF_METRIC_COSINE ? mean_on_host(ctx, source, numbers, count, mean)
                                                    : mean_on_device(ctx, source, which, count, mean);
    }
    if (status >= 0) {
        status = nf_cuda_check(ctx,
                               nf_k_index_rows(raw_rows(source, source->raw[0]), which, 0, (uint32_t)count,
                                               source->mean, 0.0, nf_cuda_ivf_set_values(set), source->stride, NULL,
                                               source->invalid, taken.stream),
                               "nf_k_index_rows");
    }
    if (status >= 0) status = check_invalid(ctx, source, 0, numbers);
    nf_blocks_free(&taken);
    nf_free(host);
    return status;
}

/* Rows on their way to the device, side by side. */
typedef struct gathering {
    const nf_ivf_source *source;
    const uint64_t      *numbers;
    uint64_t             count;
    uint8_t             *to;
} gathering;

static nf_status gather_task(void *arg, uint64_t task, uint32_t worker)
{
    const gathering *at = arg;
    const uint64_t   begin = task * GATHER_ROWS, left = at->count - begin;
    (void)worker;
    for (uint64_t i = begin; i < begin + (left < GATHER_ROWS ? left : GATHER_ROWS); i++) {
        memcpy(at->to + i * at->source->row_bytes,
               (const uint8_t *)at->source->data->data + at->numbers[i] * at->source->pitch, at->source->row_bytes);
    }
    return NF_OK;
}

/* A piece of the sample: gathered, uploaded, converted. */
static nf_status sample_piece(nf_context *ctx, nf_ivf_source *source, gathering *at, uint8_t *raw, float *values)
{
    NF_TRY(nf_pool_run(ctx, gather_task, at, (at->count + GATHER_ROWS - 1) / GATHER_ROWS));
    NF_TRY(nf_upload_rows(ctx, source->blocks.device, source->blocks.stream, raw, at->to, 1,
                          at->count * source->row_bytes, at->count * source->row_bytes));
    NF_CUDA(ctx, nf_k_index_rows(raw_rows(source, raw), NULL, 0, (uint32_t)at->count, source->mean, 0.0, values,
                                 source->stride, NULL, source->invalid, source->blocks.stream));
    NF_CUDA(ctx, cudaStreamSynchronize(source->blocks.stream)); /* the piece's memory on the host is used again */
    return NF_OK;
}

static nf_status sample_streamed(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count,
                                 float *mean, nf_ivf_set *set)
{
    nf_blocks taken = {.device = source->blocks.device, .stream = source->blocks.stream};
    uint64_t  most = nf_device_memory_left(ctx, taken.device) / 8;
    uint8_t  *raw = NULL;

    most = (most < PIECE_BYTES ? most : PIECE_BYTES) / source->row_bytes + 1;
    if (most > count) most = count;
    gathering at = {.source = source, .to = nf_alloc(ctx, most, source->row_bytes)};
    nf_status status =
        at.to == NULL ? nf_alloc_status(ctx) : nf_blocks_take(ctx, &taken, most, source->row_bytes, &raw);
    if (status >= 0) status = mean_on_host(ctx, source, numbers, count, mean); /* and looks at every value */
    for (uint64_t first = 0; status >= 0 && first < count; first += most) {
        at.numbers = numbers + first;
        at.count = count - first < most ? count - first : most;
        status = sample_piece(ctx, source, &at, raw, nf_cuda_ivf_set_values(set) + first * source->stride);
    }
    nf_blocks_free(&taken);
    nf_free(at.to);
    return status;
}

nf_status nf_cuda_ivf_sample(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count,
                             float *mean, nf_ivf_set **out)
{
    NF_TRY(nf_device_enter(ctx, source->blocks.device));
    NF_TRY(nf_cuda_ivf_set_new(ctx, count, source->data->dims, out));
    NF_CUDA(ctx,
            cudaStreamSynchronize(nf_cuda_ivf_set_blocks(*out)->stream)); /* its memory was ordered on its stream */
    nf_status status = (source->resident ? sample_resident : sample_streamed)(ctx, source, numbers, count, mean, *out);
    /* Also after a failure: the set goes, and its rows may still be written. */
    const nf_status last = nf_cuda_check(ctx, cudaStreamSynchronize(source->blocks.stream), "cudaStreamSynchronize");
    if (status >= 0) status = last;
    if (status < 0) {
        nf_cuda_ivf_set_close(*out);
        *out = NULL;
    }
    return status;
}

/* ---- blocks ---- */

/* A row of a block: twice as it came, as index row, rotated, its codes, and small change. */
nf_status nf_cuda_ivf_block_rows(nf_context *ctx, nf_ivf_source *source, uint64_t *most)
{
    nf_blocks     *blocks = &source->loaded;
    const uint64_t row = source->stride * sizeof(float);
    const uint64_t all = (source->resident ? 0 : 2 * source->row_bytes) + 4 * row + 256;
    uint64_t       rows = nf_device_memory_left(ctx, source->blocks.device) / 4 / all;

    *blocks = (nf_blocks){.device = source->blocks.device, .stream = source->blocks.stream};
    NF_TRY(nf_device_enter(ctx, blocks->device));
    if (rows > BLOCK_BYTES / row) rows = BLOCK_BYTES / row;
    if (rows < LEAST_BLOCK_ROWS) rows = LEAST_BLOCK_ROWS;
    if (rows > source->data->rows) rows = source->data->rows;
    source->most = rows;
    for (unsigned i = 0; !source->resident && i < 2; i++) {
        NF_TRY(nf_blocks_take(ctx, blocks, rows, source->row_bytes, &source->raw[i]));
        source->raw_count[i] = 0;
    }
    NF_TRY(nf_blocks_take(ctx, blocks, rows * source->stride, sizeof(float), &source->rows));
    NF_TRY(nf_blocks_take(ctx, blocks, rows, sizeof(uint32_t), &source->labels));
    NF_CUDA(ctx, cudaStreamSynchronize(blocks->stream)); /* another stream copies into the blocks */
    *most = rows;
    return NF_OK;
}

void nf_source_unload(nf_ivf_source *source)
{
    nf_blocks_free(&source->loaded);
    source->raw_count[0] = source->raw_count[1] = 0;
    source->rows = NULL;
}

static nf_status upload_block(nf_context *ctx, nf_ivf_source *source, unsigned turn, uint64_t first)
{
    const uint64_t left = source->data->rows - first, count = left < source->most ? left : source->most;
    if (source->raw_count[turn] == count && source->raw_first[turn] == first) return NF_OK;
    source->raw_count[turn] = 0;
    NF_TRY(nf_upload_rows(ctx, source->blocks.device, source->copies, source->raw[turn],
                          (const uint8_t *)source->data->data + first * source->pitch, count, source->row_bytes,
                          source->pitch));
    NF_CUDA(ctx, cudaStreamSynchronize(source->copies));
    source->raw_first[turn] = first;
    source->raw_count[turn] = count;
    return NF_OK;
}

nf_status nf_source_prefetch(nf_context *ctx, nf_ivf_source *source)
{
    const uint64_t next = source->first + source->count;
    if (source->resident || next >= source->data->rows) return NF_OK;
    return upload_block(ctx, source, 1 - source->turn, next);
}

static nf_status set_mean(nf_context *ctx, nf_ivf_source *source, const float *mean)
{
    const size_t bytes = source->data->dims * sizeof *mean;
    if (mean == NULL || (source->has_mean && memcmp(source->host_mean, mean, bytes) == 0)) return NF_OK;
    source->has_mean = true;
    memcpy(source->host_mean, mean, bytes);
    return nf_upload_rows(ctx, source->blocks.device, source->blocks.stream, source->mean, mean, 1, bytes, bytes);
}

nf_status nf_cuda_ivf_load(nf_context *ctx, nf_ivf_source *source, const float *mean, uint64_t first, uint64_t *count)
{
    const uint64_t left = source->data->rows - first;
    const uint8_t *raw = source->raw[0];

    NF_TRY(nf_device_enter(ctx, source->blocks.device));
    source->first = first;
    source->count = left < source->most ? left : source->most;
    NF_TRY(set_mean(ctx, source, mean));
    if (source->resident) {
        raw += first * source->row_bytes;
    } else {
        source->turn = 1 - source->turn;
        NF_TRY(upload_block(ctx, source, source->turn, first));
        raw = source->raw[source->turn];
    }
    NF_TRY(forget_invalid(ctx, source));
    NF_CUDA(ctx,
            nf_k_index_rows(raw_rows(source, raw), NULL, 0, (uint32_t)source->count, mean != NULL ? source->mean : NULL,
                            0.0, source->rows, source->stride, NULL, source->invalid, source->blocks.stream));
    *count = source->count;
    return check_invalid(ctx, source, first, NULL);
}

/* ---- assign ---- */

nf_status nf_cuda_ivf_use_centroids(nf_context *ctx, nf_ivf_source *source, const float *centroids, uint32_t lists)
{
    nf_blocks     *blocks = &source->loaded;
    const uint32_t dims = source->data->dims;

    NF_TRY(nf_device_enter(ctx, blocks->device));
    source->lists = lists;
    NF_TRY(nf_blocks_take(ctx, blocks, (uint64_t)lists * source->stride, sizeof(float), &source->centroids));
    NF_TRY(nf_blocks_take(ctx, blocks, lists, sizeof(float), &source->halves));
    NF_TRY(nf_ivf_upload_floats(ctx, blocks, centroids, lists, dims, source->stride, source->centroids));
    NF_CUDA(ctx, nf_k_half_squares(source->centroids, lists, dims, source->stride, source->halves, blocks->stream));
    return NF_OK;
}

nf_status nf_cuda_ivf_assign(nf_context *ctx, nf_ivf_source *source, uint32_t *labels)
{
    const nf_k_products job = {
        .x = source->rows,
        .y = source->centroids,
        .x_rows = (uint32_t)source->count,
        .y_rows = source->lists,
        .dims = source->data->dims,
        .x_stride = source->stride,
        .y_stride = source->stride,
        .offset = source->halves,
        .precise = true,
    };
    NF_TRY(nf_device_enter(ctx, source->blocks.device));
    NF_CUDA(ctx, nf_k_nearest(&job, source->labels, NULL, source->blocks.stream));
    NF_TRY(nf_source_prefetch(ctx, source));
    return nf_download(ctx, source->blocks.device, source->blocks.stream, labels, source->labels,
                       source->count * sizeof *labels);
}
