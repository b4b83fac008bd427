/* SPDX-License-Identifier: Apache-2.0 */
/* Exact k nearest neighbours from the nearest groups outwards: memory, tasks, tiles (cpu_near.h says how it works). */
#include "cpu_near.h"

#include <math.h>
#include <string.h>

#include "core/core_pool.h"

#define BUNDLE_BYTES (384ull << 10) /* panels of a bundle should stay in the second-level cache */
#define WAIT_BYTES (4ull << 20)     /* of a bundle, for rows that wait */
#define BUNDLE_DIMS 24u             /* below, a panel is packed for one query group as fast as it is looked up */
#define SMALLEST_RADIUS 0x1p-50     /* of the binary32 rules; a larger radius than asked for is right, too */

/* ---- seed ---- */

/* Groups around the first one, in both directions, until they hold k rows beside the query itself. */
static nf_group_range seed_groups(const nf_near_run *run, uint32_t first)
{
    const uint32_t *start = run->data->group_start;
    const uint64_t  wanted = (uint64_t)run->k + 1;
    nf_group_range  seed = {first, first + 1};

    while (start[seed.to] - start[seed.from] < wanted && seed.to - seed.from < run->data->group_count) {
        if (seed.to < run->data->group_count) seed.to++;
        if (seed.from > 0 && start[seed.to] - start[seed.from] < wanted) seed.from--;
    }
    return seed;
}

static void load_columns(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot)
{
    const nf_points *queries = run->queries;
    memset(slot->columns, 0, sizeof slot->columns);
    for (uint32_t row = 0; row < slot->count; row++) {
        nf_cpu_row_f64(queries, slot->begin + row, worker->x);
        for (uint32_t k = 0; k < run->test_dims; k++) {
            slot->columns[k * NF_TILE + row] = (float)worker->x[queries->dim_order[k]];
        }
    }
}

static void update_largest(nf_near_slot *slot)
{
    float  square = 0.0f;
    double radius = 0.0;
    for (uint32_t q = 0; q < slot->count; q++) {
        square = slot->square[q] > square ? slot->square[q] : square;
        radius = slot->radius[q] > radius ? slot->radius[q] : radius;
    }
    slot->largest_square = square;
    slot->largest = radius;
}

/* Seeds every query of the slot with the rows from position begin to end. */
static void seed_slot(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t begin, uint32_t end)
{
    uint32_t *at = worker->at;
    for (uint32_t i = 0; i < end - begin; i++) at[i] = begin + i;
    for (uint32_t q = 0; q < slot->count && !nf_context_stopping(run->ctx); q++) {
        if (!run->self_join) {
            nf_near_seed(run, worker, slot, q, at, end - begin);
            continue;
        }
        const uint32_t own = slot->begin + q - begin; /* in a self-join the seed holds the slot's own group */
        at[own] = end - 1;
        nf_near_seed(run, worker, slot, q, at, end - begin - 1);
        at[own] = begin + own;
    }
    worker->compared += (uint64_t)slot->count * (end - begin);
}

static void open_slot(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t group)
{
    slot->group = group;
    slot->begin = run->queries->group_start[group];
    slot->count = nf_cpu_group_size(run->queries, group);
    slot->all = slot->count >= 64 ? ~0ull : (1ull << slot->count) - 1;
    slot->settled = 0;
    for (uint32_t q = 0; q < NF_TILE; q++) {
        slot->found[q] = 0;
        slot->radius[q] = q < slot->count ? HUGE_VAL : 0.0;
        slot->square[q] = q < slot->count ? HUGE_VALF : 0.0f;
    }
    load_columns(run, worker, slot);
    slot->seed = seed_groups(run, nf_near_first_group(run, group));
    seed_slot(run, worker, slot, run->data->group_start[slot->seed.from], run->data->group_start[slot->seed.to]);
    update_largest(slot);
}

/* ---- rule and limits ---- */

