/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed files as they should be. The bytes of a small file, and the length, id and hash of a large one, were made by a
 * Python program from docs/formats.md, with the package xxhash (its own copy of XXH3, version 0.8.4).
 */
#include "store_helper.h"

#include "store/store_checksum.h"

/* Sections: 1, required, "hello"; 2, empty; 0x1234, the bytes 0 to 69. */
static const char small_file[513] =
    "\x8e\x4e\x45\x41\x52\x0d\x0a\x1a\x01\x00\x00\x00\x01\x00\x00\x00" /* magic, 1.0, readable from 1.0 on */
    "\x08\x07\x06\x05\x04\x03\x02\x01\x00\x02\x00\x00\x00\x00\x00\x00" /* word mark, 512 bytes */
    "\xa4\x51\xc4\x0d\x9f\xf9\x6f\x3c\x00\x00\x00\x00\x00\x00\x00\x00" /* id, 0 */
    "\x04\x00\x00\x00\xc0\x00\x00\x00\x31\x87\xf2\xc3\xb4\x47\xdc\x2c" /* 4 entries, 192 bytes, hash */
    "\x01\x00\x00\x00\x01\x00\x00\x00\xc0\x00\x00\x00\x00\x00\x00\x00" /* type 1, required, at 192 */
    "\x05\x00\x00\x00\x00\x00\x00\x00\xfd\xdc\x62\x5c\x55\xe8\x55\x95" /* 5 bytes, XXH3 */
    "\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00" /* type 2, at 256 */
    "\x00\x00\x00\x00\x00\x00\x00\x00\xc2\x94\xd3\x38\x05\x80\x06\x2d" /* 0 bytes */
    "\x34\x12\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00" /* type 0x1234, at 256 */
    "\x46\x00\x00\x00\x00\x00\x00\x00\xae\x46\xf1\x07\xd5\x2d\x6c\xb8" /* 70 bytes */
    "\xff\xff\xff\xff\x01\x00\x00\x00\x80\x01\x00\x00\x00\x00\x00\x00" /* checksums, at 384 */
    "\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x74\x88\xff\x8b\xca\x87\xee" /* 16 bytes */
    "\x68\x65\x6c\x6c\x6f\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"
    "\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"
    "\x20\x21\x22\x23\x24\x25\x26\x27\x28\x29\x2a\x2b\x2c\x2d\x2e\x2f"
    "\x30\x31\x32\x33\x34\x35\x36\x37\x38\x39\x3a\x3b\x3c\x3d\x3e\x3f"
    "\x40\x41\x42\x43\x44\x45\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\xfd\xdc\x62\x5c\x55\xe8\x55\x95\xae\x46\xf1\x07\xd5\x2d\x6c\xb8" /* one MiB each: as in the table */
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x8e\x4e\x45\x41\x52\x0d\x0a\x1a\x00\x02\x00\x00\x00\x00\x00\x00" /* magic, 512 bytes */
    "\xa4\x51\xc4\x0d\x9f\xf9\x6f\x3c\x6a\x45\xb0\xb8\x27\x62\xc5\xa5"; /* id, hash of the four checksums */
#define SMALL_BYTES 512
#define SMALL_ID UINT64_C(0x3c6ff99f0dc451a4)
#define LARGE_BYTES 4337792
#define LARGE_ID UINT64_C(0x4a6dc49a2d14262d)
#define LARGE_HASH UINT64_C(0xc58041730e8f2e2a) /* of the whole file */

static uint8_t                 counting[70];
static const nf_sealed_section small[3] = {
    {1, NF_SEALED_REQUIRED, "hello", 5}, {2, 0, NULL, 0}, {0x1234, 0, counting, sizeof counting}};

static int set_up_small(void **state)
{
    for (uint8_t i = 0; i < sizeof counting; i++) counting[i] = i;
    return set_up(state);
}

/* Lengths around 64 KiB and the MiB; all hold the same pattern. */
static void make_large(nf_sealed_section large[5], const uint8_t *data)
{
    large[0] = (nf_sealed_section){3, NF_SEALED_REQUIRED, data, 65536};
    large[1] = (nf_sealed_section){4, NF_SEALED_REQUIRED, data, 65537};
    large[2] = (nf_sealed_section){9, 0, data, ((uint64_t)3 << 20) + 5};
    large[3] = (nf_sealed_section){10, 0, data, (uint64_t)1 << 20};
    large[4] = (nf_sealed_section){11, NF_SEALED_REQUIRED, data, 0};
}

