/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of rows for k-means on the device. Labels come from a product on tensor cores (k_products.h); a stable sort of
 * the row numbers by label gives the members of each cluster, ascending, so means do not depend on the order of
 * threads.
 *
 * Products are in TF32 unless rows lie so much nearer to each other than to the origin that its 10 bits cannot tell
 * centroids apart: the first grouping of a set, always in the precise form, shows how much of the rows' squared lengths
 * remains as squared distance to their centroids.
 */
#include <string.h>

#include "cuda_ivf.h"
#include "cuda_staging.h"
#include "kernels/k_cluster.h"
#include "kernels/k_move.h"
#include "kernels/k_points.h"
#include "kernels/k_primitives.h"
#include "kernels/k_products.h"

#define LEAST_SHARE (1.0 / 16) /* of the squared length that must remain for TF32 to do */
#define SHARE_ROWS 65536u      /* rows that tell it */

struct nf_ivf_set {
    nf_blocks blocks;
    uint64_t  rows_count;
    uint32_t  dims, stride;
    float    *rows;
    uint32_t *labels, *sorted, *numbers, *members;
    float    *least;
    uint64_t *keys; /* where few rows are shared out over many blocks (k_products.h) */
    void     *sort_scratch;
    size_t    sort_bytes;
    bool      measured, precise;

    /* the last grouping: of rows first .. first + count - 1; members count from first */
    uint64_t  first, count;
    uint32_t  clusters, clusters_room;
    uint32_t *starts;
    float    *centroids, *halves;
    nf_blocks cluster_blocks; /* starts, centroids, halves */
};

float *nf_cuda_ivf_set_values(nf_ivf_set *set)
{
    return set->rows;
}

nf_blocks *nf_cuda_ivf_set_blocks(nf_ivf_set *set)
{
    return &set->blocks;
}

/* Twice, because sorting a set wants a second place for the rows; the sort's scratch takes about as much as what it
 * sorts. */
uint64_t nf_cuda_ivf_set_row_bytes(uint32_t dims)
{
    return 2ull * nf_ivf_stride(dims) * sizeof(float) + 10 * sizeof(uint32_t);
}

static nf_status open_set(nf_context *ctx, nf_ivf_set *set)
{
    nf_blocks     *blocks = &set->blocks;
    const uint64_t count = set->rows_count;

    NF_TRY(nf_device_open(ctx, &blocks->device));
    NF_CUDA(ctx, cudaStreamCreateWithFlags(&blocks->stream, cudaStreamNonBlocking));
    set->cluster_blocks = (nf_blocks){.device = blocks->device, .stream = blocks->stream};
    NF_TRY(nf_blocks_take(ctx, blocks, count * set->stride, sizeof(float), &set->rows));
    NF_TRY(nf_blocks_take(ctx, blocks, count, sizeof(uint32_t), &set->labels));
    NF_TRY(nf_blocks_take(ctx, blocks, count, sizeof(uint32_t), &set->sorted));
    NF_TRY(nf_blocks_take(ctx, blocks, count, sizeof(uint32_t), &set->numbers));
    NF_TRY(nf_blocks_take(ctx, blocks, count, sizeof(uint32_t), &set->members));
    NF_TRY(nf_blocks_take(ctx, blocks, count, sizeof(float), &set->least));
    NF_TRY(nf_blocks_take(ctx, blocks, count, sizeof(uint64_t), &set->keys));
    NF_CUDA(ctx, nf_k_sort_u32(NULL, &set->sort_bytes, NULL, NULL, NULL, NULL, (uint32_t)count, 0, 32, blocks->stream));
    NF_TRY(nf_blocks_take(ctx, blocks, set->sort_bytes, 1, &set->sort_scratch));
    NF_CUDA(ctx, nf_k_count_up(set->numbers, (uint32_t)count, blocks->stream));
    return NF_OK;
}

