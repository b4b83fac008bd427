/* SPDX-License-Identifier: Apache-2.0 */
/* Inner products and lengths as the delivered distances of k nearest neighbours define them (docs/numerics.md, section 9). */
#ifndef NF_MATRIX_DISTANCE_H
#define NF_MATRIX_DISTANCE_H

#include <stdint.h>

/* Sum of x_i y_i: one fused multiply-add per dim in ascending order, from 0. */
double nf_dot_f64(const double *x, const double *y, uint32_t dims);

/* The length of a row for COSINE. A row whose sum of squares could have lost bits is first multiplied, in place, by the
 * power of two that brings its largest value to [1, 2). 0 for a zero row only. */
double nf_cosine_length(double *row, uint32_t dims);

#endif
