/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points in the CPU engine: rows grouped, ordered, boxed.
 *
 *   position 0 ..... n-1      rows in processing order: group after group (Morton), kd-tree order inside a group
 *   ids[position] = id        row number in the caller's matrix; positions[id] = position
 *   group g                   positions group_start(g) .. group_start(g + 1) - 1, at most NF_TILE of them
 *   level 0 boxes             one per group; level l + 1 has one box per NF_FANOUT boxes of level l
 *
 * Memory beside the copy of the rows: 8 bytes a row, and 2.3 * 4 * dims bytes a group.
 */
#ifndef NF_CPU_POINTS_H
#define NF_CPU_POINTS_H

#include "cpu/kernels/kernels.h"
#include "engine/engine.h"

#define NF_FANOUT 8u
#define NF_MAX_LEVELS 12u
#define NF_INDEX_DIMS 3u

/* Boxes of one level: box i has low[dims] then high[dims] at box + i * 2 * dims, in the order of dim_order, rounded
 * outwards to binary32. */
typedef struct nf_box_level {
    float   *box;
    uint32_t count;
} nf_box_level;

struct nf_points {
    nf_memory *memory;
    uint64_t   rows_count;
    uint32_t   dims;
    nf_store   store;
    double     bias;          /* what to add to a stored value to get the caller's */
    double     largest;       /* largest absolute value (of the caller's values) */
    double     largest_square; /* largest sum of squares of a row, rounded */
    bool       integers;      /* every value is an integer of at most 2^53 */
    nf_matrix  matrix;        /* the caller's, until order() */

    double   *variance;       /* by column, until order() */
    double   *mean;           /* the same */
    uint32_t *dim_order;      /* dim_order[k] = column of the k-th largest variance */
    uint32_t *dim_place;      /* its inverse */

    uint32_t *ids;            /* position -> id, and NF_TILE zeros; between group() and order() in kd-tree order */
    uint32_t *positions;      /* id -> position */
    uint32_t  group_count;
    uint32_t *group_start;    /* group_count + 1 positions */

    void  *rows;              /* rows_count * row_bytes */
    size_t row_bytes;
    bool   permuted;          /* columns of rows are in dim_order (integers: sums are exact in any order), else as they came:
                                 the delivered distance adds in the caller's order */

    nf_box_level level[NF_MAX_LEVELS];
    uint32_t     level_count;
    float       *centroid;    /* group_count * dims, in the order of dim_order; not exact, see cpu_boxes.c */
    float       *spread;      /* per group: largest distance of a row from the centroid, rounded up */
};

nf_status nf_cpu_points_open(nf_context *ctx, const nf_matrix *matrix, nf_memory *memory, nf_points **out);
void nf_cpu_points_close(nf_points *points);
void nf_cpu_points_describe(const nf_points *points, nf_points_info *info);
nf_status nf_cpu_select_dims(nf_context *ctx, nf_points *points, const nf_points *like);
nf_status nf_cpu_group(nf_context *ctx, nf_points *points, uint32_t group_size);
nf_status nf_cpu_order(nf_context *ctx, nf_points *points);

/* Builds boxes of all levels, centroids and spreads from the ordered rows. */
nf_status nf_cpu_build_boxes(nf_context *ctx, nf_points *points);

/* The row at a position as binary64, in the caller's values and order of columns. */
void nf_cpu_row_f64(const nf_points *points, uint64_t position, double *out);

/* Rows by number, the same way, count x dims. */
nf_status nf_cpu_points_read(nf_context *ctx, const nf_points *points, const uint32_t *rows, uint64_t count,
                             double *values);

/* The rows of a group, for packing. */
nf_rows nf_cpu_group_rows(const nf_points *points, uint32_t group, double scale);

static inline uint32_t nf_cpu_group_size(const nf_points *points, uint32_t group)
{
    return points->group_start[group + 1] - points->group_start[group];
}

static inline const float *nf_cpu_box(const nf_points *points, uint32_t level, uint32_t box)
{
    return points->level[level].box + (size_t)box * 2 * points->dims;
}

#endif
