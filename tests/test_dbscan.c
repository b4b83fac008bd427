/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nf_dbscan against the definition: core rows counted one by one, clusters by walking from core row to core row in the
 * order of rows, as scikit-learn does, so that a border row belongs to the first cluster that reaches it.
 */
#include "exact_helper.h"
#include "memory_helper.h"
#include "nearfield/cluster.h"

typedef struct clustering {
    int64_t *labels;
    uint8_t *core;
    uint64_t clusters, border, noise, core_count, pairs;
} clustering;

static bool near(const nf_matrix *data, uint64_t i, uint64_t j, double radius, bool strict)
{
    double sum = 0;
    for (uint32_t k = 0; k < data->dims; k++) {
        const double difference = exact_get(data, i, k) - exact_get(data, j, k);
        sum += difference * difference;
    }
    return strict ? sum < radius * radius : sum <= radius * radius;
}

/* Labels everything that is reached from a core row. */
static void walk(const nf_matrix *data, const nf_dbscan_params *params, clustering *out, uint64_t from, uint64_t *stack)
{
    uint64_t depth = 0;
    stack[depth++] = from;
    out->labels[from] = (int64_t)out->clusters;
    while (depth > 0) {
        const uint64_t at = stack[--depth];
        for (uint64_t j = 0; out->core[at] && j < data->rows; j++) {
            if (out->labels[j] >= 0 || !near(data, at, j, params->radius, params->strict != 0)) continue;
            out->labels[j] = (int64_t)out->clusters;
            stack[depth++] = j;
        }
    }
    out->clusters++;
}

static clustering by_definition(const nf_matrix *data, const nf_dbscan_params *params)
{
    clustering out = {.labels = malloc((data->rows + 1) * sizeof *out.labels), .core = calloc(data->rows + 1, 1)};
    uint64_t  *stack = malloc((data->rows + 1) * sizeof *stack);
    for (uint64_t i = 0; i < data->rows; i++) {
        uint64_t count = 1;
        for (uint64_t j = 0; j < data->rows; j++) {
            if (j == i || !near(data, i, j, params->radius, params->strict != 0)) continue;
            count++;
            out.pairs += j > i;
        }
        out.labels[i] = -1;
        out.core[i] = count >= params->min_samples;
        out.core_count += out.core[i];
    }
    for (uint64_t i = 0; i < data->rows; i++) {
        if (out.core[i] && out.labels[i] < 0) walk(data, params, &out, i, stack);
    }
    for (uint64_t i = 0; i < data->rows; i++) {
        out.noise += out.labels[i] < 0;
        out.border += out.labels[i] >= 0 && !out.core[i];
    }
    free(stack);
    return out;
}

static void free_clustering(clustering *one)
{
    free(one->labels);
    free(one->core);
}

static nf_dbscan_params asked(double radius, uint32_t min_samples, uint32_t strict)
{
    nf_dbscan_params params;
    nf_dbscan_params_init(&params);
    params.radius = radius;
    params.min_samples = min_samples;
    params.strict = strict;
    return params;
}

/* Components are the clusters of one row's density; their sizes are counted one by one. */
static void check_components(nf_context *ctx, const nf_radius_index *index, const nf_dbscan_params *asked,
                             const clustering *expected, uint64_t rows)
{
    nf_components_params params;
    nf_components_stats  stats = {.struct_size = sizeof stats};
    int64_t             *labels = malloc((rows + 1) * sizeof *labels);
    uint64_t             largest = 0, singletons = 0;
    nf_components_params_init(&params);
    params.radius = asked->radius;
    params.strict = asked->strict;
    if (nf_radius_components(ctx, index, &params, labels, &stats) != NF_OK) fail_msg("%s", nf_context_error(ctx)->text);
    assert_memory_equal(labels, expected->labels, rows * sizeof *labels);
    for (uint64_t i = 0; i < expected->clusters; i++) {
        uint64_t size = 0;
        for (uint64_t row = 0; row < rows; row++) size += expected->labels[row] == (int64_t)i;
        if (size > largest) largest = size;
        singletons += size == 1;
    }
    assert_int_equal(stats.components, expected->clusters);
    assert_int_equal(stats.largest, largest);
    assert_int_equal(stats.singletons, singletons);
    assert_int_equal(stats.pairs, expected->pairs);
    free(labels);
}

