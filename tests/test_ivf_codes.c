/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes, and estimates from them, against the mathematics of RaBitQ: the error constants of codes are those of exhaustive
 * search; estimates are exact where the query is the centroid or the row itself, without bias elsewhere, and within their
 * bounds as often as a normal distribution says.
 */
#include "ivf_codes_helper.h"

/* ---- constants of codes ---- */

/* sqrt(1 / cos^2 - 1) of a residual and its code. */
static double constant_of(const nf_ivf_kernels *kernels, const float *residual, uint32_t padded, uint32_t ex_bits)
{
    const double most = (double)((1u << ex_bits) - 1), norm = sqrt(dot(residual, residual, padded));
    uint16_t    *u = malloc(padded * sizeof *u);
    double       ry = 0, yy = 0;
    const float  t = nf_cpu_ivf_rescale_factor(kernels, residual, padded, norm, ex_bits);
    kernels->quantise(residual, padded, t, (float)most, u);
    for (uint32_t k = 0; k < padded; k++) {
        const double y = u[k] - (2 * most + 1) / 2;
        ry += y * (double)residual[k];
        yy += y * y;
    }
    free(u);
    return sqrt(norm * norm * yy / (ry * ry) - 1);
}

/* Means over random directions, of the best clamped code of each by enumeration of all rescaling factors. */
static const struct {
    uint32_t padded;
    double   errors[8]; /* 1 to 8 ex bits */
} best_constants[] = {
    {64, {0.35545, 0.18371, 0.09308, 0.04593, 0.02267, 0.01102, 0.00541, 0.00265}},
    {128, {0.36115, 0.19017, 0.09907, 0.05018, 0.02495, 0.01231, 0.00607, 0.00299}},
    {256, {0.36558, 0.19423, 0.10400, 0.05412, 0.02730, 0.01360, 0.00674, 0.00333}},
    {384, {0.36641, 0.19527, 0.10524, 0.05542, 0.02824, 0.01415, 0.00702, 0.00349}},
    {768, {0.36583, 0.19532, 0.10616, 0.05691, 0.02958, 0.01497, 0.00749, 0.00373}},
    {1536, {0.36658, 0.19634, 0.10719, 0.05799, 0.03071, 0.01573, 0.00791, 0.00395}},
};

static void test_constants(void **state)
{
    (void)state;
    nf_context           *ctx = context(1);
    const nf_ivf_kernels *kernels = nf_cpu_ivf_kernels(nf_context_isa(ctx));
    for (size_t i = 0; i < COUNT(best_constants); i++) {
        const uint32_t padded = best_constants[i].padded, rows = (400 + 40000 / padded) / SLOW;
        uint64_t       seed = 1000 + padded;
        float         *residuals = normals((size_t)rows * padded, 3.0, &seed);
        for (uint32_t ex_bits = 1; ex_bits <= 8; ex_bits++) {
            double       sum = 0;
            const double best = best_constants[i].errors[ex_bits - 1];
            for (uint32_t row = 0; row < rows; row++) {
                sum += constant_of(kernels, residuals + (size_t)row * padded, padded, ex_bits);
            }
            assert_true(fabs(sum / rows - best) <= (SLOW > 1 ? 0.04 : 0.02) * best);
        }
        free(residuals);
    }
    nf_context_destroy(ctx);
}

/* ---- the best factor ---- */

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A place where a level goes up by one: the factor, and the dim. */
typedef struct rise {
    double   t;
    uint32_t dim;
} rise;

