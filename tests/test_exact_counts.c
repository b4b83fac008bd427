/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions beside one radius: histograms, counts that stop, rings, and a radius per query. Every pair of every answer
 * is compared with the oracle of exact_helper.h.
 */
#include "exact_helper.h"

#define MOST_RADII 12u

/* One set of data, and what is asked of it. */
typedef struct asked {
    nf_matrix data, queries; /* queries.data NULL: self-join */
    double    radii[MOST_RADII];
    uint32_t  count;
} asked;

typedef struct place {
    nf_context            *ctx;
    const nf_radius_index *index;
    const asked           *of;
    const nf_matrix       *queries;
    exact_truth            truth[MOST_RADII]; /* by radius */
    exact_truth            own;               /* each query by its own radius */
    double                *own_radii;
} place;

static int self_join(const place *at)
{
    return at->queries == NULL;
}

static void check_row(const place *at, const nf_radius_params *params, const exact_truth *outer,
                      const exact_truth *inner, const nf_csr *csr, uint64_t q)
{
    int64_t next = csr->indptr[q];
    for (uint64_t p = 0; p < outer->rows; p++) {
        if (!exact_wanted(outer, params, self_join(at), q, p)) continue;
        if (inner != NULL && exact_wanted(inner, params, self_join(at), q, p)) continue;
        assert_true(next < csr->indptr[q + 1]);
        assert_int_equal(csr->indices[next], p);
        const double radius = params->radii != NULL ? params->radii[q] : params->radius;
        const double distance = nf_exact_distance(outer->x + q * outer->dims, outer->y + p * outer->dims, outer->dims);
        assert_true(((const double *)csr->distances)[next] == (distance > radius ? radius : distance));
        next++;
    }
    assert_int_equal(next, csr->indptr[q + 1]);
}

/* CSR, stream and counts of params against the truth; ties are those of the outer radius. */
static void check_answer(const place *at, const nf_radius_params *params, const exact_truth *outer,
                         const exact_truth *inner)
{
    nf_csr           *csr = NULL;
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    nf_radius_stats   stats = {.struct_size = sizeof stats};
    uint64_t         *counts = malloc((outer->queries + 1) * sizeof *counts), streamed = 0;
    const nf_status   status = nf_radius_csr(at->ctx, at->index, at->queries, params, &csr, &stats);

    if (exact_on_cuda()) {
        assert_int_equal(status, NF_ERR_UNSUPPORTED);
        free(counts);
        return;
    }
    if (status != NF_OK) fail_msg("nf_radius_csr: %s", nf_context_error(at->ctx)->text);
    for (uint64_t q = 0; q < outer->queries; q++) check_row(at, params, outer, inner, csr, q);
    if (stats.ties != outer->ties)
        fail_msg("%d ties, not %d, at %a", (int)stats.ties, (int)outer->ties, params->radius);
    assert_int_equal(nf_radius_counts(at->ctx, at->index, at->queries, params, counts, &stats), NF_OK);
    assert_int_equal(stats.ties, outer->ties);
    for (uint64_t q = 0; q < outer->queries; q++) assert_int_equal(counts[q], csr->indptr[q + 1] - csr->indptr[q]);

    nf_radius_params small = *params;
    small.batch_pairs = 100;
    assert_int_equal(nf_radius_open(at->ctx, at->index, at->queries, &small, &stream), NF_OK);
    while (nf_radius_next(stream, &batch) == NF_MORE) {
        for (uint64_t i = 0; i < batch.rows; i++) {
            const int64_t length = batch.indptr[i + 1] - batch.indptr[i], begin = csr->indptr[batch.query_ids[i]];
            assert_int_equal(length, csr->indptr[batch.query_ids[i] + 1] - begin);
            assert_memory_equal(batch.indices + batch.indptr[i], csr->indices + begin, (size_t)length * 4);
            streamed++;
        }
    }
    nf_radius_close(stream);
    assert_int_equal(streamed, outer->queries);
    nf_csr_release(csr);
    free(counts);
}

