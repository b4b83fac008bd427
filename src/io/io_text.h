/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text: independent of the locale, no terminating zero. Each returns where the text ends. */
#ifndef NF_IO_TEXT_H
#define NF_IO_TEXT_H

#include <stdint.h>

/* No number below is longer than that. */
#define NF_TEXT_NUMBER_MAX 25

char *nf_text_u64(char *out, uint64_t value);
char *nf_text_i64(char *out, int64_t value);

/* The shortest decimal that reads back to the same value: "3", "0.1", "1.5e-7", "-0", "nan", "inf", "-inf". */
char *nf_text_f64(char *out, double value);
char *nf_text_f32(char *out, float value);

#endif
