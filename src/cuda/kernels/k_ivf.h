/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IVF-RaBitQ on the device (arXiv:2602.23999): what host code and kernels share, and the layouts. docs/ivf.md has the
 * formulas and the names of the factors.
 *
 * Short codes. Dims are padded with zero bits to whole chunks of 128. A block has NF_IVF_BLOCK = 32 slots; its codes
 * are word[chunk][g][t][i],   chunk < chunks, g < 8, t < 4, i < 4:   slot 4g + i, dims 128 chunk + 32 t .. + 31, the
 * lowest dim in bit 0. So lane 4g + t of a warp reads with one 16-byte load the words t of slots 4g .. 4g + 3, which is
 * a fragment of 32 rows for the 1-bit matrix instructions and as good for and-and-count; a warp reads 512 bytes in a
 * row. Bit 4g + i of a mask of survivors is slot 4g + i.
 *
 * Whole codes. A row's record has one group of `bits` words for every 32 dims (groups of them): a stream of bits-bit
 * numbers u_i, sign bit and ex code together, dim 0 in the lowest bits. Filling dims have u = 0 and are to be met with
 * q = 0.
 *
 * Queries are padded to `width` = 32 groups values, zeros beyond padded.
 */
#ifndef NF_K_IVF_H
#define NF_K_IVF_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine_ivf.h"

#define NF_K_CHUNK_DIMS 128u
#define NF_K_CHUNK_WORDS (NF_IVF_BLOCK * NF_K_CHUNK_DIMS / 32u) /* of a block's codes: 128 */

static inline uint32_t nf_k_chunks(uint32_t padded)
{
    return (padded + NF_K_CHUNK_DIMS - 1) / NF_K_CHUNK_DIMS;
}

/* Groups of 32 dims. */
static inline uint32_t nf_k_groups_of(uint32_t padded)
{
    return (padded + 31) / 32;
}

/* An index on the device. Row numbers are places in the order of lists; slots count from the start of blocks. */
typedef struct nf_k_index {
    uint32_t        rows, dims, padded, lists, bits, metric;
    uint32_t        chunks, groups, width;
    const uint32_t *list_start;                /* lists + 1: first row of a list */
    const uint32_t *block_start;               /* lists + 1: first block of a list */
    const uint32_t *codes;                     /* blocks x chunks x NF_K_CHUNK_WORDS */
    const float    *add, *rescale, *error;     /* blocks x 32: of short codes */
    const uint32_t *whole;                     /* rows x groups x bits */
    const float    *whole_add, *whole_rescale; /* rows */
    const float    *centroids;                 /* lists x width, zeros beyond padded */
    const float    *rank_offset;               /* lists: the least rank_offset - <q, c> are the nearest lists */
    const float    *mean_dot;                  /* lists: <mean, c> + |mean|^2 */
    const float    *mean;                      /* width: rotated mean */
    const void     *ids;                       /* rows: u64 where wide_ids, else u32 */
    uint32_t        wide_ids;
} nf_k_index;

#endif
