/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact k nearest neighbours against brute force written here: distances by the contract's formula in plain binary64
 * loops, sorted by (distance, row); ids, distances and counts must be the same bits. The formula itself is held
 * against extended precision, and against values that NumPy computed.
 */
#include "cpu/kernels/ivf_kernels.h"
#include "exact_helper.h"
#include "memory_helper.h"
#include "nearfield/neighbours.h"

/* ---- the oracle ---- */

typedef struct neighbour {
    double  distance;
    int64_t id;
} neighbour;

static int compare_neighbours(const void *a, const void *b)
{
    const neighbour *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static double dot(const double *x, const double *y, uint32_t dims)
{
    double sum = 0.0;
    for (uint32_t c = 0; c < dims; c++) sum = fma(x[c], y[c], sum);
    return sum;
}

static double l2(const double *x, const double *y, uint32_t dims)
{
    double sum = 0.0, largest = 0.0;
    for (uint32_t c = 0; c < dims; c++) {
        sum = fma(x[c] - y[c], x[c] - y[c], sum);
        largest = fmax(largest, fabs(x[c] - y[c]));
    }
    if (largest == 0.0 || (sum >= 0x1p-900 && sum <= 0x1p1000)) return sqrt(sum);
    const int shift = -ilogb(largest);
    sum = 0.0;
    for (uint32_t c = 0; c < dims; c++) sum = fma(ldexp(x[c] - y[c], shift), ldexp(x[c] - y[c], shift), sum);
    return ldexp(sqrt(sum), -shift);
}

/* A row for COSINE: as it is, or brought near 1 where squares may have over- or underflowed. Returns its length. */
static double cosine_row(const double *x, uint32_t dims, double *out)
{
    const double sum = dot(x, x, dims);
    double       largest = 0.0;
    for (uint32_t c = 0; c < dims; c++) largest = fmax(largest, fabs(x[c]));
    const bool fine = largest == 0.0 || (sum >= 0x1p-900 && sum <= 0x1p1000);
    for (uint32_t c = 0; c < dims; c++) out[c] = fine ? x[c] : ldexp(x[c], -ilogb(largest));
    return sqrt(dot(out, out, dims));
}

static double cosine(const double *x, const double *y, uint32_t dims)
{
    double      *a = malloc(2 * dims * sizeof *a), *b = a + dims;
    const double p = cosine_row(x, dims, a), q = cosine_row(y, dims, b);
    const double value = p == 0.0 || q == 0.0 ? 1.0 : 1.0 - dot(a, b, dims) / (p * q);
    free(a);
    return value;
}

/* What the distance is, in extended precision, and the size of what was added up. */
static long double extended(const double *x, const double *y, uint32_t dims, uint32_t metric, long double *size)
{
    long double squares = 0.0L, product = 0.0L, sizes = 0.0L, xx = 0.0L, yy = 0.0L;
    for (uint32_t c = 0; c < dims; c++) {
        const long double a = x[c], b = y[c];
        squares += (a - b) * (a - b);
        product += a * b;
        sizes += fabsl(a * b);
        xx += a * a;
        yy += b * b;
    }
    *size = metric == NF_METRIC_L2 ? sqrtl(squares) : metric == NF_METRIC_IP ? sizes : 1.0L;
    if (metric == NF_METRIC_L2) return sqrtl(squares);
    if (metric == NF_METRIC_IP) return -product;
    return xx == 0.0L || yy == 0.0L ? 1.0L : 1.0L - product / (sqrtl(xx) * sqrtl(yy));
}

static double contract(const double *x, const double *y, uint32_t dims, uint32_t metric)
{
    long double       size;
    const long double truth = extended(x, y, dims, metric, &size);
    const double      value = metric == NF_METRIC_L2 ? l2(x, y, dims)
                              : metric == NF_METRIC_IP ? 0.0 - dot(x, y, dims) : cosine(x, y, dims);
    if (isfinite(value)) assert_true(fabsl(truth - value) <= size * (dims + 8) * 0x1p-52L + 0x1p-1070L);
    return value;
}

/* ---- running ---- */

typedef struct answer {
    uint64_t     queries;
    uint32_t     k;
    int64_t     *ids;
    double      *distances;
    uint32_t    *counts;
    nf_knn_stats stats;
} answer;

static answer answer_open(uint64_t queries, uint32_t k)
{
    return (answer){
        .queries = queries, .k = k,
        .ids = calloc(queries * k + 1, sizeof(int64_t)),
        .distances = calloc(queries * k + 1, sizeof(double)),
        .counts = calloc(queries + 1, sizeof(uint32_t)),
        .stats = {.struct_size = sizeof(nf_knn_stats)},
    };
}

static void answer_close(answer *of)
{
    free(of->ids);
    free(of->distances);
    free(of->counts);
}

static nf_status ask(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t metric, answer *to)
{
    nf_knn_params params;
    nf_knn_params_init(&params);
    params.k = to->k;
    params.metric = metric;
    return nf_knn(ctx, data, queries, &params, to->ids, to->distances, to->counts, &to->stats);
}

static void check_against_oracle(const nf_matrix *data, const nf_matrix *queries, uint32_t metric, const answer *got)
{
    double    *x = exact_values(data), *y = exact_values(queries);
    neighbour *all = malloc((data->rows + 1) * sizeof *all);
    for (uint64_t q = 0; q < queries->rows; q++) {
        for (uint64_t i = 0; i < data->rows; i++) {
            all[i].distance = contract(x + i * data->dims, y + q * data->dims, data->dims, metric);
            all[i].id = (int64_t)i;
        }
        qsort(all, data->rows, sizeof *all, compare_neighbours);
        const uint32_t count = data->rows < got->k ? (uint32_t)data->rows : got->k;
        assert_int_equal(got->counts[q], count);
        for (uint32_t i = 0; i < got->k; i++) {
            const double distance = got->distances[q * got->k + i];
            assert_int_equal(got->ids[q * got->k + i], i < count ? all[i].id : -1);
            assert_true(distance == (i < count ? all[i].distance : HUGE_VAL));
            assert_true(distance != 0.0 || !signbit(distance));
        }
    }
    free(all);
    free(x);
    free(y);
}

static nf_knn_stats check(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t k, uint32_t metric)
{
    answer got = answer_open(queries->rows, k);
    assert_int_equal(ask(ctx, data, queries, metric, &got), NF_OK);
    check_against_oracle(data, queries, metric, &got);
    assert_int_equal(got.stats.compared, data->rows * queries->rows);
    const nf_knn_stats stats = got.stats;
    answer_close(&got);
    return stats;
}

static void check_metrics(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t k)
{
    for (uint32_t metric = NF_METRIC_L2; metric <= NF_METRIC_COSINE; metric++) check(ctx, data, queries, k, metric);
}

/* ---- data ---- */

typedef enum kind {
    UNIFORM,      /* -1 .. 1 */
    GRID,         /* 0, 1, 2: many ties */
    TRANSLATED,   /* clusters around 1e6 */
    TINY,         /* 1e-30 */
    LARGE,        /* 1e30 */
    HUGE_KIND,    /* 1e200 */
    SUBNORMAL,    /* 1e-310 */
    MIXED,        /* rows of sizes 1e-15 .. 1e15 */
    EXTREME,      /* rows of sizes 2^-1060 .. 2^1000 */
    DUPLICATES,   /* three rows, over and over */
    ZEROS,        /* every third row is zero */
    SPHERE,       /* nearly equal distances: a unit in the last place of binary32 apart and less */
    OUTLIER,      /* one row of 1e25 among ones */
    KINDS
} kind;

static double value_of(kind of, uint64_t row, uint32_t column, uint64_t *seed)
{
    const double unit = 2.0 * random_unit(seed) - 1.0;
    uint64_t     own = row * 31 + 5; /* the same for a whole row */
    switch (of) {
    case UNIFORM: return unit;
    case GRID: return (double)random_below(seed, 3);
    case TRANSLATED: return 1e6 + (double)(row % 3) + unit * 0.5;
    case TINY: return unit * 1e-30;
    case LARGE: return unit * 1e30;
    case HUGE_KIND: return unit * 1e200;
    case SUBNORMAL: return unit * 1e-310;
    case MIXED: return ldexp(unit, (int)random_below(&own, 100) - 50);
    case EXTREME: return ldexp(unit, (int)random_below(&own, 2060) - 1060);
    case DUPLICATES: return (double)((row % 3 * 7 + column * 5) % 11) - 0.3;
    case ZEROS: return row % 3 == 0 ? 0.0 : unit;
    case SPHERE: return ((row + column) % 4 == 0 ? 1.0 : 0.0) + unit * 0x1p-26;
    case OUTLIER: return row == 7 ? unit * 1e25 : unit;
    case KINDS: break;
    }
    return 0.0;
}

static nf_matrix made(kind of, nf_dtype dtype, uint64_t rows, uint32_t dims, uint64_t seed)
{
    nf_matrix data = exact_matrix(dtype, rows, dims);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < dims; c++) exact_put(&data, i, c, value_of(of, i, c, &seed));
    }
    return data;
}

