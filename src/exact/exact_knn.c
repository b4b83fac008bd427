/* SPDX-License-Identifier: Apache-2.0 */
/* Exact k nearest neighbours: parameters, checks of arguments and values. The engine compares. */
#include <stdatomic.h>
#include <string.h>

#include "core/core_pool.h"
#include "exact_knn_grow.h"
#include "exact_private.h"
#include "matrix/matrix_convert.h"
#include "nearfield/neighbours.h"

#define ROWS_PER_TASK 4096u

void nf_knn_params_init(nf_knn_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->k = 10;
    params->metric = NF_METRIC_L2;
}

const char *nf_metric_name(uint32_t metric)
{
    static const char *const names[] = {"l2", "ip", "cosine"};
    return metric < sizeof names / sizeof names[0] ? names[metric] : "unknown";
}

/* ---- values ---- */

typedef struct value_check {
    const nf_matrix     *matrix;
    atomic_uint_fast64_t row; /* the first row with a bad value that has been found; at first the number of rows */
} value_check;

static void lower_to(atomic_uint_fast64_t *row, uint64_t found)
{
    uint_fast64_t before = atomic_load(row);
    while (found < before && !atomic_compare_exchange_weak(row, &before, found)) {}
}

static nf_status check_task(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    value_check   *check = arg;
    const uint64_t begin = task * ROWS_PER_TASK, left = check->matrix->rows - begin;
    const uint64_t end = begin + (left < ROWS_PER_TASK ? left : ROWS_PER_TASK);
    for (uint64_t row = begin; row < end && row < atomic_load_explicit(&check->row, memory_order_relaxed); row++) {
        if (nf_matrix_row_invalid(check->matrix, row) < check->matrix->dims) lower_to(&check->row, row);
    }
    return NF_OK;
}

/* Names the first bad value, whatever the number of threads. */
static nf_status check_values(nf_context *ctx, const nf_matrix *matrix, const char *what)
{
    value_check check = {.matrix = matrix};
    if (matrix->dtype <= NF_DTYPE_I32) return NF_OK;
    atomic_init(&check.row, matrix->rows);
    NF_TRY(nf_pool_run(ctx, check_task, &check, (matrix->rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK));
    const uint64_t row = atomic_load(&check.row);
    if (row == matrix->rows) return NF_OK;
    const bool integer = matrix->dtype == NF_DTYPE_U64 || matrix->dtype == NF_DTYPE_I64;
    return nf_fail(ctx, NF_ERR_VALUE, "%s: row %llu, column %u (counted from 0) %s", what, (unsigned long long)row,
                   nf_matrix_row_invalid(matrix, row), integer ? "holds an integer beyond 2^53" : "is NaN or infinite");
}

/* ---- arguments ---- */

static nf_status take_params(nf_context *ctx, const nf_knn_params *params, nf_knn_params *out)
{
    nf_knn_params_init(out);
    if (params == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "params are NULL");
    if (params->struct_size < sizeof params->struct_size) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "struct_size of the knn parameters is %zu; use nf_knn_params_init",
                       params->struct_size);
    }
    memcpy(out, params, params->struct_size < sizeof *out ? params->struct_size : sizeof *out);
    out->struct_size = sizeof *out;
    if (out->k < 1 || out->k > NF_MAX_K) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "k is %u, allowed are 1 to %u", out->k, NF_MAX_K);
    }
    if (out->metric > NF_METRIC_COSINE) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "metric is %u, allowed are 0 to %d", out->metric, NF_METRIC_COSINE);
    }
    return NF_OK;
}

static nf_status check_matrices(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries)
{
    NF_TRY(nf_exact_check_matrix(ctx, data, "data"));
    NF_TRY(nf_exact_check_matrix(ctx, queries, "queries"));
    if (queries->dims != data->dims) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "queries have %u dims, the data have %u", queries->dims, data->dims);
    }
    return NF_OK;
}

static void give_stats(const nf_knn_stats *stats, nf_knn_stats *out)
{
    if (out == NULL) return;
    const size_t size = out->struct_size != 0 && out->struct_size < sizeof *out ? out->struct_size : sizeof *out;
    memcpy(out, stats, size);
    out->struct_size = size;
}

/* ---- through an index ---- */

/* Arrays that are there, and a metric that radius searches have. */
static nf_status check_outputs(nf_context *ctx, uint64_t queries, const int64_t *ids, const double *distances)
{
    if (queries == 0 || (ids != NULL && distances != NULL)) return NF_OK;
    return nf_fail(ctx, NF_ERR_ARGUMENT, "ids or distances are NULL");
}

/* L2 by an index, in the way that its engine has. queries NULL: the data themselves. */
static nf_status search_index(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries, uint32_t k,
                              int64_t *ids, double *distances, uint32_t *counts, nf_knn_stats *stats)
{
    const nf_engine_ops *ops = index->ops;
    nf_points           *own = NULL;
    double               step_seconds[NF_STEP_COUNT] = {0};

    if (ops->knn_points == NULL) {
        const nf_grow_rules rules = nf_grow_rules_default();
        return nf_exact_knn_grow(ctx, index, queries, k, &rules, ids, distances, counts, stats);
    }
    if (queries != NULL) {
        NF_TRY(nf_exact_build_points(ctx, ops, queries, index->points, 0, nf_context_memory(ctx), step_seconds, &own));
    }
    const nf_status status = ops->knn_points(ctx, index->points, own != NULL ? own : index->points, queries == NULL, k,
                                             ids, distances, counts, stats);
    if (own != NULL) ops->points_close(own);
    return status;
}

