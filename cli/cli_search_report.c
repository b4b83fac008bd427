/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a search: for people, with a table when there are several numbers of probes, and as an object. */
#include <math.h>

#include "cli_index.h"
#include "cli_report.h"
#include "cli_search.h"
#include "cli_text.h"

static double per_query(uint64_t count, const cli_search *search)
{
    return search->queries.rows > 0 ? (double)count / (double)search->queries.rows : 0.0;
}

static double queries_per_second(const cli_search *search, const cli_search_point *point)
{
    return point->seconds > 0.0 ? (double)search->queries.rows / point->seconds : 0.0;
}

/* Why the recall may be larger than printed. */
static void print_doubt(FILE *to, const cli_truth *truth)
{
    if (truth->set == NULL) return;
    if (truth->no_more) {
        fprintf(to, "%-12sthe truth holds k neighbours and no more: rows that tie with the k-th count as missed\n", "");
    } else if (truth->cut > 0) {
        fprintf(to,
                "%-12sat least: the truth of %s queries ends inside a tie with the k-th; knn with a larger -k helps\n",
                "", cli_count(truth->cut).text);
    }
}

static void print_latency(FILE *to, const cli_search_point *point)
{
    if (isnan(point->latency[0])) return;
    fprintf(to, "  %9.3f %9.3f %9.3f", 1e3 * point->latency[0], 1e3 * point->latency[1], 1e3 * point->latency[2]);
}

static void print_table(FILE *to, const cli_run *run, const cli_search *search)
{
    fprintf(to, "\n%9s  %9s  %11s  %11s  %11s", "probes", "recall", "QPS", "scanned", "refined");
    if (run->settings.batch > 0) fprintf(to, "  %9s %9s %9s", "p50 ms", "p95 ms", "p99 ms");
    fputc('\n', to);
    for (uint32_t i = 0; i < search->point_count; i++) {
        const cli_search_point *point = &search->points[i];
        char                    recall[16] = "-";
        if (!isnan(point->recall)) snprintf(recall, sizeof recall, "%.4f", point->recall);
        fprintf(to, "%9s  %9s  %11.1f  %11.1f  %11.1f", cli_count(point->stats.probes).text, recall,
                queries_per_second(search, point), per_query(point->stats.scanned, search),
                per_query(point->stats.refined, search));
        print_latency(to, point);
        fputc('\n', to);
    }
    fprintf(to, "\n%-12sscanned and refined are rows per query%s\n", "",
            run->settings.batch > 0 ? "; times are of a call" : "");
    print_doubt(to, &search->truth);
}

static void print_steps(FILE *to, const cli_search *search, const cli_search_point *point)
{
    const char *between = "; steps over all threads: ";
    for (uint32_t step = 0; step < NF_IVF_SEARCH_STEPS && nf_ivf_search_step_name(step) != NULL; step++) {
        if (point->stats.step_seconds[step] <= 0.0) continue;
        fprintf(to, "%s%s %.3f", between, nf_ivf_search_step_name(step), point->stats.step_seconds[step]);
        between = ", ";
    }
    fprintf(to, "; reading %s\n", cli_seconds(search->read_seconds).text);
}

static void print_one(FILE *to, const cli_run *run, const cli_search *search)
{
    const cli_search_point *point = &search->points[0];

    fprintf(to, "%-12s%s of %s lists; %s rows scanned and %s refined per query\n", "probes",
            cli_count(point->stats.probes).text, cli_count(search->info.lists).text,
            cli_mean(per_query(point->stats.scanned, search)).text,
            cli_mean(per_query(point->stats.refined, search)).text);
    if (!isnan(point->recall)) fprintf(to, "%-12s%.4f\n", "recall", point->recall);
    print_doubt(to, &search->truth);
    fprintf(to, "%-12s%s queries a second\n", "QPS", cli_mean(queries_per_second(search, point)).text);
    if (run->settings.batch > 0) {
        fprintf(to, "%-12sp50 %.3f, p95 %.3f, p99 %.3f ms a call of %u quer%s\n", "latency", 1e3 * point->latency[0],
                1e3 * point->latency[1], 1e3 * point->latency[2], run->settings.batch,
                run->settings.batch == 1 ? "y" : "ies");
    }
    fprintf(to, "%-12s%s%s", "time", cli_seconds(point->seconds).text,
            run->settings.repeat > 1 ? ", the median of the repetitions" : "");
    print_steps(to, search, point);
    fprintf(to, "%-12s%s\n", "result",
            run->settings.output != NULL ? cli_output_name(run->settings.output) : "not kept (-o FILE writes it)");
}

