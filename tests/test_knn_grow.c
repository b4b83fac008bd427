/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k nearest neighbours through an index, in the way that the engine has and by radius searches that grow, against brute
 * force written here: distances by the contract's formula in plain binary64 loops, sorted by (distance, row), a row of
 * the data never its own neighbour. Ids, distances and counts must be the same bits.
 */
#include "exact/exact_knn_grow.h"
#include "exact_helper.h"
#include "memory_helper.h"

/* ---- the oracle ---- */

typedef struct neighbour {
    double  distance;
    int64_t id;
} neighbour;

static bool comes_before(neighbour a, neighbour b)
{
    return a.distance != b.distance ? a.distance < b.distance : a.id < b.id;
}

/* The contract: one fused multiply-add per column in order; where the sum over- or underflows, the differences are
 * first brought near 1 by a power of two. */
static double contract(const double *x, const double *y, uint32_t dims)
{
    double sum = 0.0, largest = 0.0;
    for (uint32_t c = 0; c < dims; c++) {
        sum = fma(x[c] - y[c], x[c] - y[c], sum);
        largest = fmax(largest, fabs(x[c] - y[c]));
    }
    if (largest == 0.0 || (sum >= 0x1p-900 && sum <= 0x1p1000)) return sqrt(sum);
    const int shift = -ilogb(largest);
    sum = 0.0;
    for (uint32_t c = 0; c < dims; c++) sum = fma(ldexp(x[c] - y[c], shift), ldexp(x[c] - y[c], shift), sum);
    return ldexp(sqrt(sum), -shift);
}

typedef struct answer {
    uint64_t     queries;
    uint32_t     k;
    int64_t     *ids;
    double      *distances;
    uint32_t    *counts;
    nf_knn_stats stats;
} answer;

static answer answer_open(uint64_t queries, uint32_t k)
{
    answer made = {
        .queries = queries,
        .k = k,
        .ids = malloc((queries * k + 1) * sizeof(int64_t)),
        .distances = malloc((queries * k + 1) * sizeof(double)),
        .counts = malloc((queries + 1) * sizeof(uint32_t)),
        .stats = {.struct_size = sizeof(nf_knn_stats)},
    };
    memset(made.ids, 0x5a, queries * k * sizeof(int64_t));
    memset(made.distances, 0x5a, queries * k * sizeof(double));
    memset(made.counts, 0x5a, queries * sizeof(uint32_t));
    return made;
}

static void answer_close(const answer *of)
{
    free(of->ids);
    free(of->distances);
    free(of->counts);
}

/* queries NULL: the data themselves. */
static answer oracle(const nf_matrix *data, const nf_matrix *queries, uint32_t k)
{
    const nf_matrix *from = queries != NULL ? queries : data;
    answer           truth = answer_open(from->rows, k);
    double          *x = exact_values(data), *y = exact_values(from);
    neighbour       *kept = malloc(((size_t)k + 1) * sizeof *kept);
    for (uint64_t q = 0; q < from->rows; q++) {
        uint32_t found = 0;
        for (uint64_t i = 0; i < data->rows; i++) {
            if (queries == NULL && i == q) continue;
            const neighbour now = {contract(x + i * data->dims, y + q * data->dims, data->dims), (int64_t)i};
            uint32_t        place = found;
            for (; place > 0 && comes_before(now, kept[place - 1]); place--) kept[place] = kept[place - 1];
            kept[place] = now;
            if (found < k) found++;
        }
        truth.counts[q] = found;
        for (uint32_t i = 0; i < k; i++) {
            truth.ids[q * k + i] = i < found ? kept[i].id : -1;
            truth.distances[q * k + i] = i < found ? kept[i].distance : HUGE_VAL;
        }
    }
    free(kept);
    free(x);
    free(y);
    return truth;
}

static void same_answer(const answer *got, const answer *truth, const char *what)
{
    for (uint64_t q = 0; q < truth->queries; q++) {
        if (got->counts[q] != truth->counts[q]) {
            fail_msg("%s: query %d has %u neighbours, not %u", what, (int)q, got->counts[q], truth->counts[q]);
        }
        for (uint32_t i = 0; i < truth->k; i++) {
            const uint64_t at = q * truth->k + i;
            if (got->ids[at] == truth->ids[at] && memcmp(&got->distances[at], &truth->distances[at], 8) == 0) continue;
            fail_msg("%s: query %d, neighbour %u: %d at %a, not %d at %a", what, (int)q, i, (int)got->ids[at],
                     got->distances[at], (int)truth->ids[at], truth->distances[at]);
        }
    }
}

