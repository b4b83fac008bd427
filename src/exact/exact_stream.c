/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: steps plan_batches, list_hits, refine, compress and deliver, batch after batch of complete rows.
 *
 * The first batch tries all groups: in a self-join one batch decides every pair of groups once. When its pairs do not fit
 * the limit, nothing of it is used and half the groups are tried; what fitted is tried next time, and more where there was
 * room. So results of any size pass through bounded memory, and none is lost.
 */
#include <string.h>

#include "exact_cosine.h"
#include "exact_plan.h"
#include "exact_private.h"

struct nf_radius_stream {
    nf_question    question;
    nf_owned_batch batch;      /* handed out by next */
    uint32_t       at;         /* first group not yet delivered */
    uint32_t       try_groups;
    bool           ended_early; /* the engine ended the last batch before all that was asked for */
    bool           failed;
};

static uint32_t distance_bytes(const nf_radius_params *params)
{
    return params->distances == NF_DISTANCES_F64 ? 8 : params->distances == NF_DISTANCES_F32 ? 4 : 0;
}

void nf_owned_batch_free(nf_owned_batch *batch)
{
    nf_free(batch->query_ids);
    nf_free(batch->indptr);
    nf_free(batch->indices);
    nf_free(batch->distances);
    memset(batch, 0, sizeof *batch);
}

/* Whether a kept pair is delivered to two rows. */
static bool both_directions(const nf_question *question)
{
    return question->own_queries == NULL && question->params.half == 0;
}

/* Bytes of pairs that memory allows a batch of that many groups to keep. */
static uint64_t memory_limit(const nf_question *question, uint32_t groups)
{
    const nf_memory *memory = nf_context_memory(question->ctx);
    const uint64_t   used = nf_memory_used(memory), limit = nf_memory_limit(memory);
    const uint64_t   per_group = (question->rows + question->groups - 1) / question->groups;
    return nf_plan_pair_bytes(limit > used ? limit - used : 0, per_group * groups, both_directions(question) ? 2 : 1,
                              distance_bytes(&question->params));
}

/* The same, or less where the caller asks for smaller batches. */
static uint64_t pair_limit(const nf_question *question, uint32_t groups)
{
    const uint64_t bytes = memory_limit(question, groups), asked = question->params.batch_pairs;
    const uint64_t directions = both_directions(question) ? 2 : 1;
    return asked != 0 && asked < bytes / 4 * directions ? asked * 4 / directions : bytes;
}

static nf_status too_large(const nf_question *question)
{
    const uint64_t limit = nf_memory_limit(nf_context_memory(question->ctx));
    return nf_fail(question->ctx, NF_ERR_LIMIT, "the memory limit of %llu bytes is too small for the result",
                   (unsigned long long)limit);
}

/* Refines one batch, keeping at most limit bytes. The engine may end it sooner. */
static nf_status try_batch(nf_question *question, nf_batch *batch, uint64_t limit, bool *overflow)
{
    const nf_engine_ops *ops = question->index->ops;
    double               started = nf_now();

    nf_progress_begin(question->ctx, "list_hits", batch->end - batch->begin);
    NF_TRY(ops->list_hits(question->ctx, question->search, *batch));
    nf_question_account(question, NF_STEP_LIST_HITS, started);

    started = nf_now();
    nf_progress_begin(question->ctx, "refine", batch->end - batch->begin);
    NF_TRY(ops->refine(question->ctx, question->search, batch, limit, overflow));
    nf_question_account(question, NF_STEP_REFINE, started);
    return NF_OK;
}

/* Refines a batch of the size that fits: half as many groups each time that it does not. Rows stay whole, so that a single
 * group may have more pairs than the caller asked for in a batch; only memory limits it. */
static nf_status refine_batch(nf_radius_stream *stream, bool whole, nf_batch *batch)
{
    nf_question *question = &stream->question;
    bool         only_memory = whole;

    for (;;) {
        const uint32_t left = question->groups - stream->at;
        const uint32_t groups = stream->try_groups < left ? stream->try_groups : left;
        const uint64_t most = memory_limit(question, groups);
        const uint64_t limit = only_memory ? most : pair_limit(question, groups);
        const double   started = nf_now();
        bool           overflow = most == 0;

        *batch = nf_plan_batch(question->list_bytes, question->groups, stream->at, groups, limit);
        nf_question_account(question, NF_STEP_PLAN_BATCHES, started);
        const uint32_t asked = batch->end;
        if (most > 0) NF_TRY(try_batch(question, batch, limit, &overflow));
        stream->ended_early = stream->ended_early || batch->end < asked;
        if (!overflow) return NF_OK;
        if (whole && !stream->ended_early) return too_large(question); /* else its batches are put together anyway */
        const uint32_t tried = batch->end - batch->begin;
        if (tried > 1) {
            stream->try_groups = nf_plan_groups(tried, limit, limit, true);
        } else if (limit < most) {
            only_memory = true;
            stream->try_groups = 1;
        } else {
            return too_large(question);
        }
    }
}

