/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortest decimals, by exact integer arithmetic.
 *
 * A value m * 2^e is what a reader makes of every decimal between the midpoints to its neighbours: the interval from
 * (4m - 2) * 2^(e-2) to (4m + 2) * 2^(e-2), or from 4m - 1 where m is the smallest of its binade and the neighbour
 * below is only half as far. The ends belong to it when m is even.
 *
 * All is scaled by 10^s so that the value has at least 17 digits before the point (9 for binary32). The interval is
 * then wider than 1, for an ulp is at least 2^-53 (2^-24) of the value, and 2^-53 * 10^16 > 1 (2^-24 * 10^8 > 1); so
 * it holds an integer. From there on 64-bit integers suffice: while a multiple of ten times the power lies in the
 * interval, drop a digit; then take the multiple nearest to the value.
 *
 * Only the scaling needs more bits. Up to s = 21 and e = 0 the product fits into 128 bits, which covers all values
 * from about 1e-5 to 2^53. Beyond that a small long-integer division does the same, about 20 times slower. Neither
 * rounds, so both are right by construction; an estimate of s that is too large by one only costs one more step.
 */
#include "io_shortest.h"

#include <stdbool.h>
#include <string.h>

__extension__ typedef unsigned __int128 uint128;

/* 10^s * 4m below 2^128: m below 2^53 and 2^24. */
#define FAST_SCALE_F64 21
#define FAST_SCALE_F32 30
#define LIMBS 44 /* 4m * 10^341 and 4m * 2^971, with 31 bits to spare, fit into 40 */

/* value = mantissa * 2^exponent. */
typedef struct binary {
    uint64_t mantissa;
    int32_t  exponent;
    int32_t  top;      /* 2^top <= value < 2^(top + 1) */
    bool     boundary; /* the neighbour below is half as far */
} binary;

/* The scaled value: the integers from low to high read back; whole is the value's integer part. */
typedef struct scaled {
    uint64_t low, high, whole;
    int      half;     /* the fraction against 1/2: -1, 0, 1 */
    bool     fraction; /* the fraction is not 0 */
} scaled;

static nf_decimal shortest_of(const scaled *value, int32_t exponent)
{
    uint64_t low = value->low, high = value->high, power = 1;

    while (high / 10 >= (low + 9) / 10) {
        high /= 10;
        low = (low + 9) / 10;
        power *= 10;
        exponent++;
    }
    uint64_t       digits = value->whole / power;
    const uint64_t rest = value->whole % power;
    int            side = value->half;
    if (power > 1) side = rest > power / 2 ? 1 : rest < power / 2 ? -1 : value->fraction ? 1 : 0;
    if (side > 0 || (side == 0 && (digits & 1) != 0)) digits++;
    if (digits < low) digits = low;
    if (digits > high) digits = high;
    return (nf_decimal){digits, exponent};
}

static uint128 power_of_ten(int32_t exponent)
{
    static const uint64_t powers[20] = {
        1u, 10u, 100u, 1000u, 10000u, 100000u, 1000000u, 10000000u, 100000000u, 1000000000u, 10000000000u,
        100000000000u, 1000000000000u, 10000000000000u, 100000000000000u, 1000000000000000u,
        10000000000000000u, 100000000000000000u, 1000000000000000000u, 10000000000000000000u,
    };
    return exponent < 20 ? powers[exponent] : (uint128)powers[19] * powers[exponent - 19];
}

/* Scaling within 128 bits: value->exponent <= 0, 0 <= scale. */
static void scale_fast(const binary *value, int32_t scale, scaled *out)
{
    const uint128  power = power_of_ten(scale);
    const uint128  middle = power * (4 * value->mantissa);
    const uint128  high = middle + 2 * power;
    const uint128  low = middle - (value->boundary ? power : 2 * power);
    const int32_t  shift = 2 - value->exponent;
    const uint128  below = ((uint128)1 << shift) - 1;
    const bool     open = (value->mantissa & 1) != 0;
    const uint128  part = middle & below;
    const uint128  half = (uint128)1 << (shift - 1);

    out->high = (uint64_t)(high >> shift) - (open && (high & below) == 0 ? 1 : 0);
    out->low = (uint64_t)(low >> shift) + (open || (low & below) != 0 ? 1 : 0);
    out->whole = (uint64_t)(middle >> shift);
    out->half = part > half ? 1 : part < half ? -1 : 0;
    out->fraction = part != 0;
}

/* A long integer, least significant limb first. Limbs from count on are 0. */
typedef struct long_int {
    uint32_t limb[LIMBS];
    int32_t  count;
} long_int;

static void long_multiply(long_int *number, uint64_t factor)
{
    uint128 carry = 0;
    for (int32_t i = 0; i < number->count || carry != 0; i++) {
        carry += (uint128)number->limb[i] * factor;
        number->limb[i] = (uint32_t)carry;
        carry >>= 32;
        if (i >= number->count) number->count = i + 1;
    }
}

static void long_power_of_ten(long_int *number, int32_t exponent)
{
    for (; exponent >= 19; exponent -= 19) long_multiply(number, (uint64_t)power_of_ten(19));
    long_multiply(number, (uint64_t)power_of_ten(exponent));
}

static void long_shift_left(long_int *number, int32_t bits)
{
    const int32_t limbs = bits / 32;
    memmove(number->limb + limbs, number->limb, (size_t)number->count * sizeof number->limb[0]);
    memset(number->limb, 0, (size_t)limbs * sizeof number->limb[0]);
    number->count += limbs;
    long_multiply(number, (uint64_t)1 << (bits % 32));
}

