/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products and the nearest of many, plainly: the specification of k_products_*.c. */
#include "cpu/kernels/scalar/k_ivf_scalar.h"

void nf_k_products_scalar(const float *x, size_t x_stride, uint32_t x_rows, const float *panel, uint32_t y_rows,
                          uint32_t dims, float *out, size_t out_stride)
{
    for (uint32_t block = 0; block < y_rows / NF_LANES; block++) {
        const float *y = panel + nf_panel_at(dims, block * NF_LANES, 0);
        for (uint32_t i = 0; i < x_rows; i++) {
            float sum[NF_LANES] = {0};
            for (uint32_t k = 0; k < dims; k++) {
                const float value = x[i * x_stride + k];
                for (uint32_t lane = 0; lane < NF_LANES; lane++) sum[lane] += value * y[(size_t)k * NF_LANES + lane];
            }
            for (uint32_t lane = 0; lane < NF_LANES; lane++) out[i * out_stride + block * NF_LANES + lane] = sum[lane];
        }
    }
}

uint32_t nf_k_least_scalar(const float *products, const float *offsets, uint32_t count, float *value)
{
    uint32_t least = 0;
    for (uint32_t j = 1; j < count; j++) {
        if (offsets[j] - products[j] < offsets[least] - products[least]) least = j;
    }
    *value = offsets[least] - products[least];
    return least;
}

uint32_t nf_k_nearer_scalar(const float *products, const float *offsets, uint32_t count, float limit, uint32_t *places)
{
    uint32_t found = 0;
    for (uint32_t j = 0; j < count; j++) {
        if (offsets[j] - products[j] < limit) places[found++] = j;
    }
    return found;
}
