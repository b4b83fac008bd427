/* SPDX-License-Identifier: Apache-2.0 */
/* Building and searching: answers against brute force in binary64, determinism, odd sizes, refusals, faults. */
#include "engine/engine_ivf_rows.h"
#include "ivf_helper.h"
#include "memory_helper.h"

static nf_ivf_params small_params(uint32_t lists, uint32_t bits, uint32_t metric)
{
    nf_ivf_params params;
    nf_ivf_params_init(&params);
    params.lists = lists;
    params.bits = bits;
    params.metric = metric;
    params.iterations = 2;
    params.recall_rows = 20;
    return params;
}

/* A search that looks at every row. */
static nf_ivf_search_params all_rows(uint32_t k, uint32_t rerank)
{
    nf_ivf_search_params params;
    nf_ivf_search_params_init(&params);
    params.k = k;
    params.probes = UINT32_MAX;
    params.epsilon0 = (double)INFINITY;
    params.rerank = rerank;
    return params;
}

typedef struct answer {
    int64_t  *ids;
    float    *distances;
    uint32_t *counts;
    uint32_t  k;
} answer;

static answer search(nf_context *ctx, const nf_ivf_index *index, const nf_matrix *queries,
                     const nf_ivf_search_params *params)
{
    const size_t    size = queries->rows * params->k + 1;
    answer          a = {.ids = malloc(size * 8),
                         .distances = malloc(size * 4),
                         .counts = malloc(queries->rows * 4 + 4),
                         .k = params->k};
    const nf_status status = nf_ivf_search(ctx, index, queries, params, a.ids, a.distances, a.counts, NULL);
    if (status < 0) print_error("search: %s\n", nf_context_error(ctx)->text);
    assert_int_equal(status, NF_OK);
    return a;
}

static void free_answer(answer *a)
{
    free(a->ids);
    free(a->distances);
    free(a->counts);
}

typedef struct near {
    double  distance;
    int64_t id;
} near;

