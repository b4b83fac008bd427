/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses, error records, and what creating a context refuses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/core_context.h"
#include "core/core_system.h"
#include "nearfield/matrix.h"
#include "nearfield/version.h"

/* Written out once more: the numbers and names are part of the ABI. */
static const struct {
    int         number;
    const char *name;
} statuses[] = {
    {0, "NF_OK"},           {1, "NF_MORE"},          {-1, "NF_ERR_ARGUMENT"}, {-2, "NF_ERR_STATE"},
    {-3, "NF_ERR_CANCELLED"}, {-20, "NF_ERR_MEMORY"}, {-21, "NF_ERR_DEVICE_MEMORY"}, {-22, "NF_ERR_LIMIT"},
    {-40, "NF_ERR_IO"},     {-41, "NF_ERR_FORMAT"},  {-42, "NF_ERR_VALUE"},   {-43, "NF_ERR_DAMAGED"},
    {-44, "NF_ERR_VERSION"}, {-60, "NF_ERR_ENGINE"}, {-61, "NF_ERR_UNSUPPORTED"}, {-62, "NF_ERR_DEVICE"},
    {-99, "NF_ERR_INTERNAL"},
};

static void test_names(void **state)
{
    (void)state;
    const size_t count = sizeof statuses / sizeof statuses[0];
    for (int number = -200; number <= 200; number++) {
        const char *expected = "NF_UNKNOWN";
        for (size_t i = 0; i < count; i++) {
            if (statuses[i].number == number) expected = statuses[i].name;
        }
        assert_string_equal(nf_status_name((nf_status)number), expected);
        assert_true(strlen(nf_status_text((nf_status)number)) > 0);
    }
    assert_string_equal(nf_status_text((nf_status)77), "unknown status");
    assert_string_equal(nf_status_text(NF_ERR_MEMORY), "host memory exhausted");
}

static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        int         number;
        const char *name, *numpy;
        size_t      bytes;
    } types[] = {
        {1, "u8", "uint8", 1},   {2, "i8", "int8", 1},    {3, "u16", "uint16", 2}, {4, "i16", "int16", 2},
        {5, "u32", "uint32", 4}, {6, "i32", "int32", 4},  {7, "u64", "uint64", 8}, {8, "i64", "int64", 8},
        {9, "f16", "float16", 2}, {10, "f32", "float32", 4}, {11, "f64", "float64", 8},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const nf_dtype dtype = (nf_dtype)types[i].number;
        assert_int_equal(nf_dtype_bytes(dtype), types[i].bytes);
        assert_string_equal(nf_dtype_name(dtype), types[i].name);
        assert_int_equal(nf_dtype_from_name(types[i].name), types[i].number);
        assert_int_equal(nf_dtype_from_name(types[i].numpy), types[i].number);
    }
    static const int unknown[] = {0, 12, 255, -1};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(nf_dtype_bytes((nf_dtype)unknown[i]), 0);
        assert_string_equal(nf_dtype_name((nf_dtype)unknown[i]), "none");
    }
    assert_int_equal(nf_dtype_from_name("F32"), NF_DTYPE_NONE);
    assert_int_equal(nf_dtype_from_name(""), NF_DTYPE_NONE);
    assert_int_equal(nf_dtype_from_name(NULL), NF_DTYPE_NONE);
}

static void test_first_failure_stays(void **state)
{
    (void)state;
    nf_context *ctx = NULL;
    assert_int_equal(nf_context_create(NULL, &ctx, NULL), NF_OK);
    assert_int_equal(nf_context_error(ctx)->status, NF_OK);
    assert_false(nf_context_stopping(ctx));

    assert_int_equal(nf_fail(ctx, NF_ERR_VALUE, "row %d holds %s", 7, "NaN"), NF_ERR_VALUE);
    assert_int_equal(nf_fail(ctx, NF_ERR_IO, "later"), NF_ERR_IO);
    assert_int_equal(nf_context_error(ctx)->status, NF_ERR_VALUE);
    assert_string_equal(nf_context_error(ctx)->text, "row 7 holds NaN");
    assert_int_equal(nf_context_error(ctx)->native, 0);
    assert_true(nf_context_stopping(ctx));

    nf_context_begin(ctx);
    assert_int_equal(nf_context_error(ctx)->status, NF_OK);
    assert_string_equal(nf_context_error(ctx)->text, "");
    assert_int_equal(nf_fail_errno(ctx, NF_ERR_IO, ENOSPC, "cannot write %s", "100%.npy"), NF_ERR_IO);
    assert_int_equal(nf_context_error(ctx)->native, ENOSPC);
    char expected[256];
    snprintf(expected, sizeof expected, "cannot write 100%%.npy: %s", strerror(ENOSPC));
    assert_string_equal(nf_context_error(ctx)->text, expected);
    nf_context_destroy(ctx);
    nf_context_destroy(NULL);
}

