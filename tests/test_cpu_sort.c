/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting the rows of a result, for all lengths and for id ranges small and large, against qsort. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/core_system.h"
#include "cpu/cpu_search.h"
#include "cpu/cpu_sort.h"
#include "random_helper.h"

#define MOST 5000u

static const uint32_t limits[] = {MOST, 5001, 64 * 1024, 1u << 20, (1u << 20) + 1, 0x7fffffff};

static int compare_ids(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Different ids below limit: an arithmetic progression modulo the limit, whose step shares no factor with it. */
static void different_ids(uint32_t *ids, uint64_t count, uint32_t limit, uint64_t *seed)
{
    static const uint32_t primes[] = {7919, 104729, 15485863, 179424673};
    const uint32_t        step = primes[random_below(seed, 4)];
    uint64_t              id = random_below(seed, limit);
    for (uint64_t i = 0; i < count; i++) {
        ids[i] = (uint32_t)id;
        id = (id + (limit % step == 0 ? 1 : step)) % limit;
    }
}

static void check_lengths(nf_context *ctx, nf_row_sorter *sorter, uint32_t limit)
{
    static uint32_t ids[MOST], expected[MOST];
    uint64_t        seed = limit;
    (void)ctx;
    for (uint64_t count = 0; count <= MOST; count += count < 150 ? 1 : 1 + random_below(&seed, 150)) {
        different_ids(ids, count, limit, &seed);
        if (count % 11 == 3) qsort(ids, count, sizeof *ids, compare_ids);
        memcpy(expected, ids, count * sizeof *ids);
        qsort(expected, count, sizeof *ids, compare_ids);
        assert_int_equal(nf_sort_ids(sorter, ids, count), NF_OK);
        assert_memory_equal(ids, expected, count * sizeof *ids);
    }
    different_ids(ids, MOST, limit, &seed); /* the longest too, and shorter ones after it */
    memcpy(expected, ids, sizeof ids);
    qsort(expected, MOST, sizeof *ids, compare_ids);
    assert_int_equal(nf_sort_ids(sorter, ids, MOST), NF_OK);
    assert_memory_equal(ids, expected, sizeof ids);
}

static void test_ids(void **state)
{
    (void)state;
    for (nf_isa isa = NF_ISA_SCALAR; isa <= NF_ISA_NEON; isa = (nf_isa)(isa + 1)) {
        if (!nf_system_has_isa(isa)) continue;
        for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
            nf_context   *ctx = NULL;
            nf_row_sorter sorter;
            assert_int_equal(nf_context_create(NULL, &ctx, NULL), NF_OK);
            assert_int_equal(nf_row_sorter_open(ctx, nf_cpu_kernels(isa), &sorter, limits[l]), NF_OK);
            check_lengths(ctx, &sorter, limits[l]);
            check_lengths(ctx, &sorter, limits[l]); /* a sorter is used again and again */
            nf_row_sorter_close(&sorter);
            nf_context_destroy(ctx);
        }
    }
}

/* Ids at the ends of the range. */
static void test_id_range(void **state)
{
    (void)state;
    static const uint32_t some[] = {1, 2, 64, 65, 4096, 4097};
    nf_context           *ctx = NULL;
    assert_int_equal(nf_context_create(NULL, &ctx, NULL), NF_OK);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        nf_row_sorter sorter;
        uint32_t     *ids = malloc(some[i] * sizeof *ids);
        assert_int_equal(nf_row_sorter_open(ctx, nf_cpu_kernels(nf_system_best_isa()), &sorter, some[i]), NF_OK);
        for (uint32_t k = 0; k < some[i]; k++) ids[k] = some[i] - 1 - k; /* all of them, backwards */
        assert_int_equal(nf_sort_ids(&sorter, ids, some[i]), NF_OK);
        for (uint32_t k = 0; k < some[i]; k++) assert_int_equal(ids[k], k);
        nf_row_sorter_close(&sorter);
        free(ids);
    }
    nf_context_destroy(ctx);
}

/* Few different distances: equal ones must keep their order. */
static void test_by_distance(void **state)
{
    (void)state;
    nf_context   *ctx = NULL;
    nf_row_sorter sorter;
    uint64_t      seed = 9;
    static uint32_t ids[MOST];
    static double   distances[MOST];
    assert_int_equal(nf_context_create(NULL, &ctx, NULL), NF_OK);
    assert_int_equal(nf_row_sorter_open(ctx, nf_cpu_kernels(nf_system_best_isa()), &sorter, MOST), NF_OK);
    for (uint64_t count = 0; count <= MOST; count = count < 40 ? count + 1 : count * 3 / 2) {
        double of_id[MOST];
        for (uint64_t i = 0; i < count; i++) {
            ids[i] = (uint32_t)i;
            distances[i] = of_id[i] = (double)random_below(&seed, 1 + count / 3) * 0.5;
        }
        if (count > 3) distances[1] = of_id[1] = 0x1p1000;
        if (count > 3) distances[3] = of_id[3] = 0.0;
        assert_int_equal(nf_sort_by_distance(&sorter, ids, distances, count), NF_OK);
        for (uint64_t i = 0; i < count; i++) {
            assert_true(ids[i] < count);
            assert_true(distances[i] == of_id[ids[i]]);
            if (i == 0) continue;
            assert_true(distances[i - 1] < distances[i] || (distances[i - 1] == distances[i] && ids[i - 1] < ids[i]));
        }
    }
    nf_row_sorter_close(&sorter);
    nf_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_id_range),
        cmocka_unit_test(test_by_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
