/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random rotation.
 *
 * Fast (Hadamard transforms, random signs, Kac's mixing): four rounds of independent signs, one bit per dim.
 * Dense: rows of random numbers made orthonormal by the modified Gram-Schmidt method in binary64. After row i is scaled
 * to length 1, its part is taken out of every later row, so rows are independent of each other within a step and the
 * result does not depend on threads. A random matrix is conditioned well enough for one pass: rows stay orthogonal to
 * about 1e-12, far below the rounding to binary32.
 */
#include "ivf_rotation.h"

#include <math.h>

#include "core/core_pool.h"
#include "ivf_random.h"

#define STEP_VALUES (1u << 16) /* values per task, about */

typedef struct matrix_job {
    double  *rows;
    uint32_t size, pivot, task_rows;
    uint64_t seed;
} matrix_job;

uint32_t nf_ivf_padded(uint32_t dims)
{
    return (dims + 7) / 8 * 8;
}

void nf_ivf_make_signs(uint64_t seed, uint32_t padded, uint8_t *signs)
{
    const uint64_t bytes = nf_ivf_sign_bytes(padded);
    for (uint64_t i = 0; i < bytes; i++) signs[i] = (uint8_t)(nf_ivf_random(seed, NF_IVF_STREAM_SIGNS, i) >> 56);
}

/* Four sums, for speed; the order is fixed. */
static double dot(const double *x, const double *y, uint32_t size)
{
    double sum[4] = {0};
    for (uint32_t i = 0; i < size; i += 4) {
        for (uint32_t lane = 0; lane < 4; lane++) sum[lane] += x[i + lane] * y[i + lane];
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static nf_status fill_task(void *arg, uint64_t task, uint32_t worker)
{
    matrix_job *job = arg;
    double     *row = job->rows + task * job->size;
    (void)worker;
    for (uint32_t i = 0; i < job->size; i++) {
        row[i] = nf_ivf_random_normal(job->seed, NF_IVF_STREAM_MATRIX, task * job->size + i);
    }
    return NF_OK;
}

static void scale_pivot(matrix_job *job)
{
    double      *row = job->rows + (size_t)job->pivot * job->size;
    const double scale = 1.0 / sqrt(dot(row, row, job->size));
    for (uint32_t i = 0; i < job->size; i++) row[i] *= scale;
}

static nf_status remove_task(void *arg, uint64_t task, uint32_t worker)
{
    matrix_job    *job = arg;
    const uint32_t size = job->size;
    const double  *pivot = job->rows + (size_t)job->pivot * size;
    const uint32_t begin = job->pivot + 1 + (uint32_t)task * job->task_rows;
    const uint32_t end = size - begin < job->task_rows ? size : begin + job->task_rows;
    (void)worker;
    for (uint32_t i = begin; i < end; i++) {
        double      *row = job->rows + (size_t)i * size;
        const double part = dot(pivot, row, size);
        for (uint32_t k = 0; k < size; k++) row[k] -= part * pivot[k];
    }
    return NF_OK;
}

nf_status nf_ivf_make_matrix(nf_context *ctx, uint64_t seed, uint32_t padded, float *matrix)
{
    matrix_job job = {.size = padded, .task_rows = STEP_VALUES / padded + 1, .seed = seed};
    nf_status  status;

    job.rows = nf_alloc(ctx, (uint64_t)padded * padded, sizeof *job.rows);
    if (job.rows == NULL) return nf_alloc_status(ctx);
    status = nf_pool_run(ctx, fill_task, &job, padded);
    for (job.pivot = 0; status >= 0 && job.pivot < padded; job.pivot++) {
        const uint32_t later = padded - job.pivot - 1;
        scale_pivot(&job);
        status = nf_pool_run(ctx, remove_task, &job, (later + job.task_rows - 1) / job.task_rows);
    }
    if (status >= 0) {
        for (uint64_t i = 0; i < (uint64_t)padded * padded; i++) matrix[i] = (float)job.rows[i];
    }
    nf_free(job.rows);
    return status;
}
