/* SPDX-License-Identifier: Apache-2.0 */
/* Lloyd's iterations with balancing, on rows that lie together. */
#ifndef NF_IVF_LLOYD_H
#define NF_IVF_LLOYD_H

#include "core/core_context.h"
#include "engine/engine_ivf.h"

typedef struct nf_ivf_lloyd {
    nf_context       *ctx;
    const nf_ivf_ops *ops;
    uint32_t          dims;
    uint64_t          seed;

    /* the set that is clustered now */
    const float *rows;
    uint64_t     count;
    float       *centroids; /* clusters x dims */
    uint32_t     clusters;

    /* after grouping: members[starts[c] .. starts[c + 1]) are the rows of cluster c, ascending */
    uint32_t *labels, *members;
    uint64_t *starts;
    uint64_t *sizes; /* clusters by size: size << 24 | cluster */
    double   *sums;  /* dims per worker */
} nf_ivf_lloyd;

/* Gets memory for sets of at most rows rows (below 2^32) and clusters clusters (at most 2^24). Closed by the caller,
 * also after a failure. */
nf_status nf_ivf_lloyd_open(nf_ivf_lloyd *lloyd, uint64_t rows, uint32_t clusters);
void      nf_ivf_lloyd_close(nf_ivf_lloyd *lloyd);

/* Labels rows with their nearest centroids, and groups them. */
nf_status nf_ivf_lloyd_group(nf_ivf_lloyd *lloyd, const float *rows, uint64_t count, float *centroids,
                             uint32_t clusters);

/* Moves centroids, which hold the start, by a number of iterations. */
nf_status nf_ivf_lloyd_run(nf_ivf_lloyd *lloyd, const float *rows, uint64_t count, float *centroids, uint32_t clusters,
                           uint32_t iterations);

#endif
