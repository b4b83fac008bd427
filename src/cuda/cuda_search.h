/* SPDX-License-Identifier: Apache-2.0 */
/* A search in the CUDA engine: what is asked, how it is decided, and what has been found. */
#ifndef NF_CUDA_SEARCH_H
#define NF_CUDA_SEARCH_H

#include "cuda_points.h"
#include "engine/engine.h"
#include "engine/engine_rule.h"
#include "kernels/k_refine.h"

/* The pairs that the last refine found, on the device, in no order. Each pair of positions is there once; inside a
 * self-join's batch it stands for both directions (half: for that from the lower id to the higher). */
typedef struct nf_pair_store {
    nf_pair  *pairs;
    uint64_t  capacity;
    uint64_t  count;
} nf_pair_store;

struct nf_search {
    const nf_points *data, *queries;
    nf_search_spec   spec;
    nf_device       *device;
    cudaStream_t     stream;
    nf_rule          rule;
    uint32_t         candidates;
    char             why[160];
    nf_pair_store    store;
    nf_search_counters counters;
    uint64_t         kept_bytes;
    uint64_t         batches;      /* device batches so far */
    uint32_t         cut_count;    /* batches that were cut short: where they began, were cut, and would have ended */
    nf_batch         cut_batch[NF_K_CUTS];
    uint32_t         cut_end[NF_K_CUTS];
    double           list_seconds, compress_seconds; /* so far, inside refine */
    struct nf_hits  *hits;         /* lists of hits and what they are made with (cuda_hits.h) */
    struct nf_tensor *tensor;    /* refinement on tensor cores, or NULL (cuda_tensor.h) */
    struct nf_refiner *refiner;    /* limits per row, work lists, open pairs (cuda_refine.c) */
    struct nf_rows_state *rows;    /* what compress learnt for deliver (cuda_rows.c); goes with the store */
};

nf_status nf_cuda_search_open(nf_context *ctx, const nf_points *data, const nf_points *queries,
                              const nf_search_spec *spec, nf_search **out);
void nf_cuda_search_info(const nf_search *search, nf_search_info *info);
void nf_cuda_search_close(nf_search *search);

nf_status nf_cuda_first_intersection_test(nf_context *ctx, nf_search *search, uint64_t *list_bytes);
nf_status nf_cuda_list_hits(nf_context *ctx, nf_search *search, nf_batch batch);
nf_status nf_cuda_refine(nf_context *ctx, nf_search *search, nf_batch *batch, uint64_t limit_bytes, bool *overflow);
nf_status nf_cuda_refine_counts(nf_context *ctx, nf_search *search, nf_batch batch, uint64_t *counts);
uint64_t nf_cuda_batch_rows(const nf_search *search, nf_batch batch);
nf_status nf_cuda_compress(nf_context *ctx, nf_search *search, nf_batch batch, int32_t *query_ids, int64_t *indptr);
nf_status nf_cuda_deliver(nf_context *ctx, nf_search *search, nf_batch batch, const int64_t *indptr, int32_t *indices,
                          void *distances, nf_distances distances_as, nf_sort sort);

/* Device memory of a search: nf_device_alloc on its stream. out: where the pointer goes. */
nf_status nf_search_array(nf_context *ctx, const nf_search *search, uint64_t count, size_t size, void *out);

/* Points as kernels see them. */
nf_k_rows nf_search_rows(const nf_points *points);

/* Frees the pairs kept. */
void nf_pair_store_clear(nf_search *search);

/* Whether (i, i) is a result: distance 0 is within every radius but strictly within 0. */
static inline bool nf_cuda_self_pairs(const nf_search_spec *spec)
{
    return spec->self_join && spec->keep_self && !(spec->strict && spec->radius == 0.0);
}

#endif
