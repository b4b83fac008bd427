/* SPDX-License-Identifier: Apache-2.0 */
/* A lattice: the coordinates of row i are the digits of i in base side, the last column being the least significant, so
 * rows come in lexicographic order. No random number is used, and counts of pairs follow from formulas. */
#include <stdbool.h>

#include "core/core_error.h"
#include "core/core_memory.h"
#include "generate_kinds.h"

/* Whether a lattice of that side has at least as many points as rows. */
static bool holds(uint32_t side, uint32_t dims, uint64_t rows)
{
    uint64_t points = 1;
    for (uint32_t i = 0; i < dims && points < rows; i++) {
        if (!nf_multiply(points, side, &points)) return true;
        if (side < 2) break;
    }
    return points >= rows;
}

static uint32_t smallest_side(uint32_t dims, uint64_t rows)
{
    uint32_t low = 1, high = UINT32_MAX;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (holds(middle, dims, rows)) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* The greatest side whose coordinates the type holds exactly. */
static uint32_t greatest_side(uint32_t dtype)
{
    if (dtype == NF_DTYPE_U8) return 256;
    return dtype == NF_DTYPE_F32 ? (UINT32_C(1) << 24) + 1 : UINT32_MAX;
}

static nf_status prepare(nf_context *ctx, nf_generator *generator)
{
    const nf_generate_params *params = generator->params;
    const uint32_t            limit = greatest_side(params->dtype);
    const uint32_t            side = params->side != 0 ? params->side : smallest_side(params->dims, params->rows);

    if (!holds(side, params->dims, params->rows)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "rows is %llu, more than a lattice of side %u in %u dims has points",
                       (unsigned long long)params->rows, side, params->dims);
    }
    if (side > limit) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "side is %u, allowed are 1 to %u with dtype %s", side, limit,
                       nf_dtype_name((nf_dtype)params->dtype));
    }
    generator->side = side;
    return NF_OK;
}

static void fill_row(const nf_generator *generator, uint64_t row, double *scratch, double *out)
{
    (void)scratch;
    for (uint32_t i = generator->params->dims; i-- > 0;) {
        out[i] = (double)(row % generator->side);
        row /= generator->side;
    }
}

const nf_generate_ops nf_generate_lattice = {"lattice", prepare, fill_row, 1};
