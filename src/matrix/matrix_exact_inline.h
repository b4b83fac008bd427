/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of matrix_exact.h as inline functions over rows of any form, so that host and device run the same code.
 * The method is described in matrix_exact.c.
 */
#ifndef NF_MATRIX_EXACT_INLINE_H
#define NF_MATRIX_EXACT_INLINE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define NF_EXACT_FN static __host__ __device__ inline
#else
#define NF_EXACT_FN static inline
#endif

#define NF_EXACT_WORDS 68
#define NF_EXACT_LOWEST_EXPONENT (-2176)
#define NF_SUM_SMALL 0x1p-900
#define NF_SUM_LARGE 0x1p1000

/* A row: values in binary64 or binary32; column i lies at place[i], or at i where place is NULL. */
typedef struct nf_exact_row {
    const double   *wide;   /* or NULL */
    const float    *narrow;
    const uint32_t *place;
} nf_exact_row;

NF_EXACT_FN double nf_exact_at(const nf_exact_row *row, uint32_t column)
{
    const uint32_t at = row->place != NULL ? row->place[column] : column;
    return row->wide != NULL ? row->wide[at] : (double)row->narrow[at];
}

/* ---- the long accumulator ---- */

typedef struct nf_exact_sum {
    uint64_t word[NF_EXACT_WORDS];
} nf_exact_sum;

/* value = mantissa * 2^exponent, with a sign. */
typedef struct nf_exact_parts {
    uint64_t mantissa;
    int      exponent;
    bool     negative;
} nf_exact_parts;

NF_EXACT_FN nf_exact_parts nf_exact_split(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int      field = (int)(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & 0xfffffffffffffu;
    nf_exact_parts parts;
    parts.mantissa = field != 0 ? fraction | (uint64_t)1 << 52 : fraction;
    parts.exponent = (field != 0 ? field : 1) - 1075;
    parts.negative = bits >> 63 != 0;
    return parts;
}

/* Adds value at a word (subtract: takes it off), with its carry. */
NF_EXACT_FN void nf_exact_put(nf_exact_sum *sum, unsigned at, uint64_t value, bool subtract)
{
    while (at < NF_EXACT_WORDS && value != 0) {
        const uint64_t before = sum->word[at];
        const uint64_t after = subtract ? before - value : before + value;
        sum->word[at++] = after;
        value = (subtract ? after > before : after < before) ? 1 : 0;
    }
}

/* Adds or subtracts a * b * 2^extra: four products of 32-bit halves, each at its place. */
NF_EXACT_FN void nf_exact_add_product(nf_exact_sum *sum, nf_exact_parts a, nf_exact_parts b, int extra, bool subtract)
{
    const unsigned place = (unsigned)(a.exponent + b.exponent + extra - NF_EXACT_LOWEST_EXPONENT);
    const uint64_t a_half[2] = {a.mantissa & 0xffffffffu, a.mantissa >> 32};
    const uint64_t b_half[2] = {b.mantissa & 0xffffffffu, b.mantissa >> 32};
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned j = 0; j < 2; j++) {
            const uint64_t product = a_half[i] * b_half[j];
            const unsigned bit = place + 32 * (i + j), at = bit / 64, shift = bit % 64;
            nf_exact_put(sum, at, product << shift, subtract);
            if (shift != 0) nf_exact_put(sum, at + 1, product >> (64 - shift), subtract);
        }
    }
}

NF_EXACT_FN int nf_exact_sign(const nf_exact_sum *sum)
{
    if (sum->word[NF_EXACT_WORDS - 1] >> 63) return -1;
    for (unsigned i = 0; i < NF_EXACT_WORDS; i++) {
        if (sum->word[i] != 0) return 1;
    }
    return 0;
}

NF_EXACT_FN int nf_exact_compare_rows(const nf_exact_row *x, const nf_exact_row *y, uint32_t dims, double radius)
{
    nf_exact_sum sum;
    for (unsigned i = 0; i < NF_EXACT_WORDS; i++) sum.word[i] = 0;
    for (uint32_t i = 0; i < dims; i++) {
        const nf_exact_parts a = nf_exact_split(nf_exact_at(x, i)), b = nf_exact_split(nf_exact_at(y, i));
        nf_exact_add_product(&sum, a, a, 0, false);
        nf_exact_add_product(&sum, b, b, 0, false);
        nf_exact_add_product(&sum, a, b, 1, a.negative == b.negative);
    }
    const nf_exact_parts r = nf_exact_split(radius);
    nf_exact_add_product(&sum, r, r, 0, true);
    return nf_exact_sign(&sum);
}

