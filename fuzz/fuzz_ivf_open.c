/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Index files that anyone may have written: opened in every way, described, and searched.
 *
 * The input is opened as it is, and once more with its checksums made right, since otherwise nearly every input would end
 * at the first of them. Whatever the bytes, the library must neither crash nor hang nor take more memory than it says;
 * reading and mapping must agree; and what full verification passes must give results in order. Anything else aborts,
 * which is how a fuzzer and the replay are told.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_file.h"
#include "nearfield/ivf.h"

#define MOST_BYTES ((size_t)1 << 20)
#define MOST_RESULTS ((size_t)1 << 20)
#define QUERIES 3u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- memory: counted, those of the index too ---- */

typedef struct heap {
    size_t live, peak;
} heap;

static void *heap_alloc(void *user, size_t size, size_t align)
{
    heap *counted = user;
    void *block = NULL;
    if (posix_memalign(&block, align, size) != 0) return NULL;
    counted->live += size;
    if (counted->live > counted->peak) counted->peak = counted->live;
    return block;
}

static void heap_release(void *user, void *block, size_t size, size_t align)
{
    heap *counted = user;
    (void)align;
    counted->live -= size;
    free(block);
}

/* ---- what must hold ---- */

static void demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz_ivf_open: does not hold: %s\n", what);
    abort();
}

/* One way to open a file, and what came of it. */
typedef struct trial {
    nf_context   *ctx;
    heap         *counted;
    const char   *path;
    size_t        bytes;
    uint32_t      verify, map;
    nf_status     status;
    nf_ivf_index *index;
    nf_ivf_info   info;
    uint64_t      digest; /* of all results */
} trial;

/* FNV-1a: enough to say whether two runs gave the same. */
static void add_to_digest(trial *at, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    for (size_t i = 0; i < bytes; i++) at->digest = (at->digest ^ from[i]) * UINT64_C(0x100000001b3);
}

/* Zeros, small values, and values of which squares are large. */
static float *make_queries(uint32_t dims)
{
    float *queries = calloc((size_t)QUERIES * dims, sizeof *queries);
    demand(queries != NULL, "memory for queries");
    for (uint32_t i = 0; i < dims; i++) {
        queries[dims + i] = (float)((int)(i * 2654435761u >> 24) - 128) / 64.0f;
        queries[2 * dims + i] = i % 2 == 0 ? 1e15f : -3e9f;
    }
    return queries;
}

/* How many neighbours there are is not checked: estimates of a made-up file may overflow, and are then none. */
static void check_results(const trial *at, uint32_t k, const int64_t *ids, const float *distances,
                          const uint32_t *counts)
{
    for (uint32_t query = 0; query < QUERIES; query++) {
        const int64_t *row_ids = ids + (size_t)query * k;
        const float   *row = distances + (size_t)query * k;
        demand(counts[query] <= k && counts[query] <= at->info.rows, "counts are at most k and rows");
        for (uint32_t j = 0; j < k; j++) {
            if (j >= counts[query]) {
                demand(row_ids[j] == -1 && isinf(row[j]) && row[j] > 0, "missing neighbours are -1 and infinity");
                continue;
            }
            demand(!isnan(row[j]), "no distance is NaN");
            if (at->verify == NF_VERIFY_FULL) demand(row_ids[j] >= 0, "ids of neighbours are not negative");
            if (j > 0) {
                demand(row[j] > row[j - 1] || (row[j] == row[j - 1] && row_ids[j] >= row_ids[j - 1]),
                       "results ascend by distance and id");
            }
        }
    }
}

static void search_once(trial *at, const nf_matrix *queries, const nf_ivf_search_params *params)
{
    const size_t room = (size_t)QUERIES * params->k;
    int64_t     *ids = calloc(room, sizeof *ids);
    float       *distances = calloc(room, sizeof *distances);
    uint32_t     counts[QUERIES] = {0};
    demand(ids != NULL && distances != NULL, "memory for results");
    const nf_status status = nf_ivf_search(at->ctx, at->index, queries, params, ids, distances, counts, NULL);
    add_to_digest(at, &status, sizeof status);
    if (status == NF_OK) {
        check_results(at, params->k, ids, distances, counts);
        add_to_digest(at, ids, room * sizeof *ids);
        add_to_digest(at, distances, room * sizeof *distances);
    }
    free(distances);
    free(ids);
}

/* Every third id that a small index may have. */
static void search_filtered(trial *at, const nf_matrix *queries, nf_ivf_search_params params)
{
    int64_t        ids[16];
    nf_ivf_filter *filter = NULL;
    for (int i = 0; i < 16; i++) ids[i] = 3 * i;
    for (uint32_t forbid = 0; forbid < 2; forbid++) {
        const nf_status status = nf_ivf_filter_ids(at->ctx, at->index, ids, 16, forbid, &filter);
        add_to_digest(at, &status, sizeof status);
        if (status != NF_OK) continue;
        params.filter = filter;
        search_once(at, queries, &params);
        nf_ivf_filter_release(filter);
    }
}

