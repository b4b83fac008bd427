/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening points and step select_dims: variance of every coordinate in binary64 by two passes (a one-pass formula loses
 * everything on data far from the origin), coordinates ordered by decreasing variance (RT-HiSS, section IV-A).
 */
#include "cpu_points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core_pool.h"
#include "engine/engine_dims.h"
#include "matrix/matrix_convert.h"

#define ROWS_PER_TASK 4096u
#define READ_PER_TASK 512u

/* The narrowest store that holds every value of the type exactly. */
static nf_store store_for(nf_dtype dtype, double *bias)
{
    *bias = 0.0;
    switch (dtype) {
    case NF_DTYPE_U8: return NF_STORE_U8;
    case NF_DTYPE_I8: *bias = -128.0; return NF_STORE_U8;
    case NF_DTYPE_I16: return NF_STORE_I16;
    case NF_DTYPE_U16: *bias = 32768.0; return NF_STORE_I16;
    case NF_DTYPE_F16: return NF_STORE_F16;
    case NF_DTYPE_F32: return NF_STORE_F32;
    default: return NF_STORE_F64;
    }
}

/* Sums over rows of one task: first pass sum of values and largest magnitude, second pass sum of squared deviations. */
typedef struct dims_pass {
    nf_context      *ctx;
    const nf_matrix *matrix;
    const double    *mean;    /* NULL in the first pass */
    double          *partial; /* per task: dims sums, the largest magnitude, the largest sum of squares of a row */
    bool             check;   /* first pass: look for values that are not allowed */
} dims_pass;

static nf_status invalid_value(nf_context *ctx, const nf_matrix *matrix, uint64_t row, uint32_t column)
{
    if (matrix->dtype == NF_DTYPE_U64 || matrix->dtype == NF_DTYPE_I64) {
        return nf_fail(ctx, NF_ERR_VALUE, "row %llu, column %u (counted from 0) holds an integer beyond 2^53",
                       (unsigned long long)row, column);
    }
    return nf_fail(ctx, NF_ERR_VALUE, "row %llu, column %u (counted from 0) is NaN or infinite", (unsigned long long)row, column);
}

static nf_status dims_task(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    const dims_pass *pass = arg;
    const uint32_t   dims = pass->matrix->dims;
    double          *sums = pass->partial + task * (dims + 2);
    const uint64_t   begin = task * ROWS_PER_TASK;
    uint64_t         end = begin + ROWS_PER_TASK;
    double          *row_values = nf_alloc(pass->ctx, dims, sizeof *row_values);

    if (row_values == NULL) return nf_alloc_status(pass->ctx);
    if (end > pass->matrix->rows) end = pass->matrix->rows;
    for (uint64_t row = begin; row < end; row++) {
        if (pass->check) {
            const uint32_t column = nf_matrix_row_invalid(pass->matrix, row);
            if (column < dims) {
                nf_free(row_values);
                return invalid_value(pass->ctx, pass->matrix, row, column);
            }
        }
        nf_matrix_row_f64(pass->matrix, row, row_values);
        if (pass->mean == NULL) {
            double square = 0.0;
            for (uint32_t k = 0; k < dims; k++) {
                sums[k] += row_values[k];
                square += row_values[k] * row_values[k];
                const double magnitude = fabs(row_values[k]);
                if (magnitude > sums[dims]) sums[dims] = magnitude;
            }
            sums[dims + 1] = fmax(sums[dims + 1], square);
        } else {
            for (uint32_t k = 0; k < dims; k++) {
                const double deviation = row_values[k] - pass->mean[k];
                sums[k] += deviation * deviation;
            }
        }
    }
    nf_free(row_values);
    nf_progress_add(pass->ctx, end - begin);
    return NF_OK;
}

