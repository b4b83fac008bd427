/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading neighbours. The layout readers of matrices (io_read.h) say where ids and distances lie; here they are copied
 * into one form, 64-bit ids and binary64 distances, and checked: ids are at least -1, -1 stands at the end of a row
 * only, no distance is NaN, counts agree with the ids.
 *
 * big-ann's k-NN truth (.bin, often named .ibin too) is u32 queries, u32 k, i32 ids, then f32 distances or nothing: the
 * length of the file says which.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/core_context.h"
#include "io_neighbours.h"

#define POLL_ROWS 4096u

/* Where the arrays lie. ids.data etc. are NULL for an array that is not there. */
typedef struct neighbour_layout {
    nf_mapping ids_file, distances_file, counts_file; /* the bytes that each layout is about */
    nf_layout  ids, distances, counts;
    uint32_t   squared;
} neighbour_layout;

typedef nf_status (*neighbour_fn)(nf_context *ctx, const nf_mapping *file, nf_neighbour_set *set);

static const uint8_t *value_at(const nf_mapping *file, const nf_layout *layout, uint64_t row, uint32_t column)
{
    const uint64_t size = nf_dtype_bytes(layout->dtype);
    if (layout->fortran) return file->data + layout->offset + (column * layout->rows + row) * size;
    return file->data + layout->offset + row * layout->stride + column * size;
}

/* The value's bytes as a number, in the machine's order. */
static uint64_t load_bits(const uint8_t *at, size_t size, bool swapped)
{
    const bool little = swapped == nf_little_is_swapped(); /* the order of the bytes in the file */
    uint64_t   bits = 0;
    for (size_t i = 0; i < size; i++) bits |= (uint64_t)at[little ? i : size - 1 - i] << (8 * i);
    return bits;
}

static bool is_signed(nf_dtype dtype)
{
    return dtype == NF_DTYPE_I8 || dtype == NF_DTYPE_I16 || dtype == NF_DTYPE_I32 || dtype == NF_DTYPE_I64;
}

static bool is_integer(nf_dtype dtype)
{
    return dtype != NF_DTYPE_F16 && dtype != NF_DTYPE_F32 && dtype != NF_DTYPE_F64;
}

/* An integer of any type; false when it is beyond int64. */
static bool load_integer(const nf_mapping *file, const nf_layout *layout, uint64_t row, uint32_t column, int64_t *out)
{
    const size_t size = nf_dtype_bytes(layout->dtype);
    uint64_t     bits = load_bits(value_at(file, layout, row, column), size, layout->swapped);
    if (is_signed(layout->dtype) && size < 8 && bits >> (8 * size - 1) != 0) bits |= ~(uint64_t)0 << (8 * size);
    *out = (int64_t)bits;
    return *out >= 0 || is_signed(layout->dtype);
}

static double load_real(const nf_mapping *file, const nf_layout *layout, uint64_t row, uint32_t column)
{
    const size_t   size = nf_dtype_bytes(layout->dtype);
    const uint64_t bits = load_bits(value_at(file, layout, row, column), size, layout->swapped);
    const uint32_t low = (uint32_t)bits;
    double         wide;
    float          narrow;
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&wide, &bits, sizeof wide);
    return size == sizeof wide ? wide : (double)narrow;
}

/* Takes a row's ids: whole numbers from -1 on, -1 at the end only. */
static nf_status take_ids(nf_context *ctx, const neighbour_layout *from, uint64_t row, nf_neighbour_set *set)
{
    int64_t *ids = set->ids + row * set->k;
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->k; i++) {
        const bool fits = load_integer(&from->ids_file, &from->ids, row, i, &ids[i]);
        if (!fits || ids[i] < -1) {
            return nf_fail(ctx, NF_ERR_VALUE, "%s: query %" PRIu64 ", entry %u (both from 0): id %" PRId64 "%s",
                           from->ids_file.path, row, i, ids[i],
                           fits ? "; ids from 0 on and -1 are allowed" : " + 2^64 is too large");
        }
        if (ids[i] >= 0 && count < i) {
            return nf_fail(ctx, NF_ERR_FORMAT, "%s: query %" PRIu64 ", entry %u (both from 0): an id after id -1",
                           from->ids_file.path, row, i);
        }
        count += ids[i] >= 0;
    }
    set->counts[row] = count;
    return NF_OK;
}

