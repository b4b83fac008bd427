/* SPDX-License-Identifier: Apache-2.0 */
/* The table of core's services that a module gets. */
#include "core/core_context.h"
#include "core/core_error.h"
#include "core/core_memory.h"
#include "core/core_pool.h"
#include "engine_loader.h"
#include "nearfield/version.h"

static const nf_core_services services = {
    .struct_size = sizeof services,
    .abi = NF_MODULE_ABI,
    .version = NF_VERSION,
    .fail = nf_fail_v,
    .alloc_status = nf_alloc_status,
    .alloc_in = nf_alloc_in,
    .alloc_zero_in = nf_alloc_zero_in,
    .alloc = nf_alloc,
    .alloc_zero = nf_alloc_zero,
    .try_alloc = nf_try_alloc,
    .release = nf_free,
    .context_memory = nf_context_memory,
    .memory_used = nf_memory_used,
    .memory_limit = nf_memory_limit,
    .context_begin = nf_context_begin,
    .context_threads = nf_context_threads,
    .context_settings = nf_context_settings,
    .context_stopping = nf_context_stopping,
    .progress_begin = nf_progress_begin,
    .progress_add = nf_progress_add,
    .progress_poll = nf_progress_poll,
    .pool_workers = nf_pool_workers,
    .pool_run = nf_pool_run,
    .now = nf_now,
};

const nf_core_services *nf_engine_services(void)
{
    return &services;
}
