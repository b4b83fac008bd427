/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k nearest neighbours through an index, on shapes that reach every way through the CPU engine's search from the
 * nearest groups outwards: all types, few and many dims, k of one row, of several groups and of all rows, ties, copies,
 * queries of other types and far away. Held against brute force written here, to the bit, whatever instruction set and
 * threads.
 */
#include "exact_helper.h"
#include "memory_helper.h"
#include "nearfield/neighbours.h"

/* ---- the oracle ---- */

typedef struct neighbour {
    double  distance;
    int64_t id;
} neighbour;

static int compare_neighbours(const void *a, const void *b)
{
    const neighbour *x = a, *y = b;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The contract's formula; all data here stay where sums of squares neither over- nor underflow. */
static double contract(const double *x, const double *y, uint32_t dims)
{
    double sum = 0.0;
    for (uint32_t c = 0; c < dims; c++) sum = fma(x[c] - y[c], x[c] - y[c], sum);
    assert_true(sum == 0.0 || (sum >= 0x1p-900 && sum <= 0x1p1000));
    return sqrt(sum);
}

/* The first k of query q, and how many there are. */
static uint64_t truth_of(const nf_matrix *data, const double *x, const double *y, uint64_t q, bool self, neighbour *all)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < data->rows; i++) {
        if (self && i == q) continue;
        all[found].distance = contract(x + i * data->dims, y + q * data->dims, data->dims);
        all[found++].id = (int64_t)i;
    }
    qsort(all, found, sizeof *all, compare_neighbours);
    return found;
}

/* ---- asking ---- */

typedef struct answer {
    int64_t  *ids;
    double   *distances;
    uint32_t *counts;
} answer;

static answer answer_open(uint64_t queries, uint32_t k)
{
    return (answer){.ids = malloc((queries * k + 1) * sizeof(int64_t)),
                    .distances = malloc((queries * k + 1) * sizeof(double)),
                    .counts = malloc((queries + 1) * sizeof(uint32_t))};
}

static void answer_close(answer *of)
{
    free(of->ids);
    free(of->distances);
    free(of->counts);
}

static nf_status ask(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t k, answer *to,
                     nf_knn_stats *stats)
{
    nf_radius_index *index = NULL;
    nf_knn_params    params;
    nf_knn_params_init(&params);
    params.k = k;
    nf_status status = nf_radius_index_create(ctx, data, NULL, &index);
    if (status >= 0) status = nf_radius_knn(ctx, index, queries, &params, to->ids, to->distances, to->counts, stats);
    nf_radius_index_release(index);
    return status;
}

/* queries NULL: the data themselves. Every step-th query is held against the oracle. */
static void check_some(nf_context *ctx, const nf_matrix *data, const nf_matrix *queries, uint32_t k, uint64_t step)
{
    const nf_matrix *from = queries != NULL ? queries : data;
    double          *x = exact_values(data), *y = exact_values(from);
    neighbour       *all = malloc((data->rows + 1) * sizeof *all);
    answer           got = answer_open(from->rows, k);

    if (ask(ctx, data, queries, k, &got, NULL) != NF_OK) fail_msg("%s", nf_context_error(ctx)->text);
    for (uint64_t q = 0; q < from->rows; q += step) {
        const uint64_t found = truth_of(data, x, y, q, queries == NULL, all);
        assert_int_equal(got.counts[q], found < k ? found : k);
        for (uint32_t i = 0; i < k; i++) {
            const int64_t id = got.ids[q * k + i];
            const double  distance = got.distances[q * k + i];
            if (id == (i < found ? all[i].id : -1) && distance == (i < found ? all[i].distance : HUGE_VAL)) continue;
            fail_msg("%d x %u, type %u, k %u, query %d, place %u: %d at %a, not %d at %a", (int)data->rows, data->dims,
                     data->dtype, k, (int)q, i, (int)id, distance, (int)all[i].id, all[i].distance);
        }
    }
    answer_close(&got);
    free(all);
    free(x);
    free(y);
}

/* ---- data ---- */

typedef enum kind {
    BLOBS,  /* clusters of many sizes */
    GRID,   /* small whole numbers: ties at every distance */
    COPIES, /* rows of which there are many equal ones */
    KINDS
} kind;

