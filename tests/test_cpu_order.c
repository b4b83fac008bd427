/* SPDX-License-Identifier: Apache-2.0 */
/* Step order: rows, ids and positions belong together; boxes hold their rows and balls their groups, without tolerance. */
#include "points_helper.h"

static const nf_dtype dtypes[] = {NF_DTYPE_U8, NF_DTYPE_I8, NF_DTYPE_U16, NF_DTYPE_I16, NF_DTYPE_U32, NF_DTYPE_I32,
                                  NF_DTYPE_U64, NF_DTYPE_I64, NF_DTYPE_F16, NF_DTYPE_F32, NF_DTYPE_F64};

/* Every row is where its id says, with the caller's values in the caller's order of columns. */
static void check_rows(const nf_points *points, const nf_matrix *data)
{
    double *expected = exact_values(data), *row = malloc(data->dims * sizeof *row);
    for (uint64_t position = 0; position < data->rows; position++) {
        const uint32_t id = points->ids[position];
        assert_true(id < data->rows);
        assert_int_equal(points->positions[id], position);
        nf_cpu_row_f64(points, position, row);
        for (uint32_t c = 0; c < data->dims; c++) assert_true(row[c] == expected[id * data->dims + c]);
    }
    free(expected);
    free(row);
}

/* Groups are whole: the kd-tree's, only their order may change. */
static void check_group_sizes(const nf_points *points, uint64_t rows, uint32_t size)
{
    uint32_t smaller = 0;
    assert_int_equal(points->group_start[0], 0);
    assert_int_equal(points->group_start[points->group_count], rows);
    for (uint32_t g = 0; g < points->group_count; g++) {
        if (nf_cpu_group_size(points, g) != size) smaller++;
        assert_in_range(nf_cpu_group_size(points, g), 1, size);
    }
    assert_int_equal(smaller, rows % size == 0 ? 0 : 1);
}

static void check_boxes(const nf_points *points, uint64_t rows)
{
    const uint32_t dims = points->dims;
    double        *row = malloc(dims * sizeof *row);
    for (uint32_t g = 0; g < points->group_count; g++) {
        const float *box = nf_cpu_box(points, 0, g);
        int          tight = 1;
        for (uint32_t p = points->group_start[g]; p < points->group_start[g + 1]; p++) {
            nf_cpu_row_f64(points, p, row);
            for (uint32_t k = 0; k < dims; k++) {
                const double value = row[points->dim_order[k]];
                assert_true((double)box[k] <= value && value <= (double)box[dims + k]);
                tight = tight && (box[k] <= box[dims + k]);
            }
        }
        assert_true(tight);
    }
    for (uint32_t level = 1; level < points->level_count; level++) {
        const nf_box_level *below = &points->level[level - 1];
        assert_int_equal(points->level[level].count, (below->count + NF_FANOUT - 1) / NF_FANOUT);
        for (uint32_t i = 0; i < below->count; i++) {
            const float *child = nf_cpu_box(points, level - 1, i), *parent = nf_cpu_box(points, level, i / NF_FANOUT);
            for (uint32_t k = 0; k < dims; k++) {
                assert_true(parent[k] <= child[k] && parent[dims + k] >= child[dims + k]);
            }
        }
    }
    assert_true(points->level_count >= 1 && points->level_count <= NF_MAX_LEVELS);
    assert_true(points->level[points->level_count - 1].count <= NF_FANOUT);
    if (rows == 0) assert_int_equal(points->group_count, 0);
    free(row);
}

/* Boxes are no larger than rounding needs: a bound is the float next to a row's value, or that value. */
static void check_tight(const nf_points *points)
{
    const uint32_t dims = points->dims;
    double        *row = malloc(dims * sizeof *row);
    for (uint32_t g = 0; g < points->group_count; g++) {
        const float *box = nf_cpu_box(points, 0, g);
        for (uint32_t k = 0; k < dims; k++) {
            double low = HUGE_VAL, high = -HUGE_VAL;
            for (uint32_t p = points->group_start[g]; p < points->group_start[g + 1]; p++) {
                nf_cpu_row_f64(points, p, row);
                low = fmin(low, row[points->dim_order[k]]);
                high = fmax(high, row[points->dim_order[k]]);
            }
            assert_true((double)nextafterf(box[k], HUGE_VALF) > low);
            assert_true((double)nextafterf(box[dims + k], -HUGE_VALF) < high);
        }
    }
    free(row);
}

