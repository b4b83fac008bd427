/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small kernels on every instruction set of this machine: masks to positions, ids, boxes, gaps, delivered sums and
 * roots. Where results are defined to the bit, all instruction sets must give the bits of the formula.
 */
#include "kernels_helper.h"

#define FOR_KERNELS(kernels) \
    for (uint32_t isa_ = 0; ((kernels) = kernels_at(isa_)) != NULL; isa_++)

/* Every entry of every table is there. */
static void test_tables(void **state)
{
    (void)state;
    const nf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        const void *const *entries = (const void *const *)(const void *)&kernels->pack_f32;
        const size_t       count = (sizeof *kernels - offsetof(nf_kernels, pack_f32)) / sizeof *entries;
        for (size_t i = 0; i < count; i++) assert_non_null(entries[i]);
        assert_true(kernels->u8_per_step >= 1 && kernels->u8_per_step <= 4);
        for (uint32_t dims = 1; dims < 20; dims++) {
            assert_int_equal(nf_u8_steps(kernels, dims), (dims + kernels->u8_per_step - 1) / kernels->u8_per_step);
        }
    }
    assert_string_equal(kernels_at(0)->isa, "scalar");
}

/* ---- masks and ids ---- */

static void check_positions(const nf_kernels *kernels, uint64_t mask, uint32_t base)
{
    guarded   out = guard_open((64 + 8) * sizeof(uint32_t), 1);
    uint32_t *positions = out.data, count = 0;
    const uint32_t got = kernels->mask_positions(mask, base, positions);
    for (uint32_t bit = 0; bit < 64; bit++) {
        if (mask >> bit & 1) assert_int_equal(positions[count++], base + bit);
    }
    assert_int_equal(got, count);
    guard_close(&out);
}

static void test_mask_positions(void **state)
{
    (void)state;
    const nf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 1;
        check_positions(kernels, 0, 5);
        check_positions(kernels, ~0ull, 0);
        check_positions(kernels, ~0ull, UINT32_MAX - 63);
        for (uint32_t bit = 0; bit < 64; bit++) {
            check_positions(kernels, 1ull << bit, 7);
            check_positions(kernels, ~(1ull << bit), 7);
            check_positions(kernels, ~0ull << bit, 7);
            check_positions(kernels, ~0ull >> bit, 7);
        }
        for (int i = 0; i < 300; i++) {
            const uint64_t a = random_bits(&seed), b = random_bits(&seed);
            check_positions(kernels, i % 3 == 0 ? a : i % 3 == 1 ? a & b : a | b, (uint32_t)random_bits(&seed) >> 1);
        }
    }
}

static void test_ids_above(void **state)
{
    (void)state;
    static const uint32_t limits[] = {1, 2, 64, 0x1000000, 0x7ffffffd, 0x7ffffffe}; /* ids are below 2^31 */
    const nf_kernels     *kernels;
    FOR_KERNELS(kernels)
    {
        for (int at_end = 0; at_end < 2; at_end++) {
            guarded   memory = guard_open(64 * sizeof(uint32_t), at_end);
            uint32_t *ids = memory.data;
            uint64_t  seed = 2;
            for (int round = 0; round < 60; round++) {
                const uint32_t id = round < 6 ? limits[round] : (uint32_t)random_below(&seed, 100);
                uint64_t       expected = 0;
                for (uint32_t p = 0; p < 64; p++) {
                    ids[p] = round < 6 ? id + (uint32_t)random_below(&seed, 3) - 1 : (uint32_t)random_below(&seed, 100);
                    expected |= (uint64_t)(ids[p] > id) << p;
                }
                if (kernels->ids_above(ids, id) != expected) fail_msg("%s: ids_above(%u)", kernels->isa, id);
            }
            guard_close(&memory);
        }
    }
}

