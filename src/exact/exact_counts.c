/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions that keep no pair: counts per query, and pairs within each of several radii.
 *
 * What an engine has no operation for is put together from plain counts: those at an inner radius are taken off those
 * at the outer one, whose pairs they are a part of; a histogram takes one pass per radius.
 */
#include <string.h>

#include "exact_cosine.h"
#include "exact_private.h"

/* Takes params apart: NF_ERR_ARGUMENT where they are none. Short structs get the defaults of what they lack. */
static nf_status take_params(nf_context *ctx, const nf_radius_params *from, nf_radius_params *to)
{
    size_t given = 0;
    nf_radius_params_init(to);
    if (from == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "index or params are NULL");
    memcpy(&given, from, sizeof given);
    if (given < sizeof given) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "struct_size of the radius parameters is %zu; use nf_radius_params_init",
                       given);
    }
    memcpy(to, from, given < sizeof *to ? given : sizeof *to);
    to->struct_size = sizeof *to;
    return NF_OK;
}

/* Whether the inner radius has to be taken off here. */
static bool subtracts(const nf_radius_index *index, const nf_radius_params *params)
{
    return params->inner_radius >= 0.0 && params->inner_radius <= params->radius && params->radii == NULL &&
           (index->ops->abilities & NF_CAN_INNER) == 0;
}

/* Counts at the inner radius, taken off counts. */
static nf_status subtract_inner(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                const nf_radius_params *params, uint64_t rows, uint64_t *counts)
{
    nf_radius_params inner = *params;
    uint64_t        *within = nf_alloc(ctx, rows, sizeof *within);
    if (within == NULL) return nf_alloc_status(ctx);
    inner.radius = params->inner_radius;
    inner.inner_radius = -1.0;
    inner.stop_at = inner.max_results = 0;
    const nf_status status = nf_radius_counts(ctx, index, queries, &inner, within, NULL);
    for (uint64_t i = 0; status >= 0 && i < rows; i++) counts[i] -= within[i];
    nf_free(within);
    return status;
}

static nf_status count_all(nf_question *question, uint64_t *counts)
{
    const nf_batch everything = {0, question->groups};
    const double   started = nf_now();
    nf_status      status;

    memset(counts, 0, question->rows * sizeof *counts);
    nf_progress_begin(question->ctx, "refine", question->groups);
    status = question->index->ops->refine_counts(question->ctx, question->search, everything, counts);
    nf_question_account(question, NF_STEP_REFINE, started);
    question->stats.batches = 1;
    return status;
}

/* Adds the counts to the statistics. */
static nf_status finish_counts(nf_question *question, uint64_t stop_at, uint64_t *counts)
{
    nf_question_spread_counts(question, counts);
    for (uint64_t i = 0; i < question->all_rows; i++) {
        if (stop_at != 0 && counts[i] > stop_at) counts[i] = stop_at;
        nf_question_add_row(question, counts[i]);
    }
    return nf_question_check_limit(question, question->stats.pairs);
}

nf_status nf_radius_counts(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                           const nf_radius_params *params, uint64_t *counts, nf_radius_stats *stats)
{
    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_question      question;
    nf_radius_params asked;

    nf_context_begin(ctx);
    NF_TRY(take_params(ctx, params, &asked));
    const uint64_t   stop_at = asked.stop_at;
    const bool       subtract = index != NULL && subtracts(index, &asked);
    nf_radius_params outer = asked;
    if (subtract) { /* the whole counts are needed */
        outer.inner_radius = -1.0;
        outer.stop_at = 0;
    }
    NF_TRY(nf_question_open(ctx, index, queries, &outer, &question));

    nf_status status = NF_OK;
    if (counts == NULL && question.all_rows > 0) status = nf_fail(ctx, NF_ERR_ARGUMENT, "counts is NULL");
    if (status >= 0 && question.rows > 0) status = count_all(&question, counts);
    if (status >= 0 && subtract) status = subtract_inner(ctx, index, queries, &asked, question.all_rows, counts);
    if (status >= 0) status = finish_counts(&question, stop_at, counts);
    nf_question_stats(&question, stats);
    nf_question_close(&question);
    return status;
}

/* ---- histogram ---- */

