/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deciding one tile. The kernel's masks split its pairs in three: certainly out, certainly in, and open. Open pairs are
 * ties where the sums are exact, else they are rechecked in binary64, and in exact arithmetic where that cannot tell
 * (matrix_exact.h). docs/numerics.md proves that this gives the definition's answer for every pair.
 */
#include "cpu_tile.h"

#include <math.h>
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
    if (search->spec.inner_radius < 0.0) return NF_OK;
    panel->inner_out = nf_alloc(ctx, (uint64_t)NF_MAX_STOPS * NF_TILE, sizeof(float));
    panel->inner_in = nf_alloc(ctx, NF_TILE, sizeof(double));
    return panel->inner_out != NULL && panel->inner_in != NULL ? NF_OK : nf_alloc_status(ctx);
}

void nf_panel_close(nf_panel *panel)
{
    nf_free(panel->values);
    nf_free(panel->limits_out);
    nf_free(panel->limits_in);
    nf_free(panel->inner_out);
    nf_free(panel->inner_in);
}

/* ---- limits of a panel's rows: those of row i are of[i * each], each being 0 where all rows have the same ---- */

/* Turns sums of squares N into the product test's limits. */
static void product_limits(const nf_search *search, const nf_limits *of, uint32_t each, float *norms, float *limits_in)
{
    const uint32_t    stops = search->stops.count;
    const float      *whole = norms + (stops - 1) * NF_TILE;
    nf_product_limits limits = nf_rule_product_limits(&search->rule, of->square);

    for (uint32_t row = 0; row < NF_TILE; row++) {
        if (each != 0) limits = nf_rule_product_limits(&search->rule, of[row].square);
        const bool sure = !of[row * each].never_sure;
        limits_in[row] = sure ? (float)((double)whole[row] * limits.in_factor - limits.in_offset) : HUGE_VALF;
        for (uint32_t stop = 0; stop < stops; stop++) {
            float *norm = &norms[stop * NF_TILE + row];
            *norm = (float)((double)*norm * limits.out_factor - limits.out_offset);
        }
    }
}

/* Takes floor(radius^2) off the sums of the queries, modulo 2^32. */
static void u8_limits(const nf_search *search, const nf_limits *of, uint32_t each, uint32_t *sums, int32_t *sure_from)
{
    for (uint32_t row = 0; row < NF_TILE; row++) {
        for (uint32_t stop = 0; stop < search->stops.count; stop++) {
            sums[stop * NF_TILE + row] -= (uint32_t)of[row * each].whole_square;
        }
        sure_from[row] = of[row * each].sure_from;
    }
}

static void f32_limits(const nf_limits *of, uint32_t each, float *out_above, float *sure_upto)
{
    for (uint32_t row = 0; row < NF_TILE; row++) {
        out_above[row] = (float)of[row * each].out_above;
        sure_upto[row] = (float)of[row * each].sure_upto;
    }
}

static void f64_limits(const nf_limits *of, uint32_t each, double *out_above, double *sure_upto)
{
    for (uint32_t row = 0; row < NF_TILE; row++) {
        out_above[row] = of[row * each].out_above;
        sure_upto[row] = of[row * each].sure_upto;
    }
}

/* Fills out and in, where out holds the sums of pack already (product, u8). */
static void fill_limits(const nf_search *search, const nf_limits *of, uint32_t each, bool as_x, void *out, void *in)
{
    switch (search->rule.kind) {
    case NF_KIND_U8:
        if (as_x) u8_limits(search, of, each, out, in);
        break;
    case NF_KIND_F32_PRODUCT: product_limits(search, of, each, out, in); break;
    case NF_KIND_F32_DIFFERENCE:
        if (as_x) f32_limits(of, each, out, in);
        break;
    case NF_KIND_F64:
        if (as_x) f64_limits(of, each, out, in);
        break;
    case NF_KIND_F16: break; /* not of this engine */
    }
}

