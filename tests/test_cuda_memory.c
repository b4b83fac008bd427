/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA engine where memory ends: results larger than the device memory it may use, limits of every size, every
 * allocation and every call of the device failing once, cancelling. The answer is the CPU engine's to the byte or there is
 * none, and nothing stays behind. On the emulated device (tests/emulator) failures are had on purpose; on a GPU those tests
 * are skipped.
 */
#include "exact_helper.h"
#include "emulator/emulator_control.h"
#include "memory_helper.h"

#define ROWS 500u
#define GROUP 24u /* small, so that a group's results fit small memory */
#define MEGABYTE (1ull << 20)

static nf_emulated_control device; /* what the emulated device tells; it writes here as long as the process lives */
static int                 emulated;

typedef struct setting {
    nf_engine_kind engine;
    uint32_t       threads;
    uint64_t       memory, gpu_memory;
    memory_hook   *hook;
    nf_progress_fn progress;
    void          *user;
} setting;

static nf_context *context(setting with)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_error          error;
    nf_context_params_init(&params);
    params.engine = (uint32_t)with.engine;
    params.threads = with.threads != 0 ? with.threads : 2;
    params.memory = with.memory;
    params.gpu_memory = with.gpu_memory;
    params.progress = with.progress;
    params.progress_user = with.user;
    if (with.hook != NULL) params.allocator = memory_hook_allocator(with.hook);
    if (nf_context_create(&params, &ctx, &error) != NF_OK) fail_msg("%s", error.text);
    if (with.hook != NULL) with.hook->cancelled = ctx;
    return ctx;
}

static nf_context *cuda_context(uint64_t gpu_memory)
{
    return context((setting){.engine = NF_ENGINE_CUDA, .gpu_memory = gpu_memory});
}

/* Points of a grid, so that pairs lie at the radius, and some are equal. */
static nf_matrix grid(nf_dtype dtype, uint64_t rows, uint64_t seed)
{
    nf_matrix data = exact_matrix(dtype, rows, 2);
    for (uint64_t i = 0; i < rows; i++) {
        exact_put(&data, i, 0, (double)random_below(&seed, 40));
        exact_put(&data, i, 1, (double)random_below(&seed, 40));
    }
    return data;
}

static nf_csr *answer_of(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t group_size,
                         const nf_radius_params *params, nf_radius_stats *stats)
{
    nf_csr          *csr = NULL;
    nf_radius_index *index = exact_index(ctx, data, group_size);
    stats->struct_size = sizeof *stats;
    if (nf_radius_csr(ctx, index, queries, params, &csr, stats) != NF_OK) fail_msg("%s", nf_context_error(ctx)->text);
    nf_radius_index_release(index);
    return csr;
}

static nf_csr *cpu_answer(const nf_matrix *data, const nf_matrix *queries, const nf_radius_params *params,
                          nf_radius_stats *stats)
{
    nf_context      *ctx = context((setting){.engine = NF_ENGINE_CPU});
    nf_radius_params plain = *params; /* without what the CPU does not do */
    plain.share = plain.result = plain.group_bounds = 0;
    plain.batch_pairs = plain.max_results = 0;
    nf_csr *csr = answer_of(ctx, data, queries, 0, &plain, stats);
    nf_context_destroy(ctx);
    return csr;
}

static uint64_t result_bytes(const nf_csr *csr)
{
    return csr->pairs * (4 + (csr->distances_as == NF_DISTANCES_F64 ? 8 : csr->distances_as == NF_DISTANCES_F32 ? 4 : 0));
}

static void check_stats(const nf_radius_stats *stats, const nf_radius_stats *expected)
{
    assert_int_equal(stats->pairs, expected->pairs);
    assert_int_equal(stats->ties, expected->ties);
    assert_memory_equal(stats->histogram, expected->histogram, sizeof stats->histogram);
}

/* ---- results larger than the memory ---- */