static uint64_t wanted_count(const place *at, const nf_radius_params *params, const exact_truth *truth, uint64_t q)
{
    uint64_t wanted = 0;
    for (uint64_t p = 0; p < truth->rows; p++) wanted += (uint64_t)exact_wanted(truth, params, self_join(at), q, p);
    return wanted;
}

static void check_histogram(const place *at, const nf_radius_params *params)
{
    uint64_t        pairs[MOST_RADII];
    nf_radius_stats stats = {.struct_size = sizeof stats};
    const nf_status status =
        nf_radius_histogram(at->ctx, at->index, at->queries, params, at->of->radii, at->of->count, pairs, &stats);
    if (status != NF_OK) fail_msg("nf_radius_histogram: %s", nf_context_error(at->ctx)->text);
    for (uint32_t i = 0; i < at->of->count; i++) {
        uint64_t wanted = 0;
        for (uint64_t q = 0; q < at->truth[i].queries; q++) wanted += wanted_count(at, params, &at->truth[i], q);
        if (pairs[i] != wanted) fail_msg("%d pairs within %a, not %d", (int)pairs[i], at->of->radii[i], (int)wanted);
    }
    assert_int_equal(stats.pairs, pairs[at->of->count - 1]);
    assert_int_equal(stats.ties, at->truth[at->of->count - 1].ties);
}

static void check_stops(const place *at, const nf_radius_params *params, uint32_t which)
{
    static const uint64_t stops[] = {1, 2, 7, 1000000};
    const exact_truth    *truth = &at->truth[which];
    uint64_t             *counts = malloc((truth->queries + 1) * sizeof *counts);
    for (uint32_t s = 0; s < 4; s++) {
        nf_radius_params use = *params;
        use.radius = at->of->radii[which];
        use.stop_at = stops[s];
        assert_int_equal(nf_radius_counts(at->ctx, at->index, at->queries, &use, counts, NULL), NF_OK);
        for (uint64_t q = 0; q < truth->queries; q++) {
            const uint64_t wanted = wanted_count(at, params, truth, q);
            assert_int_equal(counts[q], wanted < stops[s] ? wanted : stops[s]);
        }
    }
    free(counts);
}

/* What the CUDA engine answers of rings: counts. */
static void check_ring_counts(const place *at, const nf_radius_params *params, uint32_t outer, uint32_t inner)
{
    uint64_t *counts = malloc((at->truth[outer].queries + 1) * sizeof *counts);
    assert_int_equal(nf_radius_counts(at->ctx, at->index, at->queries, params, counts, NULL), NF_OK);
    for (uint64_t q = 0; q < at->truth[outer].queries; q++) {
        assert_int_equal(counts[q], wanted_count(at, params, &at->truth[outer], q) -
                                        wanted_count(at, params, &at->truth[inner], q));
    }
    free(counts);
}

static void check_rings(const place *at, const nf_radius_params *params)
{
    for (uint32_t outer = 0; outer < at->of->count; outer++) {
        for (uint32_t inner = outer >= 2 ? outer - 2 : 0; inner <= outer; inner++) {
            nf_radius_params use = *params;
            use.radius = at->of->radii[outer];
            use.inner_radius = at->of->radii[inner];
            check_answer(at, &use, &at->truth[outer], &at->truth[inner]);
            check_ring_counts(at, &use, outer, inner);
        }
    }
}

static void check_place(const place *at, uint32_t candidates, uint32_t refine)
{
    for (uint32_t bits = 0; bits < 8; bits += exact_short() ? 3 : 1) {
        nf_radius_params params = exact_params(1.0);
        params.strict = bits & 1;
        params.self = self_join(at) ? (bits >> 1) & 1 : 0;
        params.half = self_join(at) ? bits >> 2 : 0;
        params.candidates = candidates;
        params.refine = refine;
        if (!self_join(at) && bits > 1) break;
        check_histogram(at, &params);
        check_rings(at, &params);
        for (uint32_t i = 0; i < at->of->count; i++) check_stops(at, &params, i);
        if (params.half) continue;
        params.radii = at->own_radii;
        check_answer(at, &params, &at->own, NULL);
    }
}

