/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Join results: a made-up result, delivered in one batch or in several in any order, is read back from the file by
 * small independent readers and compared with the formula it comes from; both ways must give the same bytes.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "io/io_join.h"
#include "io_write_zip.h"

#define MAX_PAIRS 400000

/* Query q has degree_of(q) neighbours. Batch b of batch_count has the queries with batch_of(q) == b. */
typedef struct fake {
    uint64_t queries, rows;
    uint32_t degree;       /* the mean is about half of it */
    uint32_t batch_count;
    uint32_t distances_as;
    uint32_t at;           /* the next batch */
    int      opened, closed;
    uint32_t fail_at;      /* next fails at this batch of the second pass; 0: never */
    bool     lie;          /* counts one pair less for the last query */
    int32_t *query_ids, *indices;
    int64_t *indptr;
    void    *distances;
} fake;

static uint32_t mix(uint64_t a, uint64_t b)
{
    uint64_t seed = (a + 1) * 0x9e3779b97f4a7c15u + b * 0xc2b2ae3d27d4eb4fu;
    return (uint32_t)(next_random(&seed) >> 20);
}

static uint32_t degree_of(const fake *from, uint64_t query)
{
    if (from->degree == 0 || query % 7 == 3) return 0;
    return mix(query, 1) % from->degree;
}

static int32_t neighbour_of(const fake *from, uint64_t query, uint32_t number)
{
    const uint32_t degree = degree_of(from, query);
    return (int32_t)((uint64_t)number * from->rows / degree);
}

/* Zero at times: explicit zeros must stay. */
static double distance_of(uint64_t query, uint32_t number)
{
    const uint32_t value = mix(query, number + 2);
    return value % 50 == 0 ? 0.0 : sqrt(value);
}

static uint32_t batch_of(const fake *from, uint64_t query)
{
    return mix(query, 99) % from->batch_count;
}

static uint64_t all_pairs(const fake *from)
{
    uint64_t pairs = 0;
    for (uint64_t q = 0; q < from->queries; q++) pairs += degree_of(from, q);
    return pairs;
}

static nf_status fake_counts(void *self, uint64_t *counts, nf_radius_stats *stats)
{
    const fake *from = self;
    for (uint64_t q = 0; q < from->queries; q++) counts[q] = degree_of(from, q);
    if (from->lie) counts[0] += 1;
    stats->seconds = 1;
    return NF_OK;
}

static nf_status fake_open(void *self)
{
    fake *from = self;
    from->at = 0;
    from->opened++;
    return NF_OK;
}

static void put_pair(fake *from, int64_t at, uint64_t query, uint32_t number)
{
    from->indices[at] = neighbour_of(from, query, number);
    if (from->distances_as == NF_DISTANCES_F64) ((double *)from->distances)[at] = distance_of(query, number);
    if (from->distances_as == NF_DISTANCES_F32) ((float *)from->distances)[at] = (float)distance_of(query, number);
}

/* Batches come in descending order of their numbers. */
static nf_status fake_next(void *self, nf_radius_batch *batch)
{
    fake    *from = self;
    uint64_t rows = 0;
    int64_t  pairs = 0;

    if (from->at == from->batch_count) return NF_OK;
    if (from->opened == 2 && from->fail_at != 0 && from->at == from->fail_at) return NF_ERR_LIMIT;
    from->at++;
    for (uint64_t q = 0; q < from->queries; q++) {
        if (batch_of(from, q) != from->batch_count - from->at) continue;
        from->query_ids[rows] = (int32_t)q;
        from->indptr[rows++] = pairs;
        for (uint32_t i = 0; i < degree_of(from, q); i++) put_pair(from, pairs++, q, i);
    }
    from->indptr[rows] = pairs;
    assert_true(pairs <= MAX_PAIRS);
    *batch = (nf_radius_batch){rows, (uint64_t)pairs, from->query_ids, from->indptr, from->indices,
                               from->distances_as == NF_DISTANCES_NONE ? NULL : from->distances, from->distances_as};
    return NF_MORE;
}

