/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of nearfield doctor. It uses contexts of its own, so that one instruction set after the other is
 * tried. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_doctor.h"

#define SIDE 9
#define LATTICE_ROWS (SIDE * SIDE * SIDE)
#define MIXTURE_ROWS 600
#define MIXTURE_DIMS 19
#define MOST_VALUES (MIXTURE_ROWS * MIXTURE_DIMS)

typedef struct test_set {
    const char        *name;
    nf_generate_params params;
    double             radius;
    uint64_t           pairs; /* the right answer */
    float              values[MOST_VALUES];
} test_set;

/* Neighbours at distance 1 (6 directions) and at the square root of 2 (12 directions) in a cube of SIDE^3 points. */
static void describe_lattice(test_set *set)
{
    nf_generate_params_init(&set->params);
    set->name = "lattice";
    set->params.kind = NF_GENERATE_LATTICE;
    set->params.rows = LATTICE_ROWS;
    set->radius = 1.5;
    set->pairs = 6 * (SIDE - 1) * SIDE * SIDE + 12 * (SIDE - 1) * (SIDE - 1) * SIDE;
}

static void describe_mixture(test_set *set)
{
    nf_generate_params_init(&set->params);
    set->name = "mixture";
    set->params.kind = NF_GENERATE_MIXTURE;
    set->params.rows = MIXTURE_ROWS;
    set->params.dims = MIXTURE_DIMS;
    set->params.clusters = 7;
    set->params.intrinsic = 4;
    set->radius = 0.25;
}

/* The sums of 19 squares differ from the square of the radius by far more than binary64 rounds. */
static uint64_t count_pairs(const test_set *set)
{
    uint64_t pairs = 0;
    for (size_t i = 0; i < MIXTURE_ROWS * MIXTURE_ROWS; i++) {
        const float *a = set->values + i / MIXTURE_ROWS * MIXTURE_DIMS;
        const float *b = set->values + i % MIXTURE_ROWS * MIXTURE_DIMS;
        double       sum = 0.0;
        for (int d = 0; d < MIXTURE_DIMS; d++) sum += ((double)a[d] - (double)b[d]) * ((double)a[d] - (double)b[d]);
        pairs += a != b && sum <= set->radius * set->radius;
    }
    return pairs;
}

/* Returns 0, or -1 with the reason in text. */
static int join_with(nf_context *ctx, const nf_radius_index *index, const test_set *set, uint32_t candidates,
                     char *text)
{
    static const uint32_t flags[] = {0, 1}; /* all pairs, and i < j alone */
    uint64_t              counts[LATTICE_ROWS];
    nf_radius_params      params;

    nf_radius_params_init(&params);
    params.radius = set->radius;
    params.candidates = candidates;
    for (size_t half = 0; half < 2; half++) {
        uint64_t pairs = 0;
        params.half = flags[half];
        const nf_status status = nf_radius_counts(ctx, index, NULL, &params, counts, NULL);
        if (candidates == NF_CANDIDATES_RT && (status == NF_ERR_UNSUPPORTED || status == NF_ERR_ENGINE)) return 0;
        if (status != NF_OK) {
            snprintf(text, CLI_SELFTEST_TEXT, "%.200s", nf_context_error(ctx)->text);
            return -1;
        }
        for (uint64_t i = 0; i < set->params.rows; i++) pairs += counts[i];
        if (pairs != set->pairs >> half) {
            snprintf(text, CLI_SELFTEST_TEXT, "%s by %s: %llu pairs, right are %llu", set->name,
                     nf_candidates_name(candidates), (unsigned long long)pairs,
                     (unsigned long long)(set->pairs >> half));
            return -1;
        }
    }
    return 0;
}

static int test_one(nf_context *ctx, test_set *set, char *text)
{
    static const uint32_t methods[] = {NF_CANDIDATES_NONE, NF_CANDIDATES_BOXES, NF_CANDIDATES_BVH, NF_CANDIDATES_RT};
    nf_radius_index      *index = NULL;
    int                   result = 0;
    nf_matrix matrix = {.data = set->values, .rows = set->params.rows, .dims = set->params.dims, .dtype = NF_DTYPE_F32};

    if (nf_generate(ctx, &set->params, 0, set->params.rows, set->values) != NF_OK ||
        nf_radius_index_create(ctx, &matrix, NULL, &index) != NF_OK) {
        snprintf(text, CLI_SELFTEST_TEXT, "%.200s", nf_context_error(ctx)->text);
        return -1;
    }
    if (set->pairs == 0) set->pairs = count_pairs(set);
    for (size_t i = 0; result == 0 && i < sizeof methods / sizeof methods[0]; i++) {
        result = join_with(ctx, index, set, methods[i], text);
    }
    nf_radius_index_release(index);
    return result;
}

static cli_selftest_result test_all(nf_context *ctx, char *text)
{
    test_set *sets = calloc(2, sizeof *sets);
    int       result = -1;

    if (sets == NULL) {
        snprintf(text, CLI_SELFTEST_TEXT, "no memory");
        return CLI_TEST_FAILED;
    }
    describe_lattice(&sets[0]);
    describe_mixture(&sets[1]);
    result = test_one(ctx, &sets[0], text);
    if (result == 0) result = test_one(ctx, &sets[1], text);
    free(sets);
    return result == 0 ? CLI_TEST_PASSED : CLI_TEST_FAILED;
}

cli_selftest_result cli_selftest(nf_engine_kind engine, nf_isa isa, int32_t device, char text[CLI_SELFTEST_TEXT])
{
    nf_context_params params;
    nf_context       *ctx = NULL;
    nf_error          error = {0};

    text[0] = '\0';
    nf_context_params_init(&params);
    params.engine = engine;
    params.isa = isa;
    params.device = device;
    const nf_status status = nf_context_create(&params, &ctx, &error);
    if (status != NF_OK) {
        snprintf(text, CLI_SELFTEST_TEXT, "%.200s", error.text);
        return status == NF_ERR_ENGINE ? CLI_TEST_LEFT_OUT : CLI_TEST_FAILED;
    }
    const cli_selftest_result result = test_all(ctx, text);
    nf_context_destroy(ctx);
    return result;
}
