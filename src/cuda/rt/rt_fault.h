/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went wrong in ray tracing, without a context: whether it works is asked by engines that go on without it, so a
 * failure must not end their call. The functions of rt_scene.h record a fault on the context.
 */
#ifndef NF_RT_FAULT_H
#define NF_RT_FAULT_H

#include <cuda_runtime_api.h>

#include "nearfield/context.h"

typedef struct nf_rt_fault {
    nf_status status;
    char      text[320]; /* one line */
} nf_rt_fault;

/* Fills the fault and returns status. */
nf_status nf_rt_fault_set(nf_rt_fault *fault, nf_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fills the fault unless error is cudaSuccess. */
nf_status nf_rt_fault_cuda(nf_rt_fault *fault, cudaError_t error, const char *what);
#define NF_RT_CUDA(fault, call) NF_TRY(nf_rt_fault_cuda((fault), (call), #call))

#endif