static void fake_stats(void *self, nf_radius_stats *stats)
{
    const fake *from = self;
    stats->seconds = from->at < from->batch_count ? 0.25 : 2;
    stats->pairs = all_pairs(from);
}

static void fake_close(void *self)
{
    fake *from = self;
    from->closed++;
}

typedef struct fixture {
    nf_context     *ctx;
    char            folder[64];
    char            path[128];
    fake            from;
    nf_join_source  source;
    nf_write_params params;
    nf_join_limits  limits;
    nf_radius_stats stats;
} fixture;

static int set_up(void **state)
{
    fixture *all = calloc(1, sizeof *all);
    all->ctx = make_context(3);
    make_folder(all->folder);
    nf_write_params_init(&all->params);
    all->params.sync = 0;
    all->limits = (nf_join_limits){NF_ZIP64_LIMIT, INT32_MAX};
    all->from = (fake){.queries = 1000, .rows = 5000, .degree = 60, .batch_count = 1};
    all->from.query_ids = malloc(sizeof(int32_t) * 100000);
    all->from.indptr = malloc(sizeof(int64_t) * 100001);
    all->from.indices = malloc(sizeof(int32_t) * MAX_PAIRS);
    all->from.distances = malloc(sizeof(double) * MAX_PAIRS);
    *state = all;
    return 0;
}

static int tear_down(void **state)
{
    fixture *all = *state;
    nf_context_destroy(all->ctx);
    remove_folder(all->folder);
    free(all->from.query_ids);
    free(all->from.indptr);
    free(all->from.indices);
    free(all->from.distances);
    free(all);
    return 0;
}

static nf_status write_join(fixture *all, const char *name)
{
    double seconds = -1;
    all->from.opened = all->from.closed = 0;
    all->source = (nf_join_source){fake_counts, fake_open,         fake_next,      fake_stats,
                                   fake_close,  &all->from,        all->from.queries, all->from.rows,
                                   all->from.distances_as, false};
    all->stats = (nf_radius_stats){.struct_size = sizeof all->stats};
    if (strcmp(name, "-") != 0 && name[0] != '/') path_in(all->path, all->folder, name);
    const nf_status status = nf_join_write(all->ctx, &all->source, name[0] == '-' || name[0] == '/' ? name : all->path,
                                           &all->params, &all->limits, &all->stats, &seconds);
    assert_true(seconds >= 0);
    assert_true(all->from.closed >= all->from.opened);
    return status;
}

static void assert_written(fixture *all, const char *name)
{
    const nf_status status = write_join(all, name);
    if (status != NF_OK) print_error("%s\n", nf_context_error(all->ctx)->text);
    assert_int_equal(status, NF_OK);
}

/* The original number of a query or row. */
static int64_t query_number(const fixture *all, uint64_t query)
{
    return all->params.query_ids != NULL ? all->params.query_ids[query] : all->params.query_first + (int64_t)query;
}

static int64_t row_number(const fixture *all, int32_t row)
{
    return all->params.data_ids != NULL ? all->params.data_ids[row] : all->params.data_first + row;
}

