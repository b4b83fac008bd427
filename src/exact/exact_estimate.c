/* SPDX-License-Identifier: Apache-2.0 */
/* What a join will give and take: pairs from a sample of queries, time from runs of query groups. */
#include <math.h>
#include <string.h>

#include "exact_private.h"
#include "exact_sample.h"

#define RUNS 8u
#define STUDENT_7 2.365 /* 97.5 % of Student's distribution with RUNS - 1 degrees of freedom */
#define NORMAL 1.960
#define LEAST_SECONDS 0.25 /* of all runs: shorter ones say more of the machine's other work than of the join */
#define NPZ_HEADERS 1157u  /* of its five members and the directory, without zip64 */
#define NPY_HEADER 128u

typedef struct estimate_run {
    nf_context            *ctx;
    const nf_radius_index *index;
    const nf_matrix       *queries;
    nf_radius_params       params;
    nf_sample_params       sample;
    nf_join_estimate       found;
    uint64_t               used; /* while the search is open: with the queries' own points */
} estimate_run;

/* ---- pairs ---- */

static nf_status take_params(estimate_run *run, const nf_radius_params *params)
{
    if (params == NULL) return nf_fail(run->ctx, NF_ERR_ARGUMENT, "params are NULL");
    if (params->struct_size < sizeof params->struct_size) {
        return nf_fail(run->ctx, NF_ERR_ARGUMENT,
                       "struct_size of the radius parameters is %zu; use nf_radius_params_init", params->struct_size);
    }
    nf_radius_params_init(&run->params);
    memcpy(&run->params, params, params->struct_size < sizeof *params ? params->struct_size : sizeof *params);
    run->params.struct_size = sizeof run->params;
    run->params.max_results = run->params.batch_pairs = 0;
    if (!run->sample.self_join && (params->self || params->half)) {
        return nf_fail(run->ctx, NF_ERR_ARGUMENT, "%s needs a self-join", params->self ? "self" : "half");
    }
    return NF_OK;
}

/* Pairs (i, i) that are delivered. */
static double self_pairs(const estimate_run *run)
{
    const double radius = isnan(run->params.similarity) ? run->params.radius : 1.0 - run->params.similarity;
    if (!run->params.self || (run->params.strict && radius == 0.0)) return 0.0;
    return (double)(run->index->rows - run->index->zero_rows);
}

static nf_status estimate_pairs(estimate_run *run)
{
    nf_radius_params  plain = run->params;
    nf_matrix         sample;
    void             *values = NULL;
    nf_join_estimate *found = &run->found;

    plain.self = plain.half = 0;
    NF_TRY(nf_sample_copy(run->ctx, run->queries, &run->sample, &values, &sample));
    uint64_t *counts = nf_alloc(run->ctx, sample.rows, sizeof *counts);
    nf_status status = counts != NULL ? NF_OK : nf_alloc_status(run->ctx);
    if (status >= 0) {
        status = nf_sample_counts(run->ctx, run->index, &sample, &plain, run->sample.self_join != 0, counts);
    }
    if (status >= 0) nf_sample_mean(counts, sample.rows, found->queries, &found->selectivity, &found->standard_error);
    nf_free(counts);
    nf_free(values);
    NF_TRY(status);

    const double scale = (double)found->queries * (run->params.half ? 0.5 : 1.0), self = self_pairs(run);
    const double most = scale * (double)(run->index->rows - (run->sample.self_join ? 1 : 0));
    const double margin = isnan(found->standard_error) ? most : NORMAL * found->standard_error * scale;
    found->pairs = found->selectivity * scale + self;
    found->pairs_low = fmax(found->pairs - margin, self);
    found->pairs_high = fmin(found->pairs + margin, most + self);
    return NF_OK;
}

/* ---- time ---- */

typedef struct run_time {
    double search, deliver; /* list_hits and refine; the rest */
} run_time;

static run_time time_so_far(const nf_question *question)
{
    const double *seconds = question->stats.step_seconds;
    return (run_time){seconds[NF_STEP_LIST_HITS] + seconds[NF_STEP_REFINE],
                      seconds[NF_STEP_PLAN_BATCHES] + seconds[NF_STEP_COMPRESS] + seconds[NF_STEP_DELIVER]};
}

/* Makes the rows of groups begin to end, in as many batches as it takes, and keeps none. */
static nf_status make_run(nf_radius_stream *stream, uint32_t begin, uint32_t end, run_time *took)
{
    const run_time before = time_so_far(nf_stream_question(stream));
    for (uint32_t at = begin; at < end;) {
        nf_owned_batch batch;
        nf_stream_seek(stream, at, end - at);
        const nf_status status = nf_stream_next_owned(stream, false, &batch);
        nf_owned_batch_free(&batch);
        NF_TRY(status);
        at = nf_stream_at(stream);
    }
    const run_time after = time_so_far(nf_stream_question(stream));
    *took = (run_time){after.search - before.search, after.deliver - before.deliver};
    return NF_OK;
}

/* One run in each of RUNS equal parts of the groups. Time for all groups: mean and half an interval; and for the runs.
 */
