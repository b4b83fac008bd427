/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps compress and deliver: from the pairs on the device to sorted rows in the caller's memory.
 *
 * compress counts the rows' lengths, orders the rows of the batch by id and adds the lengths up. deliver writes every pair
 * into its row (both rows, in a self-join), sorts the rows and computes distances, all on the device, and copies the result
 * to the host. Where the device memory that is left does not hold the whole batch, deliver does it in pieces: ranges of
 * rows in the order of delivery, whose results are ranges of the caller's arrays.
 */
#include <string.h>

#include "cuda_search.h"
#include "cuda_staging.h"
#include "kernels/k_primitives.h"
#include "kernels/k_rows.h"

#define LEAVE_FREE (16ull << 20)  /* device memory that pieces do not plan with: scratch, rounding of blocks */
#define SMALL_PIECE (64ull << 10)  /* entries that are tried whatever the plan says */

/* What compress learns of a batch and deliver goes on with; on the device. */
typedef struct nf_rows_state {
    bool      ready;
    nf_batch  batch;
    uint32_t  first, rows;
    uint32_t *order;   /* rank -> position; the queries' own array where the batch is all of them */
    bool      order_is_own;
    uint32_t *rank;    /* local -> rank */
    uint64_t *offsets; /* rank -> first entry; rows + 1 */
} nf_rows_state;

uint64_t nf_cuda_batch_rows(const nf_search *search, nf_batch batch)
{
    const uint32_t *start = search->queries->host_group_start;
    return batch.end > batch.begin ? (uint64_t)start[batch.end] - start[batch.begin] : 0;
}

static nf_status allocate(nf_context *ctx, nf_search *search, uint64_t count, size_t size, void **out)
{
    return nf_device_alloc(ctx, search->device, search->stream, count, size, out);
}

static void release(nf_search *search, void *block)
{
    nf_device_free(search->device, search->stream, block);
}

static void forget_rows(nf_search *search)
{
    nf_rows_state *rows = search->rows;
    if (rows == NULL) return;
    if (rows->order_is_own) release(search, rows->order);
    release(search, rows->rank);
    release(search, rows->offsets);
    memset(rows, 0, sizeof *rows);
}

void nf_pair_store_clear(nf_search *search)
{
    release(search, search->store.pairs);
    memset(&search->store, 0, sizeof search->store);
    forget_rows(search);
    nf_free(search->rows);
    search->rows = NULL;
}

/* The pairs as the kernels of a batch see them. */
static nf_k_found found_of(const nf_search *search, const nf_rows_state *rows)
{
    return (nf_k_found){
        .pairs = search->store.pairs,
        .count = search->store.count,
        .first = rows->first,
        .rows = rows->rows,
        .query_ids = search->queries->ids,
        .point_ids = search->data->ids,
        .both = search->spec.self_join && !search->spec.half,
        .half = search->spec.self_join && search->spec.half,
    };
}

/* ---- compress ---- */

typedef struct sort_arguments {
    const uint32_t *keys_in;
    uint32_t       *keys_out;
    const uint32_t *values_in;
    uint32_t       *values_out;
    uint32_t        count;
    int             bits;
} sort_arguments;

static int bits_of(uint64_t rows)
{
    int bits = 1;
    while (bits < 32 && rows > (uint64_t)1 << bits) bits++;
    return bits;
}

static cudaError_t sort_with(const nf_search *search, const sort_arguments *sort, void *temp, size_t *bytes)
{
    return nf_k_sort_u32(temp, bytes, sort->keys_in, sort->keys_out, sort->values_in, sort->values_out, sort->count, 0,
                         sort->bits, search->stream);
}

/* The primitives of k_primitives.h are first asked for their scratch. */
static nf_status run_sort(nf_context *ctx, nf_search *search, const sort_arguments *sort)
{
    size_t bytes = 0;
    void  *temp = NULL;
    NF_CUDA(ctx, sort_with(search, sort, NULL, &bytes));
    NF_TRY(allocate(ctx, search, bytes, 1, &temp));
    const cudaError_t error = sort_with(search, sort, temp, &bytes);
    release(search, temp);
    return nf_cuda_check(ctx, error, "nf_k_sort_u32");
}

