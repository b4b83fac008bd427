/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number parser gives the same bits as the C library's strtod in the C locale, which glibc rounds correctly: on
 * hard cases known from the literature of conversion, on halfway points made with integer arithmetic, and on random
 * decimals of every length and exponent. Each text lies in a block of its exact size.
 */
#include <locale.h>

#include "io/io_csv.h"
#include "io_read_helper.h"

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t x = *state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Parses text; true when all of it is a number. */
static bool parse(const char *text, double *value)
{
    const size_t length = strlen(text);
    char        *copy = (char *)exact_copy(text, length);
    const char  *at = copy;
    const bool   fine = nf_number_read(&at, copy + length, value) && at == copy + length;
    free(copy);
    return fine;
}

static void expect_like_strtod(const char *text)
{
    double       found = 0.0;
    const double wanted = strtod(text, NULL);
    if (!parse(text, &found) || bits_of(found) != bits_of(wanted)) {
        print_error("'%s': %a, strtod says %a\n", text, found, wanted);
        fail();
    }
}

static void test_hard_cases(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "0",
        "-0",
        "+0",
        "0.0",
        "00",
        "007",
        "1",
        "-1",
        "+1",
        "10",
        "255",
        "256",
        "999999999",
        "1000000000",
        "2147483648",
        "4294967296",
        "999999999999999999",
        "1000000000000000000",
        "9223372036854775807",
        "9223372036854775808",
        "9999999999999999999",
        "10000000000000000000",
        "18446744073709551615",
        "18446744073709551616",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "9007199254740994",
        "9007199254740995",
        "9007199254740993.0000000000000000000000000000000001",
        "9007199254740992.9999999999999999999999999",
        ".5",
        "5.",
        "-.25",
        "1.",
        "0.1",
        "0.2",
        "0.3",
        "1e0",
        "1E5",
        "1e+5",
        "1e-5",
        "1e22",
        "1e23",
        "1e24",
        "8.5e22",
        "9.5e-22",
        "123456789012345678e-40",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "1.797693134862315807e308",
        "1.797693134862315808e308",
        "1e308",
        "1e309",
        "1e400",
        "-1e400",
        "1e-400",
        "-1e-400",
        "1e999999999999",
        "1e-999999999999",
        "0e999999999999",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "2.2250738585072012e-308",
        "2.225073858507201136057409796709131975934819546351645648e-308",
        "4.9e-324",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "2.47e-324",
        "2.5e-324",
        "7e-324",
        "7.4109846876186981e-324",
        "1e-323",
        "6.9294956446009195e15",
        "3.7455744005952583e15",
        "1448997445238699",
        "0.000000000000000000000000000000000000000000000000000000001",
        "100000000000000016777215",
        "100000000000000016777216",
        "6250000000000000000000000000000e-27",
        "89255.0e-22",
        "104110013277974872254e-225",
        "36893488147419103229.0",
        "36893488147419103230",
        "1090544144181609348671888949248",
        "1090544144181609348835077142190",
        "0.500000000000000166533453693773481063544750213623046875",
        "3.518437208883201171875e13",
        "62.5364939768271845828",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203124",
        "1.00000000000000011102230246251565404236316680908203126",
        "1.00000000000000033306690738754696212708950042724609375",
        "0.0000000000000000000000000000000000000",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_like_strtod(cases[i]);
}

/* 2^54 + 2 is halfway between two binary64 values; digits far behind decide. */
static void test_long_halfway(void **state)
{
    (void)state;
    static char text[5000];
    for (size_t zeros = 0; zeros < 2000; zeros += 37) {
        snprintf(text, sizeof text, "18014398509481986.%0*d", (int)zeros + 1, 0);
        expect_like_strtod(text);
        text[strlen(text) - 1] = '1';
        expect_like_strtod(text);
        strcat(text, "e-30");
        expect_like_strtod(text);
    }
}

