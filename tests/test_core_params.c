/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters by name: every entry of every table, good and bad values, sizes, ranges, defaults. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/core_params.h"
#include "nearfield/io.h"
#include "nearfield/radius.h"

static const struct {
    nf_param_group group;
    size_t         bytes, least;
} groups[] = {
    {NF_PARAMS_CONTEXT, sizeof(nf_context_params), 6},
    {NF_PARAMS_RADIUS, sizeof(nf_radius_params), 13},
    {NF_PARAMS_RADIUS_INDEX, sizeof(nf_radius_index_params), 2},
    {NF_PARAMS_READ, sizeof(nf_read_params), 6},
    {NF_PARAMS_WRITE, sizeof(nf_write_params), 2},
};
#define GROUPS (sizeof groups / sizeof groups[0])

static size_t bytes_of(nf_param_kind kind)
{
    switch (kind) {
    case NF_PARAM_CHOICE:
    case NF_PARAM_U32:
    case NF_PARAM_I32:
    case NF_PARAM_FLAG: return 4;
    case NF_PARAM_RANGE: return 16;
    default: return 8;
    }
}

/* A flag that is another name for the value 1 of a number has its member. */
static bool is_second_name(const nf_param *param)
{
    return strcmp(param->name, "no-grouping") == 0;
}

/* Names are usable on a command line and appear once; members lie inside the struct and do not overlap. */
static void test_tables(void **state)
{
    (void)state;
    for (size_t g = 0; g < GROUPS; g++) {
        size_t          count = 0;
        const nf_param *list = nf_params(groups[g].group, &count);
        unsigned char   taken[512] = {0};
        assert_non_null(list);
        assert_true(count >= groups[g].least);
        memset(taken, 1, sizeof(size_t)); /* struct_size */
        for (size_t i = 0; i < count; i++) {
            const size_t bytes = bytes_of(list[i].kind);
            assert_true(list[i].offset + bytes <= groups[g].bytes);
            assert_int_equal(list[i].offset % (bytes > 8 ? 8 : bytes), 0);
            for (size_t k = 0; k < bytes; k++) {
                assert_int_equal(taken[list[i].offset + k]++, is_second_name(&list[i]) ? 1 : 0);
            }
            assert_int_equal(strspn(list[i].name, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(list[i].name));
            assert_int_equal(list[i].help[strlen(list[i].help) - 1], '.');
            assert_true((list[i].choices != NULL) == (list[i].kind == NF_PARAM_CHOICE));
            assert_true((list[i].value == NULL) == (list[i].kind == NF_PARAM_FLAG));
            for (size_t k = 0; k < i; k++) assert_string_not_equal(list[i].name, list[k].name);
        }
    }
    size_t count = 1;
    assert_null(nf_params((nf_param_group)99, &count));
    assert_int_equal(count, 0);
}

/* Every choice of every choice parameter is stored as its place in the list; anything else is refused. */
static void test_choices(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "|", "auto|", "AUTO", " auto", "auto ", "aut", "autoo", "0", "nonsense"};
    for (size_t g = 0; g < GROUPS; g++) {
        size_t          count;
        const nf_param *list = nf_params(groups[g].group, &count);
        for (size_t i = 0; i < count; i++) {
            if (list[i].kind != NF_PARAM_CHOICE) continue;
            char     texts[128], *rest = NULL;
            uint32_t expected = 0, stored;
            uint64_t params[64] = {0};
            nf_error error = {0};
            snprintf(texts, sizeof texts, "%s", list[i].choices);
            for (char *text = strtok_r(texts, "|", &rest); text != NULL; text = strtok_r(NULL, "|", &rest), expected++) {
                assert_int_equal(nf_params_set(groups[g].group, params, list[i].name, text, &error), NF_OK);
                memcpy(&stored, (char *)params + list[i].offset, 4);
                assert_int_equal(stored, expected);
            }
            for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
                assert_int_equal(nf_params_set(groups[g].group, params, list[i].name, bad[k], &error), NF_ERR_ARGUMENT);
                assert_int_equal(error.status, NF_ERR_ARGUMENT);
                assert_non_null(strstr(error.text, list[i].name));
                assert_non_null(strstr(error.text, list[i].choices));
            }
            memcpy(&stored, (char *)params + list[i].offset, 4);
            assert_int_equal(stored, expected - 1); /* a refused value changes nothing */
        }
    }
}

