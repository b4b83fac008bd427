/* SPDX-License-Identifier: Apache-2.0 */
/* The dataset object: a matrix with what keeps it alive, and the file rows that its rows came from. */
#ifndef NF_IO_DATASET_H
#define NF_IO_DATASET_H

#include "io_read.h"

struct nf_dataset {
    nf_matrix  matrix;
    nf_mapping file;   /* mapped while the matrix is a view on it; else empty */
    void      *values; /* the matrix's memory when it is not a view; else NULL */
    int64_t   *ids;    /* file row of each row; NULL: first, first + 1, ... */
    uint64_t   first;
    uint64_t   file_rows;
    uint64_t   skipped;
};

/* Lists the file rows first + i with keep[i] != 0 in dataset->ids, and counts the others in dataset->skipped. Does
 * nothing when all are kept. */
nf_status nf_dataset_set_kept(nf_context *ctx, nf_dataset *dataset, const uint8_t *keep, uint64_t count);

#endif
