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
 * rows of a tile that are alike in it leave early together), so that each level reads memory in sequence. Levels near the root are split one
 * node after the other, subtrees below in parallel.
 */
#include <math.h>
#include <string.h>

#include "core/core_pool.h"
#include "cpu_points.h"
#include "matrix/matrix_convert.h"

#define KEYS 7u              /* coordinates in a record */
#define NORM_DIMS 32u        /* from that many dims on the last of them is the distance from the mean */
#define SPREAD_SAMPLE 1024u  /* rows looked at to find the widest coordinate */
#define ROWS_PER_TASK 8192u

typedef struct record {
    uint32_t id;
    float    key[KEYS];
} record;

typedef struct node {
    uint64_t begin, end;
} node;

typedef struct group_build {
    nf_context *ctx;
    nf_points  *points;
    record     *records;
    uint32_t    keys;
    uint32_t    size;
    node       *nodes; /* subtrees to be done in parallel */
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
        record *to = &build->records[row];
        nf_matrix_row_f64(matrix, row, row_values);
        to->id = (uint32_t)row;
        for (uint32_t k = 0; k < build->keys; k++) to->key[k] = (float)row_values[build->points->dim_order[k]];
        if (matrix->dims >= NORM_DIMS) to->key[KEYS - 1] = distance_from_mean(build->points, row_values);
    }
    nf_free(row_values);
    return NF_OK;
}

/* The coordinate with the widest spread over an evenly spaced sample of the node. */
static uint32_t widest_key(const group_build *build, node at)
{
    const uint64_t count = at.end - at.begin;
    const uint64_t stride = count > SPREAD_SAMPLE ? count / SPREAD_SAMPLE : 1;
    float          low[KEYS], high[KEYS];

    for (uint32_t k = 0; k < build->keys; k++) low[k] = high[k] = build->records[at.begin].key[k];
    for (uint64_t i = at.begin; i < at.end; i += stride) {
        for (uint32_t k = 0; k < build->keys; k++) {
            const float value = build->records[i].key[k];
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

static inline bool before(const record *a, const record *b, uint32_t key)
{
    return a->key[key] < b->key[key] || (a->key[key] == b->key[key] && a->id < b->id);
}

static inline void swap_records(record *a, record *b)
{
    const record held = *a;
    *a = *b;
    *b = held;
}

/* Median of three evenly spaced records: a pivot that sorted data do not defeat. */
static record pivot_of(const record *records, uint64_t begin, uint64_t end, uint32_t key)
{
    const record *a = &records[begin], *b = &records[begin + (end - begin) / 2], *c = &records[end - 1];
    if (before(b, a, key)) {
        const record *held = a;
        a = b;
        b = held;
    }
    if (before(c, b, key)) b = before(c, a, key) ? a : c;
    return *b;
}

/* Quickselect (Hoare): afterwards records [begin, rank) come before those of [rank, end). All records differ, by id. What
 * is left of begin comes before, what is right of end after, all in between; done when rank is at either. */
static void select_rank(record *records, uint64_t begin, uint64_t end, uint64_t rank, uint32_t key)
{
    while (rank > begin && rank < end) {
        const record pivot = pivot_of(records, begin, end, key);
        uint64_t     i = begin, j = end - 1;
        for (;;) {
            while (before(&records[i], &pivot, key)) i++;
            while (before(&pivot, &records[j], key)) j--;
            if (i >= j) break;
            swap_records(&records[i], &records[j]);
            i++;
            j--;
        }
        if (rank < i) {
            end = i;
        } else if (i == j) { /* the pivot is at its own place */
            begin = i + 1;
        } else {
            begin = i;
        }
        if (rank == i) return;
    }
}

/* Splits a node; false for one that is a single group. */
static bool split(const group_build *build, node at, node *left, node *right)
{
    const uint64_t count = at.end - at.begin;
    const uint64_t groups = (count + build->size - 1) / build->size;
    if (groups < 2) return false;
    const uint64_t rank = at.begin + groups / 2 * build->size;
    select_rank(build->records, at.begin, at.end, rank, widest_key(build, at));
    *left = (node){at.begin, rank};
    *right = (node){rank, at.end};
    return true;
}

static void split_all(const group_build *build, node at)
{
    node left, right;
    while (split(build, at, &left, &right)) {
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

/* Splits level by level until there are enough subtrees for all threads. Returns their number. */
static uint32_t split_top(const group_build *build, uint32_t wanted)
{
    uint32_t count = 1;
    build->nodes[0] = (node){0, build->points->rows_count};
    while (count < wanted) {
        const uint32_t before_level = count;
        for (uint32_t i = 0; i < before_level; i++) {
            node left, right;
            if (!split(build, build->nodes[i], &left, &right)) continue;
            build->nodes[i] = left;
            build->nodes[count++] = right;
        }
        if (count == before_level) break;
    }
    return count;
}

static nf_status build_tree(group_build *build)
{
    const uint32_t wanted = 4 * nf_context_threads(build->ctx);
    build->nodes = nf_alloc(build->ctx, 2 * (uint64_t)wanted, sizeof *build->nodes);
    if (build->nodes == NULL) return nf_alloc_status(build->ctx);
    const uint32_t  count = split_top(build, wanted);
    const nf_status status = nf_pool_run(build->ctx, subtree_task, build, count);
    nf_free(build->nodes);
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
        .keys = points->dims < KEYS ? points->dims : KEYS,
        .size = group_size == 0 ? NF_TILE : group_size,
    };
    if (build.size > NF_TILE) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "group_size is %u, the cpu engine takes 1 to %u", group_size, NF_TILE);
    }
    NF_TRY(allocate_groups(ctx, points, build.size));
    if (points->rows_count == 0) return NF_OK;

    build.records = nf_alloc(ctx, points->rows_count, sizeof *build.records);
    if (build.records == NULL) return nf_alloc_status(ctx);
    nf_status status =
        nf_pool_run(ctx, fill_task, &build, (points->rows_count + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
    if (status >= 0) status = build_tree(&build);
    for (uint64_t i = 0; status >= 0 && i < points->rows_count; i++) points->ids[i] = build.records[i].id;
    nf_free(build.records);
    return status;
}