/* Integers over the whole range that a type (or 2^53) allows. */
static nf_matrix made_integers(nf_dtype dtype, uint64_t rows, uint32_t dims, uint64_t seed)
{
    static const double least[] = {0, 0, -128, 0, -32768, 0, -2147483648.0, 0, -0x1p53};
    static const double span[] = {0, 256, 256, 65536, 65536, 0x1p32, 0x1p32, 0x1p53, 0x1p54};
    nf_matrix           data = exact_matrix(dtype, rows, dims);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < dims; c++) {
            exact_put(&data, i, c, least[dtype] + floor(random_unit(&seed) * span[dtype]));
        }
    }
    return data;
}

/* ---- tests ---- */

static void test_kinds(void **state)
{
    (void)state;
    for (uint32_t i = 0; exact_isa(i) != NF_ISA_AUTO; i++) {
        nf_context *ctx = exact_context(exact_isa(i), 2, 0);
        for (kind of = UNIFORM; of < KINDS; of = (kind)(of + 1)) {
            for (int wide = 0; wide < 2; wide++) {
                const nf_dtype dtype = wide ? NF_DTYPE_F64 : NF_DTYPE_F32;
                if (!wide && (of == HUGE_KIND || of == EXTREME || of == SUBNORMAL)) continue;
                nf_matrix data = made(of, dtype, 250, 19, 1), queries = made(of, dtype, 9, 19, 2), few = data;
                few.rows = 15;
                check_metrics(ctx, &data, &queries, 7);
                check_metrics(ctx, &data, &few, 1);
                exact_free(&data);
                exact_free(&queries);
            }
        }
        nf_context_destroy(ctx);
    }
}

