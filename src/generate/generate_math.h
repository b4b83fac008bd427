/* SPDX-License-Identifier: Apache-2.0 */
/* Logarithm, sine and cosine that give the same bits on every machine. */
#ifndef NF_GENERATE_MATH_H
#define NF_GENERATE_MATH_H

/* Natural logarithm of a positive normal number. Error below 1 unit in the last place; log 1 is +0. */
double nf_generate_log(double x);

/* Sine and cosine of a whole turn's fraction: of 2 pi turn, for a multiple of 2^-53 in [0, 1). Error below 2 units
 * in the last place. The argument is in turns, so its reduction is exact. */
void nf_generate_sincos(double turn, double *sine, double *cosine);

#endif
