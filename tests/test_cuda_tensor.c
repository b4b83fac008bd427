/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement on tensor cores, refine tensor and int8: every answer against all pairs in exact arithmetic. Shapes around the
 * sizes of tiles and chunks, radii that are distances of pairs (ties), values that are unkind to binary16: large beside
 * their differences, all of one sign, spread over its whole range, just between two numbers of it.
 */
#include <math.h>

#include "exact_helper.h"

static void check_one(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, const nf_radius_params *params,
                      const exact_truth *truth, uint32_t group_size)
{
    nf_radius_index *index = exact_index(ctx, data, group_size);
    exact_check_csr(ctx, index, queries, params, truth);
    exact_check_counts(ctx, index, queries, params, truth);
    nf_radius_index_release(index);
}

/* Options by turns. */
static nf_radius_params params_of(double radius, uint32_t refine, uint32_t turn, int self_join)
{
    nf_radius_params params = exact_params(radius);
    params.refine = refine;
    params.candidates = turn % 2 ? NF_CANDIDATES_BOXES : NF_CANDIDATES_NONE;
    params.strict = turn / 2 % 2;
    params.half = self_join && turn / 4 % 2;
    params.self = self_join && turn / 3 % 2;
    params.distances = turn % 3 ? NF_DISTANCES_F64 : NF_DISTANCES_NONE;
    return params;
}

static void check_join(const nf_matrix *data, const nf_matrix *queries, double radius, uint32_t refine, uint32_t turn)
{
    static const uint32_t sizes[] = {0, 128, 7, 64, 300};
    nf_context            *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    const nf_radius_params params = params_of(radius, refine, turn, queries == NULL);
    exact_truth            truth = exact_truth_of(data, queries, radius);
    check_one(ctx, data, queries, &params, &truth, sizes[turn % 5]);
    exact_truth_free(&truth);
    nf_context_destroy(ctx);
}

/* The distance of a pair of rows, so that it is a tie, or nearly. */
static double distance_of(const nf_matrix *data, uint64_t a, uint64_t b)
{
    double sum = 0.0;
    for (uint32_t c = 0; c < data->dims; c++) {
        const double difference = exact_get(data, a, c) - exact_get(data, b, c);
        sum = fma(difference, difference, sum);
    }
    return sqrt(sum);
}

/* ---- shapes ---- */

static nf_matrix whole_numbers(nf_dtype dtype, uint64_t rows, uint32_t dims, uint64_t seed)
{
    nf_matrix    data = exact_matrix(dtype, rows, dims);
    const double least = dtype == NF_DTYPE_I8 ? -128.0 : 0.0;
    for (uint64_t i = 0; i < rows; i++) {
        const double centre = least + 200.0 * (double)random_below(&seed, 2);
        for (uint32_t c = 0; c < dims; c++) exact_put(&data, i, c, centre + (double)random_below(&seed, 56));
    }
    return data;
}

static const uint32_t all_dims[] = {1, 3, 16, 63, 64, 65, 128, 129, 200, 257, 400};
static const uint64_t all_rows[] = {1, 2, 127, 128, 255, 256, 257, 300, 400};

static void test_shapes(void **state)
{
    (void)state;
    static const nf_dtype types[] = {NF_DTYPE_U8, NF_DTYPE_F32, NF_DTYPE_I8, NF_DTYPE_F16, NF_DTYPE_I16};
    for (uint32_t turn = 0; turn < 22; turn++) {
        const nf_dtype type = types[turn % 5];
        const uint32_t dims = all_dims[turn % 11];
        nf_matrix      data = whole_numbers(type, all_rows[turn % 9], dims, turn);
        nf_matrix      queries = whole_numbers(type, all_rows[(turn * 5 + 3) % 9], dims, turn + 100);
        const double   radius = data.rows > 3 ? distance_of(&data, 1, data.rows - 1) : 30.0;
        const int      bytes = type == NF_DTYPE_U8 || type == NF_DTYPE_I8;
        check_join(&data, NULL, radius, NF_REFINE_TENSOR, turn);
        if (turn % 2) check_join(&data, &queries, radius, NF_REFINE_TENSOR, turn + 1);
        if (bytes) check_join(&data, NULL, radius, NF_REFINE_INT8, turn + 2);
        if (bytes) check_join(&data, &queries, nextafter(radius, turn % 2 ? 0.0 : 1e9), NF_REFINE_INT8, turn + 3);
        exact_free(&data);
        exact_free(&queries);
    }
}

/* ---- values ---- */

typedef double (*value_of)(uint64_t *seed, uint64_t row, uint32_t column);

/* Large beside the differences: what is lost by binary16 is as large as they are. */
static double far_away(uint64_t *seed, uint64_t row, uint32_t column)
{
    (void)row;
    return 1000.0 + (double)column + 0.01 * random_unit(seed);
}

/* Two clusters far apart: no centre is near both. */
static double two_clusters(uint64_t *seed, uint64_t row, uint32_t column)
{
    (void)column;
    return (row % 2 ? 5000.0 : -5000.0) + random_unit(seed);
}

