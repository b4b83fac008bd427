/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotation and encoding of rows (docs/ivf.md has the formulas; RaBitQ, arXiv:2405.12497, and its extension to more bits,
 * arXiv:2409.09913).
 *
 * A residual r becomes levels m_i = min(floor(t |r_i|), M), M = 2^ex_bits - 1, and signs. The rescaling factor t is to
 * maximise the cosine of r and its code, g(t) = sum (m_i + 1/2) |r_i| / sqrt(sum (m_i + 1/2)^2) / |r|, with the levels
 * clamped as they are stored. g is smooth but for small steps, and its maximum lies between two values that are known
 * beforehand: t = tau sqrt(D) / |r|, best on average for few bits, and t = 2^ex_bits / max |r_i|, best for many. So a grid
 * from a little below the lesser to a little above the greater is tried, COARSE_PASSES times four values, and then a finer
 * one around the best, fine_passes() times four.
 *
 * Factors are computed in binary64 from the code as it is stored.
 */
#include <math.h>
#include <string.h>

#include "core/core_pool.h"
#include "cpu_ivf.h"

#define ROWS_PER_TASK 64u

void nf_cpu_ivf_rotate_row(const nf_ivf_kernels *kernels, const nf_rotation_map *map, const float *row, float *out)
{
    if (map->kind == NF_ROTATION_FAST) {
        memcpy(out, row, map->dims * sizeof *out);
        memset(out + map->dims, 0, (map->padded - map->dims) * sizeof *out);
        kernels->rotate(map, out);
        return;
    }
    for (uint32_t i = 0; i < map->padded; i++) {
        const float *line = map->matrix + (size_t)i * map->padded;
        float        sum = 0;
        for (uint32_t k = 0; k < map->dims; k++) sum += line[k] * row[k];
        out[i] = sum;
    }
}

typedef struct rotation {
    const nf_ivf_kernels  *kernels;
    const nf_rotation_map *map;
    const float           *rows;
    uint64_t               count;
    float                 *rotated;
} rotation;

static nf_status rotate_rows(void *arg, uint64_t task, uint32_t worker)
{
    const rotation *job = arg;
    const uint64_t  first = task * ROWS_PER_TASK;
    const uint64_t  end = first + ROWS_PER_TASK < job->count ? first + ROWS_PER_TASK : job->count;

    (void)worker;
    for (uint64_t i = first; i < end; i++) {
        nf_cpu_ivf_rotate_row(job->kernels, job->map, job->rows + i * job->map->dims, job->rotated + i * job->map->padded);
    }
    return NF_OK;
}

