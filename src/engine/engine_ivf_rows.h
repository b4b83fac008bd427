/* SPDX-License-Identifier: Apache-2.0 */
/* From the rows of a matrix to the rows of an index: binary32, normalised under COSINE, the global mean removed. */
#ifndef NF_ENGINE_IVF_ROWS_H
#define NF_ENGINE_IVF_ROWS_H

#include <stdint.h>

#include "core/core_context.h"
#include "nearfield/matrix.h"

#define NF_IVF_MOST_DIMS 8192u
#define NF_IVF_MOST_ROWS 0x7fffffffull

/* Rows of a matrix: first, first + 1, ..., or those that numbers lists. */
typedef struct nf_ivf_rows {
    const nf_matrix *matrix;
    const char      *what;   /* "data", "queries": for errors */
    uint32_t         metric; /* nf_metric */
    uint64_t         first, count;
    const uint64_t  *numbers; /* NULL: consecutive */
    double           length;  /* with factors: rows are scaled to this length, before the mean goes */
    double          *factors; /* count: by what; NULL: rows are not scaled */
    uint64_t         named_from; /* number of the matrix's first row where errors name a row */
} nf_ivf_rows;

/* Checks a matrix: shape, type, place. */
nf_status nf_ivf_check_matrix(nf_context *ctx, const nf_matrix *matrix, const char *what);

/* Converts rows to count x dims. mean NULL: nothing is removed. NF_ERR_VALUE names the first row with a value that is
 * not allowed: NaN, infinity; beyond 2^53 in absolute value unless the metric is COSINE, so that no square overflows.
 */
nf_status nf_ivf_rows_convert(nf_context *ctx, const nf_ivf_rows *rows, const float *mean, float *out);

/* The mean of rows, dims values. */
nf_status nf_ivf_rows_mean(nf_context *ctx, const nf_ivf_rows *rows, float *mean);

#endif
