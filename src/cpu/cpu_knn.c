/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact k nearest neighbours by comparing all pairs. Queries go in rounds (one, unless they are very many or k is
 * large), data in blocks of 2 MB: a block is packed once by all threads, then each task takes a few queries through
 * it, chunk by chunk, so that a chunk of rows, the queries and their products stay in the second-level cache. After
 * the last block the distances of what is kept are computed. Tasks share nothing that is written, and a query sees
 * the rows in ascending order whatever the number of threads.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/core_pool.h"
#include "cpu_knn.h"
#include "cpu_search.h"

#define BLOCK_BYTES (2u << 20)
#define ROUND_BYTES (64u << 20)
#define CHUNK_BYTES (64u << 10)
#define PACK_ROWS 256u        /* per task */
#define TILE_QUERIES 36u      /* per call of the product kernel: a multiple of its register blocks */
#define MOST_TASK_QUERIES 384u
#define TASK_BYTES (192u << 10)
#define FEWEST_TASK_QUERIES 6u
#define ROWS_ROOM_BYTES (64u << 10)
#define SPARE_ENTRIES 96u     /* room beyond k, at least */

typedef struct knn_run {
    nf_context           *ctx;
    nf_knn_space          space;
    nf_knn_block          block;
    nf_knn_round          round;
    nf_knn_scratch       *scratch; /* per worker */
    uint32_t              workers, k, chunk_rows, task_queries;
    atomic_bool           exact;   /* of the block that is being packed */
    int64_t              *ids;
    double               *distances;
    uint32_t             *counts;
} knn_run;

/* ---- memory ---- */

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static uint32_t up_to_lanes(uint64_t rows)
{
    return (uint32_t)((rows + NF_LANES - 1) / NF_LANES * NF_LANES);
}

/* Sizes. A quarter of the memory that is left may go to a round, a quarter to a block. */
static void plan(knn_run *run)
{
    const nf_memory *memory = nf_context_memory(run->ctx);
    const uint64_t   limit = nf_memory_limit(memory), used = nf_memory_used(memory);
    const uint64_t   left = limit == 0 ? UINT64_MAX : limit > used ? limit - used : 0;
    const uint64_t   row_bytes = (uint64_t)run->space.dims * sizeof(float);
    const uint64_t   queries = run->space.queries->rows, rows = run->space.data->rows;
    nf_knn_round    *round = &run->round;

    round->capacity = run->k + (run->k > SPARE_ENTRIES ? run->k : SPARE_ENTRIES);
    const uint64_t query_bytes = row_bytes + sizeof(nf_knn_query) + (uint64_t)round->capacity * 12;
    round->room = (uint32_t)clamp(clamp(ROUND_BYTES, 0, left / 4) / query_bytes, 1, queries);
    run->chunk_rows = (uint32_t)clamp(CHUNK_BYTES / row_bytes / NF_LANES * NF_LANES, NF_LANES, NF_KNN_CHUNK);
    run->block.room = up_to_lanes(clamp(clamp(BLOCK_BYTES, 0, left / 4) / row_bytes, NF_LANES, rows));

    const uint64_t threads = nf_context_threads(run->ctx);
    const uint64_t most = clamp(TASK_BYTES / row_bytes, TILE_QUERIES, MOST_TASK_QUERIES);
    /* As many tasks for each thread. */
    const uint64_t wanted = threads * ((round->room + threads * most - 1) / (threads * most));
    run->task_queries = (uint32_t)clamp((round->room + wanted - 1) / wanted, FEWEST_TASK_QUERIES, most);
    const uint64_t tasks = (round->room + run->task_queries - 1) / run->task_queries;
    const uint64_t packs = (run->block.room + PACK_ROWS - 1) / PACK_ROWS;
    run->workers = nf_pool_workers(run->ctx, tasks > packs ? tasks : packs);
}

static nf_status allocate_block(nf_context *ctx, nf_knn_block *block, uint32_t dims)
{
    block->panel = nf_alloc(ctx, (uint64_t)block->room * dims, sizeof(float));
    block->low = nf_alloc(ctx, block->room, sizeof(float));
    block->high = nf_alloc(ctx, block->room, sizeof(float));
    block->reach = nf_alloc(ctx, block->room, sizeof(float));
    const bool all = block->panel != NULL && block->low != NULL && block->high != NULL && block->reach != NULL;
    return all ? NF_OK : nf_alloc_status(ctx);
}

static nf_status allocate_round(nf_context *ctx, nf_knn_round *round, uint32_t dims)
{
    const uint64_t entries = (uint64_t)round->room * round->capacity;
    round->values = nf_alloc(ctx, (uint64_t)round->room * dims, sizeof(float));
    round->queries = nf_alloc(ctx, round->room, sizeof *round->queries);
    round->low = nf_alloc(ctx, entries, sizeof(float));
    round->high = nf_alloc(ctx, entries, sizeof(float));
    round->ids = nf_alloc(ctx, entries, sizeof(uint32_t));
    const bool all = round->values != NULL && round->queries != NULL && round->low != NULL && round->high != NULL &&
                     round->ids != NULL;
    return all ? NF_OK : nf_alloc_status(ctx);
}

