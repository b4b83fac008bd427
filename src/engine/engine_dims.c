/* SPDX-License-Identifier: Apache-2.0 */
/* Coordinates by decreasing variance. */
#include "engine_dims.h"

#include <math.h>
#include <stdlib.h>

typedef struct dim_key {
    double   variance;
    uint32_t column;
} dim_key;

static int compare_dims(const void *a, const void *b)
{
    const dim_key *x = a, *y = b;
    if (x->variance != y->variance) return x->variance > y->variance ? -1 : 1;
    return x->column < y->column ? -1 : 1;
}

nf_status nf_dims_by_variance(nf_context *ctx, const double *variance, uint32_t dims, uint32_t *order, uint32_t *place)
{
    dim_key *keys = nf_alloc(ctx, dims, sizeof *keys);
    if (keys == NULL) return nf_alloc_status(ctx);
    for (uint32_t k = 0; k < dims; k++) {
        /* Squares of values near 1e200 overflow to infinity: such columns tie, in the order they came. */
        keys[k] = (dim_key){.variance = isnan(variance[k]) ? HUGE_VAL : variance[k], .column = k};
    }
    qsort(keys, dims, sizeof *keys, compare_dims);
    for (uint32_t k = 0; k < dims; k++) {
        order[k] = keys[k].column;
        place[keys[k].column] = k;
    }
    nf_free(keys);
    return NF_OK;
}
