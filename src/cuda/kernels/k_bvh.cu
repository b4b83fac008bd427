/* SPDX-License-Identifier: Apache-2.0 */
/* Method bvh (k_hits.h): the paper's test in software, a thread per query; and what the lists of bvh and rt are made with. */
#include "k_hits.h"
#include "k_launch.h"

namespace {

constexpr int threads = 256;

__device__ inline double value_at(const nf_k_rows &rows, uint64_t row, uint32_t k)
{
    const uint64_t at = row * rows.stride + k;
    return rows.wide != 0 ? static_cast<const double *>(rows.values)[at] : (double)static_cast<const float *>(rows.values)[at];
}

__global__ void index_dims_kernel(nf_k_rows rows, uint64_t count, float *out)
{
    const uint64_t row = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= count) return;
    for (uint32_t k = 0; k < 3; k++) out[3 * row + k] = k < rows.dims ? __double2float_rn(value_at(rows, row, k)) : 0.0f;
}

__global__ void grow_boxes_kernel(const float *boxes, uint32_t groups, uint32_t dims, double radius, uint32_t sphere, float *out)
{
    const uint32_t group = blockIdx.x * blockDim.x + threadIdx.x;
    if (group >= groups) return;
    const float *low = boxes + (uint64_t)group * 2 * dims, *high = low + dims;
    double       ball = 0.0;
    for (uint32_t k = 0; k < 3 && k < dims; k++) {
        const double half = 0.5 * ((double)high[k] - (double)low[k]);
        ball += half * half;
    }
    ball = sqrt(ball) * (1.0 + 0x1p-30);
    for (uint32_t k = 0; k < 3; k++) {
        double from = -HUGE_VAL, to = HUGE_VAL;
        if (k < dims) {
            from = (double)low[k] - radius;
            to = (double)high[k] + radius;
        }
        if (k < dims && sphere != 0) {
            const double centre = 0.5 * ((double)low[k] + (double)high[k]);
            from = min(from, centre - (ball + radius));
            to = max(to, centre + (ball + radius));
        }
        out[6 * (uint64_t)group + k] = __double2float_rn(from);
        out[6 * (uint64_t)group + 3 + k] = __double2float_rn(to);
    }
}

__global__ void unite_boxes_kernel(const float *below, uint32_t count, float *above)
{
    const uint32_t box = blockIdx.x * blockDim.x + threadIdx.x, first = box * NF_K_FANOUT;
    if (first >= count) return;
    for (uint32_t k = 0; k < 3; k++) {
        float low = below[6 * (uint64_t)first + k], high = below[6 * (uint64_t)first + 3 + k];
        for (uint32_t child = first + 1; child < min(first + NF_K_FANOUT, count); child++) {
            low = min(low, below[6 * (uint64_t)child + k]);
            high = max(high, below[6 * (uint64_t)child + 3 + k]);
        }
        above[6 * (uint64_t)box + k] = low;
        above[6 * (uint64_t)box + 3 + k] = high;
    }
}

__device__ inline bool lies_in(const float *box, float x, float y, float z)
{
    return x >= box[0] && y >= box[1] && z >= box[2] && x <= box[3] && y <= box[4] && z <= box[5];
}

/* Depth first over the levels. A frame is one word: what is left of a box's children, as their first number and level would
 * not change; next[level] is the next box to look at, end[level] where its siblings end. */
__global__ void bvh_walk_kernel(const __grid_constant__ nf_k_tree tree, const __grid_constant__ nf_k_walk walk)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= walk.count) return;
    const uint32_t query = walk.first + i;
    const float    x = walk.queries[3 * (uint64_t)query], y = walk.queries[3 * (uint64_t)query + 1],
                z = walk.queries[3 * (uint64_t)query + 2];
    const uint32_t least = walk.least_group != nullptr ? walk.least_group[query] : 0;
    const uint32_t skip_from = walk.skip_from != nullptr ? *walk.skip_from : 0;
    uint32_t       next[NF_K_MOST_LEVELS], end[NF_K_MOST_LEVELS];
    uint32_t       level = tree.levels - 1, found = 0;

    next[level] = 0;
    end[level] = tree.count[level];
    for (;;) {
        if (next[level] == end[level]) {
            if (++level == tree.levels) break;
            continue;
        }
        const uint32_t box = next[level]++;
        if (!lies_in(tree.level[level] + 6 * (uint64_t)box, x, y, z)) continue;
        if (level > 0) {
            level--;
            next[level] = box * NF_K_FANOUT;
            end[level] = min(next[level] + NF_K_FANOUT, tree.count[level]);
            continue;
        }
        if (box >= skip_from && box < least) continue;
        found++;
        if (walk.group_hits != nullptr) atomicAdd(&walk.group_hits[box], 1u);
        if (walk.lists != nullptr) {
            walk.lists[atomicAdd(reinterpret_cast<unsigned long long *>(&walk.cursors[box]), 1ull)] = query;
        }
    }
    if (walk.query_hits != nullptr) walk.query_hits[i] = found;
}

