/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes wrong in the middle: every allocation fails once in turn, the caller cancels at every point, streams are closed
 * early. Nothing leaks, and the context answers correctly afterwards.
 */
#include "exact_helper.h"
#include "memory_helper.h"

#define ROWS 300u

typedef struct fixture {
    memory_hook hook;
    nf_context *ctx;
    nf_matrix   data, queries;
    exact_truth self, semi;
} fixture;

static int stop_now(void *user, const char *step, uint64_t done, uint64_t total)
{
    (void)step;
    (void)done;
    (void)total;
    long *left = user; /* calls until one cancels; below 0: never */
    if (*left < 0) return 0;
    return (*left)-- == 0;
}

static nf_context *hooked_context(memory_hook *hook, uint32_t threads, nf_progress_fn progress, void *user)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.threads = threads;
    params.allocator = memory_hook_allocator(hook);
    params.progress = progress;
    params.progress_user = user;
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    hook->cancelled = ctx;
    return ctx;
}

static nf_matrix scattered(nf_dtype dtype, uint64_t rows, uint64_t seed)
{
    nf_matrix data = exact_matrix(dtype, rows, 3);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < 3; c++) exact_put(&data, i, c, (double)random_below(&seed, 12));
    }
    return data;
}

static void open_fixture(fixture *at, uint32_t threads)
{
    memset(at, 0, sizeof *at);
    at->ctx = hooked_context(&at->hook, threads, NULL, NULL);
    at->data = scattered(NF_DTYPE_F32, ROWS, 1);
    at->queries = scattered(NF_DTYPE_U8, 100, 2);
    at->self = exact_truth_of(&at->data, NULL, 2.0);
    at->semi = exact_truth_of(&at->data, &at->queries, 2.0);
}

static void close_fixture(fixture *at)
{
    nf_context_destroy(at->ctx);
    assert_int_equal(at->hook.live_blocks, 0);
    assert_int_equal(at->hook.live_bytes, 0);
    assert_int_equal(at->hook.mismatches, 0);
    exact_truth_free(&at->self);
    exact_truth_free(&at->semi);
    exact_free(&at->data);
    exact_free(&at->queries);
}

/* Index, then CSR, counts and stream, for a self-join and a semi-join. Stops at the first failure and releases all. */
static nf_status work_through(const fixture *at, int semi)
{
    const nf_matrix   *queries = semi ? &at->queries : NULL;
    nf_radius_params   params = exact_params(2.0);
    nf_radius_index   *index = NULL;
    nf_csr            *csr = NULL;
    nf_radius_stream  *stream = NULL;
    nf_radius_batch    batch;
    uint64_t           counts[ROWS];
    params.sort = semi ? NF_SORT_DISTANCE : NF_SORT_ID;
    params.distances = semi ? NF_DISTANCES_F32 : NF_DISTANCES_F64;

    nf_status status = nf_radius_index_create(at->ctx, &at->data, NULL, &index);
    assert_true((status == NF_OK) == (index != NULL));
    if (status == NF_OK) {
        status = nf_radius_csr(at->ctx, index, queries, &params, &csr, NULL);
        assert_true((status == NF_OK) == (csr != NULL));
        nf_csr_release(csr);
    }
    if (status == NF_OK) status = nf_radius_counts(at->ctx, index, queries, &params, counts, NULL);
    if (status == NF_OK) {
        status = nf_radius_open(at->ctx, index, queries, &params, &stream);
        assert_true((status == NF_OK) == (stream != NULL));
    }
    if (status == NF_OK) status = NF_MORE;
    while (status == NF_MORE) status = nf_radius_next(stream, &batch);
    if (status < 0) assert_int_equal(nf_context_error(at->ctx)->status, status);
    nf_radius_close(stream);
    nf_radius_index_release(index);
    return status;
}

static nf_status work_and_count(fixture *at, int semi, long live)
{
    const nf_status status = work_through(at, semi);
    assert_int_equal(at->hook.live_blocks, live);
    return status;
}