/* ---- asking ---- */

static nf_status ask(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries, answer *to)
{
    nf_knn_params params;
    nf_knn_params_init(&params);
    params.k = to->k;
    return nf_radius_knn(ctx, index, queries, &params, to->ids, to->distances, to->counts, &to->stats);
}

static nf_status ask_growing(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                             const nf_grow_rules *rules, answer *to)
{
    return nf_exact_knn_grow(ctx, index, queries, to->k, rules, to->ids, to->distances, to->counts, &to->stats);
}

/* All ways: the public one; growing as it is, from counts, with batches and rows that are soon too large, from one
 * query, and without rounds. */
static const nf_grow_rules all_rules[] = {
    {.sample = 256, .wide = 16, .rounds = 48, .batch_pairs = 8 << 20},
    {.sample = 20, .wide = 2, .rounds = 48, .batch_pairs = 50},
    {.sample = 1, .wide = 1, .rounds = 48, .batch_pairs = 300, .count_first = 1},
    {.sample = 5, .wide = 1, .rounds = 2, .batch_pairs = 1000},
};
#define ALL_RULES (sizeof all_rules / sizeof all_rules[0])

static void check_some(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t k, size_t rules)
{
    nf_radius_index *index = exact_index(ctx, data, 0);
    answer           truth = oracle(data, queries, k), got = answer_open(truth.queries, k);
    if (ask(ctx, index, queries, &got) != NF_OK) fail_msg("nf_radius_knn: %s", nf_context_error(ctx)->text);
    same_answer(&got, &truth, "nf_radius_knn");
    answer_close(&got);
    if (queries != NULL) {
        got = answer_open(truth.queries, k);
        nf_knn_params params;
        nf_knn_params_init(&params);
        params.k = k;
        assert_int_equal(nf_knn(ctx, data, queries, &params, got.ids, got.distances, got.counts, NULL), NF_OK);
        same_answer(&got, &truth, "nf_knn");
        answer_close(&got);
    }
    for (size_t r = 0; r < rules; r++) {
        char what[32];
        got = answer_open(truth.queries, k);
        snprintf(what, sizeof what, "growing, rules %d", (int)r);
        if (ask_growing(ctx, index, queries, &all_rules[r], &got) != NF_OK) {
            fail_msg("%s: %s", what, nf_context_error(ctx)->text);
        }
        same_answer(&got, &truth, what);
        answer_close(&got);
    }
    answer_close(&truth);
    nf_radius_index_release(index);
}

static void check(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t k)
{
    check_some(ctx, data, queries, k, ALL_RULES);
}

/* ---- data ---- */

typedef enum kind {
    UNIFORM,    /* -1 .. 1 */
    GRID,       /* 0, 1, 2: many ties */
    CLUSTERS,   /* three clusters, each a hundred times as dense as the last, far from each other */
    TINY,       /* 1e-30 */
    SUBNORMAL,  /* 1e-310 */
    LAST_BITS,  /* a few of the smallest numbers */
    HUGE_KIND,  /* 1e300: sums overflow */
    EXTREME,    /* rows of sizes 2^-1060 .. 2^1000 */
    DUPLICATES, /* three rows, over and over */
    EQUAL,      /* one row */
    SPHERE,     /* one-hot rows: nearly all distances are equal */
    OUTLIERS,   /* a few rows at 1e25 and 1e100 among ones */
    LADDER,     /* each row twice as far out as the last */
    NEAR_TIES,  /* on four lines, at places that rounding takes away from distances between the lines */
    KINDS
} kind;

