/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of device memory that are freed together. */
#ifndef NF_CUDA_BLOCKS_H
#define NF_CUDA_BLOCKS_H

#include "cuda_device.h"

#define NF_MOST_BLOCKS 48u

typedef struct nf_blocks {
    nf_device   *device;
    cudaStream_t stream; /* that allocations and frees are ordered on */
    void        *block[NF_MOST_BLOCKS];
    uint32_t     count;
} nf_blocks;

/* Takes count * size bytes. out: where the pointer goes, NULL on failure. */
nf_status nf_blocks_take(nf_context *ctx, nf_blocks *blocks, uint64_t count, size_t size, void *out);

/* Takes a block and copies so many bytes of host memory into it. */
nf_status nf_blocks_copy(nf_context *ctx, nf_blocks *blocks, const void *from, uint64_t bytes, void *out);

/* Hands all blocks over to another list, of the same device. */
nf_status nf_blocks_move(nf_context *ctx, nf_blocks *from, nf_blocks *to);

/* Frees all; more may be taken afterwards. */
void nf_blocks_free(nf_blocks *blocks);

#endif
