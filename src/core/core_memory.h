/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: every allocation of the library goes through an account, which counts bytes and holds a limit.
 *
 * A context has one account with the user's limit. What outlives the context (an index, a dataset, a result) takes an
 * account of its own, without a limit where the contract says that it does not count. Accounts are reference counted: each
 * block holds its account, so a block may be freed after the context is gone.
 * Blocks are aligned to 64 bytes.
 */
#ifndef NF_CORE_MEMORY_H
#define NF_CORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nearfield/context.h"

typedef struct nf_memory nf_memory;

/* Makes an account with one reference; NULL when the allocator has no memory. limit 0: none. */
nf_memory *nf_memory_create(const nf_allocator *allocator, uint64_t limit);
void nf_memory_retain(nf_memory *memory);
void nf_memory_release(nf_memory *memory);
uint64_t nf_memory_used(const nf_memory *memory);
uint64_t nf_memory_peak(const nf_memory *memory);
uint64_t nf_memory_limit(const nf_memory *memory);

/* The context's account, and an account of its own with the context's allocator and no limit (one reference). */
nf_memory *nf_context_memory(nf_context *ctx);
nf_memory *nf_memory_create_unlimited(nf_context *ctx);

/* Allocates count * size bytes under an account; contents undefined (zero: zeroed). On failure NULL, and the failure
 * (NF_ERR_LIMIT or NF_ERR_MEMORY, with the number of bytes) is recorded on ctx. count * size is checked for overflow. A
 * size of 0 gives a valid block. Any thread. */
void *nf_alloc_in(nf_context *ctx, nf_memory *memory, uint64_t count, size_t size);
void *nf_alloc_zero_in(nf_context *ctx, nf_memory *memory, uint64_t count, size_t size);

/* The same under the context's account. */
void *nf_alloc(nf_context *ctx, uint64_t count, size_t size);
void *nf_alloc_zero(nf_context *ctx, uint64_t count, size_t size);

/* Like nf_alloc, but records nothing on failure: for callers that can go on with less. */
void *nf_try_alloc(nf_context *ctx, uint64_t count, size_t size);

/* Frees a block of any of the above. NULL is fine. Any thread. */
void nf_free(void *block);

/* Returns whether a * b fits into 64 bits, and stores the product. */
bool nf_multiply(uint64_t a, uint64_t b, uint64_t *product);

/* The status that the last failed allocation of this call left on ctx: NF_ERR_MEMORY or NF_ERR_LIMIT. */
nf_status nf_alloc_status(const nf_context *ctx);

#endif
