/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k nearest neighbours through an index, in the way that the engine has and by radius searches that grow, against brute
 * force written here: distances by the contract's formula in plain binary64 loops, sorted by (distance, row), a row of the
 * data never its own neighbour. Ids, distances and counts must be the same bits.
 */
#include "exact/exact_knn_grow.h"
#include "exact_helper.h"
#include "memory_helper.h"

/* ---- the oracle ---- */

typedef struct neighbour {
    double  distance;
    int64_t id;
} neighbour;

static int compare_neighbours(const void *a, const void *b)
{
    const neighbour *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The contract: one fused multiply-add per column in order; where the sum over- or underflows, the differences are first
 * brought near 1 by a power of two. */
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
        .queries = queries, .k = k,
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

static void answer_close(answer *of)
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
    neighbour       *all = malloc((data->rows + 1) * sizeof *all);
    for (uint64_t q = 0; q < from->rows; q++) {
        uint64_t found = 0;
        for (uint64_t i = 0; i < data->rows; i++) {
            if (queries == NULL && i == q) continue;
            all[found].distance = contract(x + i * data->dims, y + q * data->dims, data->dims);
            all[found++].id = (int64_t)i;
        }
        qsort(all, found, sizeof *all, compare_neighbours);
        truth.counts[q] = found < k ? (uint32_t)found : k;
        for (uint32_t i = 0; i < k; i++) {
            truth.ids[q * k + i] = i < found ? all[i].id : -1;
            truth.distances[q * k + i] = i < found ? all[i].distance : HUGE_VAL;
        }
    }
    free(all);
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

/* All ways: the public one; growing as it is, from counts, with batches and rows that are soon too large, from one query,
 * and without rounds. */
static const nf_grow_rules all_rules[] = {
    {.sample = 256, .wide = 16, .rounds = 48, .batch_pairs = 8 << 20},
    {.sample = 20, .wide = 2, .rounds = 48, .batch_pairs = 50},
    {.sample = 1, .wide = 1, .rounds = 48, .batch_pairs = 300, .count_first = 1},
    {.sample = 5, .wide = 1, .rounds = 2, .batch_pairs = 1000},
};
#define ALL_RULES (sizeof all_rules / sizeof all_rules[0])

static void check(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t k)
{
    nf_radius_index *index = exact_index(ctx, data, 0);
    answer           truth = oracle(data, queries, k), got = answer_open(truth.queries, k);
    if (ask(ctx, index, queries, &got) != NF_OK) fail_msg("nf_radius_knn: %s", nf_context_error(ctx)->text);
    same_answer(&got, &truth, "nf_radius_knn");
    answer_close(&got);
    for (size_t r = 0; r < ALL_RULES; r++) {
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
    const uint64_t rows = exact_short() ? 120 : 300;
    for (uint32_t i = 0; exact_isa(i) != NF_ISA_AUTO; i++) {
        nf_context *ctx = exact_context(exact_isa(i), 2, 0);
        for (kind of = UNIFORM; of < KINDS; of = (kind)(of + 1)) {
            nf_matrix data = made(of, NF_DTYPE_F64, rows, 5, 1), queries = made(of, NF_DTYPE_F64, 30, 5, 2);
            check(ctx, &data, NULL, 7);
            check(ctx, &data, &queries, 10);
            exact_free(&data);
            exact_free(&queries);
        }
        nf_context_destroy(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
