/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pairs that refine keeps until they are delivered: runs of data positions, one query position each.
 *
 * Every worker appends to blocks of its own, without locks. A block is a stream of 32-bit words:
 *
 *     [ row position | count | data position * count ] [ row position | count | ... ] ...
 *
 * A run lists neighbours of its row. With NF_RUN_PENDING set in the count, each of its pairs stands for both directions (in
 * a half join: for the direction from the lower id), and both rows are in the batch: deliver writes the other one. Refine
 * uses pending runs where a tile holds few pairs, 4 bytes for two directions, and plain runs for both directions where it
 * holds many, which deliver copies a run at a time. All blocks together stay below a limit; when it is
 * reached the store says so, and the caller starts again with a smaller batch: nothing is dropped.
 */
#ifndef NF_CPU_STORE_H
#define NF_CPU_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core_context.h"

#define NF_BLOCK_WORDS (1u << 16)       /* of a worker's first blocks: 256 KiB */
#define NF_LARGE_BLOCK_WORDS ((1u << 20) - 64u) /* of later ones: just below 4 MiB, two huge pages */
#define NF_RUN_PENDING 0x80000000u

typedef struct nf_pair_block {
    struct nf_pair_block *next;
    uint32_t              used, room; /* words */
    uint32_t              words[];
} nf_pair_block;

typedef struct nf_store_pairs {
    nf_context          *ctx;
    nf_pair_block      **newest;  /* per worker */
    uint32_t            *counts;  /* blocks, per worker */
    uint32_t             workers;
    uint64_t             limit;   /* bytes */
    atomic_uint_fast64_t bytes;
    atomic_bool          overflow;
} nf_store_pairs;

/* Empties the store and gets it ready for that many workers and bytes. */
nf_status nf_pairs_begin(nf_context *ctx, nf_store_pairs *store, uint32_t workers, uint64_t limit_bytes);

/* Room for at least words words for a worker, or NULL: on overflow, or (recorded on the context) without memory. What has
 * been written there counts after nf_pairs_commit. */
uint32_t *nf_pairs_reserve(nf_store_pairs *store, uint32_t worker, uint32_t words);
void nf_pairs_commit(nf_store_pairs *store, uint32_t worker, uint32_t words);

/* Frees everything. */
void nf_pairs_clear(nf_store_pairs *store);

/* Collects the blocks into an array (the caller frees it with nf_free), for tasks over blocks. */
nf_status nf_pairs_list(nf_context *ctx, const nf_store_pairs *store, nf_pair_block ***blocks, uint64_t *count);

#endif
