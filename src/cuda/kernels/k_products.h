/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of many rows with many vectors on tensor cores, and what is wanted of them: the nearest vector of each row, or
 * the whole matrix. Rows of x and y are binary32, `stride` values apart, a multiple of 4, and 16-byte aligned; what lies
 * beyond dims up to the next multiple of 4 is 0 or meets 0.
 *
 * precise false: operands are rounded to TF32 (10 bits of fraction), as cuBLAS does on request. true: each operand is the
 * sum of two TF32 numbers and three products are added up, which is about binary32. Sums are in binary32, in an order that
 * depends on dims alone: a value does not depend on what stands beside it, nor on the shape of the tiles.
 */
#ifndef NF_K_PRODUCTS_H
#define NF_K_PRODUCTS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_k_products {
    const float *x, *y;        /* x: rows; y: vectors */
    uint32_t     x_rows, y_rows, dims;
    uint32_t     x_stride, y_stride;
    const float *offset;       /* y_rows: value(i, j) = offset[j] - <x_i, y_j>; NULL: zeros */
    bool         precise;
    uint64_t    *keys;         /* nearest: scratch of x_rows values, or NULL: then few rows do not fill the device */
} nf_k_products;

/* The j with the least value, the lowest of equal ones, for each row; least (the value) may be NULL. y_rows >= 1. A row
 * whose values are all NaN gets 0, and NaN. */
cudaError_t nf_k_nearest(const nf_k_products *job, uint32_t *labels, float *least, cudaStream_t stream);

/* values[i * out_stride + j] = value(i, j). */
cudaError_t nf_k_values(const nf_k_products *job, float *values, uint64_t out_stride, cudaStream_t stream);

/* halves[i] = |y_i|^2 / 2, summed in binary64. */
cudaError_t nf_k_half_squares(const float *y, uint32_t rows, uint32_t dims, uint32_t stride, float *halves,
                              cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
