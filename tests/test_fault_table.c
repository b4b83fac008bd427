/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of faults: every operation below is run with each call to the C library that can fail (wrapped by the linker)
 * failing the first time, then the second, and so on; once, and from then on. What must hold: the right answer, or an
 * error with a text; no memory and no file descriptor kept; under the final name the old file or, after the rename, the
 * new one; nothing else in the folder; and without the fault the same operation gives the right answer again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exact_helper.h"
#include "nearfield/cluster.h"
#include "nearfield/io.h"
#include "nearfield/ivf.h"

#define ROWS 200u
#define QUERIES 20u
#define DIMS 4u
#define K 5u
#define MOST_FAULTS 20000

/* ---- calls that fail ---- */

/* X(name, errno) */
#define CALLS(X)              \
    X(posix_memalign, ENOMEM) \
    X(calloc, ENOMEM)         \
    X(realpath, ENOMEM)       \
    X(open, EMFILE)           \
    X(mkostemp, EACCES)       \
    X(close, EIO)             \
    X(write, ENOSPC)          \
    X(pwrite, ENOSPC)         \
    X(pread, EIO)             \
    X(fsync, EIO)             \
    X(rename, EXDEV)          \
    X(fallocate, ENOSPC)      \
    X(mmap, ENOMEM)           \
    X(fstat, EIO)             \
    X(stat, EACCES)           \
    X(faccessat, EACCES)      \
    X(fchmod, EPERM)          \
    X(getrandom, ENOSYS)

enum {
#define AS_ENUM(name, reason) CALL_##name,
    CALLS(AS_ENUM) CALL_COUNT
};
static const struct {
    const char *name;
    int         reason;
} CALL_TABLE[] = {
#define AS_ROW(name, reason) {#name, reason},
    CALLS(AS_ROW)};

static int  armed_call = -1; /* which of the calls fails; -1: none */
static long armed_at;
static bool armed_on, fired, renamed;
static long seen;

/* Whether this call is to fail. Operations run on one thread. */
static bool fails(int call)
{
    if (call != armed_call) return false;
    seen++;
    if (seen != armed_at && !(armed_on && seen > armed_at)) return false;
    fired = true;
    errno = CALL_TABLE[call].reason;
    return true;
}

/* NOLINTBEGIN: names that the linker's --wrap gives */
#define WRAP(type, name, declared, passed, failure)                 \
    type __real_##name declared;                                    \
    type __wrap_##name declared;                                    \
    type __wrap_##name declared                                     \
    {                                                               \
        return fails(CALL_##name) ? failure : __real_##name passed; \
    }
WRAP(int, posix_memalign, (void **out, size_t align, size_t size), (out, align, size), ENOMEM)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(char *, realpath, (const char *path, char *to), (path, to), NULL)
WRAP(int, mkostemp, (char *pattern, int flags), (pattern, flags), -1)
WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), -1)
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), -1)
WRAP(ssize_t, pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at), -1)
WRAP(int, fsync, (int fd), (fd), -1)
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), -1)
WRAP(void *, mmap, (void *at, size_t size, int how, int flags, int fd, off_t from), (at, size, how, flags, fd, from),
     MAP_FAILED)
WRAP(int, fstat, (int fd, struct stat *out), (fd, out), -1)
WRAP(int, stat, (const char *path, struct stat *out), (path, out), -1)
WRAP(int, faccessat, (int fd, const char *path, int mode, int flags), (fd, path, mode, flags), -1)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
WRAP(ssize_t, getrandom, (void *to, size_t size, unsigned flags), (to, size, flags), -1)

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    if (fails(CALL_rename)) return -1;
    const int result = __real_rename(from, to);
    renamed = renamed || result == 0;
    return result;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) /* Linux closes it, whatever it says */
{
    const bool failing = fails(CALL_close);
    const int  result = __real_close(fd);
    if (failing) errno = CALL_TABLE[CALL_close].reason;
    return failing ? -1 : result;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0;
    va_end(rest);
    return fails(CALL_open) ? -1 : __real_open(path, flags, mode);
}
/* NOLINTEND */

/* ---- what the operations work on ---- */

typedef struct world {
    nf_context      *ctx;
    nf_matrix        data, queries;
    nf_radius_index *index;
    nf_ivf_index    *ivf;
    char             folder[64], in[64], out[128]; /* files to read; the folder of results, and the file in it */
    float            values[ROWS * DIMS];
    int64_t          ids[QUERIES * K], labels[ROWS];
    double           distances[QUERIES * K];
    float            near[QUERIES * K];
    uint32_t         counts[QUERIES];
    uint64_t         numbers[QUERIES];
    uint8_t          answer[1 << 20];
    size_t           answer_bytes;
} world;

