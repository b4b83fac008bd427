/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The definition of a result against a second, independent one, and the delivered distance against quad precision.
 *
 * The oracle is big integers: all numbers of a case are multiples of one power of two, so that differences, squares and
 * sums are plain integers. A difference of two binary64 numbers has at most 2098 bits, its square 4196.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "matrix/matrix_convert.h"
#include "matrix/matrix_exact.h"
#include "random_helper.h"

/* ---- the oracle: magnitudes in digits of 32 bits, lowest first, in units of 2^-1074 ---- */

#define DIGITS 68       /* 2176 bits */
#define WIDE 140        /* a square and 2^20 terms on top */

typedef struct big {
    uint32_t digit[DIGITS];
    int      negative;
} big;

typedef struct big_sum {
    uint32_t digit[WIDE];
} big_sum;

static big big_of(double value)
{
    big       out = {.negative = signbit(value) != 0};
    int       exponent;
    double    fraction = frexp(fabs(value), &exponent);
    uint64_t  mantissa = (uint64_t)ldexp(fraction, 53);
    int       place = exponent - 53 + 1074;
    if (value == 0.0) return out;
    if (place < 0) { /* subnormal: the low bits are zero */
        mantissa >>= -place;
        place = 0;
    }
    for (int bit = 0; bit < 53; bit++) {
        if (mantissa >> bit & 1) out.digit[(place + bit) / 32] |= 1u << (place + bit) % 32;
    }
    return out;
}

static int big_order(const big *a, const big *b)
{
    for (int i = DIGITS - 1; i >= 0; i--) {
        if (a->digit[i] != b->digit[i]) return a->digit[i] < b->digit[i] ? -1 : 1;
    }
    return 0;
}

/* |a - b|, with signs. */
static big big_difference(const big *a, const big *b)
{
    big       out = {0};
    int64_t   carry = 0;
    const int same = a->negative == b->negative, swap = same && big_order(a, b) < 0;
    for (int i = 0; i < DIGITS; i++) {
        const int64_t x = swap ? b->digit[i] : a->digit[i], y = swap ? a->digit[i] : b->digit[i];
        const int64_t now = (same ? x - y : x + y) + carry;
        out.digit[i] = (uint32_t)now;
        carry = now < 0 ? -1 : now >> 32;
    }
    return out;
}

static void add_square(big_sum *sum, const big *value)
{
    int low = 0, high = DIGITS - 1;
    while (high >= 0 && value->digit[high] == 0) high--;
    while (low < high && value->digit[low] == 0) low++;
    for (int i = low; i <= high; i++) {
        uint64_t carry = 0;
        int      k = i + low;
        for (int j = low; j <= high; j++, k++) {
            carry += (uint64_t)value->digit[i] * value->digit[j] % 0x100000000u + sum->digit[k];
            const uint64_t top = (uint64_t)value->digit[i] * value->digit[j] >> 32;
            sum->digit[k] = (uint32_t)carry;
            carry = (carry >> 32) + top;
        }
        for (; carry != 0; k++) {
            carry += sum->digit[k];
            sum->digit[k] = (uint32_t)carry;
            carry >>= 32;
        }
    }
}

static int oracle(const double *x, const double *y, uint32_t dims, double radius)
{
    big_sum sum = {{0}}, square = {{0}};
    for (uint32_t i = 0; i < dims; i++) {
        const big a = big_of(x[i]), b = big_of(y[i]), difference = big_difference(&a, &b);
        add_square(&sum, &difference);
    }
    const big r = big_of(radius);
    add_square(&square, &r);
    for (int i = WIDE - 1; i >= 0; i--) {
        if (sum.digit[i] != square.digit[i]) return sum.digit[i] < square.digit[i] ? -1 : 1;
    }
    return 0;
}

static void check(const double *x, const double *y, uint32_t dims, double radius)
{
    const int expected = oracle(x, y, dims, radius);
    assert_int_equal(nf_exact_compare(x, y, dims, radius), expected);
    assert_int_equal(nf_exact_compare(y, x, dims, radius), expected);
    assert_int_equal(nf_exact_compare_fast(x, y, dims, radius), expected);
    assert_int_equal(nf_exact_compare_fast(y, x, dims, radius), expected);
}

