/* SPDX-License-Identifier: Apache-2.0 */
/* Joins by cosine: rows of unit length, the radius between them, and distances as 1 - cosine. docs/numerics.md,
 * section 11. */
#ifndef NF_EXACT_COSINE_H
#define NF_EXACT_COSINE_H

#include "exact_private.h"

/* The rows of a matrix that are not zero, divided by their lengths, in binary32. */
typedef struct nf_unit_rows {
    nf_matrix matrix;
    float    *values;    /* of the matrix; to be freed when points have been made from it */
    uint32_t *kept;      /* row of each row of the matrix, ascending, and a last entry beyond all; NULL: all rows */
    uint64_t  zero_rows; /* left out */
} nf_unit_rows;

/*
 * Makes unit rows of a matrix. values are the context's memory, kept is allocated in memory; both the caller's, to be
 * freed. NF_ERR_VALUE (names the first bad row and its column), NF_ERR_MEMORY, NF_ERR_LIMIT, NF_ERR_CANCELLED: nothing
 * is left.
 */
nf_status nf_exact_unit_rows(nf_context *ctx, const nf_matrix *from, const char *what, nf_memory *memory,
                             nf_unit_rows *out);

/*
 * The Euclidean radius between unit rows for a least cosine, or where similarity is NaN for a cosine distance; *most:
 * that cosine distance. NF_ERR_ARGUMENT: out of range, or both are given.
 */
nf_status nf_exact_cosine_radius(nf_context *ctx, double distance, double similarity, double *radius, double *most);

/* Turns what the engine has delivered into what the caller gets: row numbers, and cosine distances. */
nf_status nf_question_finish_cosine(nf_question *question, nf_owned_batch *batch);

/* Puts the empty rows of zero queries into a batch, which may be empty itself. */
nf_status nf_question_merge_zero_rows(nf_question *question, nf_owned_batch *batch);

/* Moves the engine's counts, which are the first of the array, to the places of their queries; zero queries have 0. */
void nf_question_spread_counts(const nf_question *question, uint64_t *counts);

#endif
