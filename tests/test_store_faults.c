/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed files that are cut, changed or made to deceive; writing without memory, without space, and killed.
 *
 * What must hold: a damaged file is refused with full verification; without it, an opened file's sections still lie
 * inside it; nothing is allocated by a number that the length of the file does not bear out; the old file stays until
 * the new one is complete.
 */
#include "store_helper.h"

#include <time.h>

#include "memory_helper.h"
#include "random_helper.h"

#define SMALL_TYPES 10 /* above all types of make_small */
#define SMALL_BYTES 2624

/* A file of SMALL_BYTES bytes in memory and at all->path: sections 1, 2 (empty), 5 and 9. */
static contents make_small(fixture *all)
{
    uint8_t                *data = pattern(2000);
    const nf_sealed_section sections[] = {{1, NF_SEALED_REQUIRED, data, 100}, {2, 0, data, 0}, {5, 1, data, 1999},
                                          {9, 0, data + 7, 64}};
    assert_int_equal(write_sections(all, sections, 4), NF_OK);
    contents file = read_file(all->path);
    assert_int_equal(file.size, SMALL_BYTES);
    free(data);
    return file;
}

/* 3.5 MiB in three sections. */
#define LARGE_SECTIONS 3
static contents make_large(fixture *all)
{
    uint8_t                *data = pattern(3 << 20);
    const nf_sealed_section sections[LARGE_SECTIONS] = {{1, 1, data, 70000}, {4, 0, data, (3 << 20) - 17},
                                                        {6, 0, data, 300000}};
    assert_int_equal(write_sections(all, sections, LARGE_SECTIONS), NF_OK);
    free(data);
    return read_file(all->path);
}

static void assert_refused(fixture *all, bool map, nf_verify verify, nf_status expected)
{
    nf_sealed_file *file = NULL;
    assert_int_equal(open_as(all, map, verify, &file), expected);
    assert_null(file);
    assert_int_equal(nf_memory_used(all->memory), 0);
}

/* Refused in every way of opening, and without memory for it. */
static void assert_refused_always(fixture *all, nf_status expected)
{
    new_account(all);
    for (int map = 0; map < 2; map++) {
        assert_refused(all, map, NF_VERIFY_FULL, expected);
        assert_refused(all, map, NF_VERIFY_STRUCTURE, expected);
    }
    assert_int_equal(nf_memory_peak(all->memory), 0);
}

static void test_cut_everywhere(void **state)
{
    fixture *all = *state;
    contents file = make_small(all);

    for (size_t bytes = file.size; bytes-- > 0;) {
        assert_int_equal(truncate(all->path, (off_t)bytes), 0);
        assert_refused_always(all, bytes < 5 ? NF_ERR_FORMAT : NF_ERR_DAMAGED);
    }
    free(file.data);
}

static void test_appended(void **state)
{
    fixture *all = *state;
    contents file = make_small(all);

    for (size_t more = 1; more <= 130; more++) {
        assert_int_equal(truncate(all->path, (off_t)(file.size + more)), 0); /* zeros */
        assert_refused_always(all, NF_ERR_DAMAGED);
    }
    put_bytes(all->path, file.data, file.size);
    FILE *stream = fopen(all->path, "ab");
    assert_int_equal(fwrite(file.data, 1, file.size, stream), file.size);
    assert_int_equal(fclose(stream), 0);
    assert_refused_always(all, NF_ERR_DAMAGED);
    assert_error_has(all->ctx, "has 5248 bytes, but its header says 2624");
    free(file.data);
}

/* What a file with some damage does without full verification: it may open, but then its sections lie inside it. */
static void open_anyhow(fixture *all, bool map, size_t bytes)
{
    nf_sealed_file *file = NULL;
    new_account(all);
    if (open_as(all, map, NF_VERIFY_STRUCTURE, &file) == NF_OK) {
        (void)touch_sections(file, SMALL_TYPES);
        nf_sealed_close(file);
    } else {
        assert_null(file);
    }
    assert_in_range(nf_memory_peak(all->memory), 0, bytes + 4096);
}

