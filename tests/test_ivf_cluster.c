/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step cluster: quality against scikit-learn, balance, and every odd number of rows and lists.
 *
 * Reference values: sklearn.cluster.KMeans(lists, n_init=1, random_state=0).fit(x).inertia_ / rows, on the rows that
 * ivf_fill_mixture makes.
 */
#include "engine/engine.h"
#include "ivf/ivf_cluster.h"
#include "ivf/ivf_lloyd.h"
#include "ivf/ivf_random.h"
#include "ivf/ivf_rotation.h"
#include "ivf_helper.h"
#include "memory_helper.h"

typedef struct result {
    float    *centroids;
    uint32_t *labels;
    uint64_t *sizes;
    double    error; /* mean squared distance to the nearest centroid */
    uint64_t  largest, empty;
} result;

static const nf_ivf_ops *ops_of(nf_context *ctx)
{
    const nf_engine_ops *engine = NULL;
    assert_int_equal(nf_engine_for(ctx, NF_WORK_IVF, 0, 0, &engine), NF_OK);
    return engine->ivf;
}

/* Clusters rows as a build does, which takes their mean away first; centroids get it back. */
static nf_status cluster_rows(nf_context *ctx, const float *rows, uint64_t count, uint32_t dims, uint32_t lists,
                              uint32_t iterations, float *centroids)
{
    const nf_matrix   data = {.data = rows, .rows = count, .dims = dims, .dtype = NF_DTYPE_F32};
    const nf_ivf_ops *ops = ops_of(ctx);
    nf_ivf_training   training = {.count = count, .dims = dims, .lists = lists, .iterations = iterations, .seed = 1};
    uint64_t         *numbers = malloc(count * sizeof *numbers);
    float            *mean = malloc(dims * sizeof *mean);
    nf_ivf_source    *source = NULL;
    for (uint64_t i = 0; i < count; i++) numbers[i] = i;
    nf_status status = ops->source_open(ctx, &data, NF_METRIC_L2, &source);
    if (status == NF_OK) status = ops->sample(ctx, source, numbers, count, mean, &training.set);
    if (status == NF_OK) status = nf_ivf_cluster(ctx, ops, &training, centroids);
    ops->set_close(training.set);
    ops->source_close(source);
    for (uint32_t i = 0; status == NF_OK && i < lists * dims; i++) centroids[i] += mean[i % dims];
    free(numbers);
    free(mean);
    return status;
}

static result cluster(nf_context *ctx, const float *rows, uint64_t count, uint32_t dims, uint32_t lists,
                      uint32_t iterations)
{
    result r = {.centroids = malloc((size_t)lists * dims * sizeof(float)),
                .labels = malloc(count * sizeof(uint32_t)),
                .sizes = calloc(lists, sizeof(uint64_t))};
    assert_int_equal(cluster_rows(ctx, rows, count, dims, lists, iterations, r.centroids), NF_OK);
    for (uint64_t i = 0; i < count; i++) {
        double least = INFINITY;
        for (uint32_t c = 0; c < lists; c++) {
            double sum = 0;
            for (uint32_t k = 0; k < dims; k++) {
                const double difference = (double)rows[i * dims + k] - (double)r.centroids[(size_t)c * dims + k];
                sum += difference * difference;
            }
            if (sum < least) {
                least = sum;
                r.labels[i] = c;
            }
        }
        r.error += least / (double)count;
        r.sizes[r.labels[i]]++;
    }
    for (uint32_t c = 0; c < lists; c++) {
        if (r.sizes[c] > r.largest) r.largest = r.sizes[c];
        r.empty += r.sizes[c] == 0;
    }
    return r;
}

static void free_result(result *r)
{
    free(r->centroids);
    free(r->labels);
    free(r->sizes);
}

