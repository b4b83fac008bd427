/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials of the self-test: boxes and queries made to be hard, and the hits that a plain loop over all boxes finds.
 *
 * Each query is made from one box: in every dim it lies on a face, one place of binary32 inside or outside of it, or
 * somewhere between the faces. Random numbers are a function of (seed, number): the finaliser of SplitMix64 (Steele, Lea,
 * Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
 */
#include "cuda/kernels/k_launch.h"
#include "rt_kernels.h"

#define BLOCK 256u

enum { MIXTURE, UNIT, GRID, POINTS, HUGE_BOXES, TINY, EXPONENTS, TRANSLATED, OUTLIERS, SAME }; /* NF_RT_TRIAL_KINDS */

typedef unsigned long long u64;

static __device__ u64 scramble(u64 value)
{
    value += 0x9e3779b97f4a7c15ull;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

/* A stream of random numbers. */
struct random_stream {
    u64 state;
    __device__ random_stream(u64 seed, unsigned number) : state(scramble(seed ^ scramble(number))) {}
    __device__ unsigned bits(unsigned count) { return (unsigned)((state = scramble(state)) >> (64 - count)); }
    __device__ float between(float low, float high) { return low + (high - low) * ((float)bits(24) * 0x1p-24f); }
};

/* A number of any exponent, zero and subnormal numbers among them. */
static __device__ float any_exponent(random_stream &random)
{
    const unsigned sign = random.bits(1) << 31, exponent = random.bits(8), fraction = random.bits(23);
    return __uint_as_float(sign | (exponent == 255 ? 254u : exponent) << 23 | fraction);
}

static __device__ void make_ends(random_stream &random, int kind, float *low, float *high)
{
    float middle = random.between(-1.0f, 1.0f), half = random.between(0.0f, 0.125f), scale = 1.0f;

    switch (kind) {
    case GRID: /* faces coincide, boxes have no extent in some dims */
        *low = floorf(random.between(-8.0f, 8.0f));
        *high = *low + (float)random.bits(1);
        return;
    case EXPONENTS: {
        const float a = any_exponent(random), b = any_exponent(random);
        *low = fminf(a, b);
        *high = fmaxf(a, b);
        if (random.bits(6) == 0) *low = -INFINITY;
        if (random.bits(6) == 0) *high = INFINITY;
        return;
    }
    case POINTS: half = 0.0f; break;
    case HUGE_BOXES: scale = 1e30f; break;
    case TINY: scale = random.bits(1) ? 1e-30f : 1e-40f; break;
    case TRANSLATED: /* extents of a few places of binary32 */
        middle = 10000.0f + middle * 0.0625f;
        half *= 0.0625f;
        break;
    case OUTLIERS: /* clusters of very different extents */
        scale = random.bits(5) == 0 ? 1e6f : random.bits(1) ? 1.0f : 1e-6f;
        break;
    case SAME: /* all boxes agree in most of the dims */
        middle = random.bits(2) == 0 ? middle : 0.5f;
        half = 0.0625f;
        break;
    default: break;
    }
    *low = (middle - half) * scale;
    *high = (middle + half) * scale;
}

static __global__ void make_boxes(nf_rt_trial trial)
{
    const unsigned group = blockIdx.x * blockDim.x + threadIdx.x;
    if (group >= trial.groups) return;

    random_stream random(trial.seed, group);
    const int kind = trial.kind == MIXTURE ? 1 + (int)(group % (NF_RT_TRIAL_KINDS - 1)) : trial.kind;
    float    *box = trial.boxes + 6ull * group;
    for (int dim = 0; dim < 3; dim++) make_ends(random, kind, box + dim, box + 3 + dim);
    if (group == 0) *trial.skip_from = random.bits(31) % trial.groups;
}

static __global__ void make_queries(nf_rt_trial trial)
{
    const unsigned query = blockIdx.x * blockDim.x + threadIdx.x;
    if (query >= trial.queries) return;

    random_stream random(trial.seed + 1, query);
    const float *box = trial.boxes + 6ull * (random.bits(31) % trial.groups);
    for (int dim = 0; dim < 3; dim++) {
        const float low = box[dim], high = box[3 + dim];
        float at;
        switch (random.bits(3)) {
        case 0: at = low; break;
        case 1: at = high; break;
        case 2: at = nextafterf(low, -INFINITY); break;
        case 3: at = nextafterf(low, INFINITY); break;
        case 4: at = nextafterf(high, -INFINITY); break;
        case 5: at = nextafterf(high, INFINITY); break;
        default:
            at = low * 0.5f + high * 0.5f;
            at = at != at ? 0.0f : random.bits(1) ? at : random.between(low, at);
            if (at != at) at = low;
            break;
        }
        trial.points[3ull * query + dim] = at;
    }
    trial.least_group[query] = random.bits(31) % (trial.groups + 1);
}

static __global__ void expect(nf_rt_trial trial, int leave_out)
{
    const unsigned query = blockIdx.x * blockDim.x + threadIdx.x;
    if (query >= trial.queries) return;

    const float x = trial.points[3ull * query], y = trial.points[3ull * query + 1], z = trial.points[3ull * query + 2];
    const unsigned from = *trial.skip_from, least = leave_out ? trial.least_group[query] : 0;
    unsigned hits = 0;
    for (unsigned group = 0; group < trial.groups; group++) {
        const float *box = trial.boxes + 6ull * group;
        const bool inside = x >= box[0] && x <= box[3] && y >= box[1] && y <= box[4] && z >= box[2] && z <= box[5];
        if (!inside || (group >= from && group < least)) continue;
        hits++;
        atomicAdd(trial.group_hits + group, 1u);
        atomicAdd(reinterpret_cast<u64 *>(trial.group_sums) + group, scramble(query));
    }
    trial.query_hits[query] = hits;
}

/* A block per list. */
static __global__ void add_lists(const uint32_t *lists, const uint64_t *starts, uint64_t *sums)
{
    const unsigned group = blockIdx.x;
    u64 sum = 0;
    for (u64 i = starts[group] + threadIdx.x; i < starts[group + 1]; i += blockDim.x) sum += scramble(lists[i]);
    if (sum != 0) atomicAdd(reinterpret_cast<u64 *>(sums) + group, sum);
}

static __global__ void compare(const uint32_t *a, const uint32_t *b, unsigned count, uint64_t *differences)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count || a[i] == b[i]) return;
    atomicAdd(reinterpret_cast<u64 *>(differences), (u64)(a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]));
}

