/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IVF-RaBitQ in the CUDA engine: what the tests of both engines (test_ivf_*.c) do not ask. Precisions agree, a query's
 * answer does not depend on its batch, each engine searches the other's index as well as its own, long lists and many
 * probes, memory that is too small, queries and results on the device. On the emulated device host memory is device
 * memory, and failures are had on purpose; on a GPU those tests are skipped.
 */
#include <inttypes.h>

#include "emulator/emulator_control.h"
#include "ivf_helper.h"
#include "memory_helper.h"

#define K 10u
#define ROWS 700u
#define QUERIES 60u
#define DIMS 40u
#define COUNT(array) (sizeof(array) / sizeof *(array))

static nf_emulated_control device;
static int                 emulated;

typedef struct answer {
    uint64_t            queries;
    uint32_t            k;
    int64_t            *ids;
    float              *distances;
    uint32_t           *counts;
    nf_ivf_search_stats stats;
} answer;

static nf_context *context(nf_engine_kind engine, uint64_t gpu_memory, memory_hook *hook)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_error          error;
    nf_context_params_init(&params);
    params.engine = (uint32_t)engine;
    params.threads = 2;
    params.gpu_memory = gpu_memory;
    if (hook != NULL) params.allocator = memory_hook_allocator(hook);
    if (nf_context_create(&params, &ctx, &error) != NF_OK) fail_msg("%s", error.text);
    return ctx;
}

static nf_ivf_params small_build(uint32_t lists, uint32_t bits, uint32_t metric)
{
    nf_ivf_params params;
    nf_ivf_params_init(&params);
    params.lists = lists;
    params.bits = bits;
    params.metric = metric;
    params.train_rows = 12;
    params.iterations = 2;
    params.recall_rows = 0;
    return params;
}

static answer ask(nf_context *ctx, const nf_ivf_index *index, const nf_matrix *queries,
                  const nf_ivf_search_params *params)
{
    answer out = {.queries = queries->rows, .k = params->k, .stats = {.struct_size = sizeof out.stats}};
    out.ids = malloc((size_t)(queries->rows * params->k + 1) * sizeof *out.ids);
    out.distances = malloc((size_t)(queries->rows * params->k + 1) * sizeof *out.distances);
    out.counts = malloc((size_t)(queries->rows + 1) * sizeof *out.counts);
    if (nf_ivf_search(ctx, index, queries, params, out.ids, out.distances, out.counts, &out.stats) != NF_OK) {
        fail_msg("%s", nf_context_error(ctx)->text);
    }
    return out;
}

static void free_answer(answer *one)
{
    free(one->ids);
    free(one->distances);
    free(one->counts);
}

static nf_ivf_search_params question(uint32_t k, uint32_t probes, uint32_t precision)
{
    nf_ivf_search_params params;
    nf_ivf_search_params_init(&params);
    params.k = k;
    params.probes = probes;
    params.precision = precision;
    return params;
}

/* Share of ids that two answers have in common. */
static double common(const answer *a, const answer *b)
{
    uint64_t same = 0;
    for (uint64_t q = 0; q < a->queries; q++) {
        for (uint32_t i = 0; i < a->k; i++) {
            for (uint32_t j = 0; j < a->k; j++) same += a->ids[q * a->k + i] == b->ids[q * a->k + j];
        }
    }
    return (double)same / (double)(a->queries * a->k);
}

static void assert_same(const answer *a, const answer *b)
{
    assert_memory_equal(a->ids, b->ids, a->queries * a->k * sizeof *a->ids);
    assert_memory_equal(a->distances, b->distances, a->queries * a->k * sizeof *a->distances);
    assert_memory_equal(a->counts, b->counts, a->queries * sizeof *a->counts);
}

/* All precisions prune with the same bound, but for the noise of the query: with nothing pruned they are the same
 * answer, else nearly; and bitwise4 and tile have the same sums. */
