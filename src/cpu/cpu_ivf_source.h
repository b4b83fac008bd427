/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a build and the sets of k-means in the CPU engine: operations of engine/engine_ivf.h. */
#ifndef NF_CPU_IVF_SOURCE_H
#define NF_CPU_IVF_SOURCE_H

#include "cpu_ivf.h"

nf_status nf_cpu_ivf_source_open(nf_context *ctx, const nf_matrix *data, uint32_t metric, nf_ivf_source **out);
void      nf_cpu_ivf_source_close(nf_ivf_source *source);
uint64_t  nf_cpu_ivf_set_room(nf_context *ctx, const nf_ivf_source *source);
nf_status nf_cpu_ivf_sample(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count,
                            float *mean, nf_ivf_set **out);
nf_status nf_cpu_ivf_block_rows(nf_context *ctx, nf_ivf_source *source, uint64_t *most);
nf_status nf_cpu_ivf_load(nf_context *ctx, nf_ivf_source *source, const float *mean, uint64_t first, uint64_t *count);
nf_status nf_cpu_ivf_use_centroids(nf_context *ctx, nf_ivf_source *source, const float *centroids, uint32_t lists);
nf_status nf_cpu_ivf_source_assign(nf_context *ctx, nf_ivf_source *source, uint32_t *labels);
nf_status nf_cpu_ivf_source_encode(nf_context *ctx, nf_ivf_source *source, const nf_ivf_encode_job *job);
nf_status nf_cpu_ivf_encode_end(nf_context *ctx, nf_ivf_source *source);
nf_status nf_cpu_ivf_truth(nf_context *ctx, nf_ivf_source *source, const uint64_t *numbers, uint64_t count, uint32_t k,
                           int64_t *ids, double *distances);

/* A set of rows (count x dims), which it takes over, also where it fails. */
nf_status nf_cpu_ivf_set_new(nf_context *ctx, float *rows, uint64_t count, uint32_t dims, nf_ivf_set **out);
void      nf_cpu_ivf_set_close(nf_ivf_set *set);
nf_status nf_cpu_ivf_set_rows(nf_context *ctx, nf_ivf_set *set, const uint64_t *which, uint64_t count, float *rows);
nf_status nf_cpu_ivf_set_part(nf_context *ctx, nf_ivf_set *set, uint64_t count, nf_ivf_set **out);
nf_status nf_cpu_ivf_set_group(nf_context *ctx, nf_ivf_set *set, uint64_t first, uint64_t count, const float *centroids,
                               uint32_t clusters, uint64_t *starts);
nf_status nf_cpu_ivf_set_members(nf_context *ctx, nf_ivf_set *set, const uint64_t *which, uint64_t count, float *rows);
nf_status nf_cpu_ivf_set_means(nf_context *ctx, nf_ivf_set *set, float *centroids);
nf_status nf_cpu_ivf_set_sort(nf_context *ctx, nf_ivf_set *set);

#endif