/* A row of a batch is the row of the whole answer. */
static int same_row(const nf_radius_batch *batch, uint64_t row, const nf_csr *whole)
{
    const size_t   bytes = whole->distances_as == NF_DISTANCES_F64 ? 8 : whole->distances_as == NF_DISTANCES_F32 ? 4 : 0;
    const int32_t  id = batch->query_ids[row];
    const uint64_t begin = (uint64_t)batch->indptr[row], count = (uint64_t)batch->indptr[row + 1] - begin;
    const uint64_t from = (uint64_t)whole->indptr[id];
    return (uint64_t)whole->indptr[id + 1] - from == count &&
           memcmp(batch->indices + begin, whole->indices + from, count * sizeof *batch->indices) == 0 &&
           (bytes == 0 || memcmp((const char *)batch->distances + begin * bytes, (const char *)whole->distances + from * bytes,
                                 count * bytes) == 0);
}

/* The same by stream. Returns the number of batches; those after the first and before the last are about alike where even. */
static uint64_t check_stream(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                             const nf_radius_params *params, const nf_csr *whole, const nf_radius_stats *expected, int even)
{
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    nf_radius_stats   stats = {.struct_size = sizeof stats};
    uint64_t          pairs[4096], batches = 0, rows = 0, least = UINT64_MAX, most = 0;
    nf_status         status;
    assert_int_equal(nf_radius_open(ctx, index, queries, params, &stream), NF_OK);
    while ((status = nf_radius_next(stream, &batch)) == NF_MORE) {
        assert_true(batches < 4096);
        pairs[batches++] = batch.pairs;
        rows += batch.rows;
        for (uint64_t i = 0; i < batch.rows; i++) assert_true(same_row(&batch, i, whole));
    }
    if (status != NF_OK) fail_msg("%s", nf_context_error(ctx)->text);
    assert_int_equal(rows, whole->rows);
    nf_radius_stream_stats(stream, &stats);
    check_stats(&stats, expected);
    assert_int_equal(stats.batches, batches);
    nf_radius_close(stream);
    for (uint64_t b = 1; b + 1 < batches; b++) {
        if (pairs[b] < least) least = pairs[b];
        if (pairs[b] > most) most = pairs[b];
    }
    if (even && batches > 2 && most > 2 * least) {
        fail_msg("%d batches, of %d to %d pairs", (int)batches, (int)least, (int)most);
    }
    return batches;
}

/* In a quarter of the memory that the result takes: CSR and stream, the CPU engine's bytes. */
static void check_in_a_quarter(const nf_matrix *data, const nf_matrix *queries, const nf_radius_params *params)
{
    nf_radius_stats  expected = {0}, stats = {0};
    nf_csr          *wanted = cpu_answer(data, queries, params, &expected);
    nf_context      *ctx = cuda_context(result_bytes(wanted) / 4);
    nf_csr          *csr = answer_of(ctx, data, queries, GROUP, params, &stats);
    nf_radius_index *index = exact_index(ctx, data, GROUP);

    if (!exact_same(csr, wanted)) exact_fail("not the bytes of the CPU engine", 0, params, &stats);
    check_stats(&stats, &expected);
    assert_true(stats.batches > 1);
    const int even = params->radius == HUGE_VAL; /* every row is as long as any other */
    assert_true(check_stream(ctx, index, queries, params, wanted, &expected, even) > 1);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    nf_csr_release(csr);
    nf_csr_release(wanted);
}

static void test_self_join_larger_than_memory(void **state)
{
    (void)state;
    nf_matrix data = grid(NF_DTYPE_F32, ROWS, 1);
    for (uint32_t bits = 0; bits < 4; bits++) {
        nf_radius_params params = exact_params(bits == 0 ? HUGE_VAL : 25.0);
        params.half = bits & 1;
        params.self = bits >> 1;
        params.sort = bits == 2 ? NF_SORT_DISTANCE : NF_SORT_ID;
        check_in_a_quarter(&data, NULL, &params);
    }
    exact_free(&data);
}

static void test_semi_join_larger_than_memory(void **state)
{
    (void)state;
    nf_matrix        data = grid(NF_DTYPE_F32, ROWS, 2), queries = grid(NF_DTYPE_F64, 1300, 3);
    nf_radius_params params = exact_params(25.0);
    check_in_a_quarter(&data, &queries, &params);
    params.candidates = NF_CANDIDATES_BVH;
    params.strict = 1;
    params.radius = HUGE_VAL;
    check_in_a_quarter(&data, &queries, &params);
    exact_free(&data);
    exact_free(&queries);
}

