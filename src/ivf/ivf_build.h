/* SPDX-License-Identifier: Apache-2.0 */
/* What the steps of a build share. */
#ifndef NF_IVF_BUILD_H
#define NF_IVF_BUILD_H

#include "ivf_index.h"
#include "ivf_params.h"
#include "ivf_rows.h"

typedef struct nf_ivf_build_job {
    nf_context        *ctx;
    const nf_matrix   *data;
    nf_ivf_params      params;
    nf_ivf_index      *index;
    nf_ivf_build_stats stats;

    float    *sample;    /* rows that k-means looks at */
    uint64_t  sample_count;
    float    *centroids; /* lists x dims, not rotated */
    uint32_t *labels;    /* list of each row */
    uint64_t *cursor;    /* rows placed so far, per list */

    /* a block of rows */
    uint64_t  block_rows;
    float    *rows, *rotated;
    uint64_t *slots;
    double   *code_errors;
} nf_ivf_build_job;

/* Step calibrate: the table of recall by probes. The index is complete; its ids are row numbers. */
nf_status nf_ivf_calibrate(nf_ivf_build_job *job);

#endif
