/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups in Morton order of their centres in the index dims, rows of a group contiguous (RT-HiSS, section IV-C). All groups
 * but the last one in tree order are full, so where a group starts follows from its place and that of the short one.
 */
#include "k_launch.h"
#include "k_points.h"

namespace {

constexpr unsigned BLOCK = 256;
constexpr unsigned INDEX_DIMS = 3;
constexpr unsigned DIM_BITS = NF_K_MORTON_BITS / INDEX_DIMS;
constexpr unsigned CENTRE_ROWS = 8; /* the mean of so many rows of a group is enough to sort by */
constexpr unsigned GATHERED = 2048; /* about so many numbers a block gathers */

/* Bits that order as the doubles do, and back. */
__device__ inline unsigned long long ordered_bits(double value)
{
    const unsigned long long bits = (unsigned long long)__double_as_longlong(value);
    return (bits >> 63) != 0 ? ~bits : bits | 1ull << 63;
}

__device__ inline double of_ordered_bits(unsigned long long bits)
{
    return __longlong_as_double((long long)((bits >> 63) != 0 ? bits & ~(1ull << 63) : ~bits));
}

template <typename T>
__global__ void group_centres(const T *values, uint32_t stride, nf_k_columns columns, const uint32_t *order,
                              nf_k_groups groups, double *centres, unsigned long long *corners)
{
    const uint32_t group = blockIdx.x * BLOCK + threadIdx.x;
    double         centre[INDEX_DIMS] = {0.0, 0.0, 0.0};

    if (group < groups.count) {
        const uint32_t begin = group * groups.size, rows = min(groups.size, groups.rows - begin);
        const uint32_t step = (rows + CENTRE_ROWS - 1) / CENTRE_ROWS;
        const double   share = 1.0 / ((rows + step - 1) / step); /* of each: no overflow at the ends of binary64 */
        for (uint32_t i = 0; i < rows; i += step) {
            const T *from = values + (size_t)order[begin + i] * stride;
            NF_UNROLL
            for (unsigned k = 0; k < INDEX_DIMS; k++) {
                if (k < columns.count) centre[k] += (double)from[columns.column[k]] * share;
            }
        }
        NF_UNROLL
        for (unsigned k = 0; k < INDEX_DIMS; k++) centres[(size_t)group * INDEX_DIMS + k] = centre[k];
    }
    NF_UNROLL
    for (unsigned k = 0; k < INDEX_DIMS; k++) {
        unsigned long long low = group < groups.count ? ordered_bits(centre[k]) : ~0ull;
        unsigned long long high = group < groups.count ? low : 0ull;
        for (int step = 16; step > 0; step /= 2) {
            low = min(low, __shfl_xor_sync(0xffffffffu, low, step));
            high = max(high, __shfl_xor_sync(0xffffffffu, high, step));
        }
        if (threadIdx.x % 32 == 0) {
            atomicMin(&corners[k], low);
            atomicMax(&corners[INDEX_DIMS + k], high);
        }
    }
}

/* Spreads the lowest 21 bits of value to every third bit. */
__device__ inline uint64_t spread_bits(uint64_t value)
{
    value &= 0x1fffff;
    value = (value | value << 32) & 0x1f00000000ffffull;
    value = (value | value << 16) & 0x1f0000ff0000ffull;
    value = (value | value << 8) & 0x100f00f00f00f00full;
    value = (value | value << 4) & 0x10c30c30c30c30c3ull;
    return (value | value << 2) & 0x1249249249249249ull;
}

__global__ void morton_codes(const double *centres, const unsigned long long *corners, uint32_t count, uint64_t *codes)
{
    const uint32_t group = blockIdx.x * BLOCK + threadIdx.x;
    if (group >= count) return;
    uint64_t code = 0;
    for (unsigned k = 0; k < INDEX_DIMS; k++) {
        /* Halves: no overflow at the ends of binary64. */
        const double low = of_ordered_bits(corners[k]) * 0.5, high = of_ordered_bits(corners[INDEX_DIMS + k]) * 0.5;
        const double extent = high - low, top = (double)((1u << DIM_BITS) - 1);
        const double part = extent > 0.0 ? (centres[(size_t)group * INDEX_DIMS + k] * 0.5 - low) / extent : 0.0;
        const double cell = part * top;
        code |= spread_bits(cell > 0.0 ? (uint64_t)(cell < top ? cell : top) : 0) << k;
    }
    codes[group] = code;
}

__global__ void find_short(const uint32_t *sorted, uint32_t count, uint32_t *short_place)
{
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < count && sorted[i] == count - 1) *short_place = i;
}

/* How many rows the last group in tree order lacks. */
__device__ inline uint32_t missing_rows(nf_k_groups groups)
{
    return groups.count * groups.size - groups.rows;
}

__device__ inline uint32_t start_of(uint32_t i, uint32_t short_place, nf_k_groups groups)
{
    return i * groups.size - (i > short_place ? missing_rows(groups) : 0u);
}

