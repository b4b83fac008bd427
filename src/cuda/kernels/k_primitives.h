/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting and scanning arrays on the device: CUB's, behind a C interface, so that one file pays for its templates
 * and the emulated device can have plain loops instead (tests/emulator/k_primitives.cpp).
 *
 * Each function is called twice: with temp NULL it stores the bytes of scratch that it wants (at least 1) in *temp_bytes and
 * does nothing; with that much scratch it does its work on stream. Arrays of a call must not overlap. Results do not depend
 * on the device: sorts are stable, sums are of integers.
 */
#ifndef NF_K_PRIMITIVES_H
#define NF_K_PRIMITIVES_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sorts pairs by bits begin_bit <= i < end_bit of the key, ascending. */
cudaError_t nf_k_sort_u64(void *temp, size_t *temp_bytes, const uint64_t *keys_in, uint64_t *keys_out,
                          const uint32_t *values_in, uint32_t *values_out, uint32_t count, int begin_bit, int end_bit,
                          cudaStream_t stream);
cudaError_t nf_k_sort_u32(void *temp, size_t *temp_bytes, const uint32_t *keys_in, uint32_t *keys_out,
                          const uint32_t *values_in, uint32_t *values_out, uint32_t count, int begin_bit, int end_bit,
                          cudaStream_t stream);

/* out[i] = in[0] + ... + in[i - 1], modulo 2^64. */
cudaError_t nf_k_exclusive_sum_u32(void *temp, size_t *temp_bytes, const uint32_t *in, uint64_t *out, uint64_t count,
                                   cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
