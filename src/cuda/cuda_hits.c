/* SPDX-License-Identifier: Apache-2.0 */
/* Hits and work lists; see the header, and kernels/k_hits.h for the methods. */
#include "cuda_hits.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/k_primitives.h"
#include "rt/rt_scene.h"

#define SAMPLE_GROUPS 256u         /* query groups that auto looks at */
#define WORTH 0.04                 /* share of pairs of groups that boxes must prune to be taken */
#define MOST_ITEMS (8ull << 20)    /* of a device batch: 128 MiB */
#define MOST_HITS (256ull << 20)   /* of a device batch: 1 GiB */
#define LIST_SHARE 8u              /* of the device memory left that lists may take: one eighth */

/* Groups cut into slices of at most a tile. */
typedef struct slices {
    uint32_t *start, *of_group; /* device */
    uint32_t  count;
    uint32_t  most;             /* slices of a group */
} slices;

struct nf_hits {
    uint32_t tile;
    slices   data, queries;     /* the same arrays in a self-join */
    float   *super;             /* boxes: one level above the groups' */
    float   *index_dims;        /* bvh, rt: of the queries */
    float   *grown;             /* bvh, rt: the groups' boxes in the index dims */
    float   *above[NF_K_MOST_LEVELS];
    nf_k_tree    tree;          /* bvh */
    nf_rt_scene *scene;         /* rt */
    uint32_t *position_group;   /* self-join: group of every position */
    uint32_t *skip_from;        /* self-join: first group of the batch */
    uint64_t *fit;              /* bvh, rt: host, hits per query group */
    nf_k_item *items;
    uint64_t  item_capacity;
    uint64_t *item_count;
    uint64_t *offsets;          /* per query group (boxes) or per group in the order of work (bvh, rt) */
    uint64_t  offset_capacity;
    uint32_t *counts, *group_hits; /* per group, and one more */
    uint32_t *order, *keys, *numbers, *sorted_keys; /* per group: for the order of work */
    char     *scratch;
    uint64_t  scratch_capacity;
    uint64_t *list_start, *cursors;
    uint32_t *list;
    uint64_t  list_capacity;
};

static void release(const nf_search *search, void *block)
{
    nf_device_free(search->device, search->stream, block);
}

uint32_t nf_hits_tile(const nf_search *search)
{
    return search->hits->tile;
}

/* ---- slices ---- */

static nf_status upload(nf_context *ctx, const nf_search *search, void *to, const void *from, uint64_t bytes)
{
    NF_CUDA(ctx, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, search->stream));
    NF_CUDA(ctx, cudaStreamSynchronize(search->stream));
    return NF_OK;
}

/* Host arrays first (start has room for rows / tile + groups + 1 entries), then the device's. */
static void cut_groups(const nf_points *points, uint32_t tile, uint32_t *start, uint32_t *of_group, slices *out)
{
    uint32_t count = 0;
    out->most = 1;
    for (uint32_t g = 0; g < points->group_count; g++) {
        of_group[g] = count;
        for (uint32_t at = points->host_group_start[g]; at < points->host_group_start[g + 1]; at += tile) start[count++] = at;
        if (count - of_group[g] > out->most) out->most = count - of_group[g];
    }
    of_group[points->group_count] = count;
    start[count] = (uint32_t)points->rows;
    out->count = count;
}

static nf_status make_slices(nf_context *ctx, const nf_search *search, const nf_points *points, uint32_t tile, slices *out)
{
    const uint64_t most = points->rows / tile + points->group_count + 1;
    uint32_t      *start = nf_alloc(ctx, most, sizeof *start);
    uint32_t      *of_group = nf_alloc(ctx, (uint64_t)points->group_count + 1, sizeof *of_group);
    nf_status      status = start != NULL && of_group != NULL ? NF_OK : nf_alloc_status(ctx);

    if (status >= 0) {
        cut_groups(points, tile, start, of_group, out);
        status = nf_search_array(ctx, search, (uint64_t)out->count + 1, sizeof *start, &out->start);
    }
    if (status >= 0) status = nf_search_array(ctx, search, (uint64_t)points->group_count + 1, sizeof *start, &out->of_group);
    if (status >= 0) status = upload(ctx, search, out->start, start, ((uint64_t)out->count + 1) * sizeof *start);
    if (status >= 0) status = upload(ctx, search, out->of_group, of_group, ((uint64_t)points->group_count + 1) * sizeof *start);
    nf_free(start);
    nf_free(of_group);
    return status;
}

