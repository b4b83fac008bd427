/* SPDX-License-Identifier: Apache-2.0 */
/* Step plan_batches. Formulas are in the header. */
#include "exact_plan.h"

#define ROW_BYTES 48u          /* query id, offset, cursor, rank, and scratch of sorting them */
#define SPARE_BYTES (4u << 20) /* panels, scratch of workers */

nf_batch nf_plan_batch(const uint64_t *list_bytes, uint32_t groups, uint32_t begin, uint32_t most_groups, uint64_t budget)
{
    uint64_t total = 0;
    if (list_bytes == NULL) return (nf_batch){begin, most_groups < groups - begin ? begin + most_groups : groups};
    for (uint32_t g = begin; g < groups; g++) total += list_bytes[g];
    if (budget == 0) budget = 1;
    const uint64_t batches = total / budget + (total % budget != 0 ? 1 : 0);
    const uint64_t share = batches > 1 ? (total + batches - 1) / batches : total;

    nf_batch batch = {begin, begin};
    uint64_t sum = 0;
    while (batch.end < groups && batch.end - begin < most_groups) {
        sum += list_bytes[batch.end];
        if (batch.end > begin && (sum > budget || (batches > 1 && sum > share))) break;
        batch.end++;
    }
    return batch;
}

uint32_t nf_plan_groups(uint32_t tried, uint64_t used, uint64_t limit, bool overflow)
{
    if (overflow) return tried / 2;
    if (used < limit / 3) return tried > UINT32_MAX / 2 ? UINT32_MAX : 2 * tried;
    if (used < limit / 2) return tried > UINT32_MAX / 2 ? UINT32_MAX : tried + tried / 2;
    return tried;
}

uint64_t nf_plan_pair_bytes(uint64_t free_bytes, uint64_t rows, uint32_t directions, uint32_t distance_bytes)
{
    const uint64_t fixed = SPARE_BYTES + rows * ROW_BYTES;
    if (free_bytes <= fixed) return 0;
    return (free_bytes - fixed) / (4 + (uint64_t)directions * (4 + distance_bytes)) * 4;
}
