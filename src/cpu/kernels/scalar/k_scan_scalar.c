/* SPDX-License-Identifier: Apache-2.0 */
/* The scan of short codes by look-up tables, and whole codes: plainly, the specification of k_scan_*.c and k_codes_*.c. */
#include <math.h>
#include <string.h>

#include "cpu/kernels/scalar/k_ivf_scalar.h"

static uint32_t sum_of(const uint8_t *block, uint32_t padded, const uint8_t *lut, uint32_t slot)
{
    uint32_t sum = 0;
    for (uint32_t row = 0; row < padded / 8; row++) {
        const uint8_t signs = block[row * NF_IVF_BLOCK + slot];
        sum += lut[row * 32 + (signs & 15)] + lut[row * 32 + 16 + (signs >> 4)];
    }
    return sum;
}

void nf_k_scan_scalar(const uint8_t *blocks, uint64_t block_count, uint32_t padded, const nf_scan_query *queries,
                      uint32_t query_count, uint32_t *survivors, size_t stride)
{
    for (uint64_t b = 0; b < block_count; b++) {
        const uint8_t       *block = blocks + b * nf_ivf_block_bytes(padded);
        const nf_ivf_factors factors = nf_ivf_block_factors(block, padded);
        for (uint32_t q = 0; q < query_count; q++) {
            const nf_scan_query *query = &queries[q];
            uint32_t             bits = 0;
            for (uint32_t slot = 0; slot < NF_IVF_BLOCK; slot++) {
                const float sum = (float)sum_of(block, padded, query->lut, slot);
                const float product = fmaf(sum, query->step, query->base);
                const float estimate = fmaf(nf_load_f32(factors.rescale + 4 * slot), product,
                                            nf_load_f32(factors.add + 4 * slot));
                const float bound = fmaf(-nf_load_error(factors.error + 2 * slot), query->width, estimate);
                bits |= (uint32_t)!(bound >= query->limit) << slot;
            }
            survivors[q * stride + b] = bits;
        }
    }
}

/* The ex code of a dim: ex_bits bits from a bit stream. */
static uint32_t ex_code(const uint8_t *codes, uint32_t ex_bits, uint32_t dim)
{
    uint32_t value = 0;
    for (uint32_t j = 0; j < ex_bits; j++) {
        const uint32_t at = dim * ex_bits + j;
        value |= (uint32_t)(codes[at / 8] >> at % 8 & 1) << j;
    }
    return value;
}

void nf_k_unpack_scalar(const uint8_t *signs, const uint8_t *codes, uint32_t ex_bits, uint32_t padded, uint16_t *out)
{
    for (uint32_t i = 0; i < padded; i++) {
        const uint32_t sign = signs[i / 8] >> i % 8 & 1;
        out[i] = (uint16_t)(sign << ex_bits | ex_code(codes, ex_bits, i));
    }
    for (uint32_t i = padded; i % 16 != 0; i++) out[i] = 0;
}

void nf_k_dots_scalar(const uint16_t *codes, size_t stride, const uint32_t *at, uint32_t at_count, const int16_t *query,
                      uint32_t count, int32_t *dots)
{
    for (uint32_t i = 0; i < at_count; i++) {
        const uint16_t *code = codes + at[i] * stride;
        uint32_t        sum = 0;
        for (uint32_t k = 0; k < count; k++) sum += (uint32_t)((int32_t)code[k] * query[k]);
        memcpy(&dots[i], &sum, sizeof sum);
    }
}

void nf_ivf_kernels_fill_scalar(nf_ivf_kernels *table)
{
    *table = (nf_ivf_kernels){
        .products = nf_k_products_scalar,
        .least = nf_k_least_scalar,
        .nearer = nf_k_nearer_scalar,
        .below = nf_k_below_scalar,
        .rotate = nf_k_rotate_scalar,
        .levels = nf_k_levels_scalar,
        .quantise = nf_k_quantise_scalar,
        .moments = nf_k_moments_scalar,
        .scan = nf_k_scan_scalar,
        .unpack = nf_k_unpack_scalar,
        .dots = nf_k_dots_scalar,
    };
}
