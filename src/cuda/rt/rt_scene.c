/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenes and walks (RT-HiSS, sections III-A and IV-D): the groups' boxes as custom primitives of one geometry structure, a
 * ray per query.
 *
 * A structure is built for fast traversal, not compacted: it is walked at least twice by all queries, and is small beside
 * the data.
 *
 * A launch reads the binding table and its parameters from a block in device memory. A small kernel writes that block in
 * the order of the stream (its arguments are copied when it is launched), so nothing on the host has to stay. OptiX does
 * not allow launches of one pipeline to overlap; an event makes each wait for the last, which also lets all launches of a
 * scene share one block.
 */
#include <pthread.h>
#include <stddef.h>

#include "core/core_error.h"
#include "core/core_memory.h"
#include "optix_abi.h"
#include "rt_kernels.h"
#include "rt_library.h"
#include "rt_parts.h"
#include "rt_pipeline.h"

_Static_assert(sizeof(nf_rt_params) == 88, "the device's layout");
_Static_assert(sizeof(((nf_rt_launch_block *)NULL)->hit) == NF_OPTIX_RECORD_BYTES, "records");

struct nf_rt_scene {
    nf_rt_pipeline      *pipeline;
    nf_device           *device;
    cudaStream_t         stream;      /* of the build */
    const float         *boxes;       /* the caller's */
    uint32_t             groups;
    void                *structure;   /* NULL: no groups */
    nf_rt_map           *map;         /* in device memory, as is the block */
    nf_rt_launch_block  *block;
    nf_optix_traversable traversable;
};

static nf_optix_address address(const void *pointer)
{
    return (nf_optix_address)(uintptr_t)pointer;
}

nf_status nf_rt_block(nf_context *ctx, nf_device *device, cudaStream_t stream, uint64_t bytes, void **out,
                      nf_rt_fault *fault)
{
    const nf_status status = nf_device_try_alloc(ctx, device, stream, bytes, 1, out);
    if (status < 0) {
        return nf_rt_fault_set(fault, status, "ray tracing: %llu bytes of device memory are not to be had",
                               (unsigned long long)bytes);
    }
    if (address(*out) % NF_OPTIX_ACCEL_ALIGNMENT != 0) {
        nf_device_free(device, stream, *out);
        *out = NULL;
        return nf_rt_fault_set(fault, NF_ERR_INTERNAL, "ray tracing: device memory is not aligned to %u bytes",
                               NF_OPTIX_ACCEL_ALIGNMENT);
    }
    return NF_OK;
}

/* Builds the structure of the enlarged boxes; temporary memory is freed by the caller. */
static nf_status build(nf_context *ctx, nf_rt_scene *scene, void **enlarged, void **temporary, nf_rt_fault *fault)
{
    const nf_optix_functions    *optix = scene->pipeline->optix;
    const nf_optix_build_options options = {.flags = NF_OPTIX_BUILD_FAST_TRACE, .operation = NF_OPTIX_BUILD};
    const unsigned               flags = NF_OPTIX_GEOMETRY_NO_ANYHIT | NF_OPTIX_GEOMETRY_ONE_CALL;
    nf_optix_build_sizes         sizes;

    NF_TRY(nf_rt_block(ctx, scene->device, scene->stream, 6ull * sizeof(float) * scene->groups, enlarged, fault));
    NF_RT_CUDA(fault, nf_rt_k_map(scene->stream, scene->boxes, scene->groups, scene->map));
    NF_RT_CUDA(fault, nf_rt_k_enlarge(scene->stream, scene->boxes, scene->groups, scene->map, *enlarged));

    const nf_optix_address     buffer = address(*enlarged);
    const nf_optix_build_input input = {
        .type = NF_OPTIX_INPUT_BOXES,
        .of.boxes = {.buffers = &buffer, .count = scene->groups, .flags = &flags, .record_count = 1},
    };
    NF_RT_OPTIX(fault, optix, accel_sizes, scene->pipeline->context, &options, &input, 1, &sizes);
    NF_TRY(nf_rt_block(ctx, scene->device, scene->stream, sizes.output, &scene->structure, fault));
    NF_TRY(nf_rt_block(ctx, scene->device, scene->stream, sizes.temporary, temporary, fault));
    NF_RT_OPTIX(fault, optix, accel_build, scene->pipeline->context, scene->stream, &options, &input, 1,
                address(*temporary), sizes.temporary, address(scene->structure), sizes.output, &scene->traversable, NULL, 0);
    return NF_OK;
}

static nf_status make_parts(nf_context *ctx, nf_rt_scene *scene, nf_rt_fault *fault)
{
    void *block = NULL, *map = NULL, *enlarged = NULL, *temporary = NULL;

    if (scene->groups == 0) return NF_OK;
    if (scene->groups > scene->pipeline->max_boxes) {
        return nf_rt_fault_set(fault, NF_ERR_UNSUPPORTED, "ray tracing: %u groups are more than a scene holds (%u)",
                               scene->groups, scene->pipeline->max_boxes);
    }
    NF_TRY(nf_rt_block(ctx, scene->device, scene->stream, sizeof(nf_rt_launch_block), &block, fault));
    scene->block = block;
    NF_TRY(nf_rt_block(ctx, scene->device, scene->stream, sizeof(nf_rt_map), &map, fault));
    scene->map = map;
    const nf_status status = build(ctx, scene, &enlarged, &temporary, fault);
    nf_device_free(scene->device, scene->stream, temporary);
    nf_device_free(scene->device, scene->stream, enlarged);
    return status;
}

