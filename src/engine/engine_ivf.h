/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine must offer for IVF-RaBitQ: one operation per step (docs/ivf.md has the formulas).
 *
 * src/ivf owns the order of the steps and the index's memory, which has the layout of the file; an engine reads it
 * where it lies or keeps a prepared form of its own. All spaces below are those of the index: rows are binary32,
 * normalised under COSINE, with the global mean removed; "rotated" rows have padded dims.
 *
 * Codes. A list's rows stand in blocks of NF_IVF_BLOCK slots, the last block filled with zeros. A block is
 *     codes    padded / 8 rows of 32 bytes: byte j of row p holds the signs of dims 8p .. 8p + 7 of slot j, dim 8p in
 * bit 0 add      32 x f32    rescale  32 x f32    error  32 x u16 (upper half of a binary32, rounded up) With more than
 * one bit, every row has a record, rows in order of their slots, no record for the filling: add_ex f32, rescale_ex f32,
 * padded * (bits - 1) / 8 bytes: the ex codes, a bit stream, dim 0 in the lowest bits Fields are little-endian and
 * unaligned in records.
 */
#ifndef NF_ENGINE_IVF_H
#define NF_ENGINE_IVF_H

#include <stddef.h>
#include <stdint.h>

#include "core/core_context.h"
#include "core/core_memory.h"
#include "nearfield/ivf.h"
#include "nearfield/matrix.h"

#define NF_IVF_BLOCK 32u
#define NF_IVF_ROUNDS 4u /* of the fast rotation */

/* Fast: four rounds of signs, Hadamard transforms and Kac's mixing; dense: a padded x padded orthogonal matrix. */
typedef struct nf_rotation_map {
    uint32_t       kind;   /* nf_rotation */
    uint32_t       dims;   /* of a row before */
    uint32_t       padded; /* and after: a multiple of 8 */
    const uint8_t *signs;  /* fast: NF_IVF_ROUNDS x padded / 8 bytes, dim 0 in the lowest bit; a set bit negates */
    const float   *matrix; /* dense: row i gives output i: padded x padded */
} nf_rotation_map;

/* The contents of an index. */
typedef struct nf_ivf_view {
    uint64_t        rows;
    uint32_t        dims, padded, lists, bits;
    uint32_t        metric;   /* nf_metric */
    uint32_t        wide_ids; /* ids are u64, else u32 */
    nf_rotation_map rotation;
    const float    *mean;         /* dims */
    const float    *mean_rotated; /* padded */
    const float    *centroids;    /* lists x padded: rotated */
    const uint64_t *list_start;   /* lists + 1: first row of each list */
    const uint64_t *block_start;  /* lists + 1: first block of each list */
    const uint8_t  *blocks;
    const uint8_t  *records; /* NULL with one bit; at least 8 readable bytes follow the last */
    const void     *ids;     /* rows, in the order of lists */
    const uint8_t  *vectors; /* rows as they came, in the order of lists; NULL without keep_vectors */
    uint32_t        vectors_dtype;
} nf_ivf_view;

static inline size_t nf_ivf_block_bytes(uint32_t padded)
{
    return (size_t)padded * (NF_IVF_BLOCK / 8) + NF_IVF_BLOCK * (4 + 4 + 2);
}

static inline size_t nf_ivf_record_bytes(uint32_t padded, uint32_t bits)
{
    return bits > 1 ? 8 + (size_t)padded / 8 * (bits - 1) : 0;
}

/* The data of a build in the engine's hands: a matrix, and a block of its rows as index rows. */
typedef struct nf_ivf_source nf_ivf_source;

/* Rows that k-means looks at, and their last grouping. */
typedef struct nf_ivf_set nf_ivf_set;

/* The loaded block, to be encoded. Its row i belongs to list labels[i] and goes to slot slots[i] of it: 0 is the list's
 * first. */
typedef struct nf_ivf_encode_job {
    const nf_ivf_view *view; /* rotation, centroids, mean_rotated, bits, metric, list_start, block_start */
    const uint32_t    *labels;
    const uint32_t    *slots;
    uint8_t           *blocks; /* of the whole index, zeroed at first */
    uint8_t           *records;
    double            *code_errors; /* per row: sqrt(1 / cos^2 - 1) of its whole code; 0 for a zero residual */
} nf_ivf_encode_job;

/* One search. */
typedef struct nf_ivf_question {
    uint32_t        k;      /* results per query; at least 1 */
    uint32_t        probes; /* 1 .. lists */
    double          epsilon0;
    const uint32_t *allowed;   /* one word per block: bit j allows slot j; NULL: all */
    uint32_t        precision; /* nf_precision */
} nf_ivf_question;

/* Where results go: k per query. */
typedef struct nf_ivf_results {
    int64_t  *ids;
    float    *distances;
    uint32_t *counts; /* may be NULL */
    uint32_t  place;  /* nf_place of all three */
    void     *stream; /* of the caller, for matrices and results on the device; NULL: the default one */
} nf_ivf_results;

/* Steps of a search in nf_ivf_counters.seconds; nf_ivf_search_step_name gives their names. */
typedef enum nf_ivf_search_step {
    NF_IVF_STEP_PREPARE, /* rotate, tables */
    NF_IVF_STEP_PROBE,   /* nearest lists */
    NF_IVF_STEP_SCAN,    /* short codes, and whole codes of survivors */
    NF_IVF_STEP_RANK,    /* sort */
    NF_IVF_STEP_RERANK   /* exact distances; src/ivf fills it */
} nf_ivf_search_step;

