/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search's kernels (arXiv:2602.23999, section 3): queries in the forms that the short codes want, which lists, the
 * scan, and the ranking of survivors by their whole codes.
 *
 * A pair is a query's turn at a list. Queries look at their lists, nearest first, in waves of a few turns each: during
 * a wave a query's limit, its k-th best value so far, stands still, so what survives does not depend on the order of
 * work, nor on other queries. Pairs are numbered wave by wave: pair = count first + query (end - first) + (place -
 * first)      for a wave of places first .. end - 1.
 */
#ifndef NF_K_SCAN_H
#define NF_K_SCAN_H

#include "k_ivf.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NF_K_MOST_WAVES 12u
#define NF_K_SEGMENT_BLOCKS 64u /* blocks of a list in one unit of work: no list is too long */
#define NF_K_TILE_QUERIES 16u   /* queries in one unit of work of precision tile */

/* Per unit of |q - q'|^2 / 4, q' the query as the scan sees it, in the units of a short code's error: 4 / (1 - 2 / pi).
 */
#define NF_K_NOISE_WEIGHT 11.0f

/* nf_precision of nearfield/ivf.h, never AUTO here. TILE has the 4 planes of BITWISE4, and the same sums, on 1-bit
 * tensor cores; TILE8 is the same product by int8 tensor cores, with codes unpacked once per tile, for devices without
 * the former. */
typedef enum nf_k_precision {
    NF_K_LUT16,
    NF_K_LUT32,
    NF_K_BITWISE4,
    NF_K_BITWISE8,
    NF_K_TILE,
    NF_K_TILE8
} nf_k_precision;

/* Queries on the device. */
typedef struct nf_k_queries {
    uint32_t count;
    uint32_t planes;   /* of the bitwise form: 4 or 8; 0: none */
    float   *rotated;  /* count x width */
    float   *square;   /* |q|^2 */
    float   *mean_dot; /* <mean, q> */
    float   *sum;      /* sum of q */
    /* The bitwise form: q'_i = step * v_i, v_i a two's complement number of `planes` bits; <y, q'> = step * S + base,
     * with S the sum of v_i over the dims whose bit is set and base = -step * sum(v) / 2. */
    uint32_t *plane; /* count x chunks x 4 words x planes: bit b of plane j of word (chunk, t) is bit j of v_(128 chunk
                        + 32 t + b) */
    int8_t *values;  /* precision TILE8: count x chunks x 128: the v_i; else NULL */
    float  *step, *base;
    float  *noise; /* |q - q'|^2 / 4, at least 0; 0 for LUT32 */
} nf_k_queries;

/* square, mean_dot, sum and, where planes > 0, the bitwise form, from rotated. step: the best of a few for the least
 * squared error; 0 for a zero query. For LUT precisions base = -sum / 2 in units of step: 1, or for LUT16 a power of
 * two; noise by the precision. */
cudaError_t nf_k_quantise(const nf_k_index *index, nf_k_queries *queries, nf_k_precision precision,
                          cudaStream_t stream);

/* ---- which lists ---- */

/* The turns of a search: arrays by [query][place], and what is made of them. */
typedef struct nf_k_turns {
    uint32_t  count, probes; /* queries; turns of each */
    uint32_t  waves;
    uint32_t  wave_end[NF_K_MOST_WAVES]; /* wave w has the places wave_end[w - 1] .. wave_end[w] - 1 */
    uint32_t *list;                      /* [query][place] */
    float    *add, *error;               /* g_add and g_err */
    uint64_t *mask_start; /* per pair, and one more: where its survivors' masks begin, a word per block of the list */
} nf_k_turns;

/*
 * The probes nearest lists of each query, nearest first, equal ones by number: values (count x stride, stride >= lists)
 * holds rank_offset - <q, c> of all lists, and is used up. A NaN is further than everything. scratch as for
 * nf_k_nearest_scratch.
 */
uint64_t    nf_k_nearest_scratch(uint32_t count, uint32_t lists, uint32_t probes);
cudaError_t nf_k_nearest_lists(float *values, uint64_t stride, uint32_t lists, nf_k_turns *turns, void *scratch,
                               cudaStream_t stream);

/* add and error of every turn, from the rotated query and the centroid: |q - c| is summed up over differences. */
cudaError_t nf_k_turn_factors(const nf_k_index *index, const nf_k_queries *queries, nf_k_turns *turns,
                              cudaStream_t stream);

/* blocks[pair] = blocks of the pair's list, and 0 for one more pair; *scanned gets the rows of all pairs added. */
cudaError_t nf_k_pair_blocks(const nf_k_index *index, const nf_k_turns *turns, uint32_t *blocks,
                             unsigned long long *scanned, cudaStream_t stream);

/* ---- the scan ---- */

/* A unit of work of a scan by pairs: a segment of a pair's list. */
typedef struct nf_k_item {
    uint32_t pair, segment;
} nf_k_item;

/* counts[pair] = segments of the pair's list; then, with starts the sums before each pair, the items, pair by pair. */
cudaError_t nf_k_pair_segments(const nf_k_index *index, const nf_k_turns *turns, uint32_t *counts, cudaStream_t stream);
cudaError_t nf_k_pair_items(const nf_k_index *index, const nf_k_turns *turns, const uint64_t *starts, nf_k_item *items,
                            cudaStream_t stream);