/* The radius itself and its neighbours, a few units up and down. */
static void check_around(const double *x, const double *y, uint32_t dims, double radius)
{
    double down = radius, up = radius;
    check(x, y, dims, radius);
    for (int i = 0; i < 3; i++) {
        if (down > 0.0) check(x, y, dims, down = nextafter(down, 0.0));
        if (isfinite(nextafter(up, HUGE_VAL))) check(x, y, dims, up = nextafter(up, HUGE_VAL));
    }
}

/* ---- comparisons ---- */

/* The answers of these are known by hand. */
static void test_by_hand(void **state)
{
    (void)state;
    static const struct {
        double x[3], y[3], radius;
        int    side;
    } cases[] = {
        {{0, 0, 0}, {3, 4, 0}, 5, 0},
        {{0, 0, 0}, {3, 4, 0}, 0x1.4000000000001p2, -1},
        {{0, 0, 0}, {3, 4, 0}, 0x1.3ffffffffffffp2, 1},
        {{1, 1, 1}, {1, 1, 1}, 0, 0},
        {{0.0, -0.0, 1}, {-0.0, 0.0, 1}, 0, 0},
        {{1, 1, 1}, {1, 1, 0x1.0000000000001p0}, 0, 1},
        {{1, 1, 1}, {1, 1, 0x1.0000000000001p0}, 0x1p-52, 0},
        {{0x1p-1074, 0, 0}, {0, 0, 0}, 0, 1},
        {{0x1p-1074, 0, 0}, {0, 0, 0}, 0x1p-1074, 0},
        {{0x1p-1074, 0, 0}, {-0x1p-1074, 0, 0}, 0x1p-1074, 1},
        {{0x1p-1074, 0, 0}, {-0x1p-1074, 0, 0}, 0x1p-1073, 0},
        {{0x1p-1074, 0x1p-1074, 0}, {0, 0, 0}, 0x1p-1074, 1},
        {{0x1p1023, 0, 0}, {-0x1p1023, 0, 0}, 0x1.fffffffffffffp1023, 1},
        {{0x1.fffffffffffffp1023, 0, 0}, {0, 0, 0}, 0x1.fffffffffffffp1023, 0},
        {{0x1.fffffffffffffp1023, 0x1p-1074, 0}, {0, 0, 0}, 0x1.fffffffffffffp1023, 1},
        {{1e200, 0, 0}, {0, 0, 0}, 1e200, 0},
        {{1e200, 1, 0}, {0, 0, 0}, 1e200, 1},
        {{1e-200, 0, 0}, {0, 0, 0}, 1e-200, 0},
        {{1e-200, 1e-300, 0}, {0, 0, 0}, 1e-200, 1},
        {{0, -0.0, 0}, {-0.0, 0, 0}, 0, 0},
        {{0x1p60, 1, 0}, {0x1p60, 0, 0}, 1, 0},
        {{0x1p60, 0, 0}, {-1, 0, 0}, 0x1p60, 1}, /* 2^60 + 1 is not a binary64 number */
        {{0.1, 0, 0}, {0.3, 0, 0}, 0.2, -1},     /* 0.3 - 0.1 < 0.2 as stored, by 2^-54 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(oracle(cases[i].x, cases[i].y, 3, cases[i].radius), cases[i].side);
        check(cases[i].x, cases[i].y, 3, cases[i].radius);
    }
}

/* Pythagorean and other whole-number ties, at scales from the smallest to the largest numbers. */
static void test_ties_at_every_scale(void **state)
{
    (void)state;
    static const double ties[][4] = {{3, 4, 0, 5}, {1, 2, 2, 3}, {2, 3, 6, 7}, {8, 15, 0, 17}, {119, 120, 0, 169},
                                     {1, 4, 8, 9}, {4, 4, 7, 9}, {20, 21, 0, 29}};
    for (int scale = -1074; scale <= 1010; scale += 12) {
        for (size_t i = 0; i < sizeof ties / sizeof ties[0]; i++) {
            double x[3], y[3];
            for (int k = 0; k < 3; k++) {
                x[k] = ldexp(ties[i][k] - (double)k * 11.0, scale);
                y[k] = ldexp(-(double)k * 11.0, scale);
            }
            const double radius = ldexp(ties[i][3], scale);
            assert_int_equal(nf_exact_compare_fast(x, y, 3, radius), 0);
            check_around(x, y, 3, radius);
        }
    }
}

/* Random magnitudes all over the range of exponents, radius near the true distance or anywhere. */
static void test_random_exponents(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        const uint32_t dims = 1 + (uint32_t)random_below(&seed, 4);
        const int      base = (int)random_below(&seed, 2040) - 1070;
        double         x[4], y[4];
        for (uint32_t i = 0; i < dims; i++) {
            const int lower = base - (int)random_below(&seed, 3) * 60;
            x[i] = ldexp(random_unit(&seed) - 0.5, lower);
            y[i] = random_below(&seed, 3) == 0 ? nextafter(x[i], 0.0) : ldexp(random_unit(&seed) - 0.5, base);
        }
        check_around(x, y, dims, nf_exact_distance(x, y, dims));
        check(x, y, dims, ldexp(random_unit(&seed), base));
        check(x, y, dims, 0.0);
        check(x, y, dims, 0x1p-1074);
        check(x, y, dims, 0x1.fffffffffffffp1023);
    }
}

/* The kinds of data that make ties and near ties: grids, decimals, far offsets with tiny spreads. */
static double awkward_value(int kind, uint64_t *seed)
{
    switch (kind) {
    case 0: return (double)random_below(seed, 9);
    case 1: return (double)random_below(seed, 1000) / 100.0;
    case 2: return (double)(float)((double)random_below(seed, 1000) / 1000.0);
    case 3: return 1e6 + (double)random_below(seed, 8) * 0x1p-33;
    case 4: return ldexp((double)random_below(seed, 16), -600);
    case 5: return ldexp((double)random_below(seed, 16), 600);
    case 6: return ldexp((double)random_below(seed, 16), -1074);
    default: return random_unit(seed);
    }
}

/* fast == slow, on 10^5 pairs; every tenth against the oracle too. */
static void test_fast_equals_slow(void **state)
{
    (void)state;
    static const uint32_t all_dims[] = {1, 2, 3, 5, 8, 17};
    uint64_t              seed = 2;
    long                  ties = 0, sides[3] = {0};
    for (int round = 0; round < 33400; round++) {
        const uint32_t dims = all_dims[random_below(&seed, 6)];
        const int      kind = round % 8;
        double         x[17], y[17];
        for (uint32_t i = 0; i < dims; i++) {
            x[i] = awkward_value(kind, &seed);
            y[i] = awkward_value(kind, &seed);
        }
        const double near = nf_exact_distance(x, y, dims), radii[3] = {near, nextafter(near, 0.0), awkward_value(kind, &seed)};
        for (int i = 0; i < 3; i++) {
            const int side = nf_exact_compare(x, y, dims, radii[i]);
            assert_int_equal(nf_exact_compare_fast(x, y, dims, radii[i]), side);
            if (round % 10 == 0) assert_int_equal(oracle(x, y, dims, radii[i]), side);
            ties += side == 0;
            sides[side + 1]++;
        }
    }
    assert_true(ties > 5000); /* the test reaches what it is for */
    assert_true(sides[0] > 10000 && sides[2] > 10000);
}

static void test_many_dims(void **state)
{
    (void)state;
    enum { DIMS = 4096 };
    static double x[DIMS], y[DIMS];
    for (int i = 0; i < DIMS; i++) {
        x[i] = i % 2 == 0 ? 3.0 : -0.25;
        y[i] = x[i] + (i % 3 == 0 ? 1.0 : -1.0);
    }
    check_around(x, y, DIMS, 64.0); /* 4096 differences of 1 */
    x[5] = nextafter(x[5], 4.0);
    check_around(x, y, DIMS, 64.0);
    for (int i = 0; i < DIMS; i++) {
        x[i] = 0x1.fffffffffffffp1023;
        y[i] = -x[i];
    }
    assert_int_equal(nf_exact_compare(x, y, DIMS, 0x1.fffffffffffffp1023), 1);
    assert_int_equal(nf_exact_compare_fast(x, y, DIMS, 0x1.fffffffffffffp1023), 1);
}

/* ---- distances ---- */

#if __LDBL_MANT_DIG__ == 113 /* AArch64 */
typedef long double quad;
#else
__extension__ typedef __float128 quad;
#endif

/* sqrt of a quad by Newton's method from the binary64 root: 113 bits are right after two steps. */
static quad quad_root(quad value)
{
    int exponent = 0;
    while (value > 0x1p600) {
        value = value * 0x1p-600 * 0x1p-600;
        exponent += 600;
    }
    while (value != 0 && value < 0x1p-600) {
        value = value * 0x1p600 * 0x1p600;
        exponent -= 600;
    }
    if (value == 0) return 0;
    quad root = (quad)sqrt((double)value);
    for (int i = 0; i < 3; i++) root = (root + value / root) / 2;
    for (; exponent > 0; exponent -= 600) root *= 0x1p600;
    for (; exponent < 0; exponent += 600) root *= 0x1p-600;
    return root;
}

static quad quad_distance(const double *x, const double *y, uint32_t dims)
{
    quad sum = 0;
    for (uint32_t i = 0; i < dims; i++) sum += ((quad)x[i] - y[i]) * ((quad)x[i] - y[i]);
    return quad_root(sum);
}

/* The sum has dims roundings, the root halves their effect: (dims + 3) / 2 + 1 units are allowed. */
static void check_distance(const double *x, const double *y, uint32_t dims)
{
    const double distance = nf_exact_distance(x, y, dims);
    const quad   expected = quad_distance(x, y, dims);
    const double unit = nextafter(distance, HUGE_VAL) - distance;
    quad         error = expected - distance;
    if (error < 0) error = -error;
    assert_true(error <= (quad)unit * (dims * 0.5 + 2.5));
    assert_true(distance == nf_exact_distance(y, x, dims));
}

static void test_distances(void **state)
{
    (void)state;
    static const uint32_t all_dims[] = {1, 2, 3, 8, 33};
    static const int      scales[] = {0, 10, -10, 300, -300, 660, -660, 1000, -1000, -1030};
    uint64_t              seed = 3;
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
        for (int round = 0; round < 300; round++) {
            const uint32_t dims = all_dims[round % 5];
            double         x[33], y[33];
            for (uint32_t i = 0; i < dims; i++) {
                x[i] = ldexp(random_unit(&seed) - 0.5, scales[s]);
                y[i] = ldexp(random_unit(&seed) - 0.5, scales[s]);
            }
            check_distance(x, y, dims);
            if (round % 10 == 0) assert_true(nf_exact_distance(x, x, dims) == 0.0);
        }
    }
}

