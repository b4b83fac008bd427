/* SPDX-License-Identifier: Apache-2.0 */
/* The list of engines, choosing one for the work at hand, and describing them. This is the only file that names them.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine.h"
#include "engine_loader.h"
#include "engine_module.h"

extern const nf_engine_ops nf_cpu_engine;

/* From this many rows on, AUTO looks for a GPU. Fewer are worked off on the CPU in less time than the driver takes to
 * start. */
#define AUTO_ROWS 50000
#define TEXT_OF_MACRO(macro) TEXT_OF(macro)
#define TEXT_OF(token) #token

static const char *const work_names[] = {"joins by radius", "exact k nearest neighbours by inner product or cosine",
                                         "approximate search", "exact k nearest neighbours"};

/* ---- the cuda module: opened once in a process ---- */

static pthread_once_t   cuda_once = PTHREAD_ONCE_INIT;
static nf_loaded_module cuda_loaded;

static void load_cuda(void)
{
    nf_engine_load_module("cuda", &cuda_loaded);
}

/* NULL, with the reason, where it cannot be used. */
static const nf_engine_module *cuda_module(const char **reason)
{
    pthread_once(&cuda_once, load_cuda);
    *reason = cuda_loaded.reason;
    return cuda_loaded.module;
}

/* What is known of the device, and whether it can be used; the reason where not. */
static bool describe_cuda(int32_t device, nf_module_device *about, const char **reason)
{
    const nf_engine_module *module = cuda_module(reason);
    memset(about, 0, sizeof *about);
    about->rt_core_version = -1;
    if (module == NULL) return false;
    module->describe(device, about);
    *reason = about->reason;
    return about->usable;
}

nf_status nf_engine_check(nf_engine_kind engine, int32_t device, char text[NF_DEVICE_TEXT], nf_error *error)
{
    nf_module_device about;
    const char      *reason = "";
    text[0] = '\0';
    if (engine != NF_ENGINE_CUDA) return NF_OK;
    if (!describe_cuda(device, &about, &reason)) {
        return nf_error_set(error, NF_ERR_ENGINE, "the cuda engine cannot be used: %s", reason);
    }
    snprintf(text, NF_DEVICE_TEXT, "%s", about.device);
    return NF_OK;
}

/* ---- choosing ---- */

static bool does_work(const nf_engine_ops *ops, nf_work work)
{
    if (work == NF_WORK_IVF) return ops->ivf != NULL;
    if (work == NF_WORK_KNN_L2) return ops->knn != NULL || ops->points_read != NULL;
    return work == NF_WORK_RADIUS || ops->knn != NULL;
}

static nf_status use_cpu(nf_context *ctx, const char *why, const nf_engine_ops **out)
{
    nf_context_note_engine(ctx, nf_cpu_engine.name, "", why);
    *out = &nf_cpu_engine;
    return NF_OK;
}

/* Opens the module's engine on the context's device. */
static nf_status open_cuda(nf_context *ctx, const char *why, const nf_engine_ops **out)
{
    nf_module_device        about;
    const nf_engine_ops    *ops = NULL;
    const char             *reason = "";
    const nf_engine_module *module = cuda_module(&reason);
    if (module == NULL) return nf_fail(ctx, NF_ERR_ENGINE, "the cuda engine cannot be used: %s", reason);
    NF_TRY(module->open(ctx, &ops));
    if (ops == NULL || ops->abi != NF_ENGINE_ABI || ops->struct_size != sizeof *ops) {
        return nf_fail(ctx, NF_ERR_ENGINE,
                       "the cuda engine cannot be used: its operations are not those of this library");
    }
    module->describe(nf_context_settings(ctx)->device, &about);
    nf_context_note_engine(ctx, module->name, about.device, why);
    *out = ops;
    return NF_OK;
}

/* The engine that was asked for. Work that it does not do is refused where the program asked, and goes to the CPU where
 * the environment did, which speaks for all work of a process. */
static nf_status use_cuda(nf_context *ctx, nf_work work, const nf_engine_ops **out)
{
    const bool           by_name = nf_context_settings(ctx)->engine == NF_ENGINE_CUDA;
    const nf_engine_ops *ops = NULL;
    NF_TRY(open_cuda(ctx, "", &ops));
    if (!does_work(ops, work)) {
        if (!by_name) return use_cpu(ctx, "the cuda engine does not do this work", out);
        return nf_fail(ctx, NF_ERR_UNSUPPORTED, "the cuda engine does no %s in this version; use the cpu engine",
                       work_names[work]);
    }
    *out = ops;
    return NF_OK;
}