static world all;

static void answer(world *w, const void *data, size_t bytes)
{
    assert_true(w->answer_bytes + bytes <= sizeof w->answer);
    if (bytes > 0) memcpy(w->answer + w->answer_bytes, data, bytes);
    w->answer_bytes += bytes;
}

static void answer_file(world *w, const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    w->answer_bytes = fread(w->answer, 1, sizeof w->answer, file);
    assert_true(w->answer_bytes < sizeof w->answer);
    fclose(file);
}

/* ---- the operations ---- */

typedef struct operation {
    const char *name;
    nf_status (*run)(world *w, const char *format);
    const char *format; /* of the file */
    bool        writes; /* the answer is the file */
} operation;

static nf_status write_matrix(world *w, const char *format)
{
    nf_write_params params;
    nf_write_params_init(&params);
    params.format = format;
    return nf_write_matrix(w->ctx, &w->data, w->out, &params);
}

static nf_radius_params radius_params(void)
{
    nf_radius_params params;
    nf_radius_params_init(&params);
    params.radius = 20;
    return params;
}

static nf_status write_join_as(world *w, const char *format, uint32_t counts)
{
    const nf_radius_params radius = radius_params();
    nf_write_params        params;
    nf_write_params_init(&params);
    params.format = format;
    params.counts = counts;
    return nf_write_join(w->ctx, w->index, &w->queries, &radius, w->out, &params, NULL, NULL);
}

static nf_status write_join(world *w, const char *format)
{
    return write_join_as(w, format, 0);
}

static nf_status write_counts(world *w, const char *format)
{
    return write_join_as(w, format, 1);
}

static nf_status write_neighbours(world *w, const char *format)
{
    static int64_t      ids[QUERIES * K];
    static float        distances[QUERIES * K];
    const nf_neighbours neighbours = {.struct_size = sizeof neighbours,
                                      .queries = QUERIES,
                                      .k = K,
                                      .ids = ids,
                                      .distances = distances,
                                      .distances_dtype = NF_DTYPE_F32};
    nf_write_params     params;
    for (uint32_t i = 0; i < QUERIES * K; i++) {
        ids[i] = i;
        distances[i] = (float)(i % K);
    }
    nf_write_params_init(&params);
    params.format = format;
    return nf_write_neighbours(w->ctx, &neighbours, w->out, &params);
}

static nf_status save_index(world *w, const char *format)
{
    (void)format;
    return nf_ivf_save(w->ctx, w->ivf, w->out, 1);
}

static void input_path(const world *w, const char *kind, const char *format, char *path, size_t room)
{
    snprintf(path, room, "%s/%s.%s", w->in, kind, format);
}

static nf_status read_matrix(world *w, const char *format)
{
    nf_dataset    *dataset = NULL;
    nf_read_params params;
    char           path[128];
    input_path(w, "matrix", format, path, sizeof path);
    nf_read_params_init(&params);
    params.dims = DIMS;
    const nf_status status = nf_read_matrix(w->ctx, path, &params, &dataset);
    if (status != NF_OK) return status;
    const nf_matrix *matrix = nf_dataset_matrix(dataset);
    const size_t     bytes = matrix->dims * nf_dtype_bytes((nf_dtype)matrix->dtype);
    const size_t     stride = matrix->stride_bytes > 0 ? matrix->stride_bytes : bytes;
    for (size_t row = 0; row < matrix->rows; row++) answer(w, (const char *)matrix->data + row * stride, bytes);
    nf_dataset_release(dataset);
    return NF_OK;
}

static nf_status read_neighbours(world *w, const char *format)
{
    nf_neighbour_set *set = NULL;
    char              path[128];
    input_path(w, "neighbours", format, path, sizeof path);
    const nf_status status = nf_read_neighbours(w->ctx, path, NULL, &set);
    if (status != NF_OK) return status;
    answer(w, nf_neighbour_set_ids(set), QUERIES * K * sizeof(int64_t));
    answer(w, nf_neighbour_set_counts(set), QUERIES * sizeof(uint32_t));
    if (nf_neighbour_set_distances(set) != NULL) {
        answer(w, nf_neighbour_set_distances(set), QUERIES * K * sizeof(double));
    }
    nf_neighbour_set_release(set);
    return NF_OK;
}

