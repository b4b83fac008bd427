/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored graphs: files that SciPy wrote (tests/data/README.md), joins written and read again, range truths and .npz
 * files put together by hand, every cut and every changed byte of small files, and clusters: worked out by hand, and
 * against those of the vectors, which another method finds.
 */
#include <math.h>
#include <zlib.h>

#include "io/io_graph.h"
#include "io_write_helper.h"
#include "nearfield/cluster.h"

enum { ROWS = 5, ENTRIES = 7 };

static const int64_t golden_indptr[ROWS + 1] = {0, 2, 4, 5, 6, 7};
static const int32_t golden_indices[ENTRIES] = {1, 3, 0, 2, 1, 0, 4};
static const double  golden_distances[ENTRIES] = {0.5, 0, 0.5, 1, 1, 0, 0};

static const char *fixture(const char *name)
{
    static char path[4096];
    const char *small = getenv("NEARFIELD_SMALL_DATA");
    if (small != NULL) snprintf(path, sizeof path, "%s/../tests/data/%s", small, name);
    else snprintf(path, sizeof path, "%.*sdata/%s", (int)(strrchr(__FILE__, '/') - __FILE__ + 1), __FILE__, name);
    return path;
}

static nf_graph *read_graph(nf_context *ctx, const char *path)
{
    nf_graph *graph = NULL;
    if (nf_read_graph(ctx, path, NULL, &graph) != NF_OK) fail_msg("%s", nf_context_error(ctx)->text);
    return graph;
}

static double distance_of(const nf_csr *csr, uint64_t i)
{
    if (csr->distances_as == NF_DISTANCES_F32) return (double)((const float *)csr->distances)[i];
    return ((const double *)csr->distances)[i];
}

static void expect_golden(nf_context *ctx, const char *name, nf_distances as, bool truth)
{
    nf_graph     *graph = read_graph(ctx, fixture(name));
    const nf_csr *csr = nf_graph_csr(graph);
    assert_int_equal(csr->rows, ROWS);
    assert_int_equal(csr->columns, ROWS);
    assert_int_equal(csr->pairs, ENTRIES);
    assert_memory_equal(csr->indptr, golden_indptr, sizeof golden_indptr);
    assert_memory_equal(csr->indices, golden_indices, sizeof golden_indices);
    assert_int_equal(csr->distances_as, as);
    assert_int_equal(nf_graph_squared(graph), 0);
    for (uint64_t i = 0; i < ENTRIES; i++) assert_true(distance_of(csr, i) == (truth ? 1 : golden_distances[i]));
    nf_graph_release(graph);
}

static void refuse(nf_context *ctx, const char *name, const void *data, size_t size, nf_status status, const char *part)
{
    nf_graph       *graph = NULL;
    const nf_status got = nf_read_graph_memory(ctx, name, NULL, data, size, &graph);
    if (got != status || strstr(nf_context_error(ctx)->text, part) == NULL) {
        fail_msg("status %d, '%s' instead of '%s'", (int)got, nf_context_error(ctx)->text, part);
    }
    assert_null(graph);
}

static void test_golden_files(void **state)
{
    nf_context *ctx = make_context(1);
    nf_graph   *graph = NULL;
    (void)state;
    expect_golden(ctx, "graph_f8.npz", NF_DISTANCES_F64, false);
    expect_golden(ctx, "graph_f4_deflated.npz", NF_DISTANCES_F32, false);
    expect_golden(ctx, "graph_bool.npz", NF_DISTANCES_F64, true);
    assert_int_equal(nf_read_graph(ctx, fixture("graph_csc.npz"), NULL, &graph), NF_ERR_FORMAT);
    assert_non_null(strstr(nf_context_error(ctx)->text, "is 'csc'; only 'csr'"));
    assert_int_equal(nf_read_graph(ctx, fixture("neighbours_i8_f8.npz"), NULL, &graph), NF_ERR_FORMAT);
    assert_non_null(strstr(nf_context_error(ctx)->text, "format.npy: is not there"));
    assert_int_equal(nf_read_graph(ctx, fixture("none.npz"), NULL, &graph), NF_ERR_IO);
    assert_int_equal(nf_read_graph(ctx, "/tmp", "npz", &graph), NF_ERR_IO);
    assert_int_equal(nf_read_graph(ctx, "x.csv", NULL, &graph), NF_ERR_ARGUMENT);
    assert_int_equal(nf_read_graph(ctx, NULL, NULL, &graph), NF_ERR_ARGUMENT);
    nf_context_destroy(ctx);
}

