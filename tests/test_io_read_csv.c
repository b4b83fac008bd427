/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text files: what separates, what a header is, quotes, line ends, comments, chosen columns, types, rows, missing
 * values, and what every refusal says. Values and line numbers are worked out by hand.
 */
#include "io_read_helper.h"

static const double SIX[6] = {1, 2, 3, 4, 5, 6};

/* Reads text as name and compares. */
static void expect_text(nf_context *ctx, const char *name, const char *text, const char *columns, nf_dtype dtype,
                        uint64_t rows, uint32_t dims, const double *values)
{
    nf_read_params params = default_params();
    params.columns = columns;
    uint8_t    *copy = exact_copy(text, strlen(text));
    nf_dataset *dataset = read_bytes(ctx, name, copy, strlen(text), &params);
    free(copy);
    expect_values(dataset, dtype, rows, dims, values);
    assert_null(nf_dataset_ids(dataset));
    assert_int_equal(nf_dataset_file_rows(dataset), rows);
    nf_dataset_release(dataset);
}

/* All of these are the two rows 1 2 3 and 4 5 6. */
static void test_same_table(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"a.csv", "1,2,3\n4,5,6\n"},
        {"a.csv", "1,2,3\n4,5,6"},
        {"a.csv", "1,2,3\r\n4,5,6\r\n"},
        {"a.csv", "1,2,3\r\n4,5,6\r"},
        {"a.csv", "1;2;3\n4;5;6\n"},
        {"a.csv", "1\t2\t3\n4\t5\t6\n"},
        {"a.csv", "1 2 3\n4 5 6\n"},
        {"a.csv", " 1 , 2 ,\t3 \n4, 5,  6  \n"},
        {"a.csv", "\n\n1,2,3\n  \n\t\n4,5,6\n\n\n"},
        {"a.csv", "\xEF\xBB\xBF"
                  "1,2,3\n4,5,6\n"},
        {"a.csv", "\"1\",\"2\",\"3\"\n\"4\",\"5\",\"6\"\n"},
        {"a.csv", "'1',' 2 ','3'\n4,\"5\" ,6\n"},
        {"a.csv", "+1,2.0,3e0\n4.,05,60e-1\n"},
        {"a.csv", "x,y,z\n1,2,3\n4,5,6\n"},
        {"a.csv", "\"x, mm\",\"y\",'z;w'\n1,2,3\n4,5,6\n"},
        {"a.csv", "1,2,name\n1,2,3\n4,5,6\n"},
        {"a.csv", "a,b;c;d\n1;2;3\n4;5;6\n"},
        {"a.txt", "1 2 3\n4 5 6\n"},
        {"a.txt", "  1   2\t 3  \n\t4 5\t6\t\r\n"},
        {"a.txt", "# made by hand\n1 2 3\n# between\n   # more\n4 5 6\n#\n"},
        {"a.txt", "x y z\n1 2 3\n4 5 6\n"},
        {"a.txt", "\"x x\" 'y' z\n\"1\" 2 '3'\n4 5 6\n"},
        {"a.txt", "1,2,3\n4,5,6\n"},
        {"a.txt", "1.000000000000000000e+00 2.000000000000000000e+00 3.0e+00\n4 5 6.000000000000000000000000000\n"},
        {"a.tsv", "1\t2\t3\n4\t5\t6\n"},
        {"a.tsv", "height, cm\tweight, kg\tage\n1\t2\t3\n 4\t5 \t 6\n"},
        {"a.tsv", "1,2,3\n4,5,6\n"},
        {"A.CSV", "1,2,3\n4,5,6\n"},
    };
    nf_context *ctx = make_context(2);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        expect_text(ctx, texts[i][0], texts[i][1], NULL, NF_DTYPE_U8, 2, 3, SIX);
    }
    nf_context_destroy(ctx);
}

