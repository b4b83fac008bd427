/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index on the device: from the layout of the file, piece by piece, to that of the kernels (k_ivf.h); the numbers
 * per list that a search needs; and the table of operations.
 */
#include "cuda_ivf_index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_ivf_source.h"
#include "cuda_staging.h"
#include "kernels/k_encode.h"
#include "kernels/k_move.h"
#include "nearfield/neighbours.h"

#define PROBED_CENTROIDS 8u
#define LEAST_DISTANCE (1.0 / 64) /* squared, against the squared length, for TF32 to do */
#define PIECE_BYTES \
    ((uint64_t)64 << 20) /* of the file's layout on the device at a time, and an eighth of the memory left */

/* ---- numbers per list ---- */

/* rank_offset and mean_dot of every list, in binary64 (cpu_ivf_search.c has the same). */
static nf_status list_numbers(nf_context *ctx, nf_ivf_prepared *prepared, const nf_ivf_view *view)
{
    float *offsets = nf_alloc(ctx, view->lists, sizeof *offsets), *dots = nf_alloc(ctx, view->lists, sizeof *dots);
    double mean = 0;

    for (uint32_t k = 0; k < view->padded; k++) mean += (double)view->mean_rotated[k] * view->mean_rotated[k];
    for (uint32_t list = 0; offsets != NULL && dots != NULL && list < view->lists; list++) {
        const float *centroid = view->centroids + (size_t)list * view->padded;
        double       square = 0, dot = 0;
        for (uint32_t k = 0; k < view->padded; k++) {
            square += (double)centroid[k] * centroid[k];
            dot += (double)centroid[k] * view->mean_rotated[k];
        }
        dots[list] = (float)(dot + mean);
        offsets[list] = view->metric == NF_METRIC_IP ? -dots[list] : (float)(square / 2);
    }
    nf_status status = offsets == NULL || dots == NULL ? nf_alloc_status(ctx) : NF_OK;
    if (status >= 0) {
        status = nf_blocks_copy(ctx, &prepared->arrays, offsets, view->lists * sizeof *offsets,
                                &prepared->index.rank_offset);
    }
    if (status >= 0)
        status = nf_blocks_copy(ctx, &prepared->arrays, dots, view->lists * sizeof *dots, &prepared->index.mean_dot);
    nf_free(offsets);
    nf_free(dots);
    return status;
}

