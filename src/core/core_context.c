/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: creation from parameters, limits read from the system, progress and cancel. */
#include "core_context.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core_context_private.h"
#include "core_params.h"
#include "core_system.h"

#define REPORTS_PER_SECOND 10.0

void nf_context_params_init(nf_context_params *params)
{
    memset(params, 0, sizeof *params);
    params->struct_size = sizeof *params;
}

nf_status nf_context_params_set(nf_context_params *params, const char *name, const char *value, nf_error *error)
{
    return nf_params_set(NF_PARAMS_CONTEXT, params, name, value, error);
}

/* Copies what the caller's struct holds; members it does not have keep their defaults. */
static nf_status take_params(nf_context_params *to, const nf_context_params *from, nf_error *error)
{
    nf_context_params_init(to);
    if (from == NULL) return NF_OK;
    if (from->struct_size < sizeof from->struct_size) {
        return nf_error_set(error, NF_ERR_ARGUMENT, "struct_size of the context parameters is %zu; use "
                                                    "nf_context_params_init", from->struct_size);
    }
    memcpy(to, from, from->struct_size < sizeof *to ? from->struct_size : sizeof *to);
    to->struct_size = sizeof *to;
    return NF_OK;
}

static nf_status check_params(const nf_context_params *params, nf_error *error)
{
    if (params->engine > NF_ENGINE_CUDA) {
        return nf_error_set(error, NF_ERR_ARGUMENT, "engine is %u, allowed are 0 to 2", params->engine);
    }
    if (params->engine == NF_ENGINE_CUDA) {
        return nf_error_set(error, NF_ERR_ENGINE, "the cuda engine is not part of this build");
    }
    if (params->isa > NF_ISA_AVX512) {
        return nf_error_set(error, NF_ERR_ARGUMENT, "isa is %u, allowed are 0 to 3", params->isa);
    }
    if (params->threads > NF_MAX_THREADS) {
        return nf_error_set(error, NF_ERR_ARGUMENT, "threads is %u, allowed are 0 to %d", params->threads,
                            NF_MAX_THREADS);
    }
    if ((params->allocator.alloc == NULL) != (params->allocator.release == NULL)) {
        return nf_error_set(error, NF_ERR_ARGUMENT, "an allocator needs both alloc and release");
    }
    return NF_OK;
}

/* The instruction set asked for by parameter or environment, else the best there is. */
static nf_status choose_isa(const nf_context_params *params, nf_isa *out, nf_error *error)
{
    nf_isa      wanted = (nf_isa)params->isa;
    const char *forced = getenv("NEARFIELD_ISA");
    if (wanted == NF_ISA_AUTO && forced != NULL && forced[0] != '\0') {
        nf_context_params named;
        nf_context_params_init(&named);
        if (nf_context_params_set(&named, "isa", forced, NULL) != NF_OK) {
            return nf_error_set(error, NF_ERR_ARGUMENT, "NEARFIELD_ISA is '%s', allowed are auto, scalar, avx2, avx512",
                                forced);
        }
        wanted = (nf_isa)named.isa;
    }
    if (wanted == NF_ISA_AUTO) wanted = nf_system_best_isa();
    if (!nf_system_has_isa(wanted)) {
        return nf_error_set(error, NF_ERR_ENGINE, "instruction set %s: %s", nf_isa_name(wanted),
                            nf_system_isa_reason(wanted));
    }
    *out = wanted;
    return NF_OK;
}

nf_status nf_context_create(const nf_context_params *params, nf_context **out, nf_error *error)
{
    nf_context_params use;
    nf_isa            isa = NF_ISA_SCALAR;

    if (error != NULL) memset(error, 0, sizeof *error);
    if (out == NULL) return nf_error_set(error, NF_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    NF_TRY(take_params(&use, params, error));
    NF_TRY(check_params(&use, error));
    NF_TRY(choose_isa(&use, &isa, error));
    if (use.memory == 0) use.memory = nf_system_memory() / 10 * 8;

    nf_memory  *memory = nf_memory_create(&use.allocator, use.memory);
    nf_context *ctx = memory != NULL ? calloc(1, sizeof *ctx) : NULL;
    if (ctx == NULL) {
        nf_memory_release(memory);
        return nf_error_set(error, NF_ERR_MEMORY, "no memory for a context");
    }
    ctx->params = use;
    ctx->isa = isa;
    ctx->threads = use.threads != 0 ? use.threads : nf_system_processors();
    ctx->memory = memory;
    pthread_mutex_init(&ctx->error_lock, NULL);
    *out = ctx;
    return NF_OK;
}

void nf_context_destroy(nf_context *ctx)
{
    if (ctx == NULL) return;
    nf_memory_release(ctx->memory);
    pthread_mutex_destroy(&ctx->error_lock);
    free(ctx);
}

const nf_error *nf_context_error(const nf_context *ctx)
{
    return &ctx->error;
}

void nf_context_cancel(nf_context *ctx)
{
    atomic_store(&ctx->cancel_asked, 1);
}

void nf_context_describe(const nf_context *ctx, nf_context_info *info)
{
    info->engine = "cpu";
    info->isa = nf_isa_name(ctx->isa);
    info->threads = ctx->threads;
    info->memory_limit = nf_memory_limit(ctx->memory);
    info->memory_used = nf_memory_used(ctx->memory);
    info->memory_peak = nf_memory_peak(ctx->memory);
}

void nf_context_begin(nf_context *ctx)
{
    memset(&ctx->error, 0, sizeof ctx->error);
    atomic_store(&ctx->failed, 0);
    ctx->last_report = 0.0;
}

uint32_t nf_context_threads(const nf_context *ctx)
{
    return ctx->threads;
}

const nf_context_params *nf_context_settings(const nf_context *ctx)
{
    return &ctx->params;
}

nf_isa nf_context_isa(const nf_context *ctx)
{
    return ctx->isa;
}

void nf_progress_begin(nf_context *ctx, const char *step, uint64_t total)
{
    ctx->step = step;
    ctx->total = total;
    atomic_store(&ctx->done, 0);
}

void nf_progress_add(nf_context *ctx, uint64_t units)
{
    atomic_fetch_add(&ctx->done, units);
}

nf_status nf_progress_poll(nf_context *ctx)
{
    if (atomic_load(&ctx->cancel_asked) != 0) {
        atomic_store(&ctx->cancel_asked, 0);
        return nf_fail(ctx, NF_ERR_CANCELLED, "cancelled during %s", ctx->step != NULL ? ctx->step : "the call");
    }
    if (ctx->params.progress == NULL) return NF_OK;
    const double now = nf_now();
    if (now - ctx->last_report < 1.0 / REPORTS_PER_SECOND) return NF_OK;
    ctx->last_report = now;
    if (ctx->params.progress(ctx->params.progress_user, ctx->step != NULL ? ctx->step : "", atomic_load(&ctx->done),
                             ctx->total) != 0) {
        return nf_fail(ctx, NF_ERR_CANCELLED, "cancelled by the progress callback during %s",
                       ctx->step != NULL ? ctx->step : "the call");
    }
    return NF_OK;
}

bool nf_context_stopping(const nf_context *ctx)
{
    return atomic_load(&ctx->failed) != 0 || atomic_load(&ctx->cancel_asked) != 0;
}

double nf_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
