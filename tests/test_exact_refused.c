/* SPDX-License-Identifier: Apache-2.0 */
/* What exact search refuses, with which status and which text; and that a refusal leaves nothing behind. */
#include "exact_helper.h"

/* Rows of whole numbers, some of them equal. */
static nf_matrix counting(uint64_t rows, uint32_t dims)
{
    nf_matrix data = exact_matrix(NF_DTYPE_F64, rows, dims);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < dims; c++) exact_put(&data, i, c, (double)(i / 2 + c));
    }
    return data;
}

static void test_bad_data(void **state)
{
    (void)state;
    static const nf_dtype types[] = {NF_DTYPE_F16, NF_DTYPE_F32, NF_DTYPE_F64};
    nf_context           *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (size_t t = 0; t < 3; t++) {
        for (int kind = 0; kind < 3; kind++) {
            nf_matrix        data = exact_matrix(types[t], 100, 3), good = exact_matrix(types[t], 5, 3);
            nf_radius_index *index = (nf_radius_index *)&index;
            exact_put(&data, 57, 2, kind == 0 ? (double)NAN : kind == 1 ? HUGE_VAL : -HUGE_VAL);
            assert_int_equal(nf_radius_index_create(ctx, &data, NULL, &index), NF_ERR_VALUE);
            assert_null(index);
            assert_non_null(strstr(nf_context_error(ctx)->text, "row 57"));
            assert_non_null(strstr(nf_context_error(ctx)->text, "column 2"));

            index = exact_index(ctx, &good, 0);
            nf_radius_params params = exact_params(1.0);
            nf_csr          *csr = (nf_csr *)&csr;
            assert_int_equal(nf_radius_csr(ctx, index, &data, &params, &csr, NULL), NF_ERR_VALUE);
            assert_null(csr);
            assert_non_null(strstr(nf_context_error(ctx)->text, "row 57"));
            nf_radius_index_release(index);
            exact_free(&data);
            exact_free(&good);
        }
    }
    nf_matrix        large = exact_matrix(NF_DTYPE_I64, 9, 2);
    nf_radius_index *index = NULL;
    exact_put(&large, 4, 1, -9007199254740994.0);
    assert_int_equal(nf_radius_index_create(ctx, &large, NULL, &index), NF_ERR_VALUE);
    assert_non_null(strstr(nf_context_error(ctx)->text, "row 4, column 1"));
    exact_free(&large);
    nf_context_destroy(ctx);
}

static void refused_matrix(nf_context *ctx, const nf_matrix *data, nf_status status, const char *part)
{
    nf_radius_index *index = (nf_radius_index *)&index;
    assert_int_equal(nf_radius_index_create(ctx, data, NULL, &index), status);
    assert_null(index);
    assert_non_null(strstr(nf_context_error(ctx)->text, part));
}

static void test_bad_matrices(void **state)
{
    (void)state;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix        good = exact_matrix(NF_DTYPE_F32, 4, 4), bad = good;
    nf_radius_index *index = NULL;
    refused_matrix(ctx, NULL, NF_ERR_ARGUMENT, "NULL");
    bad.dims = 0;
    refused_matrix(ctx, &bad, NF_ERR_ARGUMENT, "0 dims");
    bad.dims = (1u << 20) + 1;
    refused_matrix(ctx, &bad, NF_ERR_ARGUMENT, "1048577");
    bad = good;
    bad.dtype = 12;
    refused_matrix(ctx, &bad, NF_ERR_ARGUMENT, "12");
    bad.dtype = 0;
    refused_matrix(ctx, &bad, NF_ERR_ARGUMENT, "0");
    bad = good;
    bad.rows = 1ull << 31;
    refused_matrix(ctx, &bad, NF_ERR_ARGUMENT, "2147483648");
    bad = good;
    bad.stride_bytes = 15;
    refused_matrix(ctx, &bad, NF_ERR_ARGUMENT, "15");
    bad = good;
    bad.data = NULL;
    refused_matrix(ctx, &bad, NF_ERR_ARGUMENT, "data is NULL");
    bad = good;
    bad.place = NF_PLACE_DEVICE;
    refused_matrix(ctx, &bad, NF_ERR_UNSUPPORTED, "host");

    nf_radius_index_params params;
    nf_radius_index_params_init(&params);
    params.group_size = exact_on_cuda() ? 65537 : 65;
    assert_int_equal(nf_radius_index_create(ctx, &good, &params, &index), NF_ERR_ARGUMENT);
    assert_non_null(strstr(nf_context_error(ctx)->text, exact_on_cuda() ? "65537" : "65"));
    assert_int_equal(nf_radius_index_create(NULL, &good, NULL, &index), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_index_create(ctx, &good, NULL, NULL), NF_ERR_ARGUMENT);
    nf_radius_index_release(NULL);
    nf_context_destroy(ctx);
    exact_free(&good);
}

