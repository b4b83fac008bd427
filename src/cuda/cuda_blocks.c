/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of device memory that are freed together. */
#include "cuda_blocks.h"

#include <string.h>

#include "cuda_staging.h"

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

nf_status nf_blocks_copy(nf_context *ctx, nf_blocks *blocks, const void *from, uint64_t bytes, void *out)
{
    void *to = NULL;
    NF_TRY(nf_blocks_take(ctx, blocks, bytes, 1, &to));
    memcpy(out, &to, sizeof to);
    return nf_upload_rows(ctx, blocks->device, blocks->stream, to, from, 1, bytes, bytes);
}

nf_status nf_blocks_move(nf_context *ctx, nf_blocks *from, nf_blocks *to)
{
    if (from->count > NF_MOST_BLOCKS - to->count) {
        return nf_fail(ctx, NF_ERR_INTERNAL, "more than %u blocks of device memory in one place", NF_MOST_BLOCKS);
    }
    while (from->count > 0) to->block[to->count++] = from->block[--from->count];
    return NF_OK;
}

void nf_blocks_free(nf_blocks *blocks)
{
    while (blocks->count > 0) nf_device_free(blocks->device, blocks->stream, blocks->block[--blocks->count]);
}
