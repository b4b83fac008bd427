/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps first_intersection_test and list_hits: which queries reach which groups (RT-HiSS, section IV-D, in software).
 *
 * The queries of one group walk the hierarchy of boxes together; at a group's box each query is tested by itself.
 *
 *   bvh    the paper's test: the query lies in the group's box grown by the radius, in the 3 index dims.
 *   boxes  tighter: gap between the query group's box and the group's box in all dims, then distance of centroids less
 *          both spreads, then each query against the grown box in the first dims.
 *   none   every query hits every group.
 *
 * Every test errs to the side of a hit:
 *  - grown bounds are RN(low - radius) and RN(high + radius). Rounding to nearest is monotone and fixes representable
 *    numbers, so a query q >= low - radius (in real numbers) has RN(q) >= RN(low - radius); the same for high.
 *  - gaps and centroid distances are computed in binary32 with a relative error of at most (d + 3) 2^-24, and each square
 *    may be 2^-150 too large where it underflows; a pair is given up only when the result exceeds the square of its bound by
 *    4 (d + 8) 2^-24 of it and (d + 8) 2^-149. An overflow to infinity is right: the true value is beyond a finite bound.
 */
#include "cpu_hits.h"

#include <math.h>
#include <stdio.h>

#include "core/core_pool.h"

#define BOX_DIMS 8u /* dims of the test of single queries with method boxes */
#define SAMPLE_GROUPS 64u /* query groups that first_intersection_test looks at */

typedef struct walk {
    nf_context      *ctx;
    const nf_search *search;
    nf_hit_list     *list;
    nf_group_range   skip;
    uint32_t         query_group;
    const float     *query_box;      /* of the query group */
    uint64_t         all_queries;
    double           radius;         /* of the query that reaches farthest */
    uint32_t         test_dims;      /* dims of the test of single queries */
    double           widening;       /* of a squared bound, for the rounding of what is compared with it */
    double           underflow;      /* added to it, for squares that are rounded up to a subnormal number */
    float            give_up_square; /* radius^2, widened */
    float            columns[BOX_DIMS * NF_TILE];
} walk;

static uint64_t low_bits(uint32_t count)
{
    return count >= 64 ? ~0ull : (1ull << count) - 1;
}

/* The first dims of the group's queries, dimension by dimension. Missing rows are masked by all_queries. */
static void load_columns(walk *at, double *row_values)
{
    const nf_points *queries = at->search->queries;
    const uint32_t   begin = queries->group_start[at->query_group];
    const uint32_t   count = nf_cpu_group_size(queries, at->query_group);

    for (uint32_t row = 0; row < NF_TILE; row++) {
        if (row < count) nf_cpu_row_f64(queries, begin + row, row_values);
        for (uint32_t k = 0; k < at->test_dims; k++) {
            at->columns[k * NF_TILE + row] = row < count ? (float)row_values[queries->dim_order[k]] : 0.0f;
        }
    }
}

static nf_status add_hit(walk *at, uint32_t group, uint64_t queries)
{
    nf_hit_list *list = at->list;
    nf_hit      *last = list->count > 0 ? &list->hits[list->count - 1] : NULL;

    list->query_hits += (uint64_t)__builtin_popcountll(queries);
    if (last != NULL && queries == at->all_queries && last->queries == queries && last->group + last->run == group) {
        last->run++;
        return NF_OK;
    }
    if (list->count == list->capacity) {
        const uint32_t capacity = list->capacity == 0 ? 256 : 2 * list->capacity;
        nf_hit        *larger = nf_alloc(at->ctx, capacity, sizeof *larger);
        if (larger == NULL) return nf_alloc_status(at->ctx);
        for (uint32_t i = 0; i < list->count; i++) larger[i] = list->hits[i];
        nf_free(list->hits);
        list->hits = larger;
        list->capacity = capacity;
    }
    list->hits[list->count++] = (nf_hit){.group = group, .run = 1, .queries = queries};
    return NF_OK;
}

/* Whether the query group's box, grown by the radius, meets the box in the index dims. */
static bool meets_in_index_dims(const walk *at, const float *box)
{
    const uint32_t dims = at->search->data->dims;
    const double   radius = at->radius;
    for (uint32_t k = 0; k < at->test_dims; k++) {
        const float low = (float)((double)box[k] - radius), high = (float)((double)box[dims + k] + radius);
        if (at->query_box[dims + k] < low || at->query_box[k] > high) return false;
    }
    return true;
}