/* Compares a CSR in a file with the formula, pair by pair. */
static void check_csr(const fixture *all, uint64_t csr_rows, uint64_t csr_columns, uint32_t index_bytes)
{
    const fake       *from = &all->from;
    const uint32_t    data_bytes = (const uint32_t[]){8, 4, 1}[from->distances_as];
    zip_file          zip = open_zip(all->path);
    const zip_member *indices = find_member(&zip, "indices.npy"), *indptr = find_member(&zip, "indptr.npy");
    const zip_member *data = find_member(&zip, "data.npy"), *shape = find_member(&zip, "shape.npy");
    const uint64_t    pairs = all_pairs(from);
    uint64_t          query = 0, at = 0;

    assert_int_equal(zip.count, 5);
    assert_memory_equal(find_member(&zip, "format.npy")->data, "csr", 3);
    assert_string_equal(find_member(&zip, "format.npy")->header,
                        "{'descr': '|S3', 'fortran_order': False, 'shape': (), }");
    assert_int_equal(shape->size, 16);
    assert_int_equal(number_at(shape->data, 8), csr_rows);
    assert_int_equal(number_at(shape->data + 8, 8), csr_columns);
    assert_int_equal(indptr->size, (csr_rows + 1) * index_bytes);
    assert_int_equal(indices->size, pairs * index_bytes);
    assert_int_equal(data->size, pairs * data_bytes);
    assert_non_null(strstr(indices->header, index_bytes == 8 ? "'<i8'" : "'<i4'"));
    assert_non_null(strstr(indptr->header, index_bytes == 8 ? "'<i8'" : "'<i4'"));
    assert_non_null(strstr(data->header, data_bytes == 8 ? "'<f8'" : data_bytes == 4 ? "'<f4'" : "'|i1'"));

    for (uint64_t row = 0; row < csr_rows; row++) {
        assert_int_equal(number_at(indptr->data + row * index_bytes, index_bytes), at);
        if (query >= from->queries || query_number(all, query) != (int64_t)row) continue;
        for (uint32_t i = 0; i < degree_of(from, query); i++, at++) {
            const double distance = distance_of(query, i);
            const float  narrow = (float)distance;
            const int64_t id = row_number(all, neighbour_of(from, query, i));
            if (number_at(indices->data + at * index_bytes, index_bytes) != (uint64_t)id) fail_msg("wrong id");
            const void   *expected[3] = {&distance, &narrow, "\1"};
            if (memcmp(data->data + at * data_bytes, expected[from->distances_as], data_bytes) != 0) {
                fail_msg("wrong distance");
            }
        }
        query++;
    }
    assert_int_equal(number_at(indptr->data + csr_rows * index_bytes, index_bytes), at);
    assert_int_equal(at, pairs);
    assert_int_equal(query, from->queries);
    free(zip.file.data);
}

/* Writes again in several batches: the bytes must be the same. */
static void assert_same_in_batches(fixture *all, const char *name)
{
    char whole[128];
    memcpy(whole, all->path, sizeof whole);
    contents file = read_file(whole);
    for (uint32_t count = 2; count <= 13; count += 11) {
        all->from.batch_count = count;
        assert_written(all, name);
        assert_true(all->from.opened > 1);
        assert_file_is(all->path, file.data, file.size);
    }
    all->from.batch_count = 1;
    free(file.data);
}

static void test_npz(void **state)
{
    fixture *all = *state;
    for (uint32_t as = NF_DISTANCES_F64; as <= NF_DISTANCES_NONE; as++) {
        all->from.distances_as = as;
        assert_written(all, "a.npz");
        check_csr(all, 1000, 5000, 4);
        assert_same_in_batches(all, "b.npz");
        assert_int_equal(count_files(all->folder), 2);
    }
}

static void test_npz_wide(void **state)
{
    fixture *all = *state;
    all->limits.index_max = 4999; /* the columns are one more */
    assert_written(all, "a.npz");
    check_csr(all, 1000, 5000, 8);
    assert_same_in_batches(all, "b.npz");
    all->limits.index_max = all_pairs(&all->from);
    assert_written(all, "a.npz");
    check_csr(all, 1000, 5000, 4);
    all->limits.index_max--;
    assert_written(all, "a.npz");
    check_csr(all, 1000, 5000, 8);
}

static void test_npz_zip64(void **state)
{
    fixture *all = *state;
    all->limits.zip64 = 2000; /* format and shape stay small, but lie far behind */
    assert_written(all, "a.npz");
    check_csr(all, 1000, 5000, 4);
    zip_file zip = open_zip(all->path);
    assert_true(zip.zip64 && find_member(&zip, "data.npy")->zip64 && find_member(&zip, "format.npy")->zip64);
    free(zip.file.data);
    assert_same_in_batches(all, "b.npz");
}

