/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact comparison of a sum of squared differences with a squared radius.
 *
 * Method: a fixed-point accumulator wide enough for every product of two binary64 values (exponents from 2^-2148 to 2^2048,
 * and 2^22 terms on top), as in Kulisch's long accumulator. (x - y)^2 = x^2 - 2xy + y^2: three products of two 53-bit
 * integers are added at their places; then radius^2 is subtracted and the sign read off. Nothing is rounded anywhere.
 *
 *   word 0 holds weight 2^-2176 .. ; 68 words of 64 bits reach 2^2176: two's complement, the top word holds the sign.
 *
 * It is slow, and decides ties only (matrix_exact.h, nf_exact_compare_fast).
 */
#include "matrix_exact.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define WORDS 68
#define LOWEST_EXPONENT (-2176)

typedef struct accumulator {
    uint64_t word[WORDS];
} accumulator;

/* value = mantissa * 2^exponent, with a sign. */
typedef struct parts {
    uint64_t mantissa;
    int      exponent;
    bool     negative;
} parts;

static parts split(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int      field = (int)(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & 0xfffffffffffffu;
    return (parts){
        .mantissa = field != 0 ? fraction | 1ull << 52 : fraction,
        .exponent = (field != 0 ? field : 1) - 1075,
        .negative = bits >> 63 != 0,
    };
}

static void add_word(accumulator *sum, unsigned at, uint64_t value)
{
    while (at < WORDS && __builtin_add_overflow(sum->word[at], value, &sum->word[at])) {
        value = 1;
        at++;
    }
}

static void subtract_word(accumulator *sum, unsigned at, uint64_t value)
{
    while (at < WORDS && __builtin_sub_overflow(sum->word[at], value, &sum->word[at])) {
        value = 1;
        at++;
    }
}

__extension__ typedef unsigned __int128 wide;

/* Adds or subtracts a * b * 2^extra. */
static void add_product(accumulator *sum, parts a, parts b, int extra, bool negative)
{
    const wide     product = (wide)a.mantissa * b.mantissa;
    const unsigned place = (unsigned)(a.exponent + b.exponent + extra - LOWEST_EXPONENT);
    const unsigned at = place / 64, shift = place % 64;
    const wide     low = (wide)(uint64_t)product << shift;
    const wide     high = (wide)(uint64_t)(product >> 64) << shift;
    void (*const put)(accumulator *, unsigned, uint64_t) = negative ? subtract_word : add_word;

    put(sum, at, (uint64_t)low);
    put(sum, at + 1, (uint64_t)(low >> 64));
    put(sum, at + 1, (uint64_t)high);
    put(sum, at + 2, (uint64_t)(high >> 64));
}

static int sign(const accumulator *sum)
{
    if (sum->word[WORDS - 1] >> 63) return -1;
    for (unsigned i = 0; i < WORDS; i++) {
        if (sum->word[i] != 0) return 1;
    }
    return 0;
}

int nf_exact_compare(const double *x, const double *y, uint32_t dims, double radius)
{
    accumulator sum = {{0}};
    for (uint32_t i = 0; i < dims; i++) {
        const parts a = split(x[i]), b = split(y[i]);
        add_product(&sum, a, a, 0, false);
        add_product(&sum, b, b, 0, false);
        add_product(&sum, a, b, 1, a.negative == b.negative);
    }
    const parts r = split(radius);
    add_product(&sum, r, r, 0, true);
    return sign(&sum);
}

/*
 * Sum in binary64 with a certificate: *exact is set when no operation rounded. The residuals of difference (Knuth's
 * two-sum), square (fused multiply-add) and addition are all zero exactly then, given that nothing under- or overflows,
 * which the caller's range test on the sum ensures for overflow, and the test on each square for underflow.
 */
static double sum_with_certificate(const double *x, const double *y, uint32_t dims, bool *exact)
{
    double sum = 0.0, residue = 0.0;
    for (uint32_t i = 0; i < dims; i++) {
        const double difference = x[i] - y[i];
        const double back = difference - x[i];
        residue += fabs((x[i] - (difference - back)) + (-y[i] - back));
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
static int compare_with_zero(const double *x, const double *y, uint32_t dims)
{
    for (uint32_t i = 0; i < dims; i++) {
        if (x[i] != y[i]) return 1;
    }
    return 0;
}

int nf_exact_compare_fast(const double *x, const double *y, uint32_t dims, double radius)
{
    if (radius == 0.0) return compare_with_zero(x, y, dims);
    bool         exact;
    const double sum = sum_with_certificate(x, y, dims, &exact);
    const double square = radius * radius;
    const double bound = ((double)dims + 8.0) * 0x1p-52;

    /* In this range neither the sum's terms that matter nor the square lose bits to under- or overflow. */
    if (!(sum < 0x1p1000) || !(square < 0x1p1000) || square < 0x1p-900) return nf_exact_compare(x, y, dims, radius);
    if (sum > square * (1.0 + bound)) return 1;
    if (sum < square * (1.0 - bound)) return -1;
    if (exact) {
        const double rest = fma(radius, radius, -square); /* radius^2 = square + rest */
        if (sum != square) return sum > square ? 1 : -1;   /* |rest| is below half a unit of square's last place */
        return rest < 0.0 ? 1 : rest > 0.0 ? -1 : 0;
    }
    return nf_exact_compare(x, y, dims, radius);
}

double nf_exact_distance_scaled(const double *x, const double *y, uint32_t dims)
{
    /* x / 2 - y / 2 cannot overflow; halving loses a bit only where both values are below 2^-1021, and such a pair is
     * taken whole instead. */
    double largest = 0.0;
    for (uint32_t i = 0; i < dims; i++) {
        const double half = fabs(x[i] * 0.5 - y[i] * 0.5);
        if (half > largest) largest = half;
    }
    const bool whole = largest < 0x1p1000;
    if (whole) {
        largest = 0.0;
        for (uint32_t i = 0; i < dims; i++) largest = fmax(largest, fabs(x[i] - y[i]));
    }
    if (largest == 0.0) return 0.0;
    const int shift = -ilogb(largest);
    double    sum = 0.0;
    for (uint32_t i = 0; i < dims; i++) {
        const double difference = whole ? x[i] - y[i] : x[i] * 0.5 - y[i] * 0.5;
        const double scaled = scalbn(difference, shift);
        sum = fma(scaled, scaled, sum);
    }
    return scalbn(sqrt(sum), whole ? -shift : 1 - shift);
}

double nf_exact_distance(const double *x, const double *y, uint32_t dims)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < dims; i++) {
        const double difference = x[i] - y[i];
        sum = fma(difference, difference, sum);
    }
    if (!(sum >= NF_SUM_SMALL && sum <= NF_SUM_LARGE)) return nf_exact_distance_scaled(x, y, dims);
    return sqrt(sum);
}
