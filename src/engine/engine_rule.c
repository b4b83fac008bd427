/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing the arithmetic that decides the clear cases, and its bounds. docs/numerics.md derives them; the names here are
 * those of that page: u is the unit roundoff, gamma(k) = k u / (1 - k u), d the number of dims.
 */
#include "engine_rule.h"

#include <math.h>
#include <string.h>

#define U32 0x1p-24
#define U64 0x1p-53
#define LARGEST_F32 0x1p50       /* values up to this: no sum of squares of 2^20 dims overflows binary32 */
#define SMALLEST_RADIUS_F32 0x1p-50
#define MOST_U8_DIMS 33025u      /* 33025 * 255^2 < 2^31 */
#define FEWEST_PRODUCT_DIMS 20u  /* below, differences are as fast, and leave fewer pairs open */
#define SPARE 32.0               /* roundings granted beyond the d + 3 that are counted */

static double gamma_of(double k, double u)
{
    return k * u / (1.0 - k * u);
}

const char *nf_kind_name(nf_kind kind)
{
    switch (kind) {
    case NF_KIND_U8: return "int8";
    case NF_KIND_F32_PRODUCT: return "fp32-product";
    case NF_KIND_F32_DIFFERENCE: return "fp32-difference";
    case NF_KIND_F64: return "fp64";
    case NF_KIND_F16: return "tensor";
    }
    return "";
}

/* floor(radius^2) over the real numbers, and whether radius^2 is an integer; for radius^2 below 2^52. (Below 1 the rounded
 * square may be 1 though the exact one is not: then rest is negative, and the rest of the function sees to it.) */
static double whole_square(double radius, bool *integer)
{
    const double square = radius * radius, rest = fma(radius, radius, -square);
    const double whole = floor(square);
    if (square < 1.0) { /* also where square and rest have vanished: the square of a radius above 0 is above 0 */
        *integer = radius == 0.0;
        return 0.0;
    }
    *integer = whole == square && rest == 0.0;
    return whole == square && rest < 0.0 ? whole - 1.0 : whole;
}

static bool f32_can(const nf_rule_rows *data, const nf_rule_rows *queries, double radius)
{
    if (!data->narrow || !queries->narrow) return false;
    return fmax(data->largest, queries->largest) <= LARGEST_F32 && radius >= SMALLEST_RADIUS_F32;
}

static bool u8_can(const nf_rule_rows *data, const nf_rule_rows *queries)
{
    return data->bytes && queries->bytes && data->bias == queries->bias &&
           data->dims <= MOST_U8_DIMS;
}

/* The product's error is relative to the norms: it must be small against radius^2, or too many pairs are left open. */
static bool product_can(const nf_rule_rows *data, const nf_rule_rows *queries, double radius)
{
    const double error = 3.0 * gamma_of(data->dims + SPARE, U32) * (data->largest_square + queries->largest_square);
    return data->dims >= FEWEST_PRODUCT_DIMS && error * 64.0 <= radius * radius;
}

static void difference_bounds(nf_limits *limits, double square, double dims, double u)
{
    const double widening = gamma_of(dims + SPARE, u);
    limits->out_above = square * (1.0 + widening);
    limits->sure_upto = square * (1.0 - widening);
}

/* Integers whose differences binary32 holds: sums below 2^24 are exact, larger ones stay above. */
static bool exact_f32_can(const nf_rule_rows *data, const nf_rule_rows *queries, double radius)
{
    if (!data->integers || !queries->integers || fmax(data->largest, queries->largest) > 0x1p23) return false;
    return radius * radius < 0x1p24;
}

/* Radii below the smallest that the rule may be chosen for come beside a larger one: squares may have vanished. What is not
 * out at the smallest radius is left open. */
static void tiny_f32_limits(nf_limits *limits, const nf_rule *rule)
{
    difference_bounds(limits, SMALLEST_RADIUS_F32 * SMALLEST_RADIUS_F32, rule->dims, U32);
    limits->sure_upto = -1.0;
    limits->square = SMALLEST_RADIUS_F32 * SMALLEST_RADIUS_F32;
    limits->never_sure = true;
}

static void exact_f32_limits(nf_limits *limits, double radius)
{
    bool         integer;
    const double whole = whole_square(radius, &integer);
    limits->out_above = whole;
    limits->sure_upto = integer ? whole - 1.0 : whole;
}

static void u8_limits(nf_limits *limits, double radius)
{
    bool         integer = false;
    const double whole = radius < 0x1p20 ? whole_square(radius, &integer) : HUGE_VAL;
    limits->sure_from = integer ? 1 : 0;
    limits->whole_square = whole < 0x1p31 - 1.0 ? (int32_t)whole : INT32_MAX;
    if (limits->whole_square == INT32_MAX) limits->sure_from = 0; /* no sum reaches it */
}

static double f64_scale(double radius)
{
    const bool extreme = isfinite(radius) && radius != 0.0 && (radius > 0x1p490 || radius < 0x1p-400);
    if (!extreme) return 1.0;
    const double scale = scalbn(1.0, -ilogb(radius)); /* radius * scale is in [1, 2) */
    return scale == HUGE_VAL ? 0x1p1023 : scale;
}

