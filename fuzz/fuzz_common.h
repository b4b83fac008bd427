/* SPDX-License-Identifier: Apache-2.0 */
/* What the targets of readers share: counted memory, a context of few bytes, the input as a file, files in memory. */
#ifndef NF_FUZZ_COMMON_H
#define NF_FUZZ_COMMON_H

#include <stddef.h>
#include <stdint.h>

#include "nearfield/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process where something does not hold; this is how a fuzzer and the replay are told. */
void fuzz_demand(int holds, const char *what);

/* One context for all inputs: one thread, a limit of 32 MiB, memory counted. */
nf_context *fuzz_context(void);

/* Bytes that the library holds now. */
size_t fuzz_live(void);

/* Demands that a call that failed left a text, and that its status is one of the list in nearfield/io.h. */
void fuzz_demand_error(nf_status status);

/* The input as a file in memory; the path is valid until the next call. */
const char *fuzz_input_path(const uint8_t *data, size_t size);

/* A path for a file of the library's, on a file system in memory; of this process alone. */
const char *fuzz_output_path(void);

#endif
