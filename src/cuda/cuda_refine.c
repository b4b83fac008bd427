/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step refine: device batch after device batch, hits are listed, candidates decided, open pairs rechecked, and what is found
 * is kept in the store (RT-HiSS, sections IV-D to IV-F).
 *
 * Nothing is dropped. Every kernel that stores pairs checks the store's capacity and counts what it would have stored. When
 * that was more than there was room for, the device batch is taken back as if it had not been: the store grows and the device
 * batch is done again. Where memory ends, half of the device batch is tried, or, when the store is well filled, the batch ends
 * before it: its rows are complete, since all pairs of earlier query groups are decided.
 */
#include "cuda_refine.h"
#include "cuda_tensor.h"

#include <math.h>
#include <string.h>

#define MOST_OPEN (4ull << 20)       /* entries of the list of open pairs: 64 MiB */
#define FIRST_STORE (16ull << 20)    /* pairs of the first store: 128 MiB */
#define MASK_SHARE 3u                /* masks of a device batch take at most a third of the device memory left */
#define STORE_SHARE 20u              /* the store at most 11 / 20 of it: delivery needs about as much again */
#define STORE_SPARE 1.125            /* what a store is made larger than expected */
#define PARTS 8u                     /* device batches at least, where the store may yet prove too small: one is done again */
#define PROBE 64u                    /* part of a batch that the first device batch takes, to learn what to expect */
#define BLOCKS_PER_PROCESSOR 8u

struct nf_refiner {
    uint32_t       stop_count;
    uint32_t       stops[NF_K_STOPS];
    float         *x_out, *x_in, *y_out, *y_in; /* product form; x's are y's in a self-join */
    nf_k_open     *open;
    uint64_t       open_capacity;
    nf_k_counters *counters;      /* device */
    nf_k_counters *host_counters; /* pinned */
    uint32_t      *masks;
    uint64_t       mask_words;
    cudaEvent_t    began, listed, refined, compacted;
};

/* ---- opening ---- */

/* Early exits: often while few dims are summed up, since they vary most, then ever more rarely. The product form's bounds are
 * relative to norms; it is first looked at after 32 dims. */
static void choose_stops(nf_refiner *refiner, const nf_search *search)
{
    const uint32_t dims = search->data->dims;
    uint32_t       at = search->rule.kind == NF_KIND_F32_PRODUCT ? 32 : 8;
    while (!search->spec.no_early_exit && at + 4 < dims && refiner->stop_count < NF_K_STOPS - 1) {
        refiner->stops[refiner->stop_count++] = at;
        at = at < 32 ? at + 8 : (at + at / 2 + 7) / 8 * 8;
    }
    refiner->stops[refiner->stop_count++] = dims;
}

static nf_status make_limits(nf_context *ctx, const nf_search *search, const nf_points *points, float **out, float **in)
{
    const nf_refiner       *refiner = search->refiner;
    const double            square = nf_rule_limits(&search->rule, search->spec.radius).square;
    const nf_product_limits limits = nf_rule_product_limits(&search->rule, square);
    const nf_k_rows         rows = nf_search_rows(points);
    NF_TRY(nf_search_array(ctx, search, points->rows * refiner->stop_count, sizeof(float), out));
    NF_TRY(nf_search_array(ctx, search, points->rows, sizeof(float), in));
    NF_CUDA(ctx, nf_k_limits_run(search->stream, &rows, points->rows, refiner->stops, refiner->stop_count, limits.out_factor,
                                 limits.out_offset, limits.in_factor, limits.in_offset, *out, *in));
    return NF_OK;
}

static nf_status make_events(nf_context *ctx, nf_refiner *refiner)
{
    NF_CUDA(ctx, cudaEventCreateWithFlags(&refiner->began, 0));
    NF_CUDA(ctx, cudaEventCreateWithFlags(&refiner->listed, 0));
    NF_CUDA(ctx, cudaEventCreateWithFlags(&refiner->refined, 0));
    NF_CUDA(ctx, cudaEventCreateWithFlags(&refiner->compacted, 0));
    return NF_OK;
}

