/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement on every instruction set of this machine, against straightforward computation: masks by long double and
 * exact comparison (binary32, binary64) or by integers (bytes). All arrays lie at forbidden pages.
 */
#include "kernels_helper.h"
#include "matrix/matrix_exact.h"

/* ---- tiles ---- */

typedef struct tile_case {
    const nf_kernels *kernels;
    nf_store          store;
    uint32_t          query_rows, points, dims;
    int               at_end;
    uint64_t          seed;
} tile_case;

/* Both sides of a tile, packed, and the list of queries. */
typedef struct tile_test {
    const nf_kernels *kernels;
    sample            x, y;
    guarded           x_panel, y_panel, x_out, y_out, x_in, y_in, list, maybe, sure;
    nf_tile           tile;
    uint64_t          queries;
} tile_test;

/* Some of the rows, in ascending order, padded as the contract says. */
static void list_queries(tile_test *test, uint64_t queries)
{
    uint8_t  numbers[NF_TILE + NF_QUERY_PAD];
    uint32_t count = 0;
    for (uint32_t q = 0; q < NF_TILE; q++) {
        if (queries >> q & 1) numbers[count++] = (uint8_t)q;
    }
    for (uint32_t i = 0; i < NF_QUERY_PAD; i++) numbers[count + i] = numbers[count - 1];
    test->list = guard_open(count + NF_QUERY_PAD, 1);
    memcpy(test->list.data, numbers, count + NF_QUERY_PAD);
    guard_seal(&test->list);
    test->queries = queries;
    test->tile.queries = test->list.data;
    test->tile.query_count = count;
}

static tile_test open_tile(const tile_case *at)
{
    const int      at_end = at->at_end;
    const uint32_t per_step = at->store == NF_STORE_U8 ? at->kernels->u8_per_step : 1;
    const uint32_t query_rows = at->query_rows, points = at->points, dims = at->dims,
                   steps = (dims + per_step - 1) / per_step;
    const size_t   step_bytes = at->store == NF_STORE_F64 ? 8 : 4;
    const uint64_t seed = at->seed;
    const nf_store store = at->store;
    tile_test      test = {.kernels = at->kernels};
    test.x = make_sample(store, query_rows, dims, 0.0, 1.0, (int)(seed % 2), at_end, 2 * seed);
    test.y = make_sample(store, points, dims, 0.0, 1.0, (int)(seed % 2), at_end, 2 * seed + 1);
    test.x_panel = guard_open((size_t)NF_TILE * steps * step_bytes, at_end);
    test.y_panel = guard_open((size_t)NF_TILE * steps * step_bytes, at_end);
    test.maybe = guard_open(NF_TILE * sizeof(uint64_t), at_end);
    test.sure = guard_open(NF_TILE * sizeof(uint64_t), at_end);
    test.tile = (nf_tile){
        .x = test.x_panel.data,
        .y = test.y_panel.data,
        .point_count = points,
        .steps = steps,
        .maybe = test.maybe.data,
        .sure = test.sure.data,
    };
    test.tile.stop_count = make_stops(dims, per_step, test.tile.stops);
    const size_t out_bytes = (size_t)test.tile.stop_count * NF_TILE * 4;
    test.x_out = guard_open(out_bytes, at_end);
    test.y_out = guard_open(out_bytes, at_end);
    test.x_in = guard_open(NF_TILE * 4, at_end);
    test.y_in = guard_open(NF_TILE * 4, at_end);
    uint64_t pick = seed, queries = seed % 3 == 0 ? ~0ull : random_bits(&pick);
    if (seed % 5 == 1) queries = 1ull << seed % query_rows;
    queries &= query_rows == 64 ? ~0ull : (1ull << query_rows) - 1;
    list_queries(&test, queries != 0 ? queries : 1);
    return test;
}

static void close_tile(tile_test *test)
{
    guarded *all[] = {&test->x_panel, &test->y_panel, &test->x_out, &test->y_out, &test->x_in,
                      &test->y_in,    &test->list,    &test->maybe, &test->sure};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) guard_close(all[i]);
    free_sample(&test->x);
    free_sample(&test->y);
}