static void test_every_bit(void **state)
{
    fixture  *all = *state;
    contents  file = make_small(all);
    const int fd = open(all->path, O_WRONLY);

    assert_true(fd >= 0);
    for (size_t bit = 0; bit < 8 * file.size; bit++) {
        const uint8_t changed = (uint8_t)(file.data[bit / 8] ^ 1u << bit % 8);
        nf_sealed_file *opened = NULL;
        assert_int_equal(pwrite(fd, &changed, 1, (off_t)(bit / 8)), 1);
        const nf_status status = open_as(all, bit % 2 == 0, NF_VERIFY_FULL, &opened);
        assert_true(status == NF_ERR_DAMAGED || (bit < 40 && status == NF_ERR_FORMAT) ||
                    (bit / 8 >= 12 && bit / 8 < 16 && status == NF_ERR_VERSION));
        assert_null(opened);
        open_anyhow(all, bit % 2 == 0, file.size);
        assert_int_equal(pwrite(fd, file.data + bit / 8, 1, (off_t)(bit / 8)), 1);
    }
    close(fd);
    assert_file_is(all->path, file.data, file.size);
    free(file.data);
}

/* What the text must say about a byte that is changed. */
static void expected_text(const contents *file, uint64_t at, char *text, size_t room)
{
    for (uint32_t i = 0; i <= LARGE_SECTIONS; i++) {
        const uint64_t offset = number_at(entry_at(file, i) + 8, 8), bytes = number_at(entry_at(file, i) + 16, 8);
        if (at < offset || at >= offset + bytes) continue;
        const uint64_t begin = (at - offset) >> 20 << 20;
        const uint64_t end = begin + (1 << 20) < bytes ? begin + (1 << 20) : bytes;
        snprintf(text, room, "section %llu is damaged, in bytes %llu to %llu of the file (%llu to %llu of the section)",
                 (unsigned long long)number_at(entry_at(file, i), 4), (unsigned long long)(offset + begin),
                 (unsigned long long)(offset + end - 1), (unsigned long long)begin, (unsigned long long)(end - 1));
        if (i == LARGE_SECTIONS) {
            snprintf(text, room, "the section of checksums is damaged, in bytes %llu to %llu of the file",
                     (unsigned long long)offset, (unsigned long long)(offset + bytes - 1));
        }
        return;
    }
    snprintf(text, room, "byte %llu of the file is damaged: it is padding", (unsigned long long)at);
}

static void check_place(fixture *all, const contents *file, nf_context *ctx, uint64_t at)
{
    nf_sealed_file *opened = NULL;
    char            text[256];

    expected_text(file, at, text, sizeof text);
    nf_context_begin(ctx);
    assert_int_equal(nf_sealed_open(ctx, all->memory, all->path, true, NF_VERIFY_FULL, &opened), NF_ERR_DAMAGED);
    assert_error_has(ctx, text);
}

/* Bits anywhere in a larger file: the place is named, and is the same for any number of threads. */
static void test_place_is_named(void **state)
{
    fixture    *all = *state;
    contents    file = make_large(all);
    const int   fd = open(all->path, O_WRONLY);
    uint64_t    random = 5;
    nf_context *many = make_context(4);
    const uint64_t second = number_at(entry_at(&file, 1) + 8, 8), sums = number_at(entry_at(&file, 3) + 8, 8);
    const uint64_t chosen[] = {192, second - 1, second, second + (1 << 20) - 1, second + (1 << 20),
                               second + (3 << 20) - 18, second + (3 << 20) - 17, sums, sums + 39, sums + 40,
                               file.size - 33};

    assert_true(fd >= 0);
    for (size_t i = 0; i < 60; i++) {
        const size_t   fixed = sizeof chosen / sizeof chosen[0];
        const uint64_t at = i < fixed ? chosen[i] : 192 + random_below(&random, file.size - 192 - FOOTER);
        const uint8_t  changed = (uint8_t)(file.data[at] ^ 1u << random_below(&random, 8));
        assert_int_equal(pwrite(fd, &changed, 1, (off_t)at), 1);
        check_place(all, &file, all->ctx, at);
        check_place(all, &file, many, at);
        assert_int_equal(pwrite(fd, file.data + at, 1, (off_t)at), 1);
    }
    /* Damage in four places: the first is named. */
    for (int i = 3; i >= 0; i--) {
        const uint64_t at = second + (uint64_t)i * 1000000;
        assert_int_equal(pwrite(fd, "\x55\xaa\x55", 3, (off_t)at), 3);
        check_place(all, &file, many, at);
        check_place(all, &file, all->ctx, at);
    }
    nf_context_destroy(many);
    close(fd);
    free(file.data);
}