/* The rule for the largest radius of a bundle. Products leave too many pairs open where most radii are far below it. */
static nf_status choose_rule(const nf_near_run *run, nf_near_worker *worker, uint32_t slots)
{
    nf_search *search = &worker->search;
    double     largest = 0.0, sum = 0.0;
    uint32_t   queries = 0;

    for (uint32_t s = 0; s < slots; s++) {
        const nf_near_slot *slot = &worker->slots[s];
        largest = fmax(largest, slot->largest);
        for (uint32_t q = 0; q < slot->count; q++) sum += slot->radius[q];
        queries += slot->count;
    }
    search->spec.radius = sum / queries;
    NF_TRY(nf_cpu_choose_rule(run->ctx, search));
    const nf_kind usual = search->rule.kind;
    search->spec.radius = largest;
    NF_TRY(nf_cpu_choose_rule(run->ctx, search));
    if (search->rule.kind == NF_KIND_F32_PRODUCT && usual != NF_KIND_F32_PRODUCT) {
        search->rule.kind = NF_KIND_F32_DIFFERENCE;
        search->rule.exact = false;
        search->rule.norm_slack = 0.0;
    }
    search->limits = (nf_limits){0}; /* the panels of points hold no share of a radius */
    return NF_OK;
}

/* Brings the kernel's limits of a query to its radius. Only "certainly out" is asked for. */
static void set_limits(const nf_search *search, nf_near_slot *slot, uint32_t q)
{
    const nf_rule  *rule = &search->rule;
    const bool      narrow = rule->kind == NF_KIND_F32_PRODUCT || rule->kind == NF_KIND_F32_DIFFERENCE;
    const nf_limits limits = nf_rule_limits(rule, narrow ? fmax(slot->radius[q], SMALLEST_RADIUS) : slot->radius[q]);
    const uint32_t  stops = search->stops.count;

    switch (rule->kind) {
    case NF_KIND_U8:
        for (uint32_t i = 0; i < stops; i++) {
            const uint32_t sum = (uint32_t)slot->raw.i32[i * NF_TILE + q] - (uint32_t)limits.whole_square;
            slot->out.i32[i * NF_TILE + q] = (int32_t)sum;
        }
        slot->in.i32[q] = 1;
        break;
    case NF_KIND_F32_PRODUCT: {
        /* all of radius^2 / 2 on this side: twice what nf_rule_product_limits gives for both */
        const nf_product_limits of = nf_rule_product_limits(rule, 2.0 * limits.square);
        for (uint32_t i = 0; i < stops; i++) {
            slot->out.f32[i * NF_TILE + q] =
                (float)((double)slot->raw.f32[i * NF_TILE + q] * of.out_factor - of.out_offset);
        }
        slot->in.f32[q] = HUGE_VALF;
        break;
    }
    case NF_KIND_F32_DIFFERENCE:
        slot->out.f32[q] = (float)limits.out_above;
        slot->in.f32[q] = -1.0f;
        break;
    case NF_KIND_F64:
        slot->out.f64[q] = limits.out_above;
        slot->in.f64[q] = -1.0;
        break;
    case NF_KIND_F16: break; /* not of this engine */
    }
}

static void pack_slot(const nf_search *search, nf_near_slot *slot)
{
    const nf_kernels *kernels = search->kernels;
    const nf_rows     rows = nf_cpu_group_rows(search->queries, slot->group, search->rule.scale);
    const nf_stops   *stops = &search->stops;

    memset(&slot->out, 0, sizeof slot->out);
    memset(&slot->in, 0, sizeof slot->in);
    switch (search->rule.kind) {
    case NF_KIND_U8: kernels->pack_u8_x(&rows, slot->values, stops->at, stops->count, slot->raw.i32); break;
    case NF_KIND_F32_PRODUCT: kernels->pack_f32(&rows, slot->values, stops->at, stops->count, slot->raw.f32); break;
    case NF_KIND_F32_DIFFERENCE: kernels->pack_f32(&rows, slot->values, NULL, 0, NULL); break;
    case NF_KIND_F64: kernels->pack_f64(&rows, slot->values); break;
    case NF_KIND_F16: break;
    }
    for (uint32_t q = 0; q < slot->count; q++) set_limits(search, slot, q);
}

/* ---- visits ---- */

/* Returns whether the query's radius is smaller now. */
static bool offer_mask(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t q, uint32_t group,
                       uint64_t mask)
{
    uint32_t at[NF_TILE + 8];

    if ((slot->settled >> q & 1) != 0 && nf_near_no_lower_id(run, slot, q, group)) return false;
    const uint32_t count = run->kernels->mask_positions(mask, run->data->group_start[group], at);
    if (!nf_near_offer(run, worker, slot, q, at, count)) return false;
    set_limits(&worker->search, slot, q);
    return true;
}

