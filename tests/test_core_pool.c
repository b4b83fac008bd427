/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: every task once, first failure, cancel from everywhere, and use in a forked child. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/core_context.h"
#include "core/core_pool.h"

#define MOST_TASKS 5000

static nf_context *open_context(uint32_t threads, nf_progress_fn progress, void *user)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.threads = threads;
    params.progress = progress;
    params.progress_user = user;
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    return ctx;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

typedef struct pool_test {
    nf_context *ctx;
    atomic_int  runs[MOST_TASKS];
    atomic_int  busy[16];  /* by worker */
    atomic_int  wrong, started;
    uint32_t    workers;
    uint64_t    fail_at;
    atomic_bool hold;      /* tasks wait until it is false */
} pool_test;

static nf_status count_task(void *arg, uint64_t task, uint32_t worker)
{
    pool_test *test = arg;
    if (worker >= test->workers || task >= MOST_TASKS || atomic_fetch_add(&test->busy[worker], 1) != 0) test->wrong++;
    atomic_fetch_add(&test->runs[task], 1);
    nf_progress_add(test->ctx, 1);
    atomic_fetch_sub(&test->busy[worker], 1);
    return NF_OK;
}

static void test_every_task_once(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 1, 2, 3, 7, 8, 9, 100, MOST_TASKS};
    for (uint32_t threads = 1; threads <= 8; threads++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            pool_test *test = calloc(1, sizeof *test);
            test->ctx = open_context(threads, NULL, NULL);
            test->workers = nf_pool_workers(test->ctx, counts[c]);
            assert_int_equal(test->workers, counts[c] == 0 ? 1 : counts[c] < threads ? counts[c] : threads);
            assert_int_equal(nf_pool_run(test->ctx, count_task, test, counts[c]), NF_OK);
            for (uint64_t i = 0; i < MOST_TASKS; i++) assert_int_equal(test->runs[i], i < counts[c] ? 1 : 0);
            assert_int_equal(test->wrong, 0);
            nf_context_info info;
            nf_context_describe(test->ctx, &info);
            assert_int_equal(info.memory_used, 0);
            nf_context_destroy(test->ctx);
            free(test);
        }
    }
}

static nf_status failing_task(void *arg, uint64_t task, uint32_t worker)
{
    pool_test *test = arg;
    (void)worker;
    atomic_fetch_add(&test->started, 1);
    if (task == test->fail_at) return nf_fail(test->ctx, NF_ERR_VALUE, "task %d failed", (int)task);
    if (task > test->fail_at) sleep_ms(1);
    return NF_OK;
}

/* The failure is returned and recorded, and stops the run long before its end. */
static void test_first_failure(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 8; threads += 3) {
        pool_test *test = calloc(1, sizeof *test);
        test->ctx = open_context(threads, NULL, NULL);
        test->fail_at = 5;
        assert_int_equal(nf_pool_run(test->ctx, failing_task, test, 100000), NF_ERR_VALUE);
        assert_string_equal(nf_context_error(test->ctx)->text, "task 5 failed");
        assert_true(nf_context_stopping(test->ctx));
        assert_true(test->started < 50000);
        if (threads == 1) assert_int_equal(test->started, 6);
        nf_context_begin(test->ctx);
        assert_false(nf_context_stopping(test->ctx));
        nf_context_destroy(test->ctx);
        free(test);
    }
}

/* Waits until cancelled, but no longer than 20 seconds. */
static nf_status waiting_task(void *arg, uint64_t task, uint32_t worker)
{
    pool_test *test = arg;
    (void)task;
    (void)worker;
    atomic_fetch_add(&test->started, 1);
    for (int i = 0; i < 20000 && !nf_context_stopping(test->ctx); i++) sleep_ms(1);
    return NF_OK;
}

static void *cancel_soon(void *arg)
{
    pool_test *test = arg;
    while (test->started == 0) sleep_ms(1);
    nf_context_cancel(test->ctx);
    return NULL;
}

static void test_cancel_from_another_thread(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads++) {
        pool_test *test = calloc(1, sizeof *test);
        pthread_t  other;
        test->ctx = open_context(threads, NULL, NULL);
        nf_progress_begin(test->ctx, "refine", 0);
        assert_int_equal(pthread_create(&other, NULL, cancel_soon, test), 0);
        assert_int_equal(nf_pool_run(test->ctx, waiting_task, test, 1000), NF_ERR_CANCELLED);
        pthread_join(other, NULL);
        assert_int_equal(nf_context_error(test->ctx)->status, NF_ERR_CANCELLED);
        assert_non_null(strstr(nf_context_error(test->ctx)->text, "refine"));
        nf_context_begin(test->ctx);
        test->workers = threads;
        assert_int_equal(nf_pool_run(test->ctx, count_task, test, 10), NF_OK); /* usable again */
        nf_context_destroy(test->ctx);
        free(test);
    }
}

