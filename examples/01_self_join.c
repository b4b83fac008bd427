/* SPDX-License-Identifier: Apache-2.0 */
/* Self-join: all pairs of rows of a file within a radius, held in memory as compressed sparse rows.
 * Usage: 01_self_join FILE [RADIUS] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <nearfield/nearfield.h>

int main(int argc, char **argv)
{
    nf_context      *ctx = NULL;
    nf_dataset      *file = NULL;
    nf_radius_index *index = NULL;
    nf_csr          *pairs = NULL;
    nf_radius_params params;

    nf_radius_params_init(&params);
    params.radius = argc > 2 ? strtod(argv[2], NULL) : 3.0;
    if (argc < 2 || nf_context_create(NULL, &ctx, NULL) < 0) return EXIT_FAILURE;
    int failed = nf_read_matrix(ctx, argv[1], NULL, &file) < 0 ||
                 nf_radius_index_create(ctx, nf_dataset_matrix(file), NULL, &index) < 0 ||
                 nf_radius_csr(ctx, index, NULL, &params, &pairs, NULL) < 0;
    if (failed) fprintf(stderr, "%s\n", nf_context_error(ctx)->text);
    else printf("%" PRIu64 " pairs of %" PRIu64 " rows within %g\n", pairs->pairs, pairs->rows, params.radius);

    nf_csr_release(pairs);
    nf_radius_index_release(index);
    nf_dataset_release(file);
    nf_context_destroy(ctx);
    return failed;
}
