/* SPDX-License-Identifier: Apache-2.0 */
/* The AVX-512 kernels of IVF-RaBitQ and k nearest neighbours by name. */
#ifndef NF_K_IVF_AVX512_H
#define NF_K_IVF_AVX512_H

#include "cpu/kernels/ivf_kernels.h"

void nf_k_products_avx512(const float *x, size_t x_stride, uint32_t x_rows, const float *panel, uint32_t y_rows,
                          uint32_t dims, float *out, size_t out_stride);
void nf_k_scan_avx512(const uint8_t *blocks, uint64_t block_count, uint32_t padded, const nf_scan_query *queries,
                      uint32_t query_count, uint32_t *survivors, size_t stride);
void nf_k_dots_avx512(const uint16_t *codes, size_t stride, const uint32_t *at, uint32_t at_count, const int16_t *query,
                      uint32_t count, int32_t *dots);

#endif
