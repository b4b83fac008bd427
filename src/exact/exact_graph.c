/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters of a stored graph. DBSCAN walks from core row to core row, rows in ascending order, so that a border row
 * belongs to the first cluster that reaches it, which is that of the lowest number.
 *
 * The edges are turned round twice, each time by counting: then rows are sorted, and the graph is symmetric iff the
 * first turn, which is the transposed graph, equals the second.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "exact_components.h"
#include "exact_forest.h"
#include "exact_private.h"

#define POLL_ROWS 65536u

/* Edges: entries within the radius, without those of a row and itself. */
typedef struct edges {
    uint64_t *place; /* rows + 1 */
    uint32_t *to;
} edges;

typedef struct graph_walk {
    nf_context      *ctx;
    const nf_csr    *graph;
    nf_dbscan_params params;
    nf_dbscan_stats  stats;
    edges            turned, sorted;
    uint32_t        *stack;
    uint8_t         *core;
} graph_walk;

static bool is_edge(const nf_csr *graph, double radius, bool strict, uint64_t row, int64_t i)
{
    if ((uint64_t)graph->indices[i] == row) return false;
    if (graph->distances == NULL) return true;
    const double distance = graph->distances_as == NF_DISTANCES_F32 ? (double)((const float *)graph->distances)[i]
                                                                    : ((const double *)graph->distances)[i];
    return strict ? distance < radius : distance <= radius;
}

static nf_status check_graph(nf_context *ctx, const nf_csr *graph, double radius, const int64_t *labels)
{
    if (graph == NULL || labels == NULL) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s is NULL", graph == NULL ? "graph" : "labels");
    }
    if (!(radius >= 0)) return nf_fail(ctx, NF_ERR_ARGUMENT, "radius is %g; a number of at least 0 is needed", radius);
    if (graph->rows != graph->columns || graph->rows > INT32_MAX) {
        return nf_fail(ctx, NF_ERR_ARGUMENT,
                       "graph is %" PRIu64 " x %" PRIu64 "; as many columns as rows are needed, at most %d",
                       graph->rows, graph->columns, INT32_MAX);
    }
    if (graph->indptr == NULL || graph->indptr[0] != 0)
        return nf_fail(ctx, NF_ERR_ARGUMENT, "indptr does not begin at 0");
    for (uint64_t row = 0; row < graph->rows; row++) {
        const int64_t begin = graph->indptr[row], end = graph->indptr[row + 1];
        if (end < begin || (uint64_t)end > graph->pairs) {
            return nf_fail(ctx, NF_ERR_ARGUMENT, "indptr of row %" PRIu64 " falls, or goes beyond the entries", row);
        }
        for (int64_t i = begin; i < end; i++) {
            if (graph->indices[i] >= 0 && (uint64_t)graph->indices[i] < graph->columns) continue;
            return nf_fail(ctx, NF_ERR_ARGUMENT, "graph: row %" PRIu64 " has an entry of column %" PRId32, row,
                           graph->indices[i]);
        }
    }
    return NF_OK;
}

/* ---- components ---- */

static nf_status unite_all(nf_context *ctx, const nf_csr *graph, const nf_components_params *params,
                           _Atomic uint32_t *parent, nf_components_stats *stats)
{
    for (uint64_t row = 0; row < graph->rows; row++) atomic_init(&parent[row], (uint32_t)row);
    for (uint64_t row = 0; row < graph->rows; row++) {
        for (int64_t i = graph->indptr[row]; i < graph->indptr[row + 1]; i++) {
            if (!is_edge(graph, params->radius, params->strict != 0, row, i)) continue;
            stats->pairs++;
            nf_forest_unite(parent, (uint32_t)row, (uint32_t)graph->indices[i]);
        }
        if (row % POLL_ROWS == 0) NF_TRY(nf_progress_poll(ctx));
    }
    return NF_OK;
}

static nf_status label_components(nf_context *ctx, const nf_csr *graph, const nf_components_params *params,
                                  int64_t *labels, nf_components_stats *stats)
{
    _Atomic uint32_t *parent = nf_alloc(ctx, graph->rows, sizeof *parent);
    if (parent == NULL) return nf_alloc_status(ctx);
    const nf_status status = unite_all(ctx, graph, params, parent, stats);
    for (uint64_t row = 0; status >= 0 && row < graph->rows; row++) {
        const uint32_t root = nf_forest_root(parent, (uint32_t)row); /* the lowest row: labelled before the others */
        labels[row] = root == row ? (int64_t)stats->components++ : labels[root];
    }
    nf_free((void *)(uintptr_t)parent);
    return status;
}