nf_status nf_cpu_ivf_rotate(nf_context *ctx, const nf_rotation_map *map, const float *rows, uint64_t count, float *rotated)
{
    rotation job = {nf_cpu_ivf_kernels(nf_context_isa(ctx)), map, rows, count, rotated};
    return nf_pool_run(ctx, rotate_rows, &job, (count + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
}

/* Step of the best uniform quantiser of a Gaussian with that many ex bits, in inverse standard deviations. */
static double mean_factor(uint32_t ex_bits)
{
    static const double few[] = {0, 1.01, 1.71, 3.03, 5.45};
    return ex_bits <= 4 ? few[ex_bits] : 5.45 * pow(1.8, ex_bits - 4.0);
}

/* Tries four values of t; keeps the best by squared cosine. */
static void try_four(const nf_ivf_kernels *kernels, const float *residual, uint32_t padded, const float t[4], float most,
                     double *best, float *best_t)
{
    float product[4], square[4];
    kernels->levels(residual, padded, t, most, product, square);
    for (int j = 0; j < 4; j++) {
        const double cosine = (double)product[j] * product[j] / square[j];
        if (cosine > *best) {
            *best = cosine;
            *best_t = t[j];
        }
    }
}

#define COARSE_PASSES 3

/* With many bits g is jagged: each of its D 2^ex_bits steps is a small change. The best of many nearby values is then wanted,
 * the more so the fewer dims there are to average over. */
static uint32_t fine_passes(uint32_t padded, uint32_t ex_bits)
{
    if (ex_bits < 6) return 2;
    const uint32_t passes = 2 + (ex_bits - 4) * 1024 / padded;
    return passes < 40 ? passes : 40;
}

float nf_cpu_ivf_rescale_factor(const nf_ivf_kernels *kernels, const float *residual, uint32_t padded, double norm,
                                uint32_t ex_bits)
{
    const float most = (float)((1u << ex_bits) - 1);
    float       largest = 0, t[4];
    for (uint32_t i = 0; i < padded; i++) {
        const float magnitude = fabsf(residual[i]);
        if (magnitude > largest) largest = magnitude; /* fmaxf would be a call */
    }

    const double by_mean = mean_factor(ex_bits) * sqrt(padded) / norm, by_largest = (most + 1) / largest;
    const double low = 0.8 * fmin(by_mean, by_largest), high = 1.12 * fmax(by_mean, by_largest);
    double       best = 0, ratio = pow(high / low, 1.0 / (4 * COARSE_PASSES - 1)), at = low;
    float        best_t = (float)by_largest;
    for (int pass = 0; pass < COARSE_PASSES; pass++) {
        for (int j = 0; j < 4; j++, at *= ratio) t[j] = (float)at;
        try_four(kernels, residual, padded, t, most, &best, &best_t);
    }
    const uint32_t passes = fine_passes(padded, ex_bits);
    const double   middle = best_t, step = pow(ratio, 1.0 / (2 * passes + 1));
    double         up = step, down = 1 / step;
    for (uint32_t pass = 0; pass < passes; pass++) {
        for (int j = 0; j < 4; j += 2, up *= step, down /= step) {
            t[j] = (float)(middle * up);
            t[j + 1] = (float)(middle * down);
        }
        try_four(kernels, residual, padded, t, most, &best, &best_t);
    }
    return best_t;
}

/* The upper half of a binary32 that is not below value. */
static uint16_t error_upwards(double value)
{
    float    rounded = (float)value;
    uint32_t bits;
    if (rounded < value) rounded = nextafterf(rounded, INFINITY);
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)((bits + 0xffff) >> 16);
}

/* What a code says about its residual. */
typedef struct code_sums {
    double ratio;    /* R: what <y, v> must be multiplied with to estimate <r, v>; 0 for a zero residual */
    double cy;       /* <c, y> */
    double square;   /* |r|^2 */
    double rc;       /* <r, c> */
    double constant; /* sqrt(1 / cos^2 - 1) */
} code_sums;

static code_sums sums_of(const nf_ivf_kernels *kernels, const uint16_t *code, double kappa, const float *residual,
                         const float *centroid, uint32_t padded)
{
    double    s[5];
    code_sums out = {0};
    kernels->moments(code, (float)kappa, residual, centroid, padded, s);
    out.square = s[3];
    out.rc = s[4];
    if (s[0] > 0) { /* else the residual is zero */
        out.ratio = s[3] / s[0];
        out.cy = s[1];
        out.constant = sqrt(fmax(0, s[3] * s[2] / (s[0] * s[0]) - 1));
    }
    return out;
}

/* Factors of an estimate; docs/ivf.md, section 4. mean: <r, mean>, used for inner products. */
static void factors_of(const code_sums *sums, uint32_t metric, double mean, float *add, float *rescale)
{
    if (metric == NF_METRIC_L2) {
        *add = (float)(sums->square + 2 * sums->ratio * sums->cy);
        *rescale = (float)(-2 * sums->ratio);
    } else {
        *add = (float)(-(sums->rc + mean) + sums->ratio * sums->cy);
        *rescale = (float)-sums->ratio;
    }
}

typedef struct row_encoder {
    const nf_ivf_encode_job *job;
    const float             *rotated; /* count x padded */
    uint64_t                 count;
    const nf_ivf_kernels    *kernels;
    nf_context              *ctx;
    float                   *residuals; /* per worker: padded */
    uint16_t                *codes;     /* per worker: padded */
} row_encoder;

static void put_short_code(uint8_t *block, uint32_t slot, const uint16_t *code, uint32_t padded)
{
    for (uint32_t row = 0; row < padded / 8; row++) {
        uint32_t bits = 0;
        for (uint32_t j = 0; j < 8; j++) bits |= (uint32_t)code[row * 8 + j] << j;
        block[(size_t)row * NF_IVF_BLOCK + slot] = (uint8_t)bits;
    }
}

static void put_ex_code(uint8_t *out, const uint16_t *code, uint32_t padded, uint32_t ex_bits)
{
    const uint64_t mask = (1u << ex_bits) - 1;
    for (uint32_t group = 0; group < padded / 8; group++) {
        uint64_t bits = 0;
        for (uint32_t j = 0; j < 8; j++) bits |= (code[group * 8 + j] & mask) << (j * ex_bits);
        for (uint32_t byte = 0; byte < ex_bits; byte++) out[group * ex_bits + byte] = (uint8_t)(bits >> (8 * byte));
    }
}

/* The short code and its factors; returns the constant of its error. */
static double encode_short(const row_encoder *encoder, const float *residual, const float *centroid, double mean,
                           uint8_t *block, uint32_t slot, uint16_t *code)
{
    const nf_ivf_view *view = encoder->job->view;
    const uint32_t     padded = view->padded;
    float              add, rescale;

    encoder->kernels->quantise(residual, padded, 1.0f, 0.0f, code);
    const code_sums sums = sums_of(encoder->kernels, code, 0.5, residual, centroid, padded);
    const double    freedom = padded > 1 ? padded - 1 : 1;
    const double    error = (view->metric == NF_METRIC_L2 ? 2 : 1) * sqrt(sums.square) * sums.constant / sqrt(freedom);
    const uint16_t  stored_error = error_upwards(error);
    factors_of(&sums, view->metric, mean, &add, &rescale);
    put_short_code(block, slot, code, padded);
    uint8_t *factors = block + (size_t)padded * (NF_IVF_BLOCK / 8);
    memcpy(factors + 4 * slot, &add, sizeof add);
    memcpy(factors + 4 * (NF_IVF_BLOCK + slot), &rescale, sizeof rescale);
    memcpy(factors + 8 * NF_IVF_BLOCK + 2 * slot, &stored_error, sizeof stored_error);
    return sums.constant;
}

/* The whole code and its factors, in the row's record; returns the constant of its error. */
static double encode_whole(const row_encoder *encoder, const float *residual, const float *centroid, double mean, double norm,
                           uint8_t *record, uint16_t *code)
{
    const nf_ivf_view *view = encoder->job->view;
    const uint32_t     padded = view->padded, ex_bits = view->bits - 1;
    const double       kappa = ((1u << view->bits) - 1) / 2.0;
    const float        most = (float)((1u << ex_bits) - 1);
    float              add, rescale;

    const float t = norm > 0 ? nf_cpu_ivf_rescale_factor(encoder->kernels, residual, padded, norm, ex_bits) : 1.0f;
    encoder->kernels->quantise(residual, padded, t, most, code);
    const code_sums sums = sums_of(encoder->kernels, code, kappa, residual, centroid, padded);
    factors_of(&sums, view->metric, mean, &add, &rescale);
    memcpy(record, &add, sizeof add);
    memcpy(record + 4, &rescale, sizeof rescale);
    put_ex_code(record + 8, code, padded, ex_bits);
    return sums.constant;
}

static nf_status encode_row(const row_encoder *encoder, uint64_t i, float *residual, uint16_t *code)
{
    const nf_ivf_encode_job *job = encoder->job;
    const nf_ivf_view       *view = job->view;
    const uint32_t           padded = view->padded, list = job->labels[i];
    const float             *row = encoder->rotated + i * padded, *centroid = view->centroids + (size_t)list * padded;
    const uint64_t           block = view->block_start[list] + job->slots[i] / NF_IVF_BLOCK;
    double                   square = 0, mean = 0;

    for (uint32_t k = 0; k < padded; k++) {
        residual[k] = row[k] - centroid[k];
        square += (double)residual[k] * residual[k];
        mean += (double)residual[k] * view->mean_rotated[k];
    }
    if (!(square < 1e37)) {
        return nf_fail(encoder->ctx, NF_ERR_VALUE, "a row lies %g from its centroid, at most 3e18 is allowed", sqrt(square));
    }
    double constant = encode_short(encoder, residual, centroid, mean, job->blocks + block * nf_ivf_block_bytes(padded),
                                   (uint32_t)(job->slots[i] % NF_IVF_BLOCK), code);
    if (view->bits > 1) {
        uint8_t *record =
            job->records + (view->list_start[list] + job->slots[i]) * nf_ivf_record_bytes(padded, view->bits);
        constant = encode_whole(encoder, residual, centroid, mean, sqrt(square), record, code);
    }
    job->code_errors[i] = constant;
    return NF_OK;
}

static nf_status encode_rows(void *arg, uint64_t task, uint32_t worker)
{
    const row_encoder *encoder = arg;
    const uint32_t padded = encoder->job->view->padded;
    const uint64_t first = task * ROWS_PER_TASK, count = encoder->count;

    for (uint64_t i = first; i < first + ROWS_PER_TASK && i < count; i++) {
        NF_TRY(encode_row(encoder, i, encoder->residuals + (size_t)worker * padded, encoder->codes + (size_t)worker * padded));
    }
    return NF_OK;
}

nf_status nf_cpu_ivf_encode(nf_context *ctx, const nf_ivf_encode_job *job, const float *rotated, uint64_t count)
{
    const uint64_t tasks = (count + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
    const uint64_t values = (uint64_t)nf_pool_workers(ctx, tasks) * job->view->padded;
    row_encoder    encoder = {
           .job = job,
           .rotated = rotated,
           .count = count,
           .kernels = nf_cpu_ivf_kernels(nf_context_isa(ctx)),
           .ctx = ctx,
    };

    encoder.residuals = nf_alloc(ctx, values, sizeof(float));
    encoder.codes = nf_alloc(ctx, values, sizeof(uint16_t));
    nf_status status = NF_OK;
    if (encoder.residuals == NULL || encoder.codes == NULL) {
        status = nf_alloc_status(ctx);
    } else {
        status = nf_pool_run(ctx, encode_rows, &encoder, tasks);
    }
    nf_free(encoder.residuals);
    nf_free(encoder.codes);
    return status;
}
