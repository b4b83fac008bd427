/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The radius for a selectivity. Counts of a sample's neighbours narrow a bracket (low, high] until it holds few enough
 * pairs to look at their distances; the wanted one is selected among these. Radii are compared as integers with the
 * order of the binary64 numbers, so that halving a bracket ends after 63 steps at most, whatever the scale.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "exact_private.h"
#include "exact_sample.h"
#include "matrix/matrix_convert.h"
#include "matrix/matrix_metric.h"

#define MOST_DISTANCES ((uint64_t)4 << 20)
#define GUESS_ROWS 128u

typedef struct selectivity_run {
    nf_context            *ctx;
    const nf_radius_index *index;
    nf_sample_params       params;
    nf_matrix              sample;
    void                  *values;          /* of the sample */
    uint64_t              *counts;          /* neighbours of each of its rows */
    uint64_t               queries, wanted; /* pairs of the sample */
    uint32_t               searches;
    double                 low, high; /* low < 0: not even 0 */
    uint64_t               low_pairs, high_pairs;
} selectivity_run;

/* ---- the sample ---- */

static nf_status count_each(selectivity_run *run, double radius, uint64_t *pairs)
{
    nf_radius_params params;
    nf_radius_params_init(&params);
    params.radius = radius;
    run->searches++;
    NF_TRY(nf_sample_counts(run->ctx, run->index, &run->sample, &params, run->params.self_join != 0, run->counts));
    *pairs = 0;
    for (uint64_t i = 0; i < run->sample.rows; i++) *pairs += run->counts[i];
    return NF_OK;
}

/* ---- the bracket ---- */