/* Whether two boxes are within the radius, in all dims. */
static bool meets_in_all_dims(const walk *at, const float *box)
{
    return !(at->search->kernels->gap_square(at->query_box, box, at->search->data->dims) > at->give_up_square);
}

/* Whether the balls around two groups are within the radius. */
static bool balls_meet(const walk *at, uint32_t group)
{
    const nf_points *data = at->search->data, *queries = at->search->queries;
    const uint32_t   dims = data->dims;
    const float     *a = data->centroid + (size_t)group * dims;
    const float     *b = queries->centroid + (size_t)at->query_group * dims;
    const double reach = at->radius + (double)data->spread[group] + (double)queries->spread[at->query_group];

    return !(at->search->kernels->distance_square(a, b, dims) > (float)(reach * reach * at->widening + at->underflow));
}

static nf_status visit_group(walk *at, uint32_t group)
{
    const nf_points *data = at->search->data;
    const float     *box = nf_cpu_box(data, 0, group);
    const double     radius = at->radius;
    float            low[BOX_DIMS], high[BOX_DIMS];

    if (at->search->candidates == NF_CANDIDATES_BOXES && !balls_meet(at, group)) return NF_OK;
    for (uint32_t k = 0; k < at->test_dims; k++) {
        low[k] = (float)((double)box[k] - radius);
        high[k] = (float)((double)box[data->dims + k] + radius);
    }
    const uint64_t queries =
        at->search->kernels->rows_in_box(at->columns, low, high, at->test_dims) & at->all_queries;
    return queries != 0 ? add_hit(at, group, queries) : NF_OK;
}

/* Whether every group below a box is to be skipped. */
static bool skipped(const walk *at, uint32_t level, uint32_t box)
{
    uint64_t first = box, last = (uint64_t)box + 1;
    for (uint32_t l = 0; l < level; l++) {
        first *= NF_FANOUT;
        last *= NF_FANOUT;
    }
    return first >= at->skip.from && last <= at->skip.to;
}

static nf_status visit(walk *at, uint32_t level, uint32_t box)
{
    if (skipped(at, level, box)) return NF_OK;
    const float *bounds = nf_cpu_box(at->search->data, level, box);
    const bool   meets = at->search->candidates == NF_CANDIDATES_BVH ? meets_in_index_dims(at, bounds)
                                                                     : meets_in_all_dims(at, bounds);
    if (!meets) return NF_OK;
    if (level == 0) return visit_group(at, box);

    const uint32_t below = at->search->data->level[level - 1].count;
    const uint32_t end = (box + 1) * NF_FANOUT < below ? (box + 1) * NF_FANOUT : below;
    for (uint32_t child = box * NF_FANOUT; child < end; child++) NF_TRY(visit(at, level - 1, child));
    return NF_OK;
}

static nf_status list_everything(walk *at)
{
    const uint32_t groups = at->search->data->group_count;
    for (uint32_t group = 0; group < groups; group++) {
        if (group >= at->skip.from && group < at->skip.to) {
            group = at->skip.to - 1;
            continue;
        }
        NF_TRY(add_hit(at, group, at->all_queries));
    }
    return NF_OK;
}

nf_status nf_cpu_list_group_hits(nf_context *ctx, const nf_search *search, uint32_t query_group, nf_group_range skip,
                                 nf_hit_list *list)
{
    walk at = {
        .ctx = ctx,
        .search = search,
        .list = list,
        .skip = skip,
        .query_group = query_group,
        .query_box = nf_cpu_box(search->queries, 0, query_group),
        .radius = nf_cpu_group_radius(search, query_group),
        .all_queries = low_bits(nf_cpu_group_size(search->queries, query_group)),
    };
    const uint32_t most = search->candidates == NF_CANDIDATES_BVH ? NF_INDEX_DIMS : BOX_DIMS;

    list->count = 0;
    list->query_hits = 0;
    if (search->candidates == NF_CANDIDATES_NONE) return list_everything(&at);
    at.test_dims = search->data->dims < most ? search->data->dims : most;
    at.widening = 1.0 + 4.0 * ((double)search->data->dims + 8.0) * 0x1p-24;
    at.underflow = ((double)search->data->dims + 8.0) * 0x1p-149;
    at.give_up_square = (float)(at.radius * at.radius * at.widening + at.underflow);

    double *row_values = nf_alloc(ctx, search->data->dims, sizeof *row_values);
    if (row_values == NULL) return nf_alloc_status(ctx);
    load_columns(&at, row_values);
    nf_free(row_values);

    const uint32_t top = search->data->level_count - 1;
    for (uint32_t box = 0; box < search->data->level[top].count; box++) NF_TRY(visit(&at, top, box));
    return NF_OK;
}

