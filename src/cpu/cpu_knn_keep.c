/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a query keeps. Rows whose low end is below the limit are appended; when the buffer is full, the limit is
 * lowered to the k-th smallest high end, and entries at or above it go. Where too many are left (ties, or intervals
 * wide against the differences of distances), binary64 decides among them and k remain. Entries stay in ascending
 * order of rows throughout, so that of equal distances the first are taken.
 */
#include <math.h>
#include <string.h>

#include "cpu_knn.h"

/* A query's part of the round's arrays. */
typedef struct entries {
    nf_knn_query *query;
    float        *low, *high;
    uint32_t     *ids;
} entries;

static entries entries_of(const nf_knn_round *round, uint32_t query)
{
    const size_t at = (size_t)query * round->capacity;
    return (entries){
        .query = &round->queries[query], .low = round->low + at, .high = round->high + at, .ids = round->ids + at};
}

static void move_entry(const entries *of, uint32_t from, uint32_t to)
{
    of->low[to] = of->low[from];
    of->high[to] = of->high[from];
    of->ids[to] = of->ids[from];
}

static void swap(double *a, double *b)
{
    const double held = *a;
    *a = *b;
    *b = held;
}

static double median(double a, double b, double c)
{
    return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

/* The value at place k (from 0) of the sorted values, by quickselect (C. A. R. Hoare) in three parts; disorders
 * them. */
static double kth_smallest(double *values, uint32_t count, uint32_t k)
{
    uint32_t begin = 0, end = count;
    for (;;) {
        const double pivot = median(values[begin], values[begin + (end - begin) / 2], values[end - 1]);
        uint32_t     below = begin, above = end, i = begin;
        while (i < above) {
            if (values[i] < pivot) {
                swap(&values[i++], &values[below++]);
            } else if (values[i] > pivot) {
                swap(&values[i], &values[--above]);
            } else {
                i++;
            }
        }
        if (k < below) {
            end = below;
        } else if (k >= above) {
            begin = above;
        } else {
            return pivot;
        }
    }
}

/* How many values equal to the k-th smallest belong to the first k. */
static uint32_t equals_kept(const double *values, uint32_t count, uint32_t k, double kth)
{
    uint32_t below = 0;
    for (uint32_t i = 0; i < count; i++) below += values[i] < kth;
    return k - below;
}

/* Keeps the k entries with the smallest (value, row); values: one per entry, kept along with them. */
static double keep_smallest(const entries *of, nf_knn_scratch *scratch, double *values, uint32_t k)
{
    const uint32_t count = of->query->count;
    memcpy(scratch->order, values, count * sizeof *values);
    const double kth = kth_smallest(scratch->order, count, k - 1);
    uint32_t     equals = equals_kept(values, count, k, kth), kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] > kth || (values[i] == kth && equals == 0)) continue;
        equals -= values[i] == kth;
        move_entry(of, i, kept);
        values[kept++] = values[i];
    }
    of->query->count = kept;
    return kth;
}

/* The least binary32 above high + margin: a row with low >= that is certainly farther. */
static float limit_above(double high, double margin)
{
    const double sum = high + margin;
    float        limit = (float)sum;
    if ((double)limit < sum) limit = nextafterf(limit, INFINITY);
    return nextafterf(limit, INFINITY);
}

/* Lowers the limit by a bound of the k-th smallest key, and drops what is at or above it. */
static void prune(const entries *of, nf_knn_scratch *scratch, uint32_t k)
{
    nf_knn_query  *query = of->query;
    const uint32_t count = query->count;
    uint32_t       kept = 0;

    if (count < k) return;
    for (uint32_t i = 0; i < count; i++) scratch->order[i] = of->high[i];
    const float limit = limit_above(kth_smallest(scratch->order, count, k - 1), query->margin);
    if (limit < query->limit) query->limit = limit;
    for (uint32_t i = 0; i < count; i++) {
        if (of->low[i] < query->limit) move_entry(of, i, kept++);
    }
    query->count = kept;
}

