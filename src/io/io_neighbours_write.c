/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing neighbours. Rows are checked first (ids, counts, distances), so that a file never holds what its reader would
 * refuse. The entries are then seen as one long sequence, which is cut into tasks that fit a buffer, encoded in
 * parallel and appended in order (io_ordered.c); the arrays of an .npz, whose sizes are known, are written where they
 * belong.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/core_context.h"
#include "core/core_memory.h"
#include "core/core_pool.h"
#include "io_crc.h"
#include "io_npz.h"
#include "io_ordered.h"
#include "io_text.h"
#include "io_write_format.h"

#define FORMATS (NF_WRITE_NPZ | NF_WRITE_BIN | NF_WRITE_IVECS | NF_WRITE_TEXT)
#define DIMS_MAX ((uint32_t)1 << 20)

/* What a pass over the entries puts into the file. */
typedef enum entry_kind { ENTRY_ID, ENTRY_ID_PREFIXED, ENTRY_DISTANCE, ENTRY_LINE } entry_kind;

typedef struct neighbours_job {
    const char            *path;
    const nf_neighbours   *from;
    const nf_write_params *params;
    entry_kind             kind;
    char                   separator;
    uint64_t               task_entries, entries;
} neighbours_job;

static nf_status check_arguments(nf_context *ctx, const nf_neighbours *from, const char *path)
{
    if (from == NULL || path == NULL) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "nf_write_neighbours needs neighbours and a path");
    }
    if (from->struct_size < sizeof *from) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "struct_size of the neighbours is %zu, %zu is needed", from->struct_size,
                       sizeof *from);
    }
    if (from->k == 0 || from->k > DIMS_MAX) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "k is %u, allowed are 1 to %u", from->k, DIMS_MAX);
    }
    if (from->queries > INT32_MAX) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%" PRIu64 " queries, at most %d are allowed", from->queries, INT32_MAX);
    }
    if (from->metric > NF_METRIC_COSINE) return nf_fail(ctx, NF_ERR_ARGUMENT, "metric is %u", from->metric);
    if (from->ids == NULL && from->queries > 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "there are queries but no ids");
    if (from->distances == NULL || from->distances_dtype == NF_DTYPE_F32 || from->distances_dtype == NF_DTYPE_F64) {
        return NF_OK;
    }
    return nf_fail(ctx, NF_ERR_ARGUMENT, "distances are %s, allowed are f32 and f64",
                   nf_dtype_name((nf_dtype)from->distances_dtype));
}

static double distance_of(const nf_neighbours *from, uint64_t entry)
{
    if (from->distances_dtype == NF_DTYPE_F64) return ((const double *)from->distances)[entry];
    return (double)((const float *)from->distances)[entry];
}

/* The distance as a .bin holds it. */
static float narrow_distance(const nf_neighbours *from, uint64_t entry)
{
    const double distance = distance_of(from, entry);
    return (float)(from->metric == NF_METRIC_L2 ? distance * distance : distance);
}

static nf_status refuse(nf_context *ctx, const char *path, const nf_neighbours *from, uint64_t entry, const char *what)
{
    return nf_fail(ctx, NF_ERR_VALUE, "%s: query %" PRIu64 ", entry %" PRIu64 " (both from 0): id %" PRId64 " %s", path,
                   entry / from->k, entry % from->k, from->ids[entry], what);
}

static nf_status check_entry(nf_context *ctx, const nf_neighbours *from, const char *path, nf_write_format format,
                             uint64_t entry)
{
    const bool narrow_ids = format == NF_WRITE_BIN || format == NF_WRITE_IVECS;

    if (narrow_ids && from->ids[entry] > INT32_MAX) {
        return refuse(ctx, path, from, entry, "does not fit the format's 32 bits; .npz and text hold it");
    }
    if (from->distances == NULL) return NF_OK;
    const double distance = distance_of(from, entry);
    if (isnan(distance)) return refuse(ctx, path, from, entry, "has the distance NaN");
    if (format == NF_WRITE_BIN && isfinite(distance) && !isfinite(narrow_distance(from, entry))) {
        return refuse(ctx, path, from, entry, "has a distance that the format's f32 does not hold; .npz and text do");
    }
    return NF_OK;
}

