/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins by cosine against the definition: rows are made of unit length here, by plain loops of the documented rule;
 * every pair is decided on them in exact arithmetic; rows of zeros are in no pair.
 */
#include "exact_helper.h"
#include "nearfield/cluster.h"

/* ---- the definition ---- */

typedef struct unit_set {
    nf_matrix rows; /* binary32 */
    uint8_t  *zero;
} unit_set;

/* docs/numerics.md, section 11. */
static void unit_row(const double *from, uint32_t dims, float *to, uint8_t *zero)
{
    double largest = 0.0, sum = 0.0;
    int    shift = 0;
    for (uint32_t k = 0; k < dims; k++) {
        if (fabs(from[k]) > largest) largest = fabs(from[k]);
        sum = fma(from[k], from[k], sum);
    }
    *zero = largest == 0.0;
    if (*zero) return;
    if (!(sum >= 0x1p-900 && sum <= 0x1p1000)) {
        (void)frexp(largest, &shift);
        shift = 1 - shift;
        sum = 0.0;
        for (uint32_t k = 0; k < dims; k++) sum = fma(ldexp(from[k], shift), ldexp(from[k], shift), sum);
    }
    for (uint32_t k = 0; k < dims; k++) to[k] = (float)(ldexp(from[k], shift) / sqrt(sum));
}

static unit_set unit_set_of(const nf_matrix *from)
{
    unit_set out = {.rows = exact_matrix(NF_DTYPE_F32, from->rows, from->dims), .zero = calloc(from->rows + 1, 1)};
    double  *values = exact_values(from);
    float   *to = (float *)(uintptr_t)out.rows.data;
    for (uint64_t i = 0; i < from->rows; i++) {
        unit_row(values + i * from->dims, from->dims, to + i * from->dims, &out.zero[i]);
    }
    free(values);
    return out;
}

static void unit_set_free(unit_set *set)
{
    exact_free(&set->rows);
    free(set->zero);
}

/* What is true under a similarity. */
typedef struct cosine_truth {
    exact_truth      l2; /* of the unit rows; sides of pairs with a row of zeros are 1 */
    double           most;
    nf_radius_params plain; /* the question, for exact_wanted */
} cosine_truth;

static cosine_truth cosine_truth_of(const nf_matrix *data, const nf_matrix *queries, const nf_radius_params *params)
{
    cosine_truth truth = {.most = 1.0 - params->similarity, .plain = *params};
    unit_set     rows = unit_set_of(data), asking = queries != NULL ? unit_set_of(queries) : rows;
    if ((long double)truth.most > 1.0L - (long double)params->similarity) truth.most = nextafter(truth.most, 0.0);
    truth.plain.radius = sqrt(2.0 * truth.most);
    truth.l2 = exact_truth_of(&rows.rows, queries != NULL ? &asking.rows : NULL, truth.plain.radius);
    truth.l2.ties = 0;
    for (uint64_t q = 0; q < truth.l2.queries; q++) {
        for (uint64_t p = 0; p < truth.l2.rows; p++) {
            int8_t *side = &truth.l2.side[q * truth.l2.rows + p];
            if (asking.zero[q] || rows.zero[p]) *side = 1;
            if (*side == 0 && (queries != NULL || p != q)) truth.l2.ties++;
        }
    }
    if (queries != NULL) unit_set_free(&asking);
    unit_set_free(&rows);
    return truth;
}

static double cosine_distance(const cosine_truth *truth, uint64_t q, uint64_t p)
{
    const double distance = exact_distance(&truth->l2, &truth->plain, q, p);
    if (truth->plain.distances == NF_DISTANCES_F64) return fmin(distance * distance / 2.0, truth->most);
    const double narrow = (double)exact_narrow(distance, truth->plain.radius);
    return (double)exact_narrow((double)(float)(narrow * narrow / 2.0), truth->most);
}

