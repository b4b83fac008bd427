/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices in every format: bytes put together by hand, values that do not fit, failures half way. */
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "io_write_helper.h"

typedef struct fixture {
    nf_context *ctx;
    char        folder[64];
    char        path[128];
} fixture;

static int set_up(void **state)
{
    fixture *all = calloc(1, sizeof *all);
    all->ctx = make_context(4);
    make_folder(all->folder);
    *state = all;
    return 0;
}

static int tear_down(void **state)
{
    fixture *all = *state;
    assert_int_equal(count_files(all->folder) <= 1, 1);
    nf_context_destroy(all->ctx);
    remove_folder(all->folder);
    free(all);
    return 0;
}

static nf_matrix matrix_of(const void *data, uint64_t rows, uint32_t dims, nf_dtype dtype)
{
    return (nf_matrix){.data = data, .rows = rows, .dims = dims, .dtype = (uint32_t)dtype};
}

/* Writes into the folder under that name, replacing what was there. */
static nf_status write_as(fixture *all, const nf_matrix *matrix, const char *name)
{
    if (all->path[0] != '\0') (void)unlink(all->path);
    path_in(all->path, all->folder, name);
    return nf_write_matrix(all->ctx, matrix, all->path, NULL);
}

static void assert_written(fixture *all, const nf_matrix *matrix, const char *name, const void *bytes, size_t size)
{
    const nf_status status = write_as(all, matrix, name);
    if (status != NF_OK) print_error("%s\n", nf_context_error(all->ctx)->text);
    assert_int_equal(status, NF_OK);
    assert_file_is(all->path, bytes, size);
}

static void assert_refused(fixture *all, const nf_matrix *matrix, const char *name, nf_status status, const char *part)
{
    assert_int_equal(write_as(all, matrix, name), status);
    assert_error_has(all->ctx, part);
    assert_int_equal(count_files(all->folder), 0);
}

static const uint8_t small_u8[6] = {1, 2, 3, 4, 5, 255};

static void test_vecs(void **state)
{
    fixture        *all = *state;
    const nf_matrix matrix = matrix_of(small_u8, 2, 3, NF_DTYPE_U8);

    assert_written(all, &matrix, "a.bvecs", "\3\0\0\0\1\2\3\3\0\0\0\4\5\xff", 14);
    assert_written(all, &matrix, "a.ivecs", "\3\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\3\0\0\0\4\0\0\0\5\0\0\0\xff\0\0\0", 32);
    assert_written(all, &matrix, "a.fvecs",
                   "\3\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\3\0\0\0\0\0\x80\x40\0\0\xa0\x40\0\0\x7f\x43", 32);
}

static void test_bins(void **state)
{
    fixture        *all = *state;
    const nf_matrix matrix = matrix_of(small_u8, 2, 3, NF_DTYPE_U8);
    const nf_matrix smaller = matrix_of(small_u8, 1, 5, NF_DTYPE_U8);

    assert_written(all, &matrix, "a.u8bin", "\2\0\0\0\3\0\0\0\1\2\3\4\5\xff", 14);
    assert_written(all, &matrix, "a.ibin", "\2\0\0\0\3\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5\0\0\0\xff\0\0\0", 32);
    assert_written(all, &smaller, "a.i8bin", "\1\0\0\0\5\0\0\0\1\2\3\4\5", 13);
    assert_written(all, &smaller, "a.f16bin", "\1\0\0\0\5\0\0\0\0\x3c\0\x40\0\x42\0\x44\0\x45", 18);
    assert_written(all, &smaller, "a.fbin",
                   "\1\0\0\0\5\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40", 28);
}

