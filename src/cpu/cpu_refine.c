/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step refine: decides the candidates of a batch (RT-HiSS, section IV-E), and keeps the pairs or only counts them.
 *
 * A task is a few consecutive query groups (a bundle). Their panels are packed once; then the groups of the data that any
 * of them hits are walked in ascending order, each packed once for the whole bundle.
 *
 * Half the work: in a self-join, groups I and J that both lie in the batch are decided once, by the task of the lower one;
 * the pairs found count for both rows ("mirrored"). Groups of the data outside the batch are decided for the batch's rows
 * alone, since their own rows belong to another batch.
 */
#include <math.h>
#include <string.h>

#include "core/core_pool.h"
#include "cpu_bins.h"
#include "cpu_hits.h"
#include "cpu_search.h"
#include "cpu_tile.h"

#define MOST_BUNDLE 8u              /* query groups in a task */
#define BUNDLE_BYTES (384ull << 10) /* panels of a bundle should stay in the second-level cache */
#define KEPT_TILES 128u             /* result masks kept before they are written out as positions */
#define DENSE_PAIRS 128u            /* from that many pairs on a tile is written out in both directions at once */

typedef struct kept_tile {
    uint32_t group;
    uint32_t pending; /* NF_RUN_PENDING: its pairs stand for both directions; else 0 */
    uint64_t masks[NF_TILE];
} kept_tile;

/* One query group of a bundle. */
typedef struct slot {
    nf_panel    panel;
    nf_hit_list hits;
    uint32_t    at, done;  /* next hit, and how many groups of its run are done */
    kept_tile  *kept;      /* KEPT_TILES */
    uint32_t    kept_count;
} slot;

typedef struct worker_state {
    nf_tiler tiler;
    nf_binner binner;
    nf_panel points;
    slot     slots[MOST_BUNDLE];
    uint64_t hits, compared, ties;
} worker_state;

typedef struct refine_run {
    nf_context   *ctx;
    nf_search    *search;
    nf_batch      batch;
    uint32_t      bundle;
    uint64_t     *counts;   /* NULL: keep pairs */
    const nf_bins *bins;    /* not NULL: count by radii, whatever the row */
    worker_state *workers;
    uint32_t      worker_count;
} refine_run;

static bool keeps_pairs(const refine_run *run)
{
    return run->counts == NULL && run->bins == NULL;
}

/* ---- counting ---- */

static void add_count(uint64_t *counts, uint32_t id, uint64_t count)
{
    if (count != 0) __atomic_fetch_add(&counts[id], count, __ATOMIC_RELAXED);
}

/* Transposes a 64 x 64 bit matrix in place, by halves (Hacker's Delight, section 7-3, has the idea). */
static void transpose_bits(uint64_t bits[NF_TILE])
{
    uint64_t mask = 0x00000000ffffffffull;
    for (uint32_t half = 32; half != 0; half >>= 1, mask ^= mask << half) {
        for (uint32_t row = 0; row < NF_TILE; row = (row + half + 1) & ~half) {
            const uint64_t moved = ((bits[row] >> half) ^ bits[row + half]) & mask;
            bits[row] ^= moved << half;
            bits[row + half] ^= moved;
        }
    }
}

/* Pairs of a half join belong to the row of the lower id; one that is not mirrored is another batch's where that is the
 * other row. */
static void count_half(const refine_run *run, uint32_t query_begin, uint32_t point_begin, const uint64_t *masks,
                       bool mirrored)
{
    const uint32_t *ids = run->search->data->ids;
    for (uint32_t q = 0; q < NF_TILE; q++) {
        for (uint64_t left = masks[q]; left != 0; left &= left - 1) {
            const uint32_t a = ids[query_begin + q], b = ids[point_begin + (uint32_t)__builtin_ctzll(left)];
            if (a < b) {
                add_count(run->counts, a, 1);
            } else if (mirrored) {
                add_count(run->counts, b, 1);
            }
        }
    }
}