static nf_status allocate_scratch(knn_run *run, nf_knn_scratch *scratch)
{
    nf_context    *ctx = run->ctx;
    const uint32_t dims = run->space.dims, capacity = run->round.capacity;

    NF_TRY(nf_row_sorter_open(ctx, nf_cpu_kernels(nf_context_isa(ctx)), &scratch->sorter, UINT32_MAX));
    scratch->ivf = nf_cpu_ivf_kernels(nf_context_isa(ctx));
    scratch->rows_room = (uint32_t)clamp(ROWS_ROOM_BYTES / ((uint64_t)dims * sizeof(double)), 1, 64);
    scratch->products = nf_alloc(ctx, (uint64_t)TILE_QUERIES * run->chunk_rows, sizeof(float));
    scratch->query = nf_alloc(ctx, dims, sizeof(double));
    scratch->rows = nf_alloc(ctx, (uint64_t)scratch->rows_room * dims, sizeof(double));
    scratch->distances = nf_alloc(ctx, capacity, sizeof(double));
    scratch->order = nf_alloc(ctx, capacity, sizeof(double));
    scratch->sorted = nf_alloc(ctx, capacity, sizeof(uint32_t));
    const bool all = scratch->products != NULL && scratch->query != NULL && scratch->rows != NULL &&
                     scratch->distances != NULL && scratch->order != NULL && scratch->sorted != NULL;
    return all ? NF_OK : nf_alloc_status(ctx);
}

static nf_status allocate(knn_run *run)
{
    plan(run);
    NF_TRY(allocate_block(run->ctx, &run->block, run->space.dims));
    NF_TRY(allocate_round(run->ctx, &run->round, run->space.dims));
    run->scratch = nf_alloc_zero(run->ctx, run->workers, sizeof *run->scratch);
    if (run->scratch == NULL) return nf_alloc_status(run->ctx);
    for (uint32_t w = 0; w < run->workers; w++) NF_TRY(allocate_scratch(run, &run->scratch[w]));
    return NF_OK;
}

static void release_scratch(nf_knn_scratch *scratch)
{
    nf_row_sorter_close(&scratch->sorter);
    nf_free(scratch->products);
    nf_free(scratch->query);
    nf_free(scratch->rows);
    nf_free(scratch->distances);
    nf_free(scratch->order);
    nf_free(scratch->sorted);
}

static void release(knn_run *run)
{
    for (uint32_t w = 0; run->scratch != NULL && w < run->workers; w++) release_scratch(&run->scratch[w]);
    nf_free(run->scratch);
    nf_free(run->block.panel);
    nf_free(run->block.low);
    nf_free(run->block.high);
    nf_free(run->block.reach);
    nf_free(run->round.values);
    nf_free(run->round.queries);
    nf_free(run->round.low);
    nf_free(run->round.high);
    nf_free(run->round.ids);
    nf_knn_space_close(&run->space);
}

/* ---- tasks ---- */

/* Packs a few rows of the block. Rows beyond the last fill its lanes, and are never near. */
static nf_status pack_task(void *arg, uint64_t task, uint32_t worker)
{
    knn_run       *run = arg;
    nf_knn_block  *block = &run->block;
    const uint32_t begin = (uint32_t)task * PACK_ROWS, all = up_to_lanes(block->rows);
    const uint32_t end = all - begin < PACK_ROWS ? all : begin + PACK_ROWS;
    bool           exact = true;

    for (uint32_t i = begin; i < end; i++) {
        if (i < block->rows) {
            exact = nf_knn_pack_row(&run->space, block, i, run->round.largest, run->scratch[worker].query) && exact;
            continue;
        }
        for (uint32_t k = 0; k < run->space.dims; k++) block->panel[nf_panel_at(run->space.dims, i, k)] = 0.0f;
        block->low[i] = block->high[i] = INFINITY;
        block->reach[i] = 0.0f;
    }
    if (!exact) atomic_store(&run->exact, false);
    return NF_OK;
}

/* The queries of a task: [begin, end) of the round. */
static uint32_t task_end(const knn_run *run, uint32_t begin)
{
    const uint32_t left = run->round.count - begin;
    return begin + (left < run->task_queries ? left : run->task_queries);
}

