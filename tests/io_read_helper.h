/* SPDX-License-Identifier: Apache-2.0 */
/* What the reader tests share: contexts, files in memory and on disk, and values decoded without the library. */
#ifndef IO_READ_HELPER_H
#define IO_READ_HELPER_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/io_read.h"
#include "nearfield/io.h"

/* Bytes of a file under construction. */
typedef struct bytes {
    uint8_t data[1 << 16];
    size_t  size;
} bytes;

static inline nf_context *make_context(uint32_t threads)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.threads = threads;
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    return ctx;
}

static inline nf_read_params default_params(void)
{
    nf_read_params params;
    nf_read_params_init(&params);
    return params;
}

static inline void add(bytes *to, const void *data, size_t size)
{
    assert_true(to->size + size <= sizeof to->data);
    memcpy(to->data + to->size, data, size);
    to->size += size;
}

/* The low size bytes of a number, little-endian. */
static inline void add_number(bytes *to, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const uint8_t byte = (uint8_t)(number >> (8 * i));
        add(to, &byte, 1);
    }
}

/* A binary32 value, little-endian. */
static inline void add_f32(bytes *to, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_number(to, bits, sizeof bits);
}

/* A copy that ends where its block ends, so that a sanitizer sees every byte read behind it. */
static inline uint8_t *exact_copy(const void *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    if (size > 0) memcpy(copy, data, size);
    return copy;
}

static inline nf_dataset *read_bytes(nf_context *ctx, const char *name, const void *data, size_t size,
                                     const nf_read_params *params)
{
    nf_dataset     *dataset = NULL;
    const nf_status status = nf_read_memory(ctx, name, data, size, params, &dataset);
    if (status != NF_OK) print_error("%s\n", nf_context_error(ctx)->text);
    assert_int_equal(status, NF_OK);
    assert_non_null(dataset);
    return dataset;
}

static inline nf_dataset *read_text(nf_context *ctx, const char *name, const char *text, const nf_read_params *params)
{
    return read_bytes(ctx, name, text, strlen(text), params);
}

/* Reading must fail with this status, and one line that begins with the name and holds part. */
static inline void refuse_bytes(nf_context *ctx, const char *name, const void *data, size_t size,
                                const nf_read_params *params, nf_status status, const char *part)
{
    nf_dataset *dataset = (nf_dataset *)&status;
    uint8_t    *copy = exact_copy(data, size);
    assert_int_equal(nf_read_memory(ctx, name, copy, size, params, &dataset), status);
    free(copy);
    const nf_error *error = nf_context_error(ctx);
    assert_null(dataset);
    assert_int_equal(error->status, status);
    assert_int_equal(strncmp(error->text, name, strlen(name)), 0);
    assert_null(strchr(error->text, '\n'));
    if (strstr(error->text, part) == NULL) print_error("found: %s\nwanted: %s\n", error->text, part);
    assert_non_null(strstr(error->text, part));
}

static inline void refuse_text(nf_context *ctx, const char *name, const char *text, const nf_read_params *params,
                               nf_status status, const char *part)
{
    refuse_bytes(ctx, name, text, strlen(text), params, status, part);
}

static inline double f16_value(uint16_t bits)
{
    const int    exponent = bits >> 10 & 31;
    const double fraction = bits & 1023;
    const double value = exponent == 31  ? (fraction > 0 ? NAN : INFINITY)
                         : exponent == 0 ? ldexp(fraction, -24)
                                         : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

#define LOAD_AS(type)                       \
    {                                       \
        type number;                        \
        memcpy(&number, at, sizeof number); \
        return (double)number;              \
    }

static inline double value_at(const nf_matrix *matrix, uint64_t row, uint32_t column)
{
    const uint64_t size = nf_dtype_bytes((nf_dtype)matrix->dtype);
    const uint64_t stride = matrix->stride_bytes ? matrix->stride_bytes : size * matrix->dims;
    const uint8_t *at = (const uint8_t *)matrix->data + row * stride + column * size;
    switch (matrix->dtype) {
    case NF_DTYPE_U8: LOAD_AS(uint8_t)
    case NF_DTYPE_I8: LOAD_AS(int8_t)
    case NF_DTYPE_U16: LOAD_AS(uint16_t)
    case NF_DTYPE_I16: LOAD_AS(int16_t)
    case NF_DTYPE_U32: LOAD_AS(uint32_t)
    case NF_DTYPE_I32: LOAD_AS(int32_t)
    case NF_DTYPE_U64: LOAD_AS(uint64_t)
    case NF_DTYPE_I64: LOAD_AS(int64_t)
    case NF_DTYPE_F32: LOAD_AS(float)
    case NF_DTYPE_F64: LOAD_AS(double)
    default: break;
    }
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return f16_value(half);
}

/* The dataset holds exactly these values, row by row; NaN equals NaN. */
static inline void expect_values(const nf_dataset *dataset, nf_dtype dtype, uint64_t rows, uint32_t dims,
                                 const double *values)
{
    const nf_matrix *matrix = nf_dataset_matrix(dataset);
    assert_int_equal(matrix->rows, rows);
    assert_int_equal(matrix->dims, dims);
    assert_string_equal(nf_dtype_name((nf_dtype)matrix->dtype), nf_dtype_name(dtype));
    assert_int_equal(matrix->place, NF_PLACE_HOST);
    for (uint64_t i = 0; i < rows * dims; i++) {
        const double found = value_at(matrix, i / dims, (uint32_t)(i % dims));
        if (isnan(values[i])) {
            assert_true(isnan(found));
        } else {
            assert_true(found == values[i]);
        }
    }
}

/* The path of a committed fixture. */
static inline const char *fixture(const char *name)
{
    static char path[4096];
    const char *small = getenv("NEARFIELD_SMALL_DATA");
    if (small) {
        snprintf(path, sizeof path, "%s/../tests/data/%s", small, name);
    } else {
        snprintf(path, sizeof path, "%.*sdata/%s", (int)(strrchr(__FILE__, '/') - __FILE__ + 1), __FILE__, name);
    }
    return path;
}

/* A file in a new temporary folder; remove_file takes both away. */
static inline void write_file(char path[4096], const char *name, const void *data, size_t size)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, 2048, "%s/nearfield-test-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    snprintf(path + strlen(path), 1024, "/%s", name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline void remove_file(char path[4096])
{
    assert_int_equal(unlink(path), 0);
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
}

#endif