static void test_one_column(void **state)
{
    (void)state;
    nf_context *ctx = make_context(1);
    expect_text(ctx, "a.csv", "1\n2\n3\n", NULL, NF_DTYPE_U8, 3, 1, SIX);
    expect_text(ctx, "a.csv", "sepal length\n1\n2\n", NULL, NF_DTYPE_U8, 2, 1, SIX);
    expect_text(ctx, "a.txt", "1", NULL, NF_DTYPE_U8, 1, 1, SIX);
    expect_text(ctx, "a.csv", "1,2,3", NULL, NF_DTYPE_U8, 1, 3, SIX);
    expect_text(ctx, "a.csv", "x,y\n", NULL, NF_DTYPE_U8, 0, 2, SIX); /* names alone: no rows */
    nf_context_destroy(ctx);
}

static void test_types(void **state)
{
    (void)state;
    static const double u8[2] = {0, 255}, i8[2] = {-128, 127}, i16[2] = {-128, 128}, i16_wide[2] = {-32768, 32767};
    static const double f32_a[2] = {0, 32768}, f32_b[2] = {0.5, 16777216}, f32_c[2] = {NAN, -INFINITY};
    static const double f64_a[2] = {0.1, 1}, f64_b[2] = {16777217, 0}, f64_c[2] = {1e300, 4.9406564584124654e-324};
    nf_context         *ctx = make_context(1);
    expect_text(ctx, "a.csv", "0\n255\n", NULL, NF_DTYPE_U8, 2, 1, u8);
    expect_text(ctx, "a.csv", "-0\n255\n", NULL, NF_DTYPE_U8, 2, 1, u8);
    expect_text(ctx, "a.csv", "-128,127\n", NULL, NF_DTYPE_I8, 1, 2, i8);
    expect_text(ctx, "a.csv", "-128\n128\n", NULL, NF_DTYPE_I16, 2, 1, i16);
    expect_text(ctx, "a.csv", "-32768\n32767\n", NULL, NF_DTYPE_I16, 2, 1, i16_wide);
    expect_text(ctx, "a.csv", "0\n32768\n", NULL, NF_DTYPE_F32, 2, 1, f32_a);
    expect_text(ctx, "a.csv", "0.5,16777216\n", NULL, NF_DTYPE_F32, 1, 2, f32_b);
    expect_text(ctx, "a.csv", "nan,-inf\n", NULL, NF_DTYPE_F32, 1, 2, f32_c);
    expect_text(ctx, "a.csv", "0.1,1\n", NULL, NF_DTYPE_F64, 1, 2, f64_a);
    expect_text(ctx, "a.csv", "16777217,0\n", NULL, NF_DTYPE_F64, 1, 2, f64_b);
    expect_text(ctx, "a.csv", "1e300\n4.9e-324\n", NULL, NF_DTYPE_F64, 2, 1, f64_c);
    nf_context_destroy(ctx);
}

#define FLOWERS "5,3,1,setosa\n6,2,4,\"a, b\"\n7,1,6,\n"

static void test_columns(void **state)
{
    (void)state;
    static const double first[6] = {5, 3, 6, 2, 7, 1}, mixed[9] = {1, 5, 5, 4, 6, 6, 6, 7, 7};
    static const double years[2] = {7, 8}, two[2] = {2, 4};
    nf_context         *ctx = make_context(2);
    /* No header: the label column is not asked for, so the first row is a row. */
    expect_text(ctx, "a.csv", FLOWERS, "1-2", NF_DTYPE_U8, 3, 2, first);
    expect_text(ctx, "a.csv", FLOWERS, " 1 , 2", NF_DTYPE_U8, 3, 2, first);
    expect_text(ctx, "a.csv", FLOWERS, "3,1-1,1", NF_DTYPE_U8, 3, 3, mixed);
    expect_text(ctx, "a.csv", "x,y,z,kind\n" FLOWERS, "1-2", NF_DTYPE_U8, 3, 2, first);
    expect_text(ctx, "a.csv", "x,y,z,kind\n" FLOWERS, "x,y", NF_DTYPE_U8, 3, 2, first);
    expect_text(ctx, "a.csv", "x,y,z,kind\n" FLOWERS, "z,\"x\",1", NF_DTYPE_U8, 3, 3, mixed);
    expect_text(ctx, "a.csv", "\"x, mm\",'y',z,kind\n" FLOWERS, "\"x, mm\",y", NF_DTYPE_U8, 3, 2, first);
    /* Names that are numbers: the column beside them tells that the line is a header; quotes make "2019" a name. */
    expect_text(ctx, "a.csv", "id,2019,2020\n6,7,9\n9,8,9\n", "2", NF_DTYPE_U8, 2, 1, years);
    expect_text(ctx, "a.csv", "id,2019,2020\n6,7,9\n9,8,9\n", "\"2019\"", NF_DTYPE_U8, 2, 1, years);
    expect_text(ctx, "a.txt", "'a' 2 b\n\"c d\" 4 e\n", "2", NF_DTYPE_U8, 2, 1, two);
    nf_context_destroy(ctx);
}

