/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield knn: the k nearest rows of each query, or of each row, exactly. */
#include "cli_clock.h"
#include "cli_error.h"
#include "cli_neighbours.h"
#include "cli_report.h"
#include "cli_text.h"

typedef struct cli_knn {
    cli_input      data, queries;
    cli_neighbours found;
    nf_knn_stats   stats;
    double         read_seconds, write_seconds;
} cli_knn;

static bool is_self_join(const cli_run *run)
{
    return run->settings.argument_count < 2;
}

static const cli_input *asking(const cli_run *run, const cli_knn *knn)
{
    return is_self_join(run) ? &knn->data : &knn->queries;
}

static int check_options(cli_run *run, nf_read_params *query_read)
{
    const nf_knn_params *params = &run->settings.knn;
    const int            code = cli_neighbours_check_output(run);
    if (code != 0) return code;
    if (is_self_join(run) && run->settings.query_rows != NULL) {
        return cli_fail_usage(run, "--query-rows needs QUERIES");
    }
    if (is_self_join(run) && params->metric != NF_METRIC_L2 && params->k == NF_MAX_K) {
        return cli_fail_usage(run, "--k is %u, at most %u are allowed with --metric %s and without QUERIES", params->k,
                              NF_MAX_K - 1, nf_metric_name(params->metric));
    }
    return cli_input_query_params(run, query_read);
}

static int read_inputs(cli_run *run, const nf_read_params *query_read, cli_knn *knn)
{
    const double start = cli_now();
    knn->data.path = run->settings.arguments[0];
    int code = cli_input_read(run, &run->settings.read, &knn->data);
    if (code == 0 && !is_self_join(run)) {
        knn->queries.path = run->settings.arguments[1];
        code = cli_input_read(run, query_read, &knn->queries);
        if (code == 0) code = cli_input_same_dims(run, &knn->data, &knn->queries);
    }
    knn->read_seconds = cli_now() - start;
    return code;
}

/* Ids become row numbers of the data's file. */
static void number_ids(cli_knn *knn)
{
    int64_t       *ids = knn->found.ids;
    const uint64_t entries = knn->found.queries * knn->found.k;
    for (uint64_t i = 0; i < entries; i++) {
        if (ids[i] >= 0) ids[i] = cli_input_row_id(&knn->data, (uint64_t)ids[i]);
    }
}

/* Every row asks, under L2: through an index. */
static nf_status search_rows(cli_run *run, const nf_matrix *data, cli_knn *knn)
{
    nf_radius_index *index = NULL;
    const double     start = cli_now();
    nf_status        status = nf_radius_index_create(run->ctx, data, NULL, &index);
    if (status == NF_OK) {
        status = nf_radius_knn(run->ctx, index, NULL, &run->settings.knn, knn->found.ids, knn->found.distances,
                               knn->found.counts, &knn->stats);
    }
    nf_radius_index_release(index);
    knn->stats.seconds = cli_now() - start;
    return status;
}

/* Takes a row's own number out of one neighbour more than k. Where more than k rows are as near as itself, it may not be
 * among them. */
static void leave_out(const cli_neighbours *more, uint64_t row, cli_neighbours *found)
{
    const uint64_t from = row * more->k, to = row * found->k;
    const double  *given = more->distances;
    double        *distances = found->distances;
    uint32_t       taken = 0;
    for (uint32_t i = 0; i < more->k && taken < found->k; i++) {
        if (more->ids[from + i] == (int64_t)row) continue;
        found->ids[to + taken] = more->ids[from + i];
        distances[to + taken++] = given[from + i];
    }
    found->counts[row] = more->counts[row] - 1 < found->k ? more->counts[row] - 1 : found->k;
}

/* Every row asks, under a metric that has no index: for one neighbour more, since it may find itself. */
static int search_rows_by_pairs(cli_run *run, const nf_matrix *data, cli_knn *knn)
{
    nf_knn_params  params = run->settings.knn;
    cli_neighbours more = {.queries = 0};
    nf_status      status = NF_OK;
    int            code = cli_neighbours_alloc(run, data->rows, ++params.k, NF_DTYPE_F64, &more);
    if (code == 0) {
        status = nf_knn(run->ctx, data, data, &params, more.ids, more.distances, more.counts, &knn->stats);
        if (status != NF_OK) code = cli_fail_call(run, status, CLI_WORKING);
    }
    for (uint64_t row = 0; code == 0 && row < data->rows; row++) leave_out(&more, row, &knn->found);
    cli_neighbours_free(&more);
    return code;
}

