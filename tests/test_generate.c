/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated data: values worked out from the documented formulas by another program, committed hashes that hold for any
 * thread count and any split into ranges, moments against their formulas, and refusals.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nearfield/generate.h"

static nf_context *make_context(uint32_t threads)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.threads = threads;
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    return ctx;
}

static size_t row_bytes(const nf_generate_params *params)
{
    return params->dims * nf_dtype_bytes((nf_dtype)params->dtype);
}

/* All rows, made in ranges of at most step rows; the caller frees. */
static void *generate(const nf_generate_params *params, uint32_t threads, uint64_t step)
{
    nf_context *ctx = make_context(threads);
    char       *out = malloc(params->rows * row_bytes(params) + 1);
    assert_non_null(out);
    for (uint64_t first = 0; first < params->rows; first += step) {
        const uint64_t count = params->rows - first < step ? params->rows - first : step;
        assert_int_equal(nf_generate(ctx, params, first, count, out + first * row_bytes(params)), NF_OK);
    }
    nf_context_destroy(ctx);
    return out;
}

/* FNV-1a, 64 bits. */
static uint64_t hash(const unsigned char *bytes, size_t count)
{
    uint64_t value = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++) value = (value ^ bytes[i]) * 0x100000001b3u;
    return value;
}

typedef struct golden {
    uint32_t kind, dtype, dims, intrinsic;
    uint64_t hash;
} golden;

/* 3000 rows, seed 42, everything else as by default. The hashes are of this implementation, on a little-endian
 * machine. */
static const golden goldens[] = {
    {NF_GENERATE_UNIFORM, NF_DTYPE_F32, 7, 0, 0x852173f470f1ecf1},
    {NF_GENERATE_UNIFORM, NF_DTYPE_F64, 7, 0, 0x1176a03b2a958e63},
    {NF_GENERATE_UNIFORM, NF_DTYPE_U8, 7, 0, 0xeb807774a2144f2b},
    {NF_GENERATE_EXPONENTIAL, NF_DTYPE_F32, 7, 0, 0x79d054c62b484768},
    {NF_GENERATE_EXPONENTIAL, NF_DTYPE_F64, 7, 0, 0xeaad76765638cbbb},
    {NF_GENERATE_EXPONENTIAL, NF_DTYPE_U8, 7, 0, 0xe785cb612efabee3},
    {NF_GENERATE_MIXTURE, NF_DTYPE_F32, 7, 0, 0xe65272e82cf839e1},
    {NF_GENERATE_MIXTURE, NF_DTYPE_F64, 7, 0, 0x47ead93334bc8c5e},
    {NF_GENERATE_MIXTURE, NF_DTYPE_F64, 20, 3, 0x77625c8eb118f8ca},
    {NF_GENERATE_MIXTURE, NF_DTYPE_U8, 20, 3, 0xcadf5f712870225b},
    {NF_GENERATE_LATTICE, NF_DTYPE_F32, 4, 0, 0x5cfbd6a198692568},
    {NF_GENERATE_LATTICE, NF_DTYPE_F64, 4, 0, 0xb7543848b48044d0},
    {NF_GENERATE_LATTICE, NF_DTYPE_U8, 4, 0, 0xfe4bfc92e18076ed},
};

static nf_generate_params golden_params(const golden *entry)
{
    nf_generate_params params;
    nf_generate_params_init(&params);
    params.kind = entry->kind;
    params.dtype = entry->dtype;
    params.dims = entry->dims;
    params.intrinsic = entry->intrinsic;
    params.rows = 3000;
    params.seed = 42;
    return params;
}

static void test_goldens(void **state)
{
    static const struct {
        uint32_t threads;
        uint64_t step;
    } runs[] = {{1, 3000}, {2, 3000}, {5, 3000}, {1, 1}, {3, 701}};
    (void)state;

    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        const nf_generate_params params = golden_params(&goldens[i]);
        for (size_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
            if (runs[r].step == 1 && params.kind == NF_GENERATE_MIXTURE) continue; /* the clusters anew for each row */
            unsigned char *data = generate(&params, runs[r].threads, runs[r].step);
            const uint64_t value = hash(data, params.rows * row_bytes(&params));
            free(data);
            if (value != goldens[i].hash) {
                fail_msg("golden %zu, %u threads, %llu rows at once: %#llx", i, runs[r].threads,
                         (unsigned long long)runs[r].step, (unsigned long long)value);
            }
        }
    }
}

