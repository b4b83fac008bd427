/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of IVF-RaBitQ on every instruction set of this machine, against the formulas of their contract, written out
 * plainly here. What the contract defines to the bit must have these bits. Arrays lie at forbidden pages.
 */
#include "cpu/kernels/ivf_kernels.h"
#include "kernels_helper.h"

/* The tables of this machine's instruction sets; NULL ends them. */
static const nf_ivf_kernels *ivf_kernels_at(uint32_t i)
{
    for (nf_isa isa = NF_ISA_SCALAR; isa <= NF_ISA_NEON; isa = (nf_isa)(isa + 1)) {
        if (nf_system_has_isa(isa) && i-- == 0) return nf_cpu_ivf_kernels(isa);
    }
    return NULL;
}

#define FOR_KERNELS(kernels) for (uint32_t isa_ = 0; ((kernels) = ivf_kernels_at(isa_)) != NULL; isa_++)
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static float random_f32(uint64_t *seed)
{
    return (float)(4.0 * random_unit(seed) - 2.0);
}

/* Guarded floats, filled with random values. */
static guarded floats(size_t count, int at_end, uint64_t *seed)
{
    guarded at = guard_open(count * sizeof(float), at_end);
    float  *values = at.data;
    for (size_t i = 0; i < count; i++) values[i] = random_f32(seed);
    return at;
}

static int same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void test_tables(void **state)
{
    (void)state;
    const nf_ivf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        const void *entries[sizeof *kernels / sizeof(void *)];
        memcpy(entries, kernels, sizeof entries);
        for (size_t i = 0; i < COUNT(entries); i++) assert_non_null(entries[i]);
    }
    assert_ptr_equal(nf_cpu_ivf_kernels(NF_ISA_AUTO), nf_cpu_ivf_kernels(NF_ISA_SCALAR));
}

/* ---- products ---- */

#define MOST_X 48u
#define MOST_Y 160u

/* What a row of x and a row of y give: the sum over the reals, that of magnitudes, and both orders of rounding. */
typedef struct pair_product {
    double exact, magnitudes;
    float  fused, unfused;
} pair_product;

static pair_product product_of(const float *x, const float *y, uint32_t dims)
{
    pair_product out = {0};
    for (uint32_t k = 0; k < dims; k++) {
        const double term = (double)x[k] * (double)y[k];
        const float  rounded = x[k] * y[k];
        out.exact += term;
        out.magnitudes += fabs(term);
        out.fused = fmaf(x[k], y[k], out.fused);
        out.unfused += rounded;
    }
    return out;
}

typedef struct products_case {
    uint32_t       dims;
    float         *x, *y;    /* MOST_X and MOST_Y rows of dims */
    const pair_product *expected; /* MOST_X x MOST_Y */
} products_case;

static void check_products(const nf_ivf_kernels *kernels, const products_case *at, uint32_t rows, uint32_t y_rows)
{
    const uint32_t dims = at->dims, x_stride = dims + rows % 4, out_stride = y_rows + rows % 3;
    guarded        x = guard_open(((size_t)(rows - 1) * x_stride + dims) * sizeof(float), 1);
    guarded        panel = guard_open((size_t)y_rows * dims * sizeof(float), 1);
    guarded        out = guard_open(((size_t)(rows - 1) * out_stride + y_rows) * sizeof(float), 1);
    float         *x_at = x.data, *y_at = panel.data, *got = out.data;
    uint32_t       fused = 0, unfused = 0;

    for (uint32_t i = 0; i < rows; i++) memcpy(x_at + i * x_stride, at->x + i * dims, dims * sizeof(float));
    for (uint32_t j = 0; j < y_rows; j++) {
        for (uint32_t k = 0; k < dims; k++) y_at[nf_panel_at(dims, j, k)] = at->y[j * dims + k];
    }
    guard_seal(&x);
    guard_seal(&panel);
    kernels->products(x_at, x_stride, rows, y_at, y_rows, dims, got, out_stride);
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < y_rows; j++) {
            const pair_product *want = &at->expected[i * MOST_Y + j];
            const float    value = got[(size_t)i * out_stride + j];
            assert_true(fabs((double)value - want->exact) <= 1.01 * dims * 0x1p-24 * want->magnitudes);
            fused += same_bits(value, want->fused);
            unfused += same_bits(value, want->unfused);
        }
        uint32_t gap;
        for (uint32_t j = y_rows; i + 1 < rows && j < out_stride; j++) {
            memcpy(&gap, &got[(size_t)i * out_stride + j], sizeof gap);
            assert_int_equal(gap, 0xeeeeeeee);
        }
    }
    assert_true(fused == rows * y_rows || unfused == rows * y_rows); /* one kind, whatever the shape */
    guard_close(&x);
    guard_close(&panel);
    guard_close(&out);
}

