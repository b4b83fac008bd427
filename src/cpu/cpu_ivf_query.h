/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk of queries in the forms that the steps of a search need. */
#ifndef NF_CPU_IVF_QUERY_H
#define NF_CPU_IVF_QUERY_H

#include "cpu_ivf.h"
#include "cpu_ivf_arena.h"
#include "cpu_ivf_top.h"

/* A list to be probed for a query. */
typedef struct nf_probe {
    uint32_t list;
    float    add;   /* g_add: squared distance (L2) or -<q, c> from the query to the centroid */
    float    error; /* g_err: distance from the query to the centroid */
} nf_probe;

struct nf_ivf_prepared {
    nf_vectors_panel panel;      /* the centroids */
    float           *mean_dots;    /* per list: <mean, centroid> + |mean|^2 (inner products) */
    float           *rank_offsets; /* per list: the least rank_offsets - <q, centroid> are the nearest lists */
};

/* What is held for each query of a chunk; arrays of `most` entries, or rows of entries. */
typedef struct nf_query_chunk {
    const nf_ivf_view     *view;
    const nf_ivf_prepared *prepared;
    const nf_ivf_kernels  *kernels;
    const nf_ivf_question *question;
    uint32_t               most, count;
    uint32_t               whole; /* padded, rounded up to a multiple of 16 */

    float    *rotated;    /* padded */
    uint8_t  *luts;       /* 4 * padded */
    int16_t  *wholes;     /* whole: the query in 16 bits, for whole codes */
    float    *square;     /* |q|^2, mean removed */
    float    *mean_dot;   /* <mean, q> in the rotated space, mean removed from q */
    float    *lut_step, *lut_base, *lut_noise; /* see nf_scan_query; noise: variance of the table's rounding */
    float    *whole_step; /* value of a unit of wholes */
    float    *limits;     /* the k-th best value when the wave began (cpu_ivf_scan.c) */
    int64_t  *whole_sum;  /* sum of wholes */
    nf_probe *probes;     /* question->probes, nearest first */
    nf_top   *tops;
    nf_neighbour *kept;   /* room for tops: k */
    void         *block;  /* where all of these lie */
} nf_query_chunk;

/* Bytes that a query of a chunk takes. */
size_t nf_query_bytes(const nf_ivf_view *view, const nf_ivf_question *question);

/* Rotates queries, and makes tables and 16-bit forms. queries: count x dims. */
void nf_query_chunk_fill(nf_query_chunk *chunk, const float *queries, uint32_t count);

nf_status nf_query_chunk_open(nf_context *ctx, const nf_ivf_view *view, const nf_ivf_prepared *prepared,
                              const nf_ivf_question *question, uint32_t most, nf_query_chunk *chunk);
void nf_query_chunk_close(nf_query_chunk *chunk);

#endif
