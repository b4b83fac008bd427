/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device of a context: choosing it, what it can do, its streams, its memory.
 *
 * Memory: every device allocation of the module goes through nf_device_alloc, which holds the context's gpu_memory limit (0:
 * nine tenths of what was free when the device was opened) against what the whole process has in use there. Device blocks come from a
 * pool of the module's own that keeps what is freed until the last points of the process are closed, since a fresh
 * allocation costs more than many a kernel.
 *
 * A device is opened per context and call chain, reference counted; all functions may be used by any thread, each with a
 * stream of its own.
 */
#ifndef NF_CUDA_DEVICE_H
#define NF_CUDA_DEVICE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core_context.h"
#include "engine/engine_module.h"

typedef struct nf_device nf_device;

typedef struct nf_device_traits {
    int      ordinal;
    int      major, minor;        /* compute capability */
    int      processors;          /* multiprocessors */
    uint64_t memory_total;
} nf_device_traits;

/* Opens the context's device (nf_context_params.device) and makes it the thread's. NF_ERR_ENGINE with one of four reasons:
 * no driver, driver too old, no device, or the number is too high. */
nf_status nf_device_open(nf_context *ctx, nf_device **out);
nf_device *nf_device_retain(nf_device *device);
void nf_device_release(nf_device *device);
const nf_device_traits *nf_device_get_traits(const nf_device *device);

/* Makes the device the calling thread's: first thing in every operation that may run on another thread than open did. */
nf_status nf_device_enter(nf_context *ctx, const nf_device *device);

/* The text for a device that cannot be used, from the error of the first call and the driver's version (0: no driver). */
void nf_device_reason(cudaError_t error, int driver_version, char *text, size_t size);
void nf_device_describe(int32_t device, nf_module_device *out);

/* Fails with NF_ERR_DEVICE (NF_ERR_DEVICE_MEMORY for that error) unless error is cudaSuccess. what: the call, a literal. */
nf_status nf_cuda_check(nf_context *ctx, cudaError_t error, const char *what);
#define NF_CUDA(ctx, call) NF_TRY(nf_cuda_check((ctx), (call), #call))

/* Bytes of device memory that the context may still take. */
uint64_t nf_device_memory_left(nf_context *ctx, const nf_device *device);

/* Allocates count * size bytes of device memory, ordered on stream. On failure *out is NULL: NF_ERR_LIMIT names the
 * gpu_memory limit, NF_ERR_DEVICE_MEMORY the device's. try: the same, but records nothing on the context. */
nf_status nf_device_alloc(nf_context *ctx, nf_device *device, cudaStream_t stream, uint64_t count, size_t size, void **out);
nf_status nf_device_try_alloc(nf_context *ctx, nf_device *device, cudaStream_t stream, uint64_t count, size_t size,
                              void **out);
/* Frees a block; NULL is fine. The device must be the thread's (nf_device_free makes it so). Work on stream may still use it. */
void nf_device_free(nf_device *device, cudaStream_t stream, void *block);

#endif
