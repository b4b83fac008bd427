/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module's door: its entry point, and core's functions, which here forward to the table that core hands over. They have
 * the names of src/core, so the module's code includes core's headers and calls them as code of the library does. Their
 * symbols stay inside the module.
 */
#include <stdarg.h>
#include <string.h>

#include "core/core_context.h"
#include "core/core_error.h"
#include "core/core_memory.h"
#include "core/core_pool.h"
#include "engine/engine_module.h"
#include "nearfield/version.h"

extern const nf_engine_module nf_cuda_module;

__attribute__((visibility("default"))) const nf_engine_module *nf_engine_module_entry(const nf_core_services *given)
    __asm__(NF_MODULE_ENTRY);

/* Set once, when core opens the module and before it calls anything else; the same table each time. */
static const nf_core_services *core;

/* Core compares too: a module that does not fit is known by its version, and nothing of it is called. */
const nf_engine_module *nf_engine_module_entry(const nf_core_services *given)
{
    if (given == NULL) return NULL;
    if (given->abi == NF_MODULE_ABI && given->struct_size == sizeof *given && strcmp(given->version, NF_VERSION) == 0) {
        core = given;
    }
    return &nf_cuda_module;
}

/* ---- core/core_error.h ---- */

nf_status nf_fail(nf_context *ctx, nf_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    core->fail(ctx, status, 0, format, arguments);
    va_end(arguments);
    return status;
}

nf_status nf_fail_v(nf_context *ctx, nf_status status, int32_t native, const char *format, va_list arguments)
{
    return core->fail(ctx, status, native, format, arguments);
}

/* ---- core/core_memory.h ---- */

nf_status nf_alloc_status(const nf_context *ctx)
{
    return core->alloc_status(ctx);
}

void *nf_alloc_in(nf_context *ctx, nf_memory *memory, uint64_t count, size_t size)
{
    return core->alloc_in(ctx, memory, count, size);
}

void *nf_alloc_zero_in(nf_context *ctx, nf_memory *memory, uint64_t count, size_t size)
{
    return core->alloc_zero_in(ctx, memory, count, size);
}

void *nf_alloc(nf_context *ctx, uint64_t count, size_t size)
{
    return core->alloc(ctx, count, size);
}

void *nf_alloc_zero(nf_context *ctx, uint64_t count, size_t size)
{
    return core->alloc_zero(ctx, count, size);
}

void *nf_try_alloc(nf_context *ctx, uint64_t count, size_t size)
{
    return core->try_alloc(ctx, count, size);
}

void nf_free(void *block)
{
    core->release(block);
}

nf_memory *nf_context_memory(nf_context *ctx)
{
    return core->context_memory(ctx);
}

uint64_t nf_memory_used(const nf_memory *memory)
{
    return core->memory_used(memory);
}

uint64_t nf_memory_limit(const nf_memory *memory)
{
    return core->memory_limit(memory);
}

bool nf_multiply(uint64_t a, uint64_t b, uint64_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

/* ---- core/core_context.h ---- */

void nf_context_begin(nf_context *ctx)
{
    core->context_begin(ctx);
}

uint32_t nf_context_threads(const nf_context *ctx)
{
    return core->context_threads(ctx);
}

const nf_context_params *nf_context_settings(const nf_context *ctx)
{
    return core->context_settings(ctx);
}

bool nf_context_stopping(const nf_context *ctx)
{
    return core->context_stopping(ctx);
}

void nf_progress_begin(nf_context *ctx, const char *step, uint64_t total)
{
    core->progress_begin(ctx, step, total);
}

void nf_progress_add(nf_context *ctx, uint64_t units)
{
    core->progress_add(ctx, units);
}

nf_status nf_progress_poll(nf_context *ctx)
{
    return core->progress_poll(ctx);
}

double nf_now(void)
{
    return core->now();
}

/* ---- core/core_pool.h ---- */

uint32_t nf_pool_workers(const nf_context *ctx, uint64_t task_count)
{
    return core->pool_workers(ctx, task_count);
}

nf_status nf_pool_run(nf_context *ctx, nf_task_fn fn, void *arg, uint64_t task_count)
{
    return core->pool_run(ctx, fn, arg, task_count);
}