/* Known to the last bit. */
static void test_distances_by_hand(void **state)
{
    (void)state;
    static const double zero[4];
    for (int scale = -1074; scale <= 1020; scale++) {
        const double x[] = {ldexp(3, scale), ldexp(4, scale)};
        assert_true(nf_exact_distance(x, zero, 2) == ldexp(5, scale));
        assert_true(nf_exact_distance(x, zero, 1) == ldexp(3, scale));
    }
    const double largest = 0x1.fffffffffffffp1023, plus[] = {largest}, minus[] = {-largest};
    assert_true(nf_exact_distance(plus, minus, 1) == HUGE_VAL); /* twice the largest number */
    assert_true(nf_exact_distance(plus, zero, 1) == largest);
    const double tiny[] = {0x1p-1074, 0, 0x1p-1074, 0};
    assert_true(nf_exact_distance(tiny, zero, 1) == 0x1p-1074);
    assert_true(nf_exact_distance(tiny, zero, 3) == 0x1p-1074); /* sqrt(2) units */
    const double mixed[] = {1e200, 1e-200};
    assert_true(nf_exact_distance(mixed, zero, 2) == 1e200);
}

/* One fused multiply-add per dim, in the order of the columns: with other orders or unfused, other bits come out. */
static void test_distance_order(void **state)
{
    (void)state;
    uint64_t seed = 4;
    int      order_matters = 0, fusing_matters = 0;
    for (int round = 0; round < 200; round++) {
        double x[16], y[16], sum = 0.0, backwards = 0.0, unfused = 0.0;
        for (int i = 0; i < 16; i++) {
            x[i] = random_unit(&seed);
            y[i] = random_unit(&seed);
        }
        for (int i = 0; i < 16; i++) {
            sum = fma(x[i] - y[i], x[i] - y[i], sum);
            backwards = fma(x[15 - i] - y[15 - i], x[15 - i] - y[15 - i], backwards);
            unfused += (x[i] - y[i]) * (x[i] - y[i]);
        }
        assert_true(nf_exact_distance(x, y, 16) == sqrt(sum));
        order_matters += backwards != sum;
        fusing_matters += unfused != sum;
    }
    assert_true(order_matters > 20 && fusing_matters > 20);
}

