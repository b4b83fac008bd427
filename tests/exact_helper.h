/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of exact search share: contexts, matrices of any type, and the oracle.
 *
 * The oracle decides every pair by itself: in extended precision where that is far from the radius (64 bits of mantissa and
 * 15 of exponent: nothing of binary64 over- or underflows), else by nf_exact_compare, which test_matrix_exact compares with
 * big integers. It knows nothing of groups, boxes, kernels and batches.
 */
#ifndef NF_TESTS_EXACT_HELPER_H
#define NF_TESTS_EXACT_HELPER_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/core_system.h"
#include "matrix/matrix_convert.h"
#include "matrix/matrix_exact.h"
#include "nearfield/radius.h"
#include "random_helper.h"

static inline nf_context *exact_context(nf_isa isa, uint32_t threads, uint64_t memory)
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_context_params_init(&params);
    params.isa = (uint32_t)isa;
    params.threads = threads;
    params.memory = memory;
    assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
    return ctx;
}

/* Whether the environment has the CUDA engine answer: it lacks some kernels, and allows other sizes of groups. */
static inline int exact_on_cuda(void)
{
    const char *engine = getenv("NEARFIELD_ENGINE");
    return engine != NULL && strcmp(engine, "cuda") == 0;
}

/* Whether the device is an emulated one, on which a thousand small groups take a minute, or this is one run of many
 * (sanitizers, instruction sets): the tests leave out the largest cases then. */
static inline int exact_short(void)
{
    return getenv("NEARFIELD_TEST_SHORT") != NULL;
}

/* Instruction sets of this machine; AUTO ends the list. They are the CPU engine's: the CUDA engine has the first alone. */
static inline nf_isa exact_isa(uint32_t i)
{
    if (exact_on_cuda() && i > 0) return NF_ISA_AUTO;
    for (nf_isa isa = NF_ISA_SCALAR; isa <= NF_ISA_NEON; isa = (nf_isa)(isa + 1)) {
        if (nf_system_has_isa(isa) && i-- == 0) return isa;
    }
    return NF_ISA_AUTO;
}

/* ---- matrices ---- */

static inline nf_matrix exact_matrix(nf_dtype dtype, uint64_t rows, uint32_t dims)
{
    return (nf_matrix){
        .data = calloc(rows * dims + 1, nf_dtype_bytes(dtype)), .rows = rows, .dims = dims, .dtype = (uint32_t)dtype};
}

static inline void exact_free(nf_matrix *matrix)
{
    free((void *)(uintptr_t)matrix->data);
    matrix->data = NULL;
}

/* Stores a value, which the type must hold (reals: rounded). */
static inline void exact_put(const nf_matrix *matrix, uint64_t row, uint32_t column, double value)
{
    const size_t bytes = nf_dtype_bytes((nf_dtype)matrix->dtype);
    char        *to = (char *)(uintptr_t)nf_matrix_row(matrix, row) + column * bytes;
    const float  narrow = (float)value;
    switch ((nf_dtype)matrix->dtype) {
    case NF_DTYPE_F64: memcpy(to, &value, 8); break;
    case NF_DTYPE_F32: memcpy(to, &narrow, 4); break;
    case NF_DTYPE_F16: memcpy(to, &(uint16_t){nf_f32_to_f16(narrow)}, 2); break;
    default: memcpy(to, &(int64_t){(int64_t)value}, bytes); break; /* low bytes of two's complement */
    }
}

static inline double exact_get(const nf_matrix *matrix, uint64_t row, uint32_t column)
{
    double *values = malloc(matrix->dims * sizeof *values);
    nf_matrix_row_f64(matrix, row, values);
    const double value = values[column];
    free(values);
    return value;
}

/* All values as binary64; the caller frees. */
static inline double *exact_values(const nf_matrix *matrix)
{
    double *values = malloc((matrix->rows * matrix->dims + 1) * sizeof *values);
    for (uint64_t row = 0; row < matrix->rows; row++) nf_matrix_row_f64(matrix, row, values + row * matrix->dims);
    return values;
}

/* ---- the oracle ---- */

/* What is true of every (query, row) pair. */
typedef struct exact_truth {
    uint64_t queries, rows;
    uint32_t dims;
    double  *x, *y;     /* values */
    int8_t  *side;      /* [query * rows + row]: -1 inside, 0 at the radius, 1 outside */
    uint64_t ties;      /* in all; of pairs i != j in a self-join */
} exact_truth;

