/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of k_primitives.h for the emulated device, by the standard library. They want scratch that depends on the
 * call, write all over it, and refuse less, so that a caller who passes another call's scratch is found out.
 */
#include "cuda/kernels/k_primitives.h"
#include "emulator_faults.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

/* Answers the first of the two calls (true), or checks and spoils the scratch of the second. */
bool wants_scratch(void *temp, size_t *temp_bytes, uint64_t count, cudaError_t *error)
{
    const size_t wanted = 64 + (size_t)count / 2;
    *error = cudaSuccess;
    if (temp == nullptr) {
        *temp_bytes = wanted;
        return true;
    }
    if (*temp_bytes < wanted) {
        *error = cudaErrorInvalidValue;
        return true;
    }
    std::memset(temp, 0xa5, wanted);
    *error = nf_emulated_fault();
    return *error != cudaSuccess;
}

template <typename Key>
cudaError_t sort_pairs(void *temp, size_t *temp_bytes, const Key *keys_in, Key *keys_out, const uint32_t *values_in,
                       uint32_t *values_out, uint32_t count, int begin_bit, int end_bit)
{
    cudaError_t error;
    const int   width = (int)(8 * sizeof(Key));
    if (begin_bit < 0 || end_bit > width || begin_bit > end_bit) return cudaErrorInvalidValue;
    if (wants_scratch(temp, temp_bytes, count, &error)) return error;
    if (count > 0 && (keys_in == keys_out || values_in == values_out)) return cudaErrorInvalidValue;

    const int bits = end_bit - begin_bit;
    const Key mask = bits == width ? (Key)~(Key)0 : (Key)(((Key)1 << bits) - 1);
    auto      part = [&](uint32_t i) { return bits == 0 ? (Key)0 : (Key)(keys_in[i] >> begin_bit & mask); };
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return part(a) < part(b); });
    for (uint32_t i = 0; i < count; i++) {
        keys_out[i] = keys_in[order[i]];
        values_out[i] = values_in[order[i]];
    }
    return cudaSuccess;
}

template <typename Number>
cudaError_t exclusive_sum(void *temp, size_t *temp_bytes, const Number *in, uint64_t *out, uint64_t count)
{
    cudaError_t error;
    if (wants_scratch(temp, temp_bytes, count, &error)) return error;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        out[i] = sum;
        sum += in[i];
    }
    return cudaSuccess;
}

} // namespace

extern "C" {

cudaError_t nf_k_sort_u64(void *temp, size_t *temp_bytes, const uint64_t *keys_in, uint64_t *keys_out,
                          const uint32_t *values_in, uint32_t *values_out, uint32_t count, int begin_bit, int end_bit,
                          cudaStream_t)
{
    return sort_pairs(temp, temp_bytes, keys_in, keys_out, values_in, values_out, count, begin_bit, end_bit);
}

cudaError_t nf_k_sort_u32(void *temp, size_t *temp_bytes, const uint32_t *keys_in, uint32_t *keys_out,
                          const uint32_t *values_in, uint32_t *values_out, uint32_t count, int begin_bit, int end_bit,
                          cudaStream_t)
{
    return sort_pairs(temp, temp_bytes, keys_in, keys_out, values_in, values_out, count, begin_bit, end_bit);
}

cudaError_t nf_k_exclusive_sum_u32(void *temp, size_t *temp_bytes, const uint32_t *in, uint64_t *out, uint64_t count,
                                   cudaStream_t)
{
    return exclusive_sum(temp, temp_bytes, in, out, count);
}

} // extern "C"