static nf_status search_index(world *w, const nf_ivf_index *index)
{
    nf_ivf_search_params params;
    nf_ivf_search_params_init(&params);
    params.k = K;
    params.probes = 2;
    const nf_status status = nf_ivf_search(w->ctx, index, &w->queries, &params, w->ids, w->near, w->counts, NULL);
    if (status != NF_OK) return status;
    answer(w, w->ids, sizeof w->ids);
    answer(w, w->near, sizeof w->near);
    return NF_OK;
}

static nf_status search(world *w, const char *format)
{
    (void)format;
    return search_index(w, w->ivf);
}

static nf_status open_index(world *w, const char *format)
{
    nf_ivf_open_params params;
    nf_ivf_index      *index = NULL;
    char               path[128];
    input_path(w, "index", "nfi", path, sizeof path);
    nf_ivf_open_params_init(&params);
    params.map = strcmp(format, "mapped") == 0;
    nf_status status = nf_ivf_open(w->ctx, path, &params, &index);
    if (status == NF_OK) status = search_index(w, index);
    nf_ivf_release(index);
    return status;
}

static nf_status build_index_into(world *w, nf_ivf_index **index)
{
    nf_ivf_params params;
    nf_ivf_params_init(&params);
    params.lists = 4;
    params.iterations = 1;
    params.recall_rows = 8;
    return nf_ivf_build(w->ctx, &w->data, &params, index, NULL);
}

static nf_status build_index(world *w, const char *format)
{
    nf_ivf_index *index = NULL;
    (void)format;
    nf_status status = build_index_into(w, &index);
    if (status == NF_OK) status = search_index(w, index);
    nf_ivf_release(index);
    return status;
}

static nf_status knn(world *w, const char *format)
{
    nf_knn_params params;
    (void)format;
    nf_knn_params_init(&params);
    params.k = K;
    const nf_status status = nf_knn(w->ctx, &w->data, &w->queries, &params, w->ids, w->distances, w->counts, NULL);
    if (status != NF_OK) return status;
    answer(w, w->ids, sizeof w->ids);
    answer(w, w->distances, sizeof w->distances);
    return NF_OK;
}

static nf_status radius_csr(world *w, const char *format)
{
    const nf_radius_params params = radius_params();
    nf_radius_index       *index = NULL;
    nf_csr                *csr = NULL;
    (void)format;
    nf_status status = nf_radius_index_create(w->ctx, &w->data, NULL, &index);
    if (status == NF_OK) status = nf_radius_csr(w->ctx, index, NULL, &params, &csr, NULL);
    if (status == NF_OK) {
        answer(w, csr->indptr, (csr->rows + 1) * sizeof *csr->indptr);
        answer(w, csr->indices, csr->pairs * sizeof *csr->indices);
        answer(w, csr->distances, csr->pairs * sizeof(double));
    }
    nf_csr_release(csr);
    nf_radius_index_release(index);
    return status;
}

static nf_status radius_counts(world *w, const char *format)
{
    const nf_radius_params params = radius_params();
    (void)format;
    const nf_status status = nf_radius_counts(w->ctx, w->index, &w->queries, &params, w->numbers, NULL);
    if (status == NF_OK) answer(w, w->numbers, sizeof w->numbers);
    return status;
}

static nf_status radius_stream(world *w, const char *format)
{
    nf_radius_params  params = radius_params();
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    (void)format;
    params.batch_pairs = 100;
    nf_status status = nf_radius_open(w->ctx, w->index, &w->queries, &params, &stream);
    while (status == NF_OK && (status = nf_radius_next(stream, &batch)) == NF_MORE) {
        answer(w, batch.query_ids, batch.rows * sizeof *batch.query_ids);
        answer(w, batch.indices, batch.pairs * sizeof *batch.indices);
        status = NF_OK;
    }
    nf_radius_close(stream);
    return status;
}

static nf_status dbscan(world *w, const char *format)
{
    nf_dbscan_params params;
    (void)format;
    nf_dbscan_params_init(&params);
    params.radius = 15;
    const nf_status status = nf_dbscan(w->ctx, w->index, &params, w->labels, NULL, NULL);
    if (status == NF_OK) answer(w, w->labels, sizeof w->labels);
    return status;
}

