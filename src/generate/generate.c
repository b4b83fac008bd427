/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synthetic data: parameters, threads, and storing rows in the type asked for.
 *
 * Every row is made in binary64 and then rounded once to the type. f32: to nearest, but uniform values stay below 1.
 * u8: lattice coordinates as they are; for the other kinds round(255 x), ties upwards, x clamped to [0, 1].
 * Blocks of rows are tasks of the pool; a row is a function of seed and row number, so threads and ranges change
 * nothing.
 */
#include "nearfield/generate.h"

#include <string.h>

#include "core/core_context.h"
#include "core/core_error.h"
#include "core/core_memory.h"
#include "core/core_pool.h"
#include "generate_kinds.h"

#define BLOCK_VALUES 16384
#define GREATEST_DIMS (UINT32_C(1) << 20)
#define BELOW_ONE 0x1.fffffep-1f

/* In the order of nf_generate_kind. */
static const nf_generate_ops *const kinds[] = {&nf_generate_uniform, &nf_generate_exponential, &nf_generate_mixture,
                                               &nf_generate_lattice};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

typedef struct generate_run {
    const nf_generator    *generator;
    const nf_generate_ops *ops;
    uint64_t               first_row, row_count;
    uint64_t               block_rows;
    double                *scratch; /* 2 x dims for each worker */
    char                  *out;
    nf_context            *ctx;
} generate_run;

void nf_generate_params_init(nf_generate_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
    params->kind = NF_GENERATE_UNIFORM;
    params->dims = 3;
    params->rows = 1000;
    params->seed = 1;
    params->dtype = NF_DTYPE_F32;
    params->clusters = 100;
    params->rate = 40.0;
    params->spread = 0.05;
}

int nf_generate_kind_from_name(const char *name)
{
    for (size_t i = 0; name != NULL && i < KIND_COUNT; i++) {
        if (strcmp(kinds[i]->name, name) == 0) return (int)i;
    }
    return -1;
}

/* Copies what the caller's struct holds; members it does not have keep their defaults. */
static void take_params(nf_generate_params *to, const nf_generate_params *from)
{
    nf_generate_params_init(to);
    memcpy(to, from, from->struct_size < sizeof *to ? from->struct_size : sizeof *to);
    to->struct_size = sizeof *to;
}

static nf_status check_params(nf_context *ctx, const nf_generate_params *params)
{
    if (params->kind >= KIND_COUNT) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "kind is %u, allowed are 0 to %zu", params->kind, KIND_COUNT - 1);
    }
    if (params->dims == 0 || params->dims > GREATEST_DIMS) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "dims is %u, allowed are 1 to %u", params->dims, GREATEST_DIMS);
    }
    if (params->dtype != NF_DTYPE_F32 && params->dtype != NF_DTYPE_F64 && params->dtype != NF_DTYPE_U8) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "dtype is %s, allowed are f32, f64 and u8",
                       nf_dtype_name((nf_dtype)params->dtype));
    }
    return NF_OK;
}

static nf_status check_range(nf_context *ctx, const nf_generate_params *params, uint64_t first, uint64_t count)
{
    uint64_t bytes;
    if (first > params->rows || count > params->rows - first) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%llu rows from row %llu on are asked for, but rows is %llu",
                       (unsigned long long)count, (unsigned long long)first, (unsigned long long)params->rows);
    }
    if (!nf_multiply(count, (uint64_t)params->dims * sizeof(double), &bytes) || bytes > SIZE_MAX / 2) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%llu rows of %u values are more than this machine can address",
                       (unsigned long long)count, params->dims);
    }
    return NF_OK;
}

static uint8_t scaled_u8(double value)
{
    if (!(value > 0.0)) return 0;
    return value >= 1.0 ? 255 : (uint8_t)(255.0 * value + 0.5);
}

static void store_u8(const double *row, uint32_t dims, int integers, char *out)
{
    for (uint32_t i = 0; i < dims; i++) {
        const uint8_t value = integers ? (uint8_t)row[i] : scaled_u8(row[i]);
        memcpy(out + i, &value, sizeof value);
    }
}

static void store_f32(const double *row, uint32_t dims, uint32_t kind, char *out)
{
    for (uint32_t i = 0; i < dims; i++) {
        float value = (float)row[i];
        if (kind == NF_GENERATE_UNIFORM && value >= 1.0f) value = BELOW_ONE;
        memcpy(out + i * sizeof value, &value, sizeof value);
    }
}

static void store_row(const generate_run *run, const double *row, char *out)
{
    const nf_generate_params *params = run->generator->params;
    switch (params->dtype) {
    case NF_DTYPE_U8: store_u8(row, params->dims, run->ops->integers, out); break;
    case NF_DTYPE_F32: store_f32(row, params->dims, params->kind, out); break;
    default: memcpy(out, row, params->dims * sizeof *row); break;
    }
}

/* Task: one block of rows. */
static nf_status make_block(void *arg, uint64_t block, uint32_t worker)
{
    const generate_run *run = arg;
    const uint32_t      dims = run->generator->params->dims;
    const uint64_t      row_bytes = dims * nf_dtype_bytes((nf_dtype)run->generator->params->dtype);
    double             *scratch = run->scratch + (uint64_t)worker * 2 * dims;
    const uint64_t      begin = block * run->block_rows;
    const uint64_t      rest = run->row_count - begin;
    const uint64_t      end = begin + (rest < run->block_rows ? rest : run->block_rows);

    for (uint64_t i = begin; i < end; i++) {
        run->ops->row(run->generator, run->first_row + i, scratch, scratch + dims);
        store_row(run, scratch + dims, run->out + i * row_bytes);
    }
    nf_progress_add(run->ctx, end - begin);
    return NF_OK;
}

static nf_status make_rows(generate_run *run)
{
    const uint32_t dims = run->generator->params->dims;
    run->block_rows = dims < BLOCK_VALUES ? BLOCK_VALUES / dims : 1;
    const uint64_t blocks = run->row_count / run->block_rows + (run->row_count % run->block_rows != 0);
    const uint64_t workers = nf_pool_workers(run->ctx, blocks);

    run->scratch = nf_alloc(run->ctx, workers * 2 * dims, sizeof *run->scratch);
    if (run->scratch == NULL) return nf_alloc_status(run->ctx);
    nf_progress_begin(run->ctx, "generate", run->row_count);
    const nf_status status = nf_pool_run(run->ctx, make_block, run, blocks);
    nf_free(run->scratch);
    return status;
}

nf_status nf_generate(nf_context *ctx, const nf_generate_params *params, uint64_t first_row, uint64_t row_count,
                      void *out)
{
    nf_generate_params use;
    nf_generator       generator = {.params = &use};

    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    if (params == NULL) return nf_fail(ctx, NF_ERR_ARGUMENT, "params is NULL");
    take_params(&use, params);
    NF_TRY(check_params(ctx, &use));
    NF_TRY(check_range(ctx, &use, first_row, row_count));
    if (out == NULL && row_count > 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "out is NULL");

    generate_run run = {.generator = &generator,
                        .ops = kinds[use.kind],
                        .first_row = first_row,
                        .row_count = row_count,
                        .out = out,
                        .ctx = ctx};
    NF_TRY(run.ops->prepare(ctx, &generator));
    const nf_status status = make_rows(&run);
    nf_free(generator.centres);
    nf_free(generator.bases);
    return status;
}
