/* SPDX-License-Identifier: Apache-2.0 */
/* Scenes as rt_scene.h has them, with failures told by a fault instead of being recorded on the context. */
#ifndef NF_RT_PARTS_H
#define NF_RT_PARTS_H

#include "rt_fault.h"
#include "rt_scene.h"

nf_status nf_rt_scene_make(nf_context *ctx, nf_device *device, cudaStream_t stream, const float *boxes, uint32_t groups,
                           nf_rt_scene **out, nf_rt_fault *fault);
nf_status nf_rt_scene_launch(nf_rt_scene *scene, cudaStream_t stream, const nf_rt_walk *walk, nf_rt_fault *fault);

/* A block of device memory, looked at for NF_OPTIX_ACCEL_ALIGNMENT. */
nf_status nf_rt_block(nf_context *ctx, nf_device *device, cudaStream_t stream, uint64_t bytes, void **out,
                      nf_rt_fault *fault);

#endif
