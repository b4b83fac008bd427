/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement on tensor cores: an all-pairs product of tiles with a threshold, and a proven bound.
 *
 * Images. Rows of both sides are made small once per search: binary16 of (x - centre) * scale, or bytes where the values are
 * bytes. A tile is NF_K_TENSOR_TILE consecutive positions, a chunk NF_K_TENSOR_CHUNK bytes of each of its rows; in a chunk
 * the 16-byte units of row r are permuted by r % 8, which is what the tensor cores of Hopper read without bank conflicts:
 *
 *     byte b of row r of chunk c of tile t: image[((t * chunks + c) * TILE + r) * CHUNK + ((b / 16 ^ r % 8) * 16 + b % 16)]
 *
 * Binary16. Accumulators start at T/2 - |x|^2/2 - |y|^2/2, so that after the product their sign says whether the squared
 * distance t of the images is above T. With r the length of what rounding took from a row, E the bound of the arithmetic's
 * error, both as maxima over a tile, and eps the radius times scale:
 *
 *     certainly out   t > T = (eps + r_x + r_y)^2 + E        certainly in   t < (eps - r_x - r_y)^2 - E
 *
 * and what is neither is open (docs/numerics.md, section 12). Bytes. 2 x.y - |x|^2 - |y|^2 + floor(radius^2) is exact.
 */
#ifndef NF_K_TENSOR_H
#define NF_K_TENSOR_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "k_hits.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NF_K_TENSOR_TILE 256u
#define NF_K_TENSOR_CHUNK 128u

/* One side of a search. */
typedef struct nf_k_images {
    uint8_t *image;
    void    *norms;       /* per row of the tiles: float |x|^2 / 2, infinite beyond the rows; bytes: int32 |x|^2 */
    float   *rest;        /* per tile: largest r; bytes: NULL */
    float   *length;      /* per tile: largest length of an image's row; bytes: NULL */
    uint32_t rows, tiles, chunks;
} nf_k_images;

/* What an image is made of. */
typedef struct nf_k_imaging {
    nf_k_rows     rows;   /* binary32 */
    const double *centre; /* dims values; bytes: NULL */
    double        scale;  /* a power of two */
    float         bias;   /* bytes: what is added to a value to make it 0 to 255 */
    bool          bytes;
    bool          whole;  /* values and centre are whole numbers: their differences are exact */
} nf_k_imaging;

/* centre[k] = mean of dim k over some of the rows, whole where integers: any point near the rows will do. rows > 0. */
cudaError_t nf_k_tensor_centre(const nf_k_rows *rows, uint64_t count, bool integers, double *centre, cudaStream_t stream);

/* Fills images; rest and length are zeroed before. */
cudaError_t nf_k_tensor_images(const nf_k_imaging *from, const nf_k_images *images, cudaStream_t stream);

/* Groups of one side: where they start (count + 1 positions), and the size of all but one, which may be smaller. */
typedef struct nf_k_starts {
    const uint32_t *start;
    uint32_t        count, size;
} nf_k_starts;

/* near[(q - begin) * words + w], bit b: whether data tile 32 w + b may hold a neighbour of query tile q, begin <= q < end: by
 * boxes and balls of the groups that the tiles have rows of, as method boxes. */
cudaError_t nf_k_tensor_near(const nf_k_group_pairs *job, nf_k_starts queries, nf_k_starts data, uint32_t begin, uint32_t end,
                             uint32_t words, uint32_t *near, cudaStream_t stream);

typedef struct nf_k_tensor {
    nf_k_images     x, y;            /* queries, data */
    const uint32_t *near;            /* of tiles from tile_begin on; NULL: all tiles are near */
    uint32_t        near_words;
    uint32_t        tile_begin, tile_end; /* query tiles */
    uint32_t        query_begin, query_end; /* positions: other rows of the tiles are left out */
    uint32_t        segment;         /* data tiles of a unit of work */
    uint32_t       *next;            /* device: number of the next unit, zeroed */
    bool            bytes;
    bool            hopper;          /* the kernel for compute capability 9.0 */
    double          radius;          /* times scale */
    double          accumulation;    /* E / (2 S) of a product of chunks * 64 dims, without what the start adds */
    int32_t         whole, sure_from; /* bytes: as engine_rule.h */
    nf_k_refine     refine;          /* who the pairs are and where they go: count or append */
} nf_k_tensor;

/* Whether the module holds the kernel for compute capability 9.0. */
bool nf_k_tensor_has_hopper(void);

cudaError_t nf_k_tensor_run(cudaStream_t stream, const nf_k_tensor *job, uint32_t processors);

/* The two of them: k_tensor_wgmma.cu, k_tensor_mma.cu. */
cudaError_t nf_k_tensor_hopper_run(cudaStream_t stream, const nf_k_tensor *job, uint32_t processors);
cudaError_t nf_k_tensor_mma_run(cudaStream_t stream, const nf_k_tensor *job, uint32_t processors);

#ifdef __cplusplus
}
#endif

#endif
