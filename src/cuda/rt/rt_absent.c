/* SPDX-License-Identifier: Apache-2.0 */
/* Ray tracing in a build without it: it says so, and nothing else of it is ever called. */
#include <stdio.h>

#include "core/core_error.h"
#include "rt_scene.h"
#include "rt_selftest.h"

static const char *const why_not = "ray tracing is not part of this build";

bool nf_rt_available(nf_context *ctx, nf_device *device, char *text, size_t size)
{
    (void)ctx;
    (void)device;
    snprintf(text, size, "%s", why_not);
    return false;
}

bool nf_rt_describe(int ordinal, int32_t *rt_core_version, char *text, size_t size)
{
    (void)ordinal;
    *rt_core_version = -1;
    snprintf(text, size, "%s", why_not);
    return false;
}

nf_status nf_rt_scene_build(nf_context *ctx, nf_device *device, cudaStream_t stream, const float *boxes, uint32_t groups,
                            nf_rt_scene **out)
{
    (void)device;
    (void)stream;
    (void)boxes;
    (void)groups;
    *out = NULL;
    return nf_fail(ctx, NF_ERR_ENGINE, "%s", why_not);
}

nf_status nf_rt_scene_walk(nf_context *ctx, nf_rt_scene *scene, cudaStream_t stream, const nf_rt_walk *walk)
{
    (void)scene;
    (void)stream;
    (void)walk;
    return nf_fail(ctx, NF_ERR_ENGINE, "%s", why_not);
}

void nf_rt_scene_release(nf_rt_scene *scene)
{
    (void)scene;
}

nf_status nf_rt_boundary_trials(nf_context *ctx, nf_device *device, uint64_t trials, uint64_t seed, uint64_t *missed)
{
    (void)device;
    (void)trials;
    (void)seed;
    *missed = 0;
    return nf_fail(ctx, NF_ERR_ENGINE, "%s", why_not);
}