static inline int exact_side(const double *x, const double *y, uint32_t dims, double radius)
{
    long double sum = 0.0L, square = (long double)radius * radius;
    if (isinf(radius)) return -1;
    for (uint32_t i = 0; i < dims; i++) {
        const long double difference = (long double)x[i] - y[i];
        sum += difference * difference;
    }
    if (sum > square * (1.0L + 0x1p-40L)) return 1;
    if (sum < square * (1.0L - 0x1p-40L)) return -1;
    return nf_exact_compare(x, y, dims, radius);
}

/* queries NULL: a self-join. */
static inline exact_truth exact_truth_of(const nf_matrix *data, const nf_matrix *queries, double radius)
{
    const nf_matrix *from = queries != NULL ? queries : data;
    exact_truth      truth = {.queries = from->rows, .rows = data->rows, .dims = data->dims};
    truth.x = exact_values(from);
    truth.y = exact_values(data);
    truth.side = malloc(truth.queries * truth.rows + 1);
    for (uint64_t q = 0; q < truth.queries; q++) {
        for (uint64_t p = 0; p < truth.rows; p++) {
            int8_t *side = &truth.side[q * truth.rows + p];
            if (queries == NULL && p < q) {
                *side = truth.side[p * truth.rows + q];
            } else {
                *side = (int8_t)exact_side(truth.x + q * truth.dims, truth.y + p * truth.dims, truth.dims, radius);
            }
            if (*side == 0 && (queries != NULL || p != q)) truth.ties++;
        }
    }
    return truth;
}

static inline void exact_truth_free(exact_truth *truth)
{
    free(truth->x);
    free(truth->y);
    free(truth->side);
}

static inline int exact_wanted(const exact_truth *truth, const nf_radius_params *params, int self_join, uint64_t q,
                               uint64_t p)
{
    const int side = truth->side[q * truth->rows + p];
    if (self_join && q == p && !params->self) return 0;
    if (self_join && q > p && params->half) return 0;
    return side < 0 || (side == 0 && !params->strict);
}

/* The distance that has to be delivered. */
static inline double exact_distance(const exact_truth *truth, const nf_radius_params *params, uint64_t q, uint64_t p)
{
    const double distance =
        nf_exact_distance(truth->x + q * truth->dims, truth->y + p * truth->dims, truth->dims);
    return distance > params->radius ? params->radius : distance;
}

/* The nearest binary32 that is not above the radius. */
static inline float exact_narrow(double distance, double radius)
{
    float narrow = (float)distance;
    while ((double)narrow > radius) narrow = nextafterf(narrow, 0.0f);
    return narrow;
}

static inline double exact_delivered(const void *distances, uint32_t as, uint64_t at)
{
    return as == NF_DISTANCES_F64 ? ((const double *)distances)[at] : (double)((const float *)distances)[at];
}

/* One row: the wanted ids and no others, in the wanted order, with the wanted distances to the bit. Returns a text that
 * says what is wrong, or NULL. */
static inline const char *exact_row_fault(const exact_truth *truth, const nf_radius_params *params, int self_join,
                                          uint64_t q, const int32_t *ids, const void *distances, uint64_t begin,
                                          uint64_t end)
{
    uint64_t wanted = 0;
    for (uint64_t p = 0; p < truth->rows; p++) wanted += (uint64_t)exact_wanted(truth, params, self_join, q, p);
    if (end - begin < wanted) return "pairs are missing";
    if (end - begin > wanted) return "pairs too many";
    double before = -1.0;
    for (uint64_t i = begin; i < end; i++) {
        if (ids[i] < 0 || (uint64_t)ids[i] >= truth->rows) return "an id is out of range";
        const uint64_t p = (uint64_t)ids[i];
        const double   distance = exact_distance(truth, params, q, p);
        if (!exact_wanted(truth, params, self_join, q, p)) return "a pair is no result";
        if (params->sort == NF_SORT_ID && i > begin && ids[i] <= ids[i - 1]) return "ids do not ascend";
        if (params->sort == NF_SORT_DISTANCE && i > begin &&
            (distance < before || (distance == before && ids[i] <= ids[i - 1]))) {
            return "distances do not ascend";
        }
        before = distance;
        if (params->distances == NF_DISTANCES_F64 && ((const double *)distances)[i] != distance) return "wrong distance";
        if (params->distances == NF_DISTANCES_F32 &&
            ((const float *)distances)[i] != exact_narrow(distance, params->radius)) {
            return "wrong distance";
        }
    }
    return NULL;
}

static inline void exact_fail(const char *what, uint64_t q, const nf_radius_params *params, const nf_radius_stats *stats)
{
    fail_msg("query %d: %s (radius %a, candidates %s, refine %s, self %u, half %u, strict %u)", (int)q, what,
             params->radius, nf_candidates_name(params->candidates), stats->refine, params->self, params->half,
             params->strict);
}