static void count_tile(const refine_run *run, uint32_t query_group, uint32_t point_group, uint64_t *masks, bool mirrored)
{
    const nf_points *data = run->search->data, *queries = run->search->queries;
    const uint32_t   query_begin = queries->group_start[query_group], point_begin = data->group_start[point_group];

    if (run->search->spec.half) {
        count_half(run, query_begin, point_begin, masks, mirrored);
        return;
    }
    for (uint32_t q = 0; q < NF_TILE; q++) {
        if (masks[q] != 0) {
            add_count(run->counts, queries->ids[query_begin + q], (uint64_t)__builtin_popcountll(masks[q]));
        }
    }
    if (!mirrored) return;
    transpose_bits(masks);
    for (uint32_t p = 0; p < NF_TILE; p++) {
        if (masks[p] != 0) add_count(run->counts, data->ids[point_begin + p], (uint64_t)__builtin_popcountll(masks[p]));
    }
}

/* Counts the pairs of a tile by radii. In a half join each stands for one. */
static void bin_tile(const refine_run *run, worker_state *state, uint32_t query_group, uint32_t point_group,
                     const uint64_t *masks, uint64_t weight)
{
    const uint32_t query_begin = run->search->queries->group_start[query_group];
    const uint32_t point_begin = run->search->data->group_start[point_group];
    for (uint32_t q = 0; q < NF_TILE; q++) {
        if (masks[q] == 0) continue;
        nf_bins_count(run->bins, &state->binner, query_begin + q, point_begin, masks[q],
                      run->search->spec.half ? 1 : (uint32_t)weight);
    }
}

/* ---- keeping pairs ---- */

/* Counts neighbours of the row at a position. */
static void add_length(const refine_run *run, uint32_t position, uint32_t count)
{
    const uint32_t first = run->search->queries->group_start[run->batch.begin];
    __atomic_fetch_add(&run->search->lengths[position - first], count, __ATOMIC_RELAXED);
}

/* Counts a run that stands for both directions, or in a half join for that from the lower id. */
static void add_pending_lengths(const refine_run *run, uint32_t query, const uint32_t *points, uint32_t count)
{
    const uint32_t *ids = run->search->data->ids;
    uint32_t        own = count;
    for (uint32_t i = 0; i < count; i++) {
        const bool other = !run->search->spec.half || ids[query] > ids[points[i]];
        if (other) add_length(run, points[i], 1);
        if (other && run->search->spec.half) own--;
    }
    if (own > 0) add_length(run, query, own);
}

/* Writes the kept masks of one row of the slot, of tiles that are pending or that are not, as a run of positions. False on
 * overflow. */
static bool write_row(const refine_run *run, const slot *from, uint32_t row, uint32_t pending, uint32_t worker)
{
    const nf_search *search = run->search;
    uint32_t         total = 0;
    for (uint32_t i = 0; i < from->kept_count; i++) {
        const kept_tile *tile = &from->kept[i];
        if (tile->pending == pending) total += (uint32_t)__builtin_popcountll(tile->masks[row]);
    }
    if (total == 0) return true;

    uint32_t *words = nf_pairs_reserve(&run->search->pairs, worker, 2 + total + NF_TILE + 8);
    if (words == NULL) return false;
    words[0] = search->queries->group_start[from->panel.group] + row;
    words[1] = total | pending;
    uint32_t *out = words + 2;
    for (uint32_t i = 0; i < from->kept_count; i++) {
        const kept_tile *tile = &from->kept[i];
        if (tile->pending != pending || tile->masks[row] == 0) continue;
        out += search->kernels->mask_positions(tile->masks[row], search->data->group_start[tile->group], out);
    }
    nf_pairs_commit(&run->search->pairs, worker, 2 + total);
    if (pending != 0) {
        add_pending_lengths(run, words[0], words + 2, total);
    } else {
        add_length(run, words[0], total);
    }
    return true;
}

