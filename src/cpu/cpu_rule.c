/* SPDX-License-Identifier: Apache-2.0 */
/* What the CPU engine asks of the rule (engine_rule.h), and the early exits of its kernels. */
#include "cpu_search.h"

/* Early exits after 32 dims, then in steps that grow by half: a stop costs about as much as two steps of the kernel, and
 * fewer dims hardly ever decide a whole register block. */
static void choose_stops(nf_stops *stops, uint32_t dims, uint32_t dims_per_step, bool only_end)
{
    uint32_t at = 32;
    stops->count = 0;
    stops->steps = (dims + dims_per_step - 1) / dims_per_step;
    while (!only_end && at + 8 <= dims && stops->count < NF_MAX_STOPS - 1) {
        stops->at[stops->count++] = at / dims_per_step;
        at = (at + at / 2 + 7) / 8 * 8;
    }
    stops->at[stops->count++] = stops->steps;
}

static nf_rule_rows rows_of(const nf_points *points)
{
    return (nf_rule_rows){
        .dims = points->dims,
        .narrow = points->store != NF_STORE_F64,
        .bytes = points->store == NF_STORE_U8,
        .bias = points->bias,
        .integers = points->integers,
        .largest = points->largest,
        .largest_square = points->largest_square,
    };
}

/* The largest finite radius of the search, for which the rule is chosen. */
static double rule_radius(const nf_search *search)
{
    double chosen = search->spec.inner_radius;
    if (search->spec.radii == NULL) return nf_rule_larger(chosen, search->spec.radius);
    for (uint64_t q = 0; q < search->queries->rows_count; q++) chosen = nf_rule_larger(chosen, search->spec.radii[q]);
    return chosen < 0.0 ? 0.0 : chosen;
}

nf_status nf_cpu_choose_rule(nf_context *ctx, nf_search *search)
{
    const nf_rule_rows data = rows_of(search->data), queries = rows_of(search->queries);
    nf_search_spec     spec = search->spec;
    spec.radius = rule_radius(search);
    NF_TRY(nf_rule_choose(ctx, "cpu", true, false, &data, &queries, &spec, &search->rule));
    search->limits = nf_rule_limits(&search->rule, search->spec.radius);
    if (spec.inner_radius >= 0.0) search->inner = nf_rule_limits(&search->rule, spec.inner_radius);
    choose_stops(&search->stops, data.dims, search->rule.kind == NF_KIND_U8 ? search->kernels->u8_per_step : 1,
                 search->spec.no_early_exit);
    return NF_OK;
}