static nf_k_slices view_of(const slices *from)
{
    return (nf_k_slices){.slice_start = from->start, .group_slice = from->of_group};
}

/* ---- groups against groups ---- */

static nf_k_group_pairs group_pairs(const nf_search *search, nf_batch part, uint32_t step, uint32_t skip_from, bool all)
{
    const nf_points *data = search->data, *queries = search->queries;
    const double     radius = search->spec.radius, dims = data->dims;
    const double     widening = 1.0 + 4.0 * (dims + 8.0) * 0x1p-24, underflow = (dims + 8.0) * 0x1p-149;
    return (nf_k_group_pairs){
        .query_boxes = queries->boxes, .data_boxes = data->boxes, .super_boxes = search->hits->super,
        .query_centroid = queries->centroid, .data_centroid = data->centroid,
        .query_spread = queries->spread, .data_spread = data->spread,
        .dims = data->dims, .stride = data->stride, .data_groups = data->group_count,
        .all = all,
        .begin = part.begin, .end = part.end, .step = step,
        .self_join = search->spec.self_join, .skip_from = skip_from,
        .give_up_square = (float)(radius * radius * widening + underflow),
        .radius = radius, .widening = widening, .underflow = underflow,
        .query_slices = view_of(&search->hits->queries), .data_slices = view_of(&search->hits->data),
        .counts = search->hits->counts, .group_hits = search->hits->group_hits,
    };
}

nf_k_group_pairs nf_hits_group_pairs(const nf_search *search, nf_batch part, uint32_t skip_from)
{
    return group_pairs(search, part, 1, skip_from, false);
}

static nf_status run_group_pairs(nf_context *ctx, const nf_search *search, const nf_k_group_pairs *job)
{
    NF_CUDA(ctx, nf_k_group_pairs_run(search->stream, job, (uint32_t)nf_device_get_traits(search->device)->processors));
    return NF_OK;
}

/* Downloads count numbers and adds them up or widens them. */
static nf_status download_counts(nf_context *ctx, const nf_search *search, const uint32_t *from, uint32_t count, uint64_t *out)
{
    uint32_t *numbers = nf_alloc(ctx, count, sizeof *numbers);
    if (numbers == NULL) return nf_alloc_status(ctx);
    nf_status status = nf_cuda_check(ctx, cudaMemcpyAsync(numbers, from, count * sizeof *numbers, cudaMemcpyDeviceToHost,
                                                          search->stream), "cudaMemcpyAsync");
    if (status >= 0) status = nf_cuda_check(ctx, cudaStreamSynchronize(search->stream), "cudaStreamSynchronize");
    for (uint32_t i = 0; status >= 0 && i < count; i++) out[i] = numbers[i];
    nf_free(numbers);
    return status;
}

/* The share of pairs of groups that boxes leave out, on an evenly spaced sample of the query groups. */
static nf_status sample_pruning(nf_context *ctx, const nf_search *search, double *pruned)
{
    const uint32_t groups = search->queries->group_count;
    const uint32_t step = groups > SAMPLE_GROUPS ? groups / SAMPLE_GROUPS : 1, count = (groups + step - 1) / step;
    uint64_t      *hits = nf_alloc(ctx, count, sizeof *hits);
    double         sum = 0.0;

    if (hits == NULL) return nf_alloc_status(ctx);
    const nf_k_group_pairs job = group_pairs(search, (nf_batch){0, groups}, step, UINT32_MAX, false);
    nf_status              status = run_group_pairs(ctx, search, &job);
    if (status >= 0) status = download_counts(ctx, search, search->hits->group_hits, count, hits);
    for (uint32_t i = 0; status >= 0 && i < count; i++) sum += (double)hits[i];
    nf_free(hits);
    *pruned = 1.0 - sum / ((double)count * search->data->group_count);
    return status;
}