static int by_near(const void *a, const void *b)
{
    const near *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* All rows by distance to a query; the caller frees. */
static near *brute_force(const nf_matrix *data, const nf_matrix *queries, uint64_t query, uint32_t metric)
{
    double *x = malloc(data->dims * sizeof *x), *y = malloc(data->dims * sizeof *y);
    near   *all = malloc(data->rows * sizeof *all);
    nf_matrix_row_f64(queries, query, x);
    for (uint64_t row = 0; row < data->rows; row++) {
        nf_matrix_row_f64(data, row, y);
        all[row] = (near){ivf_distance(metric, x, y, data->dims), (int64_t)row};
    }
    qsort(all, data->rows, sizeof *all, by_near);
    free(x);
    free(y);
    return all;
}

/* The shape that every answer has: ascending (distance, id), then -1 and infinity. */
static void check_shape(const answer *a, uint64_t queries, uint64_t rows)
{
    for (uint64_t q = 0; q < queries; q++) {
        const int64_t *ids = a->ids + q * a->k;
        const float   *distances = a->distances + q * a->k;
        assert_true(a->counts[q] <= rows);
        for (uint32_t i = 0; i < a->k; i++) {
            if (i >= a->counts[q]) {
                assert_int_equal(ids[i], -1);
                assert_true(isinf(distances[i]) && distances[i] > 0);
                continue;
            }
            assert_true(ids[i] >= 0 && !isnan(distances[i]));
            if (i == 0) continue;
            assert_true(distances[i - 1] < distances[i] || (distances[i - 1] == distances[i] && ids[i - 1] < ids[i]));
        }
    }
}

/* With every row re-ranked, distances are those of brute force. */
static void check_exact(const answer *a, const nf_matrix *data, const nf_matrix *queries, uint32_t metric)
{
    check_shape(a, queries->rows, data->rows);
    for (uint64_t q = 0; q < queries->rows; q++) {
        near          *all = brute_force(data, queries, q, metric);
        const uint32_t count = data->rows < a->k ? (uint32_t)data->rows : a->k;
        assert_int_equal(a->counts[q], count);
        for (uint32_t i = 0; i < count; i++) {
            const double scale = metric == NF_METRIC_COSINE ? 1.0 : fabs(all[i].distance);
            assert_true(fabs((double)a->distances[q * a->k + i] - all[i].distance) <= 1e-6 * scale + 1e-12);
        }
        free(all);
    }
}

/* Every metric, type and kind of dims. */
static void test_rerank_is_exact(void **state)
{
    (void)state;
    static const uint32_t dims[] = {1, 2, 8, 63, 64, 65, 100};
    static const nf_dtype types[] = {NF_DTYPE_F32, NF_DTYPE_U8,  NF_DTYPE_F16, NF_DTYPE_I8,
                                     NF_DTYPE_F64, NF_DTYPE_I32, NF_DTYPE_F32};
    nf_context           *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (uint32_t i = 0; i < 7; i++) {
        for (uint32_t metric = 0; metric <= NF_METRIC_COSINE; metric++) {
            uint64_t  seed = i * 10 + metric;
            nf_matrix data = exact_matrix(types[i], 300, dims[i]), queries = exact_matrix(types[i], 7, dims[i]);
            for (uint64_t at = 0; at < 307ull * dims[i]; at++) {
                const uint64_t row = at / dims[i];
                exact_put(row < 300 ? &data : &queries, row % 300, (uint32_t)(at % dims[i]),
                          floor(30 * ivf_bell(&seed)) + (types[i] == NF_DTYPE_U8 ? 60 : 0));
            }
            nf_ivf_params params = small_params(11, 1 + i % 9, metric);
            params.keep_vectors = 1;
            params.rotation = i % 2;
            nf_ivf_index        *index = ivf_build(ctx, &data, &params);
            nf_ivf_search_params how = all_rows(10, 300);
            answer               a = search(ctx, index, &queries, &how);
            check_exact(&a, &data, &queries, metric);
            free_answer(&a);
            how.k = 400; /* more than rows */
            a = search(ctx, index, &queries, &how);
            check_exact(&a, &data, &queries, metric);
            free_answer(&a);
            nf_ivf_release(index);
            exact_free(&data);
            exact_free(&queries);
        }
    }
    nf_context_destroy(ctx);
}

/* The ten nearest rows of every query; the caller frees. */
static near *ten_nearest(const nf_matrix *data, const nf_matrix *queries, uint32_t metric)
{
    near *ten = malloc(queries->rows * 10 * sizeof *ten);
    for (uint64_t q = 0; q < queries->rows; q++) {
        near *all = brute_force(data, queries, q, metric);
        memcpy(ten + q * 10, all, 10 * sizeof *ten);
        free(all);
    }
    return ten;
}

/* Of an answer with k = 10. */
static double recall_of(const answer *a, const near *truth, uint64_t queries)
{
    uint64_t hits = 0;
    for (uint64_t i = 0; i < queries * 10; i++) {
        for (uint32_t j = 0; j < 10; j++) hits += a->ids[i] == truth[i / 10 * 10 + j].id;
    }
    return (double)hits / (double)(queries * 10);
}

/* Estimated distances find most neighbours, more of them with more bits, and are near the true ones. */
static void test_estimates(void **state)
{
    (void)state;
    static const double least[] = {[1] = 0.4, [5] = 0.9, [9] = 0.97};
    nf_context         *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix           all = ivf_mixture(1225, 96, 20, 3);
    nf_matrix           data = {.data = all.data, .rows = 1200, .dims = 96, .dtype = NF_DTYPE_F32};
    nf_matrix queries = {.data = (const float *)all.data + 1200 * 96, .rows = 25, .dims = 96, .dtype = NF_DTYPE_F32};
    for (uint32_t metric = 0; metric <= NF_METRIC_COSINE; metric++) {
        near *truth = ten_nearest(&data, &queries, metric);
        for (uint32_t bits = 1; bits <= 9; bits += 4) {
            nf_ivf_params        params = small_params(25, bits, metric);
            nf_ivf_index        *index = ivf_build(ctx, &data, &params);
            nf_ivf_search_params how = all_rows(10, 0);
            for (int pruned = 0; pruned <= 1; pruned++) {
                if (pruned != 0) how.epsilon0 = 1.9;
                answer a = search(ctx, index, &queries, &how);
                check_shape(&a, queries.rows, data.rows);
                assert_true(recall_of(&a, truth, queries.rows) >= least[bits] - 0.02 * pruned);
                for (uint64_t i = 0; bits == 9 && i < queries.rows * 10; i++) {
                    const double bound = metric == NF_METRIC_COSINE ? 0.002 : 0.01 * fabs(truth[i / 10 * 10].distance);
                    assert_true(fabs((double)a.distances[i] - truth[i].distance) < bound);
                }
                free_answer(&a);
            }
            nf_ivf_release(index);
        }
        free(truth);
    }
    exact_free(&all);
    nf_context_destroy(ctx);
}

/* The file is the same for any number of threads and any block size; so are answers. */
static void test_threads_and_memory(void **state)
{
    (void)state;
    static const struct {
        uint32_t threads;
        uint64_t memory;
    } cases[] = {{1, 0}, {2, 0}, {5, 0}, {3, 4u << 20}};
    nf_matrix      data = ivf_mixture(5000, 30, 40, 8);
    unsigned char *first = NULL;
    size_t         first_bytes = 0;
    answer         first_answer = {0};
    char           path[300];
    ivf_path(path, sizeof path, "threads.nfx");
    nf_ivf_params params = small_params(60, 4, NF_METRIC_L2);
    params.train_rows = 20;
    nf_ivf_search_params how;
    nf_ivf_search_params_init(&how);
    how.probes = 7;
    const nf_matrix queries = {.data = data.data, .rows = 300, .dims = 30, .dtype = NF_DTYPE_F32};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t        bytes;
        nf_context   *ctx = exact_context(NF_ISA_AUTO, cases[i].threads, cases[i].memory);
        nf_ivf_index *index = ivf_build(ctx, &data, &params);
        assert_int_equal(nf_ivf_save(ctx, index, path, 0), NF_OK);
        unsigned char *content = ivf_read_file(path, &bytes);
        answer         a = search(ctx, index, &queries, &how);
        if (first == NULL) {
            first = content;
            first_bytes = bytes;
            first_answer = a;
        } else {
            assert_int_equal(bytes, first_bytes);
            assert_memory_equal(content, first, bytes);
            assert_memory_equal(a.ids, first_answer.ids, 3000 * 8);
            assert_memory_equal(a.distances, first_answer.distances, 3000 * 4);
            free(content);
            free_answer(&a);
        }
        nf_ivf_release(index);
        nf_context_destroy(ctx);
    }
    unlink(path);
    free(first);
    free_answer(&first_answer);
    exact_free(&data);
}

