/* SPDX-License-Identifier: Apache-2.0 */
/* A command (join, info, ...) as data: the parser, the help, the man page and docs/command.md are all made from it. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "cli_progress.h"
#include "cli_settings.h"

/* Where the options of a set are stored. The library's groups have the numbers of nf_param_group. */
#define CLI_OWN (-1)

/* Some options under one heading of the help: a group of the library's parameters, or a table of the command's own. */
typedef struct cli_option_set {
    const char     *title; /* NULL ends a list of sets */
    int             group; /* nf_param_group, or CLI_OWN */
    const char     *only;  /* library's group: names taken, separated by spaces; NULL: all */
    const nf_param *own;   /* CLI_OWN: offsets are of cli_settings */
    size_t          own_count;
} cli_option_set;

typedef struct cli_example {
    const char *line; /* NULL ends a list */
    const char *what;
} cli_example;

struct cli_run;

typedef struct cli_command {
    const char           *name;     /* NULL ends a list */
    const char           *summary;  /* one line, no full stop */
    const char           *synopsis; /* what follows the name */
    const char *const    *text;     /* paragraphs, NULL at the end */
    const cli_example    *examples;
    const cli_option_set *sets;
    int                   min_arguments, max_arguments;
    int (*run)(struct cli_run *run); /* returns the exit code */
} cli_command;

/* All commands, ended by one without a name. */
extern const cli_command cli_commands[];

/* The command of that name, or NULL. */
const cli_command *cli_command_find(const char *name);

/* One run of a command. */
typedef struct cli_run {
    const cli_command *command; /* NULL until it is known */
    cli_settings       settings;
    bool               json_errors; /* --json is on the line: errors are given as an object too */
    nf_context        *ctx;         /* NULL until cli_open_context */
    cli_progress       progress;
} cli_run;

/* Makes the run's context with progress and signals in place, after a look at the output. Returns 0, or the exit code
 * after saying what is wrong. */
int cli_open_context(cli_run *run);

int cli_run_join(cli_run *run);
int cli_run_knn(cli_run *run);
int cli_run_dbscan(cli_run *run);
int cli_run_components(cli_run *run);
int cli_run_build(cli_run *run);
int cli_run_search(cli_run *run);
int cli_run_info(cli_run *run);
int cli_run_verify(cli_run *run);
int cli_run_convert(cli_run *run);
int cli_run_generate(cli_run *run);
int cli_run_doctor(cli_run *run);
int cli_run_help(cli_run *run);
int cli_run_version(cli_run *run);

#endif