static void visit_slot(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t group,
                       uint64_t rows)
{
    uint64_t       maybe[NF_TILE], sure[NF_TILE];
    const nf_panel panel = {.values = slot->values,
                            .limits_out = &slot->out,
                            .limits_in = &slot->in,
                            .group = slot->group,
                            .count = slot->count};
    bool           smaller = false;

    nf_tile_run(&worker->search, &panel, &worker->points, rows, maybe, sure);
    worker->compared += (uint64_t)__builtin_popcountll(rows) * worker->points.count;
    for (; rows != 0; rows &= rows - 1) {
        const uint32_t q = (uint32_t)__builtin_ctzll(rows);
        if (maybe[q] != 0 && offer_mask(run, worker, slot, q, group, maybe[q])) smaller = true;
    }
    if (smaller) update_largest(slot);
}

static void visit_groups(const nf_near_run *run, nf_near_worker *worker, uint32_t slots)
{
    uint32_t group;
    while (nf_near_next(run, worker, slots, &group)) {
        if (nf_context_stopping(run->ctx)) return;
        bool packed = false;
        for (uint32_t s = 0; s < slots; s++) {
            nf_near_slot *slot = &worker->slots[s];
            if ((worker->slots_of[group] >> s & 1) == 0 || !nf_near_meets(run, slot, group)) continue;
            const uint64_t rows = nf_near_rows(run, worker, slot, group);
            if (rows == 0) continue;
            if (!packed) nf_panel_pack(&worker->search, &worker->points, group, false);
            packed = true;
            visit_slot(run, worker, slot, group, rows);
        }
        worker->slots_of[group] = 0;
    }
}

/* Forgets visits that were not made. */
static void clear_visits(const nf_near_run *run, nf_near_worker *worker)
{
    for (uint64_t i = 0; i < worker->visit_count; i++) {
        worker->slots_of[run->of_rank[(uint32_t)worker->visits[i]]] = 0;
    }
    worker->visit_count = 0;
}

static nf_status near_task(void *arg, uint64_t task, uint32_t number)
{
    const nf_near_run *run = arg;
    nf_near_worker    *worker = &run->workers[number];
    const uint32_t     first = (uint32_t)task * run->bundle, left = run->queries->group_count - first;
    const uint32_t     slots = left < run->bundle ? left : run->bundle;
    uint64_t           rows = 0;

    for (uint32_t s = 0; s < slots; s++) {
        open_slot(run, worker, &worker->slots[s], first + s);
        rows += worker->slots[s].count;
    }
    NF_TRY(choose_rule(run, worker, slots));
    for (uint32_t s = 0; s < slots; s++) pack_slot(&worker->search, &worker->slots[s]);
    nf_near_list(run, worker, slots);
    visit_groups(run, worker, slots);
    clear_visits(run, worker);
    if (nf_context_stopping(run->ctx)) return NF_OK; /* the pool says why */
    for (uint32_t s = 0; s < slots; s++) {
        for (uint32_t q = 0; q < worker->slots[s].count; q++) nf_near_finish(run, worker, &worker->slots[s], q);
    }
    nf_progress_add(run->ctx, rows);
    return NF_OK;
}

/* ---- memory ---- */

static uint64_t panel_bytes(const nf_near_run *run)
{
    const bool wide = run->data->store == NF_STORE_F64 || run->queries->store == NF_STORE_F64;
    return (uint64_t)NF_TILE * run->data->dims * (wide ? 8 : 4);
}

