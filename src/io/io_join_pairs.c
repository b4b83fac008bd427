/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a stream of batches to a file in query order.
 *
 * Where the first batch has all queries, the file is written from it. Otherwise the result is larger than memory: the
 * stream is closed, a first pass learns how long each query's row is (the number of pairs; for text, of bytes), sums
 * over them give each row its place, and a second pass puts the batches' rows there. Both ways give the same bytes.
 * What the writer needs beside the batches: one buffer per thread, taken before the stream plans its memory, and for
 * the second way 8 bytes per query.
 */
#include <inttypes.h>

#include "core/core_context.h"
#include "core/core_error.h"
#include "core/core_memory.h"
#include "core/core_pool.h"
#include "io_join.h"
#include "io_ordered.h"

/* Text, and .npy where bytes cannot be positioned, go in order when all pairs are there. */
static bool appends(const nf_join *join)
{
    if (join->format == NF_WRITE_NPZ || join->format == NF_WRITE_BIN) return false;
    return join->format != NF_WRITE_NPY || !nf_output_is_regular(&join->out);
}

static uint64_t file_bytes(const nf_join *join)
{
    if (join->format == NF_WRITE_NPZ) return nf_npz_bytes(&join->npz);
    if (join->format == NF_WRITE_BIN) return join->arrays[1].offset + join->arrays[1].bytes;
    return join->header_bytes + join->arrays[0].bytes;
}

static nf_status prepare_places(nf_join *join)
{
    NF_TRY(nf_output_positioned(&join->out));
    return nf_output_reserve(&join->out, file_bytes(join));
}

static nf_status write_at_once(nf_join *join, const nf_radius_batch *batch)
{
    NF_TRY(nf_join_plan_file(join, batch->pairs, 0));
    nf_progress_begin(join->ctx, "write", batch->pairs);
    join->own_progress = true;
    if (appends(join)) return nf_join_append(join, batch);
    NF_TRY(prepare_places(join));
    NF_TRY(nf_join_place(join, batch, batch->indptr));
    return nf_join_finish_file(join, batch->indptr);
}

/* Writes the batch that has all queries, and ends the stream. */
static nf_status write_whole(nf_join *join, const nf_radius_batch *batch, nf_radius_stats *stats)
{
    const nf_join_source *source = join->source;
    const double          begin = nf_now();
    nf_radius_batch       more;

    NF_TRY(write_at_once(join, batch));
    join->write_seconds += nf_now() - begin;
    const nf_status status = source->next(source->self, &more);
    if (status == NF_MORE) return nf_fail(join->ctx, NF_ERR_INTERNAL, "rows were delivered twice");
    if (status == NF_OK) source->stats(source->self, stats);
    return status;
}

/* Keeps the time of a pass that is not the last. */
static void close_early(nf_join *join)
{
    nf_radius_stats stats = {.struct_size = sizeof stats};
    join->source->stats(join->source->self, &stats);
    join->source->close(join->source->self);
    join->query_seconds += stats.seconds;
}

typedef nf_status (*batch_fn)(nf_join *join, const nf_radius_batch *batch, int64_t *places);

static nf_status measure_batch(nf_join *join, const nf_radius_batch *batch, int64_t *places)
{
    return nf_join_measure(join, batch, places);
}

static nf_status place_batch(nf_join *join, const nf_radius_batch *batch, int64_t *places)
{
    return nf_join_place(join, batch, places);
}

/* Runs a pass over all batches; the stream stays open. Stores the number of pairs. */
static nf_status run_pass(nf_join *join, batch_fn use, int64_t *places, uint64_t *pairs)
{
    const nf_join_source *source = join->source;
    nf_radius_batch       batch;
    nf_status             status;

    *pairs = 0;
    NF_TRY(source->open(source->self));
    while ((status = source->next(source->self, &batch)) == NF_MORE) {
        const double begin = nf_now();
        NF_TRY(use(join, &batch, places));
        join->write_seconds += nf_now() - begin;
        *pairs += batch.pairs;
    }
    return status;
}