static void test_products(void **state)
{
    (void)state;
    static const uint32_t some_dims[] = {1, 7, 64, 100, 129};
    const nf_ivf_kernels *kernels;
    for (size_t d = 0; d < COUNT(some_dims); d++) {
        const uint32_t dims = some_dims[d];
        uint64_t       seed = dims;
        products_case  at = {.dims = dims};
        pair_product  *expected = malloc(MOST_X * MOST_Y * sizeof *expected);
        at.x = malloc(MOST_X * dims * sizeof(float));
        at.y = malloc(MOST_Y * dims * sizeof(float));
        at.expected = expected;
        for (uint32_t i = 0; i < MOST_X * dims; i++) at.x[i] = random_f32(&seed);
        for (uint32_t i = 0; i < MOST_Y * dims; i++) at.y[i] = random_f32(&seed);
        for (uint32_t i = 0; i < MOST_X * MOST_Y; i++) {
            expected[i] = product_of(at.x + i / MOST_Y * dims, at.y + i % MOST_Y * dims, dims);
        }
        FOR_KERNELS(kernels)
        {
            for (uint32_t rows = 1; rows <= 14; rows++) {
                for (uint32_t y_rows = NF_LANES; y_rows <= MOST_Y; y_rows += NF_LANES) {
                    check_products(kernels, &at, rows < 14 ? rows : MOST_X, y_rows);
                }
            }
        }
        free(at.x);
        free(at.y);
        free(expected);
    }
}

/* ---- the nearest of many ---- */

/* Products and offsets whose differences are few, so that many are equal; some offsets are infinite, as those of filling. */
static void make_differences(float *products, float *offsets, uint32_t count, uint64_t *seed)
{
    for (uint32_t j = 0; j < count; j++) {
        products[j] = (float)random_below(seed, 8);
        offsets[j] = random_below(seed, 9) == 0 ? INFINITY : products[j] + (float)random_below(seed, 5) - 2.0f;
    }
}

static void check_least(const nf_ivf_kernels *kernels, const float *products, const float *offsets, uint32_t count)
{
    uint32_t least = 0;
    float    value;
    for (uint32_t j = 1; j < count; j++) {
        if (offsets[j] - products[j] < offsets[least] - products[least]) least = j;
    }
    assert_int_equal(kernels->least(products, offsets, count, &value), least);
    assert_true(value == offsets[least] - products[least]);
}

static void check_nearer(const nf_ivf_kernels *kernels, const float *products, const float *offsets, uint32_t count,
                         float limit)
{
    guarded        out = guard_open((count + 8) * sizeof(uint32_t), 1);
    uint32_t      *places = out.data, found = 0;
    const uint32_t got = kernels->nearer(products, offsets, count, limit, places);
    for (uint32_t j = 0; j < count; j++) {
        if (offsets[j] - products[j] < limit) assert_int_equal(places[found++], j);
    }
    assert_int_equal(got, found);
    guard_close(&out);
}

static void test_least_and_nearer(void **state)
{
    (void)state;
    static const float    limits[] = {-2.0f, -1.0f, 0.0f, 0.5f, 3.0f, INFINITY, -INFINITY};
    const nf_ivf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 5;
        for (uint32_t count = 1; count <= 300; count += count < 70 ? 1 : 37) {
            for (uint32_t turn = 0; turn < 8; turn++) {
                guarded products = guard_open(count * sizeof(float), turn % 2), offsets = products;
                offsets = guard_open(count * sizeof(float), turn % 2);
                make_differences(products.data, offsets.data, count, &seed);
                if (turn == 6) ((float *)offsets.data)[random_below(&seed, count)] = -100.0f;
                if (turn == 7) {
                    for (uint32_t j = 0; j < count; j++) ((float *)offsets.data)[j] = INFINITY;
                }
                guard_seal(&products);
                guard_seal(&offsets);
                check_least(kernels, products.data, offsets.data, count);
                for (size_t i = 0; i < COUNT(limits); i++) {
                    check_nearer(kernels, products.data, offsets.data, count, limits[i]);
                }
                guard_close(&products);
                guard_close(&offsets);
            }
        }
    }
}

