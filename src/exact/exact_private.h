/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/exact share. */
#ifndef NF_EXACT_PRIVATE_H
#define NF_EXACT_PRIVATE_H

#include <stdbool.h>

#include "engine/engine.h"
#include "nearfield/neighbours.h"
#include "nearfield/radius.h"

/* The steps, in order; nf_radius_step_name gives their names. */
typedef enum nf_step {
    NF_STEP_SELECT_DIMS,
    NF_STEP_GROUP,
    NF_STEP_ORDER,
    NF_STEP_FIRST_INTERSECTION_TEST,
    NF_STEP_PLAN_BATCHES,
    NF_STEP_LIST_HITS,
    NF_STEP_REFINE,
    NF_STEP_COMPRESS,
    NF_STEP_DELIVER
} nf_step;

struct nf_radius_index {
    const nf_engine_ops *ops;
    nf_memory           *memory;
    nf_points           *points;
    uint64_t             rows;      /* of the data; points hold zero_rows less */
    uint32_t             dims;
    uint32_t             metric;    /* NF_METRIC_L2 or NF_METRIC_COSINE */
    uint32_t            *kept;      /* cosine: the data's row of each point, ascending; NULL: all rows */
    uint64_t             zero_rows;
    uint32_t             dtype;        /* nf_dtype of the data */
    double               step_seconds[NF_STEP_COUNT];
};

/* A query that is being answered: its search, the queries' own points in a semi-join, and its statistics. */
typedef struct nf_question {
    nf_context            *ctx;
    const nf_radius_index *index;
    nf_points             *own_queries; /* NULL in a self-join */
    nf_search             *search;
    nf_radius_params       params;
    nf_radius_stats        stats;
    uint64_t               rows;        /* queries that the engine knows */
    uint64_t               all_rows;    /* and those of zeros, which it does not */
    const uint32_t        *kept;        /* the row of each query of the engine, ascending; NULL: all rows */
    uint32_t              *own_kept;    /* the same in a semi-join, to be freed */
    bool                   zeros_done;  /* the empty rows of zero queries have been delivered */
    double                 radius;      /* of the engine: Euclidean */
    double                 most;        /* cosine: the greatest distance that is delivered */
    uint32_t               groups;      /* of the queries */
    uint64_t              *list_bytes;  /* per group; NULL when no lists are stored */
    double                 list_seconds, compress_seconds; /* what of nf_search_info is accounted for already */
    nf_search_counters     aside;       /* what the engine has counted in work that was done once more */
} nf_question;

/* Loads a matrix and runs the steps of the index on it. like: the data's points, for queries. */
nf_status nf_exact_build_points(nf_context *ctx, const nf_engine_ops *ops, const nf_matrix *matrix, const nf_points *like,
                                uint32_t group_size, nf_memory *memory, double *step_seconds, nf_points **out);

/* Checks a matrix: shape, type, place. what names it in the error ("data", "queries"). */
nf_status nf_exact_check_matrix(nf_context *ctx, const nf_matrix *matrix, const char *what);

/* Opens a question: checks everything, loads queries, runs first_intersection_test. On failure *question is closed. */
nf_status nf_question_open(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                           const nf_radius_params *params, nf_question *question);
void nf_question_close(nf_question *question);

/* Brings stats up to date with the engine's counters, and adds seconds since started to the whole and to a step. */
void nf_question_account(nf_question *question, nf_step step, double started);

/* Adds one query's number of neighbours to the statistics. */
void nf_question_add_row(nf_question *question, uint64_t neighbours);

/* NF_ERR_LIMIT when more pairs than max_results have been found. */
nf_status nf_question_check_limit(nf_question *question, uint64_t pairs);

/* Copies stats out; fields beyond the caller's struct_size are left out. out may be NULL. */
void nf_question_stats(const nf_question *question, nf_radius_stats *out);

/* A stream hands out its batch's arrays once: the caller frees them with nf_free. */
typedef struct nf_owned_batch {
    int32_t *query_ids;
    int64_t *indptr;
    int32_t *indices;
    void    *distances;
    uint64_t rows, pairs;
} nf_owned_batch;

/* The next batch of a stream of owned arrays; whole: all queries that are left where the engine can (it may still give
 * fewer), and NF_ERR_LIMIT where memory does not allow it. NF_MORE or NF_OK. */
nf_status nf_stream_next_owned(nf_radius_stream *stream, bool whole, nf_owned_batch *batch);
void nf_owned_batch_free(nf_owned_batch *batch);

/* The question that a stream answers, and the first group that it has not delivered; and that its next batch be of
 * groups from begin on, as many as count or fewer. */
nf_question *nf_stream_question(nf_radius_stream *stream);
uint32_t     nf_stream_at(const nf_radius_stream *stream);
void         nf_stream_seek(nf_radius_stream *stream, uint32_t begin, uint32_t count);

/* The number of neighbours of every query of a stream, by the stream's search; its statistics stay what they are but for the
 * time. Not while pairs are kept. */
nf_status nf_stream_counts(nf_radius_stream *stream, uint64_t *counts);

#endif