static void print_text(FILE *to, const cli_run *run, const cli_search *search)
{
    const cli_settings *settings = &run->settings;

    fprintf(to, "%-12s%s: %s rows of %u values in %s lists, %u bits, metric %s\n", "index", settings->arguments[0],
            cli_count(search->info.rows).text, search->info.dims, cli_count(search->info.lists).text, search->info.bits,
            nf_metric_name(search->info.metric));
    cli_input_print(to, "queries", &search->queries);
    fprintf(to, "%-12s%u per query%s%s\n", "neighbours", settings->ivf_search.k,
            settings->filter != NULL    ? ", only ids of "
            : settings->exclude != NULL ? ", without ids of "
                                        : "",
            settings->filter != NULL    ? settings->filter
            : settings->exclude != NULL ? settings->exclude
                                        : "");
    if (settings->probes == NULL && search->info.recall_points == 0) {
        fprintf(to, "%-12sthe index holds no table of recall, so the number of probes is a guess; give --probes\n",
                "warning");
    }
    if (search->point_count == 1) print_one(to, run, search);
    else print_table(to, run, search);
}

/* Members of one number of probes. */
static void fill_point(cli_json *json, const cli_run *run, const cli_search *search, const cli_search_point *point)
{
    cli_json_count(json, "probes", point->stats.probes);
    cli_json_number(json, "recall", point->recall);
    cli_json_number(json, "qps", queries_per_second(search, point));
    cli_json_number(json, "seconds", point->seconds);
    cli_json_number(json, "scanned", per_query(point->stats.scanned, search));
    cli_json_number(json, "refined", per_query(point->stats.refined, search));
    if (run->settings.batch == 0) {
        cli_json_text(json, "latency_ms", NULL);
    } else {
        cli_json_open(json, "latency_ms");
        cli_json_number(json, "p50", 1e3 * point->latency[0]);
        cli_json_number(json, "p95", 1e3 * point->latency[1]);
        cli_json_number(json, "p99", 1e3 * point->latency[2]);
        cli_json_close(json);
    }
    cli_json_open(json, "steps");
    for (uint32_t step = 0; step < NF_IVF_SEARCH_STEPS && nf_ivf_search_step_name(step) != NULL; step++) {
        cli_json_number(json, nf_ivf_search_step_name(step), point->stats.step_seconds[step]);
    }
    cli_json_close(json);
}

static void fill_points(cli_json *json, const cli_run *run, const cli_search *search)
{
    if (search->point_count == 1) {
        fill_point(json, run, search, &search->points[0]);
        return;
    }
    cli_json_open_array(json, "sweep");
    for (uint32_t i = 0; i < search->point_count; i++) {
        cli_json_open(json, NULL);
        fill_point(json, run, search, &search->points[i]);
        cli_json_close(json);
    }
    cli_json_close_array(json);
}

int cli_search_report(cli_run *run, const cli_search *search)
{
    const cli_settings *settings = &run->settings;
    FILE               *to = cli_report_stream(run);
    cli_json            json = {0};

    if (to != NULL) print_text(to, run, search);
    cli_report_begin(run, &json);
    cli_report_engine(run, &json);
    cli_json_count(&json, "rows", search->info.rows);
    cli_json_count(&json, "queries", search->queries.rows);
    cli_json_count(&json, "dims", search->info.dims);
    cli_json_count(&json, "lists", search->info.lists);
    cli_json_count(&json, "bits", search->info.bits);
    cli_json_text(&json, "metric", nf_metric_name(search->info.metric));
    cli_json_text(&json, "file_id", cli_file_id(search->info.file_id).text);
    cli_json_count(&json, "k", settings->ivf_search.k);
    cli_json_number(&json, "epsilon0", settings->ivf_search.epsilon0);
    cli_json_count(&json, "rerank", settings->ivf_search.rerank);
    cli_json_count(&json, "batch", settings->batch);
    cli_json_count(&json, "repeat", settings->repeat);
    fill_points(&json, run, search);
    if (search->truth.set != NULL && !search->truth.no_more) cli_json_count(&json, "truth_cut", search->truth.cut);
    else cli_json_text(&json, "truth_cut", NULL);
    cli_json_count(&json, "skipped", search->queries.skipped);
    cli_json_number(&json, "read_seconds", search->read_seconds);
    cli_json_number(&json, "write_seconds", search->write_seconds);
    cli_json_text(&json, "output", settings->output);
    cli_json_close(&json);
    return cli_report_json(run, &json);
}