/* The last two operations may be fused, so a value between the two results may fall on either side. */
static void check_below(const nf_ivf_kernels *kernels, uint32_t count, int whole, uint64_t *seed)
{
    guarded     arrays[3], out = guard_open(count / NF_LANES * sizeof(uint16_t), 1);
    uint16_t   *masks = out.data;
    uint32_t    any = 0;
    const float gain = whole ? 2.0f : random_f32(seed), limit = whole ? 1.0f : random_f32(seed);
    for (int i = 0; i < 3; i++) {
        arrays[i] = floats(count, 1, seed);
        float *values = arrays[i].data;
        for (uint32_t j = 0; whole && j < count; j++) values[j] = roundf(values[j]);
        guard_seal(&arrays[i]);
    }
    const float   *low = arrays[0].data, *reach = arrays[1].data, *products = arrays[2].data;
    const uint32_t got = kernels->below(low, reach, products, count, gain, limit, masks);
    for (uint32_t j = 0; j < count; j++) {
        const float key = low[j] - products[j], take = gain * reach[j];
        const int   bit = masks[j / NF_LANES] >> j % NF_LANES & 1;
        const int   plain = key - take < limit, fused = fmaf(-gain, reach[j], key) < limit;
        assert_true(bit == plain || bit == fused);
        any |= (uint32_t)bit;
    }
    assert_int_equal(got != 0, any);
    for (int i = 0; i < 3; i++) guard_close(&arrays[i]);
    guard_close(&out);
}

static void test_below(void **state)
{
    (void)state;
    const nf_ivf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 9;
        for (uint32_t count = NF_LANES; count <= 10 * NF_LANES; count += NF_LANES) {
            for (int turn = 0; turn < 20; turn++) check_below(kernels, count, turn % 2, &seed);
        }
    }
    FOR_KERNELS(kernels) /* nothing below; all below; infinite values, which a filling may hold */
    {
        float    low[32], zero[32] = {0};
        uint16_t masks[2];
        for (int j = 0; j < 32; j++) low[j] = j == 20 ? INFINITY : 3.0f;
        assert_int_equal(kernels->below(low, zero, zero, 32, 1.0f, 3.0f, masks), 0);
        assert_true(masks[0] == 0 && masks[1] == 0);
        assert_true(kernels->below(low, zero, zero, 32, 1.0f, 3.5f, masks) != 0);
        assert_true(masks[0] == 0xffff && masks[1] == 0xffef);
    }
}

/* ---- rotation ---- */

static const uint32_t rotated_sizes[] = {8, 16, 24, 64, 96, 104, 128, 192, 1024, 1032, 8184, 8192};

static nf_rotation_map random_map(uint32_t padded, guarded *signs, uint64_t *seed)
{
    *signs = guard_open(NF_IVF_ROUNDS * padded / 8, 1);
    uint8_t *bytes = signs->data;
    for (uint32_t i = 0; i < NF_IVF_ROUNDS * padded / 8; i++) bytes[i] = (uint8_t)random_bits(seed);
    guard_seal(signs);
    return (nf_rotation_map){.kind = NF_ROTATION_FAST, .dims = padded, .padded = padded, .signs = bytes};
}

/* The transform by its definition: entry (i, j) of the matrix is -1 to the number of common bits of i and j, over sqrt(p). */
static void hadamard_by_definition(double *row, uint32_t p)
{
    double *out = malloc(p * sizeof *out);
    for (uint32_t i = 0; i < p; i++) {
        double sum = 0;
        for (uint32_t j = 0; j < p; j++) sum += __builtin_popcount(i & j) % 2 ? -row[j] : row[j];
        out[i] = sum / sqrt(p);
    }
    memcpy(row, out, p * sizeof *out);
    free(out);
}

/* Mixing divided by sqrt(2), so that every step is orthogonal. */
static void rotate_by_definition(const nf_rotation_map *map, double *row)
{
    const uint32_t n = map->padded, half = n / 2;
    uint32_t       p = 1;
    while (2 * p <= n) p *= 2;
    for (uint32_t round = 0; round < NF_IVF_ROUNDS; round++) {
        for (uint32_t i = 0; i < n; i++) {
            if (map->signs[round * n / 8 + i / 8] >> i % 8 & 1) row[i] = -row[i];
        }
        hadamard_by_definition(round % 2 == 0 ? row : row + n - p, p);
        for (uint32_t i = 0; p < n && i < half; i++) {
            const double a = row[i], b = row[i + half];
            row[i] = (a + b) / sqrt(2);
            row[i + half] = (a - b) / sqrt(2);
        }
    }
}

