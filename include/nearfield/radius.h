/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact radius search and similarity join: every pair within a radius, after RT-HiSS (arXiv:2609.01975).
 *
 * (x, y) is a result iff sum (x_i - y_i)^2 <= radius^2 over the real numbers, for the binary values stored. The answer
 * does not depend on engine, instruction set, thread count, batch size or order of rows. docs/numerics.md has the proof.
 * Distances, where asked for, are sqrt(sum (x_i - y_i)^2) in binary64, one fused multiply-add per dimension in the order
 * of the columns, never above the radius.
 *
 * Cosine: an index of metric NF_METRIC_COSINE holds every row divided by its length and rounded to binary32, by the rule of
 * docs/numerics.md, section 11; its queries are treated alike. On these binary32 rows the definition above holds, with the
 * radius sqrt(2 r) for a cosine distance r = 1 - cosine; distances are delivered as cosine distances, d^2 / 2. The cosine of
 * a row of zeros is 0 to everything: it has no neighbours, not even itself, and is nobody's neighbour.
 *
 * Life: create an index from the data (build), then query it any number of times with any radius, from any number of
 * contexts at once; it never changes. Self-join: queries = NULL.
 */
#ifndef NEARFIELD_RADIUS_H
#define NEARFIELD_RADIUS_H

#include <stddef.h>
#include <stdint.h>

#include "context.h"
#include "matrix.h"
#include "metric.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_radius_index nf_radius_index;
typedef struct nf_radius_stream nf_radius_stream;

typedef enum nf_candidates {
    NF_CANDIDATES_AUTO = 0,
    NF_CANDIDATES_RT = 1,    /* ray tracing; needs the CUDA engine */
    NF_CANDIDATES_BVH = 2,   /* queries against groups' boxes in the 3 index dims, grown by the radius, by a BVH */
    NF_CANDIDATES_BOXES = 3, /* groups against groups, boxes in all dims and centroid-radius, then queries against boxes */
    NF_CANDIDATES_NONE = 4   /* all pairs */
} nf_candidates;

typedef enum nf_refine {
    NF_REFINE_AUTO = 0,
    NF_REFINE_FP32 = 1,
    NF_REFINE_FP64 = 2,
    NF_REFINE_TENSOR = 3, /* binary16 on tensor cores, and a proven bound: the CUDA engine, compute capability 8.0 or later */
    NF_REFINE_INT8 = 4    /* needs u8 or i8 data and metric l2; on a GPU compute capability 8.0 or later, and only when asked for */
} nf_refine;

typedef enum nf_distances { NF_DISTANCES_F64 = 0, NF_DISTANCES_F32 = 1, NF_DISTANCES_NONE = 2 } nf_distances;

/* Variants of the paper, for measuring; the answer is the same for all. The CPU engine takes the defaults only:
 * NF_ERR_UNSUPPORTED. */
typedef enum nf_share { /* what refinement stages in shared memory (section V-F): --tile */
    NF_SHARE_BOTH = 0,
    NF_SHARE_POINTS = 1,
    NF_SHARE_QUERIES = 2,
    NF_SHARE_NONE = 3
} nf_share;
typedef enum nf_result { /* how results are kept on the device (section V-G): --result */
    NF_RESULT_AUTO = 0,
    NF_RESULT_MASK = 1,     /* one bit per comparison, compacted on the device */
    NF_RESULT_MASK_RAW = 2, /* the bits are copied to the host and decoded there */
    NF_RESULT_PAIRS = 3,    /* key-value pairs, with room for the worst case */
    NF_RESULT_APPEND = 4    /* pairs, with as much room as there is, and a check */
} nf_result;
typedef enum nf_bounds { NF_BOUNDS_BOX = 0, NF_BOUNDS_SPHERE = 1 } nf_bounds; /* of groups, methods rt and bvh */

typedef enum nf_sort { NF_SORT_ID = 0, NF_SORT_DISTANCE = 1 } nf_sort; /* by distance: then by id */