/* Checks a row, and counts its ids. */
static nf_status check_row(nf_context *ctx, const nf_neighbours *from, const char *path, nf_write_format format,
                           uint64_t row, uint32_t *count)
{
    const int64_t *ids = from->ids + row * from->k;
    for (*count = 0; *count < from->k && ids[*count] >= 0; ++*count) {
        NF_TRY(check_entry(ctx, from, path, format, row * from->k + *count));
    }
    for (uint32_t i = *count; i < from->k; i++) {
        if (ids[i] != -1)
            return refuse(ctx, path, from, row * from->k + i, "after the last neighbour, where -1 must be");
    }
    if (from->counts == NULL || from->counts[row] == *count) return NF_OK;
    return nf_fail(ctx, NF_ERR_VALUE, "%s: query %" PRIu64 " (from 0): the count is %u, but there are %u ids", path,
                   row, from->counts[row], *count);
}

/* counts: one per query, or NULL. */
static nf_status check_rows(nf_context *ctx, const nf_neighbours *from, const char *path, nf_write_format format,
                            uint32_t *counts)
{
    for (uint64_t row = 0; row < from->queries; row++) {
        uint32_t count = 0;
        NF_TRY(check_row(ctx, from, path, format, row, &count));
        if (counts != NULL) counts[row] = count;
    }
    return NF_OK;
}

static char *put_u32(char *out, uint32_t value)
{
    for (uint32_t i = 0; i < 4; i++) *out++ = (char)(value >> (8 * i));
    return out;
}

static char *put_distance(char *out, const nf_neighbours *from, uint64_t entry)
{
    if (from->distances_dtype == NF_DTYPE_F32) return nf_text_f32(out, ((const float *)from->distances)[entry]);
    return nf_text_f64(out, ((const double *)from->distances)[entry]);
}

/* query,rank,id[,distance]; nothing where there is no neighbour. */
static char *put_line(char *out, const neighbours_job *job, uint64_t entry)
{
    const nf_neighbours *from = job->from;
    const uint64_t       query = entry / from->k;

    if (from->ids[entry] < 0) return out;
    out = nf_text_i64(out, job->params->query_ids != NULL ? job->params->query_ids[query]
                                                          : job->params->query_first + (int64_t)query);
    *out++ = job->separator;
    out = nf_text_u64(out, entry % from->k + 1);
    *out++ = job->separator;
    out = nf_text_i64(out, from->ids[entry]);
    if (from->distances != NULL) {
        *out++ = job->separator;
        out = put_distance(out, from, entry);
    }
    *out++ = '\n';
    return out;
}

static char *put_narrow_distance(char *out, const nf_neighbours *from, uint64_t entry)
{
    const float value = from->ids[entry] >= 0 ? narrow_distance(from, entry) : INFINITY;
    uint32_t    bits;
    memcpy(&bits, &value, sizeof bits);
    return put_u32(out, bits);
}

static nf_status encode_task(const void *arg, uint64_t task, char *buffer, size_t *length, nf_error *error)
{
    const neighbours_job *job = arg;
    const nf_neighbours  *from = job->from;
    const uint64_t        first = task * job->task_entries, left = job->entries - first;
    const uint64_t        end = first + (left < job->task_entries ? left : job->task_entries);
    char                 *out = buffer;

    (void)error; /* every row was checked before */
    for (uint64_t entry = first; entry < end; entry++) {
        switch (job->kind) {
        case ENTRY_ID_PREFIXED:
            if (entry % from->k == 0) out = put_u32(out, from->k);
            out = put_u32(out, (uint32_t)from->ids[entry]);
            break;
        case ENTRY_ID: out = put_u32(out, (uint32_t)from->ids[entry]); break;
        case ENTRY_DISTANCE: out = put_narrow_distance(out, from, entry); break;
        case ENTRY_LINE: out = put_line(out, job, entry); break;
        }
    }
    *length = (size_t)(out - buffer);
    return NF_OK;
}

/* Appends all entries in one of the forms. */
static nf_status append_entries(nf_output *out, neighbours_job job, entry_kind kind)
{
    const uint64_t longest = kind == ENTRY_LINE ? 4 * (NF_TEXT_NUMBER_MAX + 1) : 8;
    job.kind = kind;
    job.entries = job.from->queries * job.from->k;
    job.task_entries = NF_IO_BUFFER_BYTES / longest;
    const uint64_t tasks = (job.entries + job.task_entries - 1) / job.task_entries;
    char          *buffers = nf_alloc(out->ctx, nf_pool_workers(out->ctx, tasks), NF_IO_BUFFER_BYTES);
    if (buffers == NULL) return nf_alloc_status(out->ctx);
    nf_progress_begin(out->ctx, "write", job.entries);
    const nf_status status = nf_ordered_append(out, encode_task, &job, tasks, buffers, job.entries);
    nf_free(buffers);
    return status;
}

