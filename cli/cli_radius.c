/* SPDX-License-Identifier: Apache-2.0 */
/* The options that say how near rows must be. */
#include "cli_radius.h"

#include <math.h>
#include <stdbool.h>

#include "cli_error.h"
#include "cli_text.h"

int cli_check_radius(cli_run *run, double radius, double similarity)
{
    const bool cosine = run->settings.radius_index.metric == NF_METRIC_COSINE;

    if (run->settings.radius_index.metric == NF_METRIC_IP) {
        return cli_fail_usage(run, "--metric ip has no radius: %s takes l2 and cosine", run->command->name);
    }
    const bool  given = !isnan(run->settings.selectivity);
    const char *name = run->command->name;
    if (!isnan(similarity) && !cosine) return cli_fail_usage(run, "--similarity needs --metric cosine");
    if (!isnan(similarity) && !isnan(radius)) return cli_fail_usage(run, "--similarity and --radius exclude each other");
    if (given && !(isnan(similarity) && isnan(radius))) {
        return cli_fail_usage(run, "--selectivity and --%s exclude each other", isnan(radius) ? "similarity" : "radius");
    }
    if (given || !isnan(similarity) || !isnan(radius)) return 0;
    return cosine ? cli_fail_usage(run, "%s --metric cosine needs --similarity T, --radius R or --selectivity Z", name)
                  : cli_fail_usage(run, "%s needs --radius R or --selectivity Z", name);
}

int cli_find_radius(cli_run *run, const nf_radius_index *index, const nf_matrix *queries, bool self_join,
                    nf_selectivity *found, double *radius)
{
    if (isnan(run->settings.selectivity)) return 0;
    nf_sample_params sample = run->settings.sample;
    sample.self_join = self_join;
    found->struct_size = sizeof *found;
    const nf_status status = nf_radius_for_selectivity(run->ctx, index, queries, run->settings.selectivity, &sample, found);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_WORKING);
    *radius = found->radius;
    return 0;
}

void cli_print_radius(FILE *to, const cli_run *run)
{
    const nf_radius_params *params = &run->settings.radius;
    const bool              similar = !isnan(params->similarity);
    fprintf(to, "%-12s%s%s%s\n", similar ? "similarity" : "radius",
            cli_number(similar ? params->similarity : params->radius).text,
            run->settings.radius_index.metric == NF_METRIC_COSINE && !similar ? " (1 - cosine)" : "",
            params->strict ? ", pairs at it left out" : "");
}

void cli_print_selectivity(FILE *to, const cli_run *run, const nf_selectivity *found)
{
    if (isnan(run->settings.selectivity)) return;
    fprintf(to, "%-12sfor selectivity %s: ", "", cli_number(run->settings.selectivity).text);
    if (run->settings.radius_index.metric == NF_METRIC_COSINE) {
        fprintf(to, "similarity %s, ", cli_number(1.0 - found->radius).text);
    }
    fprintf(to, "estimated %s +- %s neighbours from %s sampled row%s\n", cli_mean(found->estimate).text,
            cli_mean(found->standard_error).text, cli_count(found->sampled).text, found->sampled == 1 ? "" : "s");
}

void cli_json_selectivity(cli_json *json, const cli_run *run, const nf_selectivity *found)
{
    const bool given = !isnan(run->settings.selectivity);
    cli_json_number(json, "wanted_selectivity", run->settings.selectivity);
    cli_json_number(json, "estimated_selectivity", given ? found->estimate : (double)NAN);
    cli_json_number(json, "standard_error", given ? found->standard_error : (double)NAN);
    cli_json_count(json, "sampled_rows", found->sampled);
}