static double largest_radius(const selectivity_run *run)
{
    return run->index->metric == NF_METRIC_COSINE ? nextafter(1.0, 0.0) : (double)INFINITY;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A radius to begin with: the quantile of distances of rows of the sample. */
static nf_status guess(selectivity_run *run, double *radius)
{
    const uint64_t rows = run->sample.rows < GUESS_ROWS ? run->sample.rows : GUESS_ROWS, dims = run->sample.dims;
    double        *distances = nf_alloc(run->ctx, rows * rows / 2 + 1, sizeof *distances);
    double        *x = nf_alloc(run->ctx, 2 * dims, sizeof *x);
    uint64_t       count = 0;

    *radius = 1.0;
    if (distances == NULL || x == NULL) {
        nf_free(distances);
        nf_free(x);
        return nf_alloc_status(run->ctx);
    }
    for (uint64_t i = 0; i < rows; i++) {
        if (nf_matrix_row_invalid(&run->sample, i) < dims) break; /* the search will name it */
        for (uint64_t j = 0; j < i; j++) {
            nf_matrix_row_f64(&run->sample, i, x);
            nf_matrix_row_f64(&run->sample, j, x + dims);
            distances[count++] = nf_metric_distance(run->index->metric, x, x + dims, (uint32_t)dims);
        }
    }
    if (count > 0) {
        qsort(distances, count, sizeof *distances, compare_doubles);
        const double share = (double)run->wanted / (double)run->sample.rows / (double)run->index->rows;
        uint64_t     at = (uint64_t)(fmin(share, 1.0) * (double)(count - 1) + 0.5);
        while (at + 1 < count && !(distances[at] > 0.0)) at++;
        if (distances[at] > 0.0) *radius = distances[at];
    }
    nf_free(distances);
    nf_free(x);
    return NF_OK;
}

static double from_order(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t order_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static nf_status not_reached(selectivity_run *run)
{
    const double most = (double)run->high_pairs / (double)run->sample.rows;
    return nf_fail(run->ctx, NF_ERR_ARGUMENT,
                   "selectivity is %g, but the sample's rows have %g neighbours on average at a cosine above 0",
                   (double)run->wanted / (double)run->sample.rows, most);
}

/* Grows the radius until it is enough. */
static nf_status find_high(selectivity_run *run)
{
    const double most = largest_radius(run);
    double       radius = 0.0, factor = 1.5;

    NF_TRY(guess(run, &radius));
    radius = fmin(radius, most);
    for (;;) {
        NF_TRY(count_each(run, radius, &run->high_pairs));
        run->high = radius;
        if (run->high_pairs >= run->wanted) return NF_OK;
        if (radius == most) return not_reached(run);
        run->low = radius;
        run->low_pairs = run->high_pairs;
        radius = fmin(radius * factor, most);
        factor *= factor;
    }
}

/* Between: by the number of pairs at first, since these grow by some power of the radius, then by halves. */
static double between(const selectivity_run *run, uint32_t step)
{
    const double half =
        from_order(run->low < 0.0 ? order_of(run->high) / 2 : (order_of(run->low) + order_of(run->high)) / 2);
    if (run->low < 0.0 && step > 3) return step == 4 ? 0.0 : half;
    const double try = run->low <= 0.0 ? run->high / 2.0 : sqrt(run->low) * sqrt(run->high);
    return step < 8 && try > run->low && try < run->high ?
    try : half
        ;
}

static nf_status narrow(selectivity_run *run)
{
    for (uint32_t step = 0; run->high_pairs - run->low_pairs > MOST_DISTANCES; step++) {
        const double radius = between(run, step);
        uint64_t     pairs;
        if (run->high == 0.0 || !(radius > run->low && radius < run->high)) return NF_OK; /* all of them tie */
        NF_TRY(count_each(run, radius, &pairs));
        if (pairs >= run->wanted) {
            run->high = radius;
            run->high_pairs = pairs;
        } else {
            run->low = radius;
            run->low_pairs = pairs;
        }
    }
    return NF_OK;
}

/* ---- the distance ---- */

/* The distances of a batch that are in the bracket, or below it by no more than rounding; none of a row to itself. */
static uint64_t take_distances(const selectivity_run *run, const uint64_t *rows, const nf_radius_batch *batch,
                               double *distances, uint64_t count, uint64_t room)
{
    const double least = run->low * (1.0 - 0x1p-30);
    for (uint64_t i = 0; i < batch->rows; i++) {
        const uint64_t own = rows[batch->query_ids[i]];
        for (int64_t p = batch->indptr[i]; p < batch->indptr[i + 1]; p++) {
            const double distance = ((const double *)batch->distances)[p];
            if (run->params.self_join && (uint64_t)batch->indices[p] == own) continue;
            if (distance >= least && count < room) distances[count++] = distance;
        }
    }
    return count;
}

/* One search for the distances in the bracket. */
static nf_status collect(selectivity_run *run, double *distances, uint64_t room, uint64_t *count)
{
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    nf_radius_params  params;
    nf_status         status;
    uint64_t         *rows = nf_alloc(run->ctx, run->sample.rows, sizeof *rows);

    if (rows == NULL) return nf_alloc_status(run->ctx);
    nf_sample_numbers(run->queries, run->sample.rows, run->params.seed, rows);
    nf_radius_params_init(&params);
    params.radius = run->high;
    params.batch_pairs = MOST_DISTANCES;
    *count = 0;
    run->searches++;
    status = nf_radius_open(run->ctx, run->index, &run->sample, &params, &stream);
    while (status >= 0 && (status = nf_radius_next(stream, &batch)) == NF_MORE) {
        *count = take_distances(run, rows, &batch, distances, *count, room);
    }
    nf_radius_close(stream);
    nf_free(rows);
    return status;
}

/* The wanted pair's distance; of all, those in the bracket are the last. */
static nf_status select_distance(selectivity_run *run, double *radius)
{
    const uint64_t room = 2 * MOST_DISTANCES;             /* those at the low end as well */
    const uint64_t above = run->high_pairs - run->wanted; /* pairs beyond the wanted one */
    double        *distances = NULL;
    uint64_t       count = 0;

    *radius = run->high;
    if (run->high_pairs - run->low_pairs > MOST_DISTANCES) return NF_OK;
    const uint64_t most = run->high_pairs < room ? run->high_pairs : room;
    distances = nf_alloc(run->ctx, most + 1, sizeof *distances);
    if (distances == NULL) return nf_alloc_status(run->ctx);
    const nf_status status = collect(run, distances, most, &count);
    if (status >= 0 && count > above && count < room) {
        qsort(distances, count, sizeof *distances, compare_doubles);
        *radius = distances[count - 1 - above];
    }
    nf_free(distances);
    return status;
}

/* A delivered distance is rounded, maybe down: the next radii that may be it. */
static nf_status settle(selectivity_run *run, double radius, uint64_t *pairs)
{
    for (uint64_t ulps = 0;; ulps = ulps == 0 ? 1 : 2 * ulps) {
        double next = radius;
        if (ulps > 0) next = ulps < 1u << 20 ? from_order(order_of(radius) + ulps) : run->high;
        if (!(next < run->high)) next = run->high;
        NF_TRY(count_each(run, next, pairs));
        if (*pairs < run->wanted && next < run->high) continue;
        run->high = next;
        return NF_OK;
    }
}

/* ---- the whole ---- */

static nf_status check(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries, double selectivity,
                       const nf_sample_params *params, nf_sample_params *taken)
{
    NF_TRY(nf_sample_check(ctx, index, queries, params, taken));
    const uint64_t others = index->rows - (taken->self_join ? 1 : 0);
    if (!(selectivity > 0.0 && selectivity <= (double)others)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT,
                       "selectivity is %g, more than 0 and at most %llu, the number of other rows, is needed",
                       selectivity, (unsigned long long)others);
    }
    return NF_OK;
}

static nf_status find(selectivity_run *run, const nf_matrix *queries, nf_selectivity *found)
{
    uint64_t pairs = 0;
    double   radius;

    NF_TRY(nf_sample_copy(run->ctx, queries, &run->params, &run->values, &run->sample));
    run->counts = nf_alloc(run->ctx, run->sample.rows, sizeof *run->counts);
    if (run->counts == NULL) return nf_alloc_status(run->ctx);
    NF_TRY(find_high(run));
    NF_TRY(narrow(run));
    NF_TRY(select_distance(run, &radius));
    NF_TRY(settle(run, radius, &pairs));
    found->radius = run->high;
    nf_sample_mean(run->counts, run->sample.rows, run->queries, &found->estimate, &found->standard_error);
    return NF_OK;
}

nf_status nf_radius_for_selectivity(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                    double selectivity, const nf_sample_params *params, nf_selectivity *out)
{
    if (ctx == NULL || out == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    selectivity_run run = {.ctx = ctx, .index = index, .low = -1.0};
    NF_TRY(check(ctx, index, queries, selectivity, params, &run.params));

    nf_selectivity found = {.struct_size = sizeof found};
    const double   pairs = selectivity * (double)run.params.rows;
    run.queries = queries->rows;
    run.wanted = (uint64_t)ceil(pairs - pairs * 0x1p-40); /* 0.1 of 1000 rows are 100 pairs, not 101 */
    if (run.wanted == 0) run.wanted = 1;
    const nf_status status = find(&run, queries, &found);
    nf_free(run.values);
    nf_free(run.counts);
    if (status < 0) return status;
    found.sampled = run.params.rows;
    found.queries = run.queries;
    found.searches = run.searches;
    const size_t size = out->struct_size != 0 && out->struct_size < sizeof *out ? out->struct_size : sizeof *out;
    memcpy(out, &found, size);
    out->struct_size = size;
    return NF_OK;
}
