/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variants of the paper in the CUDA engine: what is staged, how results are kept, how candidates are found, what bounds
 * a group, how large groups are. None of it changes a byte of the answer, which is the CPU engine's. And questions on the
 * edge: sizes, values, options, threads.
 *
 * All combinations of a search's variants run at every number of dims; sizes of groups and options take turns, so that each
 * combination meets many of them.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exact_helper.h"

static int with_rt;  /* ray tracing can be used here */
static int emulated; /* slow: fewer rows, and not all combinations where there are many groups */

static nf_context *context_of(nf_engine_kind engine, uint32_t threads, uint64_t gpu_memory)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_error          error;
    nf_context_params_init(&params);
    params.engine = (uint32_t)engine;
    params.threads = threads;
    params.gpu_memory = gpu_memory;
    if (nf_context_create(&params, &ctx, &error) != NF_OK) fail_msg("%s", error.text);
    return ctx;
}

/* Clusters of whole numbers, with equal rows and pairs at the radius. */
static nf_matrix clustered(nf_dtype dtype, uint64_t rows, uint32_t dims, uint64_t seed)
{
    nf_matrix data = exact_matrix(dtype, rows, dims);
    for (uint64_t i = 0; i < rows; i++) {
        const double centre = 10.0 + 30.0 * (double)random_below(&seed, 3);
        const int    copy = i > 0 && random_below(&seed, 8) == 0;
        for (uint32_t c = 0; c < dims; c++) {
            const double value = centre + (double)random_below(&seed, 7);
            exact_put(&data, i, c, copy ? exact_get(&data, i - 1, c) : value);
        }
    }
    return data;
}

static double radius_for(uint32_t dims)
{
    return dims == 1 ? 2.0 : dims <= 3 ? 3.0 : floor(2.6 * sqrt((double)dims));
}

/* ---- combinations ---- */

typedef struct grouping {
    uint32_t height, group_size;
} grouping;

static const grouping groupings[] = {{0, 0}, {1, 0}, {3, 0}, {8, 0}, {0, 1}, {0, 7}, {0, 64}, {0, 65}, {0, 128}, {0, 129},
                                     {0, 1000}};
#define GROUPINGS (sizeof groupings / sizeof groupings[0])
#define COMBINATIONS (4u * 5u * 5u * 2u)

/* Combination number c of the variants; false where it is not to be had here. */
static int take_combination(uint32_t c, nf_radius_params *params)
{
    static const uint32_t candidates[] = {NF_CANDIDATES_AUTO, NF_CANDIDATES_BVH, NF_CANDIDATES_BOXES, NF_CANDIDATES_NONE,
                                          NF_CANDIDATES_RT};
    params->share = c % 4;
    params->result = c / 4 % 5;
    params->candidates = candidates[c / 20 % 5];
    params->group_bounds = c / 100;
    return params->candidates != NF_CANDIDATES_RT || with_rt;
}

/* Options by turns: those that change the answer are an index into it. */
static uint32_t take_options(uint32_t turn, int self_join, nf_radius_params *params)
{
    const uint32_t answer = turn % 4;
    params->strict = answer & 1;
    params->half = self_join && answer >> 1;
    params->self = self_join && (answer & 1);
    params->sort = !self_join && answer >> 1 ? NF_SORT_DISTANCE : NF_SORT_ID;
    params->distances = answer == 0 ? NF_DISTANCES_F64 : answer == 1 ? NF_DISTANCES_F32 : answer == 2 ? NF_DISTANCES_F64
                                                                                                      : NF_DISTANCES_NONE;
    params->no_early_exit = turn / 4 % 2;
    return answer;
}

typedef struct expected {
    nf_csr         *csr;
    nf_radius_stats stats;
} expected;

static void cpu_answers(const nf_matrix *data, const nf_matrix *queries, double radius, expected answers[4])
{
    nf_context      *ctx = context_of(NF_ENGINE_CPU, 1, 0);
    nf_radius_index *index = exact_index(ctx, data, 0);
    for (uint32_t i = 0; i < 4; i++) {
        nf_radius_params params = exact_params(radius);
        (void)take_options(i, queries == NULL, &params);
        params.no_early_exit = 0;
        answers[i] = (expected){.stats.struct_size = sizeof(nf_radius_stats)};
        assert_int_equal(nf_radius_csr(ctx, index, queries, &params, &answers[i].csr, &answers[i].stats), NF_OK);
    }
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
}

