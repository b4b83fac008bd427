/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cutting a text file into chunks for the threads. A chunk ends at the first line end behind its share of the bytes;
 * one long line leaves the chunks that it covers empty. Rows are counted before anything is parsed, so that every chunk
 * knows where its rows go and the matrix is allocated once, at its size.
 */
#include <string.h>

#include "core/core_context.h"
#include "core/core_pool.h"
#include "io_csv.h"

#define CHUNK_MIN ((uint64_t)64 << 10)
#define CHUNK_MAX ((uint64_t)1 << 20)
#define CHUNKS_PER_WORKER 8

typedef struct counting {
    const nf_csv_table *table;
    nf_csv_chunk       *chunks;
} counting;

static uint64_t choose_chunk_bytes(const nf_context *ctx, uint64_t bytes)
{
    const uint64_t share = bytes / ((uint64_t)nf_context_threads(ctx) * CHUNKS_PER_WORKER);
    return share < CHUNK_MIN ? CHUNK_MIN : share > CHUNK_MAX ? CHUNK_MAX : share;
}

/* Where the chunk that begins at a place ends: behind the line end at or after its share of the bytes. */
static const char *find_cut(const char *begin, const char *share, const char *end)
{
    if (begin >= share) return begin;
    const char *stop = memchr(share - 1, '\n', (size_t)(end - share) + 1);
    return stop ? stop + 1 : end;
}

static void cut(nf_text body, uint64_t chunk_bytes, nf_csv_chunk *chunks, uint64_t count)
{
    const char *begin = body.begin;
    for (uint64_t i = 0; i < count; i++) {
        const char *end = i + 1 < count ? find_cut(begin, body.begin + (i + 1) * chunk_bytes, body.end) : body.end;
        chunks[i].text = (nf_text){begin, end};
        begin = end;
    }
}

static nf_status count_rows(void *arg, uint64_t task, uint32_t worker)
{
    (void)worker;
    const counting *work = arg;
    nf_csv_chunk   *chunk = &work->chunks[task];
    const char     *at = chunk->text.begin;
    while (at < chunk->text.end) {
        const nf_text line = nf_csv_line(&at, chunk->text.end);
        chunk->rows += nf_csv_line_is_row(work->table, line);
    }
    return NF_OK;
}

nf_status nf_csv_chunks_make(nf_context *ctx, const nf_csv_table *table, nf_csv_chunk **chunks, uint64_t *count)
{
    const nf_text  body = {table->body, table->text.end};
    const uint64_t bytes = (uint64_t)(body.end - body.begin);
    const uint64_t chunk_bytes = choose_chunk_bytes(ctx, bytes);
    *count = bytes / chunk_bytes + 1;
    *chunks = nf_alloc_zero(ctx, *count, sizeof **chunks);
    if (*chunks == NULL) return nf_alloc_status(ctx);
    cut(body, chunk_bytes, *chunks, *count);
    counting work = {.table = table, .chunks = *chunks};
    NF_TRY(nf_pool_run(ctx, count_rows, &work, *count));
    for (uint64_t i = 1; i < *count; i++) (*chunks)[i].first_row = (*chunks)[i - 1].first_row + (*chunks)[i - 1].rows;
    return NF_OK;
}
