/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's searches: recalls on Gaussian rows against those of plain NumPy code; unusual sizes of lists and rows; what
 * must not change an answer (threads, batches, k, filters); and the other operations of the contract, by brute force.
 */
#include "ivf_codes_helper.h"
#include "memory_helper.h"

/* ---- unusual lists ---- */

static void check_filling(const coded *at, uint32_t list)
{
    const uint64_t rows = at->view.list_start[list + 1] - at->view.list_start[list];
    for (uint64_t slot = rows; slot % 32 != 0; slot++) {
        const uint8_t *block = block_of(at, list, slot), *factors = block + (size_t)at->view.padded * 4;
        for (uint32_t row = 0; row < at->view.padded / 8; row++) assert_int_equal(block[row * 32 + slot % 32], 0);
        for (uint32_t byte = 0; byte < 4; byte++) {
            assert_int_equal(factors[slot % 32 * 4 + byte] | factors[128 + slot % 32 * 4 + byte], 0);
        }
        assert_int_equal(factors[256 + slot % 32 * 2] | factors[257 + slot % 32 * 2], 0);
    }
}

static void test_list_sizes(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 31, 32, 0, 33, 64, 65, 0}, lists = COUNT(sizes);
    nf_context           *ctx = context(1);
    for (uint32_t bits = 1; bits <= 9; bits += 4) {
        sample_parts from = make_parts(226, 24, lists, 0.3, sizes, 100 + bits);
        from.parts.bits = bits;
        coded        at = code(ctx, &from.parts);
        float       *queries = normals(20 * 24, 1.0, &(uint64_t){101});
        const double epsilons[] = {0.0, 1.9, INFINITY};
        for (uint32_t list = 0; list < lists; list++) check_filling(&at, list);
        for (size_t e = 0; e < COUNT(epsilons); e++) {
            for (uint32_t k = 226; k <= 300; k += 74) { /* all rows fit: nothing may be lost */
                const nf_ivf_question question = {.k = k, .probes = lists, .epsilon0 = epsilons[e]};
                answer                got = ask(&at, queries, 20, &question);
                for (uint32_t q = 0; q < 20; q++) {
                    assert_int_equal(check_form(got.slots + q * k, got.values + q * k, k, 226), 226);
                }
                free_answer(&got);
            }
        }
        for (uint32_t list = 0; list < lists; list++) { /* one list only, empty ones too */
            const nf_ivf_question question = {.k = 70, .probes = 1, .epsilon0 = 1.9};
            answer                got = ask(&at, from.centroids + (size_t)list * 24, 1, &question);
            assert_int_equal(check_form(got.slots, got.values, 70, 226), sizes[list]);
            assert_int_equal(got.counters.scanned, sizes[list]);
            for (uint32_t i = 0; i < sizes[list]; i++) {
                assert_true(got.slots[i] >= at.view.list_start[list] && got.slots[i] < at.view.list_start[list + 1]);
            }
            free_answer(&got);
        }
        free(queries);
        close_coded(&at);
        free_parts(&from);
    }
    nf_context_destroy(ctx);
}

