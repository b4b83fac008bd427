/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a command, before the work begins. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli_command.h"

/* Refuses an output that is one of the inputs, and one in a folder that cannot be written to: better now than after the
 * work. Returns 0 or the exit code. */
int cli_output_check(cli_run *run);

#endif