static __global__ void compare_sums(const uint64_t *a, const uint64_t *b, unsigned count, uint64_t *differences)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && a[i] != b[i]) atomicAdd(reinterpret_cast<u64 *>(differences), 1ull);
}

extern "C" cudaError_t nf_rt_k_trial_make(cudaStream_t stream, const nf_rt_trial *trial)
{
    NF_LAUNCH(make_boxes, nf_k_blocks(trial->groups, BLOCK), BLOCK, 0, stream)(*trial);
    const cudaError_t error = nf_k_launched();
    if (error != cudaSuccess) return error;
    NF_LAUNCH(make_queries, nf_k_blocks(trial->queries, BLOCK), BLOCK, 0, stream)(*trial);
    return nf_k_launched();
}

extern "C" cudaError_t nf_rt_k_trial_expect(cudaStream_t stream, const nf_rt_trial *trial, int leave_out)
{
    NF_LAUNCH(expect, nf_k_blocks(trial->queries, BLOCK), BLOCK, 0, stream)(*trial, leave_out);
    return nf_k_launched();
}

extern "C" cudaError_t nf_rt_k_trial_sums(cudaStream_t stream, const uint32_t *lists, const uint64_t *starts,
                                          uint32_t groups, uint64_t *sums)
{
    NF_LAUNCH(add_lists, groups, BLOCK, 0, stream)(lists, starts, sums);
    return nf_k_launched();
}

extern "C" cudaError_t nf_rt_k_trial_compare(cudaStream_t stream, const uint32_t *a, const uint32_t *b, uint32_t count,
                                             uint64_t *differences)
{
    NF_LAUNCH(compare, nf_k_blocks(count, BLOCK), BLOCK, 0, stream)(a, b, count, differences);
    return nf_k_launched();
}

extern "C" cudaError_t nf_rt_k_trial_compare_sums(cudaStream_t stream, const uint64_t *a, const uint64_t *b, uint32_t count,
                                                  uint64_t *differences)
{
    NF_LAUNCH(compare_sums, nf_k_blocks(count, BLOCK), BLOCK, 0, stream)(a, b, count, differences);
    return nf_k_launched();
}