/* Few rows, equal rows, more lists than rows: everything is found. */
static void test_odd_data(void **state)
{
    (void)state;
    static const struct {
        uint64_t rows;
        uint32_t lists, distinct;
    } cases[] = {{1, 0, 1},  {1, 50, 1},   {2, 1, 2},     {3, 100, 1},   {31, 1, 31}, {32, 1, 32},
                 {33, 1, 2}, {100, 20, 1}, {120, 300, 3}, {130, 1, 130}, {65, 2, 65}};
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (uint32_t bits = 1; bits <= 9; bits += 8) {
            nf_matrix data = exact_matrix(NF_DTYPE_F64, cases[c].rows, 3);
            for (uint64_t row = 0; row < data.rows; row++) {
                for (uint32_t k = 0; k < 3; k++)
                    exact_put(&data, row, k, (double)(row % cases[c].distinct) * (k + 1.0) + 1000.0);
            }
            nf_ivf_params params = small_params(cases[c].lists, bits, (uint32_t)c % 3);
            params.keep_vectors = 1;
            nf_ivf_index        *index = ivf_build(ctx, &data, &params);
            nf_ivf_search_params how = all_rows(150, 150);
            answer               a = search(ctx, index, &data, &how);
            check_exact(&a, &data, &data, (uint32_t)c % 3);
            free_answer(&a);
            how.rerank = 0;
            a = search(ctx, index, &data, &how);
            check_shape(&a, data.rows, data.rows);
            for (uint64_t q = 0; q < data.rows; q++) assert_int_equal(a.counts[q], data.rows);
            if (cases[c].distinct == 1 && c % 3 == NF_METRIC_L2) {
                for (uint64_t i = 0; i < data.rows; i++) assert_true(a.distances[i] < 0.01f);
                for (uint64_t i = 0; i < data.rows && cases[c].distinct == 1; i++) assert_int_equal(a.ids[i], i);
            }
            free_answer(&a);
            nf_ivf_info info = {.struct_size = sizeof info};
            nf_ivf_describe(index, &info);
            assert_int_equal(info.rows, data.rows);
            assert_true(info.lists <= data.rows && info.lists >= 1);
            nf_ivf_release(index);
            exact_free(&data);
        }
    }
    nf_context_destroy(ctx);
}

/* Ids of the caller come back, also beyond 32 bits. */
static void test_ids(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   data = ivf_mixture(400, 10, 5, 1);
    int64_t     ids[400];
    for (int wide = 0; wide <= 1; wide++) {
        for (int64_t i = 0; i < 400; i++) ids[i] = wide != 0 ? INT64_MAX - 3 * i : 5000 - 7 * i + 2400;
        nf_ivf_params params = small_params(9, 5, NF_METRIC_L2);
        params.keep_vectors = 1;
        params.ids = ids;
        nf_ivf_index        *index = ivf_build(ctx, &data, &params);
        nf_ivf_search_params how = all_rows(3, 50);
        answer               a = search(ctx, index, &data, &how);
        check_shape(&a, 400, 400);
        for (uint64_t i = 0; i < 400; i++) assert_int_equal(a.ids[3 * i], ids[i]);
        free_answer(&a);
        nf_ivf_info info = {.struct_size = sizeof info};
        nf_ivf_describe(index, &info);
        assert_int_equal(info.user_ids, 1);
        nf_ivf_release(index);
    }
    ids[123] = -5;
    nf_ivf_params params = small_params(9, 5, NF_METRIC_L2);
    nf_ivf_index *index = NULL;
    params.ids = ids;
    assert_int_equal(nf_ivf_build(ctx, &data, &params, &index, NULL), NF_ERR_ARGUMENT);
    assert_null(index);
    assert_non_null(strstr(nf_context_error(ctx)->text, "row 123"));
    exact_free(&data);
    nf_context_destroy(ctx);
}

/* A filtered search of all rows is the search of all rows with the others struck out. */
static void check_filter(nf_context *ctx, const nf_ivf_index *index, const nf_matrix *queries,
                         const nf_ivf_filter *filter, const bool *allowed, uint64_t rows)
{
    nf_ivf_search_params how = all_rows((uint32_t)rows, 0);
    answer               whole = search(ctx, index, queries, &how);
    how.k = 20;
    how.filter = filter;
    answer part = search(ctx, index, queries, &how);
    check_shape(&part, queries->rows, rows);
    for (uint64_t q = 0; q < queries->rows; q++) {
        uint32_t count = 0;
        for (uint64_t i = 0; i < rows && count < 20; i++) {
            const int64_t id = whole.ids[q * rows + i];
            if (!allowed[id]) continue;
            assert_int_equal(part.ids[q * 20 + count], id);
            assert_true(part.distances[q * 20 + count] == whole.distances[q * rows + i]);
            count++;
        }
        assert_int_equal(part.counts[q], count);
    }
    free_answer(&whole);
    free_answer(&part);
}

