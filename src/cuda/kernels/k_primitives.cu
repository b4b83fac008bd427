/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of k_primitives.h by CUB (part of the CUDA toolkit). */
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

#include "k_primitives.h"

namespace {

/* Adds in 64 bits, whatever the type of the array: CUB would add up u32 in 32 bits. */
struct add {
    __host__ __device__ uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};

} // namespace

extern "C" {

cudaError_t nf_k_sort_u64(void *temp, size_t *temp_bytes, const uint64_t *keys_in, uint64_t *keys_out,
                          const uint32_t *values_in, uint32_t *values_out, uint32_t count, int begin_bit, int end_bit,
                          cudaStream_t stream)
{
    return cub::DeviceRadixSort::SortPairs(temp, *temp_bytes, keys_in, keys_out, values_in, values_out, count, begin_bit,
                                           end_bit, stream);
}

cudaError_t nf_k_sort_u32(void *temp, size_t *temp_bytes, const uint32_t *keys_in, uint32_t *keys_out,
                          const uint32_t *values_in, uint32_t *values_out, uint32_t count, int begin_bit, int end_bit,
                          cudaStream_t stream)
{
    return cub::DeviceRadixSort::SortPairs(temp, *temp_bytes, keys_in, keys_out, values_in, values_out, count, begin_bit,
                                           end_bit, stream);
}

cudaError_t nf_k_exclusive_sum_u32(void *temp, size_t *temp_bytes, const uint32_t *in, uint64_t *out, uint64_t count,
                                   cudaStream_t stream)
{
    return cub::DeviceScan::ExclusiveScan(temp, *temp_bytes, in, out, add{}, uint64_t{0}, count, stream);
}

} // extern "C"