static nf_status compare_task(void *arg, uint64_t task, uint32_t worker)
{
    knn_run            *run = arg;
    nf_knn_scratch     *scratch = &run->scratch[worker];
    const nf_knn_block *block = &run->block;
    const uint32_t      dims = run->space.dims, rows = up_to_lanes(block->rows);
    const uint32_t      begin = (uint32_t)task * run->task_queries, end = task_end(run, begin);

    for (uint32_t from = 0; from < rows; from += run->chunk_rows) {
        const uint32_t count = rows - from < run->chunk_rows ? rows - from : run->chunk_rows;
        for (uint32_t q = begin; q < end; q += TILE_QUERIES) {
            if (nf_context_stopping(run->ctx)) return NF_OK; /* the pool says why */
            const uint32_t queries = end - q < TILE_QUERIES ? end - q : TILE_QUERIES;
            scratch->ivf->products(run->round.values + (size_t)q * dims, dims, queries,
                                   block->panel + (size_t)from * dims, count, dims, scratch->products, run->chunk_rows);
            for (uint32_t i = 0; i < queries; i++) {
                nf_knn_keep(&run->space, scratch, &run->round, q + i, run->k, block, from, count,
                            scratch->products + (size_t)i * run->chunk_rows);
            }
        }
    }
    nf_progress_add(run->ctx, (uint64_t)(end - begin) * block->rows);
    return NF_OK;
}

static nf_status finish_task(void *arg, uint64_t task, uint32_t worker)
{
    knn_run        *run = arg;
    nf_knn_scratch *scratch = &run->scratch[worker];
    const uint32_t  begin = (uint32_t)task * run->task_queries, end = task_end(run, begin);

    for (uint32_t q = begin; q < end && !nf_context_stopping(run->ctx); q++) {
        const uint64_t query = run->round.first + q;
        int64_t       *ids = run->ids + query * run->k;
        double        *distances = run->distances + query * run->k;
        uint32_t       found;
        NF_TRY(nf_knn_finish(&run->space, scratch, &run->round, q, run->k, &found));
        for (uint32_t i = 0; i < found; i++) ids[i] = scratch->sorted[i];
        memcpy(distances, scratch->distances, found * sizeof *distances);
        for (uint32_t i = found; i < run->k; i++) {
            ids[i] = -1;
            distances[i] = HUGE_VAL;
        }
        if (run->counts != NULL) run->counts[query] = found;
    }
    return NF_OK;
}

/* ---- rounds ---- */

static void open_round(knn_run *run, uint64_t first)
{
    nf_knn_round  *round = &run->round;
    const uint64_t left = run->space.queries->rows - first;
    round->first = first;
    round->count = left < round->room ? (uint32_t)left : round->room;
    round->exact = run->space.integers;
    round->largest = 0.0;
    for (uint32_t i = 0; i < round->count; i++) {
        const double length = nf_knn_pack_query(&run->space, round, i, run->scratch[0].query);
        if (length > round->largest) round->largest = length;
    }
}

static nf_status run_round(knn_run *run, uint64_t first)
{
    nf_knn_block  *block = &run->block;
    const uint64_t rows = run->space.data->rows;

    open_round(run, first);
    const uint64_t tasks = (run->round.count + run->task_queries - 1) / run->task_queries;
    for (block->first = 0; block->first < rows; block->first += block->rows) {
        block->rows = (uint32_t)clamp(rows - block->first, 0, block->room);
        atomic_store(&run->exact, true);
        NF_TRY(nf_pool_run(run->ctx, pack_task, run, (up_to_lanes(block->rows) + PACK_ROWS - 1) / PACK_ROWS));
        run->round.exact = run->round.exact && atomic_load(&run->exact);
        NF_TRY(nf_pool_run(run->ctx, compare_task, run, tasks));
    }
    return nf_pool_run(run->ctx, finish_task, run, tasks);
}

static nf_status run_all(knn_run *run)
{
    const uint64_t queries = run->space.queries->rows;
    nf_progress_begin(run->ctx, "compare", queries * run->space.data->rows);
    for (uint64_t first = 0; first < queries; first += run->round.count) NF_TRY(run_round(run, first));
    return NF_OK;
}

static void answer_nothing(const nf_matrix *queries, uint32_t k, int64_t *ids, double *distances, uint32_t *counts)
{
    for (uint64_t i = 0; i < queries->rows * k; i++) {
        ids[i] = -1;
        distances[i] = HUGE_VAL;
    }
    for (uint64_t i = 0; counts != NULL && i < queries->rows; i++) counts[i] = 0;
}

nf_status nf_cpu_knn(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, const nf_knn_params *params,
                     int64_t *ids, double *distances, uint32_t *counts, nf_knn_stats *stats)
{
    knn_run run = {.ctx = ctx, .k = params->k, .ids = ids, .distances = distances, .counts = counts};

    if (data->rows == 0 || queries->rows == 0) {
        answer_nothing(queries, params->k, ids, distances, counts);
        return NF_OK;
    }
    nf_status status = nf_knn_space_open(ctx, data, queries, params->metric, &run.space);
    if (status >= 0) status = allocate(&run);
    if (status >= 0) status = run_all(&run);
    if (status >= 0) {
        stats->compared = data->rows * queries->rows;
        for (uint32_t w = 0; w < run.workers; w++) stats->rechecked += run.scratch[w].rechecked;
    }
    release(&run);
    return status;
}