static void test_context_names(void **state)
{
    (void)state;
    nf_context_params params;
    nf_context_params_init(&params);
    assert_int_equal(params.struct_size, sizeof params);
    assert_int_equal(params.engine, NF_ENGINE_AUTO);
    assert_int_equal(params.threads, 0);

    assert_int_equal(nf_context_params_set(&params, "engine", "cuda", NULL), NF_OK);
    assert_int_equal(params.engine, NF_ENGINE_CUDA);
    assert_int_equal(nf_context_params_set(&params, "isa", "avx2", NULL), NF_OK);
    assert_int_equal(params.isa, NF_ISA_AVX2);
    assert_int_equal(nf_context_params_set(&params, "isa", "avx512", NULL), NF_OK);
    assert_int_equal(params.isa, NF_ISA_AVX512);
    assert_int_equal(nf_context_params_set(&params, "device", "3", NULL), NF_OK);
    assert_int_equal(params.device, 3);
    assert_int_equal(nf_context_params_set(&params, "threads", "1024", NULL), NF_OK);
    assert_int_equal(params.threads, 1024);
    assert_int_equal(nf_context_params_set(&params, "memory", "3G", NULL), NF_OK);
    assert_true(params.memory == 3ull << 30);
    assert_int_equal(nf_context_params_set(&params, "gpu-memory", "512M", NULL), NF_OK);
    assert_true(params.gpu_memory == 512ull << 20);

    static const char *const bad[][2] = {
        {"threads", "1025"}, {"threads", "-1"}, {"threads", "4294967296"}, {"threads", "two"}, {"threads", ""},
        {"threads", "1.5"},  {"threads", " 1"}, {"threads", "+1"},         {"threads", "1 "},  {"threads", "0x10"},
        {"device", "1025"},  {"device", "-1"},  {"memory", "lots"},        {"memory", "-1G"},  {"memory", ""},
        {"gpu-memory", "1X"}, {"no-such", "1"}, {"Threads", "1"},          {"thread", "1"},    {"", "1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        nf_error error = {0};
        assert_int_equal(nf_context_params_set(&params, bad[i][0], bad[i][1], &error), NF_ERR_ARGUMENT);
        assert_int_equal(error.status, NF_ERR_ARGUMENT);
        assert_non_null(strstr(error.text, bad[i][0]));
        assert_int_equal(nf_context_params_set(&params, bad[i][0], bad[i][1], NULL), NF_ERR_ARGUMENT);
    }
    assert_int_equal(params.threads, 1024);
    assert_int_equal(params.device, 3);
    assert_int_equal(nf_context_params_set(&params, "threads", NULL, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_context_params_set(&params, NULL, "1", NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_context_params_set(NULL, "threads", "1", NULL), NF_ERR_ARGUMENT);
}

static void test_radius_names(void **state)
{
    (void)state;
    nf_radius_params params;
    nf_radius_params_init(&params);
    assert_int_equal(params.struct_size, sizeof params);
    assert_int_equal(params.candidates, NF_CANDIDATES_AUTO);
    assert_int_equal(params.distances, NF_DISTANCES_F64);

    static const struct {
        const char *text;
        double      value;
    } good[] = {{"0", 0.0},          {"0.1", 0.1},     {"15", 15.0},      {"1e-320", 1e-320},
                {"0x1.8p1", 3.0},    {"inf", HUGE_VAL}, {"1e308", 1e308}, {".5", 0.5}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(nf_radius_params_set(&params, "radius", good[i].text, NULL), NF_OK);
        assert_true(params.radius == good[i].value);
    }
    static const char *const bad[] = {"", " 1", "1 ", "-1", "-0.5", "nan", "-nan", "1,5", "one", "1e", "--1", "-inf"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        nf_error error = {0};
        assert_int_equal(nf_radius_params_set(&params, "radius", bad[i], &error), NF_ERR_ARGUMENT);
        assert_non_null(strstr(error.text, "radius"));
    }
    assert_true(params.radius == 0.5);

    assert_int_equal(nf_radius_params_set(&params, "candidates", "boxes", NULL), NF_OK);
    assert_int_equal(params.candidates, NF_CANDIDATES_BOXES);
    assert_int_equal(nf_radius_params_set(&params, "refine", "int8", NULL), NF_OK);
    assert_int_equal(params.refine, NF_REFINE_INT8);
    assert_int_equal(nf_radius_params_set(&params, "distances", "none", NULL), NF_OK);
    assert_int_equal(params.distances, NF_DISTANCES_NONE);
    assert_int_equal(nf_radius_params_set(&params, "sort", "distance", NULL), NF_OK);
    assert_int_equal(params.sort, NF_SORT_DISTANCE);
    assert_int_equal(nf_radius_params_set(&params, "self", NULL, NULL), NF_OK);
    assert_int_equal(params.self, 1);
    assert_int_equal(nf_radius_params_set(&params, "self", "0", NULL), NF_OK);
    assert_int_equal(params.self, 0);
    assert_int_equal(nf_radius_params_set(&params, "half", "1", NULL), NF_OK);
    assert_int_equal(params.half, 1);
    assert_int_equal(nf_radius_params_set(&params, "strict", "yes", NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_params_set(&params, "strict", NULL, NULL), NF_OK);
    assert_int_equal(params.strict, 1);
    assert_int_equal(nf_radius_params_set(&params, "max-results", "18446744073709551615", NULL), NF_OK);
    assert_true(params.max_results == UINT64_MAX);
    assert_int_equal(nf_radius_params_set(&params, "max-results", "18446744073709551616", NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_params_set(&params, "max-results", "-1", NULL), NF_ERR_ARGUMENT);
    assert_true(params.max_results == UINT64_MAX);
}

static void test_variant_names(void **state)
{
    (void)state;
    nf_radius_params params;
    nf_radius_params_init(&params);
    assert_int_equal(params.share, NF_SHARE_BOTH);
    assert_int_equal(params.result, NF_RESULT_AUTO);
    assert_int_equal(params.group_bounds, NF_BOUNDS_BOX);
    assert_int_equal(params.no_early_exit, 0);
    static const struct {
        const char *name, *value;
        uint32_t    stored;
        size_t      offset;
    } cases[] = {
        {"tile", "points", NF_SHARE_POINTS, offsetof(nf_radius_params, share)},
        {"tile", "queries", NF_SHARE_QUERIES, offsetof(nf_radius_params, share)},
        {"tile", "none", NF_SHARE_NONE, offsetof(nf_radius_params, share)},
        {"tile", "both", NF_SHARE_BOTH, offsetof(nf_radius_params, share)},
        {"result", "mask", NF_RESULT_MASK, offsetof(nf_radius_params, result)},
        {"result", "mask-raw", NF_RESULT_MASK_RAW, offsetof(nf_radius_params, result)},
        {"result", "pairs", NF_RESULT_PAIRS, offsetof(nf_radius_params, result)},
        {"result", "append", NF_RESULT_APPEND, offsetof(nf_radius_params, result)},
        {"result", "auto", NF_RESULT_AUTO, offsetof(nf_radius_params, result)},
        {"group-bounds", "sphere", NF_BOUNDS_SPHERE, offsetof(nf_radius_params, group_bounds)},
        {"group-bounds", "box", NF_BOUNDS_BOX, offsetof(nf_radius_params, group_bounds)},
        {"no-early-exit", NULL, 1, offsetof(nf_radius_params, no_early_exit)},
        {"no-early-exit", "0", 0, offsetof(nf_radius_params, no_early_exit)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t stored = 99;
        assert_int_equal(nf_radius_params_set(&params, cases[i].name, cases[i].value, NULL), NF_OK);
        memcpy(&stored, (const char *)&params + cases[i].offset, sizeof stored);
        assert_int_equal(stored, cases[i].stored);
    }
    assert_int_equal(nf_radius_params_set(&params, "share", "both", NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_params_set(&params, "height", "3", NULL), NF_ERR_ARGUMENT);
}

static void test_index_names(void **state)
{
    (void)state;
    nf_radius_index_params params;
    nf_radius_index_params_init(&params);
    assert_int_equal(params.struct_size, sizeof params);
    assert_int_equal(params.group_size, 0);
    assert_int_equal(params.height, 0);
    assert_int_equal(nf_radius_index_params_set(&params, "height", "31", NULL), NF_OK);
    assert_int_equal(params.height, 31);
    assert_int_equal(nf_radius_index_params_set(&params, "group-size", "1000", NULL), NF_OK);
    assert_int_equal(params.group_size, 1000);
    assert_int_equal(nf_radius_index_params_set(&params, "no-grouping", NULL, NULL), NF_OK);
    assert_int_equal(params.group_size, 1);
    assert_int_equal(nf_radius_index_params_set(&params, "group-size", "2147483647", NULL), NF_OK);
    assert_int_equal(params.group_size, 2147483647);

    static const char *const bad[][2] = {
        {"height", "32"}, {"height", "-1"}, {"height", ""},          {"height", "ln"},     {"group-size", "2147483648"},
        {"group-size", "-1"}, {"group-size", "1.5"}, {"no-grouping", "2"}, {"radius", "1"}, {"group_size", "1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        nf_error error = {0};
        assert_int_equal(nf_radius_index_params_set(&params, bad[i][0], bad[i][1], &error), NF_ERR_ARGUMENT);
        assert_non_null(strstr(error.text, bad[i][0]));
    }
    assert_int_equal(params.height, 31);
    assert_int_equal(params.group_size, 2147483647);
    assert_int_equal(nf_radius_index_params_set(&params, "height", NULL, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_index_params_set(NULL, "height", "1", NULL), NF_ERR_ARGUMENT);
}

static void test_file_names(void **state)
{
    (void)state;
    nf_read_params  read = {0};
    nf_write_params write = {0};
    const char     *list = "1,3";
    assert_int_equal(nf_read_params_set(&read, "columns", list, NULL), NF_OK);
    assert_ptr_equal(read.columns, list);
    assert_int_equal(nf_read_params_set(&read, "input-format", "csv", NULL), NF_OK);
    assert_string_equal(read.format, "csv");
    assert_int_equal(nf_read_params_set(&read, "dtype", "u8", NULL), NF_OK);
    assert_string_equal(read.dtype, "u8");
    assert_int_equal(nf_read_params_set(&read, "dims", "1048576", NULL), NF_OK);
    assert_int_equal(read.dims, 1048576);
    assert_int_equal(nf_read_params_set(&read, "dims", "1048577", NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_read_params_set(&read, "skip-invalid", NULL, NULL), NF_OK);
    assert_int_equal(read.skip_invalid, 1);
    assert_int_equal(nf_read_params_set(&read, "columns", NULL, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_write_params_set(&write, "format", "npz", NULL), NF_OK);
    assert_string_equal(write.format, "npz");
    assert_int_equal(nf_write_params_set(&write, "counts", NULL, NULL), NF_OK);
    assert_int_equal(write.counts, 1);
}

static void test_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t    from, to;
    } good[] = {
        {"0:10", 0, 10}, {":10", 0, 10}, {"5:", 5, UINT64_MAX}, {":", 0, UINT64_MAX}, {"7", 7, 8}, {"3:3", 3, 3},
        {"18446744073709551614", UINT64_MAX - 1, UINT64_MAX},
    };
    static const char *const bad[] = {"", "a:b", "5:3", "-1:3", "1:-3", "1:2:3", "1;2", " 1:2", "1: 2", "1.0:2",
                                      "18446744073709551616:", "18446744073709551615",
                                      "000000000000000000000000000000000000001:2"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        nf_read_params read = {0};
        uint64_t       range[2];
        assert_int_equal(nf_read_params_set(&read, "rows", good[i].text, NULL), NF_OK);
        memcpy(range, read.rows, sizeof range);
        assert_true(range[0] == good[i].from && range[1] == good[i].to);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        nf_read_params read = {0};
        nf_error       error = {0};
        assert_int_equal(nf_read_params_set(&read, "rows", bad[i], &error), NF_ERR_ARGUMENT);
        assert_non_null(strstr(error.text, "rows"));
    }
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t    bytes;
    } good[] = {
        {"0", 0},           {"1", 1},           {"512", 512},           {"512B", 512},       {"1K", 1024},
        {"1k", 1024},       {"2KB", 2048},      {"2KiB", 2048},         {"1.5M", 1572864},   {"8G", 8ull << 30},
        {"8GiB", 8ull << 30}, {"1T", 1ull << 40}, {"0.5K", 512},        {"8191T", 8191ull << 40},
        {"12345678901", 12345678901ull},
    };
    static const char *const bad[] = {"", "K", "-1", "+1", "1P", "1KK", "1 K", "1iB", "1Ki", "1KiBB", "one", ".5K",
                                      "1e30", "inf", "nan", "9000000T", "1BK", "1B1"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = 99;
        assert_int_equal(nf_parse_size(good[i].text, &bytes), 0);
        assert_true(bytes == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 99;
        assert_int_equal(nf_parse_size(bad[i], &bytes), -1);
        assert_int_equal(bytes, 99);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),       cmocka_unit_test(test_choices),    cmocka_unit_test(test_context_names),
        cmocka_unit_test(test_radius_names), cmocka_unit_test(test_file_names), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_variant_names), cmocka_unit_test(test_index_names), cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
