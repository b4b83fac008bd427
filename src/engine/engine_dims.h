/* SPDX-License-Identifier: Apache-2.0 */
/* Step select_dims: the order of the coordinates, for every engine. */
#ifndef NF_ENGINE_DIMS_H
#define NF_ENGINE_DIMS_H

#include <stdint.h>

#include "core/core_context.h"

/* order[k] becomes the column of the k-th largest variance, ties by column, and place its inverse (RT-HiSS, section IV-A). */
nf_status nf_dims_by_variance(nf_context *ctx, const double *variance, uint32_t dims, uint32_t *order, uint32_t *place);

#endif