/* auto: boxes, unless a sample says that they prune too little. docs/architecture.md states the rule and where it is from. */
static nf_status choose_method(nf_context *ctx, nf_search *search)
{
    double pruned = 0.0;
    search->candidates = NF_CANDIDATES_BOXES;
    if (search->queries->group_count > 0 && search->data->group_count > 0) NF_TRY(sample_pruning(ctx, search, &pruned));
    if (pruned < WORTH) search->candidates = NF_CANDIDATES_NONE;
    snprintf(search->why, sizeof search->why, "boxes prune %.1f %% in a sample, %.0f %% make them worth while", 100.0 * pruned,
             100.0 * WORTH);
    return NF_OK;
}

/* ---- queries against groups ---- */

static nf_status make_tree(nf_context *ctx, nf_search *search)
{
    nf_hits  *hits = search->hits;
    uint32_t  count = search->data->group_count;
    nf_k_tree *tree = &hits->tree;

    tree->level[0] = hits->grown;
    tree->count[0] = count;
    tree->levels = 1;
    while (count > NF_K_FANOUT) {
        const uint32_t above = (count + NF_K_FANOUT - 1) / NF_K_FANOUT;
        float        **place = &hits->above[tree->levels];
        NF_TRY(nf_search_array(ctx, search, above, 6 * sizeof(float), place));
        NF_CUDA(ctx, nf_k_unite_boxes_run(search->stream, tree->level[tree->levels - 1], count, *place));
        tree->level[tree->levels] = *place;
        tree->count[tree->levels++] = count = above;
    }
    return NF_OK;
}

static nf_status make_scene(nf_context *ctx, nf_search *search)
{
    char text[200];
    if (!nf_rt_available(ctx, search->device, text, sizeof text)) {
        return nf_fail(ctx, NF_ERR_UNSUPPORTED, "candidates rt cannot be used: %s", text);
    }
    return nf_rt_scene_build(ctx, search->device, search->stream, search->hits->grown, search->data->group_count,
                             &search->hits->scene);
}

static nf_status walk(nf_context *ctx, const nf_search *search, const nf_k_walk *step)
{
    if (search->candidates == NF_CANDIDATES_BVH) {
        NF_CUDA(ctx, nf_k_bvh_walk_run(search->stream, &search->hits->tree, step));
        return NF_OK;
    }
    const nf_rt_walk same = {
        .queries = step->queries, .first = step->first, .count = step->count,
        .least_group = step->least_group, .skip_from = step->skip_from, .query_hits = step->query_hits,
        .group_hits = step->group_hits, .lists = step->lists, .cursors = step->cursors,
    };
    return nf_rt_scene_walk(ctx, search->hits->scene, search->stream, &same);
}

/* First intersection test: all queries, hits of each query group to fit. */
static nf_status count_all(nf_context *ctx, nf_search *search)
{
    nf_hits         *hits = search->hits;
    const nf_points *queries = search->queries;
    uint32_t        *query_hits = NULL;
    uint64_t        *sums = NULL;

    nf_status status = nf_search_array(ctx, search, queries->rows, sizeof *query_hits, &query_hits);
    if (status >= 0) status = nf_search_array(ctx, search, queries->group_count, sizeof *sums, &sums);
    if (status >= 0) {
        const nf_k_walk step = {.queries = hits->index_dims, .count = (uint32_t)queries->rows, .query_hits = query_hits};
        status = walk(ctx, search, &step);
    }
    if (status >= 0) {
        status = nf_cuda_check(ctx, nf_k_sum_by_group_run(search->stream, queries->group_start, queries->group_count, query_hits,
                                                          sums), "sum_by_group");
    }
    if (status >= 0) {
        status = nf_cuda_check(ctx, cudaMemcpyAsync(hits->fit, sums, queries->group_count * sizeof *sums, cudaMemcpyDeviceToHost,
                                                    search->stream), "cudaMemcpyAsync");
    }
    if (status >= 0) status = nf_cuda_check(ctx, cudaStreamSynchronize(search->stream), "cudaStreamSynchronize");
    release(search, query_hits);
    release(search, sums);
    return status;
}