static int compare_ids(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void test_sort_ids(void **state)
{
    (void)state;
    static const uint64_t counts[] = {2,  3,  7,  8,   9,   15,  16,  17,  31,  32,  33,   63,   64,   65,  71,
                                      72, 73, 96, 127, 128, 129, 191, 192, 193, 255, 257, 1000, 4096, 5000, 9973};
    const nf_kernels     *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 3;
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (int kind = 0; kind < 6; kind++) {
                guarded   memory = guard_open(counts[c] * 4, kind % 2), spare = guard_open(counts[c] * 4, kind % 2);
                uint32_t *ids = memory.data, *expected = malloc(counts[c] * 4);
                for (uint64_t i = 0; i < counts[c]; i++) {
                    ids[i] = kind == 0   ? (uint32_t)random_bits(&seed)
                             : kind == 1 ? (uint32_t)i
                             : kind == 2 ? (uint32_t)(counts[c] - i)
                             : kind == 3 ? (uint32_t)(i * 2654435761u) & 0x7fffffffu
                             : kind == 4 ? (uint32_t)random_below(&seed, 256) << 24 | (uint32_t)i
                                         : UINT32_MAX - (uint32_t)(i * 7919 % counts[c]);
                }
                memcpy(expected, ids, counts[c] * 4);
                qsort(expected, counts[c], 4, compare_ids);
                kernels->sort_ids(ids, counts[c], spare.data);
                assert_memory_equal(ids, expected, counts[c] * 4);
                free(expected);
                guard_close(&memory);
                guard_close(&spare);
            }
        }
    }
}

/* ---- boxes ---- */

static const float edges[] = {0.0f, -0.0f, 1.0f, -1.0f, 0x1.000002p0f, 0x1.fffffep-1f, 0x1p-149f, -0x1p-149f,
                              HUGE_VALF, -HUGE_VALF, 0x1.fffffep127f, -0x1.fffffep127f};
#define EDGES (sizeof edges / sizeof edges[0])

/* Values exactly on the bounds, one unit beside, infinities, both zeros. */
static void test_rows_in_box(void **state)
{
    (void)state;
    const nf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 4, some = 0;
        for (uint32_t dims = 1; dims <= 9; dims++) {
            guarded columns = guard_open(dims * NF_TILE * sizeof(float), (int)(dims % 2));
            guarded low = guard_open(dims * sizeof(float), 1), high = guard_open(dims * sizeof(float), 1);
            float  *values = columns.data, *lows = low.data, *highs = high.data;
            for (int round = 0; round < 200; round++) {
                uint64_t expected = 0;
                for (uint32_t k = 0; k < dims; k++) {
                    const float a = edges[random_below(&seed, EDGES)], b = edges[random_below(&seed, EDGES)];
                    lows[k] = round % 4 == 0 ? a : fminf(a, b);
                    highs[k] = round % 4 == 0 ? b : fmaxf(a, b);
                    for (uint32_t q = 0; q < NF_TILE; q++) {
                        const float bound = random_below(&seed, 2) ? lows[k] : highs[k];
                        values[k * NF_TILE + q] = random_below(&seed, 8) == 0 ? edges[random_below(&seed, EDGES)] : bound;
                    }
                }
                for (uint32_t q = 0; q < NF_TILE; q++) {
                    int in = 1;
                    for (uint32_t k = 0; k < dims; k++) {
                        in = in && lows[k] <= values[k * NF_TILE + q] && values[k * NF_TILE + q] <= highs[k];
                    }
                    expected |= (uint64_t)in << q;
                }
                some += expected != 0 && expected != ~0ull;
                assert_true(kernels->rows_in_box(values, lows, highs, dims) == expected);
            }
            guard_close(&columns);
            guard_close(&low);
            guard_close(&high);
        }
        assert_true(some > 200);
    }
}

