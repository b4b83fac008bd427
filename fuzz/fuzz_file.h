/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed files as bytes in memory: checksums made right again, and taken apart and put together for the mutator. */
#ifndef NF_FUZZ_FILE_H
#define NF_FUZZ_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "store/store_layout.h"

/* A section, with memory of its own. */
typedef struct fuzz_section {
    uint32_t type, flags;
    uint8_t *data;
    size_t   bytes;
} fuzz_section;

typedef struct fuzz_file {
    uint32_t     count;
    fuzz_section sections[NF_SEALED_MAX_SECTIONS];
} fuzz_file;

/* Computes every checksum anew (sections, each MiB, id, header, footer) where what it is of lies inside the file.
 * Nothing else is changed: a length or an offset that was wrong stays wrong. */
void fuzz_reseal(uint8_t *file, size_t bytes);

/* Copies the sections that the table names and that lie inside the file. No section at all: count 0. */
void fuzz_take(const uint8_t *file, size_t bytes, fuzz_file *parts);

/* Writes a whole file of these sections; returns its bytes, 0 where there is no room. */
size_t fuzz_write(const fuzz_file *parts, uint8_t *out, size_t room);

/* The section of a type, or NULL. */
fuzz_section *fuzz_find(fuzz_file *parts, uint32_t type);

/* Gives a section a new length: what it held is repeated, zeros where it held nothing. */
void fuzz_resize(fuzz_section *section, size_t bytes);

void fuzz_free(fuzz_file *parts);

#endif
