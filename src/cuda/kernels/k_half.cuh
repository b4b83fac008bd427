/* SPDX-License-Identifier: Apache-2.0 */
/* binary16 as its bits: by the device's instructions, and by hand where there is none. */
#ifndef NF_K_HALF_CUH
#define NF_K_HALF_CUH

#include <stdint.h>

#include "k_launch.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace {

#ifdef __CUDACC__

__device__ inline uint16_t half_of(float x)
{
    return __half_as_ushort(__float2half_rn(x));
}

__device__ inline float value_of(uint16_t bits16)
{
    return __half2float(__ushort_as_half(bits16));
}

#else

__device__ inline uint16_t half_of(float x)
{
    const uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return 0x7fffu;
    if (size >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
    /* Below the normal ones, adding 1/2 rounds to the unit 2^-24. */
    if (size < 0x38800000u) return (uint16_t)(sign | (__float_as_uint(__uint_as_float(size) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | (size - 0x38000000u + 0xfffu + (size >> 13 & 1u)) >> 13);
}

__device__ inline float value_of(uint16_t bits16)
{
    const uint32_t sign = (uint32_t)(bits16 & 0x8000u) << 16, exponent = bits16 >> 10 & 31u, digits = bits16 & 0x3ffu;
    if (exponent == 0) return (sign != 0 ? -1.0f : 1.0f) * ((float)digits * 0x1p-24f);
    return __uint_as_float(sign | (exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23) | digits << 13);
}

#endif

} // namespace

#endif
