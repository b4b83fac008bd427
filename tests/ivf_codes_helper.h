/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of codes and of the engine's search share: indexes made of given rows, centroids and labels by the engine's
 * operations; searches; and codes and factors read from the layout of engine_ivf.h, bit by bit.
 */
#ifndef NF_TESTS_IVF_CODES_HELPER_H
#define NF_TESTS_IVF_CODES_HELPER_H

#include "cpu/cpu_ivf.h"
#include "engine/engine.h"
#include "exact_helper.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 4u
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW 4u
#endif
#endif
#ifndef SLOW
#define SLOW 1u /* divides the sizes of samples */
#endif

/* Normally distributed, by Box and Muller. */
static inline double normal(uint64_t *seed)
{
    const double radius = sqrt(-2.0 * log(1.0 - random_unit(seed)));
    return radius * cos(6.283185307179586 * random_unit(seed));
}

static inline float *normals(size_t count, double scale, uint64_t *seed)
{
    float *values = malloc((count + 1) * sizeof *values);
    for (size_t i = 0; i < count; i++) values[i] = (float)(scale * normal(seed));
    return values;
}

static inline double dot(const float *a, const float *b, uint32_t dims)
{
    double sum = 0;
    for (uint32_t k = 0; k < dims; k++) sum += (double)a[k] * (double)b[k];
    return sum;
}

static inline double square_between(const float *a, const float *b, uint32_t dims)
{
    double sum = 0;
    for (uint32_t k = 0; k < dims; k++) sum += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
    return sum;
}

static inline const nf_ivf_ops *ops_of(nf_context *ctx)
{
    const nf_engine_ops *engine = NULL;
    assert_int_equal(nf_engine_for(ctx, NF_WORK_IVF, 0, 0, &engine), NF_OK);
    return engine->ivf;
}

static inline nf_context *context(uint32_t threads)
{
    return exact_context(NF_ISA_AUTO, threads, 0);
}

/* ---- an index made of given parts ---- */

/* All in the spaces of engine_ivf.h: the mean is removed from rows and centroids. */
typedef struct parts {
    uint64_t        rows;
    uint32_t        dims, lists, bits, metric;
    const float    *values;    /* rows x dims */
    const float    *centroids; /* lists x dims */
    const float    *mean;      /* dims */
    const uint32_t *labels;
    uint64_t        seed;      /* of the signs of the rotation */
} parts;

typedef struct coded {
    nf_context       *ctx;
    const nf_ivf_ops *ops;
    nf_ivf_view       view;
    nf_ivf_prepared  *prepared;
    uint64_t         *slots;    /* of each row: its place in the order of lists */
    uint32_t         *in_list;  /* of each row: its place in its list */
    double           *errors;   /* of each row */
    float            *rotated;  /* rows x padded */
    void             *owned[8];
    nf_status         status;
} coded;

static inline void *own(coded *at, uint32_t i, size_t count, size_t size)
{
    return at->owned[i] = calloc(count + 1, size);
}

static inline void place_rows(coded *at, const parts *from)
{
    const uint32_t lists = from->lists;
    uint64_t      *starts = own(at, 0, lists + 1, sizeof *starts), *blocks = own(at, 1, lists + 1, sizeof *blocks);
    uint64_t      *next = calloc(lists + 1, sizeof *next);
    at->slots = malloc((from->rows + 1) * sizeof *at->slots);
    at->in_list = malloc((from->rows + 1) * sizeof *at->in_list);
    for (uint64_t i = 0; i < from->rows; i++) at->in_list[i] = (uint32_t)next[from->labels[i]]++;
    for (uint32_t list = 0; list < lists; list++) {
        starts[list + 1] = starts[list] + next[list];
        blocks[list + 1] = blocks[list] + (next[list] + NF_IVF_BLOCK - 1) / NF_IVF_BLOCK;
    }
    for (uint64_t i = 0; i < from->rows; i++) at->slots[i] = starts[from->labels[i]] + at->in_list[i];
    at->view.list_start = starts;
    at->view.block_start = blocks;
    free(next);
}

