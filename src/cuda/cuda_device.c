/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a device, telling why one cannot be used, and device memory with an account. */
#include "cuda_device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cuda_staging.h"
#include "rt/rt_scene.h"

#define MOST_DEVICES 64
#define OLDEST_DRIVER 12040 /* what the runtime that is linked in needs at least, as CUDA numbers versions */

/* One per device number in a process; made on first use and kept, since streams and pools are dear to make. */
struct nf_device {
    nf_device_traits traits;
    cudaMemPool_t    pool;
    atomic_uint      users;
    uint64_t         free_at_first; /* device memory that was free when the device was opened */
};

static nf_device       devices[MOST_DEVICES];
static bool            is_open[MOST_DEVICES];
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;

nf_status nf_cuda_check(nf_context *ctx, cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return NF_OK;
    (void)cudaGetLastError(); /* so that the next call does not meet this error again */
    if (error == cudaErrorMemoryAllocation) {
        return nf_fail(ctx, NF_ERR_DEVICE_MEMORY, "device memory is exhausted (%s)", what);
    }
    return nf_fail(ctx, NF_ERR_DEVICE, "the device failed: %s (%s, %d)", cudaGetErrorString(error), what, (int)error);
}

void nf_device_reason(cudaError_t error, int driver_version, char *text, size_t size)
{
    if (driver_version == 0) {
        snprintf(text, size, "no NVIDIA driver is installed");
    } else if (error == cudaErrorInsufficientDriver || driver_version < OLDEST_DRIVER) {
        snprintf(text, size, "the NVIDIA driver is too old: it offers CUDA %d.%d, %d.%d is needed", driver_version / 1000,
                 driver_version % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    } else if (error == cudaErrorNoDevice) {
        snprintf(text, size, "an NVIDIA driver is installed, but no device is there (or CUDA_VISIBLE_DEVICES hides it)");
    } else {
        snprintf(text, size, "%s (CUDA error %d)", cudaGetErrorString(error), (int)error);
    }
}

/* The number of devices, or why there is none. */
static bool count_devices(int *count, char *reason, size_t size)
{
    int         driver = 0;
    cudaError_t error = cudaDriverGetVersion(&driver);
    *count = 0;
    if (error == cudaSuccess) error = cudaGetDeviceCount(count);
    (void)cudaGetLastError();
    if (error == cudaSuccess && *count > 0) return true;
    nf_device_reason(error == cudaSuccess ? cudaErrorNoDevice : error, driver, reason, size);
    return false;
}

static bool choose_device(int32_t wanted, char *reason, size_t size)
{
    int count;
    if (!count_devices(&count, reason, size)) return false;
    if (wanted >= 0 && wanted < count && wanted < MOST_DEVICES) return true;
    snprintf(reason, size, "device %d is asked for, there %s %d, numbered from 0", (int)wanted, count == 1 ? "is" : "are", count);
    return false;
}

static cudaError_t read_traits(nf_device *device, int ordinal)
{
    struct cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
    if (error != cudaSuccess) return error;
    device->traits = (nf_device_traits){
        .ordinal = ordinal,
        .major = properties.major,
        .minor = properties.minor,
        .processors = properties.multiProcessorCount,
        .memory_total = properties.totalGlobalMem,
    };
    return cudaSuccess;
}

static nf_status make_pool(nf_context *ctx, nf_device *device)
{
    struct cudaMemPoolProps properties;
    uint64_t         keep = UINT64_MAX; /* what is freed stays in the pool: close_idle trims it */
    memset(&properties, 0, sizeof properties);
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = cudaMemHandleTypeNone;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device->traits.ordinal;
    NF_CUDA(ctx, cudaMemPoolCreate(&device->pool, &properties));
    NF_CUDA(ctx, cudaMemPoolSetAttribute(device->pool, cudaMemPoolAttrReleaseThreshold, &keep));
    return NF_OK;
}

static nf_status open_first(nf_context *ctx, nf_device *device, int ordinal)
{
    size_t available = 0, total = 0;
    NF_CUDA(ctx, cudaSetDevice(ordinal));
    NF_CUDA(ctx, read_traits(device, ordinal));
    NF_CUDA(ctx, cudaMemGetInfo(&available, &total));
    device->free_at_first = available;
    return make_pool(ctx, device);
}

nf_status nf_device_open(nf_context *ctx, nf_device **out)
{
    const int32_t ordinal = nf_context_settings(ctx)->device;
    char          reason[256];
    nf_status     status = NF_OK;

    *out = NULL;
    if (!choose_device(ordinal, reason, sizeof reason)) {
        return nf_fail(ctx, NF_ERR_ENGINE, "the cuda engine cannot run: %s", reason);
    }
    pthread_mutex_lock(&devices_lock);
    if (!is_open[ordinal]) {
        status = open_first(ctx, &devices[ordinal], ordinal);
        is_open[ordinal] = status >= 0;
    }
    if (status >= 0) atomic_fetch_add(&devices[ordinal].users, 1);
    pthread_mutex_unlock(&devices_lock);
    if (status < 0) return status;
    *out = &devices[ordinal];
    status = nf_device_enter(ctx, *out);
    if (status < 0) {
        nf_device_release(*out);
        *out = NULL;
    }
    return status;
}

nf_device *nf_device_retain(nf_device *device)
{
    atomic_fetch_add(&device->users, 1);
    return device;
}

/* Gives back what the process kept for later: pinned buffers, and the pool's free blocks. */
static void close_idle(nf_device *device)
{
    int before = 0;
    (void)cudaGetDevice(&before);
    (void)cudaSetDevice(device->traits.ordinal);
    (void)cudaDeviceSynchronize();
    (void)cudaMemPoolTrimTo(device->pool, 0);
    nf_staging_trim();
    (void)cudaSetDevice(before);
}

void nf_device_release(nf_device *device)
{
    if (device == NULL) return;
    pthread_mutex_lock(&devices_lock);
    if (atomic_fetch_sub(&device->users, 1) == 1) close_idle(device);
    pthread_mutex_unlock(&devices_lock);
}

const nf_device_traits *nf_device_get_traits(const nf_device *device)
{
    return &device->traits;
}

nf_status nf_device_enter(nf_context *ctx, const nf_device *device)
{
    return nf_cuda_check(ctx, cudaSetDevice(device->traits.ordinal), "cudaSetDevice");
}

void nf_device_describe(int32_t ordinal, nf_module_device *out)
{
    int            version = 0;
    size_t         available = 0, total = 0;
    struct cudaDeviceProp properties;

    memset(out, 0, sizeof *out);
    out->rt_core_version = -1;
    if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0) {
        snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    }
    if (!choose_device(ordinal, out->reason, sizeof out->reason)) return;
    cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
    if (error == cudaSuccess) error = cudaSetDevice(ordinal);
    if (error == cudaSuccess) error = cudaMemGetInfo(&available, &total);
    (void)cudaGetLastError();
    if (error != cudaSuccess) {
        nf_device_reason(error, version, out->reason, sizeof out->reason);
        return;
    }
    snprintf(out->device, sizeof out->device, "%.63s, compute capability %d.%d, %d multiprocessors", properties.name,
             properties.major, properties.minor, properties.multiProcessorCount);
    out->memory_total = total;
    out->memory_free = available;
    (void)nf_rt_describe(ordinal, &out->rt_core_version, out->ray_tracing, sizeof out->ray_tracing);
    out->usable = true;
}