/* Compares a with b * 2^(32 place). */
static int long_compare(const long_int *a, const long_int *b, int32_t place)
{
    for (int32_t i = LIMBS - 1; i >= place; i--) {
        const uint32_t other = i - place < b->count ? b->limb[i - place] : 0;
        if (a->limb[i] != other) return a->limb[i] > other ? 1 : -1;
    }
    for (int32_t i = place - 1; i >= 0; i--) {
        if (a->limb[i] != 0) return 1;
    }
    return 0;
}

/* a -= b * factor * 2^(32 place); the result is not negative. */
static void long_subtract(long_int *a, const long_int *b, uint64_t factor, int32_t place)
{
    uint64_t carry = 0;
    for (int32_t i = 0; i < b->count || carry != 0; i++) {
        carry += i < b->count ? b->limb[i] * factor : 0;
        const uint32_t take = (uint32_t)carry;
        carry >>= 32;
        if (a->limb[place + i] < take) carry++;
        a->limb[place + i] -= take;
    }
}

/* Returns floor(number / by), which fits into 64 bits, and leaves the remainder in *number. The top bit of by's top
   limb * is set, so each digit's estimate from the top limbs is too small by at most a few. */
static uint64_t long_divide(long_int *number, const long_int *by)
{
    const int32_t top = by->count - 1;
    uint64_t      quotient = 0;

    for (int32_t place = number->count - by->count; place >= 0; place--) {
        const uint64_t head = (uint64_t)number->limb[top + place + 1] << 32 | number->limb[top + place];
        uint64_t       digit = head / ((uint64_t)by->limb[top] + 1);
        long_subtract(number, by, digit, place);
        while (long_compare(number, by, place) >= 0) {
            long_subtract(number, by, 1, place);
            digit++;
        }
        quotient = (quotient << 32) + digit;
    }
    return quotient;
}

static bool long_is_zero(const long_int *number)
{
    static const long_int zero;
    return memcmp(number->limb, zero.limb, sizeof zero.limb) == 0;
}

/* floor(quarters * unit / by), and the remainder. */
static uint64_t long_scaled(uint64_t quarters, const long_int *unit, const long_int *by, long_int *rest)
{
    *rest = *unit;
    long_multiply(rest, quarters);
    return long_divide(rest, by);
}

/* Scaling for any value: the value's quarters times unit / by, with unit / by = 10^scale * 2^(exponent - 2). */
static void scale_long(const binary *value, int32_t scale, scaled *out)
{
    long_int       unit = {.limb = {1}, .count = 1}, by = unit, rest;
    const uint64_t middle = 4 * value->mantissa;
    const int32_t  exponent = value->exponent - 2;
    const bool     open = (value->mantissa & 1) != 0;

    long_power_of_ten(scale > 0 ? &unit : &by, scale > 0 ? scale : -scale);
    long_shift_left(exponent > 0 ? &unit : &by, exponent > 0 ? exponent : -exponent);
    const int32_t align = __builtin_clz(by.limb[by.count - 1]);
    long_shift_left(&unit, align);
    long_shift_left(&by, align);

    out->high = long_scaled(middle + 2, &unit, &by, &rest);
    if (open && long_is_zero(&rest)) out->high--;
    out->low = long_scaled(middle - (value->boundary ? 1 : 2), &unit, &by, &rest);
    if (open || !long_is_zero(&rest)) out->low++;
    out->whole = long_scaled(middle, &unit, &by, &rest);
    out->fraction = !long_is_zero(&rest);
    long_multiply(&rest, 2);
    out->half = long_compare(&rest, &by, 0);
}

/* The power of ten that gives the value at least digits digits before the point. 78913 / 2^18 is log10(2), rounded down
 * closely enough for every binary64 exponent; the shift rounds towards minus infinity. */
static int32_t scale_for(const binary *value, int32_t digits)
{
    return digits - 1 - (value->top * 78913 >> 18);
}

static binary split_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    const int32_t  biased = (int32_t)(bits >> 52 & 0x7ff);
    binary         out = {fraction, -1074, 0, false};
    if (biased > 0) out = (binary){fraction | (uint64_t)1 << 52, biased - 1075, 0, fraction == 0 && biased > 1};
    out.top = out.exponent + 63 - __builtin_clzll(out.mantissa);
    return out;
}

static binary split_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t fraction = bits & 0x7fffffu;
    const int32_t  biased = (int32_t)(bits >> 23 & 0xff);
    binary         out = {fraction, -149, 0, false};
    if (biased > 0) out = (binary){fraction | 0x800000u, biased - 150, 0, fraction == 0 && biased > 1};
    out.top = out.exponent + 63 - __builtin_clzll(out.mantissa);
    return out;
}

static nf_decimal shortest(const binary *value, int32_t digits, int32_t fast_scale)
{
    const int32_t scale = scale_for(value, digits);
    scaled        at;

    if (value->exponent <= 0 && scale >= 0 && scale <= fast_scale) {
        scale_fast(value, scale, &at);
    } else {
        scale_long(value, scale, &at);
    }
    return shortest_of(&at, -scale);
}

nf_decimal nf_shortest_f64(double value)
{
    const binary split = split_f64(value);
    return shortest(&split, 17, FAST_SCALE_F64);
}

nf_decimal nf_shortest_f32(float value)
{
    const binary split = split_f32(value);
    return shortest(&split, 9, FAST_SCALE_F32);
}

nf_decimal nf_shortest_f64_long(double value)
{
    const binary split = split_f64(value);
    return shortest(&split, 17, -1);
}

nf_decimal nf_shortest_f32_long(float value)
{
    const binary split = split_f32(value);
    return shortest(&split, 9, -1);
}