static nf_status take_distances(nf_context *ctx, const neighbour_layout *from, uint64_t row, nf_neighbour_set *set)
{
    for (uint32_t i = 0; i < set->k; i++) {
        const double distance = load_real(&from->distances_file, &from->distances, row, i);
        if (isnan(distance) && i < set->counts[row]) {
            return nf_fail(ctx, NF_ERR_VALUE, "%s: query %" PRIu64 ", entry %u (both from 0): the distance is NaN",
                           from->distances_file.path, row, i);
        }
        set->distances[row * set->k + i] = i < set->counts[row] ? distance : (double)INFINITY;
    }
    return NF_OK;
}

static nf_status check_count(nf_context *ctx, const neighbour_layout *from, uint64_t row, const nf_neighbour_set *set)
{
    int64_t count = 0;
    if (load_integer(&from->counts_file, &from->counts, row, 0, &count) && count == (int64_t)set->counts[row]) {
        return NF_OK;
    }
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: query %" PRIu64 " (from 0): the count is %" PRId64 ", but there are %u ids",
                   from->counts_file.path, row, count, set->counts[row]);
}

static nf_status check_shapes(nf_context *ctx, const neighbour_layout *from)
{
    const nf_layout *ids = &from->ids, *distances = &from->distances, *counts = &from->counts;
    if (!is_integer(ids->dtype)) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: ids are %s, not integers", from->ids_file.path,
                       nf_dtype_name(ids->dtype));
    }
    if (ids->rows > NF_IO_ROWS_MAX) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: %" PRIu64 " queries; %" PRIu64 " can be read", from->ids_file.path,
                       ids->rows, NF_IO_ROWS_MAX);
    }
    if (distances->dtype != NF_DTYPE_NONE) {
        if (distances->dtype != NF_DTYPE_F32 && distances->dtype != NF_DTYPE_F64) {
            return nf_fail(ctx, NF_ERR_FORMAT, "%s: distances are %s, not f32 or f64", from->distances_file.path,
                           nf_dtype_name(distances->dtype));
        }
        if (distances->rows != ids->rows || distances->dims != ids->dims) {
            return nf_fail(ctx, NF_ERR_FORMAT, "%s: is %" PRIu64 " x %u, but ids are %" PRIu64 " x %u",
                           from->distances_file.path, distances->rows, distances->dims, ids->rows, ids->dims);
        }
    }
    if (counts->dtype == NF_DTYPE_NONE) return NF_OK;
    if (counts->rows == ids->rows && counts->dims == 1 && is_integer(counts->dtype)) return NF_OK;
    return nf_fail(ctx, NF_ERR_FORMAT,
                   "%s: one integer for each of %" PRIu64 " queries is needed, not %" PRIu64 " x %u %s",
                   from->counts_file.path, ids->rows, counts->rows, counts->dims, nf_dtype_name(counts->dtype));
}

static nf_status take_all(nf_context *ctx, const neighbour_layout *from, nf_neighbour_set *set)
{
    NF_TRY(check_shapes(ctx, from));
    const uint64_t queries = from->ids.rows, entries = queries * from->ids.dims; /* below 2^31 * 2^20 */
    const bool     distances = from->distances.dtype != NF_DTYPE_NONE;

    set->queries = queries;
    set->k = from->ids.dims;
    set->squared = from->squared;
    set->ids = nf_alloc(ctx, entries, sizeof *set->ids);
    if (set->ids == NULL) return nf_alloc_status(ctx);
    set->counts = nf_alloc(ctx, queries, sizeof *set->counts);
    if (set->counts == NULL) return nf_alloc_status(ctx);
    if (distances) set->distances = nf_alloc(ctx, entries, sizeof *set->distances);
    if (distances && set->distances == NULL) return nf_alloc_status(ctx);
    nf_progress_begin(ctx, "read", queries);
    for (uint64_t row = 0; row < queries; row++) {
        NF_TRY(take_ids(ctx, from, row, set));
        if (distances) NF_TRY(take_distances(ctx, from, row, set));
        if (from->counts.dtype != NF_DTYPE_NONE) NF_TRY(check_count(ctx, from, row, set));
        if (row % POLL_ROWS != POLL_ROWS - 1) continue;
        nf_progress_add(ctx, POLL_ROWS);
        NF_TRY(nf_progress_poll(ctx));
    }
    return NF_OK;
}