static double value_of(kind of, uint64_t row, uint32_t column, uint64_t *seed)
{
    const double unit = 2.0 * random_unit(seed) - 1.0;
    uint64_t     own = row * 31 + 5; /* the same for a whole row */
    switch (of) {
    case UNIFORM: return unit;
    case GRID: return (double)random_below(seed, 3);
    case CLUSTERS: return (double)(row % 3) * 1e5 + unit * pow(100.0, (double)(row % 3));
    case TINY: return unit * 1e-30;
    case SUBNORMAL: return unit * 1e-310;
    case LAST_BITS: return ldexp((double)random_below(seed, 40), -1074);
    case HUGE_KIND: return unit * 1e300;
    case EXTREME: return ldexp(unit, (int)random_below(&own, 2060) - 1060);
    case DUPLICATES: return (double)((row % 3 * 7 + column * 5) % 11) - 0.3;
    case EQUAL: return 0.7;
    case SPHERE: return row % 17 == column ? 1.0 : 0.0;
    case OUTLIERS: return unit * (row % 50 == 7 ? 1e25 : row % 71 == 3 ? 1e100 : 1.0);
    case LADDER: return ldexp(1.0, (int)row % 500 - 250);
    case NEAR_TIES: return column == 0 ? (double)(row % 4) : ldexp((double)(own * 7919 % 64), -34);
    case KINDS: break;
    }
    return 0.0;
}

static nf_matrix made(kind of, nf_dtype dtype, uint64_t rows, uint32_t dims, uint64_t seed)
{
    nf_matrix data = exact_matrix(dtype, rows, dims);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < dims; c++) exact_put(&data, i, c, value_of(of, i, c, &seed));
    }
    return data;
}

/* ---- tests ---- */

static void test_kinds(void **state)
{
    (void)state;
    const uint64_t rows = exact_short() ? 100 : 200;
    for (uint32_t i = 0; exact_isa(i) != NF_ISA_AUTO; i++) {
        nf_context *ctx = exact_context(exact_isa(i), 2, 0);
        for (kind of = UNIFORM; of < KINDS; of = (kind)(of + 1)) {
            nf_matrix data = made(of, NF_DTYPE_F64, rows, 5, 1), queries = made(of, NF_DTYPE_F64, 30, 5, 2);
            check_some(ctx, &data, NULL, 7, i == 0 ? ALL_RULES : 2);
            check_some(ctx, &data, &queries, 10, i == 0 ? ALL_RULES : 2);
            exact_free(&data);
            exact_free(&queries);
        }
        nf_context_destroy(ctx);
    }
}

/* Sums of these rows round to 1 in order 1, 2, 3, ..., though over the reals row 40 is the nearest of them. A search by
 * radius 1 finds none but row 0. */
static void test_rounded_ties(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   data = exact_matrix(NF_DTYPE_F64, 41, 2), query = exact_matrix(NF_DTYPE_F64, 1, 2);
    for (uint64_t i = 1; i < 41; i++) {
        exact_put(&data, i, 0, 1.0);
        exact_put(&data, i, 1, ldexp((double)(41 - i), -34));
    }
    nf_radius_index *index = exact_index(ctx, &data, 0);
    for (uint32_t k = 2; k < 41; k++) {
        for (size_t r = 0; r < ALL_RULES; r++) {
            answer got = answer_open(1, k);
            assert_int_equal(ask_growing(ctx, index, &query, &all_rules[r], &got), NF_OK);
            for (uint32_t i = 0; i < k; i++) {
                assert_int_equal(got.ids[i], i);
                assert_true(got.distances[i] == (i == 0 ? 0.0 : 1.0));
            }
            answer_close(&got);
        }
    }
    nf_radius_index_release(index);
    check(ctx, &data, NULL, 3);
    exact_free(&data);
    exact_free(&query);
    nf_context_destroy(ctx);
}

static void test_shapes(void **state)
{
    (void)state;
    static const uint64_t rows[] = {0, 1, 2, 3, 17, 64, 65, 200}, asking[] = {0, 1, 2, 33, 70};
    static const uint32_t dims[] = {1, 2, 3, 9}, ks[] = {1, 2, 5, 64, 300};
    nf_context           *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    uint64_t              seed = 11;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t c = 0; c < 4; c++) {
            const kind     of = random_below(&seed, 2) ? UNIFORM : GRID;
            const uint32_t k = ks[random_below(&seed, 5)];
            nf_matrix      data = made(of, NF_DTYPE_F32, rows[i], dims[c], seed);
            nf_matrix      queries = made(of, NF_DTYPE_F32, asking[random_below(&seed, 5)], dims[c], seed + 1);
            check(ctx, &data, NULL, k);
            check(ctx, &data, &queries, k);
            check(ctx, &data, NULL, 1);
            exact_free(&data);
            exact_free(&queries);
        }
    }
    nf_context_destroy(ctx);
}

