/* SPDX-License-Identifier: Apache-2.0 */
/* An index file described: what build, info, verify and search say of it. */
#ifndef CLI_INDEX_H
#define CLI_INDEX_H

#include <stdio.h>

#include "cli_command.h"
#include "cli_json.h"
#include "cli_text.h"

cli_short_text cli_file_id(uint64_t id); /* 16 hexadecimal digits */

/* Lines of the summary. */
void cli_index_print(FILE *to, const nf_ivf_index *index);

/* Members of the object, the table of recall among them. */
void cli_index_fill(cli_json *json, const nf_ivf_index *index);

/* Says what an index file holds. Returns 0 or the exit code. */
int cli_index_report(cli_run *run, const char *path, const nf_ivf_index *index);

#endif
