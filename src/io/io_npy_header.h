/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a .npy array that is written. */
#ifndef NF_IO_NPY_HEADER_H
#define NF_IO_NPY_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include "nearfield/matrix.h"

#define NF_NPY_HEADER_MAX 256
#define NF_NPY_AXES_MAX 2

/* Returns NumPy's name of a type in the machine's byte order: "<f4", "|u1"; NULL for an unknown type. Static string. */
const char *nf_npy_descr(nf_dtype dtype);

/* Writes a version 1 header in C order, padded to a multiple of 64 bytes; returns its length. axes 0: a single value.
   */
size_t nf_npy_header(char out[NF_NPY_HEADER_MAX], const char *descr, const uint64_t *shape, uint32_t axes);

#endif
