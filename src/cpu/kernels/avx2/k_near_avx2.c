/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows may be near, with AVX2: 16 rows at a time. */
#include "cpu/kernels/avx2/k_avx2.h"
#include "cpu/kernels/avx2/k_ivf_avx2.h"

static inline __attribute__((always_inline)) uint32_t below_eight(const float *low, const float *reach,
                                                                  const float *products, __m256 gain, __m256 limit)
{
    const __m256 key = _mm256_sub_ps(_mm256_loadu_ps(low), _mm256_loadu_ps(products));
    const __m256 least = _mm256_fnmadd_ps(gain, _mm256_loadu_ps(reach), key);
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(least, limit, _CMP_LT_OQ));
}

uint32_t nf_k_below_avx2(const float *low, const float *reach, const float *products, uint32_t count, float gain,
                         float limit, uint16_t *masks)
{
    const __m256 gains = _mm256_set1_ps(gain), limits = _mm256_set1_ps(limit);
    uint32_t     any = 0;
    for (uint32_t j = 0; j < count; j += NF_LANES) {
        const uint32_t mask = below_eight(low + j, reach + j, products + j, gains, limits) |
                              below_eight(low + j + 8, reach + j + 8, products + j + 8, gains, limits) << 8;
        masks[j / NF_LANES] = (uint16_t)mask;
        any |= mask;
    }
    return any;
}