/* Runs a pass and adds up the tasks in order, so that the result does not depend on threads. totals: dims + 2. */
static nf_status run_pass(nf_context *ctx, const nf_matrix *matrix, const double *mean, bool check, double *totals)
{
    const uint64_t tasks = (matrix->rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
    const uint32_t dims = matrix->dims;
    dims_pass      pass = {.ctx = ctx, .matrix = matrix, .mean = mean, .check = check};

    pass.partial = nf_alloc_zero(ctx, tasks * (dims + 2), sizeof(double));
    if (pass.partial == NULL) return nf_alloc_status(ctx);
    const nf_status status = nf_pool_run(ctx, dims_task, &pass, tasks);
    memset(totals, 0, (dims + 2) * sizeof *totals);
    for (uint64_t task = 0; status >= 0 && task < tasks; task++) {
        const double *partial = pass.partial + task * (dims + 2);
        for (uint32_t k = 0; k < dims; k++) totals[k] += partial[k];
        totals[dims] = fmax(totals[dims], partial[dims]);
        totals[dims + 1] = fmax(totals[dims + 1], partial[dims + 1]);
    }
    nf_free(pass.partial);
    return status;
}

static nf_status allocate_dims(nf_context *ctx, nf_points *points)
{
    points->variance = nf_alloc(ctx, (uint64_t)points->dims + 2, sizeof(double));
    points->mean = nf_alloc(ctx, (uint64_t)points->dims + 2, sizeof(double));
    points->dim_order = nf_alloc_in(ctx, points->memory, points->dims, sizeof(uint32_t));
    points->dim_place = nf_alloc_in(ctx, points->memory, points->dims, sizeof(uint32_t));
    if (points->variance == NULL || points->mean == NULL || points->dim_order == NULL || points->dim_place == NULL) {
        return nf_alloc_status(ctx);
    }
    return NF_OK;
}

nf_status nf_cpu_points_open(nf_context *ctx, const nf_matrix *matrix, nf_memory *memory, nf_points **out)
{
    *out = NULL;
    nf_points *points = nf_alloc_zero_in(ctx, memory, 1, sizeof *points);
    if (points == NULL) return nf_alloc_status(ctx);
    points->memory = memory;
    points->matrix = *matrix;
    points->rows_count = matrix->rows;
    points->dims = matrix->dims;
    points->store = store_for((nf_dtype)matrix->dtype, &points->bias);
    points->integers = matrix->dtype <= NF_DTYPE_I64;
    points->permuted = points->store == NF_STORE_U8 || points->store == NF_STORE_I16;

    const nf_status status = allocate_dims(ctx, points);
    if (status < 0) {
        nf_cpu_points_close(points);
        return status;
    }
    *out = points;
    return NF_OK;
}

void nf_cpu_points_close(nf_points *points)
{
    if (points == NULL) return;
    nf_free(points->variance);
    nf_free(points->mean);
    nf_free(points->dim_order);
    nf_free(points->dim_place);
    nf_free(points->ids);
    nf_free(points->positions);
    nf_free(points->group_start);
    nf_free(points->rows);
    for (uint32_t level = 0; level < NF_MAX_LEVELS; level++) nf_free(points->level[level].box);
    nf_free(points->centroid);
    nf_free(points->spread);
    nf_free(points);
}

void nf_cpu_points_describe(const nf_points *points, nf_points_info *info)
{
    *info = (nf_points_info){
        .rows = points->rows_count,
        .dims = points->dims,
        .groups = points->group_count,
        .bytes = nf_memory_used(points->memory),
    };
}

static void copy_dims(nf_points *points, const nf_points *like)
{
    memcpy(points->dim_order, like->dim_order, points->dims * sizeof(uint32_t));
    memcpy(points->dim_place, like->dim_place, points->dims * sizeof(uint32_t));
}

nf_status nf_cpu_select_dims(nf_context *ctx, nf_points *points, const nf_points *like)
{
    double   *mean = points->mean; /* with the two largest magnitudes behind it, as run_pass gives them */
    nf_status status = run_pass(ctx, &points->matrix, NULL, true, mean);
    if (status < 0) return status;
    points->largest = mean[points->dims];
    points->largest_square = mean[points->dims + 1];
    for (uint32_t k = 0; k < points->dims; k++) mean[k] /= (double)points->rows_count;
    if (like == NULL) NF_TRY(run_pass(ctx, &points->matrix, mean, false, points->variance));
    if (like == NULL) return nf_dims_by_variance(ctx, points->variance, points->dims, points->dim_order, points->dim_place);
    copy_dims(points, like);
    return NF_OK;
}

void nf_cpu_row_f64(const nf_points *points, uint64_t position, double *out)
{
    static const uint32_t dtype_of[] = {
        [NF_STORE_U8] = NF_DTYPE_U8,   [NF_STORE_I16] = NF_DTYPE_I16, [NF_STORE_F16] = NF_DTYPE_F16,
        [NF_STORE_F32] = NF_DTYPE_F32, [NF_STORE_F64] = NF_DTYPE_F64,
    };
    const nf_matrix stored = {
        .data = points->rows, .rows = points->rows_count, .dims = points->dims,
        .dtype = dtype_of[points->store], .stride_bytes = points->row_bytes,
    };
    if (!points->permuted) {
        nf_matrix_row_f64(&stored, position, out);
        return;
    }
    const char *row = nf_matrix_row(&stored, position);
    for (uint32_t k = 0; k < points->dims; k++) {
        const double value = points->store == NF_STORE_U8 ? (double)((const uint8_t *)row)[k]
                                                          : (double)((const int16_t *)(const void *)row)[k];
        out[points->dim_order[k]] = value + points->bias;
    }
}

typedef struct reading {
    const nf_points *points;
    const uint32_t  *rows;
    uint64_t         count;
    double          *values;
} reading;

static nf_status read_task(void *arg, uint64_t task, uint32_t worker)
{
    const reading *run = arg;
    const uint64_t last = (task + 1) * READ_PER_TASK, end = last < run->count ? last : run->count;
    (void)worker;
    for (uint64_t i = task * READ_PER_TASK; i < end; i++) {
        nf_cpu_row_f64(run->points, run->points->positions[run->rows[i]], run->values + i * run->points->dims);
    }
    return NF_OK;
}

nf_status nf_cpu_points_read(nf_context *ctx, const nf_points *points, const uint32_t *rows, uint64_t count,
                             double *values)
{
    reading run = {points, rows, count, values};
    return nf_pool_run(ctx, read_task, &run, (count + READ_PER_TASK - 1) / READ_PER_TASK);
}

nf_rows nf_cpu_group_rows(const nf_points *points, uint32_t group, double scale)
{
    return (nf_rows){
        .base = (const char *)points->rows + points->group_start[group] * points->row_bytes,
        .row_bytes = points->row_bytes,
        .count = nf_cpu_group_size(points, group),
        .dims = points->dims,
        .store = points->store,
        .bias = points->bias,
        .scale = scale,
        .dim_place = points->permuted ? NULL : points->dim_place,
    };
}