/* One changed number of a file whose checksums have been made right again. */
typedef struct lie {
    uint32_t    at, bytes;
    uint64_t    value;
    nf_status   status;
    const char *text;
} lie;

#define TABLE(entry, field) (HEADER + (entry) * ENTRY + (field))

static const lie lies[] = {
    {0, 1, 0x0e, NF_ERR_FORMAT, "is not an index file of Nearfield"},
    {5, 2, 0x1a0a, NF_ERR_DAMAGED, "as by a transfer as text"},
    {12, 2, 2, NF_ERR_VERSION, "newer version: format 1.0 needs a reader of 2.0, this one reads up to 1.0"},
    {14, 2, 1, NF_ERR_VERSION, "needs a reader of 1.1"},
    {8, 2, 0, NF_ERR_DAMAGED, "no such version"},
    {12, 2, 0, NF_ERR_DAMAGED, "no such version"},
    {16, 8, 0x0807060504030201, NF_ERR_FORMAT, "big-endian"},
    {16, 8, 0x0102030405060709, NF_ERR_DAMAGED, "mark of the byte order"},
    {24, 8, 0, NF_ERR_DAMAGED, "has 2624 bytes, but its header says 0"},
    {24, 8, UINT64_MAX, NF_ERR_DAMAGED, "its header says 18446744073709551615"},
    {40, 8, 1, NF_ERR_DAMAGED, "a field that must be 0 is 1"},
    {48, 4, 0, NF_ERR_DAMAGED, "says 0 sections, allowed are 1 to 65"},
    {48, 4, 66, NF_ERR_DAMAGED, "says 66 sections"},
    {48, 4, UINT32_MAX, NF_ERR_DAMAGED, "says 4294967295 sections"},
    {48, 4, 4, NF_ERR_DAMAGED, "header and table have 224 bytes, but with 4 sections they have 192"},
    {52, 4, 0, NF_ERR_DAMAGED, "header and table have 0 bytes"},
    {52, 4, UINT32_MAX, NF_ERR_DAMAGED, "header and table have 4294967295 bytes"},
    {TABLE(0, 0), 4, 0, NF_ERR_DAMAGED, "entry 0 of the table has type 0"},
    {TABLE(1, 0), 4, 1, NF_ERR_DAMAGED, "entry 1 of the table has type 1"},
    {TABLE(0, 0), 4, 3, NF_ERR_DAMAGED, "entry 1 of the table has type 2"},
    {TABLE(2, 0), 4, SUMS_TYPE, NF_ERR_DAMAGED, "entry 2 of the table has type 4294967295"},
    {TABLE(4, 0), 4, 10, NF_ERR_DAMAGED, "entry 4 of the table has type 10"},
    {TABLE(0, 8), 8, 0, NF_ERR_DAMAGED, "section 1 is said to begin at byte 0, but must begin at 256"},
    {TABLE(0, 8), 8, 257, NF_ERR_DAMAGED, "begin at byte 257"},
    {TABLE(2, 8), 8, 256, NF_ERR_DAMAGED, "section 5 is said to begin at byte 256, but must begin at 384"},
    {TABLE(2, 8), 8, UINT64_MAX - 63, NF_ERR_DAMAGED, "begin at byte 18446744073709551552"},
    {TABLE(3, 8), 8, (uint64_t)1 << 63, NF_ERR_DAMAGED, "begin at byte 9223372036854775808"},
    {TABLE(0, 16), 8, 129, NF_ERR_DAMAGED, "sections do not take the 2624 bytes"},
    {TABLE(0, 16), 8, SMALL_BYTES + 1, NF_ERR_DAMAGED, "section 1 is said to have 2625 bytes"},
    {TABLE(2, 16), 8, UINT64_MAX, NF_ERR_DAMAGED, "section 5 is said to have 18446744073709551615 bytes"},
    {TABLE(2, 16), 8, (uint64_t)1 << 63, NF_ERR_DAMAGED, "section 5 is said to have"},
    {TABLE(2, 16), 8, SMALL_BYTES, NF_ERR_DAMAGED, "sections do not take"},
    {TABLE(1, 16), 8, 1, NF_ERR_DAMAGED, "section of checksums has 24 bytes, but the sections need 32"},
    {TABLE(4, 16), 8, 16, NF_ERR_DAMAGED, "section of checksums has 16 bytes"},
    {TABLE(4, 16), 8, 25, NF_ERR_DAMAGED, "section of checksums has 25 bytes"},
    {TABLE(4, 16), 8, UINT64_MAX - 7, NF_ERR_DAMAGED, "is said to have"},
    {SMALL_BYTES - 32, 1, 0, NF_ERR_DAMAGED, "the footer is damaged, in bytes 2592 to 2623"},
    {SMALL_BYTES - 24, 8, 0, NF_ERR_DAMAGED, "the footer is damaged"},
};