/* The kernel that says which rows may be near, on whole numbers, whose arithmetic is exact; also at the limit
 * itself. */
static void test_below(void **state)
{
    (void)state;
    enum { MOST = 128 };
    float    low[MOST], reach[MOST], products[MOST];
    uint64_t seed = 3;
    for (uint32_t i = 0; exact_isa(i) != NF_ISA_AUTO; i++) {
        const nf_ivf_kernels *kernels = nf_cpu_ivf_kernels(exact_isa(i));
        for (uint32_t count = NF_LANES; count <= MOST; count += NF_LANES) {
            uint16_t    masks[MOST / NF_LANES + 1];
            uint32_t    any = 0;
            const float limit = count == NF_LANES ? -HUGE_VALF : count == MOST ? HUGE_VALF : -3.0f;
            for (uint32_t j = 0; j < MOST; j++) {
                low[j] = j % 9 == 0 ? HUGE_VALF : (float)random_below(&seed, 9);
                reach[j] = (float)random_below(&seed, 3);
                products[j] = (float)random_below(&seed, 7);
            }
            masks[count / NF_LANES] = 0x5a5a;
            const uint32_t got = kernels->below(low, reach, products, count, 2.0f, limit, masks);
            for (uint32_t j = 0; j < count; j++) {
                const uint32_t want = low[j] - products[j] - 2.0f * reach[j] < limit;
                assert_int_equal(masks[j / NF_LANES] >> j % NF_LANES & 1, want);
                any |= want;
            }
            assert_int_equal(got != 0, any);
            assert_int_equal(masks[count / NF_LANES], 0x5a5a);
        }
    }
}

static void test_shapes(void **state)
{
    (void)state;
    static const uint64_t rows[] = {1, 2, 15, 16, 17, 127, 129, 500};
    static const uint32_t dims[] = {1, 2, 3, 7, 16, 33, 100}, ks[] = {1, 2, 10, 96, 130, 700};
    static const uint64_t counts[] = {1, 2, 5, 6, 7, 37, 80};
    nf_context           *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    uint64_t              seed = 11;
    for (int turn = 0; turn < 120; turn++) {
        const uint32_t d = dims[random_below(&seed, 7)], k = ks[random_below(&seed, 6)];
        const kind     of = random_below(&seed, 2) ? UNIFORM : GRID;
        nf_matrix      data = made(of, NF_DTYPE_F32, rows[random_below(&seed, 8)], d, seed);
        nf_matrix      queries = made(of, NF_DTYPE_F32, counts[random_below(&seed, 7)], d, seed + 1);
        check(ctx, &data, &queries, k, (uint32_t)random_below(&seed, 3));
        exact_free(&data);
        exact_free(&queries);
    }
    nf_context_destroy(ctx);
}

