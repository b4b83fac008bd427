/* SPDX-License-Identifier: Apache-2.0 */
/* An index file described. */
#include "cli_index.h"

#include "cli_report.h"

cli_short_text cli_file_id(uint64_t id)
{
    cli_short_text out;
    snprintf(out.text, sizeof out.text, "%016llx", (unsigned long long)id);
    return out;
}

static const char *rotation_name(uint32_t rotation)
{
    return rotation == NF_ROTATION_DENSE ? "dense" : "fast";
}

static nf_ivf_info describe(const nf_ivf_index *index)
{
    nf_ivf_info info = {.struct_size = sizeof info};
    nf_ivf_describe(index, &info);
    return info;
}

static void print_recall(FILE *to, const nf_ivf_index *index, uint32_t points)
{
    if (points == 0) {
        fprintf(to, "%-12snot measured\n", "recall@10");
        return;
    }
    for (uint32_t entry = 0; entry < points; entry++) {
        uint32_t probes = 0;
        double   recall = 0.0;
        if (nf_ivf_recall_point(index, entry, &probes, &recall) != NF_OK) return;
        fprintf(to, "%-12s%.4f with %s list%s probed\n", entry == 0 ? "recall@10" : "", recall, cli_count(probes).text,
                probes == 1 ? "" : "s");
    }
}

void cli_index_print(FILE *to, const nf_ivf_index *index)
{
    const nf_ivf_info info = describe(index);

    fprintf(to, "%-12s%s lists of %s rows, %u values each; largest list %s rows, %s empty\n", "index",
            cli_count(info.lists).text, cli_count(info.rows).text, info.dims, cli_count(info.largest_list).text,
            cli_count(info.empty_lists).text);
    fprintf(to, "%-12s%u bit%s per dim, %s rotation to %u dims, metric %s, seed %llu\n", "codes", info.bits,
            info.bits == 1 ? "" : "s", rotation_name(info.rotation), info.padded_dims, nf_metric_name(info.metric),
            (unsigned long long)info.seed);
    fprintf(to, "%-12s%s; vectors %s\n", "ids", info.user_ids ? "given" : "row numbers",
            info.keep_vectors ? "kept" : "not kept");
    fprintf(to, "%-12s%s (%s, %.1f a row)\n", "bytes", cli_count(info.bytes).text, cli_bytes(info.bytes).text,
            info.rows > 0 ? (double)info.bytes / (double)info.rows : 0.0);
    fprintf(to, "%-12s%s, format %u.%u\n", "file id", cli_file_id(info.file_id).text, info.format_major,
            info.format_minor);
}

static void fill_recall(cli_json *json, const nf_ivf_index *index, uint32_t points)
{
    cli_json_open_array(json, "recall_table");
    for (uint32_t entry = 0; entry < points; entry++) {
        uint32_t probes = 0;
        double   recall = 0.0;
        if (nf_ivf_recall_point(index, entry, &probes, &recall) != NF_OK) break;
        cli_json_open(json, NULL);
        cli_json_count(json, "probes", probes);
        cli_json_number(json, "recall", recall);
        cli_json_close(json);
    }
    cli_json_close_array(json);
}

void cli_index_fill(cli_json *json, const nf_ivf_index *index)
{
    const nf_ivf_info info = describe(index);

    cli_json_count(json, "rows", info.rows);
    cli_json_count(json, "dims", info.dims);
    cli_json_count(json, "padded_dims", info.padded_dims);
    cli_json_count(json, "lists", info.lists);
    cli_json_count(json, "bits", info.bits);
    cli_json_text(json, "metric", nf_metric_name(info.metric));
    cli_json_text(json, "rotation", rotation_name(info.rotation));
    cli_json_count(json, "seed", info.seed);
    cli_json_flag(json, "keep_vectors", info.keep_vectors != 0);
    cli_json_flag(json, "user_ids", info.user_ids != 0);
    cli_json_count(json, "bytes", info.bytes);
    cli_json_text(json, "file_id", cli_file_id(info.file_id).text);
    cli_json_count(json, "largest_list", info.largest_list);
    cli_json_count(json, "empty_lists", info.empty_lists);
    fill_recall(json, index, info.recall_points);
}

int cli_index_report(cli_run *run, const char *path, const nf_ivf_index *index)
{
    const nf_ivf_info info = describe(index);
    FILE             *to = cli_report_stream(run);
    cli_json          json = {0};

    if (to != NULL) {
        fprintf(to, "%-12s%s\n", "file", path);
        cli_index_print(to, index);
        print_recall(to, index, info.recall_points);
    }
    cli_report_begin(run, &json);
    cli_json_text(&json, "file", path);
    cli_json_text(&json, "format", "index");
    cli_index_fill(&json, index);
    cli_json_count(&json, "format_major", info.format_major);
    cli_json_count(&json, "format_minor", info.format_minor);
    cli_json_close(&json);
    return cli_report_json(run, &json);
}