static nf_status check_histogram(nf_context *ctx, const nf_radius_params *params, const double *radii, uint32_t count,
                                 const uint64_t *pairs)
{
    if (radii == NULL || pairs == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "radii or pairs are NULL");
    if (count < 1 || count > NF_MAX_HISTOGRAM_RADII) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "radius_count is %u, allowed are 1 to %u", count, NF_MAX_HISTOGRAM_RADII);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!(radii[i] >= 0.0)) {
            return nf_fail(ctx, NF_ERR_ARGUMENT, "radius %u of the histogram is %g, a number of at least 0 is needed",
                           i, radii[i]);
        }
        if (i > 0 && radii[i] < radii[i - 1]) {
            return nf_fail(ctx, NF_ERR_ARGUMENT, "radii must ascend, but %g comes after %g", radii[i], radii[i - 1]);
        }
    }
    if (params->inner_radius != -1.0 || params->radii != NULL || params->stop_at != 0) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "a histogram takes neither inner_radius nor radii nor stop_at");
    }
    return NF_OK;
}

/* Adds what a pass at a smaller radius has done to the statistics of the largest. */
static void add_work(nf_radius_stats *to, const nf_radius_stats *from)
{
    to->seconds += from->seconds;
    to->hits += from->hits;
    to->compared += from->compared;
    to->rechecked += from->rechecked;
    to->batches += from->batches;
    to->device_batches += from->device_batches;
    for (uint32_t step = NF_STEP_FIRST_INTERSECTION_TEST; step < NF_STEP_COUNT; step++) {
        to->step_seconds[step] += from->step_seconds[step];
    }
}

/* One pass per radius, the largest first: its statistics are the call's. */
static nf_status pass_per_radius(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                 nf_radius_params *params, const double *radii, uint32_t count, uint64_t *pairs,
                                 uint64_t *counts, nf_radius_stats *whole)
{
    for (uint32_t i = count; i-- > 0;) {
        if (i + 1 < count && radii[i] == radii[i + 1]) {
            pairs[i] = pairs[i + 1];
            continue;
        }
        nf_radius_stats stats = {.struct_size = sizeof stats};
        params->radius = radii[i];
        NF_TRY(nf_radius_counts(ctx, index, queries, params, counts, &stats));
        pairs[i] = stats.pairs;
        if (i + 1 == count) {
            *whole = stats;
        } else {
            add_work(whole, &stats);
        }
    }
    return NF_OK;
}

/* One pass of the engine. */
static nf_status single_pass(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                             nf_radius_params *params, const double *radii, uint32_t count, uint64_t *pairs,
                             nf_radius_stats *whole)
{
    nf_question question;
    nf_status   status = NF_OK;

    params->radius = radii[count - 1];
    NF_TRY(nf_question_open(ctx, index, queries, params, &question));
    memset(pairs, 0, count * sizeof *pairs);
    if (question.rows > 0) {
        const nf_batch everything = {0, question.groups};
        const double   started = nf_now();
        nf_progress_begin(ctx, "refine", question.groups);
        status = index->ops->refine_histogram(ctx, question.search, everything, radii, count, pairs);
        nf_question_account(&question, NF_STEP_REFINE, started);
        question.stats.batches = 1;
    }
    question.stats.pairs = pairs[count - 1];
    *whole = question.stats;
    nf_question_close(&question);
    return status;
}

nf_status nf_radius_histogram(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                              const nf_radius_params *params, const double *radii, uint32_t radius_count,
                              uint64_t *pairs, nf_radius_stats *stats)
{
    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_radius_params asked;
    nf_question      copy = {.ctx = ctx};

    nf_context_begin(ctx);
    if (index == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "index or params are NULL");
    NF_TRY(take_params(ctx, params, &asked));
    NF_TRY(check_histogram(ctx, &asked, radii, radius_count, pairs));
    if (index->metric != NF_METRIC_L2) return nf_fail(ctx, NF_ERR_UNSUPPORTED, "a histogram needs an index of metric l2");
    asked.max_results = 0;
    if (index->ops->refine_histogram != NULL) {
        const nf_status done = single_pass(ctx, index, queries, &asked, radii, radius_count, pairs, &copy.stats);
        if (done >= 0) nf_question_stats(&copy, stats);
        return done;
    }
    uint64_t *counts = nf_alloc(ctx, (queries != NULL ? queries->rows : index->rows) + 1, sizeof *counts);
    if (counts == NULL) return nf_alloc_status(ctx);
    const nf_status status =
        pass_per_radius(ctx, index, queries, &asked, radii, radius_count, pairs, counts, &copy.stats);
    nf_free(counts);
    if (status >= 0) nf_question_stats(&copy, stats);
    return status;
}
