/* SPDX-License-Identifier: Apache-2.0 */
/* The index: steps select_dims, group and order on the data, once, for any number of queries. */
#include <string.h>

#include "exact_cosine.h"
#include "exact_private.h"

#define MOST_ROWS 0x7fffffffull
#define MOST_DIMS (1u << 20)

void nf_radius_index_params_init(nf_radius_index_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
}

nf_status nf_exact_check_matrix(nf_context *ctx, const nf_matrix *matrix, const char *what)
{
    if (matrix == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "%s is NULL", what);
    const size_t bytes = nf_dtype_bytes((nf_dtype)matrix->dtype);
    if (bytes == 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: dtype is %u, allowed are 1 to 11", what, matrix->dtype);
    if (matrix->dims == 0 || matrix->dims > MOST_DIMS) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: %u dims, allowed are 1 to %u", what, matrix->dims, MOST_DIMS);
    }
    if (matrix->rows > MOST_ROWS) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: %llu rows, at most %llu are allowed", what,
                       (unsigned long long)matrix->rows, MOST_ROWS);
    }
    if (matrix->stride_bytes != 0 && matrix->stride_bytes < matrix->dims * bytes) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: stride is %llu bytes, a row takes %llu", what,
                       (unsigned long long)matrix->stride_bytes, (unsigned long long)(matrix->dims * bytes));
    }
    if (matrix->place != NF_PLACE_HOST) {
        nf_context_info info;
        nf_context_describe(ctx, &info);
        return nf_fail(ctx, NF_ERR_UNSUPPORTED, "%s: the %s engine needs host memory", what, info.engine);
    }
    if (matrix->data == NULL && matrix->rows > 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: data is NULL", what);
    return NF_OK;
}

static void add_seconds(double *step_seconds, nf_step step, double *started)
{
    const double now = nf_now();
    step_seconds[step] += now - *started;
    *started = now;
}

nf_status nf_exact_build_points(nf_context *ctx, const nf_engine_ops *ops, const nf_matrix *matrix, const nf_points *like,
                                uint32_t group_size, nf_memory *memory, double *step_seconds, nf_points **out)
{
    nf_points *points = NULL;
    double     started = nf_now();

    *out = NULL;
    NF_TRY(ops->points_open(ctx, matrix, memory, &points));
    nf_progress_begin(ctx, "select_dims", 2 * matrix->rows);
    nf_status status = ops->select_dims(ctx, points, like);
    add_seconds(step_seconds, NF_STEP_SELECT_DIMS, &started);
    if (status >= 0) {
        nf_progress_begin(ctx, "group", matrix->rows);
        status = ops->group(ctx, points, group_size);
        add_seconds(step_seconds, NF_STEP_GROUP, &started);
    }
    if (status >= 0) {
        nf_progress_begin(ctx, "order", matrix->rows);
        status = ops->order(ctx, points);
        add_seconds(step_seconds, NF_STEP_ORDER, &started);
    }
    if (status < 0) {
        ops->points_close(points);
        return status;
    }
    *out = points;
    return NF_OK;
}

/* A struct of an older header is shorter: what it lacks has its default. */
static nf_status take_params(nf_context *ctx, const nf_radius_index_params *given, nf_radius_index_params *params)
{
    nf_radius_index_params_init(params);
    if (given == NULL) return NF_OK;
    if (given->struct_size < sizeof given->struct_size) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "struct_size of the index parameters is %zu; use nf_radius_index_params_init",
                       given->struct_size);
    }
    memcpy(params, given, given->struct_size < sizeof *params ? given->struct_size : sizeof *params);
    if (params->height > NF_MAX_HEIGHT) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "height is %u, allowed are 0 to %d", params->height, NF_MAX_HEIGHT);
    }
    if (params->height != 0 && params->group_size != 0) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "height is %u and group_size is %u, only one of them may be given",
                       params->height, params->group_size);
    }
    if (params->metric != NF_METRIC_L2 && params->metric != NF_METRIC_COSINE) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "metric is %s: a radius needs a distance, allowed are l2 and cosine",
                       nf_metric_name(params->metric));
    }
    return NF_OK;
}

/* Rows of a group: asked for by themselves, or by the height of the tree (RT-HiSS, section V-D). */
static uint32_t group_size_of(const nf_radius_index_params *params, uint64_t rows)
{
    if (params->height == 0) return params->group_size;
    const uint64_t groups = 1ull << params->height, size = (rows + groups - 1) / groups;
    return size > 0 ? (uint32_t)size : 1;
}

/* Points of the data, of unit length under cosine. */
static nf_status build_points(nf_context *ctx, nf_radius_index *index, const nf_matrix *data, uint32_t group_size)
{
    nf_unit_rows unit = {0};
    const double started = nf_now();
    if (index->metric == NF_METRIC_COSINE) {
        NF_TRY(nf_exact_unit_rows(ctx, data, "data", index->memory, &unit));
        index->step_seconds[NF_STEP_SELECT_DIMS] += nf_now() - started;
        index->kept = unit.kept;
        index->zero_rows = unit.zero_rows;
        data = &unit.matrix;
    }
    const nf_status status = nf_exact_build_points(ctx, index->ops, data, NULL, group_size, index->memory,
                                                   index->step_seconds, &index->points);
    nf_free(unit.values);
    return status;
}

nf_status nf_radius_index_create(nf_context *ctx, const nf_matrix *data, const nf_radius_index_params *params,
                                 nf_radius_index **out)
{
    if (ctx == NULL || out == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    *out = NULL;
    NF_TRY(nf_exact_check_matrix(ctx, data, "data"));
    nf_radius_index_params taken;
    NF_TRY(take_params(ctx, params, &taken));

    nf_memory *memory = nf_memory_create_unlimited(ctx);
    if (memory == NULL) return NF_ERR_MEMORY;
    nf_radius_index *index = nf_alloc_zero_in(ctx, memory, 1, sizeof *index);
    if (index == NULL) {
        nf_memory_release(memory);
        return nf_alloc_status(ctx);
    }
    index->memory = memory;
    index->rows = data->rows;
    index->dims = data->dims;
    index->metric = taken.metric;
    index->dtype = data->dtype;
    nf_status status = nf_engine_for(ctx, NF_WORK_RADIUS, data->rows, data->dims, &index->ops);
    if (status >= 0) status = build_points(ctx, index, data, group_size_of(&taken, data->rows));
    if (status < 0) {
        nf_radius_index_release(index);
        return status;
    }
    *out = index;
    return NF_OK;
}

void nf_radius_index_release(nf_radius_index *index)
{
    if (index == NULL) return;
    nf_memory *memory = index->memory;
    if (index->points != NULL) index->ops->points_close(index->points);
    nf_free(index->kept);
    nf_free(index);
    nf_memory_release(memory);
}

void nf_radius_index_describe(const nf_radius_index *index, uint64_t *rows, uint32_t *dims, uint64_t *bytes)
{
    if (rows != NULL) *rows = index->rows;
    if (dims != NULL) *dims = index->dims;
    if (bytes != NULL) *bytes = nf_memory_used(index->memory);
}