static nf_status write_bin(nf_output *out, const neighbours_job *job)
{
    const uint64_t entries = job->from->queries * job->from->k;
    char           header[8];

    put_u32(put_u32(header, (uint32_t)job->from->queries), job->from->k);
    NF_TRY(nf_output_reserve(out, sizeof header + entries * (job->from->distances != NULL ? 8 : 4)));
    NF_TRY(nf_output_append(out, header, sizeof header));
    NF_TRY(append_entries(out, *job, ENTRY_ID));
    return job->from->distances != NULL ? append_entries(out, *job, ENTRY_DISTANCE) : NF_OK;
}

static nf_status write_array(nf_output *out, nf_npz_member *member, const void *values)
{
    member->crc = nf_crc_bytes(values, (size_t)member->bytes);
    return nf_output_write_at(out, member->data_offset, values, (size_t)member->bytes);
}

static nf_status write_members(nf_output *out, const nf_neighbours *from, const uint32_t *counts,
                               const nf_crc_table *table)
{
    const uint64_t shape[2] = {from->queries, from->k};
    const bool     wide = from->distances_dtype == NF_DTYPE_F64;
    nf_npz_member *distances = NULL;
    nf_npz         npz;

    nf_npz_init(&npz, NF_ZIP64_LIMIT);
    nf_npz_member *ids = nf_npz_add(&npz, "ids", nf_npy_descr(NF_DTYPE_I64), 8, shape, 2);
    if (from->distances != NULL) {
        distances =
            nf_npz_add(&npz, "distances", nf_npy_descr((nf_dtype)from->distances_dtype), wide ? 8 : 4, shape, 2);
    }
    nf_npz_member *count = nf_npz_add(&npz, "counts", nf_npy_descr(NF_DTYPE_U32), 4, shape, 1);

    NF_TRY(nf_output_positioned(out));
    NF_TRY(nf_output_reserve(out, nf_npz_bytes(&npz)));
    NF_TRY(write_array(out, ids, from->ids));
    if (distances != NULL) NF_TRY(write_array(out, distances, from->distances));
    NF_TRY(write_array(out, count, counts));
    return nf_npz_finish(&npz, out, table);
}

static nf_status write_npz(nf_output *out, const nf_neighbours *from, const uint32_t *counts)
{
    nf_crc_table *table = nf_alloc(out->ctx, 1, sizeof *table);
    if (table == NULL) return nf_alloc_status(out->ctx);
    nf_crc_table_fill(table);
    const nf_status status = write_members(out, from, counts, table);
    nf_free(table);
    return status;
}

static nf_status write_content(nf_output *out, const neighbours_job *job, nf_write_format format,
                               const uint32_t *counts)
{
    switch (format) {
    case NF_WRITE_NPZ: return write_npz(out, job->from, counts);
    case NF_WRITE_BIN: return write_bin(out, job);
    case NF_WRITE_IVECS: return append_entries(out, *job, ENTRY_ID_PREFIXED);
    default: return append_entries(out, *job, ENTRY_LINE);
    }
}

static nf_status write_file(nf_context *ctx, const neighbours_job *job, nf_write_format format, const uint32_t *counts)
{
    nf_output out;
    NF_TRY(nf_output_open(ctx, job->path, &out));
    nf_status status = write_content(&out, job, format, counts);
    if (status == NF_OK) status = nf_output_commit(&out, job->params->sync != 0);
    nf_output_discard(&out);
    return status;
}

nf_status nf_write_neighbours(nf_context *ctx, const nf_neighbours *neighbours, const char *path,
                              const nf_write_params *params)
{
    nf_write_params use;
    nf_write_format format = NF_WRITE_NPZ;

    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    NF_TRY(check_arguments(ctx, neighbours, path));
    NF_TRY(nf_write_params_take(ctx, params, &use));
    NF_TRY(nf_write_format_choose(ctx, path, &use, FORMATS, &format));
    uint32_t *counts = format == NF_WRITE_NPZ ? nf_alloc(ctx, neighbours->queries, sizeof *counts) : NULL;
    if (format == NF_WRITE_NPZ && counts == NULL) return nf_alloc_status(ctx);
    const neighbours_job job = {
        .path = path, .from = neighbours, .params = &use, .separator = nf_write_separator(format)};
    nf_status status = check_rows(ctx, neighbours, path, format, counts);
    if (status == NF_OK) status = write_file(ctx, &job, format, counts);
    nf_free(counts);
    return status;
}
