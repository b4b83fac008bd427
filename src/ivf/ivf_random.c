/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers by counter: SplitMix64's finalizer (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
 * Generators, 2014) of the mixed seed, stream and number.
 *
 * The normal numbers are sums of 12 uniform ones (variance 1): integers below 2^36, so exact. Their distribution is so
 * close to the normal one that directions made from 8 or more of them are uniform for all that a random rotation needs.
 */
#include "ivf_random.h"

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t nf_ivf_random(uint64_t seed, nf_ivf_stream stream, uint64_t number)
{
    return mix(mix(seed + mix((uint64_t)stream)) ^ mix(number));
}

double nf_ivf_random_normal(uint64_t seed, nf_ivf_stream stream, uint64_t number)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 6; i++) {
        const uint64_t bits = nf_ivf_random(seed, stream, number * 6 + i);
        sum += (bits >> 32) + (bits & 0xffffffffu);
    }
    return (double)((int64_t)sum - 6 * (int64_t)0xffffffff) * 0x1p-32;
}

uint64_t nf_ivf_random_spread(uint64_t seed, nf_ivf_stream stream, uint64_t part, uint64_t parts, uint64_t count)
{
    const uint64_t begin = part * count / parts, end = (part + 1) * count / parts;
    return begin + (end - begin > 1 ? nf_ivf_random(seed, stream, part) % (end - begin) : 0);
}
