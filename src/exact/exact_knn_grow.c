/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k nearest neighbours by radius searches that grow (named as future work in RT-HiSS): a radius by a sample,
 * a search of all queries, and then of those that have not found k yet, each with the radius that its count of
 * neighbours suggests, until none is left. Queries of similar radii are searched together.
 *
 * What makes a row complete: it holds k neighbours, and the k-th delivered distance is below the radius by more than
 * distances are rounded. Then every pair of that delivered distance or a smaller one is within the radius over the
 * reals, ties at the k-th distance among them, none has been cut to the radius, and the first k by (distance, id) are
 * the answer.
 *
 * What keeps it bounded: pairs come in batches. A search that delivers far more pairs than it has rows is stopped; from
 * then on rows are counted first, and those with far too many neighbours get a smaller radius, between one that was too
 * small and one that was too large for them. What cannot be told apart by radius (ties), or has taken too many rounds,
 * is fetched as it is, few rows at a time.
 */
#include "exact_knn_grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core_pool.h"
#include "matrix/matrix_convert.h"
#include "matrix/matrix_exact.h"

#define ROWS_PER_TASK 256u
#define SAMPLE_ROWS 512u     /* of the data, for a first guess */
#define SAMPLE_TURNS 10      /* counts of the sample, until its radius is right */
#define FORCED_RATIO 0x1p-16 /* radii this near to each other are not told apart */
#define SMALLEST 0x1p-1059   /* added to radii: nearer to 0, distances are rounded by more than their last place */

/* A query that has not got its neighbours yet. */
typedef struct open_row {
    uint32_t row; /* number of the query */
    bool     done;
    bool     served; /* the last search came to it */
    bool     forced; /* next is searched however many neighbours it finds */
    uint8_t  halved; /* how often the radius was too large */
    uint64_t found;  /* neighbours that the last search saw */
    double   below;  /* a radius that is too small; -1: none known */
    double   above;  /* one that finds far too many; infinity: none known */
    double   next;   /* to try */
} open_row;

typedef struct grow {
    nf_context            *ctx;
    const nf_radius_index *index;
    const nf_matrix       *queries; /* NULL: the data */
    nf_grow_rules          rules;
    uint64_t               queries_count;
    uint32_t               k, want; /* want: k, or all neighbours that there are */
    int64_t               *ids;
    double                *distances;
    uint32_t              *counts;
    nf_knn_stats          *stats;
    double                 dim;     /* intrinsic: the number of neighbours grows with its power of the radius */
    double                 typical; /* a distance above 0 that occurs; 0: none known */
    bool                   careful; /* neighbours are counted before they are fetched */
    uint32_t               round;
} grow;

nf_grow_rules nf_grow_rules_default(void)
{
    return (nf_grow_rules){.sample = 256, .wide = 16, .rounds = 48, .batch_pairs = (uint64_t)8 << 20};
}

static uint64_t wide_row(const grow *at)
{
    return (uint64_t)at->rules.wide * at->want + 64;
}

/* ---- rows of the queries ---- */

/* Stores a value of the type, which holds it. */
static void store_value(nf_dtype dtype, double value, char *to)
{
    const size_t   bytes = nf_dtype_bytes(dtype);
    const float    narrow = (float)value;
    const uint16_t half = nf_f32_to_f16(narrow);
    switch (dtype) {
    case NF_DTYPE_F64: memcpy(to, &value, bytes); break;
    case NF_DTYPE_F32: memcpy(to, &narrow, bytes); break;
    case NF_DTYPE_F16: memcpy(to, &half, bytes); break;
    default: memcpy(to, &(int64_t){(int64_t)value}, bytes); break; /* the low bytes, two's complement */
    }
}

/* Rows of the index by number, as binary64. */
static nf_status read_rows(const grow *at, const uint32_t *rows, uint64_t count, double **values)
{
    *values = nf_alloc(at->ctx, count * at->index->dims, sizeof **values);
    if (*values == NULL) return nf_alloc_status(at->ctx);
    return at->index->ops->points_read(at->ctx, at->index->points, rows, count, *values);
}

