/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nf_radius_for_selectivity against all distances, sorted: with the whole set as the sample the radius is that of the
 * pair that completes the selectivity; with a part of it, estimate and standard error follow from the true counts of
 * these rows.
 */
#include "exact/exact_sample.h"
#include "exact_helper.h"

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static nf_radius_index *index_of(nf_context *ctx, const nf_matrix *data, uint32_t metric)
{
    nf_radius_index_params params;
    nf_radius_index       *index = NULL;
    nf_radius_index_params_init(&params);
    params.metric = metric;
    assert_int_equal(nf_radius_index_create(ctx, data, &params, &index), NF_OK);
    return index;
}

static nf_selectivity find(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries, double selectivity,
                           uint64_t rows, uint64_t seed, uint32_t self_join)
{
    nf_sample_params params;
    nf_selectivity   found = {.struct_size = sizeof found};
    nf_sample_params_init(&params);
    params.rows = rows;
    params.seed = seed;
    params.self_join = self_join;
    if (nf_radius_for_selectivity(ctx, index, queries, selectivity, &params, &found) != NF_OK) {
        fail_msg("%s", nf_context_error(ctx)->text);
    }
    return found;
}

/* The distance of pair number wanted, of all by distance. queries NULL: a self-join. */
static double true_radius(const nf_matrix *data, const nf_matrix *queries, uint64_t wanted)
{
    const nf_matrix *from = queries != NULL ? queries : data;
    double          *x = exact_values(from), *y = exact_values(data);
    double          *distances = malloc((from->rows * data->rows + 1) * sizeof *distances);
    uint64_t         count = 0;
    for (uint64_t i = 0; i < from->rows; i++) {
        for (uint64_t j = 0; j < data->rows; j++) {
            if (queries == NULL && i == j) continue;
            distances[count++] = nf_exact_distance(x + i * data->dims, y + j * data->dims, data->dims);
        }
    }
    assert_true(wanted >= 1 && wanted <= count);
    qsort(distances, count, sizeof *distances, ascending);
    const double radius = distances[wanted - 1];
    free(x);
    free(y);
    free(distances);
    return radius;
}

/* The whole set as the sample: nothing is estimated. */
static void check_whole(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, double selectivity)
{
    const nf_matrix *from = queries != NULL ? queries : data;
    nf_radius_index *index = index_of(ctx, data, NF_METRIC_L2);
    const uint64_t   wanted = (uint64_t)ceil(selectivity * (double)from->rows - 1e-6);
    const double     radius = true_radius(data, queries, wanted);
    nf_selectivity   found = find(ctx, index, from, selectivity, UINT64_MAX, 1, queries == NULL);
    nf_radius_params params;
    nf_radius_stats  stats = {.struct_size = sizeof stats};
    uint64_t        *counts = malloc((from->rows + 1) * sizeof *counts);

    if (!(found.radius >= radius * (1.0 - 1e-15) && found.radius <= radius * (1.0 + 1e-14))) {
        fail_msg("selectivity %g: radius %a, expected %a", selectivity, found.radius, radius);
    }
    nf_radius_params_init(&params);
    params.radius = found.radius;
    assert_int_equal(nf_radius_counts(ctx, index, queries, &params, counts, &stats), NF_OK);
    assert_true(stats.pairs >= wanted);
    assert_true(fabs(found.estimate - (double)stats.pairs / (double)from->rows) < 1e-9);
    assert_true(found.standard_error == 0.0);
    assert_int_equal(found.sampled, from->rows);
    assert_int_equal(found.queries, from->rows);
    free(counts);
    nf_radius_index_release(index);
}

static nf_matrix cloud(nf_dtype dtype, uint64_t rows, uint32_t dims, uint32_t side, uint64_t seed)
{
    nf_matrix data = exact_matrix(dtype, rows, dims);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < dims; k++) {
            const double unit = random_unit(&seed);
            exact_put(&data, i, k, side > 0 ? floor(unit * side) : unit * unit);
        }
    }
    return data;
}

