/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of sections: whole, and per MiB. XXH3-64 finds damage; whoever changes a file on purpose can compute it. */
#ifndef NF_STORE_CHECKSUM_H
#define NF_STORE_CHECKSUM_H

#include <stdint.h>

#include "store_sealed.h"

/* XXH3-64 with seed 0. */
uint64_t nf_sealed_hash(const void *data, uint64_t bytes);

/*
 * Computes on all threads section_sums[i], of section i as a whole, and chunk_sums, of each MiB of section 0, of
 * section 1, and so on. The bytes count as progress of the step that runs.
 */
nf_status nf_sealed_checksums(nf_context *ctx, const nf_sealed_section *sections, uint32_t count,
                              uint64_t *section_sums, uint64_t *chunk_sums);

#endif
