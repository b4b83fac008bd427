/* SPDX-License-Identifier: Apache-2.0 */
/* Fork-join over a shared task counter; see core_pool.h for why no thread is kept. */
#include "core_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "core_context.h"

typedef struct pool_run {
    nf_context          *ctx;
    nf_task_fn           fn;
    void                *arg;
    uint64_t             task_count;
    atomic_uint_fast64_t next;
    atomic_int           stop; /* the first failure */
} pool_run;

typedef struct pool_worker {
    pool_run *run;
    uint32_t  number;
    pthread_t thread;
} pool_worker;

static void stop_with(pool_run *run, nf_status status)
{
    int expected = NF_OK;
    atomic_compare_exchange_strong(&run->stop, &expected, (int)status);
}

static void work(pool_run *run, uint32_t number)
{
    while (atomic_load_explicit(&run->stop, memory_order_relaxed) == NF_OK) {
        const uint64_t task = atomic_fetch_add(&run->next, 1);
        if (task >= run->task_count) break;
        nf_status status = run->fn(run->arg, task, number);
        if (status >= 0 && number == 0) status = nf_progress_poll(run->ctx);
        if (status < 0) stop_with(run, status);
    }
}

static void *thread_main(void *arg)
{
    const pool_worker *worker = arg;
    work(worker->run, worker->number);
    return NULL;
}

/* Signals are the caller's business: helper threads take none. */
static uint32_t start_workers(pool_worker *workers, uint32_t count, pool_run *run)
{
    sigset_t all, before;
    uint32_t started = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < count) {
        workers[started].run = run;
        workers[started].number = started + 1;
        if (pthread_create(&workers[started].thread, NULL, thread_main, &workers[started]) != 0) break;
        started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

uint32_t nf_pool_workers(const nf_context *ctx, uint64_t task_count)
{
    const uint32_t threads = nf_context_threads(ctx);
    if (task_count < threads) return task_count > 0 ? (uint32_t)task_count : 1;
    return threads;
}

nf_status nf_pool_run(nf_context *ctx, nf_task_fn fn, void *arg, uint64_t task_count)
{
    pool_run run = {.ctx = ctx, .fn = fn, .arg = arg, .task_count = task_count};
    const uint32_t helpers = nf_pool_workers(ctx, task_count) - 1;
    pool_worker   *workers = NULL;
    uint32_t       started = 0;

    if (helpers > 0) {
        workers = nf_alloc(ctx, helpers, sizeof *workers);
        if (workers == NULL) return nf_alloc_status(ctx);
        started = start_workers(workers, helpers, &run);
    }
    work(&run, 0);
    for (uint32_t i = 0; i < started; i++) pthread_join(workers[i].thread, NULL);
    nf_free(workers);
    /* A helper may have left work undone because of a cancel that came after the caller's last task. */
    if (atomic_load(&run.stop) == NF_OK) return nf_progress_poll(ctx);
    return (nf_status)atomic_load(&run.stop);
}
