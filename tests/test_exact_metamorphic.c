/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties that hold for any input: how the answer must change, or not, when the question is changed. No oracle is
 * needed for these, so that the sets can be larger than a brute force would allow.
 */
#include "exact_helper.h"

#define ROWS 700u

/* Whole numbers with ties and duplicates in clusters; every type can hold them. */
static nf_matrix sample(nf_dtype dtype, uint64_t rows, uint32_t dims, uint64_t seed)
{
    nf_matrix data = exact_matrix(dtype, rows, dims);
    for (uint64_t i = 0; i < rows; i++) {
        const double centre = (double)random_below(&seed, 5) * 12.0;
        for (uint32_t c = 0; c < dims; c++) exact_put(&data, i, c, centre + (double)random_below(&seed, 8));
    }
    return data;
}

/* Not whole: rounding everywhere. */
static nf_matrix sample_reals(nf_dtype dtype, uint64_t rows, uint32_t dims, uint64_t seed)
{
    nf_matrix data = exact_matrix(dtype, rows, dims);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < dims; c++) exact_put(&data, i, c, random_unit(&seed) * 3.0);
    }
    return data;
}

static nf_csr *join(const nf_matrix *data, const nf_matrix *queries, const nf_radius_params *params)
{
    nf_context      *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_radius_index *index = exact_index(ctx, data, 0);
    nf_csr          *csr = NULL;
    if (nf_radius_csr(ctx, index, queries, params, &csr, NULL) != NF_OK) fail_msg("%s", nf_context_error(ctx)->text);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    return csr;
}

/* Equal to the byte; releases both. */
static void assert_same(nf_csr *a, nf_csr *b)
{
    assert_true(a->pairs > 0);
    assert_true(exact_same(a, b));
    nf_csr_release(a);
    nf_csr_release(b);
}

static int contains(const nf_csr *csr, uint64_t query, int32_t id)
{
    int64_t low = csr->indptr[query], high = csr->indptr[query + 1];
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (csr->indices[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low < csr->indptr[query + 1] && csr->indices[low] == id;
}

typedef struct shape {
    nf_dtype dtype;
    uint32_t dims;
    double   radius;
} shape;

static const shape shapes[] = {
    {NF_DTYPE_U8, 3, 5.0},   {NF_DTYPE_U8, 33, 18.0}, {NF_DTYPE_I16, 8, 7.0},  {NF_DTYPE_F16, 2, 3.0},
    {NF_DTYPE_F32, 3, 5.0},  {NF_DTYPE_F32, 33, 18.0}, {NF_DTYPE_F64, 8, 7.0},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static void test_zero_columns(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        nf_matrix              data = sample(shapes[s].dtype, ROWS, shapes[s].dims, s);
        nf_matrix              wider = exact_matrix(shapes[s].dtype, ROWS, shapes[s].dims + 5);
        const nf_radius_params params = exact_params(shapes[s].radius);
        for (uint64_t i = 0; i < ROWS; i++) {
            for (uint32_t c = 0; c < data.dims; c++) exact_put(&wider, i, c, exact_get(&data, i, c));
        }
        assert_same(join(&data, NULL, &params), join(&wider, NULL, &params));
        exact_free(&data);
        exact_free(&wider);
    }
}

/* The order of columns decides the last bits of distances, but no pair. */
static void test_permuted_columns(void **state)
{
    (void)state;
    for (int real = 0; real < 2; real++) {
        nf_matrix data = real ? sample_reals(NF_DTYPE_F32, ROWS, 24, 1) : sample(NF_DTYPE_F32, ROWS, 24, 1);
        nf_matrix turned = exact_matrix(NF_DTYPE_F32, ROWS, 24);
        nf_radius_params params = exact_params(real ? 4.2 : 13.0);
        params.distances = NF_DISTANCES_NONE;
        for (uint64_t i = 0; i < ROWS; i++) {
            for (uint32_t c = 0; c < 24; c++) exact_put(&turned, i, (c * 7 + 3) % 24, exact_get(&data, i, c));
        }
        assert_same(join(&data, NULL, &params), join(&turned, NULL, &params));
        exact_free(&data);
        exact_free(&turned);
    }
}

static void test_permuted_rows(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        nf_matrix              data = sample(shapes[s].dtype, ROWS, shapes[s].dims, s);
        nf_matrix              turned = exact_matrix(shapes[s].dtype, ROWS, shapes[s].dims);
        const nf_radius_params params = exact_params(shapes[s].radius);
        for (uint64_t i = 0; i < ROWS; i++) {
            for (uint32_t c = 0; c < data.dims; c++) exact_put(&turned, i * 11 % ROWS, c, exact_get(&data, i, c));
        }
        nf_csr *a = join(&data, NULL, &params), *b = join(&turned, NULL, &params);
        assert_int_equal(a->pairs, b->pairs);
        for (uint64_t i = 0; i < ROWS; i++) {
            for (int64_t k = a->indptr[i]; k < a->indptr[i + 1]; k++) {
                assert_true(contains(b, i * 11 % ROWS, (int32_t)((uint64_t)a->indices[k] * 11 % ROWS)));
            }
        }
        nf_csr_release(a);
        nf_csr_release(b);
        exact_free(&data);
        exact_free(&turned);
    }
}

/* Data and queries change places: the transpose. */
static void test_transpose(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        nf_matrix data = sample(shapes[s].dtype, ROWS, shapes[s].dims, s), other = sample(NF_DTYPE_F32, 150, shapes[s].dims, 90);
        const nf_radius_params params = exact_params(shapes[s].radius);
        nf_csr *a = join(&data, &other, &params), *b = join(&other, &data, &params);
        assert_true(a->pairs > 0);
        assert_int_equal(a->pairs, b->pairs);
        for (uint64_t i = 0; i < a->rows; i++) {
            for (int64_t k = a->indptr[i]; k < a->indptr[i + 1]; k++) {
                assert_true(contains(b, (uint64_t)a->indices[k], (int32_t)i));
            }
        }
        nf_csr_release(a);
        nf_csr_release(b);
        exact_free(&data);
        exact_free(&other);
    }
}