static void refuse_columns(nf_context *ctx, const char *columns, const char *part)
{
    nf_read_params params = default_params();
    params.columns = columns;
    refuse_text(ctx, "a.csv", "x,y,y\n1,2,3\n", &params, NF_ERR_ARGUMENT, part);
}

static void test_columns_refused(void **state)
{
    (void)state;
    nf_context *ctx = make_context(1);
    refuse_columns(ctx, "0", "column 0 was asked for; columns count from 1");
    refuse_columns(ctx, "4", "column 4 was asked for, the file has 3");
    refuse_columns(ctx, "2-4", "column 4 was asked for, the file has 3");
    refuse_columns(ctx, "1-99999999999999999999999", "the file has 3");
    refuse_columns(ctx, "3-2", "columns 3-2 end before they begin");
    refuse_columns(ctx, "z", "no column is named 'z' in the first line");
    refuse_columns(ctx, "y", "2 columns are named 'y'; ask by number");
    refuse_columns(ctx, "", "empty or wrongly quoted item");
    refuse_columns(ctx, "1,,2", "empty or wrongly quoted item");
    refuse_columns(ctx, "1,", "empty or wrongly quoted item");
    refuse_columns(ctx, "\"x", "empty or wrongly quoted item");
    refuse_columns(ctx, "-1", "no column is named '-1'");
    nf_context_destroy(ctx);
}

static void test_ragged(void **state)
{
    (void)state;
    nf_context *ctx = make_context(2);
    refuse_text(ctx, "a.csv", "1,2,3\n4,5,6\n7,8\n", NULL, NF_ERR_FORMAT, "line 3 has 2 values, the first row has 3");
    refuse_text(ctx, "a.csv", "1,2,3\r\n\r\n4,5,6,7\r\n", NULL, NF_ERR_FORMAT,
                "line 3 has 4 values, the first row has 3");
    refuse_text(ctx, "a.csv", "x,y\n1\n", NULL, NF_ERR_FORMAT, "line 2 has 1 value, the header has 2");
    refuse_text(ctx, "a.csv", "1,2,3\n4\n", NULL, NF_ERR_FORMAT, "line 2 has 1 value, the first row has 3");
    refuse_text(ctx, "a.csv", "1,2,3,\n4,5,6\n", NULL, NF_ERR_VALUE, "line 1, column 4: empty cell");
    refuse_text(ctx, "a.txt", "#\n1 2 3\n4 5\n", NULL, NF_ERR_FORMAT, "line 3 has 2 values, the first row has 3");
    refuse_text(ctx, "a.tsv", "1\t2\n4\t5\t6\n", NULL, NF_ERR_FORMAT, "line 2 has 3 values, the first row has 2");
    nf_context_destroy(ctx);
}

