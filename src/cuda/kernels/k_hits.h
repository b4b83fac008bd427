/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates on CUDA cores: steps first_intersection_test and list_hits (RT-HiSS, section IV-D).
 *
 *   boxes, none   groups against groups: pairs of groups whose boxes are within the radius in all dims, and the balls
 *                 around their centroids too; listed as items, tile by tile (k_refine.h)
 *   bvh, rt       queries against groups: the query lies in the group's box grown by the radius in the index dims; listed as
 *                 query positions, group by group, then cut into items, most-hit groups first
 *
 * Every test errs to the side of a hit (docs/numerics.md, section 7).
 */
#ifndef NF_K_HITS_H
#define NF_K_HITS_H

#include <cuda_runtime_api.h>

#include "k_refine.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NF_K_SUPER 32u      /* groups under one box of the level above, method boxes */
#define NF_K_FANOUT 8u      /* boxes under one box of the level above, method bvh */
#define NF_K_MOST_LEVELS 12u

/* Boxes of NF_K_SUPER consecutive groups each. */
cudaError_t nf_k_super_boxes_run(cudaStream_t stream, const float *boxes, uint32_t groups, uint32_t dims, float *super);

/* Groups cut into slices of at most tile rows: slice s is positions slice_start[s] .. slice_start[s + 1] - 1, group g has
 * slices group_slice[g] .. group_slice[g + 1] - 1. */
typedef struct nf_k_slices {
    const uint32_t *slice_start, *group_slice;
} nf_k_slices;

typedef struct nf_k_group_pairs {
    const float *query_boxes, *data_boxes, *super_boxes; /* low[dims], high[dims] each */
    const float *query_centroid, *data_centroid;         /* stride values each */
    const float *query_spread, *data_spread;
    uint32_t     dims, stride, data_groups;
    uint32_t     all;             /* 1: every pair of groups is a hit */
    uint32_t     begin, end, step; /* query groups: begin, begin + step, ... below end */
    uint32_t     self_join, skip_from; /* self-join: data groups in [skip_from, query group) are left out */
    float        give_up_square;  /* squared gap beyond which a pair is given up */
    double       radius, widening, underflow; /* of a squared bound for centroids */
    nf_k_slices  query_slices, data_slices;
    uint32_t    *counts;          /* counting: items per query group, at (group - begin) / step; groups hit beside */
    uint32_t    *group_hits;      /* the same place: data groups hit */
    const uint64_t *offsets;      /* listing: first item of a query group, at group - begin; NULL: counting */
    nf_k_item   *items;
} nf_k_group_pairs;

cudaError_t nf_k_group_pairs_run(cudaStream_t stream, const nf_k_group_pairs *job, uint32_t processors);

/* ---- queries against groups ---- */

/* The first three dims of every row as binary32, rounded to nearest; 0 beyond dims. */
cudaError_t nf_k_index_dims_run(cudaStream_t stream, const nf_k_rows *rows, uint64_t count, float *out);

/* Grown boxes in the index dims: RN(low - radius), RN(high + radius), which may be infinite, as they are beyond dims. low x, y, z, high x,
 * y, z per group; sphere: the paper's bounds, the box of the ball around the box's centre that holds the group, grown by the
 * radius (never smaller than the box). */
cudaError_t nf_k_grow_boxes_run(cudaStream_t stream, const float *boxes, uint32_t groups, uint32_t dims, double radius,
                                uint32_t sphere, float *out);

/* The hierarchy above the grown boxes: level 0 is theirs, level l + 1 unites NF_K_FANOUT boxes of level l. */
typedef struct nf_k_tree {
    const float *level[NF_K_MOST_LEVELS];
    uint32_t     count[NF_K_MOST_LEVELS];
    uint32_t     levels;
} nf_k_tree;

cudaError_t nf_k_unite_boxes_run(cudaStream_t stream, const float *below, uint32_t count, float *above);

/* The walk, with the fields of nf_rt_walk (rt/rt_scene.h). */
typedef struct nf_k_walk {
    const float    *queries;
    uint32_t        first, count;
    const uint32_t *least_group;
    const uint32_t *skip_from;
    uint32_t       *query_hits;
    uint32_t       *group_hits;
    uint32_t       *lists;
    uint64_t       *cursors;
} nf_k_walk;

cudaError_t nf_k_bvh_walk_run(cudaStream_t stream, const nf_k_tree *tree, const nf_k_walk *walk);

/* The group of every position. */
cudaError_t nf_k_position_groups_run(cudaStream_t stream, const uint32_t *group_start, uint32_t groups, uint32_t *out);

/* Hits of the queries of each group added up: sums[g] of query_hits over positions group_start[g] .. */
cudaError_t nf_k_sum_by_group_run(cudaStream_t stream, const uint32_t *group_start, uint32_t groups, const uint32_t *query_hits,
                                  uint64_t *sums);

/* keys[g] rises as group_hits[g] falls, numbers[g] = g: for sorting. */
cudaError_t nf_k_falling_keys_run(cudaStream_t stream, const uint32_t *group_hits, uint32_t groups, uint32_t *keys,
                                  uint32_t *numbers);

/* Items of lists: order[i] is the i-th group in the order of work, list_start[g] and group_hits[g] say where its list is.
 * Counting (offsets NULL): counts[i] gets the number of items; else they are written from offsets[i] on. */
cudaError_t nf_k_list_items_run(cudaStream_t stream, const uint32_t *order, uint32_t groups, const uint64_t *list_start,
                                const uint32_t *group_hits, uint32_t tile, const nf_k_slices *slices, uint32_t *counts,
                                const uint64_t *offsets, nf_k_item *items);

#ifdef __cplusplus
}
#endif

#endif
