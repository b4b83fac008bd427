/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step order: groups in Morton order of their centres in the index dims, rows of a group contiguous (RT-HiSS, section
 * IV-C). Neighbouring groups are then near in memory, and boxes of consecutive groups make a good hierarchy.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core_pool.h"
#include "cpu_points.h"
#include "matrix/matrix_convert.h"

#define MORTON_BITS 21u
#define GROUPS_PER_TASK 64u

typedef struct group_key {
    uint64_t morton;
    uint32_t group;
} group_key;

/* Spreads the lowest 21 bits of value to every third bit. */
static uint64_t spread_bits(uint64_t value)
{
    value &= 0x1fffff;
    value = (value | value << 32) & 0x1f00000000ffffull;
    value = (value | value << 16) & 0x1f0000ff0000ffull;
    value = (value | value << 8) & 0x100f00f00f00f00full;
    value = (value | value << 4) & 0x10c30c30c30c30c3ull;
    return (value | value << 2) & 0x1249249249249249ull;
}


/* Centre of each group in the index dims: the mean of at most 8 of its rows is enough to sort by. */
static void group_centre(const nf_points *points, uint32_t group, double *row_values, double centre[NF_INDEX_DIMS])
{
    const uint32_t begin = points->group_start[group], count = nf_cpu_group_size(points, group);
    const uint32_t stride = count > 8 ? count / 8 : 1, dims = points->dims < NF_INDEX_DIMS ? points->dims : NF_INDEX_DIMS;
    uint32_t       taken = 0;

    for (uint32_t k = 0; k < NF_INDEX_DIMS; k++) centre[k] = 0.0;
    for (uint32_t i = 0; i < count; i += stride, taken++) {
        nf_matrix_row_f64(&points->matrix, points->ids[begin + i], row_values);
        for (uint32_t k = 0; k < dims; k++) centre[k] += row_values[points->dim_order[k]] * 0.125;
    }
    for (uint32_t k = 0; k < dims; k++) centre[k] = centre[k] * 8.0 / taken;
}

static int compare_keys(const void *a, const void *b)
{
    const group_key *x = a, *y = b;
    if (x->morton != y->morton) return x->morton < y->morton ? -1 : 1;
    return x->group < y->group ? -1 : 1;
}

static uint64_t morton_code(const double centre[NF_INDEX_DIMS], const double low[NF_INDEX_DIMS],
                            const double high[NF_INDEX_DIMS])
{
    uint64_t code = 0;
    for (uint32_t k = 0; k < NF_INDEX_DIMS; k++) {
        const double extent = high[k] * 0.5 - low[k] * 0.5; /* halves: no overflow at the ends of binary64 */
        const double part = extent > 0.0 ? (centre[k] * 0.5 - low[k] * 0.5) / extent : 0.0;
        const double cell = floor(part * (double)((1u << MORTON_BITS) - 1));
        code |= spread_bits(cell > 0.0 ? (uint64_t)cell : 0) << k;
    }
    return code;
}

static nf_status morton_order(nf_context *ctx, const nf_points *points, group_key *keys)
{
    const uint32_t count = points->group_count;
    double         low[NF_INDEX_DIMS], high[NF_INDEX_DIMS];
    double        *row_values = nf_alloc(ctx, points->dims, sizeof *row_values);
    double(*centres)[NF_INDEX_DIMS] = nf_alloc(ctx, count, sizeof *centres);

    if (row_values == NULL || centres == NULL) {
        nf_free(row_values);
        nf_free(centres);
        return nf_alloc_status(ctx);
    }
    for (uint32_t g = 0; g < count; g++) {
        group_centre(points, g, row_values, centres[g]);
        for (uint32_t k = 0; k < NF_INDEX_DIMS; k++) {
            low[k] = g == 0 ? centres[g][k] : fmin(low[k], centres[g][k]);
            high[k] = g == 0 ? centres[g][k] : fmax(high[k], centres[g][k]);
        }
    }
    for (uint32_t g = 0; g < count; g++) keys[g] = (group_key){morton_code(centres[g], low, high), g};
    qsort(keys, count, sizeof *keys, compare_keys);
    nf_free(row_values);
    nf_free(centres);
    return NF_OK;
}

