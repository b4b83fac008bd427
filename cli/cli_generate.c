/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield generate: makes a data set in memory and writes it. */
#include <stdlib.h>

#include "cli_clock.h"
#include "cli_command.h"
#include "cli_error.h"
#include "cli_report.h"
#include "cli_text.h"

static int check_arguments(cli_run *run)
{
    cli_settings *settings = &run->settings;
    const int     kind = nf_generate_kind_from_name(settings->arguments[0]);

    if (kind < 0) {
        return cli_fail_usage(run, "there is no kind '%s', allowed are uniform, exponential, mixture and lattice",
                              settings->arguments[0]);
    }
    if (settings->output == NULL) return cli_fail_usage(run, "generate needs -o FILE");
    settings->generate.kind = (uint32_t)kind;
    if (settings->dtype == NULL) return 0;
    settings->generate.dtype = nf_dtype_from_name(settings->dtype);
    if (settings->generate.dtype == NF_DTYPE_NONE) {
        return cli_fail_usage(run, "--dtype is '%s', allowed are f32, f64 and u8", settings->dtype);
    }
    return 0;
}

/* The rows count under --memory as everything else does. */
static int allocate(cli_run *run, nf_matrix *matrix, void **values)
{
    nf_context_info info;
    const uint64_t  row_bytes = matrix->dims * nf_dtype_bytes((nf_dtype)matrix->dtype);

    nf_context_describe(run->ctx, &info);
    if (matrix->rows > info.memory_limit / row_bytes) {
        return cli_fail(run, CLI_LIMIT, NF_ERR_LIMIT, "%s rows of %s bytes are more than the memory limit of %s",
                        cli_count(matrix->rows).text, cli_count(row_bytes).text, cli_bytes(info.memory_limit).text);
    }
    *values = malloc(matrix->rows * row_bytes + 1);
    if (*values == NULL) {
        return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for %s", cli_bytes(matrix->rows * row_bytes).text);
    }
    matrix->data = *values;
    return 0;
}

static int report(cli_run *run, const nf_matrix *matrix, double seconds, double write_seconds)
{
    const cli_settings *settings = &run->settings;
    FILE               *to = cli_report_stream(run);
    cli_json            json = {0};

    if (to != NULL) {
        fprintf(to, "%s: %s rows of %u values, %s; made in %s, written in %s\n", cli_output_name(settings->output),
                cli_count(matrix->rows).text, matrix->dims, nf_dtype_name((nf_dtype)matrix->dtype),
                cli_seconds(seconds).text, cli_seconds(write_seconds).text);
    }
    cli_report_begin(run, &json);
    cli_json_text(&json, "kind", settings->arguments[0]);
    cli_json_text(&json, "output", settings->output);
    cli_json_count(&json, "rows", matrix->rows);
    cli_json_count(&json, "dims", matrix->dims);
    cli_json_text(&json, "dtype", nf_dtype_name((nf_dtype)matrix->dtype));
    cli_json_count(&json, "seed", settings->generate.seed);
    cli_json_number(&json, "seconds", seconds);
    cli_json_number(&json, "write_seconds", write_seconds);
    cli_json_close(&json);
    return cli_report_json(run, &json);
}

static int make_and_write(cli_run *run, const nf_matrix *matrix, void *values)
{
    const double start = cli_now();
    nf_status    status = nf_generate(run->ctx, &run->settings.generate, 0, matrix->rows, values);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_WORKING);
    const double made = cli_now();
    status = nf_write_matrix(run->ctx, matrix, run->settings.output, &run->settings.write);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_WORKING);
    cli_progress_clear(&run->progress);
    return report(run, matrix, made - start, cli_now() - made);
}

int cli_run_generate(cli_run *run)
{
    void *values = NULL;
    int   code = check_arguments(run);

    if (code == 0) code = cli_open_context(run);
    if (code != 0) return code;
    const nf_generate_params *params = &run->settings.generate;
    nf_matrix                 matrix = {.rows = params->rows, .dims = params->dims, .dtype = params->dtype};
    code = allocate(run, &matrix, &values);
    if (code == 0) code = make_and_write(run, &matrix, values);
    free(values);
    return code;
}