/* Mean squared distance within 10 % of the reference, although balancing works against it; and lists are balanced. */
static void test_quality(void **state)
{
    (void)state;
    static const struct {
        uint64_t rows;
        uint32_t dims, clusters, lists;
        double   reference; /* scikit-learn 1.9.1 */
    } cases[] = {{4000, 16, 40, 64, 0.312218},
                 {6000, 8, 300, 100, 0.479051},
                 {3000, 24, 3, 12, 0.458755},
                 {8000, 32, 1, 125, 0.500976}};
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float *rows = malloc(cases[i].rows * cases[i].dims * sizeof *rows);
        ivf_fill_mixture(rows, cases[i].rows, cases[i].dims, cases[i].clusters, 7 + i);
        result r = cluster(ctx, rows, cases[i].rows, cases[i].dims, cases[i].lists, 4);
        assert_true(r.error < 1.1 * cases[i].reference);
        assert_true(r.largest * cases[i].lists < 3 * cases[i].rows);
        assert_int_equal(r.empty, 0);
        free_result(&r);
        free(rows);
    }
    nf_context_destroy(ctx);
}

/* One cluster's centroid is the mean of all rows. */
static void test_one_list(void **state)
{
    (void)state;
    const uint64_t count = 1001;
    const uint32_t dims = 7;
    nf_context    *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    float         *rows = malloc(count * dims * sizeof *rows);
    ivf_fill_mixture(rows, count, dims, 5, 3);
    result r = cluster(ctx, rows, count, dims, 1, 1);
    for (uint32_t k = 0; k < dims; k++) {
        long double sum = 0;
        for (uint64_t i = 0; i < count; i++) sum += (long double)rows[i * dims + k];
        assert_true(fabs((double)(sum / (long double)count) - (double)r.centroids[k]) < 1e-6);
    }
    free_result(&r);
    free(rows);
    nf_context_destroy(ctx);
}

/* As many lists as rows: every row is a centroid, but for the few whose place rounding gives to a close neighbour.
 * Equal rows: every centroid is that row. */
static void test_as_many_lists_as_rows(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (uint64_t count = 1; count < 300; count = count * 3 + 1) {
        float *rows = malloc(count * 5 * sizeof *rows);
        ivf_fill_mixture(rows, count, 5, 9, count);
        result r = cluster(ctx, rows, count, 5, (uint32_t)count, 6);
        assert_true(r.error < 1e-6);
        assert_true(r.empty <= count / 50);
        free_result(&r);
        for (uint64_t i = 0; i < count * 5; i++) rows[i] = 2.5f;
        r = cluster(ctx, rows, count, 5, (uint32_t)count, 3);
        assert_true(r.error == 0.0);
        for (uint64_t i = 0; i < count * 5; i++) assert_true(r.centroids[i] == 2.5f);
        free_result(&r);
        free(rows);
    }
    nf_context_destroy(ctx);
}

/* The same bytes for any number of threads. */
static void test_threads(void **state)
{
    (void)state;
    const uint64_t count = 3000;
    const uint32_t dims = 13, lists = 70;
    float         *rows = malloc(count * dims * sizeof *rows), *first = NULL;
    ivf_fill_mixture(rows, count, dims, 50, 11);
    for (uint32_t threads = 1; threads <= 7; threads += 3) {
        nf_context *ctx = exact_context(NF_ISA_AUTO, threads, 0);
        result      r = cluster(ctx, rows, count, dims, lists, 3);
        if (first == NULL) {
            first = malloc((size_t)lists * dims * sizeof *first);
            memcpy(first, r.centroids, (size_t)lists * dims * sizeof *first);
        }
        assert_memory_equal(first, r.centroids, (size_t)lists * dims * sizeof *first);
        free_result(&r);
        nf_context_destroy(ctx);
    }
    free(first);
    free(rows);
}

/* Which of count rows of 3 values is the same as one. */
static uint64_t find_row(const float *rows, uint64_t count, const float *row)
{
    uint64_t i = 0;
    while (i < count && memcmp(rows + i * 3, row, 3 * sizeof *row) != 0) i++;
    return i;
}