static void check(nf_context *ctx, const nf_matrix *data, const nf_dbscan_params *params)
{
    nf_radius_index *index = exact_index(ctx, data, 0);
    clustering       expected = by_definition(data, params);
    int64_t         *labels = malloc((data->rows + 1) * sizeof *labels);
    uint8_t         *core = malloc(data->rows + 1);
    nf_dbscan_stats  stats = {.struct_size = sizeof stats};
    if (nf_dbscan(ctx, index, params, labels, core, &stats) != NF_OK) fail_msg("%s", nf_context_error(ctx)->text);
    assert_memory_equal(labels, expected.labels, data->rows * sizeof *labels);
    assert_memory_equal(core, expected.core, data->rows);
    assert_int_equal(stats.clusters, expected.clusters);
    assert_int_equal(stats.core, expected.core_count);
    assert_int_equal(stats.border, expected.border);
    assert_int_equal(stats.noise, expected.noise);
    assert_int_equal(stats.pairs, expected.pairs);
    if (params->min_samples == 1) {
        assert_int_equal(stats.passes, data->rows > 0); /* no counting pass */
        check_components(ctx, index, params, &expected, data->rows);
    }
    free(labels);
    free(core);
    free_clustering(&expected);
    nf_radius_index_release(index);
}

/* Points of a small grid: many equal, many at the radius, border rows between clusters. */
static nf_matrix grid(uint64_t rows, uint32_t side, uint64_t seed)
{
    nf_matrix data = exact_matrix(NF_DTYPE_F32, rows, 2);
    for (uint64_t i = 0; i < rows; i++) {
        exact_put(&data, i, 0, (double)random_below(&seed, side));
        exact_put(&data, i, 1, (double)random_below(&seed, side));
    }
    return data;
}

static void test_grids(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        nf_context *ctx = exact_context(NF_ISA_AUTO, threads, 0);
        for (uint32_t side = 8; side <= 64; side *= 2) {
            nf_matrix data = grid(exact_short() ? 200 : 600, side, side);
            for (uint32_t samples = 1; samples <= 16; samples = samples * 2 + 1) {
                for (uint32_t strict = 0; strict < 2; strict++) {
                    const nf_dbscan_params one = asked(1.0, samples, strict), two = asked(2.0, samples, strict);
                    check(ctx, &data, &one);
                    check(ctx, &data, &two);
                }
            }
            exact_free(&data);
        }
        nf_context_destroy(ctx);
    }
}

/* No rows, one row, all rows equal, radius 0 and infinity. */
static void test_edges(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (uint64_t rows = 0; rows <= 40; rows += rows < 2 ? 1 : 38) {
        nf_matrix data = grid(rows, 1 + (uint32_t)rows / 4, 3);
        for (uint32_t samples = 1; samples <= 41; samples += 8) {
            const double radii[] = {0, 1, INFINITY};
            for (int i = 0; i < 3; i++) {
                const nf_dbscan_params params = asked(radii[i], samples, 0);
                check(ctx, &data, &params);
            }
        }
        exact_free(&data);
    }
    nf_context_destroy(ctx);
}

/* A chain of rows that are as far apart as the radius is one cluster, in whatever order they come. */
static void test_chain(void **state)
{
    (void)state;
    enum { LENGTH = 50000 };
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 4, 0);
    nf_matrix        data = exact_matrix(NF_DTYPE_F64, LENGTH, 1);
    nf_dbscan_params params = asked(1.0, 3, 0);
    int64_t         *labels = malloc(LENGTH * sizeof *labels);
    nf_dbscan_stats  stats = {.struct_size = sizeof stats};
    for (uint64_t i = 0; i < LENGTH; i++) exact_put(&data, i, 0, (double)(i * 7919 % LENGTH)); /* a permutation */
    nf_radius_index *index = exact_index(ctx, &data, 0);
    assert_int_equal(nf_dbscan(ctx, index, &params, labels, NULL, &stats), NF_OK);
    assert_int_equal(stats.clusters, 1);
    assert_int_equal(stats.core, LENGTH - 2);
    assert_int_equal(stats.border, 2);
    for (uint64_t i = 0; i < LENGTH; i++) assert_int_equal(labels[i], 0);
    params.strict = 1;
    assert_int_equal(nf_dbscan(ctx, index, &params, labels, NULL, &stats), NF_OK);
    assert_int_equal(stats.noise, LENGTH);
    free(labels);
    nf_radius_index_release(index);
    exact_free(&data);
    nf_context_destroy(ctx);
}