/* ---- files put together by hand ---- */

typedef struct zip_bytes {
    uint8_t  data[8192], directory[2048];
    size_t   size, directory_size;
    uint32_t members;
} zip_bytes;

static void put(uint8_t *to, size_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) to[(*at)++] = (uint8_t)(value >> (8 * i));
}

/* A stored member: an array of count values; descr and shape as in the header. */
static void add_member(zip_bytes *zip, const char *name, const char *descr, const char *shape, const void *values,
                       size_t bytes)
{
    uint8_t      array[1024];
    const size_t offset = zip->size, name_bytes = strlen(name);
    char         text[256];
    const int    length =
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape);
    memcpy(array, "\x93NUMPY\x01\x00", 8);
    array[8] = (uint8_t)length;
    array[9] = 0;
    memcpy(array + 10, text, (size_t)length);
    if (bytes > 0) memcpy(array + 10 + length, values, bytes);
    const size_t   size = 10 + (size_t)length + bytes;
    const uint64_t crc = crc32(0, array, (uInt)size);
    const uint64_t local[] = {20, 0, 0, 0}; /* version, flags, method, time */

    put(zip->data, &zip->size, 0x04034b50, 4);
    for (int i = 0; i < 4; i++) put(zip->data, &zip->size, local[i], 2);
    put(zip->data, &zip->size, 0x21, 2);
    put(zip->data, &zip->size, crc, 4);
    put(zip->data, &zip->size, size, 4);
    put(zip->data, &zip->size, size, 4);
    put(zip->data, &zip->size, name_bytes, 4);
    memcpy(zip->data + zip->size, name, name_bytes);
    memcpy(zip->data + zip->size + name_bytes, array, size);
    zip->size += name_bytes + size;

    uint8_t *directory = zip->directory;
    size_t  *at = &zip->directory_size;
    put(directory, at, 0x02014b50, 4);
    put(directory, at, 20, 2);
    for (int i = 0; i < 4; i++) put(directory, at, local[i], 2);
    put(directory, at, 0x21, 2);
    put(directory, at, crc, 4);
    put(directory, at, size, 4);
    put(directory, at, size, 4);
    put(directory, at, name_bytes, 4);
    put(directory, at, 0, 8);
    put(directory, at, 0, 2);
    put(directory, at, offset, 4);
    memcpy(directory + *at, name, name_bytes);
    *at += name_bytes;
    zip->members++;
}

static void finish_zip(zip_bytes *zip)
{
    const size_t begin = zip->size;
    memcpy(zip->data + begin, zip->directory, zip->directory_size);
    zip->size += zip->directory_size;
    put(zip->data, &zip->size, 0x06054b50, 4);
    put(zip->data, &zip->size, 0, 4);
    put(zip->data, &zip->size, zip->members, 2);
    put(zip->data, &zip->size, zip->members, 2);
    put(zip->data, &zip->size, zip->directory_size, 4);
    put(zip->data, &zip->size, begin, 4);
    put(zip->data, &zip->size, 0, 2);
}

/* A graph of two rows and two entries, of which one thing may be wrong. Members are in an order that SciPy never has.
 */
typedef struct small_graph {
    const char *format, *format_type, *shape_text, *data_type, *data_shape;
    int64_t     shape[2], indptr[3], indices[2];
    double      data[2];
    int         missing; /* member left out, from 1 */
} small_graph;

