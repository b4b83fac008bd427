/* SPDX-License-Identifier: Apache-2.0 */
/* Methods boxes and none (k_hits.h): a block takes a query group and walks two levels of boxes of the data. */
#include "k_hits.h"
#include "k_launch.h"
#include "k_tensor.h"

namespace {

constexpr int threads = 256;

/* The squared gap between two boxes, in binary32 with a relative error of (dims + 3) 2^-24; beyond limit any such value. */
__device__ inline bool gap_exceeds(const float *a, const float *b, uint32_t dims, float limit)
{
    float sum = 0.0f;
    for (uint32_t k = 0; k < dims; k++) {
        const float below = b[k] - a[dims + k], above = a[k] - b[dims + k];
        const float gap = below > above ? below : above;
        if (gap > 0.0f) sum += gap * gap;
        if (sum > limit) return true;
    }
    return false;
}

__device__ inline bool balls_apart(const nf_k_group_pairs &job, uint32_t query_group, uint32_t group)
{
    const float *a = job.query_centroid + (uint64_t)query_group * job.stride;
    const float *b = job.data_centroid + (uint64_t)group * job.stride;
    const double reach = job.radius + (double)job.query_spread[query_group] + (double)job.data_spread[group];
    const float  limit = (float)(reach * reach * job.widening + job.underflow);
    float        sum = 0.0f;
    for (uint32_t k = 0; k < job.dims; k++) {
        const float difference = a[k] - b[k];
        sum += difference * difference;
        if (sum > limit) return true;
    }
    return false;
}

__device__ inline bool left_out(const nf_k_group_pairs &job, uint32_t query_group, uint32_t group)
{
    return job.self_join != 0 && group >= job.skip_from && group < query_group;
}

__device__ inline bool hits(const nf_k_group_pairs &job, uint32_t query_group, uint32_t group)
{
    if (left_out(job, query_group, group)) return false;
    if (job.all != 0) return true;
    const float *query_box = job.query_boxes + (uint64_t)query_group * 2 * job.dims;
    if (gap_exceeds(query_box, job.data_boxes + (uint64_t)group * 2 * job.dims, job.dims, job.give_up_square)) return false;
    return !balls_apart(job, query_group, group);
}

__device__ inline bool super_hits(const nf_k_group_pairs &job, uint32_t query_group, uint32_t super)
{
    const uint32_t first = super * NF_K_SUPER, last = min(first + NF_K_SUPER, job.data_groups);
    if (job.self_join != 0 && first >= job.skip_from && last <= query_group) return false;
    if (job.all != 0) return true;
    const float *query_box = job.query_boxes + (uint64_t)query_group * 2 * job.dims;
    return !gap_exceeds(query_box, job.super_boxes + (uint64_t)super * 2 * job.dims, job.dims, job.give_up_square);
}

/* The items of a pair of groups: every slice of the one with every slice of the other. */
__device__ inline void write_items(const nf_k_group_pairs &job, uint32_t query_group, uint32_t group, nf_k_item *out)
{
    const nf_k_slices &q = job.query_slices, &d = job.data_slices;
    const bool         own = job.self_join != 0 && query_group == group && group >= job.skip_from;
    for (uint32_t i = q.group_slice[query_group]; i < q.group_slice[query_group + 1]; i++) {
        for (uint32_t j = own ? i : d.group_slice[group]; j < d.group_slice[group + 1]; j++) {
            const bool counted = own || i > q.group_slice[query_group]; /* the points' hits */
            const bool again = own ? j > i : j > d.group_slice[group];  /* the queries' hits */
            *out++ = nf_k_item{q.slice_start[i], (q.slice_start[i + 1] - q.slice_start[i]) | (counted ? NF_K_CONTINUED : 0),
                               d.slice_start[j], (d.slice_start[j + 1] - d.slice_start[j]) | (again ? NF_K_CONTINUED : 0)};
        }
    }
}

/* How many they are. A group with itself: the slices below are left out. */
__device__ inline uint32_t count_items(const nf_k_group_pairs &job, uint32_t query_group, uint32_t group)
{
    const uint32_t *q = job.query_slices.group_slice, *d = job.data_slices.group_slice;
    const uint32_t  own = q[query_group + 1] - q[query_group];
    if (job.self_join != 0 && query_group == group && group >= job.skip_from) return own * (own + 1) / 2;
    return own * (d[group + 1] - d[group]);
}

__global__ void group_pairs_kernel(const __grid_constant__ nf_k_group_pairs job)
{
    __shared__ uint32_t near[threads];
    __shared__ uint32_t near_count, item_count, group_count;
    const uint32_t      supers = (job.data_groups + NF_K_SUPER - 1) / NF_K_SUPER;

    for (uint64_t at = blockIdx.x; job.begin + at * job.step < job.end; at += gridDim.x) {
        const uint32_t query_group = (uint32_t)(job.begin + at * job.step);
        if (threadIdx.x == 0) item_count = group_count = 0;
        for (uint32_t from = 0; from < supers; from += threads) {
            if (threadIdx.x == 0) near_count = 0;
            __syncthreads();
            const uint32_t super = from + threadIdx.x;
            if (super < supers && super_hits(job, query_group, super)) near[atomicAdd(&near_count, 1u)] = super;
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < near_count * NF_K_SUPER; i += threads) {
                const uint32_t group = near[i / NF_K_SUPER] * NF_K_SUPER + i % NF_K_SUPER;
                if (group >= job.data_groups || !hits(job, query_group, group)) continue;
                const uint32_t place = atomicAdd(&item_count, count_items(job, query_group, group));
                atomicAdd(&group_count, 1u);
                if (job.offsets != nullptr) write_items(job, query_group, group, job.items + job.offsets[at] + place);
            }
            __syncthreads();
        }
        if (threadIdx.x == 0 && job.offsets == nullptr) {
            job.counts[at] = item_count;
            job.group_hits[at] = group_count;
        }
        __syncthreads();
    }
}

