/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading graphs of distances: SciPy's compressed sparse rows in an .npz, and big-ann's range truth,
 *
 *     u32 queries, u32 pairs, u32 count of each query, u32 id of each pair, f32 distance of each pair (or nothing).
 *
 * Sizes of arrays are compared with each other and with the file before memory is taken for the graph; then every
 * value is checked while it is copied.
 */
#include "io_graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/core_context.h"
#include "io_neighbours.h"

#define POLL_ENTRIES ((uint64_t)1 << 20)
#define EXACT_INTEGERS ((uint64_t)1 << 53)

struct nf_graph {
    nf_csr   csr;
    uint32_t squared;
    int64_t *indptr;
    int32_t *indices;
    void    *distances;
};

/* An array of numbers in the file, one after the other. */
typedef struct array {
    nf_zip_member member;
    nf_mapping    bytes; /* what layout is about */
    nf_layout     layout;
    char          path[512];
} array;

typedef struct csr_file {
    array data, indices, indptr, shape;
} csr_file;

typedef nf_status (*graph_fn)(nf_context *ctx, const nf_mapping *file, nf_graph *graph);

/* ---- values ---- */

static uint64_t load_bits(const array *from, uint64_t i)
{
    const size_t   size = nf_dtype_bytes(from->layout.dtype);
    const uint8_t *at = from->bytes.data + from->layout.offset + i * size;
    const bool     little = from->layout.swapped == nf_little_is_swapped();
    uint64_t       bits = 0;
    for (size_t byte = 0; byte < size; byte++) bits |= (uint64_t)at[little ? byte : size - 1 - byte] << (8 * byte);
    return bits;
}

static bool is_signed(nf_dtype dtype)
{
    return dtype == NF_DTYPE_I8 || dtype == NF_DTYPE_I16 || dtype == NF_DTYPE_I32 || dtype == NF_DTYPE_I64;
}

static bool is_float(nf_dtype dtype)
{
    return dtype == NF_DTYPE_F16 || dtype == NF_DTYPE_F32 || dtype == NF_DTYPE_F64;
}

/* An integer; -1 for all that are negative or beyond int64, which are wrong here in any case. */
static int64_t load_count(const array *from, uint64_t i)
{
    const size_t   size = nf_dtype_bytes(from->layout.dtype);
    const uint64_t bits = load_bits(from, i);
    if (is_signed(from->layout.dtype) && bits >> (8 * size - 1) != 0) return -1;
    return bits > INT64_MAX ? -1 : (int64_t)bits;
}

/* A distance; an integer that binary64 does not hold, and a negative one, give NaN. */
static double load_distance(const array *from, uint64_t i)
{
    const uint64_t bits = load_bits(from, i);
    const uint32_t low = (uint32_t)bits;
    double         wide;
    float          narrow;
    if (!is_float(from->layout.dtype)) {
        const int64_t count = load_count(from, i);
        return count < 0 || (uint64_t)count > EXACT_INTEGERS ? (double)NAN : (double)count;
    }
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&wide, &bits, sizeof wide);
    return from->layout.dtype == NF_DTYPE_F64 ? wide : (double)narrow;
}

/* ---- the graph ---- */

static nf_status take_indptr(nf_context *ctx, const array *from, nf_graph *graph)
{
    graph->indptr = nf_alloc(ctx, graph->csr.rows + 1, sizeof *graph->indptr);
    if (graph->indptr == NULL) return nf_alloc_status(ctx);
    for (uint64_t row = 0; row <= graph->csr.rows; row++) {
        const int64_t at = load_count(from, row), before = row > 0 ? graph->indptr[row - 1] : 0;
        if (at < before || (row == 0 && at != 0) || (uint64_t)at > graph->csr.pairs) {
            return nf_fail(ctx, NF_ERR_FORMAT,
                           "%s: entry %" PRIu64 " (from 0) is no place between %" PRId64 " and %" PRIu64
                           ", or does not "
                           "begin at 0",
                           from->path, row, before, graph->csr.pairs);
        }
        graph->indptr[row] = at;
    }
    if ((uint64_t)graph->indptr[graph->csr.rows] == graph->csr.pairs) return NF_OK;
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: ends at %" PRId64 ", but there are %" PRIu64 " entries", from->path,
                   graph->indptr[graph->csr.rows], graph->csr.pairs);
}

