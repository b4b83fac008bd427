// SPDX-License-Identifier: Apache-2.0
// The emulated device's host interface (cuda_runtime_api.h): memory with an account, streams that run at once.
#include "cuda_runtime_api.h"
#include "emulator_control.h"
#include "emulator_faults.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct nf_emulated_stream { int unused; };
struct nf_emulated_event { int unused; };
struct nf_emulated_pool { int unused; };

namespace {

// What was not written must be seen; of a large block the beginning will do.
constexpr size_t poisoned_bytes = 256 << 10;
constexpr size_t header_bytes = 256; // in front of a block: its size; device blocks are aligned to 256

std::atomic<size_t>   used{0};
std::atomic<uint64_t> allocations{0}, calls{0}, objects{0};
thread_local cudaError_t last_error = cudaSuccess;
thread_local int         current_device = 0;

long long setting(const char *name, long long otherwise)
{
    const char *text = std::getenv(name);
    return text != nullptr && text[0] != '\0' ? std::atoll(text) : otherwise;
}

size_t total_memory() { return (size_t)setting("NF_EMULATED_MEMORY", 4ll << 30); }

cudaError_t result(cudaError_t error)
{
    if (error != cudaSuccess) last_error = error;
    return error;
}

// The test's side of it all, where there is one.
nf_emulated_control *control()
{
    const char *text = std::getenv("NF_EMULATED_CONTROL");
    return text != nullptr && text[0] != '\0' ? reinterpret_cast<nf_emulated_control *>(std::strtoull(text, nullptr, 16)) : nullptr;
}

void tell(nf_emulated_control *to)
{
    __atomic_store_n(&to->allocations, allocations.load(), __ATOMIC_RELAXED);
    __atomic_store_n(&to->calls, calls.load(), __ATOMIC_RELAXED);
    __atomic_store_n(&to->live_bytes, used.load(), __ATOMIC_RELAXED);
    __atomic_store_n(&to->live_objects, objects.load(), __ATOMIC_RELAXED);
}

// Counts an allocation; whether it is to fail.
bool allocation_fails()
{
    const uint64_t             number = allocations.fetch_add(1) + 1;
    nf_emulated_control *const test = control();
    if (test != nullptr) tell(test);
    if ((long long)number == setting("NF_EMULATED_FAIL", 0)) return true;
    return test != nullptr && (number == test->fail_allocation || (test->fail_from != 0 && number >= test->fail_from));
}

void count_object(int by)
{
    objects.fetch_add((uint64_t)(int64_t)by);
    if (nf_emulated_control *const test = control()) tell(test);
}

cudaError_t take(void **out, size_t size)
{
    *out = nullptr;
    if (allocation_fails()) return result(cudaErrorMemoryAllocation);
    if (used.fetch_add(size) + size > total_memory()) {
        used.fetch_sub(size);
        return result(cudaErrorMemoryAllocation);
    }
    unsigned char *block = static_cast<unsigned char *>(std::aligned_alloc(256, (header_bytes + size + 255) / 256 * 256));
    if (block == nullptr) std::abort();
    std::memcpy(block, &size, sizeof size);
    std::memset(block + header_bytes, 0xff, size < poisoned_bytes ? size : poisoned_bytes);
    *out = block + header_bytes;
    count_object(1);
    return cudaSuccess;
}

cudaError_t give(void *at)
{
    if (at == nullptr) return cudaSuccess;
    unsigned char *block = static_cast<unsigned char *>(at) - header_bytes;
    size_t         size;
    std::memcpy(&size, block, sizeof size);
    used.fetch_sub(size);
    count_object(-1);
    std::free(block);
    return cudaSuccess;
}

cudaError_t device_state()
{
    const long long driver = setting("NF_EMULATED_DRIVER", 13000);
    if (driver < 12040) return result(cudaErrorInsufficientDriver);
    if (setting("NF_EMULATED_DEVICES", 1) < 1) return result(cudaErrorNoDevice);
    return cudaSuccess;
}

} // namespace