static void test_own_type(void **state)
{
    fixture        *all = *state;
    const int64_t   values[4] = {INT64_MIN, -1, 0, INT64_MAX};
    const nf_matrix matrix = matrix_of(values, 2, 2, NF_DTYPE_I64);

    assert_written(all, &matrix, "a.raw", values, sizeof values);
    assert_int_equal(write_as(all, &matrix, "a.npy"), NF_OK);
    contents file = read_file(all->path);
    assert_int_equal(file.size, 128 + sizeof values);
    assert_memory_equal(file.data + 10, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), } ", 60);
    assert_memory_equal(file.data + 128, values, sizeof values);
    free(file.data);
    assert_written(all, &matrix, "a.csv", "-9223372036854775808,-1\n0,9223372036854775807\n", 46);
}

static void test_text(void **state)
{
    fixture        *all = *state;
    const double    wide[6] = {0.1, -2, 1e-7, 1e300, 0.30000000000000004, -0.0};
    const float     narrow[2] = {0.1f, 0.5f};
    const uint16_t  half[2] = {0x3555, 0xc000}; /* 0.333251953125 and -2 */
    const uint64_t  large[1] = {UINT64_MAX};
    const nf_matrix matrix = matrix_of(wide, 3, 2, NF_DTYPE_F64);
    const nf_matrix narrow_matrix = matrix_of(narrow, 1, 2, NF_DTYPE_F32);
    const nf_matrix half_matrix = matrix_of(half, 2, 1, NF_DTYPE_F16);
    const nf_matrix large_matrix = matrix_of(large, 1, 1, NF_DTYPE_U64);

    assert_written(all, &matrix, "a.csv", "0.1,-2\n1e-7,1e300\n0.30000000000000004,-0\n", 41);
    assert_written(all, &matrix, "a.tsv", "0.1\t-2\n1e-7\t1e300\n0.30000000000000004\t-0\n", 41);
    assert_written(all, &narrow_matrix, "a.txt", "0.10000000149011612,0.5\n", 24);
    assert_written(all, &half_matrix, "A.CSV", "0.333251953125\n-2\n", 18);
    assert_written(all, &large_matrix, "a.csv", "18446744073709551615\n", 21);
}

static void test_strides_and_no_rows(void **state)
{
    fixture       *all = *state;
    const uint8_t  bytes[11] = {9, 1, 0, 2, 0, 9, 9, 3, 0, 4, 0}; /* u16, unaligned, 6 bytes from row to row */
    nf_matrix      matrix = matrix_of(bytes + 1, 2, 2, NF_DTYPE_U16);

    matrix.stride_bytes = 6;
    assert_written(all, &matrix, "a.csv", "1,2\n3,4\n", 8);
    assert_written(all, &matrix, "a.raw", "\1\0\2\0\3\0\4\0", 8);
    assert_written(all, &matrix, "a.bvecs", "\2\0\0\0\1\2\2\0\0\0\3\4", 12);
    matrix.rows = 0;
    matrix.data = NULL;
    assert_written(all, &matrix, "a.csv", "", 0);
    assert_written(all, &matrix, "a.u8bin", "\0\0\0\0\2\0\0\0", 8);
}

static void test_values_that_do_not_fit(void **state)
{
    fixture        *all = *state;
    const double    values[6] = {0, 1, 255, 0.1, 1e40, 65519};
    const int64_t   whole[2] = {(int64_t)1 << 60, ((int64_t)1 << 60) + 1};
    nf_matrix       matrix = matrix_of(values, 2, 3, NF_DTYPE_F64);
    const nf_matrix wide = matrix_of(whole, 1, 2, NF_DTYPE_I64);

    assert_refused(all, &matrix, "a.u8bin", NF_ERR_VALUE,
                   "a.u8bin: row 1, column 0 (both from 0) is 0.1, which u8 cannot hold exactly");
    assert_refused(all, &matrix, "a.i8bin", NF_ERR_VALUE, "row 0, column 2 (both from 0) is 255, which i8");
    assert_refused(all, &matrix, "a.fvecs", NF_ERR_VALUE, "row 1, column 0 (both from 0) is 0.1, which f32");
    matrix = matrix_of(values + 4, 1, 1, NF_DTYPE_F64);
    assert_refused(all, &matrix, "a.fbin", NF_ERR_VALUE, "is 1e40, which f32");
    matrix = matrix_of(values + 5, 1, 1, NF_DTYPE_F64);
    assert_refused(all, &matrix, "a.f16bin", NF_ERR_VALUE, "is 65519, which f16");
    assert_refused(all, &wide, "a.fvecs", NF_ERR_VALUE,
                   "row 0, column 1 (both from 0) is 1152921504606846977, which f32");
    assert_refused(all, &wide, "a.ivecs", NF_ERR_VALUE,
                   "row 0, column 0 (both from 0) is 1152921504606846976, which i32");
}

