/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as text. Digits come in pairs from a table of "00" to "99", which halves the divisions; the decimals come
 * from io_shortest.c. A number is written plainly ("0.00012") from 1e-5 to below 1e16, and with an exponent
 * ("1.2e-7") beyond.
 */
#include "io_text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "io_shortest.h"

#define DIGITS_MAX 20
#define PLAIN_EXPONENT_MIN (-5)
#define PLAIN_EXPONENT_MAX 15

static const char digit_pairs[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* Writes the digits right aligned before end; returns where they begin. */
static char *digits_before(char *end, uint64_t value)
{
    while (value >= 100) {
        const uint64_t rest = value % 100;
        value /= 100;
        end -= 2;
        memcpy(end, digit_pairs + 2 * rest, 2);
    }
    if (value >= 10) {
        end -= 2;
        memcpy(end, digit_pairs + 2 * value, 2);
    } else {
        *--end = (char)('0' + value);
    }
    return end;
}

static char *put(char *out, const char *text, size_t length)
{
    memcpy(out, text, length);
    return out + length;
}

static char *put_zeros(char *out, int32_t count)
{
    memset(out, '0', (size_t)count);
    return out + count;
}

char *nf_text_u64(char *out, uint64_t value)
{
    char        text[DIGITS_MAX];
    char *const end = text + DIGITS_MAX;
    const char *begin = digits_before(end, value);
    return put(out, begin, (size_t)(end - begin));
}

char *nf_text_i64(char *out, int64_t value)
{
    if (value < 0) {
        *out++ = '-';
        return nf_text_u64(out, 0 - (uint64_t)value);
    }
    return nf_text_u64(out, (uint64_t)value);
}

/* The value is 0.ddd * 10^point. */
static char *put_plain(char *out, const char *digits, int32_t count, int32_t point)
{
    if (point >= count) return put_zeros(put(out, digits, (size_t)count), point - count);
    if (point > 0) {
        out = put(out, digits, (size_t)point);
        *out++ = '.';
        return put(out, digits + point, (size_t)(count - point));
    }
    out = put_zeros(put(out, "0.", 2), -point);
    return put(out, digits, (size_t)count);
}

static char *put_scientific(char *out, const char *digits, int32_t count, int32_t exponent)
{
    *out++ = digits[0];
    if (count > 1) {
        *out++ = '.';
        out = put(out, digits + 1, (size_t)(count - 1));
    }
    *out++ = 'e';
    return nf_text_i64(out, exponent);
}

static char *put_decimal(char *out, nf_decimal decimal)
{
    char          text[DIGITS_MAX];
    char *const   end = text + DIGITS_MAX;
    const char   *digits = digits_before(end, decimal.digits);
    const int32_t count = (int32_t)(end - digits);
    const int32_t exponent = decimal.exponent + count - 1;

    if (exponent >= PLAIN_EXPONENT_MIN && exponent <= PLAIN_EXPONENT_MAX) {
        return put_plain(out, digits, count, exponent + 1);
    }
    return put_scientific(out, digits, count, exponent);
}

/* Sign, NaN, infinity and integers below 2^53, which are the same for both types. Returns NULL for the others;
   *magnitude * is then |value|. */
static char *put_simple(char **out, double value, double *magnitude)
{
    if (isnan(value)) return put(*out, "nan", 3);
    if (signbit(value)) *(*out)++ = '-';
    *magnitude = fabs(value);
    if (isinf(value)) return put(*out, "inf", 3);
    if (*magnitude < 0x1p53 && (double)(uint64_t)*magnitude == *magnitude) {
        return nf_text_u64(*out, (uint64_t)*magnitude);
    }
    return NULL;
}

char *nf_text_f64(char *out, double value)
{
    double      magnitude = 0;
    char *const end = put_simple(&out, value, &magnitude);
    return end != NULL ? end : put_decimal(out, nf_shortest_f64(magnitude));
}

char *nf_text_f32(char *out, float value)
{
    double magnitude = 0;
    char  *end = NULL;
    /* From 2^24 on, fewer digits than the integer's own may do. */
    if (fabsf(value) < 0x1p24f || !isfinite(value)) {
        end = put_simple(&out, (double)value, &magnitude);
        return end != NULL ? end : put_decimal(out, nf_shortest_f32((float)magnitude));
    }
    if (signbit(value)) *out++ = '-';
    return put_decimal(out, nf_shortest_f32(fabsf(value)));
}
