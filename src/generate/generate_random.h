/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by counter: a value is a function of (seed, stream, row, column), so any part can be made alone. */
#ifndef NF_GENERATE_RANDOM_H
#define NF_GENERATE_RANDOM_H

#include <stdint.h>

/* What a number is drawn for. Streams of one seed are unrelated. The numbers are part of the data: never change
 * them. */
typedef enum nf_generate_stream {
    NF_STREAM_UNIFORM = 1,
    NF_STREAM_EXPONENTIAL = 2,
    NF_STREAM_CLUSTER = 3, /* mixture: the cluster of a row */
    NF_STREAM_CENTRE = 4,  /* mixture: centres; row is the cluster */
    NF_STREAM_BASIS = 5,   /* mixture: bases of the subspaces; row is the cluster */
    NF_STREAM_OFFSET = 6   /* mixture: a row's place in its cluster */
} nf_generate_stream;

/* The state of one row of one stream: all that its columns need. */
uint64_t nf_random_row(uint64_t seed, nf_generate_stream stream, uint64_t row);

/* 64 random bits of a column. */
uint64_t nf_random_bits(uint64_t row_state, uint64_t column);

/* A multiple of 2^-53 in [0, 1). */
double nf_random_uniform(uint64_t row_state, uint64_t column);

/* Fills out with count independent standard normal numbers: columns 0 to count - 1 of a row. */
void nf_random_normal(uint64_t row_state, uint64_t count, double *out);

#endif