static nf_status open_lists(nf_context *ctx, nf_search *search)
{
    nf_hits         *hits = search->hits;
    const nf_points *data = search->data, *queries = search->queries;
    const uint32_t   groups = data->group_count;
    const nf_k_rows  rows = nf_search_rows(queries);

    NF_TRY(nf_search_array(ctx, search, queries->rows, 3 * sizeof(float), &hits->index_dims));
    NF_TRY(nf_search_array(ctx, search, groups, 6 * sizeof(float), &hits->grown));
    NF_CUDA(ctx, nf_k_index_dims_run(search->stream, &rows, queries->rows, hits->index_dims));
    NF_CUDA(ctx, nf_k_grow_boxes_run(search->stream, data->boxes, groups, data->dims, search->spec.radius,
                                     search->spec.bounds == NF_BOUNDS_SPHERE, hits->grown));
    NF_TRY(search->candidates == NF_CANDIDATES_BVH ? make_tree(ctx, search) : make_scene(ctx, search));
    if (search->spec.self_join) {
        NF_TRY(nf_search_array(ctx, search, data->rows, sizeof(uint32_t), &hits->position_group));
        NF_CUDA(ctx, nf_k_position_groups_run(search->stream, data->group_start, groups, hits->position_group));
    }
    NF_TRY(nf_search_array(ctx, search, groups, sizeof(uint32_t), &hits->order));
    NF_TRY(nf_search_array(ctx, search, groups, sizeof(uint32_t), &hits->keys));
    NF_TRY(nf_search_array(ctx, search, groups, sizeof(uint32_t), &hits->numbers));
    NF_TRY(nf_search_array(ctx, search, groups, sizeof(uint32_t), &hits->sorted_keys));
    NF_TRY(nf_search_array(ctx, search, (uint64_t)groups + 1, sizeof(uint64_t), &hits->list_start));
    NF_TRY(nf_search_array(ctx, search, groups, sizeof(uint64_t), &hits->cursors));
    hits->fit = nf_alloc_zero(ctx, queries->group_count, sizeof *hits->fit);
    if (hits->fit == NULL) return nf_alloc_status(ctx);
    return count_all(ctx, search);
}

/* ---- opening ---- */

static uint32_t choose_tile(const nf_search *search)
{
    const bool small = search->data->group_size <= 64 && search->queries->group_size <= 64;
    return small || search->rule.kind == NF_KIND_F64 ? 64 : 128;
}

nf_status nf_hits_open(nf_context *ctx, nf_search *search)
{
    const nf_points *data = search->data, *queries = search->queries;
    nf_hits         *hits = nf_alloc_zero(ctx, 1, sizeof *hits);
    if (hits == NULL) return nf_alloc_status(ctx);
    search->hits = hits;
    hits->tile = choose_tile(search);
    const uint32_t groups = data->group_count > queries->group_count ? data->group_count : queries->group_count;

    NF_TRY(make_slices(ctx, search, data, hits->tile, &hits->data));
    if (queries == data) {
        hits->queries = hits->data;
    } else {
        NF_TRY(make_slices(ctx, search, queries, hits->tile, &hits->queries));
    }
    NF_TRY(nf_search_array(ctx, search, groups + 1ull, sizeof(uint32_t), &hits->counts));
    NF_TRY(nf_search_array(ctx, search, groups + 1ull, sizeof(uint32_t), &hits->group_hits));
    NF_TRY(nf_search_array(ctx, search, 1, sizeof(uint64_t), &hits->item_count));
    NF_TRY(nf_search_array(ctx, search, 1, sizeof(uint32_t), &hits->skip_from));
    NF_TRY(nf_search_array(ctx, search, data->group_count / NF_K_SUPER + 1, 2 * data->dims * sizeof(float), &hits->super));
    if (data->group_count > 0) {
        NF_CUDA(ctx, nf_k_super_boxes_run(search->stream, data->boxes, data->group_count, data->dims, hits->super));
    }
    if (search->candidates == NF_CANDIDATES_AUTO) NF_TRY(choose_method(ctx, search));
    const bool lists = search->candidates == NF_CANDIDATES_BVH || search->candidates == NF_CANDIDATES_RT;
    if (lists && data->group_count > 0 && queries->rows > 0) NF_TRY(open_lists(ctx, search));
    return NF_OK;
}

