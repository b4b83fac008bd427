/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context: engine, limits, callbacks, and the last error.
 *
 * Thread rule: a context is used by one thread at a time; use one context per thread. nf_context_cancel alone may be
 * called from any thread and from a signal handler. No thread stays running between calls, so a process may fork.
 */
#ifndef NEARFIELD_CONTEXT_H
#define NEARFIELD_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nf_context nf_context;

/* What does the work. AUTO takes the GPU for joins by radius large enough to be worth the way there, where a GPU can be
 * used and no instruction set was asked for, else the CPU; it never fails for want of a GPU. The environment variable
 * NEARFIELD_ENGINE (cpu, cuda) forces one where the parameter is AUTO; work that the forced engine does not do goes to the
 * CPU then. An engine asked for by name does the work or the call fails, NF_ERR_ENGINE or NF_ERR_UNSUPPORTED. */
typedef enum nf_engine_kind { NF_ENGINE_AUTO = 0, NF_ENGINE_CPU = 1, NF_ENGINE_CUDA = 2 } nf_engine_kind;

/* Instruction set of the CPU engine. AUTO takes the best that CPU and operating system allow; the environment variable
 * NEARFIELD_ISA (scalar, avx2, avx512, neon) forces one where the parameter is AUTO. One that is missing is an error. */
typedef enum nf_isa { NF_ISA_AUTO = 0, NF_ISA_SCALAR = 1, NF_ISA_AVX2 = 2, NF_ISA_AVX512 = 3, NF_ISA_NEON = 4 } nf_isa;

/* Reports work done so far: the step's name (DESIGN: select_dims, group, ..., read, write), units done and units in
 * all (0: not known). Called on the thread that made the call, about ten times a second at most.
 * A result other than 0 cancels the call, which then returns NF_ERR_CANCELLED. */
typedef int (*nf_progress_fn)(void *user, const char *step, uint64_t done, uint64_t total);

/* Memory hooks. alloc returns memory aligned to align, or NULL. Both are called from many threads at once. */
typedef struct nf_allocator {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*release)(void *user, void *ptr, size_t size, size_t align);
    void *user;
} nf_allocator;

typedef struct nf_context_params {
    size_t         struct_size;   /* set by nf_context_params_init */
    uint32_t       engine;        /* nf_engine_kind; default AUTO */
    uint32_t       isa;           /* nf_isa; default AUTO */
    int32_t        device;        /* GPU number; default 0 */
    uint32_t       threads;       /* 0 (default): all processors this process may use */
    uint64_t       memory;        /* bytes of host memory the library may allocate; 0: 80 % of RAM or container */
    uint64_t       gpu_memory;    /* bytes of device memory; 0: chosen from what is free */
    nf_progress_fn progress;      /* may be NULL */
    void          *progress_user;
    nf_allocator   allocator;     /* all members NULL: the C library's */
} nf_context_params;

typedef struct nf_context_info {
    const char *engine;           /* "cpu", "cuda": what did the last work, or before any, what was asked for */
    const char *isa;              /* "scalar", "avx2", "avx512", "neon": of the CPU engine */
    uint32_t    threads;
    uint64_t    memory_limit;     /* bytes */
    uint64_t    memory_used;      /* bytes now allocated under the limit */
    uint64_t    memory_peak;      /* most bytes ever allocated under the limit */
    const char *device;           /* the GPU in use, "" for the CPU */
    const char *why;              /* why AUTO chose this engine for the last work; "" where there was no choice */
} nf_context_info; /* texts: valid until the next call with the context */

/* An engine on this machine. */
typedef struct nf_engine_info {
    size_t   struct_size;      /* set by the caller */
    uint32_t usable;           /* 1: a context can be made with it */
    int32_t  rt_core_version;  /* hardware for ray tracing: 0 none; 10, 20, 30, ...; -1 not known */
    uint64_t memory_total;     /* bytes of the device; 0 for the CPU */
    uint64_t memory_free;
    char     reason[512];      /* why it cannot be used; "" when usable. AUTO: which engine does what, and why */
    char     device[128];      /* name and size of the GPU; "" for the CPU */
    char     driver[64];       /* what the driver speaks: "CUDA 13.0" */
    char     ray_tracing[160]; /* what ray tracing would run on, or why there is none */
} nf_engine_info;

/* Fills params with the defaults. Cannot fail. */
NF_API void nf_context_params_init(nf_context_params *params);

/* Sets one parameter by name ("engine", "isa", "device", "threads", "memory", "gpu-memory") from text, as the command
 * line does. Sizes take K, M, G, T (powers of 1024) and an optional B or iB.
 * NF_ERR_ARGUMENT: unknown name or value out of range; *error (may be NULL) says which and what is allowed. */
NF_API NF_NODISCARD nf_status nf_context_params_set(nf_context_params *params, const char *name, const char *value,
                                                    nf_error *error);

/* Makes a context. params may be NULL (defaults). The caller owns *out and destroys it.
 * NF_ERR_ARGUMENT, NF_ERR_MEMORY; NF_ERR_ENGINE: the engine or instruction set asked for cannot run here.
 * error may be NULL. */
NF_API NF_NODISCARD nf_status nf_context_create(const nf_context_params *params, nf_context **out, nf_error *error);

/* Destroys a context. Indexes, datasets and results made with it stay valid; streams must be closed before. */
NF_API void nf_context_destroy(nf_context *ctx);

/* Returns the first failure of the last call on ctx (status NF_OK when it succeeded). Valid until the next call. */
NF_API const nf_error *nf_context_error(const nf_context *ctx);

/* Asks the call that is running on ctx to stop soon with NF_ERR_CANCELLED. Where none is running, or the running one is
 * past its last look, it stops the next one. Any thread; async-signal-safe. */
NF_API void nf_context_cancel(nf_context *ctx);

/* Describes an engine (for AUTO: the choice, usable always 1) and GPU number device, without a context. This opens the
 * engine's module and asks the driver. NF_ERR_ARGUMENT: engine or info are wrong. */
NF_API NF_NODISCARD nf_status nf_engine_describe(nf_engine_kind engine, int32_t device, nf_engine_info *info);

/* Says what the context runs on and how much memory it uses. */
NF_API void nf_context_describe(const nf_context *ctx, nf_context_info *info);

#ifdef __cplusplus
}
#endif

#endif
