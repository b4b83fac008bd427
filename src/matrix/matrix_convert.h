/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of elements and rows. Exact where the comment says so; rounding is to nearest even elsewhere. */
#ifndef NF_MATRIX_CONVERT_H
#define NF_MATRIX_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "nearfield/matrix.h"

/* binary16 <-> binary32 without special instructions. The first is exact; NaN stays NaN. */
float nf_f16_to_f32(uint16_t half);
uint16_t nf_f32_to_f16(float value);

/* The row stride in bytes: stride_bytes, or the packed row where that is 0. */
uint64_t nf_matrix_stride(const nf_matrix *matrix);

/* Where a row begins. */
const void *nf_matrix_row(const nf_matrix *matrix, uint64_t row);

/* One row as binary64: exact for every type, integers up to 2^53 in absolute value. */
void nf_matrix_row_f64(const nf_matrix *matrix, uint64_t row, double *out);

/* The first value of a row that is not allowed as input: NaN, infinity, or an integer beyond 2^53; dims if all are fine. */
uint32_t nf_matrix_row_invalid(const nf_matrix *matrix, uint64_t row);

#endif