static void test_types(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (nf_dtype type = NF_DTYPE_U8; type <= NF_DTYPE_F64; type = (nf_dtype)(type + 1)) {
        const double least =
            type == NF_DTYPE_I8 || type == NF_DTYPE_I16 || type == NF_DTYPE_I32 || type == NF_DTYPE_I64 ? -100.0 : 0.0;
        nf_matrix data = exact_matrix(type, 150, 4), queries = exact_matrix(type, 20, 4);
        nf_matrix reals = made(UNIFORM, NF_DTYPE_F64, 20, 4, 8), bytes = exact_matrix(NF_DTYPE_I8, 20, 4);
        uint64_t  seed = (uint64_t)type;
        for (uint32_t c = 0; c < 4; c++) {
            for (uint64_t i = 0; i < 150; i++) exact_put(&data, i, c, least + (double)random_below(&seed, 200));
            for (uint64_t i = 0; i < 20; i++) exact_put(&queries, i, c, least + (double)random_below(&seed, 200));
            for (uint64_t i = 0; i < 20; i++) exact_put(&bytes, i, c, (double)random_below(&seed, 200) - 100.0);
        }
        check(ctx, &data, NULL, 10);
        check(ctx, &data, &queries, 10);
        check_some(ctx, &data, &reals, 10, 2);
        check_some(ctx, &data, &bytes, 10, 2);
        check_some(ctx, &reals, &data, 5, 2);
        exact_free(&data);
        exact_free(&queries);
        exact_free(&reals);
        exact_free(&bytes);
    }
    nf_context_destroy(ctx);
}

/* Integers of 64 bits keep all of their bits on the way from the index to a search of some rows. */
static void test_large_integers(void **state)
{
    (void)state;
    static const nf_dtype types[] = {NF_DTYPE_U64, NF_DTYPE_I64, NF_DTYPE_U32, NF_DTYPE_I32};
    nf_context           *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    uint64_t              seed = 5;
    for (size_t t = 0; t < 4; t++) {
        const double span = t < 2 ? 0x1p53 : 0x1p31 - 1.0, sign = t % 2 == 0 ? 0.0 : -1.0;
        nf_matrix    data = exact_matrix(types[t], 120, 2);
        for (uint64_t i = 0; i < 120; i++) {
            for (uint32_t c = 0; c < 2; c++) {
                const double value = floor(random_unit(&seed) * span);
                exact_put(&data, i, c, i % 2 == 0 ? value : value + 2.0 * sign * value);
            }
        }
        check(ctx, &data, NULL, 6);
        exact_free(&data);
    }
    nf_context_destroy(ctx);
}

/* Rows of queries that are apart in memory, and data that are gone when the index is asked. */
static void test_strides(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   data = made(UNIFORM, NF_DTYPE_F32, 200, 3, 1), wide = made(UNIFORM, NF_DTYPE_F32, 40, 7, 2);
    nf_matrix   apart = {.data = wide.data, .rows = 40, .dims = 3, .dtype = NF_DTYPE_F32, .stride_bytes = 28};
    check(ctx, &data, &apart, 8);

    const answer     truth = oracle(&data, NULL, 4);
    nf_radius_index *index = exact_index(ctx, &data, 0);
    memset((void *)(uintptr_t)data.data, 0xff, 200 * 3 * sizeof(float));
    for (size_t r = 0; r < ALL_RULES; r++) {
        answer got = answer_open(200, 4);
        assert_int_equal(ask_growing(ctx, index, NULL, &all_rules[r], &got), NF_OK);
        same_answer(&got, &truth, "data gone");
        answer_close(&got);
    }
    answer_close(&truth);
    nf_radius_index_release(index);
    exact_free(&data);
    exact_free(&wide);
    nf_context_destroy(ctx);
}