nf_status nf_refiner_open(nf_context *ctx, nf_search *search)
{
    nf_refiner *refiner = nf_alloc_zero(ctx, 1, sizeof *refiner);
    void       *pinned = NULL;
    if (refiner == NULL) return nf_alloc_status(ctx);
    search->refiner = refiner;
    choose_stops(refiner, search);
    NF_TRY(make_events(ctx, refiner));
    NF_CUDA(ctx, cudaHostAlloc(&pinned, sizeof *refiner->host_counters, cudaHostAllocDefault));
    refiner->host_counters = pinned;
    NF_TRY(nf_search_array(ctx, search, 1, sizeof *refiner->counters, &refiner->counters));
    if (search->rule.kind == NF_KIND_F32_PRODUCT && search->data->rows > 0 && search->queries->rows > 0) {
        NF_TRY(make_limits(ctx, search, search->data, &refiner->y_out, &refiner->y_in));
        refiner->x_out = refiner->y_out;
        refiner->x_in = refiner->y_in;
        if (search->queries != search->data) NF_TRY(make_limits(ctx, search, search->queries, &refiner->x_out, &refiner->x_in));
    }
    refiner->open_capacity = nf_device_memory_left(ctx, search->device) / 16 / sizeof *refiner->open;
    if (refiner->open_capacity > MOST_OPEN) refiner->open_capacity = MOST_OPEN;
    return nf_search_array(ctx, search, refiner->open_capacity, sizeof *refiner->open, &refiner->open);
}

static void destroy_event(cudaEvent_t event)
{
    if (event != NULL) (void)cudaEventDestroy(event);
}

void nf_refiner_close(nf_search *search)
{
    nf_refiner *refiner = search->refiner;
    if (refiner == NULL) return;
    if (refiner->x_out != refiner->y_out) {
        nf_device_free(search->device, search->stream, refiner->x_out);
        nf_device_free(search->device, search->stream, refiner->x_in);
    }
    nf_device_free(search->device, search->stream, refiner->y_out);
    nf_device_free(search->device, search->stream, refiner->y_in);
    nf_device_free(search->device, search->stream, refiner->open);
    nf_device_free(search->device, search->stream, refiner->counters);
    nf_device_free(search->device, search->stream, refiner->masks);
    if (refiner->host_counters != NULL) (void)cudaFreeHost(refiner->host_counters);
    destroy_event(refiner->began);
    destroy_event(refiner->listed);
    destroy_event(refiner->refined);
    destroy_event(refiner->compacted);
    nf_free(refiner);
    search->refiner = NULL;
}

/* ---- one device batch ---- */

static uint32_t share_of(uint32_t share)
{
    switch ((nf_share)share) {
    case NF_SHARE_NONE: return 0;
    case NF_SHARE_QUERIES: return 1;
    case NF_SHARE_POINTS: return 2;
    default: return 3;
    }
}

static uint32_t form_of(nf_kind kind)
{
    return kind == NF_KIND_F64 ? NF_K_WIDE : kind == NF_KIND_F32_PRODUCT ? NF_K_PRODUCT : NF_K_DIFFERENCE;
}

static uint32_t emit_of(uint32_t result)
{
    switch ((nf_result)result) {
    case NF_RESULT_MASK:
    case NF_RESULT_MASK_RAW: return NF_K_MASK;
    case NF_RESULT_PAIRS: return NF_K_PAIRS;
    default: return NF_K_APPEND;
    }
}

static nf_k_refine job_of(const nf_search *search, nf_batch batch)
{
    const nf_refiner *refiner = search->refiner;
    const nf_rule    *rule = &search->rule;
    const nf_limits   limits = nf_rule_limits(rule, search->spec.radius);
    nf_k_refine       job = {
              .x = nf_search_rows(search->queries), .y = nf_search_rows(search->data),
              .tile = nf_hits_tile(search), .share = share_of(search->spec.share), .form = form_of(rule->kind),
              .out_above = limits.out_above, .sure_upto = limits.sure_upto, .scale = rule->scale, .radius = search->spec.radius,
              .exact = rule->exact, .strict = search->spec.strict,
              .stop_count = refiner->stop_count,
              .x_out = refiner->x_out, .x_in = refiner->x_in, .y_out = refiner->y_out, .y_in = refiner->y_in,
              .x_rows = search->queries->rows, .y_rows = search->data->rows,
              .self_join = search->spec.self_join, .half = search->spec.half,
              .first = search->queries->host_group_start[batch.begin], .last = search->queries->host_group_start[batch.end],
              .x_ids = search->queries->ids, .y_ids = search->data->ids,
              .emit = emit_of(search->spec.result),
              .open = refiner->open, .open_capacity = refiner->open_capacity, .counters = refiner->counters,
    };
    memcpy(job.stops, refiner->stops, sizeof job.stops);
    for (; search->spec.self_join && job.cut_count < search->cut_count; job.cut_count++) {
        const uint32_t *start = search->data->host_group_start, i = job.cut_count;
        job.cuts[i].first = start[search->cut_batch[i].begin];
        job.cuts[i].cut = start[search->cut_batch[i].end];
        job.cuts[i].last = start[search->cut_end[i]];
    }
    return job;
}