static bool flush_slot(const refine_run *run, slot *from, uint32_t worker)
{
    bool any_pending = false, any_plain = false;
    for (uint32_t i = 0; i < from->kept_count; i++) {
        any_pending |= from->kept[i].pending != 0;
        any_plain |= from->kept[i].pending == 0;
    }
    for (uint32_t row = 0; row < from->panel.count; row++) {
        if (any_plain && !write_row(run, from, row, 0, worker)) return false;
        if (any_pending && !write_row(run, from, row, NF_RUN_PENDING, worker)) return false;
    }
    from->kept_count = 0;
    return true;
}

/* Writes the other direction of a tile: for each of its points, a run of the queries that found it. False on overflow. */
static bool write_mirrored(const refine_run *run, uint32_t query_group, uint32_t point_group, uint64_t masks[NF_TILE],
                           uint32_t pairs, uint32_t worker)
{
    const nf_search *search = run->search;
    const uint32_t   query_begin = search->queries->group_start[query_group];
    const uint32_t   point_begin = search->data->group_start[point_group];
    uint32_t *const  words = nf_pairs_reserve(&run->search->pairs, worker, pairs + 3 * NF_TILE + 8);
    uint32_t        *out = words;

    if (words == NULL) return false;
    transpose_bits(masks);
    for (uint32_t p = 0; p < NF_TILE; p++) {
        if (masks[p] == 0) continue;
        out[0] = point_begin + p;
        out[1] = search->kernels->mask_positions(masks[p], query_begin, out + 2);
        add_length(run, out[0], out[1]);
        out += 2 + out[1];
    }
    nf_pairs_commit(&run->search->pairs, worker, (uint32_t)(out - words));
    return true;
}

/* Leaves the pairs in masks for which the point's id is above the query's, and moves the others to below. */
static void split_by_id(const nf_search *search, uint32_t query_group, uint32_t point_group, uint64_t masks[NF_TILE],
                        uint64_t below[NF_TILE])
{
    const uint32_t *query_ids = search->queries->ids + search->queries->group_start[query_group];
    const uint32_t *point_ids = search->data->ids + search->data->group_start[point_group];
    for (uint32_t q = 0; q < NF_TILE; q++) {
        const uint64_t above = masks[q] != 0 ? search->kernels->ids_above(point_ids, query_ids[q]) : 0;
        below[q] = masks[q] & ~above;
        masks[q] &= above;
    }
}

/* Keeps the masks of a tile: in both directions at once where it holds many pairs of the batch, as they are otherwise. */
static bool keep_tile(const refine_run *run, slot *from, uint32_t group, bool inside, uint32_t pairs, uint32_t worker)
{
    kept_tile *tile = &from->kept[from->kept_count];
    uint64_t   other[NF_TILE];

    tile->group = group;
    tile->pending = inside && pairs < DENSE_PAIRS ? NF_RUN_PENDING : 0;
    if (tile->pending == 0 && run->search->spec.half) {
        split_by_id(run->search, from->panel.group, group, tile->masks, other);
    } else if (tile->pending == 0 && inside) {
        memcpy(other, tile->masks, sizeof other);
    }
    if (tile->pending == 0 && inside && !write_mirrored(run, from->panel.group, group, other, pairs, worker)) return false;
    if (++from->kept_count < KEPT_TILES) return true;
    return flush_slot(run, from, worker);
}

static uint32_t count_pairs(const uint64_t *masks, uint64_t queries)
{
    uint32_t pairs = 0;
    for (; queries != 0; queries &= queries - 1) {
        const uint64_t mask = masks[__builtin_ctzll(queries)];
        if (mask != 0) pairs += (uint32_t)__builtin_popcountll(mask);
    }
    return pairs;
}

/* ---- walking the hits ---- */

/* The next group of the data that a slot has to see; UINT32_MAX when it is through. */
static uint32_t next_group(const slot *from)
{
    return from->at < from->hits.count ? from->hits.hits[from->at].group + from->done : UINT32_MAX;
}

