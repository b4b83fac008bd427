/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .fvecs .bvecs .ivecs, .fbin and its relatives, and raw files, built byte by byte here: values, both headers, views
 * without a copy, sizes that do not fit, rows A:B, rows that are left out, and what is no file at all.
 */
#include <errno.h>
#include <sys/stat.h>

#include "io_read_helper.h"

static const double SIX[6] = {1, 2, 3, -4, 5.5, 6};

static void make_fvecs(bytes *file)
{
    file->size = 0;
    for (int row = 0; row < 2; row++) {
        add_number(file, 3, 4);
        for (int j = 0; j < 3; j++) add_f32(file, (float)SIX[3 * row + j]);
    }
}

static void make_fbin(bytes *file, size_t header_size)
{
    file->size = 0;
    add_number(file, 2, header_size / 2);
    add_number(file, 3, header_size / 2);
    for (int i = 0; i < 6; i++) add_f32(file, (float)SIX[i]);
}

static void test_vecs(void **state)
{
    (void)state;
    static const double small[6] = {1, 2, 255, 0, 7, 9};
    static const double wide[6] = {1, -2, 2147483647, -2147483647 - 1.0, 7, 9};
    static bytes        file;
    nf_context         *ctx = make_context(2);
    make_fvecs(&file);
    nf_dataset *dataset = read_bytes(ctx, "a.fvecs", file.data, file.size, NULL);
    expect_values(dataset, NF_DTYPE_F32, 2, 3, SIX);
    assert_ptr_equal(nf_dataset_matrix(dataset)->data, file.data + 4); /* a view, not a copy */
    assert_int_equal(nf_dataset_matrix(dataset)->stride_bytes, 16);
    nf_dataset_release(dataset);

    file.size = 0;
    for (int i = 0; i < 6; i++) {
        if (i % 3 == 0) add_number(&file, 3, 4);
        add_number(&file, (uint64_t)small[i], 1);
    }
    dataset = read_bytes(ctx, "A.BVECS", file.data, file.size, NULL);
    expect_values(dataset, NF_DTYPE_U8, 2, 3, small);
    nf_dataset_release(dataset);

    file.size = 0;
    for (int i = 0; i < 6; i++) {
        if (i % 3 == 0) add_number(&file, 3, 4);
        add_number(&file, (uint64_t)(int64_t)wide[i], 4);
    }
    dataset = read_bytes(ctx, "a.b/c.ivecs", file.data, file.size, NULL);
    expect_values(dataset, NF_DTYPE_I32, 2, 3, wide);
    nf_dataset_release(dataset);
    nf_context_destroy(ctx);
}

static void test_vecs_refused(void **state)
{
    (void)state;
    static bytes file;
    nf_context  *ctx = make_context(2);
    refuse_bytes(ctx, "a.fvecs", "", 0, NULL, NF_ERR_FORMAT, "0 bytes, too few for one row");
    make_fvecs(&file);
    file.data[16] = 2; /* the second row's own dims */
    refuse_bytes(ctx, "a.fvecs", file.data, file.size, NULL, NF_ERR_FORMAT,
                 "row 1 (counted from 0) has 2 values, the first row has 3");
    make_fvecs(&file);
    refuse_bytes(ctx, "a.fvecs", file.data, file.size - 1, NULL, NF_ERR_FORMAT,
                 "rows of 3 f32 take 16 bytes each, the file's 31 bytes are 1 rows and 15 bytes");
    refuse_bytes(ctx, "a.fvecs", "\0\0\0\0", 4, NULL, NF_ERR_FORMAT, "rows have 0 values");
    refuse_bytes(ctx, "a.fvecs", "\xff\xff\xff\xff", 4, NULL, NF_ERR_FORMAT, "says it has -1 values");
    refuse_bytes(ctx, "a.fvecs", "\xff\xff\xff\x7f", 4, NULL, NF_ERR_FORMAT, "rows have 2147483647 values");
    refuse_bytes(ctx, "a.fvecs", "\x01\x00\x10\x00", 4, NULL, NF_ERR_FORMAT, "1 to 1048576 are allowed");
    nf_context_destroy(ctx);
}