static void test_refused(void **state)
{
    (void)state;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix        data = grid(20, 4, 5);
    nf_radius_index *index = exact_index(ctx, &data, 0);
    int64_t          labels[20];
    nf_dbscan_params params = asked(NAN, 3, 0);
    nf_error         error;
    assert_int_equal(nf_dbscan(ctx, index, &params, labels, NULL, NULL), NF_ERR_ARGUMENT);
    params = asked(-1.0, 3, 0);
    assert_int_equal(nf_dbscan(ctx, index, &params, labels, NULL, NULL), NF_ERR_ARGUMENT);
    params = asked(1.0, 0, 0);
    assert_int_equal(nf_dbscan(ctx, index, &params, labels, NULL, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_dbscan(ctx, index, NULL, labels, NULL, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_dbscan(ctx, NULL, &params, labels, NULL, NULL), NF_ERR_ARGUMENT);
    params = asked(1.0, 3, 0);
    assert_int_equal(nf_dbscan(ctx, index, &params, NULL, NULL, NULL), NF_ERR_ARGUMENT);
    params.struct_size = 3;
    assert_int_equal(nf_dbscan(ctx, index, &params, labels, NULL, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_dbscan_params_set(&params, "min-samples", "0", &error), NF_ERR_ARGUMENT);
    assert_int_equal(nf_dbscan_params_set(&params, "min-samples", "7", &error), NF_OK);
    assert_int_equal(params.min_samples, 7);
    nf_components_params components;
    nf_components_params_init(&components);
    components.radius = NAN;
    assert_int_equal(nf_radius_components(ctx, index, &components, labels, NULL), NF_ERR_ARGUMENT);
    components.radius = 1;
    assert_int_equal(nf_radius_components(ctx, index, &components, NULL, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_components(ctx, NULL, &components, labels, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_components(ctx, index, NULL, labels, NULL), NF_ERR_ARGUMENT);
    components.struct_size = 3;
    assert_int_equal(nf_radius_components(ctx, index, &components, labels, NULL), NF_ERR_ARGUMENT);
    nf_radius_index_release(index);
    exact_free(&data);
    nf_context_destroy(ctx);
}

/* Every allocation fails once: an error and nothing left, or the right answer (what is kept for border rows is no
 * need). */
static void test_memory(void **state)
{
    (void)state;
    nf_matrix              data = grid(300, 20, 7);
    const nf_dbscan_params params = asked(1.0, 4, 0);
    clustering             expected = by_definition(&data, &params);
    int64_t                labels[300];
    long                   fails = 0, right = 0;
    for (long at = 1, reached = 1; reached; at++) {
        memory_hook       hook = {0};
        nf_context_params settings;
        nf_context       *ctx = NULL;
        nf_context_params_init(&settings);
        settings.threads = 2;
        settings.allocator = memory_hook_allocator(&hook);
        assert_int_equal(nf_context_create(&settings, &ctx, NULL), NF_OK);
        nf_radius_index *index = exact_index(ctx, &data, 0);
        hook.fail_at = hook.calls + at;
        const nf_status status = nf_dbscan(ctx, index, &params, labels, NULL, NULL);
        reached = hook.calls >= hook.fail_at;
        assert_true(status == NF_OK || status == NF_ERR_MEMORY);
        fails += status != NF_OK;
        if (status == NF_OK) {
            right += reached;
            assert_memory_equal(labels, expected.labels, sizeof labels);
        }
        nf_radius_index_release(index);
        nf_context_destroy(ctx);
        assert_int_equal(hook.live_blocks, 0);
    }
    assert_true(fails > 5);
    if (!exact_on_cuda()) assert_true(right > 0); /* the third pass was taken */
    free_clustering(&expected);
    exact_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grids),   cmocka_unit_test(test_edges),  cmocka_unit_test(test_chain),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
