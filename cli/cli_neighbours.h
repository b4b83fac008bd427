/* SPDX-License-Identifier: Apache-2.0 */
/* The neighbours that knn and search deliver: their memory and their file. */
#ifndef CLI_NEIGHBOURS_H
#define CLI_NEIGHBOURS_H

#include "cli_input.h"

typedef struct cli_neighbours {
    uint64_t  queries;
    uint32_t  k;
    nf_dtype  dtype; /* of the distances */
    int64_t  *ids;
    void     *distances;
    uint32_t *counts;
} cli_neighbours;

/* Refuses --format without -o FILE, and '-o -' without --format. Returns 0 or the exit code. */
int cli_neighbours_check_output(cli_run *run);

/* Makes room for queries x k, within the memory limit. Returns 0 or the exit code. */
int  cli_neighbours_alloc(cli_run *run, uint64_t queries, uint32_t k, nf_dtype dtype, cli_neighbours *out);
void cli_neighbours_free(cli_neighbours *neighbours);

/* Writes them where -o says, if it does; text gets the file's row numbers of the queries. Returns 0 or the exit code.
 */
int cli_neighbours_write(cli_run *run, const cli_neighbours *from, uint32_t metric, const cli_input *queries,
                         double *seconds);

#endif
