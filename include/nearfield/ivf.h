/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Approximate k nearest neighbours: IVF-RaBitQ. Clusters (lists) of rows, each row kept as a RaBitQ code of 1 to 9 bits
 * per dimension; no raw vectors are needed (arXiv:2405.12497, arXiv:2409.09913, arXiv:2602.23999). docs/ivf.md has the
 * formulas.
 *
 * Life: build an index from data, or open a file; search it any number of times, from any number of contexts at once; it
 * never changes. One sealed file (docs/formats.md) serves every engine.
 *
 * The same data, parameters, engine and instruction set give the same index, byte for byte, whatever the thread count. A
 * query's answer does not depend on the other queries of a call, nor on the thread count.
 */
#ifndef NEARFIELD_IVF_H
#define NEARFIELD_IVF_H

#include <stddef.h>
#include <stdint.h>

#include "context.h"
#include "matrix.h"
#include "neighbours.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_ivf_index nf_ivf_index;
typedef struct nf_ivf_filter nf_ivf_filter;

typedef enum nf_rotation { NF_ROTATION_FAST = 0, NF_ROTATION_DENSE = 1 } nf_rotation;

/* How a search sees queries while it scans short codes. Survivors are ranked with the whole query in any case.
 * AUTO: the cpu engine's tables; on the cuda engine BITWISE4 or TILE, which give the same answers, by what is faster. */
typedef enum nf_precision {
    NF_PRECISION_AUTO = 0,
    NF_PRECISION_LUT16 = 1,    /* cuda: tables of sums of four dims, binary16 */
    NF_PRECISION_LUT32 = 2,    /* cuda: the same, binary32 */
    NF_PRECISION_BITWISE4 = 3, /* cuda: 4 bits per dim, and-and-count */
    NF_PRECISION_BITWISE8 = 4, /* cuda: 8 bits per dim */
    NF_PRECISION_TILE = 5      /* cuda: 4 bits per dim, many queries at a time on tensor cores (8.0 or later) */
} nf_precision;

typedef enum nf_verify { NF_VERIFY_FULL = 0, NF_VERIFY_STRUCTURE = 1 } nf_verify;

typedef struct nf_ivf_params {
    size_t         struct_size;  /* set by nf_ivf_params_init */
    uint32_t       lists;        /* clusters; 0 (default): 4 sqrt(n), or n / 32 + 1 if less. More than rows: so many */
    uint32_t       bits;         /* per dimension, 1 to 9; default 5 */
    uint32_t       metric;       /* nf_metric */
    uint32_t       rotation;     /* nf_rotation: Hadamard and Kac (default), or dense orthogonal */
    uint64_t       seed;         /* default 1 */
    uint32_t       iterations;   /* of k-means over all lists, after the hierarchical start; default 8 */
    uint32_t       train_rows;   /* rows per list that k-means looks at; default 128 */
    uint32_t       keep_vectors; /* 1: the index also keeps the rows as they came, for exact re-ranking */
    uint32_t       recall_rows;  /* rows on which recall by probes is measured after the build; default 256; 0: none */
    const int64_t *ids;          /* one id per row, none negative; NULL: row numbers */
} nf_ivf_params;

/* Steps of a build, by nf_ivf_build_step_name. */
#define NF_IVF_BUILD_STEPS 6

typedef struct nf_ivf_build_stats {
    size_t   struct_size; /* the caller sets it before the call */
    double   seconds;     /* all of the build */
    double   step_seconds[NF_IVF_BUILD_STEPS];
    uint64_t largest_list, empty_lists;
    double   code_error;  /* mean of sqrt(1 / cos^2 - 1) between residuals and their codes */
} nf_ivf_build_stats;

typedef struct nf_ivf_info {
    size_t   struct_size; /* the caller sets it before the call */
    uint64_t rows;
    uint32_t dims, padded_dims, lists, bits;
    uint32_t metric, rotation, keep_vectors, user_ids;
    uint32_t vectors_dtype; /* nf_dtype of the rows kept, or of the data */
    uint32_t recall_points; /* entries of the table of recall by probes */
    uint64_t seed;
    uint64_t bytes;        /* of the index file */
    uint64_t file_id;      /* XXH3-64 of the content */
    uint64_t largest_list, empty_lists;
    uint32_t format_major, format_minor;
} nf_ivf_info;