/* ---- binary16 ---- */

/* By the definition of the format. */
static double half_value(uint32_t bits)
{
    const int    exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    const double magnitude = exponent == 31  ? (fraction != 0 ? NAN : HUGE_VAL)
                             : exponent == 0 ? ldexp(fraction, -24)
                                             : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -magnitude : magnitude;
}

static void test_half_to_float(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float  value = nf_f16_to_f32((uint16_t)bits);
        const double expected = half_value(bits);
        if (isnan(expected)) {
            assert_true(isnan(value));
            assert_true((nf_f32_to_f16(value) & 0x7fffu) > 0x7c00u);
            continue;
        }
        assert_true((double)value == expected && !signbit(value) == !signbit(expected));
        assert_int_equal(nf_f32_to_f16(value), bits);
    }
}

/* Between every two neighbours: the middle goes to the even one, the floats next to it to either side. */
static void test_float_to_half(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x7c00u; bits++) {
        const double low = half_value(bits), high = bits == 0x7bffu ? 65536.0 : half_value(bits + 1);
        const float  middle = (float)((low + high) / 2); /* exact: one bit more than binary16 */
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float    s = sign ? -1.0f : 1.0f;
            const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
            assert_int_equal(nf_f32_to_f16(s * middle), even | sign << 15);
            assert_int_equal(nf_f32_to_f16(s * nextafterf(middle, 0.0f)), bits | sign << 15);
            assert_int_equal(nf_f32_to_f16(s * nextafterf(middle, HUGE_VALF)), (bits + 1) | sign << 15);
        }
    }
    assert_int_equal(nf_f32_to_f16(0x1p-149f), 0);
    assert_int_equal(nf_f32_to_f16(-0x1p-149f), 0x8000);
    assert_int_equal(nf_f32_to_f16(0x1.fffffep127f), 0x7c00);
    assert_int_equal(nf_f32_to_f16(-HUGE_VALF), 0xfc00);
}

