/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows and queries as binary32, with the bounds of their keys. docs/numerics.md, section 9, derives every constant;
 * its names are used here.
 *
 * Values are multiplied by a power of two that brings a typical row to about 1, so that neither tiny nor huge data
 * leave binary32; the mean of a sample is taken off, since the error of a product is relative to the lengths. Any
 * scale and any centre give right answers: they decide how many pairs are left open. A row or query far beyond the
 * others is "open" by itself: its interval is everything.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/core_pool.h"
#include "cpu_knn.h"
#include "matrix/matrix_convert.h"

#define U32 0x1p-24
#define U64 0x1p-53
#define SPARE 32.0             /* roundings granted beyond the d + 6 that are counted */
#define LONGEST 0x1p40         /* a longer row is open */
#define ABSOLUTE 0x1p-90       /* at least what underflow can cost */
#define LARGEST_INTEGER 0x1p24
#define EXPONENT_CLAMP 1000    /* 2^exponent must be a number */
#define EXPONENT_LIMIT 900     /* beyond, distances may vanish or overflow */
#define ROWS_PER_TASK 1024u
#define SAMPLE_ROWS 4096u
#define SAMPLE_VALUES (1u << 23)

/* ---- a look at all values ---- */

/* Sums over rows; each worker has one, and no member depends on the order of rows. */
typedef struct survey {
    double  *row;
    int64_t  exponents; /* of the largest value of each row that is not zero */
    uint64_t rows;
    bool     integers;
} survey;

typedef struct survey_run {
    nf_context      *ctx;
    const nf_matrix *matrix;
    survey          *workers;
} survey_run;

