/* SPDX-License-Identifier: Apache-2.0 */
/* Exact distances in binary64: one fused multiply-add per dim in ascending order. */
#include "ivf_distance.h"

#include <math.h>

#include "matrix/matrix_exact.h"
#include "nearfield/neighbours.h"

static double dot(const double *x, const double *y, uint32_t dims)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < dims; i++) sum = fma(x[i], y[i], sum);
    return sum;
}

double nf_ivf_exact_distance(uint32_t metric, const double *x, const double *y, uint32_t dims)
{
    if (metric == NF_METRIC_L2) return nf_exact_distance(x, y, dims);
    const double product = dot(x, y, dims);
    if (metric == NF_METRIC_IP) return -product;
    const double xx = dot(x, x, dims), yy = dot(y, y, dims);
    if (xx == 0.0 || yy == 0.0) return 1.0;
    return 1.0 - product / (sqrt(xx) * sqrt(yy));
}