__global__ void group_starts(const uint32_t *short_place, nf_k_groups groups, uint32_t *start)
{
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i <= groups.count) start[i] = start_of(i, *short_place, groups);
}

__global__ void place_rows(const uint32_t *order, const uint32_t *sorted, const uint32_t *short_place, nf_k_groups groups,
                           uint32_t *ids, uint32_t *positions)
{
    const uint32_t position = blockIdx.x * BLOCK + threadIdx.x;
    if (position >= groups.rows) return;
    const uint32_t place = *short_place, after_short = start_of(place + 1, place, groups);
    const uint32_t i = (position < after_short ? position : position + missing_rows(groups)) / groups.size;
    const uint32_t id = order[sorted[i] * groups.size + (position - start_of(i, place, groups))];
    ids[position] = id;
    positions[id] = position;
}

/* A block takes at_once rows; those that are longer than a block has threads, in several steps. */
template <typename T>
__global__ void gather_rows(const T *from, const uint32_t *ids, const uint32_t *dim_order, uint32_t rows, uint32_t dims,
                            uint32_t stride, uint32_t at_once, T *to)
{
    const uint32_t first = blockIdx.x * at_once, count = min(at_once, rows - first);
    for (uint32_t at = threadIdx.x; at < count * stride; at += BLOCK) {
        const uint32_t row = at / stride, k = at - row * stride;
        const size_t   position = first + row;
        to[position * stride + k] = k < dims ? from[(size_t)ids[position] * stride + dim_order[k]] : (T)0;
    }
}

template <typename T>
cudaError_t launch_centres(nf_k_raw raw, nf_k_columns columns, const uint32_t *order, nf_k_groups groups, double *centres,
                           uint64_t *corners, cudaStream_t stream)
{
    NF_LAUNCH(group_centres<T>, nf_k_blocks(groups.count, BLOCK), BLOCK, 0, stream)
    (static_cast<const T *>(raw.values), raw.stride, columns, order, groups, centres,
     reinterpret_cast<unsigned long long *>(corners));
    return nf_k_launched();
}

template <typename T>
cudaError_t launch_gather(nf_k_raw raw, const uint32_t *ids, const uint32_t *dim_order, void *values, cudaStream_t stream)
{
    const uint32_t at_once = max(1u, GATHERED / raw.stride);
    NF_LAUNCH(gather_rows<T>, nf_k_blocks(raw.rows, at_once), BLOCK, 0, stream)
    (static_cast<const T *>(raw.values), ids, dim_order, raw.rows, raw.dims, raw.stride, at_once, static_cast<T *>(values));
    return nf_k_launched();
}

} // namespace

extern "C" cudaError_t nf_k_group_centres(nf_k_raw raw, nf_k_columns columns, const uint32_t *order, nf_k_groups groups,
                                          double *centres, uint64_t corners[6], cudaStream_t stream)
{
    if (columns.count > INDEX_DIMS) return cudaErrorInvalidValue;
    return raw.wide ? launch_centres<double>(raw, columns, order, groups, centres, corners, stream)
                    : launch_centres<float>(raw, columns, order, groups, centres, corners, stream);
}

extern "C" cudaError_t nf_k_morton_codes(const double *centres, const uint64_t corners[6], uint32_t count, uint64_t *codes,
                                         cudaStream_t stream)
{
    NF_LAUNCH(morton_codes, nf_k_blocks(count, BLOCK), BLOCK, 0, stream)
    (centres, reinterpret_cast<const unsigned long long *>(corners), count, codes);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_group_starts(const uint32_t *sorted, nf_k_groups groups, uint32_t *short_place, uint32_t *start,
                                         cudaStream_t stream)
{
    NF_LAUNCH(find_short, nf_k_blocks(groups.count, BLOCK), BLOCK, 0, stream)(sorted, groups.count, short_place);
    const cudaError_t error = nf_k_launched();
    if (error != cudaSuccess) return error;
    NF_LAUNCH(group_starts, nf_k_blocks((uint64_t)groups.count + 1, BLOCK), BLOCK, 0, stream)(short_place, groups, start);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_place_rows(const uint32_t *order, const uint32_t *sorted, const uint32_t *short_place,
                                       nf_k_groups groups, uint32_t *ids, uint32_t *positions, cudaStream_t stream)
{
    NF_LAUNCH(place_rows, nf_k_blocks(groups.rows, BLOCK), BLOCK, 0, stream)
    (order, sorted, short_place, groups, ids, positions);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_gather_rows(nf_k_raw raw, const uint32_t *ids, const uint32_t *dim_order, void *values,
                                        cudaStream_t stream)
{
    return raw.wide ? launch_gather<double>(raw, ids, dim_order, values, stream)
                    : launch_gather<float>(raw, ids, dim_order, values, stream);
}