/* Ids below limit; their number, where the file does not say it, is the largest and one. */
static nf_status take_indices(nf_context *ctx, const array *from, uint64_t limit, nf_graph *graph)
{
    graph->indices = nf_alloc(ctx, graph->csr.pairs, sizeof *graph->indices);
    if (graph->indices == NULL) return nf_alloc_status(ctx);
    for (uint64_t i = 0; i < graph->csr.pairs; i++) {
        const int64_t id = load_count(from, i);
        if (id < 0 || (uint64_t)id >= limit) {
            return nf_fail(ctx, NF_ERR_FORMAT, "%s: entry %" PRIu64 " (from 0) is not within 0 and %" PRIu64,
                           from->path, i, limit - (limit > 0));
        }
        graph->indices[i] = (int32_t)id;
        if ((uint64_t)id >= graph->csr.columns) graph->csr.columns = (uint64_t)id + 1;
        if (i % POLL_ENTRIES == 0) NF_TRY(nf_progress_poll(ctx));
    }
    return NF_OK;
}

static nf_status take_distances(nf_context *ctx, const array *from, nf_graph *graph)
{
    const bool narrow = from->layout.dtype == NF_DTYPE_F32;
    graph->csr.distances_as = narrow ? NF_DISTANCES_F32 : NF_DISTANCES_F64;
    graph->distances = nf_alloc(ctx, graph->csr.pairs, narrow ? sizeof(float) : sizeof(double));
    if (graph->distances == NULL) return nf_alloc_status(ctx);
    for (uint64_t i = 0; i < graph->csr.pairs; i++) {
        const double distance = load_distance(from, i);
        if (!(distance >= 0)) {
            return nf_fail(ctx, NF_ERR_VALUE, "%s: entry %" PRIu64 " (from 0) is %s", from->path, i,
                           !is_float(from->layout.dtype) ? "negative or beyond 2^53"
                           : isnan(distance)             ? "NaN"
                                                         : "a negative distance");
        }
        if (narrow) ((float *)graph->distances)[i] = (float)distance;
        else ((double *)graph->distances)[i] = distance;
        if (i % POLL_ENTRIES == 0) NF_TRY(nf_progress_poll(ctx));
    }
    return NF_OK;
}

/* ---- .npz ---- */

static nf_status open_member(nf_context *ctx, const nf_mapping *file, const char *name, array *out)
{
    bool found = false;
    snprintf(out->path, sizeof out->path, "%.400s: %s", file->path, name);
    NF_TRY(nf_zip_member_open(ctx, file, name, &out->member, &found));
    if (!found) return nf_fail(ctx, NF_ERR_FORMAT, "%s: is not there; no matrix of compressed sparse rows", out->path);
    out->bytes = (nf_mapping){.path = out->path, .data = out->member.data, .bytes = out->member.bytes};
    return NF_OK;
}

static nf_status open_array(nf_context *ctx, const nf_mapping *file, const char *name, bool whole, array *out)
{
    NF_TRY(open_member(ctx, file, name, out));
    NF_TRY(nf_npy_layout_with_truth(ctx, &out->bytes, &out->layout));
    if (out->layout.dims != 1) return nf_fail(ctx, NF_ERR_FORMAT, "%s: has two axes; one is needed", out->path);
    if ((whole && is_float(out->layout.dtype)) || out->layout.dtype == NF_DTYPE_F16) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: type %s cannot be used here", out->path,
                       nf_dtype_name(out->layout.dtype));
    }
    return NF_OK;
}

/* A text of no axes, as bytes or as UTF-32: its letters are the last bytes of the member. */
static nf_status check_format(nf_context *ctx, const nf_mapping *file)
{
    static const char *const others[] = {"csc", "bsr", "dia", "coo"};
    array                    format = {.path = ""};
    char                     text[4] = "";

    NF_TRY(open_member(ctx, file, "format.npy", &format));
    const uint8_t *data = format.bytes.data;
    const uint64_t bytes = format.bytes.bytes, header = bytes < 10 ? 0 : 10 + (uint64_t)(data[8] | data[9] << 8);
    const uint64_t step = header + 12 == bytes ? 4 : 1;
    if (header > 0 && header + 3 * step == bytes) {
        for (uint64_t i = 0; i < 3; i++) text[i] = (char)data[header + i * step];
    }
    nf_zip_member_close(&format.member);
    if (strcmp(text, "csr") == 0) return NF_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(text, others[i]) != 0) continue;
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: is '%s'; only 'csr' can be read (SciPy's tocsr makes it)", format.path,
                       text);
    }
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: does not say 'csr'", format.path);
}