static void seal_inputs(const tile_test *test)
{
    const guarded *all[] = {&test->x_panel, &test->y_panel, &test->x_out, &test->y_out, &test->x_in, &test->y_in};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) guard_seal(all[i]);
}

static int bit(const uint64_t *masks, uint32_t q, uint32_t p)
{
    return (int)(masks[q] >> p & 1);
}

/* Rows that were not asked for keep their masks, bits beyond the points are 0, sure is a subset of maybe. */
static void check_mask_form(const tile_test *test)
{
    const uint64_t untouched = 0xeeeeeeeeeeeeeeeeull, *maybe = test->maybe.data, *sure = test->sure.data;
    const uint32_t points = test->tile.point_count;
    for (uint32_t q = 0; q < NF_TILE; q++) {
        if (!(test->queries >> q & 1)) {
            assert_true(maybe[q] == untouched && sure[q] == untouched);
            continue;
        }
        assert_true((sure[q] & ~maybe[q]) == 0);
        if (points < 64) assert_true(maybe[q] >> points == 0);
    }
}

/* The squared distance over the real numbers, nearly. */
static long double true_square(const tile_test *test, uint32_t q, uint32_t p)
{
    const uint32_t dims = test->x.rows.dims;
    long double    sum = 0.0L;
    for (uint32_t c = 0; c < dims; c++) {
        const long double difference = (long double)test->x.values[q * dims + c] - test->y.values[p * dims + c];
        sum += difference * difference;
    }
    return sum;
}

/* Limits are per query: every third one has a smaller radius than the others. */
static double radius_of_row(double radius, uint32_t query)
{
    return query % 3 == 1 ? 0.75 * radius : radius;
}

/* maybe holds all true pairs, sure only true ones; slack bounds how many may be left open (0: do not ask). */
static void check_masks(const tile_test *test, double radius, double slack)
{
    const uint32_t dims = test->x.rows.dims;
    check_mask_form(test);
    for (uint32_t q = 0; q < test->x.rows.count; q++) {
        const double      own = radius_of_row(radius, q);
        const long double square = (long double)own * own;
        if (!(test->queries >> q & 1)) continue;
        for (uint32_t p = 0; p < test->tile.point_count; p++) {
            const int side = nf_exact_compare_fast(test->x.values + q * dims, test->y.values + p * dims, dims, own);
            const int maybe = bit(test->maybe.data, q, p), sure = bit(test->sure.data, q, p);
            if (side <= 0) assert_true(maybe);
            if (sure) assert_true(side < 0);
            if (slack == 0.0) continue;
            const long double sum = true_square(test, q, p);
            if (sum > square * (1.0L + (long double)slack)) assert_false(maybe);
            if (sum < square * (1.0L - (long double)slack)) assert_true(sure);
        }
    }
}

/* The distance of one pair: a tie at the radius, and others near it. */
static double radius_of_a_pair(const tile_test *test, uint64_t seed)
{
    const uint32_t dims = test->x.rows.dims;
    const uint32_t q = (uint32_t)(seed * 7) % test->x.rows.count, p = (uint32_t)(seed * 5) % test->tile.point_count;
    return nf_exact_distance(test->x.values + q * dims, test->y.values + p * dims, dims);
}

static double gamma_of(double k, double unit)
{
    return k * unit / (1.0 - k * unit);
}

/* Every instruction set; all dims, many sizes, at both ends of guarded memory. */
static void for_tiles(nf_store store, void (*body)(const tile_case *at))
{
    tile_case at = {.store = store};
    for (uint32_t isa = 0; (at.kernels = kernels_at(isa)) != NULL; isa++) {
        for (size_t d = 0; d < DIMS_COUNT; d++) {
            for (at.seed = 0; at.seed < 12; at.seed++) {
                at.dims = all_dims[d];
                at.query_rows = at.seed == 0 ? 64 : 1 + (uint32_t)(d * 17 + at.seed * 23) % 64;
                at.points = at.seed < 2 ? 64 : 1 + (uint32_t)(d * 29 + at.seed * 7) % 64;
                at.at_end = at.seed % 4 != 3;
                body(&at);
            }
        }
    }
}

