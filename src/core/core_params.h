/* SPDX-License-Identifier: Apache-2.0 */
/* Setting a member of a parameter struct by name, from the table of include/nearfield/params.h. */
#ifndef NF_CORE_PARAMS_H
#define NF_CORE_PARAMS_H

#include "nearfield/params.h"
#include "nearfield/status.h"

/* Sets the parameter name of a group in *params (the group's struct). NF_ERR_ARGUMENT with a text in *error. */
nf_status nf_params_set(nf_param_group group, void *params, const char *name, const char *value, nf_error *error);

/* Parses "512", "512M", "8GiB", "1.5G" into bytes. Returns 0 on success, -1 otherwise. */
int nf_parse_size(const char *text, uint64_t *bytes);

#endif
