/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hits: the list of every method names each (query, group) pair that holds a neighbour. The neighbours come from a brute
 * force; the data are such that distances of exactly the radius abound.
 */
#include "cpu/cpu_hits.h"
#include "points_helper.h"

static const uint32_t methods[] = {NF_CANDIDATES_BVH, NF_CANDIDATES_BOXES, NF_CANDIDATES_NONE};

typedef struct fixture {
    nf_context *ctx;
    nf_points  *data, *queries;
    nf_search  *search;
} fixture;

static fixture open_fixture(const nf_matrix *data, const nf_matrix *queries, uint32_t group_size, double radius,
                            uint32_t method)
{
    fixture              at = {.ctx = exact_context(NF_ISA_AUTO, 2, 0)};
    const nf_search_spec spec = {.radius = radius, .candidates = method, .self_join = queries == NULL};
    at.data = points_ordered(at.ctx, data, NULL, group_size);
    at.queries = queries != NULL ? points_ordered(at.ctx, queries, at.data, group_size) : at.data;
    assert_int_equal(nf_cpu_search_open(at.ctx, at.data, at.queries, &spec, &at.search), NF_OK);
    assert_int_equal(at.search->candidates, method);
    return at;
}

static void close_fixture(fixture *at)
{
    nf_cpu_search_close(at->search);
    if (at->queries != at->data) nf_cpu_points_close(at->queries);
    nf_cpu_points_close(at->data);
    nf_context_destroy(at->ctx);
}

/* Spreads a list to one mask per group, and checks its form: ascending, no group twice, none of skip, runs only where all
 * queries hit, the number of hits right. */
static void unfold(const fixture *at, uint32_t query_group, nf_group_range skip, const nf_hit_list *list, uint64_t *masks)
{
    const uint32_t count = nf_cpu_group_size(at->queries, query_group), groups = at->data->group_count;
    const uint64_t all = count == 64 ? ~0ull : (1ull << count) - 1;
    uint64_t       hits = 0, runs = 0;
    uint32_t       next = 0;
    memset(masks, 0, groups * sizeof *masks);
    for (uint32_t i = 0; i < list->count; i++) {
        const nf_hit hit = list->hits[i];
        assert_true(hit.run >= 1 && hit.group >= next && hit.group + hit.run <= groups);
        assert_true(hit.queries != 0 && (hit.queries & ~all) == 0);
        if (hit.run > 1) assert_true(hit.queries == all);
        for (uint32_t g = hit.group; g < hit.group + hit.run; g++) {
            assert_false(g >= skip.from && g < skip.to);
            masks[g] = hit.queries;
        }
        hits += (uint64_t)__builtin_popcountll(hit.queries) * hit.run;
        runs += hit.run > 1;
        next = hit.group + hit.run;
    }
    assert_int_equal(hits, list->query_hits);
    (void)runs;
}

/* No neighbour may be outside the hits. Returns the share of hits among all (query, group) pairs. */
static double check_hits(const nf_matrix *data, const nf_matrix *queries, uint32_t group_size, double radius, uint32_t method)
{
    fixture     at = open_fixture(data, queries, group_size, radius, method);
    exact_truth truth = exact_truth_of(data, queries, radius);
    uint64_t   *masks = malloc((at.data->group_count + 1) * sizeof *masks);
    nf_hit_list list = {0};
    uint64_t    hits = 0;
    for (uint32_t g = 0; g < at.queries->group_count; g++) {
        const nf_group_range skip = {g % 5 == 4 ? g / 2 : 0, g % 5 == 4 ? g : 0};
        assert_int_equal(nf_cpu_list_group_hits(at.ctx, at.search, g, skip, &list), NF_OK);
        unfold(&at, g, skip, &list, masks);
        hits += list.query_hits;
        for (uint32_t i = 0; i < nf_cpu_group_size(at.queries, g); i++) {
            const uint32_t q = at.queries->ids[at.queries->group_start[g] + i];
            for (uint32_t p = 0; p < data->rows; p++) {
                if (truth.side[q * truth.rows + p] > 0) continue;
                const uint32_t group = (uint32_t)(at.data->positions[p] / (group_size == 0 ? 64 : group_size));
                uint32_t       holds = group; /* groups are of one size, but one of them is smaller and may be anywhere */
                while (at.data->group_start[holds] > at.data->positions[p]) holds--;
                while (at.data->group_start[holds + 1] <= at.data->positions[p]) holds++;
                if (holds >= skip.from && holds < skip.to) continue;
                if (!(masks[holds] >> i & 1)) fail_msg("method %s loses query %u, row %u", nf_candidates_name(method), q, p);
            }
        }
    }
    const double share = at.queries->rows_count * at.data->group_count == 0
                             ? 0.0 : (double)hits / ((double)at.queries->rows_count * at.data->group_count);
    nf_hit_list_free(&list);
    free(masks);
    exact_truth_free(&truth);
    close_fixture(&at);
    return share;
}