/* Counts may be left out, and the answer does not depend on threads. */
static void test_threads(void **state)
{
    (void)state;
    const uint64_t rows = exact_short() ? 300 : 2000;
    nf_matrix      data = made(CLUSTERS, NF_DTYPE_F32, rows, 3, 4);
    const answer   truth = oracle(&data, NULL, 12);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        nf_context      *ctx = exact_context(NF_ISA_AUTO, threads, 0);
        nf_radius_index *index = exact_index(ctx, &data, 0);
        for (size_t r = 0; r < 2; r++) {
            answer    got = answer_open(rows, 12);
            uint32_t *counts = got.counts;
            got.counts = NULL;
            assert_int_equal(ask_growing(ctx, index, NULL, &all_rules[r], &got), NF_OK);
            got.counts = counts;
            memcpy(counts, truth.counts, rows * sizeof *counts);
            same_answer(&got, &truth, "threads");
            answer_close(&got);
        }
        nf_radius_index_release(index);
        nf_context_destroy(ctx);
    }
    answer_close(&truth);
    exact_free(&data);
}

/* Most rows are far apart, and a tenth lie within what the others need as a radius: all of their pairs would be far
 * more than the memory limit holds. Few pairs are compared, too. */
static void test_bounded(void **state)
{
    (void)state;
    if (exact_on_cuda()) skip();
    const uint64_t rows = 8000, dense = 1600, limit = 8 << 20;
    nf_matrix      data = made(UNIFORM, NF_DTYPE_F32, rows, 2, 9);
    for (uint64_t i = 0; i < dense; i++) {
        for (uint32_t c = 0; c < 2; c++) exact_put(&data, i * 5, c, 0.5 + exact_get(&data, i * 5, c) * 1e-3);
    }
    assert_true(dense * dense * 12 > 3 * limit);
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 2, limit);
    nf_radius_index *index = exact_index(ctx, &data, 0);
    answer           truth = oracle(&data, NULL, 10), got = answer_open(rows, 10);
    nf_grow_rules    rules = nf_grow_rules_default();
    rules.batch_pairs = 100000;
    if (ask_growing(ctx, index, NULL, &rules, &got) != NF_OK) fail_msg("growing: %s", nf_context_error(ctx)->text);
    same_answer(&got, &truth, "growing");
    assert_true(got.stats.compared < rows * rows / 3);
    nf_context_info info;
    nf_context_describe(ctx, &info);
    assert_int_equal(info.memory_used, 0);
    answer_close(&got);
    answer_close(&truth);
    nf_radius_index_release(index);
    exact_free(&data);
    nf_context_destroy(ctx);
}

/* ---- refused ---- */

static void refused(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                    const nf_knn_params *params, nf_status status, const char *part)
{
    int64_t ids[64];
    double  distances[64];
    assert_int_equal(nf_radius_knn(ctx, index, queries, params, ids, distances, NULL, NULL), status);
    if (strstr(nf_context_error(ctx)->text, part) == NULL) fail_msg("says: %s", nf_context_error(ctx)->text);
}

static void test_refused(void **state)
{
    (void)state;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix        data = made(UNIFORM, NF_DTYPE_F32, 6, 3, 1), other = made(UNIFORM, NF_DTYPE_F32, 6, 2, 1);
    nf_radius_index *index = exact_index(ctx, &data, 0);
    nf_knn_params    params;
    nf_knn_params_init(&params);
    refused(ctx, NULL, NULL, &params, NF_ERR_ARGUMENT, "index is NULL");
    refused(ctx, index, NULL, NULL, NF_ERR_ARGUMENT, "params are NULL");
    refused(ctx, index, &other, &params, NF_ERR_ARGUMENT, "queries have 2 dims, the data have 3");
    params.metric = NF_METRIC_IP;
    refused(ctx, index, NULL, &params, NF_ERR_UNSUPPORTED, "metric is ip");
    params.metric = NF_METRIC_COSINE;
    refused(ctx, index, NULL, &params, NF_ERR_UNSUPPORTED, "metric is cosine");
    params.metric = 9;
    refused(ctx, index, NULL, &params, NF_ERR_ARGUMENT, "metric is 9");
    nf_knn_params_init(&params);
    params.k = 0;
    refused(ctx, index, NULL, &params, NF_ERR_ARGUMENT, "k is 0");
    params.k = 2;
    assert_int_equal(nf_radius_knn(ctx, index, NULL, &params, NULL, NULL, NULL, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_knn(NULL, index, NULL, &params, NULL, NULL, NULL, NULL), NF_ERR_ARGUMENT);
    exact_put(&data, 4, 1, NAN);
    refused(ctx, index, &data, &params, NF_ERR_VALUE, "queries: row 4, column 1");
    nf_radius_index_release(index);
    exact_free(&data);
    exact_free(&other);
    nf_context_destroy(ctx);
}

/* ---- faults ---- */

static nf_context *hooked(memory_hook *hook)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.threads = 2;
    params.allocator = memory_hook_allocator(hook);
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    hook->cancelled = ctx;
    return ctx;
}

