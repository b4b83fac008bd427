/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them, and the distance between words. */
#include "cli_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_WORD 63

cli_short_text cli_count(uint64_t value)
{
    cli_short_text out;
    char           digits[24];
    const int      length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    char          *to = out.text;

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}

/* Divides by step until the value is below it, and returns the number of divisions, at most most. */
static int scale(double *value, double step, int most)
{
    int steps = 0;
    while (*value >= step && steps < most) {
        *value /= step;
        steps++;
    }
    return steps;
}

cli_short_text cli_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    cli_short_text           out;
    double                   value = (double)bytes;
    const int                unit = scale(&value, 1024.0, 5);
    snprintf(out.text, sizeof out.text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return out;
}

cli_short_text cli_rate(double per_second)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    cli_short_text           out;
    double                   value = per_second > 0.0 ? per_second : 0.0;
    const int                unit = scale(&value, 1000.0, 5);
    snprintf(out.text, sizeof out.text, "%.3g %s/s", value, units[unit]);
    return out;
}

cli_short_text cli_seconds(double seconds)
{
    cli_short_text out;
    const int      decimals = seconds < 10.0 ? 3 : seconds < 100.0 ? 2 : 1;
    snprintf(out.text, sizeof out.text, "%.*f s", decimals, seconds);
    return out;
}

cli_short_text cli_number(double value)
{
    cli_short_text out;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out.text, sizeof out.text, "%.*g", digits, value);
        if (strtod(out.text, NULL) == value) break;
    }
    return out;
}

cli_short_text cli_mean(double mean)
{
    cli_short_text out;
    if (mean >= 1000.0) return cli_count((uint64_t)(mean + 0.5));
    snprintf(out.text, sizeof out.text, "%.3g", mean);
    return out;
}

cli_short_text cli_clock(double seconds)
{
    cli_short_text out;
    const uint64_t whole = seconds < 0.0 ? 0 : seconds < 3.6e8 ? (uint64_t)(seconds + 0.5) : 360000000;
    const unsigned minutes = (unsigned)(whole / 60 % 60), rest = (unsigned)(whole % 60);
    if (whole < 3600) snprintf(out.text, sizeof out.text, "%u:%02u", minutes, rest);
    else snprintf(out.text, sizeof out.text, "%llu:%02u:%02u", (unsigned long long)(whole / 3600), minutes, rest);
    return out;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Rows of the usual table, three kept for the swap of neighbours. */
unsigned cli_edit_distance(const char *a, const char *b)
{
    unsigned     rows[3][LONGEST_WORD + 1];
    const size_t n = strlen(a), m = strlen(b);
    unsigned    *before = rows[0], *last = rows[1], *row = rows[2];

    if (n > LONGEST_WORD || m > LONGEST_WORD) return LONGEST_WORD;
    for (size_t j = 0; j <= m; j++) last[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], row[j - 1]) + 1);
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) row[j] = least(row[j], before[j - 2] + 1);
        }
        unsigned *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[m];
}
