/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield verify: every byte of an index file against its checksums and its own rules. The file is mapped, so that it
 * may be larger than memory. */
#include "cli_clock.h"
#include "cli_error.h"
#include "cli_index.h"
#include "cli_report.h"

static int report(cli_run *run, const nf_ivf_index *index, double seconds)
{
    const char *path = run->settings.arguments[0];
    FILE       *to = cli_report_stream(run);
    cli_json    json = {0};
    nf_ivf_info info = {.struct_size = sizeof info};

    nf_ivf_describe(index, &info);
    if (to != NULL) {
        fprintf(to, "%s: sound: %s bytes, file id %s, checked in %s\n", path, cli_count(info.bytes).text,
                cli_file_id(info.file_id).text, cli_seconds(seconds).text);
    }
    cli_report_begin(run, &json);
    cli_json_text(&json, "file", path);
    cli_json_flag(&json, "sound", true);
    cli_json_count(&json, "bytes", info.bytes);
    cli_json_text(&json, "file_id", cli_file_id(info.file_id).text);
    cli_json_number(&json, "seconds", seconds);
    cli_json_close(&json);
    return cli_report_json(run, &json);
}

int cli_run_verify(cli_run *run)
{
    nf_ivf_index      *index = NULL;
    nf_ivf_open_params params;
    int                code = cli_open_context(run);

    if (code != 0) return code;
    nf_ivf_open_params_init(&params);
    params.map = 1;
    params.verify = NF_VERIFY_FULL;
    const double    start = cli_now();
    const nf_status status = nf_ivf_open(run->ctx, run->settings.arguments[0], &params, &index);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_OPENING);
    cli_progress_clear(&run->progress);
    code = report(run, index, cli_now() - start);
    nf_ivf_release(index);
    return code;
}
