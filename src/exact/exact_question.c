/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a query: checks, the queries' own points, first_intersection_test; and its statistics. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exact_cosine.h"
#include "exact_private.h"

static const char *const step_names[NF_STEP_COUNT] = {
    "select_dims", "group",  "order",    "first_intersection_test", "plan_batches",
    "list_hits",   "refine", "compress", "deliver",
};

const char *nf_radius_step_name(uint32_t step)
{
    return step < NF_STEP_COUNT ? step_names[step] : NULL;
}

const char *nf_candidates_name(uint32_t candidates)
{
    static const char *const names[] = {"auto", "rt", "bvh", "boxes", "none"};
    return candidates < sizeof names / sizeof names[0] ? names[candidates] : "unknown";
}

void nf_radius_params_init(nf_radius_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->similarity = NAN;
    params->inner_radius = -1.0;
}

static nf_status check_choice(nf_context *ctx, const char *name, uint32_t value, uint32_t most)
{
    if (value <= most) return NF_OK;
    return nf_fail(ctx, NF_ERR_ARGUMENT, "%s is %u, allowed are 0 to %u", name, value, most);
}

/* What params ask beyond one radius. */
static nf_status check_radii(nf_context *ctx, const nf_radius_params *params)
{
    const bool inner = params->inner_radius != -1.0;
    if (inner && !(params->inner_radius >= 0.0)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "inner_radius is %g, a number of at least 0 is needed, or -1 for none",
                       params->inner_radius);
    }
    if (params->radii != NULL) {
        if (inner) return nf_fail(ctx, NF_ERR_ARGUMENT, "inner_radius and radii do not go together");
        if (params->half != 0) {
            return nf_fail(ctx, NF_ERR_ARGUMENT, "half needs one radius: with radii a self-join is not symmetric");
        }
    } else if (inner && params->inner_radius > params->radius) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "inner_radius is %g, above the radius %g", params->inner_radius,
                       params->radius);
    }
    return NF_OK;
}

static nf_status check_params(nf_context *ctx, const nf_radius_params *params, bool self_join)
{
    NF_TRY(check_radii(ctx, params));
    NF_TRY(check_choice(ctx, "candidates", params->candidates, NF_CANDIDATES_NONE));
    NF_TRY(check_choice(ctx, "refine", params->refine, NF_REFINE_INT8));
    NF_TRY(check_choice(ctx, "distances", params->distances, NF_DISTANCES_NONE));
    NF_TRY(check_choice(ctx, "sort", params->sort, NF_SORT_DISTANCE));
    NF_TRY(check_choice(ctx, "tile", params->share, NF_SHARE_NONE));
    NF_TRY(check_choice(ctx, "result", params->result, NF_RESULT_APPEND));
    NF_TRY(check_choice(ctx, "group-bounds", params->group_bounds, NF_BOUNDS_SPHERE));
    if (!self_join && (params->self != 0 || params->half != 0)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s needs a self-join, but queries are given",
                       params->self != 0 ? "self" : "half");
    }
    return NF_OK;
}

/* A radius per query: each is checked, and the largest is what the engine takes for the search's. */
static nf_status take_each_radius(nf_question *question, uint64_t queries)
{
    const double *radii = question->params.radii;
    for (uint64_t q = 0; q < queries; q++) {
        if (!(radii[q] >= 0.0)) {
            return nf_fail(question->ctx, NF_ERR_ARGUMENT, "radius %llu of radii is %g, a number of at least 0 is needed",
                           (unsigned long long)q, radii[q]);
        }
        if (radii[q] > question->radius) question->radius = radii[q];
    }
    return NF_OK;
}

/* The radius for the engine. */
static nf_status take_radius(nf_question *question, uint64_t queries)
{
    const nf_radius_params *params = &question->params;
    if (question->index->metric == NF_METRIC_COSINE) {
        if (params->inner_radius != -1.0 || params->radii != NULL) {
            return nf_fail(question->ctx, NF_ERR_UNSUPPORTED, "%s needs an index of metric l2, not cosine",
                           params->radii != NULL ? "radii" : "inner_radius");
        }
        return nf_exact_cosine_radius(question->ctx, params->radius, params->similarity, &question->radius, &question->most);
    }
    if (!isnan(params->similarity)) {
        return nf_fail(question->ctx, NF_ERR_ARGUMENT, "similarity is %g, but the index is of metric l2, not cosine",
                       params->similarity);
    }
    if (params->radii != NULL) return take_each_radius(question, queries);
    if (!(params->radius >= 0.0)) {
        return nf_fail(question->ctx, NF_ERR_ARGUMENT, "radius is %g, a number of at least 0 is needed", params->radius);
    }
    question->radius = params->radius;
    return NF_OK;
}