static nf_radius_index *index_of(nf_context *ctx, const nf_matrix *data, grouping groups)
{
    nf_radius_index_params params;
    nf_radius_index       *index = NULL;
    nf_radius_index_params_init(&params);
    params.height = groups.height;
    params.group_size = groups.group_size;
    if (nf_radius_index_create(ctx, data, &params, &index) != NF_OK) fail_msg("%s", nf_context_error(ctx)->text);
    return index;
}

static void check_combination(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries, double radius,
                              uint32_t c, uint32_t turn, const expected answers[4])
{
    nf_radius_params params = exact_params(radius);
    nf_radius_stats  stats = {.struct_size = sizeof stats};
    nf_csr          *csr = NULL;
    if (!take_combination(c, &params)) return;
    const expected *answer = &answers[take_options(turn, queries == NULL, &params)];
    if (nf_radius_csr(ctx, index, queries, &params, &csr, &stats) != NF_OK) {
        fail_msg("combination %d, turn %d: %s", (int)c, (int)turn, nf_context_error(ctx)->text);
    }
    if (!exact_same(csr, answer->csr) || stats.ties != answer->stats.ties || stats.pairs != answer->stats.pairs) {
        fail_msg("combination %d, turn %d: share %u, result %u, candidates %s, bounds %u, dims %u, refine %s: not as the CPU",
                 (int)c, (int)turn, params.share, params.result, nf_candidates_name(params.candidates), params.group_bounds,
                 stats.dims, stats.refine);
    }
    nf_csr_release(csr);
}

/* few: the groupings into groups of few rows, else the others. */
static void check_combinations(const nf_matrix *data, const nf_matrix *queries, double radius, uint32_t turn, int few)
{
    nf_context *ctx = context_of(NF_ENGINE_CUDA, 1, 0);
    expected    answers[4];
    cpu_answers(data, queries, radius, answers);
    for (uint32_t g = 0; g < GROUPINGS; g++) {
        const uint32_t rows = groupings[g].height > 0 ? (uint32_t)(data->rows >> groupings[g].height) : groupings[g].group_size;
        if ((rows < 20 && groupings[g].group_size + groupings[g].height > 0) != few) continue;
        nf_radius_index *index = index_of(ctx, data, groupings[g]);
        for (uint32_t c = 0; c < COMBINATIONS; c++) {
            if (few && emulated && (c / GROUPINGS + turn) % 5 != 0) continue;
            if ((c + turn) % GROUPINGS == g) check_combination(ctx, index, queries, radius, c, c / 3 + turn, answers);
        }
        nf_radius_index_release(index);
    }
    for (uint32_t i = 0; i < 4; i++) nf_csr_release(answers[i].csr);
    nf_context_destroy(ctx);
}

static const uint32_t all_dims[] = {1, 2, 3, 4, 5, 8, 9, 17, 33, 130};
#define ALL_DIMS (sizeof all_dims / sizeof all_dims[0])

static void test_self_join_combinations(void **state)
{
    (void)state;
    static const nf_dtype types[] = {NF_DTYPE_F32, NF_DTYPE_U8, NF_DTYPE_F64, NF_DTYPE_F32, NF_DTYPE_I16};
    for (uint32_t d = 0; d < ALL_DIMS; d++) {
        for (int few = 0; few < 2; few++) { /* a group takes as long as a full one */
            nf_matrix data = clustered(types[d % 5], few ? 12 + d : emulated ? 130 + d : 400 + d, all_dims[d], d);
            check_combinations(&data, NULL, radius_for(all_dims[d]), d, few);
            exact_free(&data);
        }
    }
}

