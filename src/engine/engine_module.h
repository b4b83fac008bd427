/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine modules: engines in a shared object of their own, opened when they are first needed, so that the core library
 * needs none of what they need (CUDA).
 *
 * A module exports one function, NF_MODULE_ENTRY of type nf_module_entry_fn. It gets core's services as a table and gives
 * its own table back; both sides check version and size of the other's before they use anything else. A module calls core
 * through these services only: errors, memory, threads and progress of a context are core's, whoever calls.
 */
#ifndef NF_ENGINE_MODULE_H
#define NF_ENGINE_MODULE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core_context.h"
#include "core/core_pool.h"
#include "nearfield/version.h"
#include "engine.h"

/* Raised with every change of the tables here, of nf_engine_ops, or of a struct that passes between core and a module. */
#define NF_MODULE_ABI 3u
#define NF_MODULE_ENTRY "nf_engine_module"

/* Core's services. Each member is the function of the same name in src/core. */
typedef struct nf_core_services {
    size_t      struct_size;
    uint32_t    abi;
    const char *version; /* NF_VERSION of the core library */

    nf_status (*fail)(nf_context *ctx, nf_status status, int32_t native, const char *format, va_list arguments);
    nf_status (*alloc_status)(const nf_context *ctx);
    void *(*alloc_in)(nf_context *ctx, nf_memory *memory, uint64_t count, size_t size);
    void *(*alloc_zero_in)(nf_context *ctx, nf_memory *memory, uint64_t count, size_t size);
    void *(*alloc)(nf_context *ctx, uint64_t count, size_t size);
    void *(*alloc_zero)(nf_context *ctx, uint64_t count, size_t size);
    void *(*try_alloc)(nf_context *ctx, uint64_t count, size_t size);
    void (*release)(void *block); /* nf_free */
    nf_memory *(*context_memory)(nf_context *ctx);
    uint64_t (*memory_used)(const nf_memory *memory);
    uint64_t (*memory_limit)(const nf_memory *memory);

    void (*context_begin)(nf_context *ctx);
    uint32_t (*context_threads)(const nf_context *ctx);
    const nf_context_params *(*context_settings)(const nf_context *ctx);
    bool (*context_stopping)(const nf_context *ctx);
    void (*progress_begin)(nf_context *ctx, const char *step, uint64_t total);
    void (*progress_add)(nf_context *ctx, uint64_t units);
    nf_status (*progress_poll)(nf_context *ctx);
    uint32_t (*pool_workers)(const nf_context *ctx, uint64_t task_count);
    nf_status (*pool_run)(nf_context *ctx, nf_task_fn fn, void *arg, uint64_t task_count);
    double (*now)(void);
} nf_core_services;

/* What a module's device is, for nf_engine_describe. Texts are short lines; "" where there is nothing to say. */
typedef struct nf_module_device {
    bool     usable;            /* an engine can be opened on it */
    char     reason[256];       /* why not; "" when usable */
    char     device[128];       /* "NVIDIA H200, compute capability 9.0, 132 multiprocessors" */
    char     driver[64];        /* "CUDA 13.0" */
    char     ray_tracing[160];  /* "OptiX 8.0 (ABI 87), RT cores: none, software" or why there is none */
    uint64_t memory_total, memory_free; /* bytes */
    int32_t  rt_core_version;   /* 0: none; 10, 20, 30, ...; -1: not known */
} nf_module_device;

typedef struct nf_engine_module {
    size_t      struct_size;
    uint32_t    abi;
    const char *version; /* NF_VERSION that the module was built with */
    const char *name;    /* "cuda" */

    /* The operations, after a look at the context's device: NF_ERR_ENGINE with the reason where it cannot be used. */
    nf_status (*open)(nf_context *ctx, const nf_engine_ops **ops);
    /* Describes a device without a context. */
    void (*describe)(int32_t device, nf_module_device *out);
} nf_engine_module;

/* Gives the module's table. A module of another version or ABI gives it too, so that core can name both, but keeps no
 * services: core calls nothing of it then, and the four members up to name keep their place in every ABI. NULL when the
 * module cannot tell anything. services stay valid for ever. */
typedef const nf_engine_module *(*nf_module_entry_fn)(const nf_core_services *services);

#endif
