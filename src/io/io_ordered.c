/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding in parallel, appending in order: each worker encodes a task into its own buffer, waits until all tasks
 * before have been appended, and appends. The pool hands tasks out in ascending order, so the task whose turn it is
 * always has a worker, and nobody waits for one that has not begun. After a failure nobody waits at all.
 */
#include "io_ordered.h"

#include <pthread.h>

#include "core/core_context.h"
#include "core/core_error.h"
#include "core/core_pool.h"

typedef struct ordered {
    nf_output      *out;
    nf_encode_fn    encode;
    const void     *arg;
    char           *buffers;
    uint64_t        task_count;
    uint64_t        units;
    pthread_mutex_t lock;
    pthread_cond_t  moved;
    uint64_t        turn;   /* the task to be appended next */
    nf_status       status; /* the first failure */
} ordered;

/* Units of a task such that all tasks together give exactly units. */
static uint64_t task_units(const ordered *run, uint64_t task)
{
    const uint64_t each = run->units / run->task_count;
    return task + 1 < run->task_count ? each : run->units - each * (run->task_count - 1);
}

static nf_status append_in_turn(ordered *run, uint64_t task, const char *buffer, size_t length, nf_status status,
                                const nf_error *error)
{
    pthread_mutex_lock(&run->lock);
    while (run->turn != task && run->status == NF_OK) pthread_cond_wait(&run->moved, &run->lock);
    if (run->status == NF_OK) {
        if (status < 0) nf_fail(run->out->ctx, status, "%s", error->text);
        if (status == NF_OK) status = nf_output_append(run->out, buffer, length);
        run->status = status;
        run->turn++;
    }
    status = run->status;
    pthread_cond_broadcast(&run->moved);
    pthread_mutex_unlock(&run->lock);
    return status;
}

static nf_status ordered_task(void *arg, uint64_t task, uint32_t worker)
{
    ordered  *run = arg;
    char     *buffer = run->buffers + worker * NF_IO_BUFFER_BYTES;
    size_t    length = 0;
    nf_error  error = {.status = NF_OK};
    nf_status status = run->encode(run->arg, task, buffer, &length, &error);

    status = append_in_turn(run, task, buffer, length, status, &error);
    if (status == NF_OK) nf_progress_add(run->out->ctx, task_units(run, task));
    return status;
}

nf_status nf_ordered_append(nf_output *out, nf_encode_fn encode, const void *arg, uint64_t task_count, char *buffers,
                            uint64_t units)
{
    ordered run = {.out = out, .encode = encode, .arg = arg, .buffers = buffers, .task_count = task_count};

    if (task_count == 0) return NF_OK;
    run.units = units;
    pthread_mutex_init(&run.lock, NULL);
    pthread_cond_init(&run.moved, NULL);
    const nf_status status = nf_pool_run(out->ctx, ordered_task, &run, task_count);
    pthread_cond_destroy(&run.moved);
    pthread_mutex_destroy(&run.lock);
    return status;
}