/* Learns the length of each query's row: pairs, or bytes of text. */
static nf_status measure_rows(nf_join *join, int64_t *lengths, uint64_t *pairs)
{
    const nf_join_source *source = join->source;
    nf_radius_stats       stats = {.struct_size = sizeof stats};

    if (join->arrays[0].variable) {
        NF_TRY(run_pass(join, measure_batch, lengths, pairs));
        close_early(join);
        return NF_OK;
    }
    NF_TRY(source->counts(source->self, (uint64_t *)lengths, &stats));
    join->query_seconds += stats.seconds;
    *pairs = 0;
    for (uint64_t i = 0; i < source->queries; i++) *pairs += (uint64_t)lengths[i];
    return NF_OK;
}

/* Turns lengths into what comes before each row. Returns the sum. */
static uint64_t sum_up(int64_t *lengths, uint64_t count)
{
    int64_t before = 0;
    for (uint64_t i = 0; i <= count; i++) {
        const int64_t length = i < count ? lengths[i] : 0;
        lengths[i] = before;
        before += length;
    }
    return (uint64_t)before;
}

static nf_status pass_twice(nf_join *join, int64_t *places, nf_radius_stats *stats)
{
    const nf_join_source *source = join->source;
    uint64_t              pairs = 0, placed = 0;

    NF_TRY(measure_rows(join, places, &pairs));
    NF_TRY(nf_join_plan_file(join, pairs, sum_up(places, source->queries)));
    NF_TRY(prepare_places(join));
    NF_TRY(run_pass(join, place_batch, places, &placed));
    source->stats(source->self, stats);
    source->close(source->self);
    if (placed != pairs) {
        return nf_fail(join->ctx, NF_ERR_INTERNAL, "%" PRIu64 " pairs came, %" PRIu64 " were counted", placed, pairs);
    }
    const double begin = nf_now();
    const nf_status status = nf_join_finish_file(join, places);
    join->write_seconds += nf_now() - begin;
    return status;
}

static nf_status write_in_passes(nf_join *join, nf_radius_stats *stats)
{
    int64_t *places = nf_alloc_zero(join->ctx, join->source->queries + 1, sizeof *places);
    if (places == NULL) return nf_alloc_status(join->ctx);
    const nf_status status = pass_twice(join, places, stats);
    nf_free(places);
    return status;
}

static nf_status write_stream(nf_join *join, nf_radius_stats *stats)
{
    static const int64_t  nothing[1] = {0};
    const nf_join_source *source = join->source;
    nf_radius_batch       batch = {.indptr = nothing, .distances_as = source->distances_as};

    NF_TRY(source->open(source->self));
    const nf_status status = source->next(source->self, &batch);
    if (status < 0) return status;
    if (status == NF_OK && source->queries == 0) {
        batch = (nf_radius_batch){.indptr = nothing, .distances_as = source->distances_as};
        return write_whole(join, &batch, stats);
    }
    if (status == NF_MORE && batch.rows == source->queries) return write_whole(join, &batch, stats);
    close_early(join);
    return write_in_passes(join, stats);
}

nf_status nf_join_write_pairs(nf_join *join, nf_radius_stats *stats)
{
    nf_context *ctx = join->ctx;

    nf_join_plan_arrays(join);
    join->buffers = nf_alloc(ctx, nf_context_threads(ctx), NF_IO_BUFFER_BYTES);
    if (join->buffers == NULL) return nf_alloc_status(ctx);
    if (join->format == NF_WRITE_NPZ) {
        join->crc_table = nf_alloc(ctx, 1, sizeof *join->crc_table);
        if (join->crc_table == NULL) return nf_alloc_status(ctx);
        nf_crc_table_fill(join->crc_table);
    }
    const nf_status status = write_stream(join, stats);
    join->source->close(join->source->self);
    if (status == NF_OK) stats->seconds += join->query_seconds;
    return status;
}