/* Every form of results and method has its own plan of what fits. */
static void test_variants_larger_than_memory(void **state)
{
    (void)state;
    nf_matrix data = grid(NF_DTYPE_U8, ROWS, 4);
    for (uint32_t result = NF_RESULT_MASK; result <= NF_RESULT_APPEND; result++) {
        nf_radius_params params = exact_params(25.0);
        params.result = result;
        params.distances = result == NF_RESULT_MASK ? NF_DISTANCES_F64 : NF_DISTANCES_F32;
        params.candidates = NF_CANDIDATES_BVH + result % 3;
        check_in_a_quarter(&data, NULL, &params);
    }
    exact_free(&data);
}

/* Rows that grow denser and denser along the processing order: batch after batch is cut short. */
static void test_rising_density(void **state)
{
    (void)state;
    nf_matrix        data = exact_matrix(NF_DTYPE_F32, 1000, 1);
    nf_radius_params params = exact_params(0.9);
    nf_radius_stats  expected = {0}, stats = {0};
    double           at = 0.0;
    for (uint64_t i = 0; i < data.rows; i++) {
        at += 64.0 / (double)(i + 64);
        exact_put(&data, i, 0, at / 14.0);
    }
    params.distances = NF_DISTANCES_NONE;
    nf_csr          *wanted = cpu_answer(&data, NULL, &params, &expected);
    nf_context      *ctx = cuda_context(MEGABYTE / 4);
    nf_csr          *csr = answer_of(ctx, &data, NULL, 8, &params, &stats);
    nf_radius_index *index = exact_index(ctx, &data, 8);
    assert_true(exact_same(csr, wanted));
    check_stats(&stats, &expected);
    assert_true(stats.batches > 8); /* so many cuts are remembered */
    check_stream(ctx, index, NULL, &params, wanted, &expected, 0);
    nf_radius_index_release(index);
    nf_csr_release(csr);
    nf_context_destroy(ctx);
    nf_csr_release(wanted);
    exact_free(&data);
}

/* ---- limits of every size ---- */

/* Groups of queries that meet nothing, then one whose pairs do not fit: it ends, one way or the other. */
static void test_groups_without_hits_first(void **state)
{
    (void)state;
    nf_matrix        data = exact_matrix(NF_DTYPE_F32, 128, 1), queries = exact_matrix(NF_DTYPE_F32, 256, 1);
    nf_radius_params params = exact_params(0.5);
    nf_radius_stats  expected = {0}, stats = {.struct_size = sizeof stats};
    uint32_t         answered = 0;
    for (uint64_t i = 0; i < data.rows; i++) exact_put(&data, i, 0, 1000.0);
    for (uint64_t i = 0; i < queries.rows; i++) exact_put(&queries, i, 0, i < 128 ? (double)i * 4.0 : 1000.0);
    nf_csr *wanted = cpu_answer(&data, &queries, &params, &expected);
    for (uint64_t gpu_memory = 16 << 10; gpu_memory < MEGABYTE; gpu_memory += gpu_memory / 8) {
        for (params.candidates = NF_CANDIDATES_BVH; params.candidates <= NF_CANDIDATES_NONE; params.candidates++) {
            nf_context      *ctx = cuda_context(gpu_memory);
            nf_radius_index *index = NULL;
            nf_csr          *csr = NULL;
            nf_status        status = nf_radius_index_create(ctx, &data, NULL, &index);
            if (status == NF_OK) status = nf_radius_csr(ctx, index, &queries, &params, &csr, &stats);
            assert_true(status == NF_OK || status == NF_ERR_LIMIT || status == NF_ERR_DEVICE_MEMORY);
            if (status == NF_OK) assert_true(exact_same(csr, wanted));
            answered += status == NF_OK;
            nf_csr_release(csr);
            nf_radius_index_release(index);
            nf_context_destroy(ctx);
        }
    }
    assert_true(answered > 5);
    nf_csr_release(wanted);
    exact_free(&data);
    exact_free(&queries);
}

