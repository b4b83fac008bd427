/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step order: groups in Morton order of their centres in the index dims, rows of a group contiguous (RT-HiSS, section
 * IV-C), then boxes and balls. Neighbouring groups are then near in memory, and boxes of consecutive groups make a good
 * hierarchy.
 */
#include <string.h>

#include "cuda_points.h"
#include "cuda_staging.h"
#include "kernels/k_points.h"
#include "kernels/k_primitives.h"

#define SPARE_ROWS 128u /* zeroed rows behind the last one, so that a kernel may read a tile beyond the end */

typedef struct order_work {
    double   *centres; /* all on the device */
    uint64_t *corners; /* of the grid: low, high */
    uint64_t *codes[2];
    uint32_t *groups[2]; /* numbers in tree order; [1]: sorted by code */
    uint32_t *short_place;
    uint32_t *dim_order;
    void     *sort_scratch;
} order_work;

/* Allocates count entries and SPARE_ROWS times spare zeroed ones behind them. */
static nf_status allocate_spared(nf_context *ctx, nf_points *points, uint64_t count, uint64_t spare, size_t size, void **out)
{
    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, count + SPARE_ROWS * spare, size, out));
    NF_CUDA(ctx, cudaMemsetAsync((char *)*out + count * size, 0, SPARE_ROWS * spare * size, points->stream));
    return NF_OK;
}

static nf_status allocate_result(nf_context *ctx, nf_points *points)
{
    const uint64_t groups = points->group_count;
    NF_TRY(allocate_spared(ctx, points, points->rows * points->stride, points->stride,
                           points->wide ? sizeof(double) : sizeof(float), &points->values));
    NF_TRY(allocate_spared(ctx, points, points->rows, 1, sizeof(uint32_t), (void **)&points->positions));
    NF_TRY(allocate_spared(ctx, points, groups + 1, 1, sizeof(uint32_t), (void **)&points->group_start));
    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, groups * 2 * points->dims, sizeof(float),
                           (void **)&points->boxes));
    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, groups * points->stride, sizeof(float),
                           (void **)&points->centroid));
    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, groups, sizeof(float), (void **)&points->spread));
    points->host_ids = nf_alloc_in(ctx, points->memory, points->rows, sizeof(uint32_t));
    points->host_group_start = nf_alloc_zero_in(ctx, points->memory, groups + 1, sizeof(uint32_t));
    return points->host_ids != NULL && points->host_group_start != NULL ? NF_OK : nf_alloc_status(ctx);
}

static nf_status allocate_work(nf_context *ctx, const nf_points *points, order_work *work)
{
    nf_device         *device = points->device;
    const cudaStream_t stream = points->stream;
    const uint64_t     groups = points->group_count;

    NF_TRY(nf_device_alloc(ctx, device, stream, groups * NF_INDEX_DIMS, sizeof(double), (void **)&work->centres));
    NF_TRY(nf_device_alloc(ctx, device, stream, 2 * NF_INDEX_DIMS, sizeof(uint64_t), (void **)&work->corners));
    NF_TRY(nf_device_alloc(ctx, device, stream, 1, sizeof(uint32_t), (void **)&work->short_place));
    NF_TRY(nf_device_alloc(ctx, device, stream, points->dims, sizeof(uint32_t), (void **)&work->dim_order));
    for (int i = 0; i < 2; i++) {
        NF_TRY(nf_device_alloc(ctx, device, stream, groups, sizeof(uint64_t), (void **)&work->codes[i]));
        NF_TRY(nf_device_alloc(ctx, device, stream, groups, sizeof(uint32_t), (void **)&work->groups[i]));
    }
    return NF_OK;
}

static void free_work(const nf_points *points, order_work *work)
{
    void *const blocks[] = {
        work->centres,   work->corners,     work->codes[0],  work->codes[1],     work->groups[0],
        work->groups[1], work->short_place, work->dim_order, work->sort_scratch,
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) nf_device_free(points->device, points->stream, blocks[i]);
}

/* groups[1]: the groups, which are numbered in tree order, sorted. */
static nf_status sort_groups(nf_context *ctx, nf_points *points, nf_k_raw raw, nf_k_groups groups, order_work *work)
{
    const cudaStream_t stream = points->stream;
    nf_k_columns       columns = {.count = points->dims < NF_INDEX_DIMS ? points->dims : NF_INDEX_DIMS};
    size_t             bytes = 0;

    for (uint32_t k = 0; k < columns.count; k++) columns.column[k] = points->dim_order[k];
    NF_CUDA(ctx, cudaMemsetAsync(work->corners, 0xff, NF_INDEX_DIMS * sizeof(uint64_t), stream));
    NF_CUDA(ctx, cudaMemsetAsync(work->corners + NF_INDEX_DIMS, 0, NF_INDEX_DIMS * sizeof(uint64_t), stream));
    NF_CUDA(ctx, nf_k_group_centres(raw, columns, points->ids, groups, work->centres, work->corners, stream));
    NF_CUDA(ctx, nf_k_morton_codes(work->centres, work->corners, groups.count, work->codes[0], stream));
    NF_CUDA(ctx, nf_k_count_up(work->groups[0], groups.count, stream));
    NF_CUDA(ctx, nf_k_sort_u64(NULL, &bytes, work->codes[0], work->codes[1], work->groups[0], work->groups[1],
                               groups.count, 0, NF_K_MORTON_BITS, stream));
    NF_TRY(nf_device_alloc(ctx, points->device, stream, bytes, 1, &work->sort_scratch));
    NF_CUDA(ctx, nf_k_sort_u64(work->sort_scratch, &bytes, work->codes[0], work->codes[1], work->groups[0], work->groups[1],
                               groups.count, 0, NF_K_MORTON_BITS, stream));
    return NF_OK;
}