static void step_over(slot *from)
{
    if (++from->done == from->hits.hits[from->at].run) {
        from->at++;
        from->done = 0;
    }
}

/* ---- stopping at a count ---- */

/* Counts only grow, and a row that has got to stop_at may miss any pair from there on: so a pair may be left out where
 * every row that it counts for is there, whatever the other threads have counted meanwhile. */
static bool row_is_done(const refine_run *run, uint32_t id)
{
    return __atomic_load_n(&run->counts[id], __ATOMIC_RELAXED) >= run->search->spec.stop_at;
}

/* Bits of the rows of a group that have got there. */
static uint64_t done_rows(const refine_run *run, const nf_points *points, uint32_t group)
{
    const uint32_t begin = points->group_start[group], count = points->group_start[group + 1] - begin;
    uint64_t       done = 0;
    for (uint32_t row = 0; row < count; row++) {
        if (row_is_done(run, points->ids[begin + row])) done |= 1ull << row;
    }
    return done;
}

/* The queries of a slot's next hit for which the tile must be decided: all, but for those that only rows which have got to
 * stop_at wait for. */
static uint64_t still_counting(const refine_run *run, const slot *from, uint32_t group, bool inside)
{
    const nf_search *search = run->search;
    const uint64_t   queries = from->hits.hits[from->at].queries;

    if (run->counts == NULL || search->spec.stop_at == 0) return queries;
    const uint64_t done = done_rows(run, search->queries, from->panel.group);
    if ((queries & done) == 0 || !inside || group == from->panel.group) {
        return inside && (queries & ~done) != 0 ? queries : queries & ~done;
    }
    for (uint32_t at = search->data->group_start[group]; at < search->data->group_start[group + 1]; at++) {
        if (!row_is_done(run, search->data->ids[at])) return queries;
    }
    return queries & ~done;
}

static bool decide_slot(const refine_run *run, worker_state *state, slot *from, uint32_t worker)
{
    const nf_search *search = run->search;
    const uint32_t   group = state->points.group;
    const bool       inside = nf_cpu_mirrors(search) && group >= run->batch.begin && group < run->batch.end;
    const uint64_t   weight = inside ? 2 : 1, ties = state->tiler.ties;
    const uint64_t   queries = still_counting(run, from, group, inside);
    uint64_t        *masks = from->kept[from->kept_count].masks;

    if (queries == 0) return true;
    state->hits += (uint64_t)__builtin_popcountll(queries);
    if (inside && group != from->panel.group) state->hits += state->points.count;
    state->compared += weight * nf_tile_decide(&state->tiler, &from->panel, &state->points, queries,
                                               search->spec.self_join && group == from->panel.group, masks);
    state->ties += weight * (state->tiler.ties - ties);
    const uint32_t pairs = count_pairs(masks, queries);
    if (pairs == 0) return true;
    if (run->bins != NULL) {
        bin_tile(run, state, from->panel.group, group, masks, weight);
        return true;
    }
    if (run->counts != NULL) {
        count_tile(run, from->panel.group, group, masks, inside);
        return true;
    }
    return keep_tile(run, from, group, inside, pairs, worker);
}

/* Returns false on overflow. */
static bool walk_bundle(const refine_run *run, worker_state *state, uint32_t slots, uint32_t worker)
{
    for (;;) {
        uint32_t group = UINT32_MAX;
        for (uint32_t s = 0; s < slots; s++) {
            const uint32_t next = next_group(&state->slots[s]);
            if (next < group) group = next;
        }
        if (group == UINT32_MAX || nf_context_stopping(run->ctx)) break;
        nf_panel_pack(run->search, &state->points, group, false);
        for (uint32_t s = 0; s < slots; s++) {
            if (next_group(&state->slots[s]) != group) continue;
            if (!decide_slot(run, state, &state->slots[s], worker)) return false;
            step_over(&state->slots[s]);
        }
    }
    for (uint32_t s = 0; s < slots; s++) {
        if (state->slots[s].kept_count > 0 && !flush_slot(run, &state->slots[s], worker)) return false;
    }
    return true;
}