#define NF_MAX_HEIGHT 31

typedef struct nf_radius_index_params {
    size_t   struct_size; /* set by nf_radius_index_params_init */
    uint32_t group_size;  /* points in a group (leaf of the kd-tree); 0: fitted to the kernels' tile; 1: no grouping. The
                             CPU engine takes at most 64, the CUDA engine 65,536 */
    uint32_t height;      /* height of the kd-tree, up to NF_MAX_HEIGHT: groups of rows / 2^height points, as if that were
                             the group_size, which must be 0 then; 0: by group_size */
    uint32_t metric;      /* nf_metric: NF_METRIC_L2 (default) or NF_METRIC_COSINE; NF_METRIC_IP: NF_ERR_ARGUMENT */
    uint32_t reserved;
} nf_radius_index_params;

typedef struct nf_radius_params {
    size_t   struct_size;  /* set by nf_radius_params_init */
    double   radius;       /* plain distance, not squared; 0 finds equal rows, infinity finds all; NaN, < 0: error. Of a
                              cosine index: cosine distance, at least 0 and below 1, in place of similarity */
    uint32_t candidates;   /* nf_candidates */
    uint32_t refine;       /* nf_refine */
    uint32_t distances;    /* nf_distances */
    uint32_t sort;         /* nf_sort */
    uint32_t self;         /* self-join: 1 keeps the pairs (i, i); default 0. Not allowed with queries */
    uint32_t half;         /* self-join: 1 delivers only i < j (and i = i with self); default 0. Not with queries */
    uint32_t strict;       /* 1: < instead of <= */
    uint32_t share;        /* nf_share */
    uint64_t max_results;  /* 0: no limit; more pairs than that: NF_ERR_LIMIT */
    uint64_t batch_pairs;  /* stream: at most about this many pairs in a batch; 0: from the memory limit */
    uint32_t result;       /* nf_result */
    uint32_t group_bounds; /* nf_bounds */
    uint32_t no_early_exit; /* 1: every comparison takes all dims, for measuring */
    uint32_t reserved;
    double   similarity;   /* of a cosine index: least cosine, above 0 and at most 1, in place of radius, which must be 0 or
                              NaN then; default NaN: not given. 1: rows equal once they are of unit length and binary32 */
    double   inner_radius; /* -1 (the default): none. Else from 0 to radius: of the pairs of the join at radius, those that
                              are not in the join at inner_radius. strict is that of both joins, so rings from radius to
                              radius part the pairs. Counts: every engine; else NF_ERR_UNSUPPORTED but on the CPU engine */
    const double *radii;   /* NULL: none. Else one radius per query row in place of radius: (q, x) is a result iff
                              d <= radii[q]. A self-join is then not symmetric: half is an error. Not with inner_radius.
                              CPU engine. They must stay as long as the queries */
    uint64_t stop_at;      /* 0: off. nf_radius_counts gives min(count, stop_at), and spares work for rows that have got so
                              far: hits, compared, rechecked and ties then depend on the threads. An error elsewhere */
} nf_radius_params;

#define NF_STEP_COUNT 9
#define NF_HISTOGRAM_BINS 33

