/* SPDX-License-Identifier: Apache-2.0 */
/* IVF-RaBitQ in the CPU engine: what its files share. */
#ifndef NF_CPU_IVF_H
#define NF_CPU_IVF_H

#include "cpu/kernels/ivf_kernels.h"
#include "engine/engine_ivf.h"

/* Vectors packed for the kernel `products`: count rounded up to whole blocks of NF_LANES, the filling zero. */
typedef struct nf_vectors_panel {
    float   *values;
    float   *half_squares; /* half the squared norm of each; +infinity for the filling */
    uint32_t count, rounded, dims;
} nf_vectors_panel;

/* Packs vectors (count x dims, row after row) under an account. */
nf_status nf_vectors_pack(nf_context *ctx, nf_memory *memory, const float *vectors, uint32_t count, uint32_t dims,
                          nf_vectors_panel *panel);
void nf_vectors_close(nf_vectors_panel *panel);

/* Centroids, packed for the search of the nearest. */
typedef struct nf_centroids {
    nf_vectors_panel panel;
} nf_centroids;

nf_status nf_centroids_open(nf_context *ctx, const float *values, uint32_t count, uint32_t dims, nf_centroids *out);
void nf_centroids_close(nf_centroids *centroids);
/* The nearest centroid of each row (count x dims), the lowest number among equals. */
nf_status nf_centroids_assign(nf_context *ctx, const nf_centroids *centroids, const float *rows, uint64_t count,
                              uint32_t *labels);

nf_status nf_cpu_ivf_rotate(nf_context *ctx, const nf_rotation_map *map, const float *rows, uint64_t count, float *rotated);
/* rotated: count x padded */
nf_status nf_cpu_ivf_encode(nf_context *ctx, const nf_ivf_encode_job *job, const float *rotated, uint64_t count);
nf_status nf_cpu_ivf_prepare(nf_context *ctx, nf_memory *memory, const nf_ivf_view *view, nf_ivf_prepared **out);
void nf_cpu_ivf_prepared_close(nf_ivf_prepared *prepared);
nf_status nf_cpu_ivf_search(nf_context *ctx, const nf_ivf_view *view, const nf_ivf_prepared *prepared,
                            const float *queries, uint64_t count, const nf_ivf_question *question, uint64_t *slots,
                            float *values, nf_ivf_counters *counters);

/* Rotates one row (dims values) to padded values elsewhere. */
void nf_cpu_ivf_rotate_row(const nf_ivf_kernels *kernels, const nf_rotation_map *map, const float *row, float *out);

/* The best rescaling factor t of a residual for ex_bits >= 1 (cpu_ivf_encode.c). norm: of the residual, above 0. */
float nf_cpu_ivf_rescale_factor(const nf_ivf_kernels *kernels, const float *residual, uint32_t padded, double norm,
                                uint32_t ex_bits);

extern const nf_ivf_ops nf_cpu_ivf_ops;

#endif
