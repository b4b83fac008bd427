/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins by cosine. Rows of zeros are left out of what the engine gets, since their cosine is 0 to everything: so they
 * cost nothing there, and row numbers are mapped only where such rows exist.
 */
#include "exact_cosine.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/core_pool.h"
#include "matrix/matrix_convert.h"
#include "matrix/matrix_distance.h"

#define ROWS_PER_TASK 1024u
#define PAIRS_PER_TASK 262144u

/* ---- rows of unit length ---- */

typedef struct unit_run {
    const nf_matrix     *from;
    float               *values;
    uint8_t             *zero;    /* one byte per row */
    double              *buffers; /* a row for each worker */
    atomic_uint_fast64_t zeros;
    atomic_uint_fast64_t bad_row; /* the first with a value that is not allowed; at first the number of rows */
} unit_run;

static void lower_to(atomic_uint_fast64_t *row, uint64_t found)
{
    uint_fast64_t before = atomic_load(row);
    while (found < before && !atomic_compare_exchange_weak(row, &before, found)) {
    }
}

static nf_status unit_task(void *arg, uint64_t task, uint32_t worker)
{
    unit_run      *run = arg;
    const uint32_t dims = run->from->dims;
    double        *row = run->buffers + (uint64_t)worker * dims;
    const uint64_t last = (task + 1) * ROWS_PER_TASK;
    for (uint64_t i = task * ROWS_PER_TASK; i < run->from->rows && i < last; i++) {
        if (nf_matrix_row_invalid(run->from, i) < dims) {
            lower_to(&run->bad_row, i);
            return NF_OK;
        }
        nf_matrix_row_f64(run->from, i, row);
        const double length = nf_cosine_length(row, dims);
        float       *out = run->values + i * dims;
        run->zero[i] = length == 0.0;
        if (length == 0.0) {
            atomic_fetch_add_explicit(&run->zeros, 1, memory_order_relaxed);
            continue;
        }
        for (uint32_t k = 0; k < dims; k++) out[k] = (float)(row[k] / length);
    }
    return NF_OK;
}

static nf_status name_bad_row(nf_context *ctx, const nf_matrix *from, const char *what, uint64_t row)
{
    const bool integer = from->dtype == NF_DTYPE_U64 || from->dtype == NF_DTYPE_I64;
    return nf_fail(ctx, NF_ERR_VALUE, "%s: row %llu, column %u (counted from 0) %s", what, (unsigned long long)row,
                   nf_matrix_row_invalid(from, row), integer ? "holds an integer beyond 2^53" : "is NaN or infinite");
}

/* Closes the gaps that rows of zeros leave. */
static nf_status leave_out_zeros(nf_context *ctx, const unit_run *run, nf_memory *memory, nf_unit_rows *out)
{
    const uint64_t rows = run->from->rows, dims = run->from->dims;
    uint64_t       to = 0;

    out->zero_rows = atomic_load(&run->zeros);
    if (out->zero_rows == 0) return NF_OK;
    out->kept = nf_alloc_in(ctx, memory, rows - out->zero_rows + 1, sizeof *out->kept);
    if (out->kept == NULL) return nf_alloc_status(ctx);
    for (uint64_t i = 0; i < rows; i++) {
        if (run->zero[i]) continue;
        if (to < i) memcpy(run->values + to * dims, run->values + i * dims, dims * sizeof *run->values);
        out->kept[to++] = (uint32_t)i;
    }
    out->kept[to] = UINT32_MAX;
    out->matrix.rows = to;
    return NF_OK;
}

nf_status nf_exact_unit_rows(nf_context *ctx, const nf_matrix *from, const char *what, nf_memory *memory,
                             nf_unit_rows *out)
{
    const uint64_t tasks = (from->rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
    unit_run       run = {.from = from};
    nf_status      status = NF_OK;

    memset(out, 0, sizeof *out);
    atomic_init(&run.zeros, 0);
    atomic_init(&run.bad_row, from->rows);
    run.values = nf_alloc(ctx, from->rows * from->dims, sizeof *run.values);
    run.zero = nf_alloc(ctx, from->rows, 1);
    run.buffers = nf_alloc(ctx, (uint64_t)nf_pool_workers(ctx, tasks) * from->dims, sizeof *run.buffers);
    if (run.values == NULL || run.zero == NULL || run.buffers == NULL) status = nf_alloc_status(ctx);
    nf_progress_begin(ctx, "unit_rows", 0);
    if (status >= 0) status = nf_pool_run(ctx, unit_task, &run, tasks);
    const uint64_t bad = atomic_load(&run.bad_row);
    if (status >= 0 && bad < from->rows) status = name_bad_row(ctx, from, what, bad);
    out->matrix = (nf_matrix){.data = run.values, .rows = from->rows, .dims = from->dims, .dtype = NF_DTYPE_F32};
    out->values = run.values;
    if (status >= 0) status = leave_out_zeros(ctx, &run, memory, out);
    nf_free(run.buffers);
    nf_free(run.zero);
    if (status < 0) {
        nf_free(run.values);
        memset(out, 0, sizeof *out);
    }
    return status;
}

/* ---- the radius ---- */

nf_status nf_exact_cosine_radius(nf_context *ctx, double distance, double similarity, double *radius, double *most)
{
    const bool given = !isnan(similarity);
    if (given && !(isnan(distance) || distance == 0.0)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "radius is %g and similarity is %g, only one of them may be given",
                       distance, similarity);
    }
    if (given && !(similarity > 0.0 && similarity <= 1.0)) {
        return nf_fail(
            ctx, NF_ERR_ARGUMENT,
            "similarity is %g, more than 0 and at most 1 is needed: 0 is the cosine of rows of zeros to everything",
            similarity);
    }
    if (!given && !(distance >= 0.0 && distance < 1.0)) {
        return nf_fail(
            ctx, NF_ERR_ARGUMENT,
            "radius is %g, as a cosine distance at least 0 and less than 1 is needed: 1 is the distance of rows of "
            "zeros to everything",
            distance);
    }
    if (given) {
        distance = 1.0 - similarity;
        /* Rounded down. The difference is exact for a similarity of 1/2 or more; else the way back is. */
        if (1.0 - distance < similarity) distance = nextafter(distance, 0.0);
    }
    *most = distance;
    *radius = sqrt(2.0 * distance);
    return NF_OK;
}

