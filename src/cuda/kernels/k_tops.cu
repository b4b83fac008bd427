/* SPDX-License-Identifier: Apache-2.0 */
/* The k best of queries: to begin with, and as they are delivered. */
#include "k_keys.cuh"
#include "k_scan.h"

namespace {

constexpr unsigned threads = 256;
constexpr unsigned most_blocks = 132 * 64;

inline unsigned blocks_for(uint64_t count)
{
    const uint64_t blocks = (count + threads - 1) / threads;
    return blocks == 0 ? 1u : blocks < most_blocks ? (unsigned)blocks : most_blocks;
}

__device__ inline float infinity() { return __uint_as_float(0x7f800000u); }

__global__ void clear_kernel(nf_k_tops tops, uint32_t count)
{
    const uint64_t all = (uint64_t)count * tops.k;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += (uint64_t)gridDim.x * blockDim.x) {
        tops.keys[i] = NF_K_NO_KEY;
        if (i < count) tops.limit[i] = infinity(); /* k is at least 1 */
    }
}

__global__ void values_kernel(nf_k_tops tops, uint32_t count, uint64_t *slots, float *values)
{
    const uint64_t all = (uint64_t)count * tops.k;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += (uint64_t)gridDim.x * blockDim.x) {
        const nf_k_key key = tops.keys[i];
        slots[i] = key == NF_K_NO_KEY ? ~(uint64_t)0 : (uint64_t)(uint32_t)key;
        values[i] = key == NF_K_NO_KEY ? infinity() : nf_k_value_of((uint32_t)(key >> 32));
    }
}

/* ---- ids and distances ---- */

struct deliver_job {
    nf_k_tops     tops;
    const void   *row_ids;
    uint32_t      wide_ids, metric, count;
    const double *factors;
    int64_t      *ids;
    float        *distances;
    uint32_t     *counts;
    int64_t      *scratch; /* NULL, or k ids for each block */
};

/* distance_of of ivf_search.c. */
__device__ inline float distance_of(uint32_t metric, double value)
{
    if (value != value) return infinity();
    if (metric == NF_METRIC_L2) return __double2float_rn(sqrt(value > 0.0 ? value : 0.0));
    if (metric == NF_METRIC_COSINE) return __double2float_rn(fmin(fmax(1.0 + value, 0.0), 2.0));
    return __double2float_rn(0.0 + value);
}

__device__ inline int64_t id_of(const deliver_job &job, nf_k_key key)
{
    const uint32_t row = (uint32_t)key;
    return job.wide_ids != 0 ? ((const int64_t *)job.row_ids)[row] : (int64_t)((const uint32_t *)job.row_ids)[row];
}

/* Where hit i belongs: hits are sorted by distance, so only those with the same one are looked at. Of equal ids the first
 * comes first. */
__device__ inline uint32_t place_of(const float *distances, const int64_t *ids, uint32_t count, uint32_t i)
{
    const float   distance = distances[i];
    const int64_t id = ids[i];
    uint32_t      place = i;
    for (uint32_t j = i; j > 0 && distances[j - 1] == distance; j--) place -= ids[j - 1] > id;
    for (uint32_t j = i + 1; j < count && distances[j] == distance; j++) place += ids[j] < id;
    return place;
}

/* A block has a query. Values that order as they do give distances that do so too: they need not be sorted, ids must be. */
__global__ void deliver_kernel(const __grid_constant__ deliver_job job)
{
    __shared__ int64_t near[NF_K_NEAR_BEST];
    const uint32_t     k = job.tops.k;
    int64_t *const     ids = job.scratch != nullptr ? job.scratch + (uint64_t)blockIdx.x * k : near;

    for (uint32_t query = blockIdx.x; query < job.count; query += gridDim.x) {
        const nf_k_key *keys = job.tops.keys + (uint64_t)query * k;
        float          *distances = job.distances + (uint64_t)query * k;
        int64_t        *out = job.ids + (uint64_t)query * k;
        const double    factor = job.factors != nullptr ? job.factors[query] : 1.0;
        uint32_t        count = 0;

        for (uint32_t first = 0; first < k; first += blockDim.x) {
            const uint32_t i = first + threadIdx.x;
            const nf_k_key key = i < k ? keys[i] : NF_K_NO_KEY;
            const bool     there = key != NF_K_NO_KEY;
            if (i < k) {
                const double value = (double)nf_k_value_of((uint32_t)(key >> 32));
                distances[i] = there ? distance_of(job.metric, value / factor) : infinity();
                ids[i] = there ? id_of(job, key) : -1;
            }
            count += (uint32_t)__syncthreads_count(there);
        }
        for (uint32_t i = threadIdx.x; i < k; i += blockDim.x) {
            out[i < count ? place_of(distances, ids, count, i) : i] = ids[i];
        }
        if (threadIdx.x == 0 && job.counts != nullptr) job.counts[query] = count;
        __syncthreads();
    }
}

} // namespace

extern "C" {

cudaError_t nf_k_tops_clear(nf_k_tops tops, uint32_t count, cudaStream_t stream)
{
    (void)stream;
    NF_LAUNCH(clear_kernel, blocks_for((uint64_t)count * tops.k), threads, 0, stream)(tops, count);
    return nf_k_launched();
}

cudaError_t nf_k_tops_values(nf_k_tops tops, uint32_t count, uint64_t *slots, float *values, cudaStream_t stream)
{
    (void)stream;
    NF_LAUNCH(values_kernel, blocks_for((uint64_t)count * tops.k), threads, 0, stream)(tops, count, slots, values);
    return nf_k_launched();
}

cudaError_t nf_k_tops_deliver(const nf_k_index *index, nf_k_tops tops, uint32_t count, const double *factors, int64_t *ids,
                              float *distances, uint32_t *counts, void *scratch, cudaStream_t stream)
{
    const bool        far = tops.k > NF_K_NEAR_BEST;
    const deliver_job job = {tops, index->ids, index->wide_ids, index->metric, count, factors, ids, distances, counts,
                             far ? (int64_t *)scratch : nullptr};
    const uint32_t    block = tops.k <= 32 ? 32 : tops.k <= 128 ? 128 : threads;
    (void)stream;
    if (count == 0 || tops.k == 0) return cudaSuccess;
    NF_LAUNCH(deliver_kernel, far && count > NF_K_FAR_BLOCKS ? NF_K_FAR_BLOCKS : count, block, 0, stream)(job);
    return nf_k_launched();
}

} // extern "C"