static nf_status take_csr(nf_context *ctx, const csr_file *from, nf_graph *graph)
{
    if (from->shape.layout.rows != 2) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: holds %" PRIu64 " numbers; two are needed", from->shape.path,
                       from->shape.layout.rows);
    }
    const int64_t rows = load_count(&from->shape, 0), columns = load_count(&from->shape, 1);
    if (rows < 0 || columns < 0 || (uint64_t)rows > NF_IO_ROWS_MAX || (uint64_t)columns > NF_IO_ROWS_MAX) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: a size is not within 0 and %" PRIu64, from->shape.path, NF_IO_ROWS_MAX);
    }
    if (from->indptr.layout.rows != (uint64_t)rows + 1) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: holds %" PRIu64 " places, but %" PRId64 " rows need one more than rows",
                       from->indptr.path, from->indptr.layout.rows, rows);
    }
    if (from->data.layout.rows != from->indices.layout.rows) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: holds %" PRIu64 " distances for %" PRIu64 " indices", from->data.path,
                       from->data.layout.rows, from->indices.layout.rows);
    }
    graph->csr = (nf_csr){.rows = (uint64_t)rows, .columns = (uint64_t)columns, .pairs = from->indices.layout.rows};
    NF_TRY(take_indptr(ctx, &from->indptr, graph));
    NF_TRY(take_indices(ctx, &from->indices, (uint64_t)columns, graph));
    return take_distances(ctx, &from->data, graph);
}

static nf_status open_csr(nf_context *ctx, const nf_mapping *file, csr_file *from)
{
    NF_TRY(check_format(ctx, file));
    NF_TRY(open_array(ctx, file, "shape.npy", true, &from->shape));
    NF_TRY(open_array(ctx, file, "indptr.npy", true, &from->indptr));
    NF_TRY(open_array(ctx, file, "indices.npy", true, &from->indices));
    return open_array(ctx, file, "data.npy", false, &from->data);
}

static nf_status read_npz(nf_context *ctx, const nf_mapping *file, nf_graph *graph)
{
    csr_file  from = {.data = {.path = ""}};
    nf_status status = open_csr(ctx, file, &from);
    if (status >= 0) status = take_csr(ctx, &from, graph);
    nf_zip_member_close(&from.shape.member);
    nf_zip_member_close(&from.indptr.member);
    nf_zip_member_close(&from.indices.member);
    nf_zip_member_close(&from.data.member);
    return status;
}

/* ---- range truth ---- */

static void place_array(const nf_mapping *file, uint64_t offset, uint64_t count, nf_dtype dtype, array *out)
{
    out->bytes = *file;
    out->layout = (nf_layout){
        .offset = offset, .rows = count, .dims = 1, .dtype = dtype, .stride = 4, .swapped = nf_little_is_swapped()};
    snprintf(out->path, sizeof out->path, "%.400s: %s", file->path, dtype == NF_DTYPE_F32 ? "distances" : "ids");
}

/* From counts to places. */
static nf_status take_counts(nf_context *ctx, const nf_mapping *file, nf_graph *graph)
{
    uint64_t sum = 0;
    graph->indptr = nf_alloc(ctx, graph->csr.rows + 1, sizeof *graph->indptr);
    if (graph->indptr == NULL) return nf_alloc_status(ctx);
    graph->indptr[0] = 0;
    for (uint64_t row = 0; row < graph->csr.rows; row++) {
        sum += nf_load_u32(file->data + 8 + 4 * row);
        graph->indptr[row + 1] = (int64_t)sum; /* below 2^31 * 2^32 */
    }
    if (sum == graph->csr.pairs) return NF_OK;
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: header says %" PRIu64 " pairs, but the counts of its queries make %" PRIu64,
                   file->path, graph->csr.pairs, sum);
}