typedef struct nf_ivf_open_params {
    size_t   struct_size; /* set by nf_ivf_open_params_init */
    uint32_t map;         /* 1: map the file in place of reading it; the file must not be changed meanwhile */
    uint32_t verify;      /* nf_verify: FULL reads every byte; STRUCTURE only what has to be right for a search
                             not to go astray: header, sizes, lists, mean, centroids, rotation, recall */
} nf_ivf_open_params;

typedef struct nf_ivf_search_params {
    size_t   struct_size; /* set by nf_ivf_search_params_init */
    uint32_t k;           /* 1 to 10,000; default 10 */
    uint32_t probes;      /* lists per query; 0: by recall. More than lists: all */
    double   recall;      /* with probes 0: the least probes whose measured recall@10 reaches it, or, where none does, comes
                             within 0.002 of the best; default 0.95. An index without a table: 32 + lists / 32 probes */
    double   epsilon0;    /* width of the lower bound in standard deviations; default 1.9; infinity: nothing is pruned */
    uint32_t rerank;      /* best candidates whose exact distance is computed; 0: none; needs keep_vectors */
    uint32_t precision;   /* nf_precision; default AUTO */
    const nf_ivf_filter *filter; /* only rows that it allows; NULL: all */
    uint32_t results_place; /* nf_place of ids, distances and counts; DEVICE: cuda engine, no rerank; default HOST */
    uint32_t reserved;      /* 0 */
    void    *stream;        /* cudaStream_t that orders queries and results on the device; NULL: the default stream */
} nf_ivf_search_params;

/* Steps of a search, by nf_ivf_search_step_name. */
#define NF_IVF_SEARCH_STEPS 5

typedef struct nf_ivf_search_stats {
    size_t   struct_size; /* the caller sets it before the call */
    double   seconds;
    double   step_seconds[NF_IVF_SEARCH_STEPS]; /* cpu: added up over threads, but rerank is wall time of making the results;
                                                   cuda: of the device */
    uint32_t probes;      /* lists per query, as used */
    uint32_t reserved;
    uint64_t scanned;     /* (query, row) pairs whose short code was looked at */
    uint64_t refined;     /* of these, pairs whose whole code was looked at */
} nf_ivf_search_stats;

/* Fills params with the defaults. Cannot fail. */
NF_API void nf_ivf_params_init(nf_ivf_params *params);
NF_API void nf_ivf_open_params_init(nf_ivf_open_params *params);
NF_API void nf_ivf_search_params_init(nf_ivf_search_params *params);

/* Sets one parameter by name ("lists", "bits", ...; "probes", "epsilon0", ...; "map", "verify") from text.
 * NF_ERR_ARGUMENT; *error may be NULL. */
NF_API NF_NODISCARD nf_status nf_ivf_params_set(nf_ivf_params *params, const char *name, const char *value,
                                                nf_error *error);
NF_API NF_NODISCARD nf_status nf_ivf_open_params_set(nf_ivf_open_params *params, const char *name, const char *value,
                                                     nf_error *error);
NF_API NF_NODISCARD nf_status nf_ivf_search_params_set(nf_ivf_search_params *params, const char *name, const char *value,
                                                       nf_error *error);

/* Returns the name of a step ("cluster", "assign", ...; "prepare", "probe", ...); NULL beyond. Static string. */
NF_API const char *nf_ivf_build_step_name(uint32_t step);
NF_API const char *nf_ivf_search_step_name(uint32_t step);

/*
 * Builds an index on n x d data of any type in host memory, n >= 1, d <= 8192 (4096 with the dense rotation). The rows are
 * read three times in order (in blocks), so that data may be a mapped file larger than memory; they are not kept unless
 * keep_vectors asks for it. stats may be NULL.
 * Engine: the context's; auto takes a GPU from 50,000 rows on where the codes fit its memory. It stays the index's engine.
 * Cost: training lists x train_rows rows; n x lists x d multiply-adds for the assignment; O(n d log d) for the rest.
 * Memory under the limit: 12 bytes per row of the sample, the centroids, 4 bytes per row, and 8 d^2 bytes for a dense
 * rotation; on the CPU also the training rows (4 d bytes each), blocks of 8 MB and 2 MB per thread, and what nf_knn takes on
 * recall_rows queries. The index itself does not count. Training rows take at most a quarter of the memory left, on a GPU
 * at most half of the device's: only where that is fewer than train_rows per list does a limit change the index.
 * Device memory (cuda): all rows where they fit into half of it, else blocks; the codes at the end.
 * NF_ERR_ARGUMENT (bits, dims, rows, ids, no rows), NF_ERR_VALUE (NaN, infinity, or under L2 and IP beyond 2^53: row and
 * column named), NF_ERR_UNSUPPORTED (data on a device), NF_ERR_MEMORY, NF_ERR_DEVICE_MEMORY, NF_ERR_LIMIT, NF_ERR_DEVICE,
 * NF_ERR_CANCELLED.
 */
