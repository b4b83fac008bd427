/* SPDX-License-Identifier: Apache-2.0 */
/* Step cluster: the centroids of the lists, by balanced hierarchical k-means on a sample. */
#ifndef NF_IVF_CLUSTER_H
#define NF_IVF_CLUSTER_H

#include "core/core_context.h"
#include "engine/engine_ivf.h"

typedef struct nf_ivf_training {
    nf_ivf_set *set;   /* its order is changed */
    uint64_t    count; /* rows of it: at least lists; below 2^32 */
    uint32_t    dims, lists;
    uint32_t    iterations; /* over all lists, after the hierarchical start */
    uint64_t    seed;
} nf_ivf_training;

/* Fills centroids (lists x dims). Same training, engine and instruction set: the same centroids. */
nf_status nf_ivf_cluster(nf_context *ctx, const nf_ivf_ops *ops, const nf_ivf_training *training, float *centroids);

#endif