static void check_after(fixture *at)
{
    nf_radius_index       *index = exact_index(at->ctx, &at->data, 0);
    const nf_radius_params params = exact_params(2.0);
    exact_check_csr(at->ctx, index, NULL, &params, &at->self);
    exact_check_csr(at->ctx, index, &at->queries, &params, &at->semi);
    nf_radius_index_release(index);
}

static void test_every_allocation_fails(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        for (int semi = 0; semi < 2; semi++) {
            fixture at;
            long    failures = 0;
            open_fixture(&at, threads);
            const long live = at.hook.live_blocks;
            for (long n = 1;; n++) {
                const long before = at.hook.calls;
                at.hook.fail_at = before + n;
                const nf_status status = work_and_count(&at, semi, live);
                if (at.hook.calls < before + n) {
                    assert_int_equal(status, NF_OK);
                    break;
                }
                /* Blocks of pairs are only tried: without one, smaller batches do. */
                assert_true(status == NF_ERR_MEMORY || status == NF_ERR_LIMIT || status == NF_OK);
                failures += status != NF_OK;
                assert_true(n < 5000);
            }
            assert_true(failures > 40);
            at.hook.fail_at = 0;
            check_after(&at);
            close_fixture(&at);
        }
    }
}

/* From the n-th allocation on nothing is left. */
static void test_memory_runs_out(void **state)
{
    (void)state;
    fixture at;
    open_fixture(&at, 2);
    const long live = at.hook.live_blocks;
    for (int semi = 0; semi < 2; semi++) {
        for (long n = 1; n < 5000; n += 3) {
            const long before = at.hook.calls;
            at.hook.fail_from = before + n;
            const nf_status status = work_and_count(&at, semi, live);
            if (at.hook.calls < before + n) break;
            assert_true(status == NF_ERR_MEMORY || status == NF_ERR_LIMIT);
        }
        at.hook.fail_from = 0;
    }
    check_after(&at);
    close_fixture(&at);
}

/* A cancel at each allocation in turn: the call ends as cancelled, or had nothing left to do. */
static void test_cancel_everywhere(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        fixture at;
        long    cancelled = 0;
        open_fixture(&at, threads);
        const long live = at.hook.live_blocks;
        for (long n = 1; n < 5000; n++) {
            const long before = at.hook.calls;
            at.hook.cancel_at = before + n;
            const nf_status status = work_and_count(&at, n % 2 == 0, live);
            if (at.hook.calls < before + n) break;
            assert_true(status == NF_ERR_CANCELLED || status == NF_OK);
            cancelled += status == NF_ERR_CANCELLED;
            at.hook.cancel_at = 0;
            if (n % 16 == 1) check_after(&at);
        }
        at.hook.cancel_at = 0;
        assert_true(cancelled > 40);
        check_after(&at);
        close_fixture(&at);
    }
}

/* The progress callback cancels at its first call of each step in turn. */
static void test_cancel_from_progress(void **state)
{
    (void)state;
    memory_hook hook = {0};
    long        left = 0;
    nf_context *ctx = hooked_context(&hook, 2, stop_now, &left);
    nf_matrix   data = scattered(NF_DTYPE_F64, ROWS, 3);
    nf_radius_index *index = (nf_radius_index *)&index;
    nf_radius_params params = exact_params(2.0);
    nf_csr          *csr = (nf_csr *)&csr;
    uint64_t         counts[ROWS];
    const long       live = hook.live_blocks;

    assert_int_equal(nf_radius_index_create(ctx, &data, NULL, &index), NF_ERR_CANCELLED);
    assert_null(index);
    assert_non_null(strstr(nf_context_error(ctx)->text, "progress callback"));
    assert_int_equal(hook.live_blocks, live);
    left = -1;
    index = exact_index(ctx, &data, 0);
    left = 0;
    assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &csr, NULL), NF_ERR_CANCELLED);
    assert_null(csr);
    left = 0;
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, NULL), NF_ERR_CANCELLED);
    left = -1;
    exact_truth truth = exact_truth_of(&data, NULL, 2.0);
    exact_check_csr(ctx, index, NULL, &params, &truth);
    exact_truth_free(&truth);
    nf_radius_index_release(index);
    assert_int_equal(hook.live_blocks, live);
    nf_context_destroy(ctx);
    assert_int_equal(hook.live_blocks, 0);
    exact_free(&data);
}