static void test_hash(void **state)
{
    (void)state;
    static const struct {
        size_t   bytes;
        uint64_t hash;
    } known[] = {
        {0, 0x2d06800538d394c2},    {1, 0xc44bdff4074eecdb},     {3, 0xe14090f554a5ea90},
        {8, 0xcd1c7f88482fcaef},    {16, 0x81e9eb8634460bb9},    {17, 0x9998430fd0a655be},
        {128, 0x75eca5c5d5594884},  {129, 0xa05da42e7a4e4667},   {240, 0x5eb2467c8c9e3969},
        {241, 0x2d431e984c441f15},  {1024, 0xe99def1145f12936},  {1025, 0x83cba9b371e4e7f4},
        {65536, 0x20605b76ceddc43b}, {1048576, 0xa60868b9a5018405},
    };
    uint8_t *data = pattern(1 << 20);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_true(nf_sealed_hash(data, known[i].bytes) == known[i].hash);
    }
    assert_true(nf_sealed_hash(NULL, 0) == known[0].hash);
    free(data);
}

static void assert_same_info(const nf_sealed_info *a, const nf_sealed_info *b)
{
    assert_true(a->bytes == b->bytes && a->file_id == b->file_id && a->major == b->major && a->minor == b->minor);
}

static void test_small_file(void **state)
{
    fixture       *all = *state;
    nf_sealed_info info, measured;

    assert_int_equal(nf_sealed_write(all->ctx, all->path, small, 3, true, &info), NF_OK);
    assert_file_is(all->path, small_file, SMALL_BYTES);
    nf_sealed_measure(small, 3, &measured);
    assert_same_info(&info, &measured);
    assert_int_equal(info.bytes, SMALL_BYTES);
    assert_true(info.file_id == SMALL_ID);
    assert_int_equal(info.major, 1);
    assert_int_equal(info.minor, 0);
    assert_int_equal(count_files(all->folder), 1);
}

static void test_large_file(void **state)
{
    fixture          *all = *state;
    nf_sealed_section large[5];
    nf_sealed_info    info;
    uint8_t          *data = pattern((3 << 20) + 5);

    make_large(large, data);
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        nf_context *ctx = make_context(threads);
        assert_int_equal(nf_sealed_write(ctx, all->path, large, 5, false, &info), NF_OK);
        assert_int_equal(info.bytes, LARGE_BYTES);
        assert_true(info.file_id == LARGE_ID);
        contents file = read_file(all->path);
        assert_int_equal(file.size, LARGE_BYTES);
        assert_true(XXH3_64bits(file.data, file.size) == LARGE_HASH);
        free(file.data);
        nf_context_destroy(ctx);
    }
    nf_sealed_measure(large, 5, &info);
    assert_true(info.bytes == LARGE_BYTES && info.file_id == LARGE_ID);
    free(data);
}

static void check_open(nf_context *ctx, fixture *all, const nf_sealed_section *sections, uint32_t count, bool map,
                       nf_verify verify)
{
    nf_sealed_file *file = NULL;
    nf_sealed_info  info, measured;

    assert_int_equal(nf_sealed_open(ctx, all->memory, all->path, map, verify, &file), NF_OK);
    for (uint32_t i = 0; i < count; i++) assert_section_is(file, &sections[i]);
    assert_null(nf_sealed_find(file, 77));
    assert_null(nf_sealed_find(file, 0));
    assert_null(nf_sealed_find(file, SUMS_TYPE));
    (void)touch_sections(file, 0x2000);
    nf_sealed_describe(file, &info);
    nf_sealed_measure(sections, count, &measured);
    assert_same_info(&info, &measured);
    nf_sealed_close(file);
    assert_int_equal(nf_memory_used(all->memory), 0);
}

static void check_every_open(fixture *all, const nf_sealed_section *sections, uint32_t count)
{
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        nf_context *ctx = make_context(threads);
        for (int map = 0; map < 2; map++) {
            check_open(ctx, all, sections, count, map, NF_VERIFY_FULL);
            check_open(ctx, all, sections, count, map, NF_VERIFY_STRUCTURE);
        }
        nf_context_destroy(ctx);
    }
}