static int search(cli_run *run, cli_knn *knn)
{
    const nf_knn_params *params = &run->settings.knn;
    const nf_matrix     *data = nf_dataset_matrix(knn->data.dataset);
    nf_status            status;
    int code = cli_neighbours_alloc(run, asking(run, knn)->rows, params->k, NF_DTYPE_F64, &knn->found);

    if (code != 0) return code;
    knn->stats.struct_size = sizeof knn->stats;
    if (is_self_join(run) && params->metric != NF_METRIC_L2) {
        code = search_rows_by_pairs(run, data, knn);
        if (code != 0) return code;
    } else {
        status = is_self_join(run) ? search_rows(run, data, knn)
                                   : nf_knn(run->ctx, data, nf_dataset_matrix(knn->queries.dataset), params, knn->found.ids,
                                            knn->found.distances, knn->found.counts, &knn->stats);
        if (status != NF_OK) return cli_fail_call(run, status, CLI_WORKING);
    }
    number_ids(knn);
    return cli_neighbours_write(run, &knn->found, params->metric, asking(run, knn), &knn->write_seconds);
}

static double queries_per_second(const cli_knn *knn)
{
    return knn->stats.seconds > 0.0 ? (double)knn->found.queries / knn->stats.seconds : 0.0;
}

static void print_text(FILE *to, const cli_run *run, const cli_knn *knn)
{
    const nf_knn_params *params = &run->settings.knn;
    cli_input_print(to, "data", &knn->data);
    if (!is_self_join(run)) cli_input_print(to, "queries", &knn->queries);
    fprintf(to, "%-12s%u nearest by %s, exactly%s\n", "neighbours", params->k, nf_metric_name(params->metric),
            is_self_join(run) ? ", each row's own left out" : "");
    fprintf(to, "%-12s%s pairs; %s rechecked in binary64\n", "compared", cli_count(knn->stats.compared).text,
            cli_count(knn->stats.rechecked).text);
    fprintf(to, "%-12s%s (%s queries a second); reading %s", "time", cli_seconds(knn->stats.seconds).text,
            cli_mean(queries_per_second(knn)).text, cli_seconds(knn->read_seconds).text);
    if (run->settings.output != NULL) fprintf(to, ", writing %s", cli_seconds(knn->write_seconds).text);
    fprintf(to, "\n%-12s%s\n", "result",
            run->settings.output != NULL ? cli_output_name(run->settings.output) : "not kept (-o FILE writes it)");
}

static int report(cli_run *run, const cli_knn *knn)
{
    FILE    *to = cli_report_stream(run);
    cli_json json = {0};

    if (to != NULL) print_text(to, run, knn);
    cli_report_begin(run, &json);
    cli_report_engine(run, &json);
    cli_json_count(&json, "rows", knn->data.rows);
    cli_json_count(&json, "queries", knn->found.queries);
    cli_json_count(&json, "dims", knn->data.dims);
    cli_json_number(&json, "seconds", knn->stats.seconds);
    cli_json_count(&json, "k", run->settings.knn.k);
    cli_json_text(&json, "metric", nf_metric_name(run->settings.knn.metric));
    cli_json_number(&json, "qps", queries_per_second(knn));
    cli_json_count(&json, "compared", knn->stats.compared);
    cli_json_count(&json, "rechecked", knn->stats.rechecked);
    cli_json_count(&json, "skipped", knn->data.skipped + knn->queries.skipped);
    cli_json_number(&json, "read_seconds", knn->read_seconds);
    cli_json_number(&json, "write_seconds", knn->write_seconds);
    cli_json_text(&json, "output", run->settings.output);
    cli_json_close(&json);
    return cli_report_json(run, &json);
}

int cli_run_knn(cli_run *run)
{
    nf_read_params query_read;
    cli_knn        knn = {.read_seconds = 0.0};
    int            code = check_options(run, &query_read);

    if (code == 0) code = cli_open_context(run);
    if (code != 0) return code;
    code = read_inputs(run, &query_read, &knn);
    if (code == 0) code = search(run, &knn);
    cli_progress_clear(&run->progress);
    if (code == 0) code = report(run, &knn);
    cli_neighbours_free(&knn.found);
    cli_input_release(&knn.data);
    cli_input_release(&knn.queries);
    return code;
}