static double seconds_between(cudaEvent_t from, cudaEvent_t to)
{
    float milliseconds = 0.0f;
    return cudaEventElapsedTime(&milliseconds, from, to) == cudaSuccess ? 1e-3 * (double)milliseconds : 0.0;
}

/* Room for the masks of that many items, all zero. */
static nf_status need_masks(nf_context *ctx, nf_search *search, uint64_t items, uint32_t tile)
{
    nf_refiner    *refiner = search->refiner;
    const uint64_t words = items * (tile * tile / 32);
    if (words > refiner->mask_words) {
        nf_device_free(search->device, search->stream, refiner->masks);
        refiner->masks = NULL;
        refiner->mask_words = 0;
        NF_TRY(nf_search_array(ctx, search, words, sizeof *refiner->masks, &refiner->masks));
        refiner->mask_words = words;
    }
    NF_CUDA(ctx, cudaMemsetAsync(refiner->masks, 0, words * sizeof *refiner->masks, search->stream));
    return NF_OK;
}

static nf_status put_counters(nf_context *ctx, nf_search *search, const nf_k_counters *from)
{
    nf_refiner *refiner = search->refiner;
    *refiner->host_counters = *from;
    NF_CUDA(ctx, cudaMemcpyAsync(refiner->counters, refiner->host_counters, sizeof *from, cudaMemcpyHostToDevice, search->stream));
    return NF_OK;
}

static nf_status get_counters(nf_context *ctx, nf_search *search, nf_k_counters *to)
{
    nf_refiner *refiner = search->refiner;
    NF_CUDA(ctx, cudaMemcpyAsync(refiner->host_counters, refiner->counters, sizeof *to, cudaMemcpyDeviceToHost, search->stream));
    NF_CUDA(ctx, cudaStreamSynchronize(search->stream));
    *to = *refiner->host_counters;
    return NF_OK;
}

static nf_status compact(nf_context *ctx, nf_search *search, const nf_k_refine *job, const nf_work_list *work)
{
    if (search->spec.result == NF_RESULT_MASK_RAW) {
        uint64_t found = 0;
        NF_TRY(nf_decode_masks(ctx, search, work, job->mask, job->tile, &found));
        search->refiner->host_counters->pairs = search->store.count + found;
        NF_CUDA(ctx, cudaMemcpyAsync(&search->refiner->counters->pairs, &search->refiner->host_counters->pairs,
                                     sizeof(uint64_t), cudaMemcpyHostToDevice, search->stream));
        return NF_OK;
    }
    NF_CUDA(ctx, nf_k_compact_run(search->stream, job));
    return NF_OK;
}

/* Blocks of a grid that walks over units: no more than there are units, and a few for every multiprocessor. */
static uint32_t blocks_for(const nf_search *search, uint64_t units)
{
    const uint32_t most = (uint32_t)nf_device_get_traits(search->device)->processors * BLOCKS_PER_PROCESSOR;
    return units < most ? units > 0 ? (uint32_t)units : 1 : most;
}

