/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast random rotation: rounds of random signs, Walsh-Hadamard transforms and Kac's mixing of halves, plainly.
 *
 * p is the largest power of two not above padded. A round negates values by its signs, and transforms the first p values
 * (rounds 0 and 2) or the last p (rounds 1 and 3); where p < padded, the two halves are then mixed: (a, b) becomes (a + b,
 * a - b). Every step is orthogonal up to a factor, which is taken out: 1 / sqrt(p) after a transform, 1/4 for the four mixes.
 * Additions stand in a fixed order, so that every instruction set gives the same bits.
 */
#include <math.h>

#include "cpu/kernels/scalar/k_ivf_scalar.h"

static void hadamard(float *row, uint32_t p, float scale)
{
    for (uint32_t half = 1; half < p; half *= 2) {
        for (uint32_t start = 0; start < p; start += 2 * half) {
            for (uint32_t i = start; i < start + half; i++) {
                const float a = row[i], b = row[i + half];
                row[i] = a + b;
                row[i + half] = a - b;
            }
        }
    }
    for (uint32_t i = 0; i < p; i++) row[i] *= scale;
}

static void mix(float *row, uint32_t padded)
{
    for (uint32_t i = 0; i < padded / 2; i++) {
        const float a = row[i], b = row[i + padded / 2];
        row[i] = a + b;
        row[i + padded / 2] = a - b;
    }
}

void nf_k_rotate_scalar(const nf_rotation_map *map, float *row)
{
    const uint32_t padded = map->padded, p = nf_rotation_power(padded);
    const float    scale = 1.0f / sqrtf((float)p);

    for (uint32_t round = 0; round < NF_IVF_ROUNDS; round++) {
        const uint8_t *signs = map->signs + round * (padded / 8);
        for (uint32_t i = 0; i < padded; i++) {
            if (signs[i / 8] >> i % 8 & 1) row[i] = -row[i];
        }
        hadamard(row + (round % 2 == 0 ? 0 : padded - p), p, scale);
        if (p < padded) mix(row, padded);
    }
    if (p < padded) {
        for (uint32_t i = 0; i < padded; i++) row[i] *= 0.25f;
    }
}
