/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step group: a balanced kd-tree by rank; its leaves are the groups (RT-HiSS, section IV-B).
 *
 * A node of m points and g = ceil(m / size) groups is split so that the left child gets floor(g / 2) full groups: every
 * group holds exactly size points but the last one of all. The device splits all nodes of a level at once by one stable
 * sort (kernels/k_tree.cu), so duplicates cannot unbalance the tree, it is the same on every device, and no level waits
 * for the host. Afterwards ids holds the rows in tree order: group g of it is ids[g * size] and on.
 *
 * Records (the first few coordinates in variance order relative to their means, as binary32; with many dims also the
 * distance from the mean, for where boxes prune little, rows of a tile that are alike in it leave early together) steer the
 * grouping only: any partition is correct.
 */
#include "cuda_points.h"
#include "kernels/k_points.h"
#include "kernels/k_primitives.h"

/* Rows of a group where the caller leaves it to the engine. Refine takes tiles of 128 rows: with many dims a group is one
 * tile; with few, smaller boxes save more comparisons than half a tile costs. */
#define FEW_DIMS 8u
#define FEW_DIMS_GROUP_ROWS 64u
#define GROUP_ROWS 128u

typedef struct group_build {
    nf_context *ctx;
    nf_points  *points;
    nf_k_groups groups;
    uint32_t    levels, words;
    double     *scratch, *mean; /* all on the device */
    float      *records;
    uint32_t   *widest;
    uint64_t   *keys[2];
    uint32_t   *order[2];
    void       *sort_scratch;
    size_t      sort_bytes;
} group_build;

static nf_status allocate_build(group_build *build)
{
    nf_context        *ctx = build->ctx;
    nf_points         *points = build->points;
    nf_device         *device = points->device;
    const cudaStream_t stream = points->stream;
    const uint64_t     rows = points->rows;

    NF_TRY(nf_device_alloc(ctx, device, stream, nf_k_column_scratch((uint32_t)rows, points->dims), sizeof(double),
                           (void **)&build->scratch));
    NF_TRY(nf_device_alloc(ctx, device, stream, points->dims, sizeof(double), (void **)&build->mean));
    NF_TRY(nf_device_alloc(ctx, device, stream, rows * build->words, sizeof(float), (void **)&build->records));
    NF_TRY(nf_device_alloc(ctx, device, stream, build->groups.count, sizeof(uint32_t), (void **)&build->widest));
    for (int i = 0; i < 2; i++) {
        NF_TRY(nf_device_alloc(ctx, device, stream, rows, sizeof(uint64_t), (void **)&build->keys[i]));
        NF_TRY(nf_device_alloc(ctx, device, stream, rows, sizeof(uint32_t), (void **)&build->order[i]));
    }
    for (uint32_t level = 0; level < build->levels; level++) { /* the number of bits may count */
        size_t bytes = 0;
        NF_CUDA(ctx, nf_k_sort_u64(NULL, &bytes, build->keys[0], build->keys[1], build->order[0], build->order[1],
                                   (uint32_t)rows, 0, NF_K_LEVEL_BITS(level), stream));
        if (bytes > build->sort_bytes) build->sort_bytes = bytes;
    }
    return nf_device_alloc(ctx, device, stream, build->sort_bytes, 1, &build->sort_scratch);
}

static void free_build(group_build *build)
{
    void *const blocks[] = {
        build->scratch, build->mean,     build->records,  build->widest,       build->keys[0],
        build->keys[1], build->order[0], build->order[1], build->sort_scratch,
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        nf_device_free(build->points->device, build->points->stream, blocks[i]);
    }
}

static nf_status fill_records(group_build *build)
{
    nf_context        *ctx = build->ctx;
    const nf_points   *points = build->points;
    const cudaStream_t stream = points->stream;
    const nf_k_raw     raw = {points->raw, (uint32_t)points->rows, points->dims, points->stride, points->wide};
    nf_k_columns       columns = {.count = nf_k_record_coordinates(points->dims)};

    for (uint32_t k = 0; k < columns.count; k++) columns.column[k] = points->dim_order[k];
    NF_CUDA(ctx, nf_k_column_means(raw, NULL, build->scratch, build->mean, stream));
    NF_CUDA(ctx, nf_k_fill_records(raw, columns, build->mean, build->records, stream));
    NF_CUDA(ctx, nf_k_count_up(build->order[0], raw.rows, stream));
    return NF_OK;
}

/* Splits all nodes of a level; order[0] holds the rows before and after. */
static nf_status split_level(group_build *build, uint32_t level)
{
    nf_context        *ctx = build->ctx;
    const cudaStream_t stream = build->points->stream;
    size_t             bytes = build->sort_bytes;

    NF_CUDA(ctx, nf_k_widest_words(build->records, build->words, build->order[0], build->groups, level, build->widest,
                                   stream));
    NF_CUDA(ctx, nf_k_level_keys(build->records, build->words, build->order[0], build->widest, build->groups, level,
                                 build->keys[0], stream));
    NF_CUDA(ctx, nf_k_sort_u64(build->sort_scratch, &bytes, build->keys[0], build->keys[1], build->order[0], build->order[1],
                               build->groups.rows, 0, NF_K_LEVEL_BITS(level), stream));
    uint32_t *const sorted = build->order[1];
    build->order[1] = build->order[0];
    build->order[0] = sorted;
    return NF_OK;
}

static nf_status build_tree(group_build *build)
{
    nf_context    *ctx = build->ctx;
    const uint64_t rows = build->points->rows;
    uint64_t       done = 0;

    NF_TRY(allocate_build(build));
    NF_TRY(fill_records(build));
    for (uint32_t level = 0; level < build->levels; level++) {
        NF_TRY(split_level(build, level));
        nf_progress_add(ctx, rows / build->levels);
        done += rows / build->levels;
        NF_TRY(nf_progress_poll(ctx));
    }
    NF_CUDA(ctx, cudaMemcpyAsync(build->points->ids, build->order[0], rows * sizeof(uint32_t), cudaMemcpyDeviceToDevice,
                                 build->points->stream));
    NF_CUDA(ctx, cudaStreamSynchronize(build->points->stream)); /* so that the step's time is its own */
    nf_progress_add(ctx, rows - done);
    return NF_OK;
}

nf_status nf_cuda_group(nf_context *ctx, nf_points *points, uint32_t group_size)
{
    const uint32_t best = points->dims <= FEW_DIMS ? FEW_DIMS_GROUP_ROWS : GROUP_ROWS;
    const uint32_t size = group_size == 0 ? best : group_size;

    if (size > NF_MOST_GROUP_ROWS) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "group_size is %u, the cuda engine takes 1 to %u", group_size,
                       NF_MOST_GROUP_ROWS);
    }
    NF_TRY(nf_device_enter(ctx, points->device));
    points->group_size = size;
    points->group_count = (uint32_t)((points->rows + size - 1) / size);
    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, points->rows, sizeof(uint32_t), (void **)&points->ids));
    if (points->rows == 0) return NF_OK;

    group_build build = {
        .ctx = ctx,
        .points = points,
        .groups = {(uint32_t)points->rows, size, points->group_count},
        .levels = nf_k_tree_levels(points->group_count),
        .words = nf_k_record_words(points->dims),
    };
    const nf_status status = build_tree(&build);
    free_build(&build);
    return status;
}