/* No row is farther from the centroid than spread, in extended precision; infinite is always right. */
static void check_spreads(const nf_points *points)
{
    const uint32_t dims = points->dims;
    double        *row = malloc(dims * sizeof *row);
    for (uint32_t g = 0; g < points->group_count; g++) {
        const float      *centroid = points->centroid + (size_t)g * dims;
        const long double spread = (long double)points->spread[g];
        if (isinf(points->spread[g])) continue;
        for (uint32_t p = points->group_start[g]; p < points->group_start[g + 1]; p++) {
            long double sum = 0.0L;
            nf_cpu_row_f64(points, p, row);
            for (uint32_t k = 0; k < dims; k++) {
                const long double difference = (long double)row[points->dim_order[k]] - (long double)centroid[k];
                sum += difference * difference;
            }
            assert_true(sum <= spread * spread || sum < 0x1p-1000L); /* the hit test grants what binary32 cannot hold */
        }
    }
    free(row);
}

static void test_everything_belongs_together(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 63, 64, 65, 700, 5000};
    for (size_t n = 0; n < 7; n++) {
        for (int kind = 0; kind < POINT_KINDS; kind++) {
            for (uint32_t dims = 1; dims <= 5; dims += 2) {
                nf_context    *ctx = exact_context(NF_ISA_AUTO, 1 + (uint32_t)n % 3, 0);
                nf_matrix      data = points_matrix(kind, kind % 2 ? NF_DTYPE_F64 : NF_DTYPE_F32, sizes[n], dims);
                const uint32_t size = n % 2 ? 64 : 7;
                nf_points     *points = points_ordered(ctx, &data, NULL, size);
                check_rows(points, &data);
                check_group_sizes(points, sizes[n], size);
                check_boxes(points, sizes[n]);
                check_spreads(points);
                if (kind != 5) check_tight(points);
                nf_cpu_points_close(points);
                nf_context_destroy(ctx);
                exact_free(&data);
            }
        }
    }
}

/* Every element type comes back with its values. */
static void test_types(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
        for (uint32_t dims = 1; dims <= 33; dims += 16) {
            nf_matrix data = exact_matrix(dtypes[t], 130, dims);
            uint64_t  seed = t;
            for (uint64_t i = 0; i < 130 * dims; i++) {
                unsigned char *to = (unsigned char *)(uintptr_t)data.data + i * nf_dtype_bytes(dtypes[t]);
                for (size_t b = 0; b < nf_dtype_bytes(dtypes[t]) && b < 6; b++) to[b] = (unsigned char)random_bits(&seed);
                if (dtypes[t] >= NF_DTYPE_F16) exact_put(&data, i / dims, (uint32_t)(i % dims), random_unit(&seed) - 0.5);
            }
            nf_points *points = points_ordered(ctx, &data, NULL, 0);
            check_rows(points, &data);
            check_boxes(points, 130);
            check_spreads(points);
            nf_cpu_points_close(points);
            exact_free(&data);
        }
    }
    nf_context_destroy(ctx);
}

/* The same order and bytes for any number of threads. */
static void test_threads(void **state)
{
    (void)state;
    nf_matrix   data = points_matrix(0, NF_DTYPE_F32, 3000, 4);
    nf_context *one = exact_context(NF_ISA_AUTO, 1, 0), *four = exact_context(NF_ISA_AUTO, 4, 0);
    nf_points  *a = points_ordered(one, &data, NULL, 0), *b = points_ordered(four, &data, NULL, 0);
    assert_memory_equal(a->ids, b->ids, 3000 * sizeof *a->ids);
    assert_memory_equal(a->group_start, b->group_start, (a->group_count + 1) * sizeof *a->group_start);
    assert_memory_equal(a->rows, b->rows, 3000 * a->row_bytes);
    assert_memory_equal(a->level[0].box, b->level[0].box, a->group_count * 8 * sizeof(float));
    assert_memory_equal(a->spread, b->spread, a->group_count * sizeof(float));
    nf_cpu_points_close(a);
    nf_cpu_points_close(b);
    nf_context_destroy(one);
    nf_context_destroy(four);
    exact_free(&data);
}

/* What is behind the ids may be read by vector instructions, and is zero. */
static void test_zeros_behind_ids(void **state)
{
    (void)state;
    nf_matrix   data = points_matrix(0, NF_DTYPE_F32, 100, 2);
    nf_context *ctx = exact_context(NF_ISA_AUTO, 1, 0);
    nf_points  *points = points_ordered(ctx, &data, NULL, 0);
    for (uint32_t i = 0; i < NF_TILE; i++) assert_int_equal(points->ids[100 + i], 0);
    nf_cpu_points_close(points);
    nf_context_destroy(ctx);
    exact_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_belongs_together),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_zeros_behind_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