/* Longer than a record: cut, with its end marked by a zero. */
static void test_long_text(void **state)
{
    (void)state;
    nf_context *ctx = NULL;
    char        text[2000];
    nf_error    error;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(nf_context_create(NULL, &ctx, NULL), NF_OK);
    nf_fail(ctx, NF_ERR_VALUE, "%s", text);
    assert_int_equal(strlen(nf_context_error(ctx)->text), sizeof error.text - 1);
    nf_context_begin(ctx);
    nf_fail_errno(ctx, NF_ERR_IO, EIO, "%s", text);
    assert_int_equal(strlen(nf_context_error(ctx)->text), sizeof error.text - 1);
    assert_int_equal(nf_error_set(&error, NF_ERR_FORMAT, "%s", text), NF_ERR_FORMAT);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
    assert_int_equal(nf_error_set(NULL, NF_ERR_FORMAT, "nobody listens"), NF_ERR_FORMAT);
    nf_context_destroy(ctx);
}

static void refused(const nf_context_params *params, nf_status status, const char *part)
{
    nf_context *ctx = (nf_context *)&ctx;
    nf_error    error;
    memset(&error, 0x55, sizeof error);
    assert_int_equal(nf_context_create(params, &ctx, &error), status);
    assert_null(ctx);
    assert_int_equal(error.status, status);
    assert_non_null(strstr(error.text, part));
}

static void test_create_refuses(void **state)
{
    (void)state;
    nf_context_params params;
    nf_context_params_init(&params);
    params.engine = NF_ENGINE_CUDA;
    refused(&params, NF_ERR_ENGINE, "cuda");
    params.engine = 3;
    refused(&params, NF_ERR_ARGUMENT, "engine is 3");
    nf_context_params_init(&params);
    params.isa = 5;
    refused(&params, NF_ERR_ARGUMENT, "isa is 5");
    nf_context_params_init(&params);
    params.threads = 1025;
    refused(&params, NF_ERR_ARGUMENT, "threads is 1025");
    assert_int_equal(nf_context_create(NULL, NULL, NULL), NF_ERR_ARGUMENT);

    for (nf_isa isa = NF_ISA_SCALAR; isa <= NF_ISA_NEON; isa = (nf_isa)(isa + 1)) {
        nf_context *ctx = NULL;
        nf_context_params_init(&params);
        params.isa = (uint32_t)isa;
        if (!nf_system_has_isa(isa)) {
            refused(&params, NF_ERR_ENGINE, nf_isa_name(isa));
            continue;
        }
        assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
        nf_context_info info;
        nf_context_describe(ctx, &info);
        assert_string_equal(info.isa, nf_isa_name(isa));
        assert_string_equal(info.engine, "cpu");
        nf_context_destroy(ctx);
    }
}

static void test_environment(void **state)
{
    (void)state;
    char       *before = getenv("NEARFIELD_ISA") != NULL ? strdup(getenv("NEARFIELD_ISA")) : NULL;
    nf_context *ctx = NULL;
    setenv("NEARFIELD_ISA", "scalar", 1);
    assert_int_equal(nf_context_create(NULL, &ctx, NULL), NF_OK);
    assert_int_equal(nf_context_isa(ctx), NF_ISA_SCALAR);
    nf_context_destroy(ctx);
    setenv("NEARFIELD_ISA", "sse9", 1);
    refused(NULL, NF_ERR_ARGUMENT, "sse9");
    setenv("NEARFIELD_ISA", "", 1);
    assert_int_equal(nf_context_create(NULL, &ctx, NULL), NF_OK);
    assert_int_equal(nf_context_isa(ctx), nf_system_best_isa());
    nf_context_destroy(ctx);
    if (before != NULL) setenv("NEARFIELD_ISA", before, 1);
    else unsetenv("NEARFIELD_ISA");
    free(before);
}

/* A caller built against an older, shorter struct gets defaults for what it does not know. */
static void test_short_struct(void **state)
{
    (void)state;
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_error          error;
    memset(&params, 0xff, sizeof params);
    params.struct_size = 0;
    assert_int_equal(nf_context_create(&params, &ctx, &error), NF_ERR_ARGUMENT);
    assert_null(ctx);
    assert_non_null(strstr(error.text, "struct_size"));
    params.struct_size = offsetof(nf_context_params, engine);
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    nf_context_info info;
    nf_context_describe(ctx, &info);
    assert_int_equal(info.threads, nf_system_processors());
    assert_true(info.memory_limit > 0 && info.memory_limit <= nf_system_memory());
    assert_int_equal(info.memory_used, 0);
    nf_context_destroy(ctx);
    assert_true(nf_system_processors() >= 1);
    assert_true(strlen(nf_version()) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),          cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_first_failure_stays), cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_create_refuses), cmocka_unit_test(test_environment),
        cmocka_unit_test(test_short_struct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