/* Rotated centroids and mean. */
static inline nf_status place_centres(coded *at, const parts *from)
{
    const uint32_t padded = at->view.padded;
    uint8_t       *signs = own(at, 2, NF_IVF_ROUNDS * padded / 8, 1);
    float         *mean = own(at, 3, padded, sizeof *mean);
    float         *centroids = own(at, 4, (size_t)from->lists * padded, sizeof *centroids);
    uint64_t       seed = from->seed;
    for (uint32_t i = 0; i < NF_IVF_ROUNDS * padded / 8; i++) signs[i] = (uint8_t)random_bits(&seed);
    at->view.rotation = (nf_rotation_map){
        .kind = NF_ROTATION_FAST, .dims = from->dims, .padded = padded, .signs = signs};
    at->view.mean = from->mean;
    at->view.mean_rotated = mean;
    at->view.centroids = centroids;
    NF_TRY(at->ops->rotate(at->ctx, &at->view.rotation, from->mean, 1, mean));
    return at->ops->rotate(at->ctx, &at->view.rotation, from->centroids, from->lists, centroids);
}

/* Rows as the engine holds them in a build, a source of binary32 values. */
static inline nf_status open_values(nf_context *ctx, const nf_ivf_ops *ops, const nf_matrix *values, nf_ivf_source **source)
{
    uint64_t most;
    NF_TRY(ops->source_open(ctx, values, NF_METRIC_L2, source));
    return ops->block_rows(ctx, *source, &most);
}

static inline nf_status encode_blocks(coded *at, const parts *from, nf_ivf_source *source, uint8_t *blocks, uint8_t *records)
{
    for (uint64_t first = 0, count; first < from->rows; first += count) {
        NF_TRY(at->ops->load(at->ctx, source, NULL, first, &count));
        const nf_ivf_encode_job job = {.view = &at->view, .labels = from->labels + first, .slots = at->in_list + first,
                                       .blocks = blocks, .records = records, .code_errors = at->errors + first};
        NF_TRY(at->ops->encode(at->ctx, source, &job));
    }
    return at->ops->encode_end(at->ctx, source);
}

static inline nf_status encode_parts(coded *at, const parts *from, uint8_t *blocks, uint8_t *records)
{
    const nf_matrix values = {.data = from->values, .rows = from->rows, .dims = from->dims, .dtype = NF_DTYPE_F32};
    nf_ivf_source  *source = NULL;
    nf_status       status = open_values(at->ctx, at->ops, &values, &source);
    if (status == NF_OK) status = encode_blocks(at, from, source, blocks, records);
    at->ops->source_close(source);
    return status;
}

/* The list of each row, by the engine. */
static inline nf_status assign_values(nf_context *ctx, const nf_ivf_ops *ops, const float *rows, uint64_t count, uint32_t dims,
                                      const float *centroids, uint32_t lists, uint32_t *labels)
{
    const nf_matrix values = {.data = rows, .rows = count, .dims = dims, .dtype = NF_DTYPE_F32};
    nf_ivf_source  *source = NULL;
    nf_status       status = open_values(ctx, ops, &values, &source);
    if (status == NF_OK) status = ops->use_centroids(ctx, source, centroids, lists);
    for (uint64_t first = 0, some; status == NF_OK && first < count; first += some) {
        status = ops->load(ctx, source, NULL, first, &some);
        if (status == NF_OK) status = ops->assign(ctx, source, labels + first);
    }
    ops->source_close(source);
    return status;
}

/* The engine's rotate, encode and prepare; the status is that of the first that failed. */
static inline coded code_parts(nf_context *ctx, const parts *from)
{
    const uint32_t padded = (from->dims + 7) / 8 * 8;
    coded          at = {.ctx = ctx, .ops = ops_of(ctx)};
    at.view = (nf_ivf_view){.rows = from->rows, .dims = from->dims, .padded = padded, .lists = from->lists,
                            .bits = from->bits, .metric = from->metric};
    place_rows(&at, from);
    at.errors = malloc((from->rows + 1) * sizeof *at.errors);
    at.rotated = malloc((from->rows + 1) * padded * sizeof *at.rotated);
    at.status = place_centres(&at, from);
    if (at.status == NF_OK) at.status = at.ops->rotate(ctx, &at.view.rotation, from->values, from->rows, at.rotated);
    uint8_t *blocks = own(&at, 5, at.view.block_start[from->lists] * nf_ivf_block_bytes(padded), 1);
    uint8_t *records = own(&at, 6, from->rows * nf_ivf_record_bytes(padded, from->bits) + 8, 1);
    at.view.blocks = blocks;
    at.view.records = from->bits > 1 ? records : NULL;
    if (at.status == NF_OK) at.status = encode_parts(&at, from, blocks, records);
    if (at.status == NF_OK) at.status = at.ops->prepare(ctx, nf_context_memory(ctx), &at.view, &at.prepared);
    return at;
}