static void test_types(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (nf_dtype type = NF_DTYPE_U8; type <= NF_DTYPE_F64; type = (nf_dtype)(type + 1)) {
        const bool integer = type <= NF_DTYPE_I64;
        nf_matrix  data = integer ? made_integers(type, 200, 13, 5) : made(UNIFORM, type, 200, 13, 5);
        nf_matrix  same = integer ? made_integers(type, 9, 13, 6) : made(UNIFORM, type, 9, 13, 6);
        nf_matrix  bytes = made_integers(NF_DTYPE_I8, 9, 13, 7), reals = made(UNIFORM, NF_DTYPE_F64, 9, 13, 8);
        check_metrics(ctx, &data, &same, 10);
        check_metrics(ctx, &data, &bytes, 10);
        check_metrics(ctx, &data, &reals, 10);
        check_metrics(ctx, &reals, &data, 10);
        exact_free(&data);
        exact_free(&same);
        exact_free(&bytes);
        exact_free(&reals);
    }
    nf_context_destroy(ctx);
}

/* Rows at odd addresses with something between them, as in mapped files. */
static void test_strides(void **state)
{
    (void)state;
    static const nf_dtype types[] = {NF_DTYPE_U8, NF_DTYPE_F16, NF_DTYPE_F32, NF_DTYPE_I32, NF_DTYPE_F64};
    nf_context           *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (size_t t = 0; t < 5; t++) {
        const size_t row = 17 * nf_dtype_bytes(types[t]), stride = row + 5;
        nf_matrix    packed = made(GRID, types[t], 150, 17, 3), apart = packed;
        char        *bytes = malloc(150 * stride + 1);
        memset(bytes, 0xff, 150 * stride + 1); /* NaN between the rows */
        for (uint64_t i = 0; i < 150; i++) memcpy(bytes + 1 + i * stride, nf_matrix_row(&packed, i), row);
        apart.data = bytes + 1;
        apart.stride_bytes = stride;
        check_metrics(ctx, &apart, &packed, 5);
        check_metrics(ctx, &packed, &apart, 5);
        free(bytes);
        exact_free(&packed);
    }
    nf_context_destroy(ctx);
}

/* Keys of such integers are exact in binary32: nothing is computed twice, whatever the ties. */
static void test_integers_are_exact(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   bytes = made_integers(NF_DTYPE_U8, 3000, 64, 1), some = made_integers(NF_DTYPE_U8, 20, 64, 2);
    nf_matrix   grid = made(GRID, NF_DTYPE_F32, 3000, 4, 1), points = made(GRID, NF_DTYPE_F32, 20, 4, 2);
    for (uint32_t metric = NF_METRIC_L2; metric <= NF_METRIC_IP; metric++) {
        assert_int_equal(check(ctx, &bytes, &some, 10, metric).rechecked, 0);
        assert_int_equal(check(ctx, &grid, &points, 10, metric).rechecked, 0);
    }
    exact_free(&bytes);
    exact_free(&some);
    exact_free(&grid);
    exact_free(&points);
    nf_context_destroy(ctx);
}

/* Some rows fit the integers of binary32 and later ones do not: the search changes from one arithmetic to the other. */
static void test_integers_grow(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    const uint64_t rows = 700;
    nf_matrix   data = exact_matrix(NF_DTYPE_I32, rows, 1200), queries = exact_matrix(NF_DTYPE_I32, 6, 1200);
    uint64_t    seed = 9;
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < 1200; c++) exact_put(&data, i, c, (double)random_below(&seed, i < 600 ? 3 : 5000));
    }
    for (uint64_t i = 0; i < 6; i++) {
        for (uint32_t c = 0; c < 1200; c++) exact_put(&queries, i, c, (double)random_below(&seed, 40));
    }
    check_metrics(ctx, &data, &queries, 12);
    /* Equal rows lie in the centre; the squares of such queries do not fit binary64. */
    nf_matrix equal = exact_matrix(NF_DTYPE_I32, 30, 1200);
    for (uint64_t i = 0; i < 30 * 1200; i++) exact_put(&equal, i / 1200, (uint32_t)(i % 1200), 3.0);
    for (uint64_t i = 0; i < 6 * 1200; i++) {
        exact_put(&queries, i / 1200, (uint32_t)(i % 1200), 0x1p24 - (double)random_below(&seed, 99));
    }
    check_metrics(ctx, &equal, &queries, 12);
    exact_free(&equal);
    exact_free(&data);
    exact_free(&queries);
    nf_context_destroy(ctx);
}