void nf_hits_close(nf_search *search)
{
    nf_hits *hits = search->hits;
    if (hits == NULL) return;
    if (hits->queries.start != hits->data.start) {
        release(search, hits->queries.start);
        release(search, hits->queries.of_group);
    }
    void *const blocks[] = {
        hits->data.start, hits->data.of_group, hits->super, hits->index_dims, hits->grown, hits->position_group,
        hits->skip_from, hits->items, hits->item_count, hits->offsets, hits->counts, hits->group_hits, hits->order,
        hits->keys, hits->numbers, hits->sorted_keys, hits->scratch, hits->list_start, hits->cursors, hits->list,
    };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) release(search, blocks[i]);
    for (uint32_t level = 0; level < NF_K_MOST_LEVELS; level++) release(search, hits->above[level]);
    nf_rt_scene_release(hits->scene);
    nf_free(hits->fit);
    nf_free(hits);
    search->hits = NULL;
}

/* ---- device batches ---- */

static bool by_lists(const nf_search *search)
{
    return search->candidates == NF_CANDIDATES_BVH || search->candidates == NF_CANDIDATES_RT;
}

uint64_t nf_hits_plan_load(const nf_hits_plan *plan, nf_batch part)
{
    uint64_t sum = 0;
    for (uint32_t g = part.begin; g < part.end; g++) sum += plan->load[g - plan->batch.begin];
    return sum;
}

/* Cuts what is left into as few parts as allowed, all alike. */
static void share_out(nf_hits_plan *plan)
{
    const uint64_t total = nf_hits_plan_load(plan, plan->batch);
    const uint64_t parts = total / plan->most + (total % plan->most != 0 ? 1 : 0);
    plan->share = parts > 1 ? (total + parts - 1) / parts : plan->most;
}

nf_status nf_hits_plan_open(nf_context *ctx, nf_search *search, nf_batch batch, uint64_t most_items, nf_hits_plan *plan)
{
    const uint32_t groups = batch.end - batch.begin;
    const uint64_t left = nf_device_memory_left(ctx, search->device) / LIST_SHARE;

    *plan = (nf_hits_plan){.batch = batch};
    plan->load = nf_alloc_zero(ctx, groups, sizeof *plan->load);
    if (plan->load == NULL) return nf_alloc_status(ctx);
    if (groups == 0 || search->data->group_count == 0) return NF_OK;
    if (search->tensor != NULL) { /* nothing is listed: the load is data groups to compare with */
        for (uint32_t g = 0; g < groups; g++) plan->load[g] = search->data->group_count - (search->spec.self_join ? g : 0);
        plan->most = UINT64_MAX;
    } else if (by_lists(search)) {
        memcpy(plan->load, search->hits->fit + batch.begin, groups * sizeof *plan->load);
        plan->most = left / (2 * sizeof(uint32_t));
        if (plan->most > MOST_HITS) plan->most = MOST_HITS;
        if (plan->most > most_items) plan->most = most_items; /* an item may have a single hit */
    } else {
        const uint64_t of_group = (uint64_t)search->hits->queries.most * search->hits->data.count;
        if (of_group > UINT32_MAX) { /* the kernel counts the items of a group of queries in 32 bits */
            return nf_fail(ctx, NF_ERR_LIMIT, "groups of %u rows are too large for so many rows: %llu tiles, at most %u are allowed",
                           search->queries->group_size, (unsigned long long)of_group, UINT32_MAX);
        }
        const bool             all = search->candidates == NF_CANDIDATES_NONE;
        const nf_k_group_pairs job = group_pairs(search, batch, 1, batch.begin, all);
        NF_TRY(run_group_pairs(ctx, search, &job));
        NF_TRY(download_counts(ctx, search, search->hits->counts, groups, plan->load));
        plan->most = left / sizeof(nf_k_item);
        if (plan->most > MOST_ITEMS) plan->most = MOST_ITEMS;
        if (plan->most > most_items) plan->most = most_items;
    }
    if (plan->most == 0) plan->most = 1;
    share_out(plan);
    return NF_OK;
}

void nf_hits_plan_close(nf_hits_plan *plan)
{
    nf_free(plan->load);
    plan->load = NULL;
}

