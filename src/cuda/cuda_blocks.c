/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of device memory that are freed together. */
#include "cuda_blocks.h"

#include <string.h>

nf_status nf_blocks_take(nf_context *ctx, nf_blocks *blocks, uint64_t count, size_t size, void *out)
{
    void     *block = NULL;
    nf_status status = NF_OK;

    if (blocks->count == NF_MOST_BLOCKS) {
        status = nf_fail(ctx, NF_ERR_INTERNAL, "more than %u blocks of device memory in one place", NF_MOST_BLOCKS);
    } else {
        status = nf_device_alloc(ctx, blocks->device, blocks->stream, count, size, &block);
    }
    if (status >= 0) blocks->block[blocks->count++] = block;
    memcpy(out, &block, sizeof block);
    return status;
}

void nf_blocks_free(nf_blocks *blocks)
{
    while (blocks->count > 0) nf_device_free(blocks->device, blocks->stream, blocks->block[--blocks->count]);
}
