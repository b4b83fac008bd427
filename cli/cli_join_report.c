/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a join: for people, with a histogram of the numbers of neighbours, and as an object. */
#include "cli_join.h"

#include <math.h>

#include "cli_radius.h"
#include "cli_report.h"
#include "cli_text.h"

#define BAR_WIDTH 40

/* Pairs (i, i) among those delivered. A distance of 0 is not below a radius of 0. */
static uint64_t self_pairs(const nf_radius_params *params, const nf_radius_stats *stats)
{
    const bool zero_radius = isnan(params->similarity) ? params->radius == 0.0 : params->similarity == 1.0;
    return params->self && !(params->strict && zero_radius) ? stats->queries - stats->zero_queries : 0;
}

/* Mean number of neighbours per query, itself not counted. */
static double selectivity(const nf_radius_params *params, const nf_radius_stats *stats)
{
    const double others = (double)(stats->pairs - self_pairs(params, stats));
    if (stats->queries == 0) return 0.0;
    return (params->half ? 2.0 : 1.0) * others / (double)stats->queries;
}

static double pruned_share(const nf_radius_stats *stats)
{
    const double all = (double)stats->queries * (double)stats->rows;
    return all > 0.0 ? 1.0 - (double)stats->compared / all : 0.0;
}

static void print_times(FILE *to, const cli_join *join, bool written)
{
    const char *between = ": ";
    fprintf(to, "%-12s%s", "time", cli_seconds(join->stats.build_seconds + join->stats.seconds).text);
    for (uint32_t step = 0; step < NF_STEP_COUNT && nf_radius_step_name(step) != NULL; step++) {
        if (join->stats.step_seconds[step] <= 0.0) continue;
        fprintf(to, "%s%s %.3f", between, nf_radius_step_name(step), join->stats.step_seconds[step]);
        between = ", ";
    }
    fprintf(to, "; reading %s", cli_seconds(join->read_seconds).text);
    if (written) fprintf(to, ", writing %s", cli_seconds(join->write_seconds).text);
    fputc('\n', to);
}

static void print_work(FILE *to, const nf_radius_stats *stats)
{
    const double all = (double)stats->queries * (double)stats->rows;
    fprintf(to, "%-12s%s%s%s; %s hits\n", "candidates", nf_candidates_name(stats->candidates),
            stats->why[0] != '\0' ? ": " : "", stats->why, cli_count(stats->hits).text);
    fprintf(to, "%-12s%s of %s pairs (%.2f %% pruned), in %s batch%s\n", "compared", cli_count(stats->compared).text,
            cli_count((uint64_t)all).text, 100.0 * pruned_share(stats), cli_count(stats->batches).text,
            stats->batches == 1 ? "" : "es");
    fprintf(to, "%-12s%s; %s pairs rechecked, %s at exactly the radius\n", "refine", stats->refine,
            cli_count(stats->rechecked).text, cli_count(stats->ties).text);
}

/* "0", "1", "2-3", "4-7", ...: the numbers of neighbours of a bin. */
static cli_short_text bin_label(uint32_t bin)
{
    cli_short_text out = cli_count(bin > 0 ? (uint64_t)1 << (bin - 1) : 0);
    if (bin > 1) {
        char first[CLI_TEXT_SIZE / 2 - 2];
        snprintf(first, sizeof first, "%.*s", (int)sizeof first - 1, out.text);
        snprintf(out.text, sizeof out.text, "%s-%.18s", first, cli_count(((uint64_t)1 << bin) - 1).text);
    }
    return out;
}

static void print_histogram(FILE *to, const nf_radius_stats *stats)
{
    uint64_t largest = 0;
    uint32_t bins = 0;
    for (uint32_t bin = 0; bin < NF_HISTOGRAM_BINS; bin++) {
        if (stats->histogram[bin] > largest) largest = stats->histogram[bin];
        if (stats->histogram[bin] > 0) bins = bin + 1;
    }
    if (bins == 0) return;
    fprintf(to, "\n%18s  %13s\n", "neighbours", "queries");
    for (uint32_t bin = 0; bin < bins; bin++) {
        const uint64_t count = stats->histogram[bin];
        int            width = (int)((double)count / (double)largest * BAR_WIDTH + 0.5);
        if (count > 0 && width == 0) width = 1;
        fprintf(to, "%18s  %13s%s%.*s\n", bin_label(bin).text, cli_count(count).text, width > 0 ? "  " : "", width,
                "########################################");
    }
}

