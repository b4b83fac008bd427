/* SPDX-License-Identifier: Apache-2.0 */
/* Recall against a file of true neighbours. Both sides of a query are sorted by id and walked together, so that an id
 * that was returned twice counts once. */
#include "cli_recall.h"

#include <stdlib.h>
#include <string.h>

#include "cli_error.h"
#include "cli_text.h"

/* The row of the truth that belongs to a query. */
static uint64_t truth_row(const cli_truth *truth, const cli_input *queries, uint64_t query)
{
    return truth->by_file_row ? (uint64_t)cli_input_row_id(queries, query) : query;
}

/* Rows that end inside a tie with the k-th neighbour. */
static uint64_t count_cut(const cli_truth *truth, const cli_input *queries, uint32_t k)
{
    const double  *distances = nf_neighbour_set_distances(truth->set);
    const uint32_t wide = nf_neighbour_set_k(truth->set);
    uint64_t       cut = 0;

    for (uint64_t query = 0; distances != NULL && query < queries->rows; query++) {
        const uint64_t row = truth_row(truth, queries, query);
        const double  *of_row = distances + row * wide;
        cut += nf_neighbour_set_counts(truth->set)[row] == wide && of_row[wide - 1] <= of_row[k - 1];
    }
    return cut;
}

int cli_truth_read(cli_run *run, const cli_input *queries, uint32_t k, cli_truth *truth)
{
    const char *path = run->settings.truth;

    if (path == NULL) return 0;
    const nf_status status = nf_read_neighbours(run->ctx, path, NULL, &truth->set);
    if (status != NF_OK) return cli_fail_call(run, status, CLI_READING);
    const uint64_t rows = nf_neighbour_set_queries(truth->set);
    truth->by_file_row = rows != queries->rows;
    if (truth->by_file_row && rows != queries->file_rows) {
        return cli_fail(run, CLI_INPUT, NF_ERR_VALUE, "%s: neighbours of %s queries, but %s has %s", path,
                        cli_count(rows).text, queries->path, cli_count(queries->rows).text);
    }
    if (nf_neighbour_set_k(truth->set) >= k) {
        truth->no_more = nf_neighbour_set_k(truth->set) == k;
        truth->cut = truth->no_more ? 0 : count_cut(truth, queries, k);
        return 0;
    }
    return cli_fail(run, CLI_INPUT, NF_ERR_VALUE, "%s: %u neighbours a query, fewer than the %u asked for", path,
                    nf_neighbour_set_k(truth->set), k);
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Copies into ids the entries of a row of the truth that count, and returns their number. */
static uint32_t counting_entries(const nf_neighbour_set *truth, uint64_t row, uint32_t k, int64_t *ids)
{
    const uint32_t wide = nf_neighbour_set_k(truth), count = nf_neighbour_set_counts(truth)[row];
    const int64_t *from = nf_neighbour_set_ids(truth) + row * wide;
    const double  *distances = nf_neighbour_set_distances(truth);
    uint32_t       taken = 0;

    for (uint32_t i = 0; i < count; i++) {
        const bool tied = distances != NULL && distances[row * wide + i] <= distances[row * wide + k - 1];
        if (i < k || tied) ids[taken++] = from[i];
    }
    return taken;
}

/* How many different ids are in both lists, which are sorted here. */
static uint64_t common_ids(int64_t *a, uint32_t a_count, int64_t *b, uint32_t b_count)
{
    uint64_t common = 0;
    qsort(a, a_count, sizeof *a, compare_ids);
    qsort(b, b_count, sizeof *b, compare_ids);
    for (uint32_t i = 0, j = 0; i < a_count && j < b_count;) {
        const int64_t id = a[i];
        while (j < b_count && b[j] < id) j++;
        common += j < b_count && b[j] == id;
        while (i < a_count && a[i] == id) i++;
    }
    return common;
}

static double recall_of_all(const cli_truth *truth, const cli_input *queries, const cli_neighbours *found,
                            int64_t *counting, int64_t *returned)
{
    uint64_t hits = 0, wanted = 0;
    for (uint64_t query = 0; query < found->queries; query++) {
        const uint64_t row = truth_row(truth, queries, query);
        const uint32_t count = nf_neighbour_set_counts(truth->set)[row], most = count < found->k ? count : found->k;
        const uint32_t entries = counting_entries(truth->set, row, found->k, counting);
        memcpy(returned, found->ids + query * found->k, found->counts[query] * sizeof *returned);
        const uint64_t common = common_ids(counting, entries, returned, found->counts[query]);
        hits += common < most ? common : most;
        wanted += most;
    }
    return wanted > 0 ? (double)hits / (double)wanted : 1.0;
}

int cli_recall(cli_run *run, const cli_truth *truth, const cli_input *queries, const cli_neighbours *found,
               double *recall)
{
    int64_t *counting = malloc(nf_neighbour_set_k(truth->set) * sizeof *counting);
    int64_t *returned = malloc(found->k * sizeof *returned);
    int      code = 0;

    if (counting != NULL && returned != NULL) {
        *recall = recall_of_all(truth, queries, found, counting, returned);
    } else {
        code = cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory to compare with %s", run->settings.truth);
    }
    free(counting);
    free(returned);
    return code;
}