static void test_uniform_values(void **state)
{
    nf_generate_params params;
    (void)state;
    nf_generate_params_init(&params);
    params.dtype = NF_DTYPE_F64;
    params.rows = 200000;
    double *data = generate(&params, 2, params.rows);
    assert_true(data[0] == 0x1.99ed3c831c5d3p-1);
    assert_true(data[1] == 0x1.184704de6e2a0p-3);
    assert_true(data[3] == 0x1.234964d155124p-2);
    free(data);
    params.seed = 7;
    data = generate(&params, 2, params.rows);
    assert_true(data[123456 * 3 + 2] == 0x1.332ff12104ba2p-1);
    free(data);
}

static void test_exponential_values(void **state)
{
    static const double expected[] = {0.053692427146234435, 0.022129163456259607, 0.01639197354498037};
    nf_generate_params  params;
    (void)state;
    nf_generate_params_init(&params);
    params.kind = NF_GENERATE_EXPONENTIAL;
    params.dtype = NF_DTYPE_F64;
    params.rows = 3;
    double *data = generate(&params, 1, 3);
    for (int i = 0; i < 3; i++) assert_true(fabs(data[3 * i] - expected[i]) < 1e-17);
    free(data);
}

static void check_mixture(uint32_t intrinsic, const double expected[3][3])
{
    static const int   rows[] = {0, 1, 99};
    nf_generate_params params;
    nf_generate_params_init(&params);
    params.kind = NF_GENERATE_MIXTURE;
    params.dtype = NF_DTYPE_F64;
    params.rows = 100;
    params.seed = 3;
    params.clusters = 5;
    params.intrinsic = intrinsic;
    double *data = generate(&params, 1, 100);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) assert_true(fabs(data[rows[i] * 3 + j] - expected[i][j]) < 1e-15);
    }
    free(data);
}

static void test_mixture_values(void **state)
{
    static const double plane[3][3] = {{0.2165253620592945, 0.527423490533791, 0.379972517332794},
                                       {-0.006804227171436181, 0.10561130587350494, 0.7033999862847781},
                                       {0.3606387760637263, 0.18427487699533196, 0.553342376761513}};
    static const double whole[3][3] = {{0.09796410542299352, 0.5692314440207811, 0.3941649297435642},
                                       {-0.05780068712983477, 0.15620582126567922, 0.6018742438252787},
                                       {0.3465120455980011, 0.12315706493684368, 0.5446937175208164}};
    (void)state;
    check_mixture(2, plane);
    check_mixture(0, whole);
    check_mixture(3, whole);
}

static void test_lattice_values(void **state)
{
    nf_generate_params params;
    (void)state;
    nf_generate_params_init(&params);
    params.kind = NF_GENERATE_LATTICE;
    params.dtype = NF_DTYPE_U8;
    params.rows = 1000; /* side 10: the digits of the row number */
    uint8_t *data = generate(&params, 2, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(data[3 * i] * 100 + data[3 * i + 1] * 10 + data[3 * i + 2], i);
    free(data);
    params.side = 11;
    data = generate(&params, 2, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(data[3 * i] * 121 + data[3 * i + 1] * 11 + data[3 * i + 2], i);
    free(data);
}

/* Mean, variance, third central moment and correlation of neighbouring columns, in 300000 rows of 2 dims. */
typedef struct moments {
    double mean, variance, third, correlation;
} moments;

static moments measure(nf_generate_params params)
{
    moments m = {0, 0, 0, 0};
    params.dims = 2;
    params.rows = 300000;
    params.dtype = NF_DTYPE_F64;
    double      *data = generate(&params, 2, params.rows);
    const double count = (double)params.rows * 2;
    for (uint64_t i = 0; i < params.rows * 2; i++) m.mean += data[i] / count;
    for (uint64_t i = 0; i < params.rows * 2; i++) {
        const double c = data[i] - m.mean;
        m.variance += c * c / count;
        m.third += c * c * c / count;
        if (i % 2 == 0) m.correlation += c * (data[i + 1] - m.mean) * 2 / count;
    }
    m.correlation /= m.variance;
    free(data);
    return m;
}

static void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance)) fail_msg("%.9g, expected %.9g within %g", value, expected, tolerance);
}