/* ---- what is delivered ---- */

typedef struct finish_run {
    const nf_question *question;
    nf_owned_batch    *batch;
} finish_run;

static void finish_f64(double *distances, uint64_t count, double most)
{
    for (uint64_t i = 0; i < count; i++) {
        const double value = distances[i] * distances[i] * 0.5;
        distances[i] = value < most ? value : most;
    }
}

/* The square of a binary32 number is exact in binary64: one rounding. */
static void finish_f32(float *distances, uint64_t count, double most)
{
    float limit = (float)most;
    if ((double)limit > most) limit = nextafterf(limit, 0.0f);
    for (uint64_t i = 0; i < count; i++) {
        const float value = (float)((double)distances[i] * (double)distances[i] * 0.5);
        distances[i] = value < limit ? value : limit;
    }
}

static nf_status finish_task(void *arg, uint64_t task, uint32_t worker)
{
    const finish_run *run = arg;
    const uint32_t   *kept = run->question->index->kept;
    nf_owned_batch   *batch = run->batch;
    const uint64_t    begin = task * PAIRS_PER_TASK, left = batch->pairs - begin;
    const uint64_t    count = left < PAIRS_PER_TASK ? left : PAIRS_PER_TASK;
    (void)worker;
    if (run->question->params.distances == NF_DISTANCES_F64) {
        finish_f64((double *)batch->distances + begin, count, run->question->most);
    } else if (run->question->params.distances == NF_DISTANCES_F32) {
        finish_f32((float *)batch->distances + begin, count, run->question->most);
    }
    for (uint64_t i = begin; kept != NULL && i < begin + count; i++)
        batch->indices[i] = (int32_t)kept[batch->indices[i]];
    return NF_OK;
}

nf_status nf_question_finish_cosine(nf_question *question, nf_owned_batch *batch)
{
    finish_run run = {question, batch};
    for (uint64_t i = 0; question->kept != NULL && i < batch->rows; i++) {
        batch->query_ids[i] = (int32_t)question->kept[batch->query_ids[i]];
    }
    return nf_pool_run(question->ctx, finish_task, &run, (batch->pairs + PAIRS_PER_TASK - 1) / PAIRS_PER_TASK);
}

/* ---- rows of zeros ---- */

/* All rows up to all_rows: those of zeros in their places between those of the batch, or those of zeros alone where the
 * batch is empty. */
static void merge(const nf_question *question, const nf_owned_batch *batch, nf_owned_batch *merged)
{
    uint64_t at = 0, engine = 0;
    int64_t  pairs = 0;

    merged->indptr[0] = 0;
    for (uint64_t row = 0; row < question->all_rows; row++) {
        const bool known = engine < question->rows && question->kept[engine] == row;
        engine += known;
        if (known && batch->rows == 0) continue;
        if (known) pairs = batch->indptr[engine];
        merged->query_ids[at++] = (int32_t)row;
        merged->indptr[at] = pairs;
    }
}

nf_status nf_question_merge_zero_rows(nf_question *question, nf_owned_batch *batch)
{
    nf_owned_batch merged = *batch;

    question->zeros_done = true;
    if (question->stats.zero_queries == 0) return NF_OK;
    merged.rows = batch->rows + question->stats.zero_queries;
    merged.query_ids = nf_alloc(question->ctx, merged.rows, sizeof *merged.query_ids);
    merged.indptr = nf_alloc(question->ctx, merged.rows + 1, sizeof *merged.indptr);
    if (merged.query_ids == NULL || merged.indptr == NULL) {
        nf_free(merged.query_ids);
        nf_free(merged.indptr);
        return nf_alloc_status(question->ctx);
    }
    merge(question, batch, &merged);
    nf_free(batch->query_ids);
    nf_free(batch->indptr);
    *batch = merged;
    return NF_OK;
}

void nf_question_spread_counts(const nf_question *question, uint64_t *counts)
{
    uint64_t engine = question->rows;
    if (question->kept == NULL) return;
    for (uint64_t row = question->all_rows; row-- > 0;) {
        counts[row] = engine > 0 && question->kept[engine - 1] == row ? counts[--engine] : 0;
    }
}
