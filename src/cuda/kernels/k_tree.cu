/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The balanced kd-tree by rank, level by level (RT-HiSS, section IV-B). All rows of a level are sorted at once by the number
 * of their node and, inside it, by the coordinate in which the node is widest; the split is then by position.
 *
 * A node of g groups gives floor(g / 2) to its left child. So the nodes of a level hold either floor or ceil of their even
 * share, only the last level has nodes of one group, and where a node begins follows from its number: no table is kept.
 */
#include "k_launch.h"
#include "k_points.h"

namespace {

constexpr unsigned BLOCK = 256;
constexpr unsigned NORM_DIMS = 32;       /* from that many dims on the last word is the distance from the mean */
constexpr unsigned FEW_WORDS = 4;        /* of a record: these or NF_K_MOST_KEYS */
constexpr unsigned SPREAD_SAMPLE = 1024; /* rows looked at to find the widest word */

/* Sums that overflowed steer nothing. */
__device__ inline double finite_or_zero(double value)
{
    return fabs(value) < INFINITY ? value : 0.0;
}

/* lanes threads per row: 1, or 32 where the distance from the mean is wanted. */
template <typename T>
__global__ void fill_records(const T *values, uint32_t rows, uint32_t dims, uint32_t stride, nf_k_columns columns,
                             const double *mean, uint32_t words, uint32_t lanes, float *records)
{
    const uint32_t lane = threadIdx.x % lanes;
    const uint32_t row = blockIdx.x * (BLOCK / lanes) + threadIdx.x / lanes;
    if (row >= rows) return;
    const T *from = values + (size_t)row * stride;
    double   sum = 0.0;

    if (lanes > 1) {
        for (uint32_t k = lane; k < dims; k += lanes) {
            const double difference = (double)from[k] - finite_or_zero(mean[k]);
            sum += difference * difference;
        }
        for (uint32_t step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, (int)step);
    }
    for (uint32_t word = lane; word < words; word += lanes) {
        float key = 0.0f;
        if (word < columns.count) {
            const uint32_t column = columns.column[word];
            key = (float)((double)from[column] - finite_or_zero(mean[column]));
        } else if (lanes > 1 && word == words - 1) {
            key = (float)sqrt(sum);
        }
        records[(size_t)row * words + word] = key;
    }
}

__global__ void count_up(uint32_t *out, uint32_t count)
{
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < count) out[i] = i;
}

/* Groups begin .. begin + count - 1 of tree order. */
struct node {
    uint32_t number, begin, count;
};

__device__ inline node child_of(node parent, bool right)
{
    const uint32_t left = parent.count / 2;
    node           child;
    child.number = 2 * parent.number + (right ? 1u : 0u);
    child.begin = parent.begin + (right ? left : 0u);
    child.count = right ? parent.count - left : left;
    return child;
}

__device__ inline node node_of_group(uint32_t group, uint32_t groups, uint32_t level)
{
    node at = {0, 0, groups};
    for (; level > 0; level--) at = child_of(at, group >= at.begin + at.count / 2);
    return at;
}

__device__ inline node node_of_number(uint32_t number, uint32_t groups, uint32_t level)
{
    node at = {0, 0, groups};
    for (; level > 0; level--) at = child_of(at, (number >> (level - 1) & 1u) != 0);
    return at;
}