static void check_row(const cosine_truth *truth, int self_join, uint64_t q, const int32_t *ids, const void *distances,
                      uint64_t begin, uint64_t end)
{
    uint64_t at = begin;
    for (uint64_t p = 0; p < truth->l2.rows; p++) {
        if (!exact_wanted(&truth->l2, &truth->plain, self_join, q, p)) continue;
        if (at == end || (uint64_t)ids[at] != p) fail_msg("query %d: row %d is missing", (int)q, (int)p);
        if (truth->plain.distances != NF_DISTANCES_NONE) {
            const double found = exact_delivered(distances, truth->plain.distances, at);
            if (found != cosine_distance(truth, q, p)) fail_msg("query %d, row %d: distance %a", (int)q, (int)p, found);
            assert_true(found <= 1.0 - truth->plain.similarity);
        }
        at++;
    }
    if (at != end) fail_msg("query %d has pairs that are none", (int)q);
}

/* ---- asking ---- */

static nf_radius_index *cosine_index(nf_context *ctx, const nf_matrix *data)
{
    nf_radius_index_params params;
    nf_radius_index       *index = NULL;
    nf_radius_index_params_init(&params);
    params.metric = NF_METRIC_COSINE;
    if (nf_radius_index_create(ctx, data, &params, &index) != NF_OK) fail_msg("%s", nf_context_error(ctx)->text);
    return index;
}

static void check_csr(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                      const nf_radius_params *params, const cosine_truth *truth)
{
    nf_csr         *csr = NULL;
    nf_radius_stats stats = {.struct_size = sizeof stats};
    if (nf_radius_csr(ctx, index, queries, params, &csr, &stats) != NF_OK) fail_msg("%s", nf_context_error(ctx)->text);
    assert_int_equal(csr->rows, truth->l2.queries);
    assert_int_equal(csr->columns, truth->l2.rows);
    for (uint64_t q = 0; q < csr->rows; q++) {
        check_row(truth, queries == NULL, q, csr->indices, csr->distances, (uint64_t)csr->indptr[q],
                  (uint64_t)csr->indptr[q + 1]);
    }
    assert_int_equal(stats.pairs, csr->pairs);
    assert_int_equal(stats.rows, truth->l2.rows);
    assert_int_equal(stats.queries, truth->l2.queries);
    assert_int_equal(stats.ties, truth->l2.ties);
    nf_csr_release(csr);
}

static void check_counts(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                         const nf_radius_params *params, const cosine_truth *truth)
{
    uint64_t *counts = malloc((truth->l2.queries + 1) * sizeof *counts);
    memset(counts, 0x55, (truth->l2.queries + 1) * sizeof *counts);
    assert_int_equal(nf_radius_counts(ctx, index, queries, params, counts, NULL), NF_OK);
    for (uint64_t q = 0; q < truth->l2.queries; q++) {
        uint64_t wanted = 0;
        for (uint64_t p = 0; p < truth->l2.rows; p++) {
            wanted += (uint64_t)exact_wanted(&truth->l2, &truth->plain, queries == NULL, q, p);
        }
        assert_int_equal(counts[q], wanted);
    }
    free(counts);
}

static void check_stream(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                         const nf_radius_params *params, const cosine_truth *truth)
{
    nf_radius_params  batches = *params;
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    nf_radius_stats   stats = {.struct_size = sizeof stats};
    uint64_t          queries_seen = 0, in_histogram = 0;
    uint8_t          *seen = calloc(truth->l2.queries + 1, 1);

    batches.batch_pairs = 50;
    assert_int_equal(nf_radius_open(ctx, index, queries, &batches, &stream), NF_OK);
    while (nf_radius_next(stream, &batch) == NF_MORE) {
        for (uint64_t i = 0; i < batch.rows; i++) {
            const uint64_t q = (uint64_t)batch.query_ids[i];
            assert_true(q < truth->l2.queries && !seen[q]);
            assert_true(i == 0 || batch.query_ids[i] > batch.query_ids[i - 1]);
            seen[q] = 1;
            queries_seen++;
            check_row(truth, queries == NULL, q, batch.indices, batch.distances, (uint64_t)batch.indptr[i],
                      (uint64_t)batch.indptr[i + 1]);
        }
    }
    assert_int_equal(nf_radius_next(stream, &batch), NF_OK);
    nf_radius_stream_stats(stream, &stats);
    for (int b = 0; b < NF_HISTOGRAM_BINS; b++) in_histogram += stats.histogram[b];
    assert_int_equal(in_histogram, truth->l2.queries);
    assert_int_equal(queries_seen, truth->l2.queries);
    nf_radius_close(stream);
    free(seen);
}

