/* SPDX-License-Identifier: Apache-2.0 */
/* Lloyd's iterations with balancing, on a range of a set's rows. */
#ifndef NF_IVF_LLOYD_H
#define NF_IVF_LLOYD_H

#include "core/core_context.h"
#include "engine/engine_ivf.h"

typedef struct nf_ivf_lloyd {
    nf_context       *ctx;
    const nf_ivf_ops *ops;
    uint32_t          dims;
    uint64_t          seed;

    uint64_t *starts; /* of the clusters after grouping */
    uint64_t *sizes;  /* clusters by size: size << 24 | cluster */
    uint64_t *picks;  /* members that centroids move towards, one per pair of clusters */
    float    *moved;  /* MOVED rows of them */
} nf_ivf_lloyd;

/* Gets memory for at most clusters clusters (at most 2^24). Closed by the caller, also after a failure. */
nf_status nf_ivf_lloyd_open(nf_ivf_lloyd *lloyd, uint32_t clusters);
void      nf_ivf_lloyd_close(nf_ivf_lloyd *lloyd);

/* Moves centroids (clusters x dims), which hold the start, by a number of iterations over rows first .. first + count
 * - 1. */
nf_status nf_ivf_lloyd_run(nf_ivf_lloyd *lloyd, nf_ivf_set *set, uint64_t first, uint64_t count, float *centroids,
                           uint32_t clusters, uint32_t iterations);

#endif
