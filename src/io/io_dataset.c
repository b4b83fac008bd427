/* SPDX-License-Identifier: Apache-2.0 */
/* The dataset object: access, release, and the list of kept rows. */
#include "io_dataset.h"

#include "core/core_context.h"

const nf_matrix *nf_dataset_matrix(const nf_dataset *dataset)
{
    return &dataset->matrix;
}

const int64_t *nf_dataset_ids(const nf_dataset *dataset)
{
    return dataset->ids;
}

int64_t nf_dataset_first(const nf_dataset *dataset)
{
    return (int64_t)dataset->first;
}

uint64_t nf_dataset_file_rows(const nf_dataset *dataset)
{
    return dataset->file_rows;
}

uint64_t nf_dataset_skipped(const nf_dataset *dataset)
{
    return dataset->skipped;
}

void nf_dataset_release(nf_dataset *dataset)
{
    if (!dataset) return;
    nf_mapping_close(&dataset->file);
    nf_free(dataset->values);
    nf_free(dataset->ids);
    nf_free(dataset);
}

static uint64_t count_kept(const uint8_t *keep, uint64_t count)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++) kept += keep[i] != 0;
    return kept;
}

nf_status nf_dataset_set_kept(nf_context *ctx, nf_dataset *dataset, const uint8_t *keep, uint64_t count)
{
    const uint64_t kept = count_kept(keep, count);
    if (kept == count) return NF_OK;
    int64_t *ids = nf_alloc(ctx, kept, sizeof *ids);
    if (!ids) return nf_alloc_status(ctx);
    uint64_t used = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (keep[i]) ids[used++] = (int64_t)(dataset->first + i);
    }
    dataset->ids = ids;
    dataset->skipped = count - kept;
    return NF_OK;
}
