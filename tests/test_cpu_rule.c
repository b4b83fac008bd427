/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of arithmetic at its edges: radii whose square is an integer, nearly one, or vanishes in binary64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <nearfield/nearfield.h>

/* Pairs and ties of a self-join of n rows of one byte. */
static void join_bytes(const uint8_t *values, uint64_t n, double radius, uint32_t strict, nf_refine refine, uint64_t *pairs,
                       uint64_t *ties)
{
    const nf_matrix  data = {.data = values, .rows = n, .dims = 1, .dtype = NF_DTYPE_U8};
    nf_context      *ctx = NULL;
    nf_radius_index *index = NULL;
    nf_radius_params params;
    nf_radius_stats  stats = {.struct_size = sizeof stats};
    uint64_t         counts[8];

    assert_true(n <= 8);
    assert_int_equal(nf_context_create(NULL, &ctx, NULL), NF_OK);
    assert_int_equal(nf_radius_index_create(ctx, &data, NULL, &index), NF_OK);
    nf_radius_params_init(&params);
    params.radius = radius;
    params.strict = strict;
    params.refine = refine;
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, &stats), NF_OK);
    *pairs = stats.pairs;
    *ties = stats.ties;
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
}

/* Every arithmetic gives the same pairs and ties, those worked out by hand. */
static void expect(const uint8_t *values, uint64_t n, double radius, uint32_t strict, uint64_t pairs, uint64_t ties)
{
    static const nf_refine all[] = {NF_REFINE_AUTO, NF_REFINE_INT8, NF_REFINE_FP32, NF_REFINE_FP64};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        uint64_t got_pairs, got_ties;
        if (all[i] == NF_REFINE_FP32 && radius < 0x1p-50) continue; /* refused */
        join_bytes(values, n, radius, strict, all[i], &got_pairs, &got_ties);
        assert_int_equal(got_pairs, pairs);
        assert_int_equal(got_ties, ties);
    }
}

/* The square of a tiny radius is above 0, though binary64 cannot hold it: equal rows are nearer than it, and no tie. */
static void test_vanishing_square(void **state)
{
    (void)state;
    const uint8_t equal[] = {7, 7}, apart[] = {7, 8};
    const double  radii[] = {1e-200, 0x1p-1074, 1e-162, 0x1p-51};
    for (size_t i = 0; i < sizeof radii / sizeof radii[0]; i++) {
        for (uint32_t strict = 0; strict < 2; strict++) {
            expect(equal, 2, radii[i], strict, 2, 0);
            expect(apart, 2, radii[i], strict, 0, 0);
        }
    }
    expect(equal, 2, 0.0, 0, 2, 2);
    expect(equal, 2, 0.0, 1, 0, 2);
}

/* One unit in the last place around an integer radius. */
static void test_next_to_integers(void **state)
{
    (void)state;
    const uint8_t values[] = {0, 1, 3}; /* distances 1, 3, 2 */
    expect(values, 3, 1.0, 0, 2, 2);
    expect(values, 3, 1.0, 1, 0, 2);
    expect(values, 3, nextafter(1.0, 0.0), 0, 0, 0);
    expect(values, 3, nextafter(1.0, 2.0), 1, 2, 0);
    expect(values, 3, 3.0, 0, 6, 2);
    expect(values, 3, nextafter(3.0, 0.0), 0, 4, 0);
    expect(values, 3, 1e300, 1, 6, 0);
    expect(values, 3, HUGE_VAL, 1, 6, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vanishing_square),
        cmocka_unit_test(test_next_to_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
