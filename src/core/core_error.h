/* SPDX-License-Identifier: Apache-2.0 */
/* Recording failures. The first failure of a call stays on the context; see include/nearfield/status.h. */
#ifndef NF_CORE_ERROR_H
#define NF_CORE_ERROR_H

#include <stdarg.h>
#include <stdint.h>

#include "nearfield/context.h"

/* Forwards a failure (negative status). Information (positive) passes on. */
#define NF_TRY(expression)                          \
    do {                                            \
        nf_status nf_try_status_ = (expression);    \
        if (nf_try_status_ < 0) return nf_try_status_; \
    } while (0)

/* Records a failure on ctx unless one is recorded already, and returns status. Any thread of the call. */
nf_status nf_fail(nf_context *ctx, nf_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same with the code of another library (0: none), and arguments as a list: for callers outside this library. */
nf_status nf_fail_v(nf_context *ctx, nf_status status, int32_t native, const char *format, va_list arguments)
    __attribute__((format(printf, 4, 0)));

/* The same with an errno value, whose text is appended: "...: No space left on device". */
nf_status nf_fail_errno(nf_context *ctx, nf_status status, int errnum, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fills a caller-owned record (may be NULL), and returns status: for calls that have no context. */
nf_status nf_error_set(nf_error *error, nf_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
