/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule by which fast arithmetic decides the clear pairs of an exact search: its kind and its bounds. It is the same for
 * every engine; docs/numerics.md derives every constant.
 */
#ifndef NF_ENGINE_RULE_H
#define NF_ENGINE_RULE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine.h"

/* Which arithmetic decides the clear cases. */
typedef enum nf_kind {
    NF_KIND_U8,             /* integers, exact: no pair is left open, ties are seen as such */
    NF_KIND_F32_PRODUCT,    /* |x|^2 + |y|^2 - 2 x.y in binary32, bound relative to the norms */
    NF_KIND_F32_DIFFERENCE, /* sum (x - y)^2 in binary32, bound relative to the sum */
    NF_KIND_F64,            /* the same in binary64 */
    NF_KIND_F16             /* products of binary16 on tensor cores, bounds by tiles (the engine's own) */
} nf_kind;

typedef struct nf_rule {
    nf_kind  kind;
    uint32_t dims;
    bool     exact;        /* the fast sums are exact where it matters: what is not sure is a tie */
    double   norm_slack;   /* product kind: relative widening of the norms */
    double   scale;        /* binary64 kind: power of two that values are multiplied with */
} nf_rule;

/* What decides by a rule and one radius. */
typedef struct nf_limits {
    double  out_above, sure_upto; /* difference kinds: out when sum > out_above, sure when sum <= sure_upto */
    double  square;        /* product kind: radius^2 rounded */
    bool    never_sure;    /* product kind: no pair is certainly in */
    int32_t whole_square;  /* u8: floor(radius^2), capped */
    int32_t sure_from;     /* u8: 1 when radius^2 is an integer */
} nf_limits;

/* What the rule has to know of data or queries. */
typedef struct nf_rule_rows {
    uint32_t dims;
    bool     narrow;         /* binary32 holds every value */
    bool     bytes;          /* values are 8-bit integers, stored with bias taken off */
    double   bias;
    bool     integers;       /* every value is an integer of at most 2^53 */
    double   largest;        /* largest absolute value */
    double   largest_square; /* largest sum of squares of a row, rounded */
} nf_rule_rows;

/* The radius to choose a rule for where several are asked about: the largest that is finite; infinity where none is. */
static inline double nf_rule_larger(double chosen, double radius)
{
    if (chosen < 0.0) return radius;
    if (isinf(chosen) || (!isinf(radius) && radius > chosen)) return radius;
    return chosen;
}

/* Fills the rule for a search of these rows and spec's radius. int8, tensor: the engine has that kernel.
 * NF_ERR_UNSUPPORTED where spec's refine asks for what the rows or the engine (engine_name, for the text) lack. */
nf_status nf_rule_choose(nf_context *ctx, const char *engine_name, bool int8, bool tensor, const nf_rule_rows *data,
                         const nf_rule_rows *queries, const nf_search_spec *spec, nf_rule *rule);

/* The limits of a radius, at most the one that the rule was chosen for, or infinite. */
nf_limits nf_rule_limits(const nf_rule *rule, double radius);

/* "int8", "fp32-product", ... */
const char *nf_kind_name(nf_kind kind);

/*
 * The product test, from a row's rounded sum of squares N: a pair is certainly out when x.y < out(x) + out(y), certainly in
 * when x.y >= in(x) + in(y), with out = N * out_factor - out_offset and in = N * in_factor - in_offset, computed in binary64
 * and rounded to binary32. For the first so many dims of both rows, out holds too. square: of the limits.
 */
typedef struct nf_product_limits {
    double out_factor, out_offset, in_factor, in_offset;
} nf_product_limits;

nf_product_limits nf_rule_product_limits(const nf_rule *rule, double square);

#endif