/* Rearranges ids and group starts from kd-tree order to the order of keys. */
static nf_status apply_order(nf_context *ctx, nf_points *points, const group_key *keys)
{
    uint32_t *ids = nf_alloc_zero_in(ctx, points->memory, points->rows_count + NF_TILE, sizeof *ids);
    uint32_t *start = nf_alloc_in(ctx, points->memory, (uint64_t)points->group_count + 1, sizeof *start);
    if (ids == NULL || start == NULL) {
        nf_free(ids);
        nf_free(start);
        return nf_alloc_status(ctx);
    }
    uint32_t position = 0;
    for (uint32_t g = 0; g < points->group_count; g++) {
        const uint32_t from = keys[g].group, count = nf_cpu_group_size(points, from);
        start[g] = position;
        memcpy(ids + position, points->ids + points->group_start[from], count * sizeof *ids);
        position += count;
    }
    start[points->group_count] = position;
    nf_free(points->ids);
    nf_free(points->group_start);
    points->ids = ids;
    points->group_start = start;
    return NF_OK;
}

/* One row into the index's store. The only conversions are those of store_for: all exact. */
static void store_row(const nf_points *points, const void *from, double *row_values, uint32_t id, char *to)
{
    const uint32_t  dims = points->dims;
    const uint32_t *order = points->dim_order;
    switch ((nf_dtype)points->matrix.dtype) {
    case NF_DTYPE_U8:
        for (uint32_t k = 0; k < dims; k++) ((uint8_t *)to)[k] = ((const uint8_t *)from)[order[k]];
        return;
    case NF_DTYPE_I8:
        for (uint32_t k = 0; k < dims; k++) ((uint8_t *)to)[k] = (uint8_t)(((const int8_t *)from)[order[k]] + 128);
        return;
    case NF_DTYPE_I16:
        for (uint32_t k = 0; k < dims; k++) memcpy(to + 2 * k, (const char *)from + 2 * order[k], 2);
        return;
    case NF_DTYPE_U16:
        for (uint32_t k = 0; k < dims; k++) {
            uint16_t value;
            memcpy(&value, (const char *)from + 2 * order[k], sizeof value);
            const int16_t shifted = (int16_t)(value - 32768);
            memcpy(to + 2 * k, &shifted, sizeof shifted);
        }
        return;
    case NF_DTYPE_F16: memcpy(to, from, dims * 2u); return;
    case NF_DTYPE_F32: memcpy(to, from, dims * sizeof(float)); return;
    default:
        nf_matrix_row_f64(&points->matrix, id, row_values);
        memcpy(to, row_values, dims * sizeof(double));
        return;
    }
}

static size_t store_bytes(nf_store store)
{
    switch (store) {
    case NF_STORE_U8: return 1;
    case NF_STORE_I16:
    case NF_STORE_F16: return 2;
    case NF_STORE_F32: return 4;
    case NF_STORE_F64: break;
    }
    return 8;
}

typedef struct gather_run {
    nf_context *ctx;
    nf_points  *points;
} gather_run;

static nf_status gather_task(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    const gather_run *run = arg;
    const nf_points  *points = run->points;
    double           *row_values = nf_alloc(run->ctx, points->dims, sizeof *row_values);
    uint64_t          end_group = (task + 1) * GROUPS_PER_TASK;

    if (row_values == NULL) return nf_alloc_status(run->ctx);
    if (end_group > points->group_count) end_group = points->group_count;
    const uint32_t begin = points->group_start[task * GROUPS_PER_TASK], end = points->group_start[end_group];
    for (uint32_t position = begin; position < end; position++) {
        const uint32_t id = points->ids[position];
        char          *to = (char *)points->rows + position * points->row_bytes;
        store_row(points, nf_matrix_row(&points->matrix, id), row_values, id, to);
        points->positions[id] = position;
    }
    nf_free(row_values);
    nf_progress_add(run->ctx, end - begin);
    return NF_OK;
}

static nf_status gather_rows(nf_context *ctx, nf_points *points)
{
    points->row_bytes = points->dims * store_bytes(points->store);
    points->rows = nf_alloc_in(ctx, points->memory, points->rows_count, points->row_bytes);
    points->positions = nf_alloc_in(ctx, points->memory, points->rows_count, sizeof(uint32_t));
    if (points->rows == NULL || points->positions == NULL) return nf_alloc_status(ctx);
    gather_run run = {ctx, points};
    return nf_pool_run(ctx, gather_task, &run, (points->group_count + GROUPS_PER_TASK - 1) / GROUPS_PER_TASK);
}

nf_status nf_cpu_order(nf_context *ctx, nf_points *points)
{
    group_key *keys = nf_alloc(ctx, points->group_count, sizeof *keys);
    if (keys == NULL) return nf_alloc_status(ctx);
    nf_status status = morton_order(ctx, points, keys);
    if (status >= 0) status = apply_order(ctx, points, keys);
    nf_free(keys);
    NF_TRY(status);
    NF_TRY(gather_rows(ctx, points));

    /* The caller's matrix may go now. */
    points->matrix.data = NULL;
    nf_free(points->variance);
    nf_free(points->mean);
    points->variance = points->mean = NULL;
    return nf_cpu_build_boxes(ctx, points);
}
