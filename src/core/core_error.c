/* SPDX-License-Identifier: Apache-2.0 */
/* Recording failures: the first one of a call wins, whichever thread it comes from. */
#include "core_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core_context_private.h"

__attribute__((format(printf, 4, 0))) static nf_status record(nf_context *ctx, nf_status status, int native,
                                                              const char *format, va_list args)
{
    pthread_mutex_lock(&ctx->error_lock);
    if (ctx->error.status == NF_OK) {
        ctx->error.status = status;
        ctx->error.native = native;
        vsnprintf(ctx->error.text, sizeof ctx->error.text, format, args);
        atomic_store(&ctx->failed, (int)status);
    }
    pthread_mutex_unlock(&ctx->error_lock);
    return status;
}

nf_status nf_fail(nf_context *ctx, nf_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record(ctx, status, 0, format, args);
    va_end(args);
    return status;
}

nf_status nf_fail_v(nf_context *ctx, nf_status status, int32_t native, const char *format, va_list arguments)
{
    return record(ctx, status, native, format, arguments);
}

nf_status nf_fail_errno(nf_context *ctx, nf_status status, int errnum, const char *format, ...)
{
    char    extended[400];
    char    reason[96];
    va_list args;

    /* The GNU variant returns the text; it may or may not use the buffer. */
    snprintf(extended, sizeof extended, "%s: %s", format, strerror_r(errnum, reason, sizeof reason));
    va_start(args, format);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    record(ctx, status, errnum, extended, args); /* texts of strerror hold no '%' */
#pragma GCC diagnostic pop
    va_end(args);
    return status;
}

nf_status nf_error_set(nf_error *error, nf_status status, const char *format, ...)
{
    va_list args;
    if (error == NULL) return status;
    error->status = status;
    error->native = 0;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return status;
}