/* Seconds are added up over threads. */
typedef struct nf_ivf_counters {
    double   seconds[NF_IVF_SEARCH_STEPS];
    uint64_t scanned, refined;
} nf_ivf_counters;

typedef struct nf_ivf_prepared nf_ivf_prepared;

typedef struct nf_ivf_ops {
    /* ---- build: the data (checked by nf_ivf_check_matrix) stay until source_close ---- */

    nf_status (*source_open)(nf_context *ctx, const nf_matrix *data, uint32_t metric, nf_ivf_source **out);
    void (*source_close)(nf_ivf_source *source);
    /* The most rows that sample can take. */
    uint64_t (*set_room)(nf_context *ctx, const nf_ivf_source *source);
    /* The mean (dims values) of the rows with these numbers, and a set of them as index rows. */
    nf_status (*sample)(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count, float *mean,
                        nf_ivf_set **out);
    /* The most rows of a block; room for a block is made. */
    nf_status (*block_rows)(nf_context *ctx, nf_ivf_source *source, uint64_t *most);
    /* Loads the block of rows from first on, less the mean (NULL: nothing is removed): *count of them. Blocks are
     * loaded in order, several times over. */
    nf_status (*load)(nf_context *ctx, nf_ivf_source *source, const float *mean, uint64_t first, uint64_t *count);
    /* The centroids (lists x dims) that assign compares with from now on. */
    nf_status (*use_centroids)(nf_context *ctx, nf_ivf_source *source, const float *centroids, uint32_t lists);
    /* The nearest centroid of each row of the block, the lowest number among equals. */
    nf_status (*assign)(nf_context *ctx, nf_ivf_source *source, uint32_t *labels);
    /* Rotates the block; codes and factors. What is at blocks and records is complete after encode_end. */
    nf_status (*encode)(nf_context *ctx, nf_ivf_source *source, const nf_ivf_encode_job *job);
    nf_status (*encode_end)(nf_context *ctx, nf_ivf_source *source);
    /* The k nearest rows of rows numbers[0 .. count), themselves among them, as nf_knn delivers them. */
    nf_status (*truth)(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count, uint32_t k,
                       int64_t *ids, double *distances);

    /* ---- k-means on sets ---- */

    void (*set_close)(nf_ivf_set *set);
    /* Copies rows out. */
    nf_status (*set_rows)(nf_context *ctx, nf_ivf_set *set, const uint64_t *which, uint64_t count, float *rows);
    /* A set of count rows of a set, evenly spread: row i of it is row i * rows / count. */
    nf_status (*set_part)(nf_context *ctx, nf_ivf_set *set, uint64_t count, nf_ivf_set **out);
    /* Labels rows first .. first + count - 1 with their nearest centroids (clusters x dims) and groups them: the
     * members of cluster c are starts[c] .. starts[c + 1] - 1, ascending. */
    nf_status (*set_group)(nf_context *ctx, nf_ivf_set *set, uint64_t first, uint64_t count, const float *centroids,
                           uint32_t clusters, uint64_t *starts);
    /* Copies members of the last grouping out. */
    nf_status (*set_members)(nf_context *ctx, nf_ivf_set *set, const uint64_t *which, uint64_t count, float *rows);
    /* The means of the clusters of the last grouping. centroids: those it was made with; a cluster without rows keeps
     * its. */
    nf_status (*set_means)(nf_context *ctx, nf_ivf_set *set, float *centroids);
    /* Puts rows into the order of the members of the last grouping, which was of all rows. */
    nf_status (*set_sort)(nf_context *ctx, nf_ivf_set *set);

    /* ---- both ---- */

    /* Rotates rows: count x dims to count x padded. */
    nf_status (*rotate)(nf_context *ctx, const nf_rotation_map *map, const float *rows, uint64_t count, float *rotated);

    /* ---- search ---- */

    /* What a search needs beside the view, made once per index. The view must outlive it. */
    nf_status (*prepare)(nf_context *ctx, nf_memory *memory, const nf_ivf_view *view, nf_ivf_prepared **out);
    void (*prepared_close)(nf_ivf_prepared *prepared);
    /*
     * Searches queries (count x dims, as rows: mean removed). slots: count x k row numbers in the order of lists,
     * UINT64_MAX where there are fewer; values: estimates, ascending by (value, slot): squared distance (L2; may be
     * slightly negative), or -<q, x> (IP, COSINE, of the true vectors: the mean's part is in). counters are added to.
     */
    nf_status (*search)(nf_context *ctx, const nf_ivf_view *view, const nf_ivf_prepared *prepared, const float *queries,
                        uint64_t count, const nf_ivf_question *question, uint64_t *slots, float *values,
                        nf_ivf_counters *counters);
    /*
     * A search from queries as they came to ids and distances as nf_ivf_search delivers them, without re-ranking; so
     * that neither has to pass through the host. length: what queries are scaled to first (ivf_search.c); 0: nothing.
     * NULL: src/ivf does it by way of search.
     */
    nf_status (*answer)(nf_context *ctx, const nf_ivf_view *view, const nf_ivf_prepared *prepared,
                        const nf_matrix *queries, const nf_ivf_question *question, double length,
                        const nf_ivf_results *results, nf_ivf_counters *counters);
} nf_ivf_ops;

#endif
