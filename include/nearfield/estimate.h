/* SPDX-License-Identifier: Apache-2.0 */
/* What a join will be like, from a sample: the radius that gives a number of neighbours. */
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
 * Finds the least radius, up to some units in its last place, at which a sample of the queries (m x d) has, on average, selectivity neighbours: the distance
 * of the pair that completes them, in order of distance, so that the sample's mean exceeds what was asked for by less
 * than one pair, or by those that tie with it. params may be NULL. The answer is the same on every engine, instruction
 * set and number of threads. Method: queries drawn without replacement by the seed (selection sampling: Knuth, The Art
 * of Computer Programming, vol. 2, section 3.4.2), searched among all of the data. Counts bracket the radius, from a
 * guess by distances inside the sample; distances in the bracket are then taken from one search, and the one that is
 * wanted is selected. The standard error is that of a mean of a sample without replacement (finite population
 * correction). Cost: some searches with the sample as queries. Memory: the sample, up to 32 MB of distances, a batch of
 * that size. Thread rule as for queries in radius.h. NF_ERR_ARGUMENT (selectivity not above 0, or more than there are
 * rows; no queries; self_join with other than the data's number of rows; of a cosine index a selectivity that no radius
 * below 1 reaches), and the errors of nf_radius_counts.
 */
NF_API NF_NODISCARD nf_status nf_radius_for_selectivity(nf_context *ctx, const nf_radius_index *index,
                                                        const nf_matrix *queries, double selectivity,
                                                        const nf_sample_params *params, nf_selectivity *out);

#ifdef __cplusplus
}
#endif

#endif
