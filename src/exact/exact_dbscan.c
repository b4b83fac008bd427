/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DBSCAN over streamed pairs (Ester, Kriegel, Sander and Xu, KDD 1996): count, unite, label. No more pairs than a
 * batch's are held.
 *
 * The forest (exact_forest.h) is of row numbers, every root the lowest core row of its tree, so the threads may take the
 * pairs of a batch in any order. Roots in ascending order are then the clusters in the order of their first core rows, and
 * the cluster of a border row is that of the lowest root among its core neighbours, which is known only when all pairs
 * have been united: hence pairs of border rows are kept, or looked at once more.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "core/core_params.h"
#include "core/core_pool.h"
#include "exact_components.h"
#include "exact_forest.h"
#include "exact_private.h"
#include "nearfield/cluster.h"

#define BATCH_PAIRS 8000000u
#define MOST_KEPT ((uint64_t)8 << 20) /* pairs of a border row and a core row */
#define TASK_PAIRS 65536u             /* about: rows go to tasks by equal shares */
#define NO_ROOT UINT32_MAX

typedef struct border_pair {
    uint32_t border, core;
} border_pair;

typedef struct dbscan {
    nf_context            *ctx;
    const nf_radius_index *index;
    nf_dbscan_params       params;
    nf_dbscan_stats        stats;
    uint64_t               rows;
    uint64_t              *counts; /* neighbours of each row; goes after core is known */
    uint8_t               *is_core;
    _Atomic uint32_t      *parent; /* the forest; of rows that are not core: the lowest root so far, NO_ROOT at first */
    border_pair           *kept;   /* NULL: border rows need a pass of their own */
    atomic_uint_fast64_t   kept_count;
    bool                   borders; /* this pass is theirs */
    const nf_radius_batch *batch;
    uint64_t               tasks;
} dbscan;

void nf_dbscan_params_init(nf_dbscan_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->min_samples = 5;
    params->similarity = NAN;
}

/* ---- passes ---- */

/* Lowers what a border row knows to the root of one of its core neighbours. */
static void reach_border(dbscan *at, uint32_t border, uint32_t core)
{
    const uint32_t root = nf_forest_root(at->parent, core);
    uint32_t       before = atomic_load_explicit(&at->parent[border], memory_order_relaxed);
    while (root < before && !atomic_compare_exchange_weak_explicit(&at->parent[border], &before, root,
                                                                   memory_order_relaxed, memory_order_relaxed)) {
    }
}

static void take_pair(dbscan *at, uint32_t x, uint32_t y)
{
    const bool x_core = at->is_core[x] != 0, y_core = at->is_core[y] != 0;
    if (x_core && y_core) {
        if (!at->borders) nf_forest_unite(at->parent, x, y);
        return;
    }
    if (x_core == y_core) return;
    const uint32_t border = x_core ? y : x, core = x_core ? x : y;
    if (at->borders) {
        reach_border(at, border, core);
    } else if (at->kept != NULL) {
        at->kept[atomic_fetch_add_explicit(&at->kept_count, 1, memory_order_relaxed)] = (border_pair){border, core};
    }
}

static nf_status batch_task(void *arg, uint64_t task, uint32_t worker)
{
    dbscan                *at = arg;
    const nf_radius_batch *batch = at->batch;
    const uint64_t         begin = task * batch->rows / at->tasks, end = (task + 1) * batch->rows / at->tasks;
    (void)worker;
    for (uint64_t row = begin; row < end; row++) {
        for (int64_t i = batch->indptr[row]; i < batch->indptr[row + 1]; i++) {
            take_pair(at, (uint32_t)batch->query_ids[row], (uint32_t)batch->indices[i]);
        }
    }
    return NF_OK;
}

static nf_radius_params radius_params(const dbscan *at)
{
    nf_radius_params params;
    nf_radius_params_init(&params);
    params.radius = at->params.radius;
    params.similarity = at->params.similarity;
    params.strict = at->params.strict;
    params.distances = NF_DISTANCES_NONE;
    params.batch_pairs = BATCH_PAIRS;
    return params;
}

/* All unordered pairs, batch by batch. */
static nf_status pass_over_pairs(dbscan *at)
{
    nf_radius_params  params = radius_params(at);
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    nf_status         status;

    params.half = 1;
    at->stats.passes++;
    at->stats.pairs = 0;
    NF_TRY(nf_radius_open(at->ctx, at->index, NULL, &params, &stream));
    while ((status = nf_radius_next(stream, &batch)) == NF_MORE) {
        at->batch = &batch;
        at->tasks = batch.pairs / TASK_PAIRS + 1;
        at->stats.pairs += batch.pairs;
        status = nf_pool_run(at->ctx, batch_task, at, at->tasks);
        if (status < 0) break;
    }
    nf_radius_close(stream);
    return status;
}

/* Rows of zeros are not within a cosine of anything, themselves included. Rows in order; *kept: of those before that are not. */
static bool is_zero(const dbscan *at, uint64_t row, uint64_t *kept)
{
    const bool zero = at->index->kept != NULL && at->index->kept[*kept] != row;
    if (!zero) ++*kept;
    return zero;
}

