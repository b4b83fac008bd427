/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing searches; the kernel table of an instruction set. */
#include "cpu_search.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "core/core_system.h"

static nf_kernels     tables[NF_ISA_NEON + 1];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

/* Each table starts from a lesser one: what an instruction set does not override it inherits. An override is compiled
 * for its instruction set as a whole, so it must not even be called where that is missing. */
static void fill_tables(void)
{
    nf_kernels_fill_scalar(&tables[NF_ISA_SCALAR]);
    tables[NF_ISA_AVX2] = tables[NF_ISA_SCALAR];
#if defined(NF_HAVE_AVX2)
    if (nf_system_has_isa(NF_ISA_AVX2)) nf_kernels_override_avx2(&tables[NF_ISA_AVX2]);
#endif
    tables[NF_ISA_AVX512] = tables[NF_ISA_AVX2];
#if defined(NF_HAVE_AVX512)
    if (nf_system_has_isa(NF_ISA_AVX512)) nf_kernels_override_avx512(&tables[NF_ISA_AVX512]);
#endif
    tables[NF_ISA_NEON] = tables[NF_ISA_SCALAR];
#if defined(NF_HAVE_NEON)
    if (nf_system_has_isa(NF_ISA_NEON)) nf_kernels_override_neon(&tables[NF_ISA_NEON]);
#endif
}

const nf_kernels *nf_cpu_kernels(nf_isa isa)
{
    pthread_once(&tables_once, fill_tables);
    return &tables[isa == NF_ISA_AUTO ? NF_ISA_SCALAR : isa];
}

/* With a radius per query: how far each query group reaches. */
static nf_status find_group_radii(nf_context *ctx, nf_search *search)
{
    const nf_points *queries = search->queries;
    search->group_radius = nf_alloc(ctx, queries->group_count, sizeof *search->group_radius);
    if (search->group_radius == NULL) return nf_alloc_status(ctx);
    for (uint32_t group = 0; group < queries->group_count; group++) {
        double largest = 0.0;
        for (uint32_t at = queries->group_start[group]; at < queries->group_start[group + 1]; at++) {
            largest = fmax(largest, nf_cpu_query_radius(search, at));
        }
        search->group_radius[group] = largest;
    }
    return NF_OK;
}

nf_status nf_cpu_search_open(nf_context *ctx, const nf_points *data, const nf_points *queries,
                             const nf_search_spec *spec, nf_search **out)
{
    *out = NULL;
    if (spec->candidates == NF_CANDIDATES_RT) {
        return nf_fail(ctx, NF_ERR_UNSUPPORTED, "candidates rt needs the cuda engine");
    }
    if (spec->share != NF_SHARE_BOTH || spec->result != NF_RESULT_AUTO || spec->bounds != NF_BOUNDS_BOX) {
        return nf_fail(ctx, NF_ERR_UNSUPPORTED, "tile, result and group-bounds need the cuda engine");
    }
    nf_search *search = nf_alloc_zero(ctx, 1, sizeof *search);
    if (search == NULL) return nf_alloc_status(ctx);
    search->data = data;
    search->queries = queries;
    search->spec = *spec;
    search->candidates = spec->candidates;
    search->kernels = nf_cpu_kernels(nf_context_isa(ctx));

    nf_status status = nf_cpu_choose_rule(ctx, search);
    if (status >= 0 && spec->radii != NULL) status = find_group_radii(ctx, search);
    if (status < 0) {
        nf_cpu_search_close(search);
        return status;
    }
    *out = search;
    return NF_OK;
}

void nf_cpu_search_close(nf_search *search)
{
    if (search == NULL) return;
    nf_pairs_clear(&search->pairs);
    nf_free(search->lengths);
    nf_free(search->group_radius);
    nf_free(search);
}

void nf_cpu_search_info(const nf_search *search, nf_search_info *info)
{
    *info = (nf_search_info){
        .candidates = search->candidates,
        .why = search->why,
        .refine = nf_kind_name(search->rule.kind),
        .kept_bytes = search->kept_bytes,
        .counters = {
            .hits = atomic_load(&search->hits),
            .compared = atomic_load(&search->compared),
            .rechecked = atomic_load(&search->rechecked),
            .ties = atomic_load(&search->ties),
        },
    };
}