static double value_of(kind of, nf_dtype type, uint64_t row, uint32_t column, uint64_t *seed)
{
    const bool   whole = type <= NF_DTYPE_I64;
    const double unit = random_unit(seed), centre = (double)(row * 7 % 11);
    switch (of) {
    case BLOBS:
        return whole ? floor(centre * 5.0 + unit * (double)(row % 5 + 1) * 4.0) : centre + unit * (double)(row % 5);
    case GRID: return floor(unit * 4.0);
    case COPIES: return whole ? (double)((row % 13 * 3 + column) % 7) : (double)((row % 13 * 3 + column) % 7) * 0.1;
    case KINDS: break;
    }
    return 0.0;
}

static nf_matrix made(kind of, nf_dtype type, uint64_t rows, uint32_t dims, uint64_t seed)
{
    nf_matrix data = exact_matrix(type, rows, dims);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < dims; c++) exact_put(&data, i, c, value_of(of, type, i, c, &seed));
    }
    return data;
}

/* ---- tests ---- */

static const nf_dtype types[] = {NF_DTYPE_U8,  NF_DTYPE_I8,  NF_DTYPE_I16, NF_DTYPE_U16, NF_DTYPE_I32, NF_DTYPE_U32,
                                 NF_DTYPE_I64, NF_DTYPE_U64, NF_DTYPE_F16, NF_DTYPE_F32, NF_DTYPE_F64};
#define TYPES (sizeof types / sizeof types[0])

/* Every instruction set, threads 1 and 2, every type, dims 1 to 8, 16, 40 and 128; k around the bounds at which the
 * ways of keeping neighbours change (16), of a group (64), of all rows. */
static void test_shapes(void **state)
{
    (void)state;
    static const uint32_t dims[] = {1, 2, 3, 4, 5, 6, 7, 8, 16, 40, 128};
    static const uint32_t ks[] = {1, 2, 10, 15, 16, 17, 63, 64, 65, 200, 699, 700, 900};
    uint64_t              seed = 5;
    for (uint32_t i = 0; exact_isa(i) != NF_ISA_AUTO; i++) {
        for (uint32_t threads = 1; threads <= 2; threads++) {
            nf_context *ctx = exact_context(exact_isa(i), threads, 0);
            for (size_t t = 0; t < TYPES; t++) {
                for (kind of = BLOBS; of < KINDS; of = (kind)(of + 1)) {
                    const uint32_t d = dims[random_below(&seed, 11)], k = ks[random_below(&seed, 13)];
                    nf_matrix      data = made(of, types[t], 700, d, seed);
                    nf_matrix      queries =
                        made(of, types[random_below(&seed, 3) ? t : random_below(&seed, TYPES)], 90, d, seed + 1);
                    check_some(ctx, &data, NULL, k, 41);
                    check_some(ctx, &data, &queries, k, 7);
                    exact_free(&data);
                    exact_free(&queries);
                }
            }
            nf_context_destroy(ctx);
        }
    }
}

/* Larger sets, where most groups are left out, and bundles of several query groups. */
static void test_many_groups(void **state)
{
    (void)state;
    static const struct {
        nf_dtype type;
        uint32_t dims, k;
    } cases[] = {{NF_DTYPE_F32, 3, 10}, {NF_DTYPE_F32, 2, 100}, {NF_DTYPE_U8, 128, 10}, {NF_DTYPE_F32, 40, 10},
                 {NF_DTYPE_F64, 9, 5},  {NF_DTYPE_F64, 30, 33}, {NF_DTYPE_U8, 24, 1000}};
    for (uint32_t i = 0; exact_isa(i) != NF_ISA_AUTO; i++) {
        nf_context *ctx = exact_context(exact_isa(i), 2, 0);
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            for (kind of = BLOBS; of <= GRID; of = (kind)(of + 1)) {
                nf_matrix data = made(of, cases[c].type, exact_short() ? 1500 : 6000, cases[c].dims, c);
                check_some(ctx, &data, NULL, cases[c].k, 601);
                exact_free(&data);
            }
        }
        nf_context_destroy(ctx);
    }
}

