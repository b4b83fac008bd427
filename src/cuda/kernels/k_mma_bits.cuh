/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of a warp on integers, added to c: 16 rows times 8 columns. With lane = 4g + t,
 *     a:  rows g (a0, a2) and g + 8 (a1, a3); a0, a1 are part t of the first half of the summed dims, a2, a3 of the second
 *     b:  column g; b0 is part t of the first half, b1 of the second
 *     c:  c0, c1: row g, columns 2t and 2t + 1; c2, c3: row g + 8
 * where a part is a register: 32 bits, or 4 bytes. Where the device has no such instruction, and on the emulated device,
 * lanes hand each other their registers: slow, and the same numbers.
 */
#ifndef NF_K_MMA_BITS_CUH
#define NF_K_MMA_BITS_CUH

#include <stdint.h>

#include "k_launch.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define NF_K_HAS_INTEGER_MMA 1
#else
#define NF_K_HAS_INTEGER_MMA 0
#endif

namespace {

#if !NF_K_HAS_INTEGER_MMA

struct bit_dot {
    __device__ static int of(uint32_t a, uint32_t b) { return __popc(a & b); }
};

struct byte_dot {
    __device__ static int of(uint32_t a, uint32_t b)
    {
        int sum = 0;
        for (int i = 0; i < 4; i++) sum += (int)(uint8_t)(a >> 8 * i) * (int)(int8_t)(uint8_t)(b >> 8 * i);
        return sum;
    }
};

__device__ inline unsigned long long two_words(uint32_t low, uint32_t high)
{
    return low | (unsigned long long)high << 32;
}

/* One half of the summed dims; a call, so that the unrolled loops around it stay short. */
template <typename DOT>
__device__ __noinline__ int4 plain_half(int4 c, uint32_t row, uint32_t next_row, uint32_t column)
{
    const int lane = (int)threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    for (int part = 0; part < 4; part++) {
        const unsigned long long rows = __shfl_sync(0xffffffffu, two_words(row, next_row), 4 * g + part);
        const uint32_t           low = __shfl_sync(0xffffffffu, column, 8 * t + part);
        const uint32_t           high = __shfl_sync(0xffffffffu, column, 8 * t + 4 + part);
        c.x += DOT::of((uint32_t)rows, low);
        c.y += DOT::of((uint32_t)rows, high);
        c.z += DOT::of((uint32_t)(rows >> 32), low);
        c.w += DOT::of((uint32_t)(rows >> 32), high);
    }
    return c;
}

template <typename DOT>
__device__ inline void add_half(int c[4], uint32_t row, uint32_t next_row, uint32_t column)
{
    const int4 sums = plain_half<DOT>({c[0], c[1], c[2], c[3]}, row, next_row, column);
    c[0] = sums.x;
    c[1] = sums.y;
    c[2] = sums.z;
    c[3] = sums.w;
}

#endif

/* Bits, 256 dims: ones that meet ones are counted. */
__device__ inline void mma_bits_256(int c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1)
{
#if NF_K_HAS_INTEGER_MMA
    asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    add_half<bit_dot>(c, a0, a1, b0);
    add_half<bit_dot>(c, a2, a3, b1);
#endif
}

/* The first half alone: 128 dims. */
__device__ inline void mma_bits_128(int c[4], uint32_t a0, uint32_t a1, uint32_t b0)
{
#if NF_K_HAS_INTEGER_MMA
    asm("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(b0));
#else
    add_half<bit_dot>(c, a0, a1, b0);
#endif
}

/* Bytes, 32 dims: a without sign, b with. */
__device__ inline void mma_bytes_32(int c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1)
{
#if NF_K_HAS_INTEGER_MMA
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    add_half<byte_dot>(c, a0, a1, b0);
    add_half<byte_dot>(c, a2, a3, b1);
#endif
}

} // namespace

#endif