/* Wrong dims in a late row of a file that many tasks check: the lowest such row is named. */
static void test_vecs_many_rows(void **state)
{
    (void)state;
    enum { rows = 100000, stride = 5 };
    uint8_t    *data = calloc(rows, stride);
    nf_context *ctx = make_context(4);
    assert_non_null(data);
    for (size_t i = 0; i < rows; i++) data[i * stride] = 1;
    nf_dataset *dataset = read_bytes(ctx, "a.bvecs", data, rows * stride, NULL);
    assert_int_equal(nf_dataset_matrix(dataset)->rows, rows);
    nf_dataset_release(dataset);
    data[99999 * stride] = data[70001 * stride] = data[98304 * stride] = 9;
    refuse_bytes(ctx, "a.bvecs", data, rows * stride, NULL, NF_ERR_FORMAT, "row 70001 (counted from 0) has 9 values");
    nf_context_destroy(ctx);
    free(data);
}

static void check_bin(nf_context *ctx, const char *name, nf_dtype dtype, size_t header)
{
    static const double   values[6] = {0, 1, 2, 3, 100, 127};
    static const uint16_t halves[6] = {0, 0x3c00, 0x4000, 0x4200, 0x5640, 0x57f0};
    static bytes          file;
    file.size = 0;
    add_number(&file, 3, header / 2);
    add_number(&file, 2, header / 2);
    for (int i = 0; i < 6; i++) {
        if (dtype == NF_DTYPE_F32) {
            add_f32(&file, (float)values[i]);
        } else {
            add_number(&file, dtype == NF_DTYPE_F16 ? halves[i] : (uint64_t)values[i], nf_dtype_bytes(dtype));
        }
    }
    nf_dataset *dataset = read_bytes(ctx, name, file.data, file.size, NULL);
    expect_values(dataset, dtype, 3, 2, values);
    assert_ptr_equal(nf_dataset_matrix(dataset)->data, file.data + header);
    nf_dataset_release(dataset);
}

static void test_bin(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        nf_dtype    dtype;
    } cases[] = {{"x.fbin", NF_DTYPE_F32},   {"x.u8bin", NF_DTYPE_U8}, {"x.i8bin", NF_DTYPE_I8},
                 {"x.f16bin", NF_DTYPE_F16}, {"x.hbin", NF_DTYPE_F16}, {"x.ibin", NF_DTYPE_I32}};
    nf_context *ctx = make_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_bin(ctx, cases[i].name, cases[i].dtype, 8);
        check_bin(ctx, cases[i].name, cases[i].dtype, 16);
    }
    nf_dataset *dataset = read_bytes(ctx, "x.fbin", "\0\0\0\0\5\0\0\0", 8, NULL);
    assert_int_equal(nf_dataset_matrix(dataset)->rows, 0);
    assert_int_equal(nf_dataset_matrix(dataset)->dims, 5);
    nf_dataset_release(dataset);
    nf_context_destroy(ctx);
}

static void test_bin_refused(void **state)
{
    (void)state;
    static bytes file;
    nf_context  *ctx = make_context(1);
    refuse_bytes(ctx, "x.fbin", "", 0, NULL, NF_ERR_FORMAT, "0 bytes, too few");
    refuse_bytes(ctx, "x.fbin", "\0\0\0\0\0\0\0\0", 8, NULL, NF_ERR_FORMAT, "rows have 0 values");
    refuse_bytes(ctx, "x.fbin", "\5\0\0\0\0\0\0\0", 8, NULL, NF_ERR_FORMAT, "rows have 0 values");
    refuse_bytes(ctx, "x.u8bin", "\xff\xff\xff\xff\xff\xff\xff\xff", 8, NULL, NF_ERR_FORMAT,
                 "header says 4294967295 x 4294967295 u8, file holds 0 bytes after the header");
    refuse_bytes(ctx, "x.u8bin", "\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0", 16, NULL, NF_ERR_FORMAT, "header says");
    refuse_bytes(ctx, "x.u8bin", "\1\0\0\0\1\0\x20\0zz", 10, NULL, NF_ERR_FORMAT, "header says 1 x 2097153 u8");
    make_fbin(&file, 8);
    refuse_bytes(ctx, "x.fbin", file.data, file.size - 1, NULL, NF_ERR_FORMAT, "2 x 3 f32, file holds 23 bytes");
    nf_context_destroy(ctx);
}

