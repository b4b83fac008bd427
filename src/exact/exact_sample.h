/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of rows, and what is said about all from them. */
#ifndef NF_EXACT_SAMPLE_H
#define NF_EXACT_SAMPLE_H

#include <stdbool.h>

#include "nearfield/estimate.h"

/* Numbers 0 to total - 1: count of them, ascending, each set of that size as likely as any other. count <= total. */
void nf_sample_numbers(uint64_t total, uint64_t count, uint64_t seed, uint64_t *out);

/* Copies a sample of params->rows of the rows of a matrix; values is the caller's, to be freed. */
nf_status nf_sample_copy(nf_context *ctx, const nf_matrix *from, const nf_sample_params *params, void **values,
                         nf_matrix *sample);

/* Counts the neighbours of each row of a sample, itself taken off in a self-join: whatever the radius, it is among its
 * own neighbours then, unless it has none (a row of zeros under cosine). params: of the search; not self and half. */
nf_status nf_sample_counts(nf_context *ctx, const nf_radius_index *index, const nf_matrix *sample,
                           const nf_radius_params *params, bool self_join, uint64_t *counts);

/* Checks what a sample is taken for: index, queries, and params, which are copied. */
nf_status nf_sample_check(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                          const nf_sample_params *params, nf_sample_params *taken);

/* Mean of counts of a sample of count out of total, and the standard error of the mean; NaN for one of more than one.
 */
void nf_sample_mean(const uint64_t *counts, uint64_t count, uint64_t total, double *mean, double *standard_error);

#endif
