/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step group: a balanced kd-tree by rank; its leaves are the groups (RT-HiSS, section IV-B).
 *
 * A node of m points and g = ceil(m / size) groups is split so that the left child gets floor(g / 2) full groups: every group
 * holds exactly size points but the last one of all. The split is by rank on the coordinate with the widest spread, ties by
 * row number, so that duplicates cannot unbalance it, and the tree is the same whatever the number of threads.
 *
 * Points travel as small records (row number and the first few coordinates in variance order, as binary32: they steer the
 * grouping only, any partition is correct; with many dims also the distance from the mean, for where boxes prune little,
 * rows of a tile that are alike in it leave early together), so that each level reads memory in sequence. Levels near the
 * root are split node by node in parallel, subtrees below each by one thread.
 *
 * A record is 4 words where there are at most 3 coordinates, else 8. The functions on records take the number of words as
 * a constant and are inlined twice (select_rank_4, select_rank_8), so that a record is one or two registers.
 */
#include <math.h>
#include <string.h>

#include "core/core_pool.h"
#include "cpu_points.h"
#include "matrix/matrix_convert.h"

#define MOST_KEYS 7u         /* coordinates in a record of 8 words */
#define FEW_KEYS 3u          /* of 4 words */
#define NORM_DIMS 32u        /* from that many dims on the last key is the distance from the mean */
#define SPREAD_SAMPLE 1024u  /* rows looked at to find the widest coordinate */
#define PIVOT_SAMPLE 31u     /* records whose order statistics give a pivot */
#define SAMPLED_FROM 512u    /* for fewer records a median of three does */
#define PATIENT_ROUNDS 40u   /* of quickselect before pivots are scattered */
#define MIX 0xbf58476d1ce4e5b9ull
#define ROWS_PER_TASK 8192u

/* Word 0 of a record is the row number, word 1 + k its key k, a float. */
typedef struct node {
    uint64_t begin, end;
} node;

typedef struct group_build {
    nf_context *ctx;
    nf_points  *points;
    uint32_t   *records;
    uint32_t    words; /* of a record: 4 or 8 */
    uint32_t    keys;
    uint32_t    size;
    node       *nodes; /* subtrees to be done in parallel; right[i]: what a split of nodes[i] cut off */
    node       *right;
} group_build;

static float distance_from_mean(const nf_points *points, const double *row_values)
{
    double sum = 0.0;
    for (uint32_t k = 0; k < points->dims; k++) {
        const double difference = row_values[k] - points->mean[k];
        sum += difference * difference;
    }
    return (float)sqrt(sum);
}

static nf_status fill_task(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    const group_build *build = arg;
    const nf_matrix   *matrix = &build->points->matrix;
    const uint64_t     begin = task * ROWS_PER_TASK;
    uint64_t           end = begin + ROWS_PER_TASK;
    double            *row_values = nf_alloc(build->ctx, matrix->dims, sizeof *row_values);

    if (row_values == NULL) return nf_alloc_status(build->ctx);
    if (end > matrix->rows) end = matrix->rows;
    for (uint64_t row = begin; row < end; row++) {
        float keys[MOST_KEYS] = {0};
        nf_matrix_row_f64(matrix, row, row_values);
        for (uint32_t k = 0; k < build->keys; k++) keys[k] = (float)row_values[build->points->dim_order[k]];
        if (matrix->dims >= NORM_DIMS) keys[MOST_KEYS - 1] = distance_from_mean(build->points, row_values);
        uint32_t *to = build->records + row * build->words;
        to[0] = (uint32_t)row;
        memcpy(to + 1, keys, (build->words - 1) * sizeof *to);
    }
    nf_free(row_values);
    return NF_OK;
}

static inline float key_of(const uint32_t *record, uint32_t key)
{
    float value;
    memcpy(&value, record + 1 + key, sizeof value);
    return value;
}

