/* SPDX-License-Identifier: Apache-2.0 */
/* Where results go: what refine, recheck and compaction share. */
#ifndef NF_K_EMIT_CUH
#define NF_K_EMIT_CUH

#include "k_launch.h"
#include "k_refine.h"
#include "matrix/matrix_exact_inline.h"

#define NF_ALL_LANES 0xffffffffu

/* Adds to a 64-bit counter of the device. */
static __device__ inline uint64_t nf_k_add(uint64_t *counter, uint64_t value)
{
    return atomicAdd(reinterpret_cast<unsigned long long *>(counter), (unsigned long long)value);
}

static __device__ inline bool nf_k_inside(const nf_k_refine &job, uint32_t point)
{
    return job.self_join != 0 && point >= job.first && point < job.last;
}

/* An item without its flags. */
static __device__ inline nf_k_item nf_k_plain(nf_k_item item)
{
    item.query_count &= ~NF_K_CONTINUED;
    item.point_count &= ~NF_K_CONTINUED;
    return item;
}

/* How often a pair counts: for each of the rows that it is delivered to, in this batch or before. */
static __device__ inline uint32_t nf_k_weight(const nf_k_refine &job, uint32_t query, uint32_t point)
{
    if (nf_k_inside(job, point)) return 2;
    for (uint32_t i = 0; i < job.cut_count; i++) {
        if (point >= job.cuts[i].first && point < job.cuts[i].cut && query >= job.cuts[i].cut && query < job.cuts[i].last) return 0;
    }
    return 1;
}

static __device__ inline nf_exact_row nf_k_exact_row(const nf_k_rows &rows, uint32_t position)
{
    nf_exact_row   row;
    const uint64_t at = (uint64_t)position * rows.stride;
    row.wide = rows.wide != 0 ? static_cast<const double *>(rows.values) + at : nullptr;
    row.narrow = rows.wide != 0 ? nullptr : static_cast<const float *>(rows.values) + at;
    row.place = nullptr; /* both sides have the same order of dims, and the exact answer does not depend on it */
    return row;
}

/* Decides an open pair; counts it. */
static __device__ __noinline__ bool nf_k_decide(const nf_k_refine &job, uint32_t query, uint32_t point)
{
    const nf_exact_row x = nf_k_exact_row(job.x, query), y = nf_k_exact_row(job.y, point);
    const int          side = nf_exact_compare_rows_fast(&x, &y, job.x.dims, job.radius);
    if (side == 0) nf_k_add(&job.counters->ties, nf_k_weight(job, query, point));
    return side < 0 || (side == 0 && job.strict == 0);
}

/* Counts one pair for the rows that it belongs to. */
static __device__ inline void nf_k_count_pair(const nf_k_refine &job, uint32_t query, uint32_t point)
{
    const bool inside = nf_k_inside(job, point);
    if (job.half != 0) {
        const bool own = job.x_ids[query] < job.y_ids[point];
        if (own || inside) atomicAdd(&job.counts[own ? query : point], 1u);
        return;
    }
    atomicAdd(&job.counts[query], 1u);
    if (inside) atomicAdd(&job.counts[point], 1u);
}

/* Stores one pair, if there is room. */
static __device__ inline void nf_k_store_pair(const nf_k_refine &job, uint32_t query, uint32_t point)
{
    const uint64_t at = nf_k_add(&job.counters->pairs, 1);
    if (at < job.store_capacity) job.store[at] = nf_pair{query, point};
}

/* Every lane of a warp stores the set bits of its row; space for all lanes is taken at once. */
static __device__ inline void nf_k_store_rows(const nf_k_refine &job, const uint32_t *words, uint32_t word_count,
                                              uint32_t query, uint32_t point_from)
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t       count = 0;
    for (uint32_t w = 0; w < word_count; w++) count += (uint32_t)__popc(words[w]);
    uint32_t sum = count;
    for (unsigned by = 1; by < 32; by *= 2) {
        const uint32_t other = __shfl_up_sync(NF_ALL_LANES, sum, by);
        if (lane >= by) sum += other;
    }
    const uint32_t total = __shfl_sync(NF_ALL_LANES, sum, 31);
    if (total == 0) return;
    uint64_t base = 0;
    if (lane == 31) base = nf_k_add(&job.counters->pairs, total);
    base = __shfl_sync(NF_ALL_LANES, base, 31);
    if (base + total > job.store_capacity) return;
    base += sum - count;
    for (uint32_t w = 0; w < word_count; w++) {
        for (uint32_t bits = words[w]; bits != 0; bits &= bits - 1) {
            job.store[base++] = nf_pair{query, point_from + w * 32 + (uint32_t)__ffs((int)bits) - 1};
        }
    }
}

#endif
