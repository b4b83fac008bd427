/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices: views on rows of numbers that the caller owns. */
#ifndef NEARFIELD_MATRIX_H
#define NEARFIELD_MATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, text, bytes per value) */
#define NF_DTYPE_MAP(X)          \
    X(NF_DTYPE_U8, 1, "u8", 1)   \
    X(NF_DTYPE_I8, 2, "i8", 1)   \
    X(NF_DTYPE_U16, 3, "u16", 2) \
    X(NF_DTYPE_I16, 4, "i16", 2) \
    X(NF_DTYPE_U32, 5, "u32", 4) \
    X(NF_DTYPE_I32, 6, "i32", 4) \
    X(NF_DTYPE_U64, 7, "u64", 8) \
    X(NF_DTYPE_I64, 8, "i64", 8) \
    X(NF_DTYPE_F16, 9, "f16", 2) \
    X(NF_DTYPE_F32, 10, "f32", 4) \
    X(NF_DTYPE_F64, 11, "f64", 8)

typedef enum nf_dtype {
    NF_DTYPE_NONE = 0,
#define NF_DTYPE_ENUM(name, number, text, bytes) name = (number),
    NF_DTYPE_MAP(NF_DTYPE_ENUM)
#undef NF_DTYPE_ENUM
} nf_dtype;

typedef enum nf_place { NF_PLACE_HOST = 0, NF_PLACE_DEVICE = 1 } nf_place;

/* A view: never owned, must outlive the call that takes it (not the index that is made from it). Values of 16 bits and
 * more are in the machine's byte order and may be unaligned. Integers beyond 2^53 in absolute value are refused. */
typedef struct nf_matrix {
    const void *data;
    uint64_t    rows;         /* at most 2^31 - 1 */
    uint32_t    dims;         /* at least 1, at most 2^20 */
    uint32_t    dtype;        /* nf_dtype */
    uint64_t    stride_bytes; /* from row to row; 0: packed rows */
    uint32_t    place;        /* nf_place */
} nf_matrix;

/* Returns the bytes of one value, 0 for an unknown type. Any thread. */
NF_API size_t nf_dtype_bytes(nf_dtype dtype);

/* Returns "u8", "f32", ...; "none" for an unknown type. Static string. Any thread. */
NF_API const char *nf_dtype_name(nf_dtype dtype);

/* Returns the type that a name stands for ("f32", "float32", "uint8", ...), NF_DTYPE_NONE for an unknown one. */
NF_API nf_dtype nf_dtype_from_name(const char *name);

#ifdef __cplusplus
}
#endif

#endif