static small_graph sound(void)
{
    return (small_graph){.format = "csr",
                         .format_type = "|S3",
                         .shape_text = "(2,)",
                         .data_type = "<f8",
                         .data_shape = "(2,)",
                         .shape = {2, 2},
                         .indptr = {0, 1, 2},
                         .indices = {1, 0},
                         .data = {3, 3}};
}

static void make_small(const small_graph *from, zip_bytes *zip)
{
    *zip = (zip_bytes){.size = 0};
    if (from->missing != 1)
        add_member(zip, "data.npy", from->data_type, from->data_shape, from->data, sizeof from->data);
    if (from->missing != 2) add_member(zip, "shape.npy", "<i8", from->shape_text, from->shape, sizeof from->shape);
    add_member(zip, "note.npy", "<i8", "(2,)", from->shape, sizeof from->shape); /* not looked at */
    if (from->missing != 3) add_member(zip, "indices.npy", "<i8", "(2,)", from->indices, sizeof from->indices);
    if (from->missing != 4) add_member(zip, "indptr.npy", "<i8", "(3,)", from->indptr, sizeof from->indptr);
    if (from->missing != 5) add_member(zip, "format.npy", from->format_type, "()", from->format, strlen(from->format));
    finish_zip(zip);
}

static void refuse_small(nf_context *ctx, const small_graph *from, nf_status status, const char *part)
{
    zip_bytes zip;
    make_small(from, &zip);
    refuse(ctx, "hand.npz", zip.data, zip.size, status, part);
}

static void test_hostile_csr(void **state)
{
    nf_context *ctx = make_context(1);
    nf_graph   *graph = NULL;
    zip_bytes   zip;
    small_graph one = sound();
    (void)state;
    make_small(&one, &zip);
    if (nf_read_graph_memory(ctx, "hand.npz", NULL, zip.data, zip.size, &graph) != NF_OK) {
        fail_msg("%s", nf_context_error(ctx)->text);
    }
    assert_int_equal(nf_graph_csr(graph)->indices[0], 1);
    nf_graph_release(graph);
    for (int missing = 1; missing <= 5; missing++) {
        one = sound();
        one.missing = missing;
        refuse_small(ctx, &one, NF_ERR_FORMAT, "is not there");
    }
#define REFUSE(change, status, part)           \
    do {                                       \
        one = sound();                         \
        one.change;                            \
        refuse_small(ctx, &one, status, part); \
    } while (0)
    REFUSE(format = "coo", NF_ERR_FORMAT, "format.npy: is 'coo'");
    REFUSE(format = "csrx", NF_ERR_FORMAT, "format.npy: does not say 'csr'");
    REFUSE(format = "", NF_ERR_FORMAT, "format.npy: does not say 'csr'");
    REFUSE(shape_text = "(1, 2)", NF_ERR_FORMAT, "shape.npy: has two axes");
    REFUSE(shape[0] = -1, NF_ERR_FORMAT, "shape.npy: a size is not within");
    REFUSE(shape[1] = (int64_t)1 << 31, NF_ERR_FORMAT, "shape.npy: a size is not within");
    REFUSE(shape[0] = 3, NF_ERR_FORMAT, "indptr.npy: holds 3 places, but 3 rows");
    REFUSE(shape[0] = INT32_MAX, NF_ERR_FORMAT, "indptr.npy: holds 3 places");
    REFUSE(indptr[0] = 1, NF_ERR_FORMAT, "indptr.npy: entry 0");
    REFUSE(indptr[1] = -1, NF_ERR_FORMAT, "indptr.npy: entry 1");
    REFUSE(indptr[1] = 3, NF_ERR_FORMAT, "indptr.npy: entry 1");
    REFUSE(indptr[2] = 0, NF_ERR_FORMAT, "indptr.npy: entry 2");
    REFUSE(indptr[2] = 1, NF_ERR_FORMAT, "indptr.npy: ends at 1, but there are 2");
    REFUSE(indices[1] = 2, NF_ERR_FORMAT, "indices.npy: entry 1 (from 0) is not within 0 and 1");
    REFUSE(indices[0] = -1, NF_ERR_FORMAT, "indices.npy: entry 0");
    REFUSE(indices[0] = (int64_t)1 << 32, NF_ERR_FORMAT, "indices.npy: entry 0");
    REFUSE(data[1] = (double)NAN, NF_ERR_VALUE, "data.npy: entry 1 (from 0) is NaN");
    REFUSE(data[0] = -0.5, NF_ERR_VALUE, "data.npy: entry 0 (from 0) is a negative distance");
    REFUSE(data_type = "<f4", NF_ERR_FORMAT, "data.npy: header says 2 x 1 f32");
    REFUSE(data_type = "<f4"; one.data_shape = "(4,)", NF_ERR_FORMAT, "data.npy: holds 4 distances for 2");
    REFUSE(data_type = "<f2"; one.data_shape = "(8,)", NF_ERR_FORMAT, "data.npy: type f16");
    REFUSE(data_type = "|O8", NF_ERR_FORMAT, "Python objects");
    REFUSE(data_type = "<i8", NF_ERR_VALUE, "data.npy: entry 0 (from 0) is negative or beyond 2^53");
#undef REFUSE
    nf_context_destroy(ctx);
}

