/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a search after the queries are prepared: which lists, and scanning them. */
#ifndef NF_CPU_IVF_SEARCH_H
#define NF_CPU_IVF_SEARCH_H

#include "cpu_ivf_query.h"

/* Scratch of one worker. */
typedef struct nf_scanner {
    uint64_t *turns;      /* of the queries of a wave at their lists, and room to sort them */
    uint64_t *spare;
    float    *products;   /* queries x lists, of a tile of queries */
    nf_neighbour *nearest; /* lists while they are selected */
    uint32_t *survivors;  /* NF_SCAN_QUERIES x blocks of a segment */
    struct nf_bunch *bunch;
    void     *block;      /* where all of these lie */
    nf_ivf_counters counters;
} nf_scanner;

/* Queries of a tile of the coarse products: at most 48, fewer where there are so many lists that 4 MB of products would not
 * hold them. */
static inline uint32_t nf_probe_tile(const nf_query_chunk *chunk)
{
    const uint32_t fit = (1u << 20) / chunk->prepared->panel.rounded;
    const uint32_t tile = fit > 48 ? 48 : fit > 0 ? fit : 1;
    return chunk->most < tile ? chunk->most : tile;
}

nf_status nf_scanner_open(nf_context *ctx, const nf_query_chunk *chunk, nf_scanner *scanner);
void nf_scanner_close(nf_scanner *scanner);

/* Fills chunk->probes: the question->probes nearest lists of each query, nearest first. */
void nf_probe_lists(nf_query_chunk *chunk, nf_scanner *scanner);

/* Scans the probed lists of all queries of a chunk; the best are in chunk->tops. */
void nf_scan_lists(nf_query_chunk *chunk, nf_scanner *scanner);

#endif
