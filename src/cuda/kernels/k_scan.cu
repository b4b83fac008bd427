/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan of short codes by pairs of a query and a list (arXiv:2602.23999, sections 3.2 and 3.3; layout: k_ivf.h). A
 * block takes a segment of a list; its warps take blocks of 32 rows: a lane adds up one word in four of four rows'
 * codes, four lanes together a row.
 *
 * Bitwise: a product of a code and a query is the sum over the query's planes of 2^j popcount(code & plane), the last
 * plane's weight negative.
 *
 * Tables: the 16 sums of every four dims, which a code's nibbles pick from. The four lanes of a row read tables whose
 * entries lie in other banks: lane t takes the nibbles of a word in the order 0 ^ t, 1 ^ t, ... So tables of binary16,
 * which fill 8 banks, are read without conflicts, those of binary32 in two turns.
 */
#include "k_scan_common.cuh"

namespace {

constexpr int threads = 128, warps = threads / 32;

__device__ inline uint32_t word_of(const uint4 &words, int i)
{
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

/* From lanes 4g + t with parts of the sums of rows 4g .. 4g + 3 to lanes 4g + i with the sum of row 4g + i. */
template <typename T>
__device__ inline T row_sum(const T part[4])
{
    const bool upper = (threadIdx.x & 2) != 0, odd = (threadIdx.x & 1) != 0;
    const T    first = __shfl_xor_sync(whole_warp, upper ? part[0] : part[2], 2) + (upper ? part[2] : part[0]);
    const T    second = __shfl_xor_sync(whole_warp, upper ? part[1] : part[3], 2) + (upper ? part[3] : part[1]);
    return __shfl_xor_sync(whole_warp, odd ? first : second, 1) + (odd ? second : first);
}

/* ---- products: what a block prepares of a query, and what a word of four rows' codes adds to their sums ---- */

/* STAGED: the planes lie in shared memory; else, for very many dims, they are read from where they are. */
template <int PLANES, bool STAGED>
struct bit_product {
    typedef int part;
    static constexpr int blocks = PLANES == 4 && STAGED ? 8 : 7; /* that a multiprocessor is to hold */
    static constexpr int ahead = 4;  /* chunks whose codes are on their way together */
    const uint4 *planes; /* PLANES / 4 for each word of a code */

    static uint64_t bytes(const nf_k_index &index)
    {
        return STAGED ? (uint64_t)index.chunks * 4 * PLANES * sizeof(uint32_t) : 0;
    }

    __device__ inline void prepare(const scan_args &args, uint32_t query, unsigned char *shared)
    {
        const uint32_t count = args.index.chunks * PLANES; /* of 16 bytes */
        const uint4   *from = reinterpret_cast<const uint4 *>(args.queries.plane) + (uint64_t)query * count;
        uint4         *near = reinterpret_cast<uint4 *>(shared);
        if constexpr (STAGED) {
            for (uint32_t i = threadIdx.x; i < count; i += threads) near[i] = from[i];
        }
        planes = STAGED ? near : from;
    }

    __device__ inline void add(const scan_args &, int sums[4], const uint4 &codes, uint32_t word) const
    {
        NF_UNROLL
        for (int four = 0; four < PLANES / 4; four++) {
            const uint4 plane = planes[word * (PLANES / 4) + (unsigned)four];
            NF_UNROLL
            for (int i = 0; i < 4; i++) {
                const uint32_t code = word_of(codes, i);
                const int      top = __popc(code & plane.w) * 8;
                const int      low = __popc(code & plane.x) + 2 * __popc(code & plane.y) + 4 * __popc(code & plane.z);
                sums[i] += (four + 1 == PLANES / 4 ? low - top : low + top) * (four == 0 ? 1 : 16);
            }
        }
    }
};

__device__ inline void put(float *entry, float sum) { *entry = sum; }
__device__ inline void put(uint16_t *entry, float sum) { *entry = half_of(sum); }

template <typename ENTRY>
struct table_product {
    typedef float part;
    static constexpr int blocks = 7;
    static constexpr int ahead = 2;
    const unsigned char *tables; /* 16 entries for each nibble of a code */

    static uint64_t bytes(const nf_k_index &index) { return (uint64_t)index.width * 4 * sizeof(ENTRY); }

    __device__ inline void prepare(const scan_args &args, uint32_t query, unsigned char *shared)
    {
        const float4 *dims = reinterpret_cast<const float4 *>(args.queries.rotated + (uint64_t)query * args.index.width);
        const float   inverse = 1.0f / args.queries.step[query]; /* a power of two */
        ENTRY        *near = reinterpret_cast<ENTRY *>(shared);
        for (uint32_t i = threadIdx.x; i < args.index.width * 4; i += threads) {
            const float4 four = dims[i / 16];
            put(near + i, table_sum({four.x * inverse, four.y * inverse, four.z * inverse, four.w * inverse}, i % 16));
        }
        tables = shared;
    }

    __device__ inline void add(const scan_args &args, float sums[4], const uint4 &codes, uint32_t word) const
    {
        if (word >= args.index.groups) return; /* filling */
        constexpr uint32_t size = sizeof(ENTRY), shift = size == 2 ? 1 : 2; /* an index times the size */
        const uint32_t     t = threadIdx.x & 3, table = word * 128 * size + t * 16 * size;
        NF_UNROLL
        for (uint32_t j = 0; j < 8; j++) {
            const uint32_t at = table ^ j * 16 * size, turn_by = 4 * (j ^ t) - shift; /* modulo 32 */
            NF_UNROLL
            for (int i = 0; i < 4; i++) {
                const uint32_t code = word_of(codes, i), turned = __funnelshift_r(code, code, turn_by);
                sums[i] += value_of(*reinterpret_cast<const ENTRY *>(tables + (at | (turned & 15u << shift))));
            }
        }
    }
};

/* ---- the scan ---- */

/* The sums of a block of rows: that of row `lane` in each lane. */
template <typename PRODUCT>
__device__ inline float sum_of_row(const scan_args &args, const PRODUCT &product, const uint4 *codes)
{
    constexpr int          ahead = PRODUCT::ahead;
    const uint32_t         chunks = args.index.chunks, t = threadIdx.x & 3;
    typename PRODUCT::part sums[4] = {0, 0, 0, 0};
    for (uint32_t c = 0; c < chunks; c += ahead) {
        uint4 words[ahead];
        NF_UNROLL
        for (int i = 0; i < ahead; i++) {
            if (c + (unsigned)i < chunks) words[i] = codes[(c + (unsigned)i) * 32];
        }
        NF_UNROLL
        for (int i = 0; i < ahead; i++) {
            if (c + (unsigned)i < chunks) product.add(args, sums, words[i], 4 * (c + (unsigned)i) + t);
        }
    }
    return (float)row_sum(sums);
}

/* Masks of the segment's blocks first, first + apart, ... */
template <typename PRODUCT>
__device__ inline void scan_segment(const scan_args &args, const PRODUCT &product, const segment_blocks &segment,
                                    const query_line &line, uint32_t *masks, uint32_t first, uint32_t apart)
{
    const uint32_t lane = threadIdx.x & 31;
    for (uint32_t b = first; b < segment.count; b += apart) {
        const uint64_t block = segment.block + b, row = block * NF_IVF_BLOCK + lane;
        const float    add = args.index.add[row], rescale = args.index.rescale[row], error = args.index.error[row];
        const uint4   *codes = reinterpret_cast<const uint4 *>(args.index.codes) + block * args.index.chunks * 32 + lane;
        const float    sum = sum_of_row(args, product, codes);
        const uint32_t survivors = __ballot_sync(whole_warp, survives(add, rescale, error, line, sum));
        if (lane == 0) masks[segment.first + b] = survivors & slots_of(args, segment, b);
    }
}

/* All that a unit of work is about. A block's few units are looked up together, one by each lane: what one needs hangs on a
 * chain of loads, which is waited for once. */
struct pair_work {
    uint32_t       query;
    segment_blocks segment; /* count 0: nothing to do */
    query_line     line;
    uint64_t       masks;
};

__device__ inline pair_work work_of(const scan_args &args, uint64_t at, uint64_t end)
{
    pair_work work = {};
    if (at >= end) return work;
    const nf_k_item item = static_cast<const nf_k_item *>(args.items)[at];
    const turn      turn = turn_of(args, item.pair);
    work.query = turn.query;
    work.segment = segment_of(args.index, args.list[turn.at], item.segment);
    work.line = line_of(args, turn);
    work.masks = args.mask_start[item.pair];
    return work;
}

template <typename T>
__device__ inline T from_lane(T value, int lane)
{
    return __shfl_sync(whole_warp, value, lane);
}

__device__ inline pair_work work_from(const pair_work &work, int lane)
{
    return {from_lane(work.query, lane),
            {from_lane(work.segment.block, lane), from_lane(work.segment.first, lane), from_lane(work.segment.count, lane),
             from_lane(work.segment.rows, lane)},
            {from_lane(work.line.step, lane), from_lane(work.line.base, lane), from_lane(work.line.add, lane),
             from_lane(work.line.width, lane), from_lane(work.line.limit, lane)},
            from_lane(work.masks, lane)};
}

template <typename PRODUCT>
__global__ void __launch_bounds__(threads, PRODUCT::blocks) scan_pairs(const __grid_constant__ scan_args args)
{
    NF_SHARED_BYTES(shared);
    const uint32_t  unit = blockIdx.x / args.parts, part = blockIdx.x - unit * args.parts, warp = threadIdx.x >> 5;
    const uint64_t  start = *args.first_item + (uint64_t)unit * args.per_block, all = *args.end_item;
    const uint64_t  end = min(start + args.per_block, all);
    const pair_work works = work_of(args, start + (threadIdx.x & 31), end);
    uint32_t        prepared = 0xffffffffu;
    PRODUCT         product;
    for (uint32_t i = 0; i < args.per_block; i++) {
        const pair_work work = work_from(works, (int)i);
        if (part * warps >= work.segment.count) continue;
        if (work.query != prepared) {
            __syncthreads(); /* those that still read the last query's */
            product.prepare(args, work.query, shared);
            __syncthreads();
            prepared = work.query;
        }
        scan_segment(args, product, work.segment, work.line, args.masks + work.masks, part * warps + warp,
                     args.parts * warps);
    }
}

template <typename PRODUCT>
cudaError_t launch(const nf_k_scan *job, uint32_t most_parts, cudaStream_t stream)
{
    const uint64_t    bytes = PRODUCT::bytes(*job->index);
    scan_args         args = scan_args_of(job);
    const unsigned    blocks = share_out(&args, job->most_items, most_parts);
    const cudaError_t error = reserve_shared(scan_pairs<PRODUCT>, bytes);
    if (error != cudaSuccess) return error;
    NF_LAUNCH(scan_pairs<PRODUCT>, blocks, threads, bytes, stream)(args);
    return nf_k_launched();
}

template <int PLANES>
cudaError_t launch_bits(const nf_k_scan *job, cudaStream_t stream)
{
    constexpr uint32_t most_parts = NF_K_SEGMENT_BLOCKS / warps;
    if (bit_product<PLANES, true>::bytes(*job->index) > 48u << 10) {
        return launch<bit_product<PLANES, false>>(job, most_parts, stream);
    }
    return launch<bit_product<PLANES, true>>(job, most_parts, stream);
}

} // namespace

cudaError_t nf_k_scan_pairs(const nf_k_scan *job, cudaStream_t stream)
{
    constexpr uint32_t most_parts = 4; /* each part makes tables of its own */
    if (job->most_items == 0) return cudaSuccess;
    switch (job->precision) {
    case NF_K_LUT16: return launch<table_product<uint16_t>>(job, most_parts, stream);
    case NF_K_LUT32: return launch<table_product<float>>(job, most_parts, stream);
    case NF_K_BITWISE4: return launch_bits<4>(job, stream);
    case NF_K_BITWISE8: return launch_bits<8>(job, stream);
    default: return cudaErrorInvalidValue;
    }
}
