/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .npy: files that NumPy wrote (tests/data/README.md), every type in both byte orders and both array orders built byte
 * by byte here, headers that must be refused, and a conversion larger than one task.
 */
#include "io_read_helper.h"

#define ROWS 5
#define DIMS 3

/* v[i][j] = 7 i + 3 j + 1, scaled and moved. */
static void fill_v(double values[ROWS * DIMS], double scale, double offset)
{
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < DIMS; j++) values[i * DIMS + j] = (7 * i + 3 * j + 1) * scale + offset;
    }
}

static void expect_fixture(const char *name, nf_dtype dtype, uint64_t rows, uint32_t dims, double scale, double offset)
{
    double      values[ROWS * DIMS];
    nf_context *ctx = make_context(2);
    nf_dataset *dataset;
    fill_v(values, scale, offset);
    assert_int_equal(nf_read_matrix(ctx, fixture(name), NULL, &dataset), NF_OK);
    expect_values(dataset, dtype, rows, dims, values);
    assert_null(nf_dataset_ids(dataset));
    assert_int_equal(nf_dataset_first(dataset), 0);
    assert_int_equal(nf_dataset_file_rows(dataset), rows);
    nf_context_destroy(ctx); /* the dataset lives on */
    expect_values(dataset, dtype, rows, dims, values);
    nf_dataset_release(dataset);
}

static void test_numpy_files(void **state)
{
    (void)state;
    expect_fixture("read_u1_c.npy", NF_DTYPE_U8, 5, 3, 1, 0);
    expect_fixture("read_i2_f.npy", NF_DTYPE_I16, 5, 3, 1, -20);
    expect_fixture("read_u4_big.npy", NF_DTYPE_U32, 5, 3, 1, 0);
    expect_fixture("read_i8_big_f.npy", NF_DTYPE_I64, 5, 3, 1, -20);
    expect_fixture("read_f2_c.npy", NF_DTYPE_F16, 5, 3, 0.25, -2);
    expect_fixture("read_f8_c.npy", NF_DTYPE_F64, 5, 3, 0.25, -2);
    expect_fixture("read_f4_v2.npy", NF_DTYPE_F32, 5, 3, 0.25, -2);
    expect_fixture("read_f4_big_f_v3.npy", NF_DTYPE_F32, 5, 3, 0.25, -2);
    expect_fixture("read_f8_1d.npy", NF_DTYPE_F64, 15, 1, 0.25, -2);
    expect_fixture("read_f4_rows0.npy", NF_DTYPE_F32, 0, 3, 0, 0);
}

static void test_numpy_files_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"read_f4_dims0.npy", "rows have 0 values"},
        {"read_f4_0d.npy", "0 axes"},
        {"read_f4_3d.npy", "3 axes"},
        {"read_bool.npy", "truth values (type '|b1')"},
        {"read_complex.npy", "complex numbers"},
        {"read_text.npy", "text"},
        {"read_record.npy", "records"},
        {"read_object.npy", "Python objects"},
    };
    nf_context *ctx = make_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nf_dataset *dataset;
        assert_int_equal(nf_read_matrix(ctx, fixture(cases[i][0]), NULL, &dataset), NF_ERR_FORMAT);
        assert_non_null(strstr(nf_context_error(ctx)->text, cases[i][1]));
        assert_null(dataset);
    }
    nf_context_destroy(ctx);
}

static void test_info(void **state)
{
    (void)state;
    nf_context  *ctx = make_context(1);
    nf_file_info info;
    assert_int_equal(nf_read_info(ctx, fixture("read_f4_big_f_v3.npy"), NULL, &info), NF_OK);
    assert_string_equal(info.format, "npy");
    assert_int_equal(info.rows, 5);
    assert_int_equal(info.dims, 3);
    assert_int_equal(info.dtype, NF_DTYPE_F32);
    assert_int_equal(info.bytes, 188);
    assert_int_equal(info.header_lines, 0);
    assert_string_equal(info.detail, "version 3, Fortran order, other byte order");
    nf_context_destroy(ctx);
}

/* Starts a file of version 1 with a header text, unpadded. */
static void begin_npy(bytes *file, const char *header)
{
    file->size = 0;
    add(file, "\x93NUMPY\x01\x00", 8);
    add_number(file, strlen(header), 2);
    add(file, header, strlen(header));
}

