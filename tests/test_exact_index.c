/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of the index: heights of the kd-tree, structs of older headers, and what is refused. */
#include "exact_helper.h"

#define ROWS 300

static nf_matrix random_rows(void)
{
    nf_matrix data = exact_matrix(NF_DTYPE_F32, ROWS, 3);
    uint64_t  random = 5;
    for (uint64_t i = 0; i < ROWS; i++) {
        for (uint32_t c = 0; c < 3; c++) exact_put(&data, i, c, random_unit(&random));
    }
    return data;
}

static uint64_t hits_of(nf_context *ctx, const nf_radius_index *index)
{
    nf_radius_params params = exact_params(0.1);
    nf_radius_stats  stats = {.struct_size = sizeof stats};
    uint64_t         counts[ROWS];
    params.candidates = NF_CANDIDATES_NONE;
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, &stats), NF_OK);
    return stats.hits;
}

/* With no candidates left out every query meets every group: a height h gives 2^h of them, when rows / 2^h is whole. */
static void test_heights(void **state)
{
    (void)state;
    static const struct {
        uint32_t height, groups;
    } trees[] = {{0, 5}, {3, 8}, {4, 16}, {5, 30}, {9, ROWS}, {NF_MAX_HEIGHT, ROWS}}; /* by 64, 38, 19, 10, 1, 1 rows */
    nf_matrix   data = random_rows();
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    exact_truth truth = exact_truth_of(&data, NULL, 0.1);
    for (size_t t = 0; t < sizeof trees / sizeof trees[0]; t++) {
        nf_radius_index_params params;
        nf_radius_index       *index = NULL;
        nf_radius_params       question = exact_params(0.1);
        nf_radius_index_params_init(&params);
        params.height = trees[t].height;
        assert_int_equal(nf_radius_index_create(ctx, &data, &params, &index), NF_OK);
        assert_int_equal(hits_of(ctx, index), ROWS * trees[t].groups);
        exact_check_csr(ctx, index, NULL, &question, &truth);
        nf_radius_index_release(index);
    }
    exact_truth_free(&truth);
    nf_context_destroy(ctx);
    exact_free(&data);
}

/* Members that a struct of an older header does not have are not looked at; those of a newer one are. */
static void test_older_struct(void **state)
{
    (void)state;
    nf_matrix              data = random_rows();
    nf_context            *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_radius_index       *index = NULL;
    nf_radius_index_params params = {.struct_size = offsetof(nf_radius_index_params, height), .group_size = 30, .height = 99};
    assert_int_equal(nf_radius_index_create(ctx, &data, &params, &index), NF_OK);
    assert_int_equal(hits_of(ctx, index), ROWS * 10);
    nf_radius_index_release(index);

    params = (nf_radius_index_params){.struct_size = offsetof(nf_radius_index_params, group_size), .group_size = 99};
    assert_int_equal(nf_radius_index_create(ctx, &data, &params, &index), NF_OK);
    assert_int_equal(hits_of(ctx, index), ROWS * 5);
    nf_radius_index_release(index);

    params = (nf_radius_index_params){.struct_size = sizeof params + 8, .group_size = 30};
    assert_int_equal(nf_radius_index_create(ctx, &data, &params, &index), NF_OK);
    assert_int_equal(hits_of(ctx, index), ROWS * 10);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    exact_free(&data);
}

static void refused(nf_context *ctx, const nf_matrix *data, nf_radius_index_params params, const char *text)
{
    nf_radius_index *index = (nf_radius_index *)&index;
    assert_int_equal(nf_radius_index_create(ctx, data, &params, &index), NF_ERR_ARGUMENT);
    assert_null(index);
    assert_non_null(strstr(nf_context_error(ctx)->text, text));
}

static void test_refused(void **state)
{
    (void)state;
    const size_t size = sizeof(nf_radius_index_params);
    nf_matrix    data = random_rows();
    nf_context  *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    refused(ctx, &data, (nf_radius_index_params){.group_size = 8}, "struct_size of the index parameters is 0");
    refused(ctx, &data, (nf_radius_index_params){.struct_size = size, .height = 32},
            "height is 32, allowed are 0 to 31");
    refused(ctx, &data, (nf_radius_index_params){.struct_size = size, .group_size = 8, .height = 5},
            "height is 5 and group_size is 8");
    refused(ctx, &data, (nf_radius_index_params){.struct_size = size, .group_size = 65},
            "group_size is 65, the cpu engine takes 1 to 64");
    refused(ctx, &data, (nf_radius_index_params){.struct_size = size, .height = 2},
            "group_size is 75, the cpu engine takes 1 to 64");
    nf_context_destroy(ctx);
    exact_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heights),
        cmocka_unit_test(test_older_struct),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