/* Tolerances are about five standard errors. */
static void test_moments_uniform(void **state)
{
    nf_generate_params params;
    (void)state;
    nf_generate_params_init(&params);
    const moments m = measure(params);
    assert_near(m.mean, 0.5, 0.002);
    assert_near(m.variance, 1.0 / 12.0, 0.0005);
    assert_near(m.third, 0.0, 0.0003);
    assert_near(m.correlation, 0.0, 0.01);
}

static void test_moments_exponential(void **state)
{
    nf_generate_params params;
    (void)state;
    nf_generate_params_init(&params);
    params.kind = NF_GENERATE_EXPONENTIAL;
    params.rate = 2.0;
    const moments m = measure(params);
    assert_near(m.mean, 0.5, 0.0035);
    assert_near(m.variance, 0.25, 0.005);
    assert_near(m.third, 0.25, 0.025); /* 2 / rate^3 */
    assert_near(m.correlation, 0.0, 0.01);
}

/* One cluster with the whole space is one Gaussian; the centre differs by column, so one column is looked at. */
static void test_moments_gaussian(void **state)
{
    nf_generate_params params;
    double             sum[4] = {0, 0, 0, 0};
    (void)state;
    nf_generate_params_init(&params);
    params.kind = NF_GENERATE_MIXTURE;
    params.clusters = 1;
    params.spread = 1.0;
    params.dims = 2;
    params.rows = 300000;
    params.dtype = NF_DTYPE_F64;
    double      *data = generate(&params, 2, params.rows);
    const double n = (double)params.rows;
    for (uint64_t i = 0; i < params.rows; i++) sum[0] += data[2 * i] / n;
    for (uint64_t i = 0; i < params.rows; i++) {
        const double c = data[2 * i] - sum[0];
        sum[1] += c * c / n;
        sum[2] += c * c * c / n;
        sum[3] += c * c * c * c / n;
    }
    assert_true(sum[0] > -0.01 && sum[0] < 1.01);
    assert_near(sum[1], 1.0, 0.013);
    assert_near(sum[2], 0.0, 0.036);
    assert_near(sum[3], 3.0, 0.09);
    free(data);
}

/* Points of one cluster on a line: differences from the first are all multiples of one vector. */
static void test_subspace(void **state)
{
    nf_generate_params params;
    (void)state;
    nf_generate_params_init(&params);
    params.kind = NF_GENERATE_MIXTURE;
    params.clusters = 1;
    params.intrinsic = 1;
    params.dims = 6;
    params.rows = 50;
    params.dtype = NF_DTYPE_F64;
    double *data = generate(&params, 1, params.rows);
    for (int i = 2; i < 50; i++) {
        for (int j = 1; j < 6; j++) {
            const double *a = data + 6, *b = data + 6 * i;
            const double  cross = (a[j] - data[j]) * (b[0] - data[0]) - (a[0] - data[0]) * (b[j] - data[j]);
            assert_true(fabs(cross) < 1e-16);
        }
    }
    free(data);
}

/* Rounding to binary32 and u8 from the binary64 values. */
static void test_rounding(void **state)
{
    nf_generate_params params;
    (void)state;
    nf_generate_params_init(&params);
    params.rows = 100000;
    params.dtype = NF_DTYPE_F64;
    double *wide = generate(&params, 2, params.rows);
    params.dtype = NF_DTYPE_F32;
    float *narrow = generate(&params, 2, params.rows);
    params.dtype = NF_DTYPE_U8;
    uint8_t *bytes = generate(&params, 2, params.rows);
    for (uint64_t i = 0; i < params.rows * 3; i++) {
        assert_true(narrow[i] == (float)wide[i] && narrow[i] < 1.0f);
        assert_true(fabs(bytes[i] - 255.0 * wide[i]) <= 0.5 + 1e-12);
    }
    free(wide);
    free(narrow);
    free(bytes);
}

static void expect_refusal(const nf_generate_params *params, uint64_t first, uint64_t count, const char *text)
{
    nf_context *ctx = make_context(1);
    static char out[1 << 20];
    assert_int_equal(nf_generate(ctx, params, first, count, out), NF_ERR_ARGUMENT);
    if (strstr(nf_context_error(ctx)->text, text) == NULL) fail_msg("'%s'", nf_context_error(ctx)->text);
    nf_context_destroy(ctx);
}

