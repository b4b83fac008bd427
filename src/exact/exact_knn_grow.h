/* SPDX-License-Identifier: Apache-2.0 */
/* k nearest neighbours by radius searches that grow: for engines that have no search by k of their own. */
#ifndef NF_EXACT_KNN_GROW_H
#define NF_EXACT_KNN_GROW_H

#include "exact_private.h"

/* What is called large. Results do not depend on it; tests make everything large. */
typedef struct nf_grow_rules {
    uint32_t sample; /* queries that the first radius is found by */
    uint32_t wide;   /* a row of more than wide * k + 64 neighbours is not fetched, but searched by a smaller radius */
    uint32_t rounds; /* after so many, what is left is compared with all rows */
    uint32_t count_first; /* 1: neighbours are always counted before they are fetched */
    uint64_t batch_pairs; /* pairs that are fetched at once, about */
} nf_grow_rules;

nf_grow_rules nf_grow_rules_default(void);

/* The k nearest rows of an index for all queries (NULL: the data themselves), arguments and values checked: see
 * nf_radius_knn. k is at least 1; stats is not NULL, and added to. */
nf_status nf_exact_knn_grow(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries, uint32_t k,
                            const nf_grow_rules *rules, int64_t *ids, double *distances, uint32_t *counts,
                            nf_knn_stats *stats);

#endif
