/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield dbscan: clusters of rows by density. nearfield components: connected components of rows. */
#include <math.h>
#include <stdlib.h>

#include "cli_clock.h"
#include "cli_error.h"
#include "cli_input.h"
#include "cli_output.h"
#include "cli_report.h"
#include "cli_text.h"

typedef struct cli_dbscan {
    cli_input           data;
    nf_radius_index    *index;
    int64_t            *labels;
    bool                components; /* of the command that is so named */
    nf_dbscan_stats     stats;
    nf_components_stats found;
    double              read_seconds, build_seconds, write_seconds;
} cli_dbscan;

static int read_data(cli_run *run, cli_dbscan *dbscan)
{
    const double start = cli_now();
    dbscan->data.path = run->settings.arguments[0];
    const int code = cli_input_read(run, &run->settings.read, &dbscan->data);
    dbscan->read_seconds = cli_now() - start;
    return code;
}

static nf_status cluster_rows(cli_run *run, cli_dbscan *dbscan)
{
    const nf_dbscan_params *asked = &run->settings.dbscan;
    nf_components_params    params;
    if (!dbscan->components) return nf_dbscan(run->ctx, dbscan->index, asked, dbscan->labels, NULL, &dbscan->stats);
    nf_components_params_init(&params);
    params.radius = asked->radius;
    params.strict = asked->strict;
    return nf_radius_components(run->ctx, dbscan->index, &params, dbscan->labels, &dbscan->found);
}

static int cluster(cli_run *run, cli_dbscan *dbscan)
{
    const double start = cli_now();
    dbscan->labels = malloc(dbscan->data.rows * sizeof *dbscan->labels + 1);
    if (dbscan->labels == NULL) return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for one label per row");
    nf_status status = nf_radius_index_create(run->ctx, nf_dataset_matrix(dbscan->data.dataset), NULL, &dbscan->index);
    if (status == NF_OK) cli_input_release_values(&dbscan->data);
    dbscan->build_seconds = cli_now() - start;
    dbscan->stats.struct_size = sizeof dbscan->stats;
    dbscan->found.struct_size = sizeof dbscan->found;
    if (status == NF_OK) status = cluster_rows(run, dbscan);
    return status == NF_OK ? 0 : cli_fail_call(run, status, CLI_WORKING);
}

static int write_labels(cli_run *run, cli_dbscan *dbscan)
{
    const double    start = cli_now();
    const nf_matrix labels = {.data = dbscan->labels, .rows = dbscan->data.rows, .dims = 1, .dtype = NF_DTYPE_I64};
    if (run->settings.output == NULL) return 0;
    run->settings.write.counts = 1; /* one dimension */
    const nf_status status = nf_write_matrix(run->ctx, &labels, run->settings.output, &run->settings.write);
    dbscan->write_seconds = cli_now() - start;
    return status == NF_OK ? 0 : cli_fail_call(run, status, CLI_WORKING);
}

static void print_clusters(FILE *to, const nf_dbscan_stats *stats)
{
    fprintf(to, "%-12s%s\n", "clusters", cli_count(stats->clusters).text);
    fprintf(to, "%-12s%s core, %s border, %s noise\n", "rows", cli_count(stats->core).text,
            cli_count(stats->border).text, cli_count(stats->noise).text);
    fprintf(to, "%-12s%s within the radius, looked at in %u pass%s\n", "pairs", cli_count(stats->pairs).text,
            stats->passes, stats->passes == 1 ? "" : "es");
}

static void print_components(FILE *to, const nf_components_stats *found)
{
    fprintf(to, "%-12s%s; the largest of %s rows, %s of one row\n", "components", cli_count(found->components).text,
            cli_count(found->largest).text, cli_count(found->singletons).text);
    fprintf(to, "%-12s%s within the radius\n", "pairs", cli_count(found->pairs).text);
}

static double working_seconds(const cli_dbscan *dbscan)
{
    return dbscan->components ? dbscan->found.seconds : dbscan->stats.seconds;
}

static void print_text(FILE *to, const cli_run *run, const cli_dbscan *dbscan)
{
    cli_input_print(to, "data", &dbscan->data);
    if (dbscan->components) print_components(to, &dbscan->found);
    else print_clusters(to, &dbscan->stats);
    fprintf(to, "%-12s%s; index %s, reading %s", "time", cli_seconds(working_seconds(dbscan)).text,
            cli_seconds(dbscan->build_seconds).text, cli_seconds(dbscan->read_seconds).text);
    if (run->settings.output != NULL) fprintf(to, ", writing %s", cli_seconds(dbscan->write_seconds).text);
    fprintf(to, "\n%-12s%s\n", "result",
            run->settings.output != NULL ? cli_output_name(run->settings.output) : "not kept (-o FILE writes it)");
}

static void report_clusters(const cli_run *run, const nf_dbscan_stats *stats, cli_json *json)
{
    cli_json_count(json, "min_samples", run->settings.dbscan.min_samples);
    cli_json_count(json, "clusters", stats->clusters);
    cli_json_count(json, "core", stats->core);
    cli_json_count(json, "border", stats->border);
    cli_json_count(json, "noise", stats->noise);
    cli_json_count(json, "pairs", stats->pairs);
}

static void report_components(const nf_components_stats *found, cli_json *json)
{
    cli_json_count(json, "components", found->components);
    cli_json_count(json, "largest", found->largest);
    cli_json_count(json, "singletons", found->singletons);
    cli_json_count(json, "pairs", found->pairs);
}

static int report(cli_run *run, const cli_dbscan *dbscan)
{
    FILE    *to = cli_report_stream(run);
    cli_json json = {0};

    if (to != NULL) print_text(to, run, dbscan);
    cli_report_begin(run, &json);
    cli_report_engine(run, &json);
    cli_json_count(&json, "rows", dbscan->data.rows);
    cli_json_count(&json, "dims", dbscan->data.dims);
    cli_json_number(&json, "seconds", dbscan->build_seconds + working_seconds(dbscan));
    cli_json_number(&json, "radius", run->settings.dbscan.radius);
    if (dbscan->components) report_components(&dbscan->found, &json);
    else report_clusters(run, &dbscan->stats, &json);
    cli_json_count(&json, "skipped", dbscan->data.skipped);
    cli_json_number(&json, "read_seconds", dbscan->read_seconds);
    cli_json_number(&json, "write_seconds", dbscan->write_seconds);
    cli_json_text(&json, "output", run->settings.output);
    cli_json_close(&json);
    return cli_report_json(run, &json);
}

static int run_clustering(cli_run *run, bool components)
{
    cli_dbscan dbscan = {.components = components};
    int        code = 0;

    if (isnan(run->settings.dbscan.radius)) {
        return cli_fail_usage(run, "%s needs --radius R", components ? "components" : "dbscan");
    }
    code = cli_open_context(run);
    if (code != 0) return code;
    code = read_data(run, &dbscan);
    if (code == 0) code = cluster(run, &dbscan);
    if (code == 0) code = write_labels(run, &dbscan);
    cli_progress_clear(&run->progress);
    if (code == 0) code = report(run, &dbscan);
    free(dbscan.labels);
    nf_radius_index_release(dbscan.index);
    cli_input_release(&dbscan.data);
    return code;
}

int cli_run_dbscan(cli_run *run)
{
    return run_clustering(run, false);
}

int cli_run_components(cli_run *run)
{
    return run_clustering(run, true);
}
