/* SPDX-License-Identifier: Apache-2.0 */
/* The definition of a result, in exact arithmetic: what every faster path is measured against. */
#ifndef NF_MATRIX_EXACT_H
#define NF_MATRIX_EXACT_H

#include <stdint.h>

#include "matrix_exact_inline.h"

/*
 * The sign of sum (x_i - y_i)^2 - radius^2 over the real numbers: -1, 0 or 1. x and y hold dims finite values, dims is at
 * most 2^20, radius is finite and not negative. Any magnitude: nothing overflows or vanishes.
 */
int nf_exact_compare(const double *x, const double *y, uint32_t dims, double radius);

/* The same, but first by binary64 with a proven bound, and by error-free arithmetic where every step happens to be exact
 * (integers, short decimals): equal to nf_exact_compare always, and fast nearly always. docs/numerics.md, section 4. */
int nf_exact_compare_fast(const double *x, const double *y, uint32_t dims, double radius);

/*
 * The delivered distance: sqrt(sum (x_i - y_i)^2), the sum by one fused multiply-add per dimension in ascending order,
 * starting from 0, in binary64. Where the sum would overflow, or is so small that squares may have vanished, the
 * differences are first multiplied by the power of two that brings the largest to [1, 2).
 */
double nf_exact_distance(const double *x, const double *y, uint32_t dims);

/* The second half of nf_exact_distance for a sum that is outside [NF_SUM_SMALL, NF_SUM_LARGE]. */
double nf_exact_distance_scaled(const double *x, const double *y, uint32_t dims);

#endif
