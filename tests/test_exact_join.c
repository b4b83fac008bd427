/* SPDX-License-Identifier: Apache-2.0 */
/* Joins of every type, shape and option against the brute force of exact_helper.h; batches and limits. */
#include "exact_helper.h"

static const nf_dtype dtypes[] = {NF_DTYPE_U8, NF_DTYPE_I8, NF_DTYPE_U16, NF_DTYPE_I16, NF_DTYPE_I32, NF_DTYPE_F16,
                                  NF_DTYPE_F32, NF_DTYPE_F64, NF_DTYPE_U32, NF_DTYPE_I64, NF_DTYPE_U64};
#define DTYPES (sizeof dtypes / sizeof dtypes[0])

/* Clusters with duplicates and ties: whole numbers, some halves for the real types. */
static nf_matrix clustered(nf_dtype dtype, uint64_t rows, uint32_t dims, uint64_t seed)
{
    const int    is_real = dtype >= NF_DTYPE_F16, is_signed = dtype % 2 == 0 || is_real;
    nf_matrix    data = exact_matrix(dtype, rows, dims);
    for (uint64_t i = 0; i < rows; i++) {
        const double centre = (double)random_below(&seed, 3) * 30.0 + (is_signed ? -40.0 : 10.0);
        const int    copy = i > 0 && random_below(&seed, 8) == 0;
        for (uint32_t c = 0; c < dims; c++) {
            double value = centre + (double)random_below(&seed, 7);
            if (is_real && random_below(&seed, 4) == 0) value += 0.5;
            exact_put(&data, i, c, copy ? exact_get(&data, i - 1, c) : value);
        }
    }
    return data;
}

/* A radius that a few pairs are exactly at. */
static double radius_for(uint32_t dims)
{
    return dims == 1 ? 2.0 : dims <= 3 ? 3.0 : floor(2.6 * sqrt((double)dims));
}

/* One question by CSR, counts and stream. */
static void check_all(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                      const nf_radius_params *params, const exact_truth *truth)
{
    exact_check_csr(ctx, index, queries, params, truth);
    exact_check_counts(ctx, index, queries, params, truth);
    exact_check_stream(ctx, index, queries, params, truth);
}

/* ---- shapes and types ---- */

/* Every type and number of dims; every method, kernel and instruction set must give the same bytes. */
static void test_types_and_dims(void **state)
{
    (void)state;
    static const uint32_t all_dims[] = {1, 2, 3, 8, 16, 33, 100};
    for (size_t t = 0; t < DTYPES; t++) {
        for (size_t k = 0; k < 7; k++) {
            if (t >= 8 && k != 2) continue; /* the rarer types once */
            nf_matrix        data = clustered(dtypes[t], all_dims[k] < 16 ? 150 : 80, all_dims[k], t * 10 + k);
            nf_radius_params params = exact_params(radius_for(all_dims[k]));
            exact_check_methods(&data, NULL, &params);
            exact_free(&data);
        }
    }
}

/* Sizes around the groups' and blocks' borders, with threads and group sizes. */
static void test_sizes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 129, 500};
    static const uint32_t group_sizes[] = {0, 1, 7, 64}, threads[] = {1, 2, 5};
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        nf_matrix        data = clustered(n % 2 ? NF_DTYPE_F32 : NF_DTYPE_U8, sizes[n], 3, n);
        nf_radius_params params = exact_params(2.0);
        exact_truth      truth = exact_truth_of(&data, NULL, params.radius);
        for (size_t g = 0; g < 4; g++) {
            if (exact_short() && sizes[n] > 129 && group_sizes[g] == 1) continue;
            nf_context      *ctx = exact_context(NF_ISA_AUTO, threads[g % 3], 0);
            nf_radius_index *index = exact_index(ctx, &data, group_sizes[g]);
            uint64_t         rows, bytes;
            uint32_t         dims;
            nf_radius_index_describe(index, &rows, &dims, &bytes);
            assert_int_equal(rows, sizes[n]);
            assert_int_equal(dims, 3);
            assert_true(bytes >= rows * 3);
            for (params.candidates = NF_CANDIDATES_BVH; params.candidates <= NF_CANDIDATES_NONE; params.candidates++) {
                check_all(ctx, index, NULL, &params, &truth);
            }
            params.candidates = NF_CANDIDATES_AUTO;
            nf_radius_index_release(index);
            nf_context_destroy(ctx);
        }
        exact_truth_free(&truth);
        exact_free(&data);
    }
}