/* The same for tiles: pairs of a wave by list. A unit of work is a tile of at most NF_K_TILE_QUERIES pairs with the
 * same list and a segment of it. */
typedef struct nf_k_tile_item {
    uint32_t list, segment;
    uint32_t first, count; /* of by_list */
} nf_k_tile_item;

/* counts[wave * lists + list] is raised by the pairs of each (wave, list); zeroed before. */
cudaError_t nf_k_list_counts(const nf_k_turns *turns, uint32_t lists, uint32_t *counts, cudaStream_t stream);
/* With starts the sums before each: by_list gets the pairs, list by list (in any order inside one). cursor: waves x
 * lists, zeroed. */
cudaError_t nf_k_pairs_by_list(const nf_k_turns *turns, uint32_t lists, const uint64_t *starts, uint32_t *cursor,
                               uint32_t *by_list, cudaStream_t stream);
/* tiles[wave * lists + list] = units of work; then, with tile_starts the sums before each, the items. */
cudaError_t nf_k_list_tiles(const nf_k_index *index, const nf_k_turns *turns, const uint32_t *counts, uint32_t *tiles,
                            cudaStream_t stream);
cudaError_t nf_k_tile_items(const nf_k_index *index, const nf_k_turns *turns, const uint32_t *counts,
                            const uint64_t *starts, const uint64_t *tile_starts, nf_k_tile_item *items,
                            cudaStream_t stream);

typedef struct nf_k_scan {
    const nf_k_index   *index;
    const nf_k_queries *queries;
    const nf_k_turns   *turns;
    nf_k_precision      precision;
    float               epsilon0; /* may be infinite: nothing is pruned */
    const float        *limit;    /* per query: what a bound must stay below; +infinity: only infinite bounds are pruned */
    const uint32_t     *allowed;  /* a word per block of the index; NULL: all */
    uint32_t            wave;
    /* Units of work of the wave: items [*first_item, *end_item), at most most_items. */
    const void     *items; /* nf_k_item, or nf_k_tile_item for tiles */
    const uint64_t *first_item, *end_item;
    uint64_t        most_items;
    const uint32_t *by_list; /* tiles */
    uint32_t       *masks;   /* word mask_start[pair] + b: the survivors in block b of the pair's list */
} nf_k_scan;

/*
 * A slot survives unless bound >= limit, where with S as above
 *     estimate = add + rescale * (step * S + base) + g_add,     bound = estimate - error * width,
 *     width = epsilon0 * sqrt(g_err^2 + NF_K_NOISE_WEIGHT * noise);
 * so a NaN survives. Slots beyond the list's rows and slots that are not allowed do not. Every word of the wave's masks
 * is written. cudaErrorInvalidConfiguration where the tables of a LUT precision do not fit into shared memory.
 */
cudaError_t nf_k_scan_pairs(const nf_k_scan *job, cudaStream_t stream); /* LUT16, LUT32, BITWISE4, BITWISE8 */
cudaError_t nf_k_scan_tiles(const nf_k_scan *job, cudaStream_t stream); /* TILE, TILE8 */

/* ---- ranking ---- */

/* The best so far, per query: k keys ascending, all bits set where there are fewer. A key is the value as a number that
 * orders as the binary32 value does (negative ones: all bits flipped; others: the sign bit flipped), above the row
 * number. */
typedef struct nf_k_tops {
    uint32_t            k;
    unsigned long long *keys;    /* count x k */
    float              *limit;   /* count: the k-th value; +infinity where there are fewer */
    unsigned long long *refined; /* one number: survivors ranked, added to */
} nf_k_tops;

/* keys and limit as before any wave. */
cudaError_t nf_k_tops_clear(nf_k_tops tops, uint32_t count, cudaStream_t stream);

/*
 * Whole codes of a wave's survivors: value = whole_add + g_add + whole_rescale * <y, q>, <y, q> = sum u_i q_i - kappa *
 * sum q, kappa = (2^bits - 1) / 2, in binary32 in an order that depends on the index alone. The k best of these and of
 * tops are kept, by (value, row). scratch: nf_k_rank_scratch bytes.
 */
uint64_t    nf_k_rank_scratch(uint32_t count, uint32_t k);
cudaError_t nf_k_rank(const nf_k_index *index, const nf_k_queries *queries, const nf_k_turns *turns, uint32_t wave,
                      const uint32_t *masks, nf_k_tops tops, void *scratch, cudaStream_t stream);

/* Rows and values from tops: slots (UINT64_MAX beyond) and values (+infinity beyond), count x k. */
cudaError_t nf_k_tops_values(nf_k_tops tops, uint32_t count, uint64_t *slots, float *values, cudaStream_t stream);

/*
 * Ids and distances as nf_ivf_search delivers them: distance as ivf_search.c makes it from value / factors[query]
 * (factors NULL: value), sorted by (distance, id); beyond the results id -1 and +infinity. counts may be NULL.
 */
cudaError_t nf_k_tops_deliver(const nf_k_index *index, nf_k_tops tops, uint32_t count, const double *factors,
                              int64_t *ids, float *distances, uint32_t *counts, void *scratch, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
