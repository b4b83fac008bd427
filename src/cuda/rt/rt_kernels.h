/* SPDX-License-Identifier: Apache-2.0 */
/* The plain CUDA kernels of ray tracing, as functions of C. Pointers are device pointers unless said otherwise. */
#ifndef NF_RT_KERNELS_H
#define NF_RT_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "rt_params.h"

#ifdef __cplusplus
extern "C" {
#endif

/* rt_map.cu: the map for a scene of these boxes, at least one. */
cudaError_t nf_rt_k_map(cudaStream_t stream, const float *boxes, uint32_t groups, nf_rt_map *map);

/* rt_boxes.cu: the scene's boxes of the exact test's boxes. */
cudaError_t nf_rt_k_enlarge(cudaStream_t stream, const float *boxes, uint32_t groups, const nf_rt_map *map, float *out);

/* rt_boxes.cu: writes *block (host; read before the call returns) to at. */
cudaError_t nf_rt_k_store(cudaStream_t stream, const nf_rt_launch_block *block, nf_rt_launch_block *at);

/* rt_trials.cu: boxes and queries of a trial, and what a walk over them must find. */
typedef struct nf_rt_trial {
    uint64_t  seed;
    int       kind;         /* NF_RT_TRIAL_KINDS kinds of boxes; the first is a mixture of the others */
    uint32_t  groups, queries;
    float    *boxes;        /* 6 per group */
    float    *points;       /* 3 per query */
    uint32_t *least_group;  /* per query */
    uint32_t *skip_from;    /* one */
    uint32_t *query_hits, *group_hits;
    uint64_t *group_sums;   /* sum of the scrambled numbers of each group's queries */
} nf_rt_trial;

#define NF_RT_TRIAL_KINDS 10

cudaError_t nf_rt_k_trial_make(cudaStream_t stream, const nf_rt_trial *trial);

/* leave_out: as least_group and skip_from say. */
cudaError_t nf_rt_k_trial_expect(cudaStream_t stream, const nf_rt_trial *trial, int leave_out);

/* sums: per group, of the queries in lists from starts[group] to starts[group + 1]. */
cudaError_t nf_rt_k_trial_sums(cudaStream_t stream, const uint32_t *lists, const uint64_t *starts, uint32_t groups,
                               uint64_t *sums);

/* Adds the absolute differences of count numbers (of sums: 1 for each that differs) to *differences. */
cudaError_t nf_rt_k_trial_compare(cudaStream_t stream, const uint32_t *a, const uint32_t *b, uint32_t count,
                                  uint64_t *differences);
cudaError_t nf_rt_k_trial_compare_sums(cudaStream_t stream, const uint64_t *a, const uint64_t *b, uint32_t count,
                                       uint64_t *differences);

#ifdef __cplusplus
}
#endif

#endif
