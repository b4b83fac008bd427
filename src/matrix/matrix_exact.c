/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact comparison of a sum of squared differences with a squared radius; the code is in matrix_exact_inline.h, which
 * devices run too.
 *
 * Method: a fixed-point accumulator wide enough for every product of two binary64 values (exponents from 2^-2148 to 2^2048,
 * and 2^22 terms on top), as in Kulisch's long accumulator. (x - y)^2 = x^2 - 2xy + y^2: three products of two 53-bit
 * integers are added at their places; then radius^2 is subtracted and the sign read off. Nothing is rounded anywhere.
 *
 *   word 0 holds weight 2^-2176 .. ; 68 words of 64 bits reach 2^2176: two's complement, the top word holds the sign.
 *
 * It is slow, and decides ties only (nf_exact_compare_fast).
 */
#include "matrix_exact.h"

#include "matrix_exact_inline.h"

static nf_exact_row row_of(const double *values)
{
    return (nf_exact_row){.wide = values};
}

int nf_exact_compare(const double *x, const double *y, uint32_t dims, double radius)
{
    const nf_exact_row a = row_of(x), b = row_of(y);
    return nf_exact_compare_rows(&a, &b, dims, radius);
}

int nf_exact_compare_fast(const double *x, const double *y, uint32_t dims, double radius)
{
    const nf_exact_row a = row_of(x), b = row_of(y);
    return nf_exact_compare_rows_fast(&a, &b, dims, radius);
}

double nf_exact_distance_scaled(const double *x, const double *y, uint32_t dims)
{
    const nf_exact_row a = row_of(x), b = row_of(y);
    return nf_exact_scaled_distance_rows(&a, &b, dims);
}

double nf_exact_distance(const double *x, const double *y, uint32_t dims)
{
    const nf_exact_row a = row_of(x), b = row_of(y);
    return nf_exact_distance_rows(&a, &b, dims);
}
