/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file of each version of the index format, which every later version must read. What a search of it must give was
 * computed by tests/ivf_reference.py, which knows docs/formats.md and docs/ivf.md and nothing of the library.
 */
#include "ivf_helper.h"

#include "nearfield/io.h"

#define QUERIES 4
#define K 5

typedef struct golden {
    const char *name;
    uint32_t    lists, bits, metric, rotation, keep_vectors, user_ids, recall_points;
    uint64_t    bytes, file_id;
    double      last_recall;
    int64_t     ids[QUERIES * K];
    double      distances[QUERIES * K];
} golden;

/* 100 rows of 20 values (24 padded), all lists probed. */
static const golden files[] = {
    {.name = "ivf_v1_0_l2.nfi", .lists = 5, .bits = 5, .metric = NF_METRIC_L2, .keep_vectors = 1, .recall_points = 5,
     .last_recall = 0.995,
     .bytes = 14208, .file_id = UINT64_C(0xc0c20a3edceb44fb),
     .ids = {28, 48, 57, 14, 99, 27, 42, 32, 48, 25, 1, 10, 86, 35, 30, 95, 85, 69, 49, 56},
     .distances = {2.54232, 3.13685, 3.21068, 3.25049, 3.45983, 3.54505, 3.81197, 3.85107, 3.91729, 3.93163,
                   3.09995, 3.28412, 3.3822, 3.52269, 3.57833, 3.52353, 3.86377, 4.13259, 4.13988, 4.24082}},
    {.name = "ivf_v1_0_ip.nfi", .lists = 3, .bits = 1, .metric = NF_METRIC_IP,
     .bytes = 3648, .file_id = UINT64_C(0x5cfbfbb2cdf3de87),
     .ids = {14, 31, 48, 57, 32, 32, 27, 42, 31, 99, 75, 35, 10, 1, 50, 85, 39, 38, 56, 76},
     .distances = {-113.63, -112.111, -111.882, -111.768, -111.674,
                   -123.121, -120.47, -119.746, -119.263, -119.243, -104.878,
                   -104.147, -102.456, -102.334, -101.059, -116.845,
                   -115.15, -114.328, -114.228, -113.012}},
    {.name = "ivf_v1_0_cosine.nfi", .lists = 4, .bits = 9, .metric = NF_METRIC_COSINE, .rotation = NF_ROTATION_DENSE,
     .user_ids = 1, .recall_points = 4, .last_recall = 0.999,
     .bytes = 9728, .file_id = UINT64_C(0x406b53d2db025237),
     .ids = {1172839495595, 925925917575, 432098761535, 802469128565, 111111110109, 765432091862, 814814807466,
             209876541317, 913580238674, 925925917575, 1012345669882, 851851844169, 641975302852, 604938266149,
             555555550545, 543209871644, 123456789010, 1037037027684, 148148146812, 49382715604},
     .distances = {0.0275133, 0.0417043, 0.0442669, 0.0451039, 0.0501479, 0.0471445, 0.0472572, 0.0548336, 0.0564435,
                   0.0578769, 0.0460793, 0.0472119, 0.0532314, 0.0546778, 0.0617342, 0.0514765, 0.0587692, 0.072446,
                   0.0731781, 0.0747766}},
};

static void data_path(char *path, size_t room, const char *name)
{
    const char *source = getenv("SOURCE_DIR");
    snprintf(path, room, "%s/tests/data/%s", source != NULL ? source : ".", name);
}

/* By the library's own reader; the other tests hold it against NumPy. */
static nf_dataset *read_queries(nf_context *ctx, nf_matrix *queries)
{
    char        path[1024];
    nf_dataset *dataset = NULL;
    data_path(path, sizeof path, "ivf_queries.npy");
    assert_int_equal(nf_read_matrix(ctx, path, NULL, &dataset), NF_OK);
    *queries = *nf_dataset_matrix(dataset);
    return dataset;
}

static void check_description(const golden *expected, const nf_ivf_index *index)
{
    nf_ivf_info info = {.struct_size = sizeof info};
    nf_ivf_describe(index, &info);
    assert_int_equal(info.rows, 100);
    assert_int_equal(info.dims, 20);
    assert_int_equal(info.padded_dims, 24);
    assert_int_equal(info.lists, expected->lists);
    assert_int_equal(info.bits, expected->bits);
    assert_int_equal(info.metric, expected->metric);
    assert_int_equal(info.rotation, expected->rotation);
    assert_int_equal(info.keep_vectors, expected->keep_vectors);
    assert_int_equal(info.user_ids, expected->user_ids);
    assert_int_equal(info.vectors_dtype, NF_DTYPE_F32);
    assert_int_equal(info.seed, 1);
    assert_int_equal(info.bytes, expected->bytes);
    assert_int_equal(info.file_id, expected->file_id);
    assert_int_equal(info.format_major, 1);
    assert_int_equal(info.format_minor, 0);
    assert_int_equal(info.recall_points, expected->recall_points);
    if (info.recall_points == 0) return;
    uint32_t probes;
    double   recall;
    assert_int_equal(nf_ivf_recall_point(index, info.recall_points - 1, &probes, &recall), NF_OK);
    assert_int_equal(probes, expected->lists);
    assert_true(fabs(recall - expected->last_recall) < 1e-12);
}

static void check_search(nf_context *ctx, const golden *expected, const nf_ivf_index *index, const nf_matrix *queries,
                         double epsilon0)
{
    nf_ivf_search_params params;
    int64_t              ids[QUERIES * K];
    float                distances[QUERIES * K];
    nf_ivf_search_params_init(&params);
    params.k = K;
    params.probes = expected->lists;
    params.epsilon0 = epsilon0;
    assert_int_equal(nf_ivf_search(ctx, index, queries, &params, ids, distances, NULL, NULL), NF_OK);
    assert_memory_equal(ids, expected->ids, sizeof ids);
    for (int i = 0; i < QUERIES * K; i++) {
        assert_true(fabs((double)distances[i] - expected->distances[i]) <= 1e-3 * fabs(expected->distances[i]));
    }
}

/* Every way to open, every instruction set. */
static void check_file(const golden *expected)
{
    char path[1024];
    data_path(path, sizeof path, expected->name);
    for (uint32_t i = 0; exact_isa(i) != NF_ISA_AUTO; i++) {
        nf_context *ctx = exact_context(exact_isa(i), 2, 0);
        nf_matrix   queries = {0};
        nf_dataset *dataset = read_queries(ctx, &queries);
        assert_int_equal(queries.rows, QUERIES);
        for (uint32_t way = 0; way < 4; way++) {
            nf_ivf_open_params params;
            nf_ivf_index      *index = NULL;
            nf_ivf_open_params_init(&params);
            params.map = way & 1;
            params.verify = way >> 1;
            assert_int_equal(nf_ivf_open(ctx, path, &params, &index), NF_OK);
            check_description(expected, index);
            check_search(ctx, expected, index, &queries, INFINITY);
            check_search(ctx, expected, index, &queries, 5.0);
            nf_ivf_release(index);
        }
        nf_dataset_release(dataset);
        nf_context_destroy(ctx);
    }
}

static void test_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) check_file(&files[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