/* The coordinate with the widest spread over an evenly spaced sample of the node. */
static uint32_t widest_key(const group_build *build, node at)
{
    const uint64_t count = at.end - at.begin;
    const uint64_t stride = count > SPREAD_SAMPLE ? count / SPREAD_SAMPLE : 1;
    float          low[MOST_KEYS], high[MOST_KEYS];

    for (uint32_t k = 0; k < build->keys; k++) low[k] = high[k] = key_of(build->records + at.begin * build->words, k);
    for (uint64_t i = at.begin; i < at.end; i += stride) {
        const uint32_t *record = build->records + i * build->words;
        for (uint32_t k = 0; k < build->keys; k++) {
            const float value = key_of(record, k);
            low[k] = value < low[k] ? value : low[k];
            high[k] = value > high[k] ? value : high[k];
        }
    }
    uint32_t widest = 0;
    for (uint32_t k = 1; k < build->keys; k++) {
        if (high[k] - low[k] > high[widest] - low[widest]) widest = k;
    }
    return widest;
}

/* Order of records: by key, ties by row number. Both sides are computed: a branch would be mispredicted half the time. */
static inline bool before(const uint32_t *a, const uint32_t *b, uint32_t key)
{
    const float x = key_of(a, key), y = key_of(b, key);
    return (x < y) | ((x == y) & (a[0] < b[0]));
}

#define INLINED static inline __attribute__((always_inline))

INLINED void swap_records(uint32_t *a, uint32_t *b, const uint32_t words)
{
    uint32_t held[MOST_KEYS + 1];
    memcpy(held, a, words * sizeof *a);
    memcpy(a, b, words * sizeof *a);
    memcpy(b, held, words * sizeof *a);
}

/* A record whose rank is near the wanted one: the fitting order statistic of an evenly spaced sample. After many rounds
 * the data must be made to defeat that, and the sample starts at a place that depends on the round. */
INLINED uint64_t choose_pivot(const uint32_t *records, uint64_t begin, uint64_t end, uint64_t rank, uint32_t key,
                              uint32_t round, const uint32_t words)
{
    const uint64_t count = end - begin;
    const uint32_t size = count >= SAMPLED_FROM ? PIVOT_SAMPLE : 3;
    uint64_t       sample[PIVOT_SAMPLE];

    for (uint32_t i = 0; i < size; i++) {
        uint64_t candidate = begin + (count - 1) * i / (size - 1);
        if (round > PATIENT_ROUNDS) candidate = begin + (candidate ^ (round * 0x9e3779b97f4a7c15ull + i)) * MIX % count;
        uint32_t       at = i;
        for (; at > 0 && before(records + candidate * words, records + sample[at - 1] * words, key); at--) {
            sample[at] = sample[at - 1];
        }
        sample[at] = candidate;
    }
    return sample[(rank - begin) * size / count];
}

/* Quickselect: afterwards records [begin, rank) come before those of [rank, end). All records differ, by row number.
 * Lomuto's partition without branches: every record is swapped with the first one that does not come before the pivot. */
INLINED void select_rank(uint32_t *records, uint64_t begin, uint64_t end, uint64_t rank, uint32_t key, const uint32_t words)
{
    for (uint32_t round = 0; rank > begin && rank < end; round++) {
        uint32_t *const last = records + (end - 1) * words;
        uint64_t        first_after = begin;

        swap_records(records + choose_pivot(records, begin, end, rank, key, round, words) * words, last,
                     words);
        for (uint64_t i = begin; i < end - 1; i++) {
            const bool less = before(records + i * words, last, key);
            swap_records(records + i * words, records + first_after * words, words);
            first_after += less;
        }
        swap_records(records + first_after * words, last, words);
        if (rank <= first_after) {
            end = first_after;
        } else {
            begin = first_after + 1;
        }
    }
}

static void select_rank_4(uint32_t *records, uint64_t begin, uint64_t end, uint64_t rank, uint32_t key)
{
    select_rank(records, begin, end, rank, key, FEW_KEYS + 1);
}

static void select_rank_8(uint32_t *records, uint64_t begin, uint64_t end, uint64_t rank, uint32_t key)
{
    select_rank(records, begin, end, rank, key, MOST_KEYS + 1);
}

/* Splits a node; false for one that is a single group. */
static bool split(const group_build *build, node at, node *left, node *right)
{
    const uint64_t count = at.end - at.begin;
    const uint64_t groups = (count + build->size - 1) / build->size;
    if (groups < 2) return false;
    const uint64_t rank = at.begin + groups / 2 * build->size;
    (build->words == FEW_KEYS + 1 ? select_rank_4 : select_rank_8)(build->records, at.begin, at.end, rank,
                                                                    widest_key(build, at));
    *left = (node){at.begin, rank};
    *right = (node){rank, at.end};
    return true;
}

