/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes around groups, and boxes around boxes.
 *
 * A group's box is [min, max] of its rows in every dimension, rounded outwards to binary32; a query grows it by the
 * radius. (The paper takes the box of a sphere around the group: that one is larger, and loses pairs by rounding.) Levels
 * above unite NF_FANOUT consecutive boxes each. Centroid and spread bound a group by a ball, which is tighter than a box in
 * many dimensions: |q - p| >= |q - c| - |p - c|.
 */
#include <math.h>
#include <string.h>

#include "core/core_pool.h"
#include "cpu_points.h"

#define GROUPS_PER_TASK 32u

static float round_down(double value)
{
    const float nearest = (float)value;
    return (double)nearest > value ? nextafterf(nearest, -HUGE_VALF) : nearest;
}

static float round_up(double value)
{
    const float nearest = (float)value;
    return (double)nearest < value ? nextafterf(nearest, HUGE_VALF) : nearest;
}

typedef struct boxes_run {
    nf_context *ctx;
    nf_points  *points;
} boxes_run;

/* Box and mean of a group. values: scratch of 2 * dims doubles; the mean is left in its second half. */
static void box_group(nf_points *points, uint32_t group, double *values)
{
    const uint32_t dims = points->dims, begin = points->group_start[group], end = points->group_start[group + 1];
    float         *low = points->level[0].box + (size_t)group * 2 * dims, *high = low + dims;
    double        *mean = values + dims;
    const double   share = 1.0 / (end - begin);

    for (uint32_t k = 0; k < dims; k++) mean[k] = 0.0;
    for (uint32_t position = begin; position < end; position++) {
        nf_cpu_row_f64(points, position, values);
        for (uint32_t k = 0; k < dims; k++) {
            const double   value = values[points->dim_order[k]];
            const float    down = round_down(value), up = round_up(value);
            low[k] = position == begin || down < low[k] ? down : low[k];
            high[k] = position == begin || up > high[k] ? up : high[k];
            mean[k] += value * share;
        }
    }
}

/* Centroid (any point near the mean will do) and the largest distance from it. The sum of squares has a relative error of
 * at most (dims + 3) 2^-53, which the factor covers for every allowed number of dims. */
static void ball_group(nf_points *points, uint32_t group, double *values)
{
    const uint32_t dims = points->dims;
    const double  *mean = values + dims;
    float         *centroid = points->centroid + (size_t)group * dims;
    double         largest = 0.0;

    for (uint32_t k = 0; k < dims; k++) centroid[k] = (float)mean[k];
    for (uint32_t position = points->group_start[group]; position < points->group_start[group + 1]; position++) {
        double sum = 0.0;
        nf_cpu_row_f64(points, position, values);
        for (uint32_t k = 0; k < dims; k++) {
            const double difference = values[points->dim_order[k]] - (double)centroid[k];
            sum += difference * difference;
        }
        largest = fmax(largest, sum);
    }
    points->spread[group] = round_up(sqrt(largest) * (1.0 + 0x1p-30));
}

static nf_status boxes_task(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    const boxes_run *run = arg;
    const uint32_t   begin = (uint32_t)task * GROUPS_PER_TASK, groups = run->points->group_count;
    const uint32_t   end = begin + GROUPS_PER_TASK < groups ? begin + GROUPS_PER_TASK : groups;
    double          *values = nf_alloc(run->ctx, 2 * (uint64_t)run->points->dims, sizeof *values);

    if (values == NULL) return nf_alloc_status(run->ctx);
    for (uint32_t group = begin; group < end; group++) {
        box_group(run->points, group, values);
        ball_group(run->points, group, values);
    }
    nf_free(values);
    return NF_OK;
}

static void unite(float *to, const float *from, uint32_t dims)
{
    for (uint32_t k = 0; k < dims; k++) to[k] = from[k] < to[k] ? from[k] : to[k];
    for (uint32_t k = dims; k < 2 * dims; k++) to[k] = from[k] > to[k] ? from[k] : to[k];
}

static nf_status build_level(nf_context *ctx, nf_points *points, uint32_t level)
{
    const nf_box_level *below = &points->level[level - 1];
    nf_box_level       *here = &points->level[level];
    const size_t        floats = 2 * (size_t)points->dims;

    here->count = (below->count + NF_FANOUT - 1) / NF_FANOUT;
    here->box = nf_alloc_in(ctx, points->memory, here->count, floats * sizeof(float));
    if (here->box == NULL) return nf_alloc_status(ctx);
    for (uint32_t i = 0; i < below->count; i++) {
        float       *to = here->box + i / NF_FANOUT * floats;
        const float *from = below->box + i * floats;
        if (i % NF_FANOUT == 0) memcpy(to, from, floats * sizeof(float));
        unite(to, from, points->dims);
    }
    return NF_OK;
}

nf_status nf_cpu_build_boxes(nf_context *ctx, nf_points *points)
{
    const uint32_t groups = points->group_count;
    boxes_run      run = {ctx, points};

    points->level[0].count = groups;
    points->level[0].box = nf_alloc_in(ctx, points->memory, groups, 2 * (size_t)points->dims * sizeof(float));
    points->centroid = nf_alloc_in(ctx, points->memory, groups, points->dims * sizeof(float));
    points->spread = nf_alloc_in(ctx, points->memory, groups, sizeof(float));
    if (points->level[0].box == NULL || points->centroid == NULL || points->spread == NULL) return nf_alloc_status(ctx);
    NF_TRY(nf_pool_run(ctx, boxes_task, &run, (groups + GROUPS_PER_TASK - 1) / GROUPS_PER_TASK));
    points->level_count = 1;
    while (points->level[points->level_count - 1].count > NF_FANOUT) {
        NF_TRY(build_level(ctx, points, points->level_count));
        points->level_count++;
    }
    return NF_OK;
}
