/* SPDX-License-Identifier: Apache-2.0 */
/* Images of rows for tensor cores (k_tensor.h): a warp makes a row, 64 dims of binary16 or 128 of bytes at a time. */
#include "k_half.cuh"
#include "k_tensor.h"

namespace {

constexpr int      warps = 8, threads = 32 * warps;
constexpr uint32_t centre_rows = 4096; /* that a mean is taken of */

/* A thread per dim; the rows are spread evenly. */
__global__ void centre_kernel(nf_k_rows rows, uint64_t count, bool integers, double *centre)
{
    const uint32_t k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= rows.dims) return;
    const uint64_t taken = count < centre_rows ? count : centre_rows;
    double         sum = 0.0;
    for (uint64_t i = 0; i < taken; i++) sum += (double)static_cast<const float *>(rows.values)[i * count / taken * rows.stride + k];
    const double mean = sum / (double)taken;
    centre[k] = integers ? rint(mean) : mean;
}

__device__ inline double warp_sum(double value)
{
    for (int by = 16; by > 0; by /= 2) value += __shfl_xor_sync(0xffffffffu, value, by);
    return value;
}

__device__ inline uint8_t *place_of(const nf_k_images &to, uint32_t row, uint32_t chunk, uint32_t byte)
{
    const uint32_t tile = row / NF_K_TENSOR_TILE, r = row % NF_K_TENSOR_TILE;
    const uint64_t start = (((uint64_t)tile * to.chunks + chunk) * NF_K_TENSOR_TILE + r) * NF_K_TENSOR_CHUNK;
    return to.image + start + ((byte / 16 ^ r % 8) * 16 + byte % 16);
}

__device__ inline float value_at(const nf_k_rows &rows, uint32_t row, uint32_t k)
{
    return k < rows.dims ? static_cast<const float *>(rows.values)[(uint64_t)row * rows.stride + k] : 0.0f;
}

/* Raises a float that is not negative. */
__device__ inline void raise_to(float *at, float value)
{
    atomicMax(reinterpret_cast<unsigned *>(at), __float_as_uint(value));
}

__device__ inline void half_row(const nf_k_imaging &from, const nf_k_images &to, uint32_t row)
{
    const uint32_t lane = threadIdx.x % 32;
    const bool     there = row < to.rows;
    double         square = 0.0, lost = 0.0;
    for (uint32_t chunk = 0; chunk < to.chunks; chunk++) {
        uint32_t word = 0;
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t k = chunk * 64 + lane * 2 + i;
            const double exact = there && k < from.rows.dims ? ((double)value_at(from.rows, row, k) - from.centre[k]) * from.scale : 0.0;
            const uint16_t bits = half_of((float)exact);
            const double   kept = (double)value_of(bits), rounded = from.whole ? 0.0 : fabs(exact) * 0x1p-50;
            const double   less = fabs(exact - kept) + rounded; /* the difference from the centre is rounded, too */
            square = __fma_rn(kept, kept, square);
            lost = __fma_rn(less, less, lost);
            word |= (uint32_t)bits << 16 * i;
        }
        *reinterpret_cast<uint32_t *>(place_of(to, row, chunk, lane * 4)) = word;
    }
    square = warp_sum(square);
    lost = warp_sum(lost);
    if (lane != 0) return;
    static_cast<float *>(to.norms)[row] = there ? __double2float_rn(0.5 * square) : __int_as_float(0x7f800000);
    if (!there) return;
    raise_to(&to.length[row / NF_K_TENSOR_TILE], __double2float_ru(sqrt(square) * (1.0 + 0x1p-40)));
    raise_to(&to.rest[row / NF_K_TENSOR_TILE], __double2float_ru(sqrt(lost) * (1.0 + 0x1p-40)));
}

__device__ inline void byte_row(const nf_k_imaging &from, const nf_k_images &to, uint32_t row)
{
    const uint32_t lane = threadIdx.x % 32;
    int            square = 0;
    for (uint32_t chunk = 0; chunk < to.chunks; chunk++) {
        uint32_t word = 0;
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t k = chunk * 128 + lane * 4 + i;
            const int value = row < to.rows && k < from.rows.dims ? (int)(value_at(from.rows, row, k) + from.bias) : 0;
            word |= (uint32_t)value << 8 * i;
            square += value * value;
        }
        *reinterpret_cast<uint32_t *>(place_of(to, row, chunk, lane * 4)) = word;
    }
    for (int by = 16; by > 0; by /= 2) square += __shfl_xor_sync(0xffffffffu, square, by);
    if (lane == 0) static_cast<int32_t *>(to.norms)[row] = square;
}

__global__ void images_kernel(nf_k_imaging from, nf_k_images to)
{
    const uint64_t all = (uint64_t)to.tiles * NF_K_TENSOR_TILE, step = (uint64_t)gridDim.x * warps;
    for (uint64_t row = (uint64_t)blockIdx.x * warps + threadIdx.x / 32; row < all; row += step) {
        if (from.bytes) {
            byte_row(from, to, (uint32_t)row);
        } else {
            half_row(from, to, (uint32_t)row);
        }
    }
}

} // namespace

extern "C" cudaError_t nf_k_tensor_centre(const nf_k_rows *rows, uint64_t count, bool integers, double *centre,
                                          cudaStream_t stream)
{
    (void)stream;
    NF_LAUNCH(centre_kernel, nf_k_blocks(rows->dims, 32), 32, 0, stream)(*rows, count, integers, centre);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_tensor_images(const nf_k_imaging *from, const nf_k_images *images, cudaStream_t stream)
{
    const unsigned long long all = (unsigned long long)images->tiles * NF_K_TENSOR_TILE;
    const unsigned           blocks = nf_k_blocks(all, warps);
    (void)stream;
    NF_LAUNCH(images_kernel, blocks < 65536u ? blocks : 65536u, threads, 0, stream)(*from, *images);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_tensor_run(cudaStream_t stream, const nf_k_tensor *job, uint32_t processors)
{
    return job->hopper ? nf_k_tensor_hopper_run(stream, job, processors) : nf_k_tensor_mma_run(stream, job, processors);
}
