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
