/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact k nearest neighbours by comparing all pairs: what its files share.
 *
 * A pair's key s orders the rows of one query as their distances do:
 *     L2      (|x|^2 - 2 x.q) / 2        IP      -x.q        COSINE  -x.q of rows of length 1
 * all with a common centre taken off the rows, which changes all keys of a query by the same amount.
 * Keys are computed in binary32, from products of a panel of rows with a few queries, and each comes with an interval
 * that certainly holds the true one (cpu_knn_bound.c; docs/numerics.md, section 9):
 *     low  = (row.low  - p) - query.gain * row.reach
 *     high = (row.high - p) + query.gain * row.reach
 * A query keeps the rows whose low end is below the k-th smallest high end so far (cpu_knn_keep.c), and computes
 * binary64 distances (cpu_knn_distance.c) of those alone.
 */
#ifndef NF_CPU_KNN_H
#define NF_CPU_KNN_H

#include "cpu_sort.h"
#include "cpu/kernels/ivf_kernels.h"
#include "engine/engine.h"

#define NF_KNN_CHUNK 128u /* most rows between two looks at their products */

/* How values become binary32, the same for rows and queries of one call. */
typedef struct nf_knn_space {
    const nf_matrix *data, *queries;
    uint32_t         metric, dims;
    bool             integers; /* whole numbers of at most 2^24 on both sides: no scaling */
    bool             open;     /* values so small or large that no bound holds: every pair takes binary64 */
    int              exponent; /* L2 and IP: data are multiplied by 2^exponent first */
    double          *centre;   /* taken off rows after that, and off queries under L2 */
    double           centre_length;
    double           gamma;
} nf_knn_space;

/* Rows of a block of data, as binary32. Rows that fill it up to a multiple of NF_LANES have low = infinity. */
typedef struct nf_knn_block {
    uint64_t first;
    uint32_t rows, room;
    float   *panel;              /* nf_panel_at(dims, row, step) */
    float   *low, *high, *reach;
} nf_knn_block;

/* A query of a round, and the rows it keeps: entry i of its part of low, high and ids, ids ascending. */
typedef struct nf_knn_query {
    float    gain;
    float    limit;  /* a row with low >= limit is certainly none of the k nearest */
    double   margin; /* what a high end must be raised by to be compared with low ends of other rows */
    double   norm;   /* sum of squares */
    uint32_t count;
} nf_knn_query;

/* Queries that are answered together. exact: every key so far is exact, and orders as the distances do. */
typedef struct nf_knn_round {
    uint64_t      first;
    uint32_t      count, room, capacity;
    bool          exact;
    double        largest; /* at least the length of every query */
    float        *values;  /* room x dims */
    nf_knn_query *queries;
    float        *low, *high; /* room x capacity */
    uint32_t     *ids;
} nf_knn_round;

/* What one worker needs. */
typedef struct nf_knn_scratch {
    const nf_ivf_kernels *ivf;
    float        *products;
    double       *query;      /* dims: the query that distances are computed for */
    double        query_root; /* COSINE: its length; 0 for a zero query */
    double       *rows;       /* rows_room x dims */
    uint32_t      rows_room;
    double       *distances, *order; /* capacity of a query */
    uint32_t     *sorted;
    nf_row_sorter sorter;
    uint64_t      rechecked;
} nf_knn_scratch;

/* Space: one look at all values, then centre and scale. */
nf_status nf_knn_space_open(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t metric,
                            nf_knn_space *space);
void nf_knn_space_close(nf_knn_space *space);

/* Writes row i of a block (i < rows; z: dims of scratch); false when its keys may be inexact. largest: of the round. */
bool nf_knn_pack_row(const nf_knn_space *space, nf_knn_block *block, uint32_t i, double largest, double *z);

/* Writes query i of a round, keeping nothing yet; returns a bound of its length. */
double nf_knn_pack_query(const nf_knn_space *space, nf_knn_round *round, uint32_t i, double *z);

/* Looks at products (one per row of block from `from` on, count of them: a multiple of NF_LANES, at most
 * NF_KNN_CHUNK) and keeps what may be near. */
void nf_knn_keep(const nf_knn_space *space, nf_knn_scratch *scratch, nf_knn_round *round, uint32_t query, uint32_t k,
                 const nf_knn_block *block, uint32_t from, uint32_t count, const float *products);

/* Leaves the k nearest (fewer when there are fewer) in scratch->sorted and scratch->distances, in order; *found: how
 * many. */
nf_status nf_knn_finish(const nf_knn_space *space, nf_knn_scratch *scratch, nf_knn_round *round, uint32_t query,
                        uint32_t k, uint32_t *found);

/* The distances of one query and some rows, as the contract defines them. */
void nf_knn_distances(const nf_knn_space *space, nf_knn_scratch *scratch, uint64_t query, const uint32_t *ids,
                      uint32_t count, double *distances);

nf_status nf_cpu_knn(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, const nf_knn_params *params,
                     int64_t *ids, double *distances, uint32_t *counts, nf_knn_stats *stats);

#endif