/* From too small for the index to large enough: the answer or an error that says a number; once enough is enough. */
static void test_every_gpu_memory(void **state)
{
    (void)state;
    nf_matrix        data = grid(NF_DTYPE_F32, 300, 5), queries = grid(NF_DTYPE_I32, 200, 6);
    nf_radius_params params = exact_params(9.0);
    nf_radius_stats  expected = {0}, stats = {0};
    for (int semi = 0; semi < 2; semi++) {
        const nf_matrix *from = semi ? &queries : NULL;
        nf_csr          *wanted = cpu_answer(&data, from, &params, &expected);
        int              worked = 0, refused = 0;
        for (uint64_t gpu_memory = 1; gpu_memory < 256 * MEGABYTE; gpu_memory += gpu_memory / 5 + 1 + (gpu_memory < 99) * 700) {
            nf_context      *ctx = cuda_context(gpu_memory);
            nf_radius_index *index = NULL;
            nf_csr          *csr = NULL;
            nf_status        status = nf_radius_index_create(ctx, &data, NULL, &index);
            stats.struct_size = sizeof stats;
            if (status == NF_OK) status = nf_radius_csr(ctx, index, from, &params, &csr, &stats);
            if (status == NF_OK) {
                assert_true(exact_same(csr, wanted));
                check_stats(&stats, &expected);
                worked = 1;
            } else {
                const char *text = nf_context_error(ctx)->text;
                assert_true(status == NF_ERR_LIMIT || status == NF_ERR_DEVICE_MEMORY);
                assert_null(csr);
                if (worked) fail_msg("%d bytes are too few, though less was enough: %s", (int)gpu_memory, text);
                if (strpbrk(text, "0123456789") == NULL) fail_msg("no number: %s", text);
                if (index == NULL) assert_non_null(strstr(text, "device memory"));
                refused++;
            }
            nf_csr_release(csr);
            nf_radius_index_release(index);
            nf_context_destroy(ctx);
        }
        assert_true(worked && refused > 10);
        nf_csr_release(wanted);
    }
    exact_free(&data);
    exact_free(&queries);
}

/* A context whose limit was too small is of use afterwards, and so is the index to others. */
static void test_context_after_limit(void **state)
{
    (void)state;
    nf_matrix        data = grid(NF_DTYPE_F32, ROWS, 7), small = grid(NF_DTYPE_F32, 20, 8);
    nf_radius_params params = exact_params(25.0), few = exact_params(0.0);
    nf_radius_stats  expected = {0}, stats = {.struct_size = sizeof stats};
    nf_context      *tight = cuda_context(5000), *ctx = cuda_context(0);
    nf_radius_index *index = exact_index(ctx, &data, 0), *none = NULL;
    nf_csr          *csr = NULL, *wanted = cpu_answer(&data, NULL, &params, &expected);
    exact_truth      truth = exact_truth_of(&small, NULL, 0.0);

    assert_int_equal(nf_radius_index_create(tight, &data, NULL, &none), NF_ERR_LIMIT);
    assert_null(none);
    assert_non_null(strstr(nf_context_error(tight)->text, "5000"));
    const nf_status status = nf_radius_csr(tight, index, NULL, &params, &csr, &stats);
    assert_true(status == NF_ERR_LIMIT || status == NF_ERR_DEVICE_MEMORY);
    assert_null(csr);
    assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &csr, &stats), NF_OK);
    assert_true(exact_same(csr, wanted));
    nf_csr_release(csr);
    nf_radius_index_release(index);
    nf_context_destroy(tight);

    tight = cuda_context(4 * MEGABYTE);
    index = exact_index(tight, &small, 0);
    exact_check_csr(tight, index, NULL, &few, &truth);
    nf_radius_index_release(index);
    nf_context_destroy(tight);
    nf_context_destroy(ctx);
    exact_truth_free(&truth);
    nf_csr_release(wanted);
    exact_free(&data);
    exact_free(&small);
}

static void test_max_results(void **state)
{
    (void)state;
    nf_matrix        data = grid(NF_DTYPE_F32, ROWS, 9);
    nf_radius_params params = exact_params(25.0);
    nf_radius_stats  expected = {0}, stats = {.struct_size = sizeof stats};
    nf_csr          *csr = NULL, *wanted = cpu_answer(&data, NULL, &params, &expected);
    nf_context      *ctx = cuda_context(MEGABYTE);
    nf_radius_index *index = exact_index(ctx, &data, 0);
    params.max_results = wanted->pairs;
    assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &csr, &stats), NF_OK);
    assert_true(exact_same(csr, wanted));
    nf_csr_release(csr);
    csr = NULL;
    params.max_results = wanted->pairs - 1;
    assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &csr, &stats), NF_ERR_LIMIT);
    assert_null(csr);
    assert_non_null(strstr(nf_context_error(ctx)->text, "max_results"));
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    nf_csr_release(wanted);
    exact_free(&data);
}

