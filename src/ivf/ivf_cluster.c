/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Balanced hierarchical k-means, after the balanced k-means of NVIDIA's RAFT:
 *   1. about sqrt(lists) mesoclusters, on part of the sample;
 *   2. the sample is sorted by mesocluster, and each is clustered alone into its share of the lists, in proportion to
 * its rows: sqrt(lists) times less work than all rows against all lists;
 *   3. iterations over the whole sample and all lists.
 * Few lists go without mesoclusters. Starts are rows spread evenly over the set, with a random place in each part.
 */
#include "ivf_cluster.h"

#include <stdlib.h>
#include <string.h>

#include "ivf_lloyd.h"
#include "ivf_random.h"

#define FEW_LISTS 16u
#define MESO_ROWS 256u /* per mesocluster, of the sample */
#define MESO_ITERATIONS 10u
#define FINE_ITERATIONS 8u

typedef struct clustering {
    nf_context            *ctx;
    const nf_ivf_training *training;
    float                 *centroids;  /* of the lists */
    float                 *meso;       /* centroids of the mesoclusters */
    uint64_t              *starts;     /* of the mesoclusters in the sorted sample: mesos + 1 */
    uint32_t              *shares;     /* lists of each mesocluster */
    uint64_t              *remainders; /* for sharing */
    uint32_t               mesos;
    nf_ivf_lloyd           lloyd;
} clustering;

static uint32_t root(uint32_t value)
{
    uint32_t result = 0;
    while ((uint64_t)(result + 1) * (result + 1) <= value) result++;
    return result;
}

/* The start: clusters rows of first .. first + count - 1 of a set, spread. */
static nf_status start(const clustering *at, nf_ivf_set *set, uint64_t first, uint64_t count, uint32_t clusters,
                       uint64_t number, float *centroids)
{
    uint64_t *which = nf_alloc(at->ctx, clusters, sizeof *which);
    if (which == NULL) return nf_alloc_status(at->ctx);
    for (uint32_t c = 0; c < clusters; c++) {
        which[c] =
            first + nf_ivf_random_spread(at->training->seed + number, NF_IVF_STREAM_START, c, clusters, count);
    }
    const nf_status status = at->lloyd.ops->set_rows(at->ctx, set, which, clusters, centroids);
    nf_free(which);
    return status;
}

/* Mesoclusters, on a part of the sample. */
static nf_status find_mesos(clustering *at)
{
    const nf_ivf_training *training = at->training;
    const nf_ivf_ops      *ops = at->lloyd.ops;
    const uint64_t         most = (uint64_t)at->mesos * MESO_ROWS;
    const uint64_t         count = training->count < most ? training->count : most;
    nf_ivf_set            *part = NULL;

    nf_status status = ops->set_part(at->ctx, training->set, count, &part);
    if (status >= 0) status = start(at, part, 0, count, at->mesos, 0, at->meso);
    if (status >= 0) status = nf_ivf_lloyd_run(&at->lloyd, part, 0, count, at->meso, at->mesos, MESO_ITERATIONS);
    ops->set_close(part);
    return status;
}

static int by_number_descending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

/* Lists in proportion to rows, no more than rows, by largest remainders. */
static void share_lists(clustering *at)
{
    const uint64_t count = at->training->count, lists = at->training->lists;
    uint64_t       left = lists;
    for (uint32_t m = 0; m < at->mesos; m++) {
        const uint64_t product = lists * (at->starts[m + 1] - at->starts[m]);
        at->shares[m] = (uint32_t)(product / count);
        at->remainders[m] = (product % count) << 16 | (0xffffu - m); /* mesos are at most 2^12 */
        left -= at->shares[m];
    }
    qsort(at->remainders, at->mesos, sizeof *at->remainders, by_number_descending);
    /* left is the sum of the remainders / count, so one each for the largest is enough; a mesocluster with a remainder
     * has more rows than its share, because lists <= count. */
    for (uint32_t i = 0; i < at->mesos && left > 0; i++, left--) at->shares[0xffffu - (at->remainders[i] & 0xffffu)]++;
}

/* Sorts the sample by mesocluster and clusters each alone. */
static nf_status split_mesos(clustering *at)
{
    const nf_ivf_training *training = at->training;
    const nf_ivf_ops      *ops = at->lloyd.ops;
    float                 *centroids = at->centroids;

    NF_TRY(ops->set_group(at->ctx, training->set, 0, training->count, at->meso, at->mesos, at->starts));
    NF_TRY(ops->set_sort(at->ctx, training->set));
    share_lists(at);
    for (uint32_t m = 0; m < at->mesos; m++) {
        const uint64_t first = at->starts[m], count = at->starts[m + 1] - first;
        if (at->shares[m] == 0) continue;
        NF_TRY(start(at, training->set, first, count, at->shares[m], 1 + m, centroids));
        NF_TRY(nf_ivf_lloyd_run(&at->lloyd, training->set, first, count, centroids, at->shares[m], FINE_ITERATIONS));
        centroids += (size_t)at->shares[m] * training->dims;
    }
    return NF_OK;
}

static nf_status hierarchical_start(clustering *at)
{
    const nf_ivf_training *training = at->training;
    if (training->lists < FEW_LISTS) {
        NF_TRY(start(at, training->set, 0, training->count, training->lists, 0, at->centroids));
        return nf_ivf_lloyd_run(&at->lloyd, training->set, 0, training->count, at->centroids, training->lists,
                                FINE_ITERATIONS);
    }
    at->mesos = root(training->lists);
    at->meso = nf_alloc(at->ctx, at->mesos, training->dims * sizeof *at->meso);
    at->starts = nf_alloc(at->ctx, (uint64_t)at->mesos + 1, sizeof *at->starts);
    at->shares = nf_alloc(at->ctx, at->mesos, sizeof *at->shares);
    at->remainders = nf_alloc(at->ctx, at->mesos, sizeof *at->remainders);
    if (at->meso == NULL || at->starts == NULL || at->shares == NULL || at->remainders == NULL) {
        return nf_alloc_status(at->ctx);
    }
    NF_TRY(find_mesos(at));
    return split_mesos(at);
}

nf_status nf_ivf_cluster(nf_context *ctx, const nf_ivf_ops *ops, const nf_ivf_training *training, float *centroids)
{
    clustering at = {.ctx = ctx, .training = training, .centroids = centroids};
    at.lloyd = (nf_ivf_lloyd){.ctx = ctx, .ops = ops, .dims = training->dims, .seed = training->seed};
    nf_progress_begin(ctx, "cluster", training->count * (FINE_ITERATIONS + training->iterations + 2));
    nf_status status = nf_ivf_lloyd_open(&at.lloyd, training->lists);
    if (status >= 0) status = hierarchical_start(&at);
    if (status >= 0) {
        status = nf_ivf_lloyd_run(&at.lloyd, training->set, 0, training->count, centroids, training->lists,
                                  training->iterations);
    }
    nf_ivf_lloyd_close(&at.lloyd);
    nf_free(at.meso);
    nf_free(at.starts);
    nf_free(at.shares);
    nf_free(at.remainders);
    return status;
}
