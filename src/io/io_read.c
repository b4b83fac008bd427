/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: parameters, the table of formats, and the two public entries. */
#include "io_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/core_context.h"
#include "io_dataset.h"

/* A format, also its file suffix. layout is NULL for text. */
typedef struct read_format {
    const char  *name;
    nf_layout_fn layout;
    nf_dtype     dtype;
} read_format;

static const read_format FORMATS[] = {
    {"npy", nf_npy_layout, NF_DTYPE_NONE},
    {"csv", NULL, NF_DTYPE_NONE},
    {"tsv", NULL, NF_DTYPE_NONE},
    {"txt", NULL, NF_DTYPE_NONE},
    {"fvecs", nf_vecs_layout, NF_DTYPE_F32},
    {"bvecs", nf_vecs_layout, NF_DTYPE_U8},
    {"ivecs", nf_vecs_layout, NF_DTYPE_I32},
    {"fbin", nf_bin_layout, NF_DTYPE_F32},
    {"u8bin", nf_bin_layout, NF_DTYPE_U8},
    {"i8bin", nf_bin_layout, NF_DTYPE_I8},
    {"f16bin", nf_bin_layout, NF_DTYPE_F16},
    {"hbin", nf_bin_layout, NF_DTYPE_F16},
    {"ibin", nf_bin_layout, NF_DTYPE_I32},
    {"raw", nf_raw_layout, NF_DTYPE_NONE},
};

#define FORMAT_NAMES "npy csv tsv txt fvecs bvecs ivecs fbin u8bin i8bin f16bin hbin ibin raw"

void nf_read_params_init(nf_read_params *params)
{
    *params = (nf_read_params){.struct_size = sizeof *params, .rows = {0, UINT64_MAX}};
}

/* Copies what the caller's version of the struct has; the rest keeps its default. */
static nf_status resolve_params(nf_context *ctx, const nf_read_params *given, nf_read_params *params)
{
    nf_read_params_init(params);
    if (!given) return NF_OK;
    if (given->struct_size < sizeof given->struct_size) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "struct_size of the read parameters is %zu; use nf_read_params_init",
                       given->struct_size);
    }
    memcpy(params, given, given->struct_size < sizeof *params ? given->struct_size : sizeof *params);
    params->struct_size = sizeof *params;
    return NF_OK;
}

/* The text after the last dot of the file's own name; empty when there is none. */
static const char *suffix_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash : path, '.');
    return dot ? dot + 1 : "";
}

static const read_format *format_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++) {
        if (strcasecmp(name, FORMATS[i].name) == 0) return &FORMATS[i];
    }
    return NULL;
}

static nf_status format_choose(nf_context *ctx, const char *path, const nf_read_params *params, const read_format **out)
{
    const char *suffix = suffix_of(path);
    *out = format_by_name(params->format ? params->format : suffix);
    if (*out) return NF_OK;
    if (params->format) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: format '%s' is not known; choose of: " FORMAT_NAMES, path,
                       params->format);
    }
    if (!*suffix) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: the name has no suffix; give the format: " FORMAT_NAMES, path);
    }
    return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: suffix '%s' is not known; give the format: " FORMAT_NAMES, path, suffix);
}

nf_status nf_dims_check(nf_context *ctx, const char *path, uint64_t dims)
{
    if (dims >= 1 && dims <= NF_IO_DIMS_MAX) return NF_OK;
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: rows have %" PRIu64 " values; 1 to %" PRIu64 " are allowed", path, dims,
                   NF_IO_DIMS_MAX);
}

nf_status nf_rows_resolve(nf_context *ctx, const char *path, const nf_read_params *params, uint64_t file_rows,
                          uint64_t *first, uint64_t *count)
{
    const uint64_t begin = params->rows[0];
    const uint64_t end = params->rows[1] == UINT64_MAX ? file_rows : params->rows[1];
    if (begin > file_rows || end > file_rows) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: rows up to %" PRIu64 " were asked for, the file has %" PRIu64, path,
                       end > begin ? end : begin, file_rows);
    }
    if (begin > end) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: rows %" PRIu64 ":%" PRIu64 " end before they begin", path, begin,
                       end);
    }
    if (end - begin > NF_IO_ROWS_MAX) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: %" PRIu64 " rows are too many, %" PRIu64 " can be read at a time",
                       path, end - begin, NF_IO_ROWS_MAX);
    }
    *first = begin;
    *count = end - begin;
    return NF_OK;
}