/* Whether an index of so many values fits the device: for joins its rows are there twice, of 8 bytes a value at most,
 * while it is made; for approximate search codes of 9 bits a value at most. Only for auto: an engine asked for by name
 * tries. */
static bool fits(const nf_context *ctx, const nf_module_device *about, nf_work work, uint64_t rows, uint32_t dims)
{
    const uint64_t asked = nf_context_settings(ctx)->gpu_memory, most = about->memory_free / 10 * 9;
    const double   value = work == NF_WORK_IVF ? 1.25 : 16.0, spare = work == NF_WORK_IVF ? 64.0 : 8.0;
    const double   need = value * (double)rows * ((double)dims + spare);
    return need <= (double)(asked != 0 && asked < most ? asked : most);
}

/* Work large enough goes to the GPU, where there is one that can be used. A failure to open it is no failure of the
 * call. */
static nf_status choose(nf_context *ctx, nf_work work, uint64_t rows, uint32_t dims, const nf_engine_ops **out)
{
    nf_module_device about;
    const char      *reason = "";
    char             why[NF_ENGINE_WHY];

    if (work == NF_WORK_KNN || work == NF_WORK_KNN_L2) {
        return use_cpu(ctx, "the cuda engine is for joins by radius and approximate search", out);
    }
    if (nf_context_isa_named(ctx)) return use_cpu(ctx, "an instruction set was asked for", out);
    if (rows < AUTO_ROWS) return use_cpu(ctx, "fewer than " TEXT_OF_MACRO(AUTO_ROWS) " rows", out);
    if (!describe_cuda(nf_context_settings(ctx)->device, &about, &reason)) return use_cpu(ctx, reason, out);
    if (!fits(ctx, &about, work, rows, dims))
        return use_cpu(ctx, "the device's free memory is too small for the index", out);
    const nf_status status = open_cuda(ctx, TEXT_OF_MACRO(AUTO_ROWS) " rows or more", out);
    if (status >= 0 && !does_work(*out, work)) return use_cpu(ctx, "the cuda engine does not do this work", out);
    if (status >= 0 || status == NF_ERR_CANCELLED) return status;
    snprintf(why, sizeof why, "%s", nf_context_error(ctx)->text);
    nf_context_begin(ctx); /* forgets the error */
    return use_cpu(ctx, why, out);
}

nf_status nf_engine_for(nf_context *ctx, nf_work work, uint64_t rows, uint32_t dims, const nf_engine_ops **out)
{
    switch (nf_context_engine(ctx)) {
    case NF_ENGINE_CPU: return use_cpu(ctx, "", out);
    case NF_ENGINE_CUDA: return use_cuda(ctx, work, out);
    case NF_ENGINE_AUTO: break;
    }
    return choose(ctx, work, rows, dims, out);
}

/* ---- describing ---- */

static void describe_choice(int32_t device, nf_engine_info *info)
{
    nf_module_device about;
    const char      *reason = "";
    info->usable = 1;
    if (describe_cuda(device, &about, &reason)) {
        snprintf(info->reason, sizeof info->reason,
                 "cuda for joins by radius and approximate search of " TEXT_OF_MACRO(
                     AUTO_ROWS) " rows or more, unless --isa is given; cpu for all else");
    } else {
        snprintf(info->reason, sizeof info->reason, "cpu for all work, since the cuda engine cannot be used");
    }
}

static void describe_gpu(int32_t device, nf_engine_info *info)
{
    nf_module_device about;
    const char      *reason = "";
    info->usable = describe_cuda(device, &about, &reason);
    info->rt_core_version = about.rt_core_version;
    info->memory_total = about.memory_total;
    info->memory_free = about.memory_free;
    if (!info->usable) snprintf(info->reason, sizeof info->reason, "%s", reason);
    snprintf(info->device, sizeof info->device, "%s", about.device);
    snprintf(info->driver, sizeof info->driver, "%s", about.driver);
    snprintf(info->ray_tracing, sizeof info->ray_tracing, "%s", about.ray_tracing);
}

nf_status nf_engine_describe(nf_engine_kind engine, int32_t device, nf_engine_info *info)
{
    nf_engine_info full = {.usable = 1};
    if (info == NULL || info->struct_size < sizeof info->struct_size || (uint32_t)engine > NF_ENGINE_CUDA) {
        return NF_ERR_ARGUMENT;
    }
    if (engine == NF_ENGINE_AUTO) describe_choice(device, &full);
    if (engine == NF_ENGINE_CUDA) describe_gpu(device, &full);
    const size_t size = info->struct_size < sizeof full ? info->struct_size : sizeof full;
    full.struct_size = info->struct_size;
    memcpy(info, &full, size);
    return NF_OK;
}
