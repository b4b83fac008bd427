/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of an index, by counter: a value is a function of (seed, stream, number) and the same on every
 * machine. */
#ifndef NF_IVF_RANDOM_H
#define NF_IVF_RANDOM_H

#include <stdint.h>

/* What a number is drawn for. Streams of one seed are unrelated. The numbers are part of the index: never change them.
 */
typedef enum nf_ivf_stream {
    NF_IVF_STREAM_SAMPLE = 1, /* rows that k-means looks at */
    NF_IVF_STREAM_RECALL = 2, /* rows on which recall is measured */
    NF_IVF_STREAM_SIGNS = 3,  /* of the fast rotation */
    NF_IVF_STREAM_MATRIX = 4, /* of the dense rotation */
    NF_IVF_STREAM_START = 5,  /* first centroids */
    NF_IVF_STREAM_MOVE = 6    /* balancing */
} nf_ivf_stream;

/* 64 random bits. */
uint64_t nf_ivf_random(uint64_t seed, nf_ivf_stream stream, uint64_t number);

/* A number that is close to standard normal: 12 uniform numbers added up, so that no function of the C library is
 * needed. */
double nf_ivf_random_normal(uint64_t seed, nf_ivf_stream stream, uint64_t number);

/* part of parts equal shares of 0 .. count - 1 gives one of its numbers: for parts <= count all are different,
 * ascending, and spread over the whole range. count is below 2^32. */
uint64_t nf_ivf_random_spread(uint64_t seed, nf_ivf_stream stream, uint64_t part, uint64_t parts, uint64_t count);

#endif