/* Each allocation fails, or cancels, in turn; nothing stays behind, and an answer that comes is right. */
static void faults_of(const nf_matrix *data, const nf_matrix *queries, const nf_grow_rules *rules, bool cancel)
{
    memory_hook      hook = {0};
    nf_context      *ctx = hooked(&hook);
    nf_radius_index *index = exact_index(ctx, data, 0);
    answer           truth = oracle(data, queries, 5);
    long             failures = 0;
    for (long n = 1;; n += 1 + n / 40) {
        answer     got = answer_open(truth.queries, 5);
        const long before = hook.calls, live = hook.live_blocks;
        *(cancel ? &hook.cancel_at : &hook.fail_at) = before + n;
        nf_context_begin(ctx);
        const nf_status status =
            rules != NULL ? ask_growing(ctx, index, queries, rules, &got) : ask(ctx, index, queries, &got);
        assert_int_equal(hook.live_blocks, live);
        if (status == NF_OK) same_answer(&got, &truth, "with failures");
        answer_close(&got);
        if (hook.calls < before + n) break;
        assert_true(status == NF_OK || status == (cancel ? NF_ERR_CANCELLED : NF_ERR_MEMORY));
        failures += status != NF_OK;
    }
    assert_true(failures > 10);
    answer_close(&truth);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    assert_int_equal(hook.live_blocks, 0);
    assert_int_equal(hook.mismatches, 0);
}

static void test_faults(void **state)
{
    (void)state;
    const uint64_t rows = exact_short() ? 60 : 200;
    nf_matrix      data = made(CLUSTERS, NF_DTYPE_F32, rows, 3, 1), queries = made(UNIFORM, NF_DTYPE_F64, 20, 3, 2);
    for (int cancel = 0; cancel < 2; cancel++) {
        faults_of(&data, NULL, NULL, cancel);
        faults_of(&data, &queries, NULL, cancel);
        faults_of(&data, NULL, &all_rules[0], cancel);
        faults_of(&data, NULL, &all_rules[1], cancel);
        faults_of(&data, &queries, &all_rules[2], cancel);
    }
    exact_free(&data);
    exact_free(&queries);
}

/* With any limit the answer is right, or the limit is named. */
static void test_memory_limits(void **state)
{
    (void)state;
    if (exact_on_cuda()) skip();
    nf_matrix    data = made(DUPLICATES, NF_DTYPE_F32, 3000, 3, 1);
    const answer truth = oracle(&data, NULL, 5);
    int          right = 0, limited = 0;
    for (uint64_t limit = 1 << 17; limit < (uint64_t)1 << 30; limit *= 4) {
        nf_context      *ctx = exact_context(NF_ISA_AUTO, 2, limit);
        nf_radius_index *index = NULL;
        answer           got = answer_open(3000, 5);
        nf_grow_rules    rules = nf_grow_rules_default();
        nf_status        status = nf_radius_index_create(ctx, &data, NULL, &index);
        if (status == NF_OK) status = ask_growing(ctx, index, NULL, &rules, &got);
        assert_true(status == NF_OK || status == NF_ERR_LIMIT);
        if (status == NF_OK) same_answer(&got, &truth, "with a limit");
        if (status != NF_OK) assert_non_null(strstr(nf_context_error(ctx)->text, "limit"));
        right += status == NF_OK;
        limited += status != NF_OK;
        answer_close(&got);
        nf_radius_index_release(index);
        nf_context_destroy(ctx);
    }
    assert_true(right > 2 && limited > 0);
    answer_close(&truth);
    exact_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),   cmocka_unit_test(test_rounded_ties),   cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_types),   cmocka_unit_test(test_large_integers), cmocka_unit_test(test_strides),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_bounded),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_faults),  cmocka_unit_test(test_memory_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