static double inner(const float *a, const float *b, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static void check_rotation(const nf_rotation_map *map, uint64_t *seed)
{
    const uint32_t        n = map->padded;
    const size_t          bytes = n * sizeof(float);
    const nf_ivf_kernels *kernels;
    float                *rows[2], *first[2];
    double                norms[2];
    for (int i = 0; i < 2; i++) {
        rows[i] = malloc(bytes);
        first[i] = malloc(bytes);
        for (uint32_t k = 0; k < n; k++) rows[i][k] = i == 1 && k >= n / 3 ? 0.0f : random_f32(seed); /* one is padded */
        norms[i] = sqrt(inner(rows[i], rows[i], n));
    }
    FOR_KERNELS(kernels)
    {
        for (int i = 0; i < 2; i++) {
            guarded row = guard_open(bytes, i);
            memcpy(row.data, rows[i], bytes);
            kernels->rotate(map, row.data);
            if (isa_ == 0) memcpy(first[i], row.data, bytes);
            assert_memory_equal(first[i], row.data, bytes);
            guard_close(&row);
        }
    }
    for (int i = 0; i < 2; i++) assert_true(fabs(sqrt(inner(first[i], first[i], n)) - norms[i]) <= 1e-5 * norms[i]);
    const double before = inner(rows[0], rows[1], n), after = inner(first[0], first[1], n);
    assert_true(fabs(after - before) <= 1e-5 * norms[0] * norms[1]);
    if (n <= 1100) {
        double *expected = malloc(n * sizeof *expected);
        for (uint32_t k = 0; k < n; k++) expected[k] = (double)rows[0][k];
        rotate_by_definition(map, expected);
        for (uint32_t k = 0; k < n; k++) assert_true(fabs((double)first[0][k] - expected[k]) <= 1e-6 * norms[0]);
        free(expected);
    }
    for (int i = 0; i < 2; i++) {
        free(rows[i]);
        free(first[i]);
    }
}

static void test_rotate(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (size_t i = 0; i < COUNT(rotated_sizes); i++) {
        guarded               signs;
        const nf_rotation_map map = random_map(rotated_sizes[i], &signs, &seed);
        for (int turn = 0; turn < 3; turn++) check_rotation(&map, &seed);
        guard_close(&signs);
    }
}

/* ---- encoding ---- */

static const uint32_t coded_sizes[] = {8, 16, 24, 64, 104, 1024};

/* A residual with zeros of both signs, values whose product with t is whole or nearly so, and values beyond the most. */
static guarded make_residual(uint32_t padded, float t, uint64_t *seed)
{
    guarded at = guard_open(padded * sizeof(float), 1);
    float  *r = at.data;
    for (uint32_t i = 0; i < padded; i++) {
        const float whole = (float)random_below(seed, 10) / t, sign = random_below(seed, 2) ? -1.0f : 1.0f;
        switch (random_below(seed, 8)) {
        case 0: r[i] = 0.0f; break;
        case 1: r[i] = -0.0f; break;
        case 2: r[i] = sign * whole; break;
        case 3: r[i] = sign * nextafterf(whole, 0.0f); break;
        case 4: r[i] = sign * (whole - 0.9e-5f / t); break;
        case 5: r[i] = sign * 1e6f * (float)(1 + random_below(seed, 100)); break;
        case 6: r[i] = sign * (whole - 1.1e-5f / t); break;
        default: r[i] = random_f32(seed) * 50.0f / t; break;
        }
    }
    guard_seal(&at);
    return at;
}

/* Each operation rounded to binary32. */
static float level_of(float value, float t, float most)
{
    const float product = t * fabsf(value), sum = product + 1e-5f, m = floorf(sum);
    return m < most ? m : most;
}

static void check_code(const nf_ivf_kernels *kernels, uint32_t padded, uint32_t ex_bits, float t, uint64_t *seed)
{
    const float most = (float)((1 << ex_bits) - 1);
    guarded     residual = make_residual(padded, t, seed), out = guard_open(padded * sizeof(uint16_t), 1);
    const float *r = residual.data;
    uint16_t    *code = out.data;
    kernels->quantise(r, padded, t, most, code);
    for (uint32_t i = 0; i < padded; i++) {
        const int m = (int)level_of(r[i], t, most);
        assert_int_equal(code[i], r[i] > 0.0f ? (1 << ex_bits) + m : (1 << ex_bits) - 1 - m);
    }
    guard_close(&residual);
    guard_close(&out);
}

/* All terms are positive: sums in any order, fused or not, are off by less than (padded + 2) units. */
static void check_levels(const nf_ivf_kernels *kernels, uint32_t padded, uint32_t ex_bits, float t, uint64_t *seed)
{
    const float  most = (float)((1 << ex_bits) - 1), four[4] = {t, 0.5f * t, 1.25f * t, 100.0f * t};
    const double allowed = (padded + 2) * 0x1p-24;
    guarded      residual = make_residual(padded, t, seed);
    const float *r = residual.data;
    float        product[4], square[4];
    kernels->levels(r, padded, four, most, product, square);
    for (int j = 0; j < 4; j++) {
        double p = 0, s = 0;
        for (uint32_t i = 0; i < padded; i++) {
            const double y = (double)level_of(r[i], four[j], most) + 0.5;
            p += y * fabs((double)r[i]);
            s += y * y;
        }
        assert_true(fabs((double)product[j] - p) <= allowed * p);
        assert_true(fabs((double)square[j] - s) <= allowed * s);
    }
    guard_close(&residual);
}

static void check_moments(const nf_ivf_kernels *kernels, uint32_t padded, uint32_t ex_bits, uint64_t *seed)
{
    const uint32_t top = 2u << ex_bits;
    const float    kappa = (float)(top - 1) / 2.0f;
    guarded        codes = guard_open(padded * sizeof(uint16_t), 1), r = floats(padded, 1, seed), c = floats(padded, 1, seed);
    double         sums[5], expected[5] = {0}, magnitudes[5] = {0};
    uint16_t      *code = codes.data;
    for (uint32_t i = 0; i < padded; i++) code[i] = (uint16_t)random_below(seed, top);
    kernels->moments(code, kappa, r.data, c.data, padded, sums);
    for (uint32_t i = 0; i < padded; i++) {
        const double y = code[i] - (double)kappa, ri = (double)((float *)r.data)[i], ci = (double)((float *)c.data)[i];
        const double terms[5] = {ri * y, ci * y, y * y, ri * ri, ri * ci};
        for (int j = 0; j < 5; j++) {
            expected[j] += terms[j];
            magnitudes[j] += fabs(terms[j]);
        }
    }
    for (int j = 0; j < 5; j++) assert_true(fabs(sums[j] - expected[j]) <= 2.0 * padded * 0x1p-53 * magnitudes[j]);
    guard_close(&codes);
    guard_close(&r);
    guard_close(&c);
}

static void test_encoding(void **state)
{
    (void)state;
    static const float    factors[] = {1.0f, 0.37f, 3.1415927f, 200.0f};
    const nf_ivf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 11;
        for (size_t i = 0; i < COUNT(coded_sizes); i++) {
            for (uint32_t ex_bits = 0; ex_bits <= 8; ex_bits++) {
                for (size_t f = 0; f < COUNT(factors); f++) {
                    check_code(kernels, coded_sizes[i], ex_bits, factors[f], &seed);
                    check_levels(kernels, coded_sizes[i], ex_bits, factors[f], &seed);
                }
                check_moments(kernels, coded_sizes[i], ex_bits, &seed);
            }
        }
    }
}

