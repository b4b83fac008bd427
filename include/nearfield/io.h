/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading matrices and neighbours from files, and writing matrices, neighbours and join results. docs/formats.md
 * describes every format.
 *
 * No byte of a file is trusted: every size is checked against the file's length before anything is allocated; an error's
 * text names the file, what is wrong and where. Files are written under a temporary name in the same folder and renamed
 * when complete; on failure nothing is left under the final name, and an old file there stays.
 */
#ifndef NEARFIELD_IO_H
#define NEARFIELD_IO_H

#include <stddef.h>
#include <stdint.h>

#include "context.h"
#include "matrix.h"
#include "neighbours.h"
#include "radius.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_dataset nf_dataset;

typedef struct nf_read_params {
    size_t      struct_size;  /* set by nf_read_params_init */
    uint64_t    rows[2];      /* rows A to B-1 of the file; default 0, UINT64_MAX (all). Beyond the end: error */
    const char *columns;      /* text files: columns to take: "1,3,5-8" (from 1) or names; NULL: all */
    const char *format;       /* "npy", "csv", "fvecs", ..., "raw"; NULL: by the file's suffix */
    const char *dtype;        /* raw: type of the values ("f32"); NULL: f32 */
    uint32_t    dims;         /* raw: values in a row */
    uint32_t    skip_invalid; /* 1: leave out rows with NaN or infinity (text: also empty cells and '?') */
} nf_read_params;

typedef struct nf_file_info {
    char     format[16];      /* "npy", "csv", "fvecs", ... */
    uint64_t rows;
    uint32_t dims;
    uint32_t dtype;           /* nf_dtype of the matrix that reading gives */
    uint64_t bytes;           /* of the file */
    uint32_t header_lines;    /* text: 1 when the first line holds names */
    char     detail[96];      /* one more fact in words: "16-byte header", "comma", "Fortran order"; may be empty */
} nf_file_info;

typedef struct nf_write_params {
    size_t         struct_size;   /* set by nf_write_params_init */
    const char    *format;        /* NULL: by the path's suffix; needed for "-" (standard output) */
    uint32_t       counts;        /* join: 1 writes one count per query instead of pairs; a matrix of one column: 1 makes
                                     a .npy of one dimension of it */
    uint32_t       sync;          /* 1 (default): fsync file and folder before the call returns */
    int64_t        query_first;   /* id of query row 0 where query_ids is NULL */
    int64_t        data_first;    /* id of data row 0 where data_ids is NULL */
    const int64_t *query_ids;     /* ids of the query rows in the file (ascending), or NULL */
    const int64_t *data_ids;      /* ids of the data rows in the file (ascending), or NULL */
    uint64_t       query_rows;    /* rows of the original query file (CSR rows); 0: as many as needed */
    uint64_t       data_rows;     /* rows of the original data file (CSR columns); 0: as many as needed */
} nf_write_params;

/* Fills params with the defaults. Cannot fail. */
NF_API void nf_read_params_init(nf_read_params *params);
NF_API void nf_write_params_init(nf_write_params *params);

/* Sets one parameter by name, as the command line does: "rows", "columns", "input-format", "dtype", "dims",
 * "skip-invalid" of reading; "format", "counts" of writing. Text is not copied. NF_ERR_ARGUMENT: unknown name or value out
 * of range; *error (may be NULL) says which and what is allowed. */
NF_API NF_NODISCARD nf_status nf_read_params_set(nf_read_params *params, const char *name, const char *value,
                                                 nf_error *error);
NF_API NF_NODISCARD nf_status nf_write_params_set(nf_write_params *params, const char *name, const char *value,
                                                  nf_error *error);

/*
 * Reads a matrix. params may be NULL. Binary files are mapped where their layout is the machine's, otherwise converted
 * once. Text is read as correctly rounded binary64; when every value is a small integer the matrix is u8, i8 or i16
 * (no answer changes), when every value fits binary32 exactly it is f32.
 * NF_ERR_IO (cannot open or read), NF_ERR_FORMAT (file, what is wrong, where), NF_ERR_VALUE, NF_ERR_ARGUMENT (rows or
 * columns that are not there), NF_ERR_MEMORY, NF_ERR_LIMIT, NF_ERR_CANCELLED.
 */
