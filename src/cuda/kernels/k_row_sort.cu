/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting the rows of a piece where they stand, each by a bitonic network (K. E. Batcher, "Sorting networks and their
 * applications", 1968) in the form whose comparators all point upwards: to merge two sorted halves of `size` entries, entry
 * i is first compared with its mirror image size - 1 - i, then with those at distance size / 4, size / 8, ..., 1. An entry
 * that is not there counts as larger than all and never moves, so rows of any length need no padding in memory.
 *
 *   up to 1,024 entries     a warp, 1 to 32 entries in the registers of a lane: entry lane * K + k
 *   up to a tile            a block, in shared memory
 *   longer                  tiles are sorted by blocks; what spans tiles goes through device memory
 *
 * Entries are ids, or pairs of distance and id. No two entries of a row are equal, so there is one right order and no
 * question of stability.
 */
#include "k_launch.h"
#include "k_rows.h"

#define WARPS 4u
#define WHOLE_WARP 0xffffffffu

/* ---- entries ---- */

struct id_entry {
    uint32_t id;
    static __device__ inline id_entry last() { return {0xffffffffu}; }
    static __device__ inline id_entry load(const nf_k_piece &piece, uint64_t at) { return {piece.ids[at]}; }
    __device__ inline void store(const nf_k_piece &piece, uint64_t at) const { piece.ids[at] = id; }
    __device__ inline bool below(const id_entry &other) const { return id < other.id; }
    __device__ inline id_entry of_lane(uint32_t with) const { return {__shfl_xor_sync(WHOLE_WARP, id, (int)with)}; }
};

/* Distances are not negative, so their order is that of their bits as integers. */
struct pair_entry {
    unsigned long long distance;
    uint32_t           id;
    static __device__ inline pair_entry last() { return {~0ull, 0xffffffffu}; }
    static __device__ inline pair_entry load(const nf_k_piece &piece, uint64_t at)
    {
        return {(unsigned long long)__double_as_longlong(piece.distances[at]), piece.ids[at]};
    }
    __device__ inline void store(const nf_k_piece &piece, uint64_t at) const
    {
        piece.distances[at] = __longlong_as_double((long long)distance);
        piece.ids[at] = id;
    }
    __device__ inline bool below(const pair_entry &other) const
    {
        return distance < other.distance || (distance == other.distance && id < other.id);
    }
    __device__ inline pair_entry of_lane(uint32_t with) const
    {
        return {__shfl_xor_sync(WHOLE_WARP, distance, (int)with), __shfl_xor_sync(WHOLE_WARP, id, (int)with)};
    }
};

template <typename Entry>
static __device__ inline void put_in_order(Entry &low, Entry &high)
{
    const bool  swap = high.below(low);
    const Entry before = low;
    low = swap ? high : before;
    high = swap ? before : high;
}

/* ---- a row in the registers of a warp ---- */

/* The smaller of own and other, or for the lane that holds the upper entry the larger. */
template <typename Entry>
static __device__ inline Entry keep(const Entry &own, const Entry &other, bool upper)
{
    return upper == own.below(other) ? other : own;
}

/* Distances K / 2 .. 1: inside a lane. */
template <typename Entry, int LogK>
static __device__ inline void merge_in_lane(Entry (&entry)[1 << LogK])
{
    NF_UNROLL
    for (int log = LogK - 1; log >= 0; log--) {
        NF_UNROLL
        for (int k = 0; k < 1 << LogK; k++) {
            if ((k >> log & 1) == 0) put_in_order(entry[k], entry[k | 1 << log]);
        }
    }
}

template <typename Entry, int LogK>
static __device__ inline void sort_in_lane(Entry (&entry)[1 << LogK])
{
    NF_UNROLL
    for (int log = 0; log < LogK; log++) { /* halves of 1 << log entries are sorted */
        NF_UNROLL
        for (int k = 0; k < 1 << LogK; k++) {
            const int mirror = k ^ ((2 << log) - 1);
            if (k < mirror) put_in_order(entry[k], entry[mirror]);
        }
        NF_UNROLL
        for (int step = log - 1; step >= 0; step--) {
            NF_UNROLL
            for (int k = 0; k < 1 << LogK; k++) {
                if ((k >> step & 1) == 0) put_in_order(entry[k], entry[k | 1 << step]);
            }
        }
    }
}

/* The mirror step over 2 * half lanes: entry k of a lane meets entry K - 1 - k of the mirror lane. */
template <typename Entry, int LogK>
static __device__ inline void mirror_lanes(Entry (&entry)[1 << LogK], uint32_t lane, uint32_t half)
{
    const bool     upper = (lane & half) != 0;
    const uint32_t with = 2 * half - 1;
    if constexpr (LogK == 0) {
        entry[0] = keep(entry[0], entry[0].of_lane(with), upper);
    } else {
        NF_UNROLL
        for (int k = 0; k < (1 << LogK) / 2; k++) {
            const int   mirror = (1 << LogK) - 1 - k;
            const Entry other = entry[mirror].of_lane(with), other_mirror = entry[k].of_lane(with);
            entry[k] = keep(entry[k], other, upper);
            entry[mirror] = keep(entry[mirror], other_mirror, upper);
        }
    }
}

template <typename Entry, int LogK>
static __device__ inline void sort_in_warp(Entry (&entry)[1 << LogK], uint32_t lane)
{
    sort_in_lane<Entry, LogK>(entry);
    for (uint32_t half = 1; half <= 16; half *= 2) {
        mirror_lanes<Entry, LogK>(entry, lane, half);
        for (uint32_t step = half / 2; step > 0; step /= 2) {
            NF_UNROLL
            for (int k = 0; k < 1 << LogK; k++) {
                entry[k] = keep(entry[k], entry[k].of_lane(step), (lane & step) != 0);
            }
        }
        merge_in_lane<Entry, LogK>(entry);
    }
}

/* Entries are read side by side, since any order will do to begin with; they are written side by side by way of shared
 * memory, where one word in 33 is left out, so that no two lanes meet in a bank. */
template <typename Entry, int LogK>
static __global__ void __launch_bounds__(WARPS * 32) warp_kernel(nf_k_piece piece, const uint32_t *rows, uint32_t count)
{
    constexpr uint32_t entries = 1u << LogK;
    __shared__ Entry   staged[WARPS][33 * entries];
    const uint32_t     warp = threadIdx.x / 32, lane = threadIdx.x % 32, at = blockIdx.x * WARPS + warp;
    Entry              entry[entries];

    if (at >= count) return;
    const uint32_t rank = rows[at];
    const uint64_t begin = piece.offsets[rank] - piece.base;
    const uint32_t length = (uint32_t)(piece.offsets[rank + 1] - piece.offsets[rank]);
    NF_UNROLL
    for (uint32_t k = 0; k < entries; k++) {
        const uint32_t i = k * 32 + lane;
        entry[k] = i < length ? Entry::load(piece, begin + i) : Entry::last();
    }
    sort_in_warp<Entry, LogK>(entry, lane);
    NF_UNROLL
    for (uint32_t k = 0; k < entries; k++) {
        const uint32_t i = lane * entries + k;
        staged[warp][i + i / 32] = entry[k];
    }
    __syncwarp();
    NF_UNROLL
    for (uint32_t k = 0; k < entries; k++) {
        const uint32_t i = k * 32 + lane;
        if (i < length) staged[warp][i + i / 32].store(piece, begin + i);
    }
}

/* ---- a row in shared memory ---- */

/* Comparator t of a step: low < high. */
static __device__ inline void comparator(uint32_t t, uint32_t log, bool mirror, uint32_t *low, uint32_t *high)
{
    const uint32_t within = t & ((1u << log) - 1), start = t >> log << (log + 1);
    *low = start + within;
    *high = mirror ? start + (2u << log) - 1 - within : *low + (1u << log);
}

/* One step over length entries of shared memory, by all threads of the block; pairs: half of length rounded up to a power
 * of two. */
template <typename Entry>
static __device__ inline void block_step(Entry *entries, uint32_t length, uint32_t pairs, uint32_t log, bool mirror)
{
    for (uint32_t t = threadIdx.x; t < pairs; t += blockDim.x) {
        uint32_t low, high;
        comparator(t, log, mirror, &low, &high);
        if (high < length) put_in_order(entries[low], entries[high]);
    }
    __syncthreads();
}

static __device__ inline uint32_t log_of(uint32_t length)
{
    return length <= 1 ? 0u : 32u - (uint32_t)__clz((int)(length - 1));
}

/* Sorts length entries from begin in device memory; merge_only: only the steps inside a tile that end a merge of longer
 * runs. */
template <typename Entry>
static __device__ inline void sort_in_block(const nf_k_piece &piece, uint64_t begin, uint32_t length, Entry *entries,
                                            bool merge_only)
{
    const uint32_t logs = log_of(length), pairs = logs == 0 ? 0 : 1u << (logs - 1);
    for (uint32_t i = threadIdx.x; i < length; i += blockDim.x) entries[i] = Entry::load(piece, begin + i);
    __syncthreads();
    for (uint32_t log = merge_only ? logs : 0; log < logs; log++) {
        block_step(entries, length, pairs, log, true);
        for (uint32_t step = log; step > 0; step--) block_step(entries, length, pairs, step - 1, false);
    }
    for (uint32_t step = merge_only ? logs : 0; step > 0; step--) {
        block_step(entries, length, pairs, step - 1, false);
    }
    for (uint32_t i = threadIdx.x; i < length; i += blockDim.x) entries[i].store(piece, begin + i);
}

template <typename Entry>
static __global__ void __launch_bounds__(1024) block_kernel(nf_k_piece piece, const uint32_t *rows)
{
    NF_SHARED_BYTES(shared);
    const uint32_t rank = rows[blockIdx.x];
    const uint64_t begin = piece.offsets[rank];
    sort_in_block(piece, begin - piece.base, (uint32_t)(piece.offsets[rank + 1] - begin), (Entry *)shared, false);
}

/* ---- long rows ---- */

template <typename Entry>
static __global__ void __launch_bounds__(1024) tile_kernel(nf_k_piece piece, const nf_k_tile *tiles, uint32_t tile_log,
                                                                   bool merge_only)
{
    NF_SHARED_BYTES(shared);
    const nf_k_tile tile = tiles[blockIdx.x];
    const uint64_t  begin = piece.offsets[tile.rank], length = piece.offsets[tile.rank + 1] - begin;
    const uint64_t  from = (uint64_t)tile.tile << tile_log, left = length - from;
    sort_in_block(piece, begin - piece.base + from, left < 1u << tile_log ? (uint32_t)left : 1u << tile_log,
                  (Entry *)shared, merge_only);
}

/* A step whose comparators span tiles: entries of a tile in the lower half of 2 << log meet their partners above. */
template <typename Entry>
static __global__ void __launch_bounds__(1024) span_kernel(nf_k_piece piece, const nf_k_tile *tiles, uint32_t tile_log,
                                                                   uint32_t log, bool mirror)
{
    const nf_k_tile tile = tiles[blockIdx.x];
    const uint64_t  begin = piece.offsets[tile.rank], length = piece.offsets[tile.rank + 1] - begin;
    const uint64_t  from = (uint64_t)tile.tile << tile_log, half = 1ull << log;
    const uint64_t  start = from & ~(2 * half - 1);

    if ((from & half) != 0 || start + half >= length) return;
    for (uint64_t low = from + threadIdx.x; low < from + (1ull << tile_log); low += blockDim.x) {
        const uint64_t high = mirror ? start + 2 * half - 1 - (low - start) : low + half;
        if (high >= length) continue;
        const uint64_t base = begin - piece.base;
        const Entry    a = Entry::load(piece, base + low), b = Entry::load(piece, base + high);
        if (!b.below(a)) continue;
        b.store(piece, base + low);
        a.store(piece, base + high);
    }
}

/* ---- launches ---- */

template <typename Entry, int LogK>
static cudaError_t sort_by_warps(const nf_k_piece *piece, const uint32_t *rows, uint32_t count, cudaStream_t stream)
{
    const auto kernel = warp_kernel<Entry, LogK>;
    NF_LAUNCH(kernel, nf_k_blocks(count, WARPS), WARPS * 32, 0, stream)(*piece, rows, count);
    return nf_k_launched();
}

template <typename Entry>
static cudaError_t sort_by_blocks(const nf_k_piece *piece, const uint32_t *rows, uint32_t count, uint32_t most,
                                  uint32_t threads, cudaStream_t stream)
{
    const auto        kernel = block_kernel<Entry>;
    const size_t      bytes = most * sizeof(Entry);
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess) return error;
    NF_LAUNCH(kernel, count, threads, bytes, stream)(*piece, rows);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_row_sort(const nf_k_piece *piece, uint32_t row_class, const uint32_t *rows, uint32_t count,
                                     bool by_distance, cudaStream_t stream)
{
    if (count == 0) return cudaSuccess;
    if (by_distance) {
        switch (row_class) {
        case NF_K_ROW_32: return sort_by_warps<pair_entry, 0>(piece, rows, count, stream);
        case NF_K_ROW_64: return sort_by_warps<pair_entry, 1>(piece, rows, count, stream);
        case NF_K_ROW_128: return sort_by_warps<pair_entry, 2>(piece, rows, count, stream);
        case NF_K_ROW_256: return sort_by_warps<pair_entry, 3>(piece, rows, count, stream);
        case NF_K_ROW_512: return sort_by_warps<pair_entry, 4>(piece, rows, count, stream);
        case NF_K_ROW_1024: return sort_by_blocks<pair_entry>(piece, rows, count, 1024, 256, stream);
        case NF_K_ROW_4096: return sort_by_blocks<pair_entry>(piece, rows, count, 4096, 512, stream);
        default: return cudaErrorInvalidValue;
        }
    }
    switch (row_class) {
    case NF_K_ROW_32: return sort_by_warps<id_entry, 0>(piece, rows, count, stream);
    case NF_K_ROW_64: return sort_by_warps<id_entry, 1>(piece, rows, count, stream);
    case NF_K_ROW_128: return sort_by_warps<id_entry, 2>(piece, rows, count, stream);
    case NF_K_ROW_256: return sort_by_warps<id_entry, 3>(piece, rows, count, stream);
    case NF_K_ROW_512: return sort_by_warps<id_entry, 4>(piece, rows, count, stream);
    case NF_K_ROW_1024: return sort_by_warps<id_entry, 5>(piece, rows, count, stream);
    case NF_K_ROW_4096: return sort_by_blocks<id_entry>(piece, rows, count, 4096, 256, stream);
    case NF_K_ROW_16384: return sort_by_blocks<id_entry>(piece, rows, count, 16384, 1024, stream);
    default: return cudaErrorInvalidValue;
    }
}

template <typename Entry>
static cudaError_t sort_by_tiles(const nf_k_piece *piece, const nf_k_tile *tiles, uint32_t count, uint64_t longest,
                                 uint32_t tile_log, uint32_t threads, cudaStream_t stream)
{
    const auto   kernel = tile_kernel<Entry>;
    const auto   span = span_kernel<Entry>;
    const size_t bytes = sizeof(Entry) << tile_log;
    cudaError_t  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess) return error;
    NF_LAUNCH(kernel, count, threads, bytes, stream)(*piece, tiles, tile_log, false);
    error = nf_k_launched();
    for (uint32_t log = tile_log; error == cudaSuccess && 1ull << log < longest; log++) {
        for (uint32_t step = log + 1; error == cudaSuccess && step > tile_log; step--) {
            NF_LAUNCH(span, count, threads, 0, stream)(*piece, tiles, tile_log, step - 1, step - 1 == log);
            error = nf_k_launched();
        }
        if (error != cudaSuccess) return error;
        NF_LAUNCH(kernel, count, threads, bytes, stream)(*piece, tiles, tile_log, true);
        error = nf_k_launched();
    }
    return error;
}

extern "C" cudaError_t nf_k_row_sort_long(const nf_k_piece *piece, const nf_k_tile *tiles, uint32_t count, uint64_t longest,
                                          bool by_distance, cudaStream_t stream)
{
    if (count == 0) return cudaSuccess;
    static_assert(NF_K_TILE_IDS == 1u << 14 && NF_K_TILE_PAIRS == 1u << 12, "tiles are given by their logarithms");
    if (by_distance) return sort_by_tiles<pair_entry>(piece, tiles, count, longest, 12, 512, stream);
    return sort_by_tiles<id_entry>(piece, tiles, count, longest, 14, 1024, stream);
}