/* ---- scan ---- */

static const uint32_t scanned_sizes[] = {8, 16, 24, 32, 40, 64, 96, 104, 128, 192, 1024, 1032, 8192};

#define BLOCKS 3u

typedef struct scan_test {
    uint32_t      padded;
    guarded       blocks, luts[NF_SCAN_QUERIES];
    nf_scan_query queries[NF_SCAN_QUERIES];
    uint32_t      sums[NF_SCAN_QUERIES][BLOCKS][NF_IVF_BLOCK];
} scan_test;

static uint8_t *scan_block(const scan_test *test, uint32_t b)
{
    return (uint8_t *)test->blocks.data + b * ((size_t)test->padded * 4 + 320);
}

static void put_f32(uint8_t *at, float value)
{
    memcpy(at, &value, sizeof value);
}

/* Factors stand behind padded / 8 rows of codes: 32 x add, rescale, and upper halves of error. */
static void put_factors(const scan_test *test, uint32_t b, uint32_t slot, float add, float rescale, float error)
{
    uint8_t *factors = scan_block(test, b) + (size_t)test->padded * 4;
    uint32_t bits;
    memcpy(&bits, &error, sizeof bits);
    const uint16_t half = (uint16_t)(bits >> 16);
    put_f32(factors + 4 * slot, add);
    put_f32(factors + 128 + 4 * slot, rescale);
    memcpy(factors + 256 + 2 * slot, &half, sizeof half);
}

