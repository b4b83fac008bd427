/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes around groups, rounded outwards to binary32, and balls: any point near the mean as the centre, and the largest
 * distance from it, rounded up. A block per group; sums are added in an order that the shape alone fixes.
 */
#include "k_launch.h"
#include "k_points.h"

#include <float.h>

namespace {

constexpr unsigned BLOCK = 128;

/* A centre beyond binary32 would be infinite, and differences of two such centres not a number. */
__device__ inline float finite_float(double value)
{
    return value > (double)FLT_MAX ? FLT_MAX : value < -(double)FLT_MAX ? -FLT_MAX : (float)value;
}

/* Threads take columns; where rows are short, several lanes of threads take every lanes-th row each. */
template <typename T>
__global__ void group_boxes(const T *values, const uint32_t *group_start, uint32_t dims, uint32_t stride, float *boxes,
                            float *centroid)
{
    __shared__ T      lows[BLOCK], highs[BLOCK];
    __shared__ double sums[BLOCK];
    const uint32_t begin = group_start[blockIdx.x], end = group_start[blockIdx.x + 1];
    const uint32_t width = min(stride, BLOCK), lanes = BLOCK / width, lane = threadIdx.x / width;
    const double   share = 1.0 / (end - begin);
    float         *box = boxes + (size_t)blockIdx.x * 2 * dims, *centre = centroid + (size_t)blockIdx.x * stride;

    for (uint32_t first = 0; first < stride; first += width) {
        const uint32_t column = first + threadIdx.x % width;
        const bool     mine = lane < lanes && column < stride;
        T              low = (T)INFINITY, high = -(T)INFINITY;
        double         sum = 0.0;
        for (uint32_t row = begin + lane; mine && row < end; row += lanes) {
            const T value = values[(size_t)row * stride + column];
            low = min(low, value);
            high = max(high, value);
            sum += (double)value * share;
        }
        lows[threadIdx.x] = low;
        highs[threadIdx.x] = high;
        sums[threadIdx.x] = sum;
        __syncthreads();
        if (mine && lane == 0) {
            for (uint32_t other = threadIdx.x + width; other < lanes * width; other += width) {
                low = min(low, lows[other]);
                high = max(high, highs[other]);
                sum += sums[other];
            }
            if (column < dims) {
                box[column] = __double2float_rd((double)low);
                box[dims + column] = __double2float_ru((double)high);
            }
            centre[column] = finite_float(sum); /* 0 beyond dims */
        }
        __syncthreads();
    }
}

/* lanes threads per row, a power of 2 up to 32. The sum of squares has a relative error of at most (dims + 3) 2^-53, which
 * the factor covers for every allowed number of dims. */
template <typename T>
__global__ void group_spreads(const T *values, const uint32_t *group_start, uint32_t dims, uint32_t stride, uint32_t lanes,
                              const float *centroid, float *spread)
{
    __shared__ double of_warp[BLOCK / 32];
    const uint32_t begin = group_start[blockIdx.x], end = group_start[blockIdx.x + 1];
    const uint32_t lane = threadIdx.x % lanes, at_once = BLOCK / lanes;
    const float   *centre = centroid + (size_t)blockIdx.x * stride;
    double         largest = 0.0;

    for (uint32_t first = begin; first < end; first += at_once) {
        const uint32_t row = first + threadIdx.x / lanes;
        double         sum = 0.0;
        for (uint32_t k = lane; row < end && k < dims; k += lanes) {
            const double difference = (double)values[(size_t)row * stride + k] - (double)centre[k];
            sum += difference * difference;
        }
        for (uint32_t step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, (int)step);
        largest = fmax(largest, sum);
    }
    for (int step = 16; step > 0; step /= 2) largest = fmax(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (unsigned warp = 1; warp < BLOCK / 32; warp++) largest = fmax(largest, of_warp[warp]);
    spread[blockIdx.x] = __double2float_ru(sqrt(largest) * (1.0 + 0x1p-30));
}

uint32_t lanes_for(uint32_t stride)
{
    uint32_t lanes = 1;
    while (lanes < 32 && lanes * 4 < stride) lanes *= 2;
    return lanes;
}

template <typename T>
cudaError_t launch_boxes(nf_k_raw points, const uint32_t *group_start, uint32_t count, float *boxes, float *centroid,
                         cudaStream_t stream)
{
    NF_LAUNCH(group_boxes<T>, count, BLOCK, 0, stream)
    (static_cast<const T *>(points.values), group_start, points.dims, points.stride, boxes, centroid);
    return nf_k_launched();
}

template <typename T>
cudaError_t launch_spreads(nf_k_raw points, const uint32_t *group_start, uint32_t count, const float *centroid,
                           float *spread, cudaStream_t stream)
{
    NF_LAUNCH(group_spreads<T>, count, BLOCK, 0, stream)
    (static_cast<const T *>(points.values), group_start, points.dims, points.stride, lanes_for(points.stride), centroid,
     spread);
    return nf_k_launched();
}

} // namespace

extern "C" cudaError_t nf_k_group_boxes(nf_k_raw points, const uint32_t *group_start, uint32_t count, float *boxes,
                                        float *centroid, cudaStream_t stream)
{
    return points.wide ? launch_boxes<double>(points, group_start, count, boxes, centroid, stream)
                       : launch_boxes<float>(points, group_start, count, boxes, centroid, stream);
}

extern "C" cudaError_t nf_k_group_spreads(nf_k_raw points, const uint32_t *group_start, uint32_t count,
                                          const float *centroid, float *spread, cudaStream_t stream)
{
    return points.wide ? launch_spreads<double>(points, group_start, count, centroid, spread, stream)
                       : launch_spreads<float>(points, group_start, count, centroid, spread, stream);
}