/* A self-join is symmetric, its half is one side of it, and the data as queries give it with the pairs (i, i). */
static void test_self_join(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        nf_matrix        data = sample(shapes[s].dtype, ROWS, shapes[s].dims, s);
        nf_radius_params params = exact_params(shapes[s].radius), plain = params;
        params.self = 1;
        assert_same(join(&data, NULL, &params), join(&data, &data, &plain));

        params.self = 0;
        params.half = 1;
        nf_csr  *whole = join(&data, NULL, &plain), *half = join(&data, NULL, &params);
        uint64_t upper = 0;
        assert_int_equal(whole->pairs, 2 * half->pairs);
        for (uint64_t i = 0; i < ROWS; i++) {
            for (int64_t k = whole->indptr[i]; k < whole->indptr[i + 1]; k++) {
                const int32_t j = whole->indices[k];
                assert_true(contains(whole, (uint64_t)j, (int32_t)i));
                assert_int_equal(contains(half, i, j), (uint64_t)j > i);
                upper += (uint64_t)j > i;
            }
        }
        assert_int_equal(upper, half->pairs);
        nf_csr_release(whole);
        nf_csr_release(half);
        exact_free(&data);
    }
}

/* A larger radius keeps all pairs; strict at a radius is not more than at most at the next smaller number. */
static void test_growing_radius(void **state)
{
    (void)state;
    for (int real = 0; real < 2; real++) {
        nf_matrix        data = real ? sample_reals(NF_DTYPE_F32, ROWS, 5, 2) : sample(NF_DTYPE_F32, ROWS, 5, 2);
        nf_radius_params params = exact_params(0.0);
        nf_csr          *smaller = join(&data, NULL, &params);
        for (params.radius = 0.125; params.radius < 10.0; params.radius *= 1.5) {
            nf_csr *larger = join(&data, NULL, &params);
            assert_true(larger->pairs >= smaller->pairs);
            for (uint64_t i = 0; i < ROWS; i++) {
                for (int64_t k = smaller->indptr[i]; k < smaller->indptr[i + 1]; k++) {
                    assert_true(contains(larger, i, smaller->indices[k]));
                }
            }
            nf_csr_release(smaller);
            smaller = larger;
        }
        nf_csr_release(smaller);
        exact_free(&data);
    }
}

/* Two halves of the data, one after the other: the union. */
static void test_split_data(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++) {
        nf_matrix        data = sample(shapes[s].dtype, ROWS, shapes[s].dims, s), first = data, second = data;
        nf_matrix        queries = sample(shapes[s].dtype, 90, shapes[s].dims, 77);
        nf_radius_params params = exact_params(shapes[s].radius);
        first.rows = 257;
        second.rows = ROWS - 257;
        second.data = nf_matrix_row(&data, 257);
        nf_csr *whole = join(&data, &queries, &params), *a = join(&first, &queries, &params), *b = join(&second, &queries, &params);
        assert_int_equal(whole->pairs, a->pairs + b->pairs);
        for (uint64_t i = 0; i < 90; i++) {
            int64_t at = whole->indptr[i];
            for (int64_t k = a->indptr[i]; k < a->indptr[i + 1]; k++, at++) {
                assert_int_equal(whole->indices[at], a->indices[k]);
                assert_true(((const double *)whole->distances)[at] == ((const double *)a->distances)[k]);
            }
            for (int64_t k = b->indptr[i]; k < b->indptr[i + 1]; k++, at++) {
                assert_int_equal(whole->indices[at], b->indices[k] + 257);
                assert_true(((const double *)whole->distances)[at] == ((const double *)b->distances)[k]);
            }
        }
        nf_csr_release(whole);
        nf_csr_release(a);
        nf_csr_release(b);
        exact_free(&data);
        exact_free(&queries);
    }
}