NF_API NF_NODISCARD nf_status nf_read_matrix(nf_context *ctx, const char *path, const nf_read_params *params,
                                             nf_dataset **out);

/* The dataset's matrix; valid until release. */
NF_API const nf_matrix *nf_dataset_matrix(const nf_dataset *dataset);
/* File row numbers of the matrix's rows, ascending; NULL when they are first, first + 1, ... */
NF_API const int64_t *nf_dataset_ids(const nf_dataset *dataset);
NF_API int64_t nf_dataset_first(const nf_dataset *dataset);
/* Rows that the file holds, and rows that skip_invalid left out. */
NF_API uint64_t nf_dataset_file_rows(const nf_dataset *dataset);
NF_API uint64_t nf_dataset_skipped(const nf_dataset *dataset);
/* Looks for a value that a search refuses: NaN, infinity, or an integer beyond 2^53. NF_ERR_VALUE names the file (name, as
 * it is to appear in the text), the file's row and the column, both counted from 0. */
NF_API NF_NODISCARD nf_status nf_dataset_check(nf_context *ctx, const nf_dataset *dataset, const char *name);
/* Releases a dataset. May be NULL. */
NF_API void nf_dataset_release(nf_dataset *dataset);

/* Describes a file without keeping its values (text files are scanned). */
NF_API NF_NODISCARD nf_status nf_read_info(nf_context *ctx, const char *path, const nf_read_params *params,
                                           nf_file_info *info);

/*
 * Writes a matrix (.npy .fvecs .bvecs .ivecs .fbin .u8bin .i8bin .f16bin .ibin .csv .tsv .txt .raw). The type must be
 * the format's own, or convert to it without loss, else NF_ERR_VALUE naming row and column.
 */
NF_API NF_NODISCARD nf_status nf_write_matrix(nf_context *ctx, const nf_matrix *matrix, const char *path,
                                              const nf_write_params *params);

/*
 * Joins and writes the result: ".npz" (SciPy CSR: data, indices, indptr, format, shape), ".npy" (pairs x 2: query, row),
 * ".bin" (big-ann range truth: squared distances as f32; NF_ERR_LIMIT beyond 2^31 - 1 pairs, NF_ERR_VALUE where a square
 * is too large for f32), ".csv", ".tsv", ".txt" (query,row[,distance]); with counts: ".npy" or text, one integer per query
 * (per row of the query file where query_rows or query_ids say what that is). Larger than the memory limit:
 * counts first, then rows at their places. The same bytes for any engine, thread count and memory limit.
 * queries NULL: self-join. params gives radius and the rest; path "-" is standard output. stats may be NULL; its
 * seconds leave out the writing, which is *write_seconds (may be NULL).
 */
NF_API NF_NODISCARD nf_status nf_write_join(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                            const nf_radius_params *params, const char *path,
                                            const nf_write_params *write, nf_radius_stats *stats,
                                            double *write_seconds);

/* Results of a search by k, as neighbours.h says, to be written. */
typedef struct nf_neighbours {
    size_t          struct_size; /* the caller sets it to sizeof(nf_neighbours) */
    uint64_t        queries;     /* m */
    uint32_t        k;
    uint32_t        metric;          /* nf_metric that distances follow */
    const int64_t  *ids;             /* m x k; -1: no neighbour, at the end of a row only */
    const void     *distances;       /* m x k of distances_dtype; NULL: none */
    uint32_t        distances_dtype; /* NF_DTYPE_F32 or NF_DTYPE_F64 */
    uint32_t        reserved;
    const uint32_t *counts;          /* m: ids of each row that are not -1; NULL: they are counted */
} nf_neighbours;

