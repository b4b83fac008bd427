/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hits by ray tracing (RT-HiSS, sections III-A and IV-D): the groups' boxes are custom primitives of an OptiX scene, every
 * query is an infinitesimally short ray, the intersection program tests the query against the box exactly.
 *
 * The scene's boxes are the groups' boxes grown by the radius, mapped to the scene's coordinates and then enlarged by a
 * stated margin, since the hardware's own test rounds; the intersection program compares with the boxes grown by the
 * radius alone, by the same comparison as the bvh method, so the hits are the same ones.
 */
#ifndef NF_RT_SCENE_H
#define NF_RT_SCENE_H

#include "cuda/cuda_device.h"

typedef struct nf_rt_scene nf_rt_scene;

/* What a walk over the scene does with a hit (query, group). */
typedef struct nf_rt_walk {
    /* device pointers */
    const float *queries;         /* x, y, z of query i at queries[3 * i] (dims beyond the data's are 0), rounded to nearest;
                                     no NaN; values beyond binary32 are infinite */
    uint32_t     first, count;    /* queries first .. first + count - 1 */
    const uint32_t *least_group;  /* NULL, or per query i: hits on groups *skip_from .. least_group[i] - 1 are left out */
    const uint32_t *skip_from;    /* NULL: 0; or one value on the device */
    uint32_t    *query_hits;      /* NULL, or per query i - first: gets the number of hits (overwritten) */
    uint32_t    *group_hits;      /* NULL, or per group: raised by the number of hits */
    /* pass 2: writes queries into the groups' lists */
    uint32_t    *lists;           /* NULL, or all lists */
    uint64_t    *cursors;         /* per group: where its list goes on in lists; raised. The order in a list is any */
} nf_rt_walk;

/* Whether ray tracing works here: driver library, ABI, pipeline, and a self-test of hits against plain loops on random and
 * boundary cases (once per process and device; again after a lack of memory). text gets one line: what is there, or why
 * not. Records nothing on ctx. */
bool nf_rt_available(nf_context *ctx, nf_device *device, char *text, size_t size);

/* Fills text (and *rt_core_version, -1 unknown) without building anything beyond a device context. False: there is none.
 * The calling thread keeps its device. */
bool nf_rt_describe(int ordinal, int32_t *rt_core_version, char *text, size_t size);

/* Builds a scene: boxes (device) holds low x, y, z, high x, y, z per group, already grown by the radius as the exact test
 * takes them; infinite ends are fine, a box with low above high (or NaN) is hit by no query. boxes remains the caller's and
 * must stay as it is while the scene is there. The scene is ready in the order of stream. */
nf_status nf_rt_scene_build(nf_context *ctx, nf_device *device, cudaStream_t stream, const float *boxes, uint32_t groups,
                            nf_rt_scene **out);

/* Walks, in the order of stream; walks of one device run one after the other, whatever their streams. */
nf_status nf_rt_scene_walk(nf_context *ctx, nf_rt_scene *scene, cudaStream_t stream, const nf_rt_walk *walk);

/* NULL is fine. Walks on other streams than that of the build must have ended. */
void nf_rt_scene_release(nf_rt_scene *scene);

#endif
