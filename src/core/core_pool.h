/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads: runs a function over task numbers on the context's threads.
 *
 * Threads live only inside nf_pool_run: they are started, take tasks in ascending order from a shared counter, and are
 * joined. Starting one is cheap beside a step's work, so no thread is left behind that would break after fork, and a
 * library that is idle has no threads at all. The calling thread works too, as worker 0, and polls progress and cancel.
 */
#ifndef NF_CORE_POOL_H
#define NF_CORE_POOL_H

#include <stdint.h>

#include "nearfield/context.h"

/* A task: task number, and worker number below nf_pool_workers(ctx, task_count). A failure stops the run. */
typedef nf_status (*nf_task_fn)(void *arg, uint64_t task, uint32_t worker);

/* How many workers nf_pool_run uses at most for that many tasks: at least 1. */
uint32_t nf_pool_workers(const nf_context *ctx, uint64_t task_count);

/* Runs all tasks; returns the first failure, or NF_ERR_CANCELLED. Where a thread cannot be started, fewer do the work. */
nf_status nf_pool_run(nf_context *ctx, nf_task_fn fn, void *arg, uint64_t task_count);

#endif