static inline coded code(nf_context *ctx, const parts *from)
{
    coded at = code_parts(ctx, from);
    assert_int_equal(at.status, NF_OK);
    return at;
}

static inline void close_coded(coded *at)
{
    at->ops->prepared_close(at->prepared);
    for (uint32_t i = 0; i < COUNT(at->owned); i++) free(at->owned[i]);
    free(at->slots);
    free(at->in_list);
    free(at->errors);
    free(at->rotated);
}

/* Rows around centroids, mean not zero. */
typedef struct sample_parts {
    parts     parts;
    float    *values, *centroids, *mean;
    uint32_t *labels;
} sample_parts;

/* sizes NULL: labels at random. */
static inline sample_parts make_parts(uint64_t rows, uint32_t dims, uint32_t lists, double spread, const uint32_t *sizes,
                                      uint64_t seed)
{
    sample_parts at = {.labels = malloc((rows + 1) * sizeof(uint32_t))};
    uint32_t     list = 0, used = 0;
    at.values = normals(rows * dims, spread, &seed);
    at.centroids = normals((size_t)lists * dims, 1.0, &seed);
    at.mean = normals(dims, 1.5, &seed);
    for (uint64_t i = 0; i < rows; i++) {
        if (sizes != NULL) {
            for (; used == sizes[list]; used = 0) list++;
            used++;
        }
        at.labels[i] = sizes != NULL ? list : (uint32_t)random_below(&seed, lists);
        for (uint32_t k = 0; k < dims; k++) at.values[i * dims + k] += at.centroids[(size_t)at.labels[i] * dims + k];
    }
    at.parts = (parts){.rows = rows, .dims = dims, .lists = lists, .bits = 1, .metric = NF_METRIC_L2,
                       .values = at.values, .centroids = at.centroids, .mean = at.mean, .labels = at.labels, .seed = seed};
    return at;
}

static inline void free_parts(sample_parts *at)
{
    free(at->values);
    free(at->centroids);
    free(at->mean);
    free(at->labels);
}

/* ---- results ---- */

typedef struct answer {
    uint64_t       *slots;
    float          *values;
    nf_ivf_counters counters;
} answer;

static inline answer ask(const coded *at, const float *queries, uint64_t count, const nf_ivf_question *question)
{
    const size_t results = count * question->k;
    answer       out = {.slots = calloc(results + 1, sizeof(uint64_t)), .values = calloc(results + 1, sizeof(float))};
    assert_int_equal(at->ops->search(at->ctx, &at->view, at->prepared, queries, count, question, out.slots, out.values,
                                     &out.counters),
                     NF_OK);
    return out;
}

static inline void free_answer(answer *at)
{
    free(at->slots);
    free(at->values);
}

/* Rows in order, each at most once, then padding; returns how many rows. */
static inline uint32_t check_form(const uint64_t *slots, const float *values, uint32_t k, uint64_t rows)
{
    uint8_t *seen = calloc(rows + 1, 1);
    uint32_t count = 0;
    while (count < k && slots[count] != UINT64_MAX) {
        assert_true(slots[count] < rows && !seen[slots[count]]);
        seen[slots[count]] = 1;
        assert_true(isfinite(values[count]));
        if (count > 0) {
            assert_true(values[count] > values[count - 1] ||
                        (values[count] == values[count - 1] && slots[count] > slots[count - 1]));
        }
        count++;
    }
    for (uint32_t i = count; i < k; i++) assert_true(slots[i] == UINT64_MAX && values[i] == INFINITY);
    free(seen);
    return count;
}