/* The least constant that any factor gives: levels change only at t = m / |r_i|, m = 1 .. most; all are gone through. */
static double least_constant(const float *residual, uint32_t padded, uint32_t ex_bits)
{
    const uint32_t most = (1u << ex_bits) - 1;
    const double   square = dot(residual, residual, padded);
    rise          *rises = malloc((size_t)padded * most * sizeof *rises);
    uint32_t      *levels = calloc(padded, sizeof *levels);
    double         ry = 0, yy = padded / 4.0, best = 0;
    for (uint32_t i = 0; i < padded; i++) {
        for (uint32_t m = 1; m <= most; m++) rises[(size_t)i * most + m - 1] = (rise){m / fabs((double)residual[i]), i};
        ry += 0.5 * fabs((double)residual[i]);
    }
    qsort(rises, (size_t)padded * most, sizeof *rises, ascending); /* t is the first member */
    best = ry * ry / yy;
    for (size_t at = 0; at < (size_t)padded * most; at++) {
        const uint32_t i = rises[at].dim;
        levels[i]++;
        ry += fabs((double)residual[i]);
        yy += 2.0 * levels[i]; /* (m + 1/2)^2 - (m - 1/2)^2 */
        best = fmax(best, ry * ry / yy);
    }
    free(rises);
    free(levels);
    return sqrt(square / best - 1);
}

/* Row by row the factor found is nearly the best: on average within 3 %, never 30 % worse. */
static void test_best_factor(void **state)
{
    (void)state;
    nf_context           *ctx = context(1);
    const nf_ivf_kernels *kernels = nf_cpu_ivf_kernels(nf_context_isa(ctx));
    for (uint32_t padded = 64; padded <= 1024; padded *= 4) {
        const uint32_t rows = 4 + 4096 / padded / SLOW;
        uint64_t       seed = 31 + padded;
        float         *residuals = normals((size_t)rows * padded, 0.01, &seed);
        for (uint32_t ex_bits = 1; ex_bits <= 8; ex_bits++) {
            double sum = 0, worst = 0;
            for (uint32_t row = 0; row < rows; row++) {
                const float *residual = residuals + (size_t)row * padded;
                const double least = least_constant(residual, padded, ex_bits);
                const double ratio = constant_of(kernels, residual, padded, ex_bits) / least;
                assert_true(ratio >= 1 - 1e-9);
                worst = fmax(worst, ratio);
                sum += ratio;
            }
            assert_true(sum / rows <= 1.03 && worst <= 1.30);
        }
        free(residuals);
    }
    nf_context_destroy(ctx);
}

/* The largest cosine of all clamped codes with the signs of r: each dim's level runs through all its values. */
static double best_cosine(const float *residual, uint32_t dims, uint32_t padded, uint32_t ex_bits)
{
    const uint32_t codes = 1u << dims * ex_bits, mask = (1u << ex_bits) - 1;
    double         best = 0;
    for (uint32_t levels = 0; levels < codes; levels++) {
        double ry = 0, yy = 0.25 * (padded - dims); /* the padding's levels are 0 */
        for (uint32_t k = 0; k < dims; k++) {
            const double y = (levels >> k * ex_bits & mask) + 0.5;
            ry += y * fabs((double)residual[k]);
            yy += y * y;
        }
        if (ry * ry / yy > best) best = ry * ry / yy; /* gcc 12 for AArch64 fails on fmax here */
    }
    return sqrt(best / dot(residual, residual, dims));
}

static void test_all_codes(void **state)
{
    (void)state;
    nf_context           *ctx = context(1);
    const nf_ivf_kernels *kernels = nf_cpu_ivf_kernels(nf_context_isa(ctx));
    uint64_t              seed = 41;
    for (uint32_t dims = 4; dims <= 8; dims++) {
        for (uint32_t ex_bits = 1; ex_bits <= 2; ex_bits++) {
            const uint32_t rows = ex_bits * dims > 12 ? 24 / SLOW : 100;
            double         worst = 0, sum = 0;
            for (uint32_t row = 0; row < rows; row++) {
                float *residual = normals(8, 1.0, &seed);
                for (uint32_t k = dims; k < 8; k++) residual[k] = 0.0f;
                const double constant = constant_of(kernels, residual, 8, ex_bits);
                const double cosine = 1 / sqrt(1 + constant * constant), best = best_cosine(residual, dims, 8, ex_bits);
                assert_true(cosine <= best * (1 + 1e-12));
                worst = fmax(worst, 1 - cosine / best);
                sum += 1 - cosine / best;
                free(residual);
            }
            assert_true(worst <= 0.01 && sum / rows <= 5e-4); /* of the cosine: the search tries 20 factors */
        }
    }
    nf_context_destroy(ctx);
}