/* The sum of a slot, dim by dim: bit i % 8 of the slot's byte in row i / 8. */
static uint32_t lut_sum(const scan_test *test, const uint8_t *lut, uint32_t b, uint32_t slot)
{
    uint32_t sum = 0;
    for (uint32_t g = 0; g < test->padded / 4; g++) {
        uint32_t nibble = 0;
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t dim = 4 * g + i;
            nibble |= (uint32_t)(scan_block(test, b)[dim / 8 * 32 + slot] >> dim % 8 & 1) << i;
        }
        sum += lut[16 * g + nibble];
    }
    return sum;
}

/* Step 1, base 0, rescale 1, error 0: the estimate is the sum and add. full: every entry is the largest. */
static scan_test open_scan(uint32_t padded, int full, uint64_t *seed)
{
    scan_test test = {.padded = padded};
    test.blocks = guard_open(BLOCKS * ((size_t)padded * 4 + 320), 1);
    uint8_t *bytes = test.blocks.data;
    for (size_t i = 0; i < BLOCKS * ((size_t)padded * 4 + 320); i++) bytes[i] = (uint8_t)random_bits(seed);
    for (uint32_t q = 0; q < NF_SCAN_QUERIES; q++) {
        test.luts[q] = guard_open((size_t)padded * 4, 1);
        uint8_t *lut = test.luts[q].data;
        for (size_t i = 0; i < (size_t)padded * 4; i++) lut[i] = full ? 31 : (uint8_t)random_below(seed, 32);
        guard_seal(&test.luts[q]);
        test.queries[q] = (nf_scan_query){.lut = lut, .step = 1.0f, .width = 1.0f};
        for (uint32_t b = 0; b < BLOCKS; b++) {
            for (uint32_t slot = 0; slot < NF_IVF_BLOCK; slot++) test.sums[q][b][slot] = lut_sum(&test, lut, b, slot);
        }
    }
    return test;
}

static void close_scan(scan_test *test)
{
    guard_close(&test->blocks);
    for (uint32_t q = 0; q < NF_SCAN_QUERIES; q++) guard_close(&test->luts[q]);
}

/* Runs the scan for n queries; expected[q][b] are the masks. */
static void check_scan(const nf_ivf_kernels *kernels, const scan_test *test, uint32_t n, uint32_t blocks,
                       uint32_t expected[NF_SCAN_QUERIES][BLOCKS])
{
    const uint32_t stride = blocks + 1;
    guarded        out = guard_open(((n - 1) * stride + blocks) * sizeof(uint32_t), 1);
    uint32_t      *survivors = out.data;
    kernels->scan(scan_block(test, 0), blocks, test->padded, test->queries, n, survivors, stride);
    for (uint32_t q = 0; q < n; q++) {
        for (uint32_t b = 0; b < blocks; b++) assert_int_equal(survivors[q * stride + b], expected[q][b]);
        if (q + 1 < n) assert_int_equal(survivors[q * stride + blocks], 0xeeeeeeee);
    }
    guard_close(&out);
}

/* add is minus the sums that the target is to have: with limit 0 its slots survive if a sum is too small, with limit 1/2 all
 * survive unless one is too large. The other queries' masks are comparisons of whole numbers as well. */
static void check_sums(const nf_ivf_kernels *kernels, scan_test *test, uint32_t n, uint32_t target, float limit)
{
    uint32_t expected[NF_SCAN_QUERIES][BLOCKS] = {{0}};
    for (uint32_t b = 0; b < BLOCKS; b++) {
        for (uint32_t slot = 0; slot < NF_IVF_BLOCK; slot++) {
            const int32_t middle = (int32_t)test->sums[target][b][slot];
            put_factors(test, b, slot, (float)-middle, 1.0f, 0.0f);
            for (uint32_t q = 0; q < n; q++) {
                const int32_t estimate = (int32_t)test->sums[q][b][slot] - middle;
                expected[q][b] |= (uint32_t)((double)estimate < (double)limit) << slot;
            }
        }
    }
    for (uint32_t b = 0; b < BLOCKS; b++) assert_int_equal(expected[target][b], limit > 0.0f ? UINT32_MAX : 0);
    for (uint32_t q = 0; q < n; q++) test->queries[q].limit = limit;
    for (uint32_t blocks = BLOCKS; blocks-- > 1;) check_scan(kernels, test, n, blocks, expected);
    check_scan(kernels, test, n, BLOCKS, expected);
}