static nf_status bundle_task(void *arg, uint64_t task, uint32_t worker)
{
    refine_run    *run = arg;
    nf_search     *search = run->search;
    worker_state  *state = &run->workers[worker];
    const uint32_t first = run->batch.begin + (uint32_t)task * run->bundle;
    const uint32_t last = first + run->bundle < run->batch.end ? first + run->bundle : run->batch.end;

    if (keeps_pairs(run) && atomic_load(&search->pairs.overflow)) return NF_OK;
    for (uint32_t group = first; group < last; group++) {
        slot *to = &state->slots[group - first];
        nf_group_range skip = {0, 0};
        if (nf_cpu_mirrors(search)) skip = (nf_group_range){run->batch.begin, group};
        to->at = to->done = to->kept_count = 0;
        nf_panel_pack(search, &to->panel, group, true);
        NF_TRY(nf_cpu_list_group_hits(run->ctx, search, group, skip, &to->hits));
    }
    (void)walk_bundle(run, state, last - first, worker); /* an overflow is on the store */
    nf_progress_add(run->ctx, last - first);
    return NF_OK;
}

/* ---- workers ---- */

static void close_workers(refine_run *run)
{
    for (uint32_t w = 0; run->workers != NULL && w < run->worker_count; w++) {
        worker_state *state = &run->workers[w];
        nf_tiler_close(&state->tiler);
        nf_binner_close(&state->binner);
        nf_panel_close(&state->points);
        for (uint32_t s = 0; s < MOST_BUNDLE; s++) {
            nf_panel_close(&state->slots[s].panel);
            nf_hit_list_free(&state->slots[s].hits);
            nf_free(state->slots[s].kept);
        }
    }
    nf_free(run->workers);
}

static nf_status open_worker(refine_run *run, worker_state *state)
{
    NF_TRY(nf_tiler_open(run->ctx, run->search, &state->tiler));
    if (run->bins != NULL) NF_TRY(nf_binner_open(run->ctx, run->bins, &state->binner));
    NF_TRY(nf_panel_open(run->ctx, run->search, &state->points));
    for (uint32_t s = 0; s < run->bundle; s++) {
        slot *at = &state->slots[s];
        NF_TRY(nf_panel_open(run->ctx, run->search, &at->panel));
        at->kept = nf_alloc(run->ctx, keeps_pairs(run) ? KEPT_TILES : 1, sizeof *at->kept);
        if (at->kept == NULL) return nf_alloc_status(run->ctx);
    }
    return NF_OK;
}

static nf_status open_workers(refine_run *run)
{
    run->workers = nf_alloc_zero(run->ctx, run->worker_count, sizeof *run->workers);
    if (run->workers == NULL) return nf_alloc_status(run->ctx);
    for (uint32_t w = 0; w < run->worker_count; w++) NF_TRY(open_worker(run, &run->workers[w]));
    return NF_OK;
}

/* As many groups to a task as the cache and an even spread over threads allow. */
static uint32_t bundle_size(const nf_search *search, nf_batch batch, uint32_t threads)
{
    const uint64_t by_cache = BUNDLE_BYTES / nf_panel_bytes(search), by_threads = (batch.end - batch.begin) / (8 * threads);
    uint64_t       bundle = by_cache < by_threads ? by_cache : by_threads;
    if (bundle > MOST_BUNDLE) bundle = MOST_BUNDLE;
    return bundle > 0 ? (uint32_t)bundle : 1;
}

static void add_counters(refine_run *run)
{
    for (uint32_t w = 0; w < run->worker_count; w++) {
        const worker_state *state = &run->workers[w];
        atomic_fetch_add(&run->search->hits, state->hits);
        atomic_fetch_add(&run->search->compared, state->compared);
        atomic_fetch_add(&run->search->ties, state->ties);
        atomic_fetch_add(&run->search->rechecked, state->tiler.rechecked + state->binner.rechecked);
    }
}

