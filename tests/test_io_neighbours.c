/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbour files: those that NumPy wrote (tests/data/README.md), files written here against bytes put together by hand
 * from docs/formats.md, round trips in every format, every file cut at every length, every byte of small ones changed,
 * what is refused, and missing memory.
 */
#include <math.h>

#include "io/io_neighbours.h"
#include "io/io_npz.h"
#include "io_write_helper.h"

enum { QUERIES = 4, K = 3, ENTRIES = QUERIES * K };

static const int64_t  golden_ids[ENTRIES] = {7, 0, 2147483647, 4, 1, -1, 2, -1, -1, -1, -1, -1};
static const uint32_t golden_counts[QUERIES] = {3, 2, 1, 0};

static double golden_distance(int entry)
{
    static const double values[ENTRIES] = {0, 0.5, 1.25, 0.1, 3, 0, 1e-3, 0, 0, 0, 0, 0};
    return golden_ids[entry] < 0 ? (double)INFINITY : values[entry];
}

static const char *fixture(const char *name)
{
    static char path[4096];
    const char *small = getenv("NEARFIELD_SMALL_DATA");
    if (small != NULL) snprintf(path, sizeof path, "%s/../tests/data/%s", small, name);
    else snprintf(path, sizeof path, "%.*sdata/%s", (int)(strrchr(__FILE__, '/') - __FILE__ + 1), __FILE__, name);
    return path;
}

static nf_neighbour_set *read_set(nf_context *ctx, const char *path)
{
    nf_neighbour_set *set = NULL;
    const nf_status   status = nf_read_neighbours(ctx, path, NULL, &set);
    if (status != NF_OK) print_error("%s\n", nf_context_error(ctx)->text);
    assert_int_equal(status, NF_OK);
    return set;
}

/* How the file rounded the distances. */
typedef enum rounding { AS_F64, AS_F32, AS_SQUARED_F32, NO_DISTANCES } rounding;

static double rounded(double value, rounding how)
{
    if (how == AS_F64) return value;
    return (double)(float)(how == AS_F32 ? value : value * value);
}

static void expect_golden(const nf_neighbour_set *set, rounding how)
{
    assert_int_equal(nf_neighbour_set_queries(set), QUERIES);
    assert_int_equal(nf_neighbour_set_k(set), K);
    assert_memory_equal(nf_neighbour_set_ids(set), golden_ids, sizeof golden_ids);
    assert_memory_equal(nf_neighbour_set_counts(set), golden_counts, sizeof golden_counts);
    const double *distances = nf_neighbour_set_distances(set);
    if (how == NO_DISTANCES) {
        assert_null(distances);
        return;
    }
    assert_non_null(distances);
    for (int i = 0; i < ENTRIES; i++) assert_true(distances[i] == rounded(golden_distance(i), how));
}

static void expect_file(nf_context *ctx, const char *path, rounding how)
{
    nf_neighbour_set *set = read_set(ctx, path);
    expect_golden(set, how);
    assert_int_equal(nf_neighbour_set_squared(set), strstr(path, "bin") != NULL);
    nf_neighbour_set_release(set);
}

static void test_golden_files(void **state)
{
    nf_context *ctx = make_context(1);
    (void)state;
    expect_file(ctx, fixture("neighbours_i8_f8.npz"), AS_F64);
    expect_file(ctx, fixture("neighbours_i4_f4_deflated.npz"), AS_F32);
    expect_file(ctx, fixture("neighbours_big_f.npz"), AS_F64);
    expect_file(ctx, fixture("neighbours_truth.bin"), AS_SQUARED_F32);
    expect_file(ctx, fixture("neighbours_only_ids.ibin"), NO_DISTANCES);
    expect_file(ctx, fixture("neighbours.ivecs"), NO_DISTANCES);
    nf_neighbour_set *set = read_set(ctx, fixture("neighbours_u4.npy"));
    const int64_t     expected[4] = {1, 2, 4294967295, 0};
    assert_memory_equal(nf_neighbour_set_ids(set), expected, sizeof expected);
    nf_neighbour_set_release(set);
    nf_context_destroy(ctx);
}

/* The golden rows, ready to be written; distances in either type. */
typedef struct sample {
    double        wide[ENTRIES];
    float         narrow[ENTRIES];
    nf_neighbours all;
} sample;

