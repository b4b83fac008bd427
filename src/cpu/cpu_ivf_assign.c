/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest centroid of each row: |x - c|^2 = |x|^2 + 2 (|c|^2 / 2 - x.c), so the least of |c|^2 / 2 - x.c is wanted.
 * Products come in tiles of ROWS x COLUMNS, whose panel stays in the second-level cache while rows go by.
 */
#include <math.h>

#include "core/core_pool.h"
#include "cpu_ivf.h"

#define ROWS 96u
#define COLUMNS 256u

nf_status nf_vectors_pack(nf_context *ctx, nf_memory *memory, const float *vectors, uint32_t count, uint32_t dims,
                          nf_vectors_panel *panel)
{
    const uint32_t rounded = (count + NF_LANES - 1) / NF_LANES * NF_LANES;

    *panel = (nf_vectors_panel){.count = count, .rounded = rounded, .dims = dims};
    panel->values = nf_alloc_zero_in(ctx, memory, (uint64_t)rounded * dims, sizeof(float));
    panel->half_squares = nf_alloc_in(ctx, memory, rounded, sizeof(float));
    if (panel->values == NULL || panel->half_squares == NULL) {
        nf_vectors_close(panel);
        return nf_alloc_status(ctx);
    }
    for (uint32_t i = 0; i < rounded; i++) panel->half_squares[i] = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        double square = 0;
        for (uint32_t k = 0; k < dims; k++) {
            const float value = vectors[(size_t)i * dims + k];
            panel->values[nf_panel_at(dims, i, k)] = value;
            square += (double)value * value;
        }
        panel->half_squares[i] = (float)(square / 2);
    }
    return NF_OK;
}

void nf_vectors_close(nf_vectors_panel *panel)
{
    nf_free(panel->values);
    nf_free(panel->half_squares);
    panel->values = panel->half_squares = NULL;
}

typedef struct assignment {
    const nf_ivf_kernels *kernels;
    const nf_centroids   *centroids;
    const float          *rows;
    uint64_t              count;
    uint32_t             *labels;
    float                *products; /* per worker: ROWS x COLUMNS */
} assignment;

/* Task: ROWS rows. */
static nf_status assign_rows(void *arg, uint64_t task, uint32_t worker)
{
    const assignment       *job = arg;
    const nf_vectors_panel *panel = &job->centroids->panel;
    const uint32_t          dims = panel->dims;
    const uint64_t          first = task * ROWS;
    const uint32_t          rows = (uint32_t)(job->count - first < ROWS ? job->count - first : ROWS);
    const float            *x = job->rows + first * dims;
    float                  *products = job->products + (size_t)worker * ROWS * COLUMNS;
    float                   least[ROWS];

    for (uint32_t column = 0; column < panel->rounded; column += COLUMNS) {
        const uint32_t columns = panel->rounded - column < COLUMNS ? panel->rounded - column : COLUMNS;
        job->kernels->products(x, dims, rows, panel->values + nf_panel_at(dims, column, 0), columns, dims, products,
                               COLUMNS);
        for (uint32_t i = 0; i < rows; i++) {
            float          value;
            const uint32_t at =
                job->kernels->least(products + (size_t)i * COLUMNS, panel->half_squares + column, columns, &value);
            if (column == 0 || value < least[i]) {
                least[i] = value;
                job->labels[first + i] = column + at;
            }
        }
    }
    return NF_OK;
}

nf_status nf_centroids_open(nf_context *ctx, const float *values, uint32_t count, uint32_t dims, nf_centroids *out)
{
    return nf_vectors_pack(ctx, nf_context_memory(ctx), values, count, dims, &out->panel);
}

void nf_centroids_close(nf_centroids *centroids)
{
    nf_vectors_close(&centroids->panel);
}

nf_status nf_centroids_assign(nf_context *ctx, const nf_centroids *centroids, const float *rows, uint64_t count,
                              uint32_t *labels)
{
    const uint64_t tasks = (count + ROWS - 1) / ROWS;
    assignment     job = {
            .kernels = nf_cpu_ivf_kernels(nf_context_isa(ctx)),
            .centroids = centroids,
            .rows = rows,
            .count = count,
            .labels = labels,
    };

    if (count == 0) return NF_OK;
    job.products = nf_alloc(ctx, (uint64_t)nf_pool_workers(ctx, tasks) * ROWS * COLUMNS, sizeof(float));
    if (job.products == NULL) return nf_alloc_status(ctx);
    const nf_status status = nf_pool_run(ctx, assign_rows, &job, tasks);
    nf_free(job.products);
    return status;
}
