/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on the bounds: data for which a careless bound, box or kernel would lose a pair or find one too many. Every
 * method, kernel and instruction set is compared with a brute force that decides each pair by itself.
 */
#include "exact_helper.h"

/* A join of one data set with radii that lie on distances of its pairs, and one unit beside. */
static void attack(const nf_matrix *data, double radius, uint32_t strict)
{
    nf_radius_params params = exact_params(radius);
    params.strict = strict;
    exact_check_methods(data, NULL, &params);
}

static void attack_around(const nf_matrix *data, double radius)
{
    attack(data, radius, 0);
    attack(data, radius, 1);
    attack(data, nextafter(radius, 0.0), 0);
    attack(data, nextafter(radius, HUGE_VAL), 0);
}

/* The distance of two rows. */
static double distance_of(const nf_matrix *data, uint64_t a, uint64_t b)
{
    double      *values = exact_values(data);
    const double distance = nf_exact_distance(values + a * data->dims, values + b * data->dims, data->dims);
    free(values);
    return distance;
}

/* ---- offsets ---- */

/* Clusters far from the origin, whose spread is a few units of the last place. */
static void test_translated_clusters(void **state)
{
    (void)state;
    static const double   offsets[] = {1e4, 1e5, 1e6};
    static const uint32_t all_dims[] = {2, 24};
    uint64_t              seed = 11;
    for (size_t o = 0; o < 3; o++) {
        for (size_t k = 0; k < 2; k++) {
            nf_matrix    data = exact_matrix(NF_DTYPE_F32, 150, all_dims[k]);
            const double unit = (double)nextafterf((float)offsets[o], HUGE_VALF) - offsets[o];
            for (uint64_t i = 0; i < data.rows; i++) {
                for (uint32_t c = 0; c < data.dims; c++) {
                    exact_put(&data, i, c, offsets[o] + unit * (double)random_below(&seed, 6));
                }
            }
            attack(&data, distance_of(&data, 3, 77), 0);
            attack(&data, distance_of(&data, 3, 77), 1);
            exact_free(&data);
        }
    }
}

/* In binary32, 10000^2 and 10001^2 are near enough for the expanded form to be wrong by whole units. */
static void test_small_steps_at_a_large_offset(void **state)
{
    (void)state;
    nf_matrix data = exact_matrix(NF_DTYPE_F32, 140, 2);
    for (uint64_t i = 0; i < data.rows; i++) {
        exact_put(&data, i, 0, 10000.0 + (double)(i % 12));
        exact_put(&data, i, 1, 10001.0 - (double)(i / 12));
    }
    attack_around(&data, 1.0);
    attack(&data, sqrt(2.0), 0);
    attack_around(&data, 5.0);
    exact_free(&data);

    data = exact_matrix(NF_DTYPE_F32, 3, 1);
    exact_put(&data, 0, 0, 400000.0);
    exact_put(&data, 1, 0, 400001.0);
    exact_put(&data, 2, 0, 400005.0);
    attack_around(&data, 1.0);
    attack_around(&data, 4.0);
    attack_around(&data, 5.0);
    exact_free(&data);
}

/* ---- ties ---- */

/* Whole-number grids: thousands of ties at radii whose squares are sums of squares. */
static void test_grids(void **state)
{
    (void)state;
    static const nf_dtype types[] = {NF_DTYPE_U8, NF_DTYPE_I8, NF_DTYPE_I16, NF_DTYPE_U16, NF_DTYPE_F16, NF_DTYPE_F32,
                                     NF_DTYPE_F64, NF_DTYPE_I32};
    static const double   radii[] = {0.0, 1.0, 5.0};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        nf_matrix data = exact_matrix(types[t], 144, 3);
        for (uint64_t i = 0; i < data.rows; i++) {
            exact_put(&data, i, 0, (double)(i % 6));
            exact_put(&data, i, 1, (double)(i / 6 % 6));
            exact_put(&data, i, 2, (double)(i / 36));
        }
        for (size_t r = 0; r < 3; r++) {
            attack(&data, radii[r], 0);
            attack(&data, radii[r], 1);
        }
        attack(&data, sqrt(2.0), 0);
        attack(&data, nextafter(5.0, 0.0), 0);
        exact_free(&data);
    }
}

/* Radii that are roots of whole numbers, rounded: the squares of some round to the whole number from below, some from above,
 * and what lies at the whole number is in or out accordingly. */
