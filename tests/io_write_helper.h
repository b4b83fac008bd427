/* SPDX-License-Identifier: Apache-2.0 */
/* What the writer tests share: contexts, a folder of their own, and files read back without the library. */
#ifndef IO_WRITE_HELPER_H
#define IO_WRITE_HELPER_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "nearfield/io.h"

static inline nf_context *make_context(uint32_t threads)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.threads = threads;
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    return ctx;
}

/* An allocator that fails at its n-th call (from 0), and counts what is not given back. */
typedef struct failing_memory {
    int fail_at;
    int calls;
    int held;
} failing_memory;

static inline void *failing_alloc(void *user, size_t size, size_t align)
{
    failing_memory *memory = user;
    void           *block = NULL;
    if (memory->calls++ == memory->fail_at || posix_memalign(&block, align, size) != 0) return NULL;
    memory->held++;
    return block;
}

static inline void failing_release(void *user, void *block, size_t size, size_t align)
{
    (void)size;
    (void)align;
    failing_memory *memory = user;
    memory->held--;
    free(block);
}

/* A context of one thread with that allocator; it does not fail before memory->fail_at is set. */
static inline nf_context *make_failing_context(failing_memory *memory)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    *memory = (failing_memory){.fail_at = -1};
    nf_context_params_init(&params);
    params.threads = 1;
    params.allocator = (nf_allocator){failing_alloc, failing_release, memory};
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    return ctx;
}

/* A new empty folder. */
static inline void make_folder(char out[64])
{
    snprintf(out, 64, "/tmp/nearfield-test-XXXXXX");
    assert_non_null(mkdtemp(out));
}

static inline int count_files(const char *folder)
{
    DIR *dir = opendir(folder);
    int  count = 0;
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return count;
}

static inline void path_in(char out[128], const char *folder, const char *name)
{
    snprintf(out, 128, "%s/%s", folder, name);
}

static inline void remove_folder(const char *folder)
{
    char path[400];
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)unlink(path);
    }
    closedir(dir);
    assert_int_equal(rmdir(folder), 0);
}

/* A file in memory. */
typedef struct contents {
    uint8_t *data;
    size_t   size;
} contents;

static inline contents read_file(const char *path)
{
    contents    out = {NULL, 0};
    struct stat status;
    FILE       *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &status), 0);
    out.size = (size_t)status.st_size;
    out.data = malloc(out.size + 1);
    assert_non_null(out.data);
    assert_int_equal(fread(out.data, 1, out.size, file), out.size);
    out.data[out.size] = '\0';
    fclose(file);
    return out;
}

static inline void assert_file_is(const char *path, const void *bytes, size_t size)
{
    contents file = read_file(path);
    assert_int_equal(file.size, size);
    assert_memory_equal(file.data, bytes, size);
    free(file.data);
}

static inline void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static inline bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static inline void assert_error_has(const nf_context *ctx, const char *part)
{
    if (strstr(nf_context_error(ctx)->text, part) == NULL) {
        print_error("error is '%s', expected '%s' in it\n", nf_context_error(ctx)->text, part);
        fail();
    }
}

/* Little-endian number of so many bytes. */
static inline uint64_t number_at(const uint8_t *at, uint32_t bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

/* Pseudo-random numbers (xorshift). */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