static void test_raw(void **state)
{
    (void)state;
    static const double  values[4] = {-1, 256, 2, -32768};
    static const uint8_t data[8] = {0xff, 0xff, 0, 1, 2, 0, 0, 0x80};
    nf_context          *ctx = make_context(1);
    nf_read_params       params = default_params();
    params.dims = 2;
    params.dtype = "i16";
    nf_dataset *dataset = read_bytes(ctx, "x.raw", data, 8, &params);
    expect_values(dataset, NF_DTYPE_I16, 2, 2, values);
    nf_dataset_release(dataset);
    params.format = "raw";
    params.dtype = NULL; /* f32 */
    dataset = read_bytes(ctx, "whatever", data, 8, &params);
    assert_int_equal(nf_dataset_matrix(dataset)->dtype, NF_DTYPE_F32);
    assert_int_equal(nf_dataset_matrix(dataset)->rows, 1);
    nf_dataset_release(dataset);
    dataset = read_bytes(ctx, "empty.raw", "", 0, &params);
    assert_int_equal(nf_dataset_matrix(dataset)->rows, 0);
    nf_dataset_release(dataset);
    refuse_bytes(ctx, "x.raw", data, 7, &params, NF_ERR_FORMAT, "7 bytes are 0 rows and 7 bytes");
    params.dtype = "i17";
    refuse_bytes(ctx, "x.raw", data, 8, &params, NF_ERR_ARGUMENT, "dtype 'i17' is not known");
    params.dims = 0;
    refuse_bytes(ctx, "x.raw", data, 8, &params, NF_ERR_ARGUMENT, "need dims");
    params.dims = UINT32_MAX;
    refuse_bytes(ctx, "x.raw", data, 8, &params, NF_ERR_ARGUMENT, "dims is 4294967295");
    nf_context_destroy(ctx);
}

static void refuse_range(nf_context *ctx, const bytes *file, uint64_t begin, uint64_t end, const char *part)
{
    nf_read_params params = default_params();
    params.rows[0] = begin;
    params.rows[1] = end;
    refuse_bytes(ctx, "x.fvecs", file->data, file->size, &params, NF_ERR_ARGUMENT, part);
}

static void test_rows(void **state)
{
    (void)state;
    static bytes   file;
    nf_context    *ctx = make_context(1);
    nf_read_params params = default_params();
    make_fvecs(&file);
    params.rows[0] = 1;
    nf_dataset *dataset = read_bytes(ctx, "x.fvecs", file.data, file.size, &params);
    expect_values(dataset, NF_DTYPE_F32, 1, 3, SIX + 3);
    assert_int_equal(nf_dataset_first(dataset), 1);
    assert_int_equal(nf_dataset_file_rows(dataset), 2);
    nf_dataset_release(dataset);
    params.rows[0] = params.rows[1] = 2;
    dataset = read_bytes(ctx, "x.fvecs", file.data, file.size, &params);
    assert_int_equal(nf_dataset_matrix(dataset)->rows, 0);
    nf_dataset_release(dataset);
    refuse_range(ctx, &file, 0, 3, "rows up to 3 were asked for, the file has 2");
    refuse_range(ctx, &file, 3, UINT64_MAX, "rows up to 3 were asked for, the file has 2");
    refuse_range(ctx, &file, 2, 1, "rows 2:1 end before they begin");
    nf_context_destroy(ctx);
}

/* More rows than a matrix may have: only a sparse file is that large. */
static void test_too_many_rows(void **state)
{
    (void)state;
    char           path[4096];
    nf_context    *ctx = make_context(1);
    nf_dataset    *dataset;
    nf_read_params params = default_params();
    write_file(path, "x.u8bin", "\0\0\0\x80\1\0\0\0", 8);
    if (truncate(path, 8 + ((off_t)1 << 31)) != 0) {
        remove_file(path);
        nf_context_destroy(ctx);
        skip();
    }
    assert_int_equal(nf_read_matrix(ctx, path, &params, &dataset), NF_ERR_ARGUMENT);
    assert_non_null(strstr(nf_context_error(ctx)->text, "2147483648 rows are too many, 2147483647 can be read"));
    params.rows[0] = 2147483640;
    assert_int_equal(nf_read_matrix(ctx, path, &params, &dataset), NF_OK);
    assert_int_equal(nf_dataset_matrix(dataset)->rows, 8);
    nf_dataset_release(dataset);
    remove_file(path);
    nf_context_destroy(ctx);
}

