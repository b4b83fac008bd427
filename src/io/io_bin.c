/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .fbin .u8bin .i8bin .f16bin (.hbin) .ibin: rows and dims, then the values row by row.
 *
 * The header is two u32 (8 bytes), or two u64 (16 bytes) in newer files. Nothing in the file says which: the one whose
 * size equation holds, header + rows * dims * value bytes == file bytes, is taken. Both cannot hold: with d >= 1 the
 * first two u32 read as one u64 are at least 2^32 rows, more bytes than the 8-byte header allows for the same file.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/core_context.h"
#include "io_read.h"

/* Whether header + rows * dims * size == bytes over the integers. */
static bool size_fits(uint64_t header, uint64_t rows, uint64_t dims, uint64_t size, uint64_t bytes)
{
    uint64_t values, total;
    return nf_multiply(rows, dims, &values) && nf_multiply(values, size, &total) && bytes >= header &&
           bytes - header == total;
}

static void set_layout(nf_layout *layout, uint64_t header, uint64_t rows, uint64_t dims)
{
    layout->offset = header;
    layout->rows = rows;
    layout->dims = (uint32_t)dims;
    layout->stride = dims * nf_dtype_bytes(layout->dtype);
    layout->swapped = nf_little_is_swapped() && nf_dtype_bytes(layout->dtype) > 1;
    snprintf(layout->detail, sizeof layout->detail, "%" PRIu64 "-byte header", header);
}

nf_status nf_bin_layout(nf_context *ctx, const nf_mapping *file, const nf_read_params *params, nf_layout *layout)
{
    (void)params;
    const uint64_t size = nf_dtype_bytes(layout->dtype);
    if (file->bytes < 8) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: file has %" PRIu64 " bytes, too few for the header of 8", file->path,
                       file->bytes);
    }
    const uint64_t rows = nf_load_u32(file->data);
    const uint64_t dims = nf_load_u32(file->data + 4);
    if (size_fits(8, rows, dims, size, file->bytes)) {
        NF_TRY(nf_dims_check(ctx, file->path, dims));
        set_layout(layout, 8, rows, dims);
        return NF_OK;
    }
    if (file->bytes >= 16) {
        const uint64_t rows64 = nf_load_u64(file->data);
        const uint64_t dims64 = nf_load_u64(file->data + 8);
        if (size_fits(16, rows64, dims64, size, file->bytes)) {
            NF_TRY(nf_dims_check(ctx, file->path, dims64));
            set_layout(layout, 16, rows64, dims64);
            return NF_OK;
        }
    }
    return nf_fail(ctx, NF_ERR_FORMAT,
                   "%s: header says %" PRIu64 " x %" PRIu64 " %s, file holds %" PRIu64 " bytes after the header",
                   file->path, rows, dims, nf_dtype_name(layout->dtype), file->bytes - 8);
}
