/* SPDX-License-Identifier: Apache-2.0 */
/* What clusters of rows and clusters of stored graphs share. */
#ifndef NF_EXACT_COMPONENTS_H
#define NF_EXACT_COMPONENTS_H

#include "nearfield/cluster.h"

/* Copies what the caller's parameters hold. NF_ERR_ARGUMENT. */
nf_status nf_dbscan_params_take(nf_context *ctx, const nf_dbscan_params *from, nf_dbscan_params *to);
nf_status nf_components_params_take(nf_context *ctx, const nf_components_params *from, nf_components_params *to);

/* Fills largest and singletons from labels, which lie in 0 .. stats->components - 1. NF_ERR_MEMORY, NF_ERR_LIMIT. */
nf_status nf_components_measure(nf_context *ctx, const int64_t *labels, uint64_t rows, nf_components_stats *stats);

/* Copies statistics to the caller's struct, as much as it holds. to may be NULL. */
void nf_components_stats_give(const nf_components_stats *from, nf_components_stats *to);

#endif