/* The dims parameter describes raw files; where a file says its own, the two must agree. */
static nf_status check_asked_dims(nf_context *ctx, const char *path, const nf_read_params *params, uint32_t dims)
{
    if (params->dims == 0 || params->dims == dims) return NF_OK;
    return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: rows have %" PRIu32 " values, %" PRIu32 " were asked for", path, dims,
                   params->dims);
}

static nf_status find_layout(nf_context *ctx, const nf_mapping *file, const read_format *format,
                             const nf_read_params *params, nf_layout *layout)
{
    if (params->columns) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: columns can be chosen in text files only", file->path);
    }
    *layout = (nf_layout){.dtype = format->dtype};
    return format->layout(ctx, file, params, layout);
}

static nf_status read_mapped(nf_context *ctx, nf_mapping *file, const read_format *format, const nf_read_params *params,
                             nf_dataset *dataset)
{
    if (!format->layout) {
        NF_TRY(nf_csv_read(ctx, file, format->name, params, dataset));
    } else {
        nf_layout layout;
        NF_TRY(find_layout(ctx, file, format, params, &layout));
        NF_TRY(nf_layout_read(ctx, file, &layout, params, dataset));
    }
    return check_asked_dims(ctx, file->path, params, dataset->matrix.dims);
}

static nf_status read_opened(nf_context *ctx, nf_mapping *file, const read_format *format, const nf_read_params *params,
                             nf_dataset **out)
{
    nf_dataset *dataset = nf_alloc_zero(ctx, 1, sizeof *dataset);
    if (dataset == NULL) return nf_alloc_status(ctx);
    const nf_status status = read_mapped(ctx, file, format, params, dataset);
    if (status < 0) {
        nf_dataset_release(dataset);
        return status;
    }
    dataset->file.path = NULL; /* the caller's text need not outlive the call */
    *out = dataset;
    return NF_OK;
}

static nf_status prepare(nf_context *ctx, const char *path, const nf_read_params *given, nf_read_params *params,
                         const read_format **format)
{
    NF_TRY(resolve_params(ctx, given, params));
    return format_choose(ctx, path, params, format);
}

nf_status nf_read_matrix(nf_context *ctx, const char *path, const nf_read_params *params, nf_dataset **out)
{
    nf_context_begin(ctx);
    if (out) *out = NULL;
    if (!path || !out) return nf_fail(ctx, NF_ERR_ARGUMENT, "nf_read_matrix needs a path and a place for the dataset");
    nf_read_params     resolved;
    const read_format *format = NULL;
    nf_mapping         file;
    NF_TRY(prepare(ctx, path, params, &resolved, &format));
    nf_status status = nf_mapping_open(ctx, path, &file);
    if (status >= 0) status = read_opened(ctx, &file, format, &resolved, out);
    nf_mapping_close(&file);
    return status;
}

nf_status nf_read_memory(nf_context *ctx, const char *name, const void *data, uint64_t bytes,
                         const nf_read_params *params, nf_dataset **out)
{
    nf_context_begin(ctx);
    *out = NULL;
    nf_read_params     resolved;
    const read_format *format = NULL;
    NF_TRY(prepare(ctx, name, params, &resolved, &format));
    nf_mapping file = {.path = name, .data = bytes > 0 ? data : NULL, .bytes = bytes};
    return read_opened(ctx, &file, format, &resolved, out);
}

static nf_status describe_layout(nf_context *ctx, const nf_mapping *file, const read_format *format,
                                 const nf_read_params *params, nf_file_info *info)
{
    nf_layout layout;
    NF_TRY(find_layout(ctx, file, format, params, &layout));
    info->rows = layout.rows;
    info->dims = layout.dims;
    info->dtype = (uint32_t)layout.dtype;
    memcpy(info->detail, layout.detail, sizeof info->detail);
    return NF_OK;
}

nf_status nf_read_info(nf_context *ctx, const char *path, const nf_read_params *params, nf_file_info *info)
{
    nf_context_begin(ctx);
    if (!path || !info) return nf_fail(ctx, NF_ERR_ARGUMENT, "nf_read_info needs a path and a place for the answer");
    nf_read_params     resolved;
    const read_format *format = NULL;
    nf_mapping         file;
    NF_TRY(prepare(ctx, path, params, &resolved, &format));
    nf_status status = nf_mapping_open(ctx, path, &file);
    if (status < 0) goto cleanup;
    nf_file_info found = {.bytes = file.bytes};
    snprintf(found.format, sizeof found.format, "%s", format->name);
    status = format->layout ? describe_layout(ctx, &file, format, &resolved, &found)
                            : nf_csv_info(ctx, &file, format->name, &resolved, &found);
    if (status >= 0) *info = found;
cleanup:
    nf_mapping_close(&file);
    return status;
}
