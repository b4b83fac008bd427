/* SPDX-License-Identifier: Apache-2.0 */
/* k nearest neighbours, exactly. The queries are the first rows of the same file, so each finds itself, at distance 0.
 * Usage: 04_knn FILE [K] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <nearfield/nearfield.h>

enum { QUERIES = 5 };

static void print_neighbours(const int64_t *ids, const double *distances, uint64_t queries, uint32_t k)
{
    for (uint64_t query = 0; query < queries; query++) {
        printf("row %" PRIu64 ":", query);
        for (uint64_t i = query * k; i < (query + 1) * k; i++) {
            if (ids[i] >= 0) printf("  %" PRId64 " at %.3f", ids[i], distances[i]);
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    nf_context   *ctx = NULL;
    nf_dataset   *file = NULL;
    int64_t      *ids = NULL;
    double       *distances = NULL;
    nf_knn_params params;
    int           failed = 1;

    nf_knn_params_init(&params);
    params.k = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 4;
    if (argc < 2 || nf_context_create(NULL, &ctx, NULL) < 0) return EXIT_FAILURE;
    if (nf_read_matrix(ctx, argv[1], NULL, &file) < 0) goto cleanup;

    nf_matrix queries = *nf_dataset_matrix(file); /* a view on the same values */
    if (queries.rows > QUERIES) queries.rows = QUERIES;
    ids = malloc(queries.rows * params.k * sizeof *ids);
    distances = malloc(queries.rows * params.k * sizeof *distances);
    if (ids == NULL || distances == NULL) goto cleanup;
    if (nf_knn(ctx, nf_dataset_matrix(file), &queries, &params, ids, distances, NULL, NULL) < 0) goto cleanup;
    print_neighbours(ids, distances, queries.rows, params.k);
    failed = 0;

cleanup:
    if (failed) fprintf(stderr, "%s\n", nf_context_error(ctx)->text);
    free(ids);
    free(distances);
    nf_dataset_release(file);
    nf_context_destroy(ctx);
    return failed;
}
