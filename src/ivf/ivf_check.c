/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of what a file says, so that nothing computed from it leaves its memory, whoever wrote the file.
 *
 * Parameters, list starts, mean, centroids, matrix and recall are checked always: they are small, and every search
 * reads them. Rows (factors, filling, ids, vectors) are looked at by FULL only.
 */
#include <math.h>
#include <string.h>

#include "core/core_pool.h"
#include "ivf_file.h"
#include "ivf_params.h"
#include "ivf_rotation.h"
#include "engine/engine_ivf_rows.h"
#include "matrix/matrix_convert.h"

#define TASK_LISTS 64u

static nf_status check_range(const nf_ivf_opening *at, const char *name, uint64_t value, uint64_t least, uint64_t most)
{
    if (value >= least && value <= most) return NF_OK;
    return nf_fail(at->ctx, NF_ERR_DAMAGED, "%s: section params: %s is %llu, allowed are %llu to %llu", at->path, name,
                   (unsigned long long)value, (unsigned long long)least, (unsigned long long)most);
}

nf_status nf_ivf_check_params(const nf_ivf_opening *at, const nf_ivf_file_params *params)
{
    const uint64_t most_lists = params->rows < NF_IVF_MOST_LISTS ? params->rows : NF_IVF_MOST_LISTS;
    const uint64_t most_dims = params->rotation == NF_ROTATION_DENSE ? NF_IVF_MOST_DENSE_DIMS : NF_IVF_MOST_DIMS;
    NF_TRY(check_range(at, "rows", params->rows, 1, NF_IVF_MOST_ROWS));
    NF_TRY(check_range(at, "rotation", params->rotation, 0, NF_ROTATION_DENSE));
    NF_TRY(check_range(at, "dims", params->dims, 1, most_dims));
    NF_TRY(check_range(at, "padded dims", params->padded, nf_ivf_padded(params->dims), nf_ivf_padded(params->dims)));
    NF_TRY(check_range(at, "lists", params->lists, 1, most_lists));
    NF_TRY(check_range(at, "bits", params->bits, 1, NF_IVF_MOST_BITS));
    NF_TRY(check_range(at, "metric", params->metric, 0, NF_METRIC_COSINE));
    NF_TRY(check_range(at, "wide ids", params->wide_ids, 0, 1));
    NF_TRY(check_range(at, "user ids", params->user_ids, 0, 1));
    NF_TRY(check_range(at, "keep vectors", params->keep_vectors, 0, 1));
    NF_TRY(check_range(at, "dtype", params->vectors_dtype, NF_DTYPE_U8, NF_DTYPE_F64));
    NF_TRY(check_range(at, "recall points", params->recall_points, 0, params->lists));
    return check_range(at, "reserved field", params->reserved, 0, 0);
}

nf_status nf_ivf_check_lists(const nf_ivf_opening *at)
{
    const nf_ivf_view *view = &at->index->view;
    const uint64_t    *list_start = view->list_start;

    if (list_start[0] != 0)
        return nf_fail(at->ctx, NF_ERR_DAMAGED, "%s: section lists: the first list does not begin at row 0", at->path);
    for (uint32_t list = 0; list < view->lists; list++) {
        if (list_start[list + 1] < list_start[list] || list_start[list + 1] > view->rows) {
            return nf_fail(at->ctx, NF_ERR_DAMAGED, "%s: section lists: list %u has rows %llu to %llu of %llu",
                           at->path, list, (unsigned long long)list_start[list],
                           (unsigned long long)list_start[list + 1], (unsigned long long)view->rows);
        }
    }
    if (list_start[view->lists] == view->rows) return NF_OK;
    return nf_fail(at->ctx, NF_ERR_DAMAGED, "%s: section lists: the lists hold %llu rows, the index has %llu", at->path,
                   (unsigned long long)list_start[view->lists], (unsigned long long)view->rows);
}

/* Values that no build exceeds, so that a search's numbers stay finite: rows are at most 2^53, or scaled to length 1. */
#define LARGEST_MEAN 0x1p54f
#define LARGEST_CENTROID 0x1p64f
#define LARGEST_MATRIX 2.0f

static nf_status check_values(const nf_ivf_opening *at, nf_ivf_section section, const float *values, uint64_t count,
                              float most)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!(fabsf(values[i]) <= most)) {
            return nf_fail(at->ctx, NF_ERR_DAMAGED, "%s: section %s: value %llu is %g, at most %g is possible",
                           at->path, nf_ivf_section_name((uint32_t)section), (unsigned long long)i, (double)values[i],
                           (double)most);
        }
    }
    return NF_OK;
}

nf_status nf_ivf_check_tables(const nf_ivf_opening *at)
{
    const nf_ivf_index *index = at->index;
    const nf_ivf_view  *view = &index->view;
    const uint64_t      padded = view->padded;
    uint32_t            before = 0;

    NF_TRY(check_values(at, NF_IVF_SECTION_MEAN, view->mean, view->dims, LARGEST_MEAN));
    NF_TRY(check_values(at, NF_IVF_SECTION_CENTROIDS, view->centroids, view->lists * padded, LARGEST_CENTROID));
    if (view->rotation.kind == NF_ROTATION_DENSE) {
        NF_TRY(check_values(at, NF_IVF_SECTION_ROTATION, view->rotation.matrix, padded * padded, LARGEST_MATRIX));
    }
    for (uint32_t i = 0; i < index->recall_points; i++) {
        const nf_ivf_recall *entry = &index->recall[i];
        if (entry->probes <= before || entry->probes > view->lists || !(entry->recall >= 0.0 && entry->recall <= 1.0)) {
            return nf_fail(at->ctx, NF_ERR_DAMAGED, "%s: section recall: entry %u is %u probes, recall %g", at->path, i,
                           entry->probes, entry->recall);
        }
        before = entry->probes;
    }
    return NF_OK;
}