/* Lists and decides one device batch; counters before and after. */
static nf_status run_part(nf_context *ctx, nf_search *search, const nf_hits_plan *plan, nf_batch part, nf_k_refine *job,
                          const nf_k_counters *before, nf_k_counters *after)
{
    nf_refiner *refiner = search->refiner;
    nf_work_list work = {0};

    NF_CUDA(ctx, cudaEventRecord(refiner->began, search->stream));
    if (search->tensor == NULL) NF_TRY(nf_hits_list(ctx, search, plan, part, &work));
    NF_CUDA(ctx, cudaEventRecord(refiner->listed, search->stream));
    job->items = work.items;
    job->item_count = work.item_count;
    job->list = work.list;
    job->store = search->store.pairs;
    job->store_capacity = search->store.capacity;
    if (job->emit == NF_K_MASK) {
        NF_TRY(need_masks(ctx, search, work.most_items, job->tile));
        job->mask = refiner->masks;
    }
    NF_TRY(put_counters(ctx, search, before));
    if (search->tensor != NULL) {
        NF_TRY(nf_tensor_run(ctx, search, plan, part, job));
    } else {
        job->blocks = blocks_for(search, work.most_items);
        NF_CUDA(ctx, nf_k_refine_run(search->stream, job));
    }
    job->blocks = blocks_for(search, refiner->open_capacity);
    if (job->exact == 0) NF_CUDA(ctx, nf_k_recheck_run(search->stream, job));
    NF_CUDA(ctx, cudaEventRecord(refiner->refined, search->stream));
    if (job->emit == NF_K_MASK) NF_TRY(compact(ctx, search, job, &work));
    NF_CUDA(ctx, cudaEventRecord(refiner->compacted, search->stream));
    NF_TRY(get_counters(ctx, search, after));
    after->open = 0;
    search->batches++;
    search->list_seconds += seconds_between(refiner->began, refiner->listed);
    search->compress_seconds += seconds_between(refiner->refined, refiner->compacted);
    return nf_progress_poll(ctx);
}

/* Items that a device batch may have, by the room that the form of results needs for each. */
static uint64_t items_by_room(nf_context *ctx, const nf_search *search, const nf_k_refine *job)
{
    const uint64_t left = nf_device_memory_left(ctx, search->device), pairs = (uint64_t)job->tile * job->tile;
    switch ((nf_k_emit)job->emit) {
    case NF_K_MASK: return left / MASK_SHARE / (pairs / 8);
    case NF_K_PAIRS: return left / 2 / (pairs * sizeof(nf_pair));
    default: return UINT64_MAX;
    }
}

static void add_counters(nf_search *search, const nf_k_counters *from)
{
    search->counters.hits += from->hits;
    search->counters.compared += from->compared;
    search->counters.rechecked += from->rechecked;
    search->counters.ties += from->ties;
}

/* ---- the store ---- */

static uint64_t most_pairs(nf_context *ctx, const nf_search *search)
{
    const uint64_t left = nf_device_memory_left(ctx, search->device) + search->store.capacity * sizeof(nf_pair);
    return left / STORE_SHARE * 11 / sizeof(nf_pair);
}

/* A store for at least so many pairs, holding what the old one held. False where memory does not allow it. */
static nf_status grow_store(nf_context *ctx, nf_search *search, uint64_t pairs, bool *grown)
{
    nf_pair_store *store = &search->store;
    const uint64_t most = most_pairs(ctx, search);
    uint64_t       capacity = store->capacity < FIRST_STORE ? FIRST_STORE : 2 * store->capacity;
    void          *block = NULL;

    *grown = false;
    if (capacity < pairs) capacity = pairs;
    if (capacity > most) capacity = most;
    if (capacity < pairs || capacity <= store->capacity) return NF_OK;
    nf_status status = nf_device_try_alloc(ctx, search->device, search->stream, capacity, sizeof(nf_pair), &block);
    if (status == NF_ERR_LIMIT || status == NF_ERR_DEVICE_MEMORY) { /* the old one and the new one together are too much */
        status = nf_device_try_alloc(ctx, search->device, search->stream, pairs, sizeof(nf_pair), &block);
        capacity = pairs;
    }
    if (status == NF_ERR_LIMIT || status == NF_ERR_DEVICE_MEMORY) return NF_OK;
    NF_TRY(status);
    if (store->count > 0) {
        status = nf_cuda_check(ctx, cudaMemcpyAsync(block, store->pairs, store->count * sizeof(nf_pair),
                                                    cudaMemcpyDeviceToDevice, search->stream), "cudaMemcpyAsync");
    }
    nf_device_free(search->device, search->stream, store->pairs);
    store->pairs = block;
    store->capacity = capacity;
    *grown = true;
    return status;
}

