/* SPDX-License-Identifier: Apache-2.0 */
/* An index as an object: making, completing, describing, releasing. */
#include "ivf_index.h"

#include <math.h>

#include <string.h>

nf_status nf_ivf_index_new(nf_context *ctx, nf_ivf_index **out)
{
    nf_memory *memory = nf_memory_create_unlimited(ctx);
    *out = NULL;
    if (memory == NULL) return NF_ERR_MEMORY;
    nf_ivf_index *index = nf_alloc_zero_in(ctx, memory, 1, sizeof *index);
    if (index == NULL) {
        nf_memory_release(memory);
        return nf_alloc_status(ctx);
    }
    index->memory = memory;
    *out = index;
    return NF_OK;
}

nf_status nf_ivf_index_choose_engine(nf_context *ctx, nf_ivf_index *index)
{
    return nf_engine_for(ctx, NF_WORK_IVF, index->view.rows, index->view.dims, &index->engine);
}

void nf_ivf_release(nf_ivf_index *index)
{
    if (index == NULL) return;
    nf_memory     *memory = index->memory;
    nf_ivf_arrays *owned = &index->owned;
    if (index->prepared != NULL) index->engine->ivf->prepared_close(index->prepared);
    nf_free(owned->mean);
    nf_free(owned->mean_rotated);
    nf_free(owned->centroids);
    nf_free(owned->matrix);
    nf_free(owned->signs);
    nf_free(owned->blocks);
    nf_free(owned->records);
    nf_free(owned->vectors);
    nf_free(owned->list_start);
    nf_free(owned->block_start);
    nf_free(owned->ids);
    nf_free(owned->recall);
    nf_sealed_close(index->file);
    nf_free(index);
    nf_memory_release(memory);
}

void nf_ivf_block_starts(const uint64_t *list_start, uint32_t lists, uint64_t *block_start)
{
    block_start[0] = 0;
    for (uint32_t list = 0; list < lists; list++) {
        const uint64_t rows = list_start[list + 1] - list_start[list];
        block_start[list + 1] = block_start[list] + (rows + NF_IVF_BLOCK - 1) / NF_IVF_BLOCK;
    }
}

/* The root mean square of the rows' centroids. */
static double typical_length(const nf_ivf_view *view)
{
    double sum = 0.0;
    for (uint32_t list = 0; list < view->lists; list++) {
        const float *centroid = view->centroids + (size_t)list * view->padded;
        double       square = 0.0;
        for (uint32_t k = 0; k < view->padded; k++) {
            const double value = (double)centroid[k] + (double)view->mean_rotated[k];
            square += value * value;
        }
        sum += square * (double)(view->list_start[list + 1] - view->list_start[list]);
    }
    return sqrt(sum / (double)view->rows);
}

nf_status nf_ivf_index_complete(nf_context *ctx, nf_ivf_index *index)
{
    nf_ivf_view *view = &index->view;
    if (view->mean_rotated == NULL) {
        index->owned.mean_rotated = nf_alloc_in(ctx, index->memory, view->padded, sizeof(float));
        if (index->owned.mean_rotated == NULL) return nf_alloc_status(ctx);
        NF_TRY(index->engine->ivf->rotate(ctx, &view->rotation, view->mean, 1, index->owned.mean_rotated));
        view->mean_rotated = index->owned.mean_rotated;
    }
    if (view->metric == NF_METRIC_IP) index->ip_length = typical_length(view);
    if (index->prepared != NULL) return NF_OK;
    return index->engine->ivf->prepare(ctx, index->memory, view, &index->prepared);
}

void nf_ivf_describe(const nf_ivf_index *index, nf_ivf_info *info)
{
    const nf_ivf_view *view = &index->view;
    const size_t       size = info->struct_size < sizeof *info ? info->struct_size : sizeof *info;
    nf_ivf_info        full = {
               .struct_size = info->struct_size,
               .rows = view->rows,
               .dims = view->dims,
               .padded_dims = view->padded,
               .lists = view->lists,
               .bits = view->bits,
               .metric = view->metric,
               .rotation = view->rotation.kind,
               .keep_vectors = view->vectors != NULL,
               .user_ids = index->user_ids,
               .vectors_dtype = view->vectors_dtype,
               .recall_points = index->recall_points,
               .seed = index->seed,
               .bytes = index->info.bytes,
               .file_id = index->info.file_id,
               .format_major = index->info.major,
               .format_minor = index->info.minor,
    };
    for (uint32_t list = 0; list < view->lists; list++) {
        const uint64_t rows = view->list_start[list + 1] - view->list_start[list];
        if (rows > full.largest_list) full.largest_list = rows;
        full.empty_lists += rows == 0;
    }
    memcpy(info, &full, size);
}

nf_status nf_ivf_recall_point(const nf_ivf_index *index, uint32_t entry, uint32_t *probes, double *recall)
{
    if (index == NULL || probes == NULL || recall == NULL || entry >= index->recall_points) return NF_ERR_ARGUMENT;
    *probes = index->recall[entry].probes;
    *recall = index->recall[entry].recall;
    return NF_OK;
}
