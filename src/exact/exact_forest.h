/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disjoint-set forest over row numbers: parent[row] is row itself for a root. Uniting makes the higher root a child
 * of the lower one by compare-and-swap, so every root is the lowest row of its tree, and the sets at the end do not
 * depend on the order in which threads took the pairs.
 */
#ifndef NF_EXACT_FOREST_H
#define NF_EXACT_FOREST_H

#include <stdatomic.h>
#include <stdint.h>

/* The root of a row's tree; shortens the path. Any number of threads at once. */
uint32_t nf_forest_root(_Atomic uint32_t *parent, uint32_t row);

/* Makes the trees of x and y one. Any number of threads at once. */
void nf_forest_unite(_Atomic uint32_t *parent, uint32_t x, uint32_t y);

#endif
