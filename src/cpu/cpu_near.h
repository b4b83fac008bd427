/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact k nearest neighbours from the nearest groups outwards: what its files share.
 *
 * Every query has a radius of its own. The rows of the groups around it (the seed) give the first k neighbours; from
 * then on the radius is the k-th distance so far, which shrinks as nearer rows are found, and the groups of the data
 * are seen in ascending order of how far they are (RT-HiSS, section VIII, names k nearest neighbours by radius searches
 * as future work; the order of the visits is that of incremental nearest neighbour search, Hjaltason and Samet, TODS
 * 1999).
 *
 *   task     a bundle of query groups (slots), which share the packed panels of the data
 *   seed     distances of all rows of consecutive groups around the nearest one, at least k rows
 *   visits   the groups of the data within the largest radius of the slot's queries, nearest first
 *   tile     queries whose own ball meets the group's box against its rows; the kernels of cpu_tile.h drop what is
 *            certainly beyond a query's radius, and binary64 decides what is left
 *
 * Every test errs to the side of a look. What a query keeps is ordered by (delivered distance, id), so the answer does
 * not depend on the order of the visits, nor on how the tests round.
 */
#ifndef NF_CPU_NEAR_H
#define NF_CPU_NEAR_H

#include "cpu_hits.h"
#include "cpu_search.h"
#include "cpu_tile.h"

#define NF_NEAR_TEST_DIMS 16u /* dims of the test of single queries against a box */
#define NF_NEAR_MOST_BUNDLE 8u
#define NF_NEAR_GAP_DIMS 16u /* up to so many dims groups are visited by the gap between boxes, else by centroids */

#define NF_NEAR_AT_ONCE 256u /* rows of which distances are computed at once */
#define NF_NEAR_BUCKETS 2048u
#define NF_NEAR_FEW 16u /* a small k */

/* A row of the data, as a query sees it. */
typedef struct nf_near_entry {
    double   distance;
    uint32_t id;
} nf_near_entry;

typedef union nf_near_limits {
    float   f32[NF_MAX_STOPS * NF_TILE];
    int32_t i32[NF_MAX_STOPS * NF_TILE];
    double  f64[NF_TILE];
} nf_near_limits;

/* One query group. */
typedef struct nf_near_slot {
    uint32_t       group, begin, count; /* begin: position of its first row */
    uint64_t       all;                 /* a bit for each row */
    uint64_t       settled;             /* rows whose k-th distance is 0: only lower ids count from then on */
    nf_group_range seed;
    uint32_t       found[NF_TILE], waiting[NF_TILE];
    nf_near_entry *entries;                        /* those that wait: wait_room for each row, where k is not small */
    int64_t        few_ids[NF_TILE * NF_NEAR_FEW]; /* what rows keep, where k is small */
    double         few[NF_TILE * NF_NEAR_FEW];
    double         radius[NF_TILE]; /* no row beyond it is among the k nearest */
    float          square[NF_TILE]; /* of it, widened for the rounding of gaps in binary32 */
    float          largest_square;
    double         largest;
    float          columns[NF_NEAR_TEST_DIMS * NF_TILE];
    void          *values;       /* its panel */
    nf_near_limits raw, out, in; /* sums of squares as packed, and the limits made of them */
} nf_near_slot;

typedef struct nf_near_worker {
    nf_search      search; /* rule and stops of the bundle */
    nf_near_slot  *slots;
    nf_panel       points;
    double        *x, *y; /* rows as binary64 */
    uint32_t      *at;    /* positions of a seed: seed_room of them, as of the following */
    double        *distances;
    nf_near_entry *entries, *spare;
    uint16_t      *bucket_of;
    uint32_t      *buckets; /* NF_NEAR_BUCKETS */
    float         *low, *high;
    uint64_t      *visits;   /* a heap: the bits of the key, then the rank of the group */
    float         *key;      /* per group, valid where slots_of is not 0 */
    uint8_t       *slots_of; /* per group: bits of slots that want it */
    uint64_t       visit_count;
    uint64_t       compared, rechecked;
} nf_near_worker;

typedef struct nf_near_run {
    nf_context       *ctx;
    const nf_points  *data, *queries;
    const nf_kernels *kernels;
    bool              self_join, same_store;
    uint32_t          k, bundle, test_dims, seed_room, wait_room;
    double            factor; /* from a delivered distance to a radius that holds all rows of at most that distance */
    double            widening, underflow; /* as in cpu_hits.c */
    double            slack;               /* what binary32 may take off a query's coordinate */
    uint32_t         *lowest_id;           /* per group of the data */
    uint32_t         *rank;                /* of a group, by lowest id */
    uint32_t         *of_rank;
    int64_t          *ids;
    double           *distances;
    uint32_t         *counts;
    nf_near_worker   *workers;
    uint32_t          worker_count;
} nf_near_run;

/* ---- cpu_near_keep.c: what a query keeps, in the caller's arrays ---- */

/* Gives a query, the slot's row q, its first neighbours: of the rows of the data at positions at[], which are at least
 * k or all that there are. */
void nf_near_seed(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t q, const uint32_t *at,
                  uint32_t count);

/* Offers more rows (at most NF_TILE) to a query that has k neighbours. Returns whether its radius is smaller now. */
bool nf_near_offer(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t q, const uint32_t *at,
                   uint32_t count);

/* Whether all ids of a group of the data are above those that a query has kept, whose k-th distance is 0. */
bool nf_near_no_lower_id(const nf_near_run *run, nf_near_slot *slot, uint32_t q, uint32_t group);

/* Takes what waits, fills up, and counts. */
void nf_near_finish(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t q);

/* ---- cpu_near_visit.c: which groups, in which order ---- */

/* The group of the data that a query group should start with. */
uint32_t nf_near_first_group(const nf_near_run *run, uint32_t query_group);

/* Lists the groups that the worker's slots have to see beyond their seeds. */
void nf_near_list(const nf_near_run *run, nf_near_worker *worker, uint32_t slots);

/* The next visit, nearest first; false when there is none, or none near enough. */
bool nf_near_next(const nf_near_run *run, nf_near_worker *worker, uint32_t slots, uint32_t *group);

/* Whether a group is near enough for any query of a slot. */
bool nf_near_meets(const nf_near_run *run, const nf_near_slot *slot, uint32_t group);

/* Rows of a slot whose ball meets the group's box. */
uint64_t nf_near_rows(const nf_near_run *run, nf_near_worker *worker, nf_near_slot *slot, uint32_t group);

/* ---- cpu_near.c ---- */

/* nf_engine_ops.knn_points. */
nf_status nf_cpu_knn_points(nf_context *ctx, const nf_points *data, const nf_points *queries, bool self_join,
                            uint32_t k, int64_t *ids, double *distances, uint32_t *counts, nf_knn_stats *stats);

#endif
