/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield dbscan: clusters of rows by density. nearfield components: connected components of
 * rows; both of vectors or of a stored graph. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli_clock.h"
#include "cli_error.h"
#include "cli_input.h"
#include "cli_output.h"
#include "cli_radius.h"
#include "cli_report.h"
#include "cli_text.h"

typedef struct cli_dbscan {
    cli_input           data;
    nf_graph           *graph; /* DATA is one: rows have no values */
    nf_radius_index    *index;
    int64_t            *labels;
    bool                components; /* of the command that is so named */
    nf_dbscan_stats     stats;
    nf_components_stats found;
    nf_selectivity      selectivity; /* with --selectivity */
    double              read_seconds, build_seconds, write_seconds;
} cli_dbscan;

static bool is_graph(const cli_run *run)
{
    const char  *path = run->settings.arguments[0], *asked = run->settings.read.format;
    const size_t length = strlen(path);
    return asked == NULL && length >= 4 && strcasecmp(path + length - 4, ".npz") == 0;
}

static int read_graph(cli_run *run, cli_dbscan *dbscan)
{
    const nf_read_params *read = &run->settings.read;
    if (read->rows[0] != 0 || read->rows[1] != UINT64_MAX || read->columns != NULL || read->skip_invalid) {
        return cli_fail_usage(run, "--rows, --columns and --skip-invalid are for vectors, not for a graph (.npz)");
    }
    const nf_status status = nf_read_graph(run->ctx, dbscan->data.path, NULL, &dbscan->graph);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_READING);
    const nf_csr *graph = nf_graph_csr(dbscan->graph);
    dbscan->data.rows = graph->rows;
    if (graph->rows == graph->columns) return 0;
    return cli_fail(run, CLI_INPUT, NF_ERR_VALUE, "%s: %llu rows and %llu columns; a self-join has as many of both",
                    dbscan->data.path, (unsigned long long)graph->rows, (unsigned long long)graph->columns);
}

static int read_data(cli_run *run, cli_dbscan *dbscan)
{
    const double start = cli_now();
    dbscan->data.path = run->settings.arguments[0];
    const int code = is_graph(run) ? read_graph(run, dbscan) : cli_input_read(run, &run->settings.read, &dbscan->data);
    dbscan->read_seconds = cli_now() - start;
    return code;
}

static nf_status find_components(cli_run *run, cli_dbscan *dbscan)
{
    nf_components_params params;
    nf_components_params_init(&params);
    params.radius = run->settings.dbscan.radius;
    params.strict = run->settings.dbscan.strict;
    dbscan->found.struct_size = sizeof dbscan->found;
    if (dbscan->graph != NULL) {
        return nf_graph_components(run->ctx, nf_graph_csr(dbscan->graph), &params, dbscan->labels, &dbscan->found);
    }
    return nf_radius_components(run->ctx, dbscan->index, &params, dbscan->labels, &dbscan->found);
}

static nf_status find_clusters(cli_run *run, cli_dbscan *dbscan)
{
    const nf_dbscan_params *params = &run->settings.dbscan;
    dbscan->stats.struct_size = sizeof dbscan->stats;
    if (dbscan->graph != NULL) {
        return nf_graph_dbscan(run->ctx, nf_graph_csr(dbscan->graph), params, dbscan->labels, NULL, &dbscan->stats);
    }
    return nf_dbscan(run->ctx, dbscan->index, params, dbscan->labels, NULL, &dbscan->stats);
}

static nf_status make_index(cli_run *run, cli_dbscan *dbscan)
{
    const double start = cli_now();
    if (dbscan->graph != NULL) return NF_OK;
    const nf_status status = nf_radius_index_create(run->ctx, nf_dataset_matrix(dbscan->data.dataset),
                                                    &run->settings.radius_index, &dbscan->index);
    dbscan->build_seconds = cli_now() - start;
    return status;
}

/* Finds the radius of --selectivity; the values have done their part then. */
static int take_radius(cli_run *run, cli_dbscan *dbscan)
{
    if (dbscan->graph != NULL) return 0;
    const int code = cli_find_radius(run, dbscan->index, nf_dataset_matrix(dbscan->data.dataset), true, &dbscan->selectivity,
                                     &run->settings.dbscan.radius);
    if (code == 0) cli_input_release_values(&dbscan->data);
    return code;
}

static int cluster(cli_run *run, cli_dbscan *dbscan)
{
    dbscan->labels = malloc(dbscan->data.rows * sizeof *dbscan->labels + 1);
    if (dbscan->labels == NULL) return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for one label per row");
    nf_status status = make_index(run, dbscan);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_WORKING);
    const int code = take_radius(run, dbscan);
    if (code != 0) return code;
    status = dbscan->components ? find_components(run, dbscan) : find_clusters(run, dbscan);
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
    if (dbscan->graph == NULL) {
        cli_input_print(to, "data", &dbscan->data);
    } else {
        fprintf(to, "%-12s%s: a graph of %s rows\n", "data", dbscan->data.path, cli_count(dbscan->data.rows).text);
    }
    if (!isnan(run->settings.selectivity)) {
        fprintf(to, "%-12s%s\n", "radius", cli_number(run->settings.dbscan.radius).text);
    }
    cli_print_selectivity(to, run, &dbscan->selectivity);
    if (dbscan->components) {
        print_components(to, &dbscan->found);
    } else {
        print_clusters(to, &dbscan->stats);
    }
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
    if (dbscan->graph == NULL) cli_json_count(&json, "dims", dbscan->data.dims);
    cli_json_number(&json, "seconds", dbscan->build_seconds + working_seconds(dbscan));
    if (!dbscan->components) cli_json_text(&json, "metric", nf_metric_name(run->settings.radius_index.metric));
    cli_json_number(&json, "radius", run->settings.dbscan.radius);
    if (!dbscan->components) cli_json_number(&json, "similarity", run->settings.dbscan.similarity);
    if (!dbscan->components) cli_json_selectivity(&json, run, &dbscan->selectivity);
    if (dbscan->components) {
        report_components(&dbscan->found, &json);
    } else {
        report_clusters(run, &dbscan->stats, &json);
    }
    cli_json_count(&json, "skipped", dbscan->data.skipped);
    cli_json_number(&json, "read_seconds", dbscan->read_seconds);
    cli_json_number(&json, "write_seconds", dbscan->write_seconds);
    cli_json_text(&json, "output", run->settings.output);
    cli_json_close(&json);
    return cli_report_json(run, &json);
}

/* A graph has its distances: no other metric, no sample. */
static int check_radius(cli_run *run, bool components)
{
    const cli_settings *settings = &run->settings;
    if (components) return isnan(settings->dbscan.radius) ? cli_fail_usage(run, "components needs --radius R") : 0;
    if (is_graph(run) && (settings->radius_index.metric != NF_METRIC_L2 || !isnan(settings->selectivity))) {
        return cli_fail_usage(run, "--metric and --selectivity are for vectors, not for a graph (.npz)");
    }
    return cli_check_radius(run, settings->dbscan.radius, settings->dbscan.similarity);
}

static int run_clustering(cli_run *run, bool components)
{
    cli_dbscan dbscan = {.components = components};
    int        code = check_radius(run, components);
    if (code != 0) return code;
    code = cli_open_context(run);
    if (code != 0) return code;
    code = read_data(run, &dbscan);
    if (code == 0) code = cluster(run, &dbscan);
    if (code == 0) code = write_labels(run, &dbscan);
    cli_progress_clear(&run->progress);
    if (code == 0) code = report(run, &dbscan);
    free(dbscan.labels);
    nf_graph_release(dbscan.graph);
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
