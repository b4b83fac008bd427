/* SPDX-License-Identifier: Apache-2.0 */
/* CRCs in pieces against zlib's over the whole, .npy headers, and zip files read by an independent small reader. */
#include "io/io_crc.h"
#include "io/io_npz.h"
#include "io_write_zip.h"

static nf_crc_table *make_table(void)
{
    nf_crc_table *table = malloc(sizeof *table);
    assert_non_null(table);
    nf_crc_table_fill(table);
    return table;
}

static void test_crc_in_pieces(void **state)
{
    enum { BYTES = 100000 };
    nf_crc_table *table = make_table();
    uint8_t      *data = malloc(BYTES);
    uint64_t      seed = 7;
    uint32_t      crc = 0;
    (void)state;

    assert_int_equal(nf_crc_bytes("123456789", 9), 0xcbf43926);
    for (int i = 0; i < BYTES; i++) data[i] = (uint8_t)next_random(&seed);
    for (uint32_t begin = 0; begin < BYTES;) { /* xor does not know the order */
        const uint32_t left = BYTES - begin;
        uint32_t       bytes = (uint32_t)(next_random(&seed) % 700) + 1;
        if (bytes > left) bytes = left;
        crc ^= nf_crc_move(table, nf_crc_bytes(data + begin, bytes), left - bytes);
        begin += bytes;
    }
    assert_int_equal(crc, crc32(0, data, BYTES));
    free(data);
    free(table);
}

static void test_crc_far_moves(void **state)
{
    nf_crc_table  *table = make_table();
    const uint64_t lengths[] = {0, 1, 255, 65536, 4294967296, 123456789012345};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        assert_int_equal(nf_crc_move(table, 0x12345678, lengths[i]), crc32_combine(0x12345678, 0, (z_off_t)lengths[i]));
    }
    free(table);
}

static void test_npy_headers(void **state)
{
    char header[NF_NPY_HEADER_MAX + 1] = {0}; /* ends with a 0, for strstr */
    (void)state;
    assert_int_equal(nf_npy_header(header, "<f4", (const uint64_t[]){3, 2}, 2), 128);
    assert_memory_equal(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_memory_equal(header + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), } ", 59);
    assert_int_equal(header[127], '\n');
    assert_int_equal(nf_npy_header(header, "<i8", (const uint64_t[]){7}, 1), 128);
    assert_non_null(strstr(header + 10, "'shape': (7,), }"));
    assert_int_equal(nf_npy_header(header, "|S3", NULL, 0), 128);
    assert_memory_equal(header + 10, "{'descr': '|S3', 'fortran_order': False, 'shape': (), } ", 56);
    assert_int_equal(nf_npy_header(header, "<i8", (const uint64_t[]){UINT64_MAX, UINT64_MAX}, 2), 128);
    assert_string_equal(nf_npy_descr(NF_DTYPE_U8), "|u1");
    assert_string_equal(nf_npy_descr(NF_DTYPE_F16), "<f2");
    assert_null(nf_npy_descr(NF_DTYPE_NONE));
}

/* Three members, 512 values in all; limit decides which fields are wide. Returns the zip as parsed. */
static zip_file write_and_open(const char *path, uint64_t limit)
{
    nf_context   *ctx = make_context(1);
    nf_crc_table *table = make_table();
    nf_npz        npz;
    nf_output     out;
    int32_t       values[512];

    for (int i = 0; i < 512; i++) values[i] = i * i;
    nf_npz_init(&npz, limit);
    nf_npz_add(&npz, "tag", "|S3", 3, NULL, 0);
    nf_npz_add(&npz, "squares", "<i4", 4, (const uint64_t[]){512}, 1);
    nf_npz_add(&npz, "none", "<i4", 4, (const uint64_t[]){0}, 1);
    assert_int_equal(nf_output_open(ctx, path, &out), NF_OK);
    assert_int_equal(nf_output_write_at(&out, npz.member[0].data_offset, "abc", 3), NF_OK);
    npz.member[0].crc = nf_crc_bytes("abc", 3);
    assert_int_equal(nf_output_write_at(&out, npz.member[1].data_offset, values, sizeof values), NF_OK);
    npz.member[1].crc = nf_crc_bytes(values, sizeof values);
    assert_int_equal(nf_npz_finish(&npz, &out, table), NF_OK);
    assert_int_equal(nf_output_commit(&out, false), NF_OK);
    nf_context_destroy(ctx);
    free(table);

    zip_file zip = open_zip(path);
    assert_int_equal(zip.file.size, nf_npz_bytes(&npz));
    assert_int_equal(zip.count, 3);
    assert_memory_equal(find_member(&zip, "tag.npy")->data, "abc", 3);
    assert_int_equal(find_member(&zip, "squares.npy")->size, sizeof values);
    assert_memory_equal(find_member(&zip, "squares.npy")->data, values, sizeof values);
    assert_int_equal(find_member(&zip, "none.npy")->size, 0);
    return zip;
}

static void test_zip(void **state)
{
    char folder[64], path[128];
    (void)state;
    make_folder(folder);
    path_in(path, folder, "a.npz");

    zip_file plain = write_and_open(path, NF_ZIP64_LIMIT);
    assert_false(plain.zip64 || plain.member[0].zip64 || plain.member[1].zip64 || plain.member[2].zip64);
    free(plain.file.data);
    zip_file mixed = write_and_open(path, 1000); /* the second is large, the third far behind */
    assert_true(mixed.zip64 && !mixed.member[0].zip64 && mixed.member[1].zip64 && mixed.member[2].zip64);
    free(mixed.file.data);
    zip_file wide = write_and_open(path, 0);
    assert_true(wide.zip64 && wide.member[0].zip64 && wide.member[1].zip64 && wide.member[2].zip64);
    free(wide.file.data);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc_in_pieces),
        cmocka_unit_test(test_crc_far_moves),
        cmocka_unit_test(test_npy_headers),
        cmocka_unit_test(test_zip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