static nf_status read_npy(nf_context *ctx, const nf_mapping *file, nf_neighbour_set *set)
{
    neighbour_layout from = {.ids_file = *file};
    nf_read_params   params;
    nf_read_params_init(&params);
    NF_TRY(nf_npy_layout(ctx, file, &params, &from.ids));
    return take_all(ctx, &from, set);
}

static nf_status read_ivecs(nf_context *ctx, const nf_mapping *file, nf_neighbour_set *set)
{
    neighbour_layout from = {.ids_file = *file, .ids = {.dtype = NF_DTYPE_I32}};
    nf_read_params   params;
    nf_read_params_init(&params);
    NF_TRY(nf_vecs_layout(ctx, file, &params, &from.ids));
    return take_all(ctx, &from, set);
}

static nf_status read_bin(nf_context *ctx, const nf_mapping *file, nf_neighbour_set *set)
{
    neighbour_layout from = {.ids_file = *file, .distances_file = *file, .squared = 1};

    if (file->bytes < 8) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: file has %" PRIu64 " bytes, too few for its header of 8", file->path,
                       file->bytes);
    }
    const uint64_t rows = nf_load_u32(file->data), dims = nf_load_u32(file->data + 4);
    NF_TRY(nf_dims_check(ctx, file->path, dims));
    const uint64_t half = 4 * rows * dims; /* below 2^54: dims are at most 2^20 */
    if (file->bytes != 8 + half && file->bytes != 8 + 2 * half) {
        return nf_fail(ctx, NF_ERR_FORMAT,
                       "%s: header says %" PRIu64 " queries of %" PRIu64 " ids: %" PRIu64 " bytes, or %" PRIu64
                       " with distances; the file has %" PRIu64,
                       file->path, rows, dims, 8 + half, 8 + 2 * half, file->bytes);
    }
    from.ids = (nf_layout){.offset = 8,
                           .rows = rows,
                           .dims = (uint32_t)dims,
                           .dtype = NF_DTYPE_I32,
                           .stride = 4 * dims,
                           .swapped = nf_little_is_swapped()};
    if (file->bytes == 8 + 2 * half && half > 0) {
        from.distances = from.ids;
        from.distances.offset = 8 + half;
        from.distances.dtype = NF_DTYPE_F32;
    }
    return take_all(ctx, &from, set);
}

/* One array of an .npz: its bytes and their layout. path gets a name for messages: "file.npz, ids.npy". */
static nf_status open_array(nf_context *ctx, const nf_mapping *file, const char *name, nf_zip_member *member,
                            nf_mapping *array, nf_layout *layout, char path[512])
{
    nf_read_params params;
    bool           found = false;

    NF_TRY(nf_zip_member_open(ctx, file, name, member, &found));
    if (!found) return NF_OK;
    snprintf(path, 512, "%.400s: %s", file->path, name);
    *array = (nf_mapping){.path = path, .data = member->data, .bytes = member->bytes};
    nf_read_params_init(&params);
    return nf_npy_layout(ctx, array, &params, layout);
}