static void check_all(const nf_matrix *data, const nf_matrix *queries, double radius)
{
    static const uint32_t group_sizes[] = {0, 3};
    for (size_t m = 0; m < 3; m++) {
        for (size_t s = 0; s < 2; s++) check_hits(data, queries, group_sizes[s], radius, methods[m]);
    }
}

/* Grids, whose neighbours are at exactly the radius; several dims, more than the methods look at one by one. */
static void test_grids(void **state)
{
    (void)state;
    static const uint32_t all_dims[] = {1, 2, 3, 4, 8, 9, 20};
    for (size_t k = 0; k < 7; k++) {
        nf_matrix data = exact_matrix(k % 2 ? NF_DTYPE_F32 : NF_DTYPE_U8, 400, all_dims[k]);
        uint64_t  seed = k;
        for (uint64_t i = 0; i < 400; i++) {
            for (uint32_t c = 0; c < all_dims[k]; c++) exact_put(&data, i, c, (double)random_below(&seed, k == 0 ? 200 : 12));
        }
        check_all(&data, NULL, 0.0);
        check_all(&data, NULL, 1.0);
        check_all(&data, NULL, 5.0);
        check_all(&data, NULL, nextafter(5.0, 0.0));
        exact_free(&data);
    }
}

/* Queries at RN(p - radius) and RN(p + radius) and one unit beside, in binary32 and binary64. */
static void test_edges(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        const nf_dtype dtype = wide ? NF_DTYPE_F64 : NF_DTYPE_F32;
        nf_matrix      data = exact_matrix(dtype, 200, 2), queries = exact_matrix(dtype, 800, 2);
        const double   radius = wide ? 0.1 : 0x1.f212d8p-8;
        uint64_t       seed = 5;
        for (uint64_t i = 0; i < 200; i++) {
            for (uint32_t c = 0; c < 2; c++) exact_put(&data, i, c, random_unit(&seed) * (c == 0 ? 1.0 : 0.001));
            for (uint64_t k = 0; k < 4; k++) {
                const double p = exact_get(&data, i, 0), edge = k % 2 ? p + radius : p - radius;
                exact_put(&queries, 4 * i + k, 0, edge);
                if (k >= 2) exact_put(&queries, 4 * i + k, 0, nextafter(exact_get(&queries, 4 * i + k, 0), p));
                exact_put(&queries, 4 * i + k, 1, exact_get(&data, i, 1));
            }
        }
        check_all(&data, &queries, radius);
        exact_free(&data);
        exact_free(&queries);
    }
}

/* The pair that a rounded sphere box loses. */
static void test_counterexample(void **state)
{
    (void)state;
    nf_matrix data = exact_matrix(NF_DTYPE_F32, 2, 1), query = exact_matrix(NF_DTYPE_F32, 1, 1);
    exact_put(&data, 0, 0, 0x1.4eaa4p-8);
    exact_put(&data, 1, 0, 0x1.7cb1dep-6);
    exact_put(&query, 0, 0, -0x1.46d13p-9);
    check_all(&data, &query, 0x1.f212d8p-8);
    exact_free(&data);
    exact_free(&query);
}