nf_batch nf_hits_plan_next(nf_hits_plan *plan, uint32_t begin)
{
    nf_batch part = {begin, begin};
    uint64_t sum = 0;
    while (part.end < plan->batch.end) {
        sum += plan->load[part.end - plan->batch.begin];
        if (part.end > begin && sum > plan->share) break;
        part.end++;
    }
    return part;
}

void nf_hits_plan_halve(nf_hits_plan *plan, nf_batch tried)
{
    const uint64_t sum = nf_hits_plan_load(plan, tried);
    plan->share = sum / 2; /* 0: groups without load, then each of the others by itself */
}

/* ---- listing ---- */

/* Makes a device array at least so long; its contents are lost. */
static nf_status need(nf_context *ctx, const nf_search *search, uint64_t count, size_t size, void *array, uint64_t *capacity)
{
    void *block;
    if (count <= *capacity) return NF_OK;
    memcpy(&block, array, sizeof block);
    release(search, block);
    *capacity = 0;
    NF_TRY(nf_search_array(ctx, search, count, size, array));
    *capacity = count;
    return NF_OK;
}

/* boxes, none: offsets from the plan's counts, then the items. */
static nf_status list_group_pairs(nf_context *ctx, nf_search *search, const nf_hits_plan *plan, nf_batch part, nf_work_list *work)
{
    nf_hits       *hits = search->hits;
    const uint32_t groups = part.end - part.begin;
    uint64_t      *offsets = nf_alloc(ctx, (uint64_t)groups + 1, sizeof *offsets);
    if (offsets == NULL) return nf_alloc_status(ctx);
    offsets[0] = 0;
    for (uint32_t g = 0; g < groups; g++) offsets[g + 1] = offsets[g] + plan->load[part.begin - plan->batch.begin + g];
    const uint64_t total = offsets[groups];

    nf_status status = need(ctx, search, total, sizeof(nf_k_item), &hits->items, &hits->item_capacity);
    if (status >= 0) status = need(ctx, search, (uint64_t)groups + 1, sizeof *offsets, &hits->offsets, &hits->offset_capacity);
    if (status >= 0) status = upload(ctx, search, hits->offsets, offsets, (groups + 1ull) * sizeof *offsets);
    if (status >= 0) status = upload(ctx, search, hits->item_count, &total, sizeof total);
    nf_free(offsets);
    NF_TRY(status);
    nf_k_group_pairs job = group_pairs(search, part, 1, plan->batch.begin, search->candidates == NF_CANDIDATES_NONE);
    job.offsets = hits->offsets;
    job.items = hits->items;
    if (total > 0) NF_TRY(run_group_pairs(ctx, search, &job));
    *work = (nf_work_list){.items = hits->items, .item_count = hits->item_count, .most_items = total};
    return NF_OK;
}

/* out[i] = in[0] + ... + in[i - 1] for i up to count; in has count + 1 entries, the last one is not read. */
static nf_status prefix_sums(nf_context *ctx, nf_search *search, uint32_t *in, uint32_t count, uint64_t *out)
{
    nf_hits *hits = search->hits;
    size_t   bytes = 0;
    NF_CUDA(ctx, cudaMemsetAsync(in + count, 0, sizeof *in, search->stream));
    NF_CUDA(ctx, nf_k_exclusive_sum_u32(NULL, &bytes, in, out, count + 1ull, search->stream));
    NF_TRY(need(ctx, search, bytes, 1, &hits->scratch, &hits->scratch_capacity));
    NF_CUDA(ctx, nf_k_exclusive_sum_u32(hits->scratch, &bytes, in, out, count + 1ull, search->stream));
    return NF_OK;
}

/* Groups by falling number of hits, so that long lists do not come last. */
static nf_status order_groups(nf_context *ctx, nf_search *search)
{
    nf_hits       *hits = search->hits;
    const uint32_t groups = search->data->group_count;
    size_t         bytes = 0;
    NF_CUDA(ctx, nf_k_falling_keys_run(search->stream, hits->group_hits, groups, hits->keys, hits->numbers));
    NF_CUDA(ctx, nf_k_sort_u32(NULL, &bytes, hits->keys, hits->sorted_keys, hits->numbers, hits->order, groups, 0, 32,
                               search->stream));
    NF_TRY(need(ctx, search, bytes, 1, &hits->scratch, &hits->scratch_capacity));
    NF_CUDA(ctx, nf_k_sort_u32(hits->scratch, &bytes, hits->keys, hits->sorted_keys, hits->numbers, hits->order, groups, 0, 32,
                               search->stream));
    return NF_OK;
}

