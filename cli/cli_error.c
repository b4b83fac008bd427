/* SPDX-License-Identifier: Apache-2.0 */
/* Exit codes and error messages. Whatever a file name holds, a message is one line. */
#include "cli_error.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli_json.h"
#include "cli_signal.h"

const cli_exit_text cli_exit_texts[] = {
    {CLI_DONE, "done"},
    {CLI_FAILED, "failed, for instance because a file cannot be written"},
    {CLI_USAGE, "wrong command line"},
    {CLI_INPUT, "an input file is missing or invalid"},
    {CLI_DAMAGED, "an index file is damaged, of a newer version, or no index"},
    {CLI_LIMIT, "out of memory, or over a limit that was set"},
    {CLI_ENGINE, "the engine or instruction set asked for is not available"},
    {CLI_INTERRUPTED, "interrupted by SIGINT (143: by SIGTERM)"},
    {0, NULL},
};

int cli_exit_code(nf_status status, cli_phase phase)
{
    switch (status) {
    case NF_OK:
    case NF_MORE: return CLI_DONE;
    case NF_ERR_ARGUMENT: return CLI_USAGE;
    case NF_ERR_CANCELLED: return cli_signal_caught() == SIGTERM ? CLI_TERMINATED : CLI_INTERRUPTED;
    case NF_ERR_MEMORY:
    case NF_ERR_DEVICE_MEMORY:
    case NF_ERR_LIMIT: return CLI_LIMIT;
    case NF_ERR_IO: return phase == CLI_WORKING ? CLI_FAILED : CLI_INPUT;
    case NF_ERR_FORMAT:
    case NF_ERR_VERSION: return phase == CLI_OPENING ? CLI_DAMAGED : CLI_INPUT;
    case NF_ERR_VALUE: return CLI_INPUT;
    case NF_ERR_DAMAGED: return CLI_DAMAGED;
    case NF_ERR_ENGINE:
    case NF_ERR_UNSUPPORTED: return CLI_ENGINE;
    case NF_ERR_STATE:
    case NF_ERR_DEVICE:
    case NF_ERR_INTERNAL: return CLI_FAILED;
    }
    return CLI_FAILED;
}

static void replace_control_characters(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
    }
}

static void print_object(int exit_code, nf_status status, const char *text)
{
    cli_json json = {0};
    cli_json_open(&json, NULL);
    cli_json_text(&json, "error", text);
    cli_json_text(&json, "status", nf_status_name(status));
    cli_json_count(&json, "exit", (uint64_t)exit_code);
    cli_json_close(&json);
    if (!json.failed) fprintf(stderr, "%s\n", json.text);
    cli_json_free(&json);
}

static int fail(cli_run *run, int exit_code, nf_status status, char *text)
{
    replace_control_characters(text);
    cli_progress_clear(&run->progress);
    fprintf(stderr, "nearfield: %s\n", text);
    if (run->json_errors) print_object(exit_code, status, text);
    return exit_code;
}

int cli_fail(cli_run *run, int exit_code, nf_status status, const char *format, ...)
{
    char    text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fail(run, exit_code, status, text);
}

int cli_fail_usage(cli_run *run, const char *format, ...)
{
    char    text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, "%s see 'nearfield help%s%s'",
             length > 0 && text[length - 1] == '?' ? "" : ";", run->command != NULL ? " " : "",
             run->command != NULL ? run->command->name : "");
    return fail(run, CLI_USAGE, NF_ERR_ARGUMENT, text);
}

int cli_fail_call(cli_run *run, nf_status status, cli_phase phase)
{
    const nf_error *error = nf_context_error(run->ctx);
    const char     *text = error->text[0] != '\0' ? error->text : nf_status_text(status);
    const int       code = cli_exit_code(status, phase);

    if (status == NF_ERR_IO && error->native == EPIPE) return code;
    if (status == NF_ERR_CANCELLED) return cli_fail(run, code, status, "interrupted: %s", text);
    return cli_fail(run, code, status, "%s", text);
}