/* Two queries: ids 4 and 0, then 4; squared distances. */
static const uint8_t truth[] = {2, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0,    0,    4, 0, 0,    0,
                                0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x40};

static void test_range_truth(void **state)
{
    nf_context *ctx = make_context(1);
    (void)state;
    for (int with = 0; with < 2; with++) {
        nf_graph *graph = NULL;
        assert_int_equal(nf_read_graph_memory(ctx, "t.bin", NULL, truth, with ? 40 : 28, &graph), NF_OK);
        const nf_csr *csr = nf_graph_csr(graph);
        assert_int_equal(nf_graph_squared(graph), 1);
        assert_int_equal(csr->rows, 2);
        assert_int_equal(csr->columns, 5);
        assert_int_equal(csr->indptr[1], 2);
        assert_int_equal(csr->indptr[2], 3);
        assert_int_equal(csr->indices[0], 4);
        assert_int_equal(csr->indices[1], 0);
        assert_int_equal(csr->distances != NULL, with);
        if (with) assert_true(distance_of(csr, 0) == 0 && distance_of(csr, 1) == 1 && distance_of(csr, 2) == 4);
        nf_graph_release(graph);
    }
    for (size_t size = 0; size < sizeof truth; size++) {
        if (size != 28) refuse(ctx, "t.bin", truth, size, NF_ERR_FORMAT, size < 8 ? "too few" : "header says");
    }
    static const struct {
        size_t      place;
        uint8_t     value;
        nf_status   status;
        const char *part;
    } wrong[] = {{7, 0x80, NF_ERR_FORMAT, "header says"},
                 {8, 1, NF_ERR_FORMAT, "counts of its queries make 2"},
                 {15, 0xff, NF_ERR_FORMAT, "counts"},
                 {19, 0xff, NF_ERR_FORMAT, "ids: entry 0"},
                 {39, 0xc0, NF_ERR_VALUE, "distances: entry 2"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t changed[sizeof truth];
        memcpy(changed, truth, sizeof truth);
        changed[wrong[i].place] = wrong[i].value;
        refuse(ctx, "t.bin", changed, 40, wrong[i].status, wrong[i].part);
    }
    nf_context_destroy(ctx);
}

/* Whatever is cut or changed, the reader stays inside the bytes (seen by the sanitizers) and keeps its promises. */
static void test_cut_and_changed(void **state)
{
    static const char *const names[] = {"graph_f8.npz", "graph_f4_deflated.npz", "graph_bool.npz"};
    nf_context              *ctx = make_context(1);
    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        contents file = read_file(fixture(names[n]));
        for (size_t size = 0; size < file.size; size++) refuse(ctx, names[n], file.data, size, NF_ERR_FORMAT, names[n]);
        for (size_t i = 0; i < 2 * file.size; i++) {
            nf_graph *graph = NULL;
            file.data[i / 2] ^= i % 2 ? 0x01 : 0xff;
            if (nf_read_graph_memory(ctx, names[n], NULL, file.data, file.size, &graph) == NF_OK) {
                const nf_csr *csr = nf_graph_csr(graph);
                for (uint64_t e = 0; e < csr->pairs; e++) {
                    assert_true(csr->indices[e] >= 0 && (uint64_t)csr->indices[e] < csr->columns);
                    assert_true(distance_of(csr, e) >= 0);
                }
                nf_graph_release(graph);
            }
            file.data[i / 2] ^= i % 2 ? 0x01 : 0xff;
        }
        free(file.data);
    }
    nf_context_destroy(ctx);
}