static void test_precisions(void **state)
{
    (void)state;
    nf_context         *ctx = context(NF_ENGINE_CUDA, 0, NULL);
    nf_matrix           data = ivf_mixture(ROWS, DIMS, 12, 31), queries = ivf_mixture(QUERIES, DIMS, 12, 31);
    const nf_ivf_params build = small_build(9, 4, NF_METRIC_L2);
    nf_ivf_index       *index = ivf_build(ctx, &data, &build);
    for (int pruned = 0; pruned < 2; pruned++) {
        answer first = {0}, bitwise = {0};
        for (uint32_t precision = NF_PRECISION_AUTO; precision <= NF_PRECISION_TILE; precision++) {
            nf_ivf_search_params params = question(K, 5, precision);
            if (!pruned) params.epsilon0 = INFINITY;
            answer got = ask(ctx, index, &queries, &params);
            assert_true(pruned ? got.stats.refined < got.stats.scanned : got.stats.refined == got.stats.scanned);
            if (precision == NF_PRECISION_BITWISE4) bitwise = got;
            if (precision == NF_PRECISION_AUTO) first = got;
            if (precision == NF_PRECISION_TILE) {
                assert_same(&bitwise, &got);
                assert_int_equal(bitwise.stats.refined, got.stats.refined);
            }
            if (!pruned) assert_same(&first, &got);
            assert_true(common(&first, &got) > 0.99);
            if (precision != NF_PRECISION_BITWISE4 && precision != NF_PRECISION_AUTO) free_answer(&got);
        }
        free_answer(&first);
        free_answer(&bitwise);
    }
    nf_ivf_release(index);
    exact_free(&data);
    exact_free(&queries);
    nf_context_destroy(ctx);
}

/* Batches of 1, 7 and all give each query the same answer; so do several contexts, and device memory that cuts batches.
 */
static void test_batches(void **state)
{
    (void)state;
    nf_context                *ctx = context(NF_ENGINE_CUDA, 0, NULL);
    nf_matrix                  data = ivf_mixture(ROWS, DIMS, 12, 32), queries = ivf_mixture(QUERIES, DIMS, 12, 32);
    const nf_ivf_params        build = small_build(11, 3, NF_METRIC_COSINE);
    nf_ivf_index              *index = ivf_build(ctx, &data, &build);
    const nf_ivf_search_params params = question(K, 7, NF_PRECISION_AUTO);
    answer                     whole = ask(ctx, index, &queries, &params);
    static const uint64_t      sizes[] = {1, 7, 33};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        for (uint64_t first = 0; first < QUERIES; first += sizes[i] * 3) {
            nf_matrix part = queries;
            part.data = (const float *)queries.data + first * DIMS;
            part.rows = QUERIES - first < sizes[i] ? QUERIES - first : sizes[i];
            nf_context *other = context(NF_ENGINE_CUDA, i == 1 ? 700000 : 0, NULL);
            answer      got = ask(other, index, &part, &params);
            assert_memory_equal(got.ids, whole.ids + first * K, part.rows * K * sizeof *got.ids);
            assert_memory_equal(got.distances, whole.distances + first * K, part.rows * K * sizeof *got.distances);
            free_answer(&got);
            nf_context_destroy(other);
        }
    }
    free_answer(&whole);
    nf_ivf_release(index);
    exact_free(&data);
    exact_free(&queries);
    nf_context_destroy(ctx);
}

/* An index of either engine, saved and opened by either, has the same recall: all lists probed, so that only codes
 * count. */