static void test_semi_join_combinations(void **state)
{
    (void)state;
    static const nf_dtype types[] = {NF_DTYPE_U8, NF_DTYPE_F32, NF_DTYPE_F16, NF_DTYPE_F64, NF_DTYPE_I32};
    for (uint32_t d = 0; d < ALL_DIMS; d++) {
        for (int few = 0; few < 2; few++) {
            nf_matrix data = clustered(types[d % 5], few ? 12 + d : emulated ? 130 + d : 400 + d, all_dims[d], 20 + d);
            nf_matrix queries = clustered(types[(d + 1 + d / 5) % 5], few ? 40 : 60 + 7 * d, all_dims[d], 40 + d);
            check_combinations(&data, &queries, radius_for(all_dims[d]), d, few);
            exact_free(&data);
            exact_free(&queries);
        }
    }
}

/* ---- questions on the edge ---- */

/* Every method, self-join and semi-join, all groups' sizes of a choice, the options by turns; the truth is the oracle's. */
static void check_everywhere(const nf_matrix *data, const nf_matrix *queries, double radius)
{
    static const grouping some[] = {{0, 0}, {0, 1}, {0, 7}, {0, 65536}};
    exact_truth           self = exact_truth_of(data, NULL, radius), semi = {0};
    nf_context           *ctx = context_of(NF_ENGINE_CUDA, 1, 0);
    uint32_t              turn = 0;
    if (queries != NULL) semi = exact_truth_of(data, queries, radius);
    for (uint32_t g = 0; g < 4; g++) {
        if ((some[g].group_size == 1 && data->rows > 8) || (some[g].group_size == 7 && data->rows > 40)) continue; /* many tiles */
        nf_radius_index *index = index_of(ctx, data, some[g]);
        for (uint32_t c = NF_CANDIDATES_AUTO; c <= NF_CANDIDATES_NONE; c++, turn++) {
            nf_radius_params params = exact_params(radius);
            params.candidates = c;
            if (c == NF_CANDIDATES_RT && !with_rt) continue;
            (void)take_options(turn, 1, &params);
            exact_check_csr(ctx, index, NULL, &params, &self);
            if (g == 0) exact_check_counts(ctx, index, NULL, &params, &self);
            if (queries == NULL) continue;
            (void)take_options(turn, 0, &params);
            params.self = params.half = 0;
            exact_check_csr(ctx, index, queries, &params, &semi);
            if (g == 0) exact_check_counts(ctx, index, queries, &params, &semi);
        }
        nf_radius_index_release(index);
    }
    nf_context_destroy(ctx);
    exact_truth_free(&self);
    if (queries != NULL) exact_truth_free(&semi);
}

/* No row, one, two; queries of none, one and many. */
static void test_few_rows(void **state)
{
    (void)state;
    for (uint64_t rows = 0; rows <= 2; rows++) {
        for (uint64_t count = 0; count <= 70; count = count == 0 ? 1 : count * 69 + 1) {
            nf_matrix data = clustered(NF_DTYPE_F32, rows, 3, rows), queries = clustered(NF_DTYPE_U8, count, 3, rows + count);
            check_everywhere(&data, &queries, 40.0);
            exact_free(&data);
            exact_free(&queries);
        }
    }
}

static void test_equal_rows(void **state)
{
    (void)state;
    nf_matrix data = exact_matrix(NF_DTYPE_F32, 70, 5), queries = exact_matrix(NF_DTYPE_F64, 3, 5);
    for (uint64_t i = 0; i < data.rows; i++) exact_put(&data, i, 2, 0.1f);
    for (uint64_t i = 0; i < queries.rows; i++) exact_put(&queries, i, 2, i == 1 ? 0.1 : (double)0.1f);
    check_everywhere(&data, &queries, 0.0);
    check_everywhere(&data, NULL, HUGE_VAL);
    exact_free(&data);
    exact_free(&queries);
}

