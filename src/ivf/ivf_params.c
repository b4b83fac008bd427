/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters: defaults, names of steps, and copies of the caller's structs whatever version they have. */
#include "ivf_params.h"

#include <math.h>
#include <string.h>

void nf_ivf_params_init(nf_ivf_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->bits = 5;
    params->seed = 1;
    params->iterations = 8;
    params->train_rows = 128;
    params->recall_rows = 256;
}

void nf_ivf_open_params_init(nf_ivf_open_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
}

void nf_ivf_search_params_init(nf_ivf_search_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->k = 10;
    params->recall = 0.95;
    params->epsilon0 = 1.9;
}

const char *nf_ivf_build_step_name(uint32_t step)
{
    static const char *const names[NF_IVF_BUILD_STEPS] = {"sample", "cluster", "rotate",
                                                          "assign", "encode",  "calibrate"};
    return step < NF_IVF_BUILD_STEPS ? names[step] : NULL;
}

const char *nf_ivf_search_step_name(uint32_t step)
{
    static const char *const names[NF_IVF_SEARCH_STEPS] = {"prepare", "probe", "scan", "rank", "rerank"};
    return step < NF_IVF_SEARCH_STEPS ? names[step] : NULL;
}

/* Members that the caller's struct does not have keep their defaults. */
static nf_status take(nf_context *ctx, void *to, size_t size, const void *from, const char *init)
{
    size_t given;
    memcpy(&given, from, sizeof given);
    if (given < sizeof given) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "struct_size of the parameters is %zu; use %s", given, init);
    }
    memcpy(to, from, given < size ? given : size);
    return NF_OK;
}

static nf_status check_range(nf_context *ctx, const char *name, uint32_t value, uint32_t least, uint32_t most)
{
    if (value >= least && value <= most) return NF_OK;
    return nf_fail(ctx, NF_ERR_ARGUMENT, "%s is %u, allowed are %u to %u", name, value, least, most);
}

nf_status nf_ivf_params_take(nf_context *ctx, const nf_ivf_params *from, nf_ivf_params *to)
{
    nf_ivf_params_init(to);
    if (from == NULL) return NF_OK;
    NF_TRY(take(ctx, to, sizeof *to, from, "nf_ivf_params_init"));
    NF_TRY(check_range(ctx, "lists", to->lists, 0, NF_IVF_MOST_LISTS));
    NF_TRY(check_range(ctx, "bits", to->bits, 1, NF_IVF_MOST_BITS));
    NF_TRY(check_range(ctx, "metric", to->metric, 0, NF_METRIC_COSINE));
    NF_TRY(check_range(ctx, "rotation", to->rotation, 0, NF_ROTATION_DENSE));
    NF_TRY(check_range(ctx, "iterations", to->iterations, 0, 1000));
    NF_TRY(check_range(ctx, "train_rows", to->train_rows, 1, 1000000));
    NF_TRY(check_range(ctx, "keep_vectors", to->keep_vectors, 0, 1));
    return check_range(ctx, "recall_rows", to->recall_rows, 0, 100000);
}

nf_status nf_ivf_open_params_take(nf_context *ctx, const nf_ivf_open_params *from, nf_ivf_open_params *to)
{
    nf_ivf_open_params_init(to);
    if (from == NULL) return NF_OK;
    NF_TRY(take(ctx, to, sizeof *to, from, "nf_ivf_open_params_init"));
    NF_TRY(check_range(ctx, "map", to->map, 0, 1));
    return check_range(ctx, "verify", to->verify, 0, NF_VERIFY_STRUCTURE);
}

nf_status nf_ivf_search_params_take(nf_context *ctx, const nf_ivf_search_params *from, nf_ivf_search_params *to)
{
    nf_ivf_search_params_init(to);
    if (from == NULL) return NF_OK;
    NF_TRY(take(ctx, to, sizeof *to, from, "nf_ivf_search_params_init"));
    NF_TRY(check_range(ctx, "k", to->k, 1, NF_MAX_K));
    NF_TRY(check_range(ctx, "precision", to->precision, 0, NF_PRECISION_TILE));
    NF_TRY(check_range(ctx, "results_place", to->results_place, 0, NF_PLACE_DEVICE));
    NF_TRY(check_range(ctx, "reserved", to->reserved, 0, 0));
    NF_TRY(check_range(ctx, "rerank", to->rerank, 0, NF_IVF_MOST_RERANK));
    if (!(to->recall >= 0.0 && to->recall <= 1.0)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "recall is %g, allowed are 0 to 1", to->recall);
    }
    if (!(to->epsilon0 >= 0.0)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "epsilon0 is %g, a number of at least 0 is needed", to->epsilon0);
    }
    return NF_OK;
}
