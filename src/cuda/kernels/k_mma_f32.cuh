/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of small tiles of binary32 values by a warp, on tensor cores from sm_80 on: mma.sync.m16n8k8 of TF32 operands
 * with binary32 sums (PTX ISA, "Matrix fragments for mma.m16n8k8"). With g = lane / 4 and t = lane % 4 a lane holds
 *     a: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)      of 16 rows x 8 dims,
 *     b: (t, g), (t + 4, g)                                  of 8 dims x 8 columns,
 *     c: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)  of 16 rows x 8 columns.
 * Tiles lie in shared memory with rows of NF_K_TILE_PITCH values, 16 bytes more than are used: eight rows cover all banks.
 *
 * The unit ignores the lowest 13 bits of an operand. Elsewhere the same is done by passing values around in the warp.
 */
#ifndef NF_K_MMA_F32_CUH
#define NF_K_MMA_F32_CUH

#include <stdint.h>

#include "k_launch.h"

#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 800
#define NF_K_HAS_TF32 1
#endif
#endif

#define NF_K_TILE_DIMS 32 /* dims that a tile holds at a time */
#define NF_K_TILE_PITCH 36
#define NF_K_TF32_MASK 0xffffe000u

/* In front of a loop over products that is worth unrolling where a product is one instruction. */
#ifdef NF_K_HAS_TF32
#define NF_K_UNROLL_MMA NF_UNROLL
#elif defined(__CUDACC__)
#define NF_K_UNROLL_MMA _Pragma("unroll 1")
#else
#define NF_K_UNROLL_MMA
#endif

static __device__ __forceinline__ int nf_k_warp_lane()
{
    return (int)(threadIdx.x % 32u);
}

/* ---- from global to shared memory, in the background where the device can ---- */

/* 16 bytes; or zeros, and from, though aligned, may lead anywhere. */
static __device__ __forceinline__ void nf_k_copy_16(float *to, const float *from, bool inside)
{
#ifdef NF_K_HAS_TF32
    const unsigned at = (unsigned)__cvta_generic_to_shared(to), bytes = inside ? 16u : 0u;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
#else
    float4 values = {0.0f, 0.0f, 0.0f, 0.0f};
    if (inside) values = *reinterpret_cast<const float4 *>(from);
    *reinterpret_cast<float4 *>(to) = values;
#endif
}

/* One value, or zero. */
static __device__ __forceinline__ void nf_k_copy_4(float *to, const float *from, bool inside)
{
#ifdef NF_K_HAS_TF32
    const unsigned at = (unsigned)__cvta_generic_to_shared(to), bytes = inside ? 4u : 0u;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
#else
    *to = inside ? *from : 0.0f;
#endif
}

/* Ends a group of copies. */
static __device__ __forceinline__ void nf_k_copies_end()
{
#ifdef NF_K_HAS_TF32
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most LEFT groups of this thread are under way. */
template <int LEFT>
static __device__ __forceinline__ void nf_k_copies_wait()
{
#ifdef NF_K_HAS_TF32
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

/* ---- from shared memory to fragments ---- */

/* 16 rows x 8 dims from tile on. Of PITCH, too, eight rows are to cover all banks: 4 more than a multiple of 32. */
template <int PITCH>
static __device__ __forceinline__ void nf_k_load_a(const float *tile, float a[4])
{
    const int lane = nf_k_warp_lane();
#ifdef NF_K_HAS_TF32
    const float   *row = tile + (lane % 16) * PITCH + (lane / 16) * 4;
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=f"(a[0]), "=f"(a[1]), "=f"(a[2]), "=f"(a[3])
                 : "r"(at));
#else
    const float *row = tile + (lane / 4) * PITCH + lane % 4;
    a[0] = row[0];
    a[1] = row[8 * PITCH];
    a[2] = row[4];
    a[3] = row[8 * PITCH + 4];
#endif
}

/* 8 columns x 8 dims from tile on. */
static __device__ __forceinline__ void nf_k_load_b(const float *tile, float b[2])
{
    const int    lane = nf_k_warp_lane();
    const float *row = tile + (lane / 4) * NF_K_TILE_PITCH + lane % 4;
    b[0] = row[0];
    b[1] = row[4];
}

/* 16 columns x 8 dims: two fragments. */
static __device__ __forceinline__ void nf_k_load_b_pair(const float *tile, float b[4])
{
#ifdef NF_K_HAS_TF32
    const int      lane = nf_k_warp_lane();
    const float   *row = tile + (lane % 8 + lane / 16 * 8) * NF_K_TILE_PITCH + (lane / 8 % 2) * 4;
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=f"(b[0]), "=f"(b[1]), "=f"(b[2]), "=f"(b[3])
                 : "r"(at));
#else
    nf_k_load_b(tile, b);
    nf_k_load_b(tile + 8 * NF_K_TILE_PITCH, b + 2);
#endif
}

/* ---- operands ---- */

/* x, such that the unit, which cuts, rounds to nearest: ties away from zero. Infinity stays; a NaN whose fraction is all ones
 * would become a zero, and is not among what the device or the host computes. */
static __device__ __forceinline__ uint32_t nf_k_to_tf32(float x)
{
    return __float_as_uint(x) + 0x1000u;
}

/* The part of x that TF32 cannot hold, as nf_k_to_tf32 does it; *high is the part that it can. */
static __device__ __forceinline__ uint32_t nf_k_split_tf32(float x, uint32_t *high)
{
    *high = nf_k_to_tf32(x) & NF_K_TF32_MASK;
    return __float_as_uint(x - __uint_as_float(*high)) + 0x1000u;
}

/* ---- the product ---- */

#ifndef NF_K_HAS_TF32
/* Two values of lane from. */
static __device__ __forceinline__ void nf_k_pass_pair(uint32_t low, uint32_t high, int from, float *first, float *second)
{
    const unsigned long long pair = (unsigned long long)high << 32 | low;
    const unsigned long long got = __shfl_sync(0xffffffffu, pair, from);
    *first = __uint_as_float((uint32_t)got & NF_K_TF32_MASK);
    *second = __uint_as_float((uint32_t)(got >> 32) & NF_K_TF32_MASK);
}
#endif

/* c += a b. All 32 lanes. */
static __device__ __forceinline__ void nf_k_mma_tf32(float c[4], const uint32_t a[4], const uint32_t b[2])
{
#ifdef NF_K_HAS_TF32
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    const int lane = nf_k_warp_lane(), g = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; half++) {
        for (int k = 0; k < 4; k++) {
            float upper, lower, left[2], right[2];
            nf_k_pass_pair(a[2 * half], a[2 * half + 1], 4 * g + k, &upper, &lower);
            nf_k_pass_pair(b[0], b[1], 8 * t + k, &left[0], &left[1]);
            nf_k_pass_pair(b[0], b[1], 8 * t + 4 + k, &right[0], &right[1]);
            c[0] = __fmaf_rn(upper, left[half], c[0]);
            c[1] = __fmaf_rn(upper, right[half], c[1]);
            c[2] = __fmaf_rn(lower, left[half], c[2]);
            c[3] = __fmaf_rn(lower, right[half], c[3]);
        }
    }
#endif
}

#endif