nf_status nf_radius_knn(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                        const nf_knn_params *params, int64_t *ids, double *distances, uint32_t *counts,
                        nf_knn_stats *stats)
{
    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    const double  started = nf_now();
    nf_knn_params own;
    nf_knn_stats  done = {.struct_size = sizeof done};

    NF_TRY(take_params(ctx, params, &own));
    if (index == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "index is NULL");
    if (own.metric != NF_METRIC_L2 || index->metric != NF_METRIC_L2) {
        return nf_fail(ctx, NF_ERR_UNSUPPORTED, "metric is %s, of the index %s; by an index only l2 is searched, nf_knn has the others",
                       nf_metric_name(own.metric), nf_metric_name(index->metric));
    }
    if (queries != NULL) {
        NF_TRY(nf_exact_check_matrix(ctx, queries, "queries"));
        if (queries->dims != index->dims) {
            return nf_fail(ctx, NF_ERR_ARGUMENT, "queries have %u dims, the data have %u", queries->dims, index->dims);
        }
    }
    NF_TRY(check_outputs(ctx, queries != NULL ? queries->rows : index->rows, ids, distances));
    if (queries != NULL) NF_TRY(check_values(ctx, queries, "queries"));
    NF_TRY(search_index(ctx, index, queries, own.k, ids, distances, counts, &done));
    done.seconds = nf_now() - started;
    give_stats(&done, stats);
    return NF_OK;
}

/* ---- matrices ---- */

/*
 * Whether an index made for this one search pays: building it costs as much as comparing a few hundred queries with all
 * rows. Processor seconds with k = 10, by an index (its building included) and by all pairs:
 *
 *     queries                          256             1,024             4,096
 *     letter    20,000 x 16       0.014  0.012     0.028  0.035     0.067  0.122
 *     shuttle   58,000 x 9        0.033  0.019     0.051  0.043     0.096  0.190
 *     SIFT      60,000 x 128 u8   0.162  0.060     0.194  0.220     0.394  0.797
 *     uniform   40,000 x 16                                         0.213  0.182
 *
 * Uniform rows in many dims, of which no box leaves any out, lose a little. A k that is a fair share of the rows leaves
 * nothing out either. The index holds a copy of the rows: where memory is short, all pairs need less.
 */
static bool index_pays(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t k)
{
    const nf_memory *memory = nf_context_memory(ctx);
    const uint64_t   limit = nf_memory_limit(memory), used = nf_memory_used(memory);
    const uint64_t   left = limit == 0 ? UINT64_MAX : limit > used ? limit - used : 0;
    const uint64_t   values = (data->rows + queries->rows) * data->dims;

    if (data->rows < 4096 || queries->rows < 1024 || k > data->rows / 64) return false;
    return 2 * values * nf_dtype_bytes((nf_dtype)data->dtype) + 64 * (data->rows + queries->rows) < left / 2;
}

static nf_status build_and_search(nf_context *ctx, const nf_engine_ops *ops, const nf_matrix *data,
                                  const nf_matrix *queries, uint32_t k, int64_t *ids, double *distances,
                                  uint32_t *counts, nf_knn_stats *stats)
{
    nf_radius_index index = {.ops = ops, .rows = data->rows, .dims = data->dims, .dtype = data->dtype};
    NF_TRY(nf_exact_build_points(ctx, ops, data, NULL, 0, nf_context_memory(ctx), index.step_seconds, &index.points));
    const nf_status status = search_index(ctx, &index, queries, k, ids, distances, counts, stats);
    ops->points_close(index.points);
    return status;
}

nf_status nf_knn(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, const nf_knn_params *params,
                 int64_t *ids, double *distances, uint32_t *counts, nf_knn_stats *stats)
{
    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    const double         started = nf_now();
    const nf_engine_ops *ops = NULL;
    nf_knn_params        own;
    nf_knn_stats         done = {.struct_size = sizeof done};

    NF_TRY(take_params(ctx, params, &own));
    NF_TRY(check_matrices(ctx, data, queries));
    NF_TRY(check_outputs(ctx, queries->rows, ids, distances));
    NF_TRY(nf_engine_for(ctx, own.metric == NF_METRIC_L2 ? NF_WORK_KNN_L2 : NF_WORK_KNN, data->rows, data->dims, &ops));
    nf_progress_begin(ctx, "check", 0);
    NF_TRY(check_values(ctx, data, "data"));
    NF_TRY(check_values(ctx, queries, "queries"));
    const bool l2 = own.metric == NF_METRIC_L2;
    if (ops->knn == NULL || (l2 && ops->knn_points != NULL && index_pays(ctx, data, queries, own.k))) {
        NF_TRY(build_and_search(ctx, ops, data, queries, own.k, ids, distances, counts, &done));
    } else {
        NF_TRY(ops->knn(ctx, data, queries, &own, ids, distances, counts, &done));
    }
    done.seconds = nf_now() - started;
    give_stats(&done, stats);
    return NF_OK;
}