static nf_status check_abilities(const nf_question *question)
{
    const nf_engine_ops *ops = question->index->ops;
    if (question->params.inner_radius >= 0.0 && (ops->abilities & NF_CAN_INNER) == 0) {
        return nf_fail(question->ctx, NF_ERR_UNSUPPORTED,
                       "inner_radius: the %s engine can count such pairs, but not deliver them", ops->name);
    }
    if (question->params.radii != NULL && (ops->abilities & NF_CAN_RADII) == 0) {
        return nf_fail(question->ctx, NF_ERR_UNSUPPORTED, "radii: the %s engine takes one radius for all queries",
                       ops->name);
    }
    return NF_OK;
}

static nf_status load_queries(nf_question *question, const nf_matrix *queries)
{
    const nf_radius_index *index = question->index;
    NF_TRY(nf_exact_check_matrix(question->ctx, queries, "queries"));
    if (queries->dims != index->dims) {
        return nf_fail(question->ctx, NF_ERR_ARGUMENT, "queries have %u dims, the data have %u", queries->dims, index->dims);
    }
    nf_unit_rows unit = {0};
    nf_memory   *memory = nf_context_memory(question->ctx);
    const double started = nf_now();
    if (index->metric == NF_METRIC_COSINE) {
        NF_TRY(nf_exact_unit_rows(question->ctx, queries, "queries", memory, &unit));
        question->stats.step_seconds[NF_STEP_SELECT_DIMS] += nf_now() - started;
        question->own_kept = unit.kept;
        question->stats.zero_queries = unit.zero_rows;
        queries = &unit.matrix;
    }
    const nf_status status = nf_exact_build_points(question->ctx, index->ops, queries, index->points, 0, memory,
                                                   question->stats.step_seconds, &question->own_queries);
    nf_free(unit.values);
    return status;
}

static void begin_stats(nf_question *question)
{
    nf_radius_stats *stats = &question->stats;
    const double    *build = question->index->step_seconds;
    stats->struct_size = sizeof *stats;
    stats->rows = question->index->rows;
    stats->dims = question->index->dims;
    stats->zero_rows = stats->zero_queries = question->index->zero_rows; /* a semi-join's queries are still to come */
    stats->refine = "";
    for (uint32_t step = 0; step < NF_STEP_COUNT; step++) {
        stats->step_seconds[step] = build[step];
        stats->build_seconds += build[step];
    }
}

/* An engine that stores no lists leaves all bytes 0: then there is nothing to plan by. */
static void drop_empty_lists(nf_question *question)
{
    for (uint32_t g = 0; g < question->groups; g++) {
        if (question->list_bytes[g] != 0) return;
    }
    nf_free(question->list_bytes);
    question->list_bytes = NULL;
}

static nf_status open_search(nf_question *question, bool self_join)
{
    const nf_radius_index  *index = question->index;
    const nf_radius_params *params = &question->params;
    const nf_search_spec    spec = {
           .radius = question->radius,
           .candidates = params->candidates,
           .refine = params->refine,
           .self_join = self_join,
           .keep_self = params->self != 0,
           .half = params->half != 0,
           .strict = params->strict != 0,
           .share = params->share,
           .result = params->result,
           .bounds = params->group_bounds,
           .no_early_exit = params->no_early_exit != 0,
           .inner_radius = params->inner_radius,
           .radii = params->radii,
           .stop_at = params->stop_at,
    };
    const nf_points *queries = self_join ? index->points : question->own_queries;
    nf_points_info   info;
    double           started = nf_now();

    index->ops->points_describe(queries, &info);
    question->rows = info.rows;
    question->kept = self_join ? index->kept : question->own_kept;
    question->all_rows = question->stats.queries = info.rows + question->stats.zero_queries;
    question->groups = info.groups;
    question->list_bytes = nf_alloc_zero(question->ctx, info.groups, sizeof *question->list_bytes);
    if (question->list_bytes == NULL) return nf_alloc_status(question->ctx);
    NF_TRY(index->ops->search_open(question->ctx, index->points, queries, &spec, &question->search));
    nf_progress_begin(question->ctx, "first_intersection_test", question->groups);
    NF_TRY(index->ops->first_intersection_test(question->ctx, question->search, question->list_bytes));
    nf_question_account(question, NF_STEP_FIRST_INTERSECTION_TEST, started);
    drop_empty_lists(question);
    return NF_OK;
}

