/* SPDX-License-Identifier: Apache-2.0 */
/* The setters by name: the first byte chooses the struct, the second a name of its table or, from 128 on, the text up
 * to a '=' ; the rest is the value. A value that is taken is taken twice with the same bytes; one that is not has a
 * text. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_common.h"
#include "nearfield/cluster.h"
#include "nearfield/ivf.h"
#include "nearfield/params.h"

#define MOST 512u

typedef union any_params {
    nf_context_params      context;
    nf_radius_params       radius;
    nf_radius_index_params radius_index;
    nf_read_params         read;
    nf_write_params        write;
    nf_knn_params          knn;
    nf_ivf_params          ivf;
    nf_ivf_open_params     ivf_open;
    nf_ivf_search_params   ivf_search;
    nf_dbscan_params       dbscan;
} any_params;

#define GROUP(number, member)                       \
    case number:                                    \
        nf_##member##_params_init(&params->member); \
        return nf_##member##_params_set(&params->member, name, value, error)

static nf_status set(unsigned group, any_params *params, const char *name, const char *value, nf_error *error)
{
    memset(params, 0, sizeof *params);
    switch (group) {
        GROUP(NF_PARAMS_CONTEXT, context);
        GROUP(NF_PARAMS_RADIUS, radius);
        GROUP(NF_PARAMS_READ, read);
        GROUP(NF_PARAMS_WRITE, write);
        GROUP(NF_PARAMS_KNN, knn);
        GROUP(NF_PARAMS_IVF, ivf);
        GROUP(NF_PARAMS_IVF_OPEN, ivf_open);
        GROUP(NF_PARAMS_IVF_SEARCH, ivf_search);
        GROUP(NF_PARAMS_RADIUS_INDEX, radius_index);
    default: nf_dbscan_params_init(&params->dbscan); return nf_dbscan_params_set(&params->dbscan, name, value, error);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > MOST) return 0;
    const unsigned  group = data[0] % (NF_PARAMS_DBSCAN + 1u);
    size_t          count = 0;
    const nf_param *table = nf_params((nf_param_group)group, &count);
    char           *text = calloc(1, size - 1);
    any_params      first, second;
    nf_error        error;

    fuzz_demand(text != NULL && count > 0, "memory and a table");
    memcpy(text, data + 2, size - 2);
    const char *name = table[data[1] % count].name, *value = text;
    if (data[1] >= 128) {
        char *equals = strchr(text, '=');
        name = text;
        value = equals != NULL ? equals + 1 : "";
        if (equals != NULL) *equals = 0;
    }
    memset(&error, 0, sizeof error);
    const nf_status status = set(group, &first, name, value, &error);
    fuzz_demand(status == NF_OK || status == NF_ERR_ARGUMENT, "OK or NF_ERR_ARGUMENT");
    fuzz_demand(status == NF_OK || (error.text[0] != 0 && memchr(error.text, 0, sizeof error.text) != NULL),
                "a failure has a text");
    fuzz_demand(set(group, &second, name, value, NULL) == status, "the same status without an error");
    fuzz_demand(memcmp(&first, &second, sizeof first) == 0, "the same value twice");
    free(text);
    return 0;
}
