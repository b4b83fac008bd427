/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding on the device, all rows of a block in one launch per step (arXiv:2602.23999, section 3.2). The codes of a
 * block come as flat rows, in the order of the data. Where the whole index fits into the device, they are put to their
 * places there and fetched at the end; else the host's threads put them to their places, block by block.
 */
#include <math.h>
#include <string.h>

#include "core/core_pool.h"
#include "cuda_ivf_source.h"
#include "cuda_staging.h"
#include "kernels/k_encode.h"

#define ROWS_PER_TASK 256u

void nf_encoder_close(nf_encoder *encoder)
{
    if (encoder == NULL) return;
    nf_blocks_free(&encoder->scratch);
    nf_blocks_free(&encoder->arrays);
}

nf_status nf_device_rotation_open(nf_context *ctx, nf_blocks *blocks, const nf_rotation_map *map,
                                  nf_device_rotation *out)
{
    const uint64_t signs = (uint64_t)NF_IVF_ROUNDS * map->padded / 8, values = (uint64_t)map->padded * map->padded;
    *out = (nf_device_rotation){.map = *map};
    if (map->kind == NF_ROTATION_FAST) {
        NF_TRY(nf_blocks_take(ctx, blocks, signs, 1, &out->signs));
        return nf_upload_rows(ctx, blocks->device, blocks->stream, out->signs, map->signs, 1, signs, signs);
    }
    NF_TRY(nf_blocks_take(ctx, blocks, values, sizeof(float), &out->matrix));
    return nf_upload_rows(ctx, blocks->device, blocks->stream, out->matrix, map->matrix, 1, values * sizeof(float),
                          values * sizeof(float));
}

static nf_status open_scratch(nf_context *ctx, nf_ivf_source *source, nf_encoder *encoder, const nf_ivf_view *view)
{
    const uint64_t rows = source->most;
    nf_blocks     *scratch = &encoder->scratch;
    NF_TRY(nf_blocks_take(ctx, scratch, rows * nf_ivf_stride(view->padded), sizeof(float), &encoder->rotated));
    NF_TRY(nf_blocks_take(ctx, scratch, rows, nf_k_flat_bytes(view->padded, view->bits), &encoder->flat));
    NF_TRY(nf_blocks_take(ctx, scratch, rows, sizeof(uint32_t), &encoder->labels));
    NF_TRY(nf_blocks_take(ctx, scratch, rows, sizeof(uint32_t), &encoder->slots));
    NF_TRY(nf_blocks_take(ctx, scratch, rows, sizeof(double), &encoder->code_errors));
    return nf_blocks_take(ctx, scratch, 1, sizeof *encoder->too_far, &encoder->too_far);
}

static nf_status open_arrays(nf_context *ctx, nf_encoder *encoder, const nf_ivf_view *view)
{
    nf_blocks     *arrays = &encoder->arrays;
    const uint64_t starts = ((uint64_t)view->lists + 1) * sizeof(uint64_t), padded = view->padded * sizeof(float);

    NF_TRY(nf_device_rotation_open(ctx, arrays, &view->rotation, &encoder->rotation));
    NF_TRY(nf_blocks_copy(ctx, arrays, view->centroids, view->lists * padded, &encoder->centroids));
    NF_TRY(nf_blocks_copy(ctx, arrays, view->mean_rotated, padded, &encoder->mean));
    NF_TRY(nf_blocks_copy(ctx, arrays, view->list_start, starts, &encoder->list_start));
    NF_TRY(nf_blocks_copy(ctx, arrays, view->block_start, starts, &encoder->block_start));
    encoder->block_bytes = view->block_start[view->lists] * nf_ivf_block_bytes(view->padded);
    encoder->record_bytes = view->rows * nf_ivf_record_bytes(view->padded, view->bits);
    encoder->on_device =
        encoder->block_bytes + encoder->record_bytes <= nf_device_memory_left(ctx, arrays->device) / 8 * 7;
    if (!encoder->on_device) return NF_OK;
    NF_TRY(nf_blocks_take(ctx, arrays, encoder->block_bytes, 1, &encoder->blocks));
    NF_TRY(nf_blocks_take(ctx, arrays, encoder->record_bytes, 1, &encoder->records));
    NF_CUDA(ctx, cudaMemsetAsync(encoder->blocks, 0, encoder->block_bytes, arrays->stream));
    return NF_OK;
}