static void test_round_trip(void **state)
{
    fixture          *all = *state;
    nf_sealed_section large[5];
    uint8_t          *data = pattern((3 << 20) + 5);

    put_bytes(all->path, small_file, SMALL_BYTES); /* the file of the other program */
    check_every_open(all, small, 3);
    make_large(large, data);
    assert_int_equal(write_sections(all, large, 5), NF_OK);
    check_every_open(all, large, 5);
    assert_int_equal(write_sections(all, large, 1), NF_OK);
    check_every_open(all, large, 1);
    assert_int_equal(write_sections(all, NULL, 0), NF_OK);
    check_every_open(all, NULL, 0);
    free(data);
}

/* Every length around the places where the layout changes. */
static void test_lengths(void **state)
{
    static const uint64_t lengths[] = {0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 4095, 4096, 4097, 65535, 65536, 65537,
                                       65599, 65600, 65601, 69632, (1 << 20) - 1, 1 << 20, (1 << 20) + 1};
    const size_t          count = sizeof lengths / sizeof lengths[0];
    fixture              *all = *state;
    uint8_t              *data = pattern((1 << 20) + 1);

    for (size_t i = 0; i < count; i++) {
        const nf_sealed_section pair[2] = {{1, 0, data, lengths[i]}, {2, 1, data + 1, lengths[count - 1 - i] / 2}};
        assert_int_equal(write_sections(all, pair, 2), NF_OK);
        check_open(all->ctx, all, pair, 2, i % 2 == 0, NF_VERIFY_FULL);
        assert_int_equal(unlink(all->path), 0); /* replacing would make some file systems flush each */
    }
    free(data);
}

static void test_most_sections(void **state)
{
    fixture          *all = *state;
    nf_sealed_section most[NF_SEALED_MAX_SECTIONS];

    for (uint32_t i = 0; i < NF_SEALED_MAX_SECTIONS; i++) {
        most[i] = (nf_sealed_section){100 + i, i % 2, small_file, 5 * i};
    }
    most[NF_SEALED_MAX_SECTIONS - 1].type = SUMS_TYPE - 1;
    assert_int_equal(write_sections(all, most, NF_SEALED_MAX_SECTIONS), NF_OK);
    check_every_open(all, most, NF_SEALED_MAX_SECTIONS);
}

/* One block of the file's length, and a few thousand bytes; mapped only those. */
static void test_memory(void **state)
{
    fixture          *all = *state;
    nf_sealed_section large[5];
    nf_sealed_file   *file = NULL;
    uint8_t          *data = pattern((3 << 20) + 5);

    make_large(large, data);
    assert_int_equal(write_sections(all, large, 5), NF_OK);
    assert_int_equal(open_as(all, false, NF_VERIFY_FULL, &file), NF_OK);
    assert_in_range(nf_memory_peak(all->memory), LARGE_BYTES, LARGE_BYTES + 4096);
    nf_sealed_close(file);
    new_account(all);
    assert_int_equal(open_as(all, true, NF_VERIFY_FULL, &file), NF_OK);
    assert_in_range(nf_memory_peak(all->memory), 1, 4096);
    nf_sealed_close(file);
    nf_sealed_close(NULL);
    free(data);
}

static void test_unknown(void **state)
{
    static const uint32_t all_types[] = {1, 2, 5}, some[] = {2, 7}, none[] = {0};
    const nf_sealed_section sections[] = {{1, 0, "a", 1}, {2, NF_SEALED_REQUIRED, "b", 1}, {4, 0, "c", 1},
                                          {5, NF_SEALED_REQUIRED, "d", 1}};
    fixture              *all = *state;
    nf_sealed_file       *file = NULL;

    assert_int_equal(write_sections(all, sections, 4), NF_OK);
    assert_int_equal(open_as(all, false, NF_VERIFY_FULL, &file), NF_OK);
    assert_null(nf_sealed_unknown(file, all_types, 3)); /* 4 is not known, and may be skipped */
    assert_int_equal(nf_sealed_unknown(file, some, 2)->type, 5);
    assert_int_equal(nf_sealed_unknown(file, none, 0)->type, 2);
    nf_sealed_close(file);
}