static nf_status allocate_rows(const nf_question *question, nf_batch batch, nf_owned_batch *out)
{
    out->rows = question->index->ops->batch_rows(question->search, batch);
    out->query_ids = nf_alloc(question->ctx, out->rows, sizeof *out->query_ids);
    out->indptr = nf_alloc(question->ctx, out->rows + 1, sizeof *out->indptr);
    return out->query_ids != NULL && out->indptr != NULL ? NF_OK : nf_alloc_status(question->ctx);
}

static nf_status allocate_pairs(const nf_question *question, nf_owned_batch *out)
{
    out->pairs = (uint64_t)out->indptr[out->rows];
    out->indices = nf_alloc(question->ctx, out->pairs, sizeof *out->indices);
    if (out->indices == NULL) return nf_alloc_status(question->ctx);
    if (question->params.distances == NF_DISTANCES_NONE) return NF_OK;
    out->distances = nf_alloc(question->ctx, out->pairs, distance_bytes(&question->params));
    return out->distances != NULL ? NF_OK : nf_alloc_status(question->ctx);
}

static nf_status deliver_batch(nf_radius_stream *stream, nf_batch batch, nf_owned_batch *out)
{
    nf_question         *question = &stream->question;
    const nf_engine_ops *ops = question->index->ops;
    double               started = nf_now();

    NF_TRY(allocate_rows(question, batch, out));
    nf_progress_begin(question->ctx, "compress", 0);
    NF_TRY(ops->compress(question->ctx, question->search, batch, out->query_ids, out->indptr));
    nf_question_account(question, NF_STEP_COMPRESS, started);
    NF_TRY(nf_question_check_limit(question, question->stats.pairs + (uint64_t)out->indptr[out->rows]));

    started = nf_now();
    NF_TRY(allocate_pairs(question, out));
    nf_progress_begin(question->ctx, "deliver", 0);
    NF_TRY(ops->deliver(question->ctx, question->search, batch, out->indptr, out->indices, out->distances,
                        (nf_distances)question->params.distances, (nf_sort)question->params.sort));
    if (question->index->metric == NF_METRIC_COSINE) NF_TRY(nf_question_finish_cosine(question, out));
    nf_question_account(question, NF_STEP_DELIVER, started);
    return NF_OK;
}

/* How many groups to try next: as many as fitted, or more where there was room. Where the engine ended the batch, what is
 * left is cut into batches of that size or less, all alike. */
static void plan_next(nf_radius_stream *stream, nf_batch batch, const nf_search_info *info)
{
    const nf_question *question = &stream->question;
    const uint32_t     done = batch.end - batch.begin, left = question->groups - batch.end;

    stream->at = batch.end;
    if (stream->ended_early) {
        const uint32_t batches = left / done + (left % done != 0 ? 1 : 0);
        stream->try_groups = batches > 0 ? (left + batches - 1) / batches : done;
    } else {
        stream->try_groups = nf_plan_groups(done, info->kept_bytes, pair_limit(question, done), false);
    }
}

/* The last batch of a stream: the empty rows of queries of zeros, of which the engine knows nothing. */
static nf_status next_zero_rows(nf_radius_stream *stream, nf_owned_batch *out)
{
    nf_question *question = &stream->question;
    if (question->zeros_done || question->stats.zero_queries == 0) return NF_OK;
    const nf_status status = nf_question_merge_zero_rows(question, out);
    if (status < 0) {
        nf_owned_batch_free(out);
        stream->failed = true;
        return status;
    }
    for (uint64_t i = 0; i < out->rows; i++) nf_question_add_row(question, 0);
    question->stats.batches++;
    return NF_MORE;
}

