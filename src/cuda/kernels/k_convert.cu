/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows as they came to binary32 or binary64, one thread per number of the result. Every conversion is exact: binary32 holds
 * all integers of 16 bits and all of binary16, binary64 all integers up to 2^53.
 */
#include "k_launch.h"
#include "k_points.h"
#include "nearfield/matrix.h"

namespace {

constexpr unsigned           BLOCK = 256;
constexpr unsigned long long LARGEST_INTEGER = 1ull << 53;

struct half_bits {
    uint16_t bits;
};

/* What values of a type are kept as. */
template <typename From>
struct kept_as {
    typedef double type;
};
template <>
struct kept_as<uint8_t> {
    typedef float type;
};
template <>
struct kept_as<int8_t> {
    typedef float type;
};
template <>
struct kept_as<uint16_t> {
    typedef float type;
};
template <>
struct kept_as<int16_t> {
    typedef float type;
};
template <>
struct kept_as<half_bits> {
    typedef float type;
};
template <>
struct kept_as<float> {
    typedef float type;
};

template <typename From>
__device__ inline bool allowed(From)
{
    return true;
}
__device__ inline bool allowed(unsigned long long value) { return value <= LARGEST_INTEGER; }
__device__ inline bool allowed(long long value)
{
    return value <= (long long)LARGEST_INTEGER && value >= -(long long)LARGEST_INTEGER;
}
/* Every exponent bit set means NaN or infinity. */
__device__ inline bool allowed(half_bits value) { return (value.bits & 0x7c00u) != 0x7c00u; }
__device__ inline bool allowed(float value) { return (__float_as_uint(value) & 0x7f800000u) != 0x7f800000u; }
__device__ inline bool allowed(double value)
{
    return (__double_as_longlong(value) & 0x7ff0000000000000ll) != 0x7ff0000000000000ll;
}

template <typename From>
__device__ inline typename kept_as<From>::type convert(From value)
{
    return (typename kept_as<From>::type)value;
}
__device__ inline float convert(half_bits value)
{
    const unsigned sign = (value.bits & 0x8000u) << 16, exponent = value.bits >> 10 & 31u, fraction = value.bits & 0x3ffu;
    if (exponent == 0) {
        const float magnitude = (float)fraction * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    return __uint_as_float(sign | (exponent + 112u) << 23 | fraction << 13);
}

template <typename From>
__global__ void convert_rows(const From *from, uint64_t first_row, uint32_t count, uint32_t dims, uint32_t stride,
                             typename kept_as<From>::type *values, unsigned long long *first_invalid)
{
    const uint32_t at = blockIdx.x * BLOCK + threadIdx.x;
    if (at >= count) return;
    const uint32_t row = at / stride, column = at - row * stride;
    if (column >= dims) {
        values[at] = 0;
        return;
    }
    const From value = from[row * dims + column];
    values[at] = convert(value);
    if (!allowed(value)) atomicMin(first_invalid, (unsigned long long)((first_row + row) * dims + column));
}

/* The rows of a chunk, and where they go. */
struct chunk {
    const void         *from;
    uint64_t            first_row;
    uint32_t            rows, dims, stride;
    void               *values;
    unsigned long long *first_invalid;
    cudaStream_t        stream;
};

template <typename From>
cudaError_t launch(const chunk &of)
{
    typedef typename kept_as<From>::type kept;
    const uint32_t count = of.rows * of.stride;
    if (count == 0) return cudaSuccess;
    NF_LAUNCH(convert_rows<From>, nf_k_blocks(count, BLOCK), BLOCK, 0, of.stream)
    (static_cast<const From *>(of.from), of.first_row, count, of.dims, of.stride,
     static_cast<kept *>(of.values) + of.first_row * of.stride, of.first_invalid);
    return nf_k_launched();
}

} // namespace

extern "C" cudaError_t nf_k_convert(const void *from, uint32_t dtype, uint64_t first_row, uint32_t rows, uint32_t dims,
                                    uint32_t stride, bool wide, void *values, uint64_t *first_invalid, cudaStream_t stream)
{
    const chunk of = {from,   first_row, rows, dims, stride, values, reinterpret_cast<unsigned long long *>(first_invalid),
                      stream};
    switch (dtype) {
    case NF_DTYPE_U8: return wide ? cudaErrorInvalidValue : launch<uint8_t>(of);
    case NF_DTYPE_I8: return wide ? cudaErrorInvalidValue : launch<int8_t>(of);
    case NF_DTYPE_U16: return wide ? cudaErrorInvalidValue : launch<uint16_t>(of);
    case NF_DTYPE_I16: return wide ? cudaErrorInvalidValue : launch<int16_t>(of);
    case NF_DTYPE_F16: return wide ? cudaErrorInvalidValue : launch<half_bits>(of);
    case NF_DTYPE_F32: return wide ? cudaErrorInvalidValue : launch<float>(of);
    case NF_DTYPE_U32: return wide ? launch<uint32_t>(of) : cudaErrorInvalidValue;
    case NF_DTYPE_I32: return wide ? launch<int32_t>(of) : cudaErrorInvalidValue;
    case NF_DTYPE_U64: return wide ? launch<unsigned long long>(of) : cudaErrorInvalidValue;
    case NF_DTYPE_I64: return wide ? launch<long long>(of) : cudaErrorInvalidValue;
    case NF_DTYPE_F64: return wide ? launch<double>(of) : cudaErrorInvalidValue;
    default: return cudaErrorInvalidValue;
    }
}