/* Gaps of small whole numbers: exact sums, compared with limits that are the sum itself, one less, infinite, or 0. */
static void test_rows_near_box(void **state)
{
    (void)state;
    const nf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 6, some = 0;
        for (uint32_t dims = 1; dims <= 17; dims++) {
            float columns[17 * NF_TILE], low[17], high[17], most[NF_TILE];
            for (int round = 0; round < 50; round++) {
                uint64_t expected = 0;
                for (uint32_t k = 0; k < dims; k++) {
                    low[k] = (float)random_below(&seed, 10);
                    high[k] = low[k] + (float)random_below(&seed, 5);
                    for (uint32_t q = 0; q < NF_TILE; q++) columns[k * NF_TILE + q] = (float)random_below(&seed, 20);
                }
                for (uint32_t q = 0; q < NF_TILE; q++) {
                    uint64_t square = 0;
                    for (uint32_t k = 0; k < dims; k++) {
                        const float value = columns[k * NF_TILE + q];
                        const float gap = value < low[k] ? low[k] - value : value > high[k] ? value - high[k] : 0.0f;
                        square += (uint64_t)(gap * gap);
                    }
                    const uint64_t kind = random_below(&seed, 4);
                    most[q] = kind == 0 ? (float)square : kind == 1 ? (float)square - 1.0f : kind == 2 ? HUGE_VALF : 0.0f;
                    expected |= (uint64_t)((float)square <= most[q]) << q;
                }
                some += expected != 0 && expected != ~0ull;
                assert_true(kernels->rows_near_box(columns, low, high, dims, most) == expected);
            }
            columns[0] = low[0] = high[0] = HUGE_VALF; /* infinity less infinity: no gap in that column */
            for (uint32_t k = 1; k < dims; k++) columns[k * NF_TILE] = low[k];
            most[0] = 0.0f;
            assert_true(kernels->rows_near_box(columns, low, high, dims, most) & 1);
        }
        assert_true(some > 200);
    }
}

static void test_ranks_and_picks(void **state)
{
    (void)state;
    const nf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 8;
        for (int round = 0; round < 300; round++) {
            double   values[70], picked[70];
            uint32_t at[70], picked_at[70], ranks[16], found = 0;
            for (uint32_t i = 0; i < 70; i++) {
                values[i] = random_below(&seed, 9) == 0 ? HUGE_VAL : (double)random_below(&seed, 40);
                at[i] = (uint32_t)random_below(&seed, 1000);
            }
            kernels->ranks(values, ranks);
            for (uint32_t l = 0; l < 16; l++) {
                uint32_t less = 0;
                for (uint32_t j = 0; j < 16; j++) less += values[j] < values[l];
                assert_int_equal(ranks[l], less);
            }
            const uint32_t count = (uint32_t)random_below(&seed, 71);
            const double   most = round % 10 == 0 ? HUGE_VAL : (double)random_below(&seed, 45) - 2.0;
            const uint32_t got = kernels->pick(values, at, count, most, picked, picked_at);
            for (uint32_t i = 0; i < count; i++) {
                if (!(values[i] <= most)) continue;
                assert_true(found < got && picked[found] == values[i] && picked_at[found] == at[i]);
                found++;
            }
            assert_int_equal(got, found);
        }
    }
}

/* got is within (dims + 3) 2^-24 of exact, and 2^-150 a dim where squares underflow. */
static void check_square(double got, long double exact, uint32_t dims)
{
    if (exact >= 0x1.fffffefp127L) { /* beyond binary32 */
        assert_true(got >= 0x1.fffffep127);
        return;
    }
    assert_true(fabsl((long double)got - exact) <= exact * (dims + 3.0L) * 0x1p-24L + dims * 0x1p-149L);
}

static void test_gaps_and_distances(void **state)
{
    (void)state;
    static const float scales[] = {1.0f, 1e-4f, 1e5f, 0x1p-75f, 0x1p-100f, 1e19f, 0x1p63f};
    const nf_kernels  *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 5;
        for (size_t d = 0; d < DIMS_COUNT; d++) {
            const uint32_t dims = all_dims[d];
            for (int round = 0; round < 40; round++) {
                const float scale = scales[round % 7];
                guarded     a = guard_open(2 * dims * sizeof(float), round % 3 != 0), b = guard_open(2 * dims * sizeof(float), 1);
                float      *x = a.data, *y = b.data;
                long double gap = 0.0L, distance = 0.0L;
                for (uint32_t k = 0; k < dims; k++) {
                    x[k] = (float)(random_unit(&seed) * 3.0) * scale;
                    y[k] = (float)(random_unit(&seed) * 3.0) * scale;
                    x[dims + k] = x[k] + (float)random_unit(&seed) * scale * 0.5f;
                    y[dims + k] = y[k] + (float)random_unit(&seed) * scale * 0.5f;
                    const long double above = (long double)y[k] - (long double)x[dims + k];
                    const long double below = (long double)x[k] - (long double)y[dims + k];
                    const long double between = fmaxl(0.0L, fmaxl(above, below));
                    const long double apart = (long double)x[k] - (long double)y[k];
                    gap += between * between;
                    distance += apart * apart;
                }
                check_square((double)kernels->gap_square(x, y, dims), gap, dims);
                check_square((double)kernels->gap_square(y, x, dims), gap, dims);
                assert_true(kernels->gap_square(x, x, dims) == 0.0f);
                guarded c = guard_open(dims * sizeof(float), 1), e = guard_open(dims * sizeof(float), 1);
                memcpy(c.data, x, dims * sizeof(float));
                memcpy(e.data, y, dims * sizeof(float));
                check_square((double)kernels->distance_square(c.data, e.data, dims), distance, dims);
                guard_close(&a);
                guard_close(&b);
                guard_close(&c);
                guard_close(&e);
            }
        }
    }
}

