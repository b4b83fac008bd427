/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a layout to a dataset.
 *
 * Row-major values in the machine's byte order are used where they lie in the mapping. Anything else (Fortran order,
 * the other byte order) is converted once, on all threads: a block of rows per task, inside it tiles of 64 rows, so
 * that a tile of the result stays in the cache while the columns pass by.
 */
#include <string.h>

#include "core/core_context.h"
#include "core/core_pool.h"
#include "io_dataset.h"
#include "matrix/matrix_convert.h"

#define BLOCK_ROWS 4096
#define TILE_ROWS 64

typedef struct conversion {
    nf_context      *ctx;
    const nf_layout *layout;
    const uint8_t   *source; /* the first value of the file */
    uint64_t         first;
    uint64_t         count;
    uint8_t         *values;
} conversion;

static inline void copy_value(uint8_t *target, const uint8_t *source, size_t size, bool swapped)
{
    if (!swapped) {
        memcpy(target, source, size);
        return;
    }
    for (size_t i = 0; i < size; i++) target[i] = source[size - 1 - i];
}

/* Rows begin .. end - 1 of the result. size is a constant at each call, so that copies become single moves. */
static inline void convert_tile(const conversion *work, uint64_t begin, uint64_t end, size_t size)
{
    const nf_layout *layout = work->layout;
    const uint64_t   row_step = layout->fortran ? size : layout->stride;
    const uint64_t   column_step = layout->fortran ? layout->rows * size : size;
    for (uint32_t column = 0; column < layout->dims; column++) {
        const uint8_t *source = work->source + (work->first + begin) * row_step + column * column_step;
        uint8_t       *target = work->values + (begin * layout->dims + column) * size;
        for (uint64_t row = begin; row < end; row++) {
            copy_value(target, source, size, layout->swapped);
            source += row_step;
            target += layout->dims * size;
        }
    }
}

static void convert_tile_of(const conversion *work, uint64_t begin, uint64_t end)
{
    switch (nf_dtype_bytes(work->layout->dtype)) {
    case 1: convert_tile(work, begin, end, 1); break;
    case 2: convert_tile(work, begin, end, 2); break;
    case 4: convert_tile(work, begin, end, 4); break;
    default: convert_tile(work, begin, end, 8); break;
    }
}

static nf_status convert_block(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    const conversion *work = arg;
    const uint64_t    begin = task * BLOCK_ROWS;
    const uint64_t    end = begin + BLOCK_ROWS < work->count ? begin + BLOCK_ROWS : work->count;
    for (uint64_t row = begin; row < end; row += TILE_ROWS) {
        convert_tile_of(work, row, row + TILE_ROWS < end ? row + TILE_ROWS : end);
    }
    nf_progress_add(work->ctx, end - begin);
    return NF_OK;
}

static nf_status convert_rows(nf_context *ctx, const nf_mapping *file, const nf_layout *layout, nf_dataset *dataset)
{
    nf_matrix *matrix = &dataset->matrix;
    uint8_t   *values = nf_alloc(ctx, matrix->rows, layout->dims * nf_dtype_bytes(layout->dtype));
    if (values == NULL) return nf_alloc_status(ctx);
    dataset->values = values;
    matrix->data = values;
    nf_mapping_advise(file, layout->offset, file->bytes - layout->offset, true);
    conversion work = {
        .ctx = ctx,
        .layout = layout,
        .source = file->data + layout->offset,
        .first = dataset->first,
        .count = matrix->rows,
        .values = values,
    };
    nf_progress_begin(ctx, "read", matrix->rows);
    return nf_pool_run(ctx, convert_block, &work, (matrix->rows + BLOCK_ROWS - 1) / BLOCK_ROWS);
}

static void view_rows(nf_mapping *file, const nf_layout *layout, nf_dataset *dataset)
{
    nf_matrix     *matrix = &dataset->matrix;
    const uint64_t offset = layout->offset + dataset->first * layout->stride;
    const uint64_t packed = (uint64_t)layout->dims * nf_dtype_bytes(layout->dtype);
    matrix->data = file->data ? file->data + offset : (const uint8_t *)""; /* an empty raw file */
    matrix->stride_bytes = layout->stride == packed ? 0 : layout->stride;
    if (matrix->rows > 0) nf_mapping_advise(file, offset, (matrix->rows - 1) * layout->stride + packed, false);
    dataset->file = *file;
    file->mapped = false; /* the dataset unmaps it now */
}

nf_status nf_layout_read(nf_context *ctx, nf_mapping *file, const nf_layout *layout, const nf_read_params *params,
                         nf_dataset *dataset)
{
    uint64_t count;
    NF_TRY(nf_rows_resolve(ctx, file->path, params, layout->rows, &dataset->first, &count));
    dataset->file_rows = layout->rows;
    dataset->matrix = (nf_matrix){.rows = count, .dims = layout->dims, .dtype = (uint32_t)layout->dtype};
    /* One column, or one row, is the same in both orders. */
    const bool transposed = layout->fortran && layout->rows > 1 && layout->dims > 1;
    if (transposed || layout->swapped) {
        NF_TRY(convert_rows(ctx, file, layout, dataset));
    } else {
        view_rows(file, layout, dataset);
    }
    return params->skip_invalid ? nf_dataset_drop_invalid(ctx, dataset) : NF_OK;
}