static void refused_question(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                             const nf_radius_params *params, nf_status status, const char *part)
{
    nf_csr           *csr = (nf_csr *)&csr;
    nf_radius_stream *stream = (nf_radius_stream *)&stream;
    uint64_t          counts[64];
    assert_int_equal(nf_radius_csr(ctx, index, queries, params, &csr, NULL), status);
    assert_null(csr);
    if (part != NULL) assert_non_null(strstr(nf_context_error(ctx)->text, part));
    assert_int_equal(nf_radius_counts(ctx, index, queries, params, counts, NULL), status);
    assert_int_equal(nf_radius_open(ctx, index, queries, params, &stream), status);
    assert_null(stream);
    nf_context_info info;
    nf_context_describe(ctx, &info);
    assert_int_equal(info.memory_used, 0);
}

static void test_bad_questions(void **state)
{
    (void)state;
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix        data = counting(10, 4), other = counting(10, 5);
    nf_radius_index *index = exact_index(ctx, &data, 0);
    nf_radius_params params = exact_params(NAN);
    refused_question(ctx, index, NULL, &params, NF_ERR_ARGUMENT, "nan");
    params.radius = -1.0;
    refused_question(ctx, index, NULL, &params, NF_ERR_ARGUMENT, "-1");
    params.radius = -0x1p-1074;
    refused_question(ctx, index, NULL, &params, NF_ERR_ARGUMENT, "radius");
    params = (nf_radius_params){.radius = 1.0};
    refused_question(ctx, index, NULL, &params, NF_ERR_ARGUMENT, "struct_size");
    params = exact_params(1.0);
    refused_question(ctx, index, &other, &params, NF_ERR_ARGUMENT, "5 dims");
    params.self = 1;
    refused_question(ctx, index, &data, &params, NF_ERR_ARGUMENT, "self");
    params = exact_params(1.0);
    params.half = 1;
    refused_question(ctx, index, &data, &params, NF_ERR_ARGUMENT, "half");
    params = exact_params(1.0);
    params.candidates = 5;
    refused_question(ctx, index, NULL, &params, NF_ERR_ARGUMENT, "candidates is 5");
    params.candidates = NF_CANDIDATES_RT;
    if (!exact_on_cuda()) refused_question(ctx, index, NULL, &params, NF_ERR_UNSUPPORTED, "rt");
    params = exact_params(1.0);
    params.refine = NF_REFINE_TENSOR;
    refused_question(ctx, index, NULL, &params, NF_ERR_UNSUPPORTED, "tensor");
    params.refine = NF_REFINE_INT8;
    refused_question(ctx, index, NULL, &params, NF_ERR_UNSUPPORTED, "int8");
    params.refine = NF_REFINE_FP32;
    refused_question(ctx, index, NULL, &params, NF_ERR_UNSUPPORTED, "fp32");
    params = exact_params(1.0);
    params.distances = 3;
    refused_question(ctx, index, NULL, &params, NF_ERR_ARGUMENT, "distances is 3");
    params = exact_params(1.0);
    params.sort = 2;
    refused_question(ctx, index, NULL, &params, NF_ERR_ARGUMENT, "sort is 2");
    refused_question(ctx, index, NULL, NULL, NF_ERR_ARGUMENT, NULL);
    params = exact_params(1.0);
    refused_question(ctx, NULL, NULL, &params, NF_ERR_ARGUMENT, NULL);
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, NULL, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_radius_next(NULL, NULL), NF_ERR_ARGUMENT);
    nf_radius_close(NULL);
    nf_csr_release(NULL);
    params.radius = -0.0; /* is zero */
    exact_truth truth = exact_truth_of(&data, NULL, 0.0);
    exact_check_csr(ctx, index, NULL, &params, &truth);
    exact_truth_free(&truth);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    exact_free(&data);
    exact_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_data),
        cmocka_unit_test(test_bad_matrices),
        cmocka_unit_test(test_bad_questions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
