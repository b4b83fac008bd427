/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What near means.
 *
 * Distances of k nearest neighbours, by metric (smaller is nearer):
 *   L2      Euclidean distance, not squared
 *   IP      the negated inner product, -<x, q>
 *   COSINE  1 - <x, q> / (|x| |q|); 1 where x or q is zero
 */
#ifndef NEARFIELD_METRIC_H
#define NEARFIELD_METRIC_H

#include <stdint.h>

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nf_metric { NF_METRIC_L2 = 0, NF_METRIC_IP = 1, NF_METRIC_COSINE = 2 } nf_metric;

/* Returns "l2", "ip", "cosine". Static string. */
NF_API const char *nf_metric_name(uint32_t metric);

#ifdef __cplusplus
}
#endif

#endif
