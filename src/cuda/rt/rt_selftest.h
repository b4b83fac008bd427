/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of ray tracing, with as many trials as wanted. */
#ifndef NF_RT_SELFTEST_H
#define NF_RT_SELFTEST_H

#include "cuda/cuda_device.h"

/* Traces trials rays, each placed at the boundary of a box, through scenes of 1,024 boxes, and decides each of them against
 * all boxes of its scene by a plain loop too (so trials x 1,024 decisions are compared). *missed gets the differences in
 * hits per query, hits per group and groups' lists: 0 when ray tracing found exactly the hits of the loop. */
nf_status nf_rt_boundary_trials(nf_context *ctx, nf_device *device, uint64_t trials, uint64_t seed, uint64_t *missed);

#endif
