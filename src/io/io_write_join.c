/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a join. The file is opened first, so that a name that cannot be written shows before the work; then counts or
 * pairs are written from a source (io_join.h), which here is the public interface for radius queries.
 */
#include "core/core_context.h"
#include "core/core_error.h"
#include "core/core_memory.h"
#include "io_join.h"

#define PAIR_FORMATS (NF_WRITE_NPZ | NF_WRITE_NPY | NF_WRITE_TEXT | NF_WRITE_BIN)
#define COUNT_FORMATS (NF_WRITE_NPY | NF_WRITE_TEXT)

static nf_status write_content(nf_join *join, const nf_write_params *params, nf_radius_stats *stats)
{
    const bool      self_join = join->source->self_join;
    const bool      of_file = (self_join ? params->data_ids : params->query_ids) != NULL ||
                         (self_join ? params->data_rows : params->query_rows) != 0;
    nf_radius_stats unasked = {.struct_size = sizeof unasked};

    if (stats == NULL) stats = &unasked;
    return params->counts != 0 ? nf_join_write_counts(join, of_file, stats) : nf_join_write_pairs(join, stats);
}

static nf_status commit(nf_join *join, bool sync)
{
    const double    begin = nf_now();
    const nf_status status = nf_output_commit(&join->out, sync);
    join->write_seconds += nf_now() - begin;
    return status;
}

nf_status nf_join_write(nf_context *ctx, const nf_join_source *source, const char *path, const nf_write_params *params,
                        const nf_join_limits *limits, nf_radius_stats *stats, double *write_seconds)
{
    nf_write_params use;
    nf_join         join = {.ctx = ctx, .source = source, .limits = *limits};
    atomic_bool     overflow = false;

    if (write_seconds != NULL) *write_seconds = 0;
    NF_TRY(nf_write_params_take(ctx, params, &use));
    NF_TRY(nf_write_format_choose(ctx, path, &use, use.counts != 0 ? COUNT_FORMATS : PAIR_FORMATS, &join.format));
    NF_TRY(nf_join_map_ids(&join, &use));
    join.overflow = &overflow;
    join.separator = nf_write_separator(join.format);

    NF_TRY(nf_output_open(ctx, path, &join.out));
    nf_status status = write_content(&join, &use, stats);
    if (status == NF_OK) status = commit(&join, use.sync != 0);
    nf_output_discard(&join.out);
    nf_free(join.crc_table);
    nf_free(join.buffers);
    if (write_seconds != NULL) *write_seconds = join.write_seconds;
    return status;
}

/* The real source: one call of nf_write_join. */
typedef struct radius_call {
    nf_context             *ctx;
    const nf_radius_index  *index;
    const nf_matrix        *queries;
    const nf_radius_params *params;
    nf_radius_stream       *stream;
} radius_call;

static nf_status call_counts(void *self, uint64_t *counts, nf_radius_stats *stats)
{
    const radius_call *call = self;
    return nf_radius_counts(call->ctx, call->index, call->queries, call->params, counts, stats);
}

static nf_status call_open(void *self)
{
    radius_call *call = self;
    return nf_radius_open(call->ctx, call->index, call->queries, call->params, &call->stream);
}

static nf_status call_next(void *self, nf_radius_batch *batch)
{
    const radius_call *call = self;
    return nf_radius_next(call->stream, batch);
}

static void call_stats(void *self, nf_radius_stats *stats)
{
    const radius_call *call = self;
    nf_radius_stream_stats(call->stream, stats);
}

static void call_close(void *self)
{
    radius_call *call = self;
    nf_radius_close(call->stream);
    call->stream = NULL;
}

nf_status nf_write_join(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                        const nf_radius_params *params, const char *path, const nf_write_params *write,
                        nf_radius_stats *stats, double *write_seconds)
{
    radius_call    call = {ctx, index, queries, params, NULL};
    nf_join_source source = {call_counts, call_open, call_next, call_stats, call_close, .self = &call};
    const nf_join_limits limits = {NF_ZIP64_LIMIT, INT32_MAX};

    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    if (index == NULL || params == NULL || path == NULL) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "nf_write_join needs an index, parameters and a path");
    }
    nf_radius_index_describe(index, &source.rows, NULL, NULL);
    source.queries = queries != NULL ? queries->rows : source.rows;
    source.distances_as = params->distances;
    source.self_join = queries == NULL;
    return nf_join_write(ctx, &source, path, write, &limits, stats, write_seconds);
}