static void test_not_finite(void **state)
{
    fixture        *all = *state;
    const double    values[2] = {NAN, -INFINITY};
    const nf_matrix matrix = matrix_of(values, 1, 2, NF_DTYPE_F64);

    assert_written(all, &matrix, "a.csv", "nan,-inf\n", 9);
    assert_written(all, &matrix, "a.fvecs", "\2\0\0\0\0\0\xc0\x7f\0\0\x80\xff", 12);
    assert_refused(all, &matrix, "a.ibin", NF_ERR_VALUE, "is nan, which i32");
}

static void test_arguments(void **state)
{
    fixture        *all = *state;
    nf_write_params params;
    nf_matrix       matrix = matrix_of(small_u8, 2, 3, NF_DTYPE_U8);

    assert_refused(all, &matrix, "a", NF_ERR_ARGUMENT, "no suffix says the format");
    assert_refused(all, &matrix, "a.npz", NF_ERR_ARGUMENT, "suffix 'npz' cannot be written here; choose of: npy, csv");
    matrix.dims = 0;
    assert_refused(all, &matrix, "a.npy", NF_ERR_ARGUMENT, "0 dims");
    matrix.dims = 3;
    matrix.dtype = 99;
    assert_refused(all, &matrix, "a.npy", NF_ERR_ARGUMENT, "type 99");
    matrix.dtype = NF_DTYPE_U8;
    matrix.stride_bytes = 2;
    assert_refused(all, &matrix, "a.npy", NF_ERR_ARGUMENT, "stride of 2 bytes");
    matrix.stride_bytes = 0;
    nf_write_params_init(&params);
    params.format = "csw";
    assert_int_equal(nf_write_matrix(all->ctx, &matrix, all->path, &params), NF_ERR_ARGUMENT);
    assert_error_has(all->ctx, "format 'csw'");
    params.format = "raw";
    assert_int_equal(nf_write_matrix(all->ctx, &matrix, all->path, &params), NF_OK);
    assert_file_is(all->path, small_u8, 6);
}

/* Larger than the buffers, in rows that do not divide them; and as one very wide row. */
static void test_large(void **state)
{
    fixture  *all = *state;
    enum { ROWS = 1501, DIMS = 701 };
    int32_t  *values = malloc(sizeof(int32_t) * ROWS * DIMS);
    char     *expected = malloc((size_t)12 * ROWS * DIMS), *out = expected;
    uint64_t  seed = 5;
    nf_matrix matrix = matrix_of(values, ROWS, DIMS, NF_DTYPE_I32);

    for (size_t i = 0; i < (size_t)ROWS * DIMS; i++) values[i] = (int32_t)(next_random(&seed) >> (i % 63));
    for (size_t i = 0; i < (size_t)ROWS * DIMS; i++) {
        if (i % DIMS == 0) {
            memcpy(out, &(int32_t){DIMS}, 4);
            out += 4;
        }
        memcpy(out, &values[i], 4);
        out += 4;
    }
    assert_written(all, &matrix, "a.ivecs", expected, (size_t)(out - expected));

    out = expected;
    for (size_t i = 0; i < (size_t)ROWS * DIMS; i++) {
        out += sprintf(out, i % DIMS == DIMS - 1 ? "%d\n" : "%d,", values[i]);
    }
    assert_written(all, &matrix, "a.csv", expected, (size_t)(out - expected));
    matrix = matrix_of(values, 1, ROWS * (uint32_t)DIMS / 2, NF_DTYPE_I32);
    for (char *at = expected; at < out; at++) *at = *at == '\n' ? ',' : *at;
    assert_int_equal(write_as(all, &matrix, "a.csv"), NF_OK);
    contents file = read_file(all->path);
    assert_memory_equal(file.data, expected, file.size - 1);
    assert_int_equal(file.data[file.size - 1], '\n');
    free(file.data);

    values[ROWS * DIMS - 1] = 1 << 30; /* the first that does not fit is named, not the last */
    values[700000] = (1 << 24) + 1;
    for (size_t i = 0; i < 700000; i++) values[i] &= 0xffff;
    matrix = matrix_of(values, ROWS, DIMS, NF_DTYPE_I32);
    assert_refused(all, &matrix, "a.fvecs", NF_ERR_VALUE, "row 998, column 402 (both from 0) is 16777217");
    free(values);
    free(expected);
}