static void test_rounded_roots(void **state)
{
    (void)state;
    static const nf_dtype types[] = {NF_DTYPE_U8, NF_DTYPE_I16, NF_DTYPE_F32, NF_DTYPE_F64};
    int                   below = 0, above = 0;
    for (size_t t = 0; t < 4; t++) {
        nf_matrix data = exact_matrix(types[t], 75, 3);
        for (uint64_t i = 0; i < data.rows; i++) {
            exact_put(&data, i, 0, (double)(i % 5));
            exact_put(&data, i, 1, (double)(i / 5 % 5));
            exact_put(&data, i, 2, (double)(i / 25));
        }
        for (int k = 2; k <= 36; k++) {
            const double radius = sqrt(k), rest = fma(radius, radius, -(double)k);
            if (radius * radius != (double)k) continue; /* those are the easy ones */
            below += rest < 0.0;
            above += rest > 0.0;
            attack(&data, radius, 0);
        }
        exact_free(&data);
    }
    assert_true(below > 8 && above > 8);
}

/* Decimals: 0.1 steps are no binary fractions, so some of these "ties" are and some are not. */
static void test_decimals(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        nf_matrix data = exact_matrix(wide ? NF_DTYPE_F64 : NF_DTYPE_F32, 120, 2);
        for (uint64_t i = 0; i < data.rows; i++) {
            exact_put(&data, i, 0, (double)(i % 11) / 10.0);
            exact_put(&data, i, 1, (double)(i / 11) / 10.0);
        }
        attack_around(&data, 0.1);
        attack_around(&data, 0.5);
        attack(&data, (double)0.1f, 0);
        exact_free(&data);
    }
}

/* A point at distance exactly the radius, which the box of a bounding sphere, rounded to nearest, would not hold. */
static void test_sphere_box_counterexample(void **state)
{
    (void)state;
    nf_matrix data = exact_matrix(NF_DTYPE_F32, 2, 1), query = exact_matrix(NF_DTYPE_F32, 1, 1);
    exact_put(&data, 0, 0, 0x1.4eaa4p-8);
    exact_put(&data, 1, 0, 0x1.7cb1dep-6);
    exact_put(&query, 0, 0, -0x1.46d13p-9);
    nf_radius_params params = exact_params(0x1.f212d8p-8);
    exact_truth      truth = exact_truth_of(&data, &query, params.radius);
    assert_int_equal(truth.side[0], 0);
    assert_int_equal(truth.side[1], 1);
    exact_truth_free(&truth);
    exact_check_methods(&data, &query, &params);
    params.strict = 1;
    exact_check_methods(&data, &query, &params);
    exact_free(&data);
    exact_free(&query);
}

/* Queries at p - radius and p + radius, rounded and not, of many random points: the edges of grown boxes. */
static void test_box_edges(void **state)
{
    (void)state;
    const double radius = (double)0.3f;
    uint64_t     seed = 12;
    nf_matrix    data = exact_matrix(NF_DTYPE_F32, 200, 1), queries = exact_matrix(NF_DTYPE_F32, 400, 1);
    for (uint64_t i = 0; i < data.rows; i++) {
        const float p = (float)((random_unit(&seed) - 0.5) * 8.0);
        exact_put(&data, i, 0, (double)p);
        exact_put(&queries, 2 * i, 0, (double)p - radius);
        exact_put(&queries, 2 * i + 1, 0, (double)p + radius);
    }
    nf_radius_params params = exact_params(radius);
    exact_check_methods(&data, &queries, &params);
    exact_free(&data);
    exact_free(&queries);
}

/* ---- scales ---- */

static void scaled_data(nf_matrix *data, double scale, uint64_t seed)
{
    for (uint64_t i = 0; i < data->rows; i++) {
        for (uint32_t c = 0; c < data->dims; c++) {
            exact_put(data, i, c, scale * (double)(1 + random_below(&seed, 64)) * 0.125 * (c % 3 == 0 ? -1.0 : 1.0));
        }
    }
}

static void attack_scale(nf_dtype dtype, uint32_t dims, double scale)
{
    nf_matrix data = exact_matrix(dtype, 100, dims);
    scaled_data(&data, scale, 13);
    attack(&data, distance_of(&data, 5, 90), 0);
    attack(&data, nextafter(distance_of(&data, 5, 90), 0.0), 0);
    attack(&data, 0.0, 0);
    attack(&data, 3.0 * scale, 1);
    exact_free(&data);
}

