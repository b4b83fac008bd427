/* SPDX-License-Identifier: Apache-2.0 */
/* What join and dbscan share: the options that say how near rows must be. */
#ifndef CLI_RADIUS_H
#define CLI_RADIUS_H

#include "cli_command.h"

/* Checks that exactly one of --radius and --similarity is there, NaN standing for neither, and fits --metric. Returns 0
 * or the exit code. */
int cli_check_radius(cli_run *run, double radius, double similarity);

#endif
