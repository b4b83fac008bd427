/* SPDX-License-Identifier: Apache-2.0 */
/* Exponential data, by inversion: -log(1 - u) / rate with u uniform in [0, 1). Values lie in [0, 36.74 / rate]. */
#include "core/core_error.h"
#include "generate_kinds.h"
#include "generate_math.h"
#include "generate_random.h"

/* Far inside the range of binary32, so that no value overflows in any type. */
#define LEAST_RATE 1e-30
#define GREATEST_RATE 1e30

static nf_status prepare(nf_context *ctx, nf_generator *generator)
{
    const double rate = generator->params->rate;
    if (!(rate >= LEAST_RATE && rate <= GREATEST_RATE)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "rate is %.17g, allowed are numbers from 1e-30 to 1e30", rate);
    }
    return NF_OK;
}

static void fill_row(const nf_generator *generator, uint64_t row, double *scratch, double *out)
{
    const double   rate = generator->params->rate;
    const uint64_t state = nf_random_row(generator->params->seed, NF_STREAM_EXPONENTIAL, row);
    (void)scratch;
    for (uint32_t i = 0; i < generator->params->dims; i++) {
        out[i] = (0.0 - nf_generate_log(1.0 - nf_random_uniform(state, i))) / rate;
    }
}

const nf_generate_ops nf_generate_exponential = {"exponential", prepare, fill_row, 0};