/* ---- joins, written and read; clusters of them ---- */

enum { POINTS = 400 };

static nf_radius_index *make_points(nf_context *ctx, float *values)
{
    const nf_matrix  data = {.data = values, .rows = POINTS, .dims = 2, .dtype = NF_DTYPE_F32};
    nf_radius_index *index = NULL;
    uint32_t         seed = 7;
    for (int i = 0; i < 2 * POINTS; i++) {
        seed = seed * 1664525 + 1013904223;
        values[i] = (float)(seed >> 27); /* of a grid of 32 x 32: equal rows, many at the radius */
    }
    assert_int_equal(nf_radius_index_create(ctx, &data, NULL, &index), NF_OK);
    return index;
}

static void expect_same_clusters(nf_context *ctx, const nf_radius_index *index, const nf_csr *graph, double radius,
                                 uint32_t samples, uint32_t strict)
{
    int64_t              labels[POINTS], expected[POINTS];
    uint8_t              core[POINTS], expected_core[POINTS];
    nf_dbscan_params     params;
    nf_dbscan_stats      stats = {.struct_size = sizeof stats}, other = stats;
    nf_components_params components;
    nf_components_stats  found = {.struct_size = sizeof found}, others = found;

    nf_dbscan_params_init(&params);
    params.radius = radius;
    params.min_samples = samples;
    params.strict = strict;
    if (nf_graph_dbscan(ctx, graph, &params, labels, core, &stats) != NF_OK)
        fail_msg("%s", nf_context_error(ctx)->text);
    assert_int_equal(nf_dbscan(ctx, index, &params, expected, expected_core, &other), NF_OK);
    assert_memory_equal(labels, expected, sizeof labels);
    assert_memory_equal(core, expected_core, sizeof core);
    assert_int_equal(stats.clusters, other.clusters);
    assert_int_equal(stats.border, other.border);
    assert_int_equal(stats.noise, other.noise);
    assert_int_equal(stats.pairs, other.pairs);
    nf_components_params_init(&components);
    components.radius = radius;
    components.strict = strict;
    assert_int_equal(nf_graph_components(ctx, graph, &components, labels, &found), NF_OK);
    assert_int_equal(nf_radius_components(ctx, index, &components, expected, &others), NF_OK);
    assert_memory_equal(labels, expected, sizeof labels);
    assert_int_equal(found.components, others.components);
    assert_int_equal(found.largest, others.largest);
    assert_int_equal(found.singletons, others.singletons);
    assert_int_equal(found.pairs, 2 * others.pairs);
}