/* A radius per query: all of its square is the query's side's. */
static void limits_by_row(const nf_search *search, nf_panel *panel, bool as_x)
{
    nf_limits of[NF_TILE] = {{0}};
    if (!as_x) {
        fill_limits(search, of, 0, false, panel->limits_out, panel->limits_in);
        return;
    }
    const uint64_t begin = search->queries->group_start[panel->group];
    for (uint32_t row = 0; row < panel->count; row++) {
        of[row] = nf_rule_limits(&search->rule, nf_cpu_query_radius(search, begin + row));
        of[row].square *= 2.0;
    }
    fill_limits(search, of, 1, true, panel->limits_out, panel->limits_in);
}

static void panel_limits(const nf_search *search, nf_panel *panel, bool as_x)
{
    const uint64_t bytes = (uint64_t)search->stops.count * NF_TILE * sizeof(float);
    if (search->spec.inner_radius >= 0.0) {
        if (search->rule.kind <= NF_KIND_F32_PRODUCT) memcpy(panel->inner_out, panel->limits_out, bytes);
        fill_limits(search, &search->inner, 0, as_x, panel->inner_out, panel->inner_in);
    }
    if (search->spec.radii != NULL) {
        limits_by_row(search, panel, as_x);
    } else {
        fill_limits(search, &search->limits, 0, as_x, panel->limits_out, panel->limits_in);
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
        break;
    case NF_KIND_F32_PRODUCT:
        kernels->pack_f32(&rows, panel->values, stops->at, stops->count, panel->limits_out);
        break;
    case NF_KIND_F32_DIFFERENCE:
        kernels->pack_f32(&rows, panel->values, NULL, 0, NULL);
        break;
    case NF_KIND_F64:
        kernels->pack_f64(&rows, panel->values);
        break;
    case NF_KIND_F16: break; /* not of this engine */
    }
    panel_limits(search, panel, as_x);
}

static uint32_t list_bits(uint64_t bits, uint8_t *out)
{
    uint32_t count = 0;
    for (; bits != 0; bits &= bits - 1) out[count++] = (uint8_t)__builtin_ctzll(bits);
    for (uint32_t i = 0; i < NF_QUERY_PAD; i++) out[count + i] = out[count - 1];
    return count;
}

/* inner: by the limits of the inner radius. */
static void run_kernel(const nf_search *search, const nf_panel *x, const nf_panel *y, uint64_t queries, bool inner,
                       uint64_t *maybe, uint64_t *sure)
{
    void *const       x_out = inner ? x->inner_out : x->limits_out, *const x_in = inner ? x->inner_in : x->limits_in;
    void *const       y_out = inner ? y->inner_out : y->limits_out, *const y_in = inner ? y->inner_in : y->limits_in;
    const nf_rule    *rule = &search->rule;
    const nf_stops   *stops = &search->stops;
    const nf_kernels *kernels = search->kernels;
    uint8_t        list[NF_TILE + NF_QUERY_PAD];
    nf_tile        tile = {
               .x = x->values,
               .y = y->values,
               .queries = list,
               .query_count = list_bits(queries, list),
               .point_count = y->count,
               .steps = stops->steps,
               .stop_count = stops->count,
               .maybe = maybe,
               .sure = sure,
    };
    memcpy(tile.stops, stops->at, sizeof tile.stops);
    switch (rule->kind) {
    case NF_KIND_U8:
        tile.x_sum = x_out;
        tile.y_sum = y_out;
        tile.sure_from = x_in;
        kernels->refine_u8(&tile);
        break;
    case NF_KIND_F32_PRODUCT:
        tile.x_out = x_out;
        tile.y_out = y_out;
        tile.x_in = x_in;
        tile.y_in = y_in;
        kernels->refine_f32_product(&tile);
        break;
    case NF_KIND_F32_DIFFERENCE:
    case NF_KIND_F64:
        tile.out_above = x_out;
        tile.sure_upto = x_in;
        (rule->kind == NF_KIND_F64 ? kernels->refine_f64_difference : kernels->refine_f32_difference)(&tile);
        break;
    case NF_KIND_F16: break;
    }
}

void nf_tile_run(const nf_search *search, const nf_panel *x, const nf_panel *y, uint64_t queries, uint64_t *maybe,
                 uint64_t *sure)
{
    run_kernel(search, x, y, queries, false, maybe, sure);
}

