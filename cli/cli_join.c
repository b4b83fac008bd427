/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nearfield join: reads the inputs, builds the index, and writes the pairs, or counts them where no output is named.
 * The index holds its own copy of the data, so the data's own memory is given back before the join: only queries stay.
 */
#include "cli_join.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli_clock.h"
#include "cli_error.h"
#include "cli_radius.h"
#include "cli_report.h"
#include "cli_text.h"

/* One of --radius (or what stands for it), --radii and --histogram. */
static int check_radii(cli_run *run, const cli_settings *settings)
{
    const int several = (settings->radii != NULL) + (settings->histogram != NULL);
    const int single = !isnan(settings->radius.radius) + !isnan(settings->radius.similarity) + !isnan(settings->selectivity);

    if (several == 0) return cli_check_radius(run, settings->radius.radius, settings->radius.similarity);
    if (several + single > 1) return cli_fail_usage(run, "join takes one of --radius, --radii and --histogram");
    if (settings->radius_index.metric != NF_METRIC_L2) return cli_fail_usage(run, "--radii and --histogram are of --metric l2");
    if (settings->estimate) return cli_fail_usage(run, "--estimate goes with a single radius");
    if (settings->radii != NULL && settings->radius.half) return cli_fail_usage(run, "--half does not go with --radii");
    if (settings->histogram != NULL && settings->write.counts) {
        return cli_fail_usage(run, "--counts does not go with --histogram");
    }
    return 0;
}

static int check_options(cli_run *run, nf_read_params *query_read)
{
    const cli_settings *settings = &run->settings;
    const bool          self_join = settings->argument_count < 2;

    const int code = check_radii(run, settings);
    if (code != 0) return code;
    if (!self_join && settings->radius.self) return cli_fail_usage(run, "--self is for a join without QUERIES");
    if (!self_join && settings->radius.half) return cli_fail_usage(run, "--half is for a join without QUERIES");
    if (self_join && settings->query_rows != NULL) return cli_fail_usage(run, "--query-rows needs QUERIES");
    if (settings->output == NULL && settings->write.format != NULL) return cli_fail_usage(run, "--format needs -o FILE");
    if (settings->output == NULL && settings->write.counts) return cli_fail_usage(run, "--counts needs -o FILE");
    if (settings->output != NULL && strcmp(settings->output, "-") == 0 && settings->write.format == NULL) {
        return cli_fail_usage(run, "'-o -' needs --format");
    }
    return cli_input_query_params(run, query_read);
}

/* Reads a side, and copies its ids, which must outlive the values. */
static int read_side(cli_run *run, const nf_read_params *params, cli_input *side)
{
    const int code = cli_input_read(run, params, side);
    if (code != 0 || nf_dataset_ids(side->dataset) == NULL) return code;
    const int64_t *ids = nf_dataset_ids(side->dataset);
    side->ids = malloc(side->rows * sizeof *ids + 1);
    if (side->ids == NULL) return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for the ids of %s", side->path);
    memcpy(side->ids, ids, side->rows * sizeof *ids);
    return 0;
}

static int read_inputs(cli_run *run, const nf_read_params *query_read, cli_join *join)
{
    const double start = cli_now();
    int          code = read_side(run, &run->settings.read, &join->data);
    if (code == 0 && join->queries.path != NULL) code = read_side(run, query_read, &join->queries);
    join->read_seconds = cli_now() - start;
    if (code != 0 || join->queries.path == NULL) return code;
    return cli_input_same_dims(run, &join->data, &join->queries);
}

static int build_index(cli_run *run, cli_join *join)
{
    nf_status status = nf_radius_index_create(run->ctx, nf_dataset_matrix(join->data.dataset), &run->settings.radius_index,
                                              &join->index);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_WORKING);
    const bool       self_join = join->queries.dataset == NULL;
    const nf_matrix *asking = nf_dataset_matrix(self_join ? join->data.dataset : join->queries.dataset);
    int code = cli_find_radius(run, join->index, asking, self_join, &join->selectivity, &run->settings.radius.radius);
    if (code == 0 && run->settings.estimate) code = cli_join_estimate(run, join, asking, self_join);
    cli_input_release_values(&join->data);
    return code;
}

static nf_status write_pairs(cli_run *run, cli_join *join, const nf_matrix *queries)
{
    const cli_input *asking = queries != NULL ? &join->queries : &join->data;
    nf_write_params     *write = &run->settings.write;

    write->data_first = join->data.first;
    write->data_ids = join->data.ids;
    write->data_rows = join->data.file_rows;
    write->query_first = asking->first;
    write->query_ids = asking->ids;
    write->query_rows = asking->file_rows;
    return nf_write_join(run->ctx, join->index, queries, &run->settings.radius, run->settings.output, write,
                         &join->stats, &join->write_seconds);
}

static int search(cli_run *run, cli_join *join)
{
    const nf_matrix *queries = join->queries.dataset != NULL ? nf_dataset_matrix(join->queries.dataset) : NULL;
    uint64_t        *counts = NULL;
    nf_status        status;

    join->stats.struct_size = sizeof join->stats;
    if (join->bin_count > 0) return cli_join_histogram(run, join, queries);
    if (run->settings.output != NULL) {
        status = write_pairs(run, join, queries);
    } else {
        counts = malloc((queries != NULL ? queries->rows : join->data.rows) * sizeof *counts + 1);
        if (counts == NULL) return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for one count per query");
        status = nf_radius_counts(run->ctx, join->index, queries, &run->settings.radius, counts, &join->stats);
        free(counts);
    }
    return status == NF_OK ? 0 : cli_fail_call(run, status, CLI_WORKING);
}

int cli_run_join(cli_run *run)
{
    nf_read_params query_read;
    cli_join       join = {0};
    int            code = check_options(run, &query_read);

    if (code == 0 && run->settings.histogram != NULL) code = cli_join_parse_histogram(run, &join);
    if (code == 0) code = cli_open_context(run);
    if (code != 0) {
        free(join.bins);
        free(join.bin_pairs);
        return code;
    }
    join.data.path = run->settings.arguments[0];
    if (run->settings.argument_count > 1) join.queries.path = run->settings.arguments[1];
    code = read_inputs(run, &query_read, &join);
    if (code == 0 && run->settings.radii != NULL) {
        code = cli_join_read_radii(run, &join, join.queries.path != NULL ? join.queries.rows : join.data.rows);
    }
    if (code == 0) code = build_index(run, &join);
    if (code == 0 && !run->settings.estimate) code = search(run, &join);
    cli_progress_clear(&run->progress);
    if (code == 0) code = run->settings.estimate ? cli_join_estimate_report(run, &join) : cli_join_report(run, &join);
    nf_radius_index_release(join.index);
    free(join.radii);
    free(join.bins);
    free(join.bin_pairs);
    cli_input_release(&join.data);
    cli_input_release(&join.queries);
    return code;
}
