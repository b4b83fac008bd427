/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows with NaN or infinity: leaving them out (skip_invalid), or naming the first one. All threads look at the rows;
 * nothing is copied unless a row is left out, in which case the kept ones are gathered into packed memory and the mapping
 * is given up.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/core_context.h"
#include "core/core_pool.h"
#include "io_dataset.h"
#include "matrix/matrix_convert.h"

#define BLOCK_ROWS 4096

typedef struct scan {
    const nf_matrix     *matrix;
    uint8_t             *keep;  /* NULL: only the first row matters */
    atomic_uint_fast64_t first; /* row with a value that is not allowed; UINT64_MAX while there is none */
} scan;

static void note_row(scan *work, uint64_t row)
{
    uint64_t first = atomic_load(&work->first);
    while (row < first && !atomic_compare_exchange_weak(&work->first, &first, row)) {}
}

static nf_status scan_block(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    scan          *work = arg;
    const uint64_t begin = task * BLOCK_ROWS;
    const uint64_t limit = work->matrix->rows;
    const uint64_t end = begin + BLOCK_ROWS < limit ? begin + BLOCK_ROWS : limit;
    for (uint64_t row = begin; row < end; row++) {
        const bool valid = nf_matrix_row_invalid(work->matrix, row) == work->matrix->dims;
        if (work->keep != NULL) work->keep[row] = valid;
        if (!valid) note_row(work, row);
    }
    return NF_OK;
}

static bool is_float(uint32_t dtype)
{
    return dtype == NF_DTYPE_F16 || dtype == NF_DTYPE_F32 || dtype == NF_DTYPE_F64;
}

/* Replaces the matrix by a packed copy of the rows in dataset->ids. */
static nf_status gather_kept(nf_context *ctx, nf_dataset *dataset)
{
    nf_matrix     *matrix = &dataset->matrix;
    const uint64_t kept = matrix->rows - dataset->skipped;
    const size_t   row_bytes = matrix->dims * nf_dtype_bytes((nf_dtype)matrix->dtype);
    uint8_t       *values = nf_alloc(ctx, kept, row_bytes);
    if (values == NULL) return nf_alloc_status(ctx);
    for (uint64_t i = 0; i < kept; i++) {
        const uint64_t row = (uint64_t)dataset->ids[i] - dataset->first;
        memcpy(values + i * row_bytes, nf_matrix_row(matrix, row), row_bytes);
    }
    nf_free(dataset->values);
    nf_mapping_close(&dataset->file);
    dataset->values = values;
    matrix->data = values;
    matrix->rows = kept;
    matrix->stride_bytes = 0;
    return NF_OK;
}

nf_status nf_dataset_drop_invalid(nf_context *ctx, nf_dataset *dataset)
{
    const uint64_t rows = dataset->matrix.rows;
    if (!is_float(dataset->matrix.dtype)) return NF_OK;
    uint8_t *keep = nf_alloc(ctx, rows, 1);
    if (keep == NULL) return nf_alloc_status(ctx);
    scan      work = {.matrix = &dataset->matrix, .keep = keep, .first = UINT64_MAX};
    nf_status status = nf_pool_run(ctx, scan_block, &work, (rows + BLOCK_ROWS - 1) / BLOCK_ROWS);
    if (status >= 0) status = nf_dataset_set_kept(ctx, dataset, keep, rows);
    if (status >= 0 && dataset->skipped > 0) status = gather_kept(ctx, dataset);
    nf_free(keep);
    return status;
}

nf_status nf_dataset_check(nf_context *ctx, const nf_dataset *dataset, const char *name)
{
    if (ctx == NULL || dataset == NULL || name == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    const nf_matrix *matrix = &dataset->matrix;
    scan             work = {.matrix = matrix, .first = UINT64_MAX};

    NF_TRY(nf_pool_run(ctx, scan_block, &work, (matrix->rows + BLOCK_ROWS - 1) / BLOCK_ROWS));
    const uint64_t row = atomic_load(&work.first);
    if (row == UINT64_MAX) return NF_OK;
    const uint64_t file_row = dataset->ids != NULL ? (uint64_t)dataset->ids[row] : dataset->first + row;
    return nf_fail(ctx, NF_ERR_VALUE, "%s: row %" PRIu64 ", column %" PRIu32 " (counted from 0) is %s", name, file_row,
                   nf_matrix_row_invalid(matrix, row),
                   is_float(matrix->dtype) ? "NaN or infinite" : "an integer beyond 2^53");
}