static void test_npz_large(void **state)
{
    fixture *all = *state; /* many tasks, rows above a task's pairs, and many rows without pairs */
    all->from.queries = 49999;
    all->from.degree = 7;
    assert_written(all, "a.npz");
    check_csr(all, 49999, 5000, 4);
    assert_same_in_batches(all, "b.npz");
    all->from.queries = 5;
    all->from.degree = 300000;
    all->from.rows = 300000;
    while (all_pairs(&all->from) > MAX_PAIRS) all->from.degree -= 10000;
    assert_true(all_pairs(&all->from) > 70000);
    assert_written(all, "a.npz");
    check_csr(all, 5, 300000, 4);
    assert_same_in_batches(all, "b.npz");
}

static void test_ids(void **state)
{
    fixture *all = *state;
    int64_t  query_ids[1000], data_ids[5000];

    for (int i = 0; i < 1000; i++) query_ids[i] = 3 + 2 * i + (i > 500 ? 70000 : 0);
    for (int i = 0; i < 5000; i++) data_ids[i] = 10 * i;
    all->params.query_ids = query_ids;
    all->params.data_ids = data_ids;
    assert_written(all, "a.npz");
    check_csr(all, 72002, 49991, 4);
    assert_same_in_batches(all, "b.npz");
    all->params.query_rows = 80000;
    all->params.data_rows = 50000;
    assert_written(all, "a.npz");
    check_csr(all, 80000, 50000, 4);

    all->params.query_ids = all->params.data_ids = NULL;
    all->params.query_first = 17;
    all->params.data_first = 4;
    assert_written(all, "a.npz");
    check_csr(all, 80000, 50000, 4);
    all->params.query_rows = all->params.data_rows = 0;
    assert_written(all, "a.npz");
    check_csr(all, 1017, 5004, 4);
    assert_same_in_batches(all, "b.npz");
}

/* Range truth, decoded by hand: header, counts per row of the query file, ids, squares. */
static void check_truth(const fixture *all, uint64_t file_rows)
{
    contents       file = read_file(all->path);
    const uint64_t pairs = all_pairs(&all->from);
    uint64_t       query = 0, at = 0;
    assert_int_equal(file.size, 8 + 4 * file_rows + 8 * pairs);
    assert_int_equal(number_at(file.data, 4), file_rows);
    assert_int_equal(number_at(file.data + 4, 4), pairs);
    for (uint64_t row = 0; row < file_rows; row++) {
        const bool     asked = query < 1000 && query_number(all, query) == (int64_t)row;
        const uint32_t degree = asked ? degree_of(&all->from, query) : 0;
        assert_int_equal(number_at(file.data + 8 + 4 * row, 4), degree);
        for (uint32_t i = 0; i < degree; i++, at++) {
            const uint8_t *id = file.data + 8 + 4 * file_rows + 4 * at;
            const double   distance = distance_of(query, i);
            const float    square = (float)(distance * distance);
            assert_int_equal(number_at(id, 4), row_number(all, neighbour_of(&all->from, query, i)));
            assert_memory_equal(id + 4 * pairs, &square, sizeof square);
        }
        query += asked;
    }
    assert_int_equal(at, pairs);
    free(file.data);
}

static void test_range_truth(void **state)
{
    fixture *all = *state;
    int64_t  query_ids[1000];
    for (int i = 0; i < 1000; i++) query_ids[i] = 3 + 2 * i + (i > 500 ? 70000 : 0);
    assert_written(all, "a.bin");
    check_truth(all, 1000);
    assert_same_in_batches(all, "b.bin");
    all->params.query_ids = query_ids;
    all->params.data_first = 4;
    assert_written(all, "a.bin");
    check_truth(all, 72002);
    assert_same_in_batches(all, "b.bin");
    all->params.query_ids = NULL;
    all->limits.index_max = all_pairs(&all->from);
    assert_written(all, "a.bin");
    check_truth(all, 1000);
    assert_int_equal(unlink(all->path), 0);
    all->limits.index_max--;
    assert_int_equal(write_join(all, "a.bin"), NF_ERR_LIMIT);
    assert_int_equal(count_files(all->folder), 1); /* b.bin */
}

