/* SPDX-License-Identifier: Apache-2.0 */
/* Planning batches: pure functions of numbers, tested without any engine. */
#ifndef NF_EXACT_PLAN_H
#define NF_EXACT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

/*
 * How far a batch that begins at a group may reach, so that its lists of hits stay within budget bytes (RT-HiSS, section
 * IV-D: consecutive queries are taken until their hits would exceed what fits). Work is spread evenly: what is left is
 * cut into as few batches as the budget allows, of about equal lists. At least one group; at most most_groups. list_bytes
 * NULL: no lists are stored, and most_groups alone counts.
 */
nf_batch nf_plan_batch(const uint64_t *list_bytes, uint32_t groups, uint32_t begin, uint32_t most_groups, uint64_t budget);

/*
 * The number of groups to try next, after a batch of tried groups has filled used of limit bytes with pairs (overflow: it
 * did not fit). Halves on overflow, and grows again where there is room.
 */
uint32_t nf_plan_groups(uint32_t tried, uint64_t used, uint64_t limit, bool overflow);

/*
 * Bytes of pairs that refine may keep, when free_bytes are left for a batch of rows rows: a pair takes 4 bytes while it is
 * kept, and then, in each of the directions rows it is delivered to (1, or 2 in a self-join), 4 bytes for the id and
 * distance_bytes; a row takes its share of offsets and ranks. 0: not even one block of pairs fits.
 */
uint64_t nf_plan_pair_bytes(uint64_t free_bytes, uint64_t rows, uint32_t directions, uint32_t distance_bytes);

#endif