static void f64_limits(nf_limits *limits, const nf_rule *rule, double radius)
{
    const double scaled = radius * rule->scale;
    if (scaled < 0x1p-500) { /* 0, or far below what the scale was chosen for */
        limits->out_above = 0x1p-999; /* a square may have vanished: such pairs are rechecked */
        limits->sure_upto = -1.0;
        return;
    }
    difference_bounds(limits, scaled * scaled, rule->dims, U64);
}

/* Whether the rows and the engine allow int8; NF_ERR_UNSUPPORTED says which does not. */
static nf_status int8_can(nf_context *ctx, const char *engine_name, bool int8, const nf_rule_rows *data,
                          const nf_rule_rows *queries)
{
    if (!int8) return nf_fail(ctx, NF_ERR_UNSUPPORTED, "refine int8: the %s engine has no such kernel", engine_name);
    if (u8_can(data, queries)) return NF_OK;
    return nf_fail(ctx, NF_ERR_UNSUPPORTED, "refine int8 needs data and queries of one type, u8 or i8");
}

static nf_status choose_kind(nf_context *ctx, const char *engine_name, bool int8, bool tensor, const nf_rule_rows *data,
                             const nf_rule_rows *queries, const nf_search_spec *spec, nf_kind *kind)
{
    const bool f32 = f32_can(data, queries, spec->radius);
    switch ((nf_refine)spec->refine) {
    case NF_REFINE_TENSOR:
        if (!tensor) return nf_fail(ctx, NF_ERR_UNSUPPORTED, "refine tensor: the %s engine has no such kernel", engine_name);
        if (!f32) {
            return nf_fail(ctx, NF_ERR_UNSUPPORTED,
                           "refine tensor needs values that binary32 holds, at most 2^50, and a radius of at least 2^-50");
        }
        *kind = NF_KIND_F16;
        return NF_OK;
    case NF_REFINE_INT8:
        *kind = NF_KIND_U8;
        return int8_can(ctx, engine_name, int8, data, queries);
    case NF_REFINE_FP64: *kind = NF_KIND_F64; return NF_OK;
    case NF_REFINE_FP32:
        if (!f32) {
            return nf_fail(ctx, NF_ERR_UNSUPPORTED,
                           "refine fp32 needs values that binary32 holds, at most 2^50, and a radius of at least 2^-50");
        }
        break;
    case NF_REFINE_AUTO:
        if (int8 && u8_can(data, queries)) {
            *kind = NF_KIND_U8;
            return NF_OK;
        }
        break;
    }
    *kind = !f32 ? NF_KIND_F64
                 : product_can(data, queries, spec->radius) ? NF_KIND_F32_PRODUCT : NF_KIND_F32_DIFFERENCE;
    return NF_OK;
}

nf_status nf_rule_choose(nf_context *ctx, const char *engine_name, bool int8, bool tensor, const nf_rule_rows *data,
                         const nf_rule_rows *queries, const nf_search_spec *spec, nf_rule *rule)
{
    memset(rule, 0, sizeof *rule);
    rule->scale = 1.0;
    rule->dims = data->dims;
    NF_TRY(choose_kind(ctx, engine_name, int8, tensor, data, queries, spec, &rule->kind));
    switch (rule->kind) {
    case NF_KIND_U8: rule->exact = true; break;
    case NF_KIND_F32_PRODUCT: rule->norm_slack = gamma_of(data->dims + SPARE, U32); break;
    case NF_KIND_F32_DIFFERENCE: rule->exact = exact_f32_can(data, queries, spec->radius); break;
    case NF_KIND_F64: rule->scale = f64_scale(spec->radius); break;
    case NF_KIND_F16: break;
    }
    return NF_OK;
}

nf_limits nf_rule_limits(const nf_rule *rule, double radius)
{
    nf_limits limits = {.square = radius * radius};
    switch (rule->kind) {
    case NF_KIND_U8: u8_limits(&limits, radius); break;
    case NF_KIND_F32_PRODUCT:
        if (radius < SMALLEST_RADIUS_F32) tiny_f32_limits(&limits, rule);
        break;
    case NF_KIND_F16: break;
    case NF_KIND_F32_DIFFERENCE:
        if (rule->exact) {
            exact_f32_limits(&limits, radius);
        } else if (radius < SMALLEST_RADIUS_F32) {
            tiny_f32_limits(&limits, rule);
        } else {
            difference_bounds(&limits, limits.square, rule->dims, U32);
        }
        break;
    case NF_KIND_F64: f64_limits(&limits, rule, radius); break;
    }
    return limits;
}

nf_product_limits nf_rule_product_limits(const nf_rule *rule, double square)
{
    const double gamma = rule->norm_slack, u8 = 8.0 * U32, quarter = square * 0.25;
    return (nf_product_limits){
        .out_factor = 0.5 * (1.0 - (2.0 * gamma + u8)),
        .out_offset = quarter * (1.0 + 0x1p-20),
        .in_factor = 0.5 * (1.0 + (4.0 * gamma + u8)),
        .in_offset = quarter * (1.0 - 0x1p-20),
    };
}