/* The bits of a small integer in a type. */
static uint64_t bits_in(nf_dtype dtype, int value)
{
    float    narrow = (float)value;
    double   wide = value;
    uint32_t bits32;
    uint64_t bits64;
    memcpy(&bits32, &narrow, sizeof bits32);
    memcpy(&bits64, &wide, sizeof bits64);
    switch (dtype) {
    case NF_DTYPE_F16: /* exact for small integers: the exponent is moved, ten bits of fraction are kept */
        return value == 0 ? 0 : (bits32 >> 31 << 15) | (((bits32 >> 23 & 255) - 112) << 10) | (bits32 >> 13 & 1023);
    case NF_DTYPE_F32: return bits32;
    case NF_DTYPE_F64: return bits64;
    default: return (uint64_t)(int64_t)value;
    }
}

static void add_ordered(bytes *file, uint64_t bits, size_t size, bool big)
{
    for (size_t i = 0; i < size; i++) {
        const uint8_t byte = (uint8_t)(bits >> (8 * (big ? size - 1 - i : i)));
        add(file, &byte, 1);
    }
}

static int small_value(int row, int column, bool is_signed)
{
    const int value = 5 * row + 11 * column;
    return is_signed && (row + column) % 2 ? -value : value;
}

static void check_type(nf_context *ctx, const char *type, nf_dtype dtype, bool big, bool fortran)
{
    static bytes file;
    char         header[128];
    double       values[ROWS * DIMS];
    const size_t size = nf_dtype_bytes(dtype);
    const bool   is_signed = type[0] != 'u';
    snprintf(header, sizeof header, "{'descr': '%c%s', 'fortran_order': %s, 'shape': (%d, %d), }\n", big ? '>' : '<',
             type, fortran ? "True" : "False", ROWS, DIMS);
    begin_npy(&file, header);
    for (int i = 0; i < ROWS * DIMS; i++) {
        const int row = fortran ? i % ROWS : i / DIMS, column = fortran ? i / ROWS : i % DIMS;
        add_ordered(&file, bits_in(dtype, small_value(row, column, is_signed)), size, big);
        values[row * DIMS + column] = small_value(row, column, is_signed);
    }
    uint8_t    *copy = exact_copy(file.data, file.size);
    nf_dataset *dataset = read_bytes(ctx, "t.npy", copy, file.size, NULL);
    expect_values(dataset, dtype, ROWS, DIMS, values);
    nf_dataset_release(dataset);

    nf_read_params params = default_params();
    params.rows[0] = 1;
    params.rows[1] = 4;
    dataset = read_bytes(ctx, "t.npy", copy, file.size, &params);
    expect_values(dataset, dtype, 3, DIMS, values + DIMS);
    assert_int_equal(nf_dataset_first(dataset), 1);
    assert_int_equal(nf_dataset_file_rows(dataset), ROWS);
    nf_dataset_release(dataset);
    free(copy);
}

static void test_all_types(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        nf_dtype    dtype;
    } types[] = {
        {"u1", NF_DTYPE_U8},  {"i1", NF_DTYPE_I8},  {"u2", NF_DTYPE_U16}, {"i2", NF_DTYPE_I16},
        {"u4", NF_DTYPE_U32}, {"i4", NF_DTYPE_I32}, {"u8", NF_DTYPE_U64}, {"i8", NF_DTYPE_I64},
        {"f2", NF_DTYPE_F16}, {"f4", NF_DTYPE_F32}, {"f8", NF_DTYPE_F64},
    };
    nf_context *ctx = make_context(2);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        for (int order = 0; order < 4; order++) {
            check_type(ctx, types[i].type, types[i].dtype, order & 1, order & 2);
        }
    }
    nf_context_destroy(ctx);
}

/* Headers that say the same in other words. */
static void test_headers(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }          \n",
        "{'shape': (2, 1), 'fortran_order': False, 'descr': '<f4'}",
        "{\"fortran_order\": True,\"descr\":\"<f4\",\"shape\":(2,1,)}\n",
        "  { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2L , 1L ) , } \n",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }",
        "{'descr': '=f4', 'fortran_order': False, 'shape': (2,), }",
    };
    static bytes        file;
    static const double values[] = {1.5, -2};
    nf_context         *ctx = make_context(1);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        begin_npy(&file, headers[i]);
        add_f32(&file, 1.5f);
        add_f32(&file, -2.0f);
        nf_dataset *dataset = read_bytes(ctx, "t.npy", file.data, file.size, NULL);
        expect_values(dataset, NF_DTYPE_F32, 2, 1, values);
        nf_dataset_release(dataset);
    }
    nf_context_destroy(ctx);
}

