/* SPDX-License-Identifier: Apache-2.0 */
/* What both ways of refining bytes share: from products to masks. */
#ifndef NF_K_U8_NEON_H
#define NF_K_U8_NEON_H

#include "cpu/kernels/neon/k_neon.h"

#define NF_U8_PARTS 4 /* registers of products of a query with 16 points */

/* floor(radius^2) minus the partial sums of squares: negative means out. Modulo 2^32, so without
 * signs: gcc takes vsubq_s32 for a subtraction that does not overflow. */
NF_INLINE void nf_u8_values(const uint32x4_t product[NF_U8_PARTS], int32_t x_sum, const int32_t *y_sums,
                            int32x4_t value[NF_U8_PARTS])
{
#pragma GCC unroll 4
    for (int j = 0; j < NF_U8_PARTS; j++) {
        const uint32x4_t less = vsubq_u32(vshlq_n_u32(product[j], 1), vdupq_n_u32((uint32_t)x_sum));
        value[j] = vreinterpretq_s32_u32(vsubq_u32(less, vreinterpretq_u32_s32(vld1q_s32(y_sums + 4 * j))));
    }
}

/* The sign bit of a lane is set where all four values are negative. */
NF_INLINE int32x4_t nf_u8_all(const int32x4_t value[NF_U8_PARTS])
{
    return vandq_s32(vandq_s32(value[0], value[1]), vandq_s32(value[2], value[3]));
}

NF_INLINE void nf_u8_put(const nf_tile *tile, uint32_t query, uint32_t block, const int32x4_t value[NF_U8_PARTS])
{
    const int32x4_t from = vdupq_n_s32(tile->sure_from[query]);
    uint32x4_t      maybe[NF_U8_PARTS], sure[NF_U8_PARTS];
#pragma GCC unroll 4
    for (int j = 0; j < NF_U8_PARTS; j++) {
        maybe[j] = vcgezq_s32(value[j]);
        sure[j] = vcgeq_s32(value[j], from);
    }
    nf_put_masks(tile, query, block, nf_mask_of(maybe), nf_mask_of(sure));
}

#endif
