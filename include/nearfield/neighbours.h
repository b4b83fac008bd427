/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k nearest neighbours: what every kind of search by k shares, and the exact search.
 *
 * A result is two arrays of queries x k, row after row: ids and distances, in ascending order of (distance, id). A query
 * with fewer than k neighbours has ids -1 and distances +infinity at the end of its row.
 */
#ifndef NEARFIELD_NEIGHBOURS_H
#define NEARFIELD_NEIGHBOURS_H

#include <stddef.h>
#include <stdint.h>

#include "context.h"
#include "matrix.h"
#include "metric.h"
#include "radius.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NF_MAX_K 10000u

typedef struct nf_knn_params {
    size_t   struct_size; /* set by nf_knn_params_init */
    uint32_t k;           /* 1 to 10,000; default 10 */
    uint32_t metric;      /* nf_metric */
} nf_knn_params;

typedef struct nf_knn_stats {
    size_t   struct_size; /* the caller sets it to sizeof(nf_knn_stats) before the call */
    double   seconds;
    uint64_t compared;    /* (query, row) pairs looked at */
    uint64_t rechecked;   /* of these, pairs that fast arithmetic left open: their distance was computed in binary64 */
} nf_knn_stats;

/* Fills params with the defaults. Cannot fail. */
NF_API void nf_knn_params_init(nf_knn_params *params);

/* Sets one parameter by name ("k", "metric") from text. NF_ERR_ARGUMENT; *error may be NULL. */
NF_API NF_NODISCARD nf_status nf_knn_params_set(nf_knn_params *params, const char *name, const char *value,
                                                nf_error *error);

/*
 * Finds the k nearest rows of data (n x d) for each query (m x d), exactly, by comparing all pairs. The order is that of
 * the binary64 distances (below), then of the row number; it is the same on every engine, instruction set and thread count.
 * L2: sqrt of the sum of squared differences, one fused multiply-add per dimension in ascending order (docs/numerics.md).
 * IP and COSINE: inner products by one fused multiply-add per dimension in ascending order, from 0; IP: 0 - dot, so never -0;
 * COSINE: 1 - dot / (sqrt(xx) sqrt(qq)), each operation rounded once, after a row whose xx is outside [2^-900, 2^1000] has
 * been scaled by a power of two.
 * ids: m x k; distances: m x k doubles; counts: m values, how many neighbours each query has (may be NULL). stats may be
 * NULL. data and queries may be of any type; both stay the caller's.
 * Time: n m d multiply-adds in binary32 on all threads, then binary64 for the pairs that these leave open. Memory: up
 * to 64 MB for a round of queries (a quarter of what is left of the limit, if less), one 2 MB block of data, and less than
 * 1 MB per thread.
 * NF_ERR_ARGUMENT (k, metric, dims that differ), NF_ERR_VALUE (NaN or infinity: row and column named), NF_ERR_MEMORY,
 * NF_ERR_LIMIT, NF_ERR_CANCELLED.
 */
NF_API NF_NODISCARD nf_status nf_knn(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries,
                                     const nf_knn_params *params, int64_t *ids, double *distances, uint32_t *counts,
                                     nf_knn_stats *stats);

/*
 * Finds the k nearest rows of an index (n x d) for each query (m x d), exactly, under L2: the answer that nf_knn gives, to
 * the byte, without comparing all pairs where groups of rows can be left out. queries NULL: the data themselves, in the
 * order of their rows; a row is not its own neighbour, by index, never by value, so that a row has at most n - 1 and a
 * copy of it is one.
 * ids: m x k; distances: m x k doubles; counts: m values, how many neighbours each query has (may be NULL). stats may be
 * NULL; its struct_size is set before the call. queries may be of any type, with d that of the index.
 * Any number of threads may use an index at once, each with a context of its own.
 * Method: from the nearest groups of rows outwards where the engine does that (cpu). Elsewhere (cuda) by radius searches,
 * each of the queries that have not found k yet, with larger radii, the first by a sample (named as future work in
 * RT-HiSS); where a radius finds far too many, it is halved for these. docs/architecture.md.
 * Time: O(m log n) box tests and d operations for each pair compared (stats.compared), on all threads of the context; at
 * worst all pairs, or a multiple of them where radii grow. Memory: that of the queries' own index, and batches of pairs, at
 * most what the memory limit allows; where radii grow, 56 bytes per query.
 * NF_ERR_ARGUMENT (k, metric, dims that differ), NF_ERR_UNSUPPORTED (a metric other than L2), NF_ERR_VALUE (NaN or
 * infinity in queries: row and column named), NF_ERR_MEMORY, NF_ERR_LIMIT, NF_ERR_CANCELLED, and of the cuda engine
 * NF_ERR_DEVICE_MEMORY, NF_ERR_DEVICE.
 */
NF_API NF_NODISCARD nf_status nf_radius_knn(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                            const nf_knn_params *params, int64_t *ids, double *distances,
                                            uint32_t *counts, nf_knn_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