/* bvh, rt: pass 1 counts, prefix sums give every group its list, pass 2 writes them; then the items. */
static nf_status list_by_walks(nf_context *ctx, nf_search *search, const nf_hits_plan *plan, nf_batch part, nf_work_list *work)
{
    nf_hits         *hits = search->hits;
    const nf_points *queries = search->queries;
    const uint32_t   groups = search->data->group_count, first = queries->host_group_start[part.begin];
    const nf_k_slices data_slices = view_of(&hits->data);
    const uint64_t   most = nf_hits_plan_load(plan, part);
    nf_k_walk        step = {
               .queries = hits->index_dims, .first = first, .count = queries->host_group_start[part.end] - first,
               .least_group = hits->position_group, .skip_from = hits->skip_from, .group_hits = hits->group_hits,
    };

    const uint64_t most_items = (most / hits->tile + groups) * hits->data.most;
    if (most > UINT32_MAX) return nf_fail(ctx, NF_ERR_LIMIT, "a group of queries has %llu hits, more than a list takes",
                                          (unsigned long long)most);
    NF_TRY(need(ctx, search, most, sizeof(uint32_t), &hits->list, &hits->list_capacity));
    NF_TRY(need(ctx, search, most_items, sizeof(nf_k_item), &hits->items, &hits->item_capacity));
    NF_TRY(need(ctx, search, (uint64_t)groups + 1, sizeof(uint64_t), &hits->offsets, &hits->offset_capacity));
    NF_TRY(upload(ctx, search, hits->skip_from, &plan->batch.begin, sizeof plan->batch.begin));

    NF_CUDA(ctx, cudaMemsetAsync(hits->group_hits, 0, groups * sizeof(uint32_t), search->stream));
    NF_TRY(walk(ctx, search, &step)); /* pass 1 */
    NF_TRY(prefix_sums(ctx, search, hits->group_hits, groups, hits->list_start));
    NF_CUDA(ctx, cudaMemcpyAsync(hits->cursors, hits->list_start, groups * sizeof(uint64_t), cudaMemcpyDeviceToDevice,
                                 search->stream));
    step.group_hits = NULL;
    step.lists = hits->list;
    step.cursors = hits->cursors;
    NF_TRY(walk(ctx, search, &step)); /* pass 2 */

    NF_TRY(order_groups(ctx, search));
    NF_CUDA(ctx, nf_k_list_items_run(search->stream, hits->order, groups, hits->list_start, hits->group_hits, hits->tile,
                                     &data_slices, hits->counts, NULL, NULL));
    NF_TRY(prefix_sums(ctx, search, hits->counts, groups, hits->offsets));
    NF_CUDA(ctx, cudaMemcpyAsync(hits->item_count, hits->offsets + groups, sizeof(uint64_t), cudaMemcpyDeviceToDevice,
                                 search->stream));
    NF_CUDA(ctx, nf_k_list_items_run(search->stream, hits->order, groups, hits->list_start, hits->group_hits, hits->tile,
                                     &data_slices, hits->counts, hits->offsets, hits->items));
    *work = (nf_work_list){.items = hits->items, .item_count = hits->item_count, .list = hits->list};
    NF_CUDA(ctx, cudaMemcpyAsync(&work->most_items, hits->item_count, sizeof(uint64_t), cudaMemcpyDeviceToHost, search->stream));
    NF_CUDA(ctx, cudaStreamSynchronize(search->stream));
    return NF_OK;
}

nf_status nf_hits_list(nf_context *ctx, nf_search *search, const nf_hits_plan *plan, nf_batch part, nf_work_list *work)
{
    return by_lists(search) ? list_by_walks(ctx, search, plan, part, work) : list_group_pairs(ctx, search, plan, part, work);
}