nf_status nf_cuda_ivf_set_new(nf_context *ctx, uint64_t count, uint32_t dims, nf_ivf_set **out)
{
    nf_ivf_set *set = nf_alloc_zero(ctx, 1, sizeof *set);
    *out = NULL;
    if (set == NULL) return nf_alloc_status(ctx);
    set->rows_count = count;
    set->dims = dims;
    set->stride = nf_ivf_stride(dims);
    const nf_status status = open_set(ctx, set);
    if (status < 0) {
        nf_cuda_ivf_set_close(set);
        return status;
    }
    *out = set;
    return NF_OK;
}

void nf_cuda_ivf_set_close(nf_ivf_set *set)
{
    if (set == NULL) return;
    nf_blocks_free(&set->cluster_blocks);
    nf_blocks_free(&set->blocks);
    if (set->blocks.stream != NULL) (void)cudaStreamDestroy(set->blocks.stream);
    nf_device_release(set->blocks.device);
    nf_free(set);
}

/* Rows (counted from first) to the host. */
static nf_status take_rows(nf_context *ctx, nf_ivf_set *set, uint64_t first, const uint32_t *which, uint64_t count,
                           float *rows)
{
    nf_blocks taken = {.device = set->blocks.device, .stream = set->blocks.stream};
    float    *values = NULL;
    nf_status status = nf_blocks_take(ctx, &taken, count * set->stride, sizeof(float), &values);
    if (status >= 0) {
        const cudaError_t error =
            nf_k_take_rows(set->rows + first * set->stride, which, (uint32_t)count, set->stride, values, taken.stream);
        status = nf_cuda_check(ctx, error, "nf_k_take_rows");
    }
    if (status >= 0) status = nf_ivf_download_floats(ctx, &taken, values, count, set->dims, set->stride, rows);
    nf_blocks_free(&taken);
    return status;
}

/* Row numbers to the device. */
static nf_status upload_numbers(nf_context *ctx, nf_blocks *blocks, const uint64_t *which, uint64_t count,
                                uint32_t **out)
{
    uint32_t *numbers = nf_alloc(ctx, count, sizeof *numbers);
    if (numbers == NULL) return nf_alloc_status(ctx);
    for (uint64_t i = 0; i < count; i++) numbers[i] = (uint32_t)which[i];
    nf_status status = nf_blocks_take(ctx, blocks, count, sizeof **out, out);
    if (status >= 0) {
        const uint64_t bytes = count * sizeof *numbers;
        status = nf_upload_rows(ctx, blocks->device, blocks->stream, *out, numbers, 1, bytes, bytes);
    }
    nf_free(numbers);
    return status;
}

nf_status nf_cuda_ivf_set_rows(nf_context *ctx, nf_ivf_set *set, const uint64_t *which, uint64_t count, float *rows)
{
    nf_blocks taken = {.device = set->blocks.device, .stream = set->blocks.stream};
    uint32_t *numbers = NULL;
    NF_TRY(nf_device_enter(ctx, set->blocks.device));
    nf_status status = upload_numbers(ctx, &taken, which, count, &numbers);
    if (status >= 0) status = take_rows(ctx, set, 0, numbers, count, rows);
    nf_blocks_free(&taken);
    return status;
}

nf_status nf_cuda_ivf_set_members(nf_context *ctx, nf_ivf_set *set, const uint64_t *which, uint64_t count, float *rows)
{
    nf_blocks taken = {.device = set->blocks.device, .stream = set->blocks.stream};
    uint32_t *numbers = NULL, *members = NULL;
    NF_TRY(nf_device_enter(ctx, set->blocks.device));
    nf_status status = upload_numbers(ctx, &taken, which, count, &numbers);
    if (status >= 0) status = nf_blocks_take(ctx, &taken, count, sizeof *members, &members);
    if (status >= 0) {
        const cudaError_t error = nf_k_take_numbers(set->members, numbers, (uint32_t)count, members, taken.stream);
        status = nf_cuda_check(ctx, error, "nf_k_take_numbers");
    }
    if (status >= 0) status = take_rows(ctx, set, set->first, members, count, rows);
    nf_blocks_free(&taken);
    return status;
}

