/* SPDX-License-Identifier: Apache-2.0 */
/* Inner products and lengths in binary64. */
#include "matrix_distance.h"

#include <math.h>

#include "matrix_exact.h"

double nf_dot_f64(const double *x, const double *y, uint32_t dims)
{
    double sum = 0.0;
    for (uint32_t k = 0; k < dims; k++) sum = fma(x[k], y[k], sum);
    return sum;
}

double nf_cosine_length(double *row, uint32_t dims)
{
    const double square = nf_dot_f64(row, row, dims);
    if (square >= NF_SUM_SMALL && square <= NF_SUM_LARGE) return sqrt(square);
    double largest = 0.0;
    for (uint32_t k = 0; k < dims; k++) largest = fmax(largest, fabs(row[k]));
    if (largest == 0.0) return 0.0;
    const int shift = -ilogb(largest);
    for (uint32_t k = 0; k < dims; k++) row[k] = scalbn(row[k], shift);
    return sqrt(nf_dot_f64(row, row, dims));
}