/* Values whose squares overflow, or vanish, in binary32, binary64 or both. */
static void test_extreme_values(void **state)
{
    (void)state;
    static const double scales[] = {1e300, 1.7e308 / 256, 3e38 / 256, 1e20, 1e-20, 1e-38, 0x1p-149, 1e-160, 0x1p-1074};
    uint64_t            seed = 3;
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
        for (int narrow = 0; narrow < 2; narrow++) {
            if (narrow && (scales[s] > 3e38 || scales[s] < 0x1p-149)) continue;
            const nf_dtype dtype = narrow ? NF_DTYPE_F32 : NF_DTYPE_F64;
            nf_matrix      data = exact_matrix(dtype, 20, 3), queries = exact_matrix(NF_DTYPE_F64, 8, 3);
            for (uint64_t i = 0; i < data.rows * 3; i++) {
                exact_put(&data, i / 3, (uint32_t)(i % 3), scales[s] * (double)random_below(&seed, 6));
            }
            for (uint64_t i = 0; i < queries.rows * 3; i++) {
                exact_put(&queries, i / 3, (uint32_t)(i % 3), scales[s] * (double)random_below(&seed, 6));
            }
            check_everywhere(&data, &queries, 3.0 * scales[s]);
            check_everywhere(&data, &queries, 0.0);
            check_everywhere(&data, &queries, scales[s]);
            exact_free(&data);
            exact_free(&queries);
        }
    }
}

/* A large value in one row of an otherwise ordinary set. */
static void test_one_large_value(void **state)
{
    (void)state;
    for (uint32_t dims = 2; dims <= 40; dims += 38) {
        nf_matrix data = clustered(NF_DTYPE_F64, 90, dims, dims), queries = clustered(NF_DTYPE_F32, 40, dims, 1 + dims);
        exact_put(&data, 17, 1, 1e300);
        exact_put(&data, 18, 1, 1e300);
        exact_put(&data, 19, 1, -1e300);
        exact_put(&queries, 3, 1, 3e38);
        check_everywhere(&data, &queries, radius_for(dims));
        check_everywhere(&data, &queries, 1e300);
        exact_free(&data);
        exact_free(&queries);
    }
}

static void test_many_dims(void **state)
{
    (void)state;
    static const uint32_t dims[] = {4097, 1023, 257};
    for (size_t d = 0; d < 3; d++) {
        nf_matrix data = clustered(d == 1 ? NF_DTYPE_U8 : NF_DTYPE_F32, 20, dims[d], d);
        nf_matrix queries = clustered(NF_DTYPE_F16, 9, dims[d], 10 + d);
        check_everywhere(&data, &queries, radius_for(dims[d]));
        exact_free(&data);
        exact_free(&queries);
    }
}

/* A group size beyond what the engine takes, and limits of memory that make no sense. */
static void test_refused(void **state)
{
    (void)state;
    nf_matrix              data = clustered(NF_DTYPE_F32, 10, 2, 1);
    nf_context            *ctx = context_of(NF_ENGINE_CUDA, 1, 7);
    nf_radius_index       *index = NULL;
    nf_radius_index_params params;
    nf_radius_index_params_init(&params);
    assert_int_equal(nf_radius_index_create(ctx, &data, &params, &index), NF_ERR_LIMIT);
    nf_context_destroy(ctx);
    ctx = context_of(NF_ENGINE_CUDA, 1, 0);
    params.group_size = 65537;
    assert_int_equal(nf_radius_index_create(ctx, &data, &params, &index), NF_ERR_ARGUMENT);
    params.group_size = 10;
    params.height = 1;
    assert_int_equal(nf_radius_index_create(ctx, &data, &params, &index), NF_ERR_ARGUMENT);
    assert_null(index);
    nf_context_destroy(ctx);
    exact_free(&data);
}

/* ---- threads and processes ---- */

typedef struct asked {
    const nf_radius_index *index;
    const nf_matrix       *queries;
    const nf_csr          *wanted;
    nf_radius_params       params;
    uint32_t               threads;
    int                    wrong;
} asked;

/* No assertions: not the test's thread. */
static void *ask(void *arg)
{
    asked            *at = arg;
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.engine = NF_ENGINE_CUDA;
    params.threads = at->threads;
    if (nf_context_create(&params, &ctx, NULL) != NF_OK) {
        at->wrong = 1;
        return NULL;
    }
    for (int round = 0; round < 8; round++) {
        nf_csr *csr = NULL;
        if (nf_radius_csr(ctx, at->index, at->queries, &at->params, &csr, NULL) != NF_OK) {
            at->wrong = 1;
        } else {
            at->wrong = at->wrong || !exact_same(csr, at->wanted);
        }
        nf_csr_release(csr);
    }
    nf_context_destroy(ctx);
    return NULL;
}

