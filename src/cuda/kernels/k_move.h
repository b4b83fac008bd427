/* SPDX-License-Identifier: Apache-2.0 */
/* Moving numbers and rows on the device. */
#ifndef NF_K_MOVE_H
#define NF_K_MOVE_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Copies rows of dims values to rows of another length, zeros beyond. */
cudaError_t nf_k_change_stride(const float *from, uint32_t from_stride, uint32_t rows, uint32_t dims, float *to,
                               uint32_t to_stride, cudaStream_t stream);

/* to[i] = from[which[i]] */
cudaError_t nf_k_take_numbers(const uint32_t *from, const uint32_t *which, uint32_t count, uint32_t *to,
                              cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