static void check(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, const nf_radius_params *params)
{
    nf_radius_index *index = cosine_index(ctx, data);
    cosine_truth     truth = cosine_truth_of(data, queries, params);
    check_csr(ctx, index, queries, params, &truth);
    check_counts(ctx, index, queries, params, &truth);
    check_stream(ctx, index, queries, params, &truth);
    exact_truth_free(&truth.l2);
    nf_radius_index_release(index);
}

static nf_radius_params similar(double similarity)
{
    nf_radius_params params;
    nf_radius_params_init(&params);
    params.similarity = similarity;
    return params;
}

/* Small whole numbers: rows that are multiples of others, unit vectors beside rows of ones (cosine 1/2 exactly, in 4
 * dims), and rows of zeros, first and last ones too. */
static nf_matrix directions(nf_dtype dtype, uint64_t rows, uint32_t dims, uint32_t zero_every, uint64_t seed)
{
    const bool is_signed =
        dtype != NF_DTYPE_U8 && dtype != NF_DTYPE_U16 && dtype != NF_DTYPE_U32 && dtype != NF_DTYPE_U64;
    nf_matrix data = exact_matrix(dtype, rows, dims);
    for (uint64_t i = 0; i < rows; i++) {
        if (zero_every != 0 && i % zero_every == 0) continue;
        const uint64_t kind = random_below(&seed, 4);
        const double   factor = 1.0 + (double)random_below(&seed, 9);
        for (uint32_t k = 0; k < dims; k++) {
            double value = kind == 0 ? 1.0 : kind == 1 ? k == i % dims : (double)random_below(&seed, 4);
            if (is_signed && kind > 1 && random_below(&seed, 3) == 0) value = -value;
            exact_put(&data, i, k, value * factor);
        }
    }
    return data;
}

/* ---- tests ---- */

static void test_types(void **state)
{
    (void)state;
    static const double similarities[] = {1.0, 0.95, 0.5, 0.3, 1e-9};
    nf_context         *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (nf_dtype dtype = NF_DTYPE_U8; dtype <= NF_DTYPE_F64; dtype = (nf_dtype)(dtype + 1)) {
        nf_matrix data = directions(dtype, exact_short() ? 90 : 300, 4, 7, (uint64_t)dtype);
        nf_matrix queries = directions(dtype == NF_DTYPE_F64 ? NF_DTYPE_U8 : NF_DTYPE_F64, 50, 4, 5, 77);
        for (size_t i = 0; i < sizeof similarities / sizeof similarities[0]; i++) {
            nf_radius_params params = similar(similarities[i]);
            check(ctx, &data, NULL, &params);
            check(ctx, &data, &queries, &params);
        }
        exact_free(&data);
        exact_free(&queries);
    }
    nf_context_destroy(ctx);
}

static void test_variants(void **state)
{
    (void)state;
    for (uint32_t i = 0; exact_isa(i) != NF_ISA_AUTO; i++) {
        nf_context *ctx = exact_context(exact_isa(i), 3, 0);
        nf_matrix   data = directions(NF_DTYPE_I8, exact_short() ? 90 : 400, 4, 6, 5);
        for (uint32_t mask = 0; mask < 8; mask++) {
            nf_radius_params params = similar(mask & 1 ? 0.5 : 0.8);
            params.self = mask & 1;
            params.half = mask >> 1 & 1;
            params.strict = mask >> 2 & 1;
            params.distances = mask % 3;
            check(ctx, &data, NULL, &params);
        }
        exact_free(&data);
        nf_context_destroy(ctx);
    }
}

/* From nothing to a few rows, with and without rows of zeros, and rows of zeros alone. */
static void test_small(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    for (uint32_t dims = 1; dims <= 3; dims += 2) {
        for (uint64_t rows = 0; rows <= 4; rows++) {
            for (uint32_t zero_every = 0; zero_every <= 2; zero_every++) {
                nf_matrix        data = directions(NF_DTYPE_F32, rows, dims, zero_every, rows + 1);
                nf_matrix        queries = directions(NF_DTYPE_F32, 3, dims, 2, 9);
                nf_radius_params params = similar(0.7);
                check(ctx, &data, &queries, &params);
                params.self = 1;
                check(ctx, &data, NULL, &params);
                exact_free(&data);
                exact_free(&queries);
            }
        }
    }
    nf_context_destroy(ctx);
}