static nf_status run_sum(nf_context *ctx, nf_search *search, const uint32_t *in, uint64_t *out, uint64_t count)
{
    size_t bytes = 0;
    void  *temp = NULL;
    NF_CUDA(ctx, nf_k_exclusive_sum_u32(NULL, &bytes, in, out, count, search->stream));
    NF_TRY(allocate(ctx, search, bytes, 1, &temp));
    const cudaError_t error = nf_k_exclusive_sum_u32(temp, &bytes, in, out, count, search->stream);
    release(search, temp);
    return nf_cuda_check(ctx, error, "nf_k_exclusive_sum_u32");
}

/* Fills order with the positions of the batch by ascending id; words: 3 * rows. The sorted ids go to the host. */
static nf_status sort_rows(nf_context *ctx, nf_search *search, nf_rows_state *rows, uint32_t *words, int32_t *query_ids)
{
    const uint64_t  count = rows->rows;
    uint32_t *const ids = words, *const positions = words + count, *const sorted = words + 2 * count;
    const sort_arguments sort = {
        .keys_in = ids,
        .keys_out = sorted,
        .values_in = positions,
        .values_out = rows->order,
        .count = rows->rows,
        .bits = bits_of(search->queries->rows),
    };
    NF_CUDA(ctx, nf_k_row_ids(search->queries->ids, rows->first, rows->rows, ids, positions, search->stream));
    NF_TRY(run_sort(ctx, search, &sort));
    if (query_ids == NULL) return NF_OK;
    return nf_download(ctx, search->device, search->stream, query_ids, sorted, count * sizeof *query_ids);
}

/* The rows by id. Where they are all rows, the queries have that order already. */
static nf_status order_rows(nf_context *ctx, nf_search *search, nf_rows_state *rows, int32_t *query_ids)
{
    void *block = NULL;
    if (rows->rows == search->queries->rows) {
        rows->order = search->queries->positions;
        for (uint32_t i = 0; query_ids != NULL && i < rows->rows; i++) query_ids[i] = (int32_t)i;
    } else {
        NF_TRY(allocate(ctx, search, rows->rows, sizeof *rows->order, &block));
        rows->order = block;
        rows->order_is_own = true;
        NF_TRY(allocate(ctx, search, (uint64_t)rows->rows * 3, sizeof(uint32_t), &block));
        const nf_status status = sort_rows(ctx, search, rows, block, query_ids);
        release(search, block);
        NF_TRY(status);
    }
    NF_TRY(allocate(ctx, search, rows->rows, sizeof *rows->rank, &block));
    rows->rank = block;
    return nf_cuda_check(ctx, nf_k_row_ranks(rows->order, rows->first, rows->rows, rows->rank, search->stream),
                         "nf_k_row_ranks");
}

/* Offsets by rank from the lengths of rows. words: 2 * rows + 1. */
static nf_status sum_lengths(nf_context *ctx, nf_search *search, const nf_rows_state *rows, uint32_t *words)
{
    const nf_k_found found = found_of(search, rows);
    const uint32_t   self = nf_cuda_self_pairs(&search->spec) ? 1 : 0;
    uint32_t *const  lengths = words, *const by_rank = words + rows->rows;

    NF_CUDA(ctx, cudaMemsetAsync(lengths, 0, rows->rows * sizeof *lengths, search->stream));
    NF_CUDA(ctx, nf_k_row_lengths(&found, lengths, search->stream));
    NF_CUDA(ctx, nf_k_row_lengths_by_rank(lengths, rows->order, rows->first, rows->rows, self, by_rank, search->stream));
    return run_sum(ctx, search, by_rank, rows->offsets, (uint64_t)rows->rows + 1);
}

static nf_status fill_state(nf_context *ctx, nf_search *search, nf_rows_state *rows, int32_t *query_ids)
{
    void *block = NULL;
    NF_TRY(order_rows(ctx, search, rows, query_ids));
    NF_TRY(allocate(ctx, search, (uint64_t)rows->rows + 1, sizeof *rows->offsets, &block));
    rows->offsets = block;
    NF_TRY(allocate(ctx, search, (uint64_t)rows->rows * 2 + 1, sizeof(uint32_t), &block));
    const nf_status status = sum_lengths(ctx, search, rows, block);
    release(search, block);
    return status;
}

