/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deciding one tile. The kernel's masks split its pairs in three: certainly out, certainly in, and open. Open pairs are
 * ties where the sums are exact, else they are rechecked in binary64, and in exact arithmetic where that cannot tell
 * (matrix_exact.h). docs/numerics.md proves that this gives the definition's answer for every pair.
 */
#include "cpu_tile.h"

#include <string.h>

#include "matrix/matrix_exact.h"

nf_status nf_tiler_open(nf_context *ctx, const nf_search *search, nf_tiler *tiler)
{
    memset(tiler, 0, sizeof *tiler);
    tiler->ctx = ctx;
    tiler->search = search;
    tiler->row_x = nf_alloc(ctx, search->data->dims, sizeof(double));
    tiler->row_y = nf_alloc(ctx, search->data->dims, sizeof(double));
    return tiler->row_x != NULL && tiler->row_y != NULL ? NF_OK : nf_alloc_status(ctx);
}

void nf_tiler_close(nf_tiler *tiler)
{
    nf_free(tiler->row_x);
    nf_free(tiler->row_y);
    tiler->row_x = tiler->row_y = NULL;
}

static uint64_t values_bytes(const nf_search *search)
{
    const uint64_t bytes = search->rule.kind == NF_KIND_F64 ? 8 : 4;
    return (uint64_t)NF_TILE * search->stops.steps * bytes;
}

uint64_t nf_panel_bytes(const nf_search *search)
{
    return values_bytes(search) + (uint64_t)(NF_MAX_STOPS + 2) * NF_TILE * sizeof(float);
}

nf_status nf_panel_open(nf_context *ctx, const nf_search *search, nf_panel *panel)
{
    panel->values = nf_alloc(ctx, values_bytes(search), 1);
    panel->limits_out = nf_alloc(ctx, (uint64_t)NF_MAX_STOPS * NF_TILE, sizeof(float));
    panel->limits_in = nf_alloc(ctx, NF_TILE, sizeof(double));
    if (panel->values == NULL || panel->limits_out == NULL || panel->limits_in == NULL) return nf_alloc_status(ctx);
    return NF_OK;
}

void nf_panel_close(nf_panel *panel)
{
    nf_free(panel->values);
    nf_free(panel->limits_out);
    nf_free(panel->limits_in);
}

/* Turns sums of squares N into the product test's limits. */
static void product_limits(const nf_search *search, nf_panel *panel)
{
    const nf_product_limits limits = nf_rule_product_limits(&search->rule, search->limits.square);
    const uint32_t          stops = search->stops.count;
    float                  *norms = panel->limits_out, *limits_in = panel->limits_in;
    const float            *whole = norms + (stops - 1) * NF_TILE;

    for (uint32_t row = 0; row < NF_TILE; row++) {
        limits_in[row] = (float)((double)whole[row] * limits.in_factor - limits.in_offset);
    }
    for (uint32_t i = 0; i < stops * NF_TILE; i++) norms[i] = (float)((double)norms[i] * limits.out_factor - limits.out_offset);
}

/* Takes floor(radius^2) off the sums of the queries, modulo 2^32. */
static void u8_limits(const nf_search *search, nf_panel *panel)
{
    uint32_t *sums = panel->limits_out;
    int32_t  *sure_from = panel->limits_in;
    for (uint32_t i = 0; i < search->stops.count * NF_TILE; i++) sums[i] -= (uint32_t)search->limits.whole_square;
    for (uint32_t row = 0; row < NF_TILE; row++) sure_from[row] = search->limits.sure_from;
}

static void f32_limits(const nf_search *search, nf_panel *panel)
{
    float *out_above = panel->limits_out, *sure_upto = panel->limits_in;
    for (uint32_t row = 0; row < NF_TILE; row++) {
        out_above[row] = (float)search->limits.out_above;
        sure_upto[row] = (float)search->limits.sure_upto;
    }
}

static void f64_limits(const nf_search *search, nf_panel *panel)
{
    double *out_above = panel->limits_out, *sure_upto = panel->limits_in;
    for (uint32_t row = 0; row < NF_TILE; row++) {
        out_above[row] = search->limits.out_above;
        sure_upto[row] = search->limits.sure_upto;
    }
}

