/* SPDX-License-Identifier: Apache-2.0 */
/* Into which of several radii pairs fall: for nf_radius_histogram. */
#ifndef NF_CPU_BINS_H
#define NF_CPU_BINS_H

#include "cpu_search.h"

/* The radii of a histogram, ascending, and what a squared distance in binary64 says of each. */
typedef struct nf_bins {
    const nf_search *search;
    const double    *radii;
    uint32_t         count;
    bool             same_store;   /* sums of two rows may come from the kernel */
    double           slack;        /* relative error granted to a sum */
    double          *sure, *never; /* per radius: a sum below sure is within it, one above never is not */
} nf_bins;

/* What a worker counts: pairs by the first radius that they are within. */
typedef struct nf_binner {
    uint64_t *pairs;
    double   *row_x, *row_y;
    uint64_t  rechecked;
} nf_binner;

nf_status nf_bins_open(nf_context *ctx, const nf_search *search, const double *radii, uint32_t count, nf_bins *bins);
void      nf_bins_close(nf_bins *bins);

nf_status nf_binner_open(nf_context *ctx, const nf_bins *bins, nf_binner *binner);
void      nf_binner_close(nf_binner *binner);

/* Counts the results of a query with the points at first + bits of mask; all are within the largest radius. weight: how
 * many ordered pairs each stands for. */
void nf_bins_count(const nf_bins *bins, nf_binner *binner, uint32_t query, uint32_t first, uint64_t mask,
                   uint32_t weight);

#endif
