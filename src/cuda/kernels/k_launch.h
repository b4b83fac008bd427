/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching kernels, in .cu files alone. The same sources are compiled by nvcc for the device and by a C++ compiler for the
 * emulated device of tests/emulator, where a launch runs all threads of a block in turn; so a launch is written
 *
 *     NF_LAUNCH(kernel, grid, block, shared_bytes, stream)(arguments);
 *     return nf_k_launched();
 *
 * and dynamic shared memory is taken with NF_SHARED_BYTES(name), a pointer to bytes aligned to 16.
 */
#ifndef NF_K_LAUNCH_H
#define NF_K_LAUNCH_H

#include <cuda_runtime.h>

#ifdef __CUDACC__
#define NF_LAUNCH(kernel, grid, block, shared_bytes, stream) kernel<<<(grid), (block), (shared_bytes), (stream)>>>
#define NF_SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[]
#else
#define NF_LAUNCH(kernel, grid, block, shared_bytes, stream) nf_emulated_launch(kernel, (grid), (block), (shared_bytes))
#define NF_SHARED_BYTES(name) unsigned char *const name = nf_emulated_shared()
#endif

/* In front of a loop that the device's compiler is to unroll. */
#ifdef __CUDACC__
#define NF_UNROLL _Pragma("unroll")
#else
#define NF_UNROLL
#endif

/* What became of the last launch. */
static inline cudaError_t nf_k_launched(void)
{
    return cudaGetLastError();
}

/* Blocks of per_block for count units of work; at least one, so that an empty launch is a valid one. */
static inline unsigned nf_k_blocks(unsigned long long count, unsigned per_block)
{
    const unsigned long long blocks = (count + per_block - 1) / per_block;
    return blocks == 0 ? 1u : (unsigned)blocks;
}

#endif