static void test_other_engines_index(void **state)
{
    (void)state;
    nf_context *ctx[2] = {context(NF_ENGINE_CPU, 0, NULL), context(NF_ENGINE_CUDA, 0, NULL)};
    nf_matrix   data = ivf_mixture(ROWS, DIMS, 12, 33), queries = ivf_mixture(QUERIES, DIMS, 12, 33);
    char        path[512];
    ivf_path(path, sizeof path, "engines.nfi");
    for (uint32_t metric = NF_METRIC_L2; metric <= NF_METRIC_COSINE; metric++) {
        for (int maker = 0; maker < 2; maker++) {
            const nf_ivf_params build = small_build(8, 2 + 3 * metric, metric);
            nf_ivf_index       *made = ivf_build(ctx[maker], &data, &build), *opened[2] = {NULL, NULL};
            answer              got[2];
            assert_int_equal(nf_ivf_save(ctx[maker], made, path, 0), NF_OK);
            for (int user = 0; user < 2; user++) {
                const nf_ivf_search_params params = question(K, 8, NF_PRECISION_AUTO);
                assert_int_equal(nf_ivf_open(ctx[user], path, NULL, &opened[user]), NF_OK);
                got[user] = ask(ctx[user], opened[user], &queries, &params);
            }
            assert_true(common(&got[0], &got[1]) > 0.985);
            for (uint32_t i = 0; i < QUERIES * K; i++) {
                assert_true(fabsf(got[0].distances[i] - got[1].distances[i]) <
                            0.05f * (1.0f + fabsf(got[0].distances[i])));
            }
            for (int user = 0; user < 2; user++) {
                free_answer(&got[user]);
                nf_ivf_release(opened[user]);
            }
            nf_ivf_release(made);
        }
    }
    assert_int_equal(remove(path), 0);
    exact_free(&data);
    exact_free(&queries);
    nf_context_destroy(ctx[0]);
    nf_context_destroy(ctx[1]);
}

/* Half the rows in one list, empty lists, all lists probed, more neighbours than rows in reach and than a sort in
 * shared memory takes; a filter. The nearest of every row is itself, or an equal one. */
static void test_shapes(void **state)
{
    (void)state;
    nf_context *ctx = context(NF_ENGINE_CUDA, 0, NULL);
    nf_matrix   data = ivf_mixture(ROWS, DIMS, 12, 34), queries = data;
    float      *values = (float *)(uintptr_t)data.data;
    for (uint64_t row = 0; row < ROWS / 2; row++) memcpy(values + row * DIMS, values, DIMS * sizeof *values);
    queries.rows = 5;
    queries.data = values + (ROWS - 5) * DIMS;
    nf_ivf_params         build = small_build(20, 7, NF_METRIC_L2);
    nf_ivf_index         *index = ivf_build(ctx, &data, &build);
    static const uint32_t ks[] = {1, 64, 600, 1500};
    for (size_t i = 0; i < COUNT(ks); i++) {
        const nf_ivf_search_params params = question(ks[i], 1000, i % 2 == 0 ? NF_PRECISION_TILE : NF_PRECISION_AUTO);
        answer                     got = ask(ctx, index, &queries, &params);
        for (uint64_t q = 0; q < queries.rows; q++) {
            assert_int_equal(got.ids[q * ks[i]], (int64_t)(ROWS - 5 + q));
            assert_int_equal(got.counts[q], ks[i] < ROWS ? ks[i] : ROWS);
            for (uint32_t j = 1; j < got.counts[q]; j++) {
                assert_true(got.distances[q * ks[i] + j] >= got.distances[q * ks[i] + j - 1]);
            }
            for (uint32_t j = got.counts[q]; j < ks[i]; j++) {
                assert_true(got.ids[q * ks[i] + j] == -1 && isinf(got.distances[q * ks[i] + j]));
            }
        }
        free_answer(&got);
    }
    const int64_t        few[3] = {3, (int64_t)ROWS - 5, 999999};
    nf_ivf_filter       *filter = NULL;
    nf_ivf_search_params params = question(4, 1000, NF_PRECISION_AUTO);
    assert_int_equal(nf_ivf_filter_ids(ctx, index, few, 3, 0, &filter), NF_OK);
    params.filter = filter;
    answer got = ask(ctx, index, &queries, &params);
    assert_int_equal(got.counts[0], 2);
    assert_int_equal(got.ids[0], ROWS - 5);
    assert_int_equal(got.ids[1], 3);
    free_answer(&got);
    nf_ivf_filter_release(filter);
    nf_ivf_release(index);
    exact_free(&data);
    nf_context_destroy(ctx);
}

