/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows are read as binary64, normalised (COSINE) and shifted in binary64, and rounded once to binary32.
 *
 * Squared norms of binary32 rows must not overflow: with values up to 2^53 and 2^13 dims, a squared distance between
 * two rows is at most 2^121. Under COSINE any finite row is fine, since it is scaled to length 1 first.
 */
#include "engine_ivf_rows.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "core/core_pool.h"
#include "matrix/matrix_convert.h"
#include "matrix/matrix_distance.h"
#include "nearfield/neighbours.h"

#define LARGEST 0x1p53
#define TASK_VALUES (1u << 16) /* values per task, about */
#define MEAN_PARTS 64u         /* sums of the mean that are added up at the end, whatever the number of threads */

typedef struct rows_job {
    const nf_ivf_rows   *rows;
    const float         *mean;
    float               *out;
    double              *scratch; /* dims per worker */
    double              *sums;    /* MEAN_PARTS x dims; NULL: convert */
    uint64_t             task_rows;
    atomic_uint_fast64_t first_bad; /* the lowest index with a value that is not allowed */
} rows_job;

nf_status nf_ivf_check_matrix(nf_context *ctx, const nf_matrix *matrix, const char *what)
{
    if (matrix == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "%s is NULL", what);
    const size_t bytes = nf_dtype_bytes((nf_dtype)matrix->dtype);
    if (bytes == 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: dtype is %u, allowed are 1 to 11", what, matrix->dtype);
    if (matrix->dims == 0 || matrix->dims > NF_IVF_MOST_DIMS) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: %u dims, allowed are 1 to %u", what, matrix->dims, NF_IVF_MOST_DIMS);
    }
    if (matrix->rows > NF_IVF_MOST_ROWS) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: %llu rows, at most %llu are allowed", what,
                       (unsigned long long)matrix->rows, NF_IVF_MOST_ROWS);
    }
    if (matrix->stride_bytes != 0 && matrix->stride_bytes < matrix->dims * bytes) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: stride is %llu bytes, a row takes %llu", what,
                       (unsigned long long)matrix->stride_bytes, (unsigned long long)(matrix->dims * bytes));
    }
    if (matrix->place > NF_PLACE_DEVICE) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: place is %u, allowed are 0 (host) and 1 (device)", what, matrix->place);
    }
    if (matrix->data == NULL && matrix->rows > 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: data is NULL", what);
    return NF_OK;
}

static double largest_allowed(const nf_ivf_rows *rows)
{
    return rows->metric == NF_METRIC_COSINE ? DBL_MAX : LARGEST;
}

static bool allowed(const nf_ivf_rows *rows, uint64_t row, const double *values)
{
    const nf_matrix *matrix = rows->matrix;
    const double     largest = largest_allowed(rows);
    bool             fine = true;
    for (uint32_t i = 0; i < matrix->dims; i++) fine &= fabs(values[i]) <= largest;
    if (matrix->dtype != NF_DTYPE_U64 && matrix->dtype != NF_DTYPE_I64) return fine;
    return fine && nf_matrix_row_invalid(matrix, row) == matrix->dims; /* integers just above 2^53 round down to it */
}

/* Scales a row to length 1; a zero row stays zero. */
static void normalise(double *values, uint32_t dims)
{
    const double length = nf_cosine_length(values, dims);
    for (uint32_t i = 0; length > 0.0 && i < dims; i++) values[i] /= length;
}

/* Scales a row to the length rows->length; returns the factor. A zero row stays. */
static double fit_length(const nf_ivf_rows *rows, double *values)
{
    const uint32_t dims = rows->matrix->dims;
    double         largest = 0.0;
    for (uint32_t i = 0; i < dims; i++) largest = fmax(largest, fabs(values[i]));
    if (largest == 0.0) return 1.0;
    const int power = ilogb(largest); /* taken out first, so that squares neither overflow nor vanish */
    for (uint32_t i = 0; i < dims; i++) values[i] = scalbn(values[i], -power);
    const double factor = rows->length / sqrt(nf_dot_f64(values, values, dims));
    for (uint32_t i = 0; i < dims; i++) values[i] *= factor;
    return scalbn(factor, -power);
}

/* Reads the i-th row into values; false where it holds a value that is not allowed, which is noted. */
static bool read_row(rows_job *job, uint64_t i, double *values)
{
    const nf_ivf_rows *rows = job->rows;
    const uint64_t     row = rows->numbers != NULL ? rows->numbers[i] : rows->first + i;
    nf_matrix_row_f64(rows->matrix, row, values);
    if (!allowed(rows, row, values)) {
        uint_fast64_t before = atomic_load(&job->first_bad);
        while (i < before && !atomic_compare_exchange_weak(&job->first_bad, &before, i)) {
        }
        return false;
    }
    if (rows->metric == NF_METRIC_COSINE) normalise(values, rows->matrix->dims);
    return true;
}

