/* SPDX-License-Identifier: Apache-2.0 */
/* Reading graphs: the entry for tests and fuzzing. */
#ifndef NF_IO_GRAPH_H
#define NF_IO_GRAPH_H

#include "io_read.h"

/* nf_read_graph for a file's bytes in memory. name stands in for the path. */
nf_status nf_read_graph_memory(nf_context *ctx, const char *name, const char *format, const void *data, uint64_t bytes,
                               nf_graph **out);

#endif