static void test_joins(void **state)
{
    nf_context      *ctx = make_context(2);
    float            values[2 * POINTS];
    nf_radius_index *index = make_points(ctx, values);
    char             folder[64], path[128];
    (void)state;
    make_folder(folder);
    path_in(path, folder, "join.npz");
    for (uint32_t how = 0; how < 8; how++) {
        nf_radius_params params;
        nf_write_params  write;
        nf_csr          *kept = NULL;
        nf_radius_params_init(&params);
        nf_write_params_init(&write);
        write.sync = 0;
        params.radius = 2;
        params.distances = how & 1 ? NF_DISTANCES_F32 : NF_DISTANCES_F64;
        params.sort = how & 2 ? NF_SORT_DISTANCE : NF_SORT_ID;
        params.self = how >> 2;
        assert_int_equal(nf_write_join(ctx, index, NULL, &params, path, &write, NULL, NULL), NF_OK);
        assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &kept, NULL), NF_OK);
        nf_graph     *graph = read_graph(ctx, path);
        const nf_csr *csr = nf_graph_csr(graph);
        assert_int_equal(csr->rows, POINTS);
        assert_int_equal(csr->columns, POINTS);
        assert_int_equal(csr->pairs, kept->pairs);
        assert_int_equal(csr->distances_as, kept->distances_as);
        assert_memory_equal(csr->indptr, kept->indptr, (POINTS + 1) * sizeof *kept->indptr);
        assert_memory_equal(csr->indices, kept->indices, kept->pairs * sizeof *kept->indices);
        assert_memory_equal(csr->distances, kept->distances, kept->pairs * (how & 1 ? 4 : 8));
        for (uint32_t samples = 1; samples < 12; samples += 2) {
            expect_same_clusters(ctx, index, csr, 2, samples, 0);
            expect_same_clusters(ctx, index, csr, 2, samples, 1);
            expect_same_clusters(ctx, index, csr, 1, samples, samples & 2);
            expect_same_clusters(ctx, index, csr, 0, samples, 0);
        }
        nf_graph_release(graph);
        nf_csr_release(kept);
        assert_int_equal(unlink(path), 0);
    }
    remove_folder(folder);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
}

/* Range truth of a join: the same pairs, squares instead of distances; in one piece and in passes. */
static void test_join_truth(void **state)
{
    float values[2 * POINTS];
    char  folder[64], path[128];
    (void)state;
    make_folder(folder);
    path_in(path, folder, "join.bin");
    nf_context      *ctx = make_context(2);
    nf_radius_index *index = make_points(ctx, values);
    for (uint32_t as = 0; as < 3; as++) {
        for (uint64_t batch = 0; batch <= 100; batch += 100) {
            nf_radius_params params;
            nf_write_params  write;
            nf_csr          *kept = NULL;
            nf_radius_params_init(&params);
            nf_write_params_init(&write);
            write.sync = 0;
            params.radius = 2;
            params.distances = as;
            params.batch_pairs = batch;
            if (nf_write_join(ctx, index, NULL, &params, path, &write, NULL, NULL) != NF_OK) {
                fail_msg("%s", nf_context_error(ctx)->text);
            }
            assert_int_equal(nf_radius_csr(ctx, index, NULL, &params, &kept, NULL), NF_OK);
            nf_graph     *graph = read_graph(ctx, path);
            const nf_csr *csr = nf_graph_csr(graph);
            assert_int_equal(csr->rows, POINTS);
            assert_int_equal(csr->pairs, kept->pairs);
            assert_memory_equal(csr->indptr, kept->indptr, (POINTS + 1) * sizeof *kept->indptr);
            assert_memory_equal(csr->indices, kept->indices, kept->pairs * sizeof *kept->indices);
            assert_int_equal(csr->distances == NULL, as == NF_DISTANCES_NONE);
            for (uint64_t i = 0; as != NF_DISTANCES_NONE && i < csr->pairs; i++) {
                const double one = distance_of(kept, i);
                assert_true(distance_of(csr, i) == (double)(float)(one * one));
            }
            nf_graph_release(graph);
            nf_csr_release(kept);
            assert_int_equal(unlink(path), 0);
        }
    }
    float            far[2] = {0, 1e30f};
    const nf_matrix  data = {.data = far, .rows = 2, .dims = 1, .dtype = NF_DTYPE_F32};
    nf_radius_params params;
    nf_radius_index_release(index);
    nf_radius_params_init(&params);
    params.radius = (double)INFINITY;
    assert_int_equal(nf_radius_index_create(ctx, &data, NULL, &index), NF_OK);
    assert_int_equal(nf_write_join(ctx, index, NULL, &params, path, NULL, NULL, NULL), NF_ERR_VALUE);
    assert_int_equal(count_files(folder), 0);
    nf_radius_index_release(index);
    remove_folder(folder);
    nf_context_destroy(ctx);
}

