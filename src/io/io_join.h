/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the join writer share.
 *
 * The result comes from a source: a table of functions, so that the writer can be tested with results made by hand. The
 * real one calls the public interface of radius.h (io_write_join.c).
 */
#ifndef NF_IO_JOIN_H
#define NF_IO_JOIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "io_crc.h"
#include "io_file.h"
#include "io_npz.h"
#include "io_write_format.h"
#include "nearfield/io.h"

/* Where results come from. A stream may be opened again after it was closed. */
typedef struct nf_join_source {
    nf_status (*counts)(void *self, uint64_t *counts, nf_radius_stats *stats);
    nf_status (*open)(void *self);
    nf_status (*next)(void *self, nf_radius_batch *batch);
    void (*stats)(void *self, nf_radius_stats *stats);
    void (*close)(void *self); /* does nothing when none is open */
    void    *self;
    uint64_t queries;
    uint64_t rows;
    uint32_t distances_as; /* nf_distances */
    bool     self_join;
} nf_join_source;

/* Where wider fields begin; smaller ones are for tests. */
typedef struct nf_join_limits {
    uint64_t zip64;       /* NF_ZIP64_LIMIT */
    uint64_t index_max;   /* greatest number that 32-bit ids hold: INT32_MAX */
} nf_join_limits;

/* Row numbers of the original file. */
typedef struct nf_id_map {
    const int64_t *ids; /* ascending, or NULL */
    int64_t        first;
    uint64_t       count;
    uint64_t       file_rows; /* above every id */
} nf_id_map;

static inline int64_t nf_id_of(const nf_id_map *map, uint64_t row)
{
    return map->ids != NULL ? map->ids[row] : map->first + (int64_t)row;
}

/* Returns how many rows have an id below the given one. */
uint64_t nf_id_rows_below(const nf_id_map *map, int64_t id);

struct nf_join;

/* Encodes pairs first .. last - 1 of a batch, all of one query, whose id is given. Returns where the bytes end. */
typedef char *(*nf_pair_encode_fn)(const struct nf_join *join, const nf_radius_batch *batch, int64_t query_id,
                                   uint64_t first, uint64_t last, char *out);

/* One array of the file that follows the order of the pairs. */
typedef struct nf_join_array {
    nf_pair_encode_fn encode;
    uint32_t          pair_bytes;     /* bytes of a pair at most */
    bool              variable;       /* text: they vary, and places are given in bytes, not in pairs */
    uint64_t          offset;         /* of the array in the file */
    uint64_t          bytes;          /* of the array */
    atomic_uint       crc;            /* xor of the CRCs of what has been written, each moved to the array's end */
} nf_join_array;

typedef struct nf_join {
    nf_context           *ctx;
    const nf_join_source *source;
    nf_output             out;
    nf_write_format       format;
    nf_join_limits        limits;
    nf_id_map             queries, data;
    char                  separator;

    char                 *buffers;     /* one of NF_IO_BUFFER_BYTES per worker */
    nf_crc_table         *crc_table;   /* .npz only */
    nf_npz                npz;
    nf_join_array         arrays[2];
    uint32_t              array_count;
    char                  header[NF_NPY_HEADER_MAX]; /* .npy only */
    size_t                header_bytes;
    uint64_t              pairs;
    atomic_bool          *overflow;     /* .bin: set when a square is beyond binary32 */
    bool                  own_progress; /* the progress step is the writer's, not the stream's */

    double                query_seconds; /* of passes whose statistics are not the final ones */
    double                write_seconds;
} nf_join;

/* Fills the maps from the parameters. NF_ERR_ARGUMENT: ids that do not ascend, are negative or beyond the file's
   rows. */
nf_status nf_join_map_ids(nf_join *join, const nf_write_params *params);

/* Fixes the arrays and, once the number of pairs (text: of bytes) is known, the file's layout. */
void nf_join_plan_arrays(nf_join *join);
nf_status nf_join_plan_file(nf_join *join, uint64_t pairs, uint64_t text_bytes);

/* Writes what stands around the arrays: headers, indptr (offsets: pairs before each query), the zip directory. */
nf_status nf_join_finish_file(nf_join *join, const int64_t *offsets);

/* Puts a batch's rows at their places. offsets: pairs before each query (text: bytes), one more than queries. */
nf_status nf_join_place(nf_join *join, const nf_radius_batch *batch, const int64_t *offsets);

/* Measures a batch's rows as text: adds each one's bytes to lengths[query]. */
nf_status nf_join_measure(nf_join *join, const nf_radius_batch *batch, int64_t *lengths);

/* Appends a batch that holds all pairs, in order. */
nf_status nf_join_append(nf_join *join, const nf_radius_batch *batch);

/* Counts per query instead of pairs. mapped: one per row of the query file, 0 for rows that are not among the
   queries. */
nf_status nf_join_write_counts(nf_join *join, bool mapped, nf_radius_stats *stats);

/* All pairs. */
nf_status nf_join_write_pairs(nf_join *join, nf_radius_stats *stats);

/* The whole work of nf_write_join for any source. */
nf_status nf_join_write(nf_context *ctx, const nf_join_source *source, const char *path, const nf_write_params *params,
                        const nf_join_limits *limits, nf_radius_stats *stats, double *write_seconds);

#endif
