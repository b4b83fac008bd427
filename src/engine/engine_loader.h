/* SPDX-License-Identifier: Apache-2.0 */
/* Opening an engine module (engine_module.h). */
#ifndef NF_ENGINE_LOADER_H
#define NF_ENGINE_LOADER_H

#include "engine_module.h"

#define NF_LOADER_TEXT 512

typedef struct nf_loaded_module {
    const nf_engine_module *module;                 /* NULL: it cannot be used */
    char                    reason[NF_LOADER_TEXT]; /* why not; "" when it can */
} nf_loaded_module;

/*
 * Opens libnearfield-<name>.so, from the first of these folders that has it:
 *   1. the one that the environment variable NEARFIELD_MODULE_DIR names (an absolute path; no other is looked in then;
 *      programs that run with rights not their user's ignore it);
 *   2. the one of the object that holds this code: of the shared library, or of a program linked statically;
 *   3. the one that installing puts modules into, fixed when this library was built.
 * Never the current directory, nor the system's search path. A file that is there and cannot be used ends the search: the
 * reason says what is wrong with it. What was opened stays open. Any thread; the caller remembers the answer.
 */
void nf_engine_load_module(const char *name, nf_loaded_module *out);

/* Core's services for modules. */
const nf_core_services *nf_engine_services(void);

#endif
