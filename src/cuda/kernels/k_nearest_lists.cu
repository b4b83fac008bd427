/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest lists of queries: the least of each query's values, sorted. A block has a query.
 *
 *   few     A thread keeps the least of its share of the values. The n-th least of these is a threshold that at least n
 *           values do not exceed, and that few others do not: a share rarely has two of them. What does not exceed
 *           it is sorted. Where it is too much (many equal values, or an unfortunate order), it is done as for
 *   many    The threshold is found digit by digit (radix selection), in keys of value and number, which are all different.
 */
#include "k_keys.cuh"
#include "k_scan.h"

namespace {

constexpr uint32_t kept_most = 16;       /* values of a thread in registers */
constexpr uint32_t bins = 2048;          /* of a digit of 11 bits */
constexpr uint32_t sorted_most = 4096;   /* keys that are sorted in shared memory */
constexpr uint32_t many_blocks = 264;    /* with keys in device memory */
constexpr uint32_t few_threads = 256, many_threads = 1024;

struct nearest_job {
    const float *values;
    uint64_t     stride;
    uint32_t     count, lists, probes;
    uint32_t    *list;
    nf_k_key    *scratch; /* NULL, or probes keys for each block */
};

struct block_words {
    uint32_t found, words[2], sums[32];
    uint32_t bin, bin_first, bin_count;
};

/* ---- many ---- */

/* Adds up bins, and finds the one with the key of rank `rank` among them. */
template <uint32_t THREADS>
__device__ inline void find_bin(const uint32_t *histogram, uint32_t rank, block_words &shared)
{
    constexpr uint32_t each = bins / THREADS;
    uint32_t           sum = 0, total;
    NF_UNROLL
    for (uint32_t i = 0; i < each; i++) sum += histogram[threadIdx.x * each + i];
    uint32_t before = nf_k_block_sum_before(sum, shared.sums, &total);
    if (before <= rank && rank - before < sum) {
        uint32_t bin = threadIdx.x * each;
        while (rank - before >= histogram[bin]) before += histogram[bin++];
        shared.bin = bin;
        shared.bin_first = before;
        shared.bin_count = histogram[bin];
    }
    __syncthreads();
}

/* A key that exactly job.probes keys do not exceed. Digits: three of the value, three of the number. */
template <uint32_t THREADS>
__device__ inline nf_k_key exact_threshold(const nearest_job &job, const float *values, uint32_t *histogram,
                                           block_words &shared)
{
    constexpr uint32_t digits = 6;
    const uint32_t     shifts[digits] = {53, 42, 32, 21, 10, 0};
    nf_k_key           prefix = 0;
    uint32_t           rank = job.probes - 1, above = 64; /* bits from `above` on are those of prefix */

    if (job.probes == job.lists) return NF_K_NO_KEY;
    NF_UNROLL
    for (uint32_t digit = 0; digit < digits; digit++) {
        const uint32_t shift = shifts[digit];
        for (uint32_t i = threadIdx.x; i < bins; i += THREADS) histogram[i] = 0;
        __syncthreads();
        for (uint32_t list = threadIdx.x; list < job.lists; list += THREADS) {
            const nf_k_key key = nf_k_make_key(nf_k_order_of(values[list]), list);
            if (above == 64 || (key ^ prefix) >> above == 0) atomicAdd(&histogram[key >> shift & (bins - 1)], 1u);
        }
        __syncthreads();
        find_bin<THREADS>(histogram, rank, shared);
        prefix |= (nf_k_key)shared.bin << shift;
        rank -= shared.bin_first;
        above = shift;
        if (rank + 1 == shared.bin_count) return prefix | ((1ull << shift) - 1);
        __syncthreads();
    }
    return prefix;
}

/* Comparators over keys in device memory: tiles by way of shared memory, what spans tiles in place. */
__device__ inline void sort_tiles(nf_k_key *keys, uint32_t length, nf_k_key *tile, uint32_t merge_logs)
{
    for (uint32_t first = 0; first < length; first += sorted_most) {
        const uint32_t count = min(length - first, sorted_most);
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) tile[i] = keys[first + i];
        __syncthreads();
        if (merge_logs == 0) nf_k_block_sort(tile, count);
        for (uint32_t step = merge_logs; step > 0; step--) {
            nf_k_sort_step(tile, count, sorted_most / 2, step - 1, false, threadIdx.x, blockDim.x);
            __syncthreads();
        }
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) keys[first + i] = tile[i];
        __syncthreads();
    }
}