/* The groups [first, last) that a tile has rows of; all are as large but one, so the first one is at most a group behind. */
__device__ inline void groups_of_tile(const nf_k_starts &of, uint32_t tile, uint32_t *first, uint32_t *last)
{
    const uint32_t from = tile * NF_K_TENSOR_TILE, to = min(from + NF_K_TENSOR_TILE, of.start[of.count]);
    *first = from / of.size;
    while (*first < of.count && of.start[*first + 1] <= from) ++*first;
    for (*last = *first; *last < of.count && of.start[*last] < to;) ++*last;
}

/* A thread per pair of a query tile and a data tile, words in order. */
__global__ void near_tiles_kernel(const __grid_constant__ nf_k_group_pairs job, nf_k_starts queries, nf_k_starts data,
                                  uint32_t begin, uint32_t end, uint32_t words, uint32_t *near)
{
    const uint32_t tiles = (data.start[data.count] + NF_K_TENSOR_TILE - 1) / NF_K_TENSOR_TILE;
    for (uint64_t at = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; at < (uint64_t)(end - begin) * words * 32;
         at += (uint64_t)gridDim.x * blockDim.x) {
        const uint32_t tile = (uint32_t)(at % ((uint64_t)words * 32));
        uint32_t       query_first, query_last, first = 0, last = 0;
        bool           hit = false;
        groups_of_tile(queries, begin + (uint32_t)(at / 32 / words), &query_first, &query_last);
        if (tile < tiles) groups_of_tile(data, tile, &first, &last);
        for (uint32_t query_group = query_first; query_group < query_last; query_group++) {
            for (uint32_t group = first; group < last && !hit; group++) hit = hits(job, query_group, group);
        }
        const uint32_t word = __ballot_sync(0xffffffffu, hit);
        if (threadIdx.x % 32 == 0) near[at / 32] = word;
    }
}

__global__ void super_boxes_kernel(const float *boxes, uint32_t groups, uint32_t dims, float *super)
{
    const uint32_t supers = (groups + NF_K_SUPER - 1) / NF_K_SUPER;
    const uint64_t number = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= (uint64_t)supers * dims) return;
    const uint32_t at = (uint32_t)(number / dims), k = (uint32_t)(number % dims);
    const uint32_t first = at * NF_K_SUPER, last = min(first + NF_K_SUPER, groups);
    float          low = boxes[(uint64_t)first * 2 * dims + k], high = boxes[(uint64_t)first * 2 * dims + dims + k];
    for (uint32_t group = first + 1; group < last; group++) {
        low = min(low, boxes[(uint64_t)group * 2 * dims + k]);
        high = max(high, boxes[(uint64_t)group * 2 * dims + dims + k]);
    }
    super[(uint64_t)at * 2 * dims + k] = low;
    super[(uint64_t)at * 2 * dims + dims + k] = high;
}

} // namespace

extern "C" cudaError_t nf_k_super_boxes_run(cudaStream_t stream, const float *boxes, uint32_t groups, uint32_t dims, float *super)
{
    const uint64_t supers = (groups + NF_K_SUPER - 1) / NF_K_SUPER;
    (void)stream;
    NF_LAUNCH(super_boxes_kernel, nf_k_blocks(supers * dims, threads), threads, 0, stream)(boxes, groups, dims, super);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_tensor_near(const nf_k_group_pairs *job, nf_k_starts queries, nf_k_starts data, uint32_t begin,
                                        uint32_t end, uint32_t words, uint32_t *near, cudaStream_t stream)
{
    const uint32_t blocks = nf_k_blocks((uint64_t)(end - begin) * words * 32, threads);
    (void)stream;
    NF_LAUNCH(near_tiles_kernel, min(blocks, 65536u), threads, 0, stream)(*job, queries, data, begin, end, words, near);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_group_pairs_run(cudaStream_t stream, const nf_k_group_pairs *job, uint32_t processors)
{
    const uint32_t groups = (job->end - job->begin + job->step - 1) / job->step;
    (void)stream;
    NF_LAUNCH(group_pairs_kernel, min(nf_k_blocks(groups, 1), processors * 64), threads, 0, stream)(*job);
    return nf_k_launched();
}