static const operation OPERATIONS[] = {
    {"save an index", save_index, "nfi", true},
    {"write a matrix", write_matrix, "npy", true},
    {"write a matrix", write_matrix, "fvecs", true},
    {"write a matrix", write_matrix, "bvecs", true},
    {"write a matrix", write_matrix, "ivecs", true},
    {"write a matrix", write_matrix, "fbin", true},
    {"write a matrix", write_matrix, "u8bin", true},
    {"write a matrix", write_matrix, "i8bin", true},
    {"write a matrix", write_matrix, "f16bin", true},
    {"write a matrix", write_matrix, "ibin", true},
    {"write a matrix", write_matrix, "csv", true},
    {"write a matrix", write_matrix, "tsv", true},
    {"write a matrix", write_matrix, "txt", true},
    {"write a matrix", write_matrix, "raw", true},
    {"write a join", write_join, "npz", true},
    {"write a join", write_join, "npy", true},
    {"write a join", write_join, "csv", true},
    {"write a join", write_join, "tsv", true},
    {"write a join", write_join, "txt", true},
    {"write counts", write_counts, "npy", true},
    {"write counts", write_counts, "csv", true},
    {"write neighbours", write_neighbours, "npz", true},
    {"write neighbours", write_neighbours, "bin", true},
    {"write neighbours", write_neighbours, "ivecs", true},
    {"write neighbours", write_neighbours, "csv", true},
    {"read a matrix", read_matrix, "npy", false},
    {"read a matrix", read_matrix, "fvecs", false},
    {"read a matrix", read_matrix, "bvecs", false},
    {"read a matrix", read_matrix, "ivecs", false},
    {"read a matrix", read_matrix, "fbin", false},
    {"read a matrix", read_matrix, "u8bin", false},
    {"read a matrix", read_matrix, "i8bin", false},
    {"read a matrix", read_matrix, "f16bin", false},
    {"read a matrix", read_matrix, "ibin", false},
    {"read a matrix", read_matrix, "csv", false},
    {"read a matrix", read_matrix, "tsv", false},
    {"read a matrix", read_matrix, "txt", false},
    {"read a matrix", read_matrix, "raw", false},
    {"read neighbours", read_neighbours, "npz", false},
    {"read neighbours", read_neighbours, "bin", false},
    {"read neighbours", read_neighbours, "ivecs", false},
    {"open an index", open_index, "read", false},
    {"open an index", open_index, "mapped", false},
    {"build an index", build_index, "", false},
    {"search an index", search, "", false},
    {"knn", knn, "", false},
    {"radius, in memory", radius_csr, "", false},
    {"radius, counts", radius_counts, "", false},
    {"radius, stream", radius_stream, "", false},
    {"dbscan", dbscan, "", false},
};

/* ---- one fault ---- */

static uint64_t memory_used(const world *w)
{
    nf_context_info info;
    nf_context_describe(w->ctx, &info);
    return info.memory_used;
}

static int entries_of(const char *folder)
{
    DIR *entries = opendir(folder);
    int  count = 0;
    assert_non_null(entries);
    while (readdir(entries) != NULL) count++;
    closedir(entries);
    return count - 2; /* . and .. */
}

static void put_old(const world *w)
{
    FILE *file = fopen(w->out, "wb");
    assert_non_null(file);
    assert_true(fputs("old", file) >= 0);
    fclose(file);
}

static nf_status run(world *w, const operation *what)
{
    if (what->writes) put_old(w);
    w->answer_bytes = 0;
    seen = 0;
    fired = renamed = false;
    const nf_status status = what->run(w, what->format);
    armed_call = -1;
    return status;
}

static void is_answer(world *w, const operation *what, const uint8_t *expected, size_t bytes)
{
    if (what->writes) answer_file(w, w->out);
    assert_int_equal(w->answer_bytes, bytes);
    assert_memory_equal(w->answer, expected, bytes);
}

static void check_fault(world *w, const operation *what, nf_status status, const uint8_t *expected, size_t bytes)
{
    if (status == NF_OK) {
        is_answer(w, what, expected, bytes);
        return;
    }
    assert_true(strlen(nf_context_error(w->ctx)->text) > 0);
    if (!what->writes) return;
    if (renamed) {
        is_answer(w, what, expected, bytes);
    } else {
        is_answer(w, what, (const uint8_t *)"old", 3);
    }
}

