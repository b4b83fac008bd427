/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters of rows by density, without storing the pairs of neighbours: DBSCAN, and connected components as its case of
 * one row. */
#ifndef NEARFIELD_CLUSTER_H
#define NEARFIELD_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "radius.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_dbscan_params {
    size_t   struct_size; /* set by nf_dbscan_params_init */
    double   radius;      /* plain distance; 0: equal rows; NaN, < 0: error. Of a cosine index: cosine distance, below 1 */
    uint32_t min_samples; /* a row with so many rows within the radius, itself counted, is a core row; default 5, at
                             least 1, which makes the clusters the connected components of the rows within the radius */
    uint32_t strict;      /* 1: < instead of <= */
    double   similarity;  /* of a cosine index: least cosine, in place of radius, as in nf_radius_params; NaN: not given */
} nf_dbscan_params;

typedef struct nf_dbscan_stats {
    size_t   struct_size; /* the caller sets it before the call */
    uint64_t clusters;
    uint64_t core, border, noise; /* rows of each kind; together all rows */
    uint64_t pairs;               /* unordered pairs within the radius */
    uint32_t passes;              /* over the pairs: 2 or 3; 1 where min_samples is 1 */
    uint32_t reserved;
    double   seconds;
} nf_dbscan_stats;

/* Fills params with the defaults; the radius is to be set. Cannot fail. */
NF_API void nf_dbscan_params_init(nf_dbscan_params *params);

/* Sets one parameter by name ("radius", "min-samples", "strict") from text. NF_ERR_ARGUMENT; *error may be NULL. */
NF_API NF_NODISCARD nf_status nf_dbscan_params_set(nf_dbscan_params *params, const char *name, const char *value,
                                                   nf_error *error);

/*
 * Clusters the rows of an index by density (Ester, Kriegel, Sander and Xu, KDD 1996). labels: one per row; -1 is noise,
 * and clusters are numbered in the order of their first core rows. A border row, which is no core row but has some
 * within the radius, belongs to the cluster of the lowest number among theirs. So there is one right answer, that of
 * scikit-learn's DBSCAN(eps=radius, min_samples). core: one byte per row, 1 for core rows; may be NULL. stats may be
 * NULL. Method: a counting pass finds core rows (where min_samples is 1 all rows are, and it is left out); a pass over
 * the pairs, in batches, unites them in a disjoint-set forest; pairs of a border row and a core row are kept up to 64 MB,
 * beyond that a third pass looks at them. Cost: two or three radius self-joins, one where min_samples is 1. Memory: 17
 * bytes per row, up to 64 MB of pairs, and batches of at most 8 million pairs (fewer where the limit asks for it).
 * Of a cosine index, rows of zeros have no neighbours, not even themselves, and are noise, whatever min_samples is.
 * Any number of threads may use an index at once, each with a context of its own.
 * NF_ERR_ARGUMENT (radius, min_samples, labels NULL), NF_ERR_MEMORY, NF_ERR_LIMIT, NF_ERR_CANCELLED, and of the cuda
 * engine NF_ERR_DEVICE_MEMORY, NF_ERR_DEVICE.
 */
NF_API NF_NODISCARD nf_status nf_dbscan(nf_context *ctx, const nf_radius_index *index, const nf_dbscan_params *params,
                                        int64_t *labels, uint8_t *core, nf_dbscan_stats *stats);

typedef struct nf_components_params {
    size_t   struct_size; /* set by nf_components_params_init */
    double   radius;      /* plain distance; 0: equal rows; NaN, < 0: error */
    uint32_t strict;      /* 1: < instead of <= */
    uint32_t reserved;
} nf_components_params;

typedef struct nf_components_stats {
    size_t   struct_size; /* the caller sets it before the call */
    uint64_t components;
    uint64_t largest;     /* rows of the largest one */
    uint64_t singletons;  /* components of one row */
    uint64_t pairs;       /* unordered pairs within the radius */
    double   seconds;
} nf_components_stats;

/* Fills params with the defaults; the radius is to be set. Cannot fail. */
NF_API void nf_components_params_init(nf_components_params *params);

/*
 * Finds the connected components of the graph whose edges are the pairs of rows within the radius: single linkage, cut at
 * the radius. labels: one per row; components are numbered in the order of their first rows. stats may be NULL. Of a cosine
 * index the radius is the cosine distance, and rows of zeros are in no component: -1.
 * Method: that of nf_dbscan with min_samples 1, where every row is core. Cost: one radius self-join. Memory: 5 bytes per
 * row, 4 more for the sizes where stats are asked for, and batches of at most 8 million pairs.
 * Any number of threads may use an index at once, each with a context of its own.
 * NF_ERR_ARGUMENT (radius, labels NULL), NF_ERR_MEMORY, NF_ERR_LIMIT, NF_ERR_CANCELLED, and of the cuda engine
 * NF_ERR_DEVICE_MEMORY, NF_ERR_DEVICE.
 */
NF_API NF_NODISCARD nf_status nf_radius_components(nf_context *ctx, const nf_radius_index *index,
                                                   const nf_components_params *params, int64_t *labels,
                                                   nf_components_stats *stats);

/*
 * The same on a stored graph of n x n distances, as nf_radius_csr and nf_read_graph give them: entries of at most the radius
 * (strict: below it) are edges, also those of distance 0; where graph->distances is NULL all entries are. An entry of a row
 * and itself says nothing, since every row is within the radius of itself. So labels are those of scikit-learn's DBSCAN
 * with metric="precomputed" on the same sparse matrix (there, a distance of a row to itself beyond the radius would count).
 * Edges of nf_graph_components need not go both ways. nf_graph_dbscan refuses a graph with an edge that does not, or stands
 * there twice, with NF_ERR_VALUE naming the first one (of a join with half, for one).
 * core and stats as above, but pairs of nf_graph_components counts edges as stored, those of both ways twice. One thread.
 * Time: O(rows + entries). Memory: of nf_graph_components 4 bytes per row, and 4 for the sizes; of nf_graph_dbscan 21
 * bytes per row and 8 per edge.
 * NF_ERR_ARGUMENT (parameters, NULL, a graph that is not square, indptr or indices that are none), NF_ERR_VALUE,
 * NF_ERR_MEMORY, NF_ERR_LIMIT, NF_ERR_CANCELLED.
 */
NF_API NF_NODISCARD nf_status nf_graph_dbscan(nf_context *ctx, const nf_csr *graph, const nf_dbscan_params *params,
                                              int64_t *labels, uint8_t *core, nf_dbscan_stats *stats);
NF_API NF_NODISCARD nf_status nf_graph_components(nf_context *ctx, const nf_csr *graph,
                                                  const nf_components_params *params, int64_t *labels,
                                                  nf_components_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