/* Learns order and offsets of the batch's rows. */
static nf_status make_state(nf_context *ctx, nf_search *search, nf_batch batch, int32_t *query_ids)
{
    if (search->rows == NULL) {
        search->rows = nf_alloc_zero(ctx, 1, sizeof *search->rows);
        if (search->rows == NULL) return nf_alloc_status(ctx);
    }
    nf_rows_state *rows = search->rows;
    forget_rows(search);
    rows->batch = batch;
    rows->first = search->queries->host_group_start[batch.begin];
    rows->rows = (uint32_t)nf_cuda_batch_rows(search, batch);
    const nf_status status = fill_state(ctx, search, rows, query_ids);
    if (status < 0) {
        forget_rows(search);
    } else {
        rows->ready = true;
    }
    return status;
}

nf_status nf_cuda_compress(nf_context *ctx, nf_search *search, nf_batch batch, int32_t *query_ids, int64_t *indptr)
{
    const uint64_t count = nf_cuda_batch_rows(search, batch);
    indptr[0] = 0;
    if (count == 0) return NF_OK;
    NF_TRY(nf_device_enter(ctx, search->device));
    NF_TRY(make_state(ctx, search, batch, query_ids));
    return nf_download(ctx, search->device, search->stream, indptr, search->rows->offsets, (count + 1) * sizeof *indptr);
}

/* ---- deliver ---- */

typedef struct delivery {
    nf_context    *ctx;
    nf_search     *search;
    const int64_t *indptr;     /* host */
    int32_t       *indices;    /* host */
    void          *distances;  /* host */
    nf_distances   as;
    bool           by_distance;

    uint64_t       longest;    /* entries of the longest row */
    uint64_t       most;       /* entries that a piece may have; or one row */
    uint64_t      *cursors;    /* local -> where its row goes on */
    uint32_t      *classed;    /* ranks by class */
    uint32_t      *counts;     /* of each class */
    void          *by_column;  /* the data rows in the order of columns, or NULL */
    uint32_t      *ids;        /* a piece */
    double        *wide;
    float         *narrow;
} delivery;

static bool needs_wide(const delivery *run)
{
    return run->as == NF_DISTANCES_F64 || run->by_distance;
}

static uint64_t entry_bytes(const delivery *run)
{
    return sizeof *run->ids + (needs_wide(run) ? sizeof *run->wide : 0) +
           (run->as == NF_DISTANCES_F32 ? sizeof *run->narrow : 0);
}

static bool needs_distances(const delivery *run)
{
    return run->as != NF_DISTANCES_NONE || run->by_distance;
}

/* Copies the data rows in the order of columns, unless that takes more than half of the memory that is left. */
static nf_status copy_by_column(delivery *run)
{
    nf_search       *search = run->search;
    const nf_points *data = search->data;
    const size_t     bytes = data->stride * (data->wide ? sizeof(double) : sizeof(float));
    const nf_k_rows  rows = nf_search_rows(data);
    uint64_t         all;

    if (!needs_distances(run) || !nf_k_distances_by_column(data->dims)) return NF_OK;
    if (!nf_multiply(data->rows, bytes, &all) || all > nf_device_memory_left(run->ctx, search->device) / 2) return NF_OK;
    if (nf_device_try_alloc(run->ctx, search->device, search->stream, data->rows, bytes, &run->by_column) < 0) return NF_OK;
    return nf_cuda_check(run->ctx, nf_k_rows_by_column(&rows, data->rows, run->by_column, search->stream),
                         "nf_k_rows_by_column");
}

static void free_piece(delivery *run)
{
    release(run->search, run->ids);
    release(run->search, run->wide);
    release(run->search, run->narrow);
    run->ids = NULL;
    run->wide = NULL;
    run->narrow = NULL;
}