/* Rows of every magnitude of binary64, whose squares vanish or overflow; dims that no vector register divides. */
static void test_magnitudes(void **state)
{
    (void)state;
    uint64_t    seed = 3;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   data = exact_matrix(NF_DTYPE_F64, exact_short() ? 60 : 250, 5);
    for (uint64_t i = 0; i < data.rows; i++) {
        const double scale = pow(10.0, -320.0 + (double)random_below(&seed, 628));
        for (uint32_t k = 0; k < data.dims; k++) exact_put(&data, i, k, (2.0 * random_unit(&seed) - 1.0) * scale);
    }
    for (int i = 0; i < 3; i++) {
        nf_radius_params params = similar(i == 0 ? 0.9 : i == 1 ? 0.2 : 0.999);
        params.distances = i == 1 ? NF_DISTANCES_F32 : NF_DISTANCES_F64;
        check(ctx, &data, NULL, &params);
    }
    exact_free(&data);
    nf_context_destroy(ctx);
}

/* The same direction at scales that are powers of two is the same row, at any similarity. */
static void test_equal_directions(void **state)
{
    (void)state;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix        data = exact_matrix(NF_DTYPE_F64, 4, 3);
    const int        exponents[] = {0, -1000, 900, 3};
    uint64_t         counts[4];
    nf_radius_params params = similar(1.0);
    for (uint64_t i = 0; i < 4; i++) {
        exact_put(&data, i, 0, ldexp(0.3, exponents[i]));
        exact_put(&data, i, 1, ldexp(-0.7, exponents[i]));
        exact_put(&data, i, 2, ldexp(0.11, exponents[i]));
    }
    nf_radius_index *index = cosine_index(ctx, &data);
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, NULL), NF_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(counts[i], 3);
    nf_radius_index_release(index);
    exact_free(&data);
    nf_context_destroy(ctx);
}

static void refused(nf_context *ctx, const nf_radius_index *index, double radius, double similarity, const char *text)
{
    nf_radius_params params = similar(similarity);
    uint64_t         counts[4];
    params.radius = radius;
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, NULL), NF_ERR_ARGUMENT);
    if (strstr(nf_context_error(ctx)->text, text) == NULL) fail_msg("%s", nf_context_error(ctx)->text);
}

static void test_refused(void **state)
{
    (void)state;
    nf_context            *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix              data = directions(NF_DTYPE_F32, 4, 3, 0, 1);
    nf_radius_index       *index = cosine_index(ctx, &data), *plain = NULL;
    nf_radius_index_params params;
    refused(ctx, index, 0.0, 0.0, "similarity is 0, more than 0 and at most 1");
    refused(ctx, index, 0.0, -0.5, "similarity is -0.5");
    refused(ctx, index, 0.0, 1.5, "similarity is 1.5");
    refused(ctx, index, 0.1, 0.5, "only one of them");
    refused(ctx, index, 1.0, (double)NAN, "less than 1");
    refused(ctx, index, (double)NAN, (double)NAN, "radius is nan");
    assert_int_equal(nf_radius_index_create(ctx, &data, NULL, &plain), NF_OK);
    refused(ctx, plain, 0.0, 0.5, "metric l2");
    nf_radius_index_release(plain);
    nf_radius_index_params_init(&params);
    params.metric = NF_METRIC_IP;
    assert_int_equal(nf_radius_index_create(ctx, &data, &params, &plain), NF_ERR_ARGUMENT);
    params.metric = NF_METRIC_COSINE;
    exact_put(&data, 2, 1, (double)INFINITY);
    assert_int_equal(nf_radius_index_create(ctx, &data, &params, &plain), NF_ERR_VALUE);
    assert_non_null(strstr(nf_context_error(ctx)->text, "row 2, column 1"));
    nf_radius_index_release(index);
    exact_free(&data);
    nf_context_destroy(ctx);
}

