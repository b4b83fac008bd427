/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of pairs; see cpu_store.h for the layout. */
#include "cpu_store.h"

nf_status nf_pairs_begin(nf_context *ctx, nf_store_pairs *store, uint32_t workers, uint64_t limit_bytes)
{
    nf_pairs_clear(store);
    store->newest = nf_alloc_zero(ctx, workers, sizeof *store->newest);
    if (store->newest == NULL) return nf_alloc_status(ctx);
    store->ctx = ctx;
    store->workers = workers;
    store->limit_blocks = limit_bytes / sizeof(nf_pair_block);
    if (store->limit_blocks < workers) store->limit_blocks = workers; /* one block each must do for one group */
    atomic_store(&store->blocks, 0);
    atomic_store(&store->overflow, false);
    return NF_OK;
}

static nf_pair_block *new_block(nf_store_pairs *store, uint32_t worker)
{
    if (atomic_fetch_add(&store->blocks, 1) >= store->limit_blocks) {
        atomic_store(&store->overflow, true);
        return NULL;
    }
    nf_pair_block *block = nf_try_alloc(store->ctx, 1, sizeof *block);
    if (block == NULL) { /* the limit of the context came first: the same as this store's own */
        atomic_store(&store->overflow, true);
        return NULL;
    }
    block->next = store->newest[worker];
    block->used = 0;
    store->newest[worker] = block;
    return block;
}

uint32_t *nf_pairs_reserve(nf_store_pairs *store, uint32_t worker, uint32_t words)
{
    nf_pair_block *block = store->newest[worker];
    if (block == NULL || words > NF_BLOCK_WORDS - block->used) block = new_block(store, worker);
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
    store->newest = NULL;
    store->workers = 0;
}

nf_status nf_pairs_list(nf_context *ctx, const nf_store_pairs *store, nf_pair_block ***blocks, uint64_t *count)
{
    uint64_t used = 0;
    *count = 0;
    *blocks = nf_alloc(ctx, atomic_load(&store->blocks), sizeof **blocks);
    if (*blocks == NULL) return nf_alloc_status(ctx);
    for (uint32_t worker = 0; worker < store->workers; worker++) {
        for (nf_pair_block *block = store->newest[worker]; block != NULL; block = block->next) {
            (*blocks)[used++] = block;
        }
    }
    *count = used;
    return NF_OK;
}
