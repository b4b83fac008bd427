/* SPDX-License-Identifier: Apache-2.0 */
/* The k least (value, slot) pairs seen so far: a binary heap with the greatest on top. */
#ifndef NF_CPU_IVF_TOP_H
#define NF_CPU_IVF_TOP_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct nf_neighbour {
    float    value;
    uint32_t slot;
} nf_neighbour;

typedef struct nf_top {
    nf_neighbour *heap;
    uint32_t      count, k;
} nf_top;

static inline bool nf_neighbour_less(nf_neighbour a, nf_neighbour b)
{
    return a.value < b.value || (a.value == b.value && a.slot < b.slot);
}

/* What a new value must be below; +infinity while there are fewer than k. */
static inline float nf_top_limit(const nf_top *top)
{
    return top->count < top->k ? INFINITY : top->heap[0].value;
}

/* Moves an entry down from the top to its place in a heap of count. */
static inline void nf_top_sink(nf_neighbour *heap, uint32_t count, nf_neighbour entry)
{
    uint32_t at = 0;
    for (uint32_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && nf_neighbour_less(heap[child], heap[child + 1])) child++;
        if (!nf_neighbour_less(entry, heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = entry;
}

static inline void nf_top_offer(nf_top *top, nf_neighbour entry)
{
    if (top->count == top->k) {
        if (nf_neighbour_less(entry, top->heap[0])) nf_top_sink(top->heap, top->k, entry);
        return;
    }
    uint32_t at = top->count++;
    while (at > 0 && nf_neighbour_less(top->heap[(at - 1) / 2], entry)) {
        top->heap[at] = top->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    top->heap[at] = entry;
}

/* Sorts ascending; the heap is one no more. */
static inline void nf_top_sort(nf_top *top)
{
    for (uint32_t left = top->count; left > 1; left--) {
        const nf_neighbour last = top->heap[left - 1];
        top->heap[left - 1] = top->heap[0];
        nf_top_sink(top->heap, left - 1, last);
    }
}

#endif
