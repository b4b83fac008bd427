/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows may be near, with NEON: 16 rows at a time. */
#include "cpu/kernels/neon/k_ivf_neon.h"

uint32_t nf_k_below_neon(const float *low, const float *reach, const float *products, uint32_t count, float gain,
                         float limit, uint16_t *masks)
{
    const float32x4_t limits = vdupq_n_f32(limit);
    uint32_t          any = 0;
    for (uint32_t first = 0; first < count; first += NF_LANES) {
        uint32x4_t lanes[4];
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t    j = first + 4 * i;
            const float32x4_t key = vsubq_f32(vld1q_f32(low + j), vld1q_f32(products + j));
            lanes[i] = vcltq_f32(vfmsq_n_f32(key, vld1q_f32(reach + j), gain), limits);
        }
        const uint32_t mask = nf_mask_of(lanes);
        masks[first / NF_LANES] = (uint16_t)mask;
        any |= mask;
    }
    return any;
}
