/* SPDX-License-Identifier: Apache-2.0 */
/* Exact k nearest neighbours: parameters, checks of arguments and values. The engine compares. */
#include <stdatomic.h>
#include <string.h>

#include "core/core_pool.h"
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
    if (queries->rows > 0 && (ids == NULL || distances == NULL)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "ids or distances are NULL");
    }
    NF_TRY(nf_engine_for(ctx, NF_WORK_KNN, data->rows, data->dims, &ops));
    nf_progress_begin(ctx, "check", 0);
    NF_TRY(check_values(ctx, data, "data"));
    NF_TRY(check_values(ctx, queries, "queries"));
    NF_TRY(ops->knn(ctx, data, queries, &own, ids, distances, counts, &done));
    done.seconds = nf_now() - started;
    give_stats(&done, stats);
    return NF_OK;
}
