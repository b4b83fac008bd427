/* SPDX-License-Identifier: Apache-2.0 */
/* Memory accounts: limit, overflow, peak, failures of the allocator, blocks that outlive their context. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/core_context.h"
#include "core/core_memory.h"
#include "memory_helper.h"

#define HEAD 64u /* bytes of book-keeping in front of a block; counts towards the limit */

static nf_context *open_context(memory_hook *hook, uint64_t memory)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.memory = memory;
    params.threads = 1;
    if (hook != NULL) params.allocator = memory_hook_allocator(hook);
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    return ctx;
}

static uint64_t used(const nf_context *ctx)
{
    nf_context_info info;
    nf_context_describe(ctx, &info);
    return info.memory_used;
}

static uint64_t peak(const nf_context *ctx)
{
    nf_context_info info;
    nf_context_describe(ctx, &info);
    return info.memory_peak;
}

static void test_limit(void **state)
{
    (void)state;
    nf_context *ctx = open_context(NULL, 1 << 20);

    void *whole = nf_alloc(ctx, 1, (1 << 20) - HEAD);
    assert_non_null(whole);
    assert_int_equal(used(ctx), 1 << 20);
    assert_null(nf_alloc(ctx, 1, 1));
    assert_int_equal(nf_context_error(ctx)->status, NF_ERR_LIMIT);
    assert_int_equal(nf_alloc_status(ctx), NF_ERR_LIMIT);
    assert_non_null(strstr(nf_context_error(ctx)->text, "1048576"));
    nf_free(whole);
    assert_int_equal(used(ctx), 0);

    nf_context_begin(ctx);
    assert_int_equal(nf_context_error(ctx)->status, NF_OK);
    assert_null(nf_alloc(ctx, 1, (1 << 20) - HEAD + 1));
    assert_int_equal(nf_context_error(ctx)->status, NF_ERR_LIMIT);
    assert_int_equal(used(ctx), 0);

    nf_context_begin(ctx);
    void *half = nf_alloc(ctx, 512, 1024);
    assert_non_null(half);
    assert_null(nf_alloc(ctx, 512, 1024));
    nf_free(half);
    half = nf_alloc(ctx, 512, 1024);
    assert_non_null(half);
    nf_free(half);
    nf_context_destroy(ctx);
}

static void test_overflow(void **state)
{
    (void)state;
    static const struct {
        uint64_t count;
        size_t   size;
    } cases[] = {
        {UINT64_MAX, 1}, {UINT64_MAX, 2}, {1ull << 63, 2}, {1ull << 32, (size_t)1 << 32}, {UINT64_MAX / 8 + 1, 8},
        {UINT64_MAX - 63, 1}, {(uint64_t)SIZE_MAX / 2 + 1, 1},
    };
    nf_context *ctx = open_context(NULL, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nf_context_begin(ctx);
        assert_null(nf_alloc(ctx, cases[i].count, cases[i].size));
        assert_int_equal(nf_context_error(ctx)->status, NF_ERR_MEMORY);
        nf_context_begin(ctx);
        assert_null(nf_alloc_zero(ctx, cases[i].count, cases[i].size));
        assert_int_equal(nf_alloc_status(ctx), NF_ERR_MEMORY);
        assert_null(nf_try_alloc(ctx, cases[i].count, cases[i].size));
        assert_int_equal(used(ctx), 0);
    }
    uint64_t product = 0;
    assert_true(nf_multiply(UINT32_MAX, UINT32_MAX, &product));
    assert_true(product == 18446744065119617025ull);
    assert_false(nf_multiply(1ull << 33, 1ull << 31, &product));
    nf_context_destroy(ctx);
}

static void test_blocks(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 1 << 20, 5 << 20};
    memory_hook         hook = {0};
    nf_context         *ctx = open_context(&hook, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *block = nf_alloc(ctx, sizes[i], 1), *zero = nf_alloc_zero(ctx, sizes[i], 1);
        assert_non_null(block);
        assert_non_null(zero);
        assert_int_equal((uintptr_t)block % 64, 0);
        assert_int_equal((uintptr_t)zero % 64, 0);
        memset(block, 1, sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++) assert_true(zero[k] == 0);
        nf_free(block);
        nf_free(zero);
    }
    nf_free(NULL);
    assert_int_equal(used(ctx), 0);
    nf_context_destroy(ctx);
    assert_int_equal(hook.live_blocks, 0);
    assert_int_equal(hook.mismatches, 0);
}

static void test_peak(void **state)
{
    (void)state;
    nf_context *ctx = open_context(NULL, 0);
    void       *a = nf_alloc(ctx, 1000, 1), *b = nf_alloc(ctx, 500, 2);
    assert_int_equal(used(ctx), 2 * (1000 + HEAD));
    nf_free(a);
    nf_free(b);
    a = nf_alloc(ctx, 100, 1);
    assert_int_equal(used(ctx), 100 + HEAD);
    assert_int_equal(peak(ctx), 2 * (1000 + HEAD));
    nf_free(a);
    assert_int_equal(used(ctx), 0);
    assert_int_equal(peak(ctx), 2 * (1000 + HEAD));
    nf_context_destroy(ctx);
}