/* Halfway points of all sizes: an odd 54-bit integer times a power of ten that keeps it exact in text. */
static void test_halfway_integers(void **state)
{
    (void)state;
    uint64_t random = 1;
    char     text[64];
    for (int i = 0; i < 20000; i++) {
        const uint64_t odd = (((uint64_t)1 << 53) | next_random(&random) >> 11) | 1;
        const uint64_t shift = next_random(&random) % 10;
        for (int64_t step = -1; step <= 1; step++) {
            snprintf(text, sizeof text, "%llu", (unsigned long long)((odd << shift) + (uint64_t)step));
            expect_like_strtod(text);
            snprintf(text, sizeof text, "%llu.5e%d", (unsigned long long)(odd + (uint64_t)step), (int)(shift * 6) - 30);
            expect_like_strtod(text);
        }
    }
}

static void test_random_decimals(void **state)
{
    (void)state;
    uint64_t random = 2;
    char     text[128];
    for (int i = 0; i < 300000; i++) {
        const uint64_t length = 1 + next_random(&random) % 24;
        const uint64_t point = next_random(&random) % (length + 2);
        size_t         used = 0;
        if (next_random(&random) % 3 == 0) text[used++] = '-';
        for (uint64_t digit = 0; digit < length; digit++) {
            if (digit == point) text[used++] = '.';
            text[used++] = (char)('0' + next_random(&random) % 10);
        }
        text[used] = '\0';
        const uint64_t kind = next_random(&random) % 4;
        const int      range = kind == 1 ? 30 : 345;
        if (kind > 0) snprintf(text + used, 16, "e%d", (int)(next_random(&random) % (uint64_t)(2 * range)) - range);
        expect_like_strtod(text);
    }
}

/* Any binary64 value written with 17 digits, and with fewer, as programs do. */
static void test_printed_values(void **state)
{
    (void)state;
    uint64_t random = 3;
    char     text[64];
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = next_random(&random);
        if (i % 4 == 0) bits &= ~((uint64_t)0x7fe << 52); /* subnormal or next to it */
        if (i % 4 == 1) bits = (bits & ~((uint64_t)0x7ff << 52)) | (uint64_t)(1003 + bits % 40) << 52;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        snprintf(text, sizeof text, "%.17g", value);
        expect_like_strtod(text);
        double back;
        assert_true(parse(text, &back) && bits_of(back) == bits);
        snprintf(text, sizeof text, "%.*g", (int)(1 + i % 16), value);
        expect_like_strtod(text);
    }
}

static void test_words(void **state)
{
    (void)state;
    static const char *const infinite[] = {"inf", "INF", "Inf", "infinity", "INFINITY", "+inf", "+Infinity"};
    static const char *const nans[] = {"nan", "NaN", "NAN", "+nan", "-nan"};
    double                   value;
    for (size_t i = 0; i < sizeof infinite / sizeof *infinite; i++) {
        assert_true(parse(infinite[i], &value) && value == INFINITY);
    }
    assert_true(parse("-inf", &value) && value == -INFINITY);
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) assert_true(parse(nans[i], &value) && isnan(value));
}

static void test_no_numbers(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",       "+",     "-",     ".",    "-.",  "e5",    ".e5",      "1e",  "1e+",   "1e-",
        "--1",    "+-1",   "1.2.3", "0x10", "1,5", "1_000", "1d5",      "na",  "in",    "infi",
        "nan(1)", "1e5.5", " 1",    "1 ",   "abc", "1f",    "\xC2\xA0", "'1'", "1'000", "\xEF\xBC\x91",
    };
    double value;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (parse(cases[i], &value)) print_error("'%s' was taken for %g\n", cases[i], value);
        assert_false(parse(cases[i], &value));
    }
}

/* A locale with a decimal comma changes nothing. */
static void test_locale(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8", "C.UTF-8"};
    const char              *set = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !set; i++) set = setlocale(LC_ALL, names[i]);
    double value;
    assert_true(parse("1.5", &value) && value == 1.5);
    assert_true(parse("1.2345678901234567890123456789e-5", &value) && value == 0x1.9e409302678bap-17);
    assert_false(parse("1,5", &value));
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hard_cases),       cmocka_unit_test(test_long_halfway),
        cmocka_unit_test(test_halfway_integers), cmocka_unit_test(test_random_decimals),
        cmocka_unit_test(test_printed_values),   cmocka_unit_test(test_words),
        cmocka_unit_test(test_no_numbers),       cmocka_unit_test(test_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