static void test_scan_sums(void **state)
{
    (void)state;
    const nf_ivf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 17;
        for (size_t i = 0; i < COUNT(scanned_sizes); i++) {
            for (int full = 0; full < 2; full++) {
                scan_test test = open_scan(scanned_sizes[i], full, &seed);
                if (full) assert_int_equal(test.sums[0][0][0], 31 * scanned_sizes[i] / 4);
                for (uint32_t n = 1; n <= NF_SCAN_QUERIES; n++) {
                    for (uint32_t target = 0; target < n; target++) {
                        check_sums(kernels, &test, n, target, 0.0f);
                        check_sums(kernels, &test, n, target, 0.5f);
                    }
                }
                close_scan(&test);
            }
        }
    }
}

/* The whole formula with values that binary32 holds: 3 + 2 (S / 2 - 5) - 0.25 * 8, so it is exact. */
static void test_scan_formula(void **state)
{
    (void)state;
    const nf_ivf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 19;
        for (uint32_t padded = 8; padded <= 136; padded += 8) {
            scan_test test = open_scan(padded, 0, &seed);
            uint32_t  expected[NF_SCAN_QUERIES][BLOCKS] = {{0}};
            for (uint32_t q = 0; q < NF_SCAN_QUERIES; q++) {
                nf_scan_query *query = &test.queries[q];
                query->step = 0.5f;
                query->base = -5.0f - (float)q;
                query->width = 8.0f + 4.0f * (float)q;
                query->limit = (float)test.sums[q][1][7] - 9.0f; /* some slot's bound: just not below */
                for (uint32_t b = 0; b < BLOCKS; b++) {
                    for (uint32_t slot = 0; slot < NF_IVF_BLOCK; slot++) {
                        const double rescale = slot % 2 ? 2.0 : -2.0, error = slot % 3 ? 0.25 : 1.5;
                        const double product = 0.5 * test.sums[q][b][slot] + (double)query->base;
                        const double bound = 3.0 + rescale * product - error * (double)query->width;
                        put_factors(&test, b, slot, 3.0f, (float)rescale, (float)error);
                        expected[q][b] |= (uint32_t)(bound < (double)query->limit) << slot;
                    }
                }
            }
            for (uint32_t n = 1; n <= NF_SCAN_QUERIES; n++) check_scan(kernels, &test, n, BLOCKS, expected);
            close_scan(&test);
        }
    }
}

/* What is not a number survives; what is equal to the limit does not, infinity included. */
static void test_scan_limits(void **state)
{
    (void)state;
    const nf_ivf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t  seed = 23;
        scan_test test = open_scan(64, 0, &seed);
        uint32_t  expected[NF_SCAN_QUERIES][BLOCKS] = {{0}};
        for (uint32_t b = 0; b < BLOCKS; b++) {
            for (uint32_t slot = 0; slot < NF_IVF_BLOCK; slot++) {
                const uint32_t kind = (slot + b) % 6;
                const float    far = 1e9f;
                put_factors(&test, b, slot, kind == 0 ? NAN : kind == 3 ? INFINITY : kind == 4 ? -INFINITY : far,
                            kind == 1 ? NAN : 0.0f, kind == 2 ? NAN : 0.0f);
                expected[0][b] |= (uint32_t)(kind < 3 || kind == 4) << slot;  /* limit 1e9 */
                expected[1][b] |= (uint32_t)(kind != 3) << slot;              /* limit infinity */
                expected[2][b] |= (uint32_t)(kind < 3) << slot;               /* limit -infinity */
                expected[3][b] |= 1u << slot;                                 /* limit NaN */
            }
        }
        test.queries[0].limit = 1e9f;
        test.queries[1].limit = INFINITY;
        test.queries[2].limit = -INFINITY;
        test.queries[3].limit = NAN;
        for (uint32_t n = 1; n <= NF_SCAN_QUERIES; n++) check_scan(kernels, &test, n, BLOCKS, expected);
        close_scan(&test);
    }
}

/* ---- whole codes ---- */