/* Semi-joins of all numbers of rows on both sides. */
static void test_semi_join_sizes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 64, 65, 200};
    nf_context           *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (size_t n = 0; n < 5; n++) {
        nf_matrix        data = clustered(NF_DTYPE_F32, sizes[n], 5, n);
        nf_radius_index *index = exact_index(ctx, &data, 0);
        for (size_t m = 0; m < 5; m++) {
            nf_matrix        queries = clustered(NF_DTYPE_F32, sizes[m], 5, 50 + m);
            nf_radius_params params = exact_params(4.0);
            exact_truth      truth = exact_truth_of(&data, &queries, params.radius);
            check_all(ctx, index, &queries, &params, &truth);
            exact_truth_free(&truth);
            exact_free(&queries);
        }
        nf_radius_index_release(index);
        exact_free(&data);
    }
    nf_context_destroy(ctx);
}

/* Data and queries of different types: the values count, not how they are stored. */
static void test_mixed_types(void **state)
{
    (void)state;
    for (size_t a = 0; a < 8; a++) {
        for (size_t b = 0; b < 8; b++) {
            const uint32_t   dims = (a + b) % 3 == 0 ? 33 : 3;
            nf_matrix        data = clustered(dtypes[a], 90, dims, a), queries = clustered(dtypes[b], 70, dims, 100 + b);
            nf_radius_params params = exact_params(radius_for(dims));
            if (a == b) {
                exact_free(&data);
                exact_free(&queries);
                continue;
            }
            exact_check_methods(&data, &queries, &params);
            exact_free(&data);
            exact_free(&queries);
        }
    }
}

/* Rows that are neither packed nor aligned. */
static void test_strided(void **state)
{
    (void)state;
    for (size_t t = 0; t < 8; t++) {
        nf_matrix      packed = clustered(dtypes[t], 100, 5, 7);
        const size_t   row = 5 * nf_dtype_bytes(dtypes[t]);
        unsigned char *buffer = malloc(100 * (row + 3) + 1);
        nf_matrix      strided = packed;
        strided.data = buffer + 1;
        strided.stride_bytes = row + 3;
        for (uint64_t i = 0; i < 100; i++) memcpy(buffer + 1 + i * (row + 3), nf_matrix_row(&packed, i), row);
        nf_radius_params params = exact_params(5.0);
        exact_truth      truth = exact_truth_of(&packed, NULL, 5.0);
        nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
        nf_radius_index *index = exact_index(ctx, &strided, 0);
        memset(buffer, 0xff, 100 * (row + 3) + 1); /* the index holds its own copy */
        exact_check_csr(ctx, index, NULL, &params, &truth);
        exact_truth_free(&truth);
        for (uint64_t i = 0; i < 100; i++) memcpy(buffer + 1 + i * (row + 3), nf_matrix_row(&packed, i), row);
        truth = exact_truth_of(&packed, &packed, 5.0);
        exact_check_csr(ctx, index, &strided, &params, &truth);
        exact_truth_free(&truth);
        nf_radius_index_release(index);
        nf_context_destroy(ctx);
        free(buffer);
        exact_free(&packed);
    }
}

/* ---- options ---- */

