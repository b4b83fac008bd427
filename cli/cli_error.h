/* SPDX-License-Identifier: Apache-2.0 */
/* Exit codes and error messages: one line on stderr, and an object too where --json is given. */
#ifndef CLI_ERROR_H
#define CLI_ERROR_H

#include "cli_command.h"

typedef enum cli_exit {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_INPUT = 3,
    CLI_DAMAGED = 4,
    CLI_LIMIT = 5,
    CLI_ENGINE = 6,
    CLI_INTERRUPTED = 130,
    CLI_TERMINATED = 143
} cli_exit;

typedef struct cli_exit_text {
    int         code;
    const char *text; /* NULL ends the list */
} cli_exit_text;

/* What the codes mean, for the help. */
extern const cli_exit_text cli_exit_texts[];

/* What is going on when a call fails: a file that cannot be opened for reading is invalid input, one that cannot be
 * written is a failure, and an index file (CLI_OPENING) that is none, or of a newer version, counts as damaged. */
typedef enum cli_phase { CLI_READING, CLI_OPENING, CLI_WORKING } cli_phase;

/* The exit code that stands for a status. */
int cli_exit_code(nf_status status, cli_phase phase);

/* Says "nearfield: ..." and returns exit_code. */
int cli_fail(cli_run *run, int exit_code, nf_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for a wrong command line: adds where the help is, returns CLI_USAGE. */
int cli_fail_usage(cli_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for the failure of the last call on the run's context. Says nothing where the reader of a pipe is gone. */
int cli_fail_call(cli_run *run, nf_status status, cli_phase phase);

#endif
