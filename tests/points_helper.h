/* SPDX-License-Identifier: Apache-2.0 */
/* Points of the CPU engine, step by step, for tests of the steps. */
#ifndef NF_TESTS_POINTS_HELPER_H
#define NF_TESTS_POINTS_HELPER_H

#include "cpu/cpu_points.h"
#include "exact_helper.h"

static inline nf_points *points_grouped(nf_context *ctx, const nf_matrix *matrix, const nf_points *like, uint32_t group_size)
{
    nf_points *points = NULL;
    assert_int_equal(nf_cpu_points_open(ctx, matrix, nf_context_memory(ctx), &points), NF_OK);
    assert_int_equal(nf_cpu_select_dims(ctx, points, like), NF_OK);
    assert_int_equal(nf_cpu_group(ctx, points, group_size), NF_OK);
    return points;
}

static inline nf_points *points_ordered(nf_context *ctx, const nf_matrix *matrix, const nf_points *like, uint32_t group_size)
{
    nf_points *points = points_grouped(ctx, matrix, like, group_size);
    assert_int_equal(nf_cpu_order(ctx, points), NF_OK);
    return points;
}

/* Data of a kind: 0 uniform, 1 all equal, 2 few different, 3 sorted, 4 one far outlier, 5 huge and tiny values. */
#define POINT_KINDS 6
static inline nf_matrix points_matrix(int kind, nf_dtype dtype, uint64_t rows, uint32_t dims)
{
    nf_matrix data = exact_matrix(dtype, rows, dims);
    uint64_t  seed = (uint64_t)kind * 77 + rows;
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < dims; c++) {
            double value = random_unit(&seed) * 10.0;
            if (kind == 1) value = 5.0;
            if (kind == 2) value = (double)random_below(&seed, 3);
            if (kind == 3) value = (double)i + c;
            if (kind == 4 && i == rows / 2) value = 1e30;
            if (kind == 5) value = ldexp(random_unit(&seed) - 0.5, dtype == NF_DTYPE_F64 ? (int)random_below(&seed, 2000) - 1000 : 20);
            exact_put(&data, i, c, value);
        }
    }
    return data;
}

#endif