/* From subnormal numbers of binary16 to its largest, after scaling. */
static double all_scales(uint64_t *seed, uint64_t row, uint32_t column)
{
    const double size = exp2(-30.0 + (double)(row % 46));
    return (column % 3 == 1 ? -size : size) * (1.0 + random_unit(seed));
}

/* Half way between two numbers of binary16: the loss is as large as can be, and of one sign. */
static double between(uint64_t *seed, uint64_t row, uint32_t column)
{
    (void)row;
    (void)column;
    return 1.0 + (double)(2 * random_below(seed, 512) + 1) * 0x1p-11;
}

static double all_positive(uint64_t *seed, uint64_t row, uint32_t column)
{
    (void)row;
    (void)column;
    return random_unit(seed);
}

static void test_values(void **state)
{
    (void)state;
    static const value_of kinds[] = {far_away, two_clusters, all_scales, between, all_positive};
    static const uint32_t dims[] = {2, 40, 130};
    for (uint32_t k = 0; k < 5; k++) {
        for (uint32_t d = 0; d < 3; d++) {
            nf_matrix data = exact_matrix(NF_DTYPE_F32, 270, dims[d]);
            uint64_t  seed = 77 + k;
            for (uint64_t i = 0; i < data.rows; i++) {
                for (uint32_t c = 0; c < dims[d]; c++) exact_put(&data, i, c, kinds[k](&seed, i, c));
            }
            for (uint32_t pair = 0; pair < 2; pair++) {
                const double radius = distance_of(&data, pair, 2 + 40 * pair);
                check_join(&data, NULL, radius, NF_REFINE_TENSOR, k + d + pair);
            }
            exact_free(&data);
        }
    }
}

static void test_radii(void **state)
{
    (void)state;
    static const double radii[] = {0.0, 0x1p-50, 1.0, 1e10, 1e300, HUGE_VAL};
    nf_matrix           data = whole_numbers(NF_DTYPE_U8, 260, 20, 5);
    for (uint32_t i = 0; i < 6; i++) {
        if (radii[i] >= 0x1p-50) check_join(&data, NULL, radii[i], NF_REFINE_TENSOR, i);
        check_join(&data, NULL, radii[i], NF_REFINE_INT8, i + 1);
    }
    exact_free(&data);
}

/* ---- batches, and what is refused ---- */

static void test_batches(void **state)
{
    (void)state;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix        data = whole_numbers(NF_DTYPE_U8, 520, 30, 9);
    const double     radius = distance_of(&data, 3, 501);
    exact_truth      truth = exact_truth_of(&data, NULL, radius);
    nf_radius_index *index = exact_index(ctx, &data, 64);
    for (uint32_t turn = 0; turn < 4; turn++) {
        nf_radius_params params = params_of(radius, turn % 2 ? NF_REFINE_INT8 : NF_REFINE_TENSOR, turn, 1);
        params.batch_pairs = 5000;
        assert_true(exact_check_stream(ctx, index, NULL, &params, &truth) > 1);
    }
    exact_truth_free(&truth);
    nf_radius_index_release(index);
    exact_free(&data);
    nf_context_destroy(ctx);
}

static void expect_refused(nf_context *ctx, const nf_radius_index *index, const nf_radius_params *params, const char *text)
{
    uint64_t counts[64];
    assert_int_equal(nf_radius_counts(ctx, index, NULL, params, counts, NULL), NF_ERR_UNSUPPORTED);
    if (strstr(nf_context_error(ctx)->text, text) == NULL) fail_msg("%s", nf_context_error(ctx)->text);
}

static void test_refused(void **state)
{
    (void)state;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix        floats = exact_matrix(NF_DTYPE_F32, 50, 4), doubles = exact_matrix(NF_DTYPE_F64, 50, 4);
    nf_radius_index *index = exact_index(ctx, &floats, 0), *wide = exact_index(ctx, &doubles, 0);
    nf_radius_params params = exact_params(1.0);
    params.refine = NF_REFINE_TENSOR;
    expect_refused(ctx, wide, &params, "binary32");
    params.candidates = NF_CANDIDATES_BVH;
    expect_refused(ctx, index, &params, "boxes or none");
    params.candidates = NF_CANDIDATES_NONE;
    params.result = NF_RESULT_MASK;
    uint64_t counts[50];
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, NULL), NF_ERR_UNSUPPORTED);
    params = exact_params(1.0);
    params.refine = NF_REFINE_INT8;
    expect_refused(ctx, index, &params, "u8 or i8");
    nf_radius_index_release(index);
    nf_radius_index_release(wide);
    exact_free(&floats);
    exact_free(&doubles);
    nf_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),  cmocka_unit_test(test_values),  cmocka_unit_test(test_radii),
        cmocka_unit_test(test_batches), cmocka_unit_test(test_refused),
    };
    if (!exact_on_cuda()) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
