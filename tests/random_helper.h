/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers for tests: the same on every machine. */
#ifndef NF_TESTS_RANDOM_HELPER_H
#define NF_TESTS_RANDOM_HELPER_H

#include <stdint.h>

/* Weyl sequence with a finalizer (SplitMix64). */
static inline uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* 0 .. count - 1. */
static inline uint64_t random_below(uint64_t *state, uint64_t count)
{
    return random_bits(state) % count;
}

/* [0, 1), multiples of 2^-53. */
static inline double random_unit(uint64_t *state)
{
    return (double)(random_bits(state) >> 11) * 0x1p-53;
}

#endif