/* Rows that are their list's centroid: factors 0 but add (IP: minus nothing), and the value is that of the centroid. */
static void test_zero_residual(void **state)
{
    (void)state;
    nf_context *ctx = context(1);
    uint64_t    seed = 111;
    for (uint32_t turn = 0; turn < 18; turn++) {
        sample_parts from = make_parts(80, 20, 2, 0.0, NULL, 112 + turn); /* two lists, each of equal rows */
        float       *queries = normals(3 * 20, 1.0, &seed);
        memcpy(queries + 20, from.centroids, 20 * sizeof *queries);      /* one is the centroid */
        memset(queries + 40, 0, 20 * sizeof *queries);                   /* one is zero */
        from.parts.bits = 1 + turn / 2;
        from.parts.metric = turn % 2 ? NF_METRIC_IP : NF_METRIC_L2;
        coded at = code(ctx, &from.parts);
        for (uint64_t i = 0; i < 80; i++) {
            const uint8_t *factors = block_of(&at, from.labels[i], at.in_list[i]) + (size_t)at.view.padded * 4;
            const uint32_t slot = (uint32_t)(at.in_list[i] % 32);
            assert_true(at.errors[i] == 0.0);
            assert_true(f32_at(factors + 4 * slot) == 0.0 && f32_at(factors + 128 + 4 * slot) == 0.0);
            assert_int_equal(factors[256 + 2 * slot] | factors[257 + 2 * slot], 0);
        }
        for (uint32_t k = 1; k <= 90; k += 8) {
            for (int infinite = 0; infinite < 2; infinite++) {
                const nf_ivf_question question = {.k = k, .probes = 2, .epsilon0 = infinite ? INFINITY : 1.9};
                answer                got = ask(&at, queries, 3, &question);
                for (uint32_t q = 0; q < 3; q++) {
                    const uint32_t found = check_form(got.slots + q * k, got.values + q * k, k, 80);
                    assert_int_equal(found, k < 80 ? k : 80);
                    for (uint32_t i = 0; i < found; i++) {
                        const uint32_t list = got.slots[q * k + i] >= at.view.list_start[1];
                        const double   value = list_value(&from.parts, list, queries + q * 20);
                        assert_true(fabs((double)got.values[q * k + i] - value) <= 3e-4);
                    }
                }
                free_answer(&got);
            }
        }
        free(queries);
        close_coded(&at);
        free_parts(&from);
    }
    nf_context_destroy(ctx);
}

/* Rows far enough apart for codes of 8 bits to tell them apart: each finds itself first. */
static void test_sizes(void **state)
{
    (void)state;
    static const uint32_t some_dims[] = {1, 2, 7, 8, 9, 63, 64, 65, 96, 100, 127, 1025, 4096, 8192};
    nf_context           *ctx = context(2);
    for (size_t i = 0; i < COUNT(some_dims); i++) {
        const uint32_t dims = some_dims[i];
        sample_parts   from = make_parts(40, dims, 2, 1.0, NULL, 120 + i);
        if (dims == 1) {
            for (uint32_t row = 0; row < 40; row++) from.values[row] = 0.1f * (float)(row * 7 % 40) - 1.7f;
        }
        from.parts.bits = 8;
        for (from.parts.metric = NF_METRIC_L2; from.parts.metric <= NF_METRIC_IP; from.parts.metric++) {
            coded  at = code(ctx, &from.parts);
            answer got = ask(&at, from.values, 40, &(nf_ivf_question){.k = 3, .probes = 2, .epsilon0 = 1.9});
            for (uint32_t row = 0; row < 40; row++) {
                assert_int_equal(check_form(got.slots + row * 3, got.values + row * 3, 3, 40), 3);
                if (from.parts.metric == NF_METRIC_L2) assert_int_equal(got.slots[row * 3], at.slots[row]);
            }
            free_answer(&got);
            close_coded(&at);
        }
        free_parts(&from);
    }
    nf_context_destroy(ctx);
}

/* ---- recall ---- */

#define RECALL_ROWS 10000u
#define RECALL_QUERIES (SLOW > 1 ? 300u : 600u) /* 600: a standard error of 0.005 where recalls are lowest */

/* The ten nearest of each query, by binary64 distances; columns: dims x rows. */
static void true_ten(const float *columns, const float *queries, uint32_t dims, uint32_t *nearest)
{
    double *distances = malloc(RECALL_ROWS * sizeof *distances);
    for (uint32_t q = 0; q < RECALL_QUERIES; q++) {
        memset(distances, 0, RECALL_ROWS * sizeof *distances);
        for (uint32_t k = 0; k < dims; k++) {
            const double value = (double)queries[q * dims + k];
            const float *column = columns + (size_t)k * RECALL_ROWS;
            for (uint32_t i = 0; i < RECALL_ROWS; i++) {
                distances[i] += ((double)column[i] - value) * ((double)column[i] - value);
            }
        }
        for (uint32_t place = 0; place < 10; place++) {
            uint32_t least = 0;
            for (uint32_t i = 1; i < RECALL_ROWS; i++) least = distances[i] < distances[least] ? i : least;
            nearest[q * 10 + place] = least;
            distances[least] = INFINITY;
        }
    }
    free(distances);
}