/* ---- rows of a matrix ---- */

/* Every type, unaligned and strided, gives its values as binary64. */
static void test_rows(void **state)
{
    (void)state;
    static const double values[NF_DTYPE_F64 + 1][3] = {
        [NF_DTYPE_U8] = {0, 255, 7},
        [NF_DTYPE_I8] = {-128, 127, -1},
        [NF_DTYPE_U16] = {0, 65535, 300},
        [NF_DTYPE_I16] = {-32768, 32767, -2},
        [NF_DTYPE_U32] = {0, 4294967295.0, 70000},
        [NF_DTYPE_I32] = {-2147483648.0, 2147483647, -3},
        [NF_DTYPE_U64] = {0, 9007199254740992.0, 5e9},
        [NF_DTYPE_I64] = {-9007199254740992.0, 9007199254740992.0, -5e9},
        [NF_DTYPE_F16] = {0.5, -65504, 0x1p-24},
        [NF_DTYPE_F32] = {0x1.fffffep127, -0x1p-149, 0.25},
        [NF_DTYPE_F64] = {0x1.fffffffffffffp1023, -0x1p-1074, 0.1},
    };
    for (uint32_t dtype = NF_DTYPE_U8; dtype <= NF_DTYPE_F64; dtype++) {
        unsigned char buffer[128];
        const size_t  bytes = nf_dtype_bytes((nf_dtype)dtype);
        for (uint64_t stride = 0; stride <= 3 * bytes + 5; stride += 3 * bytes + 5) {
            const nf_matrix matrix = {.data = buffer + 1, .rows = 2, .dims = 3, .dtype = dtype, .stride_bytes = stride};
            const uint64_t  step = stride == 0 ? 3 * bytes : stride;
            assert_int_equal(nf_matrix_stride(&matrix), step);
            assert_ptr_equal(nf_matrix_row(&matrix, 1), buffer + 1 + step);
            for (uint64_t row = 0; row < 2; row++) {
                for (uint32_t k = 0; k < 3; k++) {
                    const double  v = values[dtype][(k + row) % 3];
                    unsigned char *to = buffer + 1 + row * step + k * bytes;
                    if (dtype == NF_DTYPE_F64) memcpy(to, &v, 8);
                    else if (dtype == NF_DTYPE_F32) memcpy(to, &(float){(float)v}, 4);
                    else if (dtype == NF_DTYPE_F16) memcpy(to, &(uint16_t){nf_f32_to_f16((float)v)}, 2);
                    else memcpy(to, &(int64_t){(int64_t)v}, bytes); /* low bytes of two's complement */
                }
            }
            for (uint64_t row = 0; row < 2; row++) {
                double out[3];
                nf_matrix_row_f64(&matrix, row, out);
                for (uint32_t k = 0; k < 3; k++) assert_true(out[k] == values[dtype][(k + row) % 3]);
                assert_int_equal(nf_matrix_row_invalid(&matrix, row), 3);
            }
        }
    }
}

