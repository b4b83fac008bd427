/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement on tensor cores (kernels/k_tensor.h): where no box prunes, it is a matrix product with a threshold. Rows become
 * images of binary16 (or bytes) when a search is opened; device batches are ranges of query tiles, and pairs of tiles are left
 * out by the boxes and balls of their groups.
 */
#include "cuda_tensor.h"

#include <math.h>
#include <string.h>

#include "kernels/k_tensor.h"

#define NEAR_BYTES (256ull << 20) /* of the bits that say which tiles are near */
#define UNITS_PER_PROCESSOR 8u    /* at least so many units of work for each */
#define MOST_SEGMENT 512u         /* data tiles of a unit: what the second-level cache holds of 128 dims */
#define FARTHEST 0x1p30           /* no two images are farther apart */

struct nf_tensor {
    nf_k_images data, queries; /* the same arrays in a self-join */
    double     *centre;
    double      scale;
    uint32_t   *next;
    uint32_t   *near;
    uint64_t    near_words;    /* room */
};

bool nf_tensor_device_can(const nf_device *device)
{
    return nf_device_get_traits(device)->major >= 8;
}

/* ---- images ---- */

static void free_images(const nf_search *search, const nf_k_images *images)
{
    nf_device_free(search->device, search->stream, images->image);
    nf_device_free(search->device, search->stream, images->norms);
    nf_device_free(search->device, search->stream, images->rest);
    nf_device_free(search->device, search->stream, images->length);
}

static bool of_bytes(const nf_search *search)
{
    return search->rule.kind == NF_KIND_U8;
}

static nf_status allocate_images(nf_context *ctx, const nf_search *search, const nf_points *points, nf_k_images *out)
{
    const uint32_t of_chunk = of_bytes(search) ? NF_K_TENSOR_CHUNK : NF_K_TENSOR_CHUNK / 2;
    out->rows = (uint32_t)points->rows;
    out->tiles = (uint32_t)((points->rows + NF_K_TENSOR_TILE - 1) / NF_K_TENSOR_TILE);
    out->chunks = (points->dims + of_chunk - 1) / of_chunk;
    const uint64_t rows = (uint64_t)out->tiles * NF_K_TENSOR_TILE;
    NF_TRY(nf_search_array(ctx, search, rows * out->chunks, NF_K_TENSOR_CHUNK, &out->image));
    NF_TRY(nf_search_array(ctx, search, rows, sizeof(float), &out->norms));
    if (of_bytes(search)) return NF_OK;
    NF_TRY(nf_search_array(ctx, search, out->tiles, sizeof(float), &out->rest));
    NF_TRY(nf_search_array(ctx, search, out->tiles, sizeof(float), &out->length));
    NF_CUDA(ctx, cudaMemsetAsync(out->rest, 0, out->tiles * sizeof(float), search->stream));
    NF_CUDA(ctx, cudaMemsetAsync(out->length, 0, out->tiles * sizeof(float), search->stream));
    return NF_OK;
}

static bool whole_numbers(const nf_search *search)
{
    return search->data->integers && search->queries->integers && fmax(search->data->largest, search->queries->largest) <= 0x1p24;
}

static nf_status make_images(nf_context *ctx, nf_search *search, const nf_points *points, nf_k_images *out)
{
    const nf_tensor   *tensor = search->tensor;
    const nf_k_imaging from = {
        .rows = nf_search_rows(points),
        .centre = tensor->centre,
        .scale = tensor->scale,
        .bias = points->signed_bytes ? 128.0f : 0.0f,
        .bytes = of_bytes(search),
        .whole = whole_numbers(search),
    };
    NF_TRY(allocate_images(ctx, search, points, out));
    NF_CUDA(ctx, nf_k_tensor_images(&from, out, search->stream));
    return NF_OK;
}

/* The power of two that brings the largest possible value of an image near the end of binary16's range, 65,504; whole numbers
 * stay as they are while binary16 holds them. */