/* Host memory of every size, while the device cannot hold the result either. */
static void test_every_host_memory(void **state)
{
    (void)state;
    nf_matrix        data = grid(NF_DTYPE_F32, 450, 10);
    nf_radius_params params = exact_params(25.0);
    nf_radius_stats  expected = {0}, stats = {.struct_size = sizeof stats};
    nf_csr          *wanted = cpu_answer(&data, NULL, &params, &expected);
    nf_context      *wide = cuda_context(0);
    nf_radius_index *index = exact_index(wide, &data, 0);
    const uint64_t   bytes = result_bytes(wanted);
    int              worked = 0, refused = 0;
    for (uint64_t gpu_memory = 0; gpu_memory <= MEGABYTE; gpu_memory += MEGABYTE) {
        for (uint64_t memory = MEGABYTE; memory < 2 * bytes + 40 * MEGABYTE; memory += memory / 2) {
            nf_context     *ctx = context((setting){.engine = NF_ENGINE_CUDA, .memory = memory, .gpu_memory = gpu_memory});
            nf_csr         *csr = NULL;
            nf_context_info info;
            const nf_status status = nf_radius_csr(ctx, index, NULL, &params, &csr, &stats);
            nf_context_describe(ctx, &info);
            assert_true(info.memory_peak <= memory);
            if (status == NF_OK) {
                assert_true(exact_same(csr, wanted));
                check_stats(&stats, &expected);
                worked++;
            } else {
                assert_int_equal(status, NF_ERR_LIMIT);
                assert_int_equal(info.memory_used, 0);
                assert_non_null(strpbrk(nf_context_error(ctx)->text, "0123456789"));
                if (memory > 2 * bytes + 16 * MEGABYTE) fail_msg("%d bytes are enough", (int)memory);
                refused++;
            }
            nf_csr_release(csr);
            nf_context_destroy(ctx);
        }
    }
    assert_true(worked > 2 && refused > 2);
    nf_radius_index_release(index);
    nf_context_destroy(wide);
    nf_csr_release(wanted);
    exact_free(&data);
}

/* ---- failures on purpose ---- */

typedef struct fixture {
    memory_hook hook;
    nf_context *ctx;
    nf_matrix   data, queries;
    nf_csr     *self, *semi; /* the CPU engine's */
    nf_radius_index_params index;
} fixture;

static nf_radius_params params_of(int semi)
{
    nf_radius_params params = exact_params(25.0);
    params.candidates = semi ? NF_CANDIDATES_BVH : NF_CANDIDATES_BOXES;
    params.sort = semi ? NF_SORT_DISTANCE : NF_SORT_ID;
    params.result = semi ? NF_RESULT_MASK : NF_RESULT_AUTO;
    return params;
}

/* Index and CSR; stops at the first failure and releases all. The answer is right, or there is none. */
static nf_status work_through(const fixture *at, int semi)
{
    const nf_radius_params params = params_of(semi);
    nf_radius_index       *index = NULL;
    nf_csr                *csr = NULL;
    nf_status              status = nf_radius_index_create(at->ctx, &at->data, &at->index, &index);
    assert_true((status == NF_OK) == (index != NULL));
    if (status == NF_OK) {
        status = nf_radius_csr(at->ctx, index, semi ? &at->queries : NULL, &params, &csr, NULL);
        assert_true((status == NF_OK) == (csr != NULL));
    }
    if (status == NF_OK) assert_true(exact_same(csr, semi ? at->semi : at->self));
    if (status != NF_OK) assert_int_equal(nf_context_error(at->ctx)->status, status);
    nf_csr_release(csr);
    nf_radius_index_release(index);
    return status;
}

