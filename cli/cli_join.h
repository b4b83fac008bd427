/* SPDX-License-Identifier: Apache-2.0 */
/* What a join did, for its summary. */
#ifndef CLI_JOIN_H
#define CLI_JOIN_H

#include <stdbool.h>

#include "cli_input.h"
#include "cli_json.h"

typedef struct cli_join {
    cli_input        data, queries; /* queries.path NULL: self-join */
    nf_radius_index *index;
    nf_radius_stats  stats;
    nf_selectivity   selectivity; /* with --selectivity */
    nf_join_estimate estimate;    /* with --estimate */
    double           read_seconds, write_seconds;
    double          *radii;     /* one per query, or NULL */
    double          *bins;      /* bin_count radii of a histogram */
    uint64_t        *bin_pairs;
    uint32_t         bin_count; /* 0: no histogram */
} cli_join;

/* With --estimate, in place of the join: estimates, and prints that. Each returns 0 or the exit code. */
int cli_join_estimate(cli_run *run, cli_join *join, const nf_matrix *queries, bool self_join);
int cli_join_estimate_report(cli_run *run, const cli_join *join);
/* Reads the file of --radii, which must have that many rows, into the settings. Returns 0 or the exit code. */
int cli_join_read_radii(cli_run *run, cli_join *join, uint64_t queries);

/* Takes the radii of --histogram; counts and writes; says. */
int cli_join_parse_histogram(cli_run *run, cli_join *join);
int cli_join_histogram(cli_run *run, cli_join *join, const nf_matrix *queries);
void cli_join_print_bins(FILE *to, const cli_run *run, const cli_join *join);
void cli_join_fill_bins(cli_json *json, const cli_run *run, const cli_join *join);

/* Prints the summary and delivers the object. Returns 0 or the exit code. */
int cli_join_report(cli_run *run, const cli_join *join);

#endif