/* self, half, strict, sort and distances in all combinations. */
static void test_options(void **state)
{
    (void)state;
    nf_matrix   data = clustered(NF_DTYPE_F32, 130, 2, 3);
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    exact_truth truth = exact_truth_of(&data, NULL, 3.0), zero = exact_truth_of(&data, NULL, 0.0);
    nf_radius_index *index = exact_index(ctx, &data, 0);
    assert_true(truth.ties > 50 && zero.ties > 5); /* the test reaches what it is for */
    for (uint32_t bits = 0; bits < 8; bits++) {
        for (uint32_t as = NF_DISTANCES_F64; as <= NF_DISTANCES_NONE; as++) {
            nf_radius_params params = exact_params(3.0);
            params.self = bits & 1;
            params.half = bits >> 1 & 1;
            params.strict = bits >> 2 & 1;
            params.distances = as;
            for (params.sort = NF_SORT_ID; params.sort <= NF_SORT_DISTANCE; params.sort++) {
                check_all(ctx, index, NULL, &params, &truth);
            }
            params.sort = NF_SORT_ID;
            params.radius = 0.0;
            check_all(ctx, index, NULL, &params, &zero);
        }
    }
    exact_truth_free(&truth);
    exact_truth_free(&zero);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    exact_free(&data);
}

/* A delivered distance is never above the radius, in binary64 and in binary32, though it rounds up. */
static void test_distances_stay_below(void **state)
{
    (void)state;
    uint64_t         seed = 5;
    nf_matrix        data = exact_matrix(NF_DTYPE_F64, 2, 100); /* so that rounding carries over by units */
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    int              clamped = 0;
    for (int round = 0; round < 200; round++) {
        for (uint32_t c = 0; c < 100; c++) {
            exact_put(&data, 0, c, random_unit(&seed));
            exact_put(&data, 1, c, random_unit(&seed));
        }
        const double *values = data.data, distance = nf_exact_distance(values, values + 100, 100);
        const double  radius = nextafter(distance, 0.0); /* often still at or above the real distance */
        if (nf_exact_compare(values, values + 100, 100, radius) > 0) continue;
        clamped++;
        nf_radius_params params = exact_params(radius);
        nf_radius_index *index = exact_index(ctx, &data, 0);
        for (params.distances = NF_DISTANCES_F64; params.distances <= NF_DISTANCES_F32; params.distances++) {
            nf_csr *csr = NULL;
            assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &csr, NULL), NF_OK);
            assert_int_equal(csr->pairs, 2);
            const double got = exact_delivered(csr->distances, params.distances, 0);
            assert_true(got <= radius && got >= radius * (1.0 - 0x1p-23));
            if (params.distances == NF_DISTANCES_F64) assert_true(got == radius);
            nf_csr_release(csr);
        }
        nf_radius_index_release(index);
    }
    assert_true(clamped > 10);
    nf_context_destroy(ctx);
    exact_free(&data);
}

static void test_infinite_radius(void **state)
{
    (void)state;
    for (size_t t = 0; t < DTYPES; t++) {
        nf_matrix        data = clustered(dtypes[t], 70, t % 2 ? 2 : 33, t);
        nf_radius_params params = exact_params(HUGE_VAL);
        exact_check_methods(&data, NULL, &params);
        params.strict = 1;
        params.self = 1;
        exact_check_methods(&data, NULL, &params);
        params.radius = 1e300;
        exact_check_methods(&data, NULL, &params);
        exact_free(&data);
    }
}

/* All rows equal, constant columns. */
static void test_equal_rows(void **state)
{
    (void)state;
    for (size_t t = 0; t < 8; t++) {
        nf_matrix data = exact_matrix(dtypes[t], 200, 4);
        for (uint64_t i = 0; i < 200; i++) {
            for (uint32_t c = 0; c < 4; c++) exact_put(&data, i, c, c == 2 && t % 2 ? (double)(i % 3) : 5.0);
        }
        nf_radius_params params = exact_params(0.0);
        exact_check_methods(&data, NULL, &params);
        params.radius = 1.0;
        params.half = 1;
        exact_check_methods(&data, NULL, &params);
        exact_free(&data);
    }
}