/* Squares that overflow, vanish or lose bits in binary32 or in binary64. */
static void test_scales(void **state)
{
    (void)state;
    static const double f32_scales[] = {1e30, 1e18, 1e-15, 1e-19, 1e-22, 1e-30, 0x1p-140};
    static const double f64_scales[] = {1e200, 1e153, 1e30, 1e-30, 1e-155, 1e-200, 0x1p-1060};
    for (size_t s = 0; s < sizeof f32_scales / sizeof f32_scales[0]; s++) {
        attack_scale(NF_DTYPE_F32, 2, f32_scales[s]);
        attack_scale(NF_DTYPE_F32, 24, f32_scales[s]);
    }
    for (size_t s = 0; s < sizeof f64_scales / sizeof f64_scales[0]; s++) {
        attack_scale(NF_DTYPE_F64, 2, f64_scales[s]);
        attack_scale(NF_DTYPE_F64, 9, f64_scales[s]);
    }
}

/* Two groups whose boxes and balls are exactly the radius apart, in steps so small that their squares are subnormal in
 * binary32 and round up: a gap that is rounded up past the radius loses the pairs between them. */
static void test_gap_that_underflows(void **state)
{
    (void)state;
    static const double   steps[] = {0x1.1p-75, 0x1.8p-75, 0x1.cp-75, 0x1.3p-74, 0x1.4p-73};
    static const uint32_t all_dims[] = {2, 8, 19};
    for (size_t k = 0; k < 3; k++) {
        for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
            nf_matrix data = exact_matrix(NF_DTYPE_F32, 72, all_dims[k]);
            for (uint64_t i = 0; i < data.rows; i++) {
                for (uint32_t c = 0; c < data.dims; c++) exact_put(&data, i, c, i < 64 ? 0.0 : steps[s]);
            }
            attack_around(&data, distance_of(&data, 0, 71));
            exact_free(&data);
        }
    }
}

static void test_subnormals(void **state)
{
    (void)state;
    nf_matrix small = exact_matrix(NF_DTYPE_F32, 130, 2), smallest = exact_matrix(NF_DTYPE_F64, 130, 2);
    for (uint64_t i = 0; i < small.rows; i++) {
        exact_put(&small, i, 0, 0x1p-149 * (double)(i % 12));
        exact_put(&small, i, 1, -0x1p-149 * (double)(i / 12));
        exact_put(&smallest, i, 0, 0x1p-1074 * (double)(i % 12));
        exact_put(&smallest, i, 1, -0x1p-1074 * (double)(i / 12));
    }
    attack(&small, 5.0 * 0x1p-149, 0);
    attack(&small, 5.0 * 0x1p-149, 1);
    attack(&small, 0.0, 0);
    attack_around(&smallest, 5.0 * 0x1p-1074);
    attack(&smallest, 0.0, 0);
    attack(&smallest, 1.0, 0);
    exact_free(&small);
    exact_free(&smallest);
}

/* Numbers near the largest ones beside small ones, and both signs. */
static void test_extremes_together(void **state)
{
    (void)state;
    static const double values[] = {0.0, -0.0, 1.0, -1.0, 0x1p-1074, 0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023,
                                    1e300, -1e300, 1e-300, 1e154, 1e155, 0x1p511, 0x1p-537, 1e200, 1e-200};
    static const double radii[] = {0.0, 0x1p-1074, 1e-300, 1e-154, 1.0, 1e154, 2e300, 0x1.fffffffffffffp1023, HUGE_VAL};
    nf_matrix           data = exact_matrix(NF_DTYPE_F64, 256, 2);
    for (uint64_t i = 0; i < 256; i++) {
        exact_put(&data, i, 0, values[i % 16]);
        exact_put(&data, i, 1, values[i / 16]);
    }
    for (size_t r = 0; r < sizeof radii / sizeof radii[0]; r++) attack(&data, radii[r], 0);
    exact_free(&data);

    static const float narrow[] = {0.0f, 1.0f, -1.0f, 0x1p-149f, 0x1.fffffep127f, -0x1.fffffep127f, 1e19f, 0x1p50f};
    data = exact_matrix(NF_DTYPE_F32, 64, 2);
    for (uint64_t i = 0; i < 64; i++) {
        exact_put(&data, i, 0, (double)narrow[i % 8]);
        exact_put(&data, i, 1, (double)narrow[i / 8]);
    }
    static const double narrow_radii[] = {0.0, 0x1p-149, 1.0, 1e19, 0x1.fffffep127, 1e300, HUGE_VAL};
    for (size_t r = 0; r < sizeof narrow_radii / sizeof narrow_radii[0]; r++) attack(&data, narrow_radii[r], 0);
    exact_free(&data);
}

/* ---- the product kernel ---- */