static void test_skip_invalid(void **state)
{
    (void)state;
    static const double kept[4] = {1, 2, 5, 6};
    static const double one[2] = {5, 6};
    static const float  values[10] = {1, 2, NAN, 3, 4, INFINITY, 5, 6, 7, -INFINITY};
    static bytes        file;
    nf_context         *ctx = make_context(2);
    nf_read_params      params = default_params();
    params.skip_invalid = 1;
    add_number(&file, 5, 4);
    add_number(&file, 2, 4);
    for (int i = 0; i < 10; i++) add_f32(&file, values[i]);
    nf_dataset *dataset = read_bytes(ctx, "x.fbin", file.data, file.size, &params);
    expect_values(dataset, NF_DTYPE_F32, 2, 2, kept);
    assert_int_equal(nf_dataset_skipped(dataset), 3);
    assert_int_equal(nf_dataset_file_rows(dataset), 5);
    assert_int_equal(nf_dataset_ids(dataset)[0], 0);
    assert_int_equal(nf_dataset_ids(dataset)[1], 3);
    nf_dataset_release(dataset);

    params.rows[0] = 2; /* ids stay rows of the file */
    dataset = read_bytes(ctx, "x.fbin", file.data, file.size, &params);
    expect_values(dataset, NF_DTYPE_F32, 1, 2, one);
    assert_int_equal(nf_dataset_first(dataset), 2);
    assert_int_equal(nf_dataset_ids(dataset)[0], 3);
    assert_int_equal(nf_dataset_skipped(dataset), 2);
    nf_dataset_release(dataset);

    params.rows[1] = 2; /* nothing left, nothing to skip */
    dataset = read_bytes(ctx, "x.fbin", file.data, file.size, &params);
    assert_int_equal(nf_dataset_matrix(dataset)->rows, 0);
    assert_null(nf_dataset_ids(dataset));
    nf_dataset_release(dataset);

    make_fbin(&file, 8);
    params = default_params();
    params.skip_invalid = 1;
    dataset = read_bytes(ctx, "x.fbin", file.data, file.size, &params);
    expect_values(dataset, NF_DTYPE_F32, 2, 3, SIX);
    assert_null(nf_dataset_ids(dataset));
    assert_ptr_equal(nf_dataset_matrix(dataset)->data, file.data + 8);
    nf_dataset_release(dataset);
    nf_context_destroy(ctx);
}

/* Every skipped kind of row in f16 and f64, where all rows go. */
static void test_skip_all(void **state)
{
    (void)state;
    static const uint8_t halves[4] = {0, 0x7c, 1, 0xfc}; /* infinity, NaN */
    static const uint8_t wide[16] = {0, 0, 0, 0, 0, 0, 0xf0, 0xff, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f};
    nf_context          *ctx = make_context(1);
    nf_read_params       params = default_params();
    params.skip_invalid = 1;
    params.dims = 1;
    params.dtype = "f16";
    nf_dataset *dataset = read_bytes(ctx, "x.raw", halves, 4, &params);
    assert_int_equal(nf_dataset_matrix(dataset)->rows, 0);
    assert_int_equal(nf_dataset_skipped(dataset), 2);
    nf_dataset_release(dataset);
    params.dtype = "f64";
    dataset = read_bytes(ctx, "x.raw", wide, 16, &params);
    assert_int_equal(nf_dataset_matrix(dataset)->rows, 0);
    assert_int_equal(nf_dataset_skipped(dataset), 2);
    nf_dataset_release(dataset);
    nf_context_destroy(ctx);
}

static void refuse_path(nf_context *ctx, const char *path, const nf_read_params *params, nf_status status,
                        const char *part)
{
    nf_dataset *dataset = (nf_dataset *)&status;
    assert_int_equal(nf_read_matrix(ctx, path, params, &dataset), status);
    assert_null(dataset);
    assert_non_null(strstr(nf_context_error(ctx)->text, part));
}

