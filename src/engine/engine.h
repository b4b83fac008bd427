/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine must offer: one operation per step of the exact pipeline (docs/architecture.md).
 *
 * src/exact owns the order of the steps and looks into no buffer: points, searches and hits are opaque, so an engine
 * keeps them where it likes (host, device). Every operation records its failures on ctx and may be cancelled through it.
 *
 * Rules for implementers:
 *  - The set of pairs and every delivered byte are fixed by the contract in nearfield/radius.h; an engine may choose any
 *    grouping, order and arithmetic that gives them.
 *  - Points are immutable after order(); any number of searches in any number of contexts may use them at once.
 *  - A search belongs to one context and one thread at a time.
 */
#ifndef NF_ENGINE_H
#define NF_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core_context.h"
#include "nearfield/matrix.h"
#include "engine_ivf.h"
#include "nearfield/neighbours.h"
#include "nearfield/radius.h"

#define NF_ENGINE_ABI 2u

typedef struct nf_points nf_points; /* rows of a matrix in the engine's memory, grouped and ordered */
typedef struct nf_search nf_search; /* one question: data, queries, radius, and what has been found so far */

typedef struct nf_points_info {
    uint64_t rows;
    uint32_t dims;
    uint32_t groups;  /* after group() */
    uint64_t bytes;   /* held in all places */
} nf_points_info;

typedef struct nf_search_spec {
    double   radius;     /* >= 0, may be infinite */
    uint32_t candidates; /* nf_candidates; AUTO lets the engine choose by a sample */
    uint32_t refine;     /* nf_refine */
    bool     self_join;  /* queries are the data */
    bool     keep_self;  /* self-join: deliver (i, i) */
    bool     half;       /* self-join: deliver i < j only */
    bool     strict;     /* < instead of <= */
    uint32_t share;      /* nf_share, nf_result, nf_bounds: for engines that have the paper's variants */
    uint32_t result;
    uint32_t bounds;
    bool     no_early_exit;
    double   inner_radius; /* < 0: none; engines with NF_CAN_INNER */
    const double *radii;   /* by query id, or NULL; radius is then the largest; engines with NF_CAN_RADII */
    uint64_t stop_at;      /* refine_counts may stop at it for any row; 0: off */
} nf_search_spec;

/* What an engine does beyond one radius. */
#define NF_CAN_INNER 1u
#define NF_CAN_RADII 2u

/* What has happened in a search. Filled by the engine, added up over batches. */
typedef struct nf_search_counters {
    uint64_t hits;      /* (query, group) pairs that refine took up; two groups decided once count both ways */
    uint64_t compared;  /* (query, row) pairs decided by refine; one decided for both directions counts twice */
    uint64_t rechecked; /* pairs that fast arithmetic left open */
    uint64_t ties;      /* ordered pairs i != j at distance exactly the radius */
} nf_search_counters;

typedef struct nf_search_info {
    uint32_t    candidates; /* the method in use, never AUTO */
    const char *why;        /* why it was chosen; "" when it was asked for */
    const char *refine;     /* the kernel in use */
    uint64_t    kept_bytes; /* of the pairs that the last refine kept, for planning the next batch */
    uint64_t    batches;    /* device batches so far; 0: the engine takes every batch whole */
    double      list_seconds, compress_seconds; /* of refine, so far: seconds that went into these steps */
    nf_search_counters counters;
} nf_search_info;

/* A batch is a range of query groups [begin, end) in processing order. */
typedef struct nf_batch {
    uint32_t begin, end;
} nf_batch;