/* The data's own rows, in their own type: what kernels there are depends on it. */
static nf_status gather_data(const grow *at, const uint32_t *rows, uint64_t count, char *to)
{
    const uint32_t dims = at->index->dims;
    const nf_dtype dtype = (nf_dtype)at->index->dtype;
    const size_t   bytes = nf_dtype_bytes(dtype);
    double        *values = NULL;
    nf_status      status = read_rows(at, rows, count, &values);
    for (uint64_t i = 0; status >= 0 && i < count * dims; i++) store_value(dtype, values[i], to + i * bytes);
    nf_free(values);
    return status;
}

#define GATHER_AT_ONCE 65536u /* rows that are binary64 at a time */

static nf_status gather(const grow *at, const open_row *rows, uint64_t count, nf_matrix *out)
{
    const uint32_t dtype = at->queries != NULL ? at->queries->dtype : at->index->dtype;
    const size_t   row_bytes = at->index->dims * nf_dtype_bytes((nf_dtype)dtype);
    uint32_t      *numbers = nf_alloc(at->ctx, count < GATHER_AT_ONCE ? count : GATHER_AT_ONCE, sizeof *numbers);
    char          *values = nf_alloc(at->ctx, count, row_bytes);
    nf_status      status = numbers != NULL && values != NULL ? NF_OK : nf_alloc_status(at->ctx);

    for (uint64_t done = 0; status >= 0 && done < count; done += GATHER_AT_ONCE) {
        const uint64_t now = count - done < GATHER_AT_ONCE ? count - done : GATHER_AT_ONCE;
        char          *to = values + done * row_bytes;
        for (uint64_t i = 0; i < now; i++) numbers[i] = rows[done + i].row;
        if (at->queries == NULL) {
            status = gather_data(at, numbers, now, to);
        } else {
            for (uint64_t i = 0; i < now; i++)
                memcpy(to + i * row_bytes, nf_matrix_row(at->queries, numbers[i]), row_bytes);
        }
    }
    nf_free(numbers);
    if (status < 0) {
        nf_free(values);
        values = NULL;
    }
    *out = (nf_matrix){.data = values, .rows = count, .dims = at->index->dims, .dtype = dtype};
    return status;
}

/* ---- taking results ---- */

/* Whether a search of that radius has seen every row of that delivered distance: its rounding is relative, (dims / 2 +
 * 3) units of 2^-53 at most, but for distances near the end of binary64. Distance 0 is that of equal rows only. */
static bool complete_upto(const grow *at, double distance, double radius)
{
    const double slack = ((double)at->index->dims + 16.0) * 0x1p-52;
    return distance == 0.0 || radius == HUGE_VAL || distance * (1.0 + slack) + 0x1p-1060 <= radius;
}

static void fill_rest(const grow *at, uint32_t row, uint32_t from)
{
    int64_t *ids = at->ids + (uint64_t)row * at->k;
    double  *distances = at->distances + (uint64_t)row * at->k;
    for (uint32_t i = from; i < at->k; i++) {
        ids[i] = -1;
        distances[i] = HUGE_VAL;
    }
    if (at->counts != NULL) at->counts[row] = from;
}

/* A search's batch, whose queries are rows of open rows. */
typedef struct taking {
    const grow            *at;
    open_row              *rows;
    const nf_radius_batch *batch;
    double                 radius;
    bool                   own; /* a row finds itself, which does not count */
} taking;

static void take_row(const taking *run, open_row *row, uint64_t begin, uint64_t end)
{
    const grow   *at = run->at;
    int64_t      *ids = at->ids + (uint64_t)row->row * at->k;
    double       *distances = at->distances + (uint64_t)row->row * at->k;
    const double *given = run->batch->distances;
    uint32_t      taken = 0;

    row->served = true;
    row->found = end - begin - (run->own ? 1 : 0);
    if (row->found < at->want) return;
    for (uint64_t i = begin; taken < at->want; i++) {
        if (run->own && (uint32_t)run->batch->indices[i] == row->row) continue;
        ids[taken] = run->batch->indices[i];
        distances[taken++] = given[i];
    }
    row->done = complete_upto(at, distances[taken - 1], run->radius);
    if (row->done) fill_rest(at, row->row, taken);
}