nf_status nf_stream_next_owned(nf_radius_stream *stream, bool whole, nf_owned_batch *out)
{
    nf_question *question = &stream->question;
    nf_batch     batch;

    memset(out, 0, sizeof *out);
    if (stream->at == question->groups) return next_zero_rows(stream, out);
    nf_status      status = refine_batch(stream, whole, &batch);
    nf_search_info info = {0};
    if (status >= 0) question->index->ops->search_info(question->search, &info);
    if (status >= 0) status = deliver_batch(stream, batch, out);
    if (status >= 0 && whole && out->rows == question->rows) status = nf_question_merge_zero_rows(question, out);
    if (status < 0) {
        nf_owned_batch_free(out);
        stream->failed = true;
        return status;
    }
    for (uint64_t i = 0; i < out->rows; i++) nf_question_add_row(question, (uint64_t)(out->indptr[i + 1] - out->indptr[i]));
    question->stats.batches++;
    plan_next(stream, batch, &info);
    return NF_MORE;
}

nf_question *nf_stream_question(nf_radius_stream *stream)
{
    return &stream->question;
}

uint32_t nf_stream_at(const nf_radius_stream *stream)
{
    return stream->at;
}

void nf_stream_seek(nf_radius_stream *stream, uint32_t begin, uint32_t count)
{
    stream->at = begin;
    stream->try_groups = count;
    stream->ended_early = false;
}

nf_status nf_stream_counts(nf_radius_stream *stream, uint64_t *counts)
{
    nf_question         *question = &stream->question;
    const nf_engine_ops *ops = question->index->ops;
    const nf_batch       everything = {0, question->groups};
    const double         started = nf_now();
    nf_search_info       before, after;

    ops->search_info(question->search, &before);
    memset(counts, 0, question->rows * sizeof *counts);
    nf_progress_begin(question->ctx, "refine", question->groups);
    NF_TRY(ops->refine_counts(question->ctx, question->search, everything, counts));
    ops->search_info(question->search, &after);
    question->aside.hits += after.counters.hits - before.counters.hits;
    question->aside.compared += after.counters.compared - before.counters.compared;
    question->aside.rechecked += after.counters.rechecked - before.counters.rechecked;
    question->aside.ties += after.counters.ties - before.counters.ties;
    nf_question_spread_counts(question, counts);
    nf_question_account(question, NF_STEP_REFINE, started);
    return NF_OK;
}

nf_status nf_radius_open(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                         const nf_radius_params *params, nf_radius_stream **out)
{
    if (ctx == NULL || out == NULL) return NF_ERR_ARGUMENT;
    *out = NULL;
    nf_context_begin(ctx);
    nf_radius_stream *stream = nf_alloc_zero(ctx, 1, sizeof *stream);
    if (stream == NULL) return nf_alloc_status(ctx);
    nf_status status = nf_question_open(ctx, index, queries, params, &stream->question);
    if (status >= 0 && stream->question.params.stop_at != 0) {
        nf_question_close(&stream->question);
        status = nf_fail(ctx, NF_ERR_ARGUMENT, "stop_at is for counts alone");
    }
    if (status < 0) {
        nf_free(stream);
        return status;
    }
    stream->try_groups = UINT32_MAX;
    *out = stream;
    return NF_OK;
}

nf_status nf_radius_next(nf_radius_stream *stream, nf_radius_batch *batch)
{
    if (stream == NULL || batch == NULL) return NF_ERR_ARGUMENT;
    nf_owned_batch *owned = &stream->batch;
    memset(batch, 0, sizeof *batch);
    nf_owned_batch_free(owned);
    nf_context_begin(stream->question.ctx);
    if (stream->failed) return nf_fail(stream->question.ctx, NF_ERR_STATE, "the stream has failed before; it can only be closed");

    const nf_status status = nf_stream_next_owned(stream, false, owned);
    *batch = (nf_radius_batch){
        .rows = owned->rows,
        .pairs = owned->pairs,
        .query_ids = owned->query_ids,
        .indptr = owned->indptr,
        .indices = owned->indices,
        .distances = owned->distances,
        .distances_as = stream->question.params.distances,
    };
    return status;
}

void nf_radius_stream_stats(const nf_radius_stream *stream, nf_radius_stats *stats)
{
    nf_question_stats(&stream->question, stats);
}

void nf_radius_close(nf_radius_stream *stream)
{
    if (stream == NULL) return;
    nf_owned_batch_free(&stream->batch);
    nf_question_close(&stream->question);
    nf_free(stream);
}
