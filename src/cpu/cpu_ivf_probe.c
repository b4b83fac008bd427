/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest lists of each query. Products of a tile of queries with all centroids give the distances; the nearest are
 * kept in a heap, whose top is the limit that a list must be below.
 *
 * L2 and COSINE take the lists with the nearest centroids, IP those with the largest inner product.
 */
#include <math.h>

#include "cpu_ivf_search.h"

/* Squared distance from a query to a centroid. Where the expanded form cancels, it is summed up anew. */
static float centroid_distance(const nf_query_chunk *chunk, uint32_t query, uint32_t list, float half_difference)
{
    const nf_ivf_view *view = chunk->view;
    const float        square = chunk->square[query] + 2 * half_difference;
    if (square > 1e-3f * chunk->square[query]) return square;

    const float *q = chunk->rotated + (size_t)query * view->padded;
    const float *c = view->centroids + (size_t)list * view->padded;
    double       sum = 0;
    for (uint32_t k = 0; k < view->padded; k++) sum += ((double)q[k] - c[k]) * ((double)q[k] - c[k]);
    return (float)sum;
}

/* The lists in order, with the scalars that estimates of their rows need. */
static void put_probes(const nf_query_chunk *chunk, uint32_t query, const float *products, nf_top *nearest)
{
    const nf_vectors_panel *panel = &chunk->prepared->panel;
    nf_probe               *probes = chunk->probes + (size_t)query * chunk->question->probes;

    nf_top_sort(nearest);
    for (uint32_t i = 0; i < nearest->count; i++) {
        const uint32_t list = nearest->heap[i].slot;
        const float    dot = products[list];
        const float    square = centroid_distance(chunk, query, list, panel->half_squares[list] - dot);
        /* <q, c> of the true vectors, which are the mean away from those of the index. */
        const float inner = dot + chunk->mean_dot[query] + chunk->prepared->mean_dots[list];
        probes[i] = (nf_probe){list, chunk->view->metric == NF_METRIC_L2 ? square : -inner, sqrtf(square)};
    }
}

/* Lists are looked at STRIP at a time, against the limit as it then is. */
#define STRIP 64u

static void nearest_lists(const nf_query_chunk *chunk, const float *products, nf_top *nearest)
{
    const float   *offsets = chunk->prepared->rank_offsets;
    const uint32_t count = chunk->prepared->panel.count;
    uint32_t       places[STRIP + 8];

    nearest->count = 0;
    for (uint32_t first = 0; first < count; first += STRIP) {
        const uint32_t strip = count - first < STRIP ? count - first : STRIP;
        const uint32_t found =
            chunk->kernels->nearer(products + first, offsets + first, strip, nf_top_limit(nearest), places);
        for (uint32_t i = 0; i < found; i++) {
            const uint32_t list = first + places[i];
            nf_top_offer(nearest, (nf_neighbour){offsets[list] - products[list], list});
        }
    }
    if (nearest->count == nearest->k) return;
    /* Distances that are infinite or no numbers, as a made-up index can have: then any lists will do. */
    for (uint32_t list = 0; list < nearest->k; list++) nearest->heap[list] = (nf_neighbour){INFINITY, list};
    nearest->count = nearest->k;
}

void nf_probe_lists(nf_query_chunk *chunk, nf_scanner *scanner)
{
    const nf_vectors_panel *panel = &chunk->prepared->panel;
    nf_top                  nearest = {scanner->nearest, 0, chunk->question->probes};
    const uint32_t          tile = nf_probe_tile(chunk);

    for (uint32_t first = 0; first < chunk->count; first += tile) {
        const uint32_t rows = chunk->count - first < tile ? chunk->count - first : tile;
        chunk->kernels->products(chunk->rotated + (size_t)first * panel->dims, panel->dims, rows, panel->values,
                                 panel->rounded, panel->dims, scanner->products, panel->rounded);
        for (uint32_t i = 0; i < rows; i++) {
            const float *products = scanner->products + (size_t)i * panel->rounded;
            nearest_lists(chunk, products, &nearest);
            put_probes(chunk, first + i, products, &nearest);
        }
    }
}
