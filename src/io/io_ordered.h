/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding in parallel, appending in order. */
#ifndef NF_IO_ORDERED_H
#define NF_IO_ORDERED_H

#include <stddef.h>
#include <stdint.h>

#include "io_file.h"

/* What one worker encodes into before it is written. */
#define NF_IO_BUFFER_BYTES ((size_t)256 << 10)

/* Encodes a task's bytes into buffer (NF_IO_BUFFER_BYTES) and stores how many they are. A failure goes into *error
 * (nf_error_set), not on the context: so the first in the file's order is reported, whichever thread comes first. */
typedef nf_status (*nf_encode_fn)(const void *arg, uint64_t task, char *buffer, size_t *length, nf_error *error);

/* Appends the bytes of tasks 0 .. task_count - 1 to out. buffers: nf_pool_workers(ctx, task_count) times
 * NF_IO_BUFFER_BYTES. units: progress of the whole. */
nf_status nf_ordered_append(nf_output *out, nf_encode_fn encode, const void *arg, uint64_t task_count, char *buffers,
                            uint64_t units);

#endif
