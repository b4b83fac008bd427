/* SPDX-License-Identifier: Apache-2.0 */
/* A filter: which slots of which blocks a search may return. */
#ifndef NF_IVF_FILTER_H
#define NF_IVF_FILTER_H

#include "ivf_index.h"

struct nf_ivf_filter {
    uint64_t  file_id, blocks; /* of the index it was made for */
    uint32_t *allowed;         /* a word per block: bit j allows slot j */
};

#endif