static nf_status take_task(void *arg, uint64_t task, uint32_t worker)
{
    const taking  *run = arg;
    const uint64_t last = (task + 1) * ROWS_PER_TASK, end = last < run->batch->rows ? last : run->batch->rows;
    (void)worker;
    for (uint64_t i = task * ROWS_PER_TASK; i < end; i++) {
        take_row(run, &run->rows[run->batch->query_ids[i]], (uint64_t)run->batch->indptr[i],
                 (uint64_t)run->batch->indptr[i + 1]);
    }
    return NF_OK;
}

/* ---- searches ---- */

static nf_radius_params params_of(const grow *at, double radius)
{
    nf_radius_params params;
    nf_radius_params_init(&params);
    params.radius = radius;
    params.sort = NF_SORT_DISTANCE;
    params.batch_pairs = at->rules.batch_pairs;
    return params;
}

static void add_stats(const grow *at, const nf_radius_stats *stats)
{
    at->stats->compared += stats->compared;
    at->stats->rechecked += stats->rechecked;
}

/* Batch after batch into the rows. most: so many pairs are waited for; with more the search stops, as it does when a
 * batch does not fit memory; the rows not served say so. most 0: no such limit. */
static nf_status take_stream(const grow *at, nf_radius_stream *stream, taking *run, uint64_t most)
{
    nf_radius_batch batch;
    nf_status       status;
    uint64_t        pairs = 0;

    run->batch = &batch;
    while ((status = nf_radius_next(stream, &batch)) == NF_MORE) {
        pairs += batch.pairs;
        status = nf_pool_run(at->ctx, take_task, run, (batch.rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
        if (status < 0 || (most != 0 && pairs > most)) break;
    }
    return status;
}

static bool is_shortage(nf_status status)
{
    return status == NF_ERR_LIMIT || status == NF_ERR_DEVICE_MEMORY;
}

/* Searches rows with a radius. all: they are all queries, in order, and need not be gathered. */
static nf_status search(const grow *at, open_row *rows, uint64_t count, bool all, double radius, uint64_t most)
{
    const nf_radius_params params = params_of(at, radius);
    taking                 run = {.at = at, .rows = rows, .radius = radius, .own = at->queries == NULL && !all};
    nf_matrix              own = {0};
    nf_radius_stats        stats = {.struct_size = sizeof stats};
    nf_radius_stream      *stream = NULL;
    nf_status              status = NF_OK;

    for (uint64_t i = 0; i < count; i++) rows[i].served = false;
    if (!all) NF_TRY(gather(at, rows, count, &own));
    status = nf_radius_open(at->ctx, at->index, all ? at->queries : &own, &params, &stream);
    if (status >= 0) {
        status = take_stream(at, stream, &run, most);
        nf_radius_stream_stats(stream, &stats);
        add_stats(at, &stats);
    }
    nf_radius_close(stream);
    nf_free((void *)(uintptr_t)own.data);
    if (most == 0 || !is_shortage(status)) return status;
    nf_context_begin(at->ctx); /* forgets the error: fewer rows may fit */
    return NF_OK;
}

/* Counts the neighbours of rows into found. */
static nf_status count_rows(const grow *at, open_row *rows, uint64_t count, bool all, double radius)
{
    nf_radius_params params = params_of(at, radius);
    const uint64_t   own_pair = at->queries == NULL && !all ? 1 : 0;
    nf_matrix        own = {0};
    nf_radius_stats  stats = {.struct_size = sizeof stats};
    uint64_t        *counts = nf_alloc(at->ctx, count, sizeof *counts);
    nf_status        status = counts != NULL ? NF_OK : nf_alloc_status(at->ctx);

    params.distances = NF_DISTANCES_NONE;
    params.sort = NF_SORT_ID;
    if (status >= 0 && !all) status = gather(at, rows, count, &own);
    if (status >= 0) {
        status = nf_radius_counts(at->ctx, at->index, all ? at->queries : &own, &params, counts, &stats);
        add_stats(at, &stats);
    }
    for (uint64_t i = 0; status >= 0 && i < count; i++) rows[i].found = counts[i] - own_pair;
    nf_free((void *)(uintptr_t)own.data);
    nf_free(counts);
    return status;
}

static void swap_rows(open_row *a, open_row *b)
{
    const open_row held = *a;
    *a = *b;
    *b = held;
}

/* Rows not served behind those that are. */
static uint64_t served_first(open_row *rows, uint64_t count)
{
    uint64_t served = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (rows[i].served) swap_rows(&rows[i], &rows[served++]);
    }
    return served;
}

/* Rows with more neighbours than most behind the others; the number of these. */
static uint64_t upto_first(open_row *rows, uint64_t count, uint64_t most)
{
    uint64_t upto = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (rows[i].found <= most) swap_rows(&rows[i], &rows[upto++]);
    }
    return upto;
}