void nf_hit_list_free(nf_hit_list *list)
{
    nf_free(list->hits);
    *list = (nf_hit_list){0};
}

typedef struct test_run {
    nf_context          *ctx;
    nf_search           *search;
    nf_hit_list         *lists; /* per worker */
    uint32_t             stride; /* every stride-th query group */
    atomic_uint_fast64_t hits;
} test_run;

static nf_status test_task(void *arg, uint64_t task, uint32_t worker)
{
    test_run *run = arg;
    NF_TRY(nf_cpu_list_group_hits(run->ctx, run->search, (uint32_t)task * run->stride, (nf_group_range){0, 0},
                                  &run->lists[worker]));
    atomic_fetch_add(&run->hits, run->lists[worker].query_hits);
    nf_progress_add(run->ctx, 1);
    return NF_OK;
}

/* Counts the hits of every stride-th query group. */
static nf_status count_hits(nf_context *ctx, nf_search *search, uint32_t stride, uint64_t *hits)
{
    const uint64_t tasks = (search->queries->group_count + stride - 1) / stride;
    const uint32_t workers = nf_pool_workers(ctx, tasks);
    test_run       run = {.ctx = ctx, .search = search, .stride = stride};

    run.lists = nf_alloc_zero(ctx, workers, sizeof *run.lists);
    if (run.lists == NULL) return nf_alloc_status(ctx);
    const nf_status status = nf_pool_run(ctx, test_task, &run, tasks);
    for (uint32_t i = 0; i < workers; i++) nf_hit_list_free(&run.lists[i]);
    nf_free(run.lists);
    *hits = atomic_load(&run.hits);
    return status;
}

/* Hits of an evenly spaced sample of the query groups, scaled up. */
static nf_status estimate_hits(nf_context *ctx, nf_search *search, double *hits)
{
    const uint32_t groups = search->queries->group_count;
    const uint32_t stride = groups > SAMPLE_GROUPS ? groups / SAMPLE_GROUPS : 1;
    const uint64_t sampled = (groups + stride - 1) / stride;
    uint64_t       counted = 0;

    *hits = 0.0;
    if (groups == 0) return NF_OK;
    NF_TRY(count_hits(ctx, search, stride, &counted));
    *hits = (double)counted * groups / (double)sampled;
    return NF_OK;
}

/* auto: boxes, unless a sample of the query groups says that they prune too little to pay for the walk.
 * docs/architecture.md states the rule. */
static nf_status choose_candidates(nf_context *ctx, nf_search *search)
{
    static const double worth = 0.05;
    const double        possible = (double)search->queries->rows_count * search->data->group_count;
    double              hits = 0.0;

    search->candidates = NF_CANDIDATES_BOXES;
    NF_TRY(estimate_hits(ctx, search, &hits));
    const double pruned = possible > 0.0 ? fmax(0.0, 1.0 - hits / possible) : 0.0;
    if (pruned < worth) search->candidates = NF_CANDIDATES_NONE;
    snprintf(search->why, sizeof search->why, "boxes prune %.1f %% in a sample, %.0f %% make them worth while",
             100.0 * pruned, 100.0 * worth);
    return NF_OK;
}

/* Hits are listed group by group as refine goes, so nothing on the CPU is planned by their number, and a walk over all
 * queries would be made for nothing: a sample is enough to choose the method by. */
nf_status nf_cpu_first_intersection_test(nf_context *ctx, nf_search *search, uint64_t *list_bytes)
{
    for (uint32_t g = 0; g < search->queries->group_count; g++) list_bytes[g] = 0;
    return search->spec.candidates == NF_CANDIDATES_AUTO ? choose_candidates(ctx, search) : NF_OK;
}

nf_status nf_cpu_list_hits(nf_context *ctx, nf_search *search, nf_batch batch)
{
    (void)ctx;
    (void)search;
    (void)batch; /* refine lists the hits of a few groups at a time: lists of a whole batch would need memory for nothing */
    return NF_OK;
}
