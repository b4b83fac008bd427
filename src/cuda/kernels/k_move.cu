/* SPDX-License-Identifier: Apache-2.0 */
/* Moving numbers and rows: a thread per number. */
#include "k_move.h"

#include "k_launch.h"

namespace {

constexpr unsigned BLOCK = 256;

__global__ void change_stride(const float *from, uint32_t from_stride, uint64_t count, uint32_t dims, float *to,
                              uint32_t to_stride)
{
    const uint64_t at = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (at >= count) return;
    const uint64_t row = at / to_stride;
    const uint32_t column = (uint32_t)(at - row * to_stride);
    to[at] = column < dims ? from[row * from_stride + column] : 0.0f;
}

__global__ void take_numbers(const uint32_t *from, const uint32_t *which, uint32_t count, uint32_t *to)
{
    const uint32_t at = blockIdx.x * BLOCK + threadIdx.x;
    if (at < count) to[at] = from[which[at]];
}

} // namespace

extern "C" cudaError_t nf_k_change_stride(const float *from, uint32_t from_stride, uint32_t rows, uint32_t dims, float *to,
                                          uint32_t to_stride, cudaStream_t stream)
{
    const uint64_t count = (uint64_t)rows * to_stride;
    NF_LAUNCH(change_stride, nf_k_blocks(count, BLOCK), BLOCK, 0, stream)(from, from_stride, count, dims, to, to_stride);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_take_numbers(const uint32_t *from, const uint32_t *which, uint32_t count, uint32_t *to,
                                         cudaStream_t stream)
{
    NF_LAUNCH(take_numbers, nf_k_blocks(count, BLOCK), BLOCK, 0, stream)(from, which, count, to);
    return nf_k_launched();
}
