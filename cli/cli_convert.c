/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield convert: vectors from one format to another. */
#include "cli_clock.h"
#include "cli_command.h"
#include "cli_error.h"
#include "cli_report.h"
#include "cli_text.h"

static int report(cli_run *run, const nf_dataset *dataset, double read_seconds, double write_seconds)
{
    const nf_matrix *matrix = nf_dataset_matrix(dataset);
    const char      *path = run->settings.arguments[1];
    FILE            *to = cli_report_stream(run);
    cli_json         json = {0};

    if (to != NULL) {
        fprintf(to, "%s: %s rows of %u values, %s; read in %s, written in %s\n", cli_output_name(path),
                cli_count(matrix->rows).text, matrix->dims, nf_dtype_name((nf_dtype)matrix->dtype),
                cli_seconds(read_seconds).text, cli_seconds(write_seconds).text);
        if (nf_dataset_skipped(dataset) > 0) {
            fprintf(to, "left out: %s with values that are missing or not finite\n",
                    cli_count(nf_dataset_skipped(dataset)).text);
        }
    }
    cli_report_begin(run, &json);
    cli_json_text(&json, "input", run->settings.arguments[0]);
    cli_json_text(&json, "output", path);
    cli_json_count(&json, "rows", matrix->rows);
    cli_json_count(&json, "dims", matrix->dims);
    cli_json_text(&json, "dtype", nf_dtype_name((nf_dtype)matrix->dtype));
    cli_json_count(&json, "skipped", nf_dataset_skipped(dataset));
    cli_json_number(&json, "read_seconds", read_seconds);
    cli_json_number(&json, "write_seconds", write_seconds);
    cli_json_close(&json);
    return cli_report_json(run, &json);
}

static int write_dataset(cli_run *run, const nf_dataset *dataset, double read_seconds)
{
    const double    start = cli_now();
    const nf_status status =
        nf_write_matrix(run->ctx, nf_dataset_matrix(dataset), run->settings.arguments[1], &run->settings.write);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_WORKING);
    cli_progress_clear(&run->progress);
    return report(run, dataset, read_seconds, cli_now() - start);
}

int cli_run_convert(cli_run *run)
{
    nf_dataset *dataset = NULL;
    int         code;

    run->settings.output = run->settings.arguments[1]; /* where the summary goes depends on it */
    code = cli_report_check(run);
    if (code == 0) code = cli_open_context(run);
    if (code != 0) return code;
    const double    start = cli_now();
    const nf_status status = nf_read_matrix(run->ctx, run->settings.arguments[0], &run->settings.read, &dataset);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_READING);
    code = write_dataset(run, dataset, cli_now() - start);
    nf_dataset_release(dataset);
    return code;
}