/* ---- batches and limits ---- */

/* Small batches: many of them, and the same rows. */
static void test_batches(void **state)
{
    (void)state;
    nf_matrix data = exact_matrix(NF_DTYPE_F32, 3000, 2), queries = clustered(NF_DTYPE_F32, 500, 2, 9);
    uint64_t  seed = 8;
    for (uint64_t i = 0; i < data.rows; i++) {
        exact_put(&data, i, 0, -40.0 + (double)random_below(&seed, 80));
        exact_put(&data, i, 1, -40.0 + (double)random_below(&seed, 80));
    }
    exact_truth self = exact_truth_of(&data, NULL, 20.0), semi = exact_truth_of(&data, &queries, 20.0);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        nf_context      *ctx = exact_context(NF_ISA_AUTO, threads, 0);
        nf_radius_index *index = exact_index(ctx, &data, 0);
        nf_radius_params params = exact_params(20.0);
        params.distances = NF_DISTANCES_NONE;
        params.batch_pairs = 300000;
        assert_true(exact_check_stream(ctx, index, NULL, &params, &self) >= 5);
        params.half = 1;
        assert_true(exact_check_stream(ctx, index, NULL, &params, &self) >= 2);
        params.half = 0;
        params.self = 1;
        exact_check_stream(ctx, index, NULL, &params, &self);
        params.self = 0;
        params.batch_pairs = 100000;
        params.candidates = NF_CANDIDATES_BVH;
        assert_true(exact_check_stream(ctx, index, &queries, &params, &semi) >= 2);
        nf_radius_index_release(index);
        nf_context_destroy(ctx);
    }
    exact_truth_free(&self);
    exact_truth_free(&semi);
    exact_free(&data);
    exact_free(&queries);
}

/* A single group has more pairs than batch_pairs: the batch is larger then, since rows stay whole. No limit was hit. */
static void test_batch_of_one_group(void **state)
{
    (void)state;
    nf_matrix        data = clustered(NF_DTYPE_U8, 2500, 1, 4), queries = clustered(NF_DTYPE_U8, 70, 1, 5);
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_radius_index *index = exact_index(ctx, &data, 0);
    nf_radius_params params = exact_params(HUGE_VAL);
    exact_truth      semi = exact_truth_of(&data, &queries, HUGE_VAL);
    params.batch_pairs = 1;
    params.distances = NF_DISTANCES_NONE;
    assert_true(exact_check_stream(ctx, index, &queries, &params, &semi) == 2);
    exact_truth_free(&semi);

    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    uint64_t          pairs = 0;
    nf_status         status;
    assert_int_equal(nf_radius_open(ctx, index, NULL, &params, &stream), NF_OK);
    while ((status = nf_radius_next(stream, &batch)) == NF_MORE) pairs += batch.pairs;
    assert_int_equal(status, NF_OK);
    assert_int_equal(pairs, 2500 * 2499);
    nf_radius_close(stream);

    nf_csr *csr = NULL; /* one object whatever the size of batches */
    assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &csr, NULL), NF_OK);
    assert_int_equal(csr->pairs, 2500 * 2499);
    nf_csr_release(csr);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    exact_free(&data);
    exact_free(&queries);
}

