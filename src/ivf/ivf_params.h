/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's parameters: copied, completed and checked. */
#ifndef NF_IVF_PARAMS_H
#define NF_IVF_PARAMS_H

#include "core/core_context.h"
#include "nearfield/ivf.h"

#define NF_IVF_MOST_LISTS (1u << 24)
#define NF_IVF_MOST_BITS 9u
#define NF_IVF_MOST_RERANK 1000000u
#define NF_IVF_MOST_DENSE_DIMS 4096u /* of the dense rotation: its making takes padded^3 operations */

/* The steps of a build, in order; nf_ivf_build_step_name gives their names. */
typedef enum nf_ivf_build_step {
    NF_IVF_BUILD_SAMPLE,
    NF_IVF_BUILD_CLUSTER,
    NF_IVF_BUILD_ROTATE,
    NF_IVF_BUILD_ASSIGN,
    NF_IVF_BUILD_ENCODE,
    NF_IVF_BUILD_CALIBRATE
} nf_ivf_build_step;

/* Each: from NULL gives the defaults. NF_ERR_ARGUMENT names the member. */
nf_status nf_ivf_params_take(nf_context *ctx, const nf_ivf_params *from, nf_ivf_params *to);
nf_status nf_ivf_open_params_take(nf_context *ctx, const nf_ivf_open_params *from, nf_ivf_open_params *to);
nf_status nf_ivf_search_params_take(nf_context *ctx, const nf_ivf_search_params *from, nf_ivf_search_params *to);

#endif
