/* SPDX-License-Identifier: Apache-2.0 */
/* What the steps of a build share. */
#ifndef NF_IVF_BUILD_H
#define NF_IVF_BUILD_H

#include "engine/engine_ivf_rows.h"
#include "ivf_index.h"
#include "ivf_params.h"

typedef struct nf_ivf_build_job {
    nf_context        *ctx;
    const nf_matrix   *data;
    nf_ivf_params      params;
    nf_ivf_index      *index;
    nf_ivf_build_stats stats;

    nf_ivf_source *source;
    nf_ivf_set    *sample; /* rows that k-means looks at */
    uint64_t       sample_count;
    float         *centroids; /* lists x dims, not rotated */
    uint32_t      *labels;    /* list of each row */
    uint32_t      *cursor;    /* rows placed so far, per list */

    /* of a block of rows */
    uint32_t *slots;
    double   *code_errors;
} nf_ivf_build_job;

/* Step calibrate: completes the index, and makes the table of recall by probes; its ids are row numbers. The source is
 * closed before the engine prepares the index, so that both need not find room at once. */
nf_status nf_ivf_calibrate(nf_ivf_build_job *job);

/* Gives the data back to the engine. */
void nf_ivf_close_source(nf_ivf_build_job *job);

#endif
