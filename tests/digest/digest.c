/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the number of ordered pairs (self pairs included) of a self-join and their digest, which does not depend on
 * order: the sum over all pairs (i, j) of one SplitMix64 step on i * 2^32 + j. data/README.md holds what must come out.
 * The result is taken from a stream, so its size does not matter.
 *
 * With "every": joins with each candidate method, with 1 and 2 threads, on every instruction set of this machine, and fails
 * unless all of them deliver the same rows to the byte: ids, their order, and the bits of the distances. Where
 * NEARFIELD_ENGINE is cuda, instead: the CUDA engine with each candidate method, form of results, tiling variant and several
 * sizes of device memory (and so of device batches), against the CPU engine's bytes.
 * Usage: digest FILE RADIUS FIRST_ROWS(0: all) auto|every
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nearfield/nearfield.h>

/* What a join gave: pairs and digest as in the table; bytes also depends on order inside rows and on distances. */
typedef struct answer {
    uint64_t pairs, digest, bytes;
} answer;

typedef struct setting {
    nf_isa         isa;
    uint32_t       threads;
    nf_candidates  candidates;
    nf_engine_kind engine;
    uint64_t       gpu_memory;
    nf_result      result;
    nf_share       share;
} setting;

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void add_batch(const nf_radius_batch *batch, answer *sum)
{
    const double *distances = batch->distances;
    sum->pairs += batch->pairs;
    for (uint64_t i = 0; i < batch->rows; i++) {
        const uint64_t high = (uint64_t)(uint32_t)batch->query_ids[i] << 32;
        uint64_t       row = high;
        for (int64_t at = batch->indptr[i]; at < batch->indptr[i + 1]; at++) {
            const uint64_t pair = mix(high + (uint32_t)batch->indices[at]);
            uint64_t       bits = 0;
            if (distances != NULL) memcpy(&bits, &distances[at], sizeof bits);
            sum->digest += pair;
            row = mix(row ^ pair ^ bits);
        }
        sum->bytes += row;
    }
}

static nf_status join(nf_context *ctx, const nf_dataset *file, const nf_radius_params *params, answer *out)
{
    nf_radius_index  *index = NULL;
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;

    nf_status status = nf_radius_index_create(ctx, nf_dataset_matrix(file), NULL, &index);
    if (status == NF_OK) status = nf_radius_open(ctx, index, NULL, params, &stream);
    while (stream != NULL && (status = nf_radius_next(stream, &batch)) == NF_MORE) add_batch(&batch, out);
    nf_radius_close(stream);
    nf_radius_index_release(index);
    return status;
}

/* One join in a context of its own. False, with a line on stderr, when it fails. */
static int run(const nf_dataset *file, nf_radius_params params, setting with, answer *out)
{
    nf_context_params context;
    nf_context       *ctx = NULL;
    nf_error          error;

    nf_context_params_init(&context);
    context.isa = with.isa;
    context.threads = with.threads;
    context.engine = with.engine;
    context.gpu_memory = with.gpu_memory;
    params.candidates = with.candidates;
    params.result = with.result;
    params.share = with.share;
    memset(out, 0, sizeof *out);
    if (nf_context_create(&context, &ctx, &error) != NF_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 0;
    }
    const nf_status status = join(ctx, file, &params, out);
    if (status != NF_OK) fprintf(stderr, "%s\n", nf_context_error(ctx)->text);
    nf_context_destroy(ctx);
    return status == NF_OK;
}

static int isa_is_here(nf_isa isa)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.isa = isa;
    const int here = nf_context_create(&params, &ctx, NULL) == NF_OK;
    nf_context_destroy(ctx);
    return here;
}

/* Every setting against the first answer. */
static int run_every(const nf_dataset *file, const nf_radius_params *params, const answer *first)
{
    static const nf_candidates methods[] = {NF_CANDIDATES_BVH, NF_CANDIDATES_BOXES, NF_CANDIDATES_NONE};
    for (int isa = NF_ISA_SCALAR; isa <= NF_ISA_NEON; isa++) {
        if (!isa_is_here((nf_isa)isa)) continue;
        for (int i = 0; i < 6; i++) {
            const setting with = {.isa = (nf_isa)isa, .threads = 1 + (uint32_t)i % 2, .candidates = methods[i / 2]};
            answer        got;
            if (!run(file, *params, with, &got)) return 0;
            if (memcmp(&got, first, sizeof got) == 0) continue;
            fprintf(stderr, "isa %d, %" PRIu32 " threads, candidates %s: other rows\n", isa, with.threads,
                    nf_candidates_name(with.candidates));
            return 0;
        }
    }
    return 1;
}

