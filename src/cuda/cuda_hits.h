/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hits of a search, and the work lists made of them: steps first_intersection_test and list_hits on the device.
 *
 * A batch of the caller is worked on in device batches: consecutive query groups whose lists fit the device memory that is
 * set aside for lists, all of about the same work (RT-HiSS, section IV-D).
 */
#ifndef NF_CUDA_HITS_H
#define NF_CUDA_HITS_H

#include "cuda_search.h"
#include "kernels/k_hits.h"

typedef struct nf_hits nf_hits;

/* What refine is given: items on the device, and the list that they refer to (NULL: positions). */
typedef struct nf_work_list {
    nf_k_item *items;
    uint64_t  *item_count; /* on the device */
    uint32_t  *list;
    uint64_t   most_items; /* never more than that */
} nf_work_list;

/* The device batches of a batch: how many items (boxes, none) or hits (bvh, rt) each query group has, and what a device
 * batch may have. */
typedef struct nf_hits_plan {
    nf_batch  batch;
    uint64_t *load;      /* per query group of the batch */
    uint64_t  most;      /* of a device batch */
    uint64_t  share;     /* what each gets so that all are alike */
} nf_hits_plan;

/* Chooses the method where the search asks for auto, and gets it ready. */
nf_status nf_hits_open(nf_context *ctx, nf_search *search);
void nf_hits_close(nf_search *search);

/* Plans the device batches of a batch; most_items limits the items of each (mask and pairs need room for every one). */
nf_status nf_hits_plan_open(nf_context *ctx, nf_search *search, nf_batch batch, uint64_t most_items, nf_hits_plan *plan);
void nf_hits_plan_close(nf_hits_plan *plan);

/* The load of some query groups of the batch. */
uint64_t nf_hits_plan_load(const nf_hits_plan *plan, nf_batch part);

/* The device batch that begins at a query group; halved: it was tried and must have half the load of its share. */
nf_batch nf_hits_plan_next(nf_hits_plan *plan, uint32_t begin);
void nf_hits_plan_halve(nf_hits_plan *plan, nf_batch tried);

/* Lists the hits of a device batch on the search's stream. The lists are valid until the next call. */
nf_status nf_hits_list(nf_context *ctx, nf_search *search, const nf_hits_plan *plan, nf_batch part, nf_work_list *work);

/* Pairs of query groups in part and data groups by boxes, for testing them elsewhere; skip_from: first group of the batch. */
nf_k_group_pairs nf_hits_group_pairs(const nf_search *search, nf_batch part, uint32_t skip_from);

/* Rows of a tile: 64 or 128. */
uint32_t nf_hits_tile(const nf_search *search);

#endif
