/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nf_radius_estimate: exact where the sample is the whole, whatever is asked for; else the true number of pairs lies in
 * the interval about as often as it says. Everything but time follows from the seeds.
 */
#include "exact_helper.h"
#include "nearfield/estimate.h"

static nf_radius_index *index_of(nf_context *ctx, const nf_matrix *data, uint32_t metric)
{
    nf_radius_index_params params;
    nf_radius_index       *index = NULL;
    nf_radius_index_params_init(&params);
    params.metric = metric;
    assert_int_equal(nf_radius_index_create(ctx, data, &params, &index), NF_OK);
    return index;
}

static nf_join_estimate estimate(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                 const nf_radius_params *params, uint64_t rows, uint64_t seed, uint32_t self_join)
{
    nf_sample_params sample;
    nf_join_estimate found = {.struct_size = sizeof found};
    nf_sample_params_init(&sample);
    sample.rows = rows;
    sample.seed = seed;
    sample.self_join = self_join;
    if (nf_radius_estimate(ctx, index, queries, params, &sample, &found) != NF_OK) {
        fail_msg("%s", nf_context_error(ctx)->text);
    }
    assert_true(found.pairs_low <= found.pairs && found.pairs <= found.pairs_high);
    assert_true(found.seconds > 0.0 && found.seconds_low <= found.seconds && found.seconds <= found.seconds_high);
    assert_true(found.peak_bytes >= found.result_bytes);
    assert_int_equal(found.queries, queries->rows);
    assert_int_equal(found.sampled, rows < queries->rows ? rows : queries->rows);
    return found;
}

/* The true number of pairs, and the bytes of the result. queries NULL: a self-join. */
static uint64_t true_pairs(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                           const nf_radius_params *params, uint64_t *bytes)
{
    nf_csr *csr = NULL;
    assert_int_equal(nf_radius_csr(ctx, index, queries, params, &csr, NULL), NF_OK);
    const uint64_t pairs = csr->pairs, width = params->distances == NF_DISTANCES_F64   ? 8
                                               : params->distances == NF_DISTANCES_F32 ? 4
                                                                                       : 0;
    *bytes = 8 * (csr->rows + 1) + pairs * (4 + width);
    nf_csr_release(csr);
    return pairs;
}

static void check_whole(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t metric,
                        const nf_radius_params *params)
{
    nf_radius_index       *index = index_of(ctx, data, metric);
    uint64_t               bytes;
    const uint64_t         pairs = true_pairs(ctx, index, queries, params, &bytes);
    const nf_join_estimate found =
        estimate(ctx, index, queries != NULL ? queries : data, params, UINT64_MAX, 1, queries == NULL);
    assert_true(fabs(found.pairs - (double)pairs) < 1e-6 * (double)(pairs + 1));
    assert_true(found.pairs_low == found.pairs && found.pairs_high == found.pairs);
    assert_true(found.standard_error == 0.0);
    assert_int_equal(found.result_bytes, bytes);
    assert_int_equal(found.npy_bytes, 128 + 8 * pairs);
    nf_radius_index_release(index);
}

/* Whole numbers, so that rows are equal and pairs tie; some rows are zeros. */
static nf_matrix grid(uint64_t rows, uint32_t side, uint64_t seed)
{
    nf_matrix data = exact_matrix(NF_DTYPE_F32, rows, 2);
    for (uint64_t i = 0; i < rows; i++) {
        exact_put(&data, i, 0, (double)random_below(&seed, side));
        exact_put(&data, i, 1, (double)random_below(&seed, side));
    }
    return data;
}

static void test_whole(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   data = grid(500, 9, 1), queries = grid(70, 9, 2), one = grid(1, 9, 3);
    for (uint32_t mask = 0; mask < 16; mask++) {
        nf_radius_params params;
        nf_radius_params_init(&params);
        params.self = mask & 1;
        params.half = mask >> 1 & 1;
        params.strict = mask >> 2 & 1;
        params.radius = mask >> 3 ? 0.0 : 2.0;
        params.distances = mask % 3;
        check_whole(ctx, &data, NULL, NF_METRIC_L2, &params);
        check_whole(ctx, &one, NULL, NF_METRIC_L2, &params);
        params.radius = mask >> 3 ? 0.0 : 0.1;
        check_whole(ctx, &data, NULL, NF_METRIC_COSINE, &params);
        params.self = params.half = 0;
        check_whole(ctx, &data, &queries, NF_METRIC_COSINE, &params);
    }
    exact_free(&data);
    exact_free(&queries);
    exact_free(&one);
    nf_context_destroy(ctx);
}

/* Of 40 samples, 38 are to be expected in their intervals. */
static void test_interval(void **state)
{
    (void)state;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    const uint64_t   rows = exact_short() ? 800 : 4000, sampled = 200;
    uint64_t         seed = 8, bytes, inside = 0;
    nf_matrix        data = exact_matrix(NF_DTYPE_F32, rows, 3);
    nf_radius_params params;
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < 3; k++) exact_put(&data, i, k, random_unit(&seed) * random_unit(&seed));
    }
    nf_radius_index *index = index_of(ctx, &data, NF_METRIC_L2);
    nf_radius_params_init(&params);
    params.radius = 0.1;
    params.half = 1;
    const double truth = (double)true_pairs(ctx, index, NULL, &params, &bytes);
    for (uint64_t i = 1; i <= 40; i++) {
        const nf_join_estimate found = estimate(ctx, index, &data, &params, sampled, i, 1);
        inside += found.pairs_low <= truth && truth <= found.pairs_high;
        assert_true(found.pairs_high - found.pairs_low < truth);
        assert_true(found.pairs_high > found.pairs_low);
    }
    assert_true(inside >= 34);
    nf_radius_index_release(index);
    exact_free(&data);
    nf_context_destroy(ctx);
}

static void test_refused(void **state)
{
    (void)state;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix        data = grid(10, 5, 1), none = grid(0, 5, 1);
    nf_radius_index *index = index_of(ctx, &data, NF_METRIC_L2);
    nf_radius_params params;
    nf_join_estimate found = {.struct_size = sizeof found};
    nf_radius_params_init(&params);
    assert_int_equal(nf_radius_estimate(ctx, index, &none, &params, NULL, &found), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_estimate(ctx, index, &data, NULL, NULL, &found), NF_ERR_ARGUMENT);
    params.radius = -1.0;
    assert_int_equal(nf_radius_estimate(ctx, index, &data, &params, NULL, &found), NF_ERR_ARGUMENT);
    params.radius = 1.0;
    params.half = 1; /* without self_join */
    assert_int_equal(nf_radius_estimate(ctx, index, &data, &params, NULL, &found), NF_ERR_ARGUMENT);
    nf_radius_index_release(index);
    exact_free(&data);
    exact_free(&none);
    nf_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