static void test_filters(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   data = ivf_mixture(700, 20, 12, 4), queries = ivf_mixture(9, 20, 12, 40);
    uint64_t    seed = 1, bits[10];
    int64_t     ids[900];
    bool        allowed[700];
    for (uint32_t metric = 0; metric <= NF_METRIC_COSINE; metric++) {
        nf_ivf_params params = small_params(17, 4, metric);
        nf_ivf_index *index = ivf_build(ctx, &data, &params);
        for (uint32_t share = 0; share <= 64; share = share * 4 + 1) { /* rows of 64 that are in the set: 0, 1, 5, 21 */
            for (uint32_t forbid = 0; forbid <= 1; forbid++) {
                nf_ivf_filter *filter = NULL;
                uint64_t       count = 0;
                memset(bits, 0, sizeof bits);
                for (uint64_t i = 0; i < 700; i++) {
                    const bool in = random_below(&seed, 64) < share && i < 640;
                    allowed[i] = in != (forbid != 0);
                    if (!in) continue;
                    bits[i / 64] |= 1ull << i % 64;
                    ids[count++] = (int64_t)i;
                }
                assert_int_equal(nf_ivf_filter_bits(ctx, index, bits, 640, forbid, &filter), NF_OK);
                check_filter(ctx, index, &queries, filter, allowed, 700);
                nf_ivf_filter_release(filter);
                ids[count++] = 100000; /* unknown ids do nothing, nor does an id that is there twice, nor the order */
                ids[count++] = -1;
                if (count > 2) ids[count++] = ids[0];
                for (uint64_t i = count; i-- > 1;) {
                    const uint64_t at = random_below(&seed, i + 1);
                    const int64_t  swapped = ids[at];
                    ids[at] = ids[i];
                    ids[i] = swapped;
                }
                assert_int_equal(nf_ivf_filter_ids(ctx, index, ids, count, forbid, &filter), NF_OK);
                check_filter(ctx, index, &queries, filter, allowed, 700);
                nf_ivf_filter_release(filter);
            }
        }
        nf_ivf_release(index);
    }
    exact_free(&data);
    exact_free(&queries);
    nf_context_destroy(ctx);
}

/* A filter belongs to the contents of its index. */
static void test_filter_of_another_index(void **state)
{
    (void)state;
    nf_context          *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix            data = ivf_mixture(100, 4, 3, 4);
    nf_ivf_params        params = small_params(5, 4, NF_METRIC_L2);
    nf_ivf_index        *index = ivf_build(ctx, &data, &params), *same = ivf_build(ctx, &data, &params), *other;
    nf_ivf_filter       *filter = NULL;
    nf_ivf_search_params how = all_rows(2, 0);
    int64_t              ids[2];
    float                distances[2];
    const nf_matrix      query = {.data = data.data, .rows = 1, .dims = 4, .dtype = NF_DTYPE_F32};
    params.seed = 2;
    other = ivf_build(ctx, &data, &params);
    assert_int_equal(nf_ivf_filter_ids(ctx, index, NULL, 0, 1, &filter), NF_OK);
    how.filter = filter;
    assert_int_equal(nf_ivf_search(ctx, same, &query, &how, ids, distances, NULL, NULL), NF_OK);
    assert_int_equal(ids[0], 0);
    assert_int_equal(nf_ivf_search(ctx, other, &query, &how, ids, distances, NULL, NULL), NF_ERR_ARGUMENT);
    nf_ivf_filter_release(filter);
    nf_ivf_filter_release(NULL);
    nf_ivf_release(index);
    nf_ivf_release(same);
    nf_ivf_release(other);
    nf_ivf_release(NULL);
    exact_free(&data);
    nf_context_destroy(ctx);
}

/* The table of recall: ascending probes; a search by recall takes the entry that it says, and keeps its word on other
 * rows. */