static void print_text(FILE *to, const cli_run *run, const cli_join *join)
{
    const nf_radius_params *params = &run->settings.radius;
    const char             *output = run->settings.output;

    cli_input_print(to, "data", &join->data);
    if (join->queries.path != NULL) cli_input_print(to, "queries", &join->queries);
    if (run->settings.radii != NULL) {
        fprintf(to, "%-12sof each query: %s\n", "radius", run->settings.radii);
    } else if (join->bin_count > 0) {
        fprintf(to, "%-12s%s%s\n", "radius", cli_number(join->bins[join->bin_count - 1]).text,
                params->strict ? ", pairs at it left out" : "");
    } else {
        cli_print_radius(to, run);
    }
    cli_print_selectivity(to, run, &join->selectivity);
    if (join->stats.zero_rows + join->stats.zero_queries > 0) {
        fprintf(to, "%-12s%s rows of zeros, which have no neighbours", "", cli_count(join->stats.zero_rows).text);
        if (join->queries.path != NULL) fprintf(to, ", and %s queries of zeros", cli_count(join->stats.zero_queries).text);
        fputc('\n', to);
    }
    fprintf(to, "%-12s%s%s%s (%s neighbours per query on average)\n", "pairs", cli_count(join->stats.pairs).text,
            params->half ? ", each once" : "", params->self ? ", self pairs too" : "",
            cli_mean(selectivity(params, &join->stats)).text);
    print_work(to, &join->stats);
    print_times(to, join, output != NULL);
    fprintf(to, "%-12s%s\n", "result",
            output != NULL ? cli_output_name(output) : "only counted (-o FILE writes the pairs)");
    if (join->bin_count > 0) {
        cli_join_print_bins(to, run, join);
    } else {
        print_histogram(to, &join->stats);
    }
}

static void fill_steps(cli_json *json, const nf_radius_stats *stats)
{
    cli_json_open(json, "steps");
    for (uint32_t step = 0; step < NF_STEP_COUNT && nf_radius_step_name(step) != NULL; step++) {
        cli_json_number(json, nf_radius_step_name(step), stats->step_seconds[step]);
    }
    cli_json_close(json);
}

static void fill_object(cli_json *json, cli_run *run, const cli_join *join)
{
    const nf_radius_stats *stats = &join->stats;

    cli_report_begin(run, json);
    cli_report_engine(run, json);
    cli_json_count(json, "rows", stats->rows);
    cli_json_count(json, "queries", stats->queries);
    cli_json_count(json, "dims", stats->dims);
    cli_json_number(json, "seconds", stats->build_seconds + stats->seconds);
    fill_steps(json, stats);
    cli_json_text(json, "metric", nf_metric_name(run->settings.radius_index.metric));
    cli_json_number(json, "radius", join->bin_count > 0 ? join->bins[join->bin_count - 1] : run->settings.radius.radius);
    cli_json_number(json, "similarity", run->settings.radius.similarity);
    cli_json_selectivity(json, run, &join->selectivity);
    cli_json_count(json, "zero_rows", stats->zero_rows);
    cli_json_count(json, "zero_queries", stats->zero_queries);
    if (join->bin_count > 0) cli_join_fill_bins(json, run, join);
    cli_json_count(json, "pairs", stats->pairs);
    cli_json_number(json, "selectivity", selectivity(&run->settings.radius, stats));
    cli_json_text(json, "candidates", nf_candidates_name(stats->candidates));
    cli_json_text(json, "why", stats->why);
    cli_json_text(json, "refine", stats->refine);
    cli_json_count(json, "hits", stats->hits);
    cli_json_count(json, "compared", stats->compared);
    cli_json_number(json, "pruned_share", pruned_share(stats));
    cli_json_count(json, "rechecked", stats->rechecked);
    cli_json_count(json, "ties", stats->ties);
    cli_json_count(json, "batches", stats->batches);
    cli_json_count(json, "device_batches", stats->device_batches);
    cli_json_count(json, "skipped", join->data.skipped + join->queries.skipped);
    cli_json_number(json, "read_seconds", join->read_seconds);
    cli_json_number(json, "write_seconds", join->write_seconds);
    cli_json_text(json, "output", run->settings.output);
    cli_json_close(json);
}

int cli_join_report(cli_run *run, const cli_join *join)
{
    FILE    *to = cli_report_stream(run);
    cli_json json = {0};
    if (to != NULL) print_text(to, run, join);
    fill_object(&json, run, join);
    return cli_report_json(run, &json);
}
