/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, describing and closing searches in the CUDA engine. */
#include "cuda_search.h"

#include <math.h>
#include <string.h>

#include "cuda_hits.h"
#include "cuda_refine.h"
#include "cuda_tensor.h"

nf_status nf_search_array(nf_context *ctx, const nf_search *search, uint64_t count, size_t size, void *out)
{
    void           *block = NULL;
    const nf_status status = nf_device_alloc(ctx, search->device, search->stream, count, size, &block);
    memcpy(out, &block, sizeof block);
    return status;
}

nf_k_rows nf_search_rows(const nf_points *points)
{
    return (nf_k_rows){
        .values = points->values,
        .dim_place = points->device_dim_place,
        .dims = points->dims,
        .stride = points->stride,
        .wide = points->wide,
    };
}

static nf_rule_rows rule_rows(const nf_points *points)
{
    return (nf_rule_rows){
        .dims = points->dims,
        .narrow = !points->wide,
        .bytes = points->bytes,
        .bias = points->signed_bytes ? 128.0 : 0.0,
        .integers = points->integers,
        .largest = points->largest,
        .largest_square = points->largest_square,
    };
}

/* The paper's tiling variants are of the difference form: norms that never qualify keep the product form away. */
static nf_status choose_rule(nf_context *ctx, nf_search *search)
{
    nf_rule_rows       data = rule_rows(search->data);
    const nf_rule_rows queries = rule_rows(search->queries);
    if (search->spec.share != NF_SHARE_BOTH) data.largest_square = HUGE_VAL;
    const bool tensor = nf_tensor_device_can(search->device);
    return nf_rule_choose(ctx, "cuda", tensor && search->spec.refine == NF_REFINE_INT8, tensor, &data, &queries, &search->spec, &search->rule);
}

static nf_status fill_search(nf_context *ctx, nf_search *search)
{
    NF_CUDA(ctx, cudaStreamCreateWithFlags(&search->stream, cudaStreamNonBlocking));
    NF_TRY(choose_rule(ctx, search));
    NF_TRY(nf_hits_open(ctx, search));
    NF_TRY(nf_tensor_open(ctx, search));
    return nf_refiner_open(ctx, search);
}

nf_status nf_cuda_search_open(nf_context *ctx, const nf_points *data, const nf_points *queries,
                              const nf_search_spec *spec, nf_search **out)
{
    *out = NULL;
    NF_TRY(nf_device_enter(ctx, data->device));
    nf_search *search = nf_alloc_zero(ctx, 1, sizeof *search);
    if (search == NULL) return nf_alloc_status(ctx);
    search->data = data;
    search->queries = queries;
    search->spec = *spec;
    search->candidates = spec->candidates;
    search->device = nf_device_retain(data->device);

    const nf_status status = fill_search(ctx, search);
    if (status < 0) {
        nf_cuda_search_close(search);
        return status;
    }
    *out = search;
    return NF_OK;
}

void nf_cuda_search_close(nf_search *search)
{
    if (search == NULL) return;
    (void)cudaSetDevice(nf_device_get_traits(search->device)->ordinal);
    if (search->stream != NULL) (void)cudaStreamSynchronize(search->stream); /* a copy of what goes now may be on its way */
    nf_pair_store_clear(search);
    nf_refiner_close(search);
    nf_tensor_close(search);
    nf_hits_close(search);
    if (search->stream != NULL) {
        (void)cudaStreamSynchronize(search->stream);
        (void)cudaStreamDestroy(search->stream);
    }
    (void)cudaGetLastError();
    nf_device_release(search->device);
    nf_free(search);
}

void nf_cuda_search_info(const nf_search *search, nf_search_info *info)
{
    *info = (nf_search_info){
        .candidates = search->candidates,
        .why = search->why,
        .refine = nf_kind_name(search->rule.kind),
        .kept_bytes = search->kept_bytes,
        .batches = search->batches,
        .list_seconds = search->list_seconds,
        .compress_seconds = search->compress_seconds,
        .counters = search->counters,
    };
}

/* The method is chosen and its boxes are counted when a search is opened; lists are planned by refine, which knows what fits
 * the device. */
nf_status nf_cuda_first_intersection_test(nf_context *ctx, nf_search *search, uint64_t *list_bytes)
{
    for (uint32_t g = 0; g < search->queries->group_count; g++) list_bytes[g] = 0;
    return nf_progress_poll(ctx);
}

nf_status nf_cuda_list_hits(nf_context *ctx, nf_search *search, nf_batch batch)
{
    (void)search;
    (void)batch; /* device batch by device batch, inside refine */
    return nf_progress_poll(ctx);
}
