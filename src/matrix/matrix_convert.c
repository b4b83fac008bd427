/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of elements and rows. Values are read with memcpy: file layouts such as .bvecs leave rows unaligned. */
#include "matrix_convert.h"

#include <math.h>
#include <string.h>

#define LARGEST_INTEGER ((uint64_t)1 << 53)

float nf_f16_to_f32(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 0x1fu;
    const uint32_t fraction = half & 0x3ffu;
    uint32_t       bits;
    float          value;

    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24, exact in binary32 */
        value = (float)fraction * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    } else if (exponent == 31) {
        bits = sign | 0x7f800000u | fraction << 13;
    } else {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Shifts right by count with rounding to nearest, ties to even. */
static uint32_t shift_round(uint32_t value, uint32_t count)
{
    const uint32_t half = 1u << (count - 1);
    const uint32_t kept = value >> count;
    const uint32_t rest = value & ((1u << count) - 1);
    return kept + (rest > half || (rest == half && (kept & 1u)) ? 1u : 0u);
}

uint16_t nf_f32_to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;

    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7c00u); /* 65536 and more, infinity */
    if (magnitude < 0x33000000u) return sign;                        /* below half of the smallest subnormal */
    if (magnitude < 0x38800000u) {                                   /* subnormal */
        const uint32_t shift = 126 - (magnitude >> 23);
        return (uint16_t)(sign | shift_round((magnitude & 0x7fffffu) | 0x800000u, shift));
    }
    return (uint16_t)(sign | shift_round(magnitude - 0x38000000u, 13)); /* a carry into infinity is right */
}

uint64_t nf_matrix_stride(const nf_matrix *matrix)
{
    if (matrix->stride_bytes != 0) return matrix->stride_bytes;
    return (uint64_t)matrix->dims * nf_dtype_bytes((nf_dtype)matrix->dtype);
}

const void *nf_matrix_row(const nf_matrix *matrix, uint64_t row)
{
    return (const char *)matrix->data + row * nf_matrix_stride(matrix);
}

#define CONVERT_ROW(type)                              \
    for (uint32_t i = 0; i < dims; i++) {              \
        type value;                                    \
        memcpy(&value, from + i * sizeof value, sizeof value); \
        out[i] = (double)value;                        \
    }                                                  \
    break

void nf_matrix_row_f64(const nf_matrix *matrix, uint64_t row, double *out)
{
    const char    *from = nf_matrix_row(matrix, row);
    const uint32_t dims = matrix->dims;

    switch ((nf_dtype)matrix->dtype) {
    case NF_DTYPE_U8: CONVERT_ROW(uint8_t);
    case NF_DTYPE_I8: CONVERT_ROW(int8_t);
    case NF_DTYPE_U16: CONVERT_ROW(uint16_t);
    case NF_DTYPE_I16: CONVERT_ROW(int16_t);
    case NF_DTYPE_U32: CONVERT_ROW(uint32_t);
    case NF_DTYPE_I32: CONVERT_ROW(int32_t);
    case NF_DTYPE_U64: CONVERT_ROW(uint64_t);
    case NF_DTYPE_I64: CONVERT_ROW(int64_t);
    case NF_DTYPE_F32: CONVERT_ROW(float);
    case NF_DTYPE_F64: memcpy(out, from, dims * sizeof(double)); break;
    case NF_DTYPE_F16:
        for (uint32_t i = 0; i < dims; i++) {
            uint16_t half;
            memcpy(&half, from + i * sizeof half, sizeof half);
            out[i] = (double)nf_f16_to_f32(half);
        }
        break;
    case NF_DTYPE_NONE: break;
    }
}

/* Every exponent bit set means NaN or infinity. */
#define SCAN_FLOAT(type, mask)                                 \
    for (uint32_t i = 0; i < dims; i++) {                      \
        type bits;                                             \
        memcpy(&bits, from + i * sizeof bits, sizeof bits);    \
        if ((bits & (mask)) == (mask)) return i;               \
    }                                                          \
    return dims

uint32_t nf_matrix_row_invalid(const nf_matrix *matrix, uint64_t row)
{
    const char    *from = nf_matrix_row(matrix, row);
    const uint32_t dims = matrix->dims;

    switch ((nf_dtype)matrix->dtype) {
    case NF_DTYPE_F16: SCAN_FLOAT(uint16_t, 0x7c00u);
    case NF_DTYPE_F32: SCAN_FLOAT(uint32_t, 0x7f800000u);
    case NF_DTYPE_F64: SCAN_FLOAT(uint64_t, 0x7ff0000000000000u);
    case NF_DTYPE_U64:
    case NF_DTYPE_I64:
        for (uint32_t i = 0; i < dims; i++) {
            uint64_t value;
            memcpy(&value, from + i * sizeof value, sizeof value);
            if (matrix->dtype == NF_DTYPE_I64 && (int64_t)value < 0) value = 0 - value;
            if (value > LARGEST_INTEGER) return i;
        }
        return dims;
    default: return dims;
    }
}
