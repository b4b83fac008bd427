/* SPDX-License-Identifier: Apache-2.0 */
/* An index on the device, and the workspaces of its searches. */
#ifndef NF_CUDA_IVF_INDEX_H
#define NF_CUDA_IVF_INDEX_H

#include <pthread.h>

#include "cuda_ivf.h"
#include "kernels/k_scan.h"

struct nf_search_room; /* a workspace (cuda_ivf_room.h) */

struct nf_ivf_prepared {
    nf_blocks          arrays;
    nf_k_index         index;
    nf_device_rotation rotation;
    float             *mean;    /* dims: not rotated */
    bool               precise; /* TF32 cannot tell the centroids apart */
    /* What bounds the work of a search: sums over the largest lists. [p]: of the p largest; lists + 1 entries. */
    uint64_t *most_blocks, *most_segments;
    uint64_t  blocks, segments; /* of all lists */

    const void            *ids;  /* as index.ids; NULL until the first search that delivers ids, under the lock */
    pthread_mutex_t        lock;
    struct nf_search_room *rooms; /* kept for the next search */
};

void nf_search_rooms_close(nf_ivf_prepared *prepared);

#endif