static inline void assert_same(const answer *a, const answer *b, size_t count)
{
    assert_memory_equal(a->slots, b->slots, count * sizeof *a->slots);
    assert_memory_equal(a->values, b->values, count * sizeof *a->values);
}

/* ---- what values should be ---- */

/* The true value: squared distance, or minus the inner product of the true vectors. */
static inline double true_value(const parts *from, const float *x, const float *q)
{
    double sum = 0;
    if (from->metric == NF_METRIC_L2) return square_between(x, q, from->dims);
    for (uint32_t k = 0; k < from->dims; k++) {
        sum += ((double)x[k] + (double)from->mean[k]) * ((double)q[k] + (double)from->mean[k]);
    }
    return -sum;
}

/* What a search adds to the estimates of a list. */
static inline double list_value(const parts *from, uint32_t list, const float *q)
{
    return true_value(from, from->centroids + (size_t)list * from->dims, q);
}

/* ---- reading the layout ---- */

typedef struct estimate {
    double value, error; /* error: of the short code, per unit of epsilon0 */
} estimate;

static inline double f32_at(const uint8_t *at)
{
    float value;
    memcpy(&value, at, sizeof value);
    return (double)value;
}

static inline uint32_t stored_bit(const uint8_t *bytes, size_t at)
{
    return bytes[at / 8] >> at % 8 & 1;
}

static inline const uint8_t *block_of(const coded *at, uint32_t list, uint64_t in_list)
{
    const size_t bytes = (size_t)at->view.padded * 4 + 320;
    return at->view.blocks + (at->view.block_start[list] + in_list / 32) * bytes;
}

static inline uint32_t sign_of(const uint8_t *block, uint32_t slot, uint32_t dim)
{
    return block[dim / 8 * 32 + slot] >> dim % 8 & 1;
}

/* From the short code of a row: add + g_add + rescale (<s, q> - sum q / 2). query: rotated. */
static inline estimate short_estimate(const coded *at, uint32_t list, uint64_t in_list, const float *query, double g_add)
{
    const uint32_t padded = at->view.padded, slot = (uint32_t)(in_list % 32);
    const uint8_t *block = block_of(at, list, in_list), *factors = block + (size_t)padded * 4;
    double         product = 0;
    uint16_t       half;
    for (uint32_t k = 0; k < padded; k++) product += ((double)sign_of(block, slot, k) - 0.5) * (double)query[k];
    memcpy(&half, factors + 256 + 2 * slot, sizeof half);
    const uint32_t bits = (uint32_t)half << 16;
    float          error;
    memcpy(&error, &bits, sizeof error);
    return (estimate){f32_at(factors + 4 * slot) + g_add + f32_at(factors + 128 + 4 * slot) * product, (double)error};
}

/* The whole code's number of a dim. */
static inline uint32_t whole_code(const coded *at, uint32_t list, uint64_t in_list, uint32_t dim)
{
    const uint32_t ex_bits = at->view.bits - 1;
    const size_t   record = 8 + (size_t)at->view.padded / 8 * ex_bits;
    const uint8_t *codes = at->view.records + (at->view.list_start[list] + in_list) * record + 8;
    uint32_t       u = sign_of(block_of(at, list, in_list), (uint32_t)(in_list % 32), dim) << ex_bits;
    for (uint32_t j = 0; j < ex_bits; j++) u |= stored_bit(codes, (size_t)dim * ex_bits + j) << j;
    return u;
}

static inline double whole_estimate(const coded *at, uint32_t list, uint64_t in_list, const float *query, double g_add)
{
    const uint32_t ex_bits = at->view.bits - 1;
    const double   kappa = ((double)(2u << ex_bits) - 1) / 2;
    const uint8_t *record = at->view.records +
                            (at->view.list_start[list] + in_list) * (8 + (size_t)at->view.padded / 8 * ex_bits);
    double         product = 0;
    for (uint32_t k = 0; k < at->view.padded; k++) {
        product += (whole_code(at, list, in_list, k) - kappa) * (double)query[k];
    }
    return f32_at(record) + g_add + f32_at(record + 4) * product;
}

#endif
