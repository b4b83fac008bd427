/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of an index file. docs/formats.md has the layout. */
#ifndef NF_IVF_FILE_H
#define NF_IVF_FILE_H

#include "ivf_index.h"

/* Numbers of the format: never change them. */
typedef enum nf_ivf_section {
    NF_IVF_SECTION_PARAMS = 1,
    NF_IVF_SECTION_MEAN = 2,
    NF_IVF_SECTION_ROTATION = 3,
    NF_IVF_SECTION_CENTROIDS = 4,
    NF_IVF_SECTION_LISTS = 5,
    NF_IVF_SECTION_BLOCKS = 6,
    NF_IVF_SECTION_RECORDS = 7,
    NF_IVF_SECTION_IDS = 8,
    NF_IVF_SECTION_RECALL = 9,
    NF_IVF_SECTION_VECTORS = 10
} nf_ivf_section;

#define NF_IVF_SECTIONS 10u
#define NF_IVF_PARAMS_BYTES 64u

/* What the section of parameters holds. */
typedef struct nf_ivf_file_params {
    uint64_t rows, seed;
    uint32_t dims, padded, lists, bits, metric, rotation;
    uint32_t wide_ids, user_ids, keep_vectors, vectors_dtype, recall_points, reserved;
} nf_ivf_file_params;

/* Name of a section: "centroids". Static string. */
const char *nf_ivf_section_name(uint32_t type);

/* A file that is being opened. */
typedef struct nf_ivf_opening {
    nf_context   *ctx;
    const char   *path; /* for errors */
    nf_ivf_index *index;
} nf_ivf_opening;

/* Checks parameters from a file: every number in its range, so that no product of them overflows. NF_ERR_DAMAGED. */
nf_status nf_ivf_check_params(const nf_ivf_opening *at, const nf_ivf_file_params *params);

/* Checks what every use relies on: list starts; mean, centroids, rotation matrix, table of recall. NF_ERR_DAMAGED. */
nf_status nf_ivf_check_lists(const nf_ivf_opening *at);
nf_status nf_ivf_check_tables(const nf_ivf_opening *at);

/* Checks every row: factors are finite, filling is zero, ids and vectors are possible. NF_ERR_DAMAGED. */
nf_status nf_ivf_check_rows(nf_ivf_opening *at);

#endif