static void make_sample(sample *out, nf_dtype dtype)
{
    for (int i = 0; i < ENTRIES; i++) {
        out->wide[i] = golden_distance(i);
        out->narrow[i] = (float)golden_distance(i);
    }
    out->all = (nf_neighbours){.struct_size = sizeof out->all,
                               .queries = QUERIES,
                               .k = K,
                               .ids = golden_ids,
                               .distances = dtype == NF_DTYPE_F64 ? (const void *)out->wide : (const void *)out->narrow,
                               .distances_dtype = (uint32_t)dtype,
                               .counts = golden_counts};
    if (dtype == NF_DTYPE_NONE) out->all.distances = NULL;
}

static void write_sample(nf_context *ctx, const nf_neighbours *all, const char *path)
{
    nf_write_params params;
    nf_write_params_init(&params);
    params.sync = 0;
    const nf_status status = nf_write_neighbours(ctx, all, path, &params);
    if (status != NF_OK) print_error("%s\n", nf_context_error(ctx)->text);
    assert_int_equal(status, NF_OK);
}

static void test_round_trips(void **state)
{
    static const struct {
        const char *name;
        nf_dtype    dtype;
        rounding    how;
    } cases[] = {{"a.npz", NF_DTYPE_F64, AS_F64},         {"b.npz", NF_DTYPE_F32, AS_F32},
                 {"c.npz", NF_DTYPE_NONE, NO_DISTANCES},  {"d.bin", NF_DTYPE_F64, AS_SQUARED_F32},
                 {"e.bin", NF_DTYPE_NONE, NO_DISTANCES},  {"f.ivecs", NF_DTYPE_F64, NO_DISTANCES},
                 {"g.ivecs", NF_DTYPE_NONE, NO_DISTANCES}};
    char folder[64], path[128];
    (void)state;
    make_folder(folder);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        nf_context *ctx = make_context(threads);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            sample from;
            make_sample(&from, cases[i].dtype);
            path_in(path, folder, cases[i].name);
            write_sample(ctx, &from.all, path);
            expect_file(ctx, path, cases[i].how);
            from.all.counts = NULL; /* counted, then */
            contents with = read_file(path);
            write_sample(ctx, &from.all, path);
            assert_file_is(path, with.data, with.size);
            free(with.data);
        }
        assert_int_equal(count_files(folder), 7);
        nf_context_destroy(ctx);
    }
    remove_folder(folder);
}

/* The files that other programs made are byte for byte what is written here, where a format leaves no choice. */
static void test_bytes_of_binary_files(void **state)
{
    static const struct {
        const char *made, *by_others;
        nf_dtype    dtype;
    } cases[] = {{"a.bin", "neighbours_truth.bin", NF_DTYPE_F64},
                 {"b.bin", "neighbours_only_ids.ibin", NF_DTYPE_NONE},
                 {"c.ivecs", "neighbours.ivecs", NF_DTYPE_F64}};
    nf_context *ctx = make_context(1);
    char        folder[64], path[128];
    (void)state;
    make_folder(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample from;
        make_sample(&from, cases[i].dtype);
        path_in(path, folder, cases[i].made);
        write_sample(ctx, &from.all, path);
        contents expected = read_file(fixture(cases[i].by_others));
        assert_file_is(path, expected.data, expected.size);
        free(expected.data);
    }
    remove_folder(folder);
    nf_context_destroy(ctx);
}

static void expect_text(nf_context *ctx, const nf_neighbours *all, const nf_write_params *params, const char *path,
                        const char *text)
{
    assert_int_equal(nf_write_neighbours(ctx, all, path, params), NF_OK);
    assert_file_is(path, text, strlen(text));
}

