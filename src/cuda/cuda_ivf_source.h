/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a build in the CUDA engine: what its steps share. */
#ifndef NF_CUDA_IVF_SOURCE_H
#define NF_CUDA_IVF_SOURCE_H

#include "cuda_ivf.h"

/* The index that is encoded: on the device as it will lie in the file, where it fits there. */
typedef struct nf_encoder {
    nf_blocks           arrays;  /* of the whole index */
    nf_blocks           scratch; /* for a block of rows */
    nf_device_rotation  rotation;
    float              *centroids, *mean; /* rotated */
    uint64_t           *list_start, *block_start;
    bool                on_device;
    uint8_t            *blocks, *records;           /* on_device */
    uint8_t            *host_blocks, *host_records; /* where they are to go */
    uint64_t            block_bytes, record_bytes;
    float              *rotated;
    uint8_t            *flat; /* flat rows (k_encode.h) */
    uint32_t           *labels, *slots;
    double             *code_errors;
    unsigned long long *too_far;
} nf_encoder;

struct nf_ivf_source {
    nf_blocks        blocks; /* on the stream that computes */
    cudaStream_t     copies; /* the stream of the next block's upload */
    const nf_matrix *data;
    uint32_t         metric, stride;
    uint64_t         row_bytes, pitch; /* of a row as it came: on the host, and on the device */

    /* resident: all rows are at raw[0]; else two blocks take turns */
    bool     resident;
    uint8_t *raw[2];
    unsigned turn; /* which of the two holds the block that is loaded */
    uint64_t raw_first[2], raw_count[2];

    nf_blocks           loaded;       /* memory for blocks; none before block_rows and after encode_end */
    uint64_t            most;         /* rows of a block */
    uint64_t            first, count; /* the block that is loaded */
    float              *rows;         /* as index rows */
    float              *mean;         /* dims */
    bool                has_mean;
    float              *host_mean; /* what mean holds, with has_mean */
    unsigned long long *invalid;

    /* assign */
    uint32_t  lists;
    float    *centroids, *halves;
    uint32_t *labels;

    nf_encoder *encoder; /* NULL: not begun */
};

/* Frees the memory for blocks, and the centroids. */
void nf_source_unload(nf_ivf_source *source);

/* While the device computes: the upload of the block after the loaded one. */
nf_status nf_source_prefetch(nf_context *ctx, nf_ivf_source *source);

void nf_encoder_close(nf_encoder *encoder);

#endif
