/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the number of ordered pairs (self pairs included) of a self-join and their digest, which does not depend on
 * order: the sum over all pairs (i, j) of one SplitMix64 step on i * 2^32 + j. data/README.md holds what must come out.
 * The result is taken from a stream, so its size does not matter.
 * Usage: digest FILE RADIUS [FIRST_ROWS]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <nearfield/nearfield.h>

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t batch_digest(const nf_radius_batch *batch)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < batch->rows; i++) {
        uint64_t high = (uint64_t)(uint32_t)batch->query_ids[i] << 32;
        for (int64_t at = batch->indptr[i]; at < batch->indptr[i + 1]; at++) {
            sum += mix(high + (uint32_t)batch->indices[at]);
        }
    }
    return sum;
}

static nf_status join_digest(nf_context *ctx, const nf_radius_index *index, const nf_radius_params *params)
{
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    uint64_t          pairs = 0, digest = 0;
    nf_status         status = nf_radius_open(ctx, index, NULL, params, &stream);

    if (status < 0) return status;
    while ((status = nf_radius_next(stream, &batch)) == NF_MORE) {
        pairs += batch.pairs;
        digest += batch_digest(&batch);
    }
    nf_radius_close(stream);
    if (status == NF_OK) printf("%" PRIu64 " %016" PRIx64 "\n", pairs, digest);
    return status;
}

int main(int argc, char **argv)
{
    nf_context      *ctx = NULL;
    nf_dataset      *file = NULL;
    nf_radius_index *index = NULL;
    nf_radius_params params;
    nf_read_params   read;

    if (argc < 3 || nf_context_create(NULL, &ctx, NULL) < 0) return EXIT_FAILURE;
    nf_radius_params_init(&params);
    params.radius = strtod(argv[2], NULL);
    params.self = 1;
    params.distances = NF_DISTANCES_NONE;
    nf_read_params_init(&read);
    if (argc > 3) read.rows[1] = strtoull(argv[3], NULL, 10);

    int failed = nf_read_matrix(ctx, argv[1], &read, &file) < 0 ||
                 nf_radius_index_create(ctx, nf_dataset_matrix(file), NULL, &index) < 0 ||
                 join_digest(ctx, index, &params) < 0;
    if (failed) fprintf(stderr, "%s\n", nf_context_error(ctx)->text);
    nf_radius_index_release(index);
    nf_dataset_release(file);
    nf_context_destroy(ctx);
    return failed;
}
