/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nearfield search: opens an index, reads queries, and searches them with one or several numbers of probes, each as
 * often as --repeat says. Only the calls of the search are timed; of the repetitions the median counts.
 */
#include "cli_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli_clock.h"
#include "cli_error.h"
#include "cli_report.h"

/* "8,16,32": whole numbers from 1 on. */
static int parse_probes(cli_run *run, cli_search *search)
{
    const char *text = run->settings.probes;

    search->point_count = 1;
    if (text == NULL) return 0;
    search->point_count = 0;
    for (const char *at = text;; at++) {
        uint64_t     value = 0;
        const size_t digits = strspn(at, "0123456789");
        for (size_t i = 0; i < digits && value <= UINT32_MAX; i++) value = 10 * value + (uint64_t)(at[i] - '0');
        at += digits;
        if (value == 0 || value > UINT32_MAX || (*at != ',' && *at != '\0')) {
            return cli_fail_usage(
                run, "--probes is '%.200s', whole numbers from 1 on are needed, with commas between them", text);
        }
        if (search->point_count == CLI_MAX_POINTS) {
            return cli_fail_usage(run, "--probes holds more than %d numbers", CLI_MAX_POINTS);
        }
        search->probes[search->point_count++] = (uint32_t)value;
        if (*at == '\0') return 0;
    }
}

static int check_options(cli_run *run, cli_search *search)
{
    cli_settings *settings = &run->settings;
    const double  recall = settings->ivf_search.recall;
    int           code = cli_neighbours_check_output(run);

    if (code == 0) code = parse_probes(run, search);
    if (code != 0) return code;
    if (settings->probes != NULL && !isnan(recall)) return cli_fail_usage(run, "give --probes or --recall, not both");
    if (settings->filter != NULL && settings->exclude != NULL) {
        return cli_fail_usage(run, "give --filter or --exclude, not both");
    }
    if (settings->output != NULL && search->point_count > 1) {
        return cli_fail_usage(run, "-o FILE is for one number of --probes");
    }
    if (isnan(recall)) {
        nf_ivf_search_params defaults;
        nf_ivf_search_params_init(&defaults);
        settings->ivf_search.recall = defaults.recall;
    }
    return 0;
}

static int open_index(cli_run *run, cli_search *search)
{
    const nf_status status = nf_ivf_open(run->ctx, run->settings.arguments[0], &run->settings.ivf_open, &search->index);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_OPENING);
    search->info.struct_size = sizeof search->info;
    nf_ivf_describe(search->index, &search->info);
    return 0;
}

static int read_queries(cli_run *run, const nf_read_params *params, cli_search *search)
{
    cli_input *queries = &search->queries;
    queries->path = run->settings.arguments[1];
    const int code = cli_input_read(run, params, queries);
    if (code != 0 || queries->dims == search->info.dims) return code;
    return cli_fail(run, CLI_INPUT, NF_ERR_VALUE, "%s: rows have %u values, but those of the index %s have %u",
                    queries->path, queries->dims, run->settings.arguments[0], search->info.dims);
}

static int make_filter(cli_run *run, cli_search *search)
{
    const cli_settings *settings = &run->settings;
    const char         *path = settings->filter != NULL ? settings->filter : settings->exclude;
    int64_t            *ids = NULL;
    uint64_t            count = 0;

    if (path == NULL) return 0;
    int code = cli_read_ids(run, path, &ids, &count);
    if (code == 0) {
        const nf_status status =
            nf_ivf_filter_ids(run->ctx, search->index, ids, count, settings->exclude != NULL, &search->filter);
        if (status != NF_OK) code = cli_fail_call(run, status, CLI_WORKING);
    }
    free(ids);
    run->settings.ivf_search.filter = search->filter;
    return code;
}

static int read_inputs(cli_run *run, const nf_read_params *query_read, cli_search *search)
{
    const double start = cli_now();
    int          code = open_index(run, search);
    if (code == 0) code = read_queries(run, query_read, search);
    if (code == 0) code = cli_truth_read(run, &search->queries, run->settings.ivf_search.k, &search->truth);
    if (code == 0) code = make_filter(run, search);
    search->read_seconds = cli_now() - start;
    return code;
}

/* Adds what one call did. */
static void add_stats(nf_ivf_search_stats *sum, const nf_ivf_search_stats *call)
{
    for (uint32_t step = 0; step < NF_IVF_SEARCH_STEPS; step++) sum->step_seconds[step] += call->step_seconds[step];
    sum->scanned += call->scanned;
    sum->refined += call->refined;
    sum->probes = call->probes;
}