/* A cancel before the call stops the call, once. */
static void test_cancel_beforehand(void **state)
{
    (void)state;
    fixture          at;
    nf_radius_index *index = NULL;
    open_fixture(&at, 1);
    nf_context_cancel(at.ctx);
    assert_int_equal(nf_radius_index_create(at.ctx, &at.data, NULL, &index), NF_ERR_CANCELLED);
    assert_null(index);
    check_after(&at);
    close_fixture(&at);
}

/* Closed after each number of batches. */
static void test_stream_closed_early(void **state)
{
    (void)state;
    memory_hook hook = {0};
    nf_context *ctx = hooked_context(&hook, 1, NULL, NULL);
    nf_matrix   data = exact_matrix(NF_DTYPE_U8, 1500, 1);
    for (uint64_t i = 0; i < data.rows; i++) exact_put(&data, i, 0, (double)(i % 200));
    nf_radius_index *index = exact_index(ctx, &data, 0);
    nf_radius_params params = exact_params(60.0);
    params.batch_pairs = 100000;
    const long live = hook.live_blocks;
    for (uint32_t batches = 0; batches < 4; batches++) {
        nf_radius_stream *stream = NULL;
        nf_radius_batch   batch;
        nf_radius_stats   stats = {.struct_size = sizeof stats};
        assert_int_equal(nf_radius_open(ctx, index, NULL, &params, &stream), NF_OK);
        for (uint32_t i = 0; i < batches; i++) assert_int_equal(nf_radius_next(stream, &batch), NF_MORE);
        nf_radius_stream_stats(stream, &stats);
        assert_int_equal(stats.batches, batches);
        nf_radius_close(stream);
        assert_int_equal(hook.live_blocks, live);
    }
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    assert_int_equal(hook.live_blocks, 0);
    exact_free(&data);
}

/* Failures of the input leave nothing behind either. */
static void test_bad_input_leaks_nothing(void **state)
{
    (void)state;
    fixture    at;
    open_fixture(&at, 2);
    nf_matrix        bad = scattered(NF_DTYPE_F64, 100, 4);
    nf_radius_index *index = NULL;
    nf_csr          *csr = NULL;
    nf_radius_params params = exact_params(1.0);
    exact_put(&bad, 99, 1, (double)NAN);
    const long live = at.hook.live_blocks;
    assert_int_equal(nf_radius_index_create(at.ctx, &bad, NULL, &index), NF_ERR_VALUE);
    assert_int_equal(at.hook.live_blocks, live);
    index = exact_index(at.ctx, &at.data, 0);
    const long with_index = at.hook.live_blocks;
    assert_int_equal(nf_radius_csr(at.ctx, index, &bad, &params, &csr, NULL), NF_ERR_VALUE);
    params.max_results = 1;
    assert_int_equal(nf_radius_csr(at.ctx, index, NULL, &params, &csr, NULL), NF_ERR_LIMIT);
    params.radius = -1.0;
    assert_int_equal(nf_radius_csr(at.ctx, index, NULL, &params, &csr, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(at.hook.live_blocks, with_index);
    nf_radius_index_release(index);
    exact_free(&bad);
    close_fixture(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails), cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_cancel_everywhere),      cmocka_unit_test(test_cancel_from_progress),
        cmocka_unit_test(test_cancel_beforehand),      cmocka_unit_test(test_stream_closed_early),
        cmocka_unit_test(test_bad_input_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