/* Binary64 for all entries; the k nearest stay, their distances in scratch->distances. */
static void resolve(const nf_knn_space *space, nf_knn_scratch *scratch, const nf_knn_round *round, const entries *of,
                    uint32_t k)
{
    nf_knn_query  *query = of->query;
    const uint64_t number = round->first + (uint64_t)(query - round->queries);
    nf_knn_distances(space, scratch, number, of->ids, query->count, scratch->distances);
    if (query->count <= k) return;
    keep_smallest(of, scratch, scratch->distances, k);
    float high = of->high[0]; /* binary32: gcc 12 for AArch64 fails on a maximum that widens */
    for (uint32_t i = 1; i < query->count; i++) high = fmaxf(high, of->high[i]);
    const float limit = limit_above(high, query->margin);
    if (limit < query->limit) query->limit = limit;
}

/* Keys are exact and order as the distances do: the k smallest stay, and a later row must be below all of them. */
static void keep_exact(const entries *of, nf_knn_scratch *scratch, uint32_t k)
{
    for (uint32_t i = 0; i < of->query->count; i++) scratch->distances[i] = of->low[i];
    if (of->query->count >= k) of->query->limit = (float)keep_smallest(of, scratch, scratch->distances, k);
}

static void compact(const nf_knn_space *space, nf_knn_scratch *scratch, const nf_knn_round *round, const entries *of,
                    uint32_t k)
{
    if (round->exact) {
        keep_exact(of, scratch, k);
        return;
    }
    prune(of, scratch, k);
    if (of->query->count > k + (round->capacity - k) / 2) resolve(space, scratch, round, of, k);
}

/* Appends a row unless the limit says no; compacts when there is no room. */
static void keep_row(const nf_knn_space *space, nf_knn_scratch *scratch, const nf_knn_round *round, const entries *of,
                     uint32_t k, const nf_knn_block *block, uint32_t row, float product)
{
    nf_knn_query *query = of->query;
    const float   width = query->gain * block->reach[row], low = block->low[row] - product - width;

    if (!(low < query->limit)) return;
    if (query->count == round->capacity) {
        compact(space, scratch, round, of, k);
        if (!(low < query->limit)) return;
    }
    const uint32_t at = query->count++;
    of->low[at] = low;
    of->high[at] = block->high[row] - product + width;
    of->ids[at] = (uint32_t)(block->first + row);
}

void nf_knn_keep(const nf_knn_space *space, nf_knn_scratch *scratch, nf_knn_round *round, uint32_t query, uint32_t k,
                 const nf_knn_block *block, uint32_t from, uint32_t count, const float *products)
{
    const entries of = entries_of(round, query);
    uint16_t      masks[NF_KNN_CHUNK / NF_LANES];

    if (scratch->ivf->below(block->low + from, block->reach + from, products, count, of.query->gain, of.query->limit,
                            masks) == 0) {
        return;
    }
    for (uint32_t j = 0; j < count; j += NF_LANES) {
        for (uint32_t mask = masks[j / NF_LANES]; mask != 0; mask &= mask - 1) {
            const uint32_t i = j + (uint32_t)__builtin_ctz(mask);
            keep_row(space, scratch, round, &of, k, block, from + i, products[i]);
        }
    }
}

/* Distances from exact keys: L2 |x - q|^2 = 2 s + |q|^2, IP s itself. */
static void distances_of_keys(const nf_knn_space *space, const nf_knn_query *query, double *keys)
{
    if (space->metric != NF_METRIC_L2) return;
    for (uint32_t i = 0; i < query->count; i++) keys[i] = sqrt(2.0 * keys[i] + query->norm);
}

nf_status nf_knn_finish(const nf_knn_space *space, nf_knn_scratch *scratch, nf_knn_round *round, uint32_t query,
                        uint32_t k, uint32_t *found)
{
    const entries of = entries_of(round, query);
    if (round->exact) {
        keep_exact(&of, scratch, k);
        distances_of_keys(space, of.query, scratch->distances);
    } else {
        prune(&of, scratch, k);
        resolve(space, scratch, round, &of, k);
    }
    *found = of.query->count;
    memcpy(scratch->sorted, of.ids, *found * sizeof *of.ids);
    return nf_sort_by_distance(&scratch->sorter, scratch->sorted, scratch->distances, *found);
}