static void test_text(void **state)
{
    const int64_t   numbers[QUERIES] = {2, 5, 6, 9};
    nf_context     *ctx = make_context(2);
    nf_write_params params;
    sample          from;
    char            folder[64], path[128];
    (void)state;
    make_folder(folder);
    make_sample(&from, NF_DTYPE_F64);
    nf_write_params_init(&params);
    params.sync = 0;
    params.query_first = 10;
    path_in(path, folder, "a.csv");
    expect_text(ctx, &from.all, &params, path,
                "10,1,7,0\n10,2,0,0.5\n10,3,2147483647,1.25\n11,1,4,0.1\n11,2,1,3\n12,1,2,0.001\n");
    make_sample(&from, NF_DTYPE_F32);
    params.query_ids = numbers;
    path_in(path, folder, "a.tsv");
    expect_text(ctx, &from.all, &params, path,
                "2\t1\t7\t0\n2\t2\t0\t0.5\n2\t3\t2147483647\t1.25\n5\t1\t4\t0.1\n5\t2\t1\t3\n6\t1\t2\t0.001\n");
    make_sample(&from, NF_DTYPE_NONE);
    path_in(path, folder, "a.txt");
    expect_text(ctx, &from.all, &params, path, "2,1,7\n2,2,0\n2,3,2147483647\n5,1,4\n5,2,1\n6,1,2\n");
    remove_folder(folder);
    nf_context_destroy(ctx);
}

/* More entries than one task holds. */
static void test_many(void **state)
{
    enum { ROWS = 3000, WIDE = 37 };
    int64_t                 *ids = malloc(ROWS * WIDE * sizeof *ids);
    float                   *distances = malloc(ROWS * WIDE * sizeof *distances);
    nf_context              *ctx = make_context(3);
    char                     folder[64], path[128];
    static const char *const names[] = {"a.npz", "b.bin"};
    (void)state;
    for (int i = 0; i < ROWS * WIDE; i++) {
        ids[i] = i * 7919 % 1000003;
        distances[i] = (float)i / 8;
    }
    const nf_neighbours all = {.struct_size = sizeof all,
                               .queries = ROWS,
                               .k = WIDE,
                               .metric = NF_METRIC_IP,
                               .ids = ids,
                               .distances = distances,
                               .distances_dtype = NF_DTYPE_F32};
    make_folder(folder);
    for (int n = 0; n < 2; n++) {
        path_in(path, folder, names[n]);
        write_sample(ctx, &all, path);
        nf_neighbour_set *set = read_set(ctx, path);
        assert_int_equal(nf_neighbour_set_queries(set), ROWS);
        assert_memory_equal(nf_neighbour_set_ids(set), ids, ROWS * WIDE * sizeof *ids);
        for (int i = 0; i < ROWS * WIDE; i++) {
            assert_true(nf_neighbour_set_distances(set)[i] == (double)distances[i]); /* not squared: no L2 */
        }
        nf_neighbour_set_release(set);
    }
    path_in(path, folder, "c.csv");
    write_sample(ctx, &all, path);
    contents text = read_file(path);
    long     lines = 0;
    for (size_t i = 0; i < text.size; i++) lines += text.data[i] == '\n';
    assert_int_equal(lines, ROWS * WIDE);
    free(text.data);
    remove_folder(folder);
    nf_context_destroy(ctx);
    free(ids);
    free(distances);
}

static void test_no_queries(void **state)
{
    nf_context         *ctx = make_context(1);
    const nf_neighbours none = {.struct_size = sizeof none, .k = 5};
    char                folder[64], path[128];
    (void)state;
    make_folder(folder);
    path_in(path, folder, "a.npz");
    write_sample(ctx, &none, path);
    nf_neighbour_set *set = read_set(ctx, path);
    assert_int_equal(nf_neighbour_set_queries(set), 0);
    assert_int_equal(nf_neighbour_set_k(set), 5);
    nf_neighbour_set_release(set);
    path_in(path, folder, "a.bin");
    write_sample(ctx, &none, path);
    set = read_set(ctx, path);
    assert_int_equal(nf_neighbour_set_queries(set), 0);
    nf_neighbour_set_release(set);
    nf_neighbour_set_release(NULL);
    remove_folder(folder);
    nf_context_destroy(ctx);
}

static void refuse_write(nf_context *ctx, const nf_neighbours *all, const char *path, nf_status status,
                         const char *part)
{
    assert_int_equal(nf_write_neighbours(ctx, all, path, NULL), status);
    assert_error_has(ctx, part);
    assert_false(file_exists(path));
}