void nf_panel_pack(const nf_search *search, nf_panel *panel, uint32_t group, bool as_x)
{
    const nf_rule    *rule = &search->rule;
    const nf_stops   *stops = &search->stops;
    const nf_kernels *kernels = search->kernels;
    const nf_rows     rows = nf_cpu_group_rows(as_x ? search->queries : search->data, group, rule->scale);

    panel->group = group;
    panel->count = rows.count;
    switch (rule->kind) {
    case NF_KIND_U8:
        (as_x ? kernels->pack_u8_x : kernels->pack_u8_y)(&rows, panel->values, stops->at, stops->count,
                                                         panel->limits_out);
        if (as_x) u8_limits(search, panel);
        break;
    case NF_KIND_F32_PRODUCT:
        kernels->pack_f32(&rows, panel->values, stops->at, stops->count, panel->limits_out);
        product_limits(search, panel);
        break;
    case NF_KIND_F32_DIFFERENCE:
        kernels->pack_f32(&rows, panel->values, NULL, 0, NULL);
        if (as_x) f32_limits(search, panel);
        break;
    case NF_KIND_F64:
        kernels->pack_f64(&rows, panel->values);
        if (as_x) f64_limits(search, panel);
        break;
    case NF_KIND_F16: break; /* not of this engine */
    }
}

static uint32_t list_bits(uint64_t bits, uint8_t *out)
{
    uint32_t count = 0;
    for (; bits != 0; bits &= bits - 1) out[count++] = (uint8_t)__builtin_ctzll(bits);
    for (uint32_t i = 0; i < NF_QUERY_PAD; i++) out[count + i] = out[count - 1];
    return count;
}

static void run_kernel(nf_tiler *tiler, const nf_panel *x, const nf_panel *y, uint64_t queries)
{
    const nf_rule  *rule = &tiler->search->rule;
    const nf_stops *stops = &tiler->search->stops;
    const nf_kernels *kernels = tiler->search->kernels;
    uint8_t        list[NF_TILE + NF_QUERY_PAD];
    nf_tile        tile = {
               .x = x->values,
               .y = y->values,
               .queries = list,
               .query_count = list_bits(queries, list),
               .point_count = y->count,
               .steps = stops->steps,
               .stop_count = stops->count,
               .maybe = tiler->maybe,
               .sure = tiler->sure,
    };
    memcpy(tile.stops, stops->at, sizeof tile.stops);
    switch (rule->kind) {
    case NF_KIND_U8:
        tile.x_sum = x->limits_out;
        tile.y_sum = y->limits_out;
        tile.sure_from = x->limits_in;
        kernels->refine_u8(&tile);
        break;
    case NF_KIND_F32_PRODUCT:
        tile.x_out = x->limits_out;
        tile.y_out = y->limits_out;
        tile.x_in = x->limits_in;
        tile.y_in = y->limits_in;
        kernels->refine_f32_product(&tile);
        break;
    case NF_KIND_F32_DIFFERENCE:
    case NF_KIND_F64:
        tile.out_above = x->limits_out;
        tile.sure_upto = x->limits_in;
        (rule->kind == NF_KIND_F64 ? kernels->refine_f64_difference : kernels->refine_f32_difference)(&tile);
        break;
    case NF_KIND_F16: break;
    }
}

/* Decides the open pairs of one query; returns those that are results. */
static uint64_t recheck(nf_tiler *tiler, const nf_panel *x, const nf_panel *y, uint32_t query, uint64_t open)
{
    const nf_search *search = tiler->search;
    const bool       ties_in = !search->spec.strict;
    uint64_t         in = 0;

    if (search->rule.exact) {
        tiler->ties += (uint64_t)__builtin_popcountll(open);
        return ties_in ? open : 0;
    }
    tiler->rechecked += (uint64_t)__builtin_popcountll(open);
    nf_cpu_row_f64(search->queries, search->queries->group_start[x->group] + query, tiler->row_x);
    for (; open != 0; open &= open - 1) {
        const uint32_t point = (uint32_t)__builtin_ctzll(open);
        nf_cpu_row_f64(search->data, search->data->group_start[y->group] + point, tiler->row_y);
        const int side = nf_exact_compare_fast(tiler->row_x, tiler->row_y, search->data->dims, search->spec.radius);
        if (side == 0) tiler->ties++;
        if (side < 0 || (side == 0 && ties_in)) in |= 1ull << point;
    }
    return in;
}

uint64_t nf_tile_decide(nf_tiler *tiler, const nf_panel *x, const nf_panel *y, uint64_t queries, bool diagonal,
                        uint64_t results[NF_TILE])
{
    run_kernel(tiler, x, y, queries);
    memset(results, 0, NF_TILE * sizeof *results);
    for (uint64_t left = queries; left != 0; left &= left - 1) {
        const uint32_t query = (uint32_t)__builtin_ctzll(left);
        uint64_t       maybe = tiler->maybe[query], sure = tiler->sure[query];
        if (diagonal) {
            const uint64_t above = query == 63 ? 0 : ~0ull << (query + 1);
            maybe &= above;
            sure &= above;
        }
        if (maybe == 0) continue;
        results[query] = sure;
        if (maybe != sure) results[query] |= recheck(tiler, x, y, query, maybe & ~sure);
    }
    const uint64_t pairs = (uint64_t)__builtin_popcountll(queries) * y->count;
    return diagonal ? pairs / 2 : pairs;
}
