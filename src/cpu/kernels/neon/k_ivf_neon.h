/* SPDX-License-Identifier: Apache-2.0 */
/* The NEON kernels of IVF-RaBitQ by name. */
#ifndef NF_K_IVF_NEON_H
#define NF_K_IVF_NEON_H

#include "cpu/kernels/ivf_kernels.h"
#include "cpu/kernels/neon/k_neon.h"

void nf_k_products_neon(const float *x, size_t x_stride, uint32_t x_rows, const float *panel, uint32_t y_rows,
                        uint32_t dims, float *out, size_t out_stride);
uint32_t nf_k_least_neon(const float *products, const float *offsets, uint32_t count, float *value);
uint32_t nf_k_below_neon(const float *low, const float *reach, const float *products, uint32_t count, float gain,
                         float limit, uint16_t *masks);
uint32_t nf_k_nearer_neon(const float *products, const float *offsets, uint32_t count, float limit, uint32_t *places);
void nf_k_rotate_neon(const nf_rotation_map *map, float *row);
void nf_k_levels_neon(const float *residual, uint32_t padded, const float t[4], float most, float product[4],
                      float square[4]);
void nf_k_quantise_neon(const float *residual, uint32_t padded, float t, float most, uint16_t *code);
void nf_k_moments_neon(const uint16_t *code, float kappa, const float *residual, const float *centroid, uint32_t padded,
                       double sums[5]);
void nf_k_scan_neon(const uint8_t *blocks, uint64_t block_count, uint32_t padded, const nf_scan_query *queries,
                    uint32_t query_count, uint32_t *survivors, size_t stride);
void nf_k_unpack_neon(const uint8_t *signs, const uint8_t *codes, uint32_t ex_bits, uint32_t padded, uint16_t *out);
void nf_k_dots_neon(const uint16_t *codes, size_t stride, const uint32_t *at, uint32_t at_count, const int16_t *query,
                    uint32_t count, int32_t *dots);

#endif
