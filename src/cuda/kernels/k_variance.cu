/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Column means, mean squared deviations and bounds of rows, in binary64. A column is summed by blocks of rows and the
 * blocks' sums are added in a fixed order; how many blocks there are depends on the shape alone, so the sums do not depend
 * on the device.
 */
#include "k_launch.h"
#include "k_points.h"

namespace {

constexpr unsigned BLOCK = 256;
constexpr unsigned MOST_BLOCKS = 2048;       /* of rows */
constexpr unsigned LEAST_ROWS = 256;         /* of a block */
constexpr unsigned SCRATCH_DOUBLES = 1u << 22; /* at most about so many partial sums */

uint32_t row_blocks(uint32_t rows, uint32_t dims)
{
    const uint32_t most = min(MOST_BLOCKS, max(1u, SCRATCH_DOUBLES / dims));
    return max(1u, min(most, rows / LEAST_ROWS));
}

/* Block (x, y) sums the y-th BLOCK columns over the x-th range of rows. Where rows are short, several lanes of threads take
 * every lanes-th row of it. */
template <typename T>
__global__ void column_sums(const T *values, uint32_t rows, uint32_t dims, uint32_t stride, uint32_t rows_per_block,
                            const double *centre, double *partial)
{
    __shared__ double sums[BLOCK];
    const uint32_t width = min(stride, BLOCK), lanes = BLOCK / width, lane = threadIdx.x / width;
    const uint32_t column = blockIdx.y * BLOCK + threadIdx.x % width;
    const bool     mine = lane < lanes && column < dims;
    double         sum = 0.0;

    if (mine) {
        const double   middle = centre != nullptr ? centre[column] : 0.0;
        const uint32_t begin = min(rows, blockIdx.x * rows_per_block), end = min(rows, begin + rows_per_block);
        for (uint32_t row = begin + lane; row < end; row += lanes) {
            const double value = (double)values[(size_t)row * stride + column] - middle;
            sum += centre != nullptr ? value * value : value;
        }
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (!mine || lane != 0) return;
    for (uint32_t other = 1; other < lanes; other++) sum += sums[other * width + threadIdx.x];
    partial[(size_t)blockIdx.x * dims + column] = sum;
}

/* A warp per column. */
__global__ void add_blocks(const double *partial, uint32_t blocks, uint32_t dims, double divisor, double *means)
{
    const uint32_t column = (blockIdx.x * BLOCK + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (column >= dims) return;
    double sum = 0.0;
    for (uint32_t block = lane; block < blocks; block += 32) sum += partial[(size_t)block * dims + column];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0) means[column] = sum / divisor;
}

/* lanes threads per row, a power of 2 up to 32. Bits of doubles that are not negative order as the doubles do. */
template <typename T>
__global__ void row_bounds(const T *values, uint32_t rows, uint32_t stride, uint32_t lanes, unsigned long long *bounds)
{
    const uint32_t lane = threadIdx.x % lanes, at_once = BLOCK / lanes;
    double         magnitude = 0.0, square = 0.0;

    for (uint32_t first = blockIdx.x * at_once; first < rows; first += gridDim.x * at_once) {
        const uint32_t row = first + threadIdx.x / lanes;
        double         sum = 0.0;
        if (row < rows) {
            for (uint32_t k = lane; k < stride; k += lanes) {
                const double value = (double)values[(size_t)row * stride + k];
                sum += value * value;
                magnitude = fmax(magnitude, fabs(value));
            }
        }
        for (uint32_t step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, (int)step);
        square = fmax(square, sum);
    }
    for (int step = 16; step > 0; step /= 2) {
        magnitude = fmax(magnitude, __shfl_xor_sync(0xffffffffu, magnitude, step));
        square = fmax(square, __shfl_xor_sync(0xffffffffu, square, step));
    }
    if (threadIdx.x % 32 != 0) return;
    atomicMax(&bounds[0], (unsigned long long)__double_as_longlong(magnitude));
    atomicMax(&bounds[1], (unsigned long long)__double_as_longlong(square));
}

uint32_t lanes_for(uint32_t stride)
{
    uint32_t lanes = 1;
    while (lanes < 32 && lanes * 4 < stride) lanes *= 2;
    return lanes;
}

template <typename T>
cudaError_t launch_columns(nf_k_raw raw, const double *centre, double *scratch, double *means, cudaStream_t stream)
{
    const uint32_t blocks = row_blocks(raw.rows, raw.dims);
    const uint32_t rows_per_block = (uint32_t)(((uint64_t)raw.rows + blocks - 1) / blocks);
    const dim3     grid(blocks, nf_k_blocks(raw.dims, BLOCK));

    NF_LAUNCH(column_sums<T>, grid, BLOCK, 0, stream)
    (static_cast<const T *>(raw.values), raw.rows, raw.dims, raw.stride, rows_per_block, centre, scratch);
    const cudaError_t error = nf_k_launched();
    if (error != cudaSuccess) return error;
    NF_LAUNCH(add_blocks, nf_k_blocks(raw.dims, BLOCK / 32), BLOCK, 0, stream)
    (scratch, blocks, raw.dims, (double)raw.rows, means);
    return nf_k_launched();
}

template <typename T>
cudaError_t launch_bounds(nf_k_raw raw, double *bounds, cudaStream_t stream)
{
    const uint32_t lanes = lanes_for(raw.stride);
    const unsigned blocks = min(MOST_BLOCKS, nf_k_blocks(raw.rows, BLOCK / lanes));
    NF_LAUNCH(row_bounds<T>, blocks, BLOCK, 0, stream)
    (static_cast<const T *>(raw.values), raw.rows, raw.stride, lanes, reinterpret_cast<unsigned long long *>(bounds));
    return nf_k_launched();
}

} // namespace

extern "C" uint64_t nf_k_column_scratch(uint32_t rows, uint32_t dims)
{
    return (uint64_t)row_blocks(rows, dims) * dims;
}

extern "C" cudaError_t nf_k_column_means(nf_k_raw raw, const double *centre, double *scratch, double *means,
                                         cudaStream_t stream)
{
    return raw.wide ? launch_columns<double>(raw, centre, scratch, means, stream)
                    : launch_columns<float>(raw, centre, scratch, means, stream);
}

extern "C" cudaError_t nf_k_row_bounds(nf_k_raw raw, double bounds[2], cudaStream_t stream)
{
    return raw.wide ? launch_bounds<double>(raw, bounds, stream) : launch_bounds<float>(raw, bounds, stream);
}
