/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them, and words near to a misspelt one. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define CLI_TEXT_SIZE 40

/* A short text in a buffer of its own, to be used inside one expression: printf("%s", cli_count(n).text). */
typedef struct cli_short_text {
    char text[CLI_TEXT_SIZE];
} cli_short_text;

cli_short_text cli_count(uint64_t value);   /* 1,234,567 */
cli_short_text cli_bytes(uint64_t bytes);   /* 1.5 GiB */
cli_short_text cli_rate(double per_second); /* 12.3 M/s */
cli_short_text cli_seconds(double seconds); /* 0.123 s */
cli_short_text cli_number(double value);    /* as few digits as give the same binary64 back */
cli_short_text cli_mean(double mean);       /* 0.0123, 17.8, 12,345 */
cli_short_text cli_clock(double seconds);   /* 1:05, 2:03:04 */

/* Single edits (insert, delete, replace, swap of neighbours) between two words; words longer than 63 are far away. */
unsigned cli_edit_distance(const char *a, const char *b);

#endif
