/* SPDX-License-Identifier: Apache-2.0 */
/* The fast rotation with AVX2: the steps of k_rotate_scalar.c, which says what they are, in the same order of additions.
 * Strides 1, 2 and 4 of the Hadamard transform are permutations inside a register, the others are between registers. */
#include <math.h>

#include "cpu/kernels/avx2/k_ivf_avx2.h"

static inline __m256 negated(__m256 value, int lanes)
{
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(lanes), bit), bit);
    return _mm256_xor_ps(value, _mm256_castsi256_ps(_mm256_slli_epi32(set, 31)));
}

/* (a, b) to (a + b, a - b) for pairs 1, 2 and 4 lanes apart. */
static inline __m256 inside(__m256 v)
{
    v = _mm256_add_ps(_mm256_moveldup_ps(v), negated(_mm256_movehdup_ps(v), 0xaa));
    v = _mm256_add_ps(_mm256_permute_ps(v, 0x44), negated(_mm256_permute_ps(v, 0xee), 0xcc));
    return _mm256_add_ps(_mm256_permute2f128_ps(v, v, 0x00), negated(_mm256_permute2f128_ps(v, v, 0x11), 0xf0));
}

static void hadamard(float *row, uint32_t p, float scale)
{
    const __m256 factor = _mm256_set1_ps(scale);
    for (uint32_t i = 0; i < p; i += 8) _mm256_storeu_ps(row + i, inside(_mm256_loadu_ps(row + i)));
    for (uint32_t half = 8; half < p; half *= 2) {
        for (uint32_t start = 0; start < p; start += 2 * half) {
            for (uint32_t i = start; i < start + half; i += 8) {
                const __m256 a = _mm256_loadu_ps(row + i), b = _mm256_loadu_ps(row + i + half);
                _mm256_storeu_ps(row + i, _mm256_add_ps(a, b));
                _mm256_storeu_ps(row + i + half, _mm256_sub_ps(a, b));
            }
        }
    }
    for (uint32_t i = 0; i < p; i += 8) _mm256_storeu_ps(row + i, _mm256_mul_ps(_mm256_loadu_ps(row + i), factor));
}

static void mix(float *row, uint32_t padded)
{
    const uint32_t half = padded / 2; /* a multiple of 4 */
    for (uint32_t i = 0; i < half; i += 4) {
        const __m128 a = _mm_loadu_ps(row + i), b = _mm_loadu_ps(row + i + half);
        _mm_storeu_ps(row + i, _mm_add_ps(a, b));
        _mm_storeu_ps(row + i + half, _mm_sub_ps(a, b));
    }
}

void nf_k_rotate_avx2(const nf_rotation_map *map, float *row)
{
    const uint32_t padded = map->padded, p = nf_rotation_power(padded);
    const float    scale = 1.0f / sqrtf((float)p);

    for (uint32_t round = 0; round < NF_IVF_ROUNDS; round++) {
        const uint8_t *signs = map->signs + round * (padded / 8);
        for (uint32_t i = 0; i < padded; i += 8) _mm256_storeu_ps(row + i, negated(_mm256_loadu_ps(row + i), signs[i / 8]));
        hadamard(row + (round % 2 == 0 ? 0 : padded - p), p, scale);
        if (p < padded) mix(row, padded);
    }
    if (p < padded) {
        const __m256 quarter = _mm256_set1_ps(0.25f);
        for (uint32_t i = 0; i < padded; i += 8) _mm256_storeu_ps(row + i, _mm256_mul_ps(_mm256_loadu_ps(row + i), quarter));
    }
}