static nf_status convert_task(void *arg, uint64_t task, uint32_t worker)
{
    rows_job      *job = arg;
    const uint32_t dims = job->rows->matrix->dims;
    double        *values = job->scratch + (size_t)worker * dims;
    const uint64_t begin = task * job->task_rows;
    const uint64_t rest = job->rows->count - begin;
    const uint64_t end = begin + (rest < job->task_rows ? rest : job->task_rows);

    for (uint64_t i = begin; i < end; i++) {
        float *to = job->out + i * dims;
        if (!read_row(job, i, values)) continue;
        if (job->rows->factors != NULL) job->rows->factors[i] = fit_length(job->rows, values);
        if (job->mean != NULL) {
            for (uint32_t k = 0; k < dims; k++) to[k] = (float)(values[k] - (double)job->mean[k]);
        } else {
            for (uint32_t k = 0; k < dims; k++) to[k] = (float)values[k];
        }
    }
    return NF_OK;
}

static nf_status mean_task(void *arg, uint64_t task, uint32_t worker)
{
    rows_job      *job = arg;
    const uint32_t dims = job->rows->matrix->dims;
    double        *values = job->scratch + (size_t)worker * dims;
    double        *sum = job->sums + task * dims;
    const uint64_t begin = task * job->rows->count / MEAN_PARTS, end = (task + 1) * job->rows->count / MEAN_PARTS;

    for (uint64_t i = begin; i < end; i++) {
        if (!read_row(job, i, values)) continue;
        for (uint32_t k = 0; k < dims; k++) sum[k] += values[k];
    }
    return NF_OK;
}

/* The failure that names what is wrong with the lowest bad row. */
static nf_status report(nf_context *ctx, rows_job *job, uint64_t i)
{
    const nf_ivf_rows *rows = job->rows;
    const uint64_t     row = rows->numbers != NULL ? rows->numbers[i] : rows->first + i;
    const uint32_t     dims = rows->matrix->dims;
    uint32_t           column = nf_matrix_row_invalid(rows->matrix, row);
    double            *values = job->scratch;

    nf_matrix_row_f64(rows->matrix, row, values);
    if (column < dims && isfinite(values[column])) {
        return nf_fail(ctx, NF_ERR_VALUE, "%s: row %llu, column %u (counted from 0) holds an integer beyond 2^53",
                       rows->what, (unsigned long long)(rows->named_from + row), column);
    }
    if (column < dims) {
        return nf_fail(ctx, NF_ERR_VALUE, "%s: row %llu, column %u (counted from 0) is NaN or infinite", rows->what,
                       (unsigned long long)(rows->named_from + row), column);
    }
    for (column = 0; column + 1 < dims && fabs(values[column]) <= LARGEST; column++) {
    }
    return nf_fail(ctx, NF_ERR_VALUE,
                   "%s: row %llu, column %u (counted from 0) is %g; allowed are absolute values up to 2^53 (9.0e15)",
                   rows->what, (unsigned long long)(rows->named_from + row), column, values[column]);
}

static nf_status run(nf_context *ctx, rows_job *job, nf_task_fn fn, uint64_t tasks)
{
    job->scratch = nf_alloc(ctx, nf_pool_workers(ctx, tasks), job->rows->matrix->dims * sizeof(double));
    if (job->scratch == NULL) return nf_alloc_status(ctx);
    atomic_init(&job->first_bad, UINT64_MAX);
    nf_status      status = nf_pool_run(ctx, fn, job, tasks);
    const uint64_t bad = atomic_load(&job->first_bad);
    if (status >= 0 && bad != UINT64_MAX) status = report(ctx, job, bad);
    nf_free(job->scratch);
    return status;
}

nf_status nf_ivf_rows_convert(nf_context *ctx, const nf_ivf_rows *rows, const float *mean, float *out)
{
    rows_job job = {.rows = rows, .mean = mean, .out = out, .task_rows = TASK_VALUES / rows->matrix->dims + 1};
    return run(ctx, &job, convert_task, (rows->count + job.task_rows - 1) / job.task_rows);
}

nf_status nf_ivf_rows_mean(nf_context *ctx, const nf_ivf_rows *rows, float *mean)
{
    const uint32_t dims = rows->matrix->dims;
    rows_job       job = {.rows = rows};

    job.sums = nf_alloc_zero(ctx, (uint64_t)MEAN_PARTS * dims, sizeof *job.sums);
    if (job.sums == NULL) return nf_alloc_status(ctx);
    const nf_status status = run(ctx, &job, mean_task, MEAN_PARTS);
    for (uint32_t k = 0; k < dims; k++) {
        double sum = 0.0;
        for (uint32_t part = 0; part < MEAN_PARTS; part++) sum += job.sums[(size_t)part * dims + k];
        mean[k] = (float)(sum / (double)rows->count);
    }
    nf_free(job.sums);
    return status;
}
