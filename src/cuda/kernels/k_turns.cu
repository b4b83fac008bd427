/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is made of queries' turns at lists: the scalars of estimates, and units of work for the scan. Pairs are dealt out to
 * units by counting: counts, their sums before each (k_primitives.h), places.
 */
#include "k_turns.cuh"

namespace {

constexpr unsigned threads = 256;
constexpr unsigned most_blocks = 132 * 64; /* of kernels that go over pairs in a loop */
constexpr unsigned all_lanes = 0xffffffffu;

inline unsigned blocks_for(uint64_t count, unsigned per_block)
{
    const uint64_t blocks = (count + per_block - 1) / per_block;
    return blocks == 0 ? 1u : blocks < most_blocks ? (unsigned)blocks : most_blocks;
}

inline uint64_t pairs_of(const nf_k_turns *turns)
{
    return (uint64_t)turns->count * turns->probes;
}

__device__ inline uint64_t first_thread() { return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline uint64_t all_threads() { return (uint64_t)gridDim.x * blockDim.x; }

__device__ inline uint32_t blocks_of(const nf_k_index &index, uint32_t list)
{
    return index.block_start[list + 1] - index.block_start[list];
}

__device__ inline uint32_t segments_of(const nf_k_index &index, uint32_t list)
{
    return (blocks_of(index, list) + NF_K_SEGMENT_BLOCKS - 1) / NF_K_SEGMENT_BLOCKS;
}

/* ---- factors ---- */

struct factors_job {
    const float    *rotated, *query_mean_dot, *centroids, *list_mean_dot;
    const uint32_t *list;
    float          *add, *error;
    uint32_t        count, probes, width, teams; /* teams: of TURNS turns, per query */
};

__device__ inline float sum_up(const float4 &sums)
{
    float sum = (sums.x + sums.y) + (sums.z + sums.w);
    for (unsigned by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(all_lanes, sum, (int)by);
    return sum;
}

/* A warp has TURNS turns of a query, whose values it reads once for all of them. A turn's sums do not depend on TURNS. */
template <uint32_t TURNS, bool DOT>
__global__ __launch_bounds__(threads) void factors_kernel(const __grid_constant__ factors_job job)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint64_t warp = first_thread() / 32;
    const uint32_t query = (uint32_t)(warp / job.teams), place = (uint32_t)(warp % job.teams) * TURNS;
    const float   *centroid[TURNS];
    float4         square[TURNS] = {}, dot[TURNS] = {};
    uint32_t       list[TURNS];

    if (query >= job.count) return;
    const float   *q = job.rotated + (uint64_t)query * job.width;
    const uint64_t first = (uint64_t)query * job.probes;
    NF_UNROLL
    for (uint32_t i = 0; i < TURNS; i++) {
        list[i] = job.list[first + min(place + i, job.probes - 1)];
        centroid[i] = job.centroids + (uint64_t)list[i] * job.width;
    }
#ifdef __CUDACC__
#pragma unroll 2
#endif
    for (uint32_t k = 4 * lane; k < job.width; k += 128) {
        const float4 a = *(const float4 *)(q + k);
        NF_UNROLL
        for (uint32_t i = 0; i < TURNS; i++) {
            const float4 c = __ldg((const float4 *)(centroid[i] + k));
            const float4 d = {a.x - c.x, a.y - c.y, a.z - c.z, a.w - c.w};
            square[i] = {fmaf(d.x, d.x, square[i].x), fmaf(d.y, d.y, square[i].y), fmaf(d.z, d.z, square[i].z),
                         fmaf(d.w, d.w, square[i].w)};
            if (DOT) {
                dot[i] = {fmaf(a.x, c.x, dot[i].x), fmaf(a.y, c.y, dot[i].y), fmaf(a.z, c.z, dot[i].z),
                          fmaf(a.w, c.w, dot[i].w)};
            }
        }
    }
    NF_UNROLL
    for (uint32_t i = 0; i < TURNS; i++) {
        const float squared = sum_up(square[i]);
        float       add = squared;
        if (DOT) add = -(sum_up(dot[i]) + job.query_mean_dot[query] + job.list_mean_dot[list[i]]);
        if (lane == 0 && place + i < job.probes) {
            job.add[first + place + i] = add;
            job.error[first + place + i] = sqrtf(squared);
        }
    }
}

template <uint32_t TURNS>
cudaError_t launch_factors(factors_job job, bool dot, cudaStream_t stream)
{
    const auto kernel = dot ? factors_kernel<TURNS, true> : factors_kernel<TURNS, false>;
    (void)stream;
    job.teams = (job.probes + TURNS - 1) / TURNS;
    NF_LAUNCH(kernel, nf_k_blocks((uint64_t)job.count * job.teams, threads / 32), threads, 0, stream)(job);
    return nf_k_launched();
}

/* ---- pairs ---- */

__global__ void blocks_kernel(const __grid_constant__ nf_k_index index, const __grid_constant__ nf_k_turns turns,
                              uint32_t *blocks, unsigned long long *scanned)
{
    const uint64_t     pairs = (uint64_t)turns.count * turns.probes;
    unsigned long long rows = 0;
    for (uint64_t pair = first_thread(); pair <= pairs; pair += all_threads()) {
        uint32_t count = 0;
        if (pair < pairs) {
            const uint32_t list = nf_k_list_of(turns, nf_k_turn_of(turns, pair));
            count = blocks_of(index, list);
            rows += index.list_start[list + 1] - index.list_start[list];
        }
        blocks[pair] = count;
    }
    for (unsigned by = 16; by > 0; by /= 2) rows += __shfl_xor_sync(all_lanes, rows, (int)by);
    if (threadIdx.x % 32 == 0 && rows != 0) atomicAdd(scanned, rows);
}

__global__ void segments_kernel(const __grid_constant__ nf_k_index index, const __grid_constant__ nf_k_turns turns,
                                uint32_t *counts)
{
    const uint64_t pairs = (uint64_t)turns.count * turns.probes;
    for (uint64_t pair = first_thread(); pair < pairs; pair += all_threads()) {
        counts[pair] = segments_of(index, nf_k_list_of(turns, nf_k_turn_of(turns, pair)));
    }
}

/* Lanes look up 32 pairs, and share the items of each: a list may have thousands. */
__global__ void items_kernel(const __grid_constant__ nf_k_index index, const __grid_constant__ nf_k_turns turns,
                             const uint64_t *starts, nf_k_item *items)
{
    const uint64_t pairs = (uint64_t)turns.count * turns.probes;
    const uint32_t lane = threadIdx.x % 32;
    for (uint64_t first = first_thread() - lane; first < pairs; first += all_threads()) {
        const uint64_t pair = first + lane, start = pair < pairs ? starts[pair] : 0;
        uint32_t       own = 0;
        if (pair < pairs) own = segments_of(index, nf_k_list_of(turns, nf_k_turn_of(turns, pair)));
        if (own == 1) items[start] = {(uint32_t)pair, 0};
        for (uint32_t left = __ballot_sync(all_lanes, own > 1); left != 0; left &= left - 1) {
            const int      of = __ffs((int)left) - 1;
            const uint32_t count = __shfl_sync(all_lanes, own, of);
            const uint64_t at = __shfl_sync(all_lanes, start, of);
            for (uint32_t i = lane; i < count; i += 32) items[at + i] = {(uint32_t)first + (uint32_t)of, i};
        }
    }
}

/* ---- pairs by list ---- */

__global__ void counts_kernel(const __grid_constant__ nf_k_turns turns, uint32_t lists, uint32_t *counts)
{
    const uint64_t pairs = (uint64_t)turns.count * turns.probes;
    for (uint64_t pair = first_thread(); pair < pairs; pair += all_threads()) {
        const nf_k_turn turn = nf_k_turn_of(turns, pair);
        atomicAdd(&counts[(uint64_t)turn.wave * lists + nf_k_list_of(turns, turn)], 1u);
    }
}

__global__ void by_list_kernel(const __grid_constant__ nf_k_turns turns, uint32_t lists, const uint64_t *starts,
                               uint32_t *cursor, uint32_t *by_list)
{
    const uint64_t pairs = (uint64_t)turns.count * turns.probes;
    for (uint64_t pair = first_thread(); pair < pairs; pair += all_threads()) {
        const nf_k_turn turn = nf_k_turn_of(turns, pair);
        const uint64_t  at = (uint64_t)turn.wave * lists + nf_k_list_of(turns, turn);
        by_list[starts[at] + atomicAdd(&cursor[at], 1u)] = (uint32_t)pair;
    }
}

__device__ inline uint32_t tiles_of(uint32_t pairs)
{
    return (pairs + NF_K_TILE_QUERIES - 1) / NF_K_TILE_QUERIES;
}

__global__ void tiles_kernel(const __grid_constant__ nf_k_index index, const __grid_constant__ nf_k_turns turns,
                             const uint32_t *counts, uint32_t *tiles)
{
    const uint64_t all = (uint64_t)turns.waves * index.lists;
    for (uint64_t at = first_thread(); at < all; at += all_threads()) {
        tiles[at] = tiles_of(counts[at]) * segments_of(index, (uint32_t)(at % index.lists));
    }
}

/* Tiles of a segment follow each other, so that they find its codes in the cache. */
__global__ void tile_items_kernel(const __grid_constant__ nf_k_index index, const __grid_constant__ nf_k_turns turns,
                                  const uint32_t *counts, const uint64_t *starts, const uint64_t *tile_starts,
                                  nf_k_tile_item *items)
{
    const uint64_t all = (uint64_t)turns.waves * index.lists;
    const uint32_t lane = threadIdx.x % 32;
    for (uint64_t first = first_thread() - lane; first < all; first += all_threads()) {
        const uint32_t own = first + lane < all ? counts[first + lane] : 0;
        for (uint32_t left = __ballot_sync(all_lanes, own > 0); left != 0; left &= left - 1) {
            const uint32_t of = (uint32_t)__ffs((int)left) - 1, pairs = __shfl_sync(all_lanes, own, (int)of);
            const uint32_t list = (uint32_t)((first + of) % index.lists), tiles = tiles_of(pairs);
            const uint32_t count = tiles * segments_of(index, list), start = (uint32_t)starts[first + of];
            for (uint32_t i = lane; i < count; i += 32) {
                const uint32_t before = i % tiles * NF_K_TILE_QUERIES;
                items[tile_starts[first + of] + i] = {list, i / tiles, start + before,
                                                      min(pairs - before, NF_K_TILE_QUERIES)};
            }
        }
    }
}

} // namespace

extern "C" {

cudaError_t nf_k_turn_factors(const nf_k_index *index, const nf_k_queries *queries, nf_k_turns *turns, cudaStream_t stream)
{
    const factors_job job = {queries->rotated, queries->mean_dot, index->centroids, index->mean_dot, turns->list,
                             turns->add,       turns->error,      turns->count,     turns->probes,   index->width,
                             0};
    const bool        dot = index->metric != NF_METRIC_L2;
    if (pairs_of(turns) == 0) return cudaSuccess;
    if (pairs_of(turns) < 4096) return launch_factors<1>(job, dot, stream); /* rather more warps */
    return launch_factors<4>(job, dot, stream);
}

cudaError_t nf_k_pair_blocks(const nf_k_index *index, const nf_k_turns *turns, uint32_t *blocks, unsigned long long *scanned,
                             cudaStream_t stream)
{
    (void)stream;
    NF_LAUNCH(blocks_kernel, blocks_for(pairs_of(turns) + 1, threads), threads, 0, stream)(*index, *turns, blocks, scanned);
    return nf_k_launched();
}

cudaError_t nf_k_pair_segments(const nf_k_index *index, const nf_k_turns *turns, uint32_t *counts, cudaStream_t stream)
{
    (void)stream;
    NF_LAUNCH(segments_kernel, blocks_for(pairs_of(turns), threads), threads, 0, stream)(*index, *turns, counts);
    return nf_k_launched();
}

cudaError_t nf_k_pair_items(const nf_k_index *index, const nf_k_turns *turns, const uint64_t *starts, nf_k_item *items,
                            cudaStream_t stream)
{
    (void)stream;
    NF_LAUNCH(items_kernel, blocks_for(pairs_of(turns), threads), threads, 0, stream)(*index, *turns, starts, items);
    return nf_k_launched();
}

cudaError_t nf_k_list_counts(const nf_k_turns *turns, uint32_t lists, uint32_t *counts, cudaStream_t stream)
{
    (void)stream;
    NF_LAUNCH(counts_kernel, blocks_for(pairs_of(turns), threads), threads, 0, stream)(*turns, lists, counts);
    return nf_k_launched();
}

cudaError_t nf_k_pairs_by_list(const nf_k_turns *turns, uint32_t lists, const uint64_t *starts, uint32_t *cursor,
                               uint32_t *by_list, cudaStream_t stream)
{
    (void)stream;
    NF_LAUNCH(by_list_kernel, blocks_for(pairs_of(turns), threads), threads, 0, stream)
    (*turns, lists, starts, cursor, by_list);
    return nf_k_launched();
}

cudaError_t nf_k_list_tiles(const nf_k_index *index, const nf_k_turns *turns, const uint32_t *counts, uint32_t *tiles,
                            cudaStream_t stream)
{
    (void)stream;
    NF_LAUNCH(tiles_kernel, blocks_for((uint64_t)turns->waves * index->lists, threads), threads, 0, stream)
    (*index, *turns, counts, tiles);
    return nf_k_launched();
}

cudaError_t nf_k_tile_items(const nf_k_index *index, const nf_k_turns *turns, const uint32_t *counts, const uint64_t *starts,
                            const uint64_t *tile_starts, nf_k_tile_item *items, cudaStream_t stream)
{
    (void)stream;
    NF_LAUNCH(tile_items_kernel, blocks_for((uint64_t)turns->waves * index->lists, threads), threads, 0, stream)
    (*index, *turns, counts, starts, tile_starts, items);
    return nf_k_launched();
}

} // extern "C"
