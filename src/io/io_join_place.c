/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting rows at their places. A batch's rows ascend but leave gaps, which other batches fill; each array's bytes for
 * neighbouring rows are gathered in the worker's buffer and written together. Tasks hold about equally many pairs.
 *
 * The CRC of an array is collected on the way (io_crc.h), so nothing is read back. Rows are checked against the places
 * that the counting pass gave them: a row of another length would overwrite its neighbour.
 */
#include <inttypes.h>

#include "core/core_context.h"
#include "core/core_error.h"
#include "core/core_pool.h"
#include "io_join.h"
#include "io_ordered.h"

#define TASK_PAIRS ((uint64_t)1 << 16)

typedef struct batch_job {
    nf_join               *join;
    const nf_radius_batch *batch;
    const int64_t         *offsets;
    int64_t               *lengths; /* measuring */
} batch_job;

/* Bytes gathered for one place of an array. */
typedef struct piece {
    nf_join       *join;
    nf_join_array *array;
    char          *buffer;
    uint64_t       start; /* in the array */
    size_t         fill;
    uint32_t       crc;
} piece;

/* The first row of the batch that begins at pair first or later. */
static uint64_t row_from(const nf_radius_batch *batch, uint64_t first)
{
    uint64_t low = 0, high = batch->rows;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if ((uint64_t)batch->indptr[middle] < first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint64_t task_count(const nf_radius_batch *batch)
{
    return batch->pairs / TASK_PAIRS + 1;
}

/* The rows of a task: first row and the one after the last. */
static uint64_t task_rows(const nf_radius_batch *batch, uint64_t task, uint64_t *end)
{
    *end = task + 1 < task_count(batch) ? row_from(batch, (task + 1) * TASK_PAIRS) : batch->rows;
    return task > 0 ? row_from(batch, task * TASK_PAIRS) : 0;
}

static char *worker_buffer(const nf_join *join, uint32_t worker)
{
    return join->buffers + worker * NF_IO_BUFFER_BYTES;
}

static nf_status piece_flush(piece *at)
{
    const size_t   bytes = at->fill;
    const uint64_t end = at->start + bytes;

    if (bytes == 0) return NF_OK;
    if (end > at->array->bytes) return nf_fail(at->join->ctx, NF_ERR_INTERNAL, "pairs go beyond the counted ones");
    if (at->join->crc_table != NULL) {
        at->crc ^= nf_crc_move(at->join->crc_table, nf_crc_bytes(at->buffer, bytes), at->array->bytes - end);
    }
    NF_TRY(nf_output_write_at(&at->join->out, at->array->offset + at->start, at->buffer, bytes));
    at->start = end;
    at->fill = 0;
    return NF_OK;
}

static nf_status piece_go_to(piece *at, uint64_t place)
{
    if (place == at->start + at->fill) return NF_OK;
    NF_TRY(piece_flush(at));
    at->start = place;
    return NF_OK;
}

/* Encodes one row of the batch at its place, in parts that fit the buffer. */
static nf_status piece_put_row(piece *at, const nf_radius_batch *batch, uint64_t row)
{
    const int64_t  query_id = nf_id_of(&at->join->queries, (uint64_t)batch->query_ids[row]);
    const uint64_t last = (uint64_t)batch->indptr[row + 1];

    for (uint64_t first = (uint64_t)batch->indptr[row]; first < last;) {
        if (NF_IO_BUFFER_BYTES - at->fill < at->array->pair_bytes) NF_TRY(piece_flush(at));
        const uint64_t room = (NF_IO_BUFFER_BYTES - at->fill) / at->array->pair_bytes;
        const uint64_t part = last - first < room ? last - first : room;
        char *const    begin = at->buffer + at->fill;
        at->fill += (size_t)(at->array->encode(at->join, batch, query_id, first, first + part, begin) - begin);
        first += part;
    }
    return NF_OK;
}

/* Where a row begins and ends in an array, by the offsets. */
static nf_status row_place(const batch_job *job, const nf_join_array *array, uint64_t row, uint64_t *begin,
                           uint64_t *end)
{
    const int32_t query = job->batch->query_ids[row];

    if (query < 0 || (uint64_t)query >= job->join->source->queries) {
        return nf_fail(job->join->ctx, NF_ERR_INTERNAL, "query %" PRId32 " of a batch does not exist", query);
    }
    const uint64_t unit = array->variable ? 1 : array->pair_bytes;
    *begin = (uint64_t)job->offsets[query] * unit;
    *end = (uint64_t)job->offsets[query + 1] * unit;
    return NF_OK;
}

static nf_status place_rows(const batch_job *job, nf_join_array *array, uint64_t row, uint64_t end_row, char *buffer)
{
    piece    at = {.join = job->join, .array = array, .buffer = buffer};
    uint64_t begin = 0, end = 0;

    for (; row < end_row; row++) {
        NF_TRY(row_place(job, array, row, &begin, &end));
        NF_TRY(piece_go_to(&at, begin));
        NF_TRY(piece_put_row(&at, job->batch, row));
        if (at.start + at.fill != end) {
            return nf_fail(job->join->ctx, NF_ERR_INTERNAL, "query %" PRId32 " has other pairs than were counted",
                           job->batch->query_ids[row]);
        }
    }
    NF_TRY(piece_flush(&at));
    atomic_fetch_xor(&array->crc, at.crc);
    return NF_OK;
}

static nf_status place_task(void *arg, uint64_t task, uint32_t worker)
{
    const batch_job *job = arg;
    uint64_t         end;
    const uint64_t   row = task_rows(job->batch, task, &end);

    for (uint32_t i = 0; i < job->join->array_count; i++) {
        NF_TRY(place_rows(job, &job->join->arrays[i], row, end, worker_buffer(job->join, worker)));
    }
    if (job->join->own_progress && row < end) {
        nf_progress_add(job->join->ctx, (uint64_t)(job->batch->indptr[end] - job->batch->indptr[row]));
    }
    return NF_OK;
}

nf_status nf_join_place(nf_join *join, const nf_radius_batch *batch, const int64_t *offsets)
{
    batch_job job = {.join = join, .batch = batch, .offsets = offsets};
    return nf_pool_run(join->ctx, place_task, &job, task_count(batch));
}

/* The bytes of a row as text: encoded into the buffer and forgotten. */
static uint64_t measure_row(const nf_join *join, const nf_radius_batch *batch, uint64_t row, char *buffer)
{
    const nf_join_array *array = &join->arrays[0];
    const uint64_t       room = NF_IO_BUFFER_BYTES / array->pair_bytes;
    const int64_t        query_id = nf_id_of(&join->queries, (uint64_t)batch->query_ids[row]);
    const uint64_t       last = (uint64_t)batch->indptr[row + 1];
    uint64_t             bytes = 0;

    for (uint64_t first = (uint64_t)batch->indptr[row]; first < last; first += room) {
        const uint64_t part_end = last - first < room ? last : first + room;
        bytes += (uint64_t)(array->encode(join, batch, query_id, first, part_end, buffer) - buffer);
    }
    return bytes;
}

static nf_status measure_task(void *arg, uint64_t task, uint32_t worker)
{
    const batch_job *job = arg;
    uint64_t         end;

    for (uint64_t row = task_rows(job->batch, task, &end); row < end; row++) {
        const int32_t query = job->batch->query_ids[row];
        if (query < 0 || (uint64_t)query >= job->join->source->queries) {
            return nf_fail(job->join->ctx, NF_ERR_INTERNAL, "query %" PRId32 " of a batch does not exist", query);
        }
        job->lengths[query] = (int64_t)measure_row(job->join, job->batch, row, worker_buffer(job->join, worker));
    }
    return NF_OK;
}

nf_status nf_join_measure(nf_join *join, const nf_radius_batch *batch, int64_t *lengths)
{
    batch_job job = {.join = join, .batch = batch, .lengths = lengths};
    return nf_pool_run(join->ctx, measure_task, &job, task_count(batch));
}

/* Encodes the pairs of a task, which may begin and end inside a row. */
static nf_status append_task(const void *arg, uint64_t task, char *buffer, size_t *length, nf_error *error)
{
    const batch_job       *job = arg;
    const nf_radius_batch *batch = job->batch;
    const nf_join_array   *array = &job->join->arrays[0];
    const uint64_t         room = NF_IO_BUFFER_BYTES / array->pair_bytes;
    const uint64_t         end = batch->pairs - task * room < room ? batch->pairs : (task + 1) * room;
    uint64_t               row = row_from(batch, task * room + 1) - 1; /* the last one that begins at or before */
    char                  *out = buffer;

    (void)error;
    for (uint64_t first = task * room; first < end; row++) {
        const uint64_t row_end = (uint64_t)batch->indptr[row + 1];
        const uint64_t last = row_end < end ? row_end : end;
        const int64_t  query_id = nf_id_of(&job->join->queries, (uint64_t)batch->query_ids[row]);
        if (last > first) out = array->encode(job->join, batch, query_id, first, last, out);
        if (last > first) first = last;
    }
    *length = (size_t)(out - buffer);
    return NF_OK;
}

nf_status nf_join_append(nf_join *join, const nf_radius_batch *batch)
{
    const batch_job job = {.join = join, .batch = batch};
    const uint64_t  room = NF_IO_BUFFER_BYTES / join->arrays[0].pair_bytes;

    NF_TRY(nf_output_append(&join->out, join->header, join->header_bytes));
    const uint64_t tasks = (batch->pairs + room - 1) / room;
    return nf_ordered_append(&join->out, append_task, &job, tasks, join->buffers, batch->pairs);
}
