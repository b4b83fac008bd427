/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing of a command line over the tables of options. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli_command.h"

/*
 * The parameters of a set, and their number. A set of the library's takes only those that cli_set_takes says.
 *
 * A flag with a value name ("FILE") takes an optional value, by '=' alone; its member is a const char *, "-" without
 * one.
 */
const nf_param *cli_set_params(const cli_option_set *set, size_t *count);
bool cli_set_takes(const cli_option_set *set, const nf_param *param);

/* The one-letter form of an option, or 0. */
char cli_option_letter(const char *name);

/* Whether an option must be followed by a value. */
bool cli_option_needs_value(const nf_param *param);

/* Sets defaults. */
void cli_settings_init(cli_settings *settings);

/* Reads options and arguments that follow the command's name into run->settings. Returns 0, or the exit code after
 * saying what is wrong. Counts of arguments are checked unless help is asked for. */
int cli_parse(cli_run *run, int argc, char **argv);

#endif
