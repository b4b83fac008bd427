/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch of the ray tracing programs gets: shared by host (C) and device (CUDA). */
#ifndef NF_RT_PARAMS_H
#define NF_RT_PARAMS_H

#include <stdint.h>

#define NF_RT_PARAMS_NAME "nf_rt_launch_params" /* of the constant in rt_programs.cu */
#define NF_RT_RAYGEN_NAME "__raygen__nf_rt_walk"
#define NF_RT_INTERSECTION_NAME "__intersection__nf_rt_box"
#define NF_RT_PAYLOAD_VALUES 6 /* hits; query x, y, z; first group left out, number of groups left out */

/* Of a scene: where coordinates lie in it (rt_map.h). */
#define NF_RT_INTERVALS 256 /* a power of two */
typedef struct nf_rt_map {
    float knots[3][NF_RT_INTERVALS + 1]; /* per dim, rising */
    float scales[3][NF_RT_INTERVALS];    /* 1 / length of an interval; 0: too short */
} nf_rt_map;

/* Pointers are device pointers; see nf_rt_walk for those it names. */
typedef struct nf_rt_params {
    uint64_t        scene;       /* traversable */
    const float    *boxes;       /* as the exact test takes them: low x, y, z, high x, y, z */
    const nf_rt_map *map;        /* of the scene */
    const float    *queries;
    const uint32_t *least_group;
    const uint32_t *skip_from;
    uint32_t       *query_hits;
    uint32_t       *group_hits;
    uint32_t       *lists;
    uint64_t       *cursors;
    uint32_t        first;       /* query of the launch's first ray */
    uint32_t        first_hits;  /* query of query_hits[0] */
} nf_rt_params;

/* A launch's block in device memory: records of the binding table, then the parameters. */
typedef struct nf_rt_launch_block {
    uint64_t     raygen[4], hit[4], miss[4]; /* NF_OPTIX_RECORD_BYTES each */
    nf_rt_params params;
} nf_rt_launch_block;

#endif
