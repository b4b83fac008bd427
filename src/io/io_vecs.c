/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .fvecs .bvecs .ivecs: each row is an int32 with the number of its values, then the values.
 *
 *     [d][v0 v1 .. vd-1] [d][v0 .. ]        n = file bytes / (4 + d * bytes of a value)
 *
 * d stands in every row and is checked in every row: a file whose rows differ would be read as nonsense otherwise. The
 * matrix is a view that starts behind the first d, with the whole record as stride.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/core_context.h"
#include "core/core_pool.h"
#include "io_read.h"

#define PREFIX_BYTES 4
#define BLOCK_ROWS 16384

typedef struct dims_check {
    nf_context          *ctx;
    const uint8_t       *data;
    uint64_t             rows;
    uint64_t             stride;
    uint32_t             dims;
    atomic_uint_fast64_t bad; /* the lowest row with other dims found so far; rows when there is none */
} dims_check;

static void lower_bad(dims_check *check, uint64_t row)
{
    uint_fast64_t bad = atomic_load(&check->bad);
    while (row < bad && !atomic_compare_exchange_weak(&check->bad, &bad, row)) {
    }
}

static nf_status check_block(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    dims_check    *check = arg;
    const uint64_t begin = task * BLOCK_ROWS;
    const uint64_t end = begin + BLOCK_ROWS < check->rows ? begin + BLOCK_ROWS : check->rows;
    for (uint64_t row = begin; row < end; row++) {
        if (nf_load_u32(check->data + row * check->stride) == check->dims) continue;
        lower_bad(check, row);
        break;
    }
    nf_progress_add(check->ctx, end - begin);
    return NF_OK;
}

static nf_status check_all_dims(nf_context *ctx, const nf_mapping *file, const nf_layout *layout)
{
    dims_check check = {
        .ctx = ctx, .data = file->data, .rows = layout->rows, .stride = layout->stride, .dims = layout->dims};
    atomic_init(&check.bad, layout->rows);
    nf_progress_begin(ctx, "read", layout->rows);
    NF_TRY(nf_pool_run(ctx, check_block, &check, (layout->rows + BLOCK_ROWS - 1) / BLOCK_ROWS));
    const uint64_t bad = atomic_load(&check.bad);
    if (bad == layout->rows) return NF_OK;
    return nf_fail(ctx, NF_ERR_FORMAT,
                   "%s: row %" PRIu64 " (counted from 0) has %" PRId32 " values, the first row has %" PRIu32,
                   file->path, bad, (int32_t)nf_load_u32(file->data + bad * layout->stride), layout->dims);
}

nf_status nf_vecs_layout(nf_context *ctx, const nf_mapping *file, const nf_read_params *params, nf_layout *layout)
{
    (void)params;
    if (file->bytes < PREFIX_BYTES) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: file has %" PRIu64 " bytes, too few for one row", file->path,
                       file->bytes);
    }
    const int32_t dims = (int32_t)nf_load_u32(file->data);
    if (dims < 0)
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: the first row says it has %" PRId32 " values", file->path, dims);
    NF_TRY(nf_dims_check(ctx, file->path, (uint64_t)dims));
    layout->dims = (uint32_t)dims;
    layout->offset = PREFIX_BYTES;
    layout->stride = PREFIX_BYTES + (uint64_t)layout->dims * nf_dtype_bytes(layout->dtype);
    layout->rows = file->bytes / layout->stride;
    layout->swapped = nf_little_is_swapped();
    if (file->bytes % layout->stride != 0) {
        return nf_fail(ctx, NF_ERR_FORMAT,
                       "%s: rows of %" PRId32 " %s take %" PRIu64 " bytes each, the file's %" PRIu64
                       " bytes are %" PRIu64 " rows and %" PRIu64 " bytes",
                       file->path, dims, nf_dtype_name(layout->dtype), layout->stride, file->bytes, layout->rows,
                       file->bytes % layout->stride);
    }
    snprintf(layout->detail, sizeof layout->detail, "dims before each row");
    return check_all_dims(ctx, file, layout);
}
