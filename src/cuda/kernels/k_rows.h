/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of steps compress and deliver: lengths of rows, their places, sorting, distances (cuda_rows.c).
 *
 * Rows of a batch are known by two numbers: local, the position minus that of the batch's first row, and rank, the place of
 * the row's id among the batch's ids, which is the order of delivery. A piece is a range of ranks that is delivered at once;
 * its ids stand in one buffer, row after row, and index 0 of the buffer is entry `base` of the batch.
 */
#ifndef NF_K_ROWS_H
#define NF_K_ROWS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "k_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The pairs of a batch, and how they are read. */
typedef struct nf_k_found {
    const nf_pair  *pairs;
    uint64_t        count;
    uint32_t        first, rows; /* the batch: positions first .. first + rows - 1 of the queries */
    const uint32_t *query_ids, *point_ids; /* position -> id */
    uint32_t        both;        /* self-join: a pair stands for both directions */
    uint32_t        half;        /* self-join: a pair goes to the row of the lower id alone */
} nf_k_found;

/* The piece of a batch that is delivered now. */
typedef struct nf_k_piece {
    uint32_t        first, rows;     /* the batch */
    uint32_t        begin, end;      /* ranks of the piece */
    uint64_t        base;            /* offsets[begin] */
    const uint32_t *rank;            /* local -> rank */
    const uint32_t *order;           /* rank -> position */
    const uint64_t *offsets;         /* rank -> first entry in the batch; rows + 1 */
    uint32_t       *ids;             /* the buffer */
    double         *distances;       /* the same places, or NULL */
} nf_k_piece;

/* Classes of rows by length, each with a kernel of its own. A row's class is the first whose most it does not exceed. */
enum {
    NF_K_ROW_DONE,      /* at most 1: nothing to sort */
    NF_K_ROW_32,        /* at most 32 << (class - NF_K_ROW_32), up to 1,024: a warp, in registers */
    NF_K_ROW_64,
    NF_K_ROW_128,
    NF_K_ROW_256,
    NF_K_ROW_512,
    NF_K_ROW_1024,
    NF_K_ROW_4096,      /* a block, in shared memory */
    NF_K_ROW_16384,
    NF_K_ROW_LONG,      /* in tiles */
    NF_K_ROW_CLASSES
};

/* Entries that one block sorts in shared memory at most: ids alone, or with distances. */
#define NF_K_TILE_IDS 16384u
#define NF_K_TILE_PAIRS 4096u

/* ---- lengths and places: k_rows.cu ---- */

/* ids[i] = of[first + i], positions[i] = first + i. */
cudaError_t nf_k_row_ids(const uint32_t *of, uint32_t first, uint32_t rows, uint32_t *ids, uint32_t *positions,
                         cudaStream_t stream);
/* rank[order[r] - first] = r. */
cudaError_t nf_k_row_ranks(const uint32_t *order, uint32_t first, uint32_t rows, uint32_t *rank, cudaStream_t stream);
/* lengths[local] += entries of the row; lengths are zeroed before. */
cudaError_t nf_k_row_lengths(const nf_k_found *found, uint32_t *lengths, cudaStream_t stream);
/* by_rank[r] = lengths[order[r] - first] + self, by_rank[rows] = 0: their exclusive sums are the offsets. */
cudaError_t nf_k_row_lengths_by_rank(const uint32_t *lengths, const uint32_t *order, uint32_t first, uint32_t rows,
                                     uint32_t self, uint32_t *by_rank, cudaStream_t stream);
/* cursors[local] = where the row begins in the buffer; self: after the row's own id, which is written. */
cudaError_t nf_k_row_cursors(const nf_k_piece *piece, const uint32_t *query_ids, uint32_t self, uint64_t *cursors,
                             cudaStream_t stream);
/* Writes ids into the rows of the piece; cursors move. */
cudaError_t nf_k_row_place(const nf_k_found *found, const nf_k_piece *piece, uint64_t *cursors, cudaStream_t stream);
/* Adds to counts[class], which are zeroed before; rows (NULL: only count): the ranks of the piece by class, counts being
 * where each class begins. */
cudaError_t nf_k_row_classes(const nf_k_piece *piece, uint32_t *counts, uint32_t *rows, cudaStream_t stream);

/* ---- sorting: k_row_sort.cu ---- */

/* Sorts rows of a class that is not long, given by rank, by id, or by distance and then id where by_distance. */
cudaError_t nf_k_row_sort(const nf_k_piece *piece, uint32_t row_class, const uint32_t *rows, uint32_t count,
                          bool by_distance, cudaStream_t stream);

/* Long rows, tile by tile: tile t holds entries t * size .. of its row, size being NF_K_TILE_IDS or NF_K_TILE_PAIRS. */
typedef struct nf_k_tile {
    uint32_t rank, tile;
} nf_k_tile;

/* Sorts rows of at most longest entries, all of whose tiles are given. */
cudaError_t nf_k_row_sort_long(const nf_k_piece *piece, const nf_k_tile *tiles, uint32_t count, uint64_t longest,
                               bool by_distance, cudaStream_t stream);

/* ---- distances: k_distance.cu ---- */

typedef struct nf_k_distances {
    nf_k_rows       queries, data;
    const void     *data_by_column; /* data rows in the caller's order of columns, or NULL: they are read in place */
    const uint32_t *positions;      /* data: id -> position */
    double          radius;
    double         *wide;           /* what is written: binary64, or NULL */
    float          *narrow;         /* or binary32, not above the radius */
} nf_k_distances;

/* Whether rows of that many dims are better read from a copy in the order of columns. */
bool nf_k_distances_by_column(uint32_t dims);
/* Makes that copy: rows * stride values of the same type. */
cudaError_t nf_k_rows_by_column(const nf_k_rows *from, uint64_t rows, void *to, cudaStream_t stream);
/* to[i][column] = the row of id ids[i] in the caller's order of columns: count * dims values. positions: id -> position. */
cudaError_t nf_k_rows_by_id(const nf_k_rows *from, const uint32_t *positions, const uint32_t *ids, uint64_t count,
                            double *to, cudaStream_t stream);
/* Distances of the entries of a piece, whose longest row is longest; long_rows: the ranks of rows in the classes from
 * NF_K_ROW_16384 on. */
cudaError_t nf_k_row_distances(const nf_k_piece *piece, const nf_k_distances *distances, const uint32_t *long_rows,
                               uint32_t long_count, uint64_t longest, cudaStream_t stream);
/* to[i] = the binary32 nearest to from[i] that is not above the radius. */
cudaError_t nf_k_narrow_distances(const double *from, uint64_t count, double radius, float *to, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