static double choose_scale(const nf_search *search)
{
    const double largest = 2.0 * fmax(search->data->largest, search->queries->largest);
    if (!(largest > 0.0)) return 1.0;
    if (whole_numbers(search) && largest <= 2048.0) return 1.0;
    int exponent;
    (void)frexp(largest, &exponent); /* largest < 2^exponent */
    return scalbn(1.0, 15 - exponent);
}

static nf_status fill_tensor(nf_context *ctx, nf_search *search)
{
    nf_tensor      *tensor = search->tensor;
    const nf_k_rows rows = nf_search_rows(search->data);

    tensor->scale = choose_scale(search);
    NF_TRY(nf_search_array(ctx, search, 1, sizeof *tensor->next, &tensor->next));
    if (search->data->rows == 0 || search->queries->rows == 0) return NF_OK;
    if (!of_bytes(search)) {
        NF_TRY(nf_search_array(ctx, search, search->data->dims, sizeof *tensor->centre, &tensor->centre));
        NF_CUDA(ctx, nf_k_tensor_centre(&rows, search->data->rows, whole_numbers(search), tensor->centre, search->stream));
    }
    NF_TRY(make_images(ctx, search, search->data, &tensor->data));
    tensor->queries = tensor->data;
    if (search->queries == search->data) return NF_OK;
    memset(&tensor->queries, 0, sizeof tensor->queries);
    return make_images(ctx, search, search->queries, &tensor->queries);
}

/* ---- opening ---- */

static nf_status check(nf_context *ctx, const nf_search *search)
{
    const char *refine = nf_kind_name(search->rule.kind);
    if (search->candidates != NF_CANDIDATES_BOXES && search->candidates != NF_CANDIDATES_NONE) {
        return nf_fail(ctx, NF_ERR_UNSUPPORTED, "refine %s goes with candidates boxes or none", refine);
    }
    if (search->spec.result != NF_RESULT_AUTO && search->spec.result != NF_RESULT_APPEND) {
        return nf_fail(ctx, NF_ERR_UNSUPPORTED, "refine %s goes with result append", refine);
    }
    return NF_OK;
}

nf_status nf_tensor_open(nf_context *ctx, nf_search *search)
{
    if (search->rule.kind != NF_KIND_F16 && search->rule.kind != NF_KIND_U8) return NF_OK;
    NF_TRY(check(ctx, search));
    search->tensor = nf_alloc_zero(ctx, 1, sizeof *search->tensor);
    if (search->tensor == NULL) return nf_alloc_status(ctx);
    return fill_tensor(ctx, search);
}

void nf_tensor_close(nf_search *search)
{
    nf_tensor *tensor = search->tensor;
    if (tensor == NULL) return;
    if (tensor->queries.image != tensor->data.image) free_images(search, &tensor->queries);
    free_images(search, &tensor->data);
    nf_device_free(search->device, search->stream, tensor->centre);
    nf_device_free(search->device, search->stream, tensor->next);
    nf_device_free(search->device, search->stream, tensor->near);
    nf_free(tensor);
    search->tensor = NULL;
}

/* ---- running ---- */

/* E / (2 S) of docs/numerics.md, section 12: what the product's sums of binary16 may lose. Hopper aligns 16 products and the
 * accumulator and cuts them off; of other devices only that no step loses more than its last place is taken for granted. */
static double accumulation(bool hopper, uint32_t chunks)
{
    const double dims = chunks * (NF_K_TENSOR_CHUNK / 2.0);
    return hopper ? dims / 16.0 * 5.25 * 0x1p-23 * (1.0 + 0x1p-18) : (dims + 1.0) * 0x1p-22;
}