static void test_bad_cells(void **state)
{
    (void)state;
    nf_context *ctx = make_context(2);
    refuse_text(ctx, "a.csv", "1,2\n3,abc\n", NULL, NF_ERR_FORMAT, "line 2, column 2: 'abc' is not a number");
    refuse_text(ctx, "a.csv", "w,h\n1,2\n3,1.2.3\n", NULL, NF_ERR_FORMAT,
                "line 3, column 2 (h): '1.2.3' is not a number");
    refuse_text(ctx, "a.csv", "1,2\n1 2,3\n", NULL, NF_ERR_FORMAT, "line 2, column 1: '1 2' is not a number");
    refuse_text(ctx, "a.csv", "1,2\n1,0x10\n", NULL, NF_ERR_FORMAT, "'0x10' is not a number");
    refuse_text(ctx, "a.csv", "1;2\n1;2,5\n", NULL, NF_ERR_FORMAT, "'2,5' is not a number");
    refuse_text(ctx, "a.csv", "1,2\n1,\n", NULL, NF_ERR_VALUE, "line 2, column 2: empty cell");
    refuse_text(ctx, "a.csv", "w,h\n ,2\n", NULL, NF_ERR_VALUE, "line 2, column 1 (w): empty cell");
    refuse_text(ctx, "a.csv", "1,2\n1,\"\"\n", NULL, NF_ERR_VALUE, "empty cell");
    refuse_text(ctx, "a.csv", "?,2\n1,2\n", NULL, NF_ERR_VALUE, "line 1, column 1: '?' is no value");
    refuse_text(ctx, "a.csv", "1,2\n1,\"2\n", NULL, NF_ERR_FORMAT, "line 2, column 2: the closing quote is missing");
    refuse_text(ctx, "a.csv", "1,2\n1,\"2\"3\n", NULL, NF_ERR_FORMAT, "'2' is followed by more text");
    refuse_text(ctx, "a.csv", "1,2\n1,\x01\x7f\n", NULL, NF_ERR_FORMAT, "'\?\?' is not a number");
    refuse_text(ctx, "a.csv", "1,2\n1,abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\n", NULL, NF_ERR_FORMAT,
                "'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqr...' is not a number");
    refuse_text(ctx, "a.csv", "1,2\n1,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xC3\xA4\xC3\xA4\xC3\xA4\n", NULL,
                NF_ERR_FORMAT, "aaa...' is not a number");
    nf_context_destroy(ctx);
}

static void test_empty_files(void **state)
{
    (void)state;
    nf_context *ctx = make_context(1);
    refuse_text(ctx, "a.csv", "", NULL, NF_ERR_FORMAT, "file is empty");
    refuse_text(ctx, "a.csv", "\xEF\xBB\xBF", NULL, NF_ERR_FORMAT, "no line with values");
    refuse_text(ctx, "a.csv", "\n \r\n\t\n", NULL, NF_ERR_FORMAT, "no line with values");
    refuse_text(ctx, "a.txt", "# nothing\n", NULL, NF_ERR_FORMAT, "no line with values");
    refuse_text(ctx, "a.csv", "1,2\r3,4\r", NULL, NF_ERR_FORMAT, "the first line holds a carriage return");
    nf_context_destroy(ctx);
}

static void test_rows(void **state)
{
    (void)state;
    nf_context    *ctx = make_context(2);
    nf_read_params params = default_params();
    params.rows[0] = 1;
    params.rows[1] = 3;
    nf_dataset *dataset = read_text(ctx, "a.csv", "w\n\n0\n1\n\n2\n300.5\n", &params);
    expect_values(dataset, NF_DTYPE_U8, 2, 1, SIX);
    assert_int_equal(nf_dataset_first(dataset), 1);
    assert_int_equal(nf_dataset_file_rows(dataset), 4);
    nf_dataset_release(dataset);
    params.rows[1] = 5;
    refuse_text(ctx, "a.csv", "w\n\n0\n1\n\n2\n300.5\n", &params, NF_ERR_ARGUMENT,
                "rows up to 5 were asked for, the file has 4");
    nf_context_destroy(ctx);
}

static void test_skip_invalid(void **state)
{
    (void)state;
    static const double kept[4] = {1, 2, 200, 6};
    nf_context         *ctx = make_context(2);
    nf_read_params      params = default_params();
    params.skip_invalid = 1;
    nf_dataset *dataset = read_text(ctx, "a.csv", "1,2\n?,3\nnan,-1\n,\n200,6\n1e999,7.5\n\"?\",0.1\n", &params);
    expect_values(dataset, NF_DTYPE_U8, 2, 2, kept); /* rows that are left out do not widen the type */
    assert_int_equal(nf_dataset_skipped(dataset), 5);
    assert_int_equal(nf_dataset_file_rows(dataset), 7);
    assert_int_equal(nf_dataset_ids(dataset)[0], 0);
    assert_int_equal(nf_dataset_ids(dataset)[1], 4);
    nf_dataset_release(dataset);
    params.columns = "2";
    dataset = read_text(ctx, "a.csv", "?,1\nx,2\n,3\n", &params); /* only what is wanted counts */
    expect_values(dataset, NF_DTYPE_U8, 3, 1, SIX);
    assert_null(nf_dataset_ids(dataset));
    nf_dataset_release(dataset);
    params.columns = NULL;
    refuse_text(ctx, "a.csv", "1,2\n?,3\n4,x\n", &params, NF_ERR_FORMAT, "line 3, column 2: 'x' is not a number");
    nf_context_destroy(ctx);
}

