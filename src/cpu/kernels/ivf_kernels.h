/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of CPU kernels for IVF-RaBitQ and k nearest neighbours, and the contract of each entry. As in kernels.h, scalar
 * fills every entry and is the specification, and the others override what they do better.
 *
 * Integer results (scan sums, dots) are the same bits on every instruction set; binary32 results agree to rounding.
 */
#ifndef NF_CPU_IVF_KERNELS_H
#define NF_CPU_IVF_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/engine_ivf.h"
#include "kernels.h"

#define NF_SCAN_QUERIES 4u /* most queries in one scan */
#define NF_LUT_LEVELS 31   /* largest entry of a look-up table: 8 of them add up in a byte */

#define NF_LEVEL_NUDGE 1e-5f /* keeps t |r_i| from landing below a whole level by rounding */

/* Where a block's factors lie. */
typedef struct nf_ivf_factors {
    const uint8_t *add, *rescale, *error;
} nf_ivf_factors;

static inline nf_ivf_factors nf_ivf_block_factors(const uint8_t *block, uint32_t padded)
{
    const uint8_t *add = block + (size_t)padded * (NF_IVF_BLOCK / 8);
    return (nf_ivf_factors){add, add + 4 * NF_IVF_BLOCK, add + 8 * NF_IVF_BLOCK};
}

static inline float nf_load_f32(const uint8_t *at)
{
    float value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* An error factor: the upper half of a binary32. */
static inline float nf_load_error(const uint8_t *at)
{
    uint16_t half;
    uint32_t bits;
    float    value;
    memcpy(&half, at, sizeof half);
    bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The largest power of two not above padded: the length of the Hadamard transforms. */
static inline uint32_t nf_rotation_power(uint32_t padded)
{
    uint32_t p = 8;
    while (2 * p <= padded) p *= 2;
    return p;
}

/* A query, as the scan of short codes sees it. lut: padded / 4 tables of 16 bytes; table g holds for each nibble b the sum
 * of q over dims 4g + {bits of b}, less the least such sum, in units of step. The estimate of a slot with sum S is
 *     add + rescale * (step * S + base), its lower bound that minus error * width;  it survives unless bound >= limit. */
typedef struct nf_scan_query {
    const uint8_t *lut;
    float          step, base, width, limit;
} nf_scan_query;

typedef struct nf_ivf_kernels {
    /* Products: out[i * out_stride + j] = sum over k of x[i * x_stride + k] * y(j, k), in binary32, one fused or unfused
     * multiply-add per dim in ascending order. panel: y_rows (a multiple of NF_LANES) in the form of nf_panel_at with
     * steps = dims. Writes y_rows values per row. */
    void (*products)(const float *x, size_t x_stride, uint32_t x_rows, const float *panel, uint32_t y_rows, uint32_t dims,
                     float *out, size_t out_stride);

    /* The least of offsets[j] - products[j], j < count (at least 1): returns the lowest such j, *value its value. */
    uint32_t (*least)(const float *products, const float *offsets, uint32_t count, float *value);

    /* Bit j % 16 of masks[j / 16] is set when low[j] - products[j] - gain * reach[j] < limit, j < count (a multiple of
     * NF_LANES); each operation rounded, or the last two fused. Returns 0 when no bit is set. */
    uint32_t (*below)(const float *low, const float *reach, const float *products, uint32_t count, float gain, float limit,
                      uint16_t *masks);

    /* The j < count with offsets[j] - products[j] < limit, ascending, into places (room for count + 8); returns how many. */
    uint32_t (*nearer)(const float *products, const float *offsets, uint32_t count, float limit, uint32_t *places);

    /* The fast rotation of one row of padded values, in place. The same bits on every instruction set. */
    void (*rotate)(const nf_rotation_map *map, float *row);

    /* Sums over a residual r (padded values) for the levels m_i = min(floor(t |r_i| + 1e-5), most): *product = sum (m_i + 1/2)
     * |r_i|, *square = sum (m_i + 1/2)^2, for each of four t. */
    void (*levels)(const float *residual, uint32_t padded, const float t[4], float most, float product[4], float square[4]);

    /* The code for one t: u_i = most + 1 + m_i where r_i > 0, else most - m_i, with m_i as above (notation: docs/ivf.md). */
    void (*quantise)(const float *residual, uint32_t padded, float t, float most, uint16_t *code);

    /* Sums in binary64 with y_i = code_i - kappa: r.y, c.y, y.y, r.r, r.c, in this order. */
    void (*moments)(const uint16_t *code, float kappa, const float *residual, const float *centroid, uint32_t padded,
                    double sums[5]);

    /* Scans blocks for 1 .. NF_SCAN_QUERIES queries: survivors[q * stride + b] gets one bit per slot of block b. */
    void (*scan)(const uint8_t *blocks, uint64_t block_count, uint32_t padded, const nf_scan_query *queries,
                 uint32_t query_count, uint32_t *survivors, size_t stride);

    /* Unpacks one row's whole code: out[i] = 2^ex_bits * sign + ex code, padded values, then zeros up to a multiple of 16.
     * signs: padded / 8 bytes, collected from the block; codes may be read up to 7 bytes past their end; ex_bits 0 .. 8. */
    void (*unpack)(const uint8_t *signs, const uint8_t *codes, uint32_t ex_bits, uint32_t padded, uint16_t *out);

    /* dots[i] = sum of codes[at[i] * stride + k] * query[k] modulo 2^32, k < count: a multiple of 16. */
    void (*dots)(const uint16_t *codes, size_t stride, const uint32_t *at, uint32_t at_count, const int16_t *query,
                 uint32_t count, int32_t *dots);
} nf_ivf_kernels;

void nf_ivf_kernels_fill_scalar(nf_ivf_kernels *table);
void nf_ivf_kernels_override_avx2(nf_ivf_kernels *table);
void nf_ivf_kernels_override_avx512(nf_ivf_kernels *table);
void nf_ivf_kernels_override_neon(nf_ivf_kernels *table);

/* The table of an instruction set. */
const nf_ivf_kernels *nf_cpu_ivf_kernels(nf_isa isa);

#endif
