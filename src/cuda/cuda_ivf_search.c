/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searching on the device (arXiv:2602.23999, section 3.3): queries are rotated and brought into the form that short
 * codes want; one product on tensor cores gives their distances to all centroids, of which the nearest are selected;
 * then waves of a few lists each, nearest lists first: scan the short codes, rank the survivors by their whole codes.
 * In a wave a query's limit stands still, so neither the order of work nor the other queries of a batch change an
 * answer.
 *
 * Nothing is fetched from the device in between: sizes are bounded beforehand (cuda_ivf_room.h). Batches that do not
 * fit into the memory are cut.
 */
#include <math.h>
#include <string.h>

#include "cuda_ivf_room.h"
#include "cuda_staging.h"
#include "engine/engine_ivf_rows.h"
#include "kernels/k_encode.h"
#include "kernels/k_primitives.h"
#include "kernels/k_products.h"

#define FIRST_WAVE 1u               /* lists */
#define WAVE_GROWTH 6u              /* lists of all waves so far, from wave to wave */
#define TILE_PAIRS 4u               /* pairs per list from which on tiles are faster */
#define MOST_QUERIES 65536u         /* at a time */
#define SCRATCH ((uint64_t)8 << 30) /* device bytes of a workspace, at most */

/* One call. Queries are index rows in host memory (search) or a matrix (answer). */
typedef struct search {
    nf_context            *ctx;
    nf_ivf_prepared       *prepared;
    const nf_ivf_view     *view;
    const nf_ivf_question *question;
    nf_k_precision         precision;
    nf_room_size           size;
    nf_search_room        *room;
    nf_ivf_counters       *counters;

    const float *rows;
    uint64_t    *slots;
    float       *values;

    const nf_matrix      *matrix;
    double                length;
    const nf_ivf_results *results;
    const void           *ids; /* of the index, on the device */
} search;

/* ---- what the search is ---- */

/* 1-bit tensor cores: in compute capability 8 and 9 (later devices spell such products out). */
static bool has_bit_products(const nf_ivf_prepared *prepared)
{
    const int major = nf_device_get_traits(prepared->arrays.device)->major;
    return major == 8 || major == 9;
}

/* Before 8, products of small integers are made up from shuffles here. */
static bool has_products(const nf_ivf_prepared *prepared)
{
    return nf_device_get_traits(prepared->arrays.device)->major >= 8;
}

/* Whether a batch of so many queries is worth tiles, and memory holds what they take for every list and wave. */
static bool worth_tiles(search *job, uint64_t count)
{
    const uint64_t lists = job->prepared->index.lists;
    const uint64_t left = nf_device_memory_left(job->ctx, job->prepared->arrays.device);
    return has_products(job->prepared) && count * job->question->probes >= TILE_PAIRS * lists &&
           nf_room_list_bytes(job->prepared) <= left / 4;
}

/* BITWISE4 and TILE give the same sums: the choice changes no answer. */
static nf_k_precision choose_precision(search *job, uint64_t count)
{
    const nf_k_precision tile = has_bit_products(job->prepared) ? NF_K_TILE : NF_K_TILE8;
    switch (job->question->precision) {
    case NF_PRECISION_LUT16: return NF_K_LUT16;
    case NF_PRECISION_LUT32: return NF_K_LUT32;
    case NF_PRECISION_BITWISE4: return NF_K_BITWISE4;
    case NF_PRECISION_BITWISE8: return NF_K_BITWISE8;
    case NF_PRECISION_TILE: return tile;
    default: return worth_tiles(job, count) ? tile : NF_K_BITWISE4;
    }
}

/* What a workspace depends on, and how many queries it is for: as many as half of the memory left holds, or a kept one.
 */
static void choose_size(search *job, uint64_t count, uint64_t raw_bytes)
{
    const nf_k_precision precision = job->precision;
    const uint64_t       left = nf_device_memory_left(job->ctx, job->prepared->arrays.device) / 2;
    job->size = (nf_room_size){
        .probes = job->question->probes,
        .k = job->question->k,
        .planes = precision == NF_K_BITWISE8                           ? 8
                  : precision == NF_K_LUT16 || precision == NF_K_LUT32 ? 0
                                                                       : 4,
        .bytes = precision == NF_K_TILE8,
        .tiles = precision == NF_K_TILE || precision == NF_K_TILE8,
        .raw_bytes = raw_bytes,
        .allowed = job->question->allowed != NULL,
    };
    const uint64_t kept = nf_room_kept_queries(job->prepared, &job->size);
    uint64_t       fit = (left < SCRATCH ? left : SCRATCH) / nf_room_query_bytes(job->prepared, &job->size);
    if (fit < kept) fit = kept;
    if (fit > MOST_QUERIES) fit = MOST_QUERIES;
    if (fit < 1) fit = 1;
    const uint64_t parts = (count + fit - 1) / fit;
    job->size.queries = (count + parts - 1) / parts;
}