static void test_refusals(void **state)
{
    nf_generate_params good, params;
    (void)state;
    nf_generate_params_init(&good);
#define REFUSED(change, text)                          \
    do {                                               \
        params = good;                                 \
        change;                                        \
        expect_refusal(&params, 0, params.rows, text); \
    } while (0)
    REFUSED(params.kind = 4, "kind is 4");
    REFUSED(params.dims = 0, "dims is 0");
    REFUSED(params.dims = (1u << 20) + 1, "dims is 1048577");
    REFUSED(params.dtype = NF_DTYPE_I8, "dtype is i8");
    REFUSED((params.kind = NF_GENERATE_EXPONENTIAL, params.rate = 0.0), "rate is 0");
    REFUSED((params.kind = NF_GENERATE_EXPONENTIAL, params.rate = (double)NAN), "rate is");
    REFUSED((params.kind = NF_GENERATE_MIXTURE, params.spread = -1.0), "spread is -1");
    REFUSED((params.kind = NF_GENERATE_MIXTURE, params.clusters = 0), "clusters is 0");
    REFUSED((params.kind = NF_GENERATE_LATTICE, params.side = 9), "rows is 1000");
    REFUSED((params.kind = NF_GENERATE_LATTICE, params.side = 257, params.dtype = NF_DTYPE_U8), "side is 257");
    REFUSED((params.kind = NF_GENERATE_LATTICE, params.dims = 1, params.rows = 257, params.dtype = NF_DTYPE_U8),
            "side is 257");
#undef REFUSED
    expect_refusal(&good, 999, 2, "rows is 1000");
    expect_refusal(&good, 1001, 0, "rows is 1000");
    expect_refusal(&good, UINT64_MAX, 2, "rows is 1000");
}

static void test_no_rows(void **state)
{
    nf_generate_params params;
    nf_context        *ctx = make_context(2);
    (void)state;
    nf_generate_params_init(&params);
    assert_int_equal(nf_generate(ctx, &params, 1000, 0, NULL), NF_OK);
    params.rows = 0;
    params.kind = NF_GENERATE_LATTICE;
    assert_int_equal(nf_generate(ctx, &params, 0, 0, NULL), NF_OK);
    nf_context_destroy(ctx);
}

/* Bases larger than the limit: an error, not a crash, and nothing stays booked. */
static void test_memory_limit(void **state)
{
    nf_context_params  limits;
    nf_generate_params params;
    nf_context        *ctx = NULL;
    nf_context_info    info;
    float              out[3];
    (void)state;
    nf_context_params_init(&limits);
    limits.memory = 1 << 20;
    assert_int_equal(nf_context_create(&limits, &ctx, NULL), NF_OK);
    nf_generate_params_init(&params);
    params.kind = NF_GENERATE_MIXTURE;
    params.clusters = 20000;
    params.intrinsic = 2;
    assert_int_equal(nf_generate(ctx, &params, 0, 1, out), NF_ERR_LIMIT);
    nf_context_describe(ctx, &info);
    assert_int_equal(info.memory_used, 0);
    nf_context_destroy(ctx);
}

static void test_names(void **state)
{
    (void)state;
    assert_int_equal(nf_generate_kind_from_name("uniform"), NF_GENERATE_UNIFORM);
    assert_int_equal(nf_generate_kind_from_name("exponential"), NF_GENERATE_EXPONENTIAL);
    assert_int_equal(nf_generate_kind_from_name("mixture"), NF_GENERATE_MIXTURE);
    assert_int_equal(nf_generate_kind_from_name("lattice"), NF_GENERATE_LATTICE);
    assert_int_equal(nf_generate_kind_from_name("Uniform"), -1);
    assert_int_equal(nf_generate_kind_from_name(""), -1);
    assert_int_equal(nf_generate_kind_from_name(NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_uniform_values),
        cmocka_unit_test(test_exponential_values),
        cmocka_unit_test(test_mixture_values),
        cmocka_unit_test(test_lattice_values),
        cmocka_unit_test(test_moments_uniform),
        cmocka_unit_test(test_moments_exponential),
        cmocka_unit_test(test_moments_gaussian),
        cmocka_unit_test(test_subspace),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
