/* SPDX-License-Identifier: Apache-2.0 */
/* What the writers share: parameters and the choice of the format. */
#ifndef NF_IO_WRITE_FORMAT_H
#define NF_IO_WRITE_FORMAT_H

#include <stdbool.h>

#include "nearfield/io.h"

/* Bits, so that a writer can say which ones it takes. */
typedef enum nf_write_format {
    NF_WRITE_NPY = 1 << 0,
    NF_WRITE_NPZ = 1 << 1,
    NF_WRITE_CSV = 1 << 2,
    NF_WRITE_TSV = 1 << 3,
    NF_WRITE_TXT = 1 << 4,
    NF_WRITE_FVECS = 1 << 5,
    NF_WRITE_BVECS = 1 << 6,
    NF_WRITE_IVECS = 1 << 7,
    NF_WRITE_FBIN = 1 << 8,
    NF_WRITE_U8BIN = 1 << 9,
    NF_WRITE_I8BIN = 1 << 10,
    NF_WRITE_F16BIN = 1 << 11,
    NF_WRITE_IBIN = 1 << 12,
    NF_WRITE_RAW = 1 << 13,
    NF_WRITE_BIN = 1 << 14
} nf_write_format;

#define NF_WRITE_TEXT (NF_WRITE_CSV | NF_WRITE_TSV | NF_WRITE_TXT)

/* Copies what the caller's parameters (may be NULL) hold; the others keep their defaults. NF_ERR_ARGUMENT. */
nf_status nf_write_params_take(nf_context *ctx, const nf_write_params *from, nf_write_params *to);

/* The format by params->format, else by the path's suffix; one of the allowed bits. NF_ERR_ARGUMENT. */
nf_status nf_write_format_choose(nf_context *ctx, const char *path, const nf_write_params *params, uint32_t allowed,
                                 nf_write_format *out);

/* Between the values of a line: a tab for .tsv, else a comma. */
char nf_write_separator(nf_write_format format);

#endif
