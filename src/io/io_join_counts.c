/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of neighbours: .npy (int64, one axis), or text with one number per line. */
#include <string.h>

#include "core/core_context.h"
#include "core/core_error.h"
#include "core/core_memory.h"
#include "io_join.h"
#include "io_text.h"

#define BLOCK 1024

typedef struct count_lines {
    const nf_join  *join;
    const uint64_t *counts; /* per query */
    bool            mapped;
    uint64_t        lines;
    uint64_t        query;  /* the next one */
} count_lines;

/* The count of a row of the output; asked for in ascending order. */
static int64_t count_at(count_lines *all, uint64_t line)
{
    const nf_id_map *queries = &all->join->queries;
    if (!all->mapped) return (int64_t)all->counts[line];
    if (all->query >= queries->count || nf_id_of(queries, all->query) != (int64_t)line) return 0;
    return (int64_t)all->counts[all->query++];
}

static char *put_count(char *out, bool text, int64_t count)
{
    if (!text) {
        memcpy(out, &count, sizeof count);
        return out + sizeof count;
    }
    out = nf_text_i64(out, count);
    *out++ = '\n';
    return out;
}

static nf_status append_counts(nf_join *join, count_lines *all)
{
    const bool text = (join->format & NF_WRITE_TEXT) != 0;
    char       block[BLOCK * (NF_TEXT_NUMBER_MAX + 1)];

    if (!text) {
        join->header_bytes = nf_npy_header(join->header, nf_npy_descr(NF_DTYPE_I64), &all->lines, 1);
        NF_TRY(nf_output_append(&join->out, join->header, join->header_bytes));
    }
    for (uint64_t line = 0; line < all->lines;) {
        const uint64_t end = all->lines - line < BLOCK ? all->lines : line + BLOCK;
        char          *out = block;
        nf_progress_add(join->ctx, end - line);
        for (; line < end; line++) out = put_count(out, text, count_at(all, line));
        NF_TRY(nf_output_append(&join->out, block, (size_t)(out - block)));
        NF_TRY(nf_progress_poll(join->ctx));
    }
    return NF_OK;
}

nf_status nf_join_write_counts(nf_join *join, bool mapped, nf_radius_stats *stats)
{
    const nf_join_source *source = join->source;
    uint64_t             *counts = nf_alloc(join->ctx, source->queries, sizeof *counts);
    count_lines           all = {.join = join, .counts = counts, .mapped = mapped};

    if (counts == NULL) return nf_alloc_status(join->ctx);
    all.lines = mapped ? join->queries.file_rows : source->queries;
    nf_status status = source->counts(source->self, counts, stats);
    if (status >= 0) {
        const double begin = nf_now();
        nf_progress_begin(join->ctx, "write", all.lines);
        status = append_counts(join, &all);
        join->write_seconds += nf_now() - begin;
    }
    nf_free(counts);
    return status;
}