/* Few pairs are open where distances differ by more than binary32 can miss. */
static void test_few_are_rechecked(void **state)
{
    (void)state;
    static const kind kinds[] = {UNIFORM, TINY, LARGE, HUGE_KIND, TRANSLATED};
    nf_context       *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (size_t i = 0; i < 5; i++) {
        nf_matrix data = made(kinds[i], NF_DTYPE_F64, 2000, 48, 1), queries = made(kinds[i], NF_DTYPE_F64, 20, 48, 2);
        assert_true(check(ctx, &data, &queries, 10, NF_METRIC_L2).rechecked <= 220);
        exact_free(&data);
        exact_free(&queries);
    }
    nf_context_destroy(ctx);
}

/* Several blocks of data and several rounds of queries: large rows, and a small limit. */
static void test_blocks_and_rounds(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0), *small = exact_context(NF_ISA_AUTO, 2, 400000);
    nf_matrix   wide = made(UNIFORM, NF_DTYPE_F32, 400, 3000, 1);
    nf_matrix   wide_queries = made(UNIFORM, NF_DTYPE_F32, 3, 3000, 2);
    nf_matrix   data = made(GRID, NF_DTYPE_F64, 500, 50, 3), queries = made(UNIFORM, NF_DTYPE_F64, 60, 50, 4);
    check_metrics(ctx, &wide, &wide_queries, 20);
    check_metrics(small, &data, &queries, 20);
    nf_context_info info;
    nf_context_describe(small, &info);
    assert_int_equal(info.memory_used, 0);
    exact_free(&wide);
    exact_free(&wide_queries);
    exact_free(&data);
    exact_free(&queries);
    nf_context_destroy(ctx);
    nf_context_destroy(small);
}

static void test_large_k_and_dims(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   data = made(UNIFORM, NF_DTYPE_F32, 25000, 2, 1), queries = made(UNIFORM, NF_DTYPE_F32, 2, 2, 2);
    nf_matrix   ties = made(GRID, NF_DTYPE_F64, 21000, 2, 1);
    nf_matrix   long_rows = made(UNIFORM, NF_DTYPE_F16, 5, 70001, 1);
    check_metrics(ctx, &data, &queries, NF_MAX_K);
    check_metrics(ctx, &ties, &queries, NF_MAX_K);
    check_metrics(ctx, &queries, &queries, NF_MAX_K);
    check_metrics(ctx, &long_rows, &long_rows, 3);
    exact_free(&data);
    exact_free(&queries);
    exact_free(&ties);
    exact_free(&long_rows);
    nf_context_destroy(ctx);
}

static void test_threads(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 7};
    nf_matrix             data = made(MIXED, NF_DTYPE_F32, 1500, 24, 1);
    nf_matrix             queries = made(MIXED, NF_DTYPE_F32, 201, 24, 2);
    answer                first = answer_open(queries.rows, 9);
    for (uint32_t metric = NF_METRIC_L2; metric <= NF_METRIC_COSINE; metric++) {
        for (size_t t = 0; t < 3; t++) {
            nf_context *ctx = exact_context(NF_ISA_AUTO, threads[t], 0);
            answer      next = answer_open(queries.rows, 9), *to = t == 0 ? &first : &next;
            assert_int_equal(ask(ctx, &data, &queries, metric, to), NF_OK);
            assert_memory_equal(to->ids, first.ids, queries.rows * 9 * sizeof *first.ids);
            assert_memory_equal(to->distances, first.distances, queries.rows * 9 * sizeof *first.distances);
            assert_int_equal(to->stats.rechecked, first.stats.rechecked);
            answer_close(&next);
            nf_context_destroy(ctx);
        }
    }
    answer_close(&first);
    exact_free(&data);
    exact_free(&queries);
}

