/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a .npy array: magic, version 1.0, a 16-bit length, then a Python dictionary padded with spaces up to a
 * newline, so that the values begin at a multiple of 64 bytes. At most 200 bytes with two axes of 20 digits, so the
 * buffer cannot overflow.
 */
#include "io_npy_header.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX_BYTES 10
#define ALIGNMENT 64

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ORDER "<"
#else
#define ORDER ">"
#endif

const char *nf_npy_descr(nf_dtype dtype)
{
    switch (dtype) {
    case NF_DTYPE_U8: return "|u1";
    case NF_DTYPE_I8: return "|i1";
    case NF_DTYPE_U16: return ORDER "u2";
    case NF_DTYPE_I16: return ORDER "i2";
    case NF_DTYPE_U32: return ORDER "u4";
    case NF_DTYPE_I32: return ORDER "i4";
    case NF_DTYPE_U64: return ORDER "u8";
    case NF_DTYPE_I64: return ORDER "i8";
    case NF_DTYPE_F16: return ORDER "f2";
    case NF_DTYPE_F32: return ORDER "f4";
    case NF_DTYPE_F64: return ORDER "f8";
    case NF_DTYPE_NONE: break;
    }
    return NULL;
}

/* A Python tuple: "()", "(3,)", "(3, 2)". */
static void shape_text(char out[64], const uint64_t *shape, uint32_t axes)
{
    if (axes == 0) {
        snprintf(out, 64, "()");
    } else if (axes == 1) {
        snprintf(out, 64, "(%" PRIu64 ",)", shape[0]);
    } else {
        snprintf(out, 64, "(%" PRIu64 ", %" PRIu64 ")", shape[0], shape[1]);
    }
}

size_t nf_npy_header(char out[NF_NPY_HEADER_MAX], const char *descr, const uint64_t *shape, uint32_t axes)
{
    char tuple[64];

    shape_text(tuple, shape, axes);
    memset(out, ' ', NF_NPY_HEADER_MAX);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    const int length = snprintf(out + PREFIX_BYTES, NF_NPY_HEADER_MAX - PREFIX_BYTES,
                                "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, tuple);
    const size_t used = PREFIX_BYTES + (size_t)length + 1; /* with the newline */
    const size_t total = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    out[PREFIX_BYTES + length] = ' ';
    out[total - 1] = '\n';
    out[8] = (char)((total - PREFIX_BYTES) & 0xff);
    out[9] = (char)((total - PREFIX_BYTES) >> 8);
    return total;
}
