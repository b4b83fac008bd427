/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lloyd's iterations: label, group, mean; and balancing between them.
 *
 * A centroid is the mean of its rows, added up in ascending order of rows in binary64 by one task, so that it does not
 * depend on threads. A cluster without rows keeps its centroid.
 *
 * Balancing: lists of very different lengths make searches slow. After an iteration, but the last, clusters are sorted
 * by size and the smallest is paired with the largest, the second smallest with the second largest, and so on, while
 * the small one has less than a third of the average. Its centroid moves next to the large one's, a hundredth of the
 * way to one of its rows: the next iteration splits the large cluster between them. Empty clusters are put to use in
 * the same way.
 */
#include "ivf_lloyd.h"

#include <stdlib.h>
#include <string.h>

#include "core/core_pool.h"
#include "ivf_random.h"

#define CLUSTER_BITS 24
#define STEP 0.01f

nf_status nf_ivf_lloyd_open(nf_ivf_lloyd *lloyd, uint64_t rows, uint32_t clusters)
{
    nf_context *ctx = lloyd->ctx;
    lloyd->labels = nf_alloc(ctx, rows, sizeof *lloyd->labels);
    lloyd->members = nf_alloc(ctx, rows, sizeof *lloyd->members);
    lloyd->starts = nf_alloc(ctx, (uint64_t)clusters + 1, sizeof *lloyd->starts);
    lloyd->sizes = nf_alloc(ctx, clusters, sizeof *lloyd->sizes);
    lloyd->sums = nf_alloc(ctx, nf_pool_workers(ctx, clusters), lloyd->dims * sizeof *lloyd->sums);
    if (lloyd->labels == NULL || lloyd->members == NULL || lloyd->starts == NULL || lloyd->sizes == NULL ||
        lloyd->sums == NULL) {
        return nf_alloc_status(ctx);
    }
    return NF_OK;
}

void nf_ivf_lloyd_close(nf_ivf_lloyd *lloyd)
{
    nf_free(lloyd->labels);
    nf_free(lloyd->members);
    nf_free(lloyd->starts);
    nf_free(lloyd->sizes);
    nf_free(lloyd->sums);
}

/* Counting sort by label: stable, so members ascend. */
static void group(nf_ivf_lloyd *lloyd)
{
    uint64_t *starts = lloyd->starts;
    memset(starts, 0, ((size_t)lloyd->clusters + 1) * sizeof *starts);
    for (uint64_t i = 0; i < lloyd->count; i++) starts[lloyd->labels[i]]++;
    uint64_t end = 0;
    for (uint32_t c = 0; c < lloyd->clusters; c++) {
        end += starts[c];
        starts[c] = end;
    }
    starts[lloyd->clusters] = end;
    for (uint64_t i = lloyd->count; i-- > 0;) lloyd->members[--starts[lloyd->labels[i]]] = (uint32_t)i;
}

nf_status nf_ivf_lloyd_group(nf_ivf_lloyd *lloyd, const float *rows, uint64_t count, float *centroids,
                             uint32_t clusters)
{
    lloyd->rows = rows;
    lloyd->count = count;
    lloyd->centroids = centroids;
    lloyd->clusters = clusters;
    NF_TRY(lloyd->ops->assign(lloyd->ctx, rows, count, lloyd->dims, centroids, clusters, lloyd->labels, NULL));
    group(lloyd);
    nf_progress_add(lloyd->ctx, count);
    return nf_progress_poll(lloyd->ctx);
}

static nf_status mean_task(void *arg, uint64_t task, uint32_t worker)
{
    const nf_ivf_lloyd *lloyd = arg;
    const uint32_t      dims = lloyd->dims;
    const uint64_t      begin = lloyd->starts[task], end = lloyd->starts[task + 1];
    double             *sum = lloyd->sums + (size_t)worker * dims;
    float              *centroid = lloyd->centroids + task * dims;

    if (begin == end) return NF_OK;
    memset(sum, 0, dims * sizeof *sum);
    for (uint64_t i = begin; i < end; i++) {
        const float *row = lloyd->rows + (size_t)lloyd->members[i] * dims;
        for (uint32_t k = 0; k < dims; k++) sum[k] += (double)row[k];
    }
    for (uint32_t k = 0; k < dims; k++) centroid[k] = (float)(sum[k] / (double)(end - begin));
    return NF_OK;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void move_next_to(nf_ivf_lloyd *lloyd, uint32_t small, uint32_t large, uint64_t size, uint32_t iteration)
{
    const uint64_t number = (uint64_t)iteration << 32 | small;
    const uint64_t pick = lloyd->starts[large] + nf_ivf_random(lloyd->seed, NF_IVF_STREAM_MOVE, number) % size;
    const float   *row = lloyd->rows + (size_t)lloyd->members[pick] * lloyd->dims;
    const float   *from = lloyd->centroids + (size_t)large * lloyd->dims;
    float         *to = lloyd->centroids + (size_t)small * lloyd->dims;
    for (uint32_t k = 0; k < lloyd->dims; k++) to[k] = from[k] + STEP * (row[k] - from[k]);
}

static void balance(nf_ivf_lloyd *lloyd, uint32_t iteration)
{
    const uint64_t clusters = lloyd->clusters;
    const uint64_t mask = (1u << CLUSTER_BITS) - 1;
    for (uint64_t c = 0; c < clusters; c++) {
        lloyd->sizes[c] = (lloyd->starts[c + 1] - lloyd->starts[c]) << CLUSTER_BITS | c;
    }
    qsort(lloyd->sizes, clusters, sizeof *lloyd->sizes, by_number);
    for (uint64_t low = 0, high = clusters - 1; low < high; low++, high--) {
        const uint64_t small = lloyd->sizes[low], large = lloyd->sizes[high];
        if (3 * (small >> CLUSTER_BITS) * clusters >= lloyd->count) break;
        if (large >> CLUSTER_BITS < 2) break;
        move_next_to(lloyd, (uint32_t)(small & mask), (uint32_t)(large & mask), large >> CLUSTER_BITS, iteration);
    }
}

nf_status nf_ivf_lloyd_run(nf_ivf_lloyd *lloyd, const float *rows, uint64_t count, float *centroids, uint32_t clusters,
                           uint32_t iterations)
{
    for (uint32_t i = 0; i < iterations; i++) {
        NF_TRY(nf_ivf_lloyd_group(lloyd, rows, count, centroids, clusters));
        NF_TRY(nf_pool_run(lloyd->ctx, mean_task, lloyd, clusters));
        if (i + 1 < iterations) balance(lloyd, i);
    }
    return NF_OK;
}