/* A workspace; where memory does not hold it, one for fewer queries. Other searches may have taken what was left. */
static nf_status take_room(search *job)
{
    for (;;) {
        const nf_status status = nf_room_take(job->ctx, job->prepared, &job->size, &job->room);
        if ((status != NF_ERR_LIMIT && status != NF_ERR_DEVICE_MEMORY) || job->size.queries == 1) return status;
        nf_search_rooms_close(job->prepared);
        job->size.queries = (job->size.queries + 1) / 2;
        nf_context_begin(job->ctx); /* forgets the error */
    }
}

static void plan_waves(nf_k_turns *turns, uint32_t probes)
{
    uint64_t end = FIRST_WAVE;
    turns->probes = probes;
    turns->waves = 0;
    while (turns->waves + 1 < NF_K_MOST_WAVES && end < probes) {
        turns->wave_end[turns->waves++] = (uint32_t)end;
        end *= WAVE_GROWTH;
    }
    turns->wave_end[turns->waves++] = probes;
}

/* ---- the steps ---- */

static nf_status prepare_queries(search *job, uint32_t count)
{
    nf_search_room           *room = job->room;
    const nf_k_index         *index = &job->prepared->index;
    const nf_device_rotation *rotation = &job->prepared->rotation;
    room->queries.count = count;
    room->queries.planes = job->size.planes;
    NF_CUDA(job->ctx,
            nf_k_rotate(&rotation->map, rotation->signs, rotation->matrix, room->rows, nf_ivf_stride(index->dims),
                        count, room->queries.rotated, index->width, room->blocks.stream));
    NF_CUDA(job->ctx, nf_k_quantise(index, &room->queries, job->precision, room->blocks.stream));
    return NF_OK;
}

static nf_status probe(search *job, uint32_t count)
{
    nf_search_room     *room = job->room;
    const nf_k_index   *index = &job->prepared->index;
    const cudaStream_t  stream = room->blocks.stream;
    const uint64_t      stride = ((uint64_t)index->lists + 3) / 4 * 4;
    const nf_k_products products = {
        .x = room->queries.rotated,
        .y = index->centroids,
        .x_rows = count,
        .y_rows = index->lists,
        .dims = index->padded,
        .x_stride = index->width,
        .y_stride = index->width,
        .offset = index->rank_offset,
        .precise = job->prepared->precise,
    };
    room->turns.count = count;
    NF_CUDA(job->ctx, nf_k_values(&products, room->values, stride, stream));
    NF_CUDA(job->ctx, nf_k_nearest_lists(room->values, stride, index->lists, &room->turns, room->scratch, stream));
    NF_CUDA(job->ctx, nf_k_turn_factors(index, &room->queries, &room->turns, stream));
    return NF_OK;
}

static nf_status sum_up(search *job, const uint32_t *counts, uint64_t count, uint64_t *starts)
{
    nf_search_room *room = job->room;
    size_t          bytes = room->scan_bytes;
    NF_CUDA(job->ctx, nf_k_exclusive_sum_u32(room->scan_scratch, &bytes, counts, starts, count, room->blocks.stream));
    return NF_OK;
}

/* Units of work by pair. */
static nf_status pair_items(search *job)
{
    nf_search_room   *room = job->room;
    const nf_k_index *index = &job->prepared->index;
    const uint64_t    pairs = (uint64_t)room->turns.count * room->turns.probes;
    NF_CUDA(job->ctx, nf_k_pair_segments(index, &room->turns, room->counts, room->blocks.stream));
    NF_TRY(sum_up(job, room->counts, pairs + 1, room->starts));
    NF_CUDA(job->ctx, nf_k_pair_items(index, &room->turns, room->starts, room->items, room->blocks.stream));
    return NF_OK;
}