static nf_k_tensor job_of(const nf_search *search, const nf_k_refine *refine)
{
    const nf_tensor        *tensor = search->tensor;
    const nf_device_traits *traits = nf_device_get_traits(search->device);
    const nf_limits         limits = nf_rule_limits(&search->rule, search->spec.radius);
    const bool              hopper = traits->major == 9 && nf_k_tensor_has_hopper();
    return (nf_k_tensor){
        .x = tensor->queries,
        .y = tensor->data,
        .next = tensor->next,
        .bytes = of_bytes(search),
        .hopper = hopper,
        .radius = fmin(search->spec.radius * tensor->scale, FARTHEST),
        .accumulation = accumulation(hopper, tensor->data.chunks),
        .whole = limits.whole_square,
        .sure_from = limits.sure_from,
        .refine = *refine,
    };
}

/* Data tiles of a unit: many, so that query tiles are fetched seldom, but enough units for all processors. */
static uint32_t choose_segment(const nf_search *search, const nf_k_tensor *job)
{
    const uint64_t units = (uint64_t)nf_device_get_traits(search->device)->processors * UNITS_PER_PROCESSOR;
    const uint64_t pairs = (uint64_t)(job->tile_end - job->tile_begin) * job->y.tiles;
    const uint64_t most = MOST_SEGMENT * 2 / job->y.chunks, wanted = pairs / units + 1;
    return wanted < most ? (uint32_t)wanted : most > 0 ? (uint32_t)most : 1;
}

static nf_k_starts starts_of(const nf_points *points)
{
    return (nf_k_starts){.start = points->group_start, .count = points->group_count, .size = points->group_size};
}

static nf_status find_near(nf_context *ctx, nf_search *search, const nf_hits_plan *plan, nf_k_tensor *job)
{
    nf_tensor             *tensor = search->tensor;
    const nf_k_group_pairs pairs = nf_hits_group_pairs(search, (nf_batch){0, search->queries->group_count}, plan->batch.begin);
    const uint64_t         words = (uint64_t)(job->tile_end - job->tile_begin) * job->near_words;
    if (words > tensor->near_words) {
        nf_device_free(search->device, search->stream, tensor->near);
        tensor->near = NULL;
        tensor->near_words = 0;
        NF_TRY(nf_search_array(ctx, search, words, sizeof *tensor->near, &tensor->near));
        tensor->near_words = words;
    }
    job->near = tensor->near;
    NF_CUDA(ctx, nf_k_tensor_near(&pairs, starts_of(search->queries), starts_of(search->data), job->tile_begin, job->tile_end,
                                  job->near_words, tensor->near, search->stream));
    return NF_OK;
}

nf_status nf_tensor_run(nf_context *ctx, nf_search *search, const nf_hits_plan *plan, nf_batch part, const nf_k_refine *refine)
{
    nf_k_tensor    job = job_of(search, refine);
    const uint32_t processors = (uint32_t)nf_device_get_traits(search->device)->processors;
    job.query_begin = search->queries->host_group_start[part.begin];
    job.query_end = search->queries->host_group_start[part.end];
    job.near_words = (job.y.tiles + 31) / 32;
    const uint32_t first = job.query_begin / NF_K_TENSOR_TILE, last = (job.query_end + NF_K_TENSOR_TILE - 1) / NF_K_TENSOR_TILE;
    const uint64_t at_once = NEAR_BYTES / sizeof(uint32_t) / job.near_words;
    const uint32_t step = search->candidates == NF_CANDIDATES_NONE || at_once > last - first ? last - first
                          : at_once > 0                                                      ? (uint32_t)at_once
                                                                                             : 1;
    for (job.tile_begin = first; job.tile_begin < last; job.tile_begin = job.tile_end) {
        job.tile_end = last - job.tile_begin < step ? last : job.tile_begin + step;
        if (search->candidates != NF_CANDIDATES_NONE) NF_TRY(find_near(ctx, search, plan, &job));
        job.segment = choose_segment(search, &job);
        NF_CUDA(ctx, cudaMemsetAsync(job.next, 0, sizeof *job.next, search->stream));
        NF_CUDA(ctx, nf_k_tensor_run(search->stream, &job, processors));
    }
    return NF_OK;
}