/* A file of a newer version that this one can read: larger minor and major version, flags that it does not know. */
static void test_newer_and_readable(void **state)
{
    fixture        *all = *state;
    nf_sealed_file *file = NULL;
    nf_sealed_info  info;

    put_bytes(all->path, small_file, SMALL_BYTES);
    contents bytes = read_file(all->path);
    set_number(bytes.data + 8, 2, 2);
    set_number(bytes.data + 10, 2, 7);
    set_number(entry_at(&bytes, 1) + 4, 4, 0x80000010);
    reseal(&bytes);
    put_bytes(all->path, bytes.data, bytes.size);
    assert_int_equal(open_as(all, false, NF_VERIFY_FULL, &file), NF_OK);
    nf_sealed_describe(file, &info);
    assert_int_equal(info.major, 2);
    assert_int_equal(info.minor, 7);
    assert_null(nf_sealed_unknown(file, (const uint32_t[]){1}, 1));
    nf_sealed_close(file);
    free(bytes.data);
}

/* The mapped file stays when its name is given to another, and the other way round. */
static void test_replaced_while_mapped(void **state)
{
    fixture                *all = *state;
    nf_sealed_file         *file = NULL;
    const nf_sealed_section other = {1, 0, "other", 5};

    put_bytes(all->path, small_file, SMALL_BYTES);
    assert_int_equal(open_as(all, true, NF_VERIFY_FULL, &file), NF_OK);
    assert_int_equal(write_sections(all, &other, 1), NF_OK);
    assert_section_is(file, &small[0]);
    nf_sealed_close(file);
    check_open(all->ctx, all, &other, 1, true, NF_VERIFY_FULL);
}

static void refused(fixture *all, const nf_sealed_section *sections, uint32_t count, const char *text)
{
    assert_int_equal(write_sections(all, sections, count), NF_ERR_ARGUMENT);
    assert_error_has(all->ctx, text);
    assert_int_equal(count_files(all->folder), 0);
}

static void test_refused_sections(void **state)
{
    fixture          *all = *state;
    nf_sealed_section most[NF_SEALED_MAX_SECTIONS + 1] = {{0}};
    nf_sealed_info    info;

    refused(all, most, NF_SEALED_MAX_SECTIONS + 1, "65 sections, at most 64 are allowed");
    refused(all, (nf_sealed_section[]){{0, 0, "a", 1}}, 1, "section type 0 in place 0, allowed are 1 to 4294967294");
    refused(all, (nf_sealed_section[]){{7, 0, "a", 1}, {7, 0, "a", 1}}, 2,
            "section type 7 in place 1, allowed are 8 to");
    refused(all, (nf_sealed_section[]){{SUMS_TYPE, 0, "a", 1}}, 1, "section type 4294967295");
    refused(all, (nf_sealed_section[]){{SUMS_TYPE - 1, 0, "a", 1}, {1, 0, "a", 1}}, 2, "section type 1 in place 1");
    refused(all, (nf_sealed_section[]){{3, 6, "a", 1}}, 1, "section 3 has flags 0x6, allowed are 0 and 1");
    refused(all, (nf_sealed_section[]){{3, 1, NULL, 1}}, 1, "section 3 has no data");
    refused(all, (nf_sealed_section[]){{3, 1, "a", UINT64_MAX}}, 1, "bytes that a file may have");
    refused(all, (nf_sealed_section[]){{3, 1, "a", INT64_MAX / 2}, {4, 1, "a", INT64_MAX / 2}}, 2, "may have");
    nf_sealed_measure(most, NF_SEALED_MAX_SECTIONS + 1, &info);
    assert_int_equal(info.bytes, 0);
}

int main(void)
{
#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_small, tear_down)
    const struct CMUnitTest tests[] = {
        STORE_TEST(test_hash),          STORE_TEST(test_small_file),         STORE_TEST(test_large_file),
        STORE_TEST(test_round_trip),    STORE_TEST(test_lengths),            STORE_TEST(test_most_sections),
        STORE_TEST(test_memory),        STORE_TEST(test_unknown),            STORE_TEST(test_newer_and_readable),
        STORE_TEST(test_refused_sections), STORE_TEST(test_replaced_while_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