/* Rows whose counts are known, as many at a time as batch_pairs allows; half as many where memory does not. */
static nf_status fetch(const grow *at, open_row *rows, uint64_t count, double radius)
{
    for (uint64_t begin = 0, end; begin < count; begin = end) {
        uint64_t pairs = 0;
        for (end = begin; end < count && (end == begin || pairs + rows[end].found <= at->rules.batch_pairs); end++) {
            pairs += rows[end].found;
        }
        for (;;) {
            const uint64_t limit = end - begin > 1 ? UINT64_MAX : 0;
            NF_TRY(search(at, rows + begin, end - begin, false, radius, limit));
            if (served_first(rows + begin, end - begin) == end - begin) break;
            end = begin + (end - begin) / 2;
        }
    }
    return NF_OK;
}

/* ---- the next radius ---- */

/* The middle of two radii, as numbers in the order of binary64: of their exponents, when these are far apart. */
static double middle(double low, double high)
{
    uint64_t a, b;
    double   value;
    memcpy(&a, &low, sizeof a);
    memcpy(&b, &high, sizeof b);
    a += (b - a) / 2;
    memcpy(&value, &a, sizeof value);
    return value;
}

/* How much wider a radius must be, at least, when it was too small: more from round to round, so that any distance is
 * reached. */
static double least_growth(uint32_t round)
{
    return round < 4 ? 1.0 + 0x1p-6 : exp2(exp2((double)round * 0.75 - 6.0));
}

/* radius found too few rows, or the last of them too near to the radius. */
static void widen(const grow *at, open_row *row, double radius)
{
    const double have = row->found > 0 ? (double)row->found : 0.5, wanted = 1.25 * at->want + 2.0;
    const double factor = wanted > have ? pow(wanted / have, 1.0 / at->dim) : 1.0;

    row->below = radius;
    if (row->above <= radius) row->above = HUGE_VAL; /* what it found was fetched all the same */
    if (row->forced) {
        row->next = radius * (1.0 + 2.0 * FORCED_RATIO) + SMALLEST;
    } else {
        row->next = (radius > 0.0 ? radius * fmax(fmin(factor, 8.0), least_growth(at->round)) : at->typical) + SMALLEST;
    }
    if (at->round >= at->rules.rounds) row->next = HUGE_VAL;
    if (row->next == HUGE_VAL && row->above == HUGE_VAL) row->forced = true;
    if (row->next < row->above || row->forced) return;
    row->next = middle(radius, row->above);
    if (row->next <= radius || row->above <= radius * (1.0 + FORCED_RATIO)) {
        row->next = row->above;
        row->forced = true;
    }
}