/* Gives query q radius q modulo their number. */
static void begin_own(place *at)
{
    const uint64_t queries = at->truth[0].queries, rows = at->truth[0].rows;
    at->own = exact_truth_of(&at->of->data, at->queries, 0.0);
    at->own.ties = 0;
    at->own_radii = malloc((queries + 1) * sizeof *at->own_radii);
    for (uint64_t q = 0; q < queries; q++) {
        const uint64_t which = (q * 7 + q / 5) % at->of->count;
        at->own_radii[q] = at->of->radii[which];
        memcpy(at->own.side + q * rows, at->truth[which].side + q * rows, rows);
        for (uint64_t p = 0; p < rows; p++)
            at->own.ties += at->own.side[q * rows + p] == 0 && !(self_join(at) && p == q);
    }
}

static void check(asked *of)
{
    static const uint32_t configurations[][2] = {
        {NF_CANDIDATES_AUTO, NF_REFINE_AUTO},
        {NF_CANDIDATES_BVH, NF_REFINE_AUTO},
        {NF_CANDIDATES_BOXES, NF_REFINE_FP64},
        {NF_CANDIDATES_NONE, NF_REFINE_AUTO},
    };
    place at = {.of = of, .queries = of->queries.data != NULL ? &of->queries : NULL};
    for (uint32_t i = 0; i < of->count; i++) at.truth[i] = exact_truth_of(&of->data, at.queries, of->radii[i]);
    begin_own(&at);
    for (uint32_t i = 0; exact_isa(i) != NF_ISA_AUTO; i++) {
        for (uint32_t c = 0; c < 4; c++) {
            if (exact_short() && c != i % 4) continue;
            at.ctx = exact_context(exact_isa(i), 1 + (i + c) % 3, 0);
            nf_radius_index *index = exact_index(at.ctx, &of->data, c == 1 ? 5 : 0);
            at.index = index;
            check_place(&at, configurations[c][0], configurations[c][1]);
            nf_radius_index_release(index);
            nf_context_destroy(at.ctx);
        }
    }
    for (uint32_t i = 0; i < of->count; i++) exact_truth_free(&at.truth[i]);
    exact_truth_free(&at.own);
    free(at.own_radii);
    exact_free(&of->data);
    if (at.queries != NULL) exact_free(&of->queries);
}

/* Whole numbers from 0 to most, times scale: many duplicates, many distances that are exactly a radius. */
static nf_matrix grid(nf_dtype dtype, uint64_t rows, uint32_t dims, uint32_t most, double scale, uint64_t seed)
{
    const nf_matrix matrix = exact_matrix(dtype, rows, dims);
    uint64_t        state = seed * 2654435761u + 12345;
    for (uint64_t row = 0; row < rows; row++) {
        for (uint32_t k = 0; k < dims; k++) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            exact_put(&matrix, row, k, (double)((state >> 40) % (most + 1)) * scale);
        }
    }
    return matrix;
}

static void test_bytes(void **state)
{
    (void)state;
    asked self = {grid(NF_DTYPE_U8, 150, 3, 6, 1.0, 1), {0}, {0.0, 0.0, 1e-200, 1.0, 2.0, 3.0, 3.5, HUGE_VAL}, 8};
    asked semi = {grid(NF_DTYPE_I8, 130, 40, 3, 1.0, 2),
                  grid(NF_DTYPE_I8, 70, 40, 3, 1.0, 3),
                  {0.0, 7.0, 8.0, 8.5, 9.0, 9.0, 10.0, HUGE_VAL},
                  8};
    check(&self);
    check(&semi);
}

static void test_floats(void **state)
{
    (void)state;
    asked flat = {grid(NF_DTYPE_F32, 140, 1, 40, 0.25, 4), {0}, {0.0, 1e-30, 0.25, 0.5, 1.5, 1e10, HUGE_VAL}, 7};
    asked wide = {grid(NF_DTYPE_F32, 120, 33, 4, 0.3, 5), {0}, {0.0, 1e-25, 2.0, 2.4, 3.0, 3.6, 5.0}, 7}; /* product */
    asked semi = {
        grid(NF_DTYPE_F32, 90, 24, 4, 0.3, 6), grid(NF_DTYPE_F64, 100, 24, 4, 0.3, 7), {1.0, 2.0, 2.1, 2.5}, 4};
    check(&flat);
    check(&wide);
    check(&semi);
}