static void test_whole(void **state)
{
    (void)state;
    static const double selectivities[] = {0.01, 0.5, 1, 7, 60, 199};
    nf_context         *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (uint32_t kind = 0; kind < 4; kind++) {
        static const uint32_t sides[] = {0, 3, 200, 2};
        nf_matrix             data = cloud(kind == 0   ? NF_DTYPE_F32
                                           : kind == 1 ? NF_DTYPE_U8
                                                       : NF_DTYPE_F64,
                               200, kind + 1, sides[kind], kind);
        nf_matrix queries = cloud(NF_DTYPE_F32, 37, kind + 1, sides[kind], 9);
        for (size_t i = 0; i < sizeof selectivities / sizeof selectivities[0]; i++) {
            check_whole(ctx, &data, NULL, selectivities[i]);
            check_whole(ctx, &data, &queries, selectivities[i]);
        }
        exact_free(&data);
        exact_free(&queries);
    }
    nf_context_destroy(ctx);
}

/* More pairs than are looked at in one go; and rows that are all equal, more of them than that. */
static void test_many_pairs(void **state)
{
    (void)state;
    if (exact_short()) skip();
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   data = cloud(NF_DTYPE_F32, 2200, 2, 0, 4), equal = exact_matrix(NF_DTYPE_F32, 2150, 2);
    check_whole(ctx, &data, NULL, 2000.0);
    check_whole(ctx, &data, NULL, 2199.0);
    check_whole(ctx, &equal, NULL, 2000.0);
    exact_put(&equal, 17, 1, 0x1p-140);
    check_whole(ctx, &equal, NULL, 2149.0);
    exact_free(&data);
    exact_free(&equal);
    nf_context_destroy(ctx);
}

/* Values near the ends of binary64. */
static void test_scales(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    for (int exponent = -1000; exponent <= 1000; exponent += 500) {
        uint64_t  seed = 5;
        nf_matrix data = exact_matrix(NF_DTYPE_F64, 50, 2);
        for (uint64_t i = 0; i < 50; i++) exact_put(&data, i, i % 2, ldexp(random_unit(&seed), exponent));
        check_whole(ctx, &data, NULL, 5.0);
        exact_free(&data);
    }
    nf_context_destroy(ctx);
}

static void test_sample(void **state)
{
    (void)state;
    const uint64_t   rows = exact_short() ? 600 : 3000, sampled = 200;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0), *other = exact_context(NF_ISA_AUTO, 3, 0);
    nf_matrix        data = cloud(NF_DTYPE_F32, rows, 3, 0, 2);
    nf_radius_index *index = index_of(ctx, &data, NF_METRIC_L2);
    uint64_t        *counts = malloc(rows * sizeof *counts), numbers[200];
    for (uint64_t seed = 1; seed <= 3; seed++) {
        nf_selectivity   found = find(ctx, index, &data, 20.0, sampled, seed, 1);
        nf_selectivity   again = find(other, index, &data, 20.0, sampled, seed, 1);
        nf_radius_params params;
        nf_radius_stats  stats = {.struct_size = sizeof stats};
        double           sum = 0, squares = 0;

        assert_memory_equal(&found, &again, sizeof found);
        nf_radius_params_init(&params);
        params.radius = found.radius;
        assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, &stats), NF_OK);
        nf_sample_numbers(rows, sampled, seed, numbers);
        for (uint64_t i = 0; i < sampled; i++) {
            assert_true(numbers[i] < rows && (i == 0 || numbers[i] > numbers[i - 1]));
            sum += (double)counts[numbers[i]];
            squares += (double)(counts[numbers[i]] * counts[numbers[i]]);
        }
        const double mean = sum / (double)sampled, variance = (squares - sum * mean) / (double)(sampled - 1);
        const double error = sqrt(variance / (double)sampled * (1.0 - (double)sampled / (double)rows));
        assert_true(fabs(found.estimate - mean) < 1e-9);
        assert_true(mean >= 20.0 && mean < 20.02);
        assert_true(fabs(found.standard_error - error) < 1e-9 * error);
        assert_true(fabs((double)stats.pairs / (double)rows - found.estimate) < 4.0 * error);
    }
    free(counts);
    nf_radius_index_release(index);
    exact_free(&data);
    nf_context_destroy(ctx);
    nf_context_destroy(other);
}