static int cancel_now(void *user, const char *step, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    *(bool *)user = strcmp(step, "write") == 0;
    return 1;
}

static void test_cancel(void **state)
{
    fixture          *all = *state;
    nf_context_params params;
    bool              saw_write = false;
    const nf_matrix   matrix = matrix_of(calloc(1, 4 << 20), 1 << 20, 4, NF_DTYPE_U8);

    nf_context_destroy(all->ctx);
    nf_context_params_init(&params);
    params.progress = cancel_now;
    params.progress_user = &saw_write;
    assert_int_equal(nf_context_create(&params, &all->ctx, NULL), NF_OK);
    assert_refused(all, &matrix, "a.csv", NF_ERR_CANCELLED, "during write");
    assert_true(saw_write);
    free((void *)(uintptr_t)matrix.data);
}

static void test_disk_full(void **state)
{
    fixture        *all = *state;
    struct rlimit   before, small;
    const nf_matrix matrix = matrix_of(calloc(1, 1 << 20), 1 << 20, 1, NF_DTYPE_U8);

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const nf_status text = write_as(all, &matrix, "a.csv");
    const int       text_left = count_files(all->folder);
    const nf_status raw = write_as(all, &matrix, "a.raw");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    free((void *)(uintptr_t)matrix.data);
    assert_int_equal(text, NF_ERR_IO);
    assert_int_equal(raw, NF_ERR_IO);
    assert_error_has(all->ctx, "a.raw: cannot write: File too large");
    assert_int_equal(text_left + count_files(all->folder), 0);
}

/* Every allocation fails once; nothing is left behind, and at last it succeeds. */
static void test_no_memory(void **state)
{
    fixture        *all = *state;
    failing_memory  memory;
    nf_context     *ctx = make_failing_context(&memory);
    const nf_matrix matrix = matrix_of(small_u8, 2, 3, NF_DTYPE_U8);
    const int       held = memory.held;
    nf_status       status = NF_ERR_MEMORY;
    int             failures = 0;

    path_in(all->path, all->folder, "a.csv");
    for (; status != NF_OK; failures++) {
        memory.calls = 0;
        memory.fail_at = failures;
        status = nf_write_matrix(ctx, &matrix, all->path, NULL);
        assert_true(status == NF_OK || status == NF_ERR_MEMORY);
        assert_int_equal(memory.held, held);
        assert_int_equal(count_files(all->folder), status == NF_OK);
    }
    assert_true(failures > 3);
    assert_file_is(all->path, "1,2,3\n4,5,255\n", 14);
    nf_context_destroy(ctx);
}

int main(void)
{
#define MATRIX_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        MATRIX_TEST(test_vecs),
        MATRIX_TEST(test_bins),
        MATRIX_TEST(test_own_type),
        MATRIX_TEST(test_text),
        MATRIX_TEST(test_strides_and_no_rows),
        MATRIX_TEST(test_values_that_do_not_fit),
        MATRIX_TEST(test_not_finite),
        MATRIX_TEST(test_arguments),
        MATRIX_TEST(test_large),
        MATRIX_TEST(test_cancel),
        MATRIX_TEST(test_disk_full),
        MATRIX_TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
