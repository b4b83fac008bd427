/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules for test_engine_loader.c, one for each thing that can be wrong with a module. The kind is chosen when this file is
 * compiled (CMakeLists.txt): FAKE_<KIND>. No kind is an engine: the operations of the sound ones are never called.
 */
#include <stdio.h>
#include <string.h>

#include "engine/engine_module.h"
#include "nearfield/version.h"

#if defined(FAKE_NO_ENTRY)

int nf_other_entry(void);

int nf_other_entry(void)
{
    return 0;
}

#else

static const nf_core_services *core;

static const nf_engine_ops operations = {
#if defined(FAKE_OTHER_OPERATIONS)
    .struct_size = sizeof operations - 8,
#else
    .struct_size = sizeof operations,
#endif
    .abi = NF_ENGINE_ABI,
    .name = "cuda",
};

static nf_status fail(nf_context *ctx, nf_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    core->fail(ctx, status, 7, format, arguments);
    va_end(arguments);
    return status;
}

static nf_status open_engine(nf_context *ctx, const nf_engine_ops **ops)
{
    *ops = &operations;
#if defined(FAKE_OPEN_FAILS)
    return fail(ctx, NF_ERR_ENGINE, "device %d %s", core->context_settings(ctx)->device, "is lost");
#else
    return core->context_threads(ctx) > 0 ? NF_OK : fail(ctx, NF_ERR_INTERNAL, "no threads");
#endif
}

static void describe(int32_t device, nf_module_device *out)
{
    memset(out, 0, sizeof *out);
#if defined(FAKE_NO_DEVICE)
    snprintf(out->reason, sizeof out->reason, "there is no device %d", device);
    out->rt_core_version = -1;
#else
    out->usable = true;
    out->memory_total = (uint64_t)64 << 30;
    out->memory_free = (uint64_t)48 << 30;
    out->rt_core_version = 30;
    snprintf(out->device, sizeof out->device, "Fake %d", device);
    snprintf(out->driver, sizeof out->driver, "CUDA 13.0");
    snprintf(out->ray_tracing, sizeof out->ray_tracing, "none: a fake");
#endif
}

static const nf_engine_module module = {
    .struct_size = sizeof module,
#if defined(FAKE_OTHER_ABI)
    .abi = NF_MODULE_ABI + 1,
#else
    .abi = NF_MODULE_ABI,
#endif
#if defined(FAKE_OTHER_VERSION)
    .version = "0.0.77",
#else
    .version = NF_VERSION,
#endif
#if defined(FAKE_OTHER_NAME)
    .name = "coda",
#else
    .name = "cuda",
#endif
    .open = open_engine,
    .describe = describe,
};

__attribute__((visibility("default"))) const nf_engine_module *fake_entry(const nf_core_services *services)
    __asm__(NF_MODULE_ENTRY);

const nf_engine_module *fake_entry(const nf_core_services *services)
{
    core = services;
#if defined(FAKE_NULL)
    return services == NULL ? &module : NULL;
#else
    return &module;
#endif
}

#endif
