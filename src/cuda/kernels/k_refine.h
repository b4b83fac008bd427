/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement on CUDA cores (RT-HiSS, section IV-E): deciding tiles of queries x points.
 *
 * An item is one tile: up to tile queries, consecutive positions or consecutive entries of a list of hits, against up to
 * tile consecutive points. Both sides are staged in shared memory, transposed (dimension by dimension), a chunk of dims at a
 * time; every thread decides a small square of pairs in registers. At stops the partial sums are looked at, and a tile all of
 * whose pairs are certainly out is left (early exit).
 *
 * A pair is certainly in, certainly out, or open, by the rule of engine_rule.h. Open pairs go to a list that the recheck
 * kernel decides exactly; where the list is full they are decided on the spot.
 */
#ifndef NF_K_REFINE_H
#define NF_K_REFINE_H

#include <cuda_runtime_api.h>

#include "k_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NF_K_STOPS 8u
#define NF_K_CUTS 8u

/* A group larger than a tile is several items; NF_K_CONTINUED in a count says that its hits are counted with another one. */
#define NF_K_CONTINUED 0x80000000u

typedef struct nf_k_item {
    uint32_t query_from;  /* position, or entry of the list of hits */
    uint32_t query_count; /* and NF_K_CONTINUED: the points' hits on the group of the queries */
    uint32_t point_from;
    uint32_t point_count; /* and NF_K_CONTINUED: the queries' hits on the group of the points */
} nf_k_item;

/* An open pair, and where its bit lies in a mask: item and row * tile + column. */
typedef struct nf_k_open {
    uint32_t query, point, item, place;
} nf_k_open;

/* What the kernels count on the device. */
typedef struct nf_k_counters {
    uint64_t pairs;      /* entries of the store taken; may go beyond the capacity: then pairs were left out */
    uint64_t open;       /* entries of the open list asked for; the same */
    uint64_t hits;       /* as nf_search_counters */
    uint64_t compared;
    uint64_t rechecked;
    uint64_t ties;
} nf_k_counters;

/* The paper's representations of results (section IV-F, Table II), counts, and checked append. */
typedef enum nf_k_emit {
    NF_K_COUNT,   /* neighbours per position are added to counts */
    NF_K_APPEND,  /* pairs to the store, space taken by a warp at a time, capacity checked */
    NF_K_PAIRS,   /* pairs to the store one by one (key-value pairs) */
    NF_K_MASK     /* one bit per comparison */
} nf_k_emit;

typedef enum nf_k_form { NF_K_DIFFERENCE, NF_K_PRODUCT, NF_K_WIDE } nf_k_form;

typedef struct nf_k_refine {
    nf_k_rows        x, y;        /* queries, data */
    const nf_k_item *items;
    const uint64_t  *item_count;  /* on the device */
    const uint32_t  *list;        /* entries are query positions; NULL: items hold positions */
    uint32_t         tile;        /* 64 or 128 */
    uint32_t         share;       /* 1: queries in shared memory, 2: points, 3: both (the paper's variants) */
    uint32_t         form;        /* nf_k_form */
    uint32_t         blocks;      /* of the grid of the next launch */

    /* the rule */
    double   out_above, sure_upto, scale, radius;
    uint32_t exact, strict;
    uint32_t stop_count;          /* the last stop is at the end of all dims */
    uint32_t stops[NF_K_STOPS];   /* dims, multiples of 8 but for the last */
    const float *x_out, *y_out;   /* product: limits, [stop][row], row stride x_rows and y_rows */
    const float *x_in, *y_in;     /* [row] */
    uint64_t     x_rows, y_rows;

    /* self-join: pairs inside the batch's positions [first, last) count for both rows, and are decided for point > query */
    uint32_t        self_join, half;
    uint32_t        first, last;
    /* earlier batches that were cut short at position cut: pairs of points in [first, cut) and queries in [cut, last) were
     * counted for both directions there, and are not counted again */
    uint32_t        cut_count;
    struct {
        uint32_t first, cut, last;
    } cuts[NF_K_CUTS];
    const uint32_t *x_ids, *y_ids; /* half: the pair belongs to the row with the lower id */

    /* where results go */
    uint32_t       emit;          /* nf_k_emit */
    uint32_t      *counts;        /* COUNT: per query position */
    nf_pair       *store;
    uint64_t       store_capacity;
    uint32_t      *mask;          /* MASK: tile * tile / 32 words per item, zeroed */
    nf_k_open     *open;
    uint64_t       open_capacity;
    nf_k_counters *counters;
} nf_k_refine;

cudaError_t nf_k_refine_run(cudaStream_t stream, const nf_k_refine *job);

/* Decides the open pairs (counters->open of them, at most open_capacity) exactly and sends those that are results where the
 * others went. */
cudaError_t nf_k_recheck_run(cudaStream_t stream, const nf_k_refine *job);

/* Stream compaction (section IV-F1): the set bits of all items' masks as pairs in the store, capacity checked. */
cudaError_t nf_k_compact_run(cudaStream_t stream, const nf_k_refine *job);

/* Product form: limits of rows [0, rows) at all stops (engine_rule.h). out: [stop][rows], in: [rows]. */
cudaError_t nf_k_limits_run(cudaStream_t stream, const nf_k_rows *rows, uint64_t count, const uint32_t *stops,
                            uint32_t stop_count, double out_factor, double out_offset, double in_factor, double in_offset,
                            float *out, float *in);

#ifdef __cplusplus
}
#endif

#endif