static void test_nothing(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   none = exact_matrix(NF_DTYPE_F32, 0, 3), some = made(UNIFORM, NF_DTYPE_F32, 4, 3, 1);
    check_metrics(ctx, &none, &some, 3);
    check_metrics(ctx, &some, &none, 3);
    check_metrics(ctx, &none, &none, 3);
    nf_knn_params params;
    nf_knn_params_init(&params);
    assert_int_equal(nf_knn(ctx, &some, &none, &params, NULL, NULL, NULL, NULL), NF_OK);
    exact_free(&none);
    exact_free(&some);
    nf_context_destroy(ctx);
}

/* Inner products beyond binary64 are infinite, and tie. */
static void test_infinite_products(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_matrix   data = exact_matrix(NF_DTYPE_F64, 5, 1), query = exact_matrix(NF_DTYPE_F64, 1, 1);
    answer      got = answer_open(1, 5);
    static const double  values[] = {1e200, -1e300, 3.0, 1e308, 1e250};
    static const int64_t ids[] = {0, 3, 4, 2, 1};
    for (uint64_t i = 0; i < 5; i++) exact_put(&data, i, 0, values[i]);
    exact_put(&query, 0, 0, 1e200);
    assert_int_equal(ask(ctx, &data, &query, NF_METRIC_IP, &got), NF_OK);
    assert_memory_equal(got.ids, ids, sizeof ids);
    assert_true(got.distances[0] == -HUGE_VAL && got.distances[3] == -3e200 && got.distances[4] == HUGE_VAL);
    answer_close(&got);
    exact_free(&data);
    exact_free(&query);
    nf_context_destroy(ctx);
}

/* Values by NumPy 2 in binary64: x = ((7i + 13c + i^2 c) % 17) / 8 - 1, q = ((11j + 3c + j c^2) % 19) / 8 - 1.125;
 * numpy.lexsort by (distance, row). */
static void test_golden(void **state)
{
    (void)state;
    static const int64_t ids[3][16] = {
        {15, 32, 1, 18, 11, 28, 6, 23, 3, 20, 37, 13, 14, 31, 12, 29},
        {15, 32, 1, 18, 6, 23, 11, 28, 5, 22, 39, 3, 14, 31, 12, 29},
        {15, 32, 1, 18, 11, 28, 6, 23, 3, 20, 37, 13, 14, 31, 12, 29},
    };
    static const double distances[3][16] = {
        {0x1.4f9e6bbc4ecb3p+0, 0x1.4f9e6bbc4ecb3p+0, 0x1.726d41832a0bep+0, 0x1.726d41832a0bep+0,
         0x1.44c3b83e57153p+0, 0x1.44c3b83e57153p+0, 0x1.6732f8d0e2f77p+0, 0x1.6732f8d0e2f77p+0,
         0x1.18cc821d6d3e3p+0, 0x1.18cc821d6d3e3p+0, 0x1.18cc821d6d3e3p+0, 0x1.2f9422c23c47ep+0,
         0x1.854bfb363dc39p-1, 0x1.854bfb363dc39p-1, 0x1.a887293fd6f34p-1, 0x1.a887293fd6f34p-1},
        {-0x1.2cp+0, -0x1.2cp+0, -0x1.08p+0, -0x1.08p+0, -0x1.28p+0, -0x1.28p+0, -0x1.1p+0, -0x1.1p+0,
         -0x1.f8p-1, -0x1.f8p-1, -0x1.f8p-1, -0x1.d8p-1, -0x1.24p+1, -0x1.24p+1, -0x1.1ap+1, -0x1.1ap+1},
        {0.42264973081037427, 0.42264973081037427, 0.5037032817255643, 0.5037032817255643,
         0.40565434867683836, 0.40565434867683836, 0.4556468551387378, 0.4556468551387378,
         0.3930734901491051, 0.3930734901491051, 0.3930734901491051, 0.432666080481073,
         0.10945805253739438, 0.10945805253739438, 0.13128313309943485, 0.13128313309943485},
    };
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   data = exact_matrix(NF_DTYPE_F32, 40, 5), queries = exact_matrix(NF_DTYPE_F64, 4, 5);
    answer      got = answer_open(4, 4);
    for (uint32_t c = 0; c < 5; c++) {
        for (uint32_t i = 0; i < 40; i++) exact_put(&data, i, c, (i * 7 + c * 13 + i * i * c) % 17 / 8.0 - 1.0);
        for (uint32_t j = 0; j < 4; j++) exact_put(&queries, j, c, (j * 11 + c * 3 + j * c * c) % 19 / 8.0 - 1.125);
    }
    for (uint32_t metric = NF_METRIC_L2; metric <= NF_METRIC_COSINE; metric++) {
        assert_int_equal(ask(ctx, &data, &queries, metric, &got), NF_OK);
        assert_memory_equal(got.ids, ids[metric], sizeof ids[metric]);
        for (int i = 0; i < 16; i++) {
            assert_true(fabs(got.distances[i] - distances[metric][i]) <= (metric == NF_METRIC_COSINE ? 1e-15 : 0.0));
        }
    }
    answer_close(&got);
    exact_free(&data);
    exact_free(&queries);
    nf_context_destroy(ctx);
}

