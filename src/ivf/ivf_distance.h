/* SPDX-License-Identifier: Apache-2.0 */
/* The exact distance of two rows, as nearfield/neighbours.h defines it for nf_knn. */
#ifndef NF_IVF_DISTANCE_H
#define NF_IVF_DISTANCE_H

#include <stdint.h>

double nf_ivf_exact_distance(uint32_t metric, const double *x, const double *y, uint32_t dims);

#endif
