/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the inputs of a command. */
#include "cli_input.h"

#include <stdlib.h>
#include <string.h>

#include "cli_error.h"
#include "cli_text.h"

#define EXACT_DOUBLES 9007199254740992.0 /* 2^53: whole numbers below are exact */

int cli_input_read(cli_run *run, const nf_read_params *params, cli_input *input)
{
    const nf_status status = nf_read_matrix(run->ctx, input->path, params, &input->dataset);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_READING);
    const nf_matrix *matrix = nf_dataset_matrix(input->dataset);
    input->rows = matrix->rows;
    input->dims = matrix->dims;
    input->dtype = (nf_dtype)matrix->dtype;
    input->first = nf_dataset_first(input->dataset);
    input->file_rows = nf_dataset_file_rows(input->dataset);
    input->skipped = nf_dataset_skipped(input->dataset);
    const nf_status valid = nf_dataset_check(run->ctx, input->dataset, input->path);
    return valid == NF_OK ? 0 : cli_fail_call(run, valid, CLI_READING);
}

int cli_input_query_params(cli_run *run, nf_read_params *params)
{
    const cli_settings *settings = &run->settings;
    nf_error            error = {0};

    *params = settings->read;
    params->rows[0] = 0;
    params->rows[1] = UINT64_MAX;
    if (settings->query_rows == NULL || nf_read_params_set(params, "rows", settings->query_rows, &error) == NF_OK) {
        return 0;
    }
    return cli_fail_usage(run, "--query-%s", error.text);
}

int cli_input_same_dims(cli_run *run, const cli_input *data, const cli_input *queries)
{
    if (queries->dims == data->dims) return 0;
    return cli_fail(run, CLI_INPUT, NF_ERR_VALUE, "%s: rows have %u values, but those of %s have %u", queries->path,
                    queries->dims, data->path, data->dims);
}

int64_t cli_input_row_id(const cli_input *input, uint64_t row)
{
    const int64_t *ids = nf_dataset_ids(input->dataset);
    return ids != NULL ? ids[row] : input->first + (int64_t)row;
}

void cli_input_print(FILE *to, const char *name, const cli_input *input)
{
    fprintf(to, "%-12s%s: %s rows of %u values, %s\n", name, input->path, cli_count(input->rows).text, input->dims,
            nf_dtype_name(input->dtype));
    if (input->skipped > 0) {
        fprintf(to, "%-12s%s row%s with values that are missing or not finite\n", "  left out",
                cli_count(input->skipped).text, input->skipped == 1 ? "" : "s");
    }
}

void cli_input_release_values(cli_input *input)
{
    nf_dataset_release(input->dataset);
    input->dataset = NULL;
}

void cli_input_release(cli_input *input)
{
    cli_input_release_values(input);
    free(input->ids);
    input->ids = NULL;
}

static bool whole_real(double value, int64_t *id)
{
    if (!(value >= 0.0 && value < EXACT_DOUBLES)) return false; /* 2^53 + 1 is read as 2^53 */
    *id = (int64_t)value;
    return (double)*id == value;
}

#define LOAD(type, at, to)                  \
    do {                                    \
        type loaded;                        \
        memcpy(&loaded, at, sizeof loaded); \
        to = loaded;                        \
    } while (0)

/* The value as an id; false when it is none. */
static bool load_id(const nf_matrix *matrix, uint64_t row, int64_t *id)
{
    const uint64_t stride = matrix->stride_bytes != 0 ? matrix->stride_bytes : nf_dtype_bytes((nf_dtype)matrix->dtype);
    const char    *at = (const char *)matrix->data + row * stride;
    double         real = -1.0;
    uint64_t       wide = 0;

    switch (matrix->dtype) {
    case NF_DTYPE_U8: LOAD(uint8_t, at, *id); break;
    case NF_DTYPE_I8: LOAD(int8_t, at, *id); break;
    case NF_DTYPE_U16: LOAD(uint16_t, at, *id); break;
    case NF_DTYPE_I16: LOAD(int16_t, at, *id); break;
    case NF_DTYPE_U32: LOAD(uint32_t, at, *id); break;
    case NF_DTYPE_I32: LOAD(int32_t, at, *id); break;
    case NF_DTYPE_I64: LOAD(int64_t, at, *id); break;
    case NF_DTYPE_U64:
        LOAD(uint64_t, at, wide);
        *id = wide <= INT64_MAX ? (int64_t)wide : -1;
        break;
    case NF_DTYPE_F32: LOAD(float, at, real); return whole_real(real, id);
    case NF_DTYPE_F64: LOAD(double, at, real); return whole_real(real, id);
    default: return false;
    }
    return *id >= 0;
}

static int take_ids(cli_run *run, const char *path, const nf_matrix *matrix, int64_t *ids)
{
    for (uint64_t row = 0; row < matrix->rows; row++) {
        if (load_id(matrix, row, &ids[row])) continue;
        return cli_fail(run, CLI_INPUT, NF_ERR_VALUE,
                        "%s: row %llu (from 0) is no id; allowed are whole numbers from 0 on, in text below 2^53", path,
                        (unsigned long long)row);
    }
    return 0;
}

int cli_read_ids(cli_run *run, const char *path, int64_t **ids, uint64_t *count)
{
    nf_dataset     *dataset = NULL;
    const nf_status status = nf_read_matrix(run->ctx, path, NULL, &dataset);
    int             code = 0;

    if (status != NF_OK) return cli_fail_call(run, status, CLI_READING);
    const nf_matrix *matrix = nf_dataset_matrix(dataset);
    *count = matrix->rows;
    *ids = malloc(matrix->rows * sizeof **ids + 1);
    if (*ids == NULL) {
        code = cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for the ids of %s", path);
    } else if (matrix->dims != 1) {
        code = cli_fail(run, CLI_INPUT, NF_ERR_VALUE, "%s: rows have %u values; ids are one a row", path, matrix->dims);
    } else {
        code = take_ids(run, path, matrix, *ids);
    }
    nf_dataset_release(dataset);
    return code;
}