/* Units of work by list. */
static nf_status tile_items(search *job)
{
    nf_search_room    *room = job->room;
    const nf_k_index  *index = &job->prepared->index;
    const cudaStream_t stream = room->blocks.stream;
    const uint64_t     units = (uint64_t)room->turns.waves * index->lists;

    NF_CUDA(job->ctx, cudaMemsetAsync(room->counts, 0, (units + 1) * sizeof *room->counts, stream));
    NF_CUDA(job->ctx, cudaMemsetAsync(room->cursor, 0, units * sizeof *room->cursor, stream));
    NF_CUDA(job->ctx, nf_k_list_counts(&room->turns, index->lists, room->counts, stream));
    NF_TRY(sum_up(job, room->counts, units + 1, room->starts));
    NF_CUDA(job->ctx,
            nf_k_pairs_by_list(&room->turns, index->lists, room->starts, room->cursor, room->by_list, stream));
    NF_CUDA(job->ctx, nf_k_list_tiles(index, &room->turns, room->counts, room->tiles, stream));
    NF_TRY(sum_up(job, room->tiles, units + 1, room->tile_starts));
    NF_CUDA(job->ctx,
            nf_k_tile_items(index, &room->turns, room->counts, room->starts, room->tile_starts, room->items, stream));
    return NF_OK;
}

static nf_status plan_scan(search *job)
{
    nf_search_room *room = job->room;
    const uint64_t  pairs = (uint64_t)room->turns.count * room->turns.probes;
    NF_CUDA(job->ctx, nf_k_pair_blocks(&job->prepared->index, &room->turns, room->counts, &room->report->scanned,
                                       room->blocks.stream));
    NF_TRY(sum_up(job, room->counts, pairs + 1, room->turns.mask_start));
    NF_TRY(job->size.tiles ? tile_items(job) : pair_items(job));
    NF_CUDA(job->ctx, nf_k_tops_clear(room->tops, room->turns.count, room->blocks.stream));
    return NF_OK;
}

static nf_status scan_wave(search *job, uint32_t wave)
{
    nf_search_room   *room = job->room;
    const nf_k_turns *turns = &room->turns;
    const uint64_t    first_unit = job->size.tiles ? (uint64_t)wave * job->prepared->index.lists
                                                   : (uint64_t)(wave > 0 ? turns->wave_end[wave - 1] : 0) * turns->count;
    const uint64_t    end_unit = job->size.tiles ? (uint64_t)(wave + 1) * job->prepared->index.lists
                                                 : (uint64_t)turns->wave_end[wave] * turns->count;
    const uint64_t   *starts = job->size.tiles ? room->tile_starts : room->starts;
    const nf_k_scan   scan = {
          .index = &job->prepared->index,
          .queries = &room->queries,
          .turns = turns,
          .precision = job->precision,
          .epsilon0 = (float)job->question->epsilon0,
          .limit = room->tops.limit,
          .allowed = job->question->allowed != NULL ? room->allowed : NULL,
          .wave = wave,
          .items = room->items,
          .first_item = starts + first_unit,
          .end_item = starts + end_unit,
          .most_items = room->most_items,
          .by_list = room->by_list,
          .masks = room->masks,
    };
    const cudaError_t error = (job->size.tiles ? nf_k_scan_tiles : nf_k_scan_pairs)(&scan, room->blocks.stream);
    if (error == cudaErrorInvalidConfiguration) {
        (void)cudaGetLastError();
        return nf_fail(job->ctx, NF_ERR_UNSUPPORTED,
                       "tables of %u dims do not fit into the device's shared memory; use "
                       "another precision",
                       job->prepared->index.dims);
    }
    return nf_cuda_check(job->ctx, error, "scanning short codes");
}

static nf_status mark(search *job, unsigned event)
{
    NF_CUDA(job->ctx, cudaEventRecord(job->room->events[event], job->room->blocks.stream));
    return NF_OK;
}

/* Events: 0 begin, 1 prepared, 2 probed; 3 + 2 wave after its scan, 4 + 2 wave after its ranking. */
static nf_status run_steps(search *job, uint32_t count)
{
    nf_search_room *room = job->room;
    NF_TRY(prepare_queries(job, count));
    NF_TRY(mark(job, 1));
    NF_TRY(probe(job, count));
    NF_TRY(plan_scan(job));
    NF_TRY(mark(job, 2));
    for (uint32_t wave = 0; wave < room->turns.waves; wave++) {
        NF_TRY(scan_wave(job, wave));
        NF_TRY(mark(job, 3 + 2 * wave));
        NF_CUDA(job->ctx, nf_k_rank(&job->prepared->index, &room->queries, &room->turns, wave, room->masks, room->tops,
                                    room->scratch, room->blocks.stream));
        NF_TRY(mark(job, 4 + 2 * wave));
    }
    return NF_OK;
}