nf_status nf_graph_components(nf_context *ctx, const nf_csr *graph, const nf_components_params *params, int64_t *labels,
                              nf_components_stats *stats)
{
    const double         started = nf_now();
    nf_components_params own;
    nf_components_stats  found = {.struct_size = sizeof found};

    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    NF_TRY(nf_components_params_take(ctx, params, &own));
    NF_TRY(check_graph(ctx, graph, own.radius, labels));
    NF_TRY(label_components(ctx, graph, &own, labels, &found));
    if (stats != NULL) NF_TRY(nf_components_measure(ctx, labels, graph->rows, &found));
    found.seconds = nf_now() - started;
    nf_components_stats_give(&found, stats);
    return NF_OK;
}

/* ---- DBSCAN ---- */

static nf_status take_edges(graph_walk *at, edges *out, uint64_t count)
{
    out->place = nf_alloc_zero(at->ctx, at->graph->rows + 1, sizeof *out->place);
    if (out->place == NULL) return nf_alloc_status(at->ctx);
    out->to = nf_alloc(at->ctx, count, sizeof *out->to);
    return out->to == NULL ? nf_alloc_status(at->ctx) : NF_OK;
}

/* From counts, each one place ahead, to places; the places are moved on while rows are filled, and end right. */
static void open_places(uint64_t *place, uint64_t rows)
{
    uint64_t begin = 0;
    for (uint64_t row = 0; row < rows; row++) {
        const uint64_t count = place[row + 1];
        place[row + 1] = begin;
        begin += count;
    }
}

/* Turns the graph's edges round: rows of the result are sorted by construction. */
static nf_status turn_graph(graph_walk *at)
{
    const nf_csr *graph = at->graph;
    const double  radius = at->params.radius;
    const bool    strict = at->params.strict != 0;
    uint64_t      count = 0;

    for (uint64_t row = 0; row < graph->rows; row++) {
        for (int64_t i = graph->indptr[row]; i < graph->indptr[row + 1]; i++) {
            count += is_edge(graph, radius, strict, row, i);
        }
    }
    at->stats.pairs = count / 2;
    NF_TRY(take_edges(at, &at->turned, count));
    uint64_t *place = at->turned.place;
    for (uint64_t row = 0; row < graph->rows; row++) {
        for (int64_t i = graph->indptr[row]; i < graph->indptr[row + 1]; i++) {
            if (is_edge(graph, radius, strict, row, i)) place[graph->indices[i] + 1]++;
        }
    }
    open_places(place, graph->rows);
    for (uint64_t row = 0; row < graph->rows; row++) {
        for (int64_t i = graph->indptr[row]; i < graph->indptr[row + 1]; i++) {
            if (is_edge(graph, radius, strict, row, i)) at->turned.to[place[graph->indices[i] + 1]++] = (uint32_t)row;
        }
        if (row % POLL_ROWS == 0) NF_TRY(nf_progress_poll(at->ctx));
    }
    return NF_OK;
}

/* Turns them round once more. */
static nf_status turn_back(graph_walk *at)
{
    const uint64_t rows = at->graph->rows, *from = at->turned.place;
    NF_TRY(take_edges(at, &at->sorted, from[rows]));
    uint64_t *place = at->sorted.place;
    for (uint64_t i = 0; i < from[rows]; i++) place[at->turned.to[i] + 1]++;
    open_places(place, rows);
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t i = from[row]; i < from[row + 1]; i++) {
            at->sorted.to[place[at->turned.to[i] + 1]++] = (uint32_t)row;
        }
        if (row % POLL_ROWS == 0) NF_TRY(nf_progress_poll(at->ctx));
    }
    return NF_OK;
}

static nf_status one_way(const graph_walk *at, uint64_t row, uint64_t column)
{
    return nf_fail(at->ctx, NF_ERR_VALUE,
                   "graph: row %" PRIu64 " has an entry of column %" PRIu64 " within the radius, but row %" PRIu64
                   " has none of column %" PRIu64 "; DBSCAN needs both",
                   row, column, column, row);
}

