/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield build: an index of data, written to a file. */
#include <stdlib.h>
#include <string.h>

#include "cli_clock.h"
#include "cli_error.h"
#include "cli_index.h"
#include "cli_input.h"
#include "cli_report.h"

typedef struct cli_build {
    cli_input          data;
    nf_ivf_index      *index;
    nf_ivf_build_stats stats;
    double             read_seconds, write_seconds;
} cli_build;

static int check_options(cli_run *run)
{
    if (run->settings.output == NULL) return cli_fail_usage(run, "build needs -o INDEX");
    if (strcmp(run->settings.output, "-") == 0) return cli_fail_usage(run, "an index goes to a file, not to '-'");
    return 0;
}

/* Takes the ids of a file: one per row taken, or one per row of the data's file, of which some are taken. */
static int given_ids(cli_run *run, cli_input *data)
{
    const char *path = run->settings.ids;
    int64_t    *all = NULL;
    uint64_t    count = 0;
    int         code = cli_read_ids(run, path, &all, &count);

    if (code == 0 && count != data->rows && count != data->file_rows) {
        code = cli_fail(run, CLI_INPUT, NF_ERR_VALUE, "%s: %s ids for %s rows", path, cli_count(count).text,
                        cli_count(data->rows).text);
    }
    for (uint64_t row = 0; code == 0 && count != data->rows && row < data->rows; row++) {
        all[row] = all[cli_input_row_id(data, row)]; /* row ids ascend: none is read after it was overwritten */
    }
    data->ids = all;
    return code;
}

/* Ids are row numbers of the file, which are not those of the matrix when rows were left out. */
static int file_ids(cli_run *run, cli_input *data)
{
    if (data->first == 0 && nf_dataset_ids(data->dataset) == NULL) return 0;
    data->ids = malloc(data->rows * sizeof *data->ids + 1);
    if (data->ids == NULL) return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for the ids of %s", data->path);
    for (uint64_t row = 0; row < data->rows; row++) data->ids[row] = cli_input_row_id(data, row);
    return 0;
}

static int read_input(cli_run *run, cli_build *build)
{
    const double start = cli_now();
    build->data.path = run->settings.arguments[0];
    int code = cli_input_read(run, &run->settings.read, &build->data);
    if (code == 0) code = run->settings.ids != NULL ? given_ids(run, &build->data) : file_ids(run, &build->data);
    run->settings.ivf.ids = build->data.ids;
    build->read_seconds = cli_now() - start;
    if (code != 0 || build->data.rows > 0) return code;
    return cli_fail(run, CLI_INPUT, NF_ERR_VALUE, "%s: has no rows to build an index of", build->data.path);
}

static int make_index(cli_run *run, cli_build *build)
{
    build->stats.struct_size = sizeof build->stats;
    const nf_status built = nf_ivf_build(run->ctx, nf_dataset_matrix(build->data.dataset), &run->settings.ivf,
                                         &build->index, &build->stats);
    if (built != NF_OK) return cli_fail_call(run, built, CLI_WORKING);
    const double    start = cli_now();
    const nf_status saved = nf_ivf_save(run->ctx, build->index, run->settings.output, run->settings.write.sync);
    build->write_seconds = cli_now() - start;
    return saved == NF_OK ? 0 : cli_fail_call(run, saved, CLI_WORKING);
}

static void print_text(FILE *to, const cli_run *run, const cli_build *build)
{
    const char *between = ": ";

    cli_input_print(to, "data", &build->data);
    cli_index_print(to, build->index);
    fprintf(to, "%-12s%.4f of a residual's length, on average\n", "code error", build->stats.code_error);
    fprintf(to, "%-12s%s", "time", cli_seconds(build->stats.seconds).text);
    for (uint32_t step = 0; step < NF_IVF_BUILD_STEPS && nf_ivf_build_step_name(step) != NULL; step++) {
        if (build->stats.step_seconds[step] <= 0.0) continue;
        fprintf(to, "%s%s %.3f", between, nf_ivf_build_step_name(step), build->stats.step_seconds[step]);
        between = ", ";
    }
    fprintf(to, "; reading %s, writing %s\n", cli_seconds(build->read_seconds).text,
            cli_seconds(build->write_seconds).text);
    fprintf(to, "%-12s%s\n", "result", run->settings.output);
}

static int report(cli_run *run, const cli_build *build)
{
    FILE    *to = cli_report_stream(run);
    cli_json json = {0};

    if (to != NULL) print_text(to, run, build);
    cli_report_begin(run, &json);
    cli_report_engine(run, &json);
    cli_json_number(&json, "seconds", build->stats.seconds);
    cli_json_open(&json, "steps");
    for (uint32_t step = 0; step < NF_IVF_BUILD_STEPS && nf_ivf_build_step_name(step) != NULL; step++) {
        cli_json_number(&json, nf_ivf_build_step_name(step), build->stats.step_seconds[step]);
    }
    cli_json_close(&json);
    cli_index_fill(&json, build->index);
    cli_json_number(&json, "code_error", build->stats.code_error);
    cli_json_count(&json, "skipped", build->data.skipped);
    cli_json_number(&json, "read_seconds", build->read_seconds);
    cli_json_number(&json, "write_seconds", build->write_seconds);
    cli_json_text(&json, "output", run->settings.output);
    cli_json_close(&json);
    return cli_report_json(run, &json);
}

int cli_run_build(cli_run *run)
{
    cli_build build = {.read_seconds = 0.0};
    int       code = check_options(run);

    if (code == 0) code = cli_open_context(run);
    if (code != 0) return code;
    code = read_input(run, &build);
    if (code == 0) code = make_index(run, &build);
    cli_progress_clear(&run->progress);
    if (code == 0) code = report(run, &build);
    nf_ivf_release(build.index);
    cli_input_release(&build.data);
    return code;
}