/* Buffers of `most` entries. quiet: a failure is not recorded. */
static nf_status allocate_piece(delivery *run, bool quiet)
{
    nf_status (*const take)(nf_context *, nf_device *, cudaStream_t, uint64_t, size_t, void **) =
        quiet ? nf_device_try_alloc : nf_device_alloc;
    nf_search *search = run->search;
    void      *ids = NULL, *wide = NULL, *narrow = NULL;

    nf_status status = take(run->ctx, search->device, search->stream, run->most, sizeof *run->ids, &ids);
    if (status >= 0 && needs_wide(run)) {
        status = take(run->ctx, search->device, search->stream, run->most, sizeof *run->wide, &wide);
    }
    if (status >= 0 && run->as == NF_DISTANCES_F32) {
        status = take(run->ctx, search->device, search->stream, run->most, sizeof *run->narrow, &narrow);
    }
    run->ids = ids;
    run->wide = wide;
    run->narrow = narrow;
    if (status < 0) free_piece(run);
    return status;
}

/* Chooses how large pieces are: the whole batch, or what memory holds, but at least the longest row. */
static nf_status choose_piece(delivery *run, uint64_t total)
{
    const uint64_t left = nf_device_memory_left(run->ctx, run->search->device);
    const uint64_t fit = left > LEAVE_FREE ? (left - LEAVE_FREE) / entry_bytes(run) : 0;
    const uint64_t wanted = fit > SMALL_PIECE ? fit : SMALL_PIECE;

    for (run->most = total < wanted ? total : wanted; run->most > run->longest; run->most /= 2) {
        if (allocate_piece(run, true) >= 0) return NF_OK;
    }
    run->most = run->longest;
    return allocate_piece(run, false);
}

static nf_status open_delivery(delivery *run, uint64_t total)
{
    const nf_rows_state *rows = run->search->rows;
    void                *block = NULL;

    for (uint64_t i = 0; i < rows->rows; i++) {
        const uint64_t length = (uint64_t)(run->indptr[i + 1] - run->indptr[i]);
        if (length > run->longest) run->longest = length;
    }
    NF_TRY(allocate(run->ctx, run->search, rows->rows, sizeof *run->cursors, &block));
    run->cursors = block;
    NF_TRY(allocate(run->ctx, run->search, rows->rows, sizeof *run->classed, &block));
    run->classed = block;
    NF_TRY(allocate(run->ctx, run->search, NF_K_ROW_CLASSES, sizeof *run->counts, &block));
    run->counts = block;
    NF_TRY(copy_by_column(run));
    return choose_piece(run, total);
}

static void close_delivery(delivery *run)
{
    free_piece(run);
    release(run->search, run->by_column);
    release(run->search, run->counts);
    release(run->search, run->classed);
    release(run->search, run->cursors);
}

/* Ranks of the piece by class, in run->classed; begin[class] .. begin[class + 1] - 1 are those of a class. */
static nf_status class_rows(const delivery *run, const nf_k_piece *piece, uint32_t begin[NF_K_ROW_CLASSES + 1])
{
    const cudaStream_t stream = run->search->stream;
    const size_t       bytes = NF_K_ROW_CLASSES * sizeof *run->counts;
    uint32_t           counts[NF_K_ROW_CLASSES];

    NF_CUDA(run->ctx, cudaMemsetAsync(run->counts, 0, bytes, stream));
    NF_CUDA(run->ctx, nf_k_row_classes(piece, run->counts, NULL, stream));
    NF_CUDA(run->ctx, cudaMemcpyAsync(counts, run->counts, bytes, cudaMemcpyDeviceToHost, stream));
    NF_CUDA(run->ctx, cudaStreamSynchronize(stream));
    begin[0] = 0;
    for (uint32_t i = 0; i < NF_K_ROW_CLASSES; i++) begin[i + 1] = begin[i] + counts[i];
    NF_CUDA(run->ctx, cudaMemcpyAsync(run->counts, begin, bytes, cudaMemcpyHostToDevice, stream));
    return nf_cuda_check(run->ctx, nf_k_row_classes(piece, run->counts, run->classed, stream), "nf_k_row_classes");
}

/* ---- rows longer than a block sorts ---- */

