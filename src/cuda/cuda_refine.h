/* SPDX-License-Identifier: Apache-2.0 */
/* What refinement keeps for a search: limits of rows, open pairs, masks, counters. */
#ifndef NF_CUDA_REFINE_H
#define NF_CUDA_REFINE_H

#include "cuda_hits.h"
#include "cuda_search.h"

typedef struct nf_refiner nf_refiner;

nf_status nf_refiner_open(nf_context *ctx, nf_search *search);
void nf_refiner_close(nf_search *search);

/* Result "mask-raw": copies the masks of a device batch to the host, decodes them there, and puts the pairs into the store
 * behind the count that it holds; *found is how many there are, also when they do not fit. */
nf_status nf_decode_masks(nf_context *ctx, nf_search *search, const nf_work_list *work, const uint32_t *masks, uint32_t tile,
                          uint64_t *found);

#endif