static void split_all(const group_build *build, node at)
{
    node left, right;
    while (!nf_context_stopping(build->ctx) && split(build, at, &left, &right)) {
        split_all(build, left);
        at = right;
    }
}

static nf_status subtree_task(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    const group_build *build = arg;
    split_all(build, build->nodes[task]);
    nf_progress_add(build->ctx, build->nodes[task].end - build->nodes[task].begin);
    return NF_OK;
}

static nf_status split_task(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    const group_build *build = arg;
    const node         whole = build->nodes[task];
    build->right[task] = (node){whole.end, whole.end};
    (void)split(build, whole, &build->nodes[task], &build->right[task]);
    return NF_OK;
}

/* Splits level by level until there are enough subtrees for all threads. */
static nf_status split_top(group_build *build, uint32_t wanted, uint32_t *count)
{
    *count = 1;
    build->nodes[0] = (node){0, build->points->rows_count};
    while (*count < wanted) {
        const uint32_t level = *count;
        NF_TRY(nf_pool_run(build->ctx, split_task, build, level));
        for (uint32_t i = 0; i < level; i++) {
            if (build->right[i].begin < build->right[i].end) build->nodes[(*count)++] = build->right[i];
        }
        if (*count == level) break;
    }
    return NF_OK;
}

static nf_status build_tree(group_build *build)
{
    const uint32_t wanted = 4 * nf_context_threads(build->ctx);
    uint32_t       count = 0;

    build->nodes = nf_alloc(build->ctx, 2 * (uint64_t)wanted, sizeof *build->nodes);
    build->right = nf_alloc(build->ctx, 2 * (uint64_t)wanted, sizeof *build->right);
    nf_status status = build->nodes != NULL && build->right != NULL ? NF_OK : nf_alloc_status(build->ctx);
    if (status >= 0) status = split_top(build, wanted, &count);
    if (status >= 0) status = nf_pool_run(build->ctx, subtree_task, build, count);
    nf_free(build->nodes);
    nf_free(build->right);
    return status;
}

static nf_status allocate_groups(nf_context *ctx, nf_points *points, uint32_t size)
{
    points->group_count = (uint32_t)((points->rows_count + size - 1) / size);
    points->ids = nf_alloc_in(ctx, points->memory, points->rows_count, sizeof(uint32_t));
    points->group_start = nf_alloc_in(ctx, points->memory, (uint64_t)points->group_count + 1, sizeof(uint32_t));
    if (points->ids == NULL || points->group_start == NULL) return nf_alloc_status(ctx);
    for (uint32_t g = 0; g < points->group_count; g++) points->group_start[g] = g * size;
    points->group_start[points->group_count] = (uint32_t)points->rows_count;
    return NF_OK;
}

nf_status nf_cpu_group(nf_context *ctx, nf_points *points, uint32_t group_size)
{
    group_build build = {
        .ctx = ctx,
        .points = points,
        .words = points->dims <= FEW_KEYS ? FEW_KEYS + 1 : MOST_KEYS + 1,
        .keys = points->dims < MOST_KEYS ? points->dims : MOST_KEYS,
        .size = group_size == 0 ? NF_TILE : group_size,
    };
    if (build.size > NF_TILE) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "group_size is %u, the cpu engine takes 1 to %u", group_size, NF_TILE);
    }
    NF_TRY(allocate_groups(ctx, points, build.size));
    if (points->rows_count == 0) return NF_OK;

    build.records = nf_alloc(ctx, points->rows_count, build.words * sizeof *build.records);
    if (build.records == NULL) return nf_alloc_status(ctx);
    nf_status status =
        nf_pool_run(ctx, fill_task, &build, (points->rows_count + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
    if (status >= 0) status = build_tree(&build);
    for (uint64_t i = 0; status >= 0 && i < points->rows_count; i++) points->ids[i] = build.records[i * build.words];
    nf_free(build.records);
    return status;
}