/* Groups list every row of a range once, ascending within its cluster, with the nearest centroid; means are theirs; a set in
 * the order of its members is the same rows. */
static void test_groups(void **state)
{
    (void)state;
    enum { COUNT_ROWS = 500, FIRST = 20 };
    nf_context       *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    const nf_ivf_ops *ops = ops_of(ctx);
    float             rows[COUNT_ROWS * 3], held[COUNT_ROWS * 3], members[COUNT_ROWS * 3], mean[3];
    float             centroids[9] = {0, 0, 0, 100, 100, 100, 0.5f, 0, 0}, means[9];
    uint64_t          numbers[COUNT_ROWS], starts[4], seen = 0;
    nf_ivf_source    *source = NULL;
    nf_ivf_set       *set = NULL;
    const nf_matrix   data = {.data = rows, .rows = COUNT_ROWS, .dims = 3, .dtype = NF_DTYPE_F32};
    ivf_fill_mixture(rows, COUNT_ROWS, 3, 4, 5);
    for (uint64_t i = 0; i < COUNT_ROWS; i++) numbers[i] = i;
    assert_int_equal(ops->source_open(ctx, &data, NF_METRIC_L2, &source), NF_OK);
    assert_int_equal(ops->sample(ctx, source, numbers, COUNT_ROWS, mean, &set), NF_OK);
    assert_int_equal(ops->set_rows(ctx, set, numbers, COUNT_ROWS, held), NF_OK);
    for (int i = 0; i < COUNT_ROWS * 3; i++) assert_true(held[i] == (float)((double)rows[i] - (double)mean[i % 3]));

    assert_int_equal(ops->set_group(ctx, set, FIRST, COUNT_ROWS - FIRST, centroids, 3, starts), NF_OK);
    assert_int_equal(starts[0], 0);
    assert_int_equal(starts[1], starts[2]); /* nothing is near the second */
    assert_int_equal(starts[3], COUNT_ROWS - FIRST);
    assert_int_equal(ops->set_members(ctx, set, numbers, COUNT_ROWS - FIRST, members), NF_OK);
    memcpy(means, centroids, sizeof means);
    assert_int_equal(ops->set_means(ctx, set, means), NF_OK);
    assert_true(means[3] == 100 && means[4] == 100 && means[5] == 100);
    for (uint32_t c = 0; c < 3; c++) {
        double   sum[3] = {0};
        uint64_t before = 0;
        for (uint64_t i = starts[c]; i < starts[c + 1]; i++) {
            const float   *row = members + i * 3;
            const uint64_t at = find_row(held, COUNT_ROWS, row);
            const float    other = c == 0 ? 0.5f : 0.0f;
            assert_true(at >= FIRST && at < COUNT_ROWS && (i == starts[c] || at > before));
            assert_true(fabsf(row[0] - centroids[3 * c]) <= fabsf(row[0] - other) + 1e-6f);
            before = at;
            seen++;
            for (int k = 0; k < 3; k++) sum[k] += (double)row[k];
        }
        for (int k = 0; k < 3 && starts[c + 1] > starts[c]; k++) {
            assert_true(fabs((double)means[3 * c + (uint32_t)k] - sum[k] / (double)(starts[c + 1] - starts[c])) < 1e-6);
        }
    }
    assert_int_equal(seen, COUNT_ROWS - FIRST);

    assert_int_equal(ops->set_group(ctx, set, 0, COUNT_ROWS, centroids, 3, starts), NF_OK);
    assert_int_equal(ops->set_members(ctx, set, numbers, COUNT_ROWS, members), NF_OK);
    assert_int_equal(ops->set_sort(ctx, set), NF_OK);
    assert_int_equal(ops->set_rows(ctx, set, numbers, COUNT_ROWS, held), NF_OK);
    assert_memory_equal(held, members, sizeof held);
    ops->set_close(set);
    ops->source_close(source);
    nf_context_destroy(ctx);
}