/* Sum of squared differences; four sums, for speed. */
static float square_between(const float *x, const float *y, uint32_t count)
{
    float sum[4] = {0};
    for (uint32_t k = 0; k < count; k += 4) { /* padded is a multiple of 8 */
        for (uint32_t lane = 0; lane < 4; lane++)
            sum[lane] += (x[k + lane] - y[k + lane]) * (x[k + lane] - y[k + lane]);
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Whether centroids lie so near to each other, against their lengths, that products in TF32 would mix them up: by the
 * nearest others of a few. */
static bool needs_precision(const nf_ivf_view *view)
{
    const uint32_t step = view->lists / PROBED_CENTROIDS + 1;
    double         nearest_sum = 0, length_sum = 0;
    for (uint32_t list = 0; list < view->lists; list += step) {
        const float *centroid = view->centroids + (size_t)list * view->padded;
        float        nearest = INFINITY, square = 0;
        for (uint32_t other = 0; other < view->lists; other++) {
            if (other == list) continue;
            square = square_between(centroid, view->centroids + (size_t)other * view->padded, view->padded);
            if (square > 0 && square < nearest) nearest = square;
        }
        for (uint32_t k = 0; k < view->padded; k++) length_sum += (double)centroid[k] * centroid[k];
        if (nearest < INFINITY) nearest_sum += (double)nearest;
    }
    return !(nearest_sum >= LEAST_DISTANCE * length_sum);
}

static nf_status list_starts(nf_context *ctx, nf_ivf_prepared *prepared, const nf_ivf_view *view)
{
    const uint64_t count = (uint64_t)view->lists + 1;
    uint32_t      *starts = nf_alloc(ctx, 2 * count, sizeof *starts);
    if (starts == NULL) return nf_alloc_status(ctx);
    for (uint64_t list = 0; list < count; list++) {
        starts[list] = (uint32_t)view->list_start[list];
        starts[count + list] = (uint32_t)view->block_start[list];
    }
    nf_status status =
        nf_blocks_copy(ctx, &prepared->arrays, starts, count * sizeof *starts, &prepared->index.list_start);
    if (status >= 0) {
        status = nf_blocks_copy(ctx, &prepared->arrays, starts + count, count * sizeof *starts,
                                &prepared->index.block_start);
    }
    nf_free(starts);
    return status;
}

static int descending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

/* Blocks and segments of the p largest lists, for every p. */
static nf_status bound_work(nf_context *ctx, nf_memory *memory, nf_ivf_prepared *prepared, const nf_ivf_view *view)
{
    const uint32_t lists = view->lists;
    uint64_t      *blocks = nf_alloc_in(ctx, memory, (uint64_t)lists + 1, sizeof *blocks);
    uint64_t      *segments = nf_alloc_in(ctx, memory, (uint64_t)lists + 1, sizeof *segments);

    prepared->most_blocks = blocks;
    prepared->most_segments = segments;
    if (blocks == NULL || segments == NULL) return nf_alloc_status(ctx);
    for (uint32_t list = 0; list < lists; list++)
        blocks[list + 1] = view->block_start[list + 1] - view->block_start[list];
    qsort(blocks + 1, lists, sizeof *blocks, descending);
    blocks[0] = segments[0] = 0;
    for (uint32_t p = 1; p <= lists; p++) {
        segments[p] = segments[p - 1] + (blocks[p] + NF_K_SEGMENT_BLOCKS - 1) / NF_K_SEGMENT_BLOCKS;
        blocks[p] += blocks[p - 1];
    }
    prepared->blocks = blocks[lists];
    prepared->segments = segments[lists];
    return NF_OK;
}

/* ---- codes ---- */

/* How many of count things of so many bytes go at a time. */
static uint64_t piece_of(nf_context *ctx, const nf_blocks *arrays, uint64_t count, uint64_t bytes)
{
    const uint64_t left = nf_device_memory_left(ctx, arrays->device) / 8;
    const uint64_t most = (left < PIECE_BYTES ? left : PIECE_BYTES) / bytes + 1;
    return count < most ? count : most;
}

static nf_status repack_blocks(nf_context *ctx, nf_ivf_prepared *prepared, const nf_ivf_view *view)
{
    const uint64_t bytes = nf_ivf_block_bytes(view->padded), count = view->block_start[view->lists];
    nf_k_index    *index = &prepared->index;
    nf_blocks     *arrays = &prepared->arrays;
    nf_blocks      taken = {.device = arrays->device, .stream = arrays->stream};
    uint32_t      *codes = NULL;
    float         *add = NULL, *rescale = NULL, *error = NULL;
    uint8_t       *piece = NULL;

    NF_TRY(nf_blocks_take(ctx, arrays, count * index->chunks, NF_K_CHUNK_WORDS * sizeof *codes, &codes));
    NF_TRY(nf_blocks_take(ctx, arrays, count * NF_IVF_BLOCK, sizeof *add, &add));
    NF_TRY(nf_blocks_take(ctx, arrays, count * NF_IVF_BLOCK, sizeof *rescale, &rescale));
    NF_TRY(nf_blocks_take(ctx, arrays, count * NF_IVF_BLOCK, sizeof *error, &error));
    index->codes = codes;
    index->add = add;
    index->rescale = rescale;
    index->error = error;
    const uint64_t room = piece_of(ctx, arrays, count, bytes);
    nf_status      status = nf_blocks_take(ctx, &taken, room, bytes, &piece);
    for (uint64_t first = 0; status >= 0 && first < count; first += room) {
        const uint64_t some = count - first < room ? count - first : room;
        status = nf_upload_rows(ctx, taken.device, taken.stream, piece, view->blocks + first * bytes, 1, some * bytes,
                                some * bytes);
        if (status < 0) break;
        status = nf_cuda_check(ctx,
                               nf_k_repack_blocks(piece, (uint32_t)first, (uint32_t)some, view->padded, codes, add,
                                                  rescale, error, taken.stream),
                               "nf_k_repack_blocks");
    }
    nf_blocks_free(&taken);
    return status;
}

/* Slots of the rows from first on, counted from the start of all blocks. list: that of the first row; moves on. */
static void fill_slots(const nf_ivf_view *view, uint64_t first, uint64_t count, uint32_t *list, uint32_t *slots)
{
    for (uint64_t i = 0; i < count; i++) {
        while (view->list_start[*list + 1] <= first + i) (*list)++;
        slots[i] = (uint32_t)(view->block_start[*list] * NF_IVF_BLOCK + (first + i - view->list_start[*list]));
    }
}

/* A piece of rows: host and device. */
typedef struct row_pieces {
    uint64_t  room;
    uint32_t *host_slots, *slots;
    uint8_t  *records;
    uint32_t *whole;
    float    *add, *rescale;
} row_pieces;

static nf_status repack_piece(nf_context *ctx, nf_ivf_prepared *prepared, const nf_ivf_view *view, const row_pieces *at,
                              uint64_t first, uint64_t count, uint32_t *list)
{
    const nf_blocks *arrays = &prepared->arrays;
    const uint64_t   record = nf_ivf_record_bytes(view->padded, view->bits), slot_bytes = count * sizeof *at->slots;

    fill_slots(view, first, count, list, at->host_slots);
    NF_TRY(nf_upload_rows(ctx, arrays->device, arrays->stream, at->slots, at->host_slots, 1, slot_bytes, slot_bytes));
    if (record > 0) {
        NF_TRY(nf_upload_rows(ctx, arrays->device, arrays->stream, at->records, view->records + first * record, 1,
                              count * record, count * record));
    }
    NF_CUDA(ctx, nf_k_repack_rows(&prepared->index, record > 0 ? at->records : NULL, at->slots, (uint32_t)first,
                                  (uint32_t)count, at->whole, at->add, at->rescale, arrays->stream));
    NF_CUDA(ctx, cudaStreamSynchronize(arrays->stream)); /* the slots' memory on the host is used again */
    return NF_OK;
}

static nf_status repack_rows(nf_context *ctx, nf_ivf_prepared *prepared, const nf_ivf_view *view)
{
    const uint64_t record = nf_ivf_record_bytes(view->padded, view->bits);
    nf_k_index    *index = &prepared->index;
    nf_blocks     *arrays = &prepared->arrays;
    nf_blocks      taken = {.device = arrays->device, .stream = arrays->stream};
    row_pieces     at = {0};
    uint32_t       list = 0;

    NF_TRY(nf_blocks_take(ctx, arrays, view->rows * index->groups, index->bits * sizeof *at.whole, &at.whole));
    NF_TRY(nf_blocks_take(ctx, arrays, view->rows, sizeof *at.add, &at.add));
    NF_TRY(nf_blocks_take(ctx, arrays, view->rows, sizeof *at.rescale, &at.rescale));
    index->whole = at.whole;
    index->whole_add = at.add;
    index->whole_rescale = at.rescale;
    at.room = piece_of(ctx, arrays, view->rows, record + 4);
    at.host_slots = nf_alloc(ctx, at.room, sizeof *at.host_slots);
    nf_status status = at.host_slots == NULL ? nf_alloc_status(ctx) : NF_OK;
    if (status >= 0) status = nf_blocks_take(ctx, &taken, at.room, sizeof *at.slots, &at.slots);
    if (status >= 0) status = nf_blocks_take(ctx, &taken, at.room * record, 1, &at.records);
    for (uint64_t first = 0; status >= 0 && first < view->rows; first += at.room) {
        const uint64_t count = view->rows - first < at.room ? view->rows - first : at.room;
        status = repack_piece(ctx, prepared, view, &at, first, count, &list);
    }
    nf_blocks_free(&taken);
    nf_free(at.host_slots);
    return status;
}

/* ---- the whole ---- */

/* Rows of padded values to rows of width values, zeros beyond. */
static nf_status upload_wide(nf_context *ctx, nf_ivf_prepared *prepared, const float *rows, uint32_t count,
                             uint32_t padded, const float **out)
{
    float *to = NULL;
    NF_TRY(nf_blocks_take(ctx, &prepared->arrays, (uint64_t)count * prepared->index.width, sizeof *to, &to));
    *out = to;
    return nf_ivf_upload_floats(ctx, &prepared->arrays, rows, count, padded, prepared->index.width, to);
}

static nf_status fill(nf_context *ctx, nf_memory *memory, const nf_ivf_view *view, nf_ivf_prepared *prepared)
{
    nf_blocks  *arrays = &prepared->arrays;
    nf_k_index *index = &prepared->index;

    NF_TRY(nf_device_open(ctx, &arrays->device));
    NF_CUDA(ctx, cudaStreamCreateWithFlags(&arrays->stream, cudaStreamNonBlocking));
    *index = (nf_k_index){
        .rows = (uint32_t)view->rows,
        .dims = view->dims,
        .padded = view->padded,
        .lists = view->lists,
        .bits = view->bits,
        .metric = view->metric,
        .chunks = nf_k_chunks(view->padded),
        .groups = nf_k_groups_of(view->padded),
        .width = nf_k_groups_of(view->padded) * 32,
        .wide_ids = view->wide_ids,
    };
    NF_TRY(bound_work(ctx, memory, prepared, view));
    NF_TRY(nf_device_rotation_open(ctx, arrays, &view->rotation, &prepared->rotation));
    NF_TRY(nf_blocks_copy(ctx, arrays, view->mean, view->dims * sizeof(float), &prepared->mean));
    NF_TRY(upload_wide(ctx, prepared, view->mean_rotated, 1, view->padded, &index->mean));
    NF_TRY(upload_wide(ctx, prepared, view->centroids, view->lists, view->padded, &index->centroids));
    NF_TRY(list_numbers(ctx, prepared, view));
    prepared->precise = needs_precision(view);
    NF_TRY(list_starts(ctx, prepared, view));
    NF_TRY(repack_blocks(ctx, prepared, view));
    NF_TRY(repack_rows(ctx, prepared, view));
    NF_CUDA(ctx, cudaStreamSynchronize(arrays->stream));
    return NF_OK;
}

nf_status nf_cuda_ivf_prepare(nf_context *ctx, nf_memory *memory, const nf_ivf_view *view, nf_ivf_prepared **out)
{
    nf_ivf_prepared *prepared = nf_alloc_zero_in(ctx, memory, 1, sizeof *prepared);
    *out = NULL;
    if (prepared == NULL) return nf_alloc_status(ctx);
    if (pthread_mutex_init(&prepared->lock, NULL) != 0) {
        nf_free(prepared);
        return nf_fail(ctx, NF_ERR_MEMORY, "a lock could not be made");
    }
    const nf_status status = fill(ctx, memory, view, prepared);
    if (status < 0) {
        nf_cuda_ivf_prepared_close(prepared);
        return status;
    }
    *out = prepared;
    return NF_OK;
}

void nf_cuda_ivf_prepared_close(nf_ivf_prepared *prepared)
{
    if (prepared == NULL) return;
    nf_search_rooms_close(prepared);
    nf_blocks_free(&prepared->arrays);
    if (prepared->arrays.stream != NULL) (void)cudaStreamDestroy(prepared->arrays.stream);
    nf_device_release(prepared->arrays.device);
    (void)pthread_mutex_destroy(&prepared->lock);
    nf_free(prepared->most_blocks);
    nf_free(prepared->most_segments);
    nf_free(prepared);
}

/* ---- rotating some rows, for the host ---- */

static nf_status rotate_on(nf_context *ctx, nf_blocks *blocks, const nf_rotation_map *map, const float *rows,
                           uint64_t count, float *rotated)
{
    const uint32_t     stride = nf_ivf_stride(map->dims), out_stride = nf_ivf_stride(map->padded);
    nf_device_rotation rotation;
    float             *in = NULL, *out = NULL;

    NF_TRY(nf_device_rotation_open(ctx, blocks, map, &rotation));
    NF_TRY(nf_blocks_take(ctx, blocks, count * stride, sizeof *in, &in));
    NF_TRY(nf_blocks_take(ctx, blocks, count * out_stride, sizeof *out, &out));
    NF_TRY(nf_ivf_upload_floats(ctx, blocks, rows, count, map->dims, stride, in));
    NF_CUDA(ctx, nf_k_rotate(map, rotation.signs, rotation.matrix, in, stride, (uint32_t)count, out, out_stride,
                             blocks->stream));
    return nf_ivf_download_floats(ctx, blocks, out, count, map->padded, out_stride, rotated);
}

nf_status nf_cuda_ivf_rotate(nf_context *ctx, const nf_rotation_map *map, const float *rows, uint64_t count,
                             float *rotated)
{
    nf_blocks blocks = {0};
    nf_status status = nf_device_open(ctx, &blocks.device);
    if (status < 0) return status;
    status = nf_cuda_check(ctx, cudaStreamCreateWithFlags(&blocks.stream, cudaStreamNonBlocking),
                           "cudaStreamCreateWithFlags");
    if (status >= 0) status = rotate_on(ctx, &blocks, map, rows, count, rotated);
    nf_blocks_free(&blocks);
    if (blocks.stream != NULL) (void)cudaStreamDestroy(blocks.stream);
    nf_device_release(blocks.device);
    return status;
}

const nf_ivf_ops nf_cuda_ivf_ops = {
    .source_open = nf_cuda_ivf_source_open,
    .source_close = nf_cuda_ivf_source_close,
    .set_room = nf_cuda_ivf_set_room,
    .sample = nf_cuda_ivf_sample,
    .block_rows = nf_cuda_ivf_block_rows,
    .load = nf_cuda_ivf_load,
    .use_centroids = nf_cuda_ivf_use_centroids,
    .assign = nf_cuda_ivf_assign,
    .encode = nf_cuda_ivf_encode,
    .encode_end = nf_cuda_ivf_encode_end,
    .truth = nf_cuda_ivf_truth,
    .set_close = nf_cuda_ivf_set_close,
    .set_rows = nf_cuda_ivf_set_rows,
    .set_part = nf_cuda_ivf_set_part,
    .set_group = nf_cuda_ivf_set_group,
    .set_members = nf_cuda_ivf_set_members,
    .set_means = nf_cuda_ivf_set_means,
    .set_sort = nf_cuda_ivf_set_sort,
    .rotate = nf_cuda_ivf_rotate,
    .prepare = nf_cuda_ivf_prepare,
    .prepared_close = nf_cuda_ivf_prepared_close,
    .search = nf_cuda_ivf_search,
    .answer = nf_cuda_ivf_answer,
};