__device__ inline void sort_far(nf_k_key *keys, uint32_t length, nf_k_key *tile)
{
    const uint32_t logs = nf_k_sort_logs(length), tile_logs = nf_k_sort_logs(sorted_most);
    sort_tiles(keys, length, tile, 0);
    for (uint32_t log = tile_logs; log < logs; log++) {
        for (uint32_t step = log + 1; step > tile_logs; step--) {
            nf_k_sort_step(keys, length, 1u << (logs - 1), step - 1, step > log, threadIdx.x, blockDim.x);
            __syncthreads();
        }
        sort_tiles(keys, length, tile, tile_logs);
    }
}

/* Keys up to the threshold, sorted. shared_keys: bins words, or sorted_most keys where there is scratch. */
template <uint32_t THREADS>
__device__ inline void nearest_many(const nearest_job &job, uint32_t query, nf_k_key *shared_keys, block_words &shared)
{
    const float   *values = job.values + query * job.stride;
    uint32_t      *list = job.list + (uint64_t)query * job.probes;
    nf_k_key      *keys = job.scratch != nullptr ? job.scratch + (uint64_t)blockIdx.x * job.probes : shared_keys;
    const nf_k_key threshold = exact_threshold<THREADS>(job, values, (uint32_t *)shared_keys, shared);

    if (threadIdx.x == 0) shared.found = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < job.lists; i += THREADS) {
        const nf_k_key key = nf_k_make_key(nf_k_order_of(values[i]), i);
        if (key <= threshold) keys[atomicAdd(&shared.found, 1u)] = key;
    }
    __syncthreads();
    if (job.scratch != nullptr) {
        sort_far(keys, job.probes, shared_keys);
    } else {
        nf_k_block_sort(keys, job.probes);
    }
    for (uint32_t i = threadIdx.x; i < job.probes; i += THREADS) list[i] = (uint32_t)keys[i];
    __syncthreads();
}

__global__ __launch_bounds__(many_threads) void many_kernel(const __grid_constant__ nearest_job job)
{
    NF_SHARED_BYTES(bytes);
    __shared__ block_words shared;
    for (uint32_t query = blockIdx.x; query < job.count; query += gridDim.x) {
        nearest_many<many_threads>(job, query, (nf_k_key *)bytes, shared);
    }
}

/* ---- few ---- */

/* The values of a thread: in registers, or read twice. */
template <uint32_t THREADS, bool KEPT>
struct share;

template <uint32_t THREADS>
struct share<THREADS, true> {
    uint32_t order[kept_most];
    __device__ inline uint32_t least(const float *values, uint32_t lists)
    {
        uint32_t least = NF_K_NO_ORDER;
        NF_UNROLL
        for (uint32_t i = 0; i < kept_most; i++) {
            const uint32_t list = i * THREADS + threadIdx.x;
            order[i] = list < lists ? nf_k_order_of(values[list]) : NF_K_NO_ORDER;
        }
        NF_UNROLL
        for (uint32_t i = 0; i < kept_most; i++) least = min(least, order[i]);
        return least;
    }
    template <typename Take>
    __device__ inline void each(const float *, uint32_t, const Take &take) const
    {
        NF_UNROLL
        for (uint32_t i = 0; i < kept_most; i++) take(order[i], i * THREADS + threadIdx.x);
    }
};