nf_status nf_question_open(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                           const nf_radius_params *params, nf_question *question)
{
    memset(question, 0, sizeof *question);
    nf_context_begin(ctx);
    question->ctx = ctx;
    question->index = index;
    if (index == NULL || params == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "index or params are NULL");
    if (params->struct_size < sizeof params->struct_size) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "struct_size of the radius parameters is %zu; use nf_radius_params_init",
                       params->struct_size);
    }
    nf_radius_params_init(&question->params);
    memcpy(&question->params, params,
           params->struct_size < sizeof *params ? params->struct_size : sizeof question->params);
    begin_stats(question);

    const double started = nf_now();
    nf_status    status = check_params(ctx, &question->params, queries == NULL);
    if (status >= 0) status = check_abilities(question);
    if (status >= 0) status = take_radius(question, queries != NULL ? queries->rows : index->rows);
    if (status >= 0 && queries != NULL) status = load_queries(question, queries);
    question->stats.seconds += nf_now() - started;
    if (status >= 0) status = open_search(question, queries == NULL);
    if (status < 0) nf_question_close(question);
    return status;
}

void nf_question_close(nf_question *question)
{
    if (question->search != NULL) question->index->ops->search_close(question->search);
    if (question->own_queries != NULL) question->index->ops->points_close(question->own_queries);
    nf_free(question->list_bytes);
    nf_free(question->own_kept);
    question->own_kept = NULL;
    question->search = NULL;
    question->own_queries = NULL;
    question->list_bytes = NULL;
}

/* An engine that lists hits and compacts inside refine says how long these took. */
static void move_seconds(nf_question *question, const nf_search_info *info)
{
    double *seconds = question->stats.step_seconds;
    seconds[NF_STEP_REFINE] -= info->list_seconds - question->list_seconds;
    seconds[NF_STEP_REFINE] -= info->compress_seconds - question->compress_seconds;
    seconds[NF_STEP_LIST_HITS] += info->list_seconds - question->list_seconds;
    seconds[NF_STEP_COMPRESS] += info->compress_seconds - question->compress_seconds;
    question->list_seconds = info->list_seconds;
    question->compress_seconds = info->compress_seconds;
}

void nf_question_account(nf_question *question, nf_step step, double started)
{
    nf_radius_stats *stats = &question->stats;
    nf_search_info   info;
    const double     seconds = nf_now() - started;

    stats->seconds += seconds;
    stats->step_seconds[step] += seconds;
    question->index->ops->search_info(question->search, &info);
    move_seconds(question, &info);
    stats->device_batches = info.batches;
    stats->candidates = info.candidates;
    snprintf(stats->why, sizeof stats->why, "%s", info.why);
    stats->refine = info.refine;
    stats->hits = info.counters.hits - question->aside.hits;
    stats->compared = info.counters.compared - question->aside.compared;
    stats->rechecked = info.counters.rechecked - question->aside.rechecked;
    stats->ties = info.counters.ties - question->aside.ties;
}

void nf_question_add_row(nf_question *question, uint64_t neighbours)
{
    uint32_t bin = neighbours == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(neighbours);
    if (bin >= NF_HISTOGRAM_BINS) bin = NF_HISTOGRAM_BINS - 1;
    question->stats.histogram[bin]++;
    question->stats.pairs += neighbours;
}

nf_status nf_question_check_limit(nf_question *question, uint64_t pairs)
{
    const uint64_t most = question->params.max_results;
    if (most == 0 || pairs <= most) return NF_OK;
    return nf_fail(question->ctx, NF_ERR_LIMIT, "max_results is %llu, but there are at least %llu pairs",
                   (unsigned long long)most, (unsigned long long)pairs);
}

void nf_question_stats(const nf_question *question, nf_radius_stats *out)
{
    if (out == NULL) return;
    const size_t size = out->struct_size != 0 && out->struct_size < sizeof *out ? out->struct_size : sizeof *out;
    memcpy(out, &question->stats, size);
    out->struct_size = size;
}
