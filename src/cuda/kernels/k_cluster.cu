/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of k-means (k_cluster.h). Means: a block has a cluster and a slice of the dims, eight lanes wide, so that a
 * cluster with most of the rows still gets many blocks. Its rows are dealt to PARTS groups of eight lanes in turn; each
 * adds up its own in ascending order, and the parts are then added up pairwise. So the order depends on how many there are.
 */
#include "k_cluster.h"
#include "k_launch.h"

namespace {

constexpr uint32_t PARTS = 32, LANES = 8, BLOCK = PARTS * LANES;
constexpr uint32_t AT_ONCE = 4; /* rows of a part on their way from memory */

/* W neighbouring values: four where rows are aligned, else one. */
template <int W>
struct values {
    float v[W];
};

__device__ inline values<4> read_values(const float *from, values<4>)
{
    const float4 four = *reinterpret_cast<const float4 *>(from);
    return {{four.x, four.y, four.z, four.w}};
}

__device__ inline values<1> read_values(const float *from, values<1>)
{
    return {{*from}};
}

__device__ inline void write_values(float *to, const values<4> &from)
{
    float4 four = {from.v[0], from.v[1], from.v[2], from.v[3]};
    *reinterpret_cast<float4 *>(to) = four;
}

__device__ inline void write_values(float *to, const values<1> &from)
{
    *to = from.v[0];
}

/* How many of the sorted labels are below c, by bisection: a thread per c. */
__global__ void find_starts(const uint32_t *labels, uint32_t count, uint32_t clusters, uint32_t *starts)
{
    const uint32_t c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c > clusters) return;
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (labels[middle] < c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    starts[c] = low;
}

/* Adds rows part, part + PARTS, ... of a cluster to sum. */
template <int W>
__device__ inline void add_part(const float *rows, uint32_t stride, const uint32_t *members, uint32_t count, uint32_t part,
                                double sum[W])
{
    uint32_t i = part;
    for (; count > (AT_ONCE - 1) * PARTS && i < count - (AT_ONCE - 1) * PARTS; i += AT_ONCE * PARTS) {
        uint32_t  member[AT_ONCE];
        values<W> row[AT_ONCE];
        NF_UNROLL
        for (uint32_t a = 0; a < AT_ONCE; a++) member[a] = members[i + a * PARTS];
        NF_UNROLL
        for (uint32_t a = 0; a < AT_ONCE; a++) row[a] = read_values(rows + (uint64_t)member[a] * stride, values<W>());
        NF_UNROLL
        for (uint32_t a = 0; a < AT_ONCE; a++) {
            NF_UNROLL
            for (int w = 0; w < W; w++) sum[w] += (double)row[a].v[w];
        }
    }
    for (; i < count; i += PARTS) {
        const values<W> row = read_values(rows + (uint64_t)members[i] * stride, values<W>());
        NF_UNROLL
        for (int w = 0; w < W; w++) sum[w] += (double)row.v[w];
    }
}

template <int W>
__global__ void __launch_bounds__(BLOCK)
    average(const float *rows, uint32_t dims, uint32_t stride, const uint32_t *members, const uint32_t *starts,
            uint32_t slices, float *centroids)
{
    __shared__ double parts[PARTS][LANES * W + 1];
    const uint32_t    cluster = blockIdx.x / slices, lane = threadIdx.x % LANES, part = threadIdx.x / LANES;
    const uint32_t    first = starts[cluster], count = starts[cluster + 1] - first;
    const uint32_t    slice = blockIdx.x % slices * LANES * W, dim = slice + lane * W;
    double            sum[W];

    if (count == 0) return;
    NF_UNROLL
    for (int w = 0; w < W; w++) sum[w] = 0.0;
    if (dim < dims) add_part<W>(rows + dim, stride, members + first, count, part, sum);
    NF_UNROLL
    for (int w = 0; w < W; w++) parts[part][lane * W + (uint32_t)w] = sum[w];
    __syncthreads();
    for (uint32_t step = PARTS / 2; step > 0; step /= 2) {
        for (uint32_t i = threadIdx.x; i < step * LANES * W; i += BLOCK) {
            parts[i / (LANES * W)][i % (LANES * W)] += parts[i / (LANES * W) + step][i % (LANES * W)];
        }
        __syncthreads();
    }
    if (threadIdx.x < LANES * W && slice + threadIdx.x < dims) {
        centroids[(uint64_t)cluster * stride + slice + threadIdx.x] = (float)(parts[0][threadIdx.x] / (double)count);
    }
}

/* lanes threads per row, a power of two up to 32. */
template <int W>
__global__ void take(const float *from, const uint32_t *which, uint32_t count, uint32_t stride, uint32_t lanes, float *to)
{
    const uint64_t row = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / lanes;
    if (row >= count) return;
    const float *source = from + (uint64_t)which[row] * stride;
    float       *target = to + row * stride;
    for (uint32_t k = threadIdx.x % lanes * W; k < stride; k += lanes * W) {
        write_values(target + k, read_values(source + k, values<W>()));
    }
}

bool aligned(const void *at, uint32_t stride)
{
    return stride % 4 == 0 && reinterpret_cast<uintptr_t>(at) % 16 == 0;
}

/* Blocks of a cluster are neighbours: they read the same rows at about the same time. */
template <int W>
cudaError_t launch_average(const float *rows, uint32_t dims, uint32_t stride, const uint32_t *members,
                           const uint32_t *starts, uint32_t clusters, float *centroids, cudaStream_t stream)
{
    const uint32_t slices = nf_k_blocks(dims, LANES * W);
    if (clusters == 0) return cudaSuccess;
    NF_LAUNCH(average<W>, clusters * slices, BLOCK, 0, stream)(rows, dims, stride, members, starts, slices, centroids);
    return nf_k_launched();
}

template <int W>
cudaError_t launch_take(const float *from, const uint32_t *which, uint32_t count, uint32_t stride, float *to,
                        cudaStream_t stream)
{
    uint32_t lanes = 1;
    while (lanes < 32 && lanes * W < stride) lanes *= 2;
    NF_LAUNCH(take<W>, nf_k_blocks((uint64_t)count * lanes, BLOCK), BLOCK, 0, stream)(from, which, count, stride, lanes, to);
    return nf_k_launched();
}

} // namespace

extern "C" cudaError_t nf_k_label_starts(const uint32_t *sorted_labels, uint32_t count, uint32_t clusters, uint32_t *starts,
                                         cudaStream_t stream)
{
    NF_LAUNCH(find_starts, nf_k_blocks((uint64_t)clusters + 1, BLOCK), BLOCK, 0, stream)
    (sorted_labels, count, clusters, starts);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_cluster_means(const float *rows, uint32_t dims, uint32_t stride, const uint32_t *members,
                                          const uint32_t *starts, uint32_t clusters, float *centroids, cudaStream_t stream)
{
    if (aligned(rows, stride)) return launch_average<4>(rows, dims, stride, members, starts, clusters, centroids, stream);
    return launch_average<1>(rows, dims, stride, members, starts, clusters, centroids, stream);
}

extern "C" cudaError_t nf_k_take_rows(const float *from, const uint32_t *which, uint32_t count, uint32_t stride, float *to,
                                      cudaStream_t stream)
{
    if (aligned(from, stride) && aligned(to, stride)) return launch_take<4>(from, which, count, stride, to, stream);
    return launch_take<1>(from, which, count, stride, to, stream);
}