static void test_recall_table(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   all = ivf_mixture(3100, 24, 60, 6);
    nf_matrix   data = {.data = all.data, .rows = 3000, .dims = 24, .dtype = NF_DTYPE_F32};
    nf_matrix   queries = {.data = (const float *)all.data + 3000 * 24, .rows = 100, .dims = 24, .dtype = NF_DTYPE_F32};
    nf_ivf_params params = small_params(64, 7, NF_METRIC_L2);
    params.recall_rows = 300;
    nf_ivf_index *index = ivf_build(ctx, &data, &params);
    nf_ivf_info   info = {.struct_size = sizeof info};
    nf_ivf_describe(index, &info);
    assert_true(info.recall_points >= 3);
    near    *truth = ten_nearest(&data, &queries, NF_METRIC_L2);
    uint32_t probes, before = 0;
    double   recall = 0;
    for (uint32_t i = 0; i < info.recall_points; i++) {
        assert_int_equal(nf_ivf_recall_point(index, i, &probes, &recall), NF_OK);
        assert_true(probes > before && probes <= 64 && recall > 0 && recall <= 1);
        nf_ivf_search_params how;
        nf_ivf_search_stats  stats = {.struct_size = sizeof stats};
        nf_ivf_search_params_init(&how);
        how.recall = recall;
        answer a = search(ctx, index, &queries, &how);
        assert_true(fabs(recall_of(&a, truth, 100) - recall) < 0.08);
        assert_int_equal(nf_ivf_search(ctx, index, &queries, &how, a.ids, a.distances, a.counts, &stats), NF_OK);
        assert_true(stats.probes <= probes && stats.scanned > 0 && stats.scanned <= 100ull * 3000);
        free_answer(&a);
        before = probes;
    }
    assert_true(recall > 0.9);
    nf_ivf_search_params most;
    nf_ivf_search_stats  stats = {.struct_size = sizeof stats};
    nf_ivf_search_params_init(&most);
    most.recall = 1.0; /* reached, or the least probes within 0.002 of the best */
    answer last = search(ctx, index, &queries, &most);
    assert_int_equal(nf_ivf_search(ctx, index, &queries, &most, last.ids, last.distances, last.counts, &stats), NF_OK);
    assert_true(stats.probes <= probes);
    assert_true(recall_of(&last, truth, 100) > recall - 0.05);
    free_answer(&last);
    assert_int_equal(nf_ivf_recall_point(index, info.recall_points, &probes, &recall), NF_ERR_ARGUMENT);
    params.recall_rows = 0; /* without a table: 32 + 64 / 32 lists */
    nf_ivf_index *bare = ivf_build(ctx, &data, &params);
    most.recall = 0.5;
    last = search(ctx, bare, &queries, &most);
    assert_int_equal(nf_ivf_search(ctx, bare, &queries, &most, last.ids, last.distances, last.counts, &stats), NF_OK);
    assert_int_equal(stats.probes, 34);
    free_answer(&last);
    nf_ivf_release(bare);
    free(truth);
    nf_ivf_release(index);
    exact_free(&all);
    nf_context_destroy(ctx);
}

static void expect_value_error(nf_context *ctx, const nf_matrix *data, uint32_t metric, const char *text)
{
    nf_ivf_params params = small_params(4, 3, metric);
    nf_ivf_index *index = NULL;
    params.train_rows = 1; /* the sample does not see every row */
    assert_int_equal(nf_ivf_build(ctx, data, &params, &index, NULL), NF_ERR_VALUE);
    assert_null(index);
    if (strstr(nf_context_error(ctx)->text, text) == NULL) print_error("%s\n", nf_context_error(ctx)->text);
    assert_non_null(strstr(nf_context_error(ctx)->text, text));
}

/* Values that are not allowed are named by row and column; the first such row. */
static void test_values(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 3, 0);
    nf_matrix   data = exact_matrix(NF_DTYPE_F64, 3000, 50);
    for (uint64_t i = 0; i < 3000; i++) exact_put(&data, i, (uint32_t)(i % 50), (double)i);
    exact_put(&data, 2999, 3, (double)INFINITY);
    expect_value_error(ctx, &data, NF_METRIC_L2, "row 2999, column 3 ");
    exact_put(&data, 1234, 49, (double)NAN);
    expect_value_error(ctx, &data, NF_METRIC_COSINE, "row 1234, column 49 ");
    exact_put(&data, 77, 7, -1e17);
    expect_value_error(ctx, &data, NF_METRIC_L2, "row 77, column 7 ");
    expect_value_error(ctx, &data, NF_METRIC_COSINE, "row 1234, column 49 ");
    exact_free(&data);
    data = exact_matrix(NF_DTYPE_U64, 40, 2);
    for (uint64_t i = 0; i < 40; i++) exact_put(&data, i, 1, (double)i);
    exact_put(&data, 39, 0, 0x1p53);
    nf_ivf_params params = small_params(4, 3, NF_METRIC_L2);
    nf_ivf_release(ivf_build(ctx, &data, &params));
    ((uint64_t *)(uintptr_t)data.data)[78]++;
    expect_value_error(ctx, &data, NF_METRIC_L2, "row 39, column 0 ");
    exact_free(&data);
    nf_context_destroy(ctx);
}

/* Rows of the index: binary32, less the mean; under COSINE of length 1 whatever the scale, and zero rows stay zero. */
static void test_rows(void **state)
{
    (void)state;
    nf_context  *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix    data = exact_matrix(NF_DTYPE_F64, 5, 3);
    const double scales[5] = {1.0, 1e-300, 1e300, 0.0, 5e-324};
    const float  mean[3] = {0.25f, -0.5f, 1.0f};
    float        out[15];
    for (uint64_t i = 0; i < 5; i++) {
        exact_put(&data, i, 0, 3 * scales[i]);
        exact_put(&data, i, 2, -4 * scales[i]);
    }
    nf_ivf_rows rows = {.matrix = &data, .what = "data", .metric = NF_METRIC_COSINE, .count = 5};
    assert_int_equal(nf_ivf_rows_convert(ctx, &rows, mean, out), NF_OK);
    for (int i = 0; i < 5; i++) {
        const double x = i == 3 ? 0 : 0.6, y = i == 3 ? 0 : -0.8;
        assert_true(fabs((double)out[3 * i] - (x - 0.25)) < 1e-7);
        assert_true(out[3 * i + 1] == 0.5f);
        assert_true(fabs((double)out[3 * i + 2] - (y - 1.0)) < 1e-7);
    }
    rows.metric = NF_METRIC_L2;
    rows.count = 1;
    const uint64_t numbers[2] = {3, 0};
    rows.numbers = numbers;
    rows.count = 2;
    assert_int_equal(nf_ivf_rows_convert(ctx, &rows, NULL, out), NF_OK);
    assert_true(out[0] == 0 && out[2] == 0 && out[3] == 3 && out[5] == -4);
    float middle[3];
    assert_int_equal(nf_ivf_rows_mean(ctx, &rows, middle), NF_OK);
    assert_true(middle[0] == 1.5f && middle[1] == 0 && middle[2] == -2);
    exact_free(&data);
    nf_context_destroy(ctx);
}