static void test_self_join_has_the_data_ids_on_both_sides(void **state)
{
    fixture *all = *state;
    all->from = (fake){.queries = 2, .rows = 2, .degree = 0, .batch_count = 1, .indptr = all->from.indptr,
                       .query_ids = all->from.query_ids, .indices = all->from.indices,
                       .distances = all->from.distances};
    nf_join join = {.ctx = all->ctx, .source = &all->source};
    all->source = (nf_join_source){.queries = 2, .rows = 2, .self_join = true};
    all->params.data_ids = (const int64_t[]){5, 8};
    all->params.data_rows = 20;
    assert_int_equal(nf_join_map_ids(&join, &all->params), NF_OK);
    assert_int_equal(nf_id_of(&join.queries, 1), 8);
    assert_int_equal(join.queries.file_rows, 20);
    assert_int_equal(nf_id_rows_below(&join.queries, 5), 0);
    assert_int_equal(nf_id_rows_below(&join.queries, 6), 1);
    assert_int_equal(nf_id_rows_below(&join.queries, 100), 2);
}

static void test_bad_ids(void **state)
{
    fixture *all = *state;
    int64_t  ids[1000];

    for (int i = 0; i < 1000; i++) ids[i] = i;
    all->params.query_ids = ids;
    all->params.query_rows = 999;
    assert_int_equal(write_join(all, "a.npz"), NF_ERR_ARGUMENT);
    assert_error_has(all->ctx, "query id 999 is beyond the 999 rows");
    nf_context_destroy(all->ctx);
    all->ctx = make_context(3);
    ids[7] = 6;
    assert_int_equal(write_join(all, "a.npz"), NF_ERR_ARGUMENT);
    assert_error_has(all->ctx, "query ids must ascend, but 6 comes before 6");
    all->params.query_ids = NULL;
    all->params.query_first = -1;
    assert_int_equal(write_join(all, "a.npz"), NF_ERR_ARGUMENT);
    assert_int_equal(count_files(all->folder), 0);
}

static void test_no_queries_and_no_pairs(void **state)
{
    fixture *all = *state;
    all->from.queries = 0;
    all->from.batch_count = 0;
    assert_written(all, "a.npz");
    check_csr(all, 0, 5000, 4);
    assert_written(all, "a.csv");
    assert_file_is(all->path, "", 0);
    assert_written(all, "a.npy");
    all->from.queries = 1000;
    all->from.batch_count = 1;
    all->from.degree = 0;
    assert_written(all, "a.npz");
    check_csr(all, 1000, 5000, 4);
    assert_same_in_batches(all, "b.npz");
}

static void check_npy_pairs(const fixture *all, uint32_t id_bytes)
{
    contents   file = read_file(all->path);
    zip_member array;
    char       expected[100];
    size_t     at = 0;

    parse_npy(&array, file.data, file.size);
    snprintf(expected, sizeof expected, "{'descr': '<i%u', 'fortran_order': False, 'shape': (%llu, 2), }", id_bytes,
             (unsigned long long)all_pairs(&all->from));
    assert_string_equal(array.header, expected);
    assert_int_equal(array.size, all_pairs(&all->from) * 2 * id_bytes);
    for (uint64_t q = 0; q < all->from.queries; q++) {
        for (uint32_t i = 0; i < degree_of(&all->from, q); i++) {
            const int64_t row = row_number(all, neighbour_of(&all->from, q, i));
            assert_int_equal(number_at(array.data + at, id_bytes), query_number(all, q));
            assert_int_equal(number_at(array.data + at + id_bytes, id_bytes), row);
            at += 2 * id_bytes;
        }
    }
    free(file.data);
}

static void test_npy(void **state)
{
    fixture *all = *state;
    assert_written(all, "a.npy");
    check_npy_pairs(all, 4);
    assert_same_in_batches(all, "b.npy");
    all->params.data_first = (int64_t)1 << 40;
    assert_written(all, "a.npy");
    check_npy_pairs(all, 8);
    assert_same_in_batches(all, "b.npy");
}

