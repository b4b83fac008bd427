/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows may be near, plainly: the specification of k_near_*.c. */
#include "cpu/kernels/scalar/k_ivf_scalar.h"

uint32_t nf_k_below_scalar(const float *low, const float *reach, const float *products, uint32_t count, float gain,
                           float limit, uint16_t *masks)
{
    uint32_t any = 0;
    for (uint32_t block = 0; block < count / NF_LANES; block++) {
        uint32_t mask = 0;
        for (uint32_t lane = 0; lane < NF_LANES; lane++) {
            const uint32_t j = block * NF_LANES + lane;
            mask |= (uint32_t)(low[j] - products[j] - gain * reach[j] < limit) << lane;
        }
        masks[block] = (uint16_t)mask;
        any |= mask;
    }
    return any;
}
