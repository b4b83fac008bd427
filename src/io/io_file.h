/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output files that appear complete or not at all.
 *
 * A regular file is written under a temporary name in the same folder and renamed by commit; until then, and after any
 * failure, an old file of that name stays as it was. "-" (standard output), pipes and devices are written directly.
 *
 * Bytes are appended in order (buffered), or, after nf_output_positioned, put at any place from any thread. A file
 * takes one of the two ways, not both.
 */
#ifndef NF_IO_FILE_H
#define NF_IO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nearfield/context.h"

typedef struct nf_output {
    nf_context *ctx;
    const char *name;      /* for messages: the caller's path, or "standard output" */
    char       *target;    /* where commit renames to; NULL when written directly */
    char       *temporary; /* the name until then; NULL when there is none left to remove */
    char       *buffer;
    size_t      fill;
    int         fd;
    int         spool_for; /* the descriptor that commit copies the spooled bytes to; -1 without a spool */
    bool        borrowed;  /* the descriptor is the process's, and not closed */
} nf_output;

/* Opens path for writing. NF_ERR_IO: a folder, no permission, no such folder. After a failure there is nothing to
 * discard. path must outlive *out. */
nf_status nf_output_open(nf_context *ctx, const char *path, nf_output *out);

/* Whether bytes can be put at any place without a detour. */
bool nf_output_is_regular(const nf_output *out);

/* Makes nf_output_write_at possible: what cannot be positioned is spooled in a nameless temporary file in TMPDIR. */
nf_status nf_output_positioned(nf_output *out);

/* Takes the space for a file of so many bytes now, where the file system can, so that a full disk shows at once. */
nf_status nf_output_reserve(nf_output *out, uint64_t bytes);

/* Appends bytes. One thread at a time. */
nf_status nf_output_append(nf_output *out, const void *data, size_t bytes);

/* Writes bytes at a place. Any thread. */
nf_status nf_output_write_at(nf_output *out, uint64_t offset, const void *data, size_t bytes);

/* Finishes: everything written (and with sync on disk), closed, and under its name. */
nf_status nf_output_commit(nf_output *out, bool sync);

/* Closes and removes what was not committed. Does nothing after a commit. */
void nf_output_discard(nf_output *out);

#endif
