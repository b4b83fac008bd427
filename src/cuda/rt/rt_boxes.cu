/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boxes that the scene is built of: the exact test's boxes in the scene's coordinates (rt_map.h), enlarged.
 *
 * Traversal of a scene rounds in ways that are not documented (nodes of the hierarchy are kept in few bits). A scene's box
 * must be met whenever the exact test would say yes; it may be met more often, since the exact test decides. The map is
 * monotone, so the origin of a ray lies in the mapped box. All coordinates are in [-1, 1], so a sum or difference of bound
 * and origin is off by at most 2^-23; the margin is 32 times that, a 2,048th of an interval between knots.
 *
 * A box whose low is above its high holds no query; it becomes a valid box for the builder's sake. The self-test
 * (rt_selftest.c) looks for queries that this loses, on the machine at hand.
 */
#include "cuda/kernels/k_launch.h"
#include "rt_kernels.h"
#include "rt_map.h"

#define BLOCK 256u
#define MARGIN 0x1p-18f

static __global__ void enlarge(const float *boxes, unsigned groups, const nf_rt_map *map, float *out)
{
    const unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= 3ull * groups) return;

    const unsigned long long group = at / 3;
    const unsigned dim = (unsigned)(at % 3);
    const float a = nf_rt_place(map, dim, boxes[6 * group + dim]), b = nf_rt_place(map, dim, boxes[6 * group + 3 + dim]);
    out[6 * group + dim] = __fsub_rd(fminf(a, b), MARGIN);
    out[6 * group + 3 + dim] = __fadd_ru(fmaxf(a, b), MARGIN);
}

static __global__ void store(nf_rt_launch_block block, nf_rt_launch_block *at)
{
    *at = block;
}

extern "C" cudaError_t nf_rt_k_enlarge(cudaStream_t stream, const float *boxes, uint32_t groups, const nf_rt_map *map,
                                       float *out)
{
    NF_LAUNCH(enlarge, nf_k_blocks(3ull * groups, BLOCK), BLOCK, 0, stream)(boxes, groups, map, out);
    return nf_k_launched();
}

extern "C" cudaError_t nf_rt_k_store(cudaStream_t stream, const nf_rt_launch_block *block, nf_rt_launch_block *at)
{
    NF_LAUNCH(store, 1, 1, 0, stream)(*block, at);
    return nf_k_launched();
}
