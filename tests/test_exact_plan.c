/* SPDX-License-Identifier: Apache-2.0 */
/* Planning batches: all groups once, within the budget, evenly; growing and shrinking; bytes for pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exact/exact_plan.h"
#include "random_helper.h"

#define MOST 300

typedef struct plan {
    uint32_t batches;
    uint64_t largest, smallest;
} plan;

/* Plans until the end; checks that batches follow each other, keep the budget, and hold at least one group. */
static plan run_plan(const uint64_t *list_bytes, uint32_t groups, uint32_t most_groups, uint64_t budget)
{
    plan     out = {.smallest = UINT64_MAX};
    uint32_t at = 0;
    while (at < groups) {
        const nf_batch batch = nf_plan_batch(list_bytes, groups, at, most_groups, budget);
        uint64_t       sum = 0;
        assert_int_equal(batch.begin, at);
        assert_true(batch.end > at && batch.end <= groups);
        assert_true(batch.end - batch.begin <= most_groups);
        for (uint32_t g = batch.begin; g < batch.end; g++) sum += list_bytes[g];
        if (batch.end - batch.begin > 1) assert_true(sum <= budget);
        if (sum > out.largest) out.largest = sum;
        if (sum < out.smallest) out.smallest = sum;
        at = batch.end;
        out.batches++;
    }
    return out;
}

static void test_all_groups_once(void **state)
{
    (void)state;
    static const uint32_t group_counts[] = {1, 2, 3, 64, 65, MOST};
    static const uint32_t mosts[] = {1, 2, 7, 64, UINT32_MAX};
    static const uint64_t budgets[] = {0, 1, 10, 99, 1000, 100000, UINT64_MAX};
    uint64_t              seed = 1, lists[MOST];
    for (size_t n = 0; n < 6; n++) {
        for (int kind = 0; kind < 4; kind++) {
            for (uint32_t g = 0; g < MOST; g++) {
                lists[g] = kind == 0 ? 0 : kind == 1 ? 10 : kind == 2 ? random_below(&seed, 100) : g == 5 ? 5000 : 1;
            }
            for (size_t m = 0; m < 5; m++) {
                for (size_t b = 0; b < 7; b++) run_plan(lists, group_counts[n], mosts[m], budgets[b]);
            }
        }
    }
}

static void test_one_batch_when_it_fits(void **state)
{
    (void)state;
    uint64_t lists[MOST];
    for (uint32_t g = 0; g < MOST; g++) lists[g] = 10;
    assert_int_equal(run_plan(lists, MOST, UINT32_MAX, 3000).batches, 1);
    assert_int_equal(run_plan(lists, MOST, UINT32_MAX, 2999).batches, 2);
    for (uint32_t g = 0; g < MOST; g++) lists[g] = 0; /* lists that take nothing set no limit */
    assert_int_equal(run_plan(lists, MOST, UINT32_MAX, 1).batches, 1);
    assert_int_equal(run_plan(lists, MOST, 100, 1).batches, 3);
}

/* 10 groups of 10 with a budget of 60: 5 and 5, not 6 and 4. */
static void test_even(void **state)
{
    (void)state;
    uint64_t lists[MOST];
    for (uint32_t g = 0; g < MOST; g++) lists[g] = 10;
    const plan two = run_plan(lists, 10, UINT32_MAX, 60);
    assert_int_equal(two.batches, 2);
    assert_int_equal(two.largest, 50);
    assert_int_equal(two.smallest, 50);
    const plan many = run_plan(lists, MOST, UINT32_MAX, 1010); /* 2.97 budgets: three batches of 100 */
    assert_int_equal(many.batches, 3);
    assert_int_equal(many.largest, 1000);
    assert_int_equal(many.smallest, 1000);

    uint64_t seed = 2;
    for (uint32_t g = 0; g < MOST; g++) lists[g] = 50 + random_below(&seed, 100);
    const plan uneven = run_plan(lists, MOST, UINT32_MAX, 5000);
    assert_true(uneven.largest - uneven.smallest <= 5000 / 3);
}

static void test_groups_to_try(void **state)
{
    (void)state;
    assert_int_equal(nf_plan_groups(8, 100, 100, true), 4);
    assert_int_equal(nf_plan_groups(1, 100, 100, true), 0); /* not even one fits */
    assert_int_equal(nf_plan_groups(8, 90, 100, false), 8);
    assert_int_equal(nf_plan_groups(8, 10, 100, false), 16);
    assert_int_equal(nf_plan_groups(8, 40, 100, false), 12);
    assert_int_equal(nf_plan_groups(1, 0, 100, false), 2);
    assert_int_equal(nf_plan_groups(UINT32_MAX, 0, 100, false), UINT32_MAX);
    assert_int_equal(nf_plan_groups(UINT32_MAX / 2 + 1, 0, 100, false), UINT32_MAX);
    assert_int_equal(nf_plan_groups(UINT32_MAX - 1, 40, 100, false), UINT32_MAX);
    for (uint32_t tried = 1; tried < 1000; tried++) {
        for (uint64_t used = 0; used <= 100; used += 5) {
            const uint32_t next = nf_plan_groups(tried, used, 100, false);
            assert_true(next >= tried && next <= 2 * tried);
            assert_true((double)next * (double)used / tried < 100.0 || next == tried); /* expected to fit */
        }
    }
}

/* What is kept and what is delivered from it stay within what is free. */
static void test_pair_bytes(void **state)
{
    (void)state;
    static const uint64_t all_free[] = {0, 1, 1 << 20, 5 << 20, 100 << 20, 8ull << 30, 1ull << 50};
    static const uint64_t all_rows[] = {0, 1, 1000, 1000000, 0x7fffffff};
    static const uint32_t bytes[] = {0, 4, 8};
    for (size_t f = 0; f < 7; f++) {
        for (size_t r = 0; r < 5; r++) {
            for (uint32_t directions = 1; directions <= 2; directions++) {
                for (size_t b = 0; b < 3; b++) {
                    const uint64_t kept = nf_plan_pair_bytes(all_free[f], all_rows[r], directions, bytes[b]);
                    const uint64_t pairs = kept / 4;
                    assert_int_equal(kept % 4, 0);
                    if (kept == 0) continue;
                    assert_true(pairs * 4 + pairs * directions * (4 + bytes[b]) + all_rows[r] * 12 < all_free[f]);
                }
            }
        }
    }
    assert_int_equal(nf_plan_pair_bytes(0, 0, 1, 0), 0);
    assert_int_equal(nf_plan_pair_bytes(1 << 20, 1, 1, 8), 0);
    assert_true(nf_plan_pair_bytes(100 << 20, 1000, 2, 8) > 10 << 20);
    assert_true(nf_plan_pair_bytes(100 << 20, 1000, 1, 8) > nf_plan_pair_bytes(100 << 20, 1000, 2, 8));
    assert_true(nf_plan_pair_bytes(100 << 20, 1000, 2, 0) > nf_plan_pair_bytes(100 << 20, 1000, 2, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_groups_once), cmocka_unit_test(test_one_batch_when_it_fits),
        cmocka_unit_test(test_even),            cmocka_unit_test(test_groups_to_try),
        cmocka_unit_test(test_pair_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
