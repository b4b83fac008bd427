/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of sealed files share: a folder, contents, and files whose checksums are made right again. */
#ifndef NF_TESTS_STORE_HELPER_H
#define NF_TESTS_STORE_HELPER_H

#include "io_write_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <xxhash.h>

#include "core/core_context.h"
#include "store/store_sealed.h"

#define HEADER 64
#define ENTRY 32
#define FOOTER 32
#define SUMS_TYPE 0xffffffffu

typedef struct fixture {
    nf_context *ctx;
    nf_memory  *memory; /* the account of what is opened */
    char        folder[64];
    char        path[128];
} fixture;

static inline int set_up(void **state)
{
    fixture *all = calloc(1, sizeof *all);
    all->ctx = make_context(1);
    all->memory = nf_memory_create(NULL, 0);
    make_folder(all->folder);
    path_in(all->path, all->folder, "index.nf");
    *state = all;
    return 0;
}

static inline int tear_down(void **state)
{
    fixture *all = *state;
    assert_int_equal(nf_memory_used(all->memory), 0);
    nf_memory_release(all->memory);
    nf_context_destroy(all->ctx);
    remove_folder(all->folder);
    free(all);
    return 0;
}

/* A new account, so that its peak is of what comes. */
static inline void new_account(fixture *all)
{
    assert_int_equal(nf_memory_used(all->memory), 0);
    nf_memory_release(all->memory);
    all->memory = nf_memory_create(NULL, 0);
}

/* Byte i is the top byte of i * 2654435761 modulo 2^32. */
static inline uint8_t *pattern(size_t bytes)
{
    uint8_t *out = malloc(bytes + 1);
    assert_non_null(out);
    for (size_t i = 0; i < bytes; i++) out[i] = (uint8_t)((uint32_t)i * 2654435761u >> 24);
    return out;
}

/* Not by fopen: some file systems flush a file that has been cut to nothing before it is written. */
static inline void put_bytes(const char *path, const void *data, size_t bytes)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, bytes, 0), bytes);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(close(fd), 0);
}

static inline nf_status write_sections(fixture *all, const nf_sealed_section *sections, uint32_t count)
{
    nf_context_begin(all->ctx);
    return nf_sealed_write(all->ctx, all->path, sections, count, false, NULL);
}

static inline nf_status open_as(fixture *all, bool map, nf_verify verify, nf_sealed_file **file)
{
    nf_context_begin(all->ctx);
    return nf_sealed_open(all->ctx, all->memory, all->path, map, verify, file);
}

static inline void assert_section_is(const nf_sealed_file *file, const nf_sealed_section *expected)
{
    const nf_sealed_section *section = nf_sealed_find(file, expected->type);
    assert_non_null(section);
    assert_int_equal(section->type, expected->type);
    assert_int_equal(section->flags, expected->flags);
    assert_int_equal(section->bytes, expected->bytes);
    assert_int_equal((uintptr_t)section->data % 64, 0);
    if (expected->bytes > 0) assert_memory_equal(section->data, expected->data, expected->bytes);
}

/* Adds up the sections and the 64 bytes behind each: a sanitizer or the system complains where one lies outside. */
static inline uint64_t touch_sections(const nf_sealed_file *file, uint32_t types)
{
    uint64_t sum = 0;
    for (uint32_t type = 0; type < types; type++) {
        const nf_sealed_section *section = nf_sealed_find(file, type);
        if (section == NULL) continue;
        const volatile uint8_t *bytes = section->data;
        for (uint64_t i = 0; i < section->bytes + 64; i++) sum += bytes[i];
    }
    return sum;
}

/* A number in the file. */
static inline void set_number(uint8_t *at, uint32_t bytes, uint64_t value)
{
    for (uint32_t i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint8_t *entry_at(const contents *file, uint32_t entry)
{
    return file->data + HEADER + entry * ENTRY;
}

/* Makes id, hash of the header and footer right for what the table says now, by docs/formats.md. */
static inline void reseal(const contents *file)
{
    uint8_t  ids[65 * 24], sums[65 * 8];
    uint32_t count = (uint32_t)number_at(file->data + 48, 4);
    uint8_t *footer = file->data + file->size - FOOTER;

    if (count < 1 || count > 65 || HEADER + count * ENTRY > file->size) count = 1;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(ids + 24 * i, entry_at(file, i), 8);
        memcpy(ids + 24 * i + 8, entry_at(file, i) + 16, 16);
        memcpy(sums + 8 * i, entry_at(file, i) + 24, 8);
    }
    const uint64_t id = XXH3_64bits(ids, 24 * (count - 1));
    set_number(file->data + 32, 8, id);
    set_number(footer + 16, 8, id);
    set_number(footer + 24, 8, XXH3_64bits(sums, 8 * count));
    set_number(file->data + 56, 8, 0);
    set_number(file->data + 56, 8, XXH3_64bits(file->data, HEADER + count * ENTRY));
}

#endif
