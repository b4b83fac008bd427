/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps compress and deliver: from kept pairs to sorted rows.
 *
 * compress counts row lengths. deliver writes every pair into its row (both rows, in a self-join), sorts the rows by id, and
 * computes distances last, so that pairs and distances need not be in memory at the same time.
 *
 * Threads write to rows through cursors that are moved atomically; the order in which they arrive does not matter, since
 * rows are sorted afterwards.
 */
#include <math.h>
#include <string.h>

#include "core/core_pool.h"
#include "cpu_search.h"
#include "cpu_sort.h"
#include "matrix/matrix_exact.h"

#define POSITIONS_PER_TASK 256u
#define SUMS_AT_ONCE 256u

/* The rows of a batch: positions first .. first + count - 1; rank[i] is the place of position first + i by id. */
typedef struct batch_rows {
    uint32_t  first;
    uint64_t  count;
    uint32_t *rank;
} batch_rows;

uint64_t nf_cpu_batch_rows(const nf_search *search, nf_batch batch)
{
    return search->queries->group_start[batch.end] - search->queries->group_start[batch.begin];
}

/* Ranks by id; ids are also stored in ascending order when ids is not NULL. */
static nf_status rank_rows(nf_context *ctx, const nf_search *search, nf_batch batch, batch_rows *rows, int32_t *ids)
{
    const nf_points *queries = search->queries;
    nf_row_sorter    sorter;

    rows->first = queries->group_start[batch.begin];
    rows->count = nf_cpu_batch_rows(search, batch);
    rows->rank = nf_alloc(ctx, rows->count, sizeof *rows->rank);
    uint32_t *sorted = nf_alloc(ctx, rows->count, sizeof *sorted);
    nf_status status = nf_row_sorter_open(ctx, search->kernels, &sorter, (uint32_t)queries->rows_count);
    if (rows->rank == NULL || sorted == NULL) status = nf_alloc_status(ctx);
    if (status >= 0) {
        memcpy(sorted, queries->ids + rows->first, rows->count * sizeof *sorted);
        status = nf_sort_ids(&sorter, sorted, rows->count);
    }
    for (uint64_t i = 0; status >= 0 && i < rows->count; i++) {
        rows->rank[queries->positions[sorted[i]] - rows->first] = (uint32_t)i;
        if (ids != NULL) ids[i] = (int32_t)sorted[i];
    }
    nf_row_sorter_close(&sorter);
    nf_free(sorted);
    return status;
}

nf_status nf_cpu_compress(nf_context *ctx, nf_search *search, nf_batch batch, int32_t *query_ids, int64_t *indptr)
{
    const int64_t   self = nf_cpu_self_pairs(&search->spec) ? 1 : 0;
    batch_rows      rows;
    const nf_status status = rank_rows(ctx, search, batch, &rows, query_ids);
    if (status >= 0) {
        indptr[0] = 0;
        for (uint64_t i = 0; i < rows.count; i++) indptr[rows.rank[i] + 1] = (int64_t)search->lengths[i] + self;
        for (uint64_t i = 0; i < rows.count; i++) indptr[i + 1] += indptr[i];
    }
    nf_free(rows.rank);
    return status;
}

/* ---- walking kept pairs ---- */

typedef struct pairs_run {
    nf_context      *ctx;
    const nf_search *search;
    uint32_t         first;    /* position of the batch's first row */
    nf_pair_block  **blocks;
    int64_t         *cursors;  /* where each row goes on, by position in the batch */
    uint32_t        *indices;
} pairs_run;

/* Takes count places of the row at a position. */
static inline uint32_t *take(const pairs_run *run, uint32_t position, uint32_t count)
{
    return run->indices + __atomic_fetch_add(&run->cursors[position - run->first], (int64_t)count, __ATOMIC_RELAXED);
}