/* Boxes of values beyond binary32: rounded outwards they reach from the largest number to infinity. They are 0 apart from
 * each other, and no answer is not a number. */
static void test_gaps_of_infinite_boxes(void **state)
{
    (void)state;
    const float       largest = 0x1.fffffep127f;
    const nf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        for (uint32_t dims = 1; dims <= 33; dims++) {
            float above[66], below[66], whole[66], unit[66];
            for (uint32_t k = 0; k < dims; k++) {
                above[k] = largest;
                above[dims + k] = HUGE_VALF;
                below[k] = -HUGE_VALF;
                below[dims + k] = -largest;
                whole[k] = -HUGE_VALF;
                whole[dims + k] = HUGE_VALF;
                unit[k] = 0.0f;
                unit[dims + k] = 1.0f;
            }
            assert_true(kernels->gap_square(above, above, dims) == 0.0f);
            assert_true(kernels->gap_square(below, below, dims) == 0.0f);
            assert_true(kernels->gap_square(whole, above, dims) == 0.0f);
            assert_true(kernels->gap_square(whole, whole, dims) == 0.0f);
            assert_true(kernels->gap_square(whole, unit, dims) == 0.0f);
            assert_true(kernels->gap_square(above, unit, dims) == HUGE_VALF);
            assert_true(kernels->gap_square(below, above, dims) == HUGE_VALF);
        }
    }
}

/* ---- delivered sums and roots ---- */

static void put_random(nf_store store, void *row, uint32_t k, uint64_t *seed)
{
    const double value = (random_unit(seed) - 0.5) * 100.0;
    switch (store) {
    case NF_STORE_U8: ((uint8_t *)row)[k] = (uint8_t)random_bits(seed); break;
    case NF_STORE_I16: ((int16_t *)row)[k] = (int16_t)(random_bits(seed) & 0xffff); break;
    case NF_STORE_F16: ((uint16_t *)row)[k] = nf_f32_to_f16((float)value); break;
    case NF_STORE_F32: ((float *)row)[k] = (float)value; break;
    case NF_STORE_F64: ((double *)row)[k] = value; break;
    }
}

/* One fused multiply-add per column, in order, in binary64; whole numbers exactly. */
static double sum_by_definition(nf_store store, const void *x, const void *y, uint32_t dims)
{
    const size_t bytes = store_bytes(store);
    double       sum = 0.0;
    for (uint32_t k = 0; k < dims; k++) {
        const double difference =
            get_value(store, (const char *)x + k * bytes) - get_value(store, (const char *)y + k * bytes);
        sum = fma(difference, difference, sum);
    }
    return sum;
}

