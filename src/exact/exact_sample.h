/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of rows, and what is said about all from them. */
#ifndef NF_EXACT_SAMPLE_H
#define NF_EXACT_SAMPLE_H

#include "nearfield/estimate.h"

/* Numbers 0 to total - 1: count of them, ascending, each set of that size as likely as any other. count <= total. */
void nf_sample_numbers(uint64_t total, uint64_t count, uint64_t seed, uint64_t *out);

/* Takes params, or the defaults for NULL, and limits rows to those there are. NF_ERR_ARGUMENT. */
nf_status nf_sample_take_params(nf_context *ctx, const nf_sample_params *given, uint64_t total,
                                nf_sample_params *params);

/* Mean of counts of a sample of count out of total, and the standard error of the mean; NaN for one of more than one.
 */
void nf_sample_mean(const uint64_t *counts, uint64_t count, uint64_t total, double *mean, double *standard_error);

#endif
