/* SPDX-License-Identifier: Apache-2.0 */
/* What a join will be like, from a sample: the radius that gives a number of neighbours; pairs, bytes and time. */
#ifndef NEARFIELD_ESTIMATE_H
#define NEARFIELD_ESTIMATE_H

#include <stddef.h>
#include <stdint.h>

#include "radius.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_sample_params {
    size_t   struct_size; /* set by nf_sample_params_init */
    uint64_t rows;        /* queries in the sample, at least 1; all of them where there are no more; default 1000 */
    uint64_t seed;        /* the same seed takes the same queries; default 1 */
    uint32_t self_join;   /* 1: the queries are the rows of the data, in their order: none is its own neighbour */
    uint32_t reserved;
} nf_sample_params;

/* A radius and what it gives. */
typedef struct nf_selectivity {
    size_t   struct_size;    /* the caller sets it to sizeof(nf_selectivity) before the call */
    double   radius;         /* for nf_radius_params: a plain distance, of a cosine index a cosine distance */
    double   estimate;       /* neighbours per query at that radius, of the sample */
    double   standard_error; /* of the estimate, from the spread over the sample; 0 where it holds all queries */
    uint64_t sampled;        /* queries in the sample */
    uint64_t queries;        /* from which they were taken */
    uint32_t searches;       /* of the sample's neighbours, that it took */
    uint32_t reserved;
} nf_selectivity;

/* Fills params with the defaults. Cannot fail. */
NF_API void nf_sample_params_init(nf_sample_params *params);

/*
 * Finds the least radius, up to some units in its last place, at which a sample of the queries (m x d) has, on average,
 * selectivity neighbours: the distance of the pair that completes them, in order of distance, so that the sample's mean
 * exceeds what was asked for by less than one pair, or by those that tie with it. params may be NULL. The answer is the
 * same on every engine, instruction set and number of threads.
 * Method: queries drawn without replacement by the seed (selection sampling: Knuth, The Art of Computer Programming,
 * vol. 2, section 3.4.2), searched among all of the data. Counts bracket the radius, from a guess by distances inside the
 * sample; distances in the bracket are then taken from one search, and the one that is wanted is selected. The standard
 * error is that of a mean of a sample without replacement (finite population correction).
 * Cost: some searches with the sample as queries. Memory: the sample, up to 64 MB of distances, and a batch of 4 million
 * pairs.
 * Thread rule as for queries in radius.h.
 * NF_ERR_ARGUMENT (selectivity not above 0, or more than there are rows; no queries; self_join with other than the data's
 * number of rows; of a cosine index a selectivity that no radius below 1 reaches), and the errors of nf_radius_counts.
 */
NF_API NF_NODISCARD nf_status nf_radius_for_selectivity(nf_context *ctx, const nf_radius_index *index,
                                                        const nf_matrix *queries, double selectivity,
                                                        const nf_sample_params *params, nf_selectivity *out);

/* What a join would give and take. An interval is one of 95 %: low to high. */
typedef struct nf_join_estimate {
    size_t   struct_size;                        /* the caller sets it to sizeof(nf_join_estimate) before the call */
    double   pairs, pairs_low, pairs_high;       /* as they would be delivered, with self and half */
    double   selectivity, standard_error;        /* neighbours per query, itself not counted */
    double   seconds, seconds_low, seconds_high; /* of the search on this context, with delivery, without the index */
    double   build_seconds;                      /* of the index, as measured */
    uint64_t result_bytes;                       /* of the result in memory, as nf_csr */
    uint64_t npz_bytes, npy_bytes;               /* of the files that nf_write_join makes of all queries */
    uint64_t peak_bytes;       /* index and result, or as much as the memory limit lets a result have */
    uint64_t sampled, queries; /* queries in the sample, and in all */
} nf_join_estimate;

/*
 * Says from a sample what a join will give and take, without keeping a result. queries: m x d; of a self-join the data
 * themselves, with sample->self_join. params as for nf_radius_csr; max_results is not looked at. sample may be NULL.
 * Bytes are those of the estimated pairs.
 * Method: pairs from the numbers of neighbours of a sample of queries without replacement, as nf_radius_for_selectivity
 * takes it, with a normal interval (too narrow where a few rows have most of the pairs); exact where the sample holds all
 * queries. Time: what opening the search takes, and the steps from list_hits to deliver of 8 runs of query groups, one in
 * each eighth of their order, scaled to all; longer runs where these take less than a quarter of a second. A self-join
 * decides pairs of groups once, hence half of the runs' list_hits and refine. The interval is Student's of the 8 runs; it
 * does not cover other work on the machine, nor a result that has to be made in several batches. Where the runs would hold
 * all groups the join is made as a whole.
 * Cost: a search with the sample as queries, opening the join, and the runs: about as many queries as the sample's, or what
 * takes a second. Memory: the sample, and a run's pairs.
 * Thread rule as for queries in radius.h. Errors of nf_radius_csr, and NF_ERR_ARGUMENT: no queries; self_join with other
 * than the data's number of rows.
 */
NF_API NF_NODISCARD nf_status nf_radius_estimate(nf_context *ctx, const nf_radius_index *index,
                                                 const nf_matrix *queries, const nf_radius_params *params,
                                                 const nf_sample_params *sample, nf_join_estimate *out);

#ifdef __cplusplus
}
#endif

#endif
