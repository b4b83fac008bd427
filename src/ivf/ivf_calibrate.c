/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step calibrate: recall@10 by probes, measured on rows of the data, each left out of its own answer.
 *
 * The true neighbours come from an exact search over all rows, before the index is completed. A row counts as found
 * when its exact distance is at most that of the tenth true neighbour, so that equal distances do no harm. Probes grow
 * by a half and a third in turn (1, 2, 3, 4, 6, 8, 12, 16, ...) up to all lists, or until twice as many probes no
 * longer bring one neighbour in a thousand more, which is where the codes, not the lists, limit the recall.
 */
#include <string.h>

#include "ivf_build.h"
#include "ivf_random.h"
#include "matrix/matrix_convert.h"
#include "matrix/matrix_metric.h"

#define NEIGHBOURS 10u
#define ASKED (NEIGHBOURS + 1) /* the row itself is left out */
#define MOST_POINTS 64u        /* 2 per doubling of at most 2^24 lists, and a few */
#define SETTLED_PROBES 32u
#define LEAST_GROWTH 0.001
#define EPSILON0 1.9

typedef struct calibration {
    nf_ivf_build_job *job;
    uint64_t          count;      /* recall rows */
    uint32_t          asked;      /* results per row: one more than neighbours */
    uint32_t          neighbours; /* that count: fewer than 10 where there are fewer rows */
    uint64_t         *numbers;    /* which rows */
    float            *queries;    /* as index rows, as a search has them */
    double           *factors;    /* IP: what they were scaled by */
    int64_t          *true_ids;   /* count x asked */
    double           *true_distances;
    uint64_t         *slots; /* count x asked */
    float            *values;
    double           *pair; /* two rows */
} calibration;

static nf_status open_calibration(calibration *at)
{
    nf_context    *ctx = at->job->ctx;
    const uint32_t dims = at->job->data->dims;
    const uint64_t results = at->count * at->asked;

    at->numbers = nf_alloc(ctx, at->count, sizeof *at->numbers);
    at->queries = nf_alloc(ctx, at->count, dims * sizeof *at->queries);
    at->factors = nf_alloc(ctx, at->count, sizeof *at->factors);
    at->true_ids = nf_alloc(ctx, results, sizeof *at->true_ids);
    at->true_distances = nf_alloc(ctx, results, sizeof *at->true_distances);
    at->slots = nf_alloc(ctx, results, sizeof *at->slots);
    at->values = nf_alloc(ctx, results, sizeof *at->values);
    at->pair = nf_alloc(ctx, 2, dims * sizeof *at->pair);
    if (at->numbers == NULL || at->queries == NULL || at->factors == NULL || at->true_ids == NULL ||
        at->true_distances == NULL || at->slots == NULL || at->values == NULL || at->pair == NULL) {
        return nf_alloc_status(ctx);
    }
    return NF_OK;
}

static void close_calibration(calibration *at)
{
    nf_free(at->numbers);
    nf_free(at->queries);
    nf_free(at->factors);
    nf_free(at->true_ids);
    nf_free(at->true_distances);
    nf_free(at->slots);
    nf_free(at->values);
    nf_free(at->pair);
}

/* Takes every row out of its own true neighbours. */
static void leave_out(calibration *at)
{
    for (uint64_t i = 0; i < at->count; i++) {
        int64_t *ids = at->true_ids + i * at->asked;
        double  *distances = at->true_distances + i * at->asked;
        uint32_t own = 0;
        while (own + 1 < at->asked && ids[own] != (int64_t)at->numbers[i]) own++;
        memmove(ids + own, ids + own + 1, (at->asked - own - 1) * sizeof *ids);
        memmove(distances + own, distances + own + 1, (at->asked - own - 1) * sizeof *distances);
    }
}

static nf_status find_truth(calibration *at)
{
    nf_ivf_build_job *job = at->job;
    for (uint64_t i = 0; i < at->count; i++) {
        at->numbers[i] = nf_ivf_random_spread(job->params.seed, NF_IVF_STREAM_RECALL, i, at->count, job->data->rows);
    }
    NF_TRY(job->index->engine->ivf->truth(job->ctx, job->source, at->numbers, at->count, at->asked, at->true_ids,
                                          at->true_distances));
    leave_out(at);
    return NF_OK;
}