static double recall(const coded *at, const float *queries, double epsilon0, const uint32_t *nearest)
{
    answer   got = ask(at, queries, RECALL_QUERIES, &(nf_ivf_question){.k = 10, .probes = 1, .epsilon0 = epsilon0});
    uint32_t found = 0;
    for (uint32_t q = 0; q < RECALL_QUERIES; q++) {
        for (uint32_t i = 0; i < 100; i++) found += got.slots[q * 10 + i / 10] == at->slots[nearest[q * 10 + i % 10]];
    }
    free_answer(&got);
    return found / (10.0 * RECALL_QUERIES);
}

/* The reference: codes made in NumPy, with the best of 41 rescaling factors, of 10,000 rows of N(0, 1) in 128 dims; one list,
 * 2,000 queries of N(0, 1), standard error at most 0.003. What pruning with epsilon0 1.9 costs: from 200 queries. */
static void test_recall(void **state)
{
    (void)state;
    static const double whole[] = {0.280, 0.579, 0.760, 0.868, 0.929, 0.962, 0.981, 0.990, 0.996};
    static const double loss[] = {0.0, 0.0, 0.002, 0.001, 0.004, 0.005, 0.004, 0.005, 0.006};
    const uint32_t      dims = 128;
    nf_context         *ctx = context(2);
    uint64_t            seed = 131;
    sample_parts        from = make_parts(RECALL_ROWS, dims, 1, 1.0, NULL, 132);
    float              *queries = normals(RECALL_QUERIES * dims, 1.0, &seed);
    float              *columns = malloc(RECALL_ROWS * dims * sizeof *columns);
    uint32_t           *nearest = malloc(RECALL_QUERIES * 10 * sizeof *nearest);
    for (uint32_t k = 0; k < dims; k++) {
        for (uint32_t i = 0; i < RECALL_ROWS; i++) { /* the centroid is to be 0 */
            columns[(size_t)k * RECALL_ROWS + i] = from.values[(size_t)i * dims + k] -= from.centroids[k];
        }
        from.centroids[k] = 0.0f;
    }
    true_ten(columns, queries, dims, nearest);
    const uint32_t step = SLOW > 1 || nf_context_isa(ctx) == NF_ISA_SCALAR ? 4 : 1;
    for (uint32_t bits = 1; bits <= 9; bits += step) {
        from.parts.bits = bits;
        coded        at = code(ctx, &from.parts);
        const double all = recall(&at, queries, INFINITY, nearest), some = recall(&at, queries, 1.9, nearest);
        assert_true(fabs(all - whole[bits - 1]) <= 0.015);
        assert_true(fabs(some - (whole[bits - 1] - loss[bits - 1])) <= 0.015);
        close_coded(&at);
    }
    free(queries);
    free(columns);
    free(nearest);
    free_parts(&from);
    nf_context_destroy(ctx);
}

/* ---- what is looked at ---- */