/* ---- memory ---- */

static uint64_t memory_limit(nf_context *ctx, const nf_device *device)
{
    const uint64_t asked = nf_context_settings(ctx)->gpu_memory, most = device->free_at_first / 10 * 9;
    return asked != 0 && asked < most ? asked : most;
}

uint64_t nf_device_memory_left(nf_context *ctx, const nf_device *device)
{
    const uint64_t limit = memory_limit(ctx, device);
    uint64_t       used = 0;
    if (cudaMemPoolGetAttribute(device->pool, cudaMemPoolAttrUsedMemCurrent, &used) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return limit > used ? limit - used : 0;
}

nf_status nf_device_try_alloc(nf_context *ctx, nf_device *device, cudaStream_t stream, uint64_t count, size_t size, void **out)
{
    uint64_t bytes;
    *out = NULL;
    if (!nf_multiply(count, size, &bytes)) return NF_ERR_DEVICE_MEMORY;
    if (bytes == 0) bytes = 1;
    if (bytes > nf_device_memory_left(ctx, device)) return NF_ERR_LIMIT;
    const cudaError_t error = cudaMallocFromPoolAsync(out, bytes, device->pool, stream);
    if (error == cudaSuccess) return NF_OK;
    *out = NULL;
    (void)cudaGetLastError();
    return error == cudaErrorMemoryAllocation ? NF_ERR_DEVICE_MEMORY : nf_cuda_check(ctx, error, "cudaMallocFromPoolAsync");
}

nf_status nf_device_alloc(nf_context *ctx, nf_device *device, cudaStream_t stream, uint64_t count, size_t size, void **out)
{
    const nf_status status = nf_device_try_alloc(ctx, device, stream, count, size, out);
    if (status == NF_ERR_LIMIT) {
        return nf_fail(ctx, status, "the limit of %llu bytes of device memory is too small: %llu bytes are left of it, "
                                    "%llu x %zu more are needed",
                       (unsigned long long)memory_limit(ctx, device), (unsigned long long)nf_device_memory_left(ctx, device),
                       (unsigned long long)count, size);
    }
    if (status == NF_ERR_DEVICE_MEMORY) {
        return nf_fail(ctx, status, "device memory is exhausted: %llu x %zu bytes were asked for", (unsigned long long)count, size);
    }
    return status;
}

void nf_device_free(nf_device *device, cudaStream_t stream, void *block)
{
    if (block == NULL) return;
    const cudaError_t set = cudaSetDevice(device->traits.ordinal), freed = cudaFreeAsync(block, stream);
    if (set != cudaSuccess || freed != cudaSuccess) (void)cudaGetLastError(); /* or the next launch would be blamed */
}
