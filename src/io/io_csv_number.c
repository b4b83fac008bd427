/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decimal text to binary64, correctly rounded (to nearest, ties to even), in four steps of rising cost:
 *
 *  1. up to 18 digits and nothing else: the conversion of an integer rounds once;
 *  2. digits m <= 2^53 and a power of ten up to 22: both are exact in binary64, one product or quotient rounds once;
 *  3. digits m < 2^64 and a power of ten up to 27: 10^k = 5^k 2^k with 5^27 < 2^63, so m * 5^k fits into 128 bits, and
 *     m / 5^k is a 128 by 64 bit division with a remainder. Product and quotient are known exactly (a remainder that is
 *     not zero is kept as one more bit) and are rounded by hand. Nearly all numbers with 16 or 17 digits end here;
 *  4. the rest: strtod on a copy of the form "digits e exponent", which holds no decimal point, so that the locale
 *     does not matter. Of more than 769 digits the others are cut, and a '1' stands for what was cut unless it is
 *     zero: 767 digits are enough to tell any number from the halfway points of binary64.
 *
 * Numbers with more than 19 digits try m and m + 1 from the first 19: when both round to the same value, so does the
 * number between them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io_csv.h"

#define DIGITS_EXACT 19 /* 10^19 < 2^64 */
#define DIGITS_MAX 770
#define EXPONENT_MAX 1000000000 /* beyond, digits in a file cannot bring the value back into range */

__extension__ typedef unsigned __int128 wide;

/* A decimal number as it stands in the text: digits with a point somewhere, times 10^exponent. */
typedef struct decimal {
    const char *begin; /* first digit or the point */
    const char *end;
    uint64_t    first;    /* value of the digits, where there are at most DIGITS_EXACT */
    size_t      count;    /* of digits */
    int64_t     exponent; /* of the last digit */
} decimal;

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static inline const char *read_digits(const char *at, const char *end, uint64_t *value)
{
    uint64_t sum = *value;
    while (at < end && is_digit(*at)) sum = sum * 10 + (uint64_t)(*at++ - '0');
    *value = sum; /* wraps for long digit strings, which are read again */
    return at;
}

/* top * 2^exponent with the top bit set, and something below the last bit when rest: rounded to 53 bits. The result is
 * a normal number for all exponents that step 3 makes. */