typedef struct nf_engine_ops {
    size_t      struct_size;
    uint32_t    abi;
    const char *name;

    /* ---- points: the steps of the index ---- */

    /* Takes a view of the matrix (it must stay until order() is done) and checks its values: NF_ERR_VALUE names row and
     * column. memory: account for what outlives the context. */
    nf_status (*points_open)(nf_context *ctx, const nf_matrix *matrix, nf_memory *memory, nf_points **out);
    /* Order of the coordinates by decreasing variance; the first three are the index dims (paper, section IV-A). Queries
     * of a semi-join take the order of the data (like); NULL for the data themselves. */
    nf_status (*select_dims)(nf_context *ctx, nf_points *points, const nf_points *like);
    /* Balanced kd-tree by rank; its leaves are the groups (section IV-B). group_size 0: the engine's best. */
    nf_status (*group)(nf_context *ctx, nf_points *points, uint32_t group_size);
    /* Groups in Morton order, rows of a group contiguous (section IV-C); boxes. Copies the rows: the matrix may go. */
    nf_status (*order)(nf_context *ctx, nf_points *points);
    void (*points_describe)(const nf_points *points, nf_points_info *info);
    void (*points_close)(nf_points *points);

    /* ---- search: the steps of a query ---- */

    /* queries == data in a self-join. Chooses the kernel. */
    nf_status (*search_open)(nf_context *ctx, const nf_points *data, const nf_points *queries,
                             const nf_search_spec *spec, nf_search **out);
    void (*search_info)(const nf_search *search, nf_search_info *info);
    void (*search_close)(nf_search *search);

    /* Number of boxes hit (section IV-D, "FIT"): fills list_bytes[query group] with what the group's hits will take in the
     * lists of a batch, for plan_batches; 0 where the engine lists hits as it refines. Chooses the candidate method where
     * the search asks for AUTO. */
    nf_status (*first_intersection_test)(nf_context *ctx, nf_search *search, uint64_t *list_bytes);
    /* The hits of a batch, for refine (section IV-D, passes 1 and 2). An engine may list them group by group in refine. */
    nf_status (*list_hits)(nf_context *ctx, nf_search *search, nf_batch batch);
    /* Decides the candidates of the batch and keeps the pairs found, at most about limit_bytes of them: when they are more,
     * keeps none, sets *overflow and returns NF_OK (section IV-E). In a self-join every pair of groups inside the batch is
     * decided once. Where an engine's own memory ends sooner, it may end the batch there: batch->end comes down, the rows
     * before it are complete. */
    nf_status (*refine)(nf_context *ctx, nf_search *search, nf_batch *batch, uint64_t limit_bytes, bool *overflow);
    /* The same, but keeps only the number of neighbours: adds to counts[query id]. */
    nf_status (*refine_counts)(nf_context *ctx, nf_search *search, nf_batch batch, uint64_t *counts);
    /* Number of queries in a batch. */
    uint64_t (*batch_rows)(const nf_search *search, nf_batch batch);
    /* Row lengths of the pairs kept: query_ids ascending (batch_rows of them), indptr (batch_rows + 1, from 0). */
    nf_status (*compress)(nf_context *ctx, nf_search *search, nf_batch batch, int32_t *query_ids, int64_t *indptr);
    /* The rows themselves: data row numbers and distances (double, float, or NULL by distances), sorted. Releases the
     * pairs kept. */
    nf_status (*deliver)(nf_context *ctx, nf_search *search, nf_batch batch, const int64_t *indptr, int32_t *indices,
                         void *distances, nf_distances distances_as, nf_sort sort);

    /* ---- exact k nearest neighbours by comparing all pairs: nf_knn of nearfield/neighbours.h, arguments checked;
     * stats is not NULL, and added to ---- */
    nf_status (*knn)(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, const nf_knn_params *params,
                     int64_t *ids, double *distances, uint32_t *counts, nf_knn_stats *stats);

    /* k nearest neighbours under L2, from the nearest groups outwards; NULL: the engine has none. In the order of queries'
     * ids (row numbers): ids and distances queries x k, counts may be NULL; a row with fewer than k ends with -1 and
     * +infinity. self_join: queries == data, a row is not its own neighbour (by index, never by value). Order: delivered
     * distance, then id. stats is not NULL, and added to. */
    nf_status (*knn_points)(nf_context *ctx, const nf_points *data, const nf_points *queries, bool self_join, uint32_t k,
                            int64_t *ids, double *distances, uint32_t *counts, nf_knn_stats *stats);
    /* Values of count rows, by row number, in the caller's order of columns: count x dims. Binary64 holds every value of
     * every type. After order(). */
    nf_status (*points_read)(nf_context *ctx, const nf_points *points, const uint32_t *rows, uint64_t count,
                             double *values);

    /* ---- approximate k nearest neighbours ---- */
    const nf_ivf_ops *ivf;

    uint32_t abilities; /* NF_CAN_... */
    /* May be NULL. As refine_counts, but adds to pairs[i] the number of pairs of the batch within radii[i]: radius_count of
     * them, ascending, the search's radius the last. */
    nf_status (*refine_histogram)(nf_context *ctx, nf_search *search, nf_batch batch, const double *radii,
                                  uint32_t radius_count, uint64_t *pairs);
} nf_engine_ops;

/* NF_WORK_KNN_L2: k nearest neighbours under L2, which radius searches find, too. */
typedef enum nf_work { NF_WORK_RADIUS, NF_WORK_KNN, NF_WORK_IVF, NF_WORK_KNN_L2 } nf_work;

/* The engine for work on data of that many rows and dims (0 where not known): what the context asks for, or the best one.
 * Out of *out the operations of that work are there: for NF_WORK_KNN knn, for NF_WORK_KNN_L2 knn or points_read, for
 * NF_WORK_IVF ivf. The context notes the choice. NF_ERR_ENGINE: an engine asked for cannot run; NF_ERR_UNSUPPORTED: it
 * does not do this work. */
nf_status nf_engine_for(nf_context *ctx, nf_work work, uint64_t rows, uint32_t dims, const nf_engine_ops **out);

#endif