static void test_refused_writing(void **state)
{
    nf_context *ctx = make_context(1);
    int64_t     ids[ENTRIES];
    uint32_t    counts[QUERIES] = {3, 2, 1, 1};
    sample      from;
    char        folder[64], path[128], npz[128];
    (void)state;
    make_folder(folder);
    path_in(path, folder, "a.bin");
    path_in(npz, folder, "a.npz");
    memcpy(ids, golden_ids, sizeof ids);
    make_sample(&from, NF_DTYPE_F64);
    from.all.ids = ids;

    ids[2] = 2147483648;
    refuse_write(ctx, &from.all, path, NF_ERR_VALUE, "query 0, entry 2 (both from 0): id 2147483648 does not fit");
    write_sample(ctx, &from.all, npz);
    unlink(npz);
    ids[2] = 5;
    ids[5] = -2;
    refuse_write(ctx, &from.all, npz, NF_ERR_VALUE, "query 1, entry 2 (both from 0): id -2 after");
    ids[5] = -1;
    ids[11] = 3;
    refuse_write(ctx, &from.all, npz, NF_ERR_VALUE, "query 3, entry 2 (both from 0): id 3 after");
    ids[11] = -1;
    from.wide[3] = (double)NAN;
    refuse_write(ctx, &from.all, npz, NF_ERR_VALUE, "query 1, entry 0 (both from 0): id 4 has the distance NaN");
    from.wide[3] = 1e20; /* whose square is beyond binary32 */
    refuse_write(ctx, &from.all, path, NF_ERR_VALUE, "f32 does not hold");
    from.wide[3] = 1;
    from.all.counts = counts;
    refuse_write(ctx, &from.all, npz, NF_ERR_VALUE, "query 3 (from 0): the count is 1, but there are 0 ids");
    from.all.counts = NULL;

    path_in(path, folder, "a.fvecs");
    refuse_write(ctx, &from.all, path, NF_ERR_ARGUMENT, "choose of: npz, csv, tsv, txt, ivecs, bin");
    from.all.k = 0;
    refuse_write(ctx, &from.all, npz, NF_ERR_ARGUMENT, "k is 0");
    from.all.k = K;
    from.all.distances_dtype = NF_DTYPE_I32;
    refuse_write(ctx, &from.all, npz, NF_ERR_ARGUMENT, "distances are i32");
    from.all.struct_size = 0;
    refuse_write(ctx, &from.all, npz, NF_ERR_ARGUMENT, "struct_size");
    refuse_write(ctx, NULL, npz, NF_ERR_ARGUMENT, "needs neighbours");
    assert_int_equal(count_files(folder), 0);
    remove_folder(folder);
    nf_context_destroy(ctx);
}

/* The first size bytes of a file, in a block that ends with them. */
static nf_status read_cut(nf_context *ctx, const char *name, const contents *file, size_t size, nf_neighbour_set **set)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, file->data, size);
    const nf_status status = nf_read_neighbours_memory(ctx, name, NULL, copy, size, set);
    free(copy);
    return status;
}

/* Every cut is refused with one line that begins with the name, or is a shorter file that is right by its format. */
static void test_every_length(void **state)
{
    static const char *const names[] = {"neighbours_i8_f8.npz", "neighbours_i4_f4_deflated.npz", "neighbours_big_f.npz",
                                        "neighbours_truth.bin", "neighbours_only_ids.ibin",      "neighbours.ivecs",
                                        "neighbours_u4.npy"};
    nf_context              *ctx = make_context(1);
    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        contents file = read_file(fixture(names[n]));
        for (size_t size = 0; size < file.size; size++) {
            const bool        ids_alone = strcmp(names[n], "neighbours_truth.bin") == 0 && size == 8 + 4 * ENTRIES;
            const bool        rows = strcmp(names[n], "neighbours.ivecs") == 0 && size > 0 && size % (4 + 4 * K) == 0;
            nf_neighbour_set *set = NULL;
            const nf_status   status = read_cut(ctx, names[n], &file, size, &set);
            if (ids_alone || rows) {
                assert_int_equal(status, NF_OK);
                nf_neighbour_set_release(set);
                continue;
            }
            assert_int_equal(status, NF_ERR_FORMAT);
            assert_null(set);
            assert_memory_equal(nf_context_error(ctx)->text, names[n], strlen(names[n]));
            assert_null(strchr(nf_context_error(ctx)->text, '\n'));
        }
        free(file.data);
    }
    nf_context_destroy(ctx);
}

