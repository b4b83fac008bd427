/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform data: each coordinate is a multiple of 2^-53 in [0, 1). */
#include "generate_kinds.h"
#include "generate_random.h"

static nf_status prepare(nf_context *ctx, nf_generator *generator)
{
    (void)ctx;
    (void)generator;
    return NF_OK;
}

static void fill_row(const nf_generator *generator, uint64_t row, double *scratch, double *out)
{
    const uint64_t state = nf_random_row(generator->params->seed, NF_STREAM_UNIFORM, row);
    (void)scratch;
    for (uint32_t i = 0; i < generator->params->dims; i++) out[i] = nf_random_uniform(state, i);
}

const nf_generate_ops nf_generate_uniform = {"uniform", prepare, fill_row, 0};
