/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scene's map (rt_map.h): knots from both ends of up to 512 boxes, spread evenly over the groups' order.
 *
 * Both ends, so that boxes which agree in a dim have a knot at each face. The first and the last interval are the tails, as
 * long as the range of the sample. A block per dim sorts the sample by a bitonic network (Batcher, "Sorting networks and
 * their applications", AFIPS 1968).
 */
#include "cuda/kernels/k_launch.h"
#include "rt_kernels.h"
#include "rt_map.h"

#define SAMPLE 1024u                 /* ends: threads of a block */
#define INNER (NF_RT_INTERVALS - 2u) /* intervals between the least and the greatest end of the sample */
#define SHORTEST 0x1p-100f

/* Sorts a number per thread, in shared memory. */
static __device__ void sort_sample(float *ends)
{
    const unsigned mine = threadIdx.x;

    for (unsigned run = 2; run <= SAMPLE; run *= 2) {
        for (unsigned apart = run / 2; apart != 0; apart /= 2) {
            const unsigned other = mine ^ apart;
            __syncthreads();
            if (other > mine) {
                const float a = ends[mine], b = ends[other];
                if ((nf_rt_ordered(a) > nf_rt_ordered(b)) == ((mine & run) == 0)) {
                    ends[mine] = b;
                    ends[other] = a;
                }
            }
        }
    }
    __syncthreads();
}

static __global__ void make_map(const float *boxes, unsigned groups, nf_rt_map *map)
{
    __shared__ float ends[SAMPLE];
    const unsigned   dim = blockIdx.x, mine = threadIdx.x;
    const unsigned long long group = (unsigned long long)(mine / 2) * groups / (SAMPLE / 2);

    ends[mine] = nf_rt_clamped(boxes[6 * group + 3 * (mine % 2) + dim]);
    sort_sample(ends);

    const float range = ends[SAMPLE - 1] - ends[0];
    float      *knots = map->knots[dim];
    for (unsigned knot = mine; knot <= NF_RT_INTERVALS; knot += SAMPLE) {
        if (knot == 0) knots[knot] = ends[0] - range;
        else if (knot == NF_RT_INTERVALS) knots[knot] = ends[SAMPLE - 1] + range;
        else knots[knot] = ends[(knot - 1) * (SAMPLE - 1) / INNER];
    }
    __syncthreads();
    for (unsigned interval = mine; interval < NF_RT_INTERVALS; interval += SAMPLE) {
        const float length = knots[interval + 1] - knots[interval];
        map->scales[dim][interval] = length < SHORTEST ? 0.0f : 1.0f / length;
    }
}

extern "C" cudaError_t nf_rt_k_map(cudaStream_t stream, const float *boxes, uint32_t groups, nf_rt_map *map)
{
    NF_LAUNCH(make_map, 3, SAMPLE, 0, stream)(boxes, groups, map);
    return nf_k_launched();
}