nf_status nf_cuda_ivf_set_part(nf_context *ctx, nf_ivf_set *set, uint64_t count, nf_ivf_set **out)
{
    uint64_t *which = nf_alloc(ctx, count, sizeof *which);
    uint32_t *numbers = NULL;
    *out = NULL;
    if (which == NULL) return nf_alloc_status(ctx);
    for (uint64_t i = 0; i < count; i++) which[i] = i * set->rows_count / count;
    nf_status status = nf_cuda_ivf_set_new(ctx, count, set->dims, out);
    if (status >= 0) { /* its memory is ordered on its own stream, and filled on this one */
        status = nf_cuda_check(ctx, cudaStreamSynchronize((*out)->blocks.stream), "cudaStreamSynchronize");
    }
    if (status >= 0) {
        nf_blocks taken = {.device = set->blocks.device, .stream = set->blocks.stream};
        status = upload_numbers(ctx, &taken, which, count, &numbers);
        if (status >= 0) {
            cudaError_t error =
                nf_k_take_rows(set->rows, numbers, (uint32_t)count, set->stride, (*out)->rows, taken.stream);
            if (error == cudaSuccess)
                error = cudaStreamSynchronize(taken.stream); /* the new set has a stream of its own */
            status = nf_cuda_check(ctx, error, "nf_k_take_rows");
        }
        nf_blocks_free(&taken);
    }
    nf_free(which);
    if (status < 0) {
        nf_cuda_ivf_set_close(*out);
        *out = NULL;
    }
    return status;
}

static nf_status clusters_room(nf_context *ctx, nf_ivf_set *set, uint32_t clusters)
{
    if (clusters <= set->clusters_room) return NF_OK;
    nf_blocks_free(&set->cluster_blocks);
    set->clusters_room = 0;
    NF_TRY(nf_blocks_take(ctx, &set->cluster_blocks, (uint64_t)clusters + 1, sizeof(uint32_t), &set->starts));
    NF_TRY(nf_blocks_take(ctx, &set->cluster_blocks, (uint64_t)clusters * set->stride, sizeof(float), &set->centroids));
    NF_TRY(nf_blocks_take(ctx, &set->cluster_blocks, clusters, sizeof(float), &set->halves));
    set->clusters_room = clusters;
    return NF_OK;
}

/* Whether TF32 can tell centroids apart, from the values of a grouping in the precise form: |x|^2 / 2 + least is half
 * the squared distance to the nearest centroid. */
static nf_status measure_share(nf_context *ctx, nf_ivf_set *set)
{
    const uint64_t count = set->count < SHARE_ROWS ? set->count : SHARE_ROWS;
    nf_blocks      taken = {.device = set->blocks.device, .stream = set->blocks.stream};
    float         *halves = NULL, *host = nf_alloc(ctx, 2 * count, sizeof *host);
    double         left = 0, all = 0;

    nf_status status =
        host == NULL ? nf_alloc_status(ctx) : nf_blocks_take(ctx, &taken, count, sizeof *halves, &halves);
    if (status >= 0) {
        status = nf_cuda_check(ctx,
                               nf_k_half_squares(set->rows + set->first * set->stride, (uint32_t)count, set->dims,
                                                 set->stride, halves, taken.stream),
                               "nf_k_half_squares");
    }
    if (status >= 0) status = nf_download(ctx, taken.device, taken.stream, host, halves, count * sizeof *host);
    if (status >= 0)
        status = nf_download(ctx, taken.device, taken.stream, host + count, set->least, count * sizeof *host);
    for (uint64_t i = 0; status >= 0 && i < count; i++) {
        all += (double)host[i];
        left += (double)host[i] + (double)host[count + i];
    }
    set->measured = status >= 0;
    set->precise = !(left >= LEAST_SHARE * all);
    nf_blocks_free(&taken);
    nf_free(host);
    return status;
}