/* A centre, and points at the radius times 1 +- a few units of binary32 or binary64 in random directions of 100 dims. */
static void near_ties(nf_matrix *data, double offset, double radius, uint64_t seed)
{
    for (uint64_t i = 0; i < data->rows; i++) {
        double direction[100], norm = 0.0;
        for (uint32_t c = 0; c < 100; c++) {
            direction[c] = random_unit(&seed) - 0.5;
            norm += direction[c] * direction[c];
        }
        const double unit = i % 2 == 0 ? 0x1p-24 : 0x1p-52;
        const double length = i < 20 ? 0.0 : radius * (1.0 + unit * (double)((int)(i % 9) - 4)) / sqrt(norm);
        for (uint32_t c = 0; c < 100; c++) exact_put(data, i, c, offset + direction[c] * length);
    }
}

/* Far enough from the origin for the product's roundings to be larger than what the pairs differ in, and near enough for
 * auto to choose it. */
static void attack_product(nf_dtype dtype, double offset, double radius)
{
    nf_matrix              data = exact_matrix(dtype, 100, 100);
    nf_context            *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    const nf_radius_params params = exact_params(radius);
    nf_radius_stats        stats = {.struct_size = sizeof stats};
    uint64_t               counts[100];
    near_ties(&data, offset, radius, 16);
    nf_radius_index *index = exact_index(ctx, &data, 0);
    assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, &stats), NF_OK);
    assert_string_equal(stats.refine, "fp32-product");
    assert_true(stats.rechecked > 1000);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    attack(&data, radius, 0);
    attack(&data, distance_of(&data, 3, 99), 0);
    exact_free(&data);
}

static void test_near_ties_of_the_product_kernel(void **state)
{
    (void)state;
    static const nf_dtype types[] = {NF_DTYPE_F32, NF_DTYPE_F16, NF_DTYPE_F64};
    for (size_t t = 0; t < 3; t++) {
        nf_matrix data = exact_matrix(types[t], 100, 100);
        near_ties(&data, 0.0, 1.0, 14);
        attack(&data, 1.0, 0);
        attack(&data, distance_of(&data, 3, 99), 0);
        attack(&data, distance_of(&data, 3, 99), 1);
        near_ties(&data, 1.5, 0.5, 15);
        attack(&data, 0.5, 0);
        exact_free(&data);
    }
    attack_product(NF_DTYPE_F32, 0.6, 0.5);
    attack_product(NF_DTYPE_F32, -0.6, 0.5);
}

/* The kernel must really be the one that the test is about. */
static void test_kernels_in_use(void **state)
{
    (void)state;
    static const struct {
        nf_dtype    dtype;
        uint32_t    dims;
        double      radius;
        const char *refine;
    } cases[] = {
        {NF_DTYPE_F32, 100, 1.0, "fp32-product"},     {NF_DTYPE_F16, 100, 1.0, "fp32-product"},
        {NF_DTYPE_F32, 3, 1.0, "fp32-difference"},    {NF_DTYPE_F64, 100, 1.0, "fp64"},
        {NF_DTYPE_U8, 3, 1.0, "int8"},                {NF_DTYPE_I8, 100, 1.0, "int8"},
        {NF_DTYPE_I16, 3, 1.0, "fp32-difference"},    {NF_DTYPE_F32, 3, 0.0, "fp64"},
        {NF_DTYPE_F32, 100, 1e-4, "fp32-difference"}, {NF_DTYPE_F32, 3, 1e-20, "fp64"},
    };
    nf_context *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nf_matrix data = exact_matrix(cases[i].dtype, 70, cases[i].dims);
        for (uint64_t row = 0; row < data.rows; row++) exact_put(&data, row, 0, (double)(row % 5));
        nf_radius_index *index = exact_index(ctx, &data, 0);
        nf_radius_params params = exact_params(cases[i].radius);
        nf_radius_stats  stats = {.struct_size = sizeof stats};
        uint64_t         counts[70];
        assert_int_equal(nf_radius_counts(ctx, index, NULL, &params, counts, &stats), NF_OK);
        if (exact_on_cuda() && strcmp(cases[i].refine, "int8") == 0) {
            assert_true(strncmp(stats.refine, "fp32-", 5) == 0);
        } else {
            assert_string_equal(stats.refine, cases[i].refine);
        }
        nf_radius_index_release(index);
        exact_free(&data);
    }
    nf_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translated_clusters),
        cmocka_unit_test(test_small_steps_at_a_large_offset),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_rounded_roots),
        cmocka_unit_test(test_decimals),
        cmocka_unit_test(test_sphere_box_counterexample),
        cmocka_unit_test(test_box_edges),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_gap_that_underflows),
        cmocka_unit_test(test_subnormals),
        cmocka_unit_test(test_extremes_together),
        cmocka_unit_test(test_near_ties_of_the_product_kernel),
        cmocka_unit_test(test_kernels_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