static nf_status add_step(search *job, nf_ivf_search_step step, unsigned from, unsigned to)
{
    float milliseconds = 0;
    NF_CUDA(job->ctx, cudaEventElapsedTime(&milliseconds, job->room->events[from], job->room->events[to]));
    job->counters->seconds[step] += (double)milliseconds * 1e-3;
    return NF_OK;
}

static nf_status add_times(search *job)
{
    NF_TRY(add_step(job, NF_IVF_STEP_PREPARE, 0, 1));
    NF_TRY(add_step(job, NF_IVF_STEP_PROBE, 1, 2));
    for (uint32_t wave = 0; wave < job->room->turns.waves; wave++) {
        NF_TRY(add_step(job, NF_IVF_STEP_SCAN, 2 + 2 * wave, 3 + 2 * wave));
        NF_TRY(add_step(job, NF_IVF_STEP_RANK, 3 + 2 * wave, 4 + 2 * wave));
    }
    return NF_OK;
}

/* ---- a batch from the host's index rows, to slots and values ---- */

static nf_status clear_report(search *job)
{
    nf_search_room *room = job->room;
    room->tops.refined = &room->report->refined;
    NF_CUDA(job->ctx, cudaMemsetAsync(room->report, 0, 2 * sizeof room->report->scanned, room->blocks.stream));
    NF_CUDA(job->ctx, cudaMemsetAsync(&room->report->first_invalid, 0xff, sizeof room->report->first_invalid,
                                      room->blocks.stream));
    return NF_OK;
}

/* The last fetch of a batch: afterwards everything is done. */
static nf_status fetch_report(search *job, nf_room_report *report)
{
    NF_TRY(nf_download(job->ctx, job->room->blocks.device, job->room->blocks.stream, report, job->room->report,
                       sizeof *report));
    if (report->first_invalid != UINT64_MAX) return NF_OK;
    job->counters->scanned += report->scanned;
    job->counters->refined += report->refined;
    return add_times(job);
}

static nf_status search_batch(search *job, uint64_t first, uint32_t count)
{
    nf_search_room    *room = job->room;
    const cudaStream_t stream = room->blocks.stream;
    const uint32_t     dims = job->prepared->index.dims;
    const uint64_t     results = (uint64_t)count * job->size.k;
    nf_room_report     report;

    NF_TRY(clear_report(job));
    NF_TRY(mark(job, 0));
    NF_TRY(nf_ivf_upload_floats(job->ctx, &room->blocks, job->rows + first * dims, count, dims, nf_ivf_stride(dims),
                                room->rows));
    NF_TRY(run_steps(job, count));
    NF_CUDA(job->ctx, nf_k_tops_values(room->tops, count, room->slots, room->found, stream));
    NF_TRY(nf_download(job->ctx, room->blocks.device, stream, job->slots + first * job->size.k, room->slots,
                       results * sizeof *room->slots));
    NF_TRY(nf_download(job->ctx, room->blocks.device, stream, job->values + first * job->size.k, room->found,
                       results * sizeof *room->found));
    return fetch_report(job, &report);
}

/* ---- a batch from a matrix, to ids and distances ---- */

/* The caller's stream comes before the search's, for what lies on the device; and after it. */
static nf_status order_streams(search *job, cudaStream_t before, cudaStream_t after)
{
    cudaEvent_t event = job->room->events[NF_ROOM_EVENTS - 1];
    if (job->matrix->place == NF_PLACE_HOST && job->results->place == NF_PLACE_HOST) return NF_OK;
    NF_CUDA(job->ctx, cudaEventRecord(event, before));
    NF_CUDA(job->ctx, cudaStreamWaitEvent(after, event, 0));
    return NF_OK;
}

static nf_status load_matrix(search *job, uint64_t first, uint32_t count)
{
    nf_search_room  *room = job->room;
    const nf_matrix *matrix = job->matrix;
    const uint64_t   row_bytes = matrix->dims * nf_dtype_bytes((nf_dtype)matrix->dtype);
    const uint64_t   pitch = matrix->stride_bytes != 0 ? matrix->stride_bytes : row_bytes;
    const uint8_t   *from = (const uint8_t *)matrix->data + first * pitch;
    nf_k_raw_rows    raw = {.data = from,
                            .stride_bytes = pitch,
                            .dtype = matrix->dtype,
                            .dims = matrix->dims,
                            .metric = job->prepared->index.metric};

    if (matrix->place == NF_PLACE_HOST) {
        NF_TRY(nf_upload_rows(job->ctx, room->blocks.device, room->blocks.stream, room->raw, from, count, row_bytes,
                              pitch));
        raw.data = room->raw;
        raw.stride_bytes = row_bytes;
    }
    NF_CUDA(job->ctx, nf_k_index_rows(raw, NULL, 0, count, job->prepared->mean, job->length, room->rows,
                                      nf_ivf_stride(matrix->dims), job->length > 0.0 ? room->factors : NULL,
                                      &room->report->first_invalid, room->blocks.stream));
    return NF_OK;
}