static nf_status allocate_worker(nf_near_run *run, nf_near_worker *worker)
{
    nf_context    *ctx = run->ctx;
    const uint64_t dims = run->data->dims, groups = run->data->group_count;

    worker->search.data = run->data;
    worker->search.queries = run->queries;
    worker->search.kernels = run->kernels;
    worker->search.spec.self_join = run->self_join;
    worker->search.spec.inner_radius = -1.0;
    worker->slots = nf_alloc_zero(ctx, run->bundle, sizeof *worker->slots);
    if (worker->slots == NULL) return nf_alloc_status(ctx);
    for (uint32_t s = 0; s < run->bundle; s++) {
        worker->slots[s].values = nf_alloc(ctx, NF_TILE * dims, sizeof(double));
        worker->slots[s].entries = nf_alloc(ctx, (uint64_t)NF_TILE * run->wait_room, sizeof *worker->entries);
        if (worker->slots[s].values == NULL || worker->slots[s].entries == NULL) return nf_alloc_status(ctx);
    }
    worker->points.values = nf_alloc(ctx, NF_TILE * dims, sizeof(double));
    worker->points.limits_out = nf_alloc(ctx, (uint64_t)NF_MAX_STOPS * NF_TILE, sizeof(float));
    worker->points.limits_in = nf_alloc(ctx, NF_TILE, sizeof(double));
    worker->x = nf_alloc(ctx, dims, sizeof(double));
    worker->y = nf_alloc(ctx, dims, sizeof(double));
    worker->at = nf_alloc(ctx, run->seed_room, sizeof *worker->at);
    worker->distances = nf_alloc(ctx, run->seed_room, sizeof *worker->distances);
    worker->entries = nf_alloc(ctx, run->seed_room, sizeof *worker->entries);
    worker->spare = nf_alloc(ctx, run->seed_room, sizeof *worker->spare);
    worker->bucket_of = nf_alloc(ctx, run->seed_room, sizeof *worker->bucket_of);
    worker->buckets = nf_alloc(ctx, NF_NEAR_BUCKETS, sizeof *worker->buckets);
    worker->low = nf_alloc(ctx, run->test_dims, sizeof(float));
    worker->high = nf_alloc(ctx, run->test_dims, sizeof(float));
    worker->visits = nf_alloc(ctx, groups, sizeof *worker->visits);
    worker->key = nf_alloc(ctx, groups, sizeof *worker->key);
    worker->slots_of = nf_alloc_zero(ctx, groups, sizeof *worker->slots_of);
    const bool all = worker->points.values != NULL && worker->points.limits_out != NULL &&
                     worker->points.limits_in != NULL && worker->x != NULL && worker->y != NULL && worker->at != NULL &&
                     worker->distances != NULL && worker->entries != NULL && worker->spare != NULL &&
                     worker->bucket_of != NULL && worker->buckets != NULL && worker->low != NULL &&
                     worker->high != NULL && worker->visits != NULL && worker->key != NULL && worker->slots_of != NULL;
    return all ? NF_OK : nf_alloc_status(ctx);
}

static void release_worker(const nf_near_run *run, nf_near_worker *worker)
{
    for (uint32_t s = 0; worker->slots != NULL && s < run->bundle; s++) {
        nf_free(worker->slots[s].values);
        nf_free(worker->slots[s].entries);
    }
    nf_free(worker->slots);
    nf_panel_close(&worker->points);
    nf_free(worker->x);
    nf_free(worker->y);
    nf_free(worker->at);
    nf_free(worker->distances);
    nf_free(worker->entries);
    nf_free(worker->spare);
    nf_free(worker->bucket_of);
    nf_free(worker->buckets);
    nf_free(worker->low);
    nf_free(worker->high);
    nf_free(worker->visits);
    nf_free(worker->key);
    nf_free(worker->slots_of);
}

/* Groups by their lowest ids: row numbers are walked in order, and each group is taken at its first. */
static nf_status rank_groups(nf_near_run *run)
{
    const nf_points *data = run->data;
    run->lowest_id = nf_alloc(run->ctx, data->group_count, sizeof *run->lowest_id);
    run->rank = nf_alloc(run->ctx, data->group_count, sizeof *run->rank);
    run->of_rank = nf_alloc(run->ctx, data->group_count, sizeof *run->of_rank);
    uint32_t *first =
        nf_alloc_zero(run->ctx, data->rows_count, sizeof *first); /* by id: 1 + the group it is the first of */
    nf_status status = run->lowest_id != NULL && run->rank != NULL && run->of_rank != NULL && first != NULL
                           ? NF_OK
                           : nf_alloc_status(run->ctx);
    for (uint32_t group = 0; status >= 0 && group < data->group_count; group++) {
        uint32_t lowest = UINT32_MAX;
        for (uint32_t i = data->group_start[group]; i < data->group_start[group + 1]; i++) {
            if (data->ids[i] < lowest) lowest = data->ids[i];
        }
        run->lowest_id[group] = lowest;
        first[lowest] = group + 1;
    }
    uint32_t rank = 0;
    for (uint64_t id = 0; status >= 0 && id < data->rows_count; id++) {
        if (first[id] == 0) continue;
        run->rank[first[id] - 1] = rank;
        run->of_rank[rank++] = first[id] - 1;
    }
    nf_free(first);
    return status;
}