static void test_info(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *detail;
        uint64_t    rows;
        uint32_t    dims, header;
        nf_dtype    dtype;
    } cases[] = {
        {"a.csv", "x,y\n1,2\n3,4.5\n", "comma", 2, 2, 1, NF_DTYPE_F32},
        {"a.csv", "1;2\n", "semicolon", 1, 2, 0, NF_DTYPE_U8},
        {"a.tsv", "1\t-2\n", "tab", 1, 2, 0, NF_DTYPE_I8},
        {"a.txt", "#\n1 2 0.1\n", "blanks", 1, 3, 0, NF_DTYPE_F64},
        {"a.txt", "1\n", "one column", 1, 1, 0, NF_DTYPE_U8},
    };
    nf_context *ctx = make_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char         path[4096];
        nf_file_info info;
        write_file(path, cases[i].name, cases[i].text, strlen(cases[i].text));
        assert_int_equal(nf_read_info(ctx, path, NULL, &info), NF_OK);
        assert_string_equal(info.format, cases[i].name + 2);
        assert_string_equal(info.detail, cases[i].detail);
        assert_int_equal(info.rows, cases[i].rows);
        assert_int_equal(info.dims, cases[i].dims);
        assert_int_equal(info.header_lines, cases[i].header);
        assert_int_equal(info.dtype, cases[i].dtype);
        assert_int_equal(info.bytes, strlen(cases[i].text));
        remove_file(path);
    }
    nf_context_destroy(ctx);
}

/* Text of many chunks: rows "i,i/8" with blank lines strewn in. size is what was written. */
static char *make_large(uint32_t rows, size_t *size)
{
    char *text = malloc((size_t)rows * 32);
    assert_non_null(text);
    size_t used = 0;
    for (uint32_t i = 0; i < rows; i++) {
        if (i % 1000 == 7) used += (size_t)sprintf(text + used, "  \n");
        used += (size_t)sprintf(text + used, "%u,%.3f\n", i, i / 8.0);
    }
    *size = used;
    return text;
}

/* Rows of many chunks, in their places. */
static void test_many_chunks(void **state)
{
    (void)state;
    enum { rows = 60000 };
    size_t size;
    char  *text = make_large(rows, &size);
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        nf_context      *ctx = make_context(threads);
        nf_dataset      *dataset = read_bytes(ctx, "a.csv", text, size, NULL);
        const nf_matrix *matrix = nf_dataset_matrix(dataset);
        assert_int_equal(matrix->rows, rows);
        assert_int_equal(matrix->dtype, NF_DTYPE_F32);
        for (uint32_t i = 0; i < rows; i++) {
            assert_true(value_at(matrix, i, 0) == i && value_at(matrix, i, 1) == i / 8.0);
        }
        nf_dataset_release(dataset);
        nf_read_params params = default_params();
        params.rows[0] = 30001;
        params.rows[1] = 50001;
        dataset = read_bytes(ctx, "a.csv", text, size, &params);
        matrix = nf_dataset_matrix(dataset);
        assert_int_equal(matrix->rows, 20000);
        for (uint32_t i = 0; i < 20000; i++) assert_true(value_at(matrix, i, 0) == 30001 + i);
        nf_dataset_release(dataset);
        nf_context_destroy(ctx);
    }
    free(text);
}

