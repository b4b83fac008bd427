/* SPDX-License-Identifier: Apache-2.0 */
/* Where results go that are not data: the summary for people, the object for programs. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdio.h>

#include "cli_command.h"
#include "cli_json.h"

/* Refuses --json without a file where standard output carries the data. Returns 0 or the exit code. */
int cli_report_check(cli_run *run);

/* The path as the summary names it: "-" is standard output. */
const char *cli_output_name(const char *path);

/* The stream for the summary, or NULL when none is wanted (--quiet, or --json on standard output). Standard output, or
 * stderr where standard output carries the data. */
FILE *cli_report_stream(const cli_run *run);

/* Delivers the object, if --json asks for it, and releases it. A file appears under its name only when it is complete.
 * Returns 0 or the exit code. */
int cli_report_json(cli_run *run, cli_json *json);

/* Begins the object that every command gives: "command" and "version". */
void cli_report_begin(const cli_run *run, cli_json *json);

/* Adds "engine" and "isa", of a GPU "device" in place of it: what did the work. */
void cli_report_engine(const cli_run *run, cli_json *json);

/* Flushes standard output, and returns code, or CLI_FAILED when something could not be written. */
int cli_report_end(cli_run *run, int code);

#endif
