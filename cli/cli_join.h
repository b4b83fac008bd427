/* SPDX-License-Identifier: Apache-2.0 */
/* What a join did, for its summary. */
#ifndef CLI_JOIN_H
#define CLI_JOIN_H

#include <stdbool.h>

#include "cli_input.h"

typedef struct cli_join {
    cli_input        data, queries; /* queries.path NULL: self-join */
    nf_radius_index *index;
    nf_radius_stats  stats;
    nf_selectivity   selectivity; /* with --selectivity */
    nf_join_estimate estimate;    /* with --estimate */
    double           read_seconds, write_seconds;
} cli_join;

/* With --estimate, in place of the join: estimates, and prints that. Each returns 0 or the exit code. */
int cli_join_estimate(cli_run *run, cli_join *join, const nf_matrix *queries, bool self_join);
int cli_join_estimate_report(cli_run *run, const cli_join *join);

/* Prints the summary and delivers the object. Returns 0 or the exit code. */
int cli_join_report(cli_run *run, const cli_join *join);

#endif
