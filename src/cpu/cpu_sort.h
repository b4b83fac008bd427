/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting the short rows of a result. */
#ifndef NF_CPU_SORT_H
#define NF_CPU_SORT_H

#include <stdint.h>

#include "core/core_context.h"
#include "cpu/kernels/kernels.h"

/* Scratch of one worker. */
typedef struct nf_row_sorter {
    nf_context       *ctx;
    const nf_kernels *kernels;
    uint64_t   *bits, *summary; /* bitmap of ids and of its words; NULL where ids are too many for it */
    uint32_t    id_limit;
    uint32_t   *spare;          /* as long as the longest row so far */
    void       *keyed;
    uint64_t    spare_count, keyed_count;
} nf_row_sorter;

/* id_limit: every id is below it. */
nf_status nf_row_sorter_open(nf_context *ctx, const nf_kernels *kernels, nf_row_sorter *sorter, uint32_t id_limit);
void nf_row_sorter_close(nf_row_sorter *sorter);

/* Sorts ids, all different, ascending. */
nf_status nf_sort_ids(nf_row_sorter *sorter, uint32_t *ids, uint64_t count);

/* Sorts ids and distances together by distance; equal distances keep their order. No NaN. */
nf_status nf_sort_by_distance(nf_row_sorter *sorter, uint32_t *ids, double *distances, uint64_t count);

#endif