static void test_no_file(void **state)
{
    (void)state;
    char           path[4096];
    nf_context    *ctx = make_context(1);
    nf_read_params params = default_params();
    refuse_path(ctx, "/nonexistent/x.npy", NULL, NF_ERR_IO, "/nonexistent/x.npy: cannot open");
    assert_int_equal(nf_context_error(ctx)->native, ENOENT);
    params.format = "fvecs";
    refuse_path(ctx, "/", &params, NF_ERR_IO, "/: is a directory, not a file");
    refuse_path(ctx, "/dev/null", &params, NF_ERR_IO, "/dev/null: is not a regular file");
    write_file(path, "x.fvecs", "", 0);
    refuse_path(ctx, path, NULL, NF_ERR_FORMAT, "too few");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes: opening must not wait */
    refuse_path(ctx, path, NULL, NF_ERR_IO, "is not a regular file");
    remove_file(path);
    params.format = "nonsense";
    refuse_path(ctx, "x.npy", &params, NF_ERR_ARGUMENT, "format 'nonsense' is not known");
    refuse_path(ctx, "x.dat", NULL, NF_ERR_ARGUMENT, "suffix 'dat' is not known");
    refuse_path(ctx, "x.d/y", NULL, NF_ERR_ARGUMENT, "has no suffix");
    refuse_path(ctx, NULL, NULL, NF_ERR_ARGUMENT, "needs a path");
    nf_context_destroy(ctx);
}

/* From disk, with a matrix that outlives the context, and the description. */
static void test_mapped_file(void **state)
{
    (void)state;
    char         path[4096];
    static bytes file;
    nf_context  *ctx = make_context(1);
    nf_dataset  *dataset;
    nf_file_info info;
    make_fbin(&file, 16);
    write_file(path, "x.fbin", file.data, file.size);
    assert_int_equal(nf_read_info(ctx, path, NULL, &info), NF_OK);
    assert_string_equal(info.format, "fbin");
    assert_string_equal(info.detail, "16-byte header");
    assert_int_equal(info.rows, 2);
    assert_int_equal(info.dims, 3);
    assert_int_equal(info.bytes, 40);
    assert_int_equal(nf_read_matrix(ctx, path, NULL, &dataset), NF_OK);
    nf_context_destroy(ctx);
    remove_file(path);
    expect_values(dataset, NF_DTYPE_F32, 2, 3, SIX);
    nf_dataset_release(dataset);
    nf_dataset_release(NULL);
}

static void test_parameters(void **state)
{
    (void)state;
    static bytes   file;
    nf_context    *ctx = make_context(1);
    nf_read_params params = default_params();
    assert_int_equal(params.struct_size, sizeof params);
    assert_int_equal(params.rows[0], 0);
    assert_true(params.rows[1] == UINT64_MAX);
    make_fbin(&file, 8);
    params.columns = "1";
    refuse_bytes(ctx, "x.fbin", file.data, file.size, &params, NF_ERR_ARGUMENT,
                 "columns can be chosen in text files only");
    params.columns = NULL;
    params.dims = 4;
    refuse_bytes(ctx, "x.fbin", file.data, file.size, &params, NF_ERR_ARGUMENT, "rows have 3 values, 4 were asked for");
    params.struct_size =
        offsetof(nf_read_params, columns); /* an older, shorter struct: what follows is not looked at */
    params.columns = "7";
    nf_dataset *dataset = read_bytes(ctx, "x.fbin", file.data, file.size, &params);
    nf_dataset_release(dataset);
    params.struct_size = 0;
    assert_int_equal(nf_read_memory(ctx, "x.fbin", file.data, file.size, &params, &dataset), NF_ERR_ARGUMENT);
    nf_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vecs),       cmocka_unit_test(test_vecs_refused),  cmocka_unit_test(test_vecs_many_rows),
        cmocka_unit_test(test_bin),        cmocka_unit_test(test_bin_refused),   cmocka_unit_test(test_raw),
        cmocka_unit_test(test_rows),       cmocka_unit_test(test_too_many_rows), cmocka_unit_test(test_skip_invalid),
        cmocka_unit_test(test_skip_all),   cmocka_unit_test(test_no_file),       cmocka_unit_test(test_mapped_file),
        cmocka_unit_test(test_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
