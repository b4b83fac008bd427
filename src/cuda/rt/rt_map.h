/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a coordinate lies in the scene: a monotone function per dim onto [-1, 1], in device code alone.
 *
 * With coordinates near 2^60, rays were seen to meet no box at all; and traversal may round relative to the extents of
 * nodes, so far boxes could cost near ones. So the scene does not hold coordinates: each dim is cut at quantiles of the
 * boxes' ends (histogram equalisation), and every interval takes the same length of the scene, whatever its own.
 *
 * All that matters is that low <= q <= high implies place(low) <= place(q) <= place(high). A place is the number of knots up
 * to the coordinate plus a fraction within the interval, limited to [0, 1]; each step of the fraction is one operation of
 * binary32 that rounds to nearest, hence monotone. Knots are compared as integers, so flushing subnormal numbers to 0 makes
 * no difference to the interval; nor to the fraction, since intervals shorter than 2^-100 have none (scale 0).
 */
#ifndef NF_RT_MAP_H
#define NF_RT_MAP_H

#include "rt_params.h"

/* Coordinates are clamped to this: differences and their reciprocals stay finite and normal. */
#define NF_RT_COORDINATE_MAX 0x1p124f

static __forceinline__ __device__ float nf_rt_clamped(float value)
{
    return fminf(fmaxf(value, -NF_RT_COORDINATE_MAX), NF_RT_COORDINATE_MAX);
}

/* Numbers in the order of the floats; -0 and 0 are the same. */
static __forceinline__ __device__ int nf_rt_ordered(float value)
{
    const int bits = __float_as_int(value);
    return bits < 0 ? -(bits & 0x7fffffff) : bits;
}

static __forceinline__ __device__ float nf_rt_place(const nf_rt_map *map, unsigned dim, float coordinate)
{
    const float *knots = map->knots[dim];
    const float  at = nf_rt_clamped(coordinate);
    const int    ordered = nf_rt_ordered(coordinate); /* its bits as they are: no operation of binary32 before */
    unsigned     interval = 0;

#pragma unroll
    for (unsigned step = NF_RT_INTERVALS / 2; step != 0; step /= 2) {
        if (nf_rt_ordered(knots[interval + step]) <= ordered) interval += step;
    }
    const float fraction = __fmul_rn(__fsub_rn(at, knots[interval]), map->scales[dim][interval]);
    const float whole = (float)((int)interval - (int)(NF_RT_INTERVALS / 2));
    return __fmul_rn(__fadd_rn(whole, fminf(fmaxf(fraction, 0.0f), 1.0f)), 2.0f / (float)NF_RT_INTERVALS);
}

#endif
