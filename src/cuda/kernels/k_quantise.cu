/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries as the scan of short codes sees them (k_scan.h): a block per query.
 *
 * Bitwise form. The values of a rotated query look like those of a Gaussian. The best uniform quantiser of one has
 * steps of .335 standard deviations at 4 bits and .0308 at 8; the largest value can want longer ones. So steps from 0.8
 * times the former to max |q_i| / M are tried, in equal ratios, M = 2^(planes - 1) - 1: integers are symmetrical, -M ..
 * M. The integers v of the best step are kept, and the step becomes <q, v> / <v, v>, the best one for these integers.
 *
 * Look-up tables. Those in binary16 are scaled by a power of two, the step, so that neither large nor small queries
 * leave its range. What their rounding adds to the variance is summed up over the entries as they are: a code's bits
 * pick one of 16 entries of each table, all equally likely.
 */
#include "k_scan_common.cuh"

namespace {

constexpr int threads = 128, warps = threads / 32;
constexpr int steps = 9; /* tried */

/* Sums over the block, in every thread; the order of additions depends on nothing. room: warps x N values, in turn. */
template <int N, typename T>
__device__ inline void block_sums(T sums[N], T *room)
{
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    NF_UNROLL
    for (int i = 0; i < N; i++) {
        NF_UNROLL
        for (int with = 16; with > 0; with /= 2) sums[i] += __shfl_xor_sync(whole_warp, sums[i], with);
        if (lane == 0) room[warp * N + i] = sums[i];
    }
    __syncthreads();
    NF_UNROLL
    for (int i = 0; i < N; i++) {
        sums[i] = room[i];
        NF_UNROLL
        for (int w = 1; w < warps; w++) sums[i] += room[w * N + i];
    }
}

__device__ inline float block_most(float most, float *room)
{
    NF_UNROLL
    for (int with = 16; with > 0; with /= 2) most = fmaxf(most, __shfl_xor_sync(whole_warp, most, with));
    if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = most;
    __syncthreads();
    NF_UNROLL
    for (int w = 0; w < warps; w++) most = fmaxf(most, room[w]);
    return most;
}

struct query_sums {
    double square, sum;
    float  most; /* |q_i| */
};

__device__ inline query_sums moments(const nf_k_index &index, const nf_k_queries &queries, const float *q, uint32_t query)
{
    __shared__ double room[warps * 3];
    __shared__ float  most_room[warps];
    double            sums[3] = {0.0, 0.0, 0.0}; /* square, mean_dot, sum */
    float             most = 0.0f;
    for (uint32_t i = threadIdx.x; i < index.width; i += threads) {
        const double value = q[i];
        sums[0] = fma(value, value, sums[0]);
        sums[1] = fma(value, (double)index.mean[i], sums[1]);
        sums[2] += value;
        most = fmaxf(most, fabsf(q[i]));
    }
    block_sums<3>(sums, room);
    if (threadIdx.x == 0) {
        queries.square[query] = (float)sums[0];
        queries.mean_dot[query] = (float)sums[1];
        queries.sum[query] = (float)sums[2];
    }
    return {sums[0], sums[2], block_most(most, most_room)};
}

/* The integer of a value, inverse = 1 / step. */
__device__ inline float integer_of(float value, float inverse, float most)
{
    return fmaxf(-most, fminf(most, rintf(value * inverse)));
}

/* The best step tried; 0 where the query is zero or as good as zero. */
__device__ inline float best_step(const float *q, uint32_t width, float deviation, float longest, float gaussian, float most)
{
    __shared__ float room[warps * steps];
    if (!(longest > 1e-36f)) return 0.0f;
    float trial[steps], inverse[steps], errors[steps];
    /* The eighth root: from the longest step to the shortest in eight. */
    const float shortest = 0.8f * fminf(gaussian * deviation, longest), ratio = sqrtf(sqrtf(sqrtf(shortest / longest)));
    trial[0] = longest;
    NF_UNROLL
    for (int i = 0; i < steps; i++) {
        if (i > 0) trial[i] = trial[i - 1] * ratio;
        inverse[i] = 1.0f / trial[i];
        errors[i] = 0.0f;
    }
    for (uint32_t at = threadIdx.x; at < width; at += threads) {
        const float value = q[at];
        NF_UNROLL
        for (int i = 0; i < steps; i++) {
            const float error = fmaf(-trial[i], integer_of(value, inverse[i], most), value);
            errors[i] = fmaf(error, error, errors[i]);
        }
    }
    block_sums<steps>(errors, room);
    float step = trial[0], least = errors[0];
    NF_UNROLL
    for (int i = 1; i < steps; i++) {
        if (errors[i] < least) {
            least = errors[i];
            step = trial[i];
        }
    }
    return step;
}

/* Writes planes and integers of a query: a warp takes 32 dims at a time. */
__device__ inline void write_planes(const nf_k_index &index, const nf_k_queries &queries, const float *q, uint32_t query,
                                    float inverse, float most)
{
    const uint32_t words = 4 * index.chunks, lane = threadIdx.x & 31;
    uint32_t      *planes = queries.plane + (uint64_t)query * words * queries.planes;
    for (uint32_t w = threadIdx.x >> 5; w < words; w += warps) {
        const uint32_t at = 32 * w + lane;
        const int      v = at < index.width ? (int)integer_of(q[at], inverse, most) : 0;
        uint32_t       mine = 0;
        for (uint32_t j = 0; j < queries.planes; j++) {
            const uint32_t plane = __ballot_sync(whole_warp, v >> j & 1);
            if (lane == j) mine = plane;
        }
        if (lane < queries.planes) planes[w * queries.planes + lane] = mine;
        if (queries.values != nullptr) queries.values[(uint64_t)query * words * 32 + at] = (int8_t)v;
    }
}

__device__ inline void bitwise_form(const nf_k_index &index, const nf_k_queries &queries, const float *q, uint32_t query,
                                    const query_sums &moments)
{
    __shared__ double product_room[warps * 3], noise_room[warps];
    const bool        four = queries.planes == 4;
    const float       most = four ? 7.0f : 127.0f, gaussian = four ? 0.335f : 0.0308f;
    const float       deviation = (float)sqrt(moments.square / index.padded);
    const float       trial = best_step(q, index.width, deviation, moments.most / most, gaussian, most);
    const float       inverse = trial > 0.0f ? 1.0f / trial : 0.0f;
    double            sums[3] = {0.0, 0.0, 0.0}; /* <q, v>, <v, v>, sum v */
    for (uint32_t i = threadIdx.x; i < index.width; i += threads) {
        const double v = integer_of(q[i], inverse, most);
        sums[0] = fma((double)q[i], v, sums[0]);
        sums[1] = fma(v, v, sums[1]);
        sums[2] += v;
    }
    block_sums<3>(sums, product_room);
    const float step = sums[1] > 0.0 ? (float)(sums[0] / sums[1]) : 0.0f;
    double      noise[1] = {0.0};
    for (uint32_t i = threadIdx.x; i < index.width; i += threads) {
        const double error = fma(-(double)step, (double)integer_of(q[i], inverse, most), (double)q[i]);
        noise[0] = fma(error, error, noise[0]);
    }
    write_planes(index, queries, q, query, inverse, most);
    block_sums<1>(noise, noise_room);
    if (threadIdx.x == 0) {
        queries.step[query] = step;
        queries.base[query] = (float)(-0.5 * (double)step * sums[2]);
        queries.noise[query] = (float)(0.25 * noise[0]);
    }
}

/* The power of two by which tables in binary16 are scaled: sums of four values come to less than 2^15. */
__device__ inline float table_step(float most)
{
    if (!(most > 0.0f) || !(most < 1e30f)) return 1.0f;
    const int exponent = (int)(__float_as_uint(4.0f * most) >> 23) - 126; /* 4 most < 2^exponent */
    return __uint_as_float((uint32_t)(max(exponent - 15, -100) + 127) << 23);
}

__device__ inline void table_form(const nf_k_index &index, const nf_k_queries &queries, const float *q, uint32_t query,
                                  const query_sums &moments, bool halves)
{
    __shared__ double room[warps];
    const float       step = halves ? table_step(moments.most) : 1.0f;
    double            noise[1] = {0.0};
    if (halves) {
        const float inverse = 1.0f / step;
        for (uint32_t i = threadIdx.x; i < 4 * index.width; i += threads) {
            const float *four = q + 4 * (i / 16);
            const float4 dims = {four[0] * inverse, four[1] * inverse, four[2] * inverse, four[3] * inverse};
            const float  entry = table_sum(dims, i % 16), error = (entry - value_of(half_of(entry))) * step;
            noise[0] = fma((double)error, (double)error, noise[0]);
        }
        block_sums<1>(noise, room);
    }
    if (threadIdx.x == 0) {
        queries.step[query] = step;
        queries.base[query] = (float)(-0.5 * moments.sum);
        queries.noise[query] = (float)(noise[0] / 16.0);
    }
}

/* The query, read several times, lies in shared memory where there is room. */
__global__ void __launch_bounds__(threads) quantise_queries(const __grid_constant__ nf_k_index index,
                                                            const __grid_constant__ nf_k_queries queries,
                                                            nf_k_precision precision, uint32_t staged)
{
    NF_SHARED_BYTES(shared);
    const uint32_t query = blockIdx.x;
    const float   *q = queries.rotated + (uint64_t)query * index.width;
    if (staged) {
        float *near = reinterpret_cast<float *>(shared);
        for (uint32_t i = threadIdx.x; i < index.width; i += threads) near[i] = q[i];
        __syncthreads();
        q = near;
    }
    const query_sums sums = moments(index, queries, q, query);
    if (precision == NF_K_LUT16 || precision == NF_K_LUT32) {
        table_form(index, queries, q, query, sums, precision == NF_K_LUT16);
    } else if (queries.planes != 0) {
        bitwise_form(index, queries, q, query, sums);
    }
}

} // namespace

cudaError_t nf_k_quantise(const nf_k_index *index, nf_k_queries *queries, nf_k_precision precision, cudaStream_t stream)
{
    if (queries->count == 0) return cudaSuccess;
    const uint64_t bytes = (uint64_t)index->width * sizeof(float);
    const uint32_t staged = bytes <= 40u << 10;
    NF_LAUNCH(quantise_queries, queries->count, threads, staged ? bytes : 0, stream)(*index, *queries, precision, staged);
    return nf_k_launched();
}
