/* SPDX-License-Identifier: Apache-2.0 */
/* From rows of the matrices to row numbers of the original files. In a self-join both sides are the data. */
#include <inttypes.h>

#include "core/core_error.h"
#include "io_join.h"

uint64_t nf_id_rows_below(const nf_id_map *map, int64_t id)
{
    uint64_t low = 0, high = map->count;

    if (map->ids == NULL) {
        if (id <= map->first) return 0;
        return (uint64_t)(id - map->first) < map->count ? (uint64_t)(id - map->first) : map->count;
    }
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (map->ids[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static nf_status check_ids(nf_context *ctx, const char *side, const nf_id_map *map)
{
    for (uint64_t i = 1; map->ids != NULL && i < map->count; i++) {
        if (map->ids[i] > map->ids[i - 1]) continue;
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s ids must ascend, but %" PRId64 " comes before %" PRId64, side,
                       map->ids[i - 1], map->ids[i]);
    }
    return NF_OK;
}

static nf_status fill_map(nf_context *ctx, const char *side, nf_id_map *map)
{
    if (map->first < 0 || map->first > INT64_MAX - INT32_MAX) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "first %s id is %" PRId64 ", allowed are 0 to %" PRId64, side, map->first,
                       INT64_MAX - INT32_MAX);
    }
    NF_TRY(check_ids(ctx, side, map));
    if (map->count == 0) return NF_OK;

    const int64_t lowest = nf_id_of(map, 0);
    const int64_t highest = nf_id_of(map, map->count - 1);
    if (lowest < 0 || highest == INT64_MAX) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s ids go from %" PRId64 " to %" PRId64 ", allowed are 0 to 2^63 - 2",
                       side, lowest, highest);
    }
    if (map->file_rows == 0) map->file_rows = (uint64_t)highest + 1;
    if ((uint64_t)highest >= map->file_rows) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s id %" PRId64 " is beyond the %" PRIu64 " rows of the file", side,
                       highest, map->file_rows);
    }
    return NF_OK;
}

nf_status nf_join_map_ids(nf_join *join, const nf_write_params *params)
{
    join->data = (nf_id_map){params->data_ids, params->data_ids != NULL ? 0 : params->data_first, join->source->rows,
                             params->data_rows};
    join->queries = (nf_id_map){params->query_ids, params->query_ids != NULL ? 0 : params->query_first,
                                join->source->queries, params->query_rows};
    if (join->source->self_join) join->queries = join->data;
    NF_TRY(fill_map(join->ctx, "data", &join->data));
    return fill_map(join->ctx, "query", &join->queries);
}