cudaError_t nf_emulated_fault()
{
    const uint64_t             number = calls.fetch_add(1) + 1;
    nf_emulated_control *const test = control();
    if (test == nullptr) return cudaSuccess;
    tell(test);
    return number == test->fail_call ? result(cudaErrorLaunchFailure) : cudaSuccess;
}

// Ends a function of the runtime where its call is to fail.
#define MAY_FAIL() \
    do { \
        const cudaError_t fault = nf_emulated_fault(); \
        if (fault != cudaSuccess) return fault; \
    } while (0)

extern "C" {

const char *cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaError"; }

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "driver older than the runtime needs";
    case cudaErrorNoDevice: return "no device found";
    case cudaErrorInvalidDevice: return "no device of that number";
    default: return "an error of the emulated device";
    }
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = (int)setting("NF_EMULATED_DRIVER", 13000);
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    const cudaError_t error = device_state();
    if (error == cudaSuccess) *count = (int)setting("NF_EMULATED_DEVICES", 1);
    return error;
}

cudaError_t cudaSetDevice(int device)
{
    const cudaError_t error = device_state();
    if (error != cudaSuccess) return error;
    if (device < 0 || device >= setting("NF_EMULATED_DEVICES", 1)) return result(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
    if (device < 0 || device >= setting("NF_EMULATED_DEVICES", 1)) return result(cudaErrorInvalidDevice);
    std::memset(properties, 0, sizeof *properties);
    std::snprintf(properties->name, sizeof properties->name, "emulated device");
    properties->totalGlobalMem = total_memory();
    properties->sharedMemPerBlockOptin = 227 << 10;
    properties->major = 9;
    properties->multiProcessorCount = 1;
    properties->l2CacheSize = 4 << 20;
    properties->warpSize = 32;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    if (device < 0 || device >= setting("NF_EMULATED_DEVICES", 1)) return result(cudaErrorInvalidDevice);
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMultiProcessorCount: *value = 1; break;
    case cudaDevAttrL2CacheSize: *value = 4 << 20; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 << 10; break;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *total = total_memory();
    *available = *total > used.load() ? *total - used.load() : 0;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t size) { return take(out, size); }
cudaError_t cudaFree(void *block) { return give(block); }

cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const cudaMemPoolProps *)
{
    *out = new nf_emulated_pool();
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    delete pool;
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *) { return cudaSuccess; }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void *value)
{
    if (attribute != cudaMemPoolAttrUsedMemCurrent) return result(cudaErrorInvalidValue);
    const uint64_t now = used.load();
    std::memcpy(value, &now, sizeof now);
    return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
cudaError_t cudaMallocFromPoolAsync(void **out, size_t size, cudaMemPool_t, cudaStream_t) { return take(out, size); }
cudaError_t cudaFreeAsync(void *block, cudaStream_t) { return give(block); }

cudaError_t cudaHostAlloc(void **out, size_t size, unsigned)
{
    *out = nullptr;
    if (allocation_fails()) return result(cudaErrorMemoryAllocation);
    *out = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    if (*out == nullptr) return result(cudaErrorMemoryAllocation);
    count_object(1);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *block)
{
    if (block != nullptr) count_object(-1);
    std::free(block);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void *) { return cudaSuccess; }

/* No memory here is known to be pinned, so copies take the longer way. */
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory)
{
    *attributes = cudaPointerAttributes{cudaMemoryTypeUnregistered, -1, nullptr, const_cast<void *>(memory)};
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind)
{
    MAY_FAIL();
    if (size > 0) std::memmove(to, from, size);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind, cudaStream_t)
{
    return cudaMemcpy(to, from, size, kind);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t)
{
    MAY_FAIL();
    if (size > 0) std::memset(to, value, size);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = nullptr;
    MAY_FAIL();
    *out = new nf_emulated_stream();
    count_object(1);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    count_object(-1);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) { return nf_emulated_fault(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return nf_emulated_fault(); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = nullptr;
    MAY_FAIL();
    *out = new nf_emulated_event();
    count_object(1);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    count_object(-1);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return nf_emulated_fault(); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return nf_emulated_fault(); }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t)
{
    *milliseconds = 0.0f;
    return cudaSuccess;
}

} // extern "C"