/* 6 MB of memory: a stream passes a larger result through it, one CSR cannot hold it. */
static void test_memory_limit(void **state)
{
    (void)state;
    const uint64_t   limit = 6 << 20;
    nf_matrix        data = clustered(NF_DTYPE_U8, 800, 2, 6);
    nf_context      *wide = exact_context(NF_ISA_AUTO, 1, 0), *ctx = exact_context(NF_ISA_AUTO, 1, limit);
    nf_radius_index *index = exact_index(wide, &data, 0);
    nf_radius_params params = exact_params(HUGE_VAL);
    exact_truth      truth = exact_truth_of(&data, NULL, HUGE_VAL);
    nf_csr          *csr = (nf_csr *)&csr;
    nf_context_info  info;

    assert_true(exact_check_stream(ctx, index, NULL, &params, &truth) > 3);
    nf_context_describe(ctx, &info);
    assert_true(info.memory_peak <= limit);
    assert_int_equal(info.memory_used, 0);

    assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &csr, NULL), NF_ERR_LIMIT);
    assert_null(csr);
    assert_non_null(strstr(nf_context_error(ctx)->text, "6291456"));
    nf_context_describe(ctx, &info);
    assert_int_equal(info.memory_used, 0);
    exact_check_counts(ctx, index, NULL, &params, &truth);
    exact_truth_free(&truth);

    params.radius = 0.0; /* fits, by the same context */
    params.half = 1;
    truth = exact_truth_of(&data, NULL, 0.0);
    exact_check_csr(ctx, index, NULL, &params, &truth);
    exact_truth_free(&truth);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    nf_context_destroy(wide);
    exact_free(&data);
}

static void test_max_results(void **state)
{
    (void)state;
    nf_matrix        data = clustered(NF_DTYPE_I16, 100, 2, 6);
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_radius_index *index = exact_index(ctx, &data, 0);
    nf_radius_params params = exact_params(3.0);
    exact_truth      truth = exact_truth_of(&data, NULL, 3.0);
    uint64_t         counts[100], pairs = 0;
    nf_csr          *csr = NULL;
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, NULL), NF_OK);
    for (int i = 0; i < 100; i++) pairs += counts[i];
    assert_true(pairs > 100);

    params.max_results = pairs;
    check_all(ctx, index, NULL, &params, &truth);
    params.max_results = pairs - 1;
    assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &csr, NULL), NF_ERR_LIMIT);
    assert_null(csr);
    char number[32];
    snprintf(number, sizeof number, "%d", (int)pairs - 1);
    assert_non_null(strstr(nf_context_error(ctx)->text, number));
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, NULL), NF_ERR_LIMIT);

    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    assert_int_equal(nf_radius_open(ctx, index, NULL, &params, &stream), NF_OK);
    assert_int_equal(nf_radius_next(stream, &batch), NF_ERR_LIMIT);
    assert_int_equal(batch.rows, 0);
    assert_int_equal(nf_radius_next(stream, &batch), NF_ERR_STATE);
    nf_radius_close(stream);
    exact_truth_free(&truth);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    exact_free(&data);
}

/* An index outlives the context it was made with, and serves others. */
static void test_index_outlives_context(void **state)
{
    (void)state;
    nf_matrix        data = clustered(NF_DTYPE_F32, 100, 3, 1);
    nf_context      *first = exact_context(NF_ISA_AUTO, 2, 0);
    nf_radius_index *index = exact_index(first, &data, 0);
    nf_radius_params params = exact_params(3.0);
    exact_truth      truth = exact_truth_of(&data, NULL, 3.0);
    nf_csr          *csr = NULL;
    nf_context_destroy(first);
    for (uint32_t i = 0; exact_isa(i) != NF_ISA_AUTO; i++) {
        nf_context *ctx = exact_context(exact_isa(i), 1, 0);
        exact_check_csr(ctx, index, NULL, &params, &truth);
        assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &csr, NULL), NF_OK);
        nf_context_destroy(ctx);
        assert_int_equal(csr->indptr[100], csr->pairs); /* a result outlives it too */
        nf_csr_release(csr);
    }
    nf_radius_index_release(index);
    exact_truth_free(&truth);
    exact_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_and_dims),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_semi_join_sizes),
        cmocka_unit_test(test_mixed_types),
        cmocka_unit_test(test_strided),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_distances_stay_below),
        cmocka_unit_test(test_infinite_radius),
        cmocka_unit_test(test_equal_rows),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_batch_of_one_group),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_max_results),
        cmocka_unit_test(test_index_outlives_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