static double largest_value(const double *row, uint32_t dims)
{
    double largest = 0.0;
    for (uint32_t k = 0; k < dims; k++) {
        const double magnitude = fabs(row[k]);
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

static bool whole_numbers(const double *row, uint32_t dims, double largest)
{
    if (largest > LARGEST_INTEGER) return false;
    for (uint32_t k = 0; k < dims; k++) {
        if ((double)(int32_t)row[k] != row[k]) return false;
    }
    return true;
}

static nf_status survey_task(void *arg, uint64_t task, uint32_t worker)
{
    const survey_run *run = arg;
    survey           *sums = &run->workers[worker];
    const uint32_t    dims = run->matrix->dims;
    const uint64_t    begin = task * ROWS_PER_TASK, left = run->matrix->rows - begin;

    for (uint64_t row = begin; row < begin + (left < ROWS_PER_TASK ? left : ROWS_PER_TASK); row++) {
        nf_matrix_row_f64(run->matrix, row, sums->row);
        const double largest = largest_value(sums->row, dims);
        if (largest == 0.0) continue;
        sums->rows++;
        sums->exponents += ilogb(largest);
        if (sums->integers) sums->integers = whole_numbers(sums->row, dims, largest);
    }
    return NF_OK;
}

static nf_status run_survey(nf_context *ctx, const nf_matrix *matrix, survey *total)
{
    const uint64_t tasks = (matrix->rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
    const uint32_t count = nf_pool_workers(ctx, tasks);
    survey_run     run = {.ctx = ctx, .matrix = matrix, .workers = nf_alloc_zero(ctx, count, sizeof(survey))};

    *total = (survey){.integers = true};
    if (run.workers == NULL) return nf_alloc_status(ctx);
    double *rows = nf_alloc(ctx, (uint64_t)count * matrix->dims, sizeof *rows);
    if (rows == NULL) {
        nf_free(run.workers);
        return nf_alloc_status(ctx);
    }
    for (uint32_t w = 0; w < count; w++) {
        run.workers[w] = (survey){.row = rows + (size_t)w * matrix->dims, .integers = true};
    }
    const nf_status status = nf_pool_run(ctx, survey_task, &run, tasks);
    for (uint32_t w = 0; w < count; w++) {
        total->rows += run.workers[w].rows;
        total->exponents += run.workers[w].exponents;
        total->integers = total->integers && run.workers[w].integers;
    }
    nf_free(rows);
    nf_free(run.workers);
    return status;
}

/* ---- one row ---- */

/* z = 2^exponent z - centre (NULL: 0); returns the sum of squares. Four sums, since one would wait for itself. */
static double place(uint32_t dims, int exponent, const double *centre, double *z)
{
    const double scale = scalbn(1.0, exponent);
    double       sum[4] = {0.0, 0.0, 0.0, 0.0};
    uint32_t     k = 0;
    for (; k + 4 <= dims; k += 4) {
        for (uint32_t j = 0; j < 4; j++) {
            z[k + j] = z[k + j] * scale - (centre != NULL ? centre[k + j] : 0.0);
            sum[j] += z[k + j] * z[k + j];
        }
    }
    for (; k < dims; k++) {
        z[k] = z[k] * scale - (centre != NULL ? centre[k] : 0.0);
        sum[0] += z[k] * z[k];
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static int clamp_exponent(int exponent)
{
    return exponent < -EXPONENT_CLAMP ? -EXPONENT_CLAMP : exponent > EXPONENT_CLAMP ? EXPONENT_CLAMP : exponent;
}

/* The exponent that brings a row's largest value to [1, 2) (0 for a zero row). */
static int own_exponent(const double *z, uint32_t dims)
{
    const double largest = largest_value(z, dims);
    return largest == 0.0 ? 0 : clamp_exponent(-ilogb(largest));
}

/* COSINE: makes a row's length 1 (0 for a zero row), then takes the centre off; returns the sum of squares. */
static double place_direction(uint32_t dims, const double *centre, double *z)
{
    const double length = sqrt(place(dims, own_exponent(z, dims), NULL, z));
    for (uint32_t k = 0; k < dims && length > 0.0; k++) z[k] /= length;
    return place(dims, 0, centre, z);
}

/* A row of the data; returns its sum of squares. */
static double place_row(const nf_knn_space *space, const double *centre, double *z)
{
    if (space->metric == NF_METRIC_COSINE) return place_direction(space->dims, centre, z);
    return place(space->dims, space->exponent, centre, z);
}

/* ---- scale and centre ---- */

static bool narrow_integers(const nf_matrix *matrix)
{
    return matrix->dtype <= NF_DTYPE_I16;
}

static nf_status choose_scale(nf_context *ctx, nf_knn_space *space)
{
    survey data = {.integers = true}, queries = {.integers = true};
    if (!narrow_integers(space->data)) NF_TRY(run_survey(ctx, space->data, &data));
    if (!narrow_integers(space->queries) && data.integers) NF_TRY(run_survey(ctx, space->queries, &queries));
    space->integers = data.integers && queries.integers;
    if (space->integers || data.rows == 0) return NF_OK;
    space->exponent = clamp_exponent((int)-(data.exponents / (int64_t)data.rows));
    space->open = space->exponent < -EXPONENT_LIMIT || space->exponent > EXPONENT_LIMIT;
    return NF_OK;
}

/* Rows at even distances, for the centre. */
typedef struct sample {
    const nf_knn_space *space;
    double             *row;
    uint64_t            count;
} sample;

/* Reads row i of a sample as it will be packed; returns its largest value. */
static double sample_row(const sample *of, uint64_t i, const double *centre)
{
    const nf_matrix *data = of->space->data;
    nf_matrix_row_f64(data, i * data->rows / of->count, of->row);
    place_row(of->space, centre, of->row);
    return largest_value(of->row, data->dims);
}

/* The mean. Rows far out are left out of it: one of them would carry the centre away. */
static void take_mean(const sample *of, double *centre)
{
    const uint32_t dims = of->space->dims;
    uint64_t       used = 0;
    for (uint64_t i = 0; i < of->count; i++) {
        if (!(sample_row(of, i, NULL) <= LARGEST_INTEGER)) continue;
        for (uint32_t k = 0; k < dims; k++) centre[k] += of->row[k];
        used++;
    }
    for (uint32_t k = 0; k < dims && used > 0; k++) {
        centre[k] /= (double)used;
        if (of->space->integers) centre[k] = nearbyint(centre[k]);
    }
}

/* The power of two that brings a typical deviation from the centre to about 1: data far from the origin have small
 * ones. */
static int deviation_exponent(const sample *of, const double *centre)
{
    int64_t sum = 0, used = 0;
    for (uint64_t i = 0; i < of->count; i++) {
        const double largest = sample_row(of, i, centre);
        if (!(largest > 0.0) || isinf(largest)) continue;
        sum += ilogb(largest);
        used++;
    }
    return used > 0 ? (int)-(sum / used) : 0;
}

static void rescale(nf_knn_space *space, int more)
{
    const int exponent = clamp_exponent(space->exponent + more);
    for (uint32_t k = 0; k < space->dims; k++) space->centre[k] = scalbn(space->centre[k], exponent - space->exponent);
    space->exponent = exponent;
    space->open = exponent < -EXPONENT_LIMIT || exponent > EXPONENT_LIMIT;
}

static nf_status choose_centre(nf_context *ctx, nf_knn_space *space)
{
    sample of = {.space = space, .count = SAMPLE_VALUES / space->dims + 1};
    of.row = nf_alloc(ctx, space->dims, sizeof *of.row);
    if (of.row == NULL) return nf_alloc_status(ctx);
    if (of.count > SAMPLE_ROWS) of.count = SAMPLE_ROWS;
    if (of.count > space->data->rows) of.count = space->data->rows;
    take_mean(&of, space->centre);
    if (!space->integers && space->metric != NF_METRIC_COSINE) rescale(space, deviation_exponent(&of, space->centre));
    for (uint32_t k = 0; k < space->dims; k++) space->centre_length += space->centre[k] * space->centre[k];
    space->centre_length = sqrt(space->centre_length);
    nf_free(of.row);
    return NF_OK;
}

nf_status nf_knn_space_open(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t metric,
                            nf_knn_space *space)
{
    const double k = (double)data->dims + SPARE;
    *space = (nf_knn_space){.data = data, .queries = queries, .metric = metric, .dims = data->dims};
    space->gamma = k * U32 / (1.0 - k * U32);
    space->centre = nf_alloc_zero(ctx, data->dims, sizeof *space->centre);
    if (space->centre == NULL) return nf_alloc_status(ctx);
    nf_status status = NF_OK;
    if (metric != NF_METRIC_COSINE) status = choose_scale(ctx, space);
    /* Products of integers are exact as they are. */
    if (status >= 0 && !(metric == NF_METRIC_IP && space->integers)) status = choose_centre(ctx, space);
    if (status < 0) nf_knn_space_close(space);
    return status;
}

void nf_knn_space_close(nf_knn_space *space)
{
    nf_free(space->centre);
    space->centre = NULL;
}

/* ---- rows ---- */

static float round_up(double value)
{
    const float narrow = (float)value;
    return (double)narrow < value ? nextafterf(narrow, INFINITY) : narrow;
}

static float round_down(double value)
{
    return -round_up(-value);
}

/* At least the length of a row whose sum of squares was computed as square, and of the row rounded to binary32. */
static double length_bound(double square)
{
    return sqrt(square) * (1.0 + 0x1p-20);
}

/* Whether all keys of a row with queries up to length largest are exact: sums stay within the integers of binary32.
 * For L2 the squares of queries must be exact in binary64 as well. */
static bool exact_keys(const nf_knn_space *space, double half, double length, double largest)
{
    if (!space->integers || space->metric == NF_METRIC_COSINE) return false;
    if (space->metric == NF_METRIC_L2) return half + length * largest <= 0x1p23 && largest <= 0x1p24;
    return length * largest <= 0x1p24;
}

static void store_row(const nf_knn_block *block, uint32_t i, uint32_t dims, const double *z)
{
    float *to = block->panel + nf_panel_at(dims, i, 0);
    for (uint32_t k = 0; k < dims; k++) to[(size_t)k * NF_LANES] = z != NULL ? (float)z[k] : 0.0f;
}

bool nf_knn_pack_row(const nf_knn_space *space, nf_knn_block *block, uint32_t i, double largest, double *z)
{
    nf_matrix_row_f64(space->data, block->first + i, z);
    const double square = place_row(space, space->centre, z);
    const double length = length_bound(square), half = space->metric == NF_METRIC_L2 ? 0.5 * square : 0.0;

    if (space->open || !(length <= LONGEST)) {
        store_row(block, i, space->dims, NULL);
        block->low[i] = -FLT_MAX;
        block->high[i] = FLT_MAX;
        block->reach[i] = 0.0f;
        return false;
    }
    store_row(block, i, space->dims, z);
    const bool   exact = exact_keys(space, half, length, largest);
    const double slack = exact ? 0.0 : half * (8.0 * U32) + ABSOLUTE;
    block->low[i] = round_down(half - slack);
    block->high[i] = round_up(half + slack);
    block->reach[i] = exact ? 0.0f : round_up(length);
    return exact;
}

/* ---- queries ---- */

/* IP and COSINE: the order of rows does not change when a query is scaled; each is brought to about 1. */
static double place_query(const nf_knn_space *space, double *z, bool *open)
{
    const uint32_t dims = space->dims;
    if (space->metric == NF_METRIC_COSINE) return place_direction(dims, NULL, z);
    if (space->metric == NF_METRIC_L2) return place(dims, space->exponent, space->centre, z);
    if (space->integers) return place(dims, 0, NULL, z);
    const int own = own_exponent(z, dims), both = own + space->exponent;
    if (both < -EXPONENT_LIMIT || both > EXPONENT_LIMIT) *open = true;
    return place(dims, own, NULL, z);
}

/* What the rounding of delivered distances can do to the order, in terms of keys, beyond what grows with a row's
 * length. */
static double delivered_margin(const nf_knn_space *space, double square)
{
    const double factor = 4.0 * ((double)space->dims + 10.0) * U64;
    switch (space->metric) {
    case NF_METRIC_L2: return factor * square;
    case NF_METRIC_IP: return factor * space->centre_length * sqrt(square);
    default: return 2.0 * factor; /* also the rounding of lengths, which the centre separates from a row's own */
    }
}

double nf_knn_pack_query(const nf_knn_space *space, nf_knn_round *round, uint32_t i, double *z)
{
    nf_knn_query *query = &round->queries[i];
    float        *to = round->values + (size_t)i * space->dims;
    bool          open = space->open;

    nf_matrix_row_f64(space->queries, round->first + i, z);
    const double square = place_query(space, z, &open), length = length_bound(square);
    *query = (nf_knn_query){.limit = INFINITY, .norm = square, .margin = delivered_margin(space, square)};
    if (open || !(length <= LONGEST)) { /* products are 0, and no limit is ever set */
        query->margin = HUGE_VAL;
        memset(to, 0, space->dims * sizeof *to);
        return 0.0;
    }
    for (uint32_t k = 0; k < space->dims; k++) to[k] = (float)z[k];
    query->gain = round_up(space->gamma * length);
    return length;
}
