/* SPDX-License-Identifier: Apache-2.0 */
/* The exact distance of two rows, as nearfield/neighbours.h defines it for nf_knn. */
#ifndef NF_MATRIX_METRIC_H
#define NF_MATRIX_METRIC_H

#include <stdint.h>

/* Under COSINE a row of extreme values is scaled in place by a power of two. */
double nf_metric_distance(uint32_t metric, double *x, double *y, uint32_t dims);

#endif