static void check_sums(const nf_kernels *kernels, nf_store store, uint32_t dims, int at_end, uint64_t seed)
{
    enum { ROWS = 11, MOST = 37 };
    const size_t row_bytes = dims * store_bytes(store);
    guarded      x = guard_open(row_bytes, at_end), rows = guard_open(ROWS * row_bytes, at_end);
    for (uint32_t k = 0; k < dims; k++) put_random(store, x.data, k, &seed);
    for (uint32_t k = 0; k < ROWS * dims; k++) put_random(store, rows.data, k, &seed);
    guard_seal(&x);
    guard_seal(&rows);
    for (uint32_t count = 0; count <= MOST; count += count < 10 ? 1 : 9) {
        guarded   at = guard_open(count * sizeof(uint32_t), 1), sums = guard_open(count * sizeof(double), 1);
        uint32_t *places = at.data;
        double   *out = sums.data;
        for (uint32_t i = 0; i < count; i++) places[i] = i == 0 ? ROWS - 1 : (uint32_t)random_below(&seed, ROWS);
        kernels->sums(store, x.data, rows.data, row_bytes, dims, places, count, out);
        for (uint32_t i = 0; i < count; i++) {
            const double expected = sum_by_definition(store, x.data, (char *)rows.data + places[i] * row_bytes, dims);
            if (out[i] != expected) fail_msg("%s, store %d, %u dims: %a, not %a", kernels->isa, store, dims, out[i], expected);
        }
        guard_close(&at);
        guard_close(&sums);
    }
    guard_close(&x);
    guard_close(&rows);
}

static void test_sums(void **state)
{
    (void)state;
    const nf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        for (nf_store store = NF_STORE_U8; store <= NF_STORE_F64; store = (nf_store)(store + 1)) {
            for (size_t d = 0; d < DIMS_COUNT; d++) {
                check_sums(kernels, store, all_dims[d], 1, d);
                check_sums(kernels, store, all_dims[d], 0, d + 100);
            }
        }
    }
}

/* Integers of the largest differences, in as many dims as are allowed: no lane overflows. */
static void test_large_integer_sums(void **state)
{
    (void)state;
    static const uint32_t many[] = {4096, 65536, 131072, 131073, 1 << 20};
    const nf_kernels     *kernels;
    FOR_KERNELS(kernels)
    {
        for (size_t d = 0; d < sizeof many / sizeof many[0]; d++) {
            const uint32_t at = 0;
            uint8_t       *low = calloc(many[d], 1), *high = malloc(many[d]);
            int16_t       *lowest = malloc(many[d] * 2), *highest = malloc(many[d] * 2);
            double         sum = 0.0;
            memset(high, 255, many[d]);
            for (uint32_t k = 0; k < many[d]; k++) {
                lowest[k] = INT16_MIN;
                highest[k] = INT16_MAX;
            }
            kernels->sums(NF_STORE_U8, low, high, many[d], many[d], &at, 1, &sum);
            assert_true(sum == 65025.0 * many[d]);
            kernels->sums(NF_STORE_I16, lowest, highest, many[d] * 2, many[d], &at, 1, &sum);
            assert_true(sum == 65535.0 * 65535.0 * many[d]);
            free(low);
            free(high);
            free(lowest);
            free(highest);
        }
    }
}

static void test_roots(void **state)
{
    (void)state;
    const nf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 6;
        for (uint32_t count = 0; count <= 35; count++) {
            for (int round = 0; round < 8; round++) {
                guarded      memory = guard_open(count * sizeof(double), 1);
                double      *sums = memory.data, before[35];
                const double most = round == 0 ? HUGE_VAL : round == 1 ? 0.0 : 1.5;
                for (uint32_t i = 0; i < count; i++) {
                    sums[i] = before[i] = round == 2 ? 2.25 : ldexp(random_unit(&seed), (int)random_below(&seed, 9) - 4);
                    if (i % 7 == 3) sums[i] = before[i] = i % 2 ? 0.0 : HUGE_VAL;
                }
                kernels->roots(sums, count, most);
                for (uint32_t i = 0; i < count; i++) {
                    const double root = sqrt(before[i]);
                    assert_true(sums[i] == (root < most ? root : most));
                }
                guard_close(&memory);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),        cmocka_unit_test(test_mask_positions),
        cmocka_unit_test(test_ids_above),     cmocka_unit_test(test_sort_ids),
        cmocka_unit_test(test_rows_in_box),   cmocka_unit_test(test_rows_near_box),
        cmocka_unit_test(test_ranks_and_picks), cmocka_unit_test(test_gaps_and_distances),
        cmocka_unit_test(test_gaps_of_infinite_boxes), cmocka_unit_test(test_sums),
        cmocka_unit_test(test_large_integer_sums), cmocka_unit_test(test_roots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