static nf_status allocate(nf_near_run *run, uint64_t tasks)
{
    NF_TRY(rank_groups(run));
    const uint32_t workers = nf_pool_workers(run->ctx, tasks);
    run->workers = nf_alloc_zero(run->ctx, workers, sizeof *run->workers);
    if (run->workers == NULL) return nf_alloc_status(run->ctx);
    run->worker_count = workers;
    for (uint32_t w = 0; w < workers; w++) NF_TRY(allocate_worker(run, &run->workers[w]));
    return NF_OK;
}

static void release(nf_near_run *run)
{
    for (uint32_t w = 0; w < run->worker_count; w++) release_worker(run, &run->workers[w]);
    nf_free(run->workers);
    nf_free(run->lowest_id);
    nf_free(run->rank);
    nf_free(run->of_rank);
}

/* ---- the operation ---- */

static void answer_nothing(const nf_near_run *run)
{
    for (uint64_t i = 0; i < run->queries->rows_count * run->k; i++) {
        run->ids[i] = -1;
        run->distances[i] = HUGE_VAL;
    }
    for (uint64_t i = 0; run->counts != NULL && i < run->queries->rows_count; i++) run->counts[i] = 0;
}

static uint32_t choose_bundle(const nf_near_run *run)
{
    if (run->data->dims < BUNDLE_DIMS) return 1;
    const uint64_t fit = BUNDLE_BYTES / panel_bytes(run);
    const uint64_t share = run->queries->group_count / (4 * (uint64_t)nf_context_threads(run->ctx));
    const uint64_t room = WAIT_BYTES / ((uint64_t)NF_TILE * run->wait_room * sizeof(nf_near_entry));
    const uint64_t most = fit < share ? (fit < room ? fit : room) : (share < room ? share : room);
    return most < 1 ? 1 : most < NF_NEAR_MOST_BUNDLE ? (uint32_t)most : NF_NEAR_MOST_BUNDLE;
}

static void prepare(nf_near_run *run)
{
    const double dims = run->data->dims;
    run->kernels = nf_cpu_kernels(nf_context_isa(run->ctx));
    run->same_store = run->data->store == run->queries->store && run->data->bias == run->queries->bias;
    run->test_dims = run->data->dims < NF_NEAR_TEST_DIMS ? run->data->dims : NF_NEAR_TEST_DIMS;
    run->factor = 1.0 + (dims + 16.0) * 0x1p-52;
    run->widening = 1.0 + 4.0 * (dims + 8.0) * 0x1p-24;
    run->underflow = (dims + 8.0) * 0x1p-149;
    run->slack = run->queries->store == NF_STORE_F64 ? run->queries->largest * 0x1p-23 + 0x1p-149 : 0.0;
    run->wait_room = run->k / 2 > NF_TILE ? run->k / 2 : NF_TILE;
    run->seed_room = run->k + run->wait_room + 1; /* the last group of a seed may be needed for one row alone */
    run->bundle = choose_bundle(run);
}

nf_status nf_cpu_knn_points(nf_context *ctx, const nf_points *data, const nf_points *queries, bool self_join,
                            uint32_t k, int64_t *ids, double *distances, uint32_t *counts, nf_knn_stats *stats)
{
    nf_near_run run = {.ctx = ctx,
                       .data = data,
                       .queries = queries,
                       .self_join = self_join,
                       .k = k,
                       .ids = ids,
                       .distances = distances,
                       .counts = counts};

    if (data->rows_count == 0 || queries->rows_count == 0) {
        answer_nothing(&run);
        return NF_OK;
    }
    prepare(&run);
    const uint64_t tasks = (queries->group_count + run.bundle - 1) / run.bundle;
    nf_progress_begin(ctx, "search", queries->rows_count);
    nf_status status = allocate(&run, tasks);
    if (status >= 0) status = nf_pool_run(ctx, near_task, &run, tasks);
    for (uint32_t w = 0; status >= 0 && w < run.worker_count; w++) {
        stats->compared += run.workers[w].compared;
        stats->rechecked += run.workers[w].rechecked;
    }
    release(&run);
    return status;
}
