/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix files that anyone may have written. FUZZ_FORMATS names the formats of a target, separated by blanks.
 *
 * The first two bytes choose format and parameters, the rest is the file. It is described and read, every value is
 * used, and what was read is written again: as .npy, and in its own format, where it must read back as the same values.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fuzz_common.h"

#define CHOICES 2u

static const char *const columns[] = {NULL, "1", "2,1", "1-3", "a,b", "1,1,2", "3-", "x y"};
static const char *const dtypes[] = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "f32", "f64", "half"};

/* Which of the words of FUZZ_FORMATS the number stands for. */
static void choose_format(unsigned number, char *format, size_t room)
{
    const char *all = FUZZ_FORMATS;
    unsigned    count = 1;
    for (const char *at = all; *at; at++) count += *at == ' ';
    for (number %= count; number > 0; number--) all = strchr(all, ' ') + 1;
    snprintf(format, room, "%.*s", (int)strcspn(all, " "), all);
}

static void choose_params(const uint8_t *choices, char *format, size_t room, nf_read_params *params)
{
    nf_read_params_init(params);
    choose_format(choices[0] & 7u, format, room);
    params->format = format;
    params->skip_invalid = choices[0] >> 3 & 1u;
    if (choices[0] & 16) {
        params->rows[0] = choices[1] & 3u;
        params->rows[1] = (choices[1] & 4u) != 0 ? UINT64_MAX : 2 + (choices[1] >> 3 & 7u);
    }
    if (choices[0] & 32) params->columns = columns[choices[1] & 7u];
    if (strcmp(format, "raw") == 0) {
        params->dims = 1 + (choices[1] & 15u);
        params->dtype = dtypes[(unsigned)(choices[1] >> 4) % (sizeof dtypes / sizeof *dtypes)];
    }
}

/* FNV-1a over all values. */
static uint64_t digest_of(const nf_matrix *matrix)
{
    const size_t   bytes = matrix->dims * nf_dtype_bytes((nf_dtype)matrix->dtype);
    const uint64_t stride = matrix->stride_bytes > 0 ? matrix->stride_bytes : bytes;
    uint64_t       digest = UINT64_C(0xcbf29ce484222325);
    for (uint64_t row = 0; row < matrix->rows; row++) {
        const uint8_t *values = (const uint8_t *)matrix->data + row * stride;
        for (size_t i = 0; i < bytes; i++) digest = (digest ^ values[i]) * UINT64_C(0x100000001b3);
    }
    return digest;
}

/* Writes in a format and reads that again: the same values, to the byte. */
static void demand_round_trip(const nf_matrix *matrix, const char *format)
{
    nf_context     *ctx = fuzz_context();
    const char     *path = fuzz_output_path();
    nf_dataset     *again = NULL;
    nf_write_params write;
    nf_read_params  read;

    nf_write_params_init(&write);
    write.format = format;
    write.sync = 0;
    fuzz_demand(nf_write_matrix(ctx, matrix, path, &write) == NF_OK, "what was read can be written");
    nf_read_params_init(&read);
    read.format = format;
    read.dims = matrix->dims;
    read.dtype = strcmp(format, "raw") == 0 ? nf_dtype_name((nf_dtype)matrix->dtype) : NULL;
    fuzz_demand(nf_read_matrix(ctx, path, &read, &again) == NF_OK, "what was written can be read");
    const nf_matrix *other = nf_dataset_matrix(again);
    fuzz_demand(other->rows == matrix->rows && other->dims == matrix->dims, "the shape is the same when read back");
    fuzz_demand(other->dtype == matrix->dtype, "the type is the same when read back");
    fuzz_demand(digest_of(other) == digest_of(matrix), "the values are the same when read back");
    nf_dataset_release(again);
}

static int is_text(const char *format)
{
    return strcmp(format, "csv") == 0 || strcmp(format, "tsv") == 0 || strcmp(format, "txt") == 0;
}

static void use(const nf_dataset *dataset, const nf_read_params *params)
{
    const nf_matrix *matrix = nf_dataset_matrix(dataset);
    const int64_t   *ids = nf_dataset_ids(dataset);
    const uint64_t   file_rows = nf_dataset_file_rows(dataset);
    const nf_status  valid = nf_dataset_check(fuzz_context(), dataset, "input");

    fuzz_demand(matrix->dims >= 1 && nf_dtype_bytes((nf_dtype)matrix->dtype) > 0, "a matrix has dims and a type");
    fuzz_demand(matrix->rows + nf_dataset_skipped(dataset) <= file_rows, "no more rows than the file has");
    for (uint64_t i = 0; ids != NULL && i < matrix->rows; i++) {
        fuzz_demand(ids[i] >= 0 && (uint64_t)ids[i] < file_rows && (i == 0 || ids[i] > ids[i - 1]), "ids ascend");
    }
    if (valid != NF_OK) fuzz_demand_error(valid);
    demand_round_trip(matrix, "npy");
    if (strcmp(params->format, "npy") == 0 || strcmp(params->format, "hbin") == 0) return;
    if (matrix->rows == 0) return;                         /* most formats have no shape then */
    if (is_text(params->format) && valid != NF_OK) return; /* a NaN as text has one form only */
    demand_round_trip(matrix, params->format);
}

static void compare_info(nf_status read, const nf_dataset *dataset, const char *path, const nf_read_params *params)
{
    nf_file_info    info;
    const nf_status described = nf_read_info(fuzz_context(), path, params, &info);
    if (described != NF_OK) fuzz_demand_error(described);
    if (read != NF_OK) return;
    if (is_text(params->format) && (params->rows[0] != 0 || params->rows[1] != UINT64_MAX)) return; /* sees all lines */
    fuzz_demand(described == NF_OK, "what can be read can be described");
    fuzz_demand(info.dims == nf_dataset_matrix(dataset)->dims, "the description has the dims");
    fuzz_demand(params->skip_invalid || info.dtype == nf_dataset_matrix(dataset)->dtype || is_text(params->format),
                "the description has the type");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nf_context    *ctx = fuzz_context();
    nf_dataset    *dataset = NULL;
    nf_read_params params;
    char           format[16];
    if (size < CHOICES) return 0;

    const size_t before = fuzz_live();
    const char  *path = fuzz_input_path(data + CHOICES, size - CHOICES);
    choose_params(data, format, sizeof format, &params);
    const nf_status status = nf_read_matrix(ctx, path, &params, &dataset);
    fuzz_demand((status == NF_OK) == (dataset != NULL), "a dataset exactly where the status is OK");
    if (status != NF_OK) fuzz_demand_error(status);
    compare_info(status, dataset, path, &params);
    if (status == NF_OK) use(dataset, &params);
    nf_dataset_release(dataset);
    fuzz_demand(fuzz_live() == before, "all memory is given back");
    return 0;
}