/* The same data, seed and engine: the same bytes, whether the data stay on the device or pass through it in blocks, and
 * whether the codes find room there. */
static void test_streamed(void **state)
{
    (void)state;
    static const uint64_t limits[] = {0, 360000, 450000, 1000000};
    nf_matrix             data = ivf_mixture(1500, 32, 12, 35);
    uint64_t              file_id = 0;
    for (size_t i = 0; i < 2 * COUNT(limits); i++) {
        const uint32_t metric = i < COUNT(limits) ? NF_METRIC_IP : NF_METRIC_COSINE;
        nf_ivf_params  build = small_build(5, 9, metric);
        build.recall_rows = 20;
        nf_context   *ctx = context(NF_ENGINE_CUDA, limits[i % COUNT(limits)], NULL);
        nf_ivf_index *index = ivf_build(ctx, &data, &build);
        nf_ivf_info   info = {.struct_size = sizeof info};
        nf_ivf_describe(index, &info);
        if (i % COUNT(limits) > 0) assert_true(info.file_id == file_id);
        file_id = info.file_id;
        nf_ivf_release(index);
        nf_context_destroy(ctx);
    }
    exact_free(&data);
}

/* Too little device memory, and values that are not allowed, are errors that say so; the next search works. */
static void test_refused(void **state)
{
    (void)state;
    nf_context   *ctx = context(NF_ENGINE_CUDA, 0, NULL), *poor = context(NF_ENGINE_CUDA, 30000, NULL);
    nf_matrix     data = ivf_mixture(ROWS, DIMS, 12, 36), queries = ivf_mixture(QUERIES, DIMS, 12, 36);
    nf_ivf_params build = small_build(9, 4, NF_METRIC_L2);
    nf_ivf_index *index = NULL;
    int64_t       ids[QUERIES * K];
    float         distances[QUERIES * K];
    assert_int_equal(nf_ivf_build(poor, &data, &build, &index, NULL), NF_ERR_LIMIT);
    assert_null(index);
    assert_non_null(strstr(nf_context_error(poor)->text, "device memory"));
    index = ivf_build(ctx, &data, &build);
    const nf_ivf_search_params params = question(K, 5, NF_PRECISION_AUTO);
    answer                     before = ask(ctx, index, &queries, &params);
    float                     *value = (float *)(uintptr_t)queries.data + 17 * DIMS + 3, kept = *value;
    *value = NAN;
    assert_int_equal(nf_ivf_search(ctx, index, &queries, &params, ids, distances, NULL, NULL), NF_ERR_VALUE);
    assert_non_null(strstr(nf_context_error(ctx)->text, "row 17, column 3"));
    *value = kept;
    answer after = ask(ctx, index, &queries, &params);
    assert_same(&before, &after);
    free_answer(&before);
    free_answer(&after);
    nf_ivf_release(index);
    nf_context_destroy(poor);
    nf_context_destroy(ctx);
    exact_free(&data);
    exact_free(&queries);
}