static void difference_f32(const tile_case *at)
{
    tile_test test = open_tile(at);
    at->kernels->pack_f32(&test.x.rows, test.x_panel.data, NULL, 0, NULL);
    at->kernels->pack_f32(&test.y.rows, test.y_panel.data, NULL, 0, NULL);
    seal_inputs(&test);
    const double radius = radius_of_a_pair(&test, at->seed), widening = gamma_of(at->dims + 32.0, 0x1p-24);
    if (radius > 0.0) {
        float out_above[NF_TILE], sure_upto[NF_TILE];
        for (uint32_t q = 0; q < NF_TILE; q++) {
            const double own = radius_of_row(radius, q);
            out_above[q] = (float)(own * own * (1.0 + widening));
            sure_upto[q] = (float)(own * own * (1.0 - widening));
        }
        test.tile.out_above = out_above;
        test.tile.sure_upto = sure_upto;
        at->kernels->refine_f32_difference(&test.tile);
        check_masks(&test, radius, 3.0 * widening);
    }
    close_tile(&test);
}

static void test_f32_difference(void **state)
{
    (void)state;
    for_tiles(NF_STORE_F32, difference_f32);
    for_tiles(NF_STORE_F16, difference_f32);
}

static void difference_f64(const tile_case *at)
{
    tile_test test = open_tile(at);
    at->kernels->pack_f64(&test.x.rows, test.x_panel.data);
    at->kernels->pack_f64(&test.y.rows, test.y_panel.data);
    seal_inputs(&test);
    const double radius = radius_of_a_pair(&test, at->seed), widening = gamma_of(at->dims + 32.0, 0x1p-53);
    double       out_above[NF_TILE], sure_upto[NF_TILE];
    for (uint32_t q = 0; q < NF_TILE; q++) {
        const double own = radius_of_row(radius, q);
        out_above[q] = own * own * (1.0 + widening);
        sure_upto[q] = own * own * (1.0 - widening);
    }
    test.tile.out_above = out_above;
    test.tile.sure_upto = sure_upto;
    at->kernels->refine_f64_difference(&test.tile);
    check_masks(&test, radius, 3.0 * widening);
    close_tile(&test);
}

static void test_f64_difference(void **state)
{
    (void)state;
    for_tiles(NF_STORE_F64, difference_f64);
}

/* What one side of a pair takes off for its half of radius^2: points nothing, queries all. */
static double share_of_square(double radius, bool queries, uint32_t row)
{
    const double own = radius_of_row(radius, row);
    return queries ? 0.5 * own * own : 0.0;
}

/* The limits of the product test from the sums of squares, as the derivation in docs/numerics.md has them:
 * x.y < (|x|^2 + |y|^2 - r^2) / 2 for every pair that is out, with room for all roundings. */
static void product_limits(guarded *out, guarded *in, uint32_t stop_count, double radius, bool queries, double gamma)
{
    float       *norms = out->data, *limits_in = in->data;
    const float *whole = norms + (stop_count - 1) * NF_TILE;
    const double shrink = 0.5 * (1.0 - 2.0 * gamma - 0x1p-21), grow = 0.5 * (1.0 + 4.0 * gamma + 0x1p-21);
    for (uint32_t row = 0; row < NF_TILE; row++) {
        limits_in[row] = (float)((double)whole[row] * grow - share_of_square(radius, queries, row) * (1.0 - 0x1p-20));
    }
    for (uint32_t i = 0; i < stop_count * NF_TILE; i++) {
        norms[i] = (float)((double)norms[i] * shrink - share_of_square(radius, queries, i % NF_TILE) * (1.0 + 0x1p-20));
    }
}

static double largest_value(const sample *at)
{
    double largest = 0.0;
    for (uint32_t i = 0; i < at->rows.count * at->rows.dims; i++) largest = fmax(largest, fabs(at->values[i]));
    return largest;
}

