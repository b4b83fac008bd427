/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield info: what a file of vectors, a graph or an index file holds. */
#include <string.h>
#include <strings.h>

#include "cli_command.h"
#include "cli_error.h"
#include "cli_index.h"
#include "cli_report.h"
#include "cli_text.h"

static void print_text(FILE *to, const char *path, const nf_file_info *info)
{
    if (to == NULL) return;
    fprintf(to, "file    %s\n", path);
    fprintf(to, "format  %s%s%s%s\n", info->format, info->detail[0] != '\0' ? " (" : "", info->detail,
            info->detail[0] != '\0' ? ")" : "");
    fprintf(to, "rows    %s\n", cli_count(info->rows).text);
    fprintf(to, "dims    %s\n", cli_count(info->dims).text);
    fprintf(to, "dtype   %s\n", nf_dtype_name((nf_dtype)info->dtype));
    fprintf(to, "bytes   %s (%s)\n", cli_count(info->bytes).text, cli_bytes(info->bytes).text);
}

/* An index is known by how the file begins, whatever its name. Returns false when the file does not begin so. */
static bool report_index(cli_run *run, const char *path, int *code)
{
    nf_ivf_index      *index = NULL;
    nf_ivf_open_params params;

    nf_ivf_open_params_init(&params);
    params.map = 1;
    params.verify = NF_VERIFY_STRUCTURE;
    const nf_status status = nf_ivf_open(run->ctx, path, &params, &index);
    if (status == NF_ERR_FORMAT) return false;
    if (status != NF_OK) {
        *code = cli_fail_call(run, status, CLI_OPENING);
        return true;
    }
    cli_progress_clear(&run->progress);
    *code = cli_index_report(run, path, index);
    nf_ivf_release(index);
    return true;
}

static bool is_graph(const cli_run *run, const char *path)
{
    const char *dot = strrchr(path, '.');
    if (run->settings.read.format != NULL || dot == NULL) return false;
    return strcasecmp(dot, ".npz") == 0 || strcasecmp(dot, ".bin") == 0;
}

static int report_graph(cli_run *run, const char *path)
{
    nf_graph *graph = NULL;
    FILE     *to = cli_report_stream(run);
    cli_json  json = {0};

    const nf_status status = nf_read_graph(run->ctx, path, NULL, &graph);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_READING);
    const nf_csr *csr = nf_graph_csr(graph);
    const bool    truth = nf_graph_squared(graph) != 0; /* so has only .bin */
    const char   *dtype = csr->distances == NULL                     ? "none"
                          : csr->distances_as == NF_DISTANCES_F32 ? "f32" : "f64";
    cli_progress_clear(&run->progress);
    if (to != NULL) {
        fprintf(to, "file    %s\nformat  %s\n", path,
                truth ? "bin (big-ann range truth, squared distances)" : "npz (compressed sparse rows)");
        fprintf(to, "rows    %s\ncolumns %s\n", cli_count(csr->rows).text, cli_count(csr->columns).text);
        fprintf(to, "pairs   %s\ndtype   %s\n", cli_count(csr->pairs).text, dtype);
    }
    cli_report_begin(run, &json);
    cli_json_text(&json, "file", path);
    cli_json_text(&json, "format", truth ? "bin" : "npz");
    cli_json_count(&json, "rows", csr->rows);
    cli_json_count(&json, "columns", csr->columns);
    cli_json_count(&json, "pairs", csr->pairs);
    cli_json_text(&json, "dtype", dtype);
    cli_json_close(&json);
    nf_graph_release(graph);
    return cli_report_json(run, &json);
}

int cli_run_info(cli_run *run)
{
    const char  *path = run->settings.arguments[0];
    nf_file_info info;
    cli_json     json = {0};
    int          code = cli_open_context(run);

    if (code != 0 || report_index(run, path, &code)) return code;
    if (is_graph(run, path)) return report_graph(run, path);
    const nf_status status = nf_read_info(run->ctx, path, &run->settings.read, &info);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_READING);
    cli_progress_clear(&run->progress);
    print_text(cli_report_stream(run), path, &info);
    cli_report_begin(run, &json);
    cli_json_text(&json, "file", path);
    cli_json_text(&json, "format", info.format);
    cli_json_count(&json, "rows", info.rows);
    cli_json_count(&json, "dims", info.dims);
    cli_json_text(&json, "dtype", nf_dtype_name((nf_dtype)info.dtype));
    cli_json_count(&json, "bytes", info.bytes);
    cli_json_count(&json, "header_lines", info.header_lines);
    cli_json_text(&json, "detail", info.detail);
    cli_json_close(&json);
    return cli_report_json(run, &json);
}