/* Queries and results that lie on the device. */
static void test_device_place(void **state)
{
    (void)state;
    if (!emulated) skip();
    nf_context          *ctx = context(NF_ENGINE_CUDA, 0, NULL), *cpu = context(NF_ENGINE_CPU, 0, NULL);
    nf_matrix            data = ivf_mixture(ROWS, DIMS, 12, 37), queries = ivf_mixture(QUERIES, DIMS, 12, 37);
    const nf_ivf_params  build = small_build(9, 4, NF_METRIC_L2);
    nf_ivf_index        *index = ivf_build(ctx, &data, &build), *on_cpu = ivf_build(cpu, &data, &build);
    nf_ivf_search_params params = question(K, 5, NF_PRECISION_AUTO);
    answer               host = ask(ctx, index, &queries, &params);
    queries.place = NF_PLACE_DEVICE;
    params.results_place = NF_PLACE_DEVICE;
    answer there = ask(ctx, index, &queries, &params);
    assert_same(&host, &there);
    assert_int_equal(nf_ivf_search(cpu, on_cpu, &queries, &params, there.ids, there.distances, NULL, NULL),
                     NF_ERR_UNSUPPORTED);
    params = question(K, 5, NF_PRECISION_TILE);
    queries.place = NF_PLACE_HOST;
    assert_int_equal(nf_ivf_search(cpu, on_cpu, &queries, &params, there.ids, there.distances, NULL, NULL),
                     NF_ERR_UNSUPPORTED);
    free_answer(&host);
    free_answer(&there);
    nf_ivf_release(index);
    nf_ivf_release(on_cpu);
    nf_context_destroy(ctx);
    nf_context_destroy(cpu);
    exact_free(&data);
    exact_free(&queries);
}

/* A build and a search; whatever they give but NF_OK is of memory or the device. */
static nf_status whole_run(nf_context *ctx, const nf_matrix *data)
{
    nf_ivf_params              build = small_build(3, 3, NF_METRIC_L2);
    const nf_ivf_search_params params = question(3, 2, NF_PRECISION_AUTO);
    nf_ivf_index              *index = NULL;
    int64_t                    ids[3 * 3];
    float                      distances[3 * 3];
    nf_matrix                  queries = *data;
    queries.rows = 3;
    build.iterations = 1;
    build.recall_rows = 2;
    nf_status status = nf_ivf_build(ctx, data, &build, &index, NULL);
    if (status == NF_OK) status = nf_ivf_search(ctx, index, &queries, &params, ids, distances, NULL, NULL);
    nf_ivf_release(index);
    return status;
}

/* Every allocation of host memory, and every allocation and call of the device, fails once: an error, and nothing is
 * left. */
static void test_faults(void **state)
{
    (void)state;
    if (!emulated) skip();
    nf_matrix data = ivf_mixture(40, 9, 3, 38);
    for (int what = 0; what < 3; what++) {
        long at = 1, fails = 0;
        for (int reached = 1; reached; at += what == 2 ? 3 : 1) {
            memory_hook hook = {0};
            nf_context *ctx = context(NF_ENGINE_CUDA, 0, &hook);
            if (what == 0) hook.fail_at = hook.calls + at;
            if (what == 1) device.fail_allocation = device.allocations + (uint64_t)at;
            if (what == 2) device.fail_call = device.calls + (uint64_t)at;
            const nf_status status = whole_run(ctx, &data);
            reached = what == 0   ? hook.calls >= hook.fail_at
                      : what == 1 ? device.allocations >= device.fail_allocation
                                  : device.calls >= device.fail_call;
            device.fail_allocation = device.fail_call = 0;
            assert_true(status == NF_OK || status == NF_ERR_MEMORY || status == NF_ERR_DEVICE_MEMORY ||
                        status == NF_ERR_DEVICE || status == NF_ERR_LIMIT || status == NF_ERR_ENGINE);
            if (!reached) assert_int_equal(status, NF_OK);
            fails += status != NF_OK;
            nf_context_destroy(ctx);
            assert_int_equal(hook.live_blocks, 0);
            assert_int_equal(device.live_objects, 0);
        }
        assert_true(fails > 10);
    }
    exact_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_precisions),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_other_engines_index),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_streamed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_device_place),
        cmocka_unit_test(test_faults),
    };
    char           address[32];
    nf_engine_info info = {.struct_size = sizeof info};
    if (!exact_on_cuda()) return 77;
    snprintf(address, sizeof address, "%" PRIxPTR, (uintptr_t)&device);
    setenv("NF_EMULATED_CONTROL", address, 1);
    if (nf_engine_describe(NF_ENGINE_CUDA, 0, &info) != NF_OK) return 1;
    emulated = strstr(info.device, "emulated") != NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