nf_status nf_rt_scene_make(nf_context *ctx, nf_device *device, cudaStream_t stream, const float *boxes, uint32_t groups,
                           nf_rt_scene **out, nf_rt_fault *fault)
{
    nf_rt_pipeline *pipeline;

    *out = NULL;
    NF_TRY(nf_rt_pipeline_get(nf_device_get_traits(device)->ordinal, &pipeline, fault));
    nf_rt_scene *scene = nf_try_alloc(ctx, 1, sizeof *scene);
    if (scene == NULL) return nf_rt_fault_set(fault, NF_ERR_MEMORY, "ray tracing: no memory for a scene");
    *scene = (nf_rt_scene){
        .pipeline = pipeline,
        .device = nf_device_retain(device),
        .stream = stream,
        .boxes = boxes,
        .groups = groups,
    };
    const nf_status status = make_parts(ctx, scene, fault);
    if (status < 0) {
        nf_rt_scene_release(scene);
        return status;
    }
    *out = scene;
    return NF_OK;
}

void nf_rt_scene_release(nf_rt_scene *scene)
{
    if (scene == NULL) return;
    nf_device_free(scene->device, scene->stream, scene->structure);
    nf_device_free(scene->device, scene->stream, scene->block);
    nf_device_free(scene->device, scene->stream, scene->map);
    nf_device_release(scene->device);
    nf_free(scene);
}

/* Device addresses of the records in the scene's block. */
static nf_optix_binding_table binding_table(const nf_rt_scene *scene)
{
    const nf_optix_address base = address(scene->block);
    return (nf_optix_binding_table){
        .raygen = base + offsetof(nf_rt_launch_block, raygen),
        .hit = {base + offsetof(nf_rt_launch_block, hit), NF_OPTIX_RECORD_BYTES, 1},
        .miss = {base + offsetof(nf_rt_launch_block, miss), NF_OPTIX_RECORD_BYTES, 1},
    };
}

/* Launches, with the pipeline's lock held. */
static nf_status launch_all(nf_rt_scene *scene, cudaStream_t stream, const nf_rt_walk *walk, nf_rt_fault *fault)
{
    const nf_rt_pipeline        *pipeline = scene->pipeline;
    const nf_optix_binding_table table = binding_table(scene);
    nf_rt_launch_block           block = pipeline->block;

    block.params = (nf_rt_params){
        .scene = scene->traversable,
        .boxes = scene->boxes,
        .map = scene->map,
        .queries = walk->queries,
        .least_group = walk->least_group,
        .skip_from = walk->skip_from,
        .query_hits = walk->query_hits,
        .group_hits = walk->group_hits,
        .lists = walk->lists,
        .cursors = walk->cursors,
        .first_hits = walk->first,
    };
    for (uint32_t done = 0; done < walk->count;) {
        const uint32_t left = walk->count - done, width = left < NF_OPTIX_MAX_LAUNCH ? left : NF_OPTIX_MAX_LAUNCH;
        block.params.first = walk->first + done;
        NF_RT_CUDA(fault, nf_rt_k_store(stream, &block, scene->block));
        NF_RT_OPTIX(fault, pipeline->optix, launch, pipeline->pipeline, stream,
                    address(scene->block) + offsetof(nf_rt_launch_block, params), sizeof(nf_rt_params), &table, width, 1, 1);
        done += width;
    }
    return NF_OK;
}

nf_status nf_rt_scene_launch(nf_rt_scene *scene, cudaStream_t stream, const nf_rt_walk *walk, nf_rt_fault *fault)
{
    nf_rt_pipeline *pipeline = scene->pipeline;

    if (walk->count == 0) return NF_OK;
    if (scene->groups == 0) {
        if (walk->query_hits == NULL) return NF_OK;
        return nf_rt_fault_cuda(fault, cudaMemsetAsync(walk->query_hits, 0, walk->count * sizeof(uint32_t), stream),
                                "cudaMemsetAsync");
    }
    pthread_mutex_lock(&pipeline->launching);
    nf_status status = nf_rt_fault_cuda(fault, cudaStreamWaitEvent(stream, pipeline->last, 0), "cudaStreamWaitEvent");
    if (status == NF_OK) {
        nf_rt_fault unused;
        status = launch_all(scene, stream, walk, fault);
        /* recorded after a failure too, since a part may be under way; the first failure is the one to tell */
        const nf_status recorded = nf_rt_fault_cuda(status == NF_OK ? fault : &unused,
                                                    cudaEventRecord(pipeline->last, stream), "cudaEventRecord");
        if (status == NF_OK) status = recorded;
    }
    pthread_mutex_unlock(&pipeline->launching);
    return status;
}

nf_status nf_rt_scene_build(nf_context *ctx, nf_device *device, cudaStream_t stream, const float *boxes, uint32_t groups,
                            nf_rt_scene **out)
{
    nf_rt_fault     fault;
    const nf_status status = nf_rt_scene_make(ctx, device, stream, boxes, groups, out, &fault);
    return status < 0 ? nf_fail(ctx, status, "%s", fault.text) : NF_OK;
}

nf_status nf_rt_scene_walk(nf_context *ctx, nf_rt_scene *scene, cudaStream_t stream, const nf_rt_walk *walk)
{
    nf_rt_fault     fault;
    const nf_status status = nf_rt_scene_launch(scene, stream, walk, &fault);
    return status < 0 ? nf_fail(ctx, status, "%s", fault.text) : NF_OK;
}
