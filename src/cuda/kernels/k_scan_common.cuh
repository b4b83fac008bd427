/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scans share: which query and list a pair is, and the bound, whose operations stand in one place so that equal
 * integers give equal survivors whatever added them up.
 */
#ifndef NF_K_SCAN_COMMON_CUH
#define NF_K_SCAN_COMMON_CUH

#include "k_half.cuh"
#include "k_launch.h"
#include "k_scan.h"

namespace {

constexpr unsigned whole_warp = 0xffffffffu;

struct scan_args {
    nf_k_index   index;
    nf_k_queries queries;
    /* The wave: pairs first_pair .., `places` of every query, from place `first` on. */
    uint32_t first_pair, first, places, probes;
    const uint32_t *list;
    const float    *add, *error;
    const uint64_t *mask_start;
    float           epsilon0;
    const float    *limit;
    const uint32_t *allowed;
    const void     *items;
    const uint64_t *first_item, *end_item;
    const uint32_t *by_list;
    uint32_t       *masks;
    uint32_t        per_block; /* units of work of a block, or */
    uint32_t        parts;     /* blocks of a unit of work */
};

constexpr uint32_t most_per_block = 8; /* at most 32: a lane each */

/* Shares out the units of work: a few for each block where there are plenty of them, several blocks for each where few. */
inline unsigned share_out(scan_args *args, uint64_t items, uint32_t most_parts)
{
    const uint64_t plenty = 8192, few = 1024; /* blocks that are enough for any device; and for a large one */
    const uint64_t parts = few / (items == 0 ? 1 : items);
    uint64_t       per_block = items / plenty;
    if (per_block > most_per_block) per_block = most_per_block;
    args->per_block = per_block == 0 ? 1u : (uint32_t)per_block;
    args->parts = parts < 1 ? 1u : parts > most_parts ? most_parts : (uint32_t)parts;
    return (unsigned)((items + args->per_block - 1) / args->per_block) * args->parts;
}

inline scan_args scan_args_of(const nf_k_scan *job)
{
    const nf_k_turns *turns = job->turns;
    scan_args         args = {};
    args.index = *job->index;
    args.queries = *job->queries;
    args.first = job->wave == 0 ? 0 : turns->wave_end[job->wave - 1];
    args.places = turns->wave_end[job->wave] - args.first;
    args.first_pair = turns->count * args.first;
    args.probes = turns->probes;
    args.list = turns->list;
    args.add = turns->add;
    args.error = turns->error;
    args.mask_start = turns->mask_start;
    args.epsilon0 = job->epsilon0;
    args.limit = job->limit;
    args.allowed = job->allowed;
    args.items = job->items;
    args.first_item = job->first_item;
    args.end_item = job->end_item;
    args.by_list = job->by_list;
    args.masks = job->masks;
    return args;
}

/* Makes room for `bytes` of dynamic shared memory. */
template <typename Kernel>
inline cudaError_t reserve_shared(Kernel *kernel, uint64_t bytes)
{
    if (bytes <= 48u << 10) return cudaSuccess;
    int         device, most;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess) return error;
    if (bytes > (uint64_t)most) return cudaErrorInvalidConfiguration;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

/* A pair: its query, and its place in arrays by [query][place]. */
struct turn {
    uint32_t query;
    uint64_t at;
};

__device__ inline turn turn_of(const scan_args &args, uint32_t pair)
{
    const uint32_t n = pair - args.first_pair, query = n / args.places;
    return {query, (uint64_t)query * args.probes + args.first + (n - query * args.places)};
}

/* A segment of a list. */
struct segment_blocks {
    uint32_t block; /* the first, of all blocks */
    uint32_t first; /* the same, of the list's */
    uint32_t count;
    uint32_t rows; /* from its first slot to the end of the list */
};

__device__ inline segment_blocks segment_of(const nf_k_index &index, uint32_t list, uint32_t segment)
{
    const uint32_t start = index.block_start[list], blocks = index.block_start[list + 1] - start;
    const uint32_t rows = index.list_start[list + 1] - index.list_start[list], first = segment * NF_K_SEGMENT_BLOCKS;
    if (first >= blocks) return {start, first, 0, 0};
    return {start + first, first, min(NF_K_SEGMENT_BLOCKS, blocks - first), rows - first * NF_IVF_BLOCK};
}

/* The slots of block b of a segment that may survive. */
__device__ inline uint32_t slots_of(const scan_args &args, const segment_blocks &segment, uint32_t b)
{
    const uint32_t rows = segment.rows - b * NF_IVF_BLOCK;
    const uint32_t filled = rows >= NF_IVF_BLOCK ? 0xffffffffu : (1u << rows) - 1u;
    return args.allowed == nullptr ? filled : filled & args.allowed[segment.block + b];
}

/* What a query brings to the bounds of a list's rows. */
struct query_line {
    float step, base, add, width, limit;
};

__device__ inline query_line line_of(const scan_args &args, turn of)
{
    const float g_error = args.error[of.at];
    const float deviation = sqrtf(fmaf(g_error, g_error, NF_K_NOISE_WEIGHT * args.queries.noise[of.query]));
    return {args.queries.step[of.query], args.queries.base[of.query], args.add[of.at], args.epsilon0 * deviation,
            args.limit[of.query]};
}

__device__ inline bool survives(float add, float rescale, float error, const query_line &line, float sum)
{
    const float product = fmaf(line.step, sum, line.base);
    const float estimate = fmaf(rescale, product, add) + line.add;
    return !(fmaf(-error, line.width, estimate) >= line.limit);
}

__device__ inline float value_of(float x) { return x; }

/* Entry `index` of the table of four dims: the sum of those whose bit is set, lowest first. */
__device__ inline float table_sum(float4 q, uint32_t index)
{
    return (((index & 1 ? q.x : 0.0f) + (index & 2 ? q.y : 0.0f)) + (index & 4 ? q.z : 0.0f)) + (index & 8 ? q.w : 0.0f);
}

} // namespace

#endif