/* A context with the least device memory that both questions are answered in; whole: with all of it. */
static void open_fixture(fixture *at, int whole, nf_progress_fn progress, void *user)
{
    nf_radius_stats stats;
    int             enough = 0;
    memset(at, 0, sizeof *at);
    nf_radius_index_params_init(&at->index);
    at->index.group_size = 8;
    at->data = grid(NF_DTYPE_F32, 50, 11);
    at->queries = grid(NF_DTYPE_U16, 30, 12);
    const nf_radius_params self = params_of(0), semi = params_of(1);
    at->self = cpu_answer(&at->data, NULL, &self, &stats);
    at->semi = cpu_answer(&at->data, &at->queries, &semi, &stats);
    for (uint64_t gpu_memory = whole ? 0 : 4096; !enough; gpu_memory += 2048) {
        assert_true(gpu_memory < MEGABYTE);
        at->ctx = context((setting){.engine = NF_ENGINE_CUDA, .threads = 1, .gpu_memory = gpu_memory, .hook = &at->hook,
                                    .progress = progress, .user = user});
        enough = work_through(at, 0) == NF_OK && work_through(at, 1) == NF_OK;
        if (!enough) nf_context_destroy(at->ctx);
    }
}

static void close_fixture(fixture *at)
{
    assert_int_equal(work_through(at, 0), NF_OK);
    assert_int_equal(work_through(at, 1), NF_OK);
    nf_context_destroy(at->ctx);
    assert_int_equal(at->hook.live_blocks, 0);
    assert_int_equal(at->hook.mismatches, 0);
    nf_csr_release(at->self);
    nf_csr_release(at->semi);
    exact_free(&at->data);
    exact_free(&at->queries);
}

static void need_emulator(void)
{
    if (!emulated) skip();
}

/* Runs it and compares what is alive with what was. */
static nf_status work_and_count(const fixture *at, int semi, long live)
{
    const nf_status status = work_through(at, semi);
    assert_int_equal(at->hook.live_blocks, live);
    assert_int_equal(device.live_bytes, 0);
    assert_int_equal(device.live_objects, 0);
    return status;
}

static void test_every_device_allocation_fails(void **state)
{
    (void)state;
    need_emulator();
    for (int whole = 0; whole < 2; whole++) {
        for (int semi = 0; semi < 2; semi++) {
            fixture  at;
            uint64_t failures = 0, smaller = 0;
            open_fixture(&at, whole, NULL, NULL);
            const long live = at.hook.live_blocks;
            for (uint64_t n = 1;; n++) {
                const uint64_t before = device.allocations;
                device.fail_allocation = before + n;
                const nf_status status = work_and_count(&at, semi, live);
                if (device.allocations < before + n) {
                    assert_int_equal(status, NF_OK);
                    break;
                }
                assert_true(status == NF_OK || status == NF_ERR_DEVICE_MEMORY);
                failures += status != NF_OK;
                smaller += status == NF_OK;
                assert_true(n < 2000);
            }
            device.fail_allocation = 0;
            assert_true(failures > 20);
            assert_true(smaller > 0); /* blocks that are only tried */
            close_fixture(&at);
        }
    }
}

/* From the n-th allocation on nothing is left. */
static void test_device_memory_runs_out(void **state)
{
    (void)state;
    need_emulator();
    fixture at;
    open_fixture(&at, 1, NULL, NULL);
    const long live = at.hook.live_blocks;
    for (int semi = 0; semi < 2; semi++) {
        for (uint64_t n = 1; n < 2000; n++) {
            const uint64_t before = device.allocations;
            device.fail_from = before + n;
            const nf_status status = work_and_count(&at, semi, live);
            if (device.allocations < before + n) break;
            assert_true(status == NF_ERR_DEVICE_MEMORY || status == NF_OK);
        }
        device.fail_from = 0;
    }
    close_fixture(&at);
}

/* Launches, copies, events, waiting. */
static void test_every_call_fails(void **state)
{
    (void)state;
    need_emulator();
    fixture at;
    open_fixture(&at, 0, NULL, NULL);
    const long live = at.hook.live_blocks;
    for (int semi = 0; semi < 2; semi++) {
        uint64_t failures = 0;
        for (uint64_t n = 1;; n++) {
            const uint64_t before = device.calls;
            device.fail_call = before + n;
            const nf_status status = work_and_count(&at, semi, live);
            if (device.calls < before + n) break;
            if (status == NF_ERR_DEVICE) {
                assert_non_null(strstr(nf_context_error(at.ctx)->text, "the device failed"));
            } else {
                assert_int_equal(status, NF_OK); /* cleaning up */
            }
            failures += status != NF_OK;
            assert_true(n < 5000);
        }
        device.fail_call = 0;
        assert_true(failures > 60);
    }
    close_fixture(&at);
}

