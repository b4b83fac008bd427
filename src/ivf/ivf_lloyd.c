/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lloyd's iterations: label, group, mean; and balancing between them.
 *
 * Balancing: lists of very different lengths make searches slow. After an iteration, but the last, clusters are sorted
 * by size and the smallest is paired with the largest, the second smallest with the second largest, and so on, while
 * the small one has less than a third of the average. Its centroid moves next to the large one's, a hundredth of the
 * way to one of its rows: the next iteration splits the large cluster between them. Empty clusters are put to use in
 * the same way.
 */
#include "ivf_lloyd.h"

#include <stdlib.h>

#include "ivf_random.h"

#define CLUSTER_BITS 24
#define STEP 0.01f
#define MOVED 256u /* centroids that are moved at a time */

nf_status nf_ivf_lloyd_open(nf_ivf_lloyd *lloyd, uint32_t clusters)
{
    nf_context *ctx = lloyd->ctx;
    lloyd->starts = nf_alloc(ctx, (uint64_t)clusters + 1, sizeof *lloyd->starts);
    lloyd->sizes = nf_alloc(ctx, clusters, sizeof *lloyd->sizes);
    lloyd->picks = nf_alloc(ctx, MOVED, sizeof *lloyd->picks);
    lloyd->moved = nf_alloc(ctx, MOVED, lloyd->dims * sizeof *lloyd->moved);
    if (lloyd->starts == NULL || lloyd->sizes == NULL || lloyd->picks == NULL || lloyd->moved == NULL) {
        return nf_alloc_status(ctx);
    }
    return NF_OK;
}

void nf_ivf_lloyd_close(nf_ivf_lloyd *lloyd)
{
    nf_free(lloyd->starts);
    nf_free(lloyd->sizes);
    nf_free(lloyd->picks);
    nf_free(lloyd->moved);
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Clusters in pairs, the i-th smallest with the i-th largest; how many pairs are to be balanced. */
static uint64_t pair_clusters(nf_ivf_lloyd *lloyd, uint64_t count, uint32_t clusters)
{
    uint64_t pairs = 0;
    for (uint64_t c = 0; c < clusters; c++) {
        lloyd->sizes[c] = (lloyd->starts[c + 1] - lloyd->starts[c]) << CLUSTER_BITS | c;
    }
    qsort(lloyd->sizes, clusters, sizeof *lloyd->sizes, by_number);
    for (; pairs < clusters / 2; pairs++) {
        if (3 * (lloyd->sizes[pairs] >> CLUSTER_BITS) * clusters >= count) break;
        if (lloyd->sizes[clusters - 1 - pairs] >> CLUSTER_BITS < 2) break;
    }
    return pairs;
}

/* Moves the small clusters of pairs first .. first + count - 1 next to the large ones. */
static nf_status move_pairs(nf_ivf_lloyd *lloyd, nf_ivf_set *set, uint64_t first, uint64_t count, float *centroids,
                            uint32_t clusters, uint32_t iteration)
{
    const uint64_t mask = (1u << CLUSTER_BITS) - 1;
    const uint32_t dims = lloyd->dims;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t small = lloyd->sizes[first + i] & mask, large = lloyd->sizes[clusters - 1 - first - i];
        const uint64_t random = nf_ivf_random(lloyd->seed, NF_IVF_STREAM_MOVE, (uint64_t)iteration << 32 | small);
        lloyd->picks[i] = lloyd->starts[large & mask] + random % (large >> CLUSTER_BITS);
    }
    NF_TRY(lloyd->ops->set_members(lloyd->ctx, set, lloyd->picks, count, lloyd->moved));
    for (uint64_t i = 0; i < count; i++) {
        const float *row = lloyd->moved + i * dims;
        const float *from = centroids + (lloyd->sizes[clusters - 1 - first - i] & mask) * dims;
        float       *to = centroids + (lloyd->sizes[first + i] & mask) * dims;
        for (uint32_t k = 0; k < dims; k++) to[k] = from[k] + STEP * (row[k] - from[k]);
    }
    return NF_OK;
}

static nf_status balance(nf_ivf_lloyd *lloyd, nf_ivf_set *set, uint64_t count, float *centroids, uint32_t clusters,
                         uint32_t iteration)
{
    const uint64_t pairs = pair_clusters(lloyd, count, clusters);
    for (uint64_t first = 0; first < pairs; first += MOVED) {
        const uint64_t some = pairs - first < MOVED ? pairs - first : MOVED;
        NF_TRY(move_pairs(lloyd, set, first, some, centroids, clusters, iteration));
    }
    return NF_OK;
}

nf_status nf_ivf_lloyd_run(nf_ivf_lloyd *lloyd, nf_ivf_set *set, uint64_t first, uint64_t count, float *centroids,
                           uint32_t clusters, uint32_t iterations)
{
    for (uint32_t i = 0; i < iterations; i++) {
        NF_TRY(lloyd->ops->set_group(lloyd->ctx, set, first, count, centroids, clusters, lloyd->starts));
        nf_progress_add(lloyd->ctx, count);
        NF_TRY(nf_progress_poll(lloyd->ctx));
        NF_TRY(lloyd->ops->set_means(lloyd->ctx, set, centroids));
        if (i + 1 < iterations) NF_TRY(balance(lloyd, set, count, centroids, clusters, i));
    }
    return NF_OK;
}
