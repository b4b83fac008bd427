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
    if (params->isa > NF_ISA_NEON) {
        return nf_error_set(error, NF_ERR_ARGUMENT, "isa is %u, allowed are 0 to 4", params->isa);
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

/* Takes a parameter from an environment variable that is set and not empty. */
static nf_status from_environment(const char *variable, const char *parameter, const char *allowed,
                                  nf_context_params *params, nf_error *error)
{
    const char *value = getenv(variable);
    if (value == NULL || value[0] == '\0') return NF_OK;
    if (nf_context_params_set(params, parameter, value, NULL) == NF_OK) return NF_OK;
    return nf_error_set(error, NF_ERR_ARGUMENT, "%s is '%s', allowed are %s", variable, value, allowed);
}

/* The instruction set asked for by parameter or environment, else the best there is. */
static nf_status choose_isa(const nf_context_params *params, nf_isa *out, bool *named, nf_error *error)
{
    nf_context_params use = *params;
    if (use.isa == NF_ISA_AUTO) {
        NF_TRY(from_environment("NEARFIELD_ISA", "isa", "auto, scalar, avx2, avx512, neon", &use, error));
    }
    nf_isa wanted = (nf_isa)use.isa;
    *named = wanted != NF_ISA_AUTO;
    if (wanted == NF_ISA_AUTO) wanted = nf_system_best_isa();
    if (!nf_system_has_isa(wanted)) {
        return nf_error_set(error, NF_ERR_ENGINE, "instruction set %s: %s", nf_isa_name(wanted),
                            nf_system_isa_reason(wanted));
    }
    *out = wanted;
    return NF_OK;
}

/* The engine asked for by parameter or environment; one that cannot work here is an error. */
static nf_status choose_engine(const nf_context_params *params, nf_engine_kind *out, char device[NF_DEVICE_TEXT],
                               nf_error *error)
{
    nf_context_params use = *params;
    if (use.engine == NF_ENGINE_AUTO) {
        NF_TRY(from_environment("NEARFIELD_ENGINE", "engine", "auto, cpu, cuda", &use, error));
    }
    *out = (nf_engine_kind)use.engine;
    device[0] = '\0';
    return *out == NF_ENGINE_AUTO ? NF_OK : nf_engine_check(*out, use.device, device, error);
}

nf_status nf_context_create(const nf_context_params *params, nf_context **out, nf_error *error)
{
    nf_context_params use;
    nf_isa            isa = NF_ISA_SCALAR;
    bool              isa_named = false;
    nf_engine_kind    engine = NF_ENGINE_AUTO;
    char              device[NF_DEVICE_TEXT];

    if (error != NULL) memset(error, 0, sizeof *error);
    if (out == NULL) return nf_error_set(error, NF_ERR_ARGUMENT, "out is NULL");
    *out = NULL;
    NF_TRY(take_params(&use, params, error));
    NF_TRY(check_params(&use, error));
    NF_TRY(choose_isa(&use, &isa, &isa_named, error));
    NF_TRY(choose_engine(&use, &engine, device, error));
    if (use.memory == 0) use.memory = nf_system_memory() / 10 * 8;

    nf_memory  *memory = nf_memory_create(&use.allocator, use.memory);
    nf_context *ctx = memory != NULL ? calloc(1, sizeof *ctx) : NULL;
    if (ctx == NULL) {
        nf_memory_release(memory);
        return nf_error_set(error, NF_ERR_MEMORY, "no memory for a context");
    }
    ctx->params = use;
    ctx->isa = isa;
    ctx->isa_named = isa_named;
    ctx->engine = engine;
    nf_context_note_engine(ctx, engine == NF_ENGINE_CUDA ? "cuda" : "cpu", device, "");
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
    info->engine = ctx->engine_name;
    info->isa = nf_isa_name(ctx->isa);
    info->threads = ctx->threads;
    info->memory_limit = nf_memory_limit(ctx->memory);
    info->memory_used = nf_memory_used(ctx->memory);
    info->memory_peak = nf_memory_peak(ctx->memory);
    info->device = ctx->device;
    info->why = ctx->why;
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

nf_engine_kind nf_context_engine(const nf_context *ctx)
{
    return ctx->engine;
}

bool nf_context_isa_named(const nf_context *ctx)
{
    return ctx->isa_named;
}

void nf_context_note_engine(nf_context *ctx, const char *name, const char *device, const char *why)
{
    ctx->engine_name = name;
    snprintf(ctx->device, sizeof ctx->device, "%s", device);
    snprintf(ctx->why, sizeof ctx->why, "%s", why);
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