static void put_lie(fixture *all, const contents *file, const lie *told)
{
    contents copy = {malloc(file->size), file->size};
    memcpy(copy.data, file->data, file->size);
    set_number(copy.data + told->at, told->bytes, told->value);
    reseal(&copy);
    put_bytes(all->path, copy.data, copy.size);
    free(copy.data);
}

static void test_lies(void **state)
{
    fixture *all = *state;
    contents file = make_small(all);

    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        put_lie(all, &file, &lies[i]);
        assert_refused_always(all, lies[i].status);
        assert_error_has(all->ctx, lies[i].text);
        assert_error_has(all->ctx, all->path);
    }
    free(file.data);
}

/* Hashes that are wrong by themselves: id, hash of the header, hash in the footer. */
static void test_wrong_hashes(void **state)
{
    static const struct {
        uint32_t    at;
        const char *text;
    } hashes[] = {{56, "header and table are damaged, in bytes 0 to 223 of the file"},
                  {SMALL_BYTES - 8, "the footer is damaged"}, {SMALL_BYTES - 16, "the footer is damaged"}};
    fixture *all = *state;
    contents file = make_small(all);

    for (size_t i = 0; i < sizeof hashes / sizeof hashes[0]; i++) {
        file.data[hashes[i].at] ^= 4;
        put_bytes(all->path, file.data, file.size);
        file.data[hashes[i].at] ^= 4;
        assert_refused_always(all, NF_ERR_DAMAGED);
        assert_error_has(all->ctx, hashes[i].text);
    }
    file.data[32] ^= 4; /* the id, with the header's hash right */
    set_number(file.data + 56, 8, 0);
    set_number(file.data + 56, 8, XXH3_64bits(file.data, 224));
    put_bytes(all->path, file.data, file.size);
    assert_refused_always(all, NF_ERR_DAMAGED);
    assert_error_has(all->ctx, "its id is");
    free(file.data);
}

static void refused_when_full(fixture *all, const contents *file, const char *text)
{
    put_bytes(all->path, file->data, file->size);
    open_anyhow(all, false, file->size);
    assert_refused(all, false, NF_VERIFY_FULL, NF_ERR_DAMAGED);
    assert_refused(all, true, NF_VERIFY_FULL, NF_ERR_DAMAGED);
    assert_error_has(all->ctx, text);
}