NF_API NF_NODISCARD nf_status nf_ivf_build(nf_context *ctx, const nf_matrix *data, const nf_ivf_params *params,
                                           nf_ivf_index **out, nf_ivf_build_stats *stats);

/* Writes the index to a file, atomically: path is a complete index or what it was before. sync 1: fsync file and folder
 * before the call returns. NF_ERR_IO. */
NF_API NF_NODISCARD nf_status nf_ivf_save(nf_context *ctx, const nf_ivf_index *index, const char *path, uint32_t sync);

/*
 * Opens an index file. params may be NULL. Every size is checked against the file's length before anything is allocated.
 * Read: memory at most 1.1 x file + 64 MB. NF_ERR_IO, NF_ERR_FORMAT (not an index), NF_ERR_DAMAGED (section and place
 * named), NF_ERR_VERSION (made by a newer version), NF_ERR_MEMORY, NF_ERR_LIMIT.
 */
NF_API NF_NODISCARD nf_status nf_ivf_open(nf_context *ctx, const char *path, const nf_ivf_open_params *params,
                                          nf_ivf_index **out);

/* Releases an index. May be NULL. */
NF_API void nf_ivf_release(nf_ivf_index *index);

/* Describes an index. */
NF_API void nf_ivf_describe(const nf_ivf_index *index, nf_ivf_info *info);

/* Entry of the table of recall by probes, 0 <= entry < recall_points: probes ascending, recall@10 measured on rows of the
 * data that were left out of their own answer. NF_ERR_ARGUMENT beyond. */
NF_API NF_NODISCARD nf_status nf_ivf_recall_point(const nf_ivf_index *index, uint32_t entry, uint32_t *probes,
                                                  double *recall);

/*
 * Finds about the k nearest rows of each query (m x d, any type). ids and distances: m x k, as neighbours.h says, the
 * distances estimated from the codes (exact with rerank). counts: m values or NULL. stats may be NULL. Queries may lie on
 * the device where the index's engine is cuda, results where params says so; the call returns when they are complete.
 * Method: arXiv:2409.09913; lists nearest first, short codes filter by a lower bound, survivors by the whole code; on a
 * GPU arXiv:2602.23999, section 3.3.
 * Cost: m x lists x d multiply-adds for the lists, then the rows of the lists probed. Memory: up to 32 MB of queries and
 * results, and about 12 MB per thread (24 MB at 8192 dims); cuda: up to 8 GiB, and no more than half, of the device memory
 * left, kept with the index for the next search. An index may be searched by any number of threads at once, each with a
 * context of its own.
 * NF_ERR_ARGUMENT, NF_ERR_VALUE (queries: NaN, infinity, or under L2 and IP beyond 2^53), NF_ERR_UNSUPPORTED (rerank
 * without keep_vectors; a precision or a place that the engine does not have), NF_ERR_MEMORY, NF_ERR_DEVICE_MEMORY,
 * NF_ERR_LIMIT, NF_ERR_DEVICE, NF_ERR_CANCELLED.
 */
NF_API NF_NODISCARD nf_status nf_ivf_search(nf_context *ctx, const nf_ivf_index *index, const nf_matrix *queries,
                                            const nf_ivf_search_params *params, int64_t *ids, float *distances,
                                            uint32_t *counts, nf_ivf_search_stats *stats);

/* Makes a filter for an index: the rows whose id is in the set (forbid 0), or all others (forbid 1). Ids that the index
 * does not have are ignored. bits: bit i of word i / 64 stands for id i; ids beyond bit_count are not in the set.
 * Cost: O(n log n) at most; memory n / 8 bytes. */
NF_API NF_NODISCARD nf_status nf_ivf_filter_ids(nf_context *ctx, const nf_ivf_index *index, const int64_t *ids,
                                                uint64_t id_count, uint32_t forbid, nf_ivf_filter **out);
NF_API NF_NODISCARD nf_status nf_ivf_filter_bits(nf_context *ctx, const nf_ivf_index *index, const uint64_t *bits,
                                                 uint64_t bit_count, uint32_t forbid, nf_ivf_filter **out);

/* Releases a filter. May be NULL. */
NF_API void nf_ivf_filter_release(nf_ivf_filter *filter);

#ifdef __cplusplus
}
#endif

#endif