/* The calling thread's worker is through when another worker, on the last task, sees a cancel and leaves work undone: the
 * run must not be taken for a whole one. */
static nf_status late_task(void *arg, uint64_t task, uint32_t worker)
{
    pool_test *test = arg;
    (void)task;
    atomic_fetch_add(&test->started, 1);
    while (test->started < 2) sleep_ms(1);
    if (worker == 0) return NF_OK;
    sleep_ms(50);
    nf_context_cancel(test->ctx);
    return NF_OK;
}

static void test_late_cancel(void **state)
{
    (void)state;
    pool_test *test = calloc(1, sizeof *test);
    test->ctx = open_context(2, NULL, NULL);
    assert_int_equal(nf_pool_run(test->ctx, late_task, test, 2), NF_ERR_CANCELLED);
    nf_context_destroy(test->ctx);
    free(test);
}

static int stop_at_once(void *user, const char *step, uint64_t done, uint64_t total)
{
    atomic_int *calls = user;
    (*calls)++;
    assert_string_equal(step, "group");
    assert_true(done <= total);
    assert_int_equal(total, MOST_TASKS);
    return 1;
}

static void test_cancel_from_progress(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        pool_test *test = calloc(1, sizeof *test);
        atomic_int calls = 0;
        test->ctx = open_context(threads, stop_at_once, &calls);
        test->workers = threads;
        nf_progress_begin(test->ctx, "group", MOST_TASKS);
        assert_int_equal(nf_pool_run(test->ctx, count_task, test, MOST_TASKS), NF_ERR_CANCELLED);
        assert_int_equal(calls, 1);
        if (threads == 1) assert_int_equal(test->runs[1], 0);
        nf_context_destroy(test->ctx);
        free(test);
    }
}

typedef struct watcher {
    pthread_t caller;
    int       calls, elsewhere;
    uint64_t  last;
    int       backwards;
} watcher;

static int watch(void *user, const char *step, uint64_t done, uint64_t total)
{
    watcher *at = user;
    (void)step;
    (void)total;
    at->calls++;
    if (!pthread_equal(pthread_self(), at->caller)) at->elsewhere++;
    if (done < at->last) at->backwards++;
    at->last = done;
    return 0;
}

static nf_status short_task(void *arg, uint64_t task, uint32_t worker)
{
    (void)task;
    (void)worker;
    sleep_ms(5);
    nf_progress_add(arg, 1);
    return NF_OK;
}

/* About ten times a second at most, on the calling thread alone, with numbers that never fall. */
static void test_progress(void **state)
{
    (void)state;
    watcher     at = {.caller = pthread_self()};
    nf_context *ctx = open_context(3, watch, &at);
    nf_progress_begin(ctx, "refine", 300);
    const double started = nf_now();
    assert_int_equal(nf_pool_run(ctx, short_task, ctx, 300), NF_OK);
    const double seconds = nf_now() - started;
    assert_true(at.calls >= 2);
    assert_true(at.calls <= 10.0 * seconds + 2.0);
    assert_int_equal(at.elsewhere, 0);
    assert_int_equal(at.backwards, 0);
    nf_context_destroy(ctx);
}

static void test_after_fork(void **state)
{
    (void)state;
    pool_test *test = calloc(1, sizeof *test);
    test->ctx = open_context(4, NULL, NULL);
    test->workers = 4;
    assert_int_equal(nf_pool_run(test->ctx, count_task, test, 100), NF_OK);
    const pid_t child = fork();
    if (child == 0) {
        const nf_status status = nf_pool_run(test->ctx, count_task, test, 100);
        int             bad = status != NF_OK || test->wrong != 0;
        for (uint64_t i = 0; i < 100; i++) bad |= test->runs[i] != 2;
        _exit(bad);
    }
    assert_true(child > 0);
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
    assert_int_equal(nf_pool_run(test->ctx, count_task, test, 100), NF_OK);
    nf_context_destroy(test->ctx);
    free(test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_once),
        cmocka_unit_test(test_first_failure),
        cmocka_unit_test(test_cancel_from_another_thread),
        cmocka_unit_test(test_late_cancel),
        cmocka_unit_test(test_cancel_from_progress),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_after_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