static void test_invalid_values(void **state)
{
    (void)state;
    const float    f32[] = {1.0f, NAN, -HUGE_VALF, 0x1.fffffep127f};
    const double   f64[] = {1.0, -NAN, HUGE_VAL, 0x1.fffffffffffffp1023};
    const uint16_t f16[] = {0x3c00, 0x7e01, 0xfc00, 0x7bff};
    const uint64_t u64[] = {1, (1ull << 53) + 1, UINT64_MAX, 1ull << 53};
    const int64_t  i64[] = {-1, -(1ll << 53) - 1, INT64_MIN, -(1ll << 53)};
    const struct {
        const void *data;
        uint32_t    dtype;
    } cases[] = {{f32, NF_DTYPE_F32}, {f64, NF_DTYPE_F64}, {f16, NF_DTYPE_F16}, {u64, NF_DTYPE_U64}, {i64, NF_DTYPE_I64}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nf_matrix matrix = {.data = cases[i].data, .rows = 1, .dims = 4, .dtype = cases[i].dtype};
        assert_int_equal(nf_matrix_row_invalid(&matrix, 0), 1);
        matrix.dims = 1;
        matrix.rows = 4;
        assert_int_equal(nf_matrix_row_invalid(&matrix, 0), 1);
        assert_int_equal(nf_matrix_row_invalid(&matrix, 1), 0);
        assert_int_equal(nf_matrix_row_invalid(&matrix, 2), 0);
        assert_int_equal(nf_matrix_row_invalid(&matrix, 3), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),       cmocka_unit_test(test_ties_at_every_scale),
        cmocka_unit_test(test_random_exponents), cmocka_unit_test(test_fast_equals_slow),
        cmocka_unit_test(test_many_dims),     cmocka_unit_test(test_distances),
        cmocka_unit_test(test_distances_by_hand), cmocka_unit_test(test_distance_order),
        cmocka_unit_test(test_half_to_float), cmocka_unit_test(test_float_to_half),
        cmocka_unit_test(test_rows),          cmocka_unit_test(test_invalid_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