static nf_status too_small(nf_context *ctx, const nf_search *search)
{
    return nf_fail(ctx, NF_ERR_DEVICE_MEMORY, "device memory is too small for the results of one group of queries; %llu bytes "
                                              "are left of what may be used",
                   (unsigned long long)nf_device_memory_left(ctx, search->device));
}

/* ---- refine ---- */

/* What a device batch that did not fit leads to. */
typedef enum next_step { GO_ON, AGAIN, END_HERE, OVERFLOW_ALL } next_step;

static nf_status handle_room(nf_context *ctx, nf_search *search, nf_hits_plan *plan, nf_batch part, uint64_t pairs,
                             uint64_t limit_bytes, next_step *next)
{
    const bool     first = part.begin == plan->batch.begin, single = part.end - part.begin == 1;
    const uint64_t limit = limit_bytes / sizeof(uint32_t);
    const bool     can_cut = !search->spec.self_join || search->cut_count < NF_K_CUTS;
    bool           grown = false;

    *next = GO_ON;
    if (pairs <= search->store.capacity && pairs <= limit) return NF_OK;
    *next = AGAIN;
    if (pairs <= limit) NF_TRY(grow_store(ctx, search, pairs, &grown));
    if (grown) return NF_OK;
    const uint64_t room = search->store.capacity < limit ? search->store.capacity : limit;
    const bool     well_filled = search->store.count >= room / 2;
    if (!first && can_cut && (well_filled || single)) {
        *next = END_HERE;
    } else if (!single) {
        nf_hits_plan_halve(plan, part);
    } else if (first && pairs <= limit) {
        return too_small(ctx, search);
    } else {
        *next = OVERFLOW_ALL;
    }
    return NF_OK;
}

/* Ends the batch before it was to end. */
static void cut_batch(nf_search *search, nf_batch *batch, uint32_t end)
{
    if (search->spec.self_join) {
        search->cut_batch[search->cut_count] = (nf_batch){batch->begin, end};
        search->cut_end[search->cut_count++] = batch->end;
    }
    batch->end = end;
}

/* A first, small device batch has shown how many pairs there are to a load: room for all of them at once, where memory allows
 * it, so that no device batch has to be done again. */
static nf_status reserve_store(nf_context *ctx, nf_search *search, const nf_hits_plan *plan, nf_batch part)
{
    const double load = (double)nf_hits_plan_load(plan, part), all = (double)nf_hits_plan_load(plan, plan->batch);
    const double expected = load > 0.0 ? (double)search->store.count * all / load * STORE_SPARE : 0.0;
    const uint64_t most = most_pairs(ctx, search);
    bool           grown;
    if (expected <= (double)search->store.capacity) return NF_OK;
    return grow_store(ctx, search, expected < (double)most ? (uint64_t)expected : most, &grown);
}

static nf_status refine_parts(nf_context *ctx, nf_search *search, nf_hits_plan *plan, nf_k_refine *job, uint64_t limit_bytes,
                              nf_batch *batch, bool *overflow)
{
    nf_k_counters  before = {0}, after = {0};
    const uint64_t share = plan->share;
    bool           probing = search->store.capacity <= FIRST_STORE;
    if (probing) plan->share = nf_hits_plan_load(plan, plan->batch) / PROBE + 1;
    if (plan->share > share) plan->share = share;
    for (uint32_t begin = batch->begin; begin < batch->end;) {
        const nf_batch part = nf_hits_plan_next(plan, begin);
        next_step      next;
        NF_TRY(run_part(ctx, search, plan, part, job, &before, &after));
        NF_TRY(handle_room(ctx, search, plan, part, after.pairs, limit_bytes, &next));
        if (next == AGAIN) continue;
        if (next == OVERFLOW_ALL) *overflow = true;
        if (next == END_HERE) cut_batch(search, batch, begin);
        if (next == OVERFLOW_ALL) return NF_OK;
        if (next == END_HERE) break;
        before = after;
        search->store.count = after.pairs;
        nf_progress_add(ctx, part.end - part.begin);
        if (probing) {
            const uint64_t later = nf_hits_plan_load(plan, plan->batch) / PARTS + 1;
            probing = false;
            plan->share = share < later ? share : later;
            NF_TRY(reserve_store(ctx, search, plan, part));
        }
        begin = part.end;
    }
    add_counters(search, &before);
    return NF_OK;
}