/* Each number is taken about as often as any other. */
static void test_numbers(void **state)
{
    (void)state;
    uint64_t taken[10] = {0}, numbers[10];
    for (uint64_t seed = 0; seed < 10000; seed++) {
        nf_sample_numbers(10, 3, seed, numbers);
        for (int i = 0; i < 3; i++) taken[numbers[i]]++;
    }
    for (int i = 0; i < 10; i++) assert_true(taken[i] > 2800 && taken[i] < 3200); /* 3000 +- 4.4 deviations of 46 */
    nf_sample_numbers(10, 10, 5, numbers);
    for (uint64_t i = 0; i < 10; i++) assert_int_equal(numbers[i], i);
}

/* Directions x, x, y, and rows of zeros, which lower the mean. */
static void test_cosine(void **state)
{
    (void)state;
    static const float values[] = {1, 0, 2, 0, 0, 3, 0, 0, 1, 1, 0, 0};
    const nf_matrix    data = {.data = values, .rows = 6, .dims = 2, .dtype = NF_DTYPE_F32};
    nf_context        *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_radius_index   *index = index_of(ctx, &data, NF_METRIC_COSINE);
    nf_sample_params   params;
    nf_selectivity     found = find(ctx, index, &data, 2.0 / 6, 6, 1, 1);
    assert_true(found.radius == 0.0);
    assert_true(fabs(found.estimate - 2.0 / 6) < 1e-12);
    found = find(ctx, index, &data, 1.0, 6, 1, 1); /* the pairs at 45 degrees as well: eight in all */
    assert_true(fabs(found.radius - (1.0 - sqrt(0.5))) < 1e-7);
    assert_true(fabs(found.estimate - 8.0 / 6) < 1e-12);
    nf_sample_params_init(&params);
    params.self_join = 1;
    assert_int_equal(nf_radius_for_selectivity(ctx, index, &data, 2.0, &params, &found), NF_ERR_ARGUMENT);
    assert_non_null(strstr(nf_context_error(ctx)->text, "1.33333 neighbours on average"));
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
}

static void refused(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries, double selectivity,
                    nf_sample_params params)
{
    nf_selectivity found = {.struct_size = sizeof found};
    assert_int_equal(nf_radius_for_selectivity(ctx, index, queries, selectivity, &params, &found), NF_ERR_ARGUMENT);
}

static void test_refused(void **state)
{
    (void)state;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix        data = cloud(NF_DTYPE_F32, 10, 2, 0, 1), other = cloud(NF_DTYPE_F32, 9, 2, 0, 1);
    nf_matrix        wide = cloud(NF_DTYPE_F32, 9, 3, 0, 1), none = cloud(NF_DTYPE_F32, 0, 2, 0, 1);
    nf_radius_index *index = index_of(ctx, &data, NF_METRIC_L2);
    nf_sample_params params, self, no_rows;
    nf_sample_params_init(&params);
    self = no_rows = params;
    self.self_join = 1;
    no_rows.rows = 0;
    refused(ctx, index, &data, 0.0, params);
    refused(ctx, index, &data, -1.0, params);
    refused(ctx, index, &data, (double)NAN, params);
    refused(ctx, index, &data, 10.5, params);
    refused(ctx, index, &data, 9.5, self);
    refused(ctx, index, &other, 1.0, self);
    refused(ctx, index, &wide, 1.0, params);
    refused(ctx, index, &none, 1.0, params);
    refused(ctx, index, &data, 1.0, no_rows);
    refused(ctx, NULL, &data, 1.0, params);
    nf_radius_index_release(index);
    exact_free(&data);
    exact_free(&other);
    exact_free(&wide);
    exact_free(&none);
    nf_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),   cmocka_unit_test(test_many_pairs), cmocka_unit_test(test_scales),
        cmocka_unit_test(test_sample),  cmocka_unit_test(test_numbers),    cmocka_unit_test(test_cosine),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
