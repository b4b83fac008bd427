/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing .npz files whose sizes are known: a zip of stored (uncompressed) .npy members.
 *
 * Members are added first, which fixes every offset. Their values are then written at data_offset in any order; each
 * member's crc must become the CRC-32 of its values. nf_npz_finish adds everything around them.
 */
#ifndef NF_IO_NPZ_H
#define NF_IO_NPZ_H

#include <stdint.h>

#include "io_crc.h"
#include "io_file.h"
#include "io_npy_header.h"

#define NF_NPZ_MEMBERS_MAX 8
#define NF_ZIP64_LIMIT 0xffffffffu /* sizes and offsets from here on need 64-bit fields */

typedef struct nf_npz_member {
    char     name[24];     /* "indices.npy" */
    char     header[NF_NPY_HEADER_MAX];
    uint32_t header_bytes;
    uint32_t crc;          /* of the values */
    uint64_t bytes;        /* of the values */
    uint64_t offset;       /* of the member in the file */
    uint64_t data_offset;  /* of the values in the file */
} nf_npz_member;

typedef struct nf_npz {
    nf_npz_member member[NF_NPZ_MEMBERS_MAX];
    uint32_t      count;
    uint64_t      zip64_limit; /* NF_ZIP64_LIMIT; smaller ones are for tests */
    uint64_t      end;         /* where the next member, at last the directory, begins */
} nf_npz;

void nf_npz_init(nf_npz *npz, uint64_t zip64_limit);

/* Adds a member "name.npy" of the given type and shape; item_bytes is the size of one value. */
nf_npz_member *nf_npz_add(nf_npz *npz, const char *name, const char *descr, uint32_t item_bytes, const uint64_t *shape,
                          uint32_t axes);

/* Bytes of the whole file. */
uint64_t nf_npz_bytes(const nf_npz *npz);

/* Writes the members' headers, the directory and the end of the file. */
nf_status nf_npz_finish(const nf_npz *npz, nf_output *out, const nf_crc_table *crc);

#endif
