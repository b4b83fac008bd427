/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes after the refinement kernel: the exact decision of open pairs (numerics.md, section 6, by the same code as on the
 * CPU), stream compaction of masks, and the limits of the product form.
 */
#include "k_emit.cuh"

namespace {

constexpr int threads = 256;

__global__ void recheck_kernel(const __grid_constant__ nf_k_refine job)
{
    const uint64_t asked = job.counters->open;
    const uint64_t count = asked < job.open_capacity ? asked : job.open_capacity;
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const nf_k_open open = job.open[i];
        if (!nf_k_decide(job, open.query, open.point)) continue;
        switch (job.emit) {
        case NF_K_COUNT: nf_k_count_pair(job, open.query, open.point); break;
        case NF_K_MASK:
            atomicOr(&job.mask[(uint64_t)open.item * (job.tile * job.tile / 32) + open.place / 32], 1u << (open.place % 32));
            break;
        default: nf_k_store_pair(job, open.query, open.point); break;
        }
    }
}

/* A warp takes 32 rows of a mask at a time. */
__global__ void compact_kernel(const __grid_constant__ nf_k_refine job)
{
    const uint64_t items = *job.item_count;
    const uint32_t words = job.tile / 32, lane = threadIdx.x % 32;
    const uint64_t per_item = job.tile / 32, step = (uint64_t)gridDim.x * (blockDim.x / 32);
    for (uint64_t part = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32; part < items * per_item; part += step) {
        const uint64_t  number = part / per_item;
        const uint32_t  row = (uint32_t)(part % per_item) * 32 + lane;
        const nf_k_item item = nf_k_plain(job.items[number]);
        uint32_t        bits[4], query = 0;
        for (uint32_t w = 0; w < words; w++) {
            bits[w] = row < item.query_count ? job.mask[(number * job.tile + row) * words + w] : 0;
        }
        if (row < item.query_count) query = job.list != nullptr ? job.list[item.query_from + row] : item.query_from + row;
        nf_k_store_rows(job, bits, words, query, item.point_from);
    }
}

struct limits_of {
    double out_factor, out_offset, in_factor, in_offset;
    uint32_t stop_count, stops[NF_K_STOPS];
};

/* A thread per row: sums of squares of the first dims, one fused multiply-add each. */
__global__ void limits_kernel(nf_k_rows rows, uint64_t count, limits_of limits, float *out, float *in)
{
    const uint64_t row = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= count) return;
    const float *values = static_cast<const float *>(rows.values) + row * rows.stride;
    float        sum = 0.0f;
    uint32_t     k = 0;
    for (uint32_t stop = 0; stop < limits.stop_count; stop++) {
        const uint32_t end = stop + 1 < limits.stop_count ? limits.stops[stop] : rows.stride;
        for (; k < end; k += 4) {
            const float4 v = *reinterpret_cast<const float4 *>(values + k);
            sum = __fmaf_rn(v.x, v.x, sum);
            sum = __fmaf_rn(v.y, v.y, sum);
            sum = __fmaf_rn(v.z, v.z, sum);
            sum = __fmaf_rn(v.w, v.w, sum);
        }
        out[stop * count + row] = __double2float_rn((double)sum * limits.out_factor - limits.out_offset);
    }
    in[row] = __double2float_rn((double)sum * limits.in_factor - limits.in_offset);
}

} // namespace

extern "C" cudaError_t nf_k_recheck_run(cudaStream_t stream, const nf_k_refine *job)
{
    (void)stream;
    NF_LAUNCH(recheck_kernel, job->blocks, threads, 0, stream)(*job);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_compact_run(cudaStream_t stream, const nf_k_refine *job)
{
    (void)stream;
    NF_LAUNCH(compact_kernel, job->blocks, threads, 0, stream)(*job);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_limits_run(cudaStream_t stream, const nf_k_rows *rows, uint64_t count, const uint32_t *stops,
                                       uint32_t stop_count, double out_factor, double out_offset, double in_factor,
                                       double in_offset, float *out, float *in)
{
    limits_of limits = {out_factor, out_offset, in_factor, in_offset, stop_count, {0}};
    (void)stream;
    for (uint32_t i = 0; i < stop_count; i++) limits.stops[i] = stops[i];
    NF_LAUNCH(limits_kernel, nf_k_blocks(count, threads), threads, 0, stream)(*rows, count, limits, out, in);
    return nf_k_launched();
}
