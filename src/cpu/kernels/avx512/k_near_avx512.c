/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows may be near, with AVX-512: 16 rows at a time. */
#include "cpu/kernels/avx512/k_avx512.h"

uint32_t nf_k_below_avx512(const float *low, const float *reach, const float *products, uint32_t count, float gain,
                           float limit, uint16_t *masks)
{
    const __m512 gains = _mm512_set1_ps(gain), limits = _mm512_set1_ps(limit);
    uint32_t     any = 0;
    for (uint32_t j = 0; j < count; j += NF_LANES) {
        const __m512 key = _mm512_sub_ps(_mm512_loadu_ps(low + j), _mm512_loadu_ps(products + j));
        const __m512 least = _mm512_fnmadd_ps(gains, _mm512_loadu_ps(reach + j), key);
        const uint32_t mask = _mm512_cmp_ps_mask(least, limits, _CMP_LT_OQ);
        masks[j / NF_LANES] = (uint16_t)mask;
        any |= mask;
    }
    return any;
}