static void search_all_ways(trial *at)
{
    float               *values = make_queries(at->info.dims);
    const nf_matrix      queries = {.data = values, .rows = QUERIES, .dims = at->info.dims, .dtype = NF_DTYPE_F32};
    nf_ivf_search_params params;
    const uint64_t       most = MOST_RESULTS / QUERIES < NF_MAX_K ? MOST_RESULTS / QUERIES : NF_MAX_K;

    nf_ivf_search_params_init(&params);
    params.k = (uint32_t)(at->info.rows < most ? at->info.rows : most);
    params.probes = at->info.lists;
    params.epsilon0 = INFINITY;
    search_once(at, &queries, &params);
    params.epsilon0 = 1.9;
    search_once(at, &queries, &params);
    params.k = params.k / 4 + 1; /* fewer than rows, so that bounds can prune */
    search_once(at, &queries, &params);
    search_filtered(at, &queries, params);
    params.rerank = 2 * params.k;
    search_once(at, &queries, &params); /* refused without vectors */
    params.probes = 0;
    params.rerank = 0;
    search_once(at, &queries, &params);
    free(values);
}

static void describe(trial *at)
{
    uint32_t probes = 0, before = 0;
    double   recall = 0;
    at->info.struct_size = sizeof at->info;
    nf_ivf_describe(at->index, &at->info);
    demand(at->info.bytes == at->bytes, "bytes is the length of the file");
    demand(at->info.rows >= 1 && at->info.dims >= 1 && at->info.lists >= 1, "there are rows, dims and lists");
    for (uint32_t i = 0; i < at->info.recall_points; i++) {
        demand(nf_ivf_recall_point(at->index, i, &probes, &recall) == NF_OK, "entries of recall can be read");
        demand(probes > before && recall >= 0 && recall <= 1, "entries of recall ascend");
        before = probes;
    }
    demand(nf_ivf_recall_point(at->index, at->info.recall_points, &probes, &recall) == NF_ERR_ARGUMENT,
           "beyond the table of recall there is nothing");
}

static void try_once(trial *at)
{
    nf_ivf_open_params params;
    const size_t       most = at->bytes + at->bytes / 10 + ((size_t)64 << 20);

    nf_ivf_open_params_init(&params);
    params.map = at->map;
    params.verify = at->verify;
    at->counted->peak = at->counted->live;
    const size_t before = at->counted->live;
    at->status = nf_ivf_open(at->ctx, at->path, &params, &at->index);
    demand(at->counted->peak <= most, "opening takes at most 1.1 x file + 64 MB");
    demand((at->status == NF_OK) == (at->index != NULL), "an index exactly where the status is OK");
    if (at->status == NF_OK) {
        describe(at);
        search_all_ways(at);
        demand(at->counted->peak <= most, "searching takes at most 1.1 x file + 64 MB");
    } else {
        demand(strlen(nf_context_error(at->ctx)->text) > 0, "a failure has a text");
    }
    nf_ivf_release(at->index);
    demand(at->counted->live == before, "all memory is given back");
}

static void try_file(const uint8_t *data, size_t size)
{
    heap              counted = {0};
    nf_context_params params;
    trial             trials[4];
    char              path[64];
    nf_context       *ctx = NULL;
    const int         fd = memfd_create("fuzz", MFD_CLOEXEC);

    demand(fd >= 0 && write(fd, data, size) == (ssize_t)size, "a file in memory");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    nf_context_params_init(&params);
    params.threads = 1;
    params.memory = (uint64_t)1 << 30;
    params.allocator = (nf_allocator){.alloc = heap_alloc, .release = heap_release, .user = &counted};
    demand(nf_context_create(&params, &ctx, NULL) == NF_OK, "a context");
    for (uint32_t i = 0; i < 4; i++) {
        trials[i] = (trial){.ctx = ctx, .counted = &counted, .path = path, .bytes = size};
        trials[i].verify = i / 2 == 0 ? NF_VERIFY_FULL : NF_VERIFY_STRUCTURE;
        trials[i].map = i % 2;
        try_once(&trials[i]);
    }
    demand(trials[0].status == trials[1].status && trials[0].digest == trials[1].digest &&
               trials[2].status == trials[3].status && trials[2].digest == trials[3].digest,
           "reading and mapping agree");
    if (trials[0].status == NF_OK) {
        demand(trials[2].status == NF_OK && trials[2].digest == trials[0].digest, "full verification changes no result");
    }
    nf_context_destroy(ctx);
    demand(counted.live == 0, "the context gives all memory back");
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > MOST_BYTES) return 0;
    uint8_t *copy = calloc(1, size + 1);
    demand(copy != NULL, "memory for the input");
    if (size > 0) memcpy(copy, data, size);
    try_file(copy, size);
    fuzz_reseal(copy, size);
    if (size > 0 && memcmp(copy, data, size) != 0) try_file(copy, size);
    free(copy);
    return 0;
}
