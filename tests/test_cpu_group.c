/* SPDX-License-Identifier: Apache-2.0 */
/* Steps select_dims and group: the order of the dims, exact group sizes, every id once, the same for any threads. */
#include "points_helper.h"

static const uint64_t sizes[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 1000, 5000};
static const uint32_t group_sizes[] = {0, 1, 7, 63, 64};

/* Every id once; all groups hold exactly the size asked for, but the last one. */
static void check_groups(const nf_points *points, uint64_t rows, uint32_t size)
{
    uint8_t *seen = calloc(rows + 1, 1);
    assert_int_equal(points->group_count, (rows + size - 1) / size);
    assert_int_equal(points->group_start[0], 0);
    assert_int_equal(points->group_start[points->group_count], rows);
    for (uint32_t g = 0; g + 1 < points->group_count; g++) assert_int_equal(nf_cpu_group_size(points, g), size);
    if (points->group_count > 0) assert_in_range(nf_cpu_group_size(points, points->group_count - 1), 1, size);
    for (uint64_t i = 0; i < rows; i++) {
        assert_true(points->ids[i] < rows && !seen[points->ids[i]]);
        seen[points->ids[i]] = 1;
    }
    free(seen);
}

static void test_sizes(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        for (int kind = 0; kind < POINT_KINDS; kind++) {
            nf_matrix data = points_matrix(kind, kind == 5 ? NF_DTYPE_F64 : NF_DTYPE_F32, sizes[n], 1 + (uint32_t)n % 4);
            for (size_t g = 0; g < 5; g++) {
                const uint32_t size = group_sizes[g] == 0 ? NF_TILE : group_sizes[g];
                nf_context    *one = exact_context(NF_ISA_AUTO, 1, 0), *four = exact_context(NF_ISA_AUTO, 4, 0);
                nf_points     *a = points_grouped(one, &data, NULL, group_sizes[g]);
                nf_points     *b = points_grouped(four, &data, NULL, group_sizes[g]);
                check_groups(a, sizes[n], size);
                assert_memory_equal(a->ids, b->ids, sizes[n] * sizeof *a->ids);
                nf_cpu_points_close(a);
                nf_cpu_points_close(b);
                nf_context_destroy(one);
                nf_context_destroy(four);
            }
            exact_free(&data);
        }
    }
}

/* Groups of a line are its consecutive stretches. */
static void test_line(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix   data = exact_matrix(NF_DTYPE_F32, 640, 1);
    for (uint64_t i = 0; i < 640; i++) exact_put(&data, i * 7 % 640, 0, (double)i);
    nf_points *points = points_grouped(ctx, &data, NULL, 0);
    for (uint32_t g = 0; g < 10; g++) {
        double low = HUGE_VAL, high = -HUGE_VAL;
        for (uint32_t i = points->group_start[g]; i < points->group_start[g + 1]; i++) {
            low = fmin(low, exact_get(&data, points->ids[i], 0));
            high = fmax(high, exact_get(&data, points->ids[i], 0));
        }
        assert_true(high - low == 63.0);
    }
    nf_cpu_points_close(points);
    nf_context_destroy(ctx);
    exact_free(&data);
}

/* Decreasing variance, ties by column; the same for queries as for the data. */
static void test_order_of_dims(void **state)
{
    (void)state;
    static const double   spread[] = {1.0, 50.0, 0.0, 7.0, 50.0, 0.0, 3.0};
    static const uint32_t expected[] = {1, 4, 3, 6, 0, 2, 5};
    static const double   offsets[] = {0.0, 1e6, -1e9};
    nf_context           *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (size_t o = 0; o < 3; o++) {
        nf_matrix data = exact_matrix(NF_DTYPE_F64, 5000, 7);
        for (uint64_t i = 0; i < 5000; i++) {
            for (uint32_t c = 0; c < 7; c++) exact_put(&data, i, c, offsets[o] + spread[c] * (double)(i % 11));
        }
        nf_points *points = points_grouped(ctx, &data, NULL, 0);
        for (uint32_t k = 0; k < 7; k++) {
            assert_int_equal(points->dim_order[k], expected[k]);
            assert_int_equal(points->dim_place[expected[k]], k);
        }
        nf_matrix  other = points_matrix(0, NF_DTYPE_U8, 10, 7);
        nf_points *queries = points_grouped(ctx, &other, points, 0);
        assert_memory_equal(queries->dim_order, points->dim_order, 7 * sizeof(uint32_t));
        assert_memory_equal(queries->dim_place, points->dim_place, 7 * sizeof(uint32_t));
        nf_cpu_points_close(queries);
        nf_cpu_points_close(points);
        exact_free(&data);
        exact_free(&other);
    }
    nf_context_destroy(ctx);
}

static void test_facts_about_values(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   data = exact_matrix(NF_DTYPE_I16, 5000, 2);
    exact_put(&data, 4321, 0, -300.0);
    exact_put(&data, 17, 1, 200.0);
    exact_put(&data, 4321, 1, 100.0);
    nf_points *points = points_grouped(ctx, &data, NULL, 0);
    assert_true(points->largest == 300.0);
    assert_true(points->largest_square == 100000.0);
    assert_true(points->integers);
    nf_cpu_points_close(points);
    exact_free(&data);
    data = exact_matrix(NF_DTYPE_F32, 3, 1);
    points = points_grouped(ctx, &data, NULL, 0);
    assert_false(points->integers); /* by type, not by value */
    nf_cpu_points_close(points);
    exact_free(&data);
    nf_context_destroy(ctx);
}

static void test_group_size_refused(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix   data = points_matrix(0, NF_DTYPE_F32, 100, 2);
    nf_points  *points = NULL;
    assert_int_equal(nf_cpu_points_open(ctx, &data, nf_context_memory(ctx), &points), NF_OK);
    assert_int_equal(nf_cpu_select_dims(ctx, points, NULL), NF_OK);
    assert_int_equal(nf_cpu_group(ctx, points, 65), NF_ERR_ARGUMENT);
    nf_cpu_points_close(points);
    nf_cpu_points_close(NULL);
    nf_context_destroy(ctx);
    exact_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_order_of_dims),
        cmocka_unit_test(test_facts_about_values),
        cmocka_unit_test(test_group_size_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
