/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys, and what a block does with them: binary32 values as numbers that order alike, prefix sums, a threshold near the
 * n-th least, and sorting by a bitonic network (K. E. Batcher, 1968; the form of k_row_sort.cu: comparators point
 * upwards, and entries that are not there count as larger than all, so that no length needs padding).
 *
 * Everything here is called by all threads of a block, which are whole warps.
 */
#ifndef NF_K_KEYS_CUH
#define NF_K_KEYS_CUH

#include <stdint.h>

#include "k_launch.h"

typedef unsigned long long nf_k_key; /* a value's order above a number */

#define NF_K_EVERY_LANE 0xffffffffu
#define NF_K_NO_ORDER 0xffffffffu /* above the order of any value */
#define NF_K_NO_KEY (~0ull)

/* Up to so many of the k best of a query are held in shared memory; more are in device memory, of so many blocks. */
#define NF_K_NEAR_BEST 512u
#define NF_K_FAR_BLOCKS 1056u

/* NaNs are one value, above infinity; and so are the two zeros. */
static __device__ inline uint32_t nf_k_order_of(float value)
{
    const uint32_t bits = __float_as_uint(value + 0.0f);
    if (value != value) return 0xffc00000u;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

static __device__ inline float nf_k_value_of(uint32_t order)
{
    return __uint_as_float((order & 0x80000000u) != 0 ? order ^ 0x80000000u : ~order);
}

static __device__ inline nf_k_key nf_k_make_key(uint32_t order, uint32_t number)
{
    return (nf_k_key)order << 32 | number;
}

/* ---- sums and thresholds ---- */

/* The sum of value over the threads before, and over all. sums: 32 words, unused since the block's last barrier. */
static __device__ inline uint32_t nf_k_block_sum_before(uint32_t value, uint32_t *sums, uint32_t *total)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    uint32_t       upto = value;
    for (uint32_t by = 1; by < 32; by *= 2) {
        const uint32_t below = __shfl_up_sync(NF_K_EVERY_LANE, upto, by);
        if (lane >= by) upto += below;
    }
    if (lane == 31) sums[warp] = upto;
    __syncthreads();
    uint32_t of_warps = lane < warps ? sums[lane] : 0;
    for (uint32_t by = 1; by < warps; by *= 2) {
        const uint32_t below = __shfl_up_sync(NF_K_EVERY_LANE, of_warps, by);
        if (lane >= by) of_warps += below;
    }
    *total = __shfl_sync(NF_K_EVERY_LANE, of_warps, (int)warps - 1);
    const uint32_t warps_before = __shfl_sync(NF_K_EVERY_LANE, of_warps, (int)warp - (warp > 0));
    return upto - value + (warp > 0 ? warps_before : 0);
}

/*
 * An order that at least `wanted` of the threads' orders do not exceed, and no more than wanted + slack where ties allow.
 * Thread 0 has one, others may have NF_K_NO_ORDER, and wanted or more have one. Bits are decided from the highest in which
 * orders differ; it is done as soon as the number is good enough. words: 2, unused since the block's last barrier.
 */
static __device__ inline uint32_t nf_k_block_threshold(uint32_t own, uint32_t wanted, uint32_t slack, uint32_t *words)
{
    if (threadIdx.x == 0) {
        words[0] = own;
        words[1] = 0;
    }
    __syncthreads();
    const uint32_t reference = words[0];
    uint32_t       differing = own == NF_K_NO_ORDER ? 0 : own ^ reference;
    for (uint32_t by = 16; by > 0; by /= 2) differing |= __shfl_xor_sync(NF_K_EVERY_LANE, differing, (int)by);
    if (threadIdx.x % 32 == 0 && differing != 0) atomicOr(&words[1], differing);
    __syncthreads();
    differing = words[1];

    uint32_t open = 32u - (uint32_t)__clz((int)differing);
    uint32_t low = open == 32 ? 0 : reference >> open << open;
    while (open > 0) {
        open--;
        const uint32_t at = low | ((1u << open) - 1u);
        const uint32_t found = (uint32_t)__syncthreads_count(own <= at);
        if (found < wanted) {
            low |= 1u << open;
        } else if (found <= wanted + slack) {
            return at;
        }
    }
    return low;
}

/* ---- sorting ---- */

/* Comparators first, first + by, ... of a step over spans of 2 << log entries. */
static __device__ inline void nf_k_sort_step(nf_k_key *keys, uint32_t length, uint32_t pairs, uint32_t log, bool mirror,
                                             uint32_t first, uint32_t by)
{
    for (uint32_t t = first; t < pairs; t += by) {
        const uint32_t within = t & ((1u << log) - 1u), start = t >> log << (log + 1);
        const uint32_t low = start + within, high = mirror ? start + (2u << log) - 1 - within : low + (1u << log);
        if (high < length) {
            const nf_k_key a = keys[low], b = keys[high];
            if (b < a) {
                keys[low] = b;
                keys[high] = a;
            }
        }
    }
}

static __device__ inline uint32_t nf_k_sort_logs(uint32_t length)
{
    return length <= 1 ? 0u : 32u - (uint32_t)__clz((int)(length - 1));
}

/* Sorts keys that were written before a barrier, and ends with one. Up to 64 are a warp's work, without barriers. */
static __device__ inline void nf_k_block_sort(nf_k_key *keys, uint32_t length)
{
    const uint32_t logs = nf_k_sort_logs(length), pairs = logs == 0 ? 0 : 1u << (logs - 1);
    if (pairs <= 32) {
        for (uint32_t log = 0; threadIdx.x < 32 && log < logs; log++) {
            for (uint32_t step = log + 1; step > 0; step--) {
                nf_k_sort_step(keys, length, pairs, step - 1, step > log, threadIdx.x, 32);
                __syncwarp();
            }
        }
        __syncthreads();
        return;
    }
    for (uint32_t log = 0; log < logs; log++) {
        for (uint32_t step = log + 1; step > 0; step--) {
            nf_k_sort_step(keys, length, pairs, step - 1, step > log, threadIdx.x, blockDim.x);
            __syncthreads();
        }
    }
}

/* How many of sorted keys are below key. */
static __device__ inline uint32_t nf_k_below(const nf_k_key *keys, uint32_t count, nf_k_key key)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (keys[middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

#endif