/* ---- identities ---- */

/* Checks q = c and q = x, whose estimates are exact. Only roundings are left: of factors, and of the query to 16 bits. Its
 * largest value is about 5 |q| / sqrt(D) at most, so R <y, q> deviates by less than 5 |q| |r| / (32767 sqrt(12 D) cos). */
static void check_identities(const coded *at, const parts *from)
{
    const uint32_t dims = from->dims, k = (uint32_t)from->rows;
    const int      l2 = from->metric == NF_METRIC_L2;
    for (uint64_t q = 0; q < from->lists + from->rows; q++) {
        const float *query = q < from->lists ? from->centroids + q * dims : from->values + (q - from->lists) * dims;
        answer       got = ask(at, query, 1, &(nf_ivf_question){.k = k, .probes = from->lists, .epsilon0 = INFINITY});
        assert_int_equal(check_form(got.slots, got.values, k, from->rows), k);
        assert_int_equal(got.counters.scanned, from->rows);
        assert_int_equal(got.counters.refined, from->rows);
        for (uint64_t i = 0; i < from->rows; i++) {
            if (q < from->lists ? from->labels[i] != q : i != q - from->lists) continue;
            const float *x = from->values + i * dims, *c = from->centroids + (size_t)from->labels[i] * dims;
            double       expected = 0, xx = 0, qq = 0;
            uint32_t     place = 0;
            while (got.slots[place] != at->slots[i]) place++;
            if (l2) expected = q < from->lists ? square_between(x, c, dims) : 0;
            for (uint32_t j = 0; j < dims; j++) {
                const double true_x = (double)x[j] + (double)from->mean[j];
                const double true_q = (double)query[j] + (double)from->mean[j];
                if (!l2) expected -= true_x * true_q;
                xx += true_x * true_x;
                qq += true_q * true_q;
            }
            const double allowed = 5e-5 * sqrt(square_between(x, c, dims) * dot(query, query, dims)) + 2e-6 * (xx + qq);
            assert_true(fabs((double)got.values[place] - expected) <= allowed);
        }
        free_answer(&got);
    }
}

static void test_identities(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{40, 1, 33}, {100, 5, 70}, {128, 3, 96}, {21, 4, 50}};
    nf_context           *ctx = context(1);
    for (size_t i = 0; i < COUNT(shapes); i++) {
        sample_parts from = make_parts(shapes[i][2], shapes[i][0], shapes[i][1], 0.5, NULL, 50 + i);
        for (from.parts.bits = 1; from.parts.bits <= 9; from.parts.bits++) {
            for (from.parts.metric = NF_METRIC_L2; from.parts.metric <= NF_METRIC_COSINE; from.parts.metric++) {
                coded at = code(ctx, &from.parts);
                check_identities(&at, &from.parts);
                close_coded(&at);
            }
        }
        free_parts(&from);
    }
    nf_context_destroy(ctx);
}

