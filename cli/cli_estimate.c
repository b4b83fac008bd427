/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield join --estimate: what the join would give and take, from a sample. */
#include <math.h>
#include <string.h>

#include "cli_error.h"
#include "cli_join.h"
#include "cli_radius.h"
#include "cli_report.h"
#include "cli_text.h"

/* Which of the sizes of files is asked for: that of the suffix of the output. */
typedef enum result_file { FILE_NONE, FILE_NPZ, FILE_NPY, FILE_OTHER } result_file;

static result_file file_of(const cli_settings *settings)
{
    const char *name = settings->write.format;
    if (settings->output == NULL) return FILE_NONE;
    if (settings->write.counts) return FILE_OTHER;
    if (name == NULL) {
        name = strrchr(settings->output, '.');
        if (name == NULL) return FILE_OTHER;
        name++;
    }
    return strcmp(name, "npz") == 0 ? FILE_NPZ : strcmp(name, "npy") == 0 ? FILE_NPY : FILE_OTHER;
}

int cli_join_estimate(cli_run *run, cli_join *join, const nf_matrix *queries, bool self_join)
{
    nf_sample_params sample = run->settings.sample;
    sample.self_join = self_join;
    join->estimate.struct_size = sizeof join->estimate;
    const nf_status status =
        nf_radius_estimate(run->ctx, join->index, queries, &run->settings.radius, &sample, &join->estimate);
    return status == NF_OK ? 0 : cli_fail_call(run, status, CLI_WORKING);
}

static cli_short_text about(double pairs)
{
    return cli_count((uint64_t)(pairs + 0.5));
}

static void print_file(FILE *to, const cli_run *run, const nf_join_estimate *found)
{
    switch (file_of(&run->settings)) {
    case FILE_NPZ: fprintf(to, "%-12sabout %s, .npz\n", "file", cli_bytes(found->npz_bytes).text); break;
    case FILE_NPY: fprintf(to, "%-12sabout %s, .npy\n", "file", cli_bytes(found->npy_bytes).text); break;
    case FILE_OTHER: break;
    case FILE_NONE:
        fprintf(to, "%-12sabout %s as .npz, %s as .npy\n", "file", cli_bytes(found->npz_bytes).text,
                cli_bytes(found->npy_bytes).text);
        break;
    }
}

static void print_text(FILE *to, const cli_run *run, const cli_join *join)
{
    const nf_join_estimate *found = &join->estimate;

    cli_input_print(to, "data", &join->data);
    if (join->queries.path != NULL) cli_input_print(to, "queries", &join->queries);
    cli_print_radius(to, run);
    cli_print_selectivity(to, run, &join->selectivity);
    fprintf(to, "%-12sabout %s, with 95 %% %s to %s\n", "pairs", about(found->pairs).text, about(found->pairs_low).text,
            about(found->pairs_high).text);
    fprintf(to, "%-12s%s +- %s neighbours per query, from %s sampled\n", "", cli_mean(found->selectivity).text,
            cli_mean(found->standard_error).text, cli_count(found->sampled).text);
    print_file(to, run, found);
    fprintf(to, "%-12sabout %s at most\n", "memory", cli_bytes(found->peak_bytes).text);
    fprintf(to, "%-12sabout %s, with 95 %% %s to %s; index %s, reading %s\n", "time", cli_seconds(found->seconds).text,
            cli_seconds(found->seconds_low).text, cli_seconds(found->seconds_high).text,
            cli_seconds(found->build_seconds).text, cli_seconds(join->read_seconds).text);
    fprintf(to, "%-12snot made (--estimate)\n", "result");
}

static void fill_object(cli_json *json, cli_run *run, const cli_join *join)
{
    const nf_join_estimate *found = &join->estimate;

    cli_report_begin(run, json);
    cli_report_engine(run, json);
    cli_json_flag(json, "estimate", true);
    cli_json_count(json, "rows", join->data.rows);
    cli_json_count(json, "queries", found->queries);
    cli_json_count(json, "dims", join->data.dims);
    cli_json_text(json, "metric", nf_metric_name(run->settings.radius_index.metric));
    cli_json_number(json, "radius", run->settings.radius.radius);
    cli_json_number(json, "similarity", run->settings.radius.similarity);
    cli_json_number(json, "wanted_selectivity", run->settings.selectivity);
    cli_json_count(json, "sampled_rows", found->sampled);
    cli_json_number(json, "pairs", found->pairs);
    cli_json_number(json, "pairs_low", found->pairs_low);
    cli_json_number(json, "pairs_high", found->pairs_high);
    cli_json_number(json, "selectivity", found->selectivity);
    cli_json_number(json, "standard_error", found->standard_error);
    cli_json_count(json, "result_bytes", found->result_bytes);
    cli_json_count(json, "npz_bytes", found->npz_bytes);
    cli_json_count(json, "npy_bytes", found->npy_bytes);
    cli_json_count(json, "peak_bytes", found->peak_bytes);
    cli_json_number(json, "seconds", found->seconds);
    cli_json_number(json, "seconds_low", found->seconds_low);
    cli_json_number(json, "seconds_high", found->seconds_high);
    cli_json_number(json, "build_seconds", found->build_seconds);
    cli_json_number(json, "read_seconds", join->read_seconds);
    cli_json_close(json);
}

int cli_join_estimate_report(cli_run *run, const cli_join *join)
{
    FILE    *to = cli_report_stream(run);
    cli_json json = {0};
    if (to != NULL) print_text(to, run, join);
    fill_object(&json, run, join);
    return cli_report_json(run, &json);
}