static nf_status read_bin(nf_context *ctx, const nf_mapping *file, nf_graph *graph)
{
    array ids = {.path = ""}, distances = {.path = ""};

    if (file->bytes < 8) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: file has %" PRIu64 " bytes, too few for its header of 8", file->path,
                       file->bytes);
    }
    const uint64_t rows = nf_load_u32(file->data), pairs = nf_load_u32(file->data + 4);
    const uint64_t bare = 8 + 4 * rows + 4 * pairs, full = bare + 4 * pairs;
    if (rows > NF_IO_ROWS_MAX || pairs > NF_IO_ROWS_MAX || (file->bytes != bare && file->bytes != full)) {
        return nf_fail(ctx, NF_ERR_FORMAT,
                       "%s: header says %" PRIu64 " queries with %" PRIu64 " pairs: %" PRIu64 " bytes, or %" PRIu64
                       " with distances; the file has %" PRIu64,
                       file->path, rows, pairs, bare, full, file->bytes);
    }
    graph->squared = 1;
    graph->csr = (nf_csr){.rows = rows, .pairs = pairs, .distances_as = NF_DISTANCES_NONE};
    NF_TRY(take_counts(ctx, file, graph));
    place_array(file, 8 + 4 * rows, pairs, NF_DTYPE_I32, &ids);
    NF_TRY(take_indices(ctx, &ids, NF_IO_ROWS_MAX, graph));
    if (file->bytes == bare) return NF_OK;
    place_array(file, bare, pairs, NF_DTYPE_F32, &distances);
    return take_distances(ctx, &distances, graph);
}

/* ---- entries ---- */

static nf_status choose(nf_context *ctx, const char *path, const char *format, graph_fn *out)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash != NULL ? slash : path, '.');
    const char *name = format != NULL ? format : dot != NULL ? dot + 1 : "";

    if (strcasecmp(name, "npz") == 0) *out = read_npz;
    else if (strcasecmp(name, "bin") == 0) *out = read_bin;
    else {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: a graph cannot be read from %s '%s'; choose of: npz bin", path,
                       format != NULL ? "format" : "suffix", name);
    }
    return NF_OK;
}

static nf_status read_opened(nf_context *ctx, const nf_mapping *file, graph_fn read, nf_graph **out)
{
    nf_graph *graph = nf_alloc_zero(ctx, 1, sizeof *graph);
    if (graph == NULL) return nf_alloc_status(ctx);
    const nf_status status = read(ctx, file, graph);
    if (status < 0) {
        nf_graph_release(graph);
        return status;
    }
    graph->csr.indptr = graph->indptr;
    graph->csr.indices = graph->indices;
    graph->csr.distances = graph->distances;
    *out = graph;
    return NF_OK;
}

nf_status nf_read_graph(nf_context *ctx, const char *path, const char *format, nf_graph **out)
{
    graph_fn   read = NULL;
    nf_mapping file;

    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    if (out != NULL) *out = NULL;
    if (path == NULL || out == NULL) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "nf_read_graph needs a path and a place for the graph");
    }
    NF_TRY(choose(ctx, path, format, &read));
    NF_TRY(nf_mapping_open(ctx, path, &file));
    const nf_status status = read_opened(ctx, &file, read, out);
    nf_mapping_close(&file);
    return status;
}

nf_status nf_read_graph_memory(nf_context *ctx, const char *name, const char *format, const void *data, uint64_t bytes,
                               nf_graph **out)
{
    const nf_mapping file = {.path = name, .data = data, .bytes = bytes};
    graph_fn         read = NULL;

    nf_context_begin(ctx);
    *out = NULL;
    NF_TRY(choose(ctx, name, format, &read));
    return read_opened(ctx, &file, read, out);
}

const nf_csr *nf_graph_csr(const nf_graph *graph)
{
    return &graph->csr;
}

uint32_t nf_graph_squared(const nf_graph *graph)
{
    return graph->squared;
}

void nf_graph_release(nf_graph *graph)
{
    if (graph == NULL) return;
    nf_free(graph->indptr);
    nf_free(graph->indices);
    nf_free(graph->distances);
    nf_free(graph);
}