/* Which rows are core, and how many pairs of border rows there may be: no more than their neighbours. */
static nf_status count_neighbours(dbscan *at, uint64_t *possible)
{
    nf_radius_params params = radius_params(at);

    at->counts = nf_alloc(at->ctx, at->rows, sizeof *at->counts);
    if (at->counts == NULL) return nf_alloc_status(at->ctx);
    at->stats.passes++;
    params.stop_at = at->params.min_samples - 1; /* what lies beyond does not matter */
    NF_TRY(nf_radius_counts(at->ctx, at->index, NULL, &params, at->counts, NULL));
    uint64_t kept = 0;
    for (uint64_t row = 0; row < at->rows; row++) {
        at->is_core[row] = !is_zero(at, row, &kept) && at->counts[row] + 1 >= at->params.min_samples;
        if (!at->is_core[row]) *possible += at->counts[row];
        at->stats.core += at->is_core[row];
    }
    nf_free(at->counts);
    at->counts = NULL;
    return NF_OK;
}

static nf_status find_core(dbscan *at)
{
    uint64_t possible = 0;

    at->is_core = nf_alloc(at->ctx, at->rows, 1);
    if (at->is_core == NULL) return nf_alloc_status(at->ctx);
    if (at->params.min_samples == 1) { /* connected components: every row is core by itself */
        uint64_t kept = 0;
        for (uint64_t row = 0; row < at->rows; row++) at->is_core[row] = !is_zero(at, row, &kept);
        at->stats.core = at->rows - at->index->zero_rows;
    } else {
        NF_TRY(count_neighbours(at, &possible));
    }
    at->parent = nf_alloc(at->ctx, at->rows, sizeof *at->parent);
    if (at->parent == NULL) return nf_alloc_status(at->ctx);
    for (uint64_t row = 0; row < at->rows; row++)
        atomic_init(&at->parent[row], at->is_core[row] ? (uint32_t)row : NO_ROOT);
    if (possible <= MOST_KEPT) at->kept = nf_try_alloc(at->ctx, possible + 1, sizeof *at->kept);
    return NF_OK;
}

static nf_status join_borders(dbscan *at)
{
    if (at->kept == NULL && at->stats.core > 0 && at->stats.core < at->rows) {
        at->borders = true;
        return pass_over_pairs(at);
    }
    for (uint64_t i = 0; i < atomic_load(&at->kept_count); i++) reach_border(at, at->kept[i].border, at->kept[i].core);
    return NF_OK;
}

/* Roots come before the other rows of their clusters, but a border row may come before the root that it belongs to. */
static void number_clusters(dbscan *at, int64_t *labels)
{
    for (uint64_t row = 0; row < at->rows; row++) {
        if (!at->is_core[row]) continue;
        const uint32_t root = nf_forest_root(at->parent, (uint32_t)row);
        labels[row] = root == row ? (int64_t)at->stats.clusters++ : labels[root];
    }
    for (uint64_t row = 0; row < at->rows; row++) {
        if (at->is_core[row]) continue;
        const uint32_t root = atomic_load(&at->parent[row]);
        labels[row] = root == NO_ROOT ? -1 : labels[root];
        at->stats.border += root != NO_ROOT;
        at->stats.noise += root == NO_ROOT;
    }
}

/* ---- the whole ---- */

nf_status nf_dbscan_params_take(nf_context *ctx, const nf_dbscan_params *from, nf_dbscan_params *to)
{
    size_t given = 0;
    nf_dbscan_params_init(to);
    if (from == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "params is NULL; a radius is needed");
    memcpy(&given, from, sizeof given);
    if (given < sizeof given) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "struct_size of the parameters is %zu; use nf_dbscan_params_init", given);
    }
    memcpy(to, from, given < sizeof *to ? given : sizeof *to);
    if (to->min_samples < 1) return nf_fail(ctx, NF_ERR_ARGUMENT, "min_samples is 0, at least 1 is needed");
    return NF_OK;
}

static nf_status cluster(dbscan *at, int64_t *labels)
{
    if (at->rows == 0) return NF_OK;
    NF_TRY(find_core(at));
    NF_TRY(pass_over_pairs(at));
    NF_TRY(join_borders(at));
    number_clusters(at, labels);
    return NF_OK;
}

nf_status nf_dbscan(nf_context *ctx, const nf_radius_index *index, const nf_dbscan_params *params, int64_t *labels,
                    uint8_t *core, nf_dbscan_stats *stats)
{
    const double started = nf_now();
    dbscan       at = {.ctx = ctx, .index = index};

    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    if (index == NULL || labels == NULL) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s is NULL", index == NULL ? "index" : "labels");
    }
    NF_TRY(nf_dbscan_params_take(ctx, params, &at.params));
    nf_radius_index_describe(index, &at.rows, NULL, NULL);
    const nf_status status = cluster(&at, labels);
    if (status >= 0 && core != NULL && at.rows > 0) memcpy(core, at.is_core, at.rows);
    nf_free(at.counts);
    nf_free(at.is_core);
    nf_free((void *)(uintptr_t)at.parent);
    nf_free(at.kept);
    at.stats.seconds = nf_now() - started;
    if (status >= 0 && stats != NULL) {
        at.stats.struct_size = stats->struct_size;
        memcpy(stats, &at.stats, stats->struct_size < sizeof *stats ? stats->struct_size : sizeof *stats);
    }
    return status;
}