static void check_text(const fixture *all, char separator)
{
    FILE *file = fopen(all->path, "r");
    char  line[128], expected[128];
    assert_non_null(file);
    for (uint64_t q = 0; q < all->from.queries; q++) {
        for (uint32_t i = 0; i < degree_of(&all->from, q); i++) {
            const double distance = distance_of(q, i);
            assert_non_null(fgets(line, sizeof line, file));
            const long long row = row_number(all, neighbour_of(&all->from, q, i));
            const int length = snprintf(expected, sizeof expected, "%lld%c%lld", (long long)query_number(all, q),
                                        separator, row);
            assert_memory_equal(line, expected, (size_t)length);
            if (all->from.distances_as == NF_DISTANCES_NONE) {
                assert_string_equal(line + length, "\n");
                continue;
            }
            assert_int_equal(line[length], separator);
            if (all->from.distances_as == NF_DISTANCES_F64) {
                assert_true(strtod(line + length + 1, NULL) == distance);
            } else {
                assert_true(strtof(line + length + 1, NULL) == (float)distance);
            }
        }
    }
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
}

static void test_text(void **state)
{
    fixture    *all = *state;
    const char *names[3][2] = {{"a.csv", "b.csv"}, {"a.txt", "b.txt"}, {"a.tsv", "b.tsv"}};

    all->params.query_first = 12345678901;
    for (uint32_t as = NF_DISTANCES_F64; as <= NF_DISTANCES_NONE; as++) {
        all->from.distances_as = as;
        assert_written(all, names[as][0]);
        check_text(all, as == 2 ? '\t' : ',');
        assert_same_in_batches(all, names[as][1]);
    }
}

static void test_counts(void **state)
{
    fixture   *all = *state;
    int64_t    ids[1000];
    zip_member array;
    FILE      *file;
    char       line[64];

    all->params.counts = 1;
    assert_written(all, "a.npy");
    contents npy = read_file(all->path);
    parse_npy(&array, npy.data, npy.size);
    assert_string_equal(array.header, "{'descr': '<i8', 'fortran_order': False, 'shape': (1000,), }");
    for (uint64_t q = 0; q < 1000; q++) assert_int_equal(number_at(array.data + 8 * q, 8), degree_of(&all->from, q));
    free(npy.data);
    assert_true(all->stats.seconds == 1);

    for (int i = 0; i < 1000; i++) ids[i] = 3 * i + 1;
    all->params.query_ids = ids;
    all->params.query_rows = 3000;
    assert_written(all, "a.csv");
    file = fopen(all->path, "r");
    for (uint64_t row = 0; row < 3000; row++) {
        assert_non_null(fgets(line, sizeof line, file));
        assert_int_equal(atoi(line), row % 3 == 1 ? degree_of(&all->from, row / 3) : 0);
    }
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_int_equal(write_join(all, "a.npz"), NF_ERR_ARGUMENT);
}

/* The times of all passes add up; pairs come from the last. */
static void test_statistics(void **state)
{
    fixture *all = *state;
    assert_written(all, "a.npz");
    assert_true(all->stats.seconds == 2);
    assert_int_equal(all->stats.pairs, all_pairs(&all->from));
    all->from.batch_count = 5;
    assert_written(all, "a.npz");
    assert_true(all->stats.seconds == 0.25 + 1 + 2);
    assert_written(all, "a.csv");
    assert_true(all->stats.seconds == 0.25 + 2 + 2);
    assert_int_equal(all->stats.pairs, all_pairs(&all->from));
}

/* What a pipe on standard output gets is what a file gets. */
static void assert_same_on_pipe(fixture *all, const char *format, const char *name)
{
    char  captured[128];
    FILE *pipe_end;
    int   before;

    path_in(captured, all->folder, "captured");
    assert_written(all, name);
    contents file = read_file(all->path);
    char     command[160];
    snprintf(command, sizeof command, "cat > %s", captured);
    fflush(stdout);
    before = dup(STDOUT_FILENO);
    pipe_end = popen(command, "w");
    dup2(fileno(pipe_end), STDOUT_FILENO);
    all->params.format = format;
    const nf_status status = write_join(all, "-");
    dup2(before, STDOUT_FILENO);
    close(before);
    assert_int_equal(pclose(pipe_end), 0);
    all->params.format = NULL;
    assert_int_equal(status, NF_OK);
    assert_file_is(captured, file.data, file.size);
    free(file.data);
}

