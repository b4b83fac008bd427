/* SPDX-License-Identifier: Apache-2.0 */
/* The fast rotation with NEON: the steps of k_rotate_scalar.c, which says what they are, with the same additions.
 * Strides 1 and 2 of the Hadamard transform are permutations inside a register, the others are between registers, two
 * strides a pass. */
#include <math.h>

#include "cpu/kernels/neon/k_ivf_neon.h"

/* The sign of lane i changes where bit i of lanes is set. */
NF_INLINE float32x4_t negated(float32x4_t value, uint32_t lanes)
{
    const uint32x4_t bit = {1, 2, 4, 8};
    const uint32x4_t set = vtstq_u32(vdupq_n_u32(lanes), bit);
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(value), vshlq_n_u32(set, 31)));
}

/* (a, b) to (a + b, a - b) for pairs 1 and 2 lanes apart; a - b is computed as -b + a, which has the same bits. */
NF_INLINE float32x4_t inside(float32x4_t v)
{
    v = vaddq_f32(vrev64q_f32(v), negated(v, 0xa));
    return vaddq_f32(vextq_f32(v, v, 2), negated(v, 0xc));
}

NF_INLINE void butterfly(float32x4_t *a, float32x4_t *b)
{
    const float32x4_t sum = vaddq_f32(*a, *b);
    *b = vsubq_f32(*a, *b);
    *a = sum;
}

static void one_stride(float *row, uint32_t p, uint32_t half)
{
    for (uint32_t start = 0; start < p; start += 2 * half) {
        for (uint32_t i = start; i < start + half; i += 4) {
            float32x4_t a = vld1q_f32(row + i), b = vld1q_f32(row + i + half);
            butterfly(&a, &b);
            vst1q_f32(row + i, a);
            vst1q_f32(row + i + half, b);
        }
    }
}

/* Strides half and 2 * half. */
static void two_strides(float *row, uint32_t p, uint32_t half)
{
    for (uint32_t start = 0; start < p; start += 4 * half) {
        for (uint32_t i = start; i < start + half; i += 4) {
            float32x4_t v[4];
            for (uint32_t j = 0; j < 4; j++) v[j] = vld1q_f32(row + i + j * half);
            butterfly(&v[0], &v[1]);
            butterfly(&v[2], &v[3]);
            butterfly(&v[0], &v[2]);
            butterfly(&v[1], &v[3]);
            for (uint32_t j = 0; j < 4; j++) vst1q_f32(row + i + j * half, v[j]);
        }
    }
}

static void hadamard(float *row, uint32_t p, float scale)
{
    uint32_t half = 8;
    for (uint32_t i = 0; i < p; i += 8) {
        float32x4_t a = inside(vld1q_f32(row + i)), b = inside(vld1q_f32(row + i + 4));
        butterfly(&a, &b);
        vst1q_f32(row + i, a);
        vst1q_f32(row + i + 4, b);
    }
    for (; 2 * half < p; half *= 4) two_strides(row, p, half);
    if (half < p) one_stride(row, p, half);
    for (uint32_t i = 0; i < p; i += 4) vst1q_f32(row + i, vmulq_n_f32(vld1q_f32(row + i), scale));
}

void nf_k_rotate_neon(const nf_rotation_map *map, float *row)
{
    const uint32_t padded = map->padded, p = nf_rotation_power(padded);
    const float    scale = 1.0f / sqrtf((float)p);

    for (uint32_t round = 0; round < NF_IVF_ROUNDS; round++) {
        const uint8_t *signs = map->signs + round * (padded / 8);
        for (uint32_t i = 0; i < padded; i += 8) {
            vst1q_f32(row + i, negated(vld1q_f32(row + i), signs[i / 8]));
            vst1q_f32(row + i + 4, negated(vld1q_f32(row + i + 4), (uint32_t)signs[i / 8] >> 4));
        }
        hadamard(row + (round % 2 == 0 ? 0 : padded - p), p, scale);
        if (p < padded) one_stride(row, padded, padded / 2);
    }
    if (p < padded) {
        for (uint32_t i = 0; i < padded; i += 4) vst1q_f32(row + i, vmulq_n_f32(vld1q_f32(row + i), 0.25f));
    }
}
