/* SPDX-License-Identifier: Apache-2.0 */
/* A search in the CPU engine: what is asked, how it is decided, and what has been found. */
#ifndef NF_CPU_SEARCH_H
#define NF_CPU_SEARCH_H

#include <stdatomic.h>

#include "cpu_points.h"
#include "cpu_store.h"
#include "engine/engine.h"
#include "engine/engine_rule.h"

/* Where the kernels look at partial sums (kernels.h). */
typedef struct nf_stops {
    uint32_t steps, count;
    uint32_t at[NF_MAX_STOPS];
} nf_stops;

struct nf_search {
    const nf_points  *data, *queries;
    nf_search_spec    spec;
    const nf_kernels *kernels;
    nf_rule           rule;
    nf_limits         limits;      /* of the radius */
    nf_limits         inner;       /* of the inner radius */
    double           *group_radius; /* with radii: the largest of each query group; else NULL */
    nf_stops          stops;
    uint32_t          candidates;
    char              why[160];
    nf_store_pairs    pairs;       /* what refine keeps */
    uint32_t         *lengths;     /* neighbours so far, by position in the batch; refine counts, compress reads */
    atomic_uint_fast64_t hits, compared, rechecked, ties;
    uint64_t          kept_bytes;  /* of the pairs that the last refine kept */
};

nf_status nf_cpu_search_open(nf_context *ctx, const nf_points *data, const nf_points *queries,
                             const nf_search_spec *spec, nf_search **out);
void nf_cpu_search_info(const nf_search *search, nf_search_info *info);
void nf_cpu_search_close(nf_search *search);

/* Fills the search's rule and stops. NF_ERR_UNSUPPORTED where refine asks for what the points lack. */
nf_status nf_cpu_choose_rule(nf_context *ctx, nf_search *search);

nf_status nf_cpu_first_intersection_test(nf_context *ctx, nf_search *search, uint64_t *list_bytes);
nf_status nf_cpu_list_hits(nf_context *ctx, nf_search *search, nf_batch batch);
nf_status nf_cpu_refine(nf_context *ctx, nf_search *search, nf_batch *batch, uint64_t limit_bytes, bool *overflow);
nf_status nf_cpu_refine_counts(nf_context *ctx, nf_search *search, nf_batch batch, uint64_t *counts);
nf_status nf_cpu_refine_histogram(nf_context *ctx, nf_search *search, nf_batch batch, const double *radii,
                                  uint32_t radius_count, uint64_t *pairs);
uint64_t nf_cpu_batch_rows(const nf_search *search, nf_batch batch);
nf_status nf_cpu_compress(nf_context *ctx, nf_search *search, nf_batch batch, int32_t *query_ids, int64_t *indptr);
nf_status nf_cpu_deliver(nf_context *ctx, nf_search *search, nf_batch batch, const int64_t *indptr, int32_t *indices,
                         void *distances, nf_distances distances_as, nf_sort sort);

/* The kernel table of an instruction set. */
const nf_kernels *nf_cpu_kernels(nf_isa isa);

/* Whether a pair decided once is one of both rows: a self-join at one radius. */
static inline bool nf_cpu_mirrors(const nf_search *search)
{
    return search->spec.self_join && search->spec.radii == NULL;
}

/* Whether the search asks for the pairs (i, i), and distance 0 is inside: of every radius but strictly of 0. */
static inline bool nf_cpu_within_zero(const nf_search_spec *spec, double radius)
{
    return !(spec->strict && radius == 0.0);
}

/* Whether every (i, i) is a result beside what tiles decide; with radii tiles decide these, too. */
static inline bool nf_cpu_self_pairs(const nf_search_spec *spec)
{
    if (!spec->self_join || !spec->keep_self || spec->radii != NULL) return false;
    if (spec->inner_radius >= 0.0 && nf_cpu_within_zero(spec, spec->inner_radius)) return false;
    return nf_cpu_within_zero(spec, spec->radius);
}

/* The radius of the query at a position, and one that reaches as far as any of a group. */
static inline double nf_cpu_query_radius(const nf_search *search, uint64_t position)
{
    return search->spec.radii != NULL ? search->spec.radii[search->queries->ids[position]] : search->spec.radius;
}

static inline double nf_cpu_group_radius(const nf_search *search, uint32_t query_group)
{
    return search->group_radius != NULL ? search->group_radius[query_group] : search->spec.radius;
}

#endif