static void test_headers_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        const char *part;
    } cases[] = {
        {"", "cannot be understood"},
        {"{}", "cannot be understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1)", "cannot be understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), } x", "cannot be understood"},
        {"{'descr': '<f4', 'fortran_order': False, }", "cannot be understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), 'more': 1}", "cannot be understood"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 1)}", "cannot be understood"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 1)}", "cannot be understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 1)}", "cannot be understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", "cannot be understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 1)}", "cannot be understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "cannot be understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2}", "cannot be understood"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616, 1)}", "cannot be understood"},
        {"{'descr': '<f4, 'fortran_order': False, 'shape': (2, 1)}", "cannot be understood"},
        {"{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (2, 1)}", "cannot be understood"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "records with named fields"},
        {"{'descr': 'f4', 'fortran_order': False, 'shape': (2, 1)}", "byte order"},
        {"{'descr': '|f4', 'fortran_order': False, 'shape': (2, 1)}", "byte order"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (2, 1)}", "not known"},
        {"{'descr': '', 'fortran_order': False, 'shape': (2, 1)}", "not known"},
        {"{'descr': '<', 'fortran_order': False, 'shape': (2, 1)}", "not known"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 1)}", "Python objects"},
        {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2, 1)}", "times"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0)}", "rows have 0 values"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 0)}", "rows have 0 values"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1048577)}", "1 to 1048576 are allowed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4294967297)}", "rows have 4294967297 values"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 2)}", "more than any file holds"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387906, 1)}", "more than any file holds"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 1)}",
         "1000000000000 x 1 f32 (4000000000000 bytes), file holds 8 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1)}", "3 x 1 f32 (12 bytes), file holds 8 bytes"},
    };
    static bytes file;
    nf_context  *ctx = make_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_npy(&file, cases[i].header);
        add_number(&file, 0, 8);
        refuse_bytes(ctx, "t.npy", file.data, file.size, NULL, NF_ERR_FORMAT, cases[i].part);
    }
    refuse_bytes(ctx, "t.npy", "\x93NUMPX\x01\0", 8, NULL, NF_ERR_FORMAT, "does not begin like");
    refuse_bytes(ctx, "t.npy", "\x93NUMPY\x04\0\0\0\0\0", 12, NULL, NF_ERR_VERSION, "version 4");
    refuse_bytes(ctx, "t.npy", "\x93NUMPY\x01\0\xff\xff{}", 12, NULL, NF_ERR_FORMAT,
                 "header of 65535 bytes goes beyond");
    refuse_bytes(ctx, "t.npy", "\x93NUMPY\x02\0\xff\xff\xff\xff{}", 14, NULL, NF_ERR_FORMAT, "4294967295 bytes goes");
    nf_context_destroy(ctx);
}

/* Fortran order over several tasks and tiles, with sizes that divide by nothing. */
static void test_large_transpose(void **state)
{
    (void)state;
    enum { rows = 9001, dims = 7 };
    const char  *header = "{'descr': '>u2', 'fortran_order': True, 'shape': (9001, 7)}";
    const size_t start = 10 + strlen(header), size = start + rows * dims * 2;
    uint8_t     *data = malloc(size);
    static bytes head;
    nf_context  *ctx = make_context(3);
    assert_non_null(data);
    begin_npy(&head, header);
    memcpy(data, head.data, start);
    for (uint32_t i = 0; i < rows * dims; i++) {
        data[start + 2 * i] = (uint8_t)(i >> 8);
        data[start + 2 * i + 1] = (uint8_t)i;
    }
    nf_dataset      *dataset = read_bytes(ctx, "t.npy", data, size, NULL);
    const nf_matrix *matrix = nf_dataset_matrix(dataset);
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < dims; j++) assert_true(value_at(matrix, i, j) == (uint16_t)(j * rows + i));
    }
    nf_dataset_release(dataset);
    nf_context_destroy(ctx);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numpy_files),
        cmocka_unit_test(test_numpy_files_refused),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_all_types),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_headers_refused),
        cmocka_unit_test(test_large_transpose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