/* ---- refused ---- */

static void refused(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, const nf_knn_params *params,
                    nf_status status, const char *part)
{
    int64_t ids[64];
    double  distances[64];
    assert_int_equal(nf_knn(ctx, data, queries, params, ids, distances, NULL, NULL), status);
    assert_non_null(strstr(nf_context_error(ctx)->text, part));
    nf_context_info info;
    nf_context_describe(ctx, &info);
    assert_int_equal(info.memory_used, 0);
}

static void test_refused(void **state)
{
    (void)state;
    nf_context   *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix     data = made(UNIFORM, NF_DTYPE_F32, 4, 3, 1), other = made(UNIFORM, NF_DTYPE_F32, 4, 2, 1), bad = data;
    nf_knn_params params;
    nf_knn_params_init(&params);
    assert_int_equal(params.k, 10);
    assert_int_equal(params.metric, NF_METRIC_L2);
    refused(ctx, NULL, &data, &params, NF_ERR_ARGUMENT, "data is NULL");
    refused(ctx, &data, NULL, &params, NF_ERR_ARGUMENT, "queries is NULL");
    refused(ctx, &data, &data, NULL, NF_ERR_ARGUMENT, "params");
    refused(ctx, &data, &other, &params, NF_ERR_ARGUMENT, "2 dims");
    bad.dims = 0;
    refused(ctx, &bad, &data, &params, NF_ERR_ARGUMENT, "0 dims");
    params.k = 0;
    refused(ctx, &data, &data, &params, NF_ERR_ARGUMENT, "k is 0");
    params.k = NF_MAX_K + 1;
    refused(ctx, &data, &data, &params, NF_ERR_ARGUMENT, "10001");
    params.k = 1;
    params.metric = 3;
    refused(ctx, &data, &data, &params, NF_ERR_ARGUMENT, "metric is 3");
    params.struct_size = 0;
    refused(ctx, &data, &data, &params, NF_ERR_ARGUMENT, "struct_size");
    nf_knn_params_init(&params);
    assert_int_equal(nf_knn(ctx, &data, &data, &params, NULL, NULL, NULL, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_knn(NULL, &data, &data, &params, NULL, NULL, NULL, NULL), NF_ERR_ARGUMENT);
    exact_free(&data);
    exact_free(&other);
    nf_context_destroy(ctx);
}

static void test_bad_values(void **state)
{
    (void)state;
    static const nf_dtype types[] = {NF_DTYPE_F16, NF_DTYPE_F32, NF_DTYPE_F64, NF_DTYPE_I64};
    nf_context           *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix             good = made(UNIFORM, NF_DTYPE_F32, 4, 3, 1);
    nf_knn_params         params;
    nf_knn_params_init(&params);
    for (size_t t = 0; t < 4; t++) {
        nf_matrix bad = made(GRID, types[t], 9000, 3, 1);
        exact_put(&bad, 8000, 2, t == 3 ? 0x1p53 + 2.0 : HUGE_VAL);
        exact_put(&bad, 57, 1, t == 3 ? -0x1p53 - 2.0 : (double)NAN);
        refused(ctx, &bad, &good, &params, NF_ERR_VALUE, "data: row 57, column 1");
        refused(ctx, &good, &bad, &params, NF_ERR_VALUE, "queries: row 57, column 1");
        exact_free(&bad);
    }
    exact_free(&good);
    nf_context_destroy(ctx);
}

static void test_params_and_names(void **state)
{
    (void)state;
    nf_knn_params params;
    nf_knn_params_init(&params);
    assert_int_equal(nf_knn_params_set(&params, "k", "10000", NULL), NF_OK);
    assert_int_equal(params.k, NF_MAX_K);
    assert_int_equal(nf_knn_params_set(&params, "k", "10001", NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_knn_params_set(&params, "k", "0", NULL), NF_ERR_ARGUMENT);
    for (uint32_t metric = NF_METRIC_L2; metric <= NF_METRIC_COSINE; metric++) {
        assert_int_equal(nf_knn_params_set(&params, "metric", nf_metric_name(metric), NULL), NF_OK);
        assert_int_equal(params.metric, metric);
    }
    assert_string_equal(nf_metric_name(7), "unknown");
}

/* ---- faults ---- */

static nf_context *hooked(memory_hook *hook, nf_progress_fn progress)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.threads = 2;
    params.allocator = memory_hook_allocator(hook);
    params.progress = progress;
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    hook->cancelled = ctx;
    return ctx;
}

/* Each allocation fails, or cancels, in turn; the same context then answers rightly. */
static void test_faults(void **state)
{
    (void)state;
    for (int cancel = 0; cancel < 2; cancel++) {
        memory_hook hook = {0};
        nf_context *ctx = hooked(&hook, NULL);
        const long  live = hook.live_blocks;
        nf_matrix   data = made(UNIFORM, NF_DTYPE_F32, 300, 6, 1), queries = made(UNIFORM, NF_DTYPE_F64, 40, 6, 2);
        answer      got = answer_open(40, 5);
        long        failures = 0;
        for (long n = 1;; n++) {
            const long before = hook.calls;
            *(cancel ? &hook.cancel_at : &hook.fail_at) = before + n;
            const nf_status status = ask(ctx, &data, &queries, (uint32_t)(n % 3), &got);
            assert_int_equal(hook.live_blocks, live);
            if (hook.calls < before + n) break;
            assert_true(status == NF_OK || status == (cancel ? NF_ERR_CANCELLED : NF_ERR_MEMORY));
            failures += status != NF_OK;
        }
        assert_true(failures > 20);
        hook.cancel_at = hook.fail_at = 0;
        check_metrics(ctx, &data, &queries, 5);
        answer_close(&got);
        exact_free(&data);
        exact_free(&queries);
        nf_context_destroy(ctx);
        assert_int_equal(hook.live_blocks, 0);
        assert_int_equal(hook.mismatches, 0);
    }
}

static int stop_at_once(void *user, const char *step, uint64_t done, uint64_t total)
{
    (void)user;
    (void)step;
    (void)done;
    (void)total;
    return 1;
}

static void test_cancel(void **state)
{
    (void)state;
    memory_hook hook = {0};
    nf_context *ctx = hooked(&hook, stop_at_once), *plain = exact_context(NF_ISA_AUTO, 2, 0);
    nf_matrix   data = made(UNIFORM, NF_DTYPE_F32, 3000, 8, 1);
    answer      got = answer_open(3000, 5);
    assert_int_equal(ask(ctx, &data, &data, NF_METRIC_L2, &got), NF_ERR_CANCELLED);
    nf_context_cancel(plain);
    assert_int_equal(ask(plain, &data, &data, NF_METRIC_L2, &got), NF_ERR_CANCELLED);
    assert_int_equal(ask(plain, &data, &data, NF_METRIC_L2, &got), NF_OK);
    answer_close(&got);
    exact_free(&data);
    nf_context_destroy(ctx);
    nf_context_destroy(plain);
    assert_int_equal(hook.live_blocks, 0);
}

static void test_memory_limit(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 20000);
    nf_matrix   data = made(UNIFORM, NF_DTYPE_F32, 100, 1000, 1);
    answer      got = answer_open(100, 5);
    assert_int_equal(ask(ctx, &data, &data, NF_METRIC_L2, &got), NF_ERR_LIMIT);
    answer_close(&got);
    exact_free(&data);
    nf_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_integers_are_exact),
        cmocka_unit_test(test_integers_grow),
        cmocka_unit_test(test_few_are_rechecked),
        cmocka_unit_test(test_blocks_and_rounds),
        cmocka_unit_test(test_large_k_and_dims),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_infinite_products),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_params_and_names),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_memory_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
