/* SPDX-License-Identifier: Apache-2.0 */
/* Joins at several radii: a file of one radius per query, and the number of pairs within each radius of a list. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli_error.h"
#include "cli_join.h"
#include "cli_report.h"
#include "cli_text.h"

#define LOAD(type, at, to)                  \
    do {                                    \
        type loaded;                        \
        memcpy(&loaded, at, sizeof loaded); \
        to = (double)loaded;                \
    } while (0)

/* NaN for types that no radius comes in. */
static double load_real(const nf_matrix *matrix, uint64_t row)
{
    const uint64_t stride = matrix->stride_bytes != 0 ? matrix->stride_bytes : nf_dtype_bytes((nf_dtype)matrix->dtype);
    const char    *at = (const char *)matrix->data + row * stride;
    double         real = (double)NAN;

    switch (matrix->dtype) {
    case NF_DTYPE_U8: LOAD(uint8_t, at, real); break;
    case NF_DTYPE_I8: LOAD(int8_t, at, real); break;
    case NF_DTYPE_U16: LOAD(uint16_t, at, real); break;
    case NF_DTYPE_I16: LOAD(int16_t, at, real); break;
    case NF_DTYPE_U32: LOAD(uint32_t, at, real); break;
    case NF_DTYPE_I32: LOAD(int32_t, at, real); break;
    case NF_DTYPE_F32: LOAD(float, at, real); break;
    case NF_DTYPE_F64: LOAD(double, at, real); break;
    default: break;
    }
    return real;
}

static int take_radii(cli_run *run, const char *path, const nf_matrix *matrix, uint64_t queries, double **radii)
{
    if (matrix->dims != 1) {
        return cli_fail(run, CLI_INPUT, NF_ERR_VALUE, "%s: rows have %u values; radii are one a row", path,
                        matrix->dims);
    }
    if (matrix->rows != queries) {
        return cli_fail(run, CLI_INPUT, NF_ERR_VALUE, "%s has %llu radii, but there are %llu queries", path,
                        (unsigned long long)matrix->rows, (unsigned long long)queries);
    }
    *radii = malloc(queries * sizeof **radii + 1);
    if (*radii == NULL) return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for the radii of %s", path);
    for (uint64_t row = 0; row < queries; row++) {
        (*radii)[row] = load_real(matrix, row);
        if ((*radii)[row] >= 0.0) continue;
        return cli_fail(run, CLI_INPUT, NF_ERR_VALUE, "%s: row %llu (from 0) is no radius, a number of at least 0",
                        path, (unsigned long long)row);
    }
    return 0;
}

int cli_join_read_radii(cli_run *run, cli_join *join, uint64_t queries)
{
    const char     *path = run->settings.radii;
    nf_dataset     *dataset = NULL;
    const nf_status status = nf_read_matrix(run->ctx, path, NULL, &dataset);

    if (status != NF_OK) return cli_fail_call(run, status, CLI_READING);
    const int code = take_radii(run, path, nf_dataset_matrix(dataset), queries, &join->radii);
    nf_dataset_release(dataset);
    run->settings.radius.radii = join->radii;
    return code;
}

/* ---- histogram ---- */

int cli_join_parse_histogram(cli_run *run, cli_join *join)
{
    const char *text = run->settings.histogram;
    join->bins = malloc(NF_MAX_HISTOGRAM_RADII * sizeof *join->bins);
    join->bin_pairs = calloc(NF_MAX_HISTOGRAM_RADII, sizeof *join->bin_pairs);
    if (join->bins == NULL || join->bin_pairs == NULL) return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory");
    for (const char *at = text;; at++) {
        char *end = NULL;
        if (join->bin_count == NF_MAX_HISTOGRAM_RADII) {
            return cli_fail_usage(run, "--histogram takes at most %d radii", NF_MAX_HISTOGRAM_RADII);
        }
        const double radius = strtod(at, &end);
        if (end == at || (*end != ',' && *end != '\0') || !(radius >= 0.0)) {
            return cli_fail_usage(run, "histogram is '%s', radii R1,R2,... of at least 0 are needed", text);
        }
        if (join->bin_count > 0 && radius < join->bins[join->bin_count - 1]) {
            return cli_fail_usage(run, "histogram is '%s', but its radii must ascend", text);
        }
        join->bins[join->bin_count++] = radius;
        if (*end == '\0') return 0;
        at = end;
    }
}

int cli_join_histogram(cli_run *run, cli_join *join, const nf_matrix *queries)
{
    nf_radius_params params = run->settings.radius;
    params.radius = 0.0;
    const nf_status status = nf_radius_histogram(run->ctx, join->index, queries, &params, join->bins, join->bin_count,
                                                 join->bin_pairs, &join->stats);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_WORKING);
    if (run->settings.output == NULL) return 0;

    double *table = malloc(2 * join->bin_count * sizeof *table);
    if (table == NULL) return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for the table");
    for (uint32_t i = 0; i < join->bin_count; i++) {
        table[2 * i] = join->bins[i];
        table[2 * i + 1] = (double)join->bin_pairs[i];
    }
    const nf_matrix matrix = {.data = table, .rows = join->bin_count, .dims = 2, .dtype = NF_DTYPE_F64};
    const nf_status written = nf_write_matrix(run->ctx, &matrix, run->settings.output, &run->settings.write);
    free(table);
    return written == NF_OK ? 0 : cli_fail_call(run, written, CLI_WORKING);
}

/* Mean number of neighbours per query within a radius, itself not counted. */
static double selectivity_at(const cli_run *run, const cli_join *join, uint32_t bin)
{
    const nf_radius_params *params = &run->settings.radius;
    const double            queries = (double)join->stats.queries;
    const bool              self = params->self && !(params->strict && join->bins[bin] == 0.0);
    const double            others = (double)join->bin_pairs[bin] - (self ? queries : 0.0);
    return queries > 0.0 ? (params->half ? 2.0 : 1.0) * others / queries : 0.0;
}

void cli_join_print_bins(FILE *to, const cli_run *run, const cli_join *join)
{
    fprintf(to, "\n%24s  %20s  %16s\n", "radius", "pairs", "neighbours");
    for (uint32_t i = 0; i < join->bin_count; i++) {
        fprintf(to, "%24s  %20s  %16s\n", cli_number(join->bins[i]).text, cli_count(join->bin_pairs[i]).text,
                cli_mean(selectivity_at(run, join, i)).text);
    }
}

void cli_join_fill_bins(cli_json *json, const cli_run *run, const cli_join *join)
{
    cli_json_open_array(json, "histogram");
    for (uint32_t i = 0; i < join->bin_count; i++) {
        cli_json_open(json, NULL);
        cli_json_number(json, "radius", join->bins[i]);
        cli_json_count(json, "pairs", join->bin_pairs[i]);
        cli_json_number(json, "selectivity", selectivity_at(run, join, i));
        cli_json_close(json);
    }
    cli_json_close_array(json);
}