/* The i-th call of a kind, for every i; returns how many there were. */
static long each_fault(world *w, const operation *what, int call, bool on, const uint8_t *expected, size_t bytes)
{
    long failed = 0;
    for (long i = 1;; i++) {
        const uint64_t memory = memory_used(w);
        const int      files = entries_of("/proc/self/fd");
        armed_at = i;
        armed_on = on;
        armed_call = call;
        const nf_status status = run(w, what);
        const bool      came = fired;
        if (came && status != NF_OK) failed++;
        if (!came) assert_int_equal(status, NF_OK);
        check_fault(w, what, status, expected, bytes);
        assert_int_equal(memory_used(w), memory);
        assert_int_equal(entries_of("/proc/self/fd"), files);
        assert_int_equal(entries_of(w->folder), what->writes ? 1 : 0);
        assert_int_equal(run(w, what), NF_OK);
        is_answer(w, what, expected, bytes);
        if (what->writes) assert_int_equal(unlink(w->out), 0);
        if (!came) {
            if (i > 1 && !on) printf("  %s %ld (%ld failed)", CALL_TABLE[call].name, i - 1, failed);
            return i - 1;
        }
        assert_true(i < MOST_FAULTS);
    }
}

/* ---- setup ---- */

static void write_inputs(world *w)
{
    for (size_t i = 0; i < sizeof OPERATIONS / sizeof *OPERATIONS; i++) {
        const operation *what = &OPERATIONS[i];
        const char      *kind = what->run == write_matrix ? "matrix" : what->run == save_index ? "index" : "neighbours";
        if (what->run != write_matrix && what->run != write_neighbours && what->run != save_index) continue;
        input_path(w, kind, what->format, w->out, sizeof w->out);
        assert_int_equal(what->run(w, what->format), NF_OK);
    }
    snprintf(w->out, sizeof w->out, "%s/result", w->folder);
}

static int set_up(void **state)
{
    world            *w = &all;
    nf_context_params params;
    for (uint32_t i = 0; i < ROWS * DIMS; i++) w->values[i] = (float)(i * 2654435761u >> 16 & 63u);
    w->data = (nf_matrix){.data = w->values, .rows = ROWS, .dims = DIMS, .dtype = NF_DTYPE_F32};
    w->queries = w->data;
    w->queries.rows = QUERIES;
    nf_context_params_init(&params);
    params.threads = 1;
    params.engine = NF_ENGINE_CPU;
    params.memory = (uint64_t)1 << 30;
    assert_int_equal(nf_context_create(&params, &w->ctx, NULL), NF_OK);
    assert_int_equal(nf_radius_index_create(w->ctx, &w->data, NULL, &w->index), NF_OK);
    assert_int_equal(build_index_into(w, &w->ivf), NF_OK);
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* thousands of fsync */
    snprintf(w->folder, sizeof w->folder, "%s/nearfield_out_XXXXXX", base);
    snprintf(w->in, sizeof w->in, "%s/nearfield_in_XXXXXX", base);
    assert_non_null(mkdtemp(w->folder));
    assert_non_null(mkdtemp(w->in));
    write_inputs(w);
    *state = w;
    return 0;
}

static void remove_folder(const char *folder)
{
    DIR           *entries = opendir(folder);
    struct dirent *entry;
    char           path[512];
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.') (void)unlink(path);
    }
    if (entries != NULL) closedir(entries);
    (void)rmdir(folder);
}

static int tear_down(void **state)
{
    world *w = *state;
    nf_ivf_release(w->ivf);
    nf_radius_index_release(w->index);
    nf_context_destroy(w->ctx);
    remove_folder(w->folder);
    remove_folder(w->in);
    return 0;
}

static void test_every_fault(void **state)
{
    world         *w = *state;
    static uint8_t expected[sizeof w->answer];
    long           by_call[CALL_COUNT] = {0};
    for (size_t i = 0; i < sizeof OPERATIONS / sizeof *OPERATIONS; i++) {
        const operation *what = &OPERATIONS[i];
        assert_int_equal(run(w, what), NF_OK);
        if (what->writes) answer_file(w, w->out);
        const size_t bytes = w->answer_bytes;
        assert_true(bytes > 0);
        memcpy(expected, w->answer, bytes);
        if (what->writes) assert_int_equal(unlink(w->out), 0);
        printf("%s %s:", what->name, what->format);
        for (int call = 0; call < CALL_COUNT; call++) {
            by_call[call] += each_fault(w, what, call, false, expected, bytes);
            by_call[call] += each_fault(w, what, call, true, expected, bytes);
        }
        printf("\n");
    }
    /* A wrapper that nothing goes through would find nothing. */
    const int always[] = {CALL_posix_memalign, CALL_open, CALL_close, CALL_write, CALL_fsync,
                          CALL_rename,         CALL_mmap, CALL_fstat, CALL_stat,  CALL_realpath};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) assert_true(by_call[always[i]] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_fault, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
