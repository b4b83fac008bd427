/* SPDX-License-Identifier: Apache-2.0 */
/* Levels, codes and sums of the encoder with AVX2; k_encode_scalar.c says what they are. A level is computed by the same
 * operations everywhere (one product, one sum), so that codes are the same on every instruction set for the same t. */
#include "cpu/kernels/avx2/k_ivf_avx2.h"

static inline __m256 magnitude_of(__m256 value)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), value);
}

static inline __m256 level(__m256 magnitude, __m256 t, __m256 most)
{
    const __m256 scaled = _mm256_add_ps(_mm256_mul_ps(t, magnitude), _mm256_set1_ps(NF_LEVEL_NUDGE));
    return _mm256_min_ps(_mm256_floor_ps(scaled), most);
}

static inline float sum_lanes(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

void nf_k_levels_avx2(const float *residual, uint32_t padded, const float t[4], float most, float product[4],
                      float square[4])
{
    const __m256 half = _mm256_set1_ps(0.5f), top = _mm256_set1_ps(most);
    __m256       scale[4], p[4], s[4];
    for (int j = 0; j < 4; j++) {
        scale[j] = _mm256_set1_ps(t[j]);
        p[j] = s[j] = _mm256_setzero_ps();
    }
    for (uint32_t i = 0; i < padded; i += 8) {
        const __m256 magnitude = magnitude_of(_mm256_loadu_ps(residual + i));
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const __m256 y = _mm256_add_ps(level(magnitude, scale[j], top), half);
            p[j] = _mm256_fmadd_ps(y, magnitude, p[j]);
            s[j] = _mm256_fmadd_ps(y, y, s[j]);
        }
    }
    for (int j = 0; j < 4; j++) {
        product[j] = sum_lanes(p[j]);
        square[j] = sum_lanes(s[j]);
    }
}

void nf_k_quantise_avx2(const float *residual, uint32_t padded, float t, float most, uint16_t *code)
{
    const __m256  scale = _mm256_set1_ps(t), top = _mm256_set1_ps(most);
    const __m256i base = _mm256_set1_epi32((int)most);
    for (uint32_t i = 0; i < padded; i += 8) {
        const __m256  r = _mm256_loadu_ps(residual + i);
        const __m256i m = _mm256_cvttps_epi32(level(magnitude_of(r), scale, top));
        const __m256i positive = _mm256_castps_si256(_mm256_cmp_ps(r, _mm256_setzero_ps(), _CMP_GT_OQ));
        const __m256i above = _mm256_add_epi32(_mm256_add_epi32(base, _mm256_set1_epi32(1)), m);
        const __m256i u = _mm256_blendv_epi8(_mm256_sub_epi32(base, m), above, positive);
        const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
        _mm_storeu_si128((__m128i *)(code + i), packed);
    }
}

static inline double sum_lanes_f64(__m256d v)
{
    const __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

void nf_k_moments_avx2(const uint16_t *code, float kappa, const float *residual, const float *centroid, uint32_t padded,
                       double sums[5])
{
    const __m256d middle = _mm256_set1_pd(kappa);
    __m256d       sum[5];
    for (int j = 0; j < 5; j++) sum[j] = _mm256_setzero_pd();
    for (uint32_t i = 0; i < padded; i += 4) {
        const __m128i u = _mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)(code + i)));
        const __m256d y = _mm256_sub_pd(_mm256_cvtepi32_pd(u), middle);
        const __m256d r = _mm256_cvtps_pd(_mm_loadu_ps(residual + i)), c = _mm256_cvtps_pd(_mm_loadu_ps(centroid + i));
        sum[0] = _mm256_fmadd_pd(r, y, sum[0]);
        sum[1] = _mm256_fmadd_pd(c, y, sum[1]);
        sum[2] = _mm256_fmadd_pd(y, y, sum[2]);
        sum[3] = _mm256_fmadd_pd(r, r, sum[3]);
        sum[4] = _mm256_fmadd_pd(r, c, sum[4]);
    }
    for (int j = 0; j < 5; j++) sums[j] = sum_lanes_f64(sum[j]);
}
