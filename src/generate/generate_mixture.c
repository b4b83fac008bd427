/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mixture of Gaussians, each on a random linear subspace: data of a low intrinsic dimension in a high one.
 *
 *     c = cluster of the row, each equally likely
 *     x = centre_c + spread * sum over k < m of z_k b_ck        z_k standard normal, b_ck in R^dims
 *
 * Centres are uniform in [0, 1)^dims. m = intrinsic; the entries of b_ck are normal with variance 1/m, so each
 * coordinate's variance inside a cluster is spread^2 on average over the bases, whatever m is. With intrinsic 0 or not
 * below dims the basis is the identity: x_j = centre_cj + spread * z_j. Memory: 8 clusters dims (1 + m) bytes, under
 * the context's limit.
 */
#include <math.h>
#include <stdbool.h>

#include "core/core_error.h"
#include "core/core_memory.h"
#include "core/core_pool.h"
#include "generate_kinds.h"
#include "generate_random.h"

#define GREATEST_SPREAD 1e30

static nf_status check(nf_context *ctx, const nf_generate_params *params)
{
    if (params->clusters == 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "clusters is 0, at least 1 is needed");
    if (!(params->spread >= 0.0 && params->spread <= GREATEST_SPREAD)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "spread is %.17g, allowed are numbers from 0 to 1e30", params->spread);
    }
    return NF_OK;
}

/* Task: centre and basis of one cluster. */
static nf_status make_cluster(void *arg, uint64_t cluster, uint32_t worker)
{
    const nf_generator       *generator = arg;
    const nf_generate_params *params = generator->params;
    const uint64_t            centre = nf_random_row(params->seed, NF_STREAM_CENTRE, cluster);
    (void)worker;

    for (uint32_t i = 0; i < params->dims; i++) {
        generator->centres[cluster * params->dims + i] = nf_random_uniform(centre, i);
    }
    if (generator->bases == NULL) return NF_OK;
    const uint64_t size = (uint64_t)generator->subspace * params->dims;
    const double   scale = sqrt((double)generator->subspace);
    double        *basis = generator->bases + cluster * size;
    nf_random_normal(nf_random_row(params->seed, NF_STREAM_BASIS, cluster), size, basis);
    for (uint64_t i = 0; i < size; i++) basis[i] /= scale;
    return NF_OK;
}

static nf_status prepare(nf_context *ctx, nf_generator *generator)
{
    const nf_generate_params *params = generator->params;
    const uint64_t            centre_bytes = (uint64_t)params->dims * sizeof(double);
    nf_status                 status;

    NF_TRY(check(ctx, params));
    const bool whole = params->intrinsic == 0 || params->intrinsic >= params->dims;
    generator->subspace = whole ? params->dims : params->intrinsic;
    generator->centres = nf_alloc(ctx, params->clusters, (size_t)centre_bytes);
    if (generator->centres == NULL) return nf_alloc_status(ctx);
    if (!whole) {
        generator->bases = nf_alloc(ctx, params->clusters, (size_t)(centre_bytes * generator->subspace));
        if (generator->bases == NULL) {
            status = nf_alloc_status(ctx);
            goto cleanup;
        }
    }
    status = nf_pool_run(ctx, make_cluster, generator, params->clusters);
    if (status == NF_OK) return NF_OK;
cleanup:
    nf_free(generator->centres);
    nf_free(generator->bases);
    generator->centres = generator->bases = NULL;
    return status;
}

static void fill_row(const nf_generator *generator, uint64_t row, double *scratch, double *out)
{
    const nf_generate_params *params = generator->params;
    const uint32_t            dims = params->dims;
    const uint64_t            draw = nf_random_bits(nf_random_row(params->seed, NF_STREAM_CLUSTER, row), 0);
    const uint64_t            cluster = ((draw >> 32) * params->clusters) >> 32;
    const double             *centre = generator->centres + cluster * dims;

    nf_random_normal(nf_random_row(params->seed, NF_STREAM_OFFSET, row), generator->subspace, scratch);
    if (generator->bases == NULL) {
        for (uint32_t i = 0; i < dims; i++) out[i] = centre[i] + params->spread * scratch[i];
        return;
    }
    const double *basis = generator->bases + cluster * generator->subspace * dims;
    for (uint32_t i = 0; i < dims; i++) out[i] = 0.0;
    for (uint32_t k = 0; k < generator->subspace; k++, basis += dims) {
        for (uint32_t i = 0; i < dims; i++) out[i] += scratch[k] * basis[i];
    }
    for (uint32_t i = 0; i < dims; i++) out[i] = centre[i] + params->spread * out[i];
}

const nf_generate_ops nf_generate_mixture = {"mixture", prepare, fill_row, 0};