/* ---- graphs worked out by hand ---- */

static nf_csr golden_csr(void)
{
    return (nf_csr){.rows = ROWS,
                    .columns = ROWS,
                    .pairs = ENTRIES,
                    .indptr = golden_indptr,
                    .indices = golden_indices,
                    .distances = golden_distances,
                    .distances_as = NF_DISTANCES_F64};
}

static void expect_labels(nf_context *ctx, const nf_csr *graph, double radius, uint32_t samples, uint32_t strict,
                          const int64_t *expected)
{
    nf_dbscan_params params;
    int64_t          labels[ROWS];
    nf_dbscan_params_init(&params);
    params.radius = radius;
    params.min_samples = samples;
    params.strict = strict;
    assert_int_equal(nf_graph_dbscan(ctx, graph, &params, labels, NULL, NULL), NF_OK);
    assert_memory_equal(labels, expected, sizeof labels);
}

static void refuse_dbscan(nf_context *ctx, const nf_csr *graph, nf_status status, const char *part)
{
    nf_dbscan_params params;
    int64_t          labels[ROWS];
    nf_dbscan_params_init(&params);
    params.radius = 1;
    assert_int_equal(nf_graph_dbscan(ctx, graph, &params, labels, NULL, NULL), status);
    if (strstr(nf_context_error(ctx)->text, part) == NULL) fail_msg("%s", nf_context_error(ctx)->text);
}

