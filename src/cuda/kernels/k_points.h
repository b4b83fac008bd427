/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that make points: conversion, variance, kd-tree, order, boxes. All run on stream and return what became of the
 * launch. values are rows of stride numbers, double where wide, else float; what lies beyond dims is 0.
 */
#ifndef NF_K_POINTS_H
#define NF_K_POINTS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NF_K_MOST_KEYS 8u /* numbers in a record of the kd-tree */

/* The columns of the first few places of dim_order. */
typedef struct nf_k_columns {
    uint32_t count;
    uint32_t column[NF_K_MOST_KEYS];
} nf_k_columns;

/* What the points are while the tree is built and ordered. */
typedef struct nf_k_raw {
    const void *values; /* by row number, columns as they came */
    uint32_t    rows, dims, stride;
    bool        wide;
} nf_k_raw;

/* Groups of a kd-tree: all have size rows but the last one in tree order. */
typedef struct nf_k_groups {
    uint32_t rows, size, count;
} nf_k_groups;

/* ---- k_convert.cu ---- */

/* Converts rows packed values of an nf_dtype to values, rows * stride below 2^32; all conversions are exact. first_row: the
 * number of the first of them. *first_invalid becomes the smallest row * dims + column of a value that is not allowed (NaN,
 * infinity, beyond 2^53), where that is smaller than what it held. */
cudaError_t nf_k_convert(const void *from, uint32_t dtype, uint64_t first_row, uint32_t rows, uint32_t dims, uint32_t stride,
                         bool wide, void *values, uint64_t *first_invalid, cudaStream_t stream);

/* ---- k_variance.cu: the same sums whatever the device ---- */

/* Doubles of scratch that nf_k_column_means wants. */
uint64_t nf_k_column_scratch(uint32_t rows, uint32_t dims);

/* centre NULL: means[column] = mean of a column. Else the mean squared deviation from centre[column]. rows > 0. */
cudaError_t nf_k_column_means(nf_k_raw raw, const double *centre, double *scratch, double *means, cudaStream_t stream);

/* Raises the doubles at bounds to the largest absolute value and the largest sum of squares of a row. */
cudaError_t nf_k_row_bounds(nf_k_raw raw, double bounds[2], cudaStream_t stream);

/* ---- k_tree.cu ---- */

/* Words of a record: coordinates relative to their means, as binary32; with many dims also the distance from the mean. */
uint32_t nf_k_record_words(uint32_t dims);
/* How many coordinates in the order of variance a record takes. */
uint32_t nf_k_record_coordinates(uint32_t dims);
cudaError_t nf_k_fill_records(nf_k_raw raw, nf_k_columns columns, const double *mean, float *records,
                              cudaStream_t stream);

/* out[i] = i */
cudaError_t nf_k_count_up(uint32_t *out, uint32_t count, cudaStream_t stream);

/* Levels of splits until every node is one group, and the bits of a sort key of a level. */
uint32_t nf_k_tree_levels(uint32_t groups);
#define NF_K_LEVEL_BITS(level) (32 + (int)(level))

/* widest[node] = the word of the records with the widest spread over a sample of the node's rows, for the 2^level nodes. */
cudaError_t nf_k_widest_words(const float *records, uint32_t words, const uint32_t *order, nf_k_groups groups,
                              uint32_t level, uint32_t *widest, cudaStream_t stream);
/* keys[position] = node << 32 | bits that order as the row's widest word does. */
cudaError_t nf_k_level_keys(const float *records, uint32_t words, const uint32_t *order, const uint32_t *widest,
                            nf_k_groups groups, uint32_t level, uint64_t *keys, cudaStream_t stream);

/* ---- k_order.cu ---- */

/* centres[3 * group]: mean of some rows of a group in the first three columns; corners: low then high over all groups, as
 * numbers that order as the doubles do, set to all bits (low) and 0 (high) before. */
cudaError_t nf_k_group_centres(nf_k_raw raw, nf_k_columns columns, const uint32_t *order, nf_k_groups groups,
                               double *centres, uint64_t corners[6], cudaStream_t stream);
#define NF_K_MORTON_BITS 63
cudaError_t nf_k_morton_codes(const double *centres, const uint64_t corners[6], uint32_t count, uint64_t *codes,
                              cudaStream_t stream);
/* sorted[i]: the group in tree order that comes i-th. *short_place becomes the i of the last group in tree order, which may
 * be short; then start[i], count + 1 of them. */
cudaError_t nf_k_group_starts(const uint32_t *sorted, nf_k_groups groups, uint32_t *short_place, uint32_t *start,
                              cudaStream_t stream);
cudaError_t nf_k_place_rows(const uint32_t *order, const uint32_t *sorted, const uint32_t *short_place, nf_k_groups groups,
                            uint32_t *ids, uint32_t *positions, cudaStream_t stream);
/* values[position][k] = raw[ids[position]][dim_order[k]] */
cudaError_t nf_k_gather_rows(nf_k_raw raw, const uint32_t *ids, const uint32_t *dim_order, void *values,
                             cudaStream_t stream);

/* ---- k_boxes.cu: points.values by position here ---- */

cudaError_t nf_k_group_boxes(nf_k_raw points, const uint32_t *group_start, uint32_t count, float *boxes, float *centroid,
                             cudaStream_t stream);
cudaError_t nf_k_group_spreads(nf_k_raw points, const uint32_t *group_start, uint32_t count, const float *centroid,
                               float *spread, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
