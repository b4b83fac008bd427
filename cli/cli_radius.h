/* SPDX-License-Identifier: Apache-2.0 */
/* What join and dbscan share: the options that say how near rows must be. */
#ifndef CLI_RADIUS_H
#define CLI_RADIUS_H

#include <stdbool.h>
#include <stdio.h>

#include "cli_command.h"
#include "cli_json.h"

/* Checks that exactly one of --radius, --similarity and --selectivity is there, NaN standing for one that is not, and fits
 * --metric. Returns 0 or the exit code. */
int cli_check_radius(cli_run *run, double radius, double similarity);

/* Where --selectivity is given, finds the radius for it. queries: those of the join, or with self_join the data. Returns
 * 0 or the exit code. */
int cli_find_radius(cli_run *run, const nf_radius_index *index, const nf_matrix *queries, bool self_join,
                    nf_selectivity *found, double *radius);

/* The summary's line of a join's radius or similarity. */
void cli_print_radius(FILE *to, const cli_run *run);

/* The line of the summary, and the members of the object; none and nulls where --selectivity is not given. */
void cli_print_selectivity(FILE *to, const cli_run *run, const nf_selectivity *found);
void cli_json_selectivity(cli_json *json, const cli_run *run, const nf_selectivity *found);

#endif