/* Values that binary32 cannot hold: boxes reach to infinity, or collapse to its smallest numbers. */
static void test_extreme_values(void **state)
{
    (void)state;
    static const double scales[] = {1e200, 1e39, 1e-44, 1e-46, 1e-200, 0x1p-1074};
    for (size_t s = 0; s < 6; s++) {
        nf_matrix data = exact_matrix(NF_DTYPE_F64, 300, 3);
        uint64_t  seed = s;
        for (uint64_t i = 0; i < 300; i++) {
            for (uint32_t c = 0; c < 3; c++) exact_put(&data, i, c, scales[s] * ((double)random_below(&seed, 24) - 12.0));
        }
        check_all(&data, NULL, 3.0 * scales[s]);
        check_all(&data, NULL, 0.0);
        check_all(&data, NULL, 1.0);
        exact_free(&data);
    }
}

/* Gaps whose squares are subnormal in binary32 and round up. */
static void test_tiny_gaps(void **state)
{
    (void)state;
    for (int exponent = -78; exponent <= -70; exponent++) {
        for (uint32_t dims = 2; dims <= 17; dims += 5) {
            nf_matrix data = exact_matrix(NF_DTYPE_F32, 64, dims);
            for (uint64_t i = 0; i < 64; i++) {
                for (uint32_t c = 0; c < dims; c++) exact_put(&data, i, c, ldexp((double)(i / 8) * 1.03, exponent));
            }
            check_all(&data, NULL, ldexp(1.03 * sqrt(dims) * (1.0 + 0x1p-40), exponent));
            check_all(&data, NULL, ldexp(3.09 * sqrt(dims) * (1.0 + 0x1p-40), exponent));
            exact_free(&data);
        }
    }
}

/* The methods do prune, each more than the one before it. */
static void test_pruning(void **state)
{
    (void)state;
    nf_matrix data = points_matrix(0, NF_DTYPE_F32, 1500, 3), many = points_matrix(0, NF_DTYPE_F32, 800, 6);
    assert_true(check_hits(&data, NULL, 0, HUGE_VAL, NF_CANDIDATES_BOXES) > 0.6); /* what is skipped is missing */
    assert_true(check_hits(&data, NULL, 0, 0.5, NF_CANDIDATES_BVH) < 0.35);
    assert_true(check_hits(&data, NULL, 0, 0.5, NF_CANDIDATES_BOXES) < 0.35);
    assert_true(check_hits(&many, NULL, 0, 1.0, NF_CANDIDATES_BOXES) <= check_hits(&many, NULL, 0, 1.0, NF_CANDIDATES_BVH));
    exact_free(&data);
    exact_free(&many);
}

/* Everything hits: one run, broken only by what is skipped. */
static void test_runs(void **state)
{
    (void)state;
    nf_matrix   data = points_matrix(0, NF_DTYPE_F32, 1000, 2);
    nf_hit_list list = {0};
    for (size_t m = 0; m < 3; m++) {
        fixture at = open_fixture(&data, NULL, 0, HUGE_VAL, methods[m]);
        assert_int_equal(nf_cpu_list_group_hits(at.ctx, at.search, 3, (nf_group_range){0, 0}, &list), NF_OK);
        assert_int_equal(list.count, 1);
        assert_int_equal(list.hits[0].run, 16);
        assert_int_equal(list.query_hits, 16 * nf_cpu_group_size(at.queries, 3));
        assert_int_equal(nf_cpu_list_group_hits(at.ctx, at.search, 3, (nf_group_range){2, 9}, &list), NF_OK);
        assert_int_equal(list.count, 2);
        assert_int_equal(list.hits[0].run, 2);
        assert_int_equal(list.hits[1].group, 9);
        assert_int_equal(list.hits[1].run, 7);
        assert_int_equal(nf_cpu_list_group_hits(at.ctx, at.search, 3, (nf_group_range){0, 16}, &list), NF_OK);
        assert_int_equal(list.count, 0);
        close_fixture(&at);
    }
    nf_hit_list_free(&list);
    exact_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grids),          cmocka_unit_test(test_edges),     cmocka_unit_test(test_counterexample),
        cmocka_unit_test(test_extreme_values), cmocka_unit_test(test_tiny_gaps), cmocka_unit_test(test_pruning),
        cmocka_unit_test(test_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
