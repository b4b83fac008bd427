/* SPDX-License-Identifier: Apache-2.0 */
/* Semi-join: for each query the rows within a radius, nearest first. The queries are the first rows of the same file,
 * so each finds at least itself, at distance 0.
 * Usage: 02_semi_join FILE [RADIUS] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <nearfield/nearfield.h>

enum { QUERIES = 5 };

static void print_neighbours(const nf_csr *result)
{
    const double *distances = result->distances;

    for (uint64_t query = 0; query < result->rows; query++) {
        int64_t begin = result->indptr[query], end = result->indptr[query + 1];
        printf("row %" PRIu64 " has %" PRId64 " neighbours:", query, end - begin);
        for (int64_t i = begin; i < end && i < begin + 4; i++) {
            printf("  %" PRId32 " at %.3f", result->indices[i], distances[i]);
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    nf_context      *ctx = NULL;
    nf_dataset      *file = NULL;
    nf_radius_index *index = NULL;
    nf_csr          *result = NULL;
    nf_radius_params params;
    int              failed = 1;

    nf_radius_params_init(&params);
    params.radius = argc > 2 ? strtod(argv[2], NULL) : 3.0;
    params.sort = NF_SORT_DISTANCE;
    if (argc < 2 || nf_context_create(NULL, &ctx, NULL) < 0) return EXIT_FAILURE;
    if (nf_read_matrix(ctx, argv[1], NULL, &file) < 0) goto cleanup;

    nf_matrix queries = *nf_dataset_matrix(file); /* a view on the same values */
    if (queries.rows > QUERIES) queries.rows = QUERIES;
    if (nf_radius_index_create(ctx, nf_dataset_matrix(file), NULL, &index) < 0) goto cleanup;
    if (nf_radius_csr(ctx, index, &queries, &params, &result, NULL) < 0) goto cleanup;
    print_neighbours(result);
    failed = 0;

cleanup:
    if (failed) fprintf(stderr, "%s\n", nf_context_error(ctx)->text);
    nf_csr_release(result);
    nf_radius_index_release(index);
    nf_dataset_release(file);
    nf_context_destroy(ctx);
    return failed;
}
