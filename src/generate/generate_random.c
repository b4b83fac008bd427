/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers by counter.
 *
 * mix is one step of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): an odd
 * increment, then two rounds of shift-xor and multiplication, which together are a bijection of 64-bit words.
 *     state(seed, stream, row) = mix(mix(seed + mix(stream)) + mix(row))
 *     bits(state, column)      = mix(state ^ mix(column))
 * The columns are mixed before they meet the state. Taking them as steps from a start (state + column * odd) would be
 * cheaper by one mix, but then two rows whose starts lie few steps apart would share most of their values.
 *
 * Normal numbers come in pairs by Box and Muller: from u, v of columns 2j and 2j+1,
 *     sqrt(-2 log(1 - u)) (cos 2 pi v, sin 2 pi v).
 */
#include "generate_random.h"

#include <math.h>

#include "generate_math.h"

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t nf_random_row(uint64_t seed, nf_generate_stream stream, uint64_t row)
{
    return mix(mix(seed + mix((uint64_t)stream)) + mix(row));
}

uint64_t nf_random_bits(uint64_t row_state, uint64_t column)
{
    return mix(row_state ^ mix(column));
}

double nf_random_uniform(uint64_t row_state, uint64_t column)
{
    return (double)(nf_random_bits(row_state, column) >> 11) * 0x1p-53;
}

void nf_random_normal(uint64_t row_state, uint64_t count, double *out)
{
    for (uint64_t i = 0; i < count; i += 2) {
        double       sine, cosine;
        const double u = nf_random_uniform(row_state, i);
        const double length = sqrt(-2.0 * nf_generate_log(1.0 - u)); /* 1 - u is exact and at least 2^-53 */

        nf_generate_sincos(nf_random_uniform(row_state, i + 1), &sine, &cosine);
        out[i] = length * cosine;
        if (i + 1 < count) out[i + 1] = length * sine;
    }
}