/* Whatever a byte becomes, the reader stays inside the bytes (seen by the sanitizers) and keeps its promises. */
static void test_every_byte_changed(void **state)
{
    static const char *const names[] = {"neighbours_i8_f8.npz", "neighbours_big_f.npz", "neighbours_truth.bin",
                                        "neighbours.ivecs"};
    static const uint8_t     changes[] = {0x01, 0x80, 0xff};
    nf_context              *ctx = make_context(1);
    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        contents file = read_file(fixture(names[n]));
        for (size_t i = 0; i < 3 * file.size; i++) {
            nf_neighbour_set *set = NULL;
            file.data[i / 3] ^= changes[i % 3];
            if (read_cut(ctx, names[n], &file, file.size, &set) == NF_OK) {
                const int64_t *ids = nf_neighbour_set_ids(set);
                for (uint64_t e = 0; e < nf_neighbour_set_queries(set) * nf_neighbour_set_k(set); e++) {
                    assert_true(ids[e] >= -1);
                }
                nf_neighbour_set_release(set);
            }
            file.data[i / 3] ^= changes[i % 3];
        }
        free(file.data);
    }
    nf_context_destroy(ctx);
}

static void refuse_bytes(nf_context *ctx, const char *name, const uint8_t *data, size_t size, nf_status status,
                         const char *part)
{
    nf_neighbour_set *set = NULL;
    assert_int_equal(nf_read_neighbours_memory(ctx, name, NULL, data, size, &set), status);
    assert_null(set);
    assert_error_has(ctx, part);
}

static void test_refused_reading(void **state)
{
    nf_context       *ctx = make_context(1);
    nf_neighbour_set *set = NULL;
    (void)state;
    contents file = read_file(fixture("neighbours_truth.bin"));
    memcpy(file.data + 8, "\xfe\xff\xff\xff", 4);
    refuse_bytes(ctx, "a.bin", file.data, file.size, NF_ERR_VALUE, "a.bin: query 0, entry 0 (both from 0): id -2");
    memcpy(file.data + 8, "\xff\xff\xff\xff", 4);
    refuse_bytes(ctx, "a.bin", file.data, file.size, NF_ERR_FORMAT,
                 "query 0, entry 1 (both from 0): an id after id -1");
    memcpy(file.data + 8, "\x07\x00\x00\x00", 4);
    memcpy(file.data + 8 + 4 * ENTRIES, "\x00\x00\xc0\x7f", 4);
    refuse_bytes(ctx, "a.bin", file.data, file.size, NF_ERR_VALUE, "the distance is NaN");
    memcpy(file.data, "\xff\xff\xff\xff\xff\xff\x0f\x00", 8);
    refuse_bytes(ctx, "a.bin", file.data, file.size, NF_ERR_FORMAT, "header says 4294967295 queries of 1048575 ids");
    free(file.data);

    file = read_file(fixture("read_f4_v2.npy"));
    refuse_bytes(ctx, "a.npy", file.data, file.size, NF_ERR_FORMAT, "a.npy: ids are f32, not integers");
    refuse_bytes(ctx, "a.npz", file.data, file.size, NF_ERR_FORMAT, "no end of a zip file");
    refuse_bytes(ctx, "a.csv", file.data, file.size, NF_ERR_ARGUMENT,
                 "suffix 'csv'; choose of: npz bin ibin ivecs npy");
    free(file.data);
    assert_int_equal(nf_read_neighbours(ctx, "/nowhere/a.npz", NULL, &set), NF_ERR_IO);
    assert_int_equal(nf_read_neighbours(ctx, fixture("neighbours.ivecs"), "npz", &set), NF_ERR_FORMAT);
    assert_int_equal(nf_read_neighbours(ctx, NULL, NULL, &set), NF_ERR_ARGUMENT);
    nf_context_destroy(ctx);
}

/* A member's size in the directory that no deflate stream can reach is refused before memory is taken. */
static void test_claimed_size(void **state)
{
    nf_context *ctx = make_context(1);
    contents    file = read_file(fixture("neighbours_i4_f4_deflated.npz"));
    bool        changed = false;
    (void)state;
    for (size_t i = 0; i + 46 < file.size && !changed; i++) {
        if (memcmp(file.data + i, "PK\x01\x02", 4) != 0) continue;
        memcpy(file.data + i + 24, "\xfe\xff\xff\x7f", 4);
        changed = true;
    }
    assert_true(changed);
    refuse_bytes(ctx, "a.npz", file.data, file.size, NF_ERR_FORMAT, "ids.npy says 2147483646 bytes from");
    free(file.data);
    nf_context_destroy(ctx);
}

