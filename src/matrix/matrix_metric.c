/* SPDX-License-Identifier: Apache-2.0 */
/* Exact distances in binary64. */
#include "matrix_metric.h"

#include "matrix_distance.h"
#include "matrix_exact.h"
#include "nearfield/neighbours.h"

double nf_metric_distance(uint32_t metric, double *x, double *y, uint32_t dims)
{
    if (metric == NF_METRIC_L2) return nf_exact_distance(x, y, dims);
    if (metric == NF_METRIC_IP) return 0.0 - nf_dot_f64(x, y, dims); /* a product of 0 gives 0, not -0 */
    const double length = nf_cosine_length(x, dims), other = nf_cosine_length(y, dims);
    if (length == 0.0 || other == 0.0) return 1.0;
    return 1.0 - nf_dot_f64(x, y, dims) / (length * other);
}
