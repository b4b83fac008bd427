/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of neighbour files share: the set, and members of .npz files. */
#ifndef NF_IO_NEIGHBOURS_H
#define NF_IO_NEIGHBOURS_H

#include "io_read.h"

struct nf_neighbour_set {
    uint64_t  queries;
    uint32_t  k;
    uint32_t  squared;
    int64_t  *ids;       /* queries x k */
    double   *distances; /* queries x k, or NULL */
    uint32_t *counts;    /* queries */
};

/* nf_read_neighbours for a file's bytes in memory: the entry for tests and fuzzing. name stands in for the path. */
nf_status nf_read_neighbours_memory(nf_context *ctx, const char *name, const char *format, const void *data,
                                    uint64_t bytes, nf_neighbour_set **out);

#define NF_ZIP_NAME_MAX 64

/* A member of a zip file, unpacked. */
typedef struct nf_zip_member {
    const uint8_t *data; /* in the file's bytes, or in unpacked */
    uint64_t       bytes;
    uint8_t       *unpacked; /* to be released by nf_free; NULL for a stored member */
} nf_zip_member;

/* Finds the member of that name, checks it and unpacks it. *found is false when there is none. NF_ERR_FORMAT. */
nf_status nf_zip_member_open(nf_context *ctx, const nf_mapping *file, const char *name, nf_zip_member *member,
                             bool *found);
void      nf_zip_member_close(nf_zip_member *member);

#endif