/* Pairs that stand for both directions, or in a half join for that from the lower id. */
static void place_pending(const pairs_run *run, uint32_t query, const uint32_t *points, uint32_t count)
{
    const uint32_t *ids = run->search->data->ids;
    const uint32_t  query_id = ids[query];
    if (!run->search->spec.half) {
        uint32_t *own = take(run, query, count);
        for (uint32_t i = 0; i < count; i++) {
            own[i] = ids[points[i]];
            *take(run, points[i], 1) = query_id;
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t point_id = ids[points[i]];
        const bool     own = query_id < point_id;
        *take(run, own ? query : points[i], 1) = own ? point_id : query_id;
    }
}

static void place_plain(const pairs_run *run, uint32_t row, const uint32_t *points, uint32_t count)
{
    const uint32_t *ids = run->search->data->ids;
    uint32_t       *own = take(run, row, count);
    for (uint32_t i = 0; i < count; i++) own[i] = ids[points[i]];
}

static nf_status block_task(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    const pairs_run     *run = arg;
    const nf_pair_block *block = run->blocks[task];
    for (uint32_t at = 0; at < block->used;) {
        const uint32_t *words = block->words + at, count = words[1] & ~NF_RUN_PENDING;
        if ((words[1] & NF_RUN_PENDING) != 0) {
            place_pending(run, words[0], words + 2, count);
        } else {
            place_plain(run, words[0], words + 2, count);
        }
        at += 2 + count;
    }
    return NF_OK;
}

static nf_status walk_blocks(pairs_run *run)
{
    uint64_t count;
    NF_TRY(nf_pairs_list(run->ctx, &run->search->pairs, &run->blocks, &count));
    const nf_status status = nf_pool_run(run->ctx, block_task, run, count);
    nf_free(run->blocks);
    return status;
}

/* Writes every kept pair into its rows, and the pairs (i, i) where they are asked for. */
static nf_status place_pairs(nf_context *ctx, const nf_search *search, const batch_rows *rows, const int64_t *indptr,
                             uint32_t *indices)
{
    const bool self = nf_cpu_self_pairs(&search->spec);
    pairs_run  run = {.ctx = ctx, .search = search, .first = rows->first, .indices = indices};

    run.cursors = nf_alloc(ctx, rows->count, sizeof *run.cursors);
    if (run.cursors == NULL) return nf_alloc_status(ctx);
    for (uint64_t i = 0; i < rows->count; i++) {
        run.cursors[i] = indptr[rows->rank[i]];
        if (self) indices[run.cursors[i]++] = search->data->ids[rows->first + i];
    }
    const nf_status status = walk_blocks(&run);
    nf_free(run.cursors);
    return status;
}

/* ---- rows ---- */

typedef struct rows_worker {
    nf_row_sorter sorter;
    double       *x, *y;     /* rows as binary64, where stores differ or values are extreme */
    double       *distances; /* of one row, where they are not delivered as they are */
    uint64_t      distances_count;
} rows_worker;

typedef struct rows_run {
    nf_context      *ctx;
    const nf_search *search;
    batch_rows       rows;
    const int64_t   *indptr;
    uint32_t        *indices;
    void            *distances;
    nf_distances     distances_as;
    nf_sort          sort;
    rows_worker     *workers;
} rows_run;

/* Neighbours of any stores, one pair at a time. */
static void general_distances(const rows_run *run, rows_worker *worker, uint32_t position, const uint32_t *at,
                              uint32_t count, double *out)
{
    const nf_points *data = run->search->data;
    const double     radius = nf_cpu_query_radius(run->search, position);
    nf_cpu_row_f64(run->search->queries, position, worker->x);
    for (uint32_t i = 0; i < count; i++) {
        nf_cpu_row_f64(data, at[i], worker->y);
        out[i] = fmin(nf_exact_distance(worker->x, worker->y, data->dims), radius);
    }
}

/* Neighbours of the same store: sums and roots by kernels. Only sums of binary64 rows can over- or underflow; those are
 * taken one pair at a time. */
static void same_store_distances(const rows_run *run, rows_worker *worker, uint32_t position, const uint32_t *at,
                                 uint32_t count, double *out)
{
    const nf_points  *data = run->search->data, *queries = run->search->queries;
    const nf_kernels *kernels = run->search->kernels;
    const double      radius = nf_cpu_query_radius(run->search, position);

    kernels->sums(data->store, (const char *)queries->rows + position * queries->row_bytes, data->rows, data->row_bytes,
                  data->dims, at, count, out);
    if (data->store != NF_STORE_F64) {
        kernels->roots(out, count, radius);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (out[i] >= NF_SUM_SMALL && out[i] <= NF_SUM_LARGE) {
            kernels->roots(out + i, 1, radius);
        } else {
            general_distances(run, worker, position, at + i, 1, out + i);
        }
    }
}

static void row_distances(const rows_run *run, rows_worker *worker, uint32_t position, const uint32_t *ids, uint64_t count,
                          double *out)
{
    const nf_points *data = run->search->data, *queries = run->search->queries;
    const bool       same = data->store == queries->store && data->bias == queries->bias;
    uint32_t         at[SUMS_AT_ONCE];

    for (uint64_t done = 0; done < count; done += SUMS_AT_ONCE) {
        const uint32_t now = count - done < SUMS_AT_ONCE ? (uint32_t)(count - done) : SUMS_AT_ONCE;
        for (uint32_t i = 0; i < now; i++) at[i] = data->positions[ids[done + i]];
        (same ? same_store_distances : general_distances)(run, worker, position, at, now, out + done);
    }
}

/* The binary32 nearest to a distance, but not above the radius. */
static float narrow_distance(double distance, double radius)
{
    const float nearest = (float)distance;
    return (double)nearest > radius ? nextafterf(nearest, 0.0f) : nearest;
}

static nf_status need_distances(const rows_run *run, rows_worker *worker, uint64_t count)
{
    if (count <= worker->distances_count) return NF_OK;
    nf_free(worker->distances);
    worker->distances_count = 0;
    worker->distances = nf_alloc(run->ctx, count, sizeof(double));
    if (worker->distances == NULL) return nf_alloc_status(run->ctx);
    worker->distances_count = count;
    return NF_OK;
}

static nf_status finish_row(const rows_run *run, rows_worker *worker, uint32_t position)
{
    const uint32_t rank = run->rows.rank[position - run->rows.first];
    const uint64_t begin = (uint64_t)run->indptr[rank], count = (uint64_t)run->indptr[rank + 1] - begin;
    uint32_t      *ids = run->indices + begin;
    double        *distances;

    NF_TRY(nf_sort_ids(&worker->sorter, ids, count));
    if (count == 0 || (run->distances_as == NF_DISTANCES_NONE && run->sort == NF_SORT_ID)) return NF_OK;
    if (run->distances_as == NF_DISTANCES_F64) {
        distances = (double *)run->distances + begin;
    } else {
        NF_TRY(need_distances(run, worker, count));
        distances = worker->distances;
    }
    row_distances(run, worker, position, ids, count, distances);
    if (run->sort == NF_SORT_DISTANCE) NF_TRY(nf_sort_by_distance(&worker->sorter, ids, distances, count));
    if (run->distances_as == NF_DISTANCES_F32) {
        float *out = (float *)run->distances + begin;
        const double radius = nf_cpu_query_radius(run->search, position);
        for (uint64_t i = 0; i < count; i++) out[i] = narrow_distance(distances[i], radius);
    }
    return NF_OK;
}

static nf_status rows_task(void *arg, uint64_t task, uint32_t worker)
{
    const rows_run *run = arg;
    const uint32_t  begin = run->rows.first + (uint32_t)task * POSITIONS_PER_TASK;
    const uint64_t  last = run->rows.first + run->rows.count;
    const uint64_t  end = begin + POSITIONS_PER_TASK < last ? begin + POSITIONS_PER_TASK : last;
    for (uint32_t position = begin; position < end; position++) {
        NF_TRY(finish_row(run, &run->workers[worker], position));
    }
    return NF_OK;
}

static nf_status open_rows_worker(const rows_run *run, rows_worker *worker)
{
    NF_TRY(nf_row_sorter_open(run->ctx, run->search->kernels, &worker->sorter, (uint32_t)run->search->data->rows_count));
    worker->x = nf_alloc(run->ctx, run->search->data->dims, sizeof(double));
    worker->y = nf_alloc(run->ctx, run->search->data->dims, sizeof(double));
    return worker->x != NULL && worker->y != NULL ? NF_OK : nf_alloc_status(run->ctx);
}

static nf_status finish_rows(rows_run *run)
{
    const uint64_t tasks = (run->rows.count + POSITIONS_PER_TASK - 1) / POSITIONS_PER_TASK;
    const uint32_t workers = nf_pool_workers(run->ctx, tasks);
    nf_status      status = NF_OK;

    run->workers = nf_alloc_zero(run->ctx, workers, sizeof *run->workers);
    if (run->workers == NULL) return nf_alloc_status(run->ctx);
    for (uint32_t w = 0; status >= 0 && w < workers; w++) status = open_rows_worker(run, &run->workers[w]);
    if (status >= 0) status = nf_pool_run(run->ctx, rows_task, run, tasks);
    for (uint32_t w = 0; w < workers; w++) {
        nf_row_sorter_close(&run->workers[w].sorter);
        nf_free(run->workers[w].x);
        nf_free(run->workers[w].y);
        nf_free(run->workers[w].distances);
    }
    nf_free(run->workers);
    return status;
}

nf_status nf_cpu_deliver(nf_context *ctx, nf_search *search, nf_batch batch, const int64_t *indptr, int32_t *indices,
                         void *distances, nf_distances distances_as, nf_sort sort)
{
    rows_run run = {
        .ctx = ctx,
        .search = search,
        .indptr = indptr,
        .indices = (uint32_t *)indices,
        .distances = distances,
        .distances_as = distances_as,
        .sort = sort,
    };
    nf_status status = rank_rows(ctx, search, batch, &run.rows, NULL);
    if (status >= 0) status = place_pairs(ctx, search, &run.rows, indptr, run.indices);
    nf_pairs_clear(&search->pairs);
    if (status >= 0) status = finish_rows(&run);
    nf_free(run.rows.rank);
    return status;
}
