/* SPDX-License-Identifier: Apache-2.0 */
/* Refinement on tensor cores: images of the rows for a search, and running it (kernels/k_tensor.h). */
#ifndef NF_CUDA_TENSOR_H
#define NF_CUDA_TENSOR_H

#include "cuda_hits.h"

typedef struct nf_tensor nf_tensor;

/* Whether the device has what refine tensor and int8 need. */
bool nf_tensor_device_can(const nf_device *device);

/* Makes search->tensor where its rule is of tensor cores, after its hits are open. NF_ERR_UNSUPPORTED: candidates, groups or
 * forms of results that it does not go with. */
nf_status nf_tensor_open(nf_context *ctx, nf_search *search);
void nf_tensor_close(nf_search *search);

/* Decides the pairs of a device batch: what nf_hits_list and nf_k_refine_run do elsewhere. */
nf_status nf_tensor_run(nf_context *ctx, nf_search *search, const nf_hits_plan *plan, nf_batch part, const nf_k_refine *refine);

#endif
