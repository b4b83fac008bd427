/* SPDX-License-Identifier: Apache-2.0 */
/* Approximate neighbours: builds an index of a file, saves it, opens it again, and searches it with the file's last
 * rows, which are not in it. The exact answer says how good that was. Usage: 05_ivf_search FILE [INDEX] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <nearfield/nearfield.h>

enum { QUERIES = 100, K = 10 };

typedef struct answer {
    int64_t  ids[QUERIES * K];
    float    estimates[QUERIES * K];
    int64_t  true_ids[QUERIES * K];
    double   distances[QUERIES * K];
    uint32_t counts[QUERIES];
} answer;

/* Builds an index and leaves it in a file. */
static nf_status build(nf_context *ctx, const nf_matrix *data, const char *path)
{
    nf_ivf_index *index = NULL;
    nf_ivf_params params;

    nf_ivf_params_init(&params);
    params.bits = 7;
    nf_status status = nf_ivf_build(ctx, data, &params, &index, NULL);
    if (status == NF_OK) status = nf_ivf_save(ctx, index, path, 0);
    nf_ivf_release(index);
    return status;
}

/* Opens the file and searches it. */
static nf_status search(nf_context *ctx, const char *path, const nf_matrix *queries, answer *out,
                        nf_ivf_search_stats *stats)
{
    nf_ivf_index        *index = NULL;
    nf_ivf_search_params params;

    nf_ivf_search_params_init(&params);
    params.k = K;
    params.probes = 32;
    stats->struct_size = sizeof *stats;
    nf_status status = nf_ivf_open(ctx, path, NULL, &index);
    if (status == NF_OK) {
        status = nf_ivf_search(ctx, index, queries, &params, out->ids, out->estimates, out->counts, stats);
    }
    nf_ivf_release(index);
    return status;
}

/* A row that was not found may be as near as the last true neighbour; this plain count takes it as missed. */
static double share_found(const answer *a)
{
    int found = 0;
    for (int i = 0; i < QUERIES * K; i++) {
        for (int j = i / K * K; j < (i / K + 1) * K; j++) found += a->ids[i] == a->true_ids[j];
    }
    return (double)found / (QUERIES * K);
}

int main(int argc, char **argv)
{
    nf_context         *ctx = NULL;
    nf_dataset         *file = NULL;
    answer             *out = calloc(1, sizeof *out);
    const char         *path = argc > 2 ? argv[2] : "05_ivf_search.nf";
    nf_ivf_search_stats stats;
    nf_knn_params       exact;
    int                 failed = 1;

    if (argc < 2 || out == NULL || nf_context_create(NULL, &ctx, NULL) < 0) return EXIT_FAILURE;
    if (nf_read_matrix(ctx, argv[1], NULL, &file) < 0) goto cleanup;

    nf_matrix data = *nf_dataset_matrix(file), queries = data; /* views: all rows but the last, and these */
    uint64_t  row_bytes = data.stride_bytes != 0 ? data.stride_bytes : data.dims * nf_dtype_bytes((nf_dtype)data.dtype);
    if (data.rows <= QUERIES) {
        fprintf(stderr, "%s has too few rows\n", argv[1]);
        goto cleanup;
    }
    data.rows -= QUERIES;
    queries.rows = QUERIES;
    queries.data = (const char *)data.data + data.rows * row_bytes;

    if (build(ctx, &data, path) < 0 || search(ctx, path, &queries, out, &stats) < 0) goto cleanup;
    nf_knn_params_init(&exact);
    exact.k = K;
    if (nf_knn(ctx, &data, &queries, &exact, out->true_ids, out->distances, NULL, NULL) < 0) goto cleanup;
    printf("%.0f %% of the true neighbours found, looking at %.1f %% of the rows\n", 100 * share_found(out),
           100 * (double)stats.scanned / QUERIES / (double)data.rows);
    printf("query 0: row %" PRId64 " at about %.2f; in truth row %" PRId64 " at %.2f\n", out->ids[0],
           (double)out->estimates[0], out->true_ids[0], out->distances[0]);
    failed = 0;

cleanup:
    if (failed) fprintf(stderr, "%s\n", nf_context_error(ctx)->text);
    nf_dataset_release(file);
    nf_context_destroy(ctx);
    free(out);
    return failed;
}