/* What only full verification can see, in a file that agrees with itself otherwise. */
static void test_lies_inside(void **state)
{
    fixture       *all = *state;
    contents       file = make_large(all);
    const uint64_t sums = number_at(entry_at(&file, 3) + 8, 8), sums_bytes = number_at(entry_at(&file, 3) + 16, 8);

    for (uint32_t entry = 0; entry < LARGE_SECTIONS; entry++) { /* the table's checksum of a section */
        char text[64];
        snprintf(text, sizeof text, "the checksum of section %u in the table", (unsigned)file.data[TABLE(entry, 0)]);
        file.data[TABLE(entry, 24)] ^= 1;
        reseal(&file);
        refused_when_full(all, &file, text);
        file.data[TABLE(entry, 24)] ^= 1;
    }
    file.data[sums + 8] ^= 1; /* of the first MiB of section 4 */
    set_number(entry_at(&file, 3) + 24, 8, XXH3_64bits(file.data + sums, sums_bytes));
    reseal(&file);
    refused_when_full(all, &file, "section 4 is damaged");
    file.data[sums + 8] ^= 1;
    set_number(entry_at(&file, 3) + 24, 8, XXH3_64bits(file.data + sums, sums_bytes));
    reseal(&file);
    file.data[sums + sums_bytes] = 1;
    refused_when_full(all, &file, "it is padding and must be 0, not 1");
    free(file.data);
}

/* A number that is likely to hurt. */
static uint64_t hostile_number(uint64_t *random, const contents *file)
{
    const uint64_t numbers[] = {0, 1, 63, 64, 4096, 65536, UINT32_MAX, INT64_MAX, (uint64_t)1 << 63, UINT64_MAX,
                                UINT64_MAX - 63, UINT64_MAX - 4095, file->size, file->size - 1, file->size + 64};
    const uint64_t pick = random_below(random, sizeof numbers / sizeof numbers[0] + 3);
    if (pick < sizeof numbers / sizeof numbers[0]) return numbers[pick];
    return number_at(entry_at(file, (uint32_t)random_below(random, 5)) + 8 + 8 * random_below(random, 2), 8);
}

/* Many lies at once, also with a file that is shorter or longer and says so, each with its checksums right. */
static void test_random_lies(void **state)
{
    fixture *all = *state;
    contents file = make_small(all);
    contents copy = {malloc(file.size + 128), file.size};
    uint64_t random = 11;

    for (int round = 0; round < 4000; round++) {
        memset(copy.data, 0, file.size + 128);
        memcpy(copy.data, file.data, file.size);
        copy.size = random_below(&random, 4) == 0 ? 512 + random_below(&random, file.size - 384) : file.size;
        set_number(copy.data + 24, 8, copy.size);
        for (uint64_t i = random_below(&random, 3); i < 3; i++) {
            const uint64_t field = 8 * random_below(&random, ENTRY / 8);
            uint8_t       *at = entry_at(&copy, (uint32_t)random_below(&random, 5)) + field;
            set_number(at, 8, random_below(&random, 3) == 0 ? random_bits(&random) : hostile_number(&random, &file));
        }
        reseal(&copy);
        set_number(copy.data + copy.size - 24, 8, copy.size);
        put_bytes(all->path, copy.data, copy.size);
        open_anyhow(all, round % 2 == 0, copy.size);
        nf_sealed_file *opened = NULL;
        (void)open_as(all, round % 2 != 0, NF_VERIFY_FULL, &opened);
        nf_sealed_close(opened);
    }
    free(copy.data);
    free(file.data);
}

static void refused_path(fixture *all, const char *path, nf_status expected, const char *text)
{
    nf_sealed_file *file = NULL;
    for (int map = 0; map < 2; map++) {
        nf_context_begin(all->ctx);
        assert_int_equal(nf_sealed_open(all->ctx, all->memory, path, map, NF_VERIFY_FULL, &file), expected);
        assert_null(file);
        assert_error_has(all->ctx, path);
        assert_error_has(all->ctx, text);
    }
    assert_int_equal(nf_memory_peak(all->memory), 0);
}

static void test_other_files(void **state)
{
    fixture *all = *state;
    char     fifo[128];

    refused_path(all, all->path, NF_ERR_IO, "No such file or directory");
    refused_path(all, all->folder, NF_ERR_IO, "is a directory");
    refused_path(all, "/dev/null", NF_ERR_IO, "is not a regular file");
    path_in(fifo, all->folder, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    refused_path(all, fifo, NF_ERR_IO, "is not a regular file"); /* and does not wait for a writer */
    put_file(all->path, "");
    refused_path(all, all->path, NF_ERR_FORMAT, "is not an index file");
    put_file(all->path, "\x93NUMPY, a file of another kind, which is longer than the header of a sealed file");
    refused_path(all, all->path, NF_ERR_FORMAT, "is not an index file");
    put_file(all->path,
             "\x8eNEAR\n\x1a, the header of a file that has been made text, which has lost a carriage return");
    refused_path(all, all->path, NF_ERR_DAMAGED, "as by a transfer as text");
}

static nf_context *make_hooked(memory_hook *hook)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.threads = 2;
    params.allocator = memory_hook_allocator(hook);
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    return ctx;
}