/* Counts the tiles of the rows of a piece that have more entries than one tile, and lists them where tiles is not NULL. */
static uint64_t list_tiles(const delivery *run, const nf_k_piece *piece, uint64_t tile_entries, nf_k_tile *tiles)
{
    uint64_t count = 0;
    for (uint32_t rank = piece->begin; rank < piece->end; rank++) {
        const uint64_t length = (uint64_t)(run->indptr[rank + 1] - run->indptr[rank]);
        if (length <= tile_entries) continue;
        const uint64_t own = (length + tile_entries - 1) / tile_entries;
        for (uint64_t i = 0; tiles != NULL && i < own; i++) {
            tiles[count + i] = (nf_k_tile){.rank = rank, .tile = (uint32_t)i};
        }
        count += own;
    }
    return count;
}

static nf_status sort_tiles(const delivery *run, const nf_k_piece *piece, nf_k_tile *host, void *tiles, uint64_t count,
                            uint64_t tile_entries)
{
    nf_search *search = run->search;
    list_tiles(run, piece, tile_entries, host);
    NF_TRY(nf_upload_rows(run->ctx, search->device, search->stream, tiles, host, 1, count * sizeof *host,
                          count * sizeof *host));
    return nf_cuda_check(run->ctx,
                         nf_k_row_sort_long(piece, tiles, (uint32_t)count, run->longest, run->by_distance, search->stream),
                         "nf_k_row_sort_long");
}

static nf_status sort_long_rows(const delivery *run, const nf_k_piece *piece)
{
    const uint64_t tile_entries = run->by_distance ? NF_K_TILE_PAIRS : NF_K_TILE_IDS;
    void          *tiles = NULL;

    if (run->longest <= tile_entries) return NF_OK;
    const uint64_t count = list_tiles(run, piece, tile_entries, NULL);
    if (count == 0) return NF_OK;
    nf_k_tile *host = nf_alloc(run->ctx, count, sizeof *host);
    if (host == NULL) return nf_alloc_status(run->ctx);
    nf_status status = allocate(run->ctx, run->search, count, sizeof *host, &tiles);
    if (status >= 0) status = sort_tiles(run, piece, host, tiles, count, tile_entries);
    release(run->search, tiles);
    nf_free(host);
    return status;
}

static nf_status sort_piece(const delivery *run, const nf_k_piece *piece, const uint32_t begin[NF_K_ROW_CLASSES + 1])
{
    const uint32_t last = run->by_distance ? NF_K_ROW_4096 : NF_K_ROW_16384;
    for (uint32_t i = NF_K_ROW_32; i <= last; i++) {
        NF_CUDA(run->ctx, nf_k_row_sort(piece, i, run->classed + begin[i], begin[i + 1] - begin[i], run->by_distance,
                                        run->search->stream));
    }
    return sort_long_rows(run, piece);
}

/* ---- a piece ---- */

static nf_status fill_distances(const delivery *run, const nf_k_piece *piece, const uint32_t begin[NF_K_ROW_CLASSES + 1])
{
    const nf_search     *search = run->search;
    const nf_k_distances distances = {
        .queries = nf_search_rows(search->queries),
        .data = nf_search_rows(search->data),
        .data_by_column = run->by_column,
        .positions = search->data->positions,
        .radius = search->spec.radius,
        .wide = run->wide,
        .narrow = run->wide == NULL ? run->narrow : NULL,
    };
    const uint32_t  long_count = begin[NF_K_ROW_CLASSES] - begin[NF_K_ROW_16384];
    const uint32_t *long_rows = run->classed + begin[NF_K_ROW_16384];
    NF_CUDA(run->ctx, nf_k_row_distances(piece, &distances, long_rows, long_count, run->longest, search->stream));
    return NF_OK;
}

