/* SPDX-License-Identifier: Apache-2.0 */
/* Levels, codes and sums of the encoder, plainly: the specification of k_encode_*.c. */
#include <math.h>

#include "cpu/kernels/scalar/k_ivf_scalar.h"

static float level(float magnitude, float t, float most)
{
    const float m = floorf(t * magnitude + NF_LEVEL_NUDGE);
    return m < most ? m : most;
}

/* Sums in binary64: with many bits and dims, cosines differ in less than the rounding of one long sum in binary32. */
void nf_k_levels_scalar(const float *residual, uint32_t padded, const float t[4], float most, float product[4],
                        float square[4])
{
    double p[4] = {0}, s[4] = {0};
    for (uint32_t i = 0; i < padded; i++) {
        const float magnitude = fabsf(residual[i]);
        for (int j = 0; j < 4; j++) {
            const double y = level(magnitude, t[j], most) + 0.5f;
            p[j] += y * magnitude;
            s[j] += y * y;
        }
    }
    for (int j = 0; j < 4; j++) {
        product[j] = (float)p[j];
        square[j] = (float)s[j];
    }
}

void nf_k_quantise_scalar(const float *residual, uint32_t padded, float t, float most, uint16_t *code)
{
    for (uint32_t i = 0; i < padded; i++) {
        const int m = (int)level(fabsf(residual[i]), t, most);
        code[i] = (uint16_t)(residual[i] > 0 ? (int)most + 1 + m : (int)most - m);
    }
}

void nf_k_moments_scalar(const uint16_t *code, float kappa, const float *residual, const float *centroid, uint32_t padded,
                         double sums[5])
{
    for (int j = 0; j < 5; j++) sums[j] = 0;
    for (uint32_t i = 0; i < padded; i++) {
        const double y = code[i] - kappa, r = residual[i], c = centroid[i];
        sums[0] += r * y;
        sums[1] += c * y;
        sums[2] += y * y;
        sums[3] += r * r;
        sums[4] += r * c;
    }
}