/* radius found far too many. */
static void narrow(const grow *at, open_row *row, double radius)
{
    const double low = fmax(row->below, 0.0);
    row->above = radius;
    row->next = radius * pow((1.5 * at->want + 2.0) / (double)row->found, 1.0 / at->dim);
    if (row->halved++ >= 3 || !(row->next > low)) row->next = middle(low, radius);
    if (radius == 0.0 || radius <= low * (1.0 + FORCED_RATIO) || row->next >= radius || row->halved == 100) {
        row->next = radius;
        row->forced = true;
    }
}

/* ---- a round ---- */

static int compare_open(const void *a, const void *b)
{
    const open_row *x = a, *y = b;
    if (x->forced != y->forced) return x->forced ? 1 : -1;
    if (x->next != y->next) return x->next < y->next ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int compare_found(const void *a, const void *b)
{
    const open_row *x = a, *y = b;
    if (x->found != y->found) return x->found < y->found ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* What a search of radius has left open goes on. */
static void go_on(const grow *at, open_row *rows, uint64_t count, double radius)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!rows[i].done) widen(at, &rows[i], radius);
    }
}

/* Counts rows, fetches those whose neighbours are neither too few nor far too many. What is far too many in few rows is
 * fetched, too: narrowing these down would take longer. */
static nf_status count_and_fetch(const grow *at, open_row *rows, uint64_t count, bool all, double radius)
{
    uint64_t few, end, pairs = 0;

    NF_TRY(count_rows(at, rows, count, all, radius));
    few = upto_first(rows, count, at->want - 1);
    end = few + upto_first(rows + few, count - few, wide_row(at));
    qsort(rows + end, count - end, sizeof *rows, compare_found);
    while (end < count && pairs + rows[end].found <= at->rules.batch_pairs) pairs += rows[end++].found;
    NF_TRY(fetch(at, rows + few, end - few, radius));
    go_on(at, rows, end, radius);
    for (uint64_t i = end; i < count; i++) narrow(at, &rows[i], radius);
    return NF_OK;
}

/* Rows of one radius. */
static nf_status serve(grow *at, open_row *rows, uint64_t count, bool all, double radius)
{
    if (at->careful) return count_and_fetch(at, rows, count, all, radius);
    NF_TRY(search(at, rows, count, all, radius, at->rules.batch_pairs + count * wide_row(at) / 2));
    const uint64_t served = served_first(rows, count);
    go_on(at, rows, served, radius);
    if (served == count) return NF_OK;
    at->careful = true;
    return count_and_fetch(at, rows + served, count - served, false, radius);
}

/* Rows that are fetched whatever they find: at radius they find at most all rows. */
static nf_status serve_forced(const grow *at, open_row *rows, uint64_t count, double radius)
{
    if (radius == HUGE_VAL) {
        for (uint64_t i = 0; i < count; i++) rows[i].found = at->index->rows;
    } else {
        NF_TRY(count_rows(at, rows, count, false, radius));
    }
    NF_TRY(fetch(at, rows, count, radius));
    go_on(at, rows, count, radius);
    return NF_OK;
}

/* The end of the rows whose radii are near enough to the first one's to be searched together. */
static uint64_t bin_end(const grow *at, const open_row *rows, uint64_t begin, uint64_t count)
{
    const double ratio = rows[begin].forced ? 1.0 + FORCED_RATIO : pow(3.0, 1.0 / at->dim) + at->round * 0.02;
    uint64_t     end = begin + 1;
    while (end < count && rows[end].forced == rows[begin].forced && rows[end].next <= rows[begin].next * ratio) end++;
    return end;
}

static uint64_t drop_done(open_row *rows, uint64_t count)
{
    uint64_t left = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!rows[i].done) rows[left++] = rows[i];
    }
    return left;
}