/* One save or open with the allocations that fail set in hook. */
static nf_status try_once(nf_context *ctx, const char *path, const nf_sealed_section *section, int way)
{
    nf_sealed_file *file = NULL;
    nf_context_begin(ctx);
    if (way == 0) return nf_sealed_write(ctx, path, section, 1, true, NULL);
    const nf_status status = nf_sealed_open(ctx, nf_context_memory(ctx), path, way == 2, NF_VERIFY_FULL, &file);
    assert_true((status == NF_OK) == (file != NULL));
    nf_sealed_close(file);
    return status;
}

/* Saving, reading, mapping: each allocation fails once, until none is left. */
static void test_no_memory(void **state)
{
    fixture                *all = *state;
    contents                old = make_small(all);
    uint8_t                *data = pattern(3 << 20);
    const nf_sealed_section section = {1, 1, data, 3 << 20};
    memory_hook             hook = {0};
    nf_context             *ctx = make_hooked(&hook);
    const long              before = atomic_load(&hook.live_blocks);

    for (int way = 0; way < 3; way++) {
        nf_status status = NF_ERR_MEMORY;
        long      fail_at = 0;
        while (status != NF_OK) {
            atomic_store(&hook.calls, 0);
            hook.fail_at = ++fail_at;
            status = try_once(ctx, all->path, &section, way);
            assert_true(status == NF_OK || status == NF_ERR_MEMORY);
            assert_int_equal(atomic_load(&hook.live_blocks), before);
            assert_int_equal(count_files(all->folder), 1);
            if (way == 0 && status != NF_OK) assert_file_is(all->path, old.data, old.size);
            assert_true(fail_at < 50);
        }
        assert_true(fail_at > 3); /* at least three failed */
    }
    nf_context_destroy(ctx);
    assert_int_equal(atomic_load(&hook.live_blocks), 0);
    assert_int_equal(atomic_load(&hook.mismatches), 0);
    free(data);
    free(old.data);
}

static void test_limit(void **state)
{
    fixture        *all = *state;
    contents        file = make_large(all);
    nf_memory      *account = nf_memory_create(NULL, file.size);
    nf_sealed_file *opened = NULL;

    nf_context_begin(all->ctx);
    assert_int_equal(nf_sealed_open(all->ctx, account, all->path, false, NF_VERIFY_FULL, &opened), NF_ERR_LIMIT);
    nf_context_begin(all->ctx);
    assert_int_equal(nf_sealed_open(all->ctx, account, all->path, true, NF_VERIFY_FULL, &opened), NF_OK);
    nf_sealed_close(opened);
    assert_int_equal(nf_memory_used(account), 0);
    nf_memory_release(account);
    free(file.data);
}

static void test_cancel(void **state)
{
    fixture                *all = *state;
    contents                old = make_large(all);
    const nf_sealed_section section = {1, 1, "new", 3};

    nf_context_cancel(all->ctx);
    assert_int_equal(write_sections(all, &section, 1), NF_ERR_CANCELLED);
    assert_file_is(all->path, old.data, old.size);
    assert_int_equal(count_files(all->folder), 1);
    nf_context_cancel(all->ctx);
    assert_refused(all, false, NF_VERIFY_FULL, NF_ERR_CANCELLED);
    nf_context_cancel(all->ctx);
    assert_refused(all, true, NF_VERIFY_FULL, NF_ERR_CANCELLED);
    free(old.data);
}

/* Saves in a child whose files may have so many bytes; returns what became of it. */
static nf_status save_within(const char *path, const nf_sealed_section *section, uint64_t bytes)
{
    int         result = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        nf_context         *ctx = make_context(1);
        const struct rlimit small = {bytes, bytes};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &small) != 0) _exit(100);
        _exit(-(int)nf_sealed_write(ctx, path, section, 1, true, NULL));
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    return (nf_status)-WEXITSTATUS(result);
}

