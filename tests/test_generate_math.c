/* SPDX-License-Identifier: Apache-2.0 */
/* The project's logarithm, sine and cosine against the C library's in long double. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "generate/generate_math.h"
#include "generate/generate_random.h"

#define SAMPLES 200000
#define TWO_PI 6.28318530717958647692528676655900577L

/* Error in units in the last place of the reference. */
static double ulps(double value, long double reference)
{
    int exponent;
    (void)frexpl(reference, &exponent);
    return (double)(fabsl((long double)value - reference) / ldexpl(1.0L, exponent - DBL_MANT_DIG));
}

static void check_log(double x)
{
    const double error = ulps(nf_generate_log(x), logl((long double)x));
    if (!(error < 1.0)) fail_msg("log(%a) is off by %g units in the last place", x, error);
}

static void test_log(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        check_log(1.0 - nf_random_uniform(nf_random_row(1, NF_STREAM_UNIFORM, i), 0));
    }
    for (int e = -1022; e < 1023; e += 7) {
        check_log(ldexp(1.414213562373095, e));
        check_log(ldexp(1.4142135623730951, e));
        check_log(ldexp(1.9999999999999998, e));
        if (e != 0) check_log(ldexp(1.0, e));
    }
    for (int k = 1; k <= 53; k++) {
        check_log(1.0 - ldexp(1.0, -k));
        if (k < 53) check_log(1.0 + ldexp(1.0, -k));
    }
}

static void test_log_of_one_is_positive_zero(void **state)
{
    (void)state;
    assert_true(nf_generate_log(1.0) == 0.0);
    assert_false(signbit(nf_generate_log(1.0)));
}

static void check_sincos(double turn)
{
    double            sine, cosine;
    const long double angle = TWO_PI * (long double)turn;
    nf_generate_sincos(turn, &sine, &cosine);
    /* Near a multiple of a quarter turn the reference's own argument is rounded: an absolute bound serves there. */
    const long double s = sinl(angle), c = cosl(angle);
    const double      tiny = 1e-18;
    if (fabs(sine - (double)s) > tiny && !(ulps(sine, s) < 2.0)) {
        fail_msg("sin of %a turns: %a, not %La", turn, sine, s);
    }
    if (fabs(cosine - (double)c) > tiny && !(ulps(cosine, c) < 2.0)) {
        fail_msg("cos of %a turns: %a, not %La", turn, cosine, c);
    }
}

static void test_sincos(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < SAMPLES; i++) check_sincos(nf_random_uniform(nf_random_row(2, NF_STREAM_UNIFORM, i), 0));
    for (int eighth = 0; eighth < 8; eighth++) {
        check_sincos(eighth / 8.0 + 0x1p-53);
        if (eighth > 0) check_sincos(eighth / 8.0 - 0x1p-53);
    }
}

static void test_quarter_turns_are_exact(void **state)
{
    static const double expected[4][2] = {{0, 1}, {1, 0}, {0, -1}, {-1, 0}};
    (void)state;
    for (int quarter = 0; quarter < 4; quarter++) {
        double sine, cosine;
        nf_generate_sincos(quarter / 4.0, &sine, &cosine);
        assert_true(sine == expected[quarter][0] && cosine == expected[quarter][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_log_of_one_is_positive_zero),
        cmocka_unit_test(test_sincos),
        cmocka_unit_test(test_quarter_turns_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