/* ---- rows ---- */

static bool all_zero(const uint8_t *bytes, size_t count)
{
    uint8_t any = 0;
    for (size_t i = 0; i < count; i++) any |= bytes[i];
    return any == 0;
}

static bool finite_at(const uint8_t *from)
{
    float value;
    memcpy(&value, from, sizeof value);
    return isfinite(value);
}

/* Whether the slots of a block are as they must be: the first used ones with finite factors, the others zero. */
static bool block_is_sound(const uint8_t *block, uint32_t padded, uint32_t used)
{
    const uint8_t *add = block + (size_t)padded * (NF_IVF_BLOCK / 8);
    const uint8_t *rescale = add + 4u * NF_IVF_BLOCK, *error = rescale + 4u * NF_IVF_BLOCK;
    for (uint32_t slot = 0; slot < used; slot++) {
        uint16_t width;
        memcpy(&width, error + 2u * slot, sizeof width);
        if (!finite_at(add + 4u * slot) || !finite_at(rescale + 4u * slot) || width >= 0x7f80u) return false;
    }
    const uint32_t unused = NF_IVF_BLOCK - used;
    if (unused == 0) return true;
    bool zero = all_zero(add + 4u * used, 4u * unused) && all_zero(rescale + 4u * used, 4u * unused) &&
                all_zero(error + 2u * used, 2u * unused);
    for (uint32_t row = 0; zero && row < padded / 8; row++) zero = all_zero(block + row * NF_IVF_BLOCK + used, unused);
    return zero;
}

static nf_status check_blocks(const nf_ivf_opening *at, uint32_t list)
{
    const nf_ivf_view *view = &at->index->view;
    uint64_t           left = view->list_start[list + 1] - view->list_start[list];
    for (uint64_t block = view->block_start[list]; block < view->block_start[list + 1]; block++) {
        const uint32_t used = left < NF_IVF_BLOCK ? (uint32_t)left : NF_IVF_BLOCK;
        if (!block_is_sound(view->blocks + block * nf_ivf_block_bytes(view->padded), view->padded, used)) {
            return nf_fail(at->ctx, NF_ERR_DAMAGED,
                           "%s: section blocks: block %llu holds an impossible factor, or its "
                           "filling is not zero",
                           at->path, (unsigned long long)block);
        }
        left -= used;
    }
    return NF_OK;
}

static nf_status check_row(const nf_ivf_opening *at, uint64_t row)
{
    const nf_ivf_index *index = at->index;
    const nf_ivf_view  *view = &index->view;
    const int64_t       id = nf_ivf_id(view, row);

    if (view->records != NULL) {
        const uint8_t *record = view->records + row * nf_ivf_record_bytes(view->padded, view->bits);
        if (!finite_at(record) || !finite_at(record + 4)) {
            return nf_fail(at->ctx, NF_ERR_DAMAGED, "%s: section records: a factor of record %llu is NaN or infinite",
                           at->path, (unsigned long long)row);
        }
    }
    if (id < 0 || (index->user_ids == 0 && (uint64_t)id >= view->rows)) {
        return nf_fail(at->ctx, NF_ERR_DAMAGED, "%s: section ids: id %llu is %lld", at->path, (unsigned long long)row,
                       (long long)id);
    }
    if (view->vectors == NULL) return NF_OK;
    const nf_matrix vectors = {
        .data = view->vectors, .rows = view->rows, .dims = view->dims, .dtype = view->vectors_dtype};
    if (nf_matrix_row_invalid(&vectors, row) == view->dims) return NF_OK;
    return nf_fail(at->ctx, NF_ERR_DAMAGED, "%s: section vectors: row %llu holds a value that is not allowed", at->path,
                   (unsigned long long)row);
}

static nf_status check_task(void *arg, uint64_t task, uint32_t worker)
{
    const nf_ivf_opening *at = arg;
    const nf_ivf_view    *view = &at->index->view;
    const uint32_t        begin = (uint32_t)task * TASK_LISTS;
    const uint32_t        end = view->lists - begin < TASK_LISTS ? view->lists : begin + TASK_LISTS;
    (void)worker;
    for (uint32_t list = begin; list < end; list++) {
        NF_TRY(check_blocks(at, list));
        for (uint64_t row = view->list_start[list]; row < view->list_start[list + 1]; row++) {
            NF_TRY(check_row(at, row));
        }
    }
    return NF_OK;
}

nf_status nf_ivf_check_rows(nf_ivf_opening *at)
{
    return nf_pool_run(at->ctx, check_task, at, (at->index->view.lists + TASK_LISTS - 1) / TASK_LISTS);
}
