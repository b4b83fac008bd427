/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the readers share.
 *
 * Every file is opened and mapped by io_read_map.c. A binary format is one function that looks at the mapped bytes,
 * checks the size equation (header + rows * row bytes == file) and says where the matrix lies: an nf_layout.
 * io_read_layout.c turns any layout into a dataset, as a view on the mapping where the machine can use the bytes as
 * they are. Text is parsed (io_csv.h).
 */
#ifndef NF_IO_READ_H
#define NF_IO_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "nearfield/io.h"

#define NF_IO_ROWS_MAX ((uint64_t)INT32_MAX)
#define NF_IO_DIMS_MAX ((uint64_t)1 << 20)

/* A file in memory. data is NULL when the file is empty. */
typedef struct nf_mapping {
    const char    *path; /* as the caller named it; borrowed for the call */
    const uint8_t *data;
    uint64_t       bytes;
    bool           mapped; /* to be unmapped by nf_mapping_close; else the caller's memory */
} nf_mapping;

/* Where a matrix lies in a mapped file. */
typedef struct nf_layout {
    uint64_t offset; /* of the first value */
    uint64_t rows;
    uint32_t dims;
    nf_dtype dtype;
    uint64_t stride;  /* bytes from row to row (C order) */
    bool     swapped; /* values are in the other byte order */
    bool     fortran; /* column by column, packed */
    char     detail[96];
} nf_layout;

/* A binary format's reader: fills *layout from the mapped bytes, or fails with NF_ERR_FORMAT. */
typedef nf_status (*nf_layout_fn)(nf_context *ctx, const nf_mapping *file, const nf_read_params *params,
                                  nf_layout *layout);

nf_status nf_npy_layout(nf_context *ctx, const nf_mapping *file, const nf_read_params *params, nf_layout *layout);
/* The same for arrays that may hold truth values, which are then u8. */
nf_status nf_npy_layout_with_truth(nf_context *ctx, const nf_mapping *file, nf_layout *layout);
nf_status nf_raw_layout(nf_context *ctx, const nf_mapping *file, const nf_read_params *params, nf_layout *layout);

/* These two learn the type of the values from layout->dtype, which the format's name gives. */
nf_status nf_vecs_layout(nf_context *ctx, const nf_mapping *file, const nf_read_params *params, nf_layout *layout);
nf_status nf_bin_layout(nf_context *ctx, const nf_mapping *file, const nf_read_params *params, nf_layout *layout);

/* Opens and maps a regular file. NF_ERR_IO. */
nf_status nf_mapping_open(nf_context *ctx, const char *path, nf_mapping *file);
void      nf_mapping_close(nf_mapping *file);

/* Tells the system that bytes offset .. offset + bytes - 1 are needed soon, in order when they are read only once. */
void nf_mapping_advise(const nf_mapping *file, uint64_t offset, uint64_t bytes, bool once);

/* nf_read_matrix for a file's bytes in memory, which must outlive the dataset: the entry for tests and fuzzing. name
 * stands in for the path, also in choosing the format. */
nf_status nf_read_memory(nf_context *ctx, const char *name, const void *data, uint64_t bytes,
                         const nf_read_params *params, nf_dataset **out);

/* Fails with NF_ERR_FORMAT unless 1 <= dims <= NF_IO_DIMS_MAX. */
nf_status nf_dims_check(nf_context *ctx, const char *path, uint64_t dims);

/* Turns params->rows into the first row and the number of rows. NF_ERR_ARGUMENT: beyond the file's rows. */
nf_status nf_rows_resolve(nf_context *ctx, const char *path, const nf_read_params *params, uint64_t file_rows,
                          uint64_t *first, uint64_t *count);

/* Makes the dataset's matrix from a layout. Takes the mapping over when the matrix is a view on it. */
nf_status nf_layout_read(nf_context *ctx, nf_mapping *file, const nf_layout *layout, const nf_read_params *params,
                         nf_dataset *dataset);

/* Leaves out the rows of a float matrix that hold NaN or infinity. */
nf_status nf_dataset_drop_invalid(nf_context *ctx, nf_dataset *dataset);

/* Parses a text file into the dataset, or describes it. format: "csv", "tsv" or "txt". */
nf_status nf_csv_read(nf_context *ctx, nf_mapping *file, const char *format, const nf_read_params *params,
                      nf_dataset *dataset);
nf_status nf_csv_info(nf_context *ctx, const nf_mapping *file, const char *format, const nf_read_params *params,
                      nf_file_info *info);

/* Little-endian numbers at any address. */
static inline uint32_t nf_load_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t nf_load_u64(const uint8_t *at)
{
    return (uint64_t)nf_load_u32(at) | (uint64_t)nf_load_u32(at + 4) << 32;
}

/* Whether little-endian bytes are in the other order here. */
static inline bool nf_little_is_swapped(void)
{
    return __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__;
}

#endif
