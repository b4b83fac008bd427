/* SPDX-License-Identifier: Apache-2.0 */
/* An index: its contents as engines see them, and who owns the memory. */
#ifndef NF_IVF_INDEX_H
#define NF_IVF_INDEX_H

#include "core/core_memory.h"
#include "engine/engine.h"
#include "store/store_sealed.h"

/* An entry of the table of recall by probes, as in the file. */
typedef struct nf_ivf_recall {
    uint32_t probes, reserved;
    double   recall;
} nf_ivf_recall;

/* Arrays that the index owns; those of an opened index lie in its file but for the derived ones. */
typedef struct nf_ivf_arrays {
    float         *mean, *mean_rotated, *centroids, *matrix;
    uint8_t       *signs, *blocks, *records, *vectors;
    uint64_t      *list_start, *block_start;
    void          *ids;
    nf_ivf_recall *recall;
} nf_ivf_arrays;

struct nf_ivf_index {
    const nf_engine_ops *engine;
    nf_memory           *memory; /* without a limit: an index does not count */
    nf_sealed_file      *file;   /* NULL: built here */
    nf_ivf_view          view;
    nf_ivf_prepared     *prepared;
    nf_ivf_arrays        owned;
    const nf_ivf_recall *recall;
    uint32_t             recall_points;
    uint32_t             user_ids;
    double               ip_length; /* IP: length that queries are scaled to (ivf_search.c); 0: none */
    uint64_t             seed;
    nf_sealed_info       info;
};

/* An empty index, without an engine. Released by nf_ivf_release. */
nf_status nf_ivf_index_new(nf_context *ctx, nf_ivf_index **out);

/* Chooses the engine for the rows and dims of the view. */
nf_status nf_ivf_index_choose_engine(nf_context *ctx, nf_ivf_index *index);

/* Fills block_start (lists + 1) from list_start. */
void nf_ivf_block_starts(const uint64_t *list_start, uint32_t lists, uint64_t *block_start);

/* What is derived from the rest of a complete view: mean_rotated, and the engine's prepared form. */
nf_status nf_ivf_index_complete(nf_context *ctx, nf_ivf_index *index);

/* The id in a slot (row number in the order of lists). */
static inline int64_t nf_ivf_id(const nf_ivf_view *view, uint64_t slot)
{
    return view->wide_ids != 0 ? (int64_t)((const uint64_t *)view->ids)[slot] : ((const uint32_t *)view->ids)[slot];
}

/* Bytes and id of the file that saving the index would write. */
void nf_ivf_index_measure(nf_ivf_index *index);

#endif