static nf_status time_runs(estimate_run *run, nf_radius_stream *stream, uint32_t length, double *mean, double *margin,
                           double *took_all)
{
    const uint32_t groups = nf_stream_question(stream)->groups;
    const bool     halves = run->sample.self_join != 0 && run->params.half == 0;
    double         sum = 0.0, squares = 0.0;

    *took_all = 0.0;
    for (uint32_t part = 0; part < RUNS; part++) {
        const uint64_t begin = (uint64_t)groups * part / RUNS, end = (uint64_t)groups * (part + 1) / RUNS;
        uint64_t       offset = 0;
        run_time       took;
        nf_sample_numbers(end - begin - length + 1, 1, run->sample.seed + part, &offset);
        NF_TRY(make_run(stream, (uint32_t)(begin + offset), (uint32_t)(begin + offset) + length, &took));
        const double scaled = (took.search * (halves ? 0.5 : 1.0) + took.deliver) / (double)length;
        *took_all += took.search + took.deliver;
        sum += scaled;
        squares += scaled * scaled;
    }
    const double variance = fmax(squares - sum * sum / RUNS, 0.0) / (RUNS - 1);
    *mean = sum / RUNS * (double)groups;
    *margin = STUDENT_7 * sqrt(variance / RUNS) * (double)groups;
    return NF_OK;
}

/* Runs of so many groups, or longer ones where these take next to no time. */
static nf_status time_part(estimate_run *run, nf_radius_stream *stream, uint64_t length)
{
    const uint64_t groups = nf_stream_question(stream)->groups;
    double         mean, margin, took;
    for (;;) {
        NF_TRY(time_runs(run, stream, (uint32_t)length, &mean, &margin, &took));
        if (took >= LEAST_SECONDS || 4 * length >= groups / RUNS) break;
        length *= took < LEAST_SECONDS / 4 ? 4 : 2;
    }
    run->found.seconds_low = run->found.seconds + fmax(mean - margin, 0.0);
    run->found.seconds_high = run->found.seconds + mean + margin;
    run->found.seconds += mean;
    return NF_OK;
}

static nf_status estimate_time(estimate_run *run)
{
    nf_radius_stream *stream = NULL;
    run_time          took = {0};
    nf_status         status = NF_OK;

    NF_TRY(nf_radius_open(run->ctx, run->index, run->sample.self_join ? NULL : run->queries, &run->params, &stream));
    const nf_question *question = nf_stream_question(stream);
    run->found.build_seconds = question->stats.build_seconds;
    run->found.seconds = question->stats.seconds;
    run->used = nf_memory_used(nf_context_memory(run->ctx));
    const uint64_t groups = question->groups, rows = question->rows > 0 ? question->rows : 1;
    const uint64_t wanted = (run->sample.rows * groups + rows - 1) / rows, length = (wanted + RUNS - 1) / RUNS;
    if (length < groups / RUNS) {
        status = time_part(run, stream, length > 0 ? length : 1);
    } else { /* a part may be as short as that: the whole is no more work */
        status = make_run(stream, 0, (uint32_t)groups, &took);
        run->found.seconds += took.search + took.deliver;
        run->found.seconds_low = run->found.seconds_high = run->found.seconds;
    }
    nf_radius_close(stream);
    return status;
}

/* ---- bytes ---- */

static void estimate_bytes(estimate_run *run)
{
    nf_join_estimate *found = &run->found;
    const nf_memory  *memory = nf_context_memory(run->ctx);
    const uint32_t    kind = run->params.distances;
    const uint64_t    distance = kind == NF_DISTANCES_F64 ? 8 : kind == NF_DISTANCES_F32 ? 4 : 0;
    const uint64_t    pairs = (uint64_t)(found->pairs + 0.5), offsets = found->queries + 1, most = INT32_MAX;
    const uint64_t    wide = pairs > most || found->queries > most || run->index->rows > most ? 8 : 4;
    const uint64_t    limit = nf_memory_limit(memory);

    found->result_bytes = 8 * offsets + pairs * (4 + distance);
    found->npz_bytes = NPZ_HEADERS + wide * offsets + pairs * (wide + (distance > 0 ? distance : 1));
    found->npy_bytes = NPY_HEADER + pairs * 2 * 4;
    const uint64_t working =
        run->used + found->result_bytes + 2 * pairs; /* pairs are packed while they wait: radius.h */
    found->peak_bytes = nf_memory_used(run->index->memory) + (working < limit ? working : limit);
}

nf_status nf_radius_estimate(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                             const nf_radius_params *params, const nf_sample_params *sample, nf_join_estimate *out)
{
    if (ctx == NULL || out == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    estimate_run run = {.ctx = ctx, .index = index, .queries = queries};
    NF_TRY(nf_sample_check(ctx, index, queries, sample, &run.sample));
    NF_TRY(take_params(&run, params));
    run.found.struct_size = sizeof run.found;
    run.found.sampled = run.sample.rows;
    run.found.queries = queries->rows;
    NF_TRY(estimate_pairs(&run));
    NF_TRY(estimate_time(&run));
    estimate_bytes(&run);
    const size_t size = out->struct_size != 0 && out->struct_size < sizeof *out ? out->struct_size : sizeof *out;
    memcpy(out, &run.found, size);
    out->struct_size = size;
    return NF_OK;
}
