/* SPDX-License-Identifier: Apache-2.0 */
/* Hits: which queries of a group reach which groups of the data. */
#ifndef NF_CPU_HITS_H
#define NF_CPU_HITS_H

#include "cpu_search.h"

/* Queries (bits: rows of the query group) that hit run consecutive groups from group on. run is 1 unless all queries of
 * the group hit. */
typedef struct nf_hit {
    uint32_t group;
    uint32_t run;
    uint64_t queries;
} nf_hit;

typedef struct nf_hit_list {
    nf_hit  *hits;        /* ascending groups */
    uint32_t count, capacity;
    uint64_t query_hits;  /* (query, group) pairs in the list */
} nf_hit_list;

/* The groups that may be skipped: [from, to). Empty when from == to. */
typedef struct nf_group_range {
    uint32_t from, to;
} nf_group_range;

/* Lists the hits of one query group, but for the groups in skip. The list is reused: its memory grows as needed.
 * Method: the search's candidates (bvh, boxes or none). */
nf_status nf_cpu_list_group_hits(nf_context *ctx, const nf_search *search, uint32_t query_group, nf_group_range skip,
                                 nf_hit_list *list);

void nf_hit_list_free(nf_hit_list *list);

#endif
