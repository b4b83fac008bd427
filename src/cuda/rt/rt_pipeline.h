/* SPDX-License-Identifier: Apache-2.0 */
/* The ray tracing pipeline of a device: made once per process and device, kept until the process ends. */
#ifndef NF_RT_PIPELINE_H
#define NF_RT_PIPELINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "optix_abi.h"
#include "rt_fault.h"
#include "rt_params.h"

#define NF_RT_DEVICES 64 /* numbers of devices that ray tracing knows */

typedef struct nf_rt_pipeline {
    int                       ordinal;
    const nf_optix_functions *optix;
    nf_optix_context          context;         /* NULL: not made yet */
    int32_t                   rt_core_version; /* 0: none; 10, 20, ...; -1: not known */
    uint32_t                  max_boxes;       /* of a scene */

    nf_optix_module    module;
    nf_optix_group     groups[3];              /* raygen, hit, miss */
    nf_optix_pipeline  pipeline;               /* NULL: not made yet */
    nf_rt_launch_block block;                  /* the binding table's records; parameters are the launch's */

    /* Launches of a pipeline must not overlap, whatever their streams: each waits for the last. */
    pthread_mutex_t launching;
    cudaEvent_t     last;
} nf_rt_pipeline;

/* The device's OptiX context alone; the rest of *out may be missing. Makes the device the calling thread's. */
nf_status nf_rt_pipeline_context(int ordinal, nf_rt_pipeline **out, nf_rt_fault *fault);

/* All of it. Makes the device the calling thread's. */
nf_status nf_rt_pipeline_get(int ordinal, nf_rt_pipeline **out, nf_rt_fault *fault);

#endif