/* Names the value that the device met in a query: by the host's own look at that row. */
static nf_status name_invalid(search *job, uint64_t row)
{
    const nf_matrix  *matrix = job->matrix;
    const uint64_t    row_bytes = matrix->dims * nf_dtype_bytes((nf_dtype)matrix->dtype);
    const uint64_t    pitch = matrix->stride_bytes != 0 ? matrix->stride_bytes : row_bytes;
    uint8_t          *bytes = nf_alloc(job->ctx, row_bytes, 1);
    float            *values = nf_alloc(job->ctx, matrix->dims, sizeof *values);
    nf_status         status = bytes == NULL || values == NULL ? nf_alloc_status(job->ctx) : NF_OK;
    const nf_matrix   one = {.data = bytes, .rows = 1, .dims = matrix->dims, .dtype = matrix->dtype};
    const nf_ivf_rows rows = {
        .matrix = &one, .what = "queries", .metric = job->prepared->index.metric, .count = 1, .named_from = row};

    if (status >= 0) {
        const cudaError_t error = cudaMemcpyAsync(bytes, (const uint8_t *)matrix->data + row * pitch, row_bytes,
                                                  cudaMemcpyDefault, job->room->blocks.stream);
        status = nf_cuda_check(job->ctx, error, "cudaMemcpyAsync");
    }
    if (status >= 0)
        status = nf_cuda_check(job->ctx, cudaStreamSynchronize(job->room->blocks.stream), "cudaStreamSynchronize");
    if (status >= 0) status = nf_ivf_rows_convert(job->ctx, &rows, NULL, values);
    if (status >= 0)
        status = nf_fail(job->ctx, NF_ERR_INTERNAL, "query %llu is not allowed for the device, but for the host",
                         (unsigned long long)row);
    nf_free(bytes);
    nf_free(values);
    return status;
}

static nf_status deliver(search *job, uint64_t first, uint32_t count)
{
    nf_search_room       *room = job->room;
    const nf_ivf_results *results = job->results;
    nf_device            *device = room->blocks.device;
    const cudaStream_t    stream = room->blocks.stream;
    const uint64_t        begin = first * job->size.k, found = (uint64_t)count * job->size.k;
    const double         *factors = job->length > 0.0 ? room->factors : NULL;
    nf_k_index            index = job->prepared->index;

    index.ids = job->ids;
    if (results->place == NF_PLACE_DEVICE) {
        NF_CUDA(job->ctx,
                nf_k_tops_deliver(&index, room->tops, count, factors, results->ids + begin, results->distances + begin,
                                  results->counts != NULL ? results->counts + first : NULL, room->scratch, stream));
        return NF_OK;
    }
    NF_CUDA(job->ctx, nf_k_tops_deliver(&index, room->tops, count, factors, room->ids, room->found, room->found_counts,
                                        room->scratch, stream));
    NF_TRY(nf_download(job->ctx, device, stream, results->ids + begin, room->ids, found * sizeof *room->ids));
    NF_TRY(nf_download(job->ctx, device, stream, results->distances + begin, room->found, found * sizeof *room->found));
    if (results->counts == NULL) return NF_OK;
    return nf_download(job->ctx, device, stream, results->counts + first, room->found_counts,
                       count * sizeof *room->found_counts);
}

static nf_status answer_batch(search *job, uint64_t first, uint32_t count)
{
    nf_search_room *room = job->room;
    cudaStream_t    callers = job->results->stream;
    nf_room_report  report;

    NF_TRY(clear_report(job));
    NF_TRY(order_streams(job, callers, room->blocks.stream));
    NF_TRY(mark(job, 0));
    NF_TRY(load_matrix(job, first, count));
    NF_TRY(run_steps(job, count));
    NF_TRY(deliver(job, first, count));
    NF_TRY(order_streams(job, room->blocks.stream, callers));
    NF_TRY(fetch_report(job, &report));
    return report.first_invalid == UINT64_MAX ? NF_OK : name_invalid(job, first + report.first_invalid);
}