static nf_status make_queries(calibration *at)
{
    const nf_ivf_build_job *job = at->job;
    const nf_ivf_rows       rows = {
              .matrix = job->data,
              .what = "data",
              .metric = job->params.metric,
              .count = at->count,
              .numbers = at->numbers,
              .length = job->index->ip_length,
              .factors = job->index->ip_length > 0.0 ? at->factors : NULL,
    };
    return nf_ivf_rows_convert(job->ctx, &rows, job->index->view.mean, at->queries);
}

static bool is_neighbour(const calibration *at, uint64_t i, int64_t row)
{
    const nf_matrix *data = at->job->data;
    const int64_t   *ids = at->true_ids + i * at->asked;
    double          *x = at->pair, *y = at->pair + data->dims;
    for (uint32_t j = 0; j < at->neighbours; j++) {
        if (ids[j] == row) return true;
    }
    nf_matrix_row_f64(data, at->numbers[i], x);
    nf_matrix_row_f64(data, (uint64_t)row, y);
    return nf_metric_distance(at->job->params.metric, x, y, data->dims) <=
           at->true_distances[i * at->asked + at->neighbours - 1];
}

static uint64_t found(const calibration *at, uint64_t i)
{
    uint64_t hits = 0;
    uint32_t taken = 0;
    for (uint32_t j = 0; j < at->asked && taken < at->neighbours; j++) {
        const uint64_t slot = at->slots[i * at->asked + j];
        if (slot == UINT64_MAX) break;
        const int64_t row = nf_ivf_id(&at->job->index->view, slot);
        if (row == (int64_t)at->numbers[i]) continue;
        taken++;
        hits += is_neighbour(at, i, row);
    }
    return hits;
}

static nf_status measure(calibration *at, uint32_t probes, double *recall)
{
    nf_ivf_index         *index = at->job->index;
    const nf_ivf_question question = {.k = at->asked, .probes = probes, .epsilon0 = EPSILON0};
    nf_ivf_counters       counters = {0};
    uint64_t              hits = 0;

    NF_TRY(index->engine->ivf->search(at->job->ctx, &index->view, index->prepared, at->queries, at->count, &question,
                                      at->slots, at->values, &counters));
    for (uint64_t i = 0; i < at->count; i++) hits += found(at, i);
    *recall = (double)hits / ((double)at->count * at->neighbours);
    return NF_OK;
}

static uint32_t more_probes(uint32_t probes, uint32_t lists)
{
    const bool     power = (probes & (probes - 1)) == 0;
    const uint32_t more = probes == 1 ? 2 : power ? probes + probes / 2 : probes / 3 * 4;
    return more < lists ? more : lists;
}

static nf_status fill_table(calibration *at)
{
    nf_ivf_index  *index = at->job->index;
    const uint32_t lists = index->view.lists;
    nf_ivf_recall *table = index->owned.recall;
    uint32_t       points = 0;

    nf_progress_begin(at->job->ctx, "calibrate", 0);
    for (uint32_t probes = 1; points < MOST_POINTS; probes = more_probes(probes, lists)) {
        double recall;
        NF_TRY(measure(at, probes, &recall));
        table[points++] = (nf_ivf_recall){.probes = probes, .recall = recall};
        if (probes == lists || recall >= 1.0) break;
        if (probes > SETTLED_PROBES && recall - table[points - 3].recall < LEAST_GROWTH) break;
    }
    index->recall = table;
    index->recall_points = points;
    return NF_OK;
}

static nf_status complete(nf_ivf_build_job *job)
{
    nf_ivf_close_source(job);
    return nf_ivf_index_complete(job->ctx, job->index);
}

nf_status nf_ivf_calibrate(nf_ivf_build_job *job)
{
    const uint64_t rows = job->data->rows;
    calibration    at = {.job = job};

    if (job->params.recall_rows == 0 || rows < 2) return complete(job);
    at.count = job->params.recall_rows < rows ? job->params.recall_rows : rows;
    at.asked = rows < ASKED ? (uint32_t)rows : ASKED;
    at.neighbours = at.asked - 1;
    job->index->owned.recall = nf_alloc_zero_in(job->ctx, job->index->memory, MOST_POINTS, sizeof(nf_ivf_recall));
    if (job->index->owned.recall == NULL) return nf_alloc_status(job->ctx);
    nf_status status = open_calibration(&at);
    if (status >= 0) status = find_truth(&at);
    if (status >= 0) status = complete(job);
    if (status >= 0) status = make_queries(&at);
    if (status >= 0) status = fill_table(&at);
    close_calibration(&at);
    return status;
}