/* Room for the lengths of the batch's rows, all 0. */
static nf_status begin_lengths(const refine_run *run)
{
    nf_search *search = run->search;
    nf_free(search->lengths);
    search->lengths = nf_alloc_zero(run->ctx, nf_cpu_batch_rows(search, run->batch), sizeof *search->lengths);
    return search->lengths != NULL ? NF_OK : nf_alloc_status(run->ctx);
}

/* Takes the pairs by radii from all workers: pairs[i] gets those within radius i. */
static void add_bins(const refine_run *run, uint64_t *pairs)
{
    uint64_t within = 0;
    for (uint32_t i = 0; i < run->bins->count; i++) {
        for (uint32_t w = 0; w < run->worker_count; w++) within += run->workers[w].binner.pairs[i];
        pairs[i] += within;
    }
}

/* counts: of rows, or with bins of radii. */
static nf_status run_refine(nf_context *ctx, nf_search *search, nf_batch batch, uint64_t *counts, const nf_bins *bins,
                            uint64_t limit_bytes, bool *overflow)
{
    refine_run run = {.ctx = ctx, .search = search, .batch = batch, .bins = bins};
    if (bins == NULL) run.counts = counts;
    const bool keeps = keeps_pairs(&run);
    run.bundle = bundle_size(search, batch, nf_context_threads(ctx));
    const uint64_t tasks = (batch.end - batch.begin + run.bundle - 1) / run.bundle;
    run.worker_count = nf_pool_workers(ctx, tasks);

    *overflow = false;
    nf_status status = open_workers(&run);
    if (status >= 0 && keeps) status = begin_lengths(&run);
    if (status >= 0 && keeps) status = nf_pairs_begin(ctx, &search->pairs, run.worker_count, limit_bytes);
    if (status >= 0) status = nf_pool_run(ctx, bundle_task, &run, tasks);
    if (status >= 0 && keeps && atomic_load(&search->pairs.overflow)) *overflow = true;
    if (status >= 0 && !*overflow) add_counters(&run);
    if (status >= 0 && bins != NULL) add_bins(&run, counts);
    if (keeps) search->kept_bytes = atomic_load(&search->pairs.bytes);
    if (status < 0 || *overflow) nf_pairs_clear(&search->pairs);
    close_workers(&run);
    return status;
}

nf_status nf_cpu_refine(nf_context *ctx, nf_search *search, nf_batch *batch, uint64_t limit_bytes, bool *overflow)
{
    return run_refine(ctx, search, *batch, NULL, NULL, limit_bytes, overflow);
}

nf_status nf_cpu_refine_counts(nf_context *ctx, nf_search *search, nf_batch batch, uint64_t *counts)
{
    bool           overflow;
    const uint32_t begin = search->queries->group_start[batch.begin], end = search->queries->group_start[batch.end];
    for (uint32_t p = begin; p < end && nf_cpu_self_pairs(&search->spec); p++) counts[search->queries->ids[p]]++;
    return run_refine(ctx, search, batch, counts, NULL, 0, &overflow);
}

nf_status nf_cpu_refine_histogram(nf_context *ctx, nf_search *search, nf_batch batch, const double *radii,
                                  uint32_t radius_count, uint64_t *pairs)
{
    bool      overflow;
    nf_bins   bins;
    nf_status status = nf_bins_open(ctx, search, radii, radius_count, &bins);
    if (status >= 0) status = run_refine(ctx, search, batch, pairs, &bins, 0, &overflow);
    nf_bins_close(&bins);
    if (status < 0 || !search->spec.self_join || !search->spec.keep_self) return status;
    const uint64_t rows = nf_cpu_batch_rows(search, batch);
    for (uint32_t i = 0; i < radius_count; i++) pairs[i] += nf_cpu_within_zero(&search->spec, radii[i]) ? rows : 0;
    return NF_OK;
}