static bool nothing_to_do(const nf_search *search, nf_batch batch)
{
    return batch.begin == batch.end || search->data->group_count == 0;
}

nf_status nf_cuda_refine(nf_context *ctx, nf_search *search, nf_batch *batch, uint64_t limit_bytes, bool *overflow)
{
    nf_k_refine  job;
    nf_hits_plan plan = {0};
    bool         grown = true;

    *overflow = false;
    NF_TRY(nf_device_enter(ctx, search->device));
    nf_pair_store_clear(search);
    search->store.count = 0;
    search->kept_bytes = 0;
    if (nothing_to_do(search, *batch)) return NF_OK;
    job = job_of(search, *batch);
    nf_status status = nf_hits_plan_open(ctx, search, *batch, items_by_room(ctx, search, &job), &plan);
    if (status >= 0 && search->store.capacity == 0) status = grow_store(ctx, search, 1, &grown);
    if (status >= 0 && !grown) status = too_small(ctx, search);
    if (status >= 0) status = refine_parts(ctx, search, &plan, &job, limit_bytes, batch, overflow);
    nf_hits_plan_close(&plan);
    search->kept_bytes = search->store.count * sizeof(uint32_t);
    if (status < 0 || *overflow) nf_pair_store_clear(search);
    return status;
}

/* ---- counts ---- */

static nf_status count_parts(nf_context *ctx, nf_search *search, nf_batch batch, uint32_t *device_counts)
{
    nf_k_refine   job = job_of(search, batch);
    nf_hits_plan  plan = {0};
    nf_k_counters before = {0}, after = {0};
    job.emit = NF_K_COUNT;
    job.counts = device_counts;
    nf_status status = nf_hits_plan_open(ctx, search, batch, UINT64_MAX, &plan);
    for (uint32_t begin = batch.begin; status >= 0 && begin < batch.end;) {
        const nf_batch part = nf_hits_plan_next(&plan, begin);
        status = run_part(ctx, search, &plan, part, &job, &before, &after);
        before = after;
        nf_progress_add(ctx, part.end - part.begin);
        begin = part.end;
    }
    nf_hits_plan_close(&plan);
    if (status >= 0) add_counters(search, &before);
    return status;
}

nf_status nf_cuda_refine_counts(nf_context *ctx, nf_search *search, nf_batch batch, uint64_t *counts)
{
    const nf_points *queries = search->queries;
    const uint64_t   rows = queries->rows, self = nf_cuda_self_pairs(&search->spec) ? 1 : 0;
    uint32_t        *device_counts = NULL, *found = NULL;

    NF_TRY(nf_device_enter(ctx, search->device));
    if (batch.begin == batch.end) return NF_OK;
    found = nf_alloc_zero(ctx, rows, sizeof *found);
    nf_status status = found != NULL ? nf_search_array(ctx, search, rows, sizeof *device_counts, &device_counts) : nf_alloc_status(ctx);
    if (status >= 0) {
        status = nf_cuda_check(ctx, cudaMemsetAsync(device_counts, 0, rows * sizeof *device_counts, search->stream), "cudaMemsetAsync");
    }
    if (status >= 0 && search->data->group_count > 0) status = count_parts(ctx, search, batch, device_counts);
    if (status >= 0) {
        status = nf_cuda_check(ctx, cudaMemcpyAsync(found, device_counts, rows * sizeof *found, cudaMemcpyDeviceToHost,
                                                    search->stream), "cudaMemcpyAsync");
    }
    if (status >= 0) status = nf_cuda_check(ctx, cudaStreamSynchronize(search->stream), "cudaStreamSynchronize");
    for (uint32_t p = queries->host_group_start[batch.begin]; status >= 0 && p < queries->host_group_start[batch.end]; p++) {
        counts[queries->host_ids[p]] += found[p] + self;
    }
    nf_device_free(search->device, search->stream, device_counts);
    nf_free(found);
    return status;
}
