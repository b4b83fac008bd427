/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text: hand-made cases, and random ones against the C library's reader and the exact long arithmetic. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "io/io_shortest.h"
#include "io/io_text.h"
#include "io_write_helper.h"

#define RANDOM_CASES 100000

static void assert_f64_text(double value, const char *expected)
{
    char text[NF_TEXT_NUMBER_MAX + 1];
    *nf_text_f64(text, value) = '\0';
    assert_string_equal(text, expected);
}

static void assert_f32_text(float value, const char *expected)
{
    char text[NF_TEXT_NUMBER_MAX + 1];
    *nf_text_f32(text, value) = '\0';
    assert_string_equal(text, expected);
}

static void test_integers(void **state)
{
    char text[NF_TEXT_NUMBER_MAX + 1];
    (void)state;
    uint64_t power = 1;
    for (int digits = 1; digits <= 20; digits++, power *= 10) {
        for (int step = -1; step <= 1; step++) {
            const uint64_t value = power + (uint64_t)step;
            char           expected[32];
            snprintf(expected, sizeof expected, "%" PRIu64, value);
            *nf_text_u64(text, value) = '\0';
            assert_string_equal(text, expected);
            snprintf(expected, sizeof expected, "%" PRId64, (int64_t)(0 - value));
            *nf_text_i64(text, (int64_t)(0 - value)) = '\0';
            assert_string_equal(text, expected);
        }
        if (digits == 20) break;
    }
    *nf_text_i64(text, INT64_MIN) = '\0';
    assert_string_equal(text, "-9223372036854775808");
    *nf_text_u64(text, UINT64_MAX) = '\0';
    assert_string_equal(text, "18446744073709551615");
}

static void test_f64_cases(void **state)
{
    (void)state;
    assert_f64_text(0.0, "0");
    assert_f64_text(-0.0, "-0");
    assert_f64_text(1.0, "1");
    assert_f64_text(-1.5, "-1.5");
    assert_f64_text(0.1, "0.1");
    assert_f64_text(0.1 + 0.2, "0.30000000000000004");
    assert_f64_text(1.0 / 3.0, "0.3333333333333333");
    assert_f64_text(M_SQRT2, "1.4142135623730951");
    assert_f64_text(123456.789, "123456.789");
    assert_f64_text(1e-5, "0.00001");
    assert_f64_text(9.5e-6, "9.5e-6");
    assert_f64_text(1e15, "1000000000000000");
    assert_f64_text(9007199254740991.0, "9007199254740991");
    assert_f64_text(9007199254740993.0, "9007199254740992");
    assert_f64_text(1e16, "1e16");
    assert_f64_text(1e22, "1e22");
    assert_f64_text(1e23, "1e23");              /* not the nearest decimal's binary64: ends of the interval matter */
    assert_f64_text(9.5367431640625e-7, "9.5367431640625e-7"); /* 2^-20: the neighbour below is half as far */
    assert_f64_text(5e-324, "5e-324");
    assert_f64_text(2.2250738585072011e-308, "2.225073858507201e-308");
    assert_f64_text(DBL_MIN, "2.2250738585072014e-308");
    assert_f64_text(DBL_MAX, "1.7976931348623157e308");
    assert_f64_text(-DBL_MAX, "-1.7976931348623157e308");
    assert_f64_text(NAN, "nan");
    assert_f64_text(-INFINITY, "-inf");
}

static void test_f32_cases(void **state)
{
    (void)state;
    assert_f32_text(0.1f, "0.1");
    assert_f32_text(-0.0f, "-0");
    assert_f32_text(3.0f, "3");
    assert_f32_text(16777215.0f, "16777215");
    assert_f32_text(33554432.0f, "33554432");
    assert_f32_text(1e10f, "10000000000");
    assert_f32_text(1.17549435e-38f, "1.1754944e-38");
    assert_f32_text(1e-45f, "1e-45");
    assert_f32_text(FLT_MAX, "3.4028235e38");
    assert_f32_text(INFINITY, "inf");
}