static nf_status read_npz(nf_context *ctx, const nf_mapping *file, nf_neighbour_set *set)
{
    neighbour_layout from = {.squared = 0};
    nf_zip_member    ids = {.data = NULL}, distances = {.data = NULL}, counts = {.data = NULL};
    char             names[3][512];

    nf_status status = open_array(ctx, file, "ids.npy", &ids, &from.ids_file, &from.ids, names[0]);
    if (status < 0) goto cleanup;
    if (from.ids.dtype == NF_DTYPE_NONE) {
        status = nf_fail(ctx, NF_ERR_FORMAT, "%s: holds no array 'ids'", file->path);
        goto cleanup;
    }
    status = open_array(ctx, file, "distances.npy", &distances, &from.distances_file, &from.distances, names[1]);
    if (status < 0) goto cleanup;
    status = open_array(ctx, file, "counts.npy", &counts, &from.counts_file, &from.counts, names[2]);
    if (status >= 0) status = take_all(ctx, &from, set);
cleanup:
    nf_zip_member_close(&ids);
    nf_zip_member_close(&distances);
    nf_zip_member_close(&counts);
    return status;
}

static nf_status choose(nf_context *ctx, const char *path, const char *format, neighbour_fn *out)
{
    static const struct {
        const char  *name;
        neighbour_fn read;
    } formats[] = {{"npz", read_npz}, {"bin", read_bin}, {"ibin", read_bin}, {"ivecs", read_ivecs}, {"npy", read_npy}};
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash != NULL ? slash : path, '.');
    const char *name = format != NULL ? format : dot != NULL ? dot + 1 : "";

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcasecmp(formats[i].name, name) != 0) continue;
        *out = formats[i].read;
        return NF_OK;
    }
    return nf_fail(ctx, NF_ERR_ARGUMENT,
                   "%s: neighbours cannot be read from %s '%s'; choose of: npz bin ibin ivecs npy", path,
                   format != NULL ? "format" : "suffix", name);
}

static nf_status read_opened(nf_context *ctx, const nf_mapping *file, neighbour_fn read, nf_neighbour_set **out)
{
    nf_neighbour_set *set = nf_alloc_zero(ctx, 1, sizeof *set);
    if (set == NULL) return nf_alloc_status(ctx);
    const nf_status status = read(ctx, file, set);
    if (status < 0) {
        nf_neighbour_set_release(set);
        return status;
    }
    *out = set;
    return NF_OK;
}

nf_status nf_read_neighbours(nf_context *ctx, const char *path, const char *format, nf_neighbour_set **out)
{
    neighbour_fn read = NULL;
    nf_mapping   file;

    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    if (out != NULL) *out = NULL;
    if (path == NULL || out == NULL) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "nf_read_neighbours needs a path and a place for the set");
    }
    NF_TRY(choose(ctx, path, format, &read));
    nf_status status = nf_mapping_open(ctx, path, &file);
    if (status >= 0) status = read_opened(ctx, &file, read, out);
    nf_mapping_close(&file);
    return status;
}

nf_status nf_read_neighbours_memory(nf_context *ctx, const char *name, const char *format, const void *data,
                                    uint64_t bytes, nf_neighbour_set **out)
{
    neighbour_fn read = NULL;

    nf_context_begin(ctx);
    *out = NULL;
    NF_TRY(choose(ctx, name, format, &read));
    const nf_mapping file = {.path = name, .data = bytes > 0 ? data : NULL, .bytes = bytes};
    return read_opened(ctx, &file, read, out);
}

uint64_t nf_neighbour_set_queries(const nf_neighbour_set *set)
{
    return set->queries;
}

uint32_t nf_neighbour_set_k(const nf_neighbour_set *set)
{
    return set->k;
}

const int64_t *nf_neighbour_set_ids(const nf_neighbour_set *set)
{
    return set->ids;
}

const double *nf_neighbour_set_distances(const nf_neighbour_set *set)
{
    return set->distances;
}

const uint32_t *nf_neighbour_set_counts(const nf_neighbour_set *set)
{
    return set->counts;
}

uint32_t nf_neighbour_set_squared(const nf_neighbour_set *set)
{
    return set->squared;
}

void nf_neighbour_set_release(nf_neighbour_set *set)
{
    if (set == NULL) return;
    nf_free(set->ids);
    nf_free(set->distances);
    nf_free(set->counts);
    nf_free(set);
}
