/* SPDX-License-Identifier: Apache-2.0 */
/* What the rest of the library may ask of a context. */
#ifndef NF_CORE_CONTEXT_H
#define NF_CORE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "core_error.h"
#include "core_memory.h"
#include "nearfield/context.h"

/* Every public function with a context begins with this: forgets the last error. */
void nf_context_begin(nf_context *ctx);

uint32_t nf_context_threads(const nf_context *ctx);
const nf_context_params *nf_context_settings(const nf_context *ctx);

/* The instruction set chosen at creation (never AUTO). */
nf_isa nf_context_isa(const nf_context *ctx);

/* The engine asked for by parameter or by NEARFIELD_ENGINE; AUTO where neither says. */
nf_engine_kind nf_context_engine(const nf_context *ctx);

/* Whether an instruction set was asked for, by parameter or by NEARFIELD_ISA. */
bool nf_context_isa_named(const nf_context *ctx);

/* Notes the engine that does the work that begins: name is static, device "" on the CPU; why may be "". Texts are cut to
 * NF_DEVICE_TEXT and NF_ENGINE_WHY. */
#define NF_DEVICE_TEXT 128
#define NF_ENGINE_WHY 512
void nf_context_note_engine(nf_context *ctx, const char *name, const char *device, const char *why);

/* Whether an engine can work here, for contexts that ask for it. NF_OK with the device's text, or NF_ERR_ENGINE with the
 * reason. Not of core: src/engine, which knows the engines, defines it. */
nf_status nf_engine_check(nf_engine_kind engine, int32_t device, char text[NF_DEVICE_TEXT], nf_error *error);

/* Progress of the step that runs now. step: static name. nf_progress_begin resets the counter; nf_progress_add may be
 * called from any thread; the callback itself runs only on the calling thread, from nf_progress_poll and nf_pool_run. */
void nf_progress_begin(nf_context *ctx, const char *step, uint64_t total);
void nf_progress_add(nf_context *ctx, uint64_t units);

/* Calls the progress callback when it is due, and returns NF_ERR_CANCELLED (recorded) when the call is to stop. Calling
 * thread only. */
nf_status nf_progress_poll(nf_context *ctx);

/* Whether the call is to stop: cancelled or failed. Any thread. */
bool nf_context_stopping(const nf_context *ctx);

/* Seconds of a clock that never jumps. */
double nf_now(void);

#endif