static inline void exact_check_stats(const exact_truth *truth, const nf_radius_params *params, const nf_radius_stats *stats,
                                     uint64_t pairs)
{
    uint64_t rows = 0;
    for (int b = 0; b < NF_HISTOGRAM_BINS; b++) rows += stats->histogram[b];
    assert_int_equal(rows, truth->queries);
    assert_int_equal(stats->pairs, pairs);
    assert_int_equal(stats->rows, truth->rows);
    assert_int_equal(stats->queries, truth->queries);
    assert_int_equal(stats->dims, truth->dims);
    if (stats->ties != truth->ties) exact_fail("wrong number of ties", 0, params, stats);
    assert_true(stats->compared <= truth->queries * truth->rows);
    assert_true(stats->compared >= (pairs < truth->rows ? 0 : pairs - truth->rows)); /* self pairs are not compared */
    assert_true(stats->candidates != NF_CANDIDATES_AUTO);
    if (params->candidates != NF_CANDIDATES_AUTO) assert_int_equal(stats->candidates, params->candidates);
    assert_true((stats->why[0] != '\0') == (params->candidates == NF_CANDIDATES_AUTO));
}

/* Asks once, and compares everything with the truth. */
static inline void exact_check_csr(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                   const nf_radius_params *params, const exact_truth *truth)
{
    nf_csr         *csr = NULL;
    nf_radius_stats stats = {.struct_size = sizeof stats};
    const nf_status status = nf_radius_csr(ctx, index, queries, params, &csr, &stats);
    if (status != NF_OK) fail_msg("nf_radius_csr: %s", nf_context_error(ctx)->text);
    assert_int_equal(csr->rows, truth->queries);
    assert_int_equal(csr->columns, truth->rows);
    assert_int_equal(csr->indptr[0], 0);
    assert_int_equal(csr->indptr[csr->rows], csr->pairs);
    assert_int_equal(csr->distances_as, params->distances);
    assert_true(csr->pairs == 0 || (csr->distances == NULL) == (params->distances == NF_DISTANCES_NONE));
    for (uint64_t q = 0; q < csr->rows; q++) {
        const char *fault = exact_row_fault(truth, params, queries == NULL, q, csr->indices, csr->distances,
                                            (uint64_t)csr->indptr[q], (uint64_t)csr->indptr[q + 1]);
        if (fault != NULL) exact_fail(fault, q, params, &stats);
    }
    exact_check_stats(truth, params, &stats, csr->pairs);
    assert_int_equal(stats.batches, truth->queries > 0 ? 1 : 0);
    nf_csr_release(csr);
}

/* The same by counts. */
static inline void exact_check_counts(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                      const nf_radius_params *params, const exact_truth *truth)
{
    uint64_t       *counts = malloc((truth->queries + 1) * sizeof *counts);
    uint64_t        pairs = 0;
    nf_radius_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(nf_radius_counts(ctx, index, queries, params, counts, &stats), NF_OK);
    for (uint64_t q = 0; q < truth->queries; q++) {
        uint64_t wanted = 0;
        for (uint64_t p = 0; p < truth->rows; p++) wanted += (uint64_t)exact_wanted(truth, params, queries == NULL, q, p);
        if (counts[q] != wanted) exact_fail("wrong count", q, params, &stats);
        pairs += wanted;
    }
    exact_check_stats(truth, params, &stats, pairs);
    free(counts);
}

/* The same by batches; every query must come exactly once. Returns the number of batches. */
static inline uint64_t exact_check_stream(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                          const nf_radius_params *params, const exact_truth *truth)
{
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    nf_radius_stats   stats = {.struct_size = sizeof stats};
    uint8_t          *seen = calloc(truth->queries + 1, 1);
    uint64_t          pairs = 0, batches = 0, queries_seen = 0;
    nf_status         status;

    assert_int_equal(nf_radius_open(ctx, index, queries, params, &stream), NF_OK);
    while ((status = nf_radius_next(stream, &batch)) == NF_MORE) {
        batches++;
        assert_true(batch.rows > 0);
        assert_int_equal(batch.indptr[0], 0);
        assert_int_equal(batch.indptr[batch.rows], batch.pairs);
        nf_radius_stream_stats(stream, &stats);
        for (uint64_t i = 0; i < batch.rows; i++) {
            const uint64_t q = (uint64_t)batch.query_ids[i];
            assert_true(q < truth->queries && !seen[q]);
            assert_true(i == 0 || batch.query_ids[i] > batch.query_ids[i - 1]);
            seen[q] = 1;
            queries_seen++;
            const char *fault = exact_row_fault(truth, params, queries == NULL, q, batch.indices, batch.distances,
                                                (uint64_t)batch.indptr[i], (uint64_t)batch.indptr[i + 1]);
            if (fault != NULL) exact_fail(fault, q, params, &stats);
        }
        pairs += batch.pairs;
    }
    if (status != NF_OK) fail_msg("nf_radius_next: %s", nf_context_error(ctx)->text);
    assert_int_equal(batch.rows, 0);
    assert_int_equal(queries_seen, truth->queries);
    assert_int_equal(nf_radius_next(stream, &batch), NF_OK); /* the end stays the end */
    nf_radius_stream_stats(stream, &stats);
    exact_check_stats(truth, params, &stats, pairs);
    assert_int_equal(stats.batches, batches);
    nf_radius_close(stream);
    free(seen);
    return batches;
}

