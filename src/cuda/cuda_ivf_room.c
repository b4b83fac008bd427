/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces. A search's arrays are bounded before it begins: a query's pairs have no more blocks and segments than its
 * number of the largest lists has, so no size has to be fetched from the device in between.
 */
#include "cuda_ivf_room.h"

#include <string.h>

#include "kernels/k_primitives.h"

static uint64_t pairs_of(const nf_room_size *size)
{
    return size->queries * size->probes;
}

static uint64_t values_stride(const nf_ivf_prepared *prepared)
{
    return ((uint64_t)prepared->index.lists + 3) / 4 * 4;
}

/* Numbers per wave and list, or per pair; and one more. */
static uint64_t counts_of(const nf_ivf_prepared *prepared, const nf_room_size *size)
{
    const uint64_t units = (uint64_t)NF_K_MOST_WAVES * prepared->index.lists, pairs = pairs_of(size);
    return (size->tiles && units > pairs ? units : pairs) + 1;
}

/* By pairs: all segments of the largest lists. By tiles: full tiles, and one more for every list, wave and segment that
 * any pair is in. */
static uint64_t items_of(const nf_ivf_prepared *prepared, const nf_room_size *size)
{
    const uint64_t most = size->queries * prepared->most_segments[size->probes];
    if (!size->tiles) return most;
    const uint64_t parts = NF_K_MOST_WAVES * prepared->segments;
    return most / NF_K_TILE_QUERIES + (parts < most ? parts : most);
}

uint64_t nf_room_query_bytes(const nf_ivf_prepared *prepared, const nf_room_size *size)
{
    const nf_k_index  *index = &prepared->index;
    const nf_room_size one = {.queries = 1, .probes = size->probes, .k = size->k};
    const uint64_t     dims = nf_ivf_stride(index->dims), chunks = index->chunks;
    return size->raw_bytes + dims * 4 + index->width * 4ull + chunks * 16ull * size->planes +
           (size->bytes ? chunks * 128ull : 0) + values_stride(prepared) * 4 + size->probes * 32ull +
           prepared->most_blocks[size->probes] * 4 + items_of(prepared, &one) * 16 + size->k * 40ull + 128;
}

static nf_status take(nf_context *ctx, nf_search_room *room, uint64_t count, size_t size, void *out)
{
    return nf_blocks_take(ctx, &room->blocks, count, size, out);
}

static nf_status take_queries(nf_context *ctx, const nf_ivf_prepared *prepared, nf_search_room *room)
{
    const nf_room_size *size = &room->size;
    const nf_k_index   *index = &prepared->index;
    const uint64_t      count = size->queries;
    nf_k_queries       *queries = &room->queries;

    if (size->raw_bytes > 0) NF_TRY(take(ctx, room, count, size->raw_bytes, &room->raw));
    NF_TRY(take(ctx, room, count * nf_ivf_stride(index->dims), sizeof(float), &room->rows));
    NF_TRY(take(ctx, room, count, sizeof(double), &room->factors));
    NF_TRY(take(ctx, room, count * index->width, sizeof(float), &queries->rotated));
    NF_TRY(take(ctx, room, count, sizeof(float), &queries->square));
    NF_TRY(take(ctx, room, count, sizeof(float), &queries->mean_dot));
    NF_TRY(take(ctx, room, count, sizeof(float), &queries->sum));
    NF_TRY(take(ctx, room, count, sizeof(float), &queries->step));
    NF_TRY(take(ctx, room, count, sizeof(float), &queries->base));
    NF_TRY(take(ctx, room, count, sizeof(float), &queries->noise));
    if (size->planes > 0) {
        NF_TRY(take(ctx, room, count * index->chunks * 4 * size->planes, sizeof(uint32_t), &queries->plane));
    }
    if (size->bytes) NF_TRY(take(ctx, room, count * index->chunks * NF_K_CHUNK_DIMS, 1, &queries->values));
    return NF_OK;
}

static nf_status take_turns(nf_context *ctx, const nf_ivf_prepared *prepared, nf_search_room *room)
{
    const nf_room_size *size = &room->size;
    const uint64_t      pairs = pairs_of(size), counts = counts_of(prepared, size), item = sizeof(nf_k_tile_item);
    nf_k_turns         *turns = &room->turns;

    NF_TRY(take(ctx, room, pairs, sizeof(uint32_t), &turns->list));
    NF_TRY(take(ctx, room, pairs, sizeof(float), &turns->add));
    NF_TRY(take(ctx, room, pairs, sizeof(float), &turns->error));
    NF_TRY(take(ctx, room, pairs + 1, sizeof(uint64_t), &turns->mask_start));
    NF_TRY(take(ctx, room, size->queries * values_stride(prepared), sizeof(float), &room->values));
    NF_TRY(take(ctx, room, counts, sizeof(uint32_t), &room->counts));
    NF_TRY(take(ctx, room, counts, sizeof(uint64_t), &room->starts));
    room->most_items = items_of(prepared, size);
    NF_TRY(take(ctx, room, room->most_items, size->tiles ? item : sizeof(nf_k_item), &room->items));
    if (size->tiles) {
        NF_TRY(take(ctx, room, counts, sizeof(uint64_t), &room->tile_starts));
        NF_TRY(take(ctx, room, counts, sizeof(uint32_t), &room->cursor));
        NF_TRY(take(ctx, room, counts, sizeof(uint32_t), &room->tiles));
        NF_TRY(take(ctx, room, pairs, sizeof(uint32_t), &room->by_list));
    }
    NF_TRY(take(ctx, room, size->queries * prepared->most_blocks[size->probes], sizeof(uint32_t), &room->masks));
    NF_CUDA(ctx, nf_k_exclusive_sum_u32(NULL, &room->scan_bytes, NULL, NULL, counts > pairs + 1 ? counts : pairs + 1,
                                        room->blocks.stream));
    return take(ctx, room, room->scan_bytes, 1, &room->scan_scratch);
}