static nf_status fill_piece(const delivery *run, const nf_k_piece *piece, uint64_t entries)
{
    nf_search       *search = run->search;
    const nf_k_found found = found_of(search, search->rows);
    const uint32_t   self = nf_cuda_self_pairs(&search->spec) ? 1 : 0;
    uint32_t         begin[NF_K_ROW_CLASSES + 1];

    NF_CUDA(run->ctx, nf_k_row_cursors(piece, search->queries->ids, self, run->cursors, search->stream));
    NF_CUDA(run->ctx, nf_k_row_place(&found, piece, run->cursors, search->stream));
    NF_TRY(class_rows(run, piece, begin));
    if (run->by_distance) NF_TRY(fill_distances(run, piece, begin));
    NF_TRY(sort_piece(run, piece, begin));
    if (!run->by_distance && needs_distances(run)) NF_TRY(fill_distances(run, piece, begin));
    if (run->wide == NULL || run->narrow == NULL) return NF_OK;
    return nf_cuda_check(run->ctx,
                         nf_k_narrow_distances(run->wide, entries, search->spec.radius, run->narrow, search->stream),
                         "nf_k_narrow_distances");
}

static nf_status download_piece(const delivery *run, uint64_t base, uint64_t entries)
{
    nf_search *search = run->search;
    NF_TRY(nf_download(run->ctx, search->device, search->stream, run->indices + base, run->ids,
                       entries * sizeof *run->indices));
    if (run->as == NF_DISTANCES_F64) {
        return nf_download(run->ctx, search->device, search->stream, (double *)run->distances + base, run->wide,
                           entries * sizeof(double));
    }
    if (run->as == NF_DISTANCES_F32) {
        return nf_download(run->ctx, search->device, search->stream, (float *)run->distances + base, run->narrow,
                           entries * sizeof(float));
    }
    return NF_OK;
}

/* The end of the piece that begins at a rank: as many rows as have `most` entries together. */
static uint32_t piece_end(const delivery *run, uint32_t begin)
{
    const uint64_t limit = (uint64_t)run->indptr[begin] + run->most;
    uint32_t       low = begin, high = run->search->rows->rows; /* low rows fit */
    while (low < high) {
        const uint32_t middle = low + (high - low + 1) / 2;
        if ((uint64_t)run->indptr[middle] <= limit) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

static nf_status deliver_pieces(const delivery *run)
{
    const nf_rows_state *rows = run->search->rows;
    for (uint32_t begin = 0; begin < rows->rows;) {
        const uint32_t   end = piece_end(run, begin);
        const uint64_t   base = (uint64_t)run->indptr[begin], entries = (uint64_t)run->indptr[end] - base;
        const nf_k_piece piece = {
            .first = rows->first,
            .rows = rows->rows,
            .begin = begin,
            .end = end,
            .base = base,
            .rank = rows->rank,
            .order = rows->order,
            .offsets = rows->offsets,
            .ids = run->ids,
            .distances = run->wide,
        };
        if (entries > 0) {
            NF_TRY(fill_piece(run, &piece, entries));
            NF_TRY(download_piece(run, base, entries));
        }
        NF_TRY(nf_progress_poll(run->ctx));
        begin = end;
    }
    return NF_OK;
}

static nf_status deliver_batch(delivery *run, nf_batch batch, uint64_t total)
{
    const nf_rows_state *rows = run->search->rows;
    if (rows == NULL || !rows->ready || rows->batch.begin != batch.begin || rows->batch.end != batch.end) {
        NF_TRY(make_state(run->ctx, run->search, batch, NULL));
    }
    nf_status status = open_delivery(run, total);
    if (status >= 0) status = deliver_pieces(run);
    close_delivery(run);
    return status;
}

nf_status nf_cuda_deliver(nf_context *ctx, nf_search *search, nf_batch batch, const int64_t *indptr, int32_t *indices,
                          void *distances, nf_distances distances_as, nf_sort sort)
{
    const uint64_t rows = nf_cuda_batch_rows(search, batch), total = (uint64_t)indptr[rows];
    delivery       run = {
        .ctx = ctx,
        .search = search,
        .indptr = indptr,
        .indices = indices,
        .distances = distances,
        .as = distances_as,
        .by_distance = sort == NF_SORT_DISTANCE,
    };
    nf_status status = nf_device_enter(ctx, search->device);
    if (status >= 0 && total > 0) status = deliver_batch(&run, batch, total);
    nf_pair_store_clear(search);
    return status;
}