/* The allocator fails at each call in turn: the status says so, nothing stays booked, and only the first text is kept. */
static void test_allocator_fails(void **state)
{
    (void)state;
    for (long n = 1; n <= 4; n++) {
        memory_hook hook = {0};
        nf_context *ctx = open_context(&hook, 0);
        void       *blocks[4];
        hook.fail_at = hook.calls + n;
        for (long i = 0; i < 4; i++) {
            const uint64_t before = used(ctx);
            blocks[i] = nf_alloc(ctx, 100 + (uint64_t)i, 10);
            if (i + 1 == n) {
                assert_null(blocks[i]);
                assert_int_equal(used(ctx), before);
                assert_int_equal(nf_context_error(ctx)->status, NF_ERR_MEMORY);
                assert_int_equal(nf_alloc_status(ctx), NF_ERR_MEMORY);
            } else {
                assert_non_null(blocks[i]);
            }
        }
        char first[512];
        strcpy(first, nf_context_error(ctx)->text);
        assert_null(nf_alloc(ctx, UINT64_MAX, 8));
        assert_string_equal(nf_context_error(ctx)->text, first);
        for (long i = 0; i < 4; i++) nf_free(blocks[i]);
        assert_int_equal(used(ctx), 0);
        nf_context_destroy(ctx);
        assert_int_equal(hook.live_blocks, 0);
        assert_int_equal(hook.live_bytes, 0);
    }
}

static void test_try_records_nothing(void **state)
{
    (void)state;
    memory_hook hook = {0};
    nf_context *ctx = open_context(&hook, 1 << 20);
    assert_null(nf_try_alloc(ctx, 2, 1 << 20));
    hook.fail_at = hook.calls + 1;
    assert_null(nf_try_alloc(ctx, 1, 8));
    assert_int_equal(nf_context_error(ctx)->status, NF_OK);
    assert_int_equal(used(ctx), 0);
    void *block = nf_try_alloc(ctx, 1, 8);
    assert_non_null(block);
    nf_free(block);
    nf_context_destroy(ctx);
}

static void test_outlives_context(void **state)
{
    (void)state;
    memory_hook hook = {0};
    nf_context *ctx = open_context(&hook, 1 << 20);
    char       *under = nf_alloc(ctx, 1000, 1);
    nf_memory  *own = nf_memory_create_unlimited(ctx);
    assert_non_null(own);
    assert_int_equal(nf_memory_limit(own), 0);
    const uint64_t before = used(ctx);
    char          *free_of_limit = nf_alloc_in(ctx, own, 4, 1 << 20);
    assert_non_null(free_of_limit);
    assert_int_equal(used(ctx), before);
    assert_int_equal(nf_memory_used(own), (4 << 20) + HEAD);
    nf_memory_release(own);
    nf_context_destroy(ctx);
    assert_true(hook.live_blocks > 0);
    memset(under, 7, 1000);
    memset(free_of_limit, 7, 4 << 20);
    nf_free(under);
    nf_free(free_of_limit);
    assert_int_equal(hook.live_blocks, 0);
    assert_int_equal(hook.mismatches, 0);
}

static void test_no_context(void **state)
{
    (void)state;
    memory_hook       hook = {.fail_from = 1};
    nf_context_params params;
    nf_context       *ctx = (nf_context *)&params;
    nf_error          error;
    nf_context_params_init(&params);
    params.allocator = memory_hook_allocator(&hook);
    assert_int_equal(nf_context_create(&params, &ctx, &error), NF_ERR_MEMORY);
    assert_null(ctx);
    assert_int_equal(error.status, NF_ERR_MEMORY);
    params.allocator.release = NULL;
    assert_int_equal(nf_context_create(&params, &ctx, &error), NF_ERR_ARGUMENT);
    assert_int_equal(hook.live_blocks, 0);
}

typedef struct thread_run {
    nf_context *ctx;
    atomic_long refused;
} thread_run;

static void *allocate_a_lot(void *arg)
{
    thread_run *run = arg;
    for (int i = 0; i < 2000; i++) {
        char *a = nf_try_alloc(run->ctx, 3000, 1), *b = nf_try_alloc(run->ctx, 5000, 1);
        if (a == NULL || b == NULL) run->refused++;
        if (a != NULL) memset(a, i, 3000);
        if (b != NULL) memset(b, i, 5000);
        nf_free(b);
        nf_free(a);
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    memory_hook hook = {0};
    thread_run  run = {.ctx = open_context(&hook, 20000)};
    pthread_t   threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, allocate_a_lot, &run), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(used(run.ctx), 0);
    assert_true(peak(run.ctx) <= 20000);
    assert_true(run.refused < 2000 * THREADS);
    nf_context_destroy(run.ctx);
    assert_int_equal(hook.live_blocks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_peak),
        cmocka_unit_test(test_allocator_fails),
        cmocka_unit_test(test_try_records_nothing),
        cmocka_unit_test(test_outlives_context),
        cmocka_unit_test(test_no_context),
        cmocka_unit_test(test_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
