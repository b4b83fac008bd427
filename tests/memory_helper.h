/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator for tests: counts what is alive, fills new memory with a pattern, and at the n-th allocation fails or
 * cancels a context.
 */
#ifndef NF_TESTS_MEMORY_HELPER_H
#define NF_TESTS_MEMORY_HELPER_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "nearfield/context.h"

typedef struct memory_hook {
    atomic_long live_blocks, live_bytes, calls, mismatches;
    long        fail_at;          /* this call and no other fails; 0: none */
    long        fail_from;        /* this call and all later ones fail; 0: none */
    long        cancel_at;        /* this call cancels cancelled; 0: none */
    nf_context *cancelled;
} memory_hook;

/* Size and alignment are kept in front of the block, so that release can compare. */
typedef struct memory_note {
    size_t size, align;
} memory_note;

static inline void *memory_hook_alloc(void *user, size_t size, size_t align)
{
    memory_hook *hook = user;
    const long   call = atomic_fetch_add(&hook->calls, 1) + 1;
    void        *base = NULL;

    if (hook->cancel_at != 0 && call == hook->cancel_at) nf_context_cancel(hook->cancelled);
    if (call == hook->fail_at || (hook->fail_from != 0 && call >= hook->fail_from)) return NULL;
    if (posix_memalign(&base, align, align + size) != 0) return NULL;
    char *block = (char *)base + align;
    memcpy(block - sizeof(memory_note), &(memory_note){size, align}, sizeof(memory_note));
    memset(block, 0xa5, size);
    atomic_fetch_add(&hook->live_blocks, 1);
    atomic_fetch_add(&hook->live_bytes, (long)size);
    return block;
}

static inline void memory_hook_release(void *user, void *block, size_t size, size_t align)
{
    memory_hook *hook = user;
    memory_note  note;
    memcpy(&note, (char *)block - sizeof note, sizeof note);
    if (note.size != size || note.align != align) atomic_fetch_add(&hook->mismatches, 1);
    atomic_fetch_sub(&hook->live_blocks, 1);
    atomic_fetch_sub(&hook->live_bytes, (long)note.size);
    free((char *)block - note.align);
}

static inline nf_allocator memory_hook_allocator(memory_hook *hook)
{
    return (nf_allocator){.alloc = memory_hook_alloc, .release = memory_hook_release, .user = hook};
}

#endif
