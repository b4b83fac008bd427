/* SPDX-License-Identifier: Apache-2.0 */
/* The neighbours that knn and search deliver. */
#include "cli_neighbours.h"

#include <stdlib.h>
#include <string.h>

#include "cli_clock.h"
#include "cli_error.h"
#include "cli_text.h"

int cli_neighbours_check_output(cli_run *run)
{
    const cli_settings *settings = &run->settings;
    if (settings->output == NULL && settings->write.format != NULL)
        return cli_fail_usage(run, "--format needs -o FILE");
    if (settings->output != NULL && strcmp(settings->output, "-") == 0 && settings->write.format == NULL) {
        return cli_fail_usage(run, "'-o -' needs --format");
    }
    return 0;
}

int cli_neighbours_alloc(cli_run *run, uint64_t queries, uint32_t k, nf_dtype dtype, cli_neighbours *out)
{
    nf_context_info info;
    const uint64_t  row_bytes = k * (sizeof *out->ids + nf_dtype_bytes(dtype)) + sizeof *out->counts;

    nf_context_describe(run->ctx, &info);
    if (queries > info.memory_limit / row_bytes) {
        return cli_fail(run, CLI_LIMIT, NF_ERR_LIMIT,
                        "%u neighbours of %s queries take %s bytes a query, in all more than the memory limit of %s", k,
                        cli_count(queries).text, cli_count(row_bytes).text, cli_bytes(info.memory_limit).text);
    }
    *out = (cli_neighbours){.queries = queries, .k = k, .dtype = dtype};
    out->ids = malloc(queries * k * sizeof *out->ids + 1);
    out->distances = malloc(queries * k * nf_dtype_bytes(dtype) + 1);
    out->counts = malloc(queries * sizeof *out->counts + 1);
    if (out->ids != NULL && out->distances != NULL && out->counts != NULL) return 0;
    return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for %s", cli_bytes(queries * row_bytes).text);
}

void cli_neighbours_free(cli_neighbours *neighbours)
{
    free(neighbours->ids);
    free(neighbours->distances);
    free(neighbours->counts);
    memset(neighbours, 0, sizeof *neighbours);
}

int cli_neighbours_write(cli_run *run, const cli_neighbours *from, uint32_t metric, const cli_input *queries,
                         double *seconds)
{
    const nf_neighbours all = {.struct_size = sizeof all,
                               .queries = from->queries,
                               .k = from->k,
                               .metric = metric,
                               .ids = from->ids,
                               .distances = from->distances,
                               .distances_dtype = (uint32_t)from->dtype,
                               .counts = from->counts};
    nf_write_params    *write = &run->settings.write;
    const double        start = cli_now();

    if (run->settings.output == NULL) return 0;
    write->query_first = queries->first;
    write->query_ids = nf_dataset_ids(queries->dataset);
    const nf_status status = nf_write_neighbours(run->ctx, &all, run->settings.output, write);
    *seconds = cli_now() - start;
    return status == NF_OK ? 0 : cli_fail_call(run, status, CLI_WORKING);
}