static void test_standard_output(void **state)
{
    fixture *all = *state;
    for (all->from.batch_count = 1; all->from.batch_count <= 4; all->from.batch_count += 3) {
        assert_same_on_pipe(all, "npz", "a.npz");
        assert_same_on_pipe(all, "npy", "a.npy");
        assert_same_on_pipe(all, "csv", "a.csv");
    }
}

static void test_failures_leave_nothing(void **state)
{
    fixture *all = *state;
    char     path[128];

    path_in(path, all->folder, "a.npz");
    put_file(path, "old");
    all->from.batch_count = 4;
    all->from.fail_at = 2;
    assert_int_equal(write_join(all, "a.npz"), NF_ERR_LIMIT);
    assert_file_is(path, "old", 3);
    all->from.fail_at = 0;
    all->from.lie = true;
    assert_int_equal(write_join(all, "a.npz"), NF_ERR_INTERNAL);
    assert_file_is(path, "old", 3);
    all->from.lie = false;
    assert_int_equal(count_files(all->folder), 1);
    nf_context_destroy(all->ctx);
    all->ctx = make_context(3);
    nf_context_cancel(all->ctx);
    assert_int_equal(write_join(all, "a.npz"), NF_ERR_CANCELLED);
    assert_file_is(path, "old", 3);
    assert_int_equal(count_files(all->folder), 1);
}

static void test_full_disk(void **state)
{
    fixture      *all = *state;
    struct rlimit before, small;
    nf_status     status[6];
    const char   *names[3] = {"a.npz", "a.npy", "a.csv"};

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 50000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 6; i++) {
        all->from.batch_count = i < 3 ? 1 : 4;
        status[i] = write_join(all, names[i % 3]);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    for (int i = 0; i < 6; i++) assert_int_equal(status[i], NF_ERR_IO);
    assert_error_has(all->ctx, "a.npz: cannot write: File too large");
    assert_int_equal(count_files(all->folder), 0);

    if (!file_exists("/dev/full")) return;
    all->params.format = "npz";
    assert_int_equal(write_join(all, "/dev/full"), NF_ERR_IO);
    all->params.format = "csv";
    assert_int_equal(write_join(all, "/dev/full"), NF_ERR_IO);
}

/* Every allocation fails once, in both ways of writing. */
static void test_no_memory(void **state)
{
    fixture       *all = *state;
    failing_memory memory;

    nf_context_destroy(all->ctx);
    for (all->from.batch_count = 1; all->from.batch_count <= 3; all->from.batch_count += 2) {
        nf_status status = NF_ERR_MEMORY;
        int       failures = 0;
        for (; status != NF_OK; failures++) {
            all->ctx = make_failing_context(&memory);
            const int held = memory.held;
            memory.calls = 0;
            memory.fail_at = failures;
            status = write_join(all, "a.npz");
            assert_true(status == NF_OK || status == NF_ERR_MEMORY);
            assert_int_equal(memory.held, held);
            assert_int_equal(count_files(all->folder), status == NF_OK);
            nf_context_destroy(all->ctx);
        }
        assert_true(failures > 4);
        check_csr(all, 1000, 5000, 4);
        assert_int_equal(unlink(all->path), 0);
    }
    all->ctx = make_context(1);
}

int main(void)
{
#define JOIN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        JOIN_TEST(test_npz),
        JOIN_TEST(test_range_truth),
        JOIN_TEST(test_npz_wide),
        JOIN_TEST(test_npz_zip64),
        JOIN_TEST(test_npz_large),
        JOIN_TEST(test_ids),
        JOIN_TEST(test_self_join_has_the_data_ids_on_both_sides),
        JOIN_TEST(test_bad_ids),
        JOIN_TEST(test_no_queries_and_no_pairs),
        JOIN_TEST(test_npy),
        JOIN_TEST(test_text),
        JOIN_TEST(test_counts),
        JOIN_TEST(test_statistics),
        JOIN_TEST(test_standard_output),
        JOIN_TEST(test_failures_leave_nothing),
        JOIN_TEST(test_full_disk),
        JOIN_TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