static nf_status serve_round(grow *at, open_row *rows, uint64_t count)
{
    const bool all = at->round == 0;
    if (!all) qsort(rows, count, sizeof *rows, compare_open);
    for (uint64_t begin = 0, end; begin < count; begin = end) {
        end = all ? count : bin_end(at, rows, begin, count);
        const double radius = rows[end - 1].next;
        NF_TRY(nf_progress_poll(at->ctx));
        if (rows[begin].forced) {
            NF_TRY(serve_forced(at, rows + begin, end - begin, radius));
        } else {
            NF_TRY(serve(at, rows + begin, end - begin, all, radius));
        }
    }
    return NF_OK;
}

/* ---- the first radius ---- */

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* From distances of some rows to each other: a radius that is about right where the sample is not much smaller than the
 * data, and how fast the number of neighbours grows with it. */
static double guess(grow *at, double *distances, uint64_t rows)
{
    const uint64_t pairs = rows * (rows - 1) / 2;
    uint64_t       zeros = 0;
    if (pairs == 0) return 0.0;
    qsort(distances, pairs, sizeof *distances, compare_doubles);
    while (zeros < pairs && distances[zeros] == 0.0) zeros++;
    if (zeros == pairs) return 0.0;
    const uint64_t near = zeros + (pairs - zeros) / 100, far = zeros + (pairs - zeros) / 8;
    if (distances[near] < HUGE_VAL) at->typical = distances[near];
    if (distances[far] < HUGE_VAL && distances[far] > distances[near] * 1.0001 && distances[near] > 0.0) {
        at->dim = fmin(
            fmax(log((far - zeros + 1.0) / (near - zeros + 1.0)) / log(distances[far] / distances[near]), 0.5), 200.0);
    }
    const double share = (double)at->want / (double)at->index->rows; /* of all pairs, those that are wanted */
    const double rank = share * (double)pairs;
    if (rank >= (double)near) return distances[rank < (double)pairs ? (uint64_t)rank : pairs - 1];
    return distances[near] * pow(fmax(rank, 1e-9) / (near + 1.0), 1.0 / at->dim);
}

static nf_status guess_radius(grow *at, double *radius)
{
    const uint32_t dims = at->index->dims;
    const uint64_t n = at->index->rows, most = dims <= 128 ? SAMPLE_ROWS : SAMPLE_ROWS / 4, rows = n < most ? n : most;
    uint32_t       numbers[SAMPLE_ROWS];
    double        *values = NULL, *distances = nf_alloc(at->ctx, rows * rows / 2 + 1, sizeof *distances);
    nf_status      status = distances != NULL ? NF_OK : nf_alloc_status(at->ctx);

    for (uint64_t i = 0; i < rows; i++) numbers[i] = (uint32_t)(i * n / rows);
    if (status >= 0) status = read_rows(at, numbers, rows, &values);
    if (status >= 0) {
        uint64_t pair = 0;
        for (uint64_t i = 0; i < rows; i++) {
            for (uint64_t j = 0; j < i; j++) {
                distances[pair++] = nf_exact_distance(values + i * dims, values + j * dims, dims);
            }
        }
        *radius = guess(at, distances, rows);
    }
    nf_free(values);
    nf_free(distances);
    return status;
}

/* What a radius finds for the sample: the mean number of neighbours, and how many a third of the rows lack. */
typedef struct sampled {
    double radius, mean, third;
} sampled;

static nf_status count_sample(const grow *at, open_row *rows, uint64_t count, double radius, sampled *out)
{
    double sum = 0.0;
    NF_TRY(count_rows(at, rows, count, false, radius));
    qsort(rows, count, sizeof *rows, compare_found);
    for (uint64_t i = 0; i < count; i++) sum += (double)rows[i].found;
    *out = (sampled){.radius = radius, .mean = sum / (double)count, .third = (double)rows[count / 3].found};
    return NF_OK;
}

/* How the number of neighbours grows between two radii. */
static void learn_dim(grow *at, const sampled *a, const sampled *b)
{
    const double ratio = log(b->radius / a->radius), more = log(fmax(b->third, 0.5) / fmax(a->third, 0.5));
    if (a->third >= 1.0 && b->third >= 1.0 && fabs(ratio) > 1e-3 && isfinite(more / ratio)) {
        at->dim = fmin(fmax(more / ratio, 0.5), 200.0);
    }
}