/* Host memory, with batches that the device cuts short. */
static void test_every_host_allocation_fails(void **state)
{
    (void)state;
    for (int semi = 0; semi < 2; semi++) {
        fixture at;
        long    failures = 0;
        open_fixture(&at, 0, NULL, NULL);
        const long live = at.hook.live_blocks;
        for (long n = 1;; n++) {
            const long before = at.hook.calls;
            at.hook.fail_at = before + n;
            const nf_status status = emulated ? work_and_count(&at, semi, live) : work_through(&at, semi);
            assert_int_equal(at.hook.live_blocks, live);
            if (at.hook.calls < before + n) {
                assert_int_equal(status, NF_OK);
                break;
            }
            assert_true(status == NF_ERR_MEMORY || status == NF_OK);
            failures += status != NF_OK;
            assert_true(n < 2000);
        }
        at.hook.fail_at = 0;
        assert_true(failures > 10);
        close_fixture(&at);
    }
}

/* ---- cancelling ---- */

static int stop_after(void *user, const char *step, uint64_t done, uint64_t total)
{
    (void)step;
    (void)done;
    (void)total;
    long *left = user; /* calls until one cancels; below 0: never */
    if (*left < 0) return 0;
    return (*left)-- == 0;
}

static void test_cancel_at_every_progress(void **state)
{
    (void)state;
    for (int semi = 0; semi < 2; semi++) {
        fixture at;
        long    left = -1, cancelled = 0;
        open_fixture(&at, 0, stop_after, &left);
        const long live = at.hook.live_blocks;
        for (long n = 0; n < 1000; n++) {
            left = n;
            const nf_status status = emulated ? work_and_count(&at, semi, live) : work_through(&at, semi);
            const long      not_reached = left;
            left = -1;
            if (not_reached >= 0) break;
            assert_int_equal(status, NF_ERR_CANCELLED);
            cancelled++;
        }
        assert_true(cancelled > 0);
        close_fixture(&at);
    }
}

/* A cancel at each allocation of the host in turn. */
static void test_cancel_everywhere(void **state)
{
    (void)state;
    fixture at;
    long    cancelled = 0;
    open_fixture(&at, 0, NULL, NULL);
    const long live = at.hook.live_blocks;
    for (long n = 1; n < 2000; n++) {
        const long before = at.hook.calls;
        at.hook.cancel_at = before + n;
        const nf_status status = emulated ? work_and_count(&at, n % 2 == 0, live) : work_through(&at, n % 2 == 0);
        at.hook.cancel_at = 0;
        if (at.hook.calls < before + n) break;
        assert_true(status == NF_ERR_CANCELLED || status == NF_OK);
        cancelled += status == NF_ERR_CANCELLED;
        if (status == NF_OK) assert_true(work_through(&at, 0) == NF_ERR_CANCELLED || work_through(&at, 0) == NF_OK);
    }
    assert_true(cancelled > 10);
    close_fixture(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self_join_larger_than_memory), cmocka_unit_test(test_semi_join_larger_than_memory),
        cmocka_unit_test(test_variants_larger_than_memory),  cmocka_unit_test(test_rising_density),
        cmocka_unit_test(test_groups_without_hits_first),    cmocka_unit_test(test_every_gpu_memory),
        cmocka_unit_test(test_context_after_limit),          cmocka_unit_test(test_max_results),
        cmocka_unit_test(test_every_host_memory),            cmocka_unit_test(test_every_device_allocation_fails),
        cmocka_unit_test(test_device_memory_runs_out),       cmocka_unit_test(test_every_call_fails),
        cmocka_unit_test(test_every_host_allocation_fails),  cmocka_unit_test(test_cancel_at_every_progress),
        cmocka_unit_test(test_cancel_everywhere),
    };
    nf_engine_info info = {.struct_size = sizeof info};
    char           address[32];
    if (!exact_on_cuda()) return 77;
    snprintf(address, sizeof address, "%llx", (unsigned long long)(uintptr_t)&device);
    setenv("NF_EMULATED_CONTROL", address, 1);
    if (nf_engine_describe(NF_ENGINE_CUDA, 0, &info) != NF_OK) return 1;
    emulated = strstr(info.device, "emulated") != NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
