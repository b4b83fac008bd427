/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of pairs; see cpu_store.h for the layout. */
#include "cpu_store.h"

#define FIRST_BLOCKS 4u /* small ones, before a worker takes large ones */

static size_t block_bytes(uint32_t words)
{
    return sizeof(nf_pair_block) + words * sizeof(uint32_t);
}

nf_status nf_pairs_begin(nf_context *ctx, nf_store_pairs *store, uint32_t workers, uint64_t limit_bytes)
{
    const uint64_t least = workers * block_bytes(NF_BLOCK_WORDS); /* one block each must do for one group */

    nf_pairs_clear(store);
    store->newest = nf_alloc_zero(ctx, workers, sizeof *store->newest);
    store->counts = nf_alloc_zero(ctx, workers, sizeof *store->counts);
    if (store->newest == NULL || store->counts == NULL) return nf_alloc_status(ctx);
    store->ctx = ctx;
    store->workers = workers;
    store->limit = limit_bytes > least ? limit_bytes : least;
    atomic_store(&store->bytes, 0);
    atomic_store(&store->overflow, false);
    return NF_OK;
}

/* A block of that many words, or NULL where it would go over the store's limit or the context's. */
static nf_pair_block *try_block(nf_store_pairs *store, uint32_t words)
{
    const size_t   bytes = block_bytes(words);
    nf_pair_block *block = NULL;
    if (atomic_fetch_add(&store->bytes, bytes) + bytes <= store->limit) block = nf_try_alloc(store->ctx, 1, bytes);
    if (block == NULL) {
        atomic_fetch_sub(&store->bytes, bytes);
        return NULL;
    }
    block->used = 0;
    block->room = words;
    return block;
}

static nf_pair_block *new_block(nf_store_pairs *store, uint32_t worker)
{
    nf_pair_block *block = NULL;
    if (store->counts[worker] >= FIRST_BLOCKS) block = try_block(store, NF_LARGE_BLOCK_WORDS);
    if (block == NULL) block = try_block(store, NF_BLOCK_WORDS);
    if (block == NULL) {
        atomic_store(&store->overflow, true);
        return NULL;
    }
    block->next = store->newest[worker];
    store->newest[worker] = block;
    store->counts[worker]++;
    return block;
}

uint32_t *nf_pairs_reserve(nf_store_pairs *store, uint32_t worker, uint32_t words)
{
    nf_pair_block *block = store->newest[worker];
    if (block == NULL || words > block->room - block->used) block = new_block(store, worker);
    return block != NULL ? block->words + block->used : NULL;
}

void nf_pairs_commit(nf_store_pairs *store, uint32_t worker, uint32_t words)
{
    store->newest[worker]->used += words;
}

void nf_pairs_clear(nf_store_pairs *store)
{
    for (uint32_t worker = 0; worker < store->workers; worker++) {
        for (nf_pair_block *block = store->newest[worker]; block != NULL;) {
            nf_pair_block *next = block->next;
            nf_free(block);
            block = next;
        }
    }
    nf_free(store->newest);
    nf_free(store->counts);
    store->newest = NULL;
    store->counts = NULL;
    store->workers = 0;
}

nf_status nf_pairs_list(nf_context *ctx, const nf_store_pairs *store, nf_pair_block ***blocks, uint64_t *count)
{
    uint64_t used = 0, total = 0;
    for (uint32_t worker = 0; worker < store->workers; worker++) total += store->counts[worker];
    *count = 0;
    *blocks = nf_alloc(ctx, total, sizeof **blocks);
    if (*blocks == NULL) return nf_alloc_status(ctx);
    for (uint32_t worker = 0; worker < store->workers; worker++) {
        for (nf_pair_block *block = store->newest[worker]; block != NULL; block = block->next) (*blocks)[used++] = block;
    }
    *count = used;
    return NF_OK;
}
