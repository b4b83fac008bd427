/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logarithm, sine and cosine from +, -, * and / alone, each rounded once by IEEE 754 in the order written (the build
 * forbids contraction to fused operations). The C library's functions may differ in the last bit from one system to the
 * next; these cannot, which is what lets a seed stand for a data set.
 *
 * log: x = 2^e m with m in [sqrt(1/2), sqrt(2)), f = m - 1 (exact), s = f / (2 + f). From log m = 2 artanh s:
 *     log m = f - s (f - R),  R = 2 s^2/3 + 2 s^4/5 + ...,
 * whose leading term f carries no rounding error. |s| < 0.172, so the terms from s^22 on are below 2^-57 of the result.
 * sin, cos: a quarter turn is taken off exactly; Taylor polynomials on [-pi/4, pi/4], left-out terms below 2^-53.7.
 */
#include "generate_math.h"

#include <stdint.h>
#include <string.h>

/* ln 2 in two parts; the first has 31 bits, so its product with an exponent is exact. */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define HALF_PI 0x1.921fb54442d18p+0

#define FRACTION_BITS 52
#define FRACTION_MASK (((uint64_t)1 << FRACTION_BITS) - 1)
#define ONE_BITS ((uint64_t)1023 << FRACTION_BITS)
#define SQRT2_FRACTION 0x6a09e667f3bcdu

/* Splits x = 2^exponent m, and returns m. */
static double split(double x, int *exponent)
{
    uint64_t bits;
    double   m;
    memcpy(&bits, &x, sizeof bits);
    *exponent = (int)(bits >> FRACTION_BITS) - 1023;
    bits = (bits & FRACTION_MASK) | ONE_BITS;
    memcpy(&m, &bits, sizeof m);
    if ((bits & FRACTION_MASK) >= SQRT2_FRACTION) {
        m *= 0.5;
        *exponent += 1;
    }
    return m;
}

double nf_generate_log(double x)
{
    int          exponent;
    const double f = split(x, &exponent) - 1.0;
    const double s = f / (2.0 + f);
    const double z = s * s;
    double       r = 2.0 / 21.0;

    r = 2.0 / 19.0 + z * r;
    r = 2.0 / 17.0 + z * r;
    r = 2.0 / 15.0 + z * r;
    r = 2.0 / 13.0 + z * r;
    r = 2.0 / 11.0 + z * r;
    r = 2.0 / 9.0 + z * r;
    r = 2.0 / 7.0 + z * r;
    r = 2.0 / 5.0 + z * r;
    r = 2.0 / 3.0 + z * r;
    r = z * r;
    const double e = (double)exponent;
    return e * LN2_HIGH + (f - (s * (f - r) - e * LN2_LOW));
}

/* sin y for |y| <= pi/4. */
static double sine_near_zero(double y)
{
    const double z = y * y;
    double       p = 1.0 / 355687428096000.0; /* 1/17! */

    p = -1.0 / 1307674368000.0 + z * p;
    p = 1.0 / 6227020800.0 + z * p;
    p = -1.0 / 39916800.0 + z * p;
    p = 1.0 / 362880.0 + z * p;
    p = -1.0 / 5040.0 + z * p;
    p = 1.0 / 120.0 + z * p;
    p = -1.0 / 6.0 + z * p;
    return y + y * (z * p);
}

/* cos y for |y| <= pi/4. What 1 - z/2 loses by rounding is put back with the small terms. */
static double cosine_near_zero(double y)
{
    const double z = y * y;
    double       p = 1.0 / 20922789888000.0; /* 1/16! */

    p = -1.0 / 87178291200.0 + z * p;
    p = 1.0 / 479001600.0 + z * p;
    p = -1.0 / 3628800.0 + z * p;
    p = 1.0 / 40320.0 + z * p;
    p = -1.0 / 720.0 + z * p;
    p = 1.0 / 24.0 + z * p;
    const double half = 0.5 * z;
    const double head = 1.0 - half;
    return head + ((1.0 - head - half) + z * z * p);
}

void nf_generate_sincos(double turn, double *sine, double *cosine)
{
    const double quarters = 4.0 * turn;
    const int    nearest = (int)(quarters + 0.5);
    const double y = (quarters - (double)nearest) * HALF_PI;
    const double s = sine_near_zero(y);
    const double c = cosine_near_zero(y);

    switch (nearest & 3) {
    case 0: *sine = s; *cosine = c; break;
    case 1: *sine = c; *cosine = -s; break;
    case 2: *sine = -s; *cosine = -c; break;
    default: *sine = -c; *cosine = s; break;
    }
}
