/* SPDX-License-Identifier: Apache-2.0 */
/* IVF-RaBitQ in the CUDA engine: operations of engine/engine_ivf.h. */
#ifndef NF_CUDA_IVF_H
#define NF_CUDA_IVF_H

#include "cuda_blocks.h"
#include "engine/engine_ivf.h"

/* Row length of binary32 rows on the device: a multiple of 4. */
static inline uint32_t nf_ivf_stride(uint32_t dims)
{
    return (dims + 3) / 4 * 4;
}

/* Rows of dims values on the host to rows of stride values on the device, zeros beyond. */
nf_status nf_ivf_upload_floats(nf_context *ctx, nf_blocks *blocks, const float *rows, uint64_t count, uint32_t dims,
                               uint32_t stride, float *to);
/* And back. */
nf_status nf_ivf_download_floats(nf_context *ctx, nf_blocks *blocks, const float *from, uint64_t count, uint32_t dims,
                                 uint32_t stride, float *rows);

/* A rotation with its arrays on the device. */
typedef struct nf_device_rotation {
    nf_rotation_map map;
    uint8_t        *signs;
    float          *matrix;
} nf_device_rotation;

nf_status nf_device_rotation_open(nf_context *ctx, nf_blocks *blocks, const nf_rotation_map *map,
                                  nf_device_rotation *out);

/* ---- cuda_ivf_source.c, cuda_ivf_encode.c, cuda_ivf_truth.c ---- */

nf_status nf_cuda_ivf_source_open(nf_context *ctx, const nf_matrix *data, uint32_t metric, nf_ivf_source **out);
void      nf_cuda_ivf_source_close(nf_ivf_source *source);
uint64_t  nf_cuda_ivf_set_room(nf_context *ctx, const nf_ivf_source *source);
nf_status nf_cuda_ivf_sample(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count,
                             float *mean, nf_ivf_set **out);
nf_status nf_cuda_ivf_block_rows(nf_context *ctx, nf_ivf_source *source, uint64_t *most);
nf_status nf_cuda_ivf_load(nf_context *ctx, nf_ivf_source *source, const float *mean, uint64_t first, uint64_t *count);
nf_status nf_cuda_ivf_use_centroids(nf_context *ctx, nf_ivf_source *source, const float *centroids, uint32_t lists);
nf_status nf_cuda_ivf_assign(nf_context *ctx, nf_ivf_source *source, uint32_t *labels);
nf_status nf_cuda_ivf_encode(nf_context *ctx, nf_ivf_source *source, const nf_ivf_encode_job *job);
nf_status nf_cuda_ivf_encode_end(nf_context *ctx, nf_ivf_source *source);
nf_status nf_cuda_ivf_truth(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count, uint32_t k,
                            int64_t *ids, double *distances);

/* ---- cuda_ivf_set.c ---- */

/* A set with room for count rows, which the caller fills: stride values each, nf_ivf_stride(dims). */
nf_status  nf_cuda_ivf_set_new(nf_context *ctx, uint64_t count, uint32_t dims, nf_ivf_set **out);
float     *nf_cuda_ivf_set_values(nf_ivf_set *set);
nf_blocks *nf_cuda_ivf_set_blocks(nf_ivf_set *set);
/* Device bytes that a row of a set takes. */
uint64_t  nf_cuda_ivf_set_row_bytes(uint32_t dims);
void      nf_cuda_ivf_set_close(nf_ivf_set *set);
nf_status nf_cuda_ivf_set_rows(nf_context *ctx, nf_ivf_set *set, const uint64_t *which, uint64_t count, float *rows);
nf_status nf_cuda_ivf_set_part(nf_context *ctx, nf_ivf_set *set, uint64_t count, nf_ivf_set **out);
nf_status nf_cuda_ivf_set_group(nf_context *ctx, nf_ivf_set *set, uint64_t first, uint64_t count,
                                const float *centroids, uint32_t clusters, uint64_t *starts);
nf_status nf_cuda_ivf_set_members(nf_context *ctx, nf_ivf_set *set, const uint64_t *which, uint64_t count, float *rows);
nf_status nf_cuda_ivf_set_means(nf_context *ctx, nf_ivf_set *set, float *centroids);
nf_status nf_cuda_ivf_set_sort(nf_context *ctx, nf_ivf_set *set);

/* ---- cuda_ivf_index.c ---- */

nf_status nf_cuda_ivf_rotate(nf_context *ctx, const nf_rotation_map *map, const float *rows, uint64_t count,
                             float *rotated);
nf_status nf_cuda_ivf_prepare(nf_context *ctx, nf_memory *memory, const nf_ivf_view *view, nf_ivf_prepared **out);
void      nf_cuda_ivf_prepared_close(nf_ivf_prepared *prepared);

/* ---- cuda_ivf_search.c ---- */

nf_status nf_cuda_ivf_search(nf_context *ctx, const nf_ivf_view *view, const nf_ivf_prepared *prepared,
                             const float *queries, uint64_t count, const nf_ivf_question *question, uint64_t *slots,
                             float *values, nf_ivf_counters *counters);
nf_status nf_cuda_ivf_answer(nf_context *ctx, const nf_ivf_view *view, const nf_ivf_prepared *prepared,
                             const nf_matrix *queries, const nf_ivf_question *question, double length,
                             const nf_ivf_results *results, nf_ivf_counters *counters);

extern const nf_ivf_ops nf_cuda_ivf_ops;

#endif