static void product_f32(const tile_case *at)
{
    tile_test      test = open_tile(at);
    const double   radius = radius_of_a_pair(&test, at->seed), gamma = gamma_of(at->dims + 32.0, 0x1p-24);
    const double   largest = fmax(largest_value(&test.x), largest_value(&test.y));
    const double   norms = 2.0 * at->dims * largest * largest; /* at least |x|^2 + |y|^2 */
    const uint32_t stop_count = test.tile.stop_count;
    at->kernels->pack_f32(&test.x.rows, test.x_panel.data, test.tile.stops, stop_count, test.x_out.data);
    at->kernels->pack_f32(&test.y.rows, test.y_panel.data, test.tile.stops, stop_count, test.y_out.data);
    product_limits(&test.x_out, &test.x_in, stop_count, radius, true, gamma);
    product_limits(&test.y_out, &test.y_in, stop_count, radius, false, gamma);
    test.tile.x_out = test.x_out.data;
    test.tile.y_out = test.y_out.data;
    test.tile.x_in = test.x_in.data;
    test.tile.y_in = test.y_in.data;
    seal_inputs(&test);
    at->kernels->refine_f32_product(&test.tile);
    check_masks(&test, radius, radius > 0.0 ? (8.0 * gamma + 0x1p-18) * (norms / (radius * radius) + 1.0) : 0.0);
    close_tile(&test);
}

static void test_f32_product(void **state)
{
    (void)state;
    for_tiles(NF_STORE_F32, product_f32);
    for_tiles(NF_STORE_F16, product_f32);
}

/* ---- bytes: the masks are known exactly ---- */

static void check_u8(const tile_test *test, int32_t whole, int32_t sure_from)
{
    check_mask_form(test);
    for (uint32_t q = 0; q < test->x.rows.count; q++) {
        if (!(test->queries >> q & 1)) continue;
        for (uint32_t p = 0; p < test->tile.point_count; p++) {
            int64_t sum = 0;
            for (uint32_t c = 0; c < test->x.rows.dims; c++) {
                const int64_t difference = (int64_t)test->x.values[q * test->x.rows.dims + c] -
                                           (int64_t)test->y.values[p * test->x.rows.dims + c];
                sum += difference * difference;
            }
            assert_int_equal(bit(test->maybe.data, q, p), whole - sum >= 0);
            assert_int_equal(bit(test->sure.data, q, p), whole - sum >= (q % 5 == 2 ? 1 - sure_from : sure_from));
        }
    }
}

static void run_u8(tile_test *test, int32_t whole, int32_t sure_from)
{
    uint32_t *sums = test->x_out.data;
    int32_t   from[NF_TILE];
    for (uint32_t q = 0; q < NF_TILE; q++) from[q] = q % 5 == 2 ? 1 - sure_from : sure_from; /* limits are per query */
    test->kernels->pack_u8_x(&test->x.rows, test->x_panel.data, test->tile.stops, test->tile.stop_count,
                             test->x_out.data);
    test->kernels->pack_u8_y(&test->y.rows, test->y_panel.data, test->tile.stops, test->tile.stop_count,
                             test->y_out.data);
    for (uint32_t i = 0; i < test->tile.stop_count * NF_TILE; i++) sums[i] -= (uint32_t)whole;
    test->tile.x_sum = test->x_out.data;
    test->tile.y_sum = test->y_out.data;
    test->tile.sure_from = from;
    seal_inputs(test);
    test->kernels->refine_u8(&test->tile);
    check_u8(test, whole, sure_from);
}

static void bytes(const tile_case *at)
{
    tile_test     test = open_tile(at);
    const double  radius = radius_of_a_pair(&test, at->seed);
    const int32_t whole = at->seed == 5 ? 0 : at->seed == 6 ? INT32_MAX : (int32_t)lround(radius * radius);
    run_u8(&test, whole, at->seed != 6 && at->seed % 2 == 0 ? 1 : 0);
    close_tile(&test);
}

static void test_u8(void **state)
{
    (void)state;
    for_tiles(NF_STORE_U8, bytes);
}

