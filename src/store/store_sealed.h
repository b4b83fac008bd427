/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed files: a header, a table of sections, the sections, checksums, a footer. docs/formats.md has the layout byte
 * by byte. Written atomically; never changed afterwards. What a section means is its owner's business (src/ivf).
 *
 * Nothing in a file is trusted: header and table are copied before they are checked; offsets and lengths are checked
 * against the file's length before anything is allocated; padding between sections must be zero. A file that passes is
 * undamaged, not true: checksums can be computed by anyone, so the owner checks what its sections say.
 */
#ifndef NF_STORE_SEALED_H
#define NF_STORE_SEALED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core_context.h"
#include "core/core_memory.h"
#include "nearfield/ivf.h"

#define NF_SEALED_MAX_SECTIONS 64u
#define NF_SEALED_REQUIRED 1u /* section flag: a reader that does not know the type must refuse the file */

typedef struct nf_sealed_section {
    uint32_t    type;  /* chosen by the owner, 1 to 2^32 - 2; ascending in the file, each at most once */
    uint32_t    flags; /* 0 or NF_SEALED_REQUIRED; a file may hold others, which mean nothing here */
    const void *data;  /* bytes 0: NULL when written, a valid address when read */
    uint64_t    bytes;
} nf_sealed_section;

typedef struct nf_sealed_info {
    uint64_t bytes;   /* of the file */
    uint64_t file_id; /* of the content: the types, flags, lengths and XXH3-64 of the sections */
    uint16_t major, minor;
} nf_sealed_info;

typedef struct nf_sealed_file nf_sealed_file;

/*
 * Writes a file of these sections (ascending types). sync: fsync file and folder before it returns. info may be NULL.
 * The bytes depend on the sections alone. Memory: 8 bytes per MiB. Progress: "checksum", then "write", in bytes.
 * NF_ERR_ARGUMENT (types, flags, count), NF_ERR_IO, NF_ERR_MEMORY, NF_ERR_LIMIT, NF_ERR_CANCELLED.
 */
nf_status nf_sealed_write(nf_context *ctx, const char *path, const nf_sealed_section *sections, uint32_t count,
                          bool sync, nf_sealed_info *info);

/* What nf_sealed_write would write: bytes and id, without writing; zeros for what it would refuse as too much.
 * Hashes the sections on the calling thread. */
void nf_sealed_measure(const nf_sealed_section *sections, uint32_t count, nf_sealed_info *info);

/*
 * Opens a file. Sections lie in memory of the account (one block for the file, and less than 4 KiB) or, with map, in
 * the mapped file; each begins at a multiple of 64 bytes, and at least 64 bytes behind it can be read. verify FULL:
 * every checksum and every padding byte is looked at; STRUCTURE: header, table, footer. Progress: "read", "verify", in
 * bytes.
 * NF_ERR_FORMAT: not such a file. NF_ERR_VERSION: needs a newer reader. NF_ERR_DAMAGED: the text names what and where.
 * NF_ERR_IO (also: not a regular file), NF_ERR_MEMORY, NF_ERR_LIMIT, NF_ERR_CANCELLED.
 */
nf_status nf_sealed_open(nf_context *ctx, nf_memory *memory, const char *path, bool map, nf_verify verify,
                         nf_sealed_file **out);

/* The section of a type, or NULL. Valid until close. */
const nf_sealed_section *nf_sealed_find(const nf_sealed_file *file, uint32_t type);

/* The first section that is REQUIRED and not among known[count]; NULL: none. */
const nf_sealed_section *nf_sealed_unknown(const nf_sealed_file *file, const uint32_t *known, uint32_t count);

void nf_sealed_describe(const nf_sealed_file *file, nf_sealed_info *info);

/* May be NULL. */
void nf_sealed_close(nf_sealed_file *file);

#endif