static void test_no_space(void **state)
{
    fixture       *all = *state;
    uint8_t       *data = pattern(2 << 20);
    const uint64_t sizes[] = {500, 300000, 2 << 20}; /* one write; several; with the space taken first */

    for (size_t i = 0; i < 3; i++) {
        const nf_sealed_section section = {1, 1, data, sizes[i]};
        contents                old = make_small(all);
        nf_sealed_info          info;
        nf_sealed_measure(&section, 1, &info);
        const uint64_t limits[] = {0, 1, 100, info.bytes / 2, info.bytes - FOOTER, info.bytes - 1};
        for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) {
            assert_int_equal(save_within(all->path, &section, limits[k]), NF_ERR_IO);
            assert_file_is(all->path, old.data, old.size);
            assert_int_equal(count_files(all->folder), 1);
        }
        assert_int_equal(save_within(all->path, &section, info.bytes), NF_OK);
        assert_int_equal(count_files(all->folder), 1);
        free(old.data);
    }
    free(data);
}

static void test_full_device(void **state)
{
    fixture                *all = *state;
    const nf_sealed_section section = {1, 1, "abc", 3};

    if (!file_exists("/dev/full")) skip();
    assert_int_equal(nf_sealed_write(all->ctx, "/dev/full", &section, 1, true, NULL), NF_ERR_IO);
    assert_error_has(all->ctx, "No space left on device");
}

/* Saves one content after the other until it is killed. */
static pid_t start_saving(const char *path, const nf_sealed_section contents_of[2], bool sync)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child != 0) return child;
    nf_context *ctx = make_context(2);
    for (int i = 0;; i ^= 1) {
        nf_context_begin(ctx);
        if (nf_sealed_write(ctx, path, &contents_of[i], 1, sync, NULL) != NF_OK) _exit(1);
    }
}

static void remove_temporaries(const char *folder)
{
    char path[400];
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strstr(entry->d_name, ".tmp") == NULL) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        assert_int_equal(unlink(path), 0);
    }
    closedir(dir);
}

static void test_killed(void **state)
{
    fixture                *all = *state;
    uint8_t                *data = pattern(3 << 20);
    const nf_sealed_section two[2] = {{1, 1, data, 2500000}, {1, 1, data + 1, 3000000}};
    nf_sealed_info          known[2], info;
    uint64_t                random = (uint64_t)getpid();

    nf_sealed_measure(&two[0], 1, &known[0]);
    nf_sealed_measure(&two[1], 1, &known[1]);
    assert_int_equal(write_sections(all, two, 1), NF_OK);
    for (int round = 0; round < 20; round++) {
        nf_sealed_file       *file = NULL;
        int                   result = 0;
        const struct timespec pause = {0, (long)random_below(&random, 20000000)};
        const pid_t           child = start_saving(all->path, two, round % 2 == 0);
        nanosleep(&pause, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result));
        assert_int_equal(open_as(all, round % 3 == 0, NF_VERIFY_FULL, &file), NF_OK);
        nf_sealed_describe(file, &info);
        assert_true(info.file_id == known[0].file_id || info.file_id == known[1].file_id);
        assert_section_is(file, &two[info.file_id == known[1].file_id]);
        nf_sealed_close(file);
        remove_temporaries(all->folder);
        assert_int_equal(count_files(all->folder), 1);
    }
    free(data);
}

int main(void)
{
#define FAULT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_cut_everywhere), FAULT_TEST(test_appended),    FAULT_TEST(test_every_bit),
        FAULT_TEST(test_place_is_named), FAULT_TEST(test_lies),        FAULT_TEST(test_wrong_hashes),
        FAULT_TEST(test_lies_inside),    FAULT_TEST(test_random_lies), FAULT_TEST(test_other_files),
        FAULT_TEST(test_no_memory),      FAULT_TEST(test_limit),       FAULT_TEST(test_cancel),
        FAULT_TEST(test_no_space),       FAULT_TEST(test_full_device), FAULT_TEST(test_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