/* The most dims that 32 bits hold, with the largest differences. */
static void test_u8_at_the_limit(void **state)
{
    (void)state;
    const uint32_t    dims = 33025;
    const nf_kernels *kernels;
    for (uint32_t isa = 0; (kernels = kernels_at(isa)) != NULL; isa++) {
        const tile_case at = {kernels, NF_STORE_U8, 3, 35, dims, 1, 3};
        tile_test       test = open_tile(&at);
        unsigned char  *x, *y;
        free_sample(&test.x);
        free_sample(&test.y);
        test.x = make_sample(NF_STORE_U8, 3, dims, 0.0, 1.0, 0, 1, 1);
        test.y = make_sample(NF_STORE_U8, 35, dims, 0.0, 1.0, 0, 1, 1);
        assert_int_equal(
            mprotect(test.x.memory.map + test.x.memory.page, test.x.memory.inner_bytes, PROT_READ | PROT_WRITE), 0);
        assert_int_equal(
            mprotect(test.y.memory.map + test.y.memory.page, test.y.memory.inner_bytes, PROT_READ | PROT_WRITE), 0);
        x = test.x.memory.data;
        y = test.y.memory.data;
        for (uint32_t i = 0; i < 3 * dims; i++) test.x.values[i] = x[i] = i / dims == 0 ? 0 : 255;
        for (uint32_t i = 0; i < 35 * dims; i++) test.y.values[i] = y[i] = i / dims % 2 ? 255 : 0;
        guard_close(&test.list);
        list_queries(&test, 7);
        run_u8(&test, 2147450625 - 1, 1); /* 33025 * 255^2 - 1 */
        close_tile(&test);
    }
}

/* ---- what is not a number stays open ---- */

static void test_not_a_number(void **state)
{
    (void)state;
    const nf_kernels *kernels;
    for (uint32_t isa = 0; (kernels = kernels_at(isa)) != NULL; isa++) {
        for (int wide = 0; wide < 2; wide++) {
            const tile_case at = {kernels, wide ? NF_STORE_F64 : NF_STORE_F32, 64, 64, 9, 1, 0};
            tile_test       test = open_tile(&at);
            if (wide) {
                kernels->pack_f64(&test.x.rows, test.x_panel.data);
                kernels->pack_f64(&test.y.rows, test.y_panel.data);
                for (uint32_t q = 0; q < 64; q += 3) ((double *)test.x_panel.data)[nf_panel_at(9, q, 4)] = HUGE_VAL;
                for (uint32_t p = 0; p < 64; p += 2) ((double *)test.y_panel.data)[nf_panel_at(9, p, 4)] = HUGE_VAL;
            } else {
                kernels->pack_f32(&test.x.rows, test.x_panel.data, NULL, 0, NULL);
                kernels->pack_f32(&test.y.rows, test.y_panel.data, NULL, 0, NULL);
                for (uint32_t q = 0; q < 64; q += 3) ((float *)test.x_panel.data)[nf_panel_at(9, q, 4)] = HUGE_VALF;
                for (uint32_t p = 0; p < 64; p += 2) ((float *)test.y_panel.data)[nf_panel_at(9, p, 4)] = HUGE_VALF;
            }
            double wide_above[NF_TILE], zeros[NF_TILE] = {0.0};
            float  above[NF_TILE];
            for (uint32_t q = 0; q < NF_TILE; q++) {
                wide_above[q] = 1e-30;
                above[q] = 1e-30f;
            }
            test.tile.out_above = wide ? (const void *)wide_above : above;
            test.tile.sure_upto = zeros;
            (wide ? kernels->refine_f64_difference : kernels->refine_f32_difference)(&test.tile);
            for (uint32_t q = 0; q < 64; q++) {
                for (uint32_t p = 0; p < 64; p++) { /* infinity less infinity is open, less anything else out */
                    assert_int_equal(bit(test.maybe.data, q, p), q % 3 == 0 && p % 2 == 0);
                    assert_false(bit(test.sure.data, q, p));
                }
            }
            close_tile(&test);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_difference),  cmocka_unit_test(test_f64_difference),
        cmocka_unit_test(test_f32_product),     cmocka_unit_test(test_u8),
        cmocka_unit_test(test_u8_at_the_limit), cmocka_unit_test(test_not_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
