/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals. A handler has no argument of ours, so the context to cancel and the signal that came are file-scope
 * variables: the only ones of the command. Both are written while the other side cannot be half way through (lock-free
 * atomics).
 */
#include "cli_signal.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static _Atomic(nf_context *) cancelled_context;
static atomic_int            caught;

static void on_signal(int number)
{
    nf_context *ctx = atomic_load(&cancelled_context);
    atomic_store(&caught, number);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (ctx != NULL) nf_context_cancel(ctx);
}

void cli_signal_ignore(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* A signal that the caller of the command ignores (nohup, a shell's background job) stays ignored. */
static void handle(int number)
{
    struct sigaction action, before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN) return;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

void cli_signal_install(nf_context *ctx)
{
    atomic_store(&cancelled_context, ctx);
    if (ctx == NULL) return;
    handle(SIGINT);
    handle(SIGTERM);
}

int cli_signal_caught(void)
{
    return atomic_load(&caught);
}