/* The search's values are the formula's, for any query. */
static void test_values(void **state)
{
    (void)state;
    nf_context *ctx = context(1);
    uint64_t    seed = 61;
    for (uint32_t bits = 1; bits <= 9; bits++) {
        sample_parts from = make_parts(100, 72, 3, 0.7, NULL, bits);
        from.parts.bits = bits;
        from.parts.metric = bits % 2 ? NF_METRIC_L2 : NF_METRIC_IP;
        coded  at = code(ctx, &from.parts);
        float *queries = normals(10 * 72, 1.0, &seed), *rotated = malloc(10 * 72 * sizeof *rotated);
        assert_int_equal(at.ops->rotate(ctx, &at.view.rotation, queries, 10, rotated), NF_OK);
        answer got = ask(&at, queries, 10, &(nf_ivf_question){.k = 100, .probes = 3, .epsilon0 = INFINITY});
        for (uint64_t i = 0; i < 10 * 100; i++) {
            uint32_t     place = (uint32_t)(i / 100 * 100), list = from.labels[i % 100];
            const float *q = rotated + i / 100 * 72, *c = at.view.centroids + (size_t)list * 72;
            const float *mean = at.view.mean_rotated;
            while (got.slots[place] != at.slots[i % 100]) place++;
            const double inner = dot(q, c, 72) + dot(q, mean, 72) + dot(c, mean, 72) + dot(mean, mean, 72);
            const double g_add = bits % 2 ? square_between(q, c, 72) : -inner;
            const double expected = bits == 1 ? short_estimate(&at, list, at.in_list[i % 100], q, g_add).value
                                              : whole_estimate(&at, list, at.in_list[i % 100], q, g_add);
            assert_true(fabs((double)got.values[place] - expected) <= 2e-3);
        }
        free_answer(&got);
        free(queries);
        free(rotated);
        close_coded(&at);
        free_parts(&from);
    }
    nf_context_destroy(ctx);
}

/* ---- the distribution of errors ---- */

/* One row and one query through many rotations: errors have mean 0 and, with the constant of each rotation's code, the
 * deviation w constant |r| |v| sqrt(1 - rho^2) / sqrt(D - 1); w is 2 (L2) or 1. */
static void check_bias(nf_context *ctx, parts *from, const float *query)
{
    const uint32_t turns = 3000 / SLOW, dims = from->dims;
    const float   *x = from->values, *c = from->centroids;
    const double   truth = true_value(from, x, query), g_add = list_value(from, 0, query);
    double         sum = 0, squares = 0, rr = 0, vv = 0, rv = 0;
    float         *rotated = malloc(dims * sizeof *rotated);
    for (uint32_t k = 0; k < dims; k++) {
        const double r = (double)x[k] - (double)c[k], v = (double)query[k] - (double)c[k];
        rr += r * r;
        vv += v * v;
        rv += r * v;
    }
    for (uint32_t turn = 0; turn < turns; turn++) {
        from->seed = 7000 + turn;
        coded at = code(ctx, from);
        assert_int_equal(at.ops->rotate(ctx, &at.view.rotation, query, 1, rotated), NF_OK);
        const double value = from->bits > 1 ? whole_estimate(&at, 0, 0, rotated, g_add)
                                            : short_estimate(&at, 0, 0, rotated, g_add).value;
        const double weight = from->metric == NF_METRIC_L2 ? 2 : 1;
        const double unit = weight * at.errors[0] * sqrt(rr * vv - rv * rv) / sqrt(dims - 1.0);
        sum += (value - truth) / unit;
        squares += (value - truth) * (value - truth) / (unit * unit);
        close_coded(&at);
    }
    const double deviation = sqrt(squares / turns);
    assert_true(fabs(sum / turns) <= 4 * deviation / sqrt(turns));
    assert_true(fabs(deviation - 1) <= 4 / sqrt(2.0 * turns) + 0.02);
    free(rotated);
}

static void test_without_bias(void **state)
{
    (void)state;
    static const uint32_t some_bits[] = {1, 2, 5, 9};
    nf_context           *ctx = context(1);
    uint64_t              seed = 71;
    for (uint32_t metric = NF_METRIC_L2; metric <= NF_METRIC_IP; metric++) {
        for (size_t i = 0; i < COUNT(some_bits); i++) {
            sample_parts from = make_parts(1, 96, 1, 0.8, NULL, 80 + i);
            float       *query = normals(96, 1.2, &seed);
            from.parts.metric = metric;
            from.parts.bits = some_bits[i];
            check_bias(ctx, &from.parts, query);
            free(query);
            free_parts(&from);
        }
    }
    nf_context_destroy(ctx);
}

