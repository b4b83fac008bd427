/* SPDX-License-Identifier: Apache-2.0 */
/* Levels, codes and sums of the encoder with NEON; k_encode_scalar.c says what they are. A level is computed by the
 * same operations everywhere (one product, one sum), so that codes are the same on every instruction set for the same
 * t. */
#include "cpu/kernels/neon/k_ivf_neon.h"

NF_INLINE float32x4_t level(float32x4_t magnitude, float32x4_t t, float32x4_t most)
{
    const float32x4_t scaled = vaddq_f32(vmulq_f32(t, magnitude), vdupq_n_f32(NF_LEVEL_NUDGE));
    return vminq_f32(vrndmq_f32(scaled), most);
}

/* Eight partial sums of each kind, as with AVX2: one long sum in binary32 would round too much. */
void nf_k_levels_neon(const float *residual, uint32_t padded, const float t[4], float most, float product[4],
                      float square[4])
{
    const float32x4_t half = vdupq_n_f32(0.5f), top = vdupq_n_f32(most);
    float32x4_t       scale[4], p[4][2], s[4][2];
    for (int j = 0; j < 4; j++) {
        scale[j] = vdupq_n_f32(t[j]);
        p[j][0] = p[j][1] = s[j][0] = s[j][1] = vdupq_n_f32(0.0f);
    }
    for (uint32_t i = 0; i < padded; i += 8) {
        const float32x4_t magnitude[2] = {vabsq_f32(vld1q_f32(residual + i)), vabsq_f32(vld1q_f32(residual + i + 4))};
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                const float32x4_t y = vaddq_f32(level(magnitude[h], scale[j], top), half);
                p[j][h] = vfmaq_f32(p[j][h], y, magnitude[h]);
                s[j][h] = vfmaq_f32(s[j][h], y, y);
            }
        }
    }
    for (int j = 0; j < 4; j++) {
        product[j] = vaddvq_f32(vaddq_f32(p[j][0], p[j][1]));
        square[j] = vaddvq_f32(vaddq_f32(s[j][0], s[j][1]));
    }
}

NF_INLINE int32x4_t code_of(float32x4_t r, float32x4_t scale, float32x4_t top, int32x4_t base)
{
    const int32x4_t m = vcvtq_s32_f32(level(vabsq_f32(r), scale, top));
    const int32x4_t above = vaddq_s32(vaddq_s32(base, vdupq_n_s32(1)), m);
    return vbslq_s32(vcgtzq_f32(r), above, vsubq_s32(base, m));
}

void nf_k_quantise_neon(const float *residual, uint32_t padded, float t, float most, uint16_t *code)
{
    const float32x4_t scale = vdupq_n_f32(t), top = vdupq_n_f32(most);
    const int32x4_t   base = vdupq_n_s32((int)most);
    for (uint32_t i = 0; i < padded; i += 8) {
        const int32x4_t low = code_of(vld1q_f32(residual + i), scale, top, base);
        const int32x4_t high = code_of(vld1q_f32(residual + i + 4), scale, top, base);
        vst1q_u16(code + i, vcombine_u16(vqmovun_s32(low), vqmovun_s32(high)));
    }
}

void nf_k_moments_neon(const uint16_t *code, float kappa, const float *residual, const float *centroid, uint32_t padded,
                       double sums[5])
{
    const float64x2_t middle = vdupq_n_f64(kappa);
    float64x2_t       sum[5][2];
    for (int j = 0; j < 5; j++) sum[j][0] = sum[j][1] = vdupq_n_f64(0.0);
    for (uint32_t i = 0; i < padded; i += 4) {
        const float32x4_t u = vcvtq_f32_u32(vmovl_u16(vld1_u16(code + i))); /* exact: 16 bits */
        const float32x4_t four_r = vld1q_f32(residual + i), four_c = vld1q_f32(centroid + i);
        const float64x2_t u2[2] = {vcvt_f64_f32(vget_low_f32(u)), vcvt_high_f64_f32(u)};
        const float64x2_t r2[2] = {vcvt_f64_f32(vget_low_f32(four_r)), vcvt_high_f64_f32(four_r)};
        const float64x2_t c2[2] = {vcvt_f64_f32(vget_low_f32(four_c)), vcvt_high_f64_f32(four_c)};
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            const float64x2_t y = vsubq_f64(u2[h], middle), r = r2[h], c = c2[h];
            sum[0][h] = vfmaq_f64(sum[0][h], r, y);
            sum[1][h] = vfmaq_f64(sum[1][h], c, y);
            sum[2][h] = vfmaq_f64(sum[2][h], y, y);
            sum[3][h] = vfmaq_f64(sum[3][h], r, r);
            sum[4][h] = vfmaq_f64(sum[4][h], r, c);
        }
    }
    for (int j = 0; j < 5; j++) sums[j] = vaddvq_f64(vaddq_f64(sum[j][0], sum[j][1]));
}
