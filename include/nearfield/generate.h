/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synthetic data: seeded, and the same bits on every machine, compiler and thread count (own binary64 log, sine and
 * cosine; only +, -, *, /, sqrt and fused multiply-add, which IEEE 754 fixes, are used).
 */
#ifndef NEARFIELD_GENERATE_H
#define NEARFIELD_GENERATE_H

#include <stddef.h>
#include <stdint.h>

#include "context.h"
#include "matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nf_generate_kind {
    NF_GENERATE_UNIFORM = 0,     /* each coordinate uniform in [0, 1) */
    NF_GENERATE_EXPONENTIAL = 1, /* each coordinate exponential with the given rate */
    NF_GENERATE_MIXTURE = 2,     /* Gaussian mixture: centres uniform in [0, 1)^d; inside a cluster a Gaussian of standard
                                    deviation spread on a random linear subspace of intrinsic dims */
    NF_GENERATE_LATTICE = 3      /* integers 0 .. side - 1 in each coordinate: the row number in base side */
} nf_generate_kind;

typedef struct nf_generate_params {
    size_t   struct_size; /* set by nf_generate_params_init */
    uint32_t kind;        /* nf_generate_kind */
    uint32_t dims;        /* default 3 */
    uint64_t rows;        /* default 1000 */
    uint64_t seed;        /* default 1 */
    uint32_t dtype;       /* f32 (default), f64; u8 (lattice, and others scaled to 0..255 and rounded) */
    uint32_t clusters;    /* mixture: default 100 */
    uint32_t intrinsic;   /* mixture: dims of the subspace; 0 (default): all */
    uint32_t side;        /* lattice: 0 (default): the smallest that gives as many points as rows */
    double   rate;        /* exponential: default 40 */
    double   spread;      /* mixture: default 0.05 */
} nf_generate_params;

/* Fills params with the defaults. Cannot fail. */
NF_API void nf_generate_params_init(nf_generate_params *params);

/* Returns the kind that a name stands for ("uniform", "exponential", "mixture", "lattice"), -1 for an unknown one. */
NF_API int nf_generate_kind_from_name(const char *name);

/* Fills out (rows x dims values of dtype, packed; the caller's). Row i depends on seed and i alone, so any range of rows
 * can be made: first_row is the number of the first one, row_count how many.
 * NF_ERR_ARGUMENT, NF_ERR_CANCELLED, NF_ERR_MEMORY. Cost O(row_count * dims). */
NF_API NF_NODISCARD nf_status nf_generate(nf_context *ctx, const nf_generate_params *params, uint64_t first_row,
                                          uint64_t row_count, void *out);

#ifdef __cplusplus
}
#endif

#endif
