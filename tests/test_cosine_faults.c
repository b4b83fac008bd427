/* SPDX-License-Identifier: Apache-2.0 */
/* Joins by cosine, radii for a selectivity and estimates: every allocation fails once in turn, the caller cancels at
 * each of them. Nothing leaks, and the same context counts correctly afterwards. */
#include "exact_helper.h"
#include "memory_helper.h"
#include "nearfield/cluster.h"
#include "nearfield/estimate.h"

#define ROWS 120u

typedef struct fixture {
    memory_hook hook;
    nf_context *ctx;
    nf_matrix   data, queries;
    uint64_t    pairs; /* of the semi-join */
} fixture;

static nf_status join(const fixture *at, const nf_radius_index *index, const nf_matrix *queries, uint64_t *pairs)
{
    nf_radius_params  params;
    nf_csr           *csr = NULL;
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    uint64_t          counts[ROWS];
    nf_radius_params_init(&params);
    params.similarity = 0.9;
    params.batch_pairs = 100;

    nf_status status = nf_radius_csr(at->ctx, index, queries, &params, &csr, NULL);
    if (status == NF_OK) *pairs = csr->pairs;
    nf_csr_release(csr);
    if (status == NF_OK) status = nf_radius_counts(at->ctx, index, queries, &params, counts, NULL);
    if (status == NF_OK) status = nf_radius_open(at->ctx, index, queries, &params, &stream);
    if (status == NF_OK) status = NF_MORE;
    while (status == NF_MORE) status = nf_radius_next(stream, &batch);
    nf_radius_close(stream);
    return status;
}

static nf_status say_before(const fixture *at, const nf_radius_index *index)
{
    nf_sample_params sample;
    nf_radius_params params;
    nf_selectivity   found = {.struct_size = sizeof found};
    nf_join_estimate estimate = {.struct_size = sizeof estimate};
    nf_sample_params_init(&sample);
    sample.rows = 40;
    sample.self_join = 1;
    nf_radius_params_init(&params);
    params.similarity = 0.9;
    const nf_status status = nf_radius_for_selectivity(at->ctx, index, &at->data, 3.0, &sample, &found);
    return status != NF_OK ? status : nf_radius_estimate(at->ctx, index, &at->data, &params, &sample, &estimate);
}

static nf_status cluster(const fixture *at, const nf_radius_index *index)
{
    nf_dbscan_params params;
    int64_t          labels[ROWS];
    nf_dbscan_params_init(&params);
    params.similarity = 0.99;
    return nf_dbscan(at->ctx, index, &params, labels, NULL, NULL);
}

/* All of it; stops at the first failure and releases what there is. */
static nf_status work_through(const fixture *at, uint64_t *pairs)
{
    nf_radius_index_params params;
    nf_radius_index       *index = NULL;
    nf_radius_index_params_init(&params);
    params.metric = NF_METRIC_COSINE;
    nf_status status = nf_radius_index_create(at->ctx, &at->data, &params, &index);
    if (status == NF_OK) status = join(at, index, NULL, pairs);
    if (status == NF_OK) status = join(at, index, &at->queries, pairs);
    if (status == NF_OK) status = say_before(at, index);
    if (status == NF_OK) status = cluster(at, index);
    if (status < 0) assert_int_equal(nf_context_error(at->ctx)->status, status);
    nf_radius_index_release(index);
    return status;
}

static nf_matrix scattered(uint64_t rows, uint64_t seed)
{
    nf_matrix data = exact_matrix(NF_DTYPE_F32, rows, 3);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < 3 && i % 9 != 0; c++) exact_put(&data, i, c, (double)random_below(&seed, 12));
    }
    return data;
}

static void open_fixture(fixture *at)
{
    nf_context_params params;
    memset(at, 0, sizeof *at);
    nf_context_params_init(&params);
    params.threads = 2;
    params.allocator = memory_hook_allocator(&at->hook);
    assert_int_equal(nf_context_create(&params, &at->ctx, NULL), NF_OK);
    at->hook.cancelled = at->ctx;
    at->data = scattered(ROWS, 1);
    at->queries = scattered(50, 2);
    assert_int_equal(work_through(at, &at->pairs), NF_OK);
    assert_true(at->pairs > 100);
}

static void close_fixture(fixture *at)
{
    uint64_t pairs = 0;
    at->hook.fail_at = at->hook.cancel_at = 0;
    assert_int_equal(work_through(at, &pairs), NF_OK);
    assert_int_equal(pairs, at->pairs);
    nf_context_destroy(at->ctx);
    assert_int_equal(at->hook.live_blocks, 0);
    assert_int_equal(at->hook.mismatches, 0);
    exact_free(&at->data);
    exact_free(&at->queries);
}

static void test_every_allocation_fails(void **state)
{
    (void)state;
    fixture at;
    long    failures = 0;
    open_fixture(&at);
    const long live = at.hook.live_blocks;
    for (long n = 1;; n++) {
        uint64_t   pairs = 0;
        const long before = at.hook.calls;
        at.hook.fail_at = before + n;
        const nf_status status = work_through(&at, &pairs);
        assert_int_equal(at.hook.live_blocks, live);
        if (at.hook.calls < before + n) break;
        /* Blocks of pairs are only tried: without one, smaller batches do. */
        assert_true(status == NF_ERR_MEMORY || status == NF_ERR_LIMIT || status == NF_OK);
        failures += status != NF_OK;
        assert_true(n < 20000);
    }
    assert_true(failures > 100);
    close_fixture(&at);
}

static void test_cancel_everywhere(void **state)
{
    (void)state;
    fixture at;
    long    cancelled = 0;
    open_fixture(&at);
    const long live = at.hook.live_blocks;
    for (long n = 1;; n++) {
        uint64_t   pairs = 0;
        const long before = at.hook.calls;
        at.hook.cancel_at = before + n;
        const nf_status status = work_through(&at, &pairs);
        assert_int_equal(at.hook.live_blocks, live);
        if (at.hook.calls < before + n) break;
        assert_true(status == NF_ERR_CANCELLED || status == NF_OK);
        cancelled += status != NF_OK;
        assert_true(n < 20000);
    }
    assert_true(cancelled > 20);
    close_fixture(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_cancel_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