static void test_by_hand(void **state)
{
    static const int64_t chain[] = {0, 0, 0, 0, 1}, near[] = {0, 0, 1, 0, 2}, zero[] = {0, 1, 2, 0, 3};
    static const int64_t two[] = {0, 0, 0, 0, -1}, alone[] = {0, 1, 2, 3, 4}, none[] = {-1, -1, -1, -1, -1};
    nf_context          *ctx = make_context(1);
    nf_csr               graph = golden_csr();
    (void)state;
    expect_labels(ctx, &graph, 1, 1, 0, chain);
    expect_labels(ctx, &graph, 1, 1, 1, near);
    expect_labels(ctx, &graph, 0.5, 1, 0, near);
    expect_labels(ctx, &graph, 0, 1, 0, zero); /* the stored 0 is an edge */
    expect_labels(ctx, &graph, 0, 1, 1, alone);
    expect_labels(ctx, &graph, 1, 2, 0, two); /* row 4 and itself is one row, not two */
    expect_labels(ctx, &graph, 1, 3, 0, two);
    expect_labels(ctx, &graph, 1, 4, 0, none);
    graph.distances = NULL; /* then all entries are edges */
    expect_labels(ctx, &graph, 0, 1, 1, chain);

    const int32_t one_way[ENTRIES] = {1, 3, 0, 2, 3, 0, 4}, twice[ENTRIES] = {1, 3, 2, 2, 1, 0, 4};
    const int32_t beyond[ENTRIES] = {1, 5, 0, 2, 1, 0, 4};
    const int64_t falls[ROWS + 1] = {0, 2, 1, 5, 6, 7};
    graph = golden_csr();
    graph.indices = one_way;
    refuse_dbscan(ctx, &graph, NF_ERR_VALUE, "row 1 has an entry of column 2 within the radius, but row 2 has none of");
    int64_t              labels[ROWS];
    nf_components_params params;
    nf_components_params_init(&params);
    params.radius = 1;
    assert_int_equal(nf_graph_components(ctx, &graph, &params, labels, NULL), NF_OK); /* 2 to 3, one way, is enough */
    assert_memory_equal(labels, chain, sizeof chain);
    graph.indices = twice;
    refuse_dbscan(ctx, &graph, NF_ERR_VALUE, "row 0 has an entry of column 1");
    const int64_t twice_indptr[] = {0, 2, 4};
    const int32_t twice_indices[] = {1, 1, 0, 0};
    const nf_csr  both = {.rows = 2, .columns = 2, .pairs = 4, .indptr = twice_indptr, .indices = twice_indices};
    refuse_dbscan(ctx, &both, NF_ERR_VALUE, "row 0 has two entries of column 1");
    graph.indices = beyond;
    refuse_dbscan(ctx, &graph, NF_ERR_ARGUMENT, "row 0 has an entry of column 5");
    graph = golden_csr();
    graph.indptr = falls;
    refuse_dbscan(ctx, &graph, NF_ERR_ARGUMENT, "indptr of row 1 falls");
    graph = golden_csr();
    graph.columns = 6;
    refuse_dbscan(ctx, &graph, NF_ERR_ARGUMENT, "graph is 5 x 6");
    refuse_dbscan(ctx, NULL, NF_ERR_ARGUMENT, "graph is NULL");
    params.radius = (double)NAN;
    graph = golden_csr();
    assert_int_equal(nf_graph_components(ctx, &graph, &params, labels, NULL), NF_ERR_ARGUMENT);
    params.radius = 1;
    assert_int_equal(nf_graph_components(ctx, &graph, &params, NULL, NULL), NF_ERR_ARGUMENT);
    const int64_t       nothing[1] = {0};
    const nf_csr        empty = {.indptr = nothing};
    nf_components_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(nf_graph_components(ctx, &empty, &params, labels, &stats), NF_OK);
    assert_int_equal(stats.components, 0);
    nf_dbscan_params dbscan;
    nf_dbscan_params_init(&dbscan);
    dbscan.radius = 1;
    assert_int_equal(nf_graph_dbscan(ctx, &empty, &dbscan, labels, NULL, NULL), NF_OK);
    nf_context_destroy(ctx);
}

/* Every allocation fails once: an error, and nothing is left. */
static void test_memory(void **state)
{
    failing_memory memory = {.fail_at = -1};
    nf_context    *ctx = make_failing_context(&memory);
    const int      held = memory.held;
    bool           done = false;
    int            failures = 0;
    (void)state;
    for (int n = 0; !done && n < 100; n++) {
        nf_graph            *graph = NULL;
        int64_t              labels[ROWS];
        nf_dbscan_params     params;
        nf_components_params components;
        nf_components_stats  stats = {.struct_size = sizeof stats};
        nf_dbscan_params_init(&params);
        nf_components_params_init(&components);
        params.radius = components.radius = 1;
        memory.calls = 0;
        memory.fail_at = n;
        nf_status status = nf_read_graph(ctx, fixture("graph_f4_deflated.npz"), NULL, &graph);
        if (status == NF_OK) status = nf_graph_dbscan(ctx, nf_graph_csr(graph), &params, labels, NULL, NULL);
        if (status == NF_OK) status = nf_graph_components(ctx, nf_graph_csr(graph), &components, labels, &stats);
        done = status == NF_OK;
        failures += !done;
        if (!done) assert_int_equal(status, NF_ERR_MEMORY);
        nf_graph_release(graph);
        assert_int_equal(memory.held, held);
    }
    assert_true(done && failures > 12);
    nf_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_files),    cmocka_unit_test(test_hostile_csr), cmocka_unit_test(test_range_truth),
        cmocka_unit_test(test_cut_and_changed), cmocka_unit_test(test_joins),       cmocka_unit_test(test_join_truth),
        cmocka_unit_test(test_by_hand),         cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
