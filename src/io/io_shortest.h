/* SPDX-License-Identifier: Apache-2.0 */
/* The shortest decimal that reads back to the same binary number. */
#ifndef NF_IO_SHORTEST_H
#define NF_IO_SHORTEST_H

#include <stdint.h>

/* digits * 10^exponent; digits does not end in 0 and has at most 17 decimal digits (9 for binary32). */
typedef struct nf_decimal {
    uint64_t digits;
    int32_t  exponent;
} nf_decimal;

/* Among the decimals that a correctly rounding reader (ties to even) turns into value, those with the fewest digits,
   and * of these the nearest to value. value: finite and above 0. */
nf_decimal nf_shortest_f64(double value);
nf_decimal nf_shortest_f32(float value);

/* The same by exact arithmetic on long integers alone, without the fast path: what the tests compare with. */
nf_decimal nf_shortest_f64_long(double value);
nf_decimal nf_shortest_f32_long(float value);

#endif