static double round_top(uint64_t top, bool rest, int exponent)
{
    uint64_t       mantissa = top >> 11;
    const uint64_t below = top & 0x7ff;
    if (below > 0x400 || (below == 0x400 && (rest || (mantissa & 1)))) mantissa++;
    const uint64_t bits = ((uint64_t)(exponent + 11 + 52 + 1023) << 52) + (mantissa - ((uint64_t)1 << 52));
    double         value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t power_of_five(int exponent)
{
    static const uint64_t powers[28] = {
        1u,
        5u,
        25u,
        125u,
        625u,
        3125u,
        15625u,
        78125u,
        390625u,
        1953125u,
        9765625u,
        48828125u,
        244140625u,
        1220703125u,
        6103515625u,
        30517578125u,
        152587890625u,
        762939453125u,
        3814697265625u,
        19073486328125u,
        95367431640625u,
        476837158203125u,
        2384185791015625u,
        11920928955078125u,
        59604644775390625u,
        298023223876953125u,
        1490116119384765625u,
        7450580596923828125u,
    };
    return powers[exponent];
}

static double scale_up(uint64_t digits, int exponent)
{
    const wide     product = (wide)digits * power_of_five(exponent);
    const uint64_t high = (uint64_t)(product >> 64);
    const int      shift = high ? __builtin_clzll(high) : 64 + __builtin_clzll((uint64_t)product);
    const wide     top = product << shift;
    return round_top((uint64_t)(top >> 64), (uint64_t)top != 0, exponent + 64 - shift);
}

static double scale_down(uint64_t digits, int exponent)
{
    const uint64_t power = power_of_five(exponent);
    const int      digits_shift = __builtin_clzll(digits);
    const int      power_shift = __builtin_clzll(power);
    const uint64_t divisor = power << power_shift;
    const wide     dividend = (wide)(digits << digits_shift) << 63; /* below divisor * 2^64 */
    const uint64_t quotient = (uint64_t)(dividend / divisor);
    const bool     rest = (wide)quotient * divisor != dividend;
    const int      shift = __builtin_clzll(quotient);
    return round_top(quotient << shift, rest, power_shift - digits_shift - 63 - exponent - shift);
}

/* digits * 10^exponent by steps 2 and 3; false when it needs step 4. */
static bool scale(uint64_t digits, int64_t exponent, double *value)
{
    static const double powers[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (digits == 0) {
        *value = 0.0;
        return true;
    }
    if (exponent < -27 || exponent > 27) return false;
    if (digits <= (uint64_t)1 << 53 && exponent >= -22 && exponent <= 22) {
        const double exact = (double)(int64_t)digits;
        *value = exponent < 0 ? exact / powers[-exponent] : exact * powers[exponent];
        return true;
    }
    *value = exponent < 0 ? scale_down(digits, (int)-exponent) : scale_up(digits, (int)exponent);
    return true;
}

/* Step 4. Digits without leading zeros, and their exponent. */
static double read_by_strtod(const char *digits, size_t count, int64_t exponent)
{
    char text[DIGITS_MAX + 32];
    if (exponent > EXPONENT_MAX) exponent = EXPONENT_MAX;
    if (exponent < -EXPONENT_MAX) exponent = -EXPONENT_MAX;
    memcpy(text, digits, count);
    snprintf(text + count, sizeof text - count, "e%d", (int)exponent);
    const int    saved = errno;
    const double value = strtod(text, NULL);
    errno = saved; /* ERANGE is no failure here: infinity or zero is the rounded value */
    return value;
}

/* Copies the digits from the first that is not zero; those beyond DIGITS_MAX - 1 become one '1' unless all are zero.
 * Returns how many were written, and moves *exponent to the last of them. */
static size_t copy_digits(const decimal *number, char *digits, int64_t *exponent)
{
    size_t written = 0, dropped = 0;
    bool   rest = false;
    for (const char *at = number->begin; at < number->end; at++) {
        if (*at == '.' || (written == 0 && *at == '0')) continue;
        if (written < DIGITS_MAX - 1) {
            digits[written++] = *at;
        } else {
            rest = rest || *at != '0';
            dropped++;
        }
    }
    *exponent = number->exponent + (int64_t)dropped;
    if (!rest) return written;
    digits[written++] = '1';
    (*exponent)--;
    return written;
}

static double convert_long(const decimal *number)
{
    char         digits[DIGITS_MAX];
    int64_t      exponent;
    uint64_t     leading = 0;
    double       low, high;
    const size_t count = copy_digits(number, digits, &exponent);
    const size_t used = count < DIGITS_EXACT ? count : DIGITS_EXACT;
    (void)read_digits(digits, digits + used, &leading);
    const int64_t leading_exponent = exponent + (int64_t)(count - used);
    if (scale(leading, leading_exponent, &low)) {
        if (count <= DIGITS_EXACT) return low;
        if (scale(leading + 1, leading_exponent, &high) && low == high) return low;
    }
    return read_by_strtod(digits, count, exponent);
}

static double convert(const decimal *number)
{
    double value;
    if (number->count <= DIGITS_EXACT && scale(number->first, number->exponent, &value)) return value;
    return convert_long(number);
}

/* e+12 after the digits. False when 'e' is not followed by a number. */
static bool read_exponent(const char **at, const char *end, int64_t *exponent)
{
    const char *p = *at + 1;
    const bool  negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    if (p >= end || !is_digit(*p)) return false;
    int64_t value = 0;
    for (; p < end && is_digit(*p); p++) {
        if (value < INT64_MAX / 100) value = value * 10 + (*p - '0');
    }
    *exponent += negative ? -value : value;
    *at = p;
    return true;
}

/* Takes a word in any case. */
static bool take_word(const char **at, const char *end, const char *word)
{
    const char *p = *at;
    for (; *word; word++, p++) {
        if (p >= end || (*p | 0x20) != *word) return false;
    }
    *at = p;
    return true;
}

static bool read_word(const char **at, const char *end, double *value)
{
    if (take_word(at, end, "nan")) {
        *value = __builtin_nan("");
        return true;
    }
    if (!take_word(at, end, "infinity") && !take_word(at, end, "inf")) return false;
    *value = __builtin_inf();
    return true;
}

static bool read_decimal(const char **at, const char *end, double *value)
{
    decimal     number = {.begin = *at};
    const char *p = read_digits(number.begin, end, &number.first);
    number.count = (size_t)(p - number.begin);
    if (number.count - 1 < DIGITS_EXACT - 1 && (p >= end || (*p != '.' && (*p | 0x20) != 'e'))) {
        *value = (double)(int64_t)number.first;
        *at = p;
        return true;
    }
    if (p < end && *p == '.') {
        const char *fraction = ++p;
        p = read_digits(p, end, &number.first);
        number.count += (size_t)(p - fraction);
        number.exponent = -(int64_t)(p - fraction);
    }
    if (number.count == 0) return read_word(at, end, value);
    number.end = p;
    if (p < end && (*p | 0x20) == 'e' && !read_exponent(&p, end, &number.exponent)) return false;
    *value = convert(&number);
    *at = p;
    return true;
}

bool nf_number_read(const char **at, const char *end, double *value)
{
    const char sign = *at < end ? **at : '\0';
    if (sign == '-' || sign == '+') (*at)++;
    if (!read_decimal(at, end, value)) return false;
    if (sign == '-') *value = -*value;
    return true;
}