/* ---- the whole ---- */

/* The ids of the index, at the first search that delivers ids: a build sets them after it has measured the recall. */
static nf_status upload_ids(search *job)
{
    nf_ivf_prepared *prepared = job->prepared;
    const uint64_t   bytes = job->view->rows * (job->view->wide_ids != 0 ? 8 : 4);
    nf_blocks        taken = {.device = prepared->arrays.device, .stream = prepared->arrays.stream};
    void            *ids = NULL;
    nf_status        status = nf_blocks_take(job->ctx, &taken, bytes, 1, &ids);
    if (status >= 0)
        status = nf_upload_rows(job->ctx, taken.device, taken.stream, ids, job->view->ids, 1, bytes, bytes);
    if (status >= 0) status = nf_cuda_check(job->ctx, cudaStreamSynchronize(taken.stream), "cudaStreamSynchronize");
    if (status >= 0) status = nf_blocks_move(job->ctx, &taken, &prepared->arrays);
    nf_blocks_free(&taken);
    if (status >= 0) prepared->ids = ids;
    return status;
}

static nf_status load_ids(search *job)
{
    nf_status status = NF_OK;
    pthread_mutex_lock(&job->prepared->lock);
    if (job->prepared->ids == NULL) status = upload_ids(job);
    job->ids = job->prepared->ids;
    pthread_mutex_unlock(&job->prepared->lock);
    return status;
}

static nf_status run(search *job, uint64_t count, uint64_t raw_bytes, nf_status (*batch)(search *, uint64_t, uint32_t))
{
    NF_TRY(nf_device_enter(job->ctx, job->prepared->arrays.device));
    job->precision = choose_precision(job, count);
    choose_size(job, count, raw_bytes);
    NF_TRY(take_room(job));
    nf_search_room *room = job->room;
    nf_status       status = NF_OK;
    plan_waves(&room->turns, job->size.probes);
    if (job->question->allowed != NULL) {
        const uint64_t bytes = job->prepared->blocks * sizeof(uint32_t);
        status = nf_upload_rows(job->ctx, room->blocks.device, room->blocks.stream, room->allowed,
                                job->question->allowed, 1, bytes, bytes);
    }
    for (uint64_t first = 0, some; status >= 0 && first < count; first += some) {
        some = count - first < job->size.queries ? count - first : job->size.queries;
        status = batch(job, first, (uint32_t)some);
        if (status < 0) break;
        nf_progress_add(job->ctx, some);
        status = nf_progress_poll(job->ctx);
    }
    if (status < 0) (void)cudaStreamSynchronize(room->blocks.stream); /* before the caller's memory goes */
    nf_room_keep(job->prepared, room);
    return status;
}

/* The prepared form is constant but for what it keeps under its lock: ids and workspaces. */
static nf_ivf_prepared *opened(const nf_ivf_prepared *prepared)
{
    return (nf_ivf_prepared *)(uintptr_t)prepared;
}

nf_status nf_cuda_ivf_search(nf_context *ctx, const nf_ivf_view *view, const nf_ivf_prepared *prepared,
                             const float *queries, uint64_t count, const nf_ivf_question *question, uint64_t *slots,
                             float *values, nf_ivf_counters *counters)
{
    search job = {.ctx = ctx,
                  .prepared = opened(prepared),
                  .view = view,
                  .question = question,
                  .counters = counters,
                  .rows = queries,
                  .slots = slots,
                  .values = values};
    if (count == 0) return NF_OK;
    return run(&job, count, 0, search_batch);
}

nf_status nf_cuda_ivf_answer(nf_context *ctx, const nf_ivf_view *view, const nf_ivf_prepared *prepared,
                             const nf_matrix *queries, const nf_ivf_question *question, double length,
                             const nf_ivf_results *results, nf_ivf_counters *counters)
{
    search job = {.ctx = ctx,
                  .prepared = opened(prepared),
                  .view = view,
                  .question = question,
                  .counters = counters,
                  .matrix = queries,
                  .length = length,
                  .results = results};
    if (queries->rows == 0) return NF_OK;
    NF_TRY(nf_device_enter(ctx, prepared->arrays.device));
    NF_TRY(load_ids(&job));
    const uint64_t raw = queries->place == NF_PLACE_HOST ? queries->dims * nf_dtype_bytes((nf_dtype)queries->dtype) : 0;
    return run(&job, queries->rows, raw, answer_batch);
}
