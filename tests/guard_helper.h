/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays between pages that may not be touched: a kernel that reads or writes one byte beyond crashes the test. Either the
 * end or the beginning of the array lies at such a page. (The sanitizers do not see what vector instructions load.)
 */
#ifndef NF_TESTS_GUARD_HELPER_H
#define NF_TESTS_GUARD_HELPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct guarded {
    unsigned char *map;
    size_t         map_bytes, inner_bytes, page;
    void          *data;
} guarded;

/* New memory holds 0xee. at_end: the array's end is at the forbidden page, else its beginning is. */
static inline guarded guard_open(size_t bytes, int at_end)
{
    guarded at = {.page = (size_t)sysconf(_SC_PAGESIZE)};
    at.inner_bytes = (bytes + at.page - 1) / at.page * at.page;
    if (at.inner_bytes == 0) at.inner_bytes = at.page;
    at.map_bytes = at.inner_bytes + 2 * at.page;
    at.map = mmap(NULL, at.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at.map != MAP_FAILED);
    assert_int_equal(mprotect(at.map + at.page, at.inner_bytes, PROT_READ | PROT_WRITE), 0);
    memset(at.map + at.page, 0xee, at.inner_bytes);
    at.data = at_end ? at.map + at.page + at.inner_bytes - bytes : at.map + at.page;
    return at;
}

/* From now on the array may only be read. */
static inline void guard_seal(const guarded *at)
{
    assert_int_equal(mprotect(at->map + at->page, at->inner_bytes, PROT_READ), 0);
}

static inline void guard_close(guarded *at)
{
    munmap(at->map, at->map_bytes);
    at->map = NULL;
}

#endif
