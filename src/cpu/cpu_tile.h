/* SPDX-License-Identifier: Apache-2.0 */
/* Deciding one tile: the candidates of a query group against one group of the data. */
#ifndef NF_CPU_TILE_H
#define NF_CPU_TILE_H

#include "cpu_search.h"

/* A packed group and the limits that go with it. */
typedef struct nf_panel {
    void    *values;
    void    *limits_out;  /* product: float [stop][64]; u8: int32 [stop][64]; queries by difference: out_above [64] */
    void    *limits_in;   /* product: float [64]; queries of u8: sure_from [64]; queries by difference: sure_upto [64] */
    void    *inner_out, *inner_in; /* the same for the inner radius; NULL where there is none */
    uint32_t group;
    uint32_t count;       /* rows */
} nf_panel;

/* What a worker needs to decide tiles. */
typedef struct nf_tiler {
    nf_context      *ctx;
    const nf_search *search;
    double          *row_x, *row_y;   /* scratch for rechecks */
    uint64_t         maybe[NF_TILE], sure[NF_TILE];
    uint64_t         rechecked, ties; /* pairs; each pair decided once counts once */
} nf_tiler;

nf_status nf_tiler_open(nf_context *ctx, const nf_search *search, nf_tiler *tiler);
void nf_tiler_close(nf_tiler *tiler);

nf_status nf_panel_open(nf_context *ctx, const nf_search *search, nf_panel *panel);
void nf_panel_close(nf_panel *panel);

/* Packs a group of the queries (as_x) or of the data. */
void nf_panel_pack(const nf_search *search, nf_panel *panel, uint32_t group, bool as_x);

/* Bytes of an open panel, for choosing how many to hold. */
uint64_t nf_panel_bytes(const nf_search *search);

/* Runs the kernel of the search's rule: masks of rows of y that are not certainly out, and certainly in, for each of the
 * queries (bits: rows of x). */
void nf_tile_run(const nf_search *search, const nf_panel *x, const nf_panel *y, uint64_t queries, uint64_t *maybe,
                 uint64_t *sure);

/* Decides queries (bits: rows of x) against all points of y. results[q] gets bit p for every pair that is a result; rows
 * that are not in queries get 0. diagonal: x and y are the same group of a self-join, only pairs p > q count; with a radius
 * per query all p but q, and q itself where the search keeps (i, i). Returns the number of pairs compared. */
uint64_t nf_tile_decide(nf_tiler *tiler, const nf_panel *x, const nf_panel *y, uint64_t queries, bool diagonal,
                        uint64_t results[NF_TILE]);

#endif