/* A zero row is at cosine distance 1 of everything, exactly with rerank and nearly without. */
static void test_zero_row(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix   data = ivf_mixture(50, 16, 4, 2), queries = ivf_mixture(3, 16, 4, 9);
    memset((char *)(uintptr_t)data.data + 16 * 4 * 20, 0, 16 * 4);
    memset((char *)(uintptr_t)queries.data, 0, 16 * 4);
    nf_ivf_params params = small_params(3, 9, NF_METRIC_COSINE);
    params.keep_vectors = 1;
    nf_ivf_index *index = ivf_build(ctx, &data, &params);
    for (uint32_t rerank = 0; rerank <= 50; rerank += 50) {
        nf_ivf_search_params how = all_rows(50, rerank);
        answer               a = search(ctx, index, &queries, &how);
        const double         bound = rerank != 0 ? 0 : 0.05;
        check_shape(&a, 3, 50);
        for (int i = 0; i < 50; i++) assert_true(fabs((double)a.distances[i] - 1) <= bound);
        for (int i = 50; i < 150; i++) assert_true(a.ids[i] != 20 || fabs((double)a.distances[i] - 1) <= bound);
        free_answer(&a);
    }
    nf_ivf_release(index);
    exact_free(&data);
    exact_free(&queries);
    nf_context_destroy(ctx);
}

static void expect_build(nf_context *ctx, const nf_matrix *data, const nf_ivf_params *params, nf_status expected)
{
    nf_ivf_index *index = NULL;
    assert_int_equal(nf_ivf_build(ctx, data, params, &index, NULL), expected);
    assert_null(index);
}