/* The lists probed: the nearest centroids (L2, COSINE), or those with the largest inner products of the true vectors (IP). */
static void test_probes(void **state)
{
    (void)state;
    const uint32_t lists = 70, dims = 20;
    nf_context    *ctx = context(1);
    sample_parts   from = make_parts(500, dims, lists, 0.2, NULL, 201);
    float         *queries = normals(20 * dims, 1.0, &(uint64_t){202});
    for (from.parts.metric = NF_METRIC_L2; from.parts.metric <= NF_METRIC_COSINE; from.parts.metric++) {
        coded at = code(ctx, &from.parts);
        for (uint32_t probes = 1; probes <= lists; probes += 23) {
            answer got = ask(&at, queries, 20, &(nf_ivf_question){.k = 500, .probes = probes, .epsilon0 = 1.9});
            for (uint32_t q = 0; q < 20; q++) {
                parts        rule = from.parts;
                const float *query = queries + q * dims;
                uint64_t     rows = 0;
                uint8_t     *probed = calloc(lists, 1);
                if (rule.metric == NF_METRIC_COSINE) rule.metric = NF_METRIC_L2;
                for (uint32_t list = 0; list < lists; list++) {
                    uint32_t nearer = 0;
                    for (uint32_t other = 0; other < lists; other++) {
                        nearer += list_value(&rule, other, query) < list_value(&rule, list, query);
                    }
                    probed[list] = nearer < probes;
                    rows += probed[list] ? at.view.list_start[list + 1] - at.view.list_start[list] : 0;
                }
                assert_int_equal(check_form(got.slots + q * 500, got.values + q * 500, 500, 500), rows);
                for (uint64_t i = 0; i < 500; i++) {
                    uint32_t found = 0;
                    for (uint64_t j = 0; j < rows; j++) found += got.slots[q * 500 + j] == at.slots[i];
                    assert_int_equal(found, probed[from.labels[i]]);
                }
                free(probed);
            }
            free_answer(&got);
        }
        close_coded(&at);
    }
    free(queries);
    free_parts(&from);
    nf_context_destroy(ctx);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How many of 160 rows a query looks at closely, by the formula: the first block, and what of the others has a lower bound
 * below the k-th best value of the first. */
static uint32_t survivors(const coded *at, const parts *from, const float *q, const float *rotated, uint32_t k,
                          double epsilon0)
{
    const double g_add = list_value(from, 0, q), width = sqrt(square_between(q, from->centroids, from->dims));
    double       first[32];
    uint32_t     count = 32;
    for (uint32_t i = 0; i < 32; i++) first[i] = whole_estimate(at, 0, i, rotated, g_add);
    qsort(first, 32, sizeof *first, by_value);
    for (uint32_t i = 32; i < 160; i++) {
        const estimate e = short_estimate(at, 0, i, rotated, g_add);
        count += e.value - epsilon0 * e.error * width < first[k - 1];
    }
    return count;
}

/* The tables of a query are rounded, so a row more or less survives, 2 of 160 at most on average. For the CPU engine, whose
 * waves begin with a block; those of the CUDA engine begin with a list. */
static void test_survivors(void **state)
{
    (void)state;
    if (exact_on_cuda()) skip();
    const uint32_t dims = 96, count = 300;
    nf_context    *ctx = context(1);
    uint64_t       seed = 211;
    sample_parts   from = make_parts(160, dims, 1, 1.0, NULL, 212);
    float         *queries = normals(count * dims, 1.0, &seed), *rotated = malloc(count * dims * sizeof *rotated);
    for (uint32_t i = 0; i < count * dims; i++) queries[i] += (i / dims % 3 == 0 ? 0.0f : 0.7f) + from.centroids[i % dims];
    from.parts.bits = 4;
    for (from.parts.metric = NF_METRIC_L2; from.parts.metric <= NF_METRIC_IP; from.parts.metric++) {
        coded at = code(ctx, &from.parts);
        assert_int_equal(at.ops->rotate(ctx, &at.view.rotation, queries, count, rotated), NF_OK);
        for (int wide = 0; wide < 2; wide++) {
            const double epsilon0 = wide ? 1.0 : 0.0;
            double       off = 0;
            for (uint32_t q = 0; q < count; q++) {
                const nf_ivf_question question = {.k = 8, .probes = 1, .epsilon0 = epsilon0};
                answer                got = ask(&at, queries + q * dims, 1, &question);
                const uint32_t        expected =
                    survivors(&at, &from.parts, queries + q * dims, rotated + q * dims, 8, epsilon0);
                assert_int_equal(got.counters.scanned, 160);
                off += fabs((double)got.counters.refined - expected) / count;
                free_answer(&got);
            }
            assert_true(off <= 2.0);
        }
        close_coded(&at);
    }
    free(queries);
    free(rotated);
    free_parts(&from);
    nf_context_destroy(ctx);
}

/* ---- what must not change answers ---- */

static void check_threads(const parts *from, const float *queries, uint32_t count, const nf_ivf_question *question)
{
    static const uint32_t threads[] = {1, 2, 5};
    answer                first = {0};
    uint8_t              *blocks = NULL;
    for (size_t i = 0; i < COUNT(threads); i++) {
        nf_context  *ctx = context(threads[i]);
        coded        at = code(ctx, from);
        answer       got = ask(&at, queries, count, question), one = {0};
        const size_t k = question->k;
        const size_t block_bytes = at.view.block_start[from->lists] * nf_ivf_block_bytes(at.view.padded);
        if (i == 0) {
            first = got;
            blocks = malloc(block_bytes);
            memcpy(blocks, at.view.blocks, block_bytes);
        }
        assert_memory_equal(at.view.blocks, blocks, block_bytes);
        assert_same(&got, &first, count * k);
        for (uint32_t q = 0; q < count; q += i == 0 ? 1 : 7) { /* one by one */
            one = ask(&at, queries + (size_t)q * from->dims, 1, question);
            assert_memory_equal(one.slots, got.slots + q * k, k * sizeof *one.slots);
            assert_memory_equal(one.values, got.values + q * k, k * sizeof *one.values);
            free_answer(&one);
        }
        if (i != 0) free_answer(&got);
        close_coded(&at);
        nf_context_destroy(ctx);
    }
    free_answer(&first);
    free(blocks);
}

static void test_threads_and_batches(void **state)
{
    (void)state;
    uint64_t seed = 141;
    float   *queries = normals(150 * 40, 1.2, &seed);
    for (uint32_t bits = 1; bits <= 9; bits += 4) {
        sample_parts from = make_parts(3000, 40, 20, 0.6, NULL, 142 + bits);
        from.parts.bits = bits;
        from.parts.metric = bits == 5 ? NF_METRIC_IP : NF_METRIC_L2;
        check_threads(&from.parts, queries, 150, &(nf_ivf_question){.k = 10, .probes = 7, .epsilon0 = 1.9});
        check_threads(&from.parts, queries, 50, &(nf_ivf_question){.k = 1, .probes = 20, .epsilon0 = 0.5});
        free_parts(&from);
    }
    free(queries);
}

/* Fewer results are the first of more; the pruning of epsilon0 0 keeps k results. */
static void test_every_k(void **state)
{
    (void)state;
    nf_context  *ctx = context(1);
    sample_parts from = make_parts(75, 33, 4, 0.7, NULL, 151);
    float       *queries = normals(5 * 33, 1.0, &(uint64_t){152});
    for (uint32_t bits = 1; bits <= 5; bits += 2) {
        from.parts.bits = bits;
        coded  at = code(ctx, &from.parts);
        answer all = ask(&at, queries, 5, &(nf_ivf_question){.k = 75, .probes = 4, .epsilon0 = INFINITY});
        for (uint32_t k = 1; k <= 75; k += SLOW) {
            answer got = ask(&at, queries, 5, &(nf_ivf_question){.k = k, .probes = 4, .epsilon0 = INFINITY});
            answer few = ask(&at, queries, 5, &(nf_ivf_question){.k = k, .probes = 4, .epsilon0 = 0.0});
            for (uint32_t q = 0; q < 5; q++) {
                assert_memory_equal(got.slots + q * k, all.slots + q * 75, k * sizeof *got.slots);
                assert_memory_equal(got.values + q * k, all.values + q * 75, k * sizeof *got.values);
                assert_int_equal(check_form(few.slots + q * k, few.values + q * k, k, 75), k);
            }
            free_answer(&got);
            free_answer(&few);
        }
        free_answer(&all);
        close_coded(&at);
    }
    free(queries);
    free_parts(&from);
    nf_context_destroy(ctx);
}

/* A filter gives what is left of the whole order. */
static void test_allowed(void **state)
{
    (void)state;
    nf_context  *ctx = context(2);
    sample_parts from = make_parts(600, 48, 5, 0.8, NULL, 161);
    uint64_t     seed = 162;
    float       *queries = normals(10 * 48, 1.0, &seed);
    from.parts.bits = 4;
    coded          at = code(ctx, &from.parts);
    const uint64_t blocks = at.view.block_start[5];
    uint32_t      *allowed = calloc(blocks + 1, sizeof *allowed);
    uint8_t       *fine = calloc(600, 1); /* by slot */
    answer         all = ask(&at, queries, 10, &(nf_ivf_question){.k = 600, .probes = 5, .epsilon0 = INFINITY});
    for (uint32_t share = 0; share <= 4; share++) { /* none, 1/4, ... all; bits of the filling are set, and mean nothing */
        memset(allowed, 0xff, blocks * sizeof *allowed);
        for (uint64_t i = 0; i < 600; i++) {
            const uint64_t block = at.view.block_start[from.labels[i]] + at.in_list[i] / 32;
            fine[at.slots[i]] = random_below(&seed, 4) < share;
            if (!fine[at.slots[i]]) allowed[block] &= ~(1u << at.in_list[i] % 32);
        }
        nf_ivf_question question = {.k = 150, .probes = 5, .epsilon0 = INFINITY, .allowed = allowed};
        answer          got = ask(&at, queries, 10, &question);
        question.epsilon0 = 1.9;
        answer pruned = ask(&at, queries, 10, &question);
        for (uint32_t q = 0; q < 10; q++) {
            uint32_t found = 0;
            for (uint32_t i = 0; i < 600 && found < 150; i++) {
                if (!fine[all.slots[q * 600 + i]]) continue;
                assert_int_equal(got.slots[q * 150 + found], all.slots[q * 600 + i]);
                assert_true(got.values[q * 150 + found++] == all.values[q * 600 + i]);
            }
            assert_int_equal(check_form(got.slots + q * 150, got.values + q * 150, 150, 600), found);
            const uint32_t kept = check_form(pruned.slots + q * 150, pruned.values + q * 150, 150, 600);
            assert_int_equal(kept, found);
            for (uint32_t i = 0; i < kept; i++) assert_true(fine[pruned.slots[q * 150 + i]]);
        }
        free_answer(&got);
        free_answer(&pruned);
    }
    free_answer(&all);
    free(allowed);
    free(fine);
    free(queries);
    close_coded(&at);
    free_parts(&from);
    nf_context_destroy(ctx);
}

/* ---- assignment, and the dense rotation ---- */

/* Whole coordinates: distances are exact, and many are equal. Panels of 16 and tiles of 96 x 256 are passed. */
static void test_assign(void **state)
{
    (void)state;
    static const uint32_t list_counts[] = {1, 2, 15, 16, 17, 255, 256, 257, 300, 520};
    nf_context           *ctx = context(2);
    uint64_t              seed = 171;
    for (size_t i = 0; i < COUNT(list_counts); i++) {
        const uint32_t lists = list_counts[i], dims = 1 + (uint32_t)i % 4, rows = 50 + 53 * (uint32_t)i;
        float         *centroids = malloc(lists * dims * sizeof *centroids), *x = malloc(rows * dims * sizeof *x);
        uint32_t      *labels = malloc(rows * sizeof *labels);
        for (uint32_t k = 0; k < lists * dims; k++) centroids[k] = (float)random_below(&seed, 16) - 8.0f;
        for (uint32_t k = 0; k < rows * dims; k++) x[k] = (float)random_below(&seed, 24) - 12.0f;
        assert_int_equal(assign_values(ctx, ops_of(ctx), x, rows, dims, centroids, lists, labels), NF_OK);
        for (uint32_t row = 0; row < rows; row++) {
            uint32_t least = 0;
            double   square = INFINITY;
            for (uint32_t list = 0; list < lists; list++) {
                const double at = square_between(x + row * dims, centroids + list * dims, dims);
                if (at < square) least = list;
                square = fmin(square, at);
            }
            assert_int_equal(labels[row], least);
        }
        free(centroids);
        free(x);
        free(labels);
    }
    nf_context_destroy(ctx);
}

static void test_dense_rotation(void **state)
{
    (void)state;
    const uint32_t dims = 21, padded = 24, rows = 130;
    uint64_t       seed = 181;
    nf_context    *ctx = context(2);
    float         *matrix = normals(padded * padded, 1.0, &seed), *x = normals(rows * dims, 1.0, &seed);
    float         *out = malloc(rows * padded * sizeof *out);
    const nf_rotation_map map = {.kind = NF_ROTATION_DENSE, .dims = dims, .padded = padded, .matrix = matrix};
    assert_int_equal(ops_of(ctx)->rotate(ctx, &map, x, rows, out), NF_OK);
    for (uint32_t i = 0; i < rows * padded; i++) {
        const double expected = dot(matrix + i % padded * padded, x + i / padded * dims, dims);
        assert_true(fabs((double)out[i] - expected) <= 1e-4);
    }
    free(matrix);
    free(x);
    free(out);
    nf_context_destroy(ctx);
}

/* ---- memory ---- */

/* Encodes, prepares and searches; true when nothing failed. Failures must be of memory. */
static int whole_run(nf_context *ctx, const parts *from, const float *queries)
{
    coded                 at = code_parts(ctx, from);
    uint64_t              slots[4 * 5];
    float                 values[4 * 5];
    uint32_t              labels[200];
    nf_ivf_counters       counters = {0};
    const nf_ivf_question question = {.k = 5, .probes = 2, .epsilon0 = 1.9};
    nf_status             status = at.status;
    if (status == NF_OK) status = at.ops->search(ctx, &at.view, at.prepared, queries, 4, &question, slots, values, &counters);
    if (status == NF_OK) {
        status = assign_values(ctx, at.ops, from->values, 200, from->dims, from->centroids, from->lists, labels);
    }
    close_coded(&at);
    assert_true(status == NF_OK || status == NF_ERR_MEMORY);
    return status == NF_OK;
}

static void test_memory(void **state)
{
    (void)state;
    sample_parts from = make_parts(200, 16, 3, 0.5, NULL, 191);
    float       *queries = normals(4 * 16, 1.0, &(uint64_t){192});
    from.parts.bits = 3;
    long fails = 0;
    for (int done = 0; !done; fails++) {
        memory_hook       hook = {0};
        nf_context_params params;
        nf_context       *ctx = NULL;
        nf_context_params_init(&params);
        params.threads = 2;
        params.allocator = memory_hook_allocator(&hook);
        assert_int_equal(nf_context_create(&params, &ctx, NULL), NF_OK);
        const long before = hook.live_blocks;
        hook.fail_at = hook.calls + 1 + fails;
        done = whole_run(ctx, &from.parts, queries) && hook.calls < hook.fail_at;
        assert_true(hook.live_blocks - before <= 1); /* the pool, made on first use, may stay */
        nf_context_destroy(ctx);
        assert_int_equal(hook.live_blocks, 0);
        assert_int_equal(hook.mismatches, 0);
    }
    assert_true(fails > 5);
    free(queries);
    free_parts(&from);
}

static void scale_centroids(coded *at, float by)
{
    float *centroids = (float *)(uintptr_t)at->view.centroids;
    at->ops->prepared_close(at->prepared);
    for (uint32_t k = 0; k < at->view.lists * at->view.padded; k++) centroids[k] *= by;
    assert_int_equal(at->ops->prepare(at->ctx, nf_context_memory(at->ctx), &at->view, &at->prepared), NF_OK);
}

/* Distances to the lists that overflow binary32, which only a made-up index has: any answer, but within the index. */
static void test_overflow(void **state)
{
    (void)state;
    const struct {
        double centroids, query;
    } scales[] = {{1e20, 1}, {1, 1e38}};
    for (size_t i = 0; i < 2; i++) {
        nf_context  *ctx = context(1);
        sample_parts from = make_parts(100, 16, 3, 0.5, NULL, 1);
        for (int k = 0; k < 100 * 16; k++) {
            from.values[k] = from.centroids[from.labels[k / 16] * 16 + (uint32_t)k % 16] + (float)(k % 7);
        }
        from.parts.bits = 3;
        coded at = code_parts(ctx, &from.parts);
        assert_int_equal(at.status, NF_OK);
        scale_centroids(&at, (float)scales[i].centroids);
        float queries[32];
        for (int k = 0; k < 32; k++) queries[k] = (float)(scales[i].query * (k % 3 - 1.1));
        answer got = ask(&at, queries, 2, &(nf_ivf_question){.k = 5, .probes = 2, .epsilon0 = 1.9});
        for (int k = 0; k < 10; k++) assert_true(got.slots[k] < 100 || got.slots[k] == UINT64_MAX);
        free_answer(&got);
        close_coded(&at);
        free_parts(&from);
        nf_context_destroy(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_sizes),
        cmocka_unit_test(test_zero_residual),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_recall),
        cmocka_unit_test(test_probes),
        cmocka_unit_test(test_survivors),
        cmocka_unit_test(test_threads_and_batches),
        cmocka_unit_test(test_every_k),
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_assign),
        cmocka_unit_test(test_dense_rotation),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