/* Fewer digits must not do, and the C library must read the same value. */
static void check_f64(double value)
{
    char text[NF_TEXT_NUMBER_MAX + 1], shorter[40];
    *nf_text_f64(text, value) = '\0';
    assert_true(strtod(text, NULL) == value);
    const nf_decimal fast = nf_shortest_f64(value), slow = nf_shortest_f64_long(value);
    assert_true(fast.digits == slow.digits && fast.exponent == slow.exponent);
    int digits = 1;
    for (uint64_t rest = fast.digits; rest >= 10; rest /= 10) digits++;
    if (digits == 1) return;
    snprintf(shorter, sizeof shorter, "%.*e", digits - 2, value);
    assert_true(strtod(shorter, NULL) != value);
}

static void check_f32(float value)
{
    char text[NF_TEXT_NUMBER_MAX + 1], shorter[40];
    *nf_text_f32(text, value) = '\0';
    assert_true(strtof(text, NULL) == value);
    const nf_decimal fast = nf_shortest_f32(value), slow = nf_shortest_f32_long(value);
    assert_true(fast.digits == slow.digits && fast.exponent == slow.exponent);
    int digits = 1;
    for (uint64_t rest = fast.digits; rest >= 10; rest /= 10) digits++;
    if (digits == 1) return;
    snprintf(shorter, sizeof shorter, "%.*e", digits - 2, (double)value);
    assert_true(strtof(shorter, NULL) != value);
}

/* All exponents, subnormals included; every third near 1, where the fast path works; every fifth with few bits. */
static void test_random(void **state)
{
    uint64_t seed = 88172645463325252u;
    (void)state;
    for (int i = 0; i < RANDOM_CASES; i++) {
        uint64_t bits = next_random(&seed) & 0x7fffffffffffffffu;
        double   wide;
        float    narrow;
        if (i % 3 == 0) bits = (bits & 0xfffffffffffffu) | (uint64_t)(1000 + i / 3 % 80) << 52;
        if (i % 5 == 0) bits &= ~(uint64_t)0xfffffffffffu;
        if (i % 50 == 1) bits &= 0xfffffffffffffu >> (i / 50 % 52);
        memcpy(&wide, &bits, sizeof wide);
        if (isfinite(wide) && wide > 0) check_f64(wide);
        const uint32_t half = (uint32_t)(next_random(&seed) >> 33) >> (i % 50 == 1 ? i / 50 % 31 : 0);
        memcpy(&narrow, &half, sizeof narrow);
        if (isfinite(narrow) && narrow > 0) check_f32(narrow);
    }
}

/* Powers of two have the uneven interval. */
static void test_powers_of_two(void **state)
{
    (void)state;
    for (int exponent = -1074; exponent <= 1023; exponent++) {
        check_f64(ldexp(1.0, exponent));
        check_f64(nextafter(ldexp(1.0, exponent), INFINITY));
        if (exponent > -1074) check_f64(nextafter(ldexp(1.0, exponent), 0));
    }
    for (int exponent = -149; exponent <= 127; exponent++) check_f32(ldexpf(1.0f, exponent));
}

/* Powers of ten are short. */
static void test_powers_of_ten(void **state)
{
    (void)state;
    for (int exponent = -323; exponent <= 308; exponent++) {
        char text[32];
        snprintf(text, sizeof text, "1e%d", exponent);
        const nf_decimal decimal = nf_shortest_f64(strtod(text, NULL));
        assert_true(decimal.digits == 1 && decimal.exponent == exponent);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),  cmocka_unit_test(test_f64_cases),
        cmocka_unit_test(test_f32_cases), cmocka_unit_test(test_random),
        cmocka_unit_test(test_powers_of_two), cmocka_unit_test(test_powers_of_ten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