/* Contexts in threads of their own ask one index at once, whose context is gone. */
static void test_threads_share_an_index(void **state)
{
    (void)state;
    nf_matrix        data = clustered(NF_DTYPE_F32, 300, 5, 1), queries = clustered(NF_DTYPE_F32, 120, 5, 2);
    nf_context      *cpu = context_of(NF_ENGINE_CPU, 1, 0), *ctx = context_of(NF_ENGINE_CUDA, 2, 0);
    nf_radius_index *plain = exact_index(cpu, &data, 0), *index = exact_index(ctx, &data, 0);
    asked            all[4];
    pthread_t        threads[4];
    nf_csr          *wanted[4];
    nf_context_destroy(ctx);
    for (uint32_t i = 0; i < 4; i++) {
        all[i] = (asked){.index = index, .queries = i % 2 ? &queries : NULL, .params = exact_params(6.0),
                         .threads = i == 0 ? 16 : 1};
        assert_int_equal(nf_radius_csr(cpu, plain, all[i].queries, &all[i].params, &wanted[i], NULL), NF_OK);
        all[i].wanted = wanted[i];
        all[i].params.candidates = NF_CANDIDATES_BVH + i % 3;
    }
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask, &all[i]), 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(all[i].wrong);
        nf_csr_release(wanted[i]);
    }
    nf_radius_index_release(index);
    nf_radius_index_release(plain);
    nf_context_destroy(cpu);
    exact_free(&data);
    exact_free(&queries);
}

/* Runs in a child that was forked before the engine was first used; a device does not survive a fork afterwards. */
static int join_in_child(void)
{
    nf_matrix        data = clustered(NF_DTYPE_F32, 100, 3, 1);
    nf_radius_params params = exact_params(3.0);
    nf_context_params settings;
    nf_context      *ctx = NULL;
    nf_radius_index *index = NULL;
    nf_csr          *csr = NULL;
    nf_context_params_init(&settings);
    settings.engine = NF_ENGINE_CUDA;
    if (nf_context_create(&settings, &ctx, NULL) != NF_OK) return 1;
    if (nf_radius_index_create(ctx, &data, NULL, &index) != NF_OK) return 2;
    if (nf_radius_csr(ctx, index, NULL, &params, &csr, NULL) != NF_OK) return 3;
    const int found = csr->pairs > 0 ? 0 : 4;
    nf_csr_release(csr);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    exact_free(&data);
    return found;
}

static int fork_and_join(void)
{
    int         status = 0;
    const pid_t child = fork();
    if (child == 0) _exit(join_in_child());
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

/* ---- main ---- */

static int has_rt(void)
{
    nf_matrix        data = clustered(NF_DTYPE_F32, 100, 3, 1);
    nf_radius_params params = exact_params(1.0);
    nf_context      *ctx = context_of(NF_ENGINE_CUDA, 1, 0);
    nf_radius_index *index = exact_index(ctx, &data, 0);
    uint64_t         counts[100];
    params.candidates = NF_CANDIDATES_RT;
    const nf_status status = nf_radius_counts(ctx, index, NULL, &params, counts, NULL);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    exact_free(&data);
    return status != NF_ERR_UNSUPPORTED;
}

static int prepare(void **state)
{
    (void)state;
    nf_engine_info info = {.struct_size = sizeof info};
    if (nf_engine_describe(NF_ENGINE_CUDA, 0, &info) != NF_OK) return 1;
    emulated = strstr(info.device, "emulated") != NULL;
    with_rt = has_rt();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self_join_combinations), cmocka_unit_test(test_semi_join_combinations),
        cmocka_unit_test(test_few_rows),               cmocka_unit_test(test_equal_rows),
        cmocka_unit_test(test_extreme_values),         cmocka_unit_test(test_one_large_value),
        cmocka_unit_test(test_many_dims),              cmocka_unit_test(test_refused),
        cmocka_unit_test(test_threads_share_an_index),
    };
    if (!exact_on_cuda()) return 77;
    if (fork_and_join() != 0) {
        fprintf(stderr, "a child that was forked before the first use cannot join\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, prepare, NULL);
}
