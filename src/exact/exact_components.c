/* SPDX-License-Identifier: Apache-2.0 */
/* Connected components of the rows within a radius: DBSCAN in which every row is core, and the sizes. */
#include "exact_components.h"

#include <string.h>

#include "exact_private.h"

void nf_components_params_init(nf_components_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
}

nf_status nf_components_params_take(nf_context *ctx, const nf_components_params *from, nf_components_params *to)
{
    size_t given = 0;
    nf_components_params_init(to);
    if (from == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "params is NULL; a radius is needed");
    memcpy(&given, from, sizeof given);
    if (given < sizeof given) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "struct_size of the parameters is %zu; use nf_components_params_init",
                       given);
    }
    memcpy(to, from, given < sizeof *to ? given : sizeof *to);
    return NF_OK;
}

nf_status nf_components_measure(nf_context *ctx, const int64_t *labels, uint64_t rows, nf_components_stats *stats)
{
    if (rows == 0) return NF_OK;
    uint32_t *sizes = nf_alloc_zero(ctx, stats->components, sizeof *sizes);
    if (sizes == NULL) return nf_alloc_status(ctx);
    for (uint64_t row = 0; row < rows; row++) sizes[labels[row]]++;
    for (uint64_t i = 0; i < stats->components; i++) {
        if (sizes[i] > stats->largest) stats->largest = sizes[i];
        stats->singletons += sizes[i] == 1;
    }
    nf_free(sizes);
    return NF_OK;
}

void nf_components_stats_give(const nf_components_stats *from, nf_components_stats *to)
{
    if (to == NULL) return;
    const size_t given = to->struct_size;
    memcpy(to, from, given < sizeof *to ? given : sizeof *to);
    if (given >= sizeof given) to->struct_size = given;
}

nf_status nf_radius_components(nf_context *ctx, const nf_radius_index *index, const nf_components_params *params,
                               int64_t *labels, nf_components_stats *stats)
{
    const double         started = nf_now();
    nf_components_params own;
    nf_components_stats  found = {.struct_size = sizeof found};
    nf_dbscan_params     dbscan;
    nf_dbscan_stats      clusters = {.struct_size = sizeof clusters};
    uint64_t             rows = 0;

    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    NF_TRY(nf_components_params_take(ctx, params, &own));
    nf_dbscan_params_init(&dbscan);
    dbscan.radius = own.radius;
    dbscan.strict = own.strict;
    dbscan.min_samples = 1;
    NF_TRY(nf_dbscan(ctx, index, &dbscan, labels, NULL, &clusters));
    nf_radius_index_describe(index, &rows, NULL, NULL);
    found.components = clusters.clusters;
    found.pairs = clusters.pairs;
    if (stats != NULL) NF_TRY(nf_components_measure(ctx, labels, rows, &found));
    found.seconds = nf_now() - started;
    nf_components_stats_give(&found, stats);
    return NF_OK;
}
