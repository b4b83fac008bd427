/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory accounts. A block is preceded by a 64-byte head that holds its size and account:
 *
 *     [ account | bytes of the whole block | ... ][ user's bytes, aligned to 64 ]
 *
 * Blocks of 3 MiB and more are aligned to 2 MiB and offered to the kernel for huge pages: the scatter of results and the
 * gather of rows touch memory at random, and page walks would dominate them.
 */
#include "core_memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core_context_private.h"

#define HEAD_BYTES 64
#define HUGE_PAGE ((size_t)2 << 20)
#define LARGE_BLOCK (HUGE_PAGE + HUGE_PAGE / 2)

struct nf_memory {
    nf_allocator         allocator;
    uint64_t             limit;
    atomic_uint_fast64_t used, peak;
    atomic_uint          references;
};

typedef struct block_head {
    nf_memory *memory;
    uint64_t   bytes;
    uint64_t   align;
} block_head;

/* Whole huge pages, straight from the kernel: malloc would keep freed blocks of this size in its heap, and the process would
 * hold memory that the account has given back. Alignment is had by mapping more and giving back both ends. */
static void *map_huge(size_t size)
{
    const size_t mapped = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE + HUGE_PAGE;
    char        *start = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    const size_t before = (HUGE_PAGE - (uintptr_t)start % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0) munmap(start, before);
    munmap(start + before + mapped - HUGE_PAGE, HUGE_PAGE - before);
    (void)madvise(start + before, mapped - HUGE_PAGE, MADV_HUGEPAGE); /* advice only */
    return start + before;
}

static void *system_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    if (align == HUGE_PAGE) return map_huge(size);
    void *block = NULL;
    return posix_memalign(&block, align, size) == 0 ? block : NULL;
}

static void system_release(void *user, void *ptr, size_t size, size_t align)
{
    (void)user;
    if (align == HUGE_PAGE) {
        munmap(ptr, (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    } else {
        free(ptr);
    }
}

nf_memory *nf_memory_create(const nf_allocator *allocator, uint64_t limit)
{
    nf_allocator use = {system_alloc, system_release, NULL};
    if (allocator != NULL && allocator->alloc != NULL) use = *allocator;
    nf_memory *memory = use.alloc(use.user, sizeof *memory, HEAD_BYTES);
    if (memory == NULL) return NULL;
    memory->allocator = use;
    memory->limit = limit;
    atomic_init(&memory->used, 0);
    atomic_init(&memory->peak, 0);
    atomic_init(&memory->references, 1);
    return memory;
}

void nf_memory_retain(nf_memory *memory)
{
    atomic_fetch_add(&memory->references, 1);
}

void nf_memory_release(nf_memory *memory)
{
    if (memory == NULL || atomic_fetch_sub(&memory->references, 1) != 1) return;
    const nf_allocator use = memory->allocator;
    use.release(use.user, memory, sizeof *memory, HEAD_BYTES);
}

uint64_t nf_memory_used(const nf_memory *memory)
{
    return atomic_load(&memory->used);
}

uint64_t nf_memory_peak(const nf_memory *memory)
{
    return atomic_load(&memory->peak);
}

uint64_t nf_memory_limit(const nf_memory *memory)
{
    return memory->limit;
}

bool nf_multiply(uint64_t a, uint64_t b, uint64_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

/* Books bytes; false when they would go over the limit. */
static bool book(nf_memory *memory, uint64_t bytes)
{
    uint64_t used = atomic_load(&memory->used);
    do {
        if (memory->limit != 0 && (bytes > memory->limit || used > memory->limit - bytes)) return false;
    } while (!atomic_compare_exchange_weak(&memory->used, &used, used + bytes));

    uint64_t peak = atomic_load(&memory->peak);
    while (used + bytes > peak && !atomic_compare_exchange_weak(&memory->peak, &peak, used + bytes)) {}
    return true;
}

/* ctx NULL: records nothing. */
static void *allocate(nf_context *ctx, nf_memory *memory, uint64_t count, size_t size)
{
    uint64_t bytes;
    if (!nf_multiply(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        if (ctx != NULL) {
            nf_fail(ctx, NF_ERR_MEMORY, "%llu values of %zu bytes are more than this machine can address",
                    (unsigned long long)count, size);
        }
        return NULL;
    }
    bytes += HEAD_BYTES;
    const size_t align = bytes >= LARGE_BLOCK ? HUGE_PAGE : HEAD_BYTES;
    if (!book(memory, bytes)) {
        if (ctx != NULL) {
            nf_fail(ctx, NF_ERR_LIMIT, "%llu more bytes are needed, but the memory limit is %llu bytes and %llu are in use",
                    (unsigned long long)bytes, (unsigned long long)memory->limit,
                    (unsigned long long)nf_memory_used(memory));
        }
        return NULL;
    }
    char *block = memory->allocator.alloc(memory->allocator.user, (size_t)bytes, align);
    if (block == NULL) {
        atomic_fetch_sub(&memory->used, bytes);
        if (ctx != NULL) nf_fail(ctx, NF_ERR_MEMORY, "no memory for %llu bytes", (unsigned long long)bytes);
        return NULL;
    }
    block_head *head = (block_head *)(void *)block;
    head->memory = memory;
    head->bytes = bytes;
    head->align = align;
    nf_memory_retain(memory);
    return block + HEAD_BYTES;
}

void *nf_alloc_in(nf_context *ctx, nf_memory *memory, uint64_t count, size_t size)
{
    return allocate(ctx, memory, count, size);
}

void *nf_alloc_zero_in(nf_context *ctx, nf_memory *memory, uint64_t count, size_t size)
{
    void *block = allocate(ctx, memory, count, size);
    if (block != NULL) memset(block, 0, (size_t)(count * size));
    return block;
}

void *nf_alloc(nf_context *ctx, uint64_t count, size_t size)
{
    return allocate(ctx, ctx->memory, count, size);
}

void *nf_alloc_zero(nf_context *ctx, uint64_t count, size_t size)
{
    return nf_alloc_zero_in(ctx, ctx->memory, count, size);
}

void *nf_try_alloc(nf_context *ctx, uint64_t count, size_t size)
{
    return allocate(NULL, ctx->memory, count, size);
}

void nf_free(void *block)
{
    if (block == NULL) return;
    char      *start = (char *)block - HEAD_BYTES;
    block_head head = *(block_head *)(void *)start;
    head.memory->allocator.release(head.memory->allocator.user, start, (size_t)head.bytes, (size_t)head.align);
    atomic_fetch_sub(&head.memory->used, head.bytes);
    nf_memory_release(head.memory);
}

nf_memory *nf_context_memory(nf_context *ctx)
{
    return ctx->memory;
}

nf_memory *nf_memory_create_unlimited(nf_context *ctx)
{
    nf_memory *memory = nf_memory_create(&ctx->params.allocator, 0);
    if (memory == NULL) nf_fail(ctx, NF_ERR_MEMORY, "no memory for an account");
    return memory;
}

nf_status nf_alloc_status(const nf_context *ctx)
{
    const int status = atomic_load(&ctx->failed);
    return status == NF_ERR_LIMIT ? NF_ERR_LIMIT : NF_ERR_MEMORY;
}
