/* SPDX-License-Identifier: Apache-2.0 */
/* Types that host code and kernels share. */
#ifndef NF_K_TYPES_H
#define NF_K_TYPES_H

#include <stdint.h>

/* A pair found: positions in the queries and in the data. */
typedef struct nf_pair {
    uint32_t query, point;
} nf_pair;

/* Rows on the device, as kernels see them (cuda_points.h). */
typedef struct nf_k_rows {
    const void     *values;    /* float or double */
    const uint32_t *dim_place; /* column -> place */
    uint32_t        dims, stride;
    uint32_t        wide;      /* values are double */
} nf_k_rows;

#endif
