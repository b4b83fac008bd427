/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA runtime's host interface that src/cuda calls, over an emulated device (emulator.cpp): device memory is
 * host memory filled with a pattern, streams run everything at once, in order. Names and numbers are CUDA's; texts are not.
 *
 * What the emulated device is comes from the environment, so that failures can be had on purpose:
 *   NF_EMULATED_DRIVER   version of the driver (default 13000; 0: no driver; below 12040: too old)
 *   NF_EMULATED_DEVICES  number of devices (default 1)
 *   NF_EMULATED_MEMORY   bytes of device memory (default 4 GiB)
 *   NF_EMULATED_FAIL     N: the process's N-th allocation of device or pinned memory fails
 *   NF_EMULATED_CONTROL  address of a struct nf_emulated_control in the same process (emulator_control.h)
 */
#ifndef NF_EMULATED_CUDA_RUNTIME_API_H
#define NF_EMULATED_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDART_VERSION 13000

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInitializationError = 3,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNotReady = 600,
    cudaErrorLaunchFailure = 719
} cudaError_t;

typedef enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
} cudaMemcpyKind;

enum { cudaMemHandleTypeNone = 0 };
typedef enum cudaMemAllocationType { cudaMemAllocationTypePinned = 1 } cudaMemAllocationType;
typedef enum cudaMemLocationType { cudaMemLocationTypeDevice = 1 } cudaMemLocationType;
typedef enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4, cudaMemPoolAttrUsedMemCurrent = 7 } cudaMemPoolAttr;
typedef enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
    cudaDevAttrMemoryPoolsSupported = 115
} cudaDeviceAttr;
typedef enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 } cudaFuncAttribute;

enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0, cudaHostRegisterDefault = 0 };

typedef struct nf_emulated_stream *cudaStream_t;
typedef struct nf_emulated_event  *cudaEvent_t;
typedef struct nf_emulated_pool   *cudaMemPool_t;

typedef struct cudaMemPoolProps {
    cudaMemAllocationType allocType;
    int                   handleTypes;
    struct {
        cudaMemLocationType type;
        int                 id;
    } location;
    size_t maxSize;
} cudaMemPoolProps;

typedef enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2
} cudaMemoryType;

typedef struct cudaPointerAttributes {
    cudaMemoryType type;
    int            device;
    void          *devicePointer, *hostPointer;
} cudaPointerAttributes;

typedef struct cudaDeviceProp {
    char   name[256];
    size_t totalGlobalMem;
    size_t sharedMemPerBlockOptin;
    int    major, minor, multiProcessorCount, l2CacheSize, warpSize;
} cudaDeviceProp;

const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);

cudaError_t cudaMalloc(void **out, size_t size);
cudaError_t cudaFree(void *block);
cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const cudaMemPoolProps *properties);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep);
cudaError_t cudaMallocFromPoolAsync(void **out, size_t size, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *block, cudaStream_t stream);
cudaError_t cudaHostAlloc(void **out, size_t size, unsigned flags);
cudaError_t cudaFreeHost(void *block);
cudaError_t cudaHostRegister(void *block, size_t size, unsigned flags);
cudaError_t cudaHostUnregister(void *block);

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory);

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to);

#ifdef __cplusplus
}
#endif

#endif
