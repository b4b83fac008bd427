/* SPDX-License-Identifier: Apache-2.0 */
/* Making the context of a run: limits from the options, progress, and signals that cancel it; and a look at the output. */
#include "cli_command.h"
#include "cli_error.h"
#include "cli_output.h"
#include "cli_signal.h"

int cli_open_context(cli_run *run)
{
    nf_error           error = {0};
    nf_context_params *params = &run->settings.context;
    const int          code = cli_output_check(run);
    if (code != 0) return code;

    cli_progress_init(&run->progress, run->settings.progress, run->settings.quiet != 0);
    params->progress = cli_progress_report;
    params->progress_user = &run->progress;
    const nf_status status = nf_context_create(params, &run->ctx, &error);
    if (status != NF_OK) return cli_fail(run, cli_exit_code(status, CLI_WORKING), status, "%s", error.text);
    cli_signal_install(run->ctx);
    return 0;
}