/* Compares the sorted rows with those of the transposed graph. */
static nf_status check_symmetric(const graph_walk *at)
{
    const edges *there = &at->sorted, *back = &at->turned;
    for (uint64_t row = 0; row < at->graph->rows; row++) {
        uint64_t       i = there->place[row], j = back->place[row];
        const uint64_t end = there->place[row + 1], back_end = back->place[row + 1];
        for (; i < end || j < back_end; i++, j++) {
            if (i > there->place[row] && i < end && there->to[i] == there->to[i - 1]) {
                return nf_fail(at->ctx, NF_ERR_VALUE, "graph: row %" PRIu64 " has two entries of column %" PRIu32, row,
                               there->to[i]);
            }
            if (i < end && j < back_end && there->to[i] == back->to[j]) continue;
            if (i < end && (j == back_end || there->to[i] < back->to[j])) return one_way(at, row, there->to[i]);
            return one_way(at, back->to[j], row);
        }
    }
    return NF_OK;
}

/* Labels everything that is reached from a core row. Each row is put on the stack once. */
static void walk_from(graph_walk *at, uint32_t start, int64_t *labels)
{
    uint64_t depth = 0;
    at->stack[depth++] = start;
    labels[start] = (int64_t)at->stats.clusters;
    while (depth > 0) {
        const uint32_t row = at->stack[--depth];
        if (!at->core[row]) continue;
        for (uint64_t i = at->sorted.place[row]; i < at->sorted.place[row + 1]; i++) {
            const uint32_t to = at->sorted.to[i];
            if (labels[to] >= 0) continue;
            labels[to] = (int64_t)at->stats.clusters;
            at->stack[depth++] = to;
        }
    }
    at->stats.clusters++;
}

static nf_status walk_all(graph_walk *at, int64_t *labels)
{
    const uint64_t rows = at->graph->rows;
    at->core = nf_alloc(at->ctx, rows, 1);
    if (at->core == NULL) return nf_alloc_status(at->ctx);
    at->stack = nf_alloc(at->ctx, rows, sizeof *at->stack);
    if (at->stack == NULL) return nf_alloc_status(at->ctx);
    for (uint64_t row = 0; row < rows; row++) {
        labels[row] = -1;
        at->core[row] = at->sorted.place[row + 1] - at->sorted.place[row] + 1 >= at->params.min_samples;
        at->stats.core += at->core[row];
    }
    for (uint64_t row = 0; row < rows; row++) {
        if (at->core[row] && labels[row] < 0) walk_from(at, (uint32_t)row, labels);
        if (row % POLL_ROWS == 0) NF_TRY(nf_progress_poll(at->ctx));
    }
    for (uint64_t row = 0; row < rows; row++) {
        at->stats.noise += labels[row] < 0;
        at->stats.border += labels[row] >= 0 && !at->core[row];
    }
    return NF_OK;
}

static nf_status cluster_graph(graph_walk *at, int64_t *labels)
{
    NF_TRY(turn_graph(at));
    NF_TRY(turn_back(at));
    NF_TRY(check_symmetric(at));
    return walk_all(at, labels);
}

nf_status nf_graph_dbscan(nf_context *ctx, const nf_csr *graph, const nf_dbscan_params *params, int64_t *labels,
                          uint8_t *core, nf_dbscan_stats *stats)
{
    const double started = nf_now();
    graph_walk   at = {.ctx = ctx, .graph = graph, .stats = {.passes = 1}};

    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    NF_TRY(nf_dbscan_params_take(ctx, params, &at.params));
    NF_TRY(check_graph(ctx, graph, at.params.radius, labels));
    const nf_status status = cluster_graph(&at, labels);
    if (status >= 0 && core != NULL && graph->rows > 0) memcpy(core, at.core, graph->rows);
    nf_free(at.turned.place);
    nf_free(at.turned.to);
    nf_free(at.sorted.place);
    nf_free(at.sorted.to);
    nf_free(at.stack);
    nf_free(at.core);
    at.stats.seconds = nf_now() - started;
    if (status >= 0 && stats != NULL) {
        at.stats.struct_size = stats->struct_size;
        memcpy(stats, &at.stats, stats->struct_size < sizeof *stats ? stats->struct_size : sizeof *stats);
    }
    return status;
}