/* The matrix is orthogonal, and its entries have the spread of a random one. */
static void test_matrix(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (uint32_t size = 8; size <= 136; size += 64) {
        float *matrix = malloc((size_t)size * size * sizeof *matrix);
        double fourth = 0;
        assert_int_equal(nf_ivf_make_matrix(ctx, 5, size, matrix), NF_OK);
        for (uint32_t i = 0; i < size; i++) {
            for (uint32_t j = 0; j <= i; j++) {
                double sum = 0;
                for (uint32_t k = 0; k < size; k++) sum += (double)matrix[i * size + k] * (double)matrix[j * size + k];
                assert_true(fabs(sum - (i == j ? 1.0 : 0.0)) < 1e-6);
            }
            for (uint32_t j = 0; j < size; j++) fourth += pow((double)matrix[i * size + j], 4);
        }
        /* The mean fourth power of an entry of a random orthogonal matrix is 3 / (size (size + 2)). */
        if (size > 8) assert_true(fabs(fourth / size * (size + 2.0) / 3.0 - 1.0) < 0.1);
        free(matrix);
    }
    nf_context_destroy(ctx);
}

/* Signs are half and half; seeds and numbers make a difference; normal numbers have their moments. */
static void test_random(void **state)
{
    (void)state;
    uint8_t signs[512], others[512];
    int     ones = 0, same = 0;
    double  sum = 0, square = 0, fourth = 0;
    nf_ivf_make_signs(1, 1024, signs);
    nf_ivf_make_signs(2, 1024, others);
    for (int i = 0; i < 512; i++) {
        ones += __builtin_popcount(signs[i]);
        same += __builtin_popcount((uint8_t) ~(signs[i] ^ others[i]));
    }
    assert_true(abs(ones - 2048) < 160 && abs(same - 2048) < 160); /* 5 standard deviations */
    for (uint64_t i = 0; i < 20000; i++) {
        const double x = nf_ivf_random_normal(3, NF_IVF_STREAM_MATRIX, i);
        sum += x;
        square += x * x;
        fourth += x * x * x * x;
    }
    assert_true(fabs(sum / 20000) < 0.04 && fabs(square / 20000 - 1) < 0.06);
    assert_true(fabs(fourth / 20000 - 2.9) < 0.35); /* 3 - 6/5/12 for a sum of 12 */
    for (uint64_t parts = 1; parts <= 1000; parts += 111) {
        uint64_t before = 0;
        for (uint64_t i = 0; i < parts; i++) {
            const uint64_t at = nf_ivf_random_spread(9, NF_IVF_STREAM_SAMPLE, i, parts, 1000);
            assert_true(at < 1000 && (i == 0 || at > before));
            before = at;
        }
    }
}

/* Every allocation fails once: a clean failure, nothing left. */
static void test_faults(void **state)
{
    (void)state;
    float *rows = malloc(400 * 4 * sizeof *rows), centroids[20 * 4];
    ivf_fill_mixture(rows, 400, 4, 9, 2);
    for (long at = 1;; at++) {
        memory_hook       hook = {0};
        nf_context_params params;
        nf_context       *ctx = NULL;
        nf_context_params_init(&params);
        params.threads = at % 5 == 0 ? 2 : 1;
        params.allocator = memory_hook_allocator(&hook);
        assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
        hook.fail_at = hook.calls + at;
        const nf_status status = cluster_rows(ctx, rows, 400, 4, 20, 2, centroids);
        const bool      reached = hook.calls >= hook.fail_at;
        nf_context_destroy(ctx);
        assert_int_equal(hook.live_blocks, 0);
        if (!reached) {
            assert_int_equal(status, NF_OK);
            break;
        }
        assert_int_equal(status, NF_ERR_MEMORY);
    }
    free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quality), cmocka_unit_test(test_one_list), cmocka_unit_test(test_as_many_lists_as_rows),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_groups),   cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_random),  cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