/* A warp per node. Words that records do not use are all 0: their spread is 0, and never chosen. */
template <unsigned WORDS>
__global__ void widest_words(const float *records, const uint32_t *order, nf_k_groups groups, uint32_t level,
                             uint32_t *widest)
{
    const uint32_t number = blockIdx.x * (BLOCK / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (number >= 1u << level) return;
    const node     at = node_of_number(number, groups.count, level);
    const uint32_t begin = at.begin * groups.size, rows = min(groups.rows - begin, at.count * groups.size);
    const uint32_t step = (rows + SPREAD_SAMPLE - 1) / SPREAD_SAMPLE;
    float          low[WORDS], high[WORDS];

    NF_UNROLL
    for (unsigned word = 0; word < WORDS; word++) {
        low[word] = INFINITY;
        high[word] = -INFINITY;
    }
    for (uint32_t i = lane * step; i < rows; i += 32 * step) {
        const float *record = records + (size_t)order[begin + i] * WORDS;
        NF_UNROLL
        for (unsigned word = 0; word < WORDS; word++) {
            low[word] = fminf(low[word], record[word]);
            high[word] = fmaxf(high[word], record[word]);
        }
    }
    uint32_t best = 0;
    float    best_spread = -1.0f;
    NF_UNROLL
    for (unsigned word = 0; word < WORDS; word++) {
        for (int with = 16; with > 0; with /= 2) {
            low[word] = fminf(low[word], __shfl_xor_sync(0xffffffffu, low[word], with));
            high[word] = fmaxf(high[word], __shfl_xor_sync(0xffffffffu, high[word], with));
        }
        if (high[word] - low[word] > best_spread) {
            best = word;
            best_spread = high[word] - low[word];
        }
    }
    if (lane == 0) widest[number] = best;
}

/* Bits that order as the floats do. */
__device__ inline uint32_t ordered_bits(float value)
{
    const uint32_t bits = __float_as_uint(value);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/* Rows of a node that is one group are done: they get equal keys and keep their places, since the sort is stable. */
__global__ void level_keys(const float *records, uint32_t words, const uint32_t *order, const uint32_t *widest,
                           nf_k_groups groups, uint32_t level, uint64_t *keys)
{
    const uint32_t position = blockIdx.x * BLOCK + threadIdx.x;
    if (position >= groups.rows) return;
    const node at = node_of_group(position / groups.size, groups.count, level);
    uint32_t   bits = 0;
    if (at.count > 1) bits = ordered_bits(records[(size_t)order[position] * words + widest[at.number]]);
    keys[position] = (uint64_t)at.number << 32 | bits;
}

template <typename T>
cudaError_t launch_records(nf_k_raw raw, nf_k_columns columns, const double *mean, float *records, cudaStream_t stream)
{
    const uint32_t lanes = raw.dims >= NORM_DIMS ? 32 : 1;
    NF_LAUNCH(fill_records<T>, nf_k_blocks(raw.rows, BLOCK / lanes), BLOCK, 0, stream)
    (static_cast<const T *>(raw.values), raw.rows, raw.dims, raw.stride, columns, mean, nf_k_record_words(raw.dims), lanes,
     records);
    return nf_k_launched();
}

} // namespace

extern "C" uint32_t nf_k_record_words(uint32_t dims)
{
    return dims <= FEW_WORDS ? FEW_WORDS : NF_K_MOST_KEYS;
}

extern "C" uint32_t nf_k_record_coordinates(uint32_t dims)
{
    return dims >= NORM_DIMS ? NF_K_MOST_KEYS - 1 : min(dims, NF_K_MOST_KEYS);
}

extern "C" cudaError_t nf_k_fill_records(nf_k_raw raw, nf_k_columns columns, const double *mean, float *records,
                                         cudaStream_t stream)
{
    return raw.wide ? launch_records<double>(raw, columns, mean, records, stream)
                    : launch_records<float>(raw, columns, mean, records, stream);
}

extern "C" cudaError_t nf_k_count_up(uint32_t *out, uint32_t count, cudaStream_t stream)
{
    NF_LAUNCH(count_up, nf_k_blocks(count, BLOCK), BLOCK, 0, stream)(out, count);
    return nf_k_launched();
}

extern "C" uint32_t nf_k_tree_levels(uint32_t groups)
{
    uint32_t levels = 0;
    while (levels < 31 && 1u << levels < groups) levels++;
    return levels;
}

extern "C" cudaError_t nf_k_widest_words(const float *records, uint32_t words, const uint32_t *order, nf_k_groups groups,
                                         uint32_t level, uint32_t *widest, cudaStream_t stream)
{
    const unsigned blocks = nf_k_blocks(1ull << level, BLOCK / 32);
    if (words == FEW_WORDS) {
        NF_LAUNCH(widest_words<FEW_WORDS>, blocks, BLOCK, 0, stream)(records, order, groups, level, widest);
    } else {
        NF_LAUNCH(widest_words<NF_K_MOST_KEYS>, blocks, BLOCK, 0, stream)(records, order, groups, level, widest);
    }
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_level_keys(const float *records, uint32_t words, const uint32_t *order, const uint32_t *widest,
                                       nf_k_groups groups, uint32_t level, uint64_t *keys, cudaStream_t stream)
{
    NF_LAUNCH(level_keys, nf_k_blocks(groups.rows, BLOCK), BLOCK, 0, stream)
    (records, words, order, widest, groups, level, keys);
    return nf_k_launched();
}