/*
 * Writes neighbours: ".npz" (arrays ids, distances, counts), ".bin" (big-ann k-NN truth: 32-bit ids, distances as f32, under
 * L2 squared as that format has them), ".ivecs" (ids alone), ".csv", ".tsv", ".txt" (query,rank,id,distance; ranks from
 * 1). Ids are written as they are; query_first and query_ids of params (may be NULL) number the queries of text.
 * NF_ERR_VALUE: an id or a distance that the format does not hold, or rows that are not as said above. NF_ERR_ARGUMENT,
 * NF_ERR_IO, NF_ERR_MEMORY, NF_ERR_LIMIT, NF_ERR_CANCELLED.
 */
NF_API NF_NODISCARD nf_status nf_write_neighbours(nf_context *ctx, const nf_neighbours *neighbours, const char *path,
                                                  const nf_write_params *params);

/* Neighbours that were read from a file. */
typedef struct nf_neighbour_set nf_neighbour_set;

/*
 * Reads neighbours: ".npz" (ids, and distances and counts where they are there; stored or deflated), ".bin" and ".ibin"
 * (big-ann k-NN truth, with or without distances), ".ivecs" and ".npy" (ids). format: one of these names; NULL: by the
 * suffix. NF_ERR_IO, NF_ERR_FORMAT (file, what is wrong, where), NF_ERR_VERSION, NF_ERR_VALUE (an id below -1, a NaN),
 * NF_ERR_ARGUMENT, NF_ERR_MEMORY, NF_ERR_LIMIT, NF_ERR_CANCELLED.
 */
NF_API NF_NODISCARD nf_status nf_read_neighbours(nf_context *ctx, const char *path, const char *format,
                                                 nf_neighbour_set **out);

/* Rows, and entries of each. */
NF_API uint64_t nf_neighbour_set_queries(const nf_neighbour_set *set);
NF_API uint32_t nf_neighbour_set_k(const nf_neighbour_set *set);
/* queries x k values, and one count per query; valid until release. Distances are NULL where the file has none, and are
 * those of the file: squared where nf_neighbour_set_squared says that its format keeps L2 so. */
NF_API const int64_t *nf_neighbour_set_ids(const nf_neighbour_set *set);
NF_API const double *nf_neighbour_set_distances(const nf_neighbour_set *set);
NF_API const uint32_t *nf_neighbour_set_counts(const nf_neighbour_set *set);
NF_API uint32_t nf_neighbour_set_squared(const nf_neighbour_set *set);
/* Releases a set. May be NULL. */
NF_API void nf_neighbour_set_release(nf_neighbour_set *set);

/* A graph of distances that was read from a file. */
typedef struct nf_graph nf_graph;

/*
 * Reads a graph: ".npz" (SciPy CSR: data, indices, indptr, shape, format; integers of any size, data of f64, f32, integers
 * or truth values; stored or deflated), ".bin" (big-ann range truth, with or without distances). format: one of these
 * names; NULL: by the suffix. Distances are f64, or f32 where the file's are. Columns of a range truth are the largest
 * id and one. Time and memory: O(rows + entries). Nothing is shared: any number of threads, each with a context of its own.
 * NF_ERR_IO, NF_ERR_FORMAT (file, what is wrong, where), NF_ERR_VERSION, NF_ERR_VALUE (a distance that is NaN or negative,
 * an integer beyond 2^53), NF_ERR_ARGUMENT, NF_ERR_MEMORY, NF_ERR_LIMIT, NF_ERR_CANCELLED.
 */
NF_API NF_NODISCARD nf_status nf_read_graph(nf_context *ctx, const char *path, const char *format, nf_graph **out);

/* The graph as a view; valid until release. Entries of a row are in the file's order. */
NF_API const nf_csr *nf_graph_csr(const nf_graph *graph);
/* 1: the format keeps L2 distances squared (range truth), and so are they here. */
NF_API uint32_t nf_graph_squared(const nf_graph *graph);
/* Releases a graph. May be NULL. */
NF_API void nf_graph_release(nf_graph *graph);

#ifdef __cplusplus
}
#endif

#endif