/* All values and the radius times a power of two: the same pairs, distances times it. */
static void test_scaling(void **state)
{
    (void)state;
    static const int powers[] = {-1000, -480, -120, -60, -1, 7, 55, 120, 480, 1000};
    for (int real = 0; real < 2; real++) {
        nf_matrix data = real ? sample_reals(NF_DTYPE_F64, 300, 6, 3) : sample(NF_DTYPE_F64, 300, 6, 3);
        nf_csr   *base;
        nf_radius_params params = exact_params(real ? 1.25 : 6.0);
        base = join(&data, NULL, &params);
        assert_true(base->pairs > 100);
        for (size_t p = 0; p < sizeof powers / sizeof powers[0]; p++) {
            for (int wide = 0; wide < 2; wide++) {
                if (!wide && (real || abs(powers[p]) > 110)) continue; /* binary32 holds whole numbers, scaled */
                nf_matrix scaled = exact_matrix(wide ? NF_DTYPE_F64 : NF_DTYPE_F32, 300, 6);
                for (uint64_t i = 0; i < 300; i++) {
                    for (uint32_t c = 0; c < 6; c++) exact_put(&scaled, i, c, ldexp(exact_get(&data, i, c), powers[p]));
                }
                const nf_radius_params use = exact_params(ldexp(params.radius, powers[p]));
                nf_csr                *csr = join(&scaled, NULL, &use);
                assert_int_equal(csr->pairs, base->pairs);
                assert_memory_equal(csr->indptr, base->indptr, 301 * sizeof *csr->indptr);
                assert_memory_equal(csr->indices, base->indices, csr->pairs * sizeof *csr->indices);
                for (uint64_t k = 0; k < csr->pairs; k++) {
                    assert_true(((const double *)csr->distances)[k] == ldexp(((const double *)base->distances)[k], powers[p]));
                }
                nf_csr_release(csr);
                exact_free(&scaled);
            }
        }
        nf_csr_release(base);
        exact_free(&data);
    }
}

/* A translation without rounding, and another type for the same values: the same bytes. */
static void test_translation_and_type(void **state)
{
    (void)state;
    static const struct {
        nf_dtype dtype;
        double   offset;
    } forms[] = {
        {NF_DTYPE_U8, 100},    {NF_DTYPE_I8, -60},    {NF_DTYPE_U16, 60000}, {NF_DTYPE_I16, -32768},
        {NF_DTYPE_I32, -2e9},  {NF_DTYPE_I64, 9e15},  {NF_DTYPE_F16, -1000}, {NF_DTYPE_F32, 8388608 - 64 * 2},
        {NF_DTYPE_F32, -16e6}, {NF_DTYPE_F64, 9e15},  {NF_DTYPE_F64, 0.5},   {NF_DTYPE_U64, 0},
    };
    static const uint32_t all_dims[] = {2, 40};
    for (size_t k = 0; k < 2; k++) {
        nf_matrix              data = sample(NF_DTYPE_U8, ROWS, all_dims[k], 4);
        const nf_radius_params params = exact_params(k == 0 ? 5.0 : 20.0);
        for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
            nf_matrix moved = exact_matrix(forms[f].dtype, ROWS, all_dims[k]);
            for (uint64_t i = 0; i < ROWS; i++) {
                for (uint32_t c = 0; c < all_dims[k]; c++) exact_put(&moved, i, c, exact_get(&data, i, c) + forms[f].offset);
            }
            assert_same(join(&data, NULL, &params), join(&moved, NULL, &params));
            exact_free(&moved);
        }
        exact_free(&data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zero_columns),  cmocka_unit_test(test_permuted_columns), cmocka_unit_test(test_permuted_rows),
        cmocka_unit_test(test_transpose),     cmocka_unit_test(test_self_join),        cmocka_unit_test(test_growing_radius),
        cmocka_unit_test(test_split_data),    cmocka_unit_test(test_scaling),          cmocka_unit_test(test_translation_and_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