/* The first rows are small integers; one late value needs more. */
static void test_widened_type(void **state)
{
    (void)state;
    static const struct {
        const char *last;
        double      value;
        nf_dtype    dtype;
    } cases[] = {
        {"255", 255, NF_DTYPE_U8},    {"256", 256, NF_DTYPE_I16},       {"-1", -1, NF_DTYPE_I8},
        {"-129", -129, NF_DTYPE_I16}, {"-32769", -32769, NF_DTYPE_F32}, {"0.5", 0.5, NF_DTYPE_F32},
        {"0.1", 0.1, NF_DTYPE_F64},   {"1e39", 1e39, NF_DTYPE_F64},     {"-inf", -INFINITY, NF_DTYPE_F32},
    };
    enum { rows = 1000 };
    static char text[rows * 4 + 16];
    nf_context *ctx = make_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t row = 0; row < rows; row++) sprintf(text + 4 * row, "%03d\n", (int)(row % 128));
        strcpy(text + (size_t)4 * rows, cases[i].last);
        nf_dataset      *dataset = read_text(ctx, "a.csv", text, NULL);
        const nf_matrix *matrix = nf_dataset_matrix(dataset);
        assert_string_equal(nf_dtype_name((nf_dtype)matrix->dtype), nf_dtype_name(cases[i].dtype));
        for (size_t row = 0; row < rows; row++) assert_true(value_at(matrix, row, 0) == (double)(row % 128));
        assert_true(value_at(matrix, rows, 0) == cases[i].value);
        nf_dataset_release(dataset);
    }
    nf_context_destroy(ctx);
}

/* Of several bad lines in different chunks the first is named. */
static void test_first_error(void **state)
{
    (void)state;
    enum { rows = 60000 };
    size_t      size;
    char       *text = make_large(rows, &size);
    nf_context *ctx = make_context(4);
    *strstr(text, "\n50000,") = ',';
    *strstr(text, "\n20000,") = ',';
    /* Lines before row 20000: as many rows, and 20 blank lines. Row 19999 now has the next one's values too. */
    refuse_bytes(ctx, "a.csv", text, size, NULL, NF_ERR_FORMAT, "line 20020 has 4 values, the first row has 2");
    nf_context_destroy(ctx);
    free(text);
}

/* A long first row and many short ones: refused before memory for rows times columns is asked for. */
static void test_no_room(void **state)
{
    (void)state;
    enum { columns = 1 << 20, rows = 1 << 20 };
    char           *text = malloc(2 * (size_t)columns + 2 * (size_t)rows);
    nf_context     *ctx = make_context(2);
    nf_context_info info;
    assert_non_null(text);
    for (size_t i = 0; i < columns; i++) memcpy(text + 2 * i, "1,", 2);
    for (size_t i = columns; i < columns + rows; i++) memcpy(text + 2 * i, "1\n", 2);
    text[2 * columns - 1] = '\n';
    refuse_bytes(ctx, "a.csv", text, 2 * ((size_t)columns + rows), NULL, NF_ERR_FORMAT,
                 "line 2 has 1 value, the first row has 1048576");
    nf_context_describe(ctx, &info);
    assert_true(info.memory_peak < (uint64_t)100 << 20);
    text[2 * columns - 1] = ',';
    refuse_bytes(ctx, "a.csv", text, 2 * ((size_t)columns + rows), NULL, NF_ERR_FORMAT, "rows have 1048577 values");
    nf_context_destroy(ctx);
    free(text);
}

static int cancel_now(void *user, const char *step, uint64_t done, uint64_t total)
{
    (void)done;
    assert_true(total > 0);
    snprintf(user, 16, "%s", step);
    return 1;
}

static void test_cancel(void **state)
{
    (void)state;
    char              step[16] = "";
    size_t            size;
    char             *text = make_large(60000, &size);
    nf_context_params params;
    nf_context       *ctx;
    nf_dataset       *dataset;
    nf_context_params_init(&params);
    params.progress = cancel_now;
    params.progress_user = step;
    params.threads = 1;
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    nf_context_cancel(ctx);
    assert_int_equal(nf_read_memory(ctx, "a.csv", text, size, NULL, &dataset), NF_ERR_CANCELLED);
    assert_null(dataset);
    nf_context_destroy(ctx);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_table),
        cmocka_unit_test(test_one_column),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_columns_refused),
        cmocka_unit_test(test_ragged),
        cmocka_unit_test(test_bad_cells),
        cmocka_unit_test(test_empty_files),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_skip_invalid),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_many_chunks),
        cmocka_unit_test(test_widened_type),
        cmocka_unit_test(test_first_error),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