static nf_status take_results(nf_context *ctx, const nf_ivf_prepared *prepared, nf_search_room *room)
{
    const nf_room_size *size = &room->size;
    const uint64_t      results = size->queries * size->k;
    const uint64_t      rank = nf_k_rank_scratch((uint32_t)size->queries, size->k);
    const uint64_t      nearest = nf_k_nearest_scratch((uint32_t)size->queries, prepared->index.lists, size->probes);

    NF_TRY(take(ctx, room, rank > nearest ? rank : nearest, 1, &room->scratch));
    if (size->allowed) NF_TRY(take(ctx, room, prepared->blocks, sizeof(uint32_t), &room->allowed));
    room->tops.k = size->k;
    NF_TRY(take(ctx, room, results, sizeof(unsigned long long), &room->tops.keys));
    NF_TRY(take(ctx, room, size->queries, sizeof(float), &room->tops.limit));
    NF_TRY(take(ctx, room, results, sizeof(uint64_t), &room->slots));
    room->ids = (int64_t *)room->slots; /* one or the other */
    NF_TRY(take(ctx, room, results, sizeof(float), &room->found));
    NF_TRY(take(ctx, room, size->queries, sizeof(uint32_t), &room->found_counts));
    return take(ctx, room, 1, sizeof *room->report, &room->report);
}

static nf_status open_room(nf_context *ctx, const nf_ivf_prepared *prepared, nf_search_room *room)
{
    room->blocks.device = nf_device_retain(prepared->arrays.device);
    NF_CUDA(ctx, cudaStreamCreateWithFlags(&room->blocks.stream, cudaStreamNonBlocking));
    for (unsigned i = 0; i < NF_ROOM_EVENTS; i++) NF_CUDA(ctx, cudaEventCreateWithFlags(&room->events[i], 0));
    NF_TRY(take_queries(ctx, prepared, room));
    NF_TRY(take_turns(ctx, prepared, room));
    return take_results(ctx, prepared, room);
}

void nf_room_close(nf_search_room *room)
{
    if (room == NULL) return;
    for (unsigned i = 0; i < NF_ROOM_EVENTS; i++) {
        if (room->events[i] != NULL) (void)cudaEventDestroy(room->events[i]);
    }
    nf_blocks_free(&room->blocks);
    if (room->blocks.stream != NULL) (void)cudaStreamDestroy(room->blocks.stream);
    nf_device_release(room->blocks.device);
    nf_free(room);
}

void nf_search_rooms_close(nf_ivf_prepared *prepared)
{
    pthread_mutex_lock(&prepared->lock);
    nf_search_room *rooms = prepared->rooms;
    prepared->rooms = NULL;
    pthread_mutex_unlock(&prepared->lock);
    while (rooms != NULL) {
        nf_search_room *room = rooms;
        rooms = room->next;
        nf_room_close(room);
    }
}

uint64_t nf_room_list_bytes(const nf_ivf_prepared *prepared)
{
    return (uint64_t)NF_K_MOST_WAVES * prepared->index.lists * (3 * sizeof(uint32_t) + 2 * sizeof(uint64_t));
}

/* k and probes must be the same: arrays are laid out by them. */
static bool fits(const nf_search_room *room, const nf_room_size *size)
{
    const nf_room_size *has = &room->size;
    return has->queries >= size->queries && has->probes == size->probes && has->k == size->k &&
           has->planes == size->planes && has->bytes == size->bytes && has->tiles == size->tiles &&
           has->raw_bytes >= size->raw_bytes && has->allowed >= size->allowed;
}

uint64_t nf_room_kept_queries(nf_ivf_prepared *prepared, const nf_room_size *size)
{
    nf_room_size one = *size;
    uint64_t     most = 0;
    one.queries = 1;
    pthread_mutex_lock(&prepared->lock);
    for (const nf_search_room *room = prepared->rooms; room != NULL; room = room->next) {
        if (fits(room, &one) && room->size.queries > most) most = room->size.queries;
    }
    pthread_mutex_unlock(&prepared->lock);
    return most;
}

/* Takes a kept workspace out of the list: one that fits, else any. */
static nf_search_room *take_kept(nf_ivf_prepared *prepared, const nf_room_size *size)
{
    pthread_mutex_lock(&prepared->lock);
    nf_search_room **at = &prepared->rooms;
    while (*at != NULL && !fits(*at, size)) at = &(*at)->next;
    if (*at == NULL) at = &prepared->rooms;
    nf_search_room *room = *at;
    if (room != NULL) *at = room->next;
    pthread_mutex_unlock(&prepared->lock);
    return room;
}

nf_status nf_room_take(nf_context *ctx, nf_ivf_prepared *prepared, const nf_room_size *size, nf_search_room **out)
{
    nf_search_room *room = take_kept(prepared, size);
    *out = room;
    if (room != NULL && fits(room, size)) return NF_OK;
    nf_room_close(room);
    *out = NULL;
    room = nf_alloc_zero_in(ctx, nf_context_memory(ctx), 1, sizeof *room);
    if (room == NULL) return nf_alloc_status(ctx);
    room->size = *size;
    const nf_status status = open_room(ctx, prepared, room);
    if (status < 0) {
        nf_room_close(room);
        return status;
    }
    *out = room;
    return NF_OK;
}

void nf_room_keep(nf_ivf_prepared *prepared, nf_search_room *room)
{
    pthread_mutex_lock(&prepared->lock);
    room->next = prepared->rooms;
    prepared->rooms = room;
    pthread_mutex_unlock(&prepared->lock);
}