/* Values that vanish in binary32 once squared, beside large ones. */
static void test_tiny_floats(void **state)
{
    (void)state;
    asked tiny = {grid(NF_DTYPE_F32, 90, 2, 5, 0x1p-90, 8), {0}, {0.0, 0x1p-90, 0x1p-89, 0x1p-49, 1.0}, 5};
    asked wide = {grid(NF_DTYPE_F32, 90, 24, 2, 0x1p-90, 9), {0}, {0.0, 0x1p-88, 0x1p-87, 1.0}, 4};
    check(&tiny);
    check(&wide);
}

static void test_extreme_doubles(void **state)
{
    (void)state;
    asked large = {grid(NF_DTYPE_F64, 90, 2, 5, 0x1p600, 10), {0}, {0.0, 1.0, 0x1p600, 0x1p601, 0x1p603, HUGE_VAL}, 6};
    asked small = {
        grid(NF_DTYPE_F64, 90, 2, 5, 0x1p-700, 11), {0}, {0.0, 0x1p-700, 0x1p-699, 0x1p-501, 1.0, HUGE_VAL}, 6};
    asked below = {
        grid(NF_DTYPE_F64, 80, 1, 5, 0x1.fffffffffffffp-501, 12), {0}, {0x1.fffffffffffffp-501, 0x1p-500, 1.0}, 3};
    check(&large);
    check(&small);
    check(&below);
}

static void test_small_sizes(void **state)
{
    (void)state;
    for (uint64_t rows = 0; rows < 4; rows++) {
        asked self = {grid(NF_DTYPE_F32, rows, 2, 2, 1.0, rows), {0}, {0.0, 1.0, 2.0}, 3};
        asked semi = {
            grid(NF_DTYPE_U8, rows, 2, 2, 1.0, rows), grid(NF_DTYPE_U8, 3 - rows, 2, 2, 1.0, 5), {0.0, 1.0}, 2};
        check(&self);
        check(&semi);
    }
}

/* ---- refused ---- */

static void test_refused(void **state)
{
    (void)state;
    nf_matrix         data = grid(NF_DTYPE_F32, 10, 2, 3, 1.0, 1);
    nf_context       *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_radius_index  *index = exact_index(ctx, &data, 0);
    nf_radius_params  params = exact_params(1.0);
    nf_csr           *csr = NULL;
    nf_radius_stream *stream = NULL;
    uint64_t          counts[10];
    double            each[10] = {0}, falling[] = {1.0, 0.5}, negative[] = {-1.0};

    params.stop_at = 3;
    assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &csr, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_open(ctx, index, NULL, &params, &stream), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_histogram(ctx, index, NULL, &params, each, 10, counts, NULL), NF_ERR_ARGUMENT);
    params.stop_at = 0;
    assert_int_equal(nf_radius_histogram(ctx, index, NULL, &params, falling, 2, counts, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_histogram(ctx, index, NULL, &params, negative, 1, counts, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_histogram(ctx, index, NULL, &params, each, 0, counts, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_histogram(ctx, index, NULL, &params, each, 1025, counts, NULL), NF_ERR_ARGUMENT);
    const double inner[] = {1.5, -0.5, NAN, HUGE_VAL};
    for (uint32_t i = 0; i < 4; i++) {
        params.inner_radius = inner[i];
        assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, NULL), NF_ERR_ARGUMENT);
    }
    params.inner_radius = 0.5;
    params.radii = each;
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, NULL), NF_ERR_ARGUMENT);
    params.inner_radius = -1.0;
    params.half = 1;
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, NULL), NF_ERR_ARGUMENT);
    params.half = 0;
    each[7] = -2.0;
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, NULL),
                     exact_on_cuda() ? NF_ERR_UNSUPPORTED : NF_ERR_ARGUMENT);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    exact_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),           cmocka_unit_test(test_floats),      cmocka_unit_test(test_tiny_floats),
        cmocka_unit_test(test_extreme_doubles), cmocka_unit_test(test_small_sizes), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
