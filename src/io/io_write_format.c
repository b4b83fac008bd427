/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of writing, and the choice of the format by name or suffix. */
#include "io_write_format.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/core_error.h"

static const struct {
    const char     *name;
    nf_write_format format;
} formats[] = {
    {"npy", NF_WRITE_NPY},     {"npz", NF_WRITE_NPZ},     {"csv", NF_WRITE_CSV},     {"tsv", NF_WRITE_TSV},
    {"txt", NF_WRITE_TXT},     {"fvecs", NF_WRITE_FVECS}, {"bvecs", NF_WRITE_BVECS}, {"ivecs", NF_WRITE_IVECS},
    {"fbin", NF_WRITE_FBIN},   {"u8bin", NF_WRITE_U8BIN}, {"i8bin", NF_WRITE_I8BIN}, {"f16bin", NF_WRITE_F16BIN},
    {"ibin", NF_WRITE_IBIN},   {"raw", NF_WRITE_RAW},     {"bin", NF_WRITE_BIN},
};

#define FORMAT_COUNT (sizeof formats / sizeof formats[0])

void nf_write_params_init(nf_write_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->sync = 1;
}

nf_status nf_write_params_take(nf_context *ctx, const nf_write_params *from, nf_write_params *to)
{
    nf_write_params_init(to);
    if (from == NULL) return NF_OK;
    if (from->struct_size < sizeof from->struct_size) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "struct_size of the write parameters is %zu; use nf_write_params_init",
                       from->struct_size);
    }
    memcpy(to, from, from->struct_size < sizeof *to ? from->struct_size : sizeof *to);
    to->struct_size = sizeof *to;
    return NF_OK;
}

/* "npz, npy, csv": the names of the allowed formats. */
static void list_formats(uint32_t allowed, char out[128])
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        if ((formats[i].format & allowed) == 0) continue;
        length += (size_t)snprintf(out + length, 128 - length, "%s%s", length > 0 ? ", " : "", formats[i].name);
    }
}

static const char *suffix_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash != NULL ? slash : path, '.');
    return dot != NULL ? dot + 1 : "";
}

nf_status nf_write_format_choose(nf_context *ctx, const char *path, const nf_write_params *params, uint32_t allowed,
                                 nf_write_format *out)
{
    const char *name = params->format != NULL ? params->format : suffix_of(path);
    char        names[128];

    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        if ((formats[i].format & allowed) == 0 || strcasecmp(formats[i].name, name) != 0) continue;
        *out = formats[i].format;
        return NF_OK;
    }
    list_formats(allowed, names);
    if (params->format != NULL) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: format '%s' cannot be written here; choose of: %s", path, name,
                       names);
    }
    if (name[0] == '\0') {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: no suffix says the format; give one of: %s", path, names);
    }
    return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: suffix '%s' cannot be written here; choose of: %s", path, name, names);
}

char nf_write_separator(nf_write_format format)
{
    return format == NF_WRITE_TSV ? '\t' : ',';
}