/* Row i = c + r and query i = c + v, of random directions but for cos(r, v) = rho. Returns the share of true values below the
 * lower bound. */
static double violations(nf_context *ctx, uint32_t metric, double rho)
{
    const uint32_t dims = 128, rows = 40000 / SLOW;
    sample_parts   from = make_parts(rows, dims, 1, 1.0, NULL, 90);
    uint64_t       seed = 91;
    float         *queries = normals((size_t)rows * dims, 1.0, &seed);
    float         *rotated = malloc((size_t)rows * dims * sizeof *rotated);
    uint32_t       below = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const float *x = from.values + (size_t)i * dims, *c = from.centroids;
        float       *q = queries + (size_t)i * dims;
        double       rr = 0, rq = 0, ww = 0;
        for (uint32_t k = 0; k < dims; k++) {
            const double r = (double)x[k] - (double)c[k];
            rr += r * r;
            rq += r * (double)q[k];
        }
        for (uint32_t k = 0; k < dims; k++) {
            q[k] -= (float)(rq / rr * ((double)x[k] - (double)c[k]));
            ww += (double)q[k] * (double)q[k];
        }
        for (uint32_t k = 0; k < dims; k++) { /* |v| = 9 */
            const double r = ((double)x[k] - (double)c[k]) / sqrt(rr), w = (double)q[k] / sqrt(ww);
            q[k] = (float)((double)c[k] + 9 * (rho * r + sqrt(1 - rho * rho) * w));
        }
    }
    from.parts.metric = metric;
    coded at = code(ctx, &from.parts);
    assert_int_equal(at.ops->rotate(ctx, &at.view.rotation, queries, rows, rotated), NF_OK);
    for (uint32_t i = 0; i < rows; i++) {
        const float   *q = queries + (size_t)i * dims;
        const double   g_add = list_value(&from.parts, 0, q);
        const estimate e = short_estimate(&at, 0, at.in_list[i], rotated + (size_t)i * dims, g_add);
        below += true_value(&from.parts, from.values + (size_t)i * dims, q) < e.value - 1.9 * e.error * 9;
    }
    close_coded(&at);
    free_parts(&from);
    free(queries);
    free(rotated);
    return (double)below / rows;
}

/* A normal distribution has 2.87 % beyond 1.9 deviations, and .4 % beyond 1.9 / sqrt(1 - .7^2) = 2.66. */
static void test_bounds(void **state)
{
    (void)state;
    nf_context *ctx = context(2);
    for (uint32_t metric = NF_METRIC_L2; metric <= NF_METRIC_IP; metric++) {
        const double across = violations(ctx, metric, 0.0), along = violations(ctx, metric, 0.7);
        assert_true(across >= 0.025 && across <= 0.032);
        assert_true(along < 0.006);
    }
    nf_context_destroy(ctx);
}

/* A row beyond what binary32 factors can hold is refused; just inside it is not. */
static void test_far_row(void **state)
{
    (void)state;
    nf_context    *ctx = context(1);
    float          values[2 * 8] = {0}, zero[8] = {0}, centroid[8] = {0};
    const uint32_t labels[2] = {0, 0};
    for (int far = 0; far < 2; far++) {
        centroid[3] = far ? 3.3e18f : 3.0e18f;
        const parts from = {.rows = 2, .dims = 8, .lists = 1, .bits = 5, .metric = NF_METRIC_L2, .values = values,
                            .centroids = centroid, .mean = zero, .labels = labels, .seed = 1};
        coded at = code_parts(ctx, &from);
        assert_int_equal(at.status, far ? NF_ERR_VALUE : NF_OK);
        if (far) assert_non_null(strstr(nf_context_error(ctx)->text, "3.3e+18"));
        close_coded(&at);
    }
    nf_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_best_factor),
        cmocka_unit_test(test_all_codes),
        cmocka_unit_test(test_identities),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_without_bias),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_far_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
