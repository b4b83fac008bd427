/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a build: rows as they came to index rows, the rotation, codes, and between the layout of the file and that of
 * the device. Rows of index values are `stride` binary32 values apart.
 */
#ifndef NF_K_ENCODE_H
#define NF_K_ENCODE_H

#include "k_ivf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- k_ivf_rows.cu: as engine_ivf_rows.c on the host ---- */

/* Rows of a matrix as they came, packed or not. */
typedef struct nf_k_raw_rows {
    const void *data;
    uint64_t    stride_bytes; /* a multiple of the value's size */
    uint32_t    dtype, dims, metric;
} nf_k_raw_rows;

/*
 * Converts rows numbers[i] (NULL: first + i), i < count: read as binary64, scaled to length 1 under COSINE (a zero row stays
 * zero) or, with length > 0, to that length (*factors gets by what; NULL: not wanted), less the mean (dims values; NULL: no
 * mean), rounded once to binary32; zeros up to stride. *first_invalid becomes the lowest i of a row with a value that is not
 * allowed (NaN, infinity, an integer beyond 2^53; unless COSINE: anything beyond 2^53 in absolute value), where that is less
 * than what it held; what is written for such a row means nothing.
 */
cudaError_t nf_k_index_rows(nf_k_raw_rows raw, const uint32_t *numbers, uint64_t first, uint32_t count, const float *mean,
                            double length, float *out, uint32_t stride, double *factors, unsigned long long *first_invalid,
                            cudaStream_t stream);

/* The mean of rows numbers[0 .. count), values as above before the mean goes; parts: scratch, nf_k_mean_parts() x dims
 * doubles. Added up in a fixed order. count >= 1. */
uint32_t    nf_k_mean_parts(void);
cudaError_t nf_k_rows_mean(nf_k_raw_rows raw, const uint32_t *numbers, uint32_t count, double *parts, float *mean,
                           unsigned long long *first_invalid, cudaStream_t stream);

/* ---- k_rotate.cu ---- */

/* Rotates rows (map->dims values, in_stride apart) to map->padded values, out_stride apart, zeros beyond. signs or matrix:
 * the map's arrays on the device. The fast rotation gives the same bits as k_rotate_scalar.c, and in and out may be the same
 * array with the same stride; a dense one refuses that (cudaErrorInvalidValue). */
cudaError_t nf_k_rotate(const nf_rotation_map *map, const uint8_t *signs, const float *matrix, const float *in,
                        uint32_t in_stride, uint32_t count, float *out, uint32_t out_stride, cudaStream_t stream);

/* ---- k_encode.cu: as cpu_ivf_encode.c ---- */

/* A flat row: padded / 8 bytes of signs, then add f32, rescale f32, error u16, then the record of the file
 * (engine_ivf.h). Unaligned. */
static inline size_t nf_k_flat_bytes(uint32_t padded, uint32_t bits)
{
    return padded / 8 + 10 + nf_ivf_record_bytes(padded, bits);
}

typedef struct nf_k_encode {
    const float    *rotated;   /* count rows, stride apart */
    uint32_t        stride, count;
    uint32_t        padded, bits, metric;
    const uint32_t *labels;    /* count: the list of each row */
    const float    *centroids; /* lists x padded, packed */
    const float    *mean;      /* rotated: padded */
    uint8_t        *flat;      /* count flat rows */
    double         *code_errors;         /* count: sqrt(1 / cos^2 - 1) of the whole code; 0 for a zero residual */
    unsigned long long *first_too_far;   /* becomes the lowest i whose squared residual is not below 1e37, where that is less
                                            than what it held; nothing else is written for such a row */
} nf_k_encode;

cudaError_t nf_k_encode_rows(const nf_k_encode *job, cudaStream_t stream);

/* Puts flat rows to their places in the file's layout: row i to slot slots[i] of list labels[i].
 * blocks is zeroed at first. */
cudaError_t nf_k_place_rows_in_lists(const uint8_t *flat, uint32_t count, uint32_t padded, uint32_t bits,
                                     const uint32_t *labels, const uint32_t *slots, const uint64_t *list_start,
                                     const uint64_t *block_start, uint8_t *blocks, uint8_t *records, cudaStream_t stream);

/* ---- k_repack.cu: from the file's layout to the device's ---- */

/* Blocks first .. first + count - 1, whose bytes in the file's layout are at `from` (any alignment; fast from a multiple of
 * 4), to codes, add, rescale, error of the index. */
cudaError_t nf_k_repack_blocks(const uint8_t *from, uint32_t first, uint32_t count, uint32_t padded, uint32_t *codes,
                               float *add, float *rescale, float *error, cudaStream_t stream);

/* Rows first .. first + count - 1: their records at `from` (NULL with one bit: the short code is the whole), their signs
 * from codes, to whole, whole_add, whole_rescale. row_slot[i]: slot of row first + i, counted from the start of all blocks;
 * with one bit the factors come from index->add and index->rescale. */
cudaError_t nf_k_repack_rows(const nf_k_index *index, const uint8_t *from, const uint32_t *row_slot, uint32_t first,
                             uint32_t count, uint32_t *whole, float *whole_add, float *whole_rescale, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
