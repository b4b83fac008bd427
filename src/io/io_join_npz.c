/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a join's file that do not follow the order of the pairs: indptr, format, shape, headers, zip
   directory. */
#include <string.h>

#include "core/core_error.h"
#include "core/core_pool.h"
#include "io_join.h"
#include "io_ordered.h"

enum { MEMBER_INDICES, MEMBER_INDPTR, MEMBER_FORMAT, MEMBER_SHAPE, MEMBER_DATA };

#define TASK_ENTRIES (NF_IO_BUFFER_BYTES / sizeof(int64_t))

typedef struct indptr_job {
    nf_join       *join;
    const int64_t *offsets;
    uint64_t       entries;
    atomic_uint    crc;
} indptr_job;

/* Entries first .. end - 1: for each row of the file, the pairs of all queries with smaller ids. */
static size_t encode_indptr(const indptr_job *job, uint64_t first, uint64_t end, uint32_t entry_bytes, char *out)
{
    const nf_id_map *queries = &job->join->queries;
    uint64_t         query = nf_id_rows_below(queries, (int64_t)first);

    for (uint64_t row = first; row < end; row++, out += entry_bytes) {
        while (query < queries->count && nf_id_of(queries, query) < (int64_t)row) query++;
        const int64_t wide = job->offsets[query];
        const int32_t narrow = (int32_t)wide;
        memcpy(out, entry_bytes == 8 ? (const void *)&wide : (const void *)&narrow, entry_bytes);
    }
    return (size_t)(end - first) * entry_bytes;
}

static nf_status indptr_task(void *arg, uint64_t task, uint32_t worker)
{
    indptr_job          *job = arg;
    nf_join             *join = job->join;
    const nf_npz_member *member = &join->npz.member[MEMBER_INDPTR];
    const uint32_t       entry_bytes = (uint32_t)(member->bytes / job->entries);
    const uint64_t       first = task * TASK_ENTRIES;
    const uint64_t       end = job->entries - first < TASK_ENTRIES ? job->entries : first + TASK_ENTRIES;
    char                *buffer = join->buffers + worker * NF_IO_BUFFER_BYTES;
    const size_t         bytes = encode_indptr(job, first, end, entry_bytes, buffer);
    const uint64_t       after = member->bytes - first * entry_bytes - bytes;

    atomic_fetch_xor(&job->crc, nf_crc_move(join->crc_table, nf_crc_bytes(buffer, bytes), after));
    return nf_output_write_at(&join->out, member->data_offset + first * entry_bytes, buffer, bytes);
}

static nf_status write_indptr(nf_join *join, const int64_t *offsets)
{
    indptr_job job = {.join = join, .offsets = offsets, .entries = join->queries.file_rows + 1};

    NF_TRY(nf_pool_run(join->ctx, indptr_task, &job, (job.entries + TASK_ENTRIES - 1) / TASK_ENTRIES));
    join->npz.member[MEMBER_INDPTR].crc = atomic_load(&job.crc);
    return NF_OK;
}

static nf_status write_small(nf_join *join, nf_npz_member *member, const void *values, size_t bytes)
{
    member->crc = nf_crc_bytes(values, bytes);
    return nf_output_write_at(&join->out, member->data_offset, values, bytes);
}

static nf_status finish_npz(nf_join *join, const int64_t *offsets)
{
    nf_npz_member *member = join->npz.member;
    const int64_t  shape[2] = {(int64_t)join->queries.file_rows, (int64_t)join->data.file_rows};

    NF_TRY(write_indptr(join, offsets));
    NF_TRY(write_small(join, &member[MEMBER_FORMAT], "csr", 3));
    NF_TRY(write_small(join, &member[MEMBER_SHAPE], shape, sizeof shape));
    member[MEMBER_INDICES].crc = atomic_load(&join->arrays[0].crc);
    member[MEMBER_DATA].crc = atomic_load(&join->arrays[1].crc);
    return nf_npz_finish(&join->npz, &join->out, join->crc_table);
}

/* Counts of big-ann's range truth, one per row of the query file, after the two numbers of the header. */
static nf_status finish_bin(nf_join *join, const int64_t *offsets)
{
    const uint64_t  rows = join->queries.file_rows, step = NF_IO_BUFFER_BYTES / sizeof(uint32_t);
    const uint32_t  header[2] = {(uint32_t)rows, (uint32_t)join->pairs};
    uint64_t        query = 0;
    char *const     buffer = join->buffers;

    if (atomic_load(join->overflow)) {
        return nf_fail(join->ctx, NF_ERR_VALUE, "the square of a distance is beyond binary32, as .bin has it");
    }
    NF_TRY(nf_output_write_at(&join->out, 0, header, sizeof header));
    for (uint64_t row = 0; row < rows;) {
        const uint64_t begin = row, end = rows - row < step ? rows : row + step;
        for (; row < end; row++) {
            uint32_t count = 0;
            if (query < join->queries.count && nf_id_of(&join->queries, query) == (int64_t)row) {
                count = (uint32_t)(offsets[query + 1] - offsets[query]);
                query++;
            }
            memcpy(buffer + (row - begin) * sizeof count, &count, sizeof count);
        }
        NF_TRY(nf_output_write_at(&join->out, 8 + 4 * begin, buffer, (end - begin) * sizeof(uint32_t)));
    }
    return NF_OK;
}

nf_status nf_join_finish_file(nf_join *join, const int64_t *offsets)
{
    if (join->format == NF_WRITE_NPZ) return finish_npz(join, offsets);
    if (join->format == NF_WRITE_BIN) return finish_bin(join, offsets);
    return nf_output_write_at(&join->out, 0, join->header, join->header_bytes);
}
