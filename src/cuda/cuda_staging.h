/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between the caller's pageable memory and the device, through pinned staging buffers: while one buffer is in flight
 * on a stream of its own, the context's threads fill or empty another (RT-HiSS, section IV-F2). Filling the caller's fresh
 * memory by several threads at once is what makes large results fast: the kernel gives it page by page.
 *
 * Both wait for what is on stream before they begin (download) or make stream wait for the copy (upload), and return when
 * the host memory has been read or written.
 */
#ifndef NF_CUDA_STAGING_H
#define NF_CUDA_STAGING_H

#include "cuda_device.h"

/* rows rows of row_bytes bytes each, stride_bytes apart on the host, one after another on the device. */
nf_status nf_upload_rows(nf_context *ctx, nf_device *device, cudaStream_t stream, void *to, const void *from, uint64_t rows,
                         uint64_t row_bytes, uint64_t stride_bytes);
nf_status nf_download(nf_context *ctx, nf_device *device, cudaStream_t stream, void *to, const void *from, uint64_t bytes);

/* Frees the pinned buffers that are kept for the next copy. No copy may be running. */
void nf_staging_trim(void);

#endif
