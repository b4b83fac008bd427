/* SPDX-License-Identifier: Apache-2.0 */
/* The table of parameters: one place for names, defaults, ranges and texts. It feeds the setters by name, the command
 * line's help, the man page, and bindings. */
#ifndef NEARFIELD_PARAMS_H
#define NEARFIELD_PARAMS_H

#include <stddef.h>
#include <stdint.h>

#include "export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nf_param_group {
    NF_PARAMS_CONTEXT = 0, /* nf_context_params */
    NF_PARAMS_RADIUS = 1,  /* nf_radius_params */
    NF_PARAMS_READ = 2,    /* nf_read_params */
    NF_PARAMS_WRITE = 3,   /* nf_write_params */
    NF_PARAMS_KNN = 4,     /* nf_knn_params */
    NF_PARAMS_IVF = 5,     /* nf_ivf_params */
    NF_PARAMS_IVF_OPEN = 6,  /* nf_ivf_open_params */
    NF_PARAMS_IVF_SEARCH = 7, /* nf_ivf_search_params */
    NF_PARAMS_RADIUS_INDEX = 8, /* nf_radius_index_params */
    NF_PARAMS_DBSCAN = 9      /* nf_dbscan_params */
} nf_param_group;

typedef enum nf_param_kind {
    NF_PARAM_CHOICE = 0, /* one of choices ("auto|cpu|cuda"), stored as its index in a uint32_t */
    NF_PARAM_U32 = 1,
    NF_PARAM_I32 = 2,
    NF_PARAM_U64 = 3,
    NF_PARAM_SIZE = 4,   /* bytes, with K, M, G, T */
    NF_PARAM_F64 = 5,
    NF_PARAM_FLAG = 6,   /* no value on the command line; stored as 0 or 1 in a uint32_t */
    NF_PARAM_TEXT = 7,   /* stored as a pointer to the caller's text, which must live as long as the struct is used */
    NF_PARAM_RANGE = 8   /* "A:B", either side may be missing; stored as two uint64_t */
} nf_param_kind;

typedef struct nf_param {
    const char   *name;          /* as on the command line, without the dashes: "max-results" */
    nf_param_kind kind;
    uint32_t      offset;        /* of the member in the parameter struct */
    const char   *value;         /* what the help calls the value: "N", "SIZE", "auto|cpu|cuda" */
    const char   *choices;       /* for NF_PARAM_CHOICE: texts separated by '|', the first is the default */
    const char   *default_text;  /* as the help prints it */
    double        minimum;       /* for numbers; both 0: no bound beyond the type's */
    double        maximum;
    const char   *help;          /* one sentence */
} nf_param;

/* Returns the parameters of a group and stores their number in *count. Static memory. Any thread. */
NF_API const nf_param *nf_params(nf_param_group group, size_t *count);

#ifdef __cplusplus
}
#endif

#endif