static inline nf_radius_index *exact_index(nf_context *ctx, const nf_matrix *data, uint32_t group_size)
{
    nf_radius_index_params params;
    nf_radius_index       *index = NULL;
    nf_radius_index_params_init(&params);
    params.group_size = group_size;
    const nf_status status = nf_radius_index_create(ctx, data, &params, &index);
    if (status != NF_OK) fail_msg("nf_radius_index_create: %s", nf_context_error(ctx)->text);
    return index;
}

static inline nf_radius_params exact_params(double radius)
{
    nf_radius_params params;
    nf_radius_params_init(&params);
    params.radius = radius;
    return params;
}

/* Whether two results are the same bytes. */
static inline int exact_same(const nf_csr *a, const nf_csr *b)
{
    const size_t bytes = a->distances_as == NF_DISTANCES_F64 ? 8 : a->distances_as == NF_DISTANCES_F32 ? 4 : 0;
    return a->rows == b->rows && a->pairs == b->pairs && a->distances_as == b->distances_as &&
           memcmp(a->indptr, b->indptr, (a->rows + 1) * sizeof *a->indptr) == 0 &&
           memcmp(a->indices, b->indices, a->pairs * sizeof *a->indices) == 0 &&
           (bytes == 0 || memcmp(a->distances, b->distances, a->pairs * bytes) == 0);
}

/* Runs one configuration; false where it is not supported. The result must be the bytes of *first, which is made, and
 * compared with the truth, by the first configuration. */
static inline int exact_check_one(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries,
                                  const nf_radius_params *params, const exact_truth *truth, nf_csr **first)
{
    nf_csr         *csr = NULL;
    nf_radius_stats stats = {.struct_size = sizeof stats};
    const nf_status status = nf_radius_csr(ctx, index, queries, params, &csr, &stats);
    if (status == NF_ERR_UNSUPPORTED && params->refine != NF_REFINE_AUTO) return 0;
    if (status != NF_OK) fail_msg("nf_radius_csr: %s", nf_context_error(ctx)->text);
    if (*first == NULL || !exact_same(csr, *first)) {
        exact_check_csr(ctx, index, queries, params, truth);
        if (*first != NULL) exact_fail("not the same bytes as before", 0, params, &stats);
        *first = csr;
        csr = NULL;
    } else {
        exact_check_stats(truth, params, &stats, csr->pairs);
    }
    nf_csr_release(csr);
    return 1;
}

/* Every candidate method, and every kernel that the data allow, on every instruction set: the same bytes, and true. */
static inline void exact_check_methods(const nf_matrix *data, const nf_matrix *queries, const nf_radius_params *params)
{
    static const uint32_t configurations[][2] = {
        {NF_CANDIDATES_BVH, NF_REFINE_AUTO},  {NF_CANDIDATES_BOXES, NF_REFINE_AUTO}, {NF_CANDIDATES_NONE, NF_REFINE_FP32},
        {NF_CANDIDATES_NONE, NF_REFINE_FP64}, {NF_CANDIDATES_NONE, NF_REFINE_INT8},  {NF_CANDIDATES_AUTO, NF_REFINE_AUTO},
    };
    exact_truth truth = exact_truth_of(data, queries, params->radius);
    nf_csr     *first = NULL;
    for (uint32_t i = 0; exact_isa(i) != NF_ISA_AUTO; i++) {
        nf_context      *ctx = exact_context(exact_isa(i), 1 + i, 0);
        nf_radius_index *index = exact_index(ctx, data, 0);
        for (size_t c = 0; c < sizeof configurations / sizeof configurations[0]; c++) {
            nf_radius_params use = *params;
            use.candidates = configurations[c][0];
            use.refine = configurations[c][1];
            (void)exact_check_one(ctx, index, queries, &use, &truth, &first);
        }
        nf_radius_index_release(index);
        nf_context_destroy(ctx);
    }
    nf_csr_release(first);
    exact_truth_free(&truth);
}

#endif