/* Random codes packed as engine_ivf.h says; the codes' record ends 7 bytes before a forbidden page. */
static void check_unpack(const nf_ivf_kernels *kernels, uint32_t padded, uint32_t ex_bits, uint64_t *seed)
{
    const uint32_t whole = (padded + 15) / 16 * 16;
    const size_t   stream_bytes = (size_t)padded / 8 * ex_bits;
    guarded        block = guard_open(padded / 8, 1), stream = guard_open(stream_bytes + 7, 1);
    guarded        out = guard_open(whole * sizeof(uint16_t), 1);
    uint16_t      *expected = calloc(whole, sizeof *expected);
    uint8_t       *signs = block.data, *codes = stream.data;

    memset(codes, 0, stream_bytes);
    for (uint32_t i = 0; i < padded; i++) {
        expected[i] = (uint16_t)random_below(seed, 2u << ex_bits);
        uint8_t *sign = &signs[i / 8];
        *sign = (uint8_t)((*sign & ~(1 << i % 8)) | (expected[i] >> ex_bits) << i % 8);
        for (uint32_t j = 0; j < ex_bits; j++) {
            const uint32_t at = i * ex_bits + j;
            codes[at / 8] = (uint8_t)(codes[at / 8] | (expected[i] >> j & 1) << at % 8);
        }
    }
    guard_seal(&block);
    guard_seal(&stream);
    kernels->unpack(signs, ex_bits > 0 ? codes : NULL, ex_bits, padded, out.data);
    assert_memory_equal(out.data, expected, whole * sizeof *expected);
    free(expected);
    guard_close(&block);
    guard_close(&stream);
    guard_close(&out);
}

static void test_unpack(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {8, 16, 24, 32, 40, 56, 64, 72, 104, 128, 8192};
    const nf_ivf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 29;
        for (size_t i = 0; i < COUNT(sizes); i++) {
            for (uint32_t ex_bits = 0; ex_bits <= 8; ex_bits++) {
                for (int turn = 0; turn < 3; turn++) check_unpack(kernels, sizes[i], ex_bits, &seed);
            }
        }
    }
}

#define CODE_ROWS 5u

/* kind 0: random; 1: the largest of both; 2: the largest codes and the most negative query. */
static void check_dots(const nf_ivf_kernels *kernels, uint32_t count, uint32_t rows, int kind, uint64_t *seed)
{
    const size_t stride = count + 16;
    guarded      codes = guard_open(((CODE_ROWS - 1) * stride + count) * sizeof(uint16_t), 1);
    guarded      query = guard_open(count * sizeof(int16_t), 1), places = guard_open(rows * sizeof(uint32_t), 1);
    guarded      out = guard_open(rows * sizeof(int32_t), 1);
    uint16_t    *code = codes.data;
    int16_t     *q = query.data;
    uint32_t    *at = places.data;
    for (size_t i = 0; i < (CODE_ROWS - 1) * stride + count; i++) {
        code[i] = kind == 0 ? (uint16_t)random_below(seed, 512) : 511;
    }
    for (uint32_t k = 0; k < count; k++) {
        q[k] = kind == 0 ? (int16_t)((int)random_below(seed, 65536) - 32768) : kind == 1 ? INT16_MAX : INT16_MIN;
    }
    for (uint32_t i = 0; i < rows; i++) at[i] = (uint32_t)random_below(seed, CODE_ROWS);
    guard_seal(&codes);
    guard_seal(&query);
    guard_seal(&places);
    kernels->dots(code, stride, at, rows, q, count, out.data);
    for (uint32_t i = 0; i < rows; i++) {
        int64_t sum = 0;
        for (uint32_t k = 0; k < count; k++) sum += (int64_t)code[at[i] * stride + k] * q[k];
        assert_int_equal((uint32_t)((const int32_t *)out.data)[i], (uint32_t)(uint64_t)sum);
    }
    guard_close(&codes);
    guard_close(&query);
    guard_close(&places);
    guard_close(&out);
}

static void test_dots(void **state)
{
    (void)state;
    static const uint32_t counts[] = {16, 32, 48, 64, 112, 128, 1024, 8192}; /* 129 x 511 x 32767 passes 2^31 */
    const nf_ivf_kernels *kernels;
    FOR_KERNELS(kernels)
    {
        uint64_t seed = 31;
        for (size_t i = 0; i < COUNT(counts); i++) {
            for (uint32_t rows = 1; rows <= 9; rows++) {
                for (int kind = 0; kind < 3; kind++) check_dots(kernels, counts[i], rows, kind, &seed);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),       cmocka_unit_test(test_products),     cmocka_unit_test(test_least_and_nearer),
        cmocka_unit_test(test_below),        cmocka_unit_test(test_rotate),       cmocka_unit_test(test_encoding),
        cmocka_unit_test(test_scan_sums),    cmocka_unit_test(test_scan_formula), cmocka_unit_test(test_scan_limits),
        cmocka_unit_test(test_unpack),       cmocka_unit_test(test_dots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