__global__ void position_groups_kernel(const uint32_t *group_start, uint32_t groups, uint32_t *out)
{
    for (uint32_t group = blockIdx.x; group < groups; group += gridDim.x) {
        for (uint32_t at = group_start[group] + threadIdx.x; at < group_start[group + 1]; at += blockDim.x) out[at] = group;
    }
}

/* A warp per group. */
__global__ void sum_by_group_kernel(const uint32_t *group_start, uint32_t groups, const uint32_t *query_hits, uint64_t *sums)
{
    const uint32_t group = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (group >= groups) return;
    unsigned long long sum = 0;
    for (uint32_t at = group_start[group] + lane; at < group_start[group + 1]; at += 32) sum += query_hits[at];
    for (unsigned by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
    if (lane == 0) sums[group] = sum;
}

__global__ void falling_keys_kernel(const uint32_t *group_hits, uint32_t groups, uint32_t *keys, uint32_t *numbers)
{
    const uint32_t group = blockIdx.x * blockDim.x + threadIdx.x;
    if (group >= groups) return;
    keys[group] = ~group_hits[group];
    numbers[group] = group;
}

__global__ void list_items_kernel(const uint32_t *order, uint32_t groups, const uint64_t *list_start, const uint32_t *group_hits,
                                  uint32_t tile, nf_k_slices slices, uint32_t *counts, const uint64_t *offsets, nf_k_item *items)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= groups) return;
    const uint32_t group = order[i], hits = group_hits[group], chunks = (hits + tile - 1) / tile;
    const uint32_t first = slices.group_slice[group], last = slices.group_slice[group + 1];
    if (offsets == nullptr) {
        counts[i] = chunks * (last - first);
        return;
    }
    nf_k_item *out = items + offsets[i];
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        for (uint32_t slice = first; slice < last; slice++) {
            *out++ = nf_k_item{(uint32_t)(list_start[group] + (uint64_t)chunk * tile), min(tile, hits - chunk * tile),
                               slices.slice_start[slice],
                               (slices.slice_start[slice + 1] - slices.slice_start[slice]) | (slice > first ? NF_K_CONTINUED : 0)};
        }
    }
}

} // namespace

extern "C" cudaError_t nf_k_index_dims_run(cudaStream_t stream, const nf_k_rows *rows, uint64_t count, float *out)
{
    (void)stream;
    NF_LAUNCH(index_dims_kernel, nf_k_blocks(count, threads), threads, 0, stream)(*rows, count, out);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_grow_boxes_run(cudaStream_t stream, const float *boxes, uint32_t groups, uint32_t dims,
                                           double radius, uint32_t sphere, float *out)
{
    (void)stream;
    NF_LAUNCH(grow_boxes_kernel, nf_k_blocks(groups, threads), threads, 0, stream)(boxes, groups, dims, radius, sphere, out);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_unite_boxes_run(cudaStream_t stream, const float *below, uint32_t count, float *above)
{
    const uint32_t boxes = (count + NF_K_FANOUT - 1) / NF_K_FANOUT;
    (void)stream;
    NF_LAUNCH(unite_boxes_kernel, nf_k_blocks(boxes, threads), threads, 0, stream)(below, count, above);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_bvh_walk_run(cudaStream_t stream, const nf_k_tree *tree, const nf_k_walk *walk)
{
    (void)stream;
    NF_LAUNCH(bvh_walk_kernel, nf_k_blocks(walk->count, threads), threads, 0, stream)(*tree, *walk);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_position_groups_run(cudaStream_t stream, const uint32_t *group_start, uint32_t groups, uint32_t *out)
{
    (void)stream;
    NF_LAUNCH(position_groups_kernel, min(nf_k_blocks(groups, 1), 65536u), 64, 0, stream)(group_start, groups, out);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_sum_by_group_run(cudaStream_t stream, const uint32_t *group_start, uint32_t groups,
                                             const uint32_t *query_hits, uint64_t *sums)
{
    (void)stream;
    NF_LAUNCH(sum_by_group_kernel, nf_k_blocks((uint64_t)groups * 32, threads), threads, 0, stream)(group_start, groups, query_hits,
                                                                                                sums);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_falling_keys_run(cudaStream_t stream, const uint32_t *group_hits, uint32_t groups, uint32_t *keys,
                                             uint32_t *numbers)
{
    (void)stream;
    NF_LAUNCH(falling_keys_kernel, nf_k_blocks(groups, threads), threads, 0, stream)(group_hits, groups, keys, numbers);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_list_items_run(cudaStream_t stream, const uint32_t *order, uint32_t groups,
                                           const uint64_t *list_start, const uint32_t *group_hits, uint32_t tile,
                                           const nf_k_slices *slices, uint32_t *counts, const uint64_t *offsets, nf_k_item *items)
{
    (void)stream;
    NF_LAUNCH(list_items_kernel, nf_k_blocks(groups, threads), threads, 0, stream)
    (order, groups, list_start, group_hits, tile, *slices, counts, offsets, items);
    return nf_k_launched();
}