static void test_refused_builds(void **state)
{
    (void)state;
    nf_context   *ctx = exact_context(NF_ISA_AUTO, 1, 0), *tight = exact_context(NF_ISA_AUTO, 1, 20000);
    nf_matrix     data = ivf_mixture(2000, 4, 2, 1), bad = data;
    nf_ivf_params params = small_params(0, 5, 0);
    bad.rows = 0;
    expect_build(ctx, &bad, &params, NF_ERR_ARGUMENT);
    bad = data;
    bad.dims = 8193;
    expect_build(ctx, &bad, &params, NF_ERR_ARGUMENT);
    bad = data;
    bad.dtype = 99;
    expect_build(ctx, &bad, &params, NF_ERR_ARGUMENT);
    bad = data;
    bad.place = NF_PLACE_DEVICE;
    expect_build(ctx, &bad, &params, NF_ERR_UNSUPPORTED);
    expect_build(ctx, NULL, &params, NF_ERR_ARGUMENT);
    expect_build(tight, &data, &params, NF_ERR_LIMIT);
    bad = data;
    bad.dims = 5000;
    bad.rows = 1;
    params.rotation = NF_ROTATION_DENSE;
    expect_build(ctx, &bad, &params, NF_ERR_ARGUMENT);
    const struct {
        size_t   offset;
        uint32_t value;
    } wrong[] = {{offsetof(nf_ivf_params, bits), 0},        {offsetof(nf_ivf_params, bits), 10},
                 {offsetof(nf_ivf_params, metric), 3},      {offsetof(nf_ivf_params, rotation), 2},
                 {offsetof(nf_ivf_params, train_rows), 0},  {offsetof(nf_ivf_params, lists), 1u << 25},
                 {offsetof(nf_ivf_params, keep_vectors), 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        params = small_params(0, 5, 0);
        memcpy((char *)&params + wrong[i].offset, &wrong[i].value, 4);
        expect_build(ctx, &data, &params, NF_ERR_ARGUMENT);
    }
    params = small_params(0, 5, 0);
    params.struct_size = 4;
    expect_build(ctx, &data, &params, NF_ERR_ARGUMENT);
    params = small_params(3, 5, 0); /* a shorter struct of an older version: only lists are taken */
    params.struct_size = offsetof(nf_ivf_params, bits);
    params.bits = 77;
    nf_ivf_release(ivf_build(ctx, &data, &params));
    exact_free(&data);
    nf_context_destroy(ctx);
    nf_context_destroy(tight);
}

static void test_refused_searches(void **state)
{
    (void)state;
    nf_context          *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix            data = ivf_mixture(100, 4, 2, 1), bad = data;
    nf_ivf_params        params = small_params(0, 5, 0);
    nf_ivf_index        *index = ivf_build(ctx, &data, &params);
    nf_ivf_search_params how = all_rows(10, 0);
    int64_t              ids[1000];
    float                distances[1000];
#define REFUSED(matrix, status) \
    assert_int_equal(nf_ivf_search(ctx, index, matrix, &how, ids, distances, NULL, NULL), status)
    REFUSED(&data, NF_OK);
    assert_int_equal(nf_ivf_search(ctx, index, &data, NULL, ids, distances, NULL, NULL), NF_OK);
    bad.rows = 0;
    REFUSED(&bad, NF_OK);
    bad.rows = 100;
    bad.dims = 3;
    REFUSED(&bad, NF_ERR_ARGUMENT);
    REFUSED(NULL, NF_ERR_ARGUMENT);
    how.rerank = 10;
    REFUSED(&data, NF_ERR_UNSUPPORTED);
    how = all_rows(0, 0);
    REFUSED(&data, NF_ERR_ARGUMENT);
    how = all_rows(NF_MAX_K + 1, 0);
    REFUSED(&data, NF_ERR_ARGUMENT);
    how = all_rows(1, 0);
    how.epsilon0 = -1.0;
    REFUSED(&data, NF_ERR_ARGUMENT);
    how.epsilon0 = (double)NAN;
    REFUSED(&data, NF_ERR_ARGUMENT);
    how = all_rows(1, 0);
    how.recall = 1.5;
    REFUSED(&data, NF_ERR_ARGUMENT);
    how = all_rows(1, 0);
    how.struct_size = 0;
    REFUSED(&data, NF_ERR_ARGUMENT);
    how = all_rows(1, 0);
    ((float *)(uintptr_t)data.data)[4 * 50 + 1] = NAN;
    REFUSED(&data, NF_ERR_VALUE);
    assert_non_null(strstr(nf_context_error(ctx)->text, "queries: row 50, column 1 "));
    assert_int_equal(nf_ivf_search(ctx, NULL, &data, &how, ids, distances, NULL, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_ivf_search(ctx, index, &data, &how, NULL, distances, NULL, NULL), NF_ERR_ARGUMENT);
    nf_ivf_release(index);
    exact_free(&data);
    nf_context_destroy(ctx);
}

static void test_names(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NF_IVF_BUILD_STEPS; i++) assert_non_null(nf_ivf_build_step_name(i));
    for (uint32_t i = 0; i < NF_IVF_SEARCH_STEPS; i++) assert_non_null(nf_ivf_search_step_name(i));
    assert_null(nf_ivf_build_step_name(NF_IVF_BUILD_STEPS));
    assert_null(nf_ivf_search_step_name(NF_IVF_SEARCH_STEPS));
}

/* ---- faults ---- */

/* Build, filter, search with rerank; leaves nothing. */
static nf_status whole_run(nf_context *ctx, const nf_matrix *data)
{
    nf_ivf_index        *index = NULL;
    nf_ivf_filter       *filter = NULL;
    nf_ivf_params        params = small_params(16, 3, NF_METRIC_L2);
    nf_ivf_search_params how = all_rows(5, 20);
    int64_t             *ids = malloc(data->rows * 5 * sizeof *ids);
    float               *distances = malloc(data->rows * 5 * sizeof *distances);
    params.keep_vectors = 1;
    params.rotation = NF_ROTATION_DENSE;
    params.recall_rows = 5;
    params.iterations = 1;
    nf_status status = nf_ivf_build(ctx, data, &params, &index, NULL);
    if (status >= 0) status = nf_ivf_filter_ids(ctx, index, NULL, 0, 1, &filter);
    how.filter = filter;
    if (status >= 0) status = nf_ivf_search(ctx, index, data, &how, ids, distances, NULL, NULL);
    if (status < 0) assert_int_equal(nf_context_error(ctx)->status, status);
    nf_ivf_filter_release(filter);
    nf_ivf_release(index);
    free(ids);
    free(distances);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
    nf_matrix data = ivf_mixture(80, 5, 7, 3);
    for (int kind = 0; kind < 3; kind++) {
        for (long at = 1;; at += kind == 0 ? 1 : 3) {
            memory_hook       hook = {0};
            nf_context_params params;
            nf_context       *ctx = NULL;
            nf_context_params_init(&params);
            params.threads = at % 5 == 0 ? 2 : 1; /* starting threads is what takes the time here */
            params.allocator = memory_hook_allocator(&hook);
            assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
            const long end = hook.calls + at;
            if (kind == 0) hook.fail_at = end;
            if (kind == 1) hook.fail_from = end;
            if (kind == 2) hook.cancel_at = end;
            hook.cancelled = ctx;
            const nf_status status = whole_run(ctx, &data);
            const bool      reached = hook.calls >= end;
            nf_context_destroy(ctx);
            assert_int_equal(hook.live_blocks, 0);
            assert_int_equal(hook.mismatches, 0);
            if (!reached) {
                assert_int_equal(status, NF_OK);
                break;
            }
            if (kind < 2) assert_int_equal(status, NF_ERR_MEMORY);
            if (kind == 2) assert_true(status == NF_ERR_CANCELLED || status == NF_OK);
        }
    }
    exact_free(&data);
}

/* Under IP the nearest rows do not depend on how long a query is: short ones find as much, powers of two the same, and
 * distances are in proportion. Without scaling, a hundredth of the length left recall at .07. */
static void test_length_of_queries(void **state)
{
    (void)state;
    enum { ROWS = 3000, DIMS = 32, QUERIES = 40, K = 10 };
    nf_context   *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix     data = ivf_mixture(ROWS, DIMS, 30, 5), queries = ivf_mixture(QUERIES, DIMS, 30, 6);
    float        *rows = (float *)(uintptr_t)data.data, *asked = (float *)(uintptr_t)queries.data;
    nf_ivf_params params;
    nf_ivf_params_init(&params);
    params.lists = 30;
    params.bits = 7;
    params.metric = NF_METRIC_IP;
    for (size_t i = 0; i < (size_t)ROWS * DIMS; i++) rows[i] = 8.0f * (rows[i] + 1.0f);
    nf_ivf_index        *index = ivf_build(ctx, &data, &params);
    nf_ivf_search_params search;
    nf_ivf_search_params_init(&search);
    search.probes = 30;
    static int64_t ids[3][QUERIES * K], true_ids[QUERIES * K];
    static float   distances[3][QUERIES * K];
    static double  true_distances[QUERIES * K];
    nf_knn_params  exact = {.struct_size = sizeof exact, .k = K, .metric = NF_METRIC_IP};
    assert_int_equal(nf_knn(ctx, &data, &queries, &exact, true_ids, true_distances, NULL, NULL), NF_OK);

    const float scales[3] = {1.0f, 0.0078125f, 0.0078125f * 0.71f}; /* of the queries as they are then */
    for (int turn = 0; turn < 3; turn++) {
        float *copy = malloc(sizeof(float) * QUERIES * DIMS);
        for (size_t i = 0; i < (size_t)QUERIES * DIMS; i++) copy[i] = asked[i] * scales[turn];
        const nf_matrix scaled = {.data = copy, .rows = QUERIES, .dims = DIMS, .dtype = NF_DTYPE_F32};
        assert_int_equal(nf_ivf_search(ctx, index, &scaled, &search, ids[turn], distances[turn], NULL, NULL), NF_OK);
        int found = 0;
        for (int i = 0; i < QUERIES; i++) {
            for (int j = 0; j < K; j++) {
                for (int t = 0; t < K; t++) found += ids[turn][i * K + j] == true_ids[i * K + t];
            }
        }
        assert_in_range(found, QUERIES * K * 9 / 10, QUERIES * K);
        free(copy);
    }
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    for (int i = 0; i < QUERIES * K; i++) assert_true(distances[1][i] == distances[0][i] * scales[1]);
    nf_ivf_release(index);
    exact_free(&data);
    exact_free(&queries);
    nf_context_destroy(ctx);
}

/* Exact distances of kept rows are those of nf_knn, also where squares overflow or vanish, and never -0. */
static void test_rerank_of_extremes(void **state)
{
    (void)state;
    enum { ROWS = 200, DIMS = 8, K = 5 };
    const double scales[] = {1e200, 1e-200, 1.0};
    for (int kind = 0; kind < 3; kind++) {
        const uint32_t metric = kind < 2 ? NF_METRIC_COSINE : NF_METRIC_IP;
        nf_context    *ctx = exact_context(NF_ISA_AUTO, 1, 0);
        nf_matrix      data = exact_matrix(NF_DTYPE_F64, ROWS, DIMS);
        double        *values = (double *)(uintptr_t)data.data;
        uint64_t       seed = 3;
        for (size_t i = 0; i < (size_t)ROWS * DIMS; i++) values[i] = ivf_bell(&seed) * scales[kind];
        if (kind == 2) memset(values, 0, sizeof(double) * DIMS); /* a query of zeros */
        nf_ivf_params params;
        nf_ivf_params_init(&params);
        params.lists = 4;
        params.metric = metric;
        params.keep_vectors = 1;
        nf_ivf_index        *index = ivf_build(ctx, &data, &params);
        nf_ivf_search_params search;
        nf_ivf_search_params_init(&search);
        search.k = K;
        search.probes = 4;
        search.rerank = ROWS;
        search.epsilon0 = INFINITY;
        nf_knn_params exact = {.struct_size = sizeof exact, .k = K, .metric = metric};
        int64_t       ids[20 * K], true_ids[20 * K];
        float         distances[20 * K];
        double        true_distances[20 * K];
        nf_matrix     queries = data;
        queries.rows = 20;
        assert_int_equal(nf_knn(ctx, &data, &queries, &exact, true_ids, true_distances, NULL, NULL), NF_OK);
        assert_int_equal(nf_ivf_search(ctx, index, &queries, &search, ids, distances, NULL, NULL), NF_OK);
        for (int i = 0; i < 20 * K; i++) {
            assert_true(distances[i] == (float)true_distances[i]);
            assert_false(distances[i] == 0.0f && signbit(distances[i]));
        }
        nf_ivf_release(index);
        exact_free(&data);
        nf_context_destroy(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rerank_is_exact),
        cmocka_unit_test(test_estimates),
        cmocka_unit_test(test_threads_and_memory),
        cmocka_unit_test(test_odd_data),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_filter_of_another_index),
        cmocka_unit_test(test_recall_table),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_zero_row),
        cmocka_unit_test(test_length_of_queries),
        cmocka_unit_test(test_rerank_of_extremes),
        cmocka_unit_test(test_refused_builds),
        cmocka_unit_test(test_refused_searches),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