/* The radius at which two thirds of the sample have enough neighbours, and about as many as they need. */
static nf_status fit_radius(grow *at, open_row *rows, uint64_t count, double *radius)
{
    const double need = at->want;
    sampled      now, before = {0};
    double       low = 0.0, high = HUGE_VAL;
    for (int turn = 0; turn < SAMPLE_TURNS; turn++) {
        NF_TRY(count_sample(at, rows, count, *radius, &now));
        if (turn > 0) learn_dim(at, &before, &now);
        before = now;
        if (now.third >= need && (now.third <= 2.0 * need + 8.0 || *radius == 0.0)) break;
        if (now.third < need) low = *radius;
        if (now.third >= need) high = *radius;
        const double factor = pow((1.25 * need + 2.0) / fmax(now.third, 0.5), 1.0 / at->dim);
        *radius = *radius > 0.0 ? *radius * fmin(factor, 1e3) : at->typical;
        if (!(*radius > low && *radius < high)) *radius = high < HUGE_VAL ? middle(low, high) : low * 2.0;
        if (!(*radius > low && *radius < high) || *radius == HUGE_VAL) break;
    }
    if (now.mean > 4.0 * need + 32.0) at->careful = true;
    return NF_OK;
}

static nf_status first_radius(grow *at, double *radius)
{
    const uint64_t count = at->queries_count < at->rules.sample ? at->queries_count : at->rules.sample;
    open_row      *rows = nf_alloc_zero(at->ctx, count, sizeof *rows);
    nf_status      status = rows != NULL ? guess_radius(at, radius) : nf_alloc_status(at->ctx);

    for (uint64_t i = 0; status >= 0 && i < count; i++) rows[i].row = (uint32_t)(i * at->queries_count / count);
    if (status >= 0 && count > 0) status = fit_radius(at, rows, count, radius);
    nf_free(rows);
    return status;
}

/* ---- the whole ---- */

static nf_status serve_all(grow *at)
{
    uint64_t  left = at->queries_count;
    double    radius = HUGE_VAL;
    open_row *rows = nf_alloc_zero(at->ctx, left, sizeof *rows);
    if (rows == NULL) return nf_alloc_status(at->ctx);

    nf_status status = at->want < at->index->rows / 4 ? first_radius(at, &radius) : NF_OK;
    for (uint64_t i = 0; i < left; i++) {
        rows[i] = (open_row){
            .row = (uint32_t)i, .below = -1.0, .above = HUGE_VAL, .next = radius, .forced = radius == HUGE_VAL};
    }
    for (at->round = 0; status >= 0 && left > 0; at->round++) {
        status = serve_round(at, rows, left);
        left = drop_done(rows, left);
    }
    nf_free(rows);
    return status;
}

nf_status nf_exact_knn_grow(nf_context *ctx, const nf_radius_index *index, const nf_matrix *queries, uint32_t k,
                            const nf_grow_rules *rules, int64_t *ids, double *distances, uint32_t *counts,
                            nf_knn_stats *stats)
{
    const uint64_t rows = index->rows, most = queries == NULL && rows > 0 ? rows - 1 : rows;
    grow           at = {
                  .ctx = ctx,
                  .index = index,
                  .queries = queries,
                  .rules = *rules,
                  .queries_count = queries != NULL ? queries->rows : rows,
                  .k = k,
                  .want = most < k ? (uint32_t)most : k,
                  .ids = ids,
                  .distances = distances,
                  .counts = counts,
                  .stats = stats,
                  .dim = fmin((double)index->dims, 16.0),
                  .careful = rules->count_first != 0,
    };
    if (at.want > 0) return serve_all(&at);
    for (uint64_t i = 0; i < at.queries_count; i++) fill_rest(&at, (uint32_t)i, 0);
    return NF_OK;
}
