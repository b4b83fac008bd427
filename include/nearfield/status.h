/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes and error records.
 *
 * Every function that can fail returns an nf_status. 0 is success, positive values are information (never failure),
 * negative values are failures, in bands: caller (-1), resources (-20), data (-40), engines (-60), us (-99). Numbers
 * are never reused.
 *
 * What holds for every function of the library:
 *  - on failure, out-pointers are NULL (or untouched where the comment says so) and inputs are unchanged;
 *  - the library never aborts, exits, prints, or installs signal handlers;
 *  - functions named destroy, release or close accept NULL and return nothing;
 *  - the first failure of a call is kept with a one-line text (nf_context_error); later ones do not overwrite it.
 */
#ifndef NEARFIELD_STATUS_H
#define NEARFIELD_STATUS_H

#include <stdint.h>

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, text) */
#define NF_STATUS_MAP(X)                                          \
    X(NF_OK, 0, "success")                                        \
    X(NF_MORE, 1, "more results remain")                          \
    X(NF_ERR_ARGUMENT, -1, "invalid argument")                    \
    X(NF_ERR_STATE, -2, "call not allowed in this state")         \
    X(NF_ERR_CANCELLED, -3, "cancelled by the caller")            \
    X(NF_ERR_MEMORY, -20, "host memory exhausted")                \
    X(NF_ERR_DEVICE_MEMORY, -21, "device memory exhausted")       \
    X(NF_ERR_LIMIT, -22, "a limit set by the caller was reached") \
    X(NF_ERR_IO, -40, "input or output failed")                   \
    X(NF_ERR_FORMAT, -41, "file does not follow its format")      \
    X(NF_ERR_VALUE, -42, "a value is not allowed")                \
    X(NF_ERR_DAMAGED, -43, "index file is damaged")               \
    X(NF_ERR_VERSION, -44, "format or ABI version not supported") \
    X(NF_ERR_ENGINE, -60, "engine not available")                 \
    X(NF_ERR_UNSUPPORTED, -61, "engine cannot do this")           \
    X(NF_ERR_DEVICE, -62, "device failure")                       \
    X(NF_ERR_INTERNAL, -99, "internal error, please report")

typedef enum nf_status {
#define NF_STATUS_ENUM(name, number, text) name = (number),
    NF_STATUS_MAP(NF_STATUS_ENUM)
#undef NF_STATUS_ENUM
} nf_status;

/* One failure. The text is one line: what, which value, what was allowed. */
typedef struct nf_error {
    nf_status status;
    int32_t   native;    /* errno or a driver's code; 0 when there is none */
    char      text[512];
} nf_error;

/* Returns the name of a status ("NF_ERR_MEMORY"), or "NF_UNKNOWN". Static string. Any thread. */
NF_API const char *nf_status_name(nf_status status);

/* Returns the general text of a status ("host memory exhausted"). Static string. Any thread. */
NF_API const char *nf_status_text(nf_status status);

#ifdef __cplusplus
}
#endif

#endif
