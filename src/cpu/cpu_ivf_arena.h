/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays carved out of one block, so that a search of one query does not spend its time in the allocator: the same function
 * lays them out twice, first without a block to find its size. */
#ifndef NF_CPU_IVF_ARENA_H
#define NF_CPU_IVF_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "core/core_context.h"
#include "core/core_memory.h"

typedef struct nf_arena {
    char    *block; /* NULL while the size is found */
    uint64_t bytes; /* carved so far */
} nf_arena;

/* The next count * size bytes, aligned to 64; NULL without a block. Counts and sizes are bounded by their callers: k, probes,
 * lists and padded dims have limits whose products stay far below 2^64. */
static inline void *nf_carve(nf_arena *arena, uint64_t count, size_t size)
{
    void *at = arena->block != NULL ? arena->block + arena->bytes : NULL;
    arena->bytes += (count * size + 63) / 64 * 64;
    return at;
}

#endif