static int bits_of(uint32_t number)
{
    int bits = 1;
    while (bits < 32 && number >> bits != 0) bits++;
    return bits;
}

nf_status nf_cuda_ivf_set_group(nf_context *ctx, nf_ivf_set *set, uint64_t first, uint64_t count,
                                const float *centroids, uint32_t clusters, uint64_t *starts)
{
    const cudaStream_t stream = set->blocks.stream;
    uint32_t          *host = nf_alloc(ctx, (uint64_t)clusters + 1, sizeof *host);
    nf_status          status = host == NULL ? nf_alloc_status(ctx) : nf_device_enter(ctx, set->blocks.device);

    set->first = first;
    set->count = count;
    set->clusters = clusters;
    if (status >= 0) status = clusters_room(ctx, set, clusters);
    if (status >= 0) {
        status = nf_ivf_upload_floats(ctx, &set->blocks, centroids, clusters, set->dims, set->stride, set->centroids);
    }
    if (status >= 0) {
        const nf_k_products job = {
            .x = set->rows + first * set->stride,
            .y = set->centroids,
            .x_rows = (uint32_t)count,
            .y_rows = clusters,
            .dims = set->dims,
            .x_stride = set->stride,
            .y_stride = set->stride,
            .offset = set->halves,
            .precise = !set->measured || set->precise,
            .keys = set->keys,
        };
        size_t      bytes = set->sort_bytes;
        cudaError_t error = nf_k_half_squares(set->centroids, clusters, set->dims, set->stride, set->halves, stream);
        if (error == cudaSuccess) error = nf_k_nearest(&job, set->labels, set->least, stream);
        if (error == cudaSuccess) {
            error = nf_k_sort_u32(set->sort_scratch, &bytes, set->labels, set->sorted, set->numbers, set->members,
                                  (uint32_t)count, 0, bits_of(clusters - 1), stream);
        }
        if (error == cudaSuccess)
            error = nf_k_label_starts(set->sorted, (uint32_t)count, clusters, set->starts, stream);
        status = nf_cuda_check(ctx, error, "grouping rows");
    }
    if (status >= 0) {
        status =
            nf_download(ctx, set->blocks.device, stream, host, set->starts, ((uint64_t)clusters + 1) * sizeof *host);
    }
    for (uint64_t c = 0; status >= 0 && c <= clusters; c++) starts[c] = host[c];
    nf_free(host);
    if (status >= 0 && !set->measured) status = measure_share(ctx, set);
    return status;
}

nf_status nf_cuda_ivf_set_means(nf_context *ctx, nf_ivf_set *set, float *centroids)
{
    NF_TRY(nf_device_enter(ctx, set->blocks.device));
    NF_CUDA(ctx, nf_k_cluster_means(set->rows + set->first * set->stride, set->dims, set->stride, set->members,
                                    set->starts, set->clusters, set->centroids, set->blocks.stream));
    return nf_ivf_download_floats(ctx, &set->blocks, set->centroids, set->clusters, set->dims, set->stride, centroids);
}

nf_status nf_cuda_ivf_set_sort(nf_context *ctx, nf_ivf_set *set)
{
    const uint64_t bytes = set->rows_count * set->stride * sizeof(float);
    nf_blocks      taken = {.device = set->blocks.device, .stream = set->blocks.stream};
    float         *rows = NULL;

    NF_TRY(nf_device_enter(ctx, taken.device));
    nf_status status = nf_blocks_take(ctx, &taken, bytes, 1, &rows);
    if (status >= 0) {
        cudaError_t error =
            nf_k_take_rows(set->rows, set->members, (uint32_t)set->rows_count, set->stride, rows, taken.stream);
        if (error == cudaSuccess)
            error = cudaMemcpyAsync(set->rows, rows, bytes, cudaMemcpyDeviceToDevice, taken.stream);
        status = nf_cuda_check(ctx, error, "sorting rows");
    }
    nf_blocks_free(&taken);
    return status;
}