/* What a query did. Seconds of steps may overlap and are wall time of the step's calls. */
typedef struct nf_radius_stats {
    size_t      struct_size;      /* the caller sets it to sizeof(nf_radius_stats) before the call */
    uint64_t    rows, queries;
    uint32_t    dims;
    uint32_t    candidates;       /* the method used, never AUTO */
    const char *refine;           /* the kernel used: "int8", "fp32-product", "fp32-difference", "fp64", "tensor" */
    char        why[160];         /* why auto chose the method; empty when it was asked for */
    uint64_t    pairs;            /* as delivered */
    uint64_t    hits;             /* (query, group) pairs that refine took up; two groups decided once count both ways */
    uint64_t    compared;         /* (query, row) pairs given to refine; one decided for both directions counts twice */
    uint64_t    rechecked;        /* pairs that fast arithmetic left open; each pair decided once counts once */
    uint64_t    ties;             /* ordered pairs i != j at distance exactly the radius; the same on every engine */
    uint64_t    batches;
    double      seconds;          /* all steps of the query; the index's build is in build_seconds */
    double      build_seconds;
    double      step_seconds[NF_STEP_COUNT]; /* by nf_radius_step_name; the first three are the index's build */
    uint64_t    histogram[NF_HISTOGRAM_BINS]; /* queries by number of neighbours delivered: bin 0 holds 0, bin b holds
                                                 2^(b-1) .. 2^b - 1 */
    uint64_t    device_batches;   /* how many parts a GPU worked in; 0 on the CPU */
    uint64_t    zero_rows, zero_queries; /* cosine: rows of zeros, in the data and in the queries; else 0 */
} nf_radius_stats;

/* A result in compressed sparse rows. Rows in query order; inside a row by id, or by distance then id. */
typedef struct nf_csr {
    uint64_t       rows, columns, pairs;
    const int64_t *indptr;       /* rows + 1 */
    const int32_t *indices;      /* pairs; row numbers of the data */
    const void    *distances;    /* pairs of double or float; NULL with NF_DISTANCES_NONE */
    uint32_t       distances_as; /* nf_distances */
} nf_csr;

/* Complete rows of some queries. Valid until the next call on the stream. */
typedef struct nf_radius_batch {
    uint64_t       rows;         /* queries in this batch */
    uint64_t       pairs;
    const int32_t *query_ids;    /* rows; which queries, ascending */
    const int64_t *indptr;       /* rows + 1 */
    const int32_t *indices;      /* pairs */
    const void    *distances;    /* pairs of double or float, or NULL */
    uint32_t       distances_as; /* nf_distances */
} nf_radius_batch;

/* Fills params with the defaults. Cannot fail. */
NF_API void nf_radius_index_params_init(nf_radius_index_params *params);
NF_API void nf_radius_params_init(nf_radius_params *params);

/* Sets one parameter by name ("radius", "candidates", ...; "height", ...) from text. NF_ERR_ARGUMENT; *error may be
 * NULL. */
NF_API NF_NODISCARD nf_status nf_radius_params_set(nf_radius_params *params, const char *name, const char *value,
                                                   nf_error *error);
NF_API NF_NODISCARD nf_status nf_radius_index_params_set(nf_radius_index_params *params, const char *name,
                                                         const char *value, nf_error *error);

/* Returns the name of a step, 0 <= step < NF_STEP_COUNT ("select_dims", ...); NULL beyond. Static string. */
NF_API const char *nf_radius_step_name(uint32_t step);

/* Returns the name of a candidate method ("boxes"). Static string. */
NF_API const char *nf_candidates_name(uint32_t candidates);

/*
 * Builds an index on n x d data. It holds its own copy; data may be freed afterwards.
 * Cost: O(n log n) time; memory about one copy of the data and 32 bytes per row. Metric cosine: a binary32 copy of the rows
 * more while it is built (none of the original), and 4 bytes per row to stay where there are rows of zeros.
 * NF_ERR_ARGUMENT (metric, d = 0, too many rows, a group size that the engine does not take, or one beside a height),
 * NF_ERR_VALUE (NaN or infinity: the text names row and column; an integer beyond 2^53), NF_ERR_MEMORY, NF_ERR_LIMIT,
 * NF_ERR_CANCELLED.
 */
NF_API NF_NODISCARD nf_status nf_radius_index_create(nf_context *ctx, const nf_matrix *data,
                                                     const nf_radius_index_params *params, nf_radius_index **out);

/* Releases an index. May be NULL. */
NF_API void nf_radius_index_release(nf_radius_index *index);

/* Returns rows and dims of the data, and the bytes that the index holds. Any pointer may be NULL. */
NF_API void nf_radius_index_describe(const nf_radius_index *index, uint64_t *rows, uint32_t *dims, uint64_t *bytes);