/* All queries once, in calls of batch queries. latencies: one value per call. */
static nf_status search_once(cli_run *run, cli_search *search, uint64_t batch, cli_search_point *pass,
                             double *latencies)
{
    const nf_matrix *all = nf_dataset_matrix(search->queries.dataset);
    cli_neighbours  *found = &search->found;
    const uint64_t   stride =
        all->stride_bytes != 0 ? all->stride_bytes : all->dims * nf_dtype_bytes((nf_dtype)all->dtype);

    memset(pass, 0, sizeof *pass);
    for (uint64_t first = 0, call = 0; first < all->rows || call == 0; first += batch, call++) {
        nf_ivf_search_stats stats = {.struct_size = sizeof stats};
        nf_matrix           part = *all;
        part.data = (const char *)all->data + first * stride;
        part.rows = all->rows - first < batch ? all->rows - first : batch;
        const double    start = cli_now();
        const nf_status status =
            nf_ivf_search(run->ctx, search->index, &part, &run->settings.ivf_search, found->ids + first * found->k,
                          (float *)found->distances + first * found->k, found->counts + first, &stats);
        latencies[call] = cli_now() - start;
        if (status != NF_OK) return status;
        pass->seconds += latencies[call];
        add_stats(&pass->stats, &stats);
    }
    return NF_OK;
}

static int compare_numbers(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static int compare_passes(const void *a, const void *b)
{
    const cli_search_point *left = a, *right = b;
    return compare_numbers(&left->seconds, &right->seconds);
}

/* The value that the given share of all does not exceed. */
static double percentile(const double *sorted, uint64_t count, double share)
{
    const uint64_t rank = (uint64_t)ceil(share * (double)count);
    return sorted[rank > 0 ? rank - 1 : 0];
}

/* Queries of a call, and calls of a repetition: without queries one call of none. */
static uint64_t batch_of(const cli_run *run, const cli_search *search)
{
    const uint64_t rows = search->queries.rows > 0 ? search->queries.rows : 1;
    return run->settings.batch > 0 && run->settings.batch < rows ? run->settings.batch : rows;
}

static uint64_t calls_of(const cli_run *run, const cli_search *search)
{
    const uint64_t batch = batch_of(run, search), calls = (search->queries.rows + batch - 1) / batch;
    return calls > 0 ? calls : 1;
}

/* Searches as often as asked for, with one number of probes. passes: one per repetition; latencies: one per call of
 * all. */
static int search_point(cli_run *run, cli_search *search, uint32_t point, cli_search_point *passes, double *latencies)
{
    static const double shares[3] = {0.50, 0.95, 0.99};
    cli_search_point   *out = &search->points[point];
    const uint32_t      repeat = run->settings.repeat;
    const uint64_t      batch = batch_of(run, search), calls = calls_of(run, search);

    run->settings.ivf_search.probes = search->probes[point];
    for (uint32_t i = 0; i < repeat; i++) {
        const nf_status status = search_once(run, search, batch, &passes[i], latencies + i * calls);
        if (status != NF_OK) return cli_fail_call(run, status, CLI_WORKING);
    }
    qsort(passes, repeat, sizeof *passes, compare_passes);
    *out = passes[(repeat - 1) / 2];
    qsort(latencies, calls * repeat, sizeof *latencies, compare_numbers);
    for (int i = 0; i < 3; i++) {
        out->latency[i] = run->settings.batch > 0 ? percentile(latencies, calls * repeat, shares[i]) : (double)NAN;
    }
    out->recall = (double)NAN;
    return search->truth.set != NULL ? cli_recall(run, &search->truth, &search->queries, &search->found, &out->recall)
                                     : 0;
}

static int search_points(cli_run *run, cli_search *search)
{
    const uint64_t    repeat = run->settings.repeat, calls = calls_of(run, search);
    cli_search_point *passes = malloc(repeat * sizeof *passes);
    double           *latencies = malloc(calls * repeat * sizeof *latencies);
    int               code =
        cli_neighbours_alloc(run, search->queries.rows, run->settings.ivf_search.k, NF_DTYPE_F32, &search->found);

    if (code == 0 && (passes == NULL || latencies == NULL)) {
        code = cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for the times of the calls");
    }
    for (uint32_t point = 0; code == 0 && point < search->point_count; point++) {
        code = search_point(run, search, point, passes, latencies);
    }
    free(passes);
    free(latencies);
    return code;
}

int cli_run_search(cli_run *run)
{
    nf_read_params query_read;
    cli_search     search = {.point_count = 0};
    int            code = check_options(run, &search);

    if (code == 0) code = cli_input_query_params(run, &query_read);
    if (code == 0) code = cli_open_context(run);
    if (code != 0) return code;
    code = read_inputs(run, &query_read, &search);
    if (code == 0) code = search_points(run, &search);
    if (code == 0) {
        code = cli_neighbours_write(run, &search.found, search.info.metric, &search.queries, &search.write_seconds);
    }
    cli_progress_clear(&run->progress);
    if (code == 0) code = cli_search_report(run, &search);
    cli_neighbours_free(&search.found);
    nf_neighbour_set_release(search.truth.set);
    nf_ivf_filter_release(search.filter);
    nf_ivf_release(search.index);
    cli_input_release(&search.queries);
    return code;
}
