/* SPDX-License-Identifier: Apache-2.0 */
/* The context's members: for src/core alone. */
#ifndef NF_CORE_CONTEXT_PRIVATE_H
#define NF_CORE_CONTEXT_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core_context.h"

struct nf_context {
    nf_context_params params;
    nf_isa            isa;
    bool              isa_named;    /* asked for by parameter or environment */
    nf_engine_kind    engine;       /* the same for the engine; AUTO: not asked for */
    const char       *engine_name;  /* what did the last work, or will do the first */
    char              device[NF_DEVICE_TEXT];
    char              why[NF_ENGINE_WHY];
    uint32_t          threads;
    nf_memory        *memory;

    pthread_mutex_t error_lock;
    nf_error        error;          /* the first failure of the call */
    atomic_int      failed;         /* its status, 0 while there is none */
    atomic_int      cancel_asked;

    const char          *step;      /* progress: calling thread only, but for done */
    uint64_t             total;
    atomic_uint_fast64_t done;
    double               last_report;
};

#endif
