/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points in the CUDA engine: rows grouped, ordered, boxed, on the device.
 *
 *   position 0 ..... n-1      rows in processing order: group after group (Morton), kd-tree order inside a group
 *   ids[position] = id        row number in the caller's matrix; positions[id] = position
 *   group g                   positions group_start[g] .. group_start[g + 1] - 1
 *
 * Rows are kept as binary32 where that holds every value of the caller's type exactly (u8, i8, u16, i16, f16, f32), else as
 * binary64; their dims in the order of decreasing variance, followed by zeros up to stride.
 */
#ifndef NF_CUDA_POINTS_H
#define NF_CUDA_POINTS_H

#include "cuda_device.h"
#include "engine/engine.h"

#define NF_INDEX_DIMS 3u
#define NF_MOST_GROUP_ROWS 65536u

struct nf_points {
    nf_memory   *memory;
    nf_device   *device;
    cudaStream_t stream;        /* on which the points are made; idle after order() */
    uint64_t     rows;
    uint32_t     dims;
    uint32_t     stride;        /* values of a row on the device: dims rounded up to a multiple of 4 */
    bool         wide;          /* rows are binary64 */
    bool         integers;      /* every value is an integer of at most 2^53 */
    bool         bytes;         /* every value is an 8-bit integer of one type (u8 or i8): the caller's type */
    bool         signed_bytes;  /* that is i8 */
    double       largest;       /* largest absolute value */
    double       largest_square; /* largest sum of squares of a row, rounded */
    nf_matrix    matrix;        /* the caller's, until order() */

    uint32_t *dim_order;        /* host: dim_order[k] = column of the k-th largest variance */
    uint32_t *dim_place;        /* host: its inverse */
    uint32_t *device_dim_place; /* device: the same */

    void     *raw;              /* device: the rows as they came, converted, in the caller's order of rows and columns,
                                   stride values each; until order() */
    void     *values;           /* device: rows * stride values by position; after order() */
    uint32_t *ids;              /* device: position -> id */
    uint32_t *positions;        /* device: id -> position */
    uint32_t *host_ids;         /* host: a copy of ids */
    uint32_t  group_size;       /* rows of a full group */
    uint32_t  group_count;
    uint32_t *group_start;      /* device: group_count + 1 positions */
    uint32_t *host_group_start; /* host: the same */

    float *boxes;               /* device: group g: low[dims] then high[dims] at boxes + g * 2 * dims, in the order of
                                   dim_order, rounded outwards to binary32 */
    float *centroid;            /* device: group_count * stride, in the order of dim_order; not exact */
    float *spread;              /* device: per group, largest distance of a row from the centroid, rounded up */
};

nf_status nf_cuda_points_open(nf_context *ctx, const nf_matrix *matrix, nf_memory *memory, nf_points **out);
void nf_cuda_points_close(nf_points *points);
void nf_cuda_points_describe(const nf_points *points, nf_points_info *info);
nf_status nf_cuda_select_dims(nf_context *ctx, nf_points *points, const nf_points *like);
nf_status nf_cuda_group(nf_context *ctx, nf_points *points, uint32_t group_size);
nf_status nf_cuda_order(nf_context *ctx, nf_points *points);
nf_status nf_cuda_points_read(nf_context *ctx, const nf_points *points, const uint32_t *rows, uint64_t count,
                              double *values);

#endif
