/* SPDX-License-Identifier: Apache-2.0 */
/* A disjoint-set forest that threads unite at once (Jayanti and Tarjan, arXiv:1612.01514). */
#include "exact_forest.h"

uint32_t nf_forest_root(_Atomic uint32_t *parent, uint32_t row)
{
    for (;;) {
        uint32_t       up = atomic_load_explicit(&parent[row], memory_order_relaxed);
        const uint32_t higher = atomic_load_explicit(&parent[up], memory_order_relaxed);
        if (up == higher) return up;
        /* Halves the path; another thread may have made it shorter still. */
        atomic_compare_exchange_weak_explicit(&parent[row], &up, higher, memory_order_relaxed, memory_order_relaxed);
        row = higher;
    }
}

void nf_forest_unite(_Atomic uint32_t *parent, uint32_t x, uint32_t y)
{
    for (;;) {
        x = nf_forest_root(parent, x);
        y = nf_forest_root(parent, y);
        if (x == y) return;
        uint32_t       high = x > y ? x : y;
        const uint32_t low = x > y ? y : x, root = high;
        if (atomic_compare_exchange_strong_explicit(&parent[root], &high, low, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            return;
        }
    }
}
