/* SPDX-License-Identifier: Apache-2.0 */
/* Stream: a result of any size in batches of complete rows, under a memory limit. Here each batch is only looked at, to
 * find the row with the most neighbours; a program could as well send it on.
 * Usage: 03_stream FILE [RADIUS] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <nearfield/nearfield.h>

typedef struct join_tally {
    uint64_t batches, pairs;
    int64_t  most;     /* neighbours of the row that has the most */
    int32_t  most_row; /* its number */
} join_tally;

static void count_batch(join_tally *tally, const nf_radius_batch *batch)
{
    tally->batches++;
    tally->pairs += batch->pairs;
    for (uint64_t i = 0; i < batch->rows; i++) {
        int64_t neighbours = batch->indptr[i + 1] - batch->indptr[i];
        if (neighbours > tally->most) {
            tally->most = neighbours;
            tally->most_row = batch->query_ids[i];
        }
    }
}

static nf_status stream_join(nf_context *ctx, const nf_radius_index *index, const nf_radius_params *params,
                             join_tally *tally)
{
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    nf_status         status = nf_radius_open(ctx, index, NULL, params, &stream);

    if (status < 0) return status;
    while ((status = nf_radius_next(stream, &batch)) == NF_MORE) count_batch(tally, &batch);
    nf_radius_close(stream);
    return status;
}

int main(int argc, char **argv)
{
    nf_context_params context_params;
    nf_context       *ctx = NULL;
    nf_dataset       *file = NULL;
    nf_radius_index  *index = NULL;
    nf_radius_params  params;
    join_tally        tally = {0};

    nf_context_params_init(&context_params);
    context_params.memory = UINT64_C(256) << 20;
    nf_radius_params_init(&params);
    params.radius = argc > 2 ? strtod(argv[2], NULL) : 3.0;
    params.distances = NF_DISTANCES_NONE;
    params.batch_pairs = 100000;
    if (argc < 2 || nf_context_create(&context_params, &ctx, NULL) < 0) return EXIT_FAILURE;

    int failed = nf_read_matrix(ctx, argv[1], NULL, &file) < 0 ||
                 nf_radius_index_create(ctx, nf_dataset_matrix(file), NULL, &index) < 0 ||
                 stream_join(ctx, index, &params, &tally) < 0;
    if (failed) fprintf(stderr, "%s\n", nf_context_error(ctx)->text);
    else
        printf("%" PRIu64 " pairs in %" PRIu64 " batches; row %" PRId32 " has the most: %" PRId64 "\n", tally.pairs,
               tally.batches, tally.most_row, tally.most);

    nf_radius_index_release(index);
    nf_dataset_release(file);
    nf_context_destroy(ctx);
    return failed;
}
