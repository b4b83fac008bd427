/* SPDX-License-Identifier: Apache-2.0 */
/* Raw files: values row by row in little-endian order, nothing else. The parameters dims and dtype say what they are.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/core_context.h"
#include "io_read.h"

nf_status nf_raw_layout(nf_context *ctx, const nf_mapping *file, const nf_read_params *params, nf_layout *layout)
{
    if (params->dims == 0)
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: raw files need dims (values in a row)", file->path);
    if (params->dims > NF_IO_DIMS_MAX) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: dims is %" PRIu32 "; 1 to %" PRIu64 " are allowed", file->path,
                       params->dims, NF_IO_DIMS_MAX);
    }
    layout->dtype = params->dtype ? nf_dtype_from_name(params->dtype) : NF_DTYPE_F32;
    if (layout->dtype == NF_DTYPE_NONE) {
        return nf_fail(ctx, NF_ERR_ARGUMENT,
                       "%s: dtype '%s' is not known; choose of: u8 i8 u16 i16 u32 i32 u64 i64 f16 "
                       "f32 f64",
                       file->path, params->dtype);
    }
    layout->dims = params->dims;
    layout->stride = (uint64_t)params->dims * nf_dtype_bytes(layout->dtype);
    layout->rows = file->bytes / layout->stride;
    layout->swapped = nf_little_is_swapped() && nf_dtype_bytes(layout->dtype) > 1;
    if (file->bytes % layout->stride == 0) return NF_OK;
    return nf_fail(ctx, NF_ERR_FORMAT,
                   "%s: rows of %" PRIu32 " %s take %" PRIu64 " bytes each, the file's %" PRIu64 " bytes are %" PRIu64
                   " rows and %" PRIu64 " bytes",
                   file->path, params->dims, nf_dtype_name(layout->dtype), layout->stride, file->bytes, layout->rows,
                   file->bytes % layout->stride);
}