/* ids from tree order to the order of the groups; the rows follow. */
static nf_status gather(nf_context *ctx, nf_points *points, nf_k_raw raw, nf_k_groups groups, const order_work *work)
{
    const cudaStream_t stream = points->stream;
    uint32_t          *tree_ids = points->ids;

    points->ids = NULL;
    nf_status status = allocate_spared(ctx, points, points->rows, 1, sizeof(uint32_t), (void **)&points->ids);
    if (status >= 0) {
        status = nf_cuda_check(ctx, nf_k_place_rows(tree_ids, work->groups[1], work->short_place, groups, points->ids,
                                                    points->positions, stream), "nf_k_place_rows");
    }
    nf_device_free(points->device, stream, tree_ids);
    NF_TRY(status);
    NF_CUDA(ctx, cudaMemcpyAsync(work->dim_order, points->dim_order, points->dims * sizeof(uint32_t), cudaMemcpyHostToDevice,
                                 stream));
    NF_CUDA(ctx, nf_k_gather_rows(raw, points->ids, work->dim_order, points->values, stream));
    return NF_OK;
}

static nf_status build_boxes(nf_context *ctx, nf_points *points)
{
    const nf_k_raw rows = {points->values, (uint32_t)points->rows, points->dims, points->stride, points->wide};
    NF_CUDA(ctx, nf_k_group_boxes(rows, points->group_start, points->group_count, points->boxes, points->centroid,
                                  points->stream));
    NF_CUDA(ctx, nf_k_group_spreads(rows, points->group_start, points->group_count, points->centroid, points->spread,
                                    points->stream));
    return NF_OK;
}

static nf_status order_rows(nf_context *ctx, nf_points *points, order_work *work)
{
    const nf_k_raw    raw = {points->raw, (uint32_t)points->rows, points->dims, points->stride, points->wide};
    const nf_k_groups groups = {(uint32_t)points->rows, points->group_size, points->group_count};

    NF_TRY(allocate_result(ctx, points));
    NF_TRY(allocate_work(ctx, points, work));
    NF_TRY(sort_groups(ctx, points, raw, groups, work));
    NF_CUDA(ctx, nf_k_group_starts(work->groups[1], groups, work->short_place, points->group_start, points->stream));
    NF_TRY(nf_progress_poll(ctx));
    NF_TRY(gather(ctx, points, raw, groups, work));
    NF_TRY(nf_progress_poll(ctx));
    NF_TRY(build_boxes(ctx, points));
    NF_TRY(nf_download(ctx, points->device, points->stream, points->host_ids, points->ids, points->rows * sizeof(uint32_t)));
    NF_TRY(nf_download(ctx, points->device, points->stream, points->host_group_start, points->group_start,
                       (groups.count + 1ull) * sizeof(uint32_t)));
    NF_CUDA(ctx, cudaStreamSynchronize(points->stream));
    nf_progress_add(ctx, points->rows);
    return NF_OK;
}

/* Points without rows: nothing but the spare rows, and group_start = {0}. */
static nf_status order_nothing(nf_context *ctx, nf_points *points)
{
    NF_TRY(allocate_result(ctx, points));
    nf_device_free(points->device, points->stream, points->ids);
    points->ids = NULL;
    NF_TRY(allocate_spared(ctx, points, 0, 1, sizeof(uint32_t), (void **)&points->ids));
    NF_CUDA(ctx, cudaMemsetAsync(points->group_start, 0, sizeof(uint32_t), points->stream));
    NF_CUDA(ctx, cudaStreamSynchronize(points->stream));
    return NF_OK;
}

nf_status nf_cuda_order(nf_context *ctx, nf_points *points)
{
    order_work work = {0};

    NF_TRY(nf_device_enter(ctx, points->device));
    const nf_status status = points->rows > 0 ? order_rows(ctx, points, &work) : order_nothing(ctx, points);
    free_work(points, &work);
    nf_device_free(points->device, points->stream, points->raw);
    points->raw = NULL;
    points->matrix.data = NULL; /* the caller's matrix may go now */
    return status;
}