/* Most groups are not looked at: the search is not a comparison of all pairs in disguise; nor with equal rows only. */
static void test_few_are_compared(void **state)
{
    (void)state;
    if (exact_on_cuda()) return; /* that engine searches in its own way */
    nf_context  *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    nf_knn_stats stats = {.struct_size = sizeof stats};
    for (int equal = 0; equal < 2; equal++) {
        nf_matrix data = exact_matrix(NF_DTYPE_F32, 20000, 2);
        uint64_t  seed = 1;
        for (uint64_t i = 0; i < data.rows && !equal; i++) {
            for (uint32_t c = 0; c < 2; c++) exact_put(&data, i, c, random_unit(&seed));
        }
        answer got = answer_open(data.rows, 10);
        assert_int_equal(ask(ctx, &data, NULL, 10, &got, &stats), NF_OK);
        assert_true(stats.compared < data.rows * 400);
        assert_true(stats.compared >= data.rows * 10);
        for (uint32_t i = 0; i < 10 && equal; i++) assert_int_equal(got.ids[15000 * 10 + i], i);
        answer_close(&got);
        exact_free(&data);
    }
    nf_context_destroy(ctx);
}

/* Queries nowhere near the data, whose radii are large and alike. */
static void test_far_queries(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (uint32_t dims = 1; dims <= 33; dims += 8) {
        nf_matrix data = made(BLOBS, NF_DTYPE_F32, 900, dims, 3), queries = made(BLOBS, NF_DTYPE_F64, 130, dims, 4);
        for (uint64_t i = 0; i < queries.rows; i += 3) exact_put(&queries, i, 0, 1e9 + (double)i * 1e3);
        for (uint64_t i = 1; i < queries.rows; i += 3) exact_put(&queries, i, dims - 1, -1e140);
        check_some(ctx, &data, &queries, 12, 1);
        exact_free(&data);
        exact_free(&queries);
    }
    nf_context_destroy(ctx);
}

static void test_small(void **state)
{
    (void)state;
    nf_context *ctx = exact_context(NF_ISA_AUTO, 2, 0);
    for (uint64_t rows = 1; rows <= 4; rows++) {
        nf_matrix data = made(GRID, NF_DTYPE_F32, rows, 1, rows);
        for (uint32_t k = 1; k <= 5; k++) {
            check_some(ctx, &data, NULL, k, 1);
            check_some(ctx, &data, &data, k, 1);
        }
        exact_free(&data);
    }
    nf_context_destroy(ctx);
}

/* Each allocation fails, or cancels, in turn; the same context then answers rightly. */
static void test_faults(void **state)
{
    (void)state;
    for (int cancel = 0; cancel < 2; cancel++) {
        memory_hook       hook = {0};
        nf_context_params params;
        nf_context       *ctx = NULL;
        nf_context_params_init(&params);
        params.threads = 2;
        params.allocator = memory_hook_allocator(&hook);
        assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
        hook.cancelled = ctx;
        const long live = hook.live_blocks;
        nf_matrix  data = made(BLOBS, NF_DTYPE_F32, 300, 6, 1), queries = made(BLOBS, NF_DTYPE_F64, 40, 6, 2);
        answer     got = answer_open(40, 20);
        long       failures = 0;
        for (long n = 1;; n++) {
            const long before = hook.calls;
            *(cancel ? &hook.cancel_at : &hook.fail_at) = before + n;
            const nf_status status = ask(ctx, &data, &queries, 20, &got, NULL);
            assert_int_equal(hook.live_blocks, live);
            if (hook.calls < before + n) break;
            assert_true(status == NF_OK || status == (cancel ? NF_ERR_CANCELLED : NF_ERR_MEMORY));
            failures += status != NF_OK;
        }
        assert_true(failures > 40);
        hook.cancel_at = hook.fail_at = 0;
        check_some(ctx, &data, &queries, 20, 1);
        answer_close(&got);
        exact_free(&data);
        exact_free(&queries);
        nf_context_destroy(ctx);
        assert_int_equal(hook.live_blocks, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),  cmocka_unit_test(test_shapes),           cmocka_unit_test(test_many_groups),
        cmocka_unit_test(test_faults), cmocka_unit_test(test_few_are_compared), cmocka_unit_test(test_far_queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