static nf_status begin(nf_context *ctx, nf_ivf_source *source, const nf_ivf_encode_job *job)
{
    nf_encoder *encoder = nf_alloc_zero(ctx, 1, sizeof *encoder);
    if (encoder == NULL) return nf_alloc_status(ctx);
    source->encoder = encoder;
    encoder->arrays = encoder->scratch = (nf_blocks){.device = source->blocks.device, .stream = source->blocks.stream};
    encoder->host_blocks = job->blocks;
    encoder->host_records = job->records;
    NF_TRY(open_scratch(ctx, source, encoder, job->view));
    return open_arrays(ctx, encoder, job->view);
}

/* ---- flat rows to their places, by the host ---- */

typedef struct placing {
    const nf_ivf_encode_job *job;
    const uint8_t           *flat;
    uint64_t                 count;
} placing;

static void place_row(const placing *at, uint64_t i)
{
    const nf_ivf_view *view = at->job->view;
    const uint32_t     rows = view->padded / 8, list = at->job->labels[i], slot = at->job->slots[i] % NF_IVF_BLOCK;
    const size_t       record = nf_ivf_record_bytes(view->padded, view->bits);
    const uint8_t     *flat = at->flat + i * nf_k_flat_bytes(view->padded, view->bits);
    uint8_t           *block = at->job->blocks +
                     (view->block_start[list] + at->job->slots[i] / NF_IVF_BLOCK) * nf_ivf_block_bytes(view->padded);
    uint8_t *factors = block + (size_t)rows * NF_IVF_BLOCK;

    for (uint32_t row = 0; row < rows; row++) block[(size_t)row * NF_IVF_BLOCK + slot] = flat[row];
    memcpy(factors + 4 * slot, flat + rows, 4);
    memcpy(factors + 4 * (NF_IVF_BLOCK + slot), flat + rows + 4, 4);
    memcpy(factors + 8 * NF_IVF_BLOCK + 2 * slot, flat + rows + 8, 2);
    if (record > 0)
        memcpy(at->job->records + (view->list_start[list] + at->job->slots[i]) * record, flat + rows + 10, record);
}

static nf_status place_task(void *arg, uint64_t task, uint32_t worker)
{
    const placing *at = arg;
    const uint64_t begin_row = task * ROWS_PER_TASK, left = at->count - begin_row;
    (void)worker;
    for (uint64_t i = 0; i < left && i < ROWS_PER_TASK; i++) place_row(at, begin_row + i);
    return NF_OK;
}