/*
 * Queries. For all functions below, unless a comment says otherwise:
 *  - queries are m x d values of any type, d that of the index; NULL stands for the data themselves (self-join);
 *  - an index may be used by any number of threads at once, each with a context of its own;
 *  - time: O(m log n) box tests and d operations for each pair compared (stats.compared), on all threads of the context;
 *  - statuses: NF_ERR_ARGUMENT (radius, choices, dims that differ, self or half with queries), NF_ERR_VALUE (NaN or
 *    infinity in queries, row and column named), NF_ERR_UNSUPPORTED (candidates or refine that this engine or these
 *    values do not allow), NF_ERR_MEMORY, NF_ERR_LIMIT (max_results or the memory limit; the text says the number),
 *    NF_ERR_CANCELLED.
 * Method: RT-HiSS, section IV; docs/architecture.md.
 */

/*
 * Finds all neighbours of all queries (m x d, or NULL: the data themselves), in memory.
 * *out is released with nf_csr_release. stats may be NULL.
 * Memory: 8 (m + 1) + 12 bytes per pair (8 with f32 distances, 4 with none), and up to 6 bytes per pair on the way, of
 * which 4 are given back before distances are computed. A result that a GPU cannot hold is put together from batches: then
 * the largest of them is there beside the whole, and the rows are counted first, by one more search.
 * NF_ERR_LIMIT: more than max_results pairs, or more than the memory limit holds; the text says the number.
 */
NF_API NF_NODISCARD nf_status nf_radius_csr(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                            const nf_radius_params *params, nf_csr **out, nf_radius_stats *stats);

/* Releases a result. May be NULL. */
NF_API void nf_csr_release(nf_csr *csr);

/* Counts the neighbours of each query into counts (m values, the caller's), in query order. No pair is stored: memory is
 * that of the queries' own index. */
NF_API NF_NODISCARD nf_status nf_radius_counts(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                               const nf_radius_params *params, uint64_t *counts,
                                               nf_radius_stats *stats);

#define NF_MAX_HISTOGRAM_RADII 1024

/*
 * Counts the pairs within each of radius_count radii (ascending, at least 0, at most NF_MAX_HISTOGRAM_RADII; equal ones and
 * infinity allowed): pairs[i], the caller's, is exactly the sum of the counts of nf_radius_counts at radii[i], with self,
 * half and strict as params say. params->radius and max_results are not used; inner_radius, radii and stop_at are errors.
 * stats may be NULL: those of the search at the largest radius, or of the sum of all passes (seconds, hits, compared,
 * rechecked) where the engine takes one pass per radius; ties are those at the largest radius. Memory: as
 * nf_radius_counts, and 8 bytes per query. Any thread, one call per context at a time.
 */
NF_API NF_NODISCARD nf_status nf_radius_histogram(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                                  const nf_radius_params *params, const double *radii,
                                                  uint32_t radius_count, uint64_t *pairs, nf_radius_stats *stats);

/*
 * Delivers results in batches of complete rows, within the memory limit, in processing order.
 * Queries must outlive the stream. One stream at a time per context. next: NF_MORE with a batch, NF_OK at the end.
 * stats: may be asked at any time; complete at the end. close: also in the middle, and of NULL.
 * After a failure of next (NF_ERR_LIMIT when not even one group's rows fit the memory limit) the stream can only be closed:
 * NF_ERR_STATE. Memory: as much as the limit allows for what a batch holds; less with batch_pairs.
 */
NF_API NF_NODISCARD nf_status nf_radius_open(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                             const nf_radius_params *params, nf_radius_stream **out);
NF_API NF_NODISCARD nf_status nf_radius_next(nf_radius_stream *stream, nf_radius_batch *batch);
NF_API void nf_radius_stream_stats(const nf_radius_stream *stream, nf_radius_stats *stats);
NF_API void nf_radius_close(nf_radius_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