template <uint32_t THREADS>
struct share<THREADS, false> {
    __device__ inline uint32_t least(const float *values, uint32_t lists)
    {
        uint32_t least = NF_K_NO_ORDER;
#ifdef __CUDACC__
#pragma unroll 8
#endif
        for (uint32_t list = threadIdx.x; list < lists; list += THREADS) least = min(least, nf_k_order_of(values[list]));
        return least;
    }
    template <typename Take>
    __device__ inline void each(const float *values, uint32_t lists, const Take &take) const
    {
#ifdef __CUDACC__
#pragma unroll 8
#endif
        for (uint32_t list = threadIdx.x; list < lists; list += THREADS) take(nf_k_order_of(values[list]), list);
    }
};

template <uint32_t THREADS, bool KEPT>
__global__ __launch_bounds__(THREADS, 1024 / THREADS) void few_kernel(const __grid_constant__ nearest_job job)
{
    constexpr uint32_t most = 2 * THREADS;
    NF_SHARED_BYTES(bytes);
    __shared__ block_words shared;
    nf_k_key *const        keys = (nf_k_key *)bytes;
    const uint32_t         query = blockIdx.x;
    const float           *values = job.values + query * job.stride;
    share<THREADS, KEPT>   own;

    if (query >= job.count) return;
    if (threadIdx.x == 0) shared.found = 0;
    const uint32_t least = own.least(values, job.lists);
    const uint32_t threshold = nf_k_block_threshold(least, job.probes, job.probes / 4 + 4, shared.words);
    own.each(values, job.lists, [&](uint32_t order, uint32_t list) {
        if (order <= threshold) {
            const uint32_t at = atomicAdd(&shared.found, 1u);
            if (at < most) keys[at] = nf_k_make_key(order, list);
        }
    });
    __syncthreads();
    const uint32_t found = shared.found;
    if (found > most) {
        __syncthreads();
        nearest_many<THREADS>(job, query, keys, shared);
        return;
    }
    nf_k_block_sort(keys, found);
    for (uint32_t i = threadIdx.x; i < job.probes; i += THREADS) {
        job.list[(uint64_t)query * job.probes + i] = (uint32_t)keys[i];
    }
}

template <uint32_t THREADS, bool KEPT>
cudaError_t launch_few(const nearest_job &job, cudaStream_t stream)
{
    const auto     kernel = few_kernel<THREADS, KEPT>;
    const uint32_t keys = 2 * THREADS * (uint32_t)sizeof(nf_k_key), histogram = bins * (uint32_t)sizeof(uint32_t);
    (void)stream;
    NF_LAUNCH(kernel, job.count, THREADS, keys > histogram ? keys : histogram, stream)(job);
    return nf_k_launched();
}

cudaError_t launch_many(const nearest_job &job, cudaStream_t stream)
{
    const bool     far = job.scratch != nullptr;
    const uint32_t keys = (far ? sorted_most : job.probes) * (uint32_t)sizeof(nf_k_key);
    const uint32_t histogram = bins * (uint32_t)sizeof(uint32_t);
    (void)stream;
    NF_LAUNCH(many_kernel, far && job.count > many_blocks ? many_blocks : job.count, many_threads,
              keys > histogram ? keys : histogram, stream)(job);
    return nf_k_launched();
}

} // namespace

extern "C" uint64_t nf_k_nearest_scratch(uint32_t count, uint32_t lists, uint32_t probes)
{
    const uint64_t blocks = count < many_blocks ? count : many_blocks;
    (void)lists;
    return probes > sorted_most ? blocks * probes * sizeof(nf_k_key) : 0;
}

extern "C" cudaError_t nf_k_nearest_lists(float *values, uint64_t stride, uint32_t lists, nf_k_turns *turns, void *scratch,
                                          cudaStream_t stream)
{
    const uint32_t    probes = turns->probes;
    const nearest_job job = {values, stride, turns->count, lists, probes, turns->list,
                             probes > sorted_most ? (nf_k_key *)scratch : nullptr};

    if (turns->count == 0 || probes == 0) return cudaSuccess;
    if (probes > many_threads / 2) return launch_many(job, stream);
    if (probes <= few_threads / 2 && lists <= few_threads * kept_most) return launch_few<few_threads, true>(job, stream);
    if (lists <= many_threads * kept_most) return launch_few<many_threads, true>(job, stream);
    return launch_few<many_threads, false>(job, stream);
}