/* An archive whose numbers stand in zip64 fields from a small limit on, and one with a comment behind it. */
static void test_zip_forms(void **state)
{
    const int64_t  ids[8] = {9, 8, 7, 6, 5, 4, 3, 2};
    const uint64_t limits[] = {1, 250, NF_ZIP64_LIMIT};
    nf_context    *ctx = make_context(1);
    nf_crc_table  *table = malloc(sizeof *table);
    char           folder[64], path[128];
    (void)state;
    assert_non_null(table);
    nf_crc_table_fill(table);
    make_folder(folder);
    path_in(path, folder, "a.npz");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        nf_npz    npz;
        nf_output out;
        nf_npz_init(&npz, limits[i]);
        nf_npz_add(&npz, "other", "|S3", 3, NULL, 0);
        nf_npz_add(&npz, "ids", "<i8", 8, (const uint64_t[]){4, 2}, 2);
        assert_int_equal(nf_output_open(ctx, path, &out), NF_OK);
        assert_int_equal(nf_output_positioned(&out), NF_OK);
        npz.member[0].crc = nf_crc_bytes("abc", 3);
        npz.member[1].crc = nf_crc_bytes(ids, sizeof ids);
        assert_int_equal(nf_output_write_at(&out, npz.member[0].data_offset, "abc", 3), NF_OK);
        assert_int_equal(nf_output_write_at(&out, npz.member[1].data_offset, ids, sizeof ids), NF_OK);
        assert_int_equal(nf_npz_finish(&npz, &out, table), NF_OK);
        assert_int_equal(nf_output_commit(&out, false), NF_OK);

        nf_neighbour_set *set = read_set(ctx, path);
        assert_int_equal(nf_neighbour_set_queries(set), 4);
        assert_memory_equal(nf_neighbour_set_ids(set), ids, sizeof ids);
        nf_neighbour_set_release(set);

        contents file = read_file(path);
        for (size_t size = 0; size < file.size; size++) {
            assert_int_equal(read_cut(ctx, "a.npz", &file, size, &set), NF_ERR_FORMAT);
        }
        uint8_t *longer = malloc(file.size + 5);
        assert_non_null(longer);
        memcpy(longer, file.data, file.size);
        memcpy(longer + file.size, "PK\5\6!", 5);
        longer[file.size - 2] = 5;
        assert_int_equal(nf_read_neighbours_memory(ctx, "a.npz", NULL, longer, file.size + 5, &set), NF_OK);
        nf_neighbour_set_release(set);
        free(longer);
        free(file.data);
    }
    free(table);
    remove_folder(folder);
    nf_context_destroy(ctx);
}

/* The n-th allocation fails, for every n: an error, no file, nothing kept. */
static void test_no_memory(void **state)
{
    failing_memory memory;
    nf_context    *ctx = make_failing_context(&memory);
    char           folder[64], path[128];
    sample         from;
    bool           done = false;
    (void)state;
    make_folder(folder);
    make_sample(&from, NF_DTYPE_F32);
    const int held = memory.held;
    for (int n = 0; !done && n < 100; n++) {
        nf_neighbour_set *set = NULL;
        path_in(path, folder, n % 2 == 0 ? "a.npz" : "a.bin");
        memory.calls = 0;
        memory.fail_at = n / 2;
        nf_write_params params;
        nf_write_params_init(&params);
        params.sync = 0;
        nf_status status = nf_write_neighbours(ctx, &from.all, path, &params);
        if (status == NF_OK) {
            assert_int_equal(unlink(path), 0);
            status = nf_read_neighbours(ctx, fixture("neighbours_i4_f4_deflated.npz"), NULL, &set);
            done = status == NF_OK && n % 2 == 1;
        }
        if (status != NF_OK) assert_int_equal(status, NF_ERR_MEMORY);
        nf_neighbour_set_release(set);
        assert_int_equal(memory.held, held);
        assert_int_equal(count_files(folder), 0);
    }
    assert_true(done);
    remove_folder(folder);
    nf_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_files),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_bytes_of_binary_files),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_no_queries),
        cmocka_unit_test(test_refused_writing),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_every_byte_changed),
        cmocka_unit_test(test_refused_reading),
        cmocka_unit_test(test_zip_forms),
        cmocka_unit_test(test_claimed_size),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