/* ---- binary64 with a bound, then error-free ---- */

/*
 * Sum in binary64 with a certificate: *exact is set when no operation rounded. The residuals of difference (Knuth's
 * two-sum), square (fused multiply-add) and addition are all zero exactly then, given that nothing under- or overflows,
 * which the caller's range test on the sum ensures for overflow, and the test on each square for underflow.
 */
NF_EXACT_FN double nf_exact_certified_sum(const nf_exact_row *x, const nf_exact_row *y, uint32_t dims, bool *exact)
{
    double sum = 0.0, residue = 0.0;
    for (uint32_t i = 0; i < dims; i++) {
        const double a = nf_exact_at(x, i), b = nf_exact_at(y, i);
        const double difference = a - b;
        const double back = difference - a;
        residue += fabs((a - (difference - back)) + (-b - back));
        const double square = difference * difference;
        residue += fabs(fma(difference, difference, -square));
        if (difference != 0.0 && square < 0x1p-960) residue = 1.0;
        const double next = sum + square;
        residue += fabs((sum - (next - (next - sum))) + (square - (next - sum)));
        sum = next;
    }
    *exact = residue == 0.0;
    return sum;
}

/* Radius 0 asks whether rows are equal: of a set with many copies nearly all pairs are such ties. */
NF_EXACT_FN int nf_exact_compare_zero(const nf_exact_row *x, const nf_exact_row *y, uint32_t dims)
{
    for (uint32_t i = 0; i < dims; i++) {
        if (nf_exact_at(x, i) != nf_exact_at(y, i)) return 1;
    }
    return 0;
}

NF_EXACT_FN int nf_exact_compare_rows_fast(const nf_exact_row *x, const nf_exact_row *y, uint32_t dims, double radius)
{
    if (radius == 0.0) return nf_exact_compare_zero(x, y, dims);
    bool         exact;
    const double sum = nf_exact_certified_sum(x, y, dims, &exact);
    const double square = radius * radius;
    const double bound = ((double)dims + 8.0) * 0x1p-52;

    /* In this range neither the sum's terms that matter nor the square lose bits to under- or overflow. */
    if (!(sum < 0x1p1000) || !(square < 0x1p1000) || square < 0x1p-900) return nf_exact_compare_rows(x, y, dims, radius);
    if (sum > square * (1.0 + bound)) return 1;
    if (sum < square * (1.0 - bound)) return -1;
    if (exact) {
        const double rest = fma(radius, radius, -square); /* radius^2 = square + rest */
        if (sum != square) return sum > square ? 1 : -1;   /* |rest| is below half a unit of square's last place */
        return rest < 0.0 ? 1 : rest > 0.0 ? -1 : 0;
    }
    return nf_exact_compare_rows(x, y, dims, radius);
}

/* ---- the delivered distance ---- */

NF_EXACT_FN double nf_exact_scaled_distance_rows(const nf_exact_row *x, const nf_exact_row *y, uint32_t dims)
{
    /* x / 2 - y / 2 cannot overflow; halving loses a bit only where both values are below 2^-1021, and such a pair is
     * taken whole instead. */
    double largest = 0.0;
    for (uint32_t i = 0; i < dims; i++) {
        const double half = fabs(nf_exact_at(x, i) * 0.5 - nf_exact_at(y, i) * 0.5);
        if (half > largest) largest = half;
    }
    const bool whole = largest < 0x1p1000;
    if (whole) {
        largest = 0.0;
        for (uint32_t i = 0; i < dims; i++) largest = fmax(largest, fabs(nf_exact_at(x, i) - nf_exact_at(y, i)));
    }
    if (largest == 0.0) return 0.0;
    const int shift = -ilogb(largest);
    double    sum = 0.0;
    for (uint32_t i = 0; i < dims; i++) {
        const double a = nf_exact_at(x, i), b = nf_exact_at(y, i);
        const double difference = whole ? a - b : a * 0.5 - b * 0.5;
        const double scaled = scalbn(difference, shift);
        sum = fma(scaled, scaled, sum);
    }
    return scalbn(sqrt(sum), whole ? -shift : 1 - shift);
}

NF_EXACT_FN double nf_exact_distance_rows(const nf_exact_row *x, const nf_exact_row *y, uint32_t dims)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < dims; i++) {
        const double difference = nf_exact_at(x, i) - nf_exact_at(y, i);
        sum = fma(difference, difference, sum);
    }
    if (!(sum >= NF_SUM_SMALL && sum <= NF_SUM_LARGE)) return nf_exact_scaled_distance_rows(x, y, dims);
    return sqrt(sum);
}

#endif
