/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of a command: matrices with what is needed for ids and the summary, and files of ids. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include <stdio.h>

#include "cli_command.h"

/* One matrix. Its values may be released before the rest. */
typedef struct cli_input {
    const char *path;
    nf_dataset *dataset; /* NULL when released */
    uint64_t    rows;
    uint32_t    dims;
    nf_dtype    dtype;
    int64_t     first; /* id of row 0 where ids is NULL */
    int64_t    *ids;   /* of the rows, where the caller put a copy; or NULL */
    uint64_t    file_rows;
    uint64_t    skipped;
} cli_input;

/* Reads input->path and checks its values. Returns 0 or the exit code. */
int cli_input_read(cli_run *run, const nf_read_params *params, cli_input *input);

/* How QUERIES are read: as DATA, but for --rows, in whose place --query-rows stands. Returns 0 or the exit code. */
int cli_input_query_params(cli_run *run, nf_read_params *params);

/* Refuses queries with other dims than the data. Returns 0 or the exit code. */
int cli_input_same_dims(cli_run *run, const cli_input *data, const cli_input *queries);

/* The row of the file that row i of the matrix is. Only before the values are released. */
int64_t cli_input_row_id(const cli_input *input, uint64_t row);

/* A line of the summary, and one more about rows left out. */
void cli_input_print(FILE *to, const char *name, const cli_input *input);

void cli_input_release_values(cli_input *input);
void cli_input_release(cli_input *input);

/* Reads a matrix of n x 1 whole numbers of at least 0; *ids is the caller's, to be freed. Returns 0 or the exit code.
 */
int cli_read_ids(cli_run *run, const char *path, int64_t **ids, uint64_t *count);

#endif
