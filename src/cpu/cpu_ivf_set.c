/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of rows for k-means. A centroid is the mean of its rows, added up in ascending order of rows in binary64 by one
 * task, so that it does not depend on threads.
 */
#include <string.h>

#include "core/core_pool.h"
#include "cpu_ivf_source.h"

struct nf_ivf_set {
    float   *rows;
    uint64_t rows_count;
    uint32_t dims;

    /* the last grouping: of rows first .. first + count - 1; labels and members count from first */
    uint64_t  first, count;
    uint32_t  clusters;
    uint32_t *labels, *members;
    uint64_t *starts; /* clusters + 1 */
    uint32_t  starts_room;
};

/* What a run over clusters works on. */
typedef struct means_job {
    const nf_ivf_set *set;
    float            *centroids;
    double           *sums; /* dims per worker */
} means_job;

nf_status nf_cpu_ivf_set_new(nf_context *ctx, float *rows, uint64_t count, uint32_t dims, nf_ivf_set **out)
{
    nf_ivf_set *set = nf_alloc_zero(ctx, 1, sizeof *set);
    *out = NULL;
    if (set == NULL) {
        nf_free(rows);
        return nf_alloc_status(ctx);
    }
    *set = (nf_ivf_set){.rows = rows, .rows_count = count, .dims = dims};
    set->labels = nf_alloc(ctx, count, sizeof *set->labels);
    set->members = nf_alloc(ctx, count, sizeof *set->members);
    if (set->labels == NULL || set->members == NULL) {
        nf_cpu_ivf_set_close(set);
        return nf_alloc_status(ctx);
    }
    *out = set;
    return NF_OK;
}

void nf_cpu_ivf_set_close(nf_ivf_set *set)
{
    if (set == NULL) return;
    nf_free(set->rows);
    nf_free(set->labels);
    nf_free(set->members);
    nf_free(set->starts);
    nf_free(set);
}

static void copy_row(float *to, const float *from, uint32_t dims)
{
    memcpy(to, from, dims * sizeof *to);
}

nf_status nf_cpu_ivf_set_rows(nf_context *ctx, nf_ivf_set *set, const uint64_t *which, uint64_t count, float *rows)
{
    (void)ctx;
    for (uint64_t i = 0; i < count; i++) copy_row(rows + i * set->dims, set->rows + which[i] * set->dims, set->dims);
    return NF_OK;
}

nf_status nf_cpu_ivf_set_part(nf_context *ctx, nf_ivf_set *set, uint64_t count, nf_ivf_set **out)
{
    float *rows = nf_alloc(ctx, count, set->dims * sizeof *rows);
    *out = NULL;
    if (rows == NULL) return nf_alloc_status(ctx);
    for (uint64_t i = 0; i < count; i++) {
        copy_row(rows + i * set->dims, set->rows + i * set->rows_count / count * set->dims, set->dims);
    }
    return nf_cpu_ivf_set_new(ctx, rows, count, set->dims, out);
}

/* Counting sort by label: stable, so members ascend. */
static void sort_members(nf_ivf_set *set)
{
    uint64_t *starts = set->starts;
    memset(starts, 0, ((size_t)set->clusters + 1) * sizeof *starts);
    for (uint64_t i = 0; i < set->count; i++) starts[set->labels[i]]++;
    uint64_t end = 0;
    for (uint32_t c = 0; c < set->clusters; c++) {
        end += starts[c];
        starts[c] = end;
    }
    starts[set->clusters] = end;
    for (uint64_t i = set->count; i-- > 0;) set->members[--starts[set->labels[i]]] = (uint32_t)i;
}

static nf_status starts_room(nf_context *ctx, nf_ivf_set *set, uint32_t clusters)
{
    if (set->starts != NULL && set->starts_room >= clusters) return NF_OK;
    nf_free(set->starts);
    set->starts = nf_alloc(ctx, (uint64_t)clusters + 1, sizeof *set->starts);
    set->starts_room = clusters;
    return set->starts != NULL ? NF_OK : nf_alloc_status(ctx);
}

nf_status nf_cpu_ivf_set_group(nf_context *ctx, nf_ivf_set *set, uint64_t first, uint64_t count, const float *centroids,
                               uint32_t clusters, uint64_t *starts)
{
    nf_centroids panel = {0};
    NF_TRY(starts_room(ctx, set, clusters));
    set->first = first;
    set->count = count;
    set->clusters = clusters;
    nf_status status = nf_centroids_open(ctx, centroids, clusters, set->dims, &panel);
    if (status >= 0) status = nf_centroids_assign(ctx, &panel, set->rows + first * set->dims, count, set->labels);
    nf_centroids_close(&panel);
    if (status < 0) return status;
    sort_members(set);
    memcpy(starts, set->starts, ((size_t)clusters + 1) * sizeof *starts);
    return NF_OK;
}

nf_status nf_cpu_ivf_set_members(nf_context *ctx, nf_ivf_set *set, const uint64_t *which, uint64_t count, float *rows)
{
    (void)ctx;
    for (uint64_t i = 0; i < count; i++) {
        copy_row(rows + i * set->dims, set->rows + (set->first + set->members[which[i]]) * set->dims, set->dims);
    }
    return NF_OK;
}

static nf_status mean_task(void *arg, uint64_t task, uint32_t worker)
{
    const means_job  *job = arg;
    const nf_ivf_set *set = job->set;
    const uint32_t    dims = set->dims;
    const uint64_t    begin = set->starts[task], end = set->starts[task + 1];
    double           *sum = job->sums + (size_t)worker * dims;
    float            *centroid = job->centroids + task * dims;

    if (begin == end) return NF_OK;
    memset(sum, 0, dims * sizeof *sum);
    for (uint64_t i = begin; i < end; i++) {
        const float *row = set->rows + (set->first + set->members[i]) * dims;
        for (uint32_t k = 0; k < dims; k++) sum[k] += (double)row[k];
    }
    for (uint32_t k = 0; k < dims; k++) centroid[k] = (float)(sum[k] / (double)(end - begin));
    return NF_OK;
}

nf_status nf_cpu_ivf_set_means(nf_context *ctx, nf_ivf_set *set, float *centroids)
{
    means_job job = {.set = set, .centroids = centroids};
    job.sums = nf_alloc(ctx, nf_pool_workers(ctx, set->clusters), set->dims * sizeof *job.sums);
    if (job.sums == NULL) return nf_alloc_status(ctx);
    const nf_status status = nf_pool_run(ctx, mean_task, &job, set->clusters);
    nf_free(job.sums);
    return status;
}

/* Row members[i] goes to place i, in place: along the cycles of the permutation, which is used up. */
nf_status nf_cpu_ivf_set_sort(nf_context *ctx, nf_ivf_set *set)
{
    const uint32_t dims = set->dims;
    uint32_t      *order = set->members;
    float         *rows = set->rows, *spare = nf_alloc(ctx, dims, sizeof *spare);

    if (spare == NULL) return nf_alloc_status(ctx);
    for (uint64_t first = 0; first < set->count; first++) {
        if (order[first] == first) continue;
        copy_row(spare, rows + first * dims, dims);
        uint64_t to = first;
        while (order[to] != first) {
            const uint64_t from = order[to];
            copy_row(rows + to * dims, rows + from * dims, dims);
            order[to] = (uint32_t)to;
            to = from;
        }
        copy_row(rows + to * dims, spare, dims);
        order[to] = (uint32_t)to;
    }
    nf_free(spare);
    return NF_OK;
}