/* Decides the open pairs of one query at a radius; returns those that are within it. inner: ties are not counted. */
static uint64_t recheck(nf_tiler *tiler, const nf_panel *x, const nf_panel *y, uint32_t query, uint64_t open, bool inner)
{
    const nf_search *search = tiler->search;
    const bool       ties_in = !search->spec.strict;
    const uint64_t   position = search->queries->group_start[x->group] + query;
    const double     radius = inner ? search->spec.inner_radius : nf_cpu_query_radius(search, position);
    uint64_t         in = 0, ties = 0;

    if (search->rule.exact) {
        if (!inner) tiler->ties += (uint64_t)__builtin_popcountll(open);
        return ties_in ? open : 0;
    }
    tiler->rechecked += (uint64_t)__builtin_popcountll(open);
    nf_cpu_row_f64(search->queries, position, tiler->row_x);
    for (; open != 0; open &= open - 1) {
        const uint32_t point = (uint32_t)__builtin_ctzll(open);
        nf_cpu_row_f64(search->data, search->data->group_start[y->group] + point, tiler->row_y);
        const int side = nf_exact_compare_fast(tiler->row_x, tiler->row_y, search->data->dims, radius);
        if (side == 0) ties++;
        if (side < 0 || (side == 0 && ties_in)) in |= 1ull << point;
    }
    if (!inner) tiler->ties += ties;
    return in;
}

/* Takes the pairs within the inner radius out of results. */
static void leave_out_inner(nf_tiler *tiler, const nf_panel *x, const nf_panel *y, uint64_t queries,
                            uint64_t results[NF_TILE])
{
    uint64_t some = 0;
    for (uint64_t left = queries; left != 0; left &= left - 1) {
        const uint32_t query = (uint32_t)__builtin_ctzll(left);
        if (results[query] != 0) some |= 1ull << query;
    }
    if (some == 0) return;
    run_kernel(tiler->search, x, y, some, true, tiler->maybe, tiler->sure);
    for (; some != 0; some &= some - 1) {
        const uint32_t query = (uint32_t)__builtin_ctzll(some);
        const uint64_t maybe = tiler->maybe[query] & results[query], sure = tiler->sure[query] & results[query];
        results[query] &= ~sure;
        if (maybe != sure) results[query] &= ~recheck(tiler, x, y, query, maybe & ~sure, true);
    }
}

/* The bit of the pair (i, i) of a row by its own radius, where it is a result. */
static uint64_t own_pair(const nf_search *search, const nf_panel *x, uint32_t row)
{
    const double radius = nf_cpu_query_radius(search, search->queries->group_start[x->group] + row);
    return search->spec.keep_self && nf_cpu_within_zero(&search->spec, radius) ? 1ull << row : 0;
}

uint64_t nf_tile_decide(nf_tiler *tiler, const nf_panel *x, const nf_panel *y, uint64_t queries, bool diagonal,
                        uint64_t results[NF_TILE])
{
    const bool mirrors = nf_cpu_mirrors(tiler->search);

    run_kernel(tiler->search, x, y, queries, false, tiler->maybe, tiler->sure);
    memset(results, 0, NF_TILE * sizeof *results);
    for (uint64_t left = queries; left != 0; left &= left - 1) {
        const uint32_t query = (uint32_t)__builtin_ctzll(left);
        uint64_t       maybe = tiler->maybe[query], sure = tiler->sure[query];
        if (diagonal) {
            const uint64_t above = query == 63 ? 0 : ~0ull << (query + 1), others = mirrors ? above : ~(1ull << query);
            maybe &= others;
            sure &= others;
            if (!mirrors) results[query] = own_pair(tiler->search, x, query);
        }
        if (maybe == 0) continue;
        results[query] |= sure;
        if (maybe != sure) results[query] |= recheck(tiler, x, y, query, maybe & ~sure, false);
    }
    if (tiler->search->spec.inner_radius >= 0.0) leave_out_inner(tiler, x, y, queries, results);
    const uint64_t pairs = (uint64_t)__builtin_popcountll(queries) * y->count;
    return !diagonal ? pairs : mirrors ? pairs / 2 : pairs - (uint64_t)__builtin_popcountll(queries);
}