/* A radius is a cosine distance: the same pairs as the similarity that is its complement. */
static void test_radius(void **state)
{
    (void)state;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix        data = directions(NF_DTYPE_F32, 60, 4, 6, 8);
    nf_radius_index *index = cosine_index(ctx, &data);
    nf_radius_params params = similar(0.5);
    uint64_t         counts[60], same[60];
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, NULL), NF_OK);
    params.similarity = (double)NAN;
    params.radius = 0.5;
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, same, NULL), NF_OK);
    assert_memory_equal(counts, same, sizeof same);
    nf_radius_index_release(index);
    exact_free(&data);
    nf_context_destroy(ctx);
}

/* Rows of zeros are noise even where every row by itself is a cluster. Directions: x, x, 0, y, 0, x + y, 0. */
static void test_dbscan(void **state)
{
    (void)state;
    static const float values[] = {1, 0, 5, 0, 0, 0, 0, 2, 0, 0, 3, 3, 0, 0};
    const nf_matrix    data = {.data = values, .rows = 7, .dims = 2, .dtype = NF_DTYPE_F32};
    nf_context        *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_radius_index   *index = cosine_index(ctx, &data);
    nf_dbscan_params   params;
    int64_t            labels[7];
    nf_dbscan_params_init(&params);
    params.similarity = 0.9;
    params.min_samples = 1;
    assert_int_equal(nf_dbscan(ctx, index, &params, labels, NULL, NULL), NF_OK);
    assert_memory_equal(labels, ((int64_t[]){0, 0, -1, 1, -1, 2, -1}), sizeof labels);
    params.similarity = 0.7; /* 45 degrees have a cosine of 0.707 */
    params.min_samples = 3;
    assert_int_equal(nf_dbscan(ctx, index, &params, labels, NULL, NULL), NF_OK);
    assert_memory_equal(labels, ((int64_t[]){0, 0, -1, 0, -1, 0, -1}), sizeof labels);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
}

/* Results larger than device memory are put together from batches, rows of zeros among them. */
static void test_device_batches(void **state)
{
    (void)state;
    if (!exact_on_cuda()) skip();
    nf_matrix        data = directions(NF_DTYPE_F32, 400, 4, 6, 11);
    nf_radius_params params = similar(0.5);
    cosine_truth     truth = cosine_truth_of(&data, NULL, &params);
    uint32_t         in_batches = 0;
    for (uint64_t gpu_memory = 32 << 10; gpu_memory < 1 << 20; gpu_memory += gpu_memory / 3) {
        nf_context_params of;
        nf_context       *ctx = NULL;
        nf_radius_index  *index = NULL;
        nf_csr           *csr = NULL;
        nf_radius_stats   stats = {.struct_size = sizeof stats};
        nf_context_params_init(&of);
        of.gpu_memory = gpu_memory;
        assert_int_equal(nf_context_create(&of, &ctx, NULL), NF_OK);
        nf_radius_index_params grouping;
        nf_radius_index_params_init(&grouping);
        grouping.metric = NF_METRIC_COSINE;
        grouping.group_size = 24;
        nf_status status = nf_radius_index_create(ctx, &data, &grouping, &index);
        if (status == NF_OK) status = nf_radius_csr(ctx, index, NULL, &params, &csr, &stats);
        for (uint64_t q = 0; status == NF_OK && q < csr->rows; q++) {
            check_row(&truth, 1, q, csr->indices, csr->distances, (uint64_t)csr->indptr[q],
                      (uint64_t)csr->indptr[q + 1]);
        }
        if (status == NF_OK) assert_int_equal(csr->rows, 400);
        if (status == NF_OK) in_batches += stats.device_batches > 1;
        nf_csr_release(csr);
        nf_radius_index_release(index);
        nf_context_destroy(ctx);
    }
    assert_true(in_batches > 0);
    exact_truth_free(&truth.l2);
    exact_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_magnitudes),
        cmocka_unit_test(test_equal_directions),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_radius),
        cmocka_unit_test(test_dbscan),
        cmocka_unit_test(test_device_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
