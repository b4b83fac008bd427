/* SPDX-License-Identifier: Apache-2.0 */
/* The options that say how near rows must be. */
#include "cli_radius.h"

#include <math.h>
#include <stdbool.h>

#include "cli_error.h"

int cli_check_radius(cli_run *run, double radius, double similarity)
{
    const bool cosine = run->settings.radius_index.metric == NF_METRIC_COSINE;

    if (run->settings.radius_index.metric == NF_METRIC_IP) {
        return cli_fail_usage(run, "--metric ip has no radius: %s takes l2 and cosine", run->command->name);
    }
    if (!isnan(similarity) && !cosine) return cli_fail_usage(run, "--similarity needs --metric cosine");
    if (!isnan(similarity) && !isnan(radius))
        return cli_fail_usage(run, "--similarity and --radius exclude each other");
    if (!isnan(similarity) || !isnan(radius)) return 0;
    return cosine ? cli_fail_usage(run, "%s --metric cosine needs --similarity T or --radius R", run->command->name)
                  : cli_fail_usage(run, "%s needs --radius R", run->command->name);
}