/* One setting of the CUDA engine. */
static int run_cuda(const nf_dataset *file, const nf_radius_params *params, const answer *first, setting with)
{
    answer got;
    with.engine = NF_ENGINE_CUDA;
    if (!run(file, *params, with, &got)) return 0;
    if (memcmp(&got, first, sizeof got) == 0) return 1;
    fprintf(stderr, "cuda, candidates %s, result %d, tile %d, %" PRIu64 " bytes: other rows: %" PRIu64 " pairs\n",
            nf_candidates_name(with.candidates), (int)with.result, (int)with.share, with.gpu_memory, got.pairs);
    return 0;
}

static int run_every_cuda(const nf_dataset *file, const nf_radius_params *params, const answer *first)
{
    static const nf_candidates methods[] = {NF_CANDIDATES_AUTO, NF_CANDIDATES_BVH, NF_CANDIDATES_BOXES, NF_CANDIDATES_NONE,
                                            NF_CANDIDATES_RT};
    /* copies of the rows, and a little for lists and pairs, so that there are many device batches */
    const nf_matrix *matrix = nf_dataset_matrix(file);
    const uint64_t   rows = matrix->rows * (matrix->dims + 4ull) * 16 + (64ull << 20);
    const uint64_t   memory[] = {0, rows, 2 * rows};
    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++) {
        for (int result = NF_RESULT_AUTO; result <= NF_RESULT_APPEND; result++) {
            const setting with = {.candidates = methods[m], .result = (nf_result)result};
            if (!run_cuda(file, params, first, with)) return 0;
        }
        for (int share = NF_SHARE_POINTS; share <= NF_SHARE_NONE; share++) {
            const setting with = {.candidates = methods[m], .share = (nf_share)share};
            if (!run_cuda(file, params, first, with)) return 0;
        }
        for (size_t i = 1; i < sizeof memory / sizeof memory[0]; i++) {
            const setting with = {.candidates = methods[m], .gpu_memory = memory[i], .result = i == 1 ? NF_RESULT_AUTO : NF_RESULT_MASK};
            if (!run_cuda(file, params, first, with)) return 0;
        }
    }
    return 1;
}

static int on_cuda(void)
{
    const char *engine = getenv("NEARFIELD_ENGINE");
    return engine != NULL && strcmp(engine, "cuda") == 0;
}

int main(int argc, char **argv)
{
    setting          plain = {0};
    nf_context      *ctx = NULL;
    nf_dataset      *file = NULL;
    nf_radius_params params;
    nf_read_params   read;
    answer           first;

    if (argc != 5 || nf_context_create(NULL, &ctx, NULL) != NF_OK) return EXIT_FAILURE;
    const int every = strcmp(argv[4], "every") == 0;
    nf_radius_params_init(&params);
    params.radius = strtod(argv[2], NULL);
    params.self = 1;
    if (!every) params.distances = NF_DISTANCES_NONE;
    nf_read_params_init(&read);
    if (strtoull(argv[3], NULL, 10) != 0) read.rows[1] = strtoull(argv[3], NULL, 10);

    int good = nf_read_matrix(ctx, argv[1], &read, &file) == NF_OK;
    if (!good) fprintf(stderr, "%s\n", nf_context_error(ctx)->text);
    if (every) plain.engine = NF_ENGINE_CPU;
    good = good && run(file, params, plain, &first);
    if (good && every) good = on_cuda() ? run_every_cuda(file, &params, &first) : run_every(file, &params, &first);
    if (good) printf("%" PRIu64 " %016" PRIx64 "\n", first.pairs, first.digest);
    nf_dataset_release(file);
    nf_context_destroy(ctx);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