static nf_status place_on_host(nf_context *ctx, nf_ivf_source *source, const nf_ivf_encode_job *job)
{
    const nf_encoder *encoder = source->encoder;
    const size_t      bytes = nf_k_flat_bytes(job->view->padded, job->view->bits);
    uint8_t          *flat = nf_alloc(ctx, source->count, bytes);
    const placing     at = {job, flat, source->count};

    if (flat == NULL) return nf_alloc_status(ctx);
    nf_status status =
        nf_download(ctx, source->blocks.device, source->blocks.stream, flat, encoder->flat, source->count * bytes);
    if (status >= 0) {
        status =
            nf_pool_run(ctx, place_task, (void *)(uintptr_t)&at, (source->count + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
    }
    nf_free(flat);
    return status;
}

/* ---- a block ---- */

static nf_status upload_places(nf_context *ctx, nf_ivf_source *source, const nf_ivf_encode_job *job)
{
    const nf_encoder *encoder = source->encoder;
    const uint64_t    bytes = source->count * sizeof(uint32_t);
    NF_TRY(nf_upload_rows(ctx, source->blocks.device, source->blocks.stream, encoder->labels, job->labels, 1, bytes,
                          bytes));
    return nf_upload_rows(ctx, source->blocks.device, source->blocks.stream, encoder->slots, job->slots, 1, bytes,
                          bytes);
}

static nf_status launch(nf_context *ctx, nf_ivf_source *source, const nf_ivf_view *view)
{
    const nf_encoder  *encoder = source->encoder;
    const cudaStream_t stream = source->blocks.stream;
    const uint32_t     count = (uint32_t)source->count, stride = nf_ivf_stride(view->padded);
    const nf_k_encode  encode = {
         .rotated = encoder->rotated,
         .stride = stride,
         .count = count,
         .padded = view->padded,
         .bits = view->bits,
         .metric = view->metric,
         .labels = encoder->labels,
         .centroids = encoder->centroids,
         .mean = encoder->mean,
         .flat = encoder->flat,
         .code_errors = encoder->code_errors,
         .first_too_far = encoder->too_far,
    };
    NF_CUDA(ctx, nf_k_rotate(&encoder->rotation.map, encoder->rotation.signs, encoder->rotation.matrix, source->rows,
                             source->stride, count, encoder->rotated, stride, stream));
    NF_CUDA(ctx, cudaMemsetAsync(encoder->too_far, 0xff, sizeof *encoder->too_far, stream));
    NF_CUDA(ctx, nf_k_encode_rows(&encode, stream));
    if (!encoder->on_device) return NF_OK;
    NF_CUDA(ctx, nf_k_place_rows_in_lists(encoder->flat, count, view->padded, view->bits, encoder->labels,
                                          encoder->slots, encoder->list_start, encoder->block_start, encoder->blocks,
                                          encoder->records, stream));
    return NF_OK;
}

/* A row whose residual is too long for binary32 factors: says how long. */
static nf_status check_too_far(nf_context *ctx, nf_ivf_source *source, const nf_ivf_encode_job *job)
{
    const nf_encoder  *encoder = source->encoder;
    const uint32_t     padded = job->view->padded, stride = nf_ivf_stride(padded);
    unsigned long long i;
    double             square = 0;

    NF_TRY(nf_download(ctx, source->blocks.device, source->blocks.stream, &i, encoder->too_far, sizeof i));
    if (i == UINT64_MAX) return NF_OK;
    float *row = nf_alloc(ctx, padded, sizeof *row);
    if (row == NULL) return nf_alloc_status(ctx);
    const nf_status status = nf_download(ctx, source->blocks.device, source->blocks.stream, row,
                                         encoder->rotated + i * stride, padded * sizeof *row);
    const float    *centroid = job->view->centroids + (size_t)job->labels[i] * padded;
    for (uint32_t k = 0; status >= 0 && k < padded; k++) {
        const float residual = row[k] - centroid[k];
        square += (double)residual * residual;
    }
    nf_free(row);
    if (status < 0) return status;
    return nf_fail(ctx, NF_ERR_VALUE, "a row lies %g from its centroid, at most 3e18 is allowed", sqrt(square));
}

nf_status nf_cuda_ivf_encode(nf_context *ctx, nf_ivf_source *source, const nf_ivf_encode_job *job)
{
    NF_TRY(nf_device_enter(ctx, source->blocks.device));
    if (source->encoder == NULL) NF_TRY(begin(ctx, source, job));
    NF_TRY(upload_places(ctx, source, job));
    NF_TRY(launch(ctx, source, job->view));
    NF_TRY(nf_source_prefetch(ctx, source));
    NF_TRY(check_too_far(ctx, source, job));
    if (!source->encoder->on_device) NF_TRY(place_on_host(ctx, source, job));
    return nf_download(ctx, source->blocks.device, source->blocks.stream, job->code_errors,
                       source->encoder->code_errors, source->count * sizeof(double));
}

nf_status nf_cuda_ivf_encode_end(nf_context *ctx, nf_ivf_source *source)
{
    nf_encoder *encoder = source->encoder;
    NF_TRY(nf_device_enter(ctx, source->blocks.device));
    if (encoder != NULL && encoder->on_device) {
        NF_TRY(nf_download(ctx, source->blocks.device, source->blocks.stream, encoder->host_blocks, encoder->blocks,
                           encoder->block_bytes));
        if (encoder->record_bytes > 0) {
            NF_TRY(nf_download(ctx, source->blocks.device, source->blocks.stream, encoder->host_records,
                               encoder->records, encoder->record_bytes));
        }
    }
    nf_encoder_close(encoder);
    nf_free(encoder);
    source->encoder = NULL;
    nf_source_unload(source); /* what comes next needs memory, too */
    return NF_OK;
}
