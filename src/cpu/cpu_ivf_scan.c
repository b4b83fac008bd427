/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scanning lists. A chunk of queries goes through its lists in waves, nearest lists first: the nearest list in parts of 1, 4,
 * 16, ... blocks, then lists 1 to 3, 4 to 15, 16 to 63, ... of each query. During a wave a query's limit, its k-th best
 * value so far, stands still; so what survives does not depend on the order in which a wave is worked off, nor on the other
 * queries of the chunk. By the time the many farther lists come, the limit is tight. (Fewer, longer waves would let more
 * queries share a pass over a list, but with a looser limit.)
 *
 * Inside a wave lists go in order, and all queries that probe a list pass over it together: its short codes come from memory
 * once. Survivors are gathered into bunches. Their records are prefetched when they are found, and unpacked when there are
 * enough of them, once for all queries of the bunch that a row survives for.
 */
#include <math.h>
#include <string.h>

#include "cpu_ivf_search.h"

#define SEGMENT_BLOCKS 16u    /* blocks scanned at a time */
#define FULL_ROWS 128u        /* a bunch with more is worked off: their codes still lie in the first-level caches */
#define ENTRIES 4096u         /* (query, row) pairs of a bunch */
#define FEW_TURNS 32u
#define NOT_HERE UINT32_MAX
/* Per unit of noise of the tables, in the units of a short code's error: 4 / (1 - 2 / pi). docs/ivf.md, section 5. */
#define NOISE_WEIGHT 11.0f

/* A query's turn at a list: list, query of the chunk, and place among the query's probes, in 24, 16 and 24 bits. */
static inline uint64_t turn_of(uint32_t list, uint32_t query, uint32_t place)
{
    return (uint64_t)list << 40 | (uint64_t)query << 24 | place;
}

static inline uint32_t turn_list(uint64_t turn)
{
    return (uint32_t)(turn >> 40);
}

static inline uint32_t turn_query(uint64_t turn)
{
    return (uint32_t)(turn >> 24) & 0xffff;
}

static inline uint32_t turn_place(uint64_t turn)
{
    return (uint32_t)turn & 0xffffff;
}

/* Survivors that wait for their whole codes. */
struct nf_bunch {
    uint32_t  rows;            /* distinct rows */
    uint8_t  *signs;           /* per row: its short code, padded / 8 bytes, taken while the block is in the cache */
    uint32_t *row;             /* per row: its number in the order of lists */
    uint16_t *codes;           /* per row, when unpacked: chunk->whole values */
    float    *add, *rescale;   /* per row: factors of the whole code */
    uint32_t  entries;
    uint32_t *entry;           /* which row of the bunch; the entries of a turn stand together */
    uint32_t  turns;
    uint64_t *turn;            /* whose entries they are */
    uint32_t *turn_end;        /* entries up to the turn's last */
    int32_t  *dots;
    uint32_t *place; /* of the segment's slots in the bunch */
};

static void lay_out(const nf_query_chunk *chunk, nf_scanner *scanner, nf_arena *arena)
{
    const uint64_t turns = (uint64_t)chunk->most * chunk->question->probes;
    const uint32_t segment = SEGMENT_BLOCKS * NF_IVF_BLOCK;
    const uint32_t rows = FULL_ROWS + segment; /* a bunch that is not full takes the survivors of a query in a segment */

    scanner->turns = nf_carve(arena, turns, sizeof(uint64_t));
    scanner->spare = nf_carve(arena, turns, sizeof(uint64_t));
    scanner->products = nf_carve(arena, (uint64_t)nf_probe_tile(chunk) * chunk->prepared->panel.rounded, sizeof(float));
    scanner->nearest = nf_carve(arena, chunk->question->probes, sizeof(nf_neighbour));
    scanner->survivors = nf_carve(arena, NF_SCAN_QUERIES * SEGMENT_BLOCKS, sizeof(uint32_t));
    struct nf_bunch *bunch = scanner->bunch = nf_carve(arena, 1, sizeof(struct nf_bunch));
    struct nf_bunch  parts = {
         .signs = nf_carve(arena, (uint64_t)rows * (chunk->view->padded / 8), 1),
         .row = nf_carve(arena, rows, sizeof(uint32_t)),
         .add = nf_carve(arena, rows, sizeof(float)),
         .rescale = nf_carve(arena, rows, sizeof(float)),
         .entry = nf_carve(arena, ENTRIES, sizeof(uint32_t)),
         .turn = nf_carve(arena, ENTRIES, sizeof(uint64_t)),
         .turn_end = nf_carve(arena, ENTRIES, sizeof(uint32_t)),
         .place = nf_carve(arena, segment, sizeof(uint32_t)),
         .dots = nf_carve(arena, segment, sizeof(int32_t)),
         .codes = nf_carve(arena, (uint64_t)rows * chunk->whole, sizeof(uint16_t)),
    };
    if (bunch != NULL) *bunch = parts;
}

nf_status nf_scanner_open(nf_context *ctx, const nf_query_chunk *chunk, nf_scanner *scanner)
{
    nf_arena arena = {0};

    *scanner = (nf_scanner){0};
    lay_out(chunk, scanner, &arena);
    arena.block = nf_alloc(ctx, arena.bytes, 1);
    if (arena.block == NULL) return nf_alloc_status(ctx);
    scanner->block = arena.block;
    arena.bytes = 0;
    lay_out(chunk, scanner, &arena);
    return NF_OK;
}

void nf_scanner_close(nf_scanner *scanner)
{
    nf_free(scanner->block);
    memset(scanner, 0, sizeof *scanner);
}

/* Sorts turns by list, stably: a few by insertion, many by the list's three bytes (radix sort). Returns where they are then:
 * turns or spare. */
static uint64_t *sort_turns(uint64_t *turns, uint64_t *spare, uint64_t count)
{
    if (count <= FEW_TURNS) {
        for (uint64_t i = 1; i < count; i++) {
            const uint64_t turn = turns[i];
            uint64_t       at = i;
            for (; at > 0 && turn_list(turns[at - 1]) > turn_list(turn); at--) turns[at] = turns[at - 1];
            turns[at] = turn;
        }
        return turns;
    }
    for (uint32_t shift = 40; shift < 64; shift += 8) {
        uint64_t starts[257] = {0};
        for (uint64_t i = 0; i < count; i++) starts[(turns[i] >> shift & 0xff) + 1]++;
        if (starts[(turns[0] >> shift & 0xff) + 1] == count) continue; /* all alike */
        for (uint32_t b = 0; b < 256; b++) starts[b + 1] += starts[b];
        for (uint64_t i = 0; i < count; i++) spare[starts[turns[i] >> shift & 0xff]++] = turns[i];
        uint64_t *swap = turns;
        turns = spare;
        spare = swap;
    }
    return turns;
}

/* ---- whole codes of a bunch ---- */

static inline const uint8_t *record_of(const nf_ivf_view *view, uint32_t row)
{
    return view->records + (uint64_t)row * nf_ivf_record_bytes(view->padded, view->bits);
}

static void unpack_row(const nf_query_chunk *chunk, struct nf_bunch *bunch, uint32_t i)
{
    const nf_ivf_view *view = chunk->view;
    const uint8_t     *record = view->bits > 1 ? record_of(view, bunch->row[i]) : NULL;

    if (record != NULL) {
        bunch->add[i] = nf_load_f32(record);
        bunch->rescale[i] = nf_load_f32(record + 4);
        record += 8;
    }
    chunk->kernels->unpack(bunch->signs + (size_t)i * (view->padded / 8), record, view->bits - 1, view->padded,
                           bunch->codes + (size_t)i * chunk->whole);
}

/* A turn's entries: <y, q> = step * (sum of u q - kappa * sum of q), kappa = (2^bits - 1) / 2. */
static void rank_turn(nf_query_chunk *chunk, const struct nf_bunch *bunch, uint64_t turn, const uint32_t *entry,
                      uint32_t count)
{
    const uint32_t query = turn_query(turn);
    const float    g_add = chunk->probes[(size_t)query * chunk->question->probes + turn_place(turn)].add;
    const float    half_step = chunk->whole_step[query] / 2;
    const int64_t  middle = (int64_t)((1u << chunk->view->bits) - 1) * chunk->whole_sum[query];
    nf_top        *top = &chunk->tops[query];

    chunk->kernels->dots(bunch->codes, chunk->whole, entry, count, chunk->wholes + (size_t)query * chunk->whole,
                         chunk->whole, bunch->dots);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = entry[i];
        const float    product = half_step * (float)(2 * (int64_t)bunch->dots[i] - middle);
        nf_top_offer(top, (nf_neighbour){bunch->add[at] + g_add + bunch->rescale[at] * product, bunch->row[at]});
    }
}

static void flush_bunch(nf_query_chunk *chunk, nf_scanner *scanner)
{
    struct nf_bunch *bunch = scanner->bunch;
    uint32_t         first = 0;

    for (uint32_t i = 0; i < bunch->rows; i++) unpack_row(chunk, bunch, i);
    for (uint32_t i = 0; i < bunch->turns; i++) {
        rank_turn(chunk, bunch, bunch->turn[i], bunch->entry + first, bunch->turn_end[i] - first);
        first = bunch->turn_end[i];
    }
    scanner->counters.refined += bunch->entries;
    bunch->rows = bunch->entries = bunch->turns = 0;
}

/* ---- short codes ---- */

/* Blocks of a list that are scanned together. */
typedef struct list_segment {
    uint64_t first_block; /* of the index */
    uint32_t blocks;
    uint32_t first_row;   /* of the index: slot 0 of the first block */
    uint32_t rows;        /* of the list from there on, at most blocks * NF_IVF_BLOCK */
} list_segment;

static void forget_places(struct nf_bunch *bunch, const list_segment *segment)
{
    memset(bunch->place, 0xff, segment->blocks * NF_IVF_BLOCK * sizeof *bunch->place);
}

/* Takes a row into the bunch, unless another query's turn has: what the block knows of it now, and asks for its record. */
static uint32_t take_row(const nf_ivf_view *view, struct nf_bunch *bunch, const list_segment *segment, uint32_t slot)
{
    if (bunch->place[slot] != NOT_HERE) return bunch->place[slot];
    const uint32_t at = bunch->rows++, in_block = slot % NF_IVF_BLOCK;
    const uint8_t *block = view->blocks + (segment->first_block + slot / NF_IVF_BLOCK) * nf_ivf_block_bytes(view->padded);
    uint8_t       *signs = bunch->signs + (size_t)at * (view->padded / 8);

    bunch->place[slot] = at;
    bunch->row[at] = segment->first_row + slot;
    if (view->bits > 1) {
        const uint8_t *record = record_of(view, bunch->row[at]), *end = record + nf_ivf_record_bytes(view->padded, view->bits);
        for (; record < end; record += 64) __builtin_prefetch(record);
        __builtin_prefetch(end - 1);
    } else {
        const nf_ivf_factors factors = nf_ivf_block_factors(block, view->padded);
        bunch->add[at] = nf_load_f32(factors.add + 4 * in_block);
        bunch->rescale[at] = nf_load_f32(factors.rescale + 4 * in_block);
    }
    for (uint32_t row = 0; row < view->padded / 8; row++) signs[row] = block[(size_t)row * NF_IVF_BLOCK + in_block];
    return at;
}

/* The slots that survive for a turn: those that are rows, and allowed. */
static void take_survivors(nf_query_chunk *chunk, nf_scanner *scanner, const list_segment *segment, uint64_t turn,
                           const uint32_t *survivors)
{
    const uint32_t  *allowed = chunk->question->allowed;
    struct nf_bunch *bunch = scanner->bunch;
    const uint32_t   before = bunch->entries;

    for (uint32_t b = 0; b < segment->blocks; b++) {
        const uint32_t rows = segment->rows - b * NF_IVF_BLOCK;
        uint32_t       bits = survivors[b];
        if (rows < NF_IVF_BLOCK) bits &= (1u << rows) - 1;
        if (allowed != NULL) bits &= allowed[segment->first_block + b];
        for (; bits != 0; bits &= bits - 1) {
            const uint32_t slot = b * NF_IVF_BLOCK + (uint32_t)__builtin_ctz(bits);
            bunch->entry[bunch->entries++] = take_row(chunk->view, bunch, segment, slot);
        }
    }
    if (bunch->entries == before) return;
    bunch->turn[bunch->turns] = turn;
    bunch->turn_end[bunch->turns++] = bunch->entries;
}

/* A query as the scan of a list sees it. */
static nf_scan_query scan_query(const nf_query_chunk *chunk, uint64_t turn)
{
    const uint32_t  query = turn_query(turn);
    const nf_probe *probe = &chunk->probes[(size_t)query * chunk->question->probes + turn_place(turn)];
    const float     noise = NOISE_WEIGHT * chunk->lut_noise[query];
    return (nf_scan_query){
        .lut = chunk->luts + (size_t)query * chunk->view->padded * 4,
        .step = chunk->lut_step[query],
        .base = chunk->lut_base[query],
        .width = (float)chunk->question->epsilon0 * sqrtf(probe->error * probe->error + noise),
        .limit = chunk->limits[query] - probe->add,
    };
}

/* One segment of a list, for all queries that probe the list now. */
static void scan_segment(nf_query_chunk *chunk, nf_scanner *scanner, const list_segment *segment, const uint64_t *turns,
                         uint64_t count)
{
    const nf_ivf_view *view = chunk->view;
    struct nf_bunch   *bunch = scanner->bunch;
    const uint8_t     *blocks = view->blocks + segment->first_block * nf_ivf_block_bytes(view->padded);

    forget_places(bunch, segment);
    for (uint64_t first = 0; first < count; first += NF_SCAN_QUERIES) {
        const uint32_t n = (uint32_t)(count - first < NF_SCAN_QUERIES ? count - first : NF_SCAN_QUERIES);
        nf_scan_query  queries[NF_SCAN_QUERIES];
        for (uint32_t i = 0; i < n; i++) queries[i] = scan_query(chunk, turns[first + i]);
        chunk->kernels->scan(blocks, segment->blocks, view->padded, queries, n, scanner->survivors, SEGMENT_BLOCKS);
        for (uint32_t i = 0; i < n; i++) {
            if (bunch->rows > FULL_ROWS || bunch->entries + segment->rows > ENTRIES) {
                flush_bunch(chunk, scanner);
                forget_places(bunch, segment);
            }
            take_survivors(chunk, scanner, segment, turns[first + i], scanner->survivors + (size_t)i * SEGMENT_BLOCKS);
        }
    }
    scanner->counters.scanned += segment->rows * count;
}

/* Which probes of each query, and which blocks of their lists, a wave is about. */
typedef struct scan_wave {
    uint32_t first_probe, end_probe;
    uint64_t first_block, end_block;
} scan_wave;

static void scan_list(nf_query_chunk *chunk, nf_scanner *scanner, const scan_wave *wave, const uint64_t *turns, uint64_t count)
{
    const nf_ivf_view *view = chunk->view;
    const uint32_t     list = turn_list(turns[0]);
    const uint64_t     rows = view->list_start[list + 1] - view->list_start[list];
    const uint64_t     blocks = (rows + NF_IVF_BLOCK - 1) / NF_IVF_BLOCK;
    const uint64_t     end = blocks < wave->end_block ? blocks : wave->end_block;

    for (uint64_t block = wave->first_block; block < end; block += SEGMENT_BLOCKS) {
        const uint64_t left = rows - block * NF_IVF_BLOCK;
        list_segment   segment = {
              .first_block = view->block_start[list] + block,
              .blocks = (uint32_t)(end - block < SEGMENT_BLOCKS ? end - block : SEGMENT_BLOCKS),
              .first_row = (uint32_t)(view->list_start[list] + block * NF_IVF_BLOCK),
        };
        segment.rows = (uint32_t)(left < segment.blocks * NF_IVF_BLOCK ? left : segment.blocks * NF_IVF_BLOCK);
        scan_segment(chunk, scanner, &segment, turns, count);
    }
}

static void run_wave(nf_query_chunk *chunk, nf_scanner *scanner, const scan_wave *wave)
{
    const uint32_t probes = chunk->question->probes;
    uint64_t       count = 0;

    for (uint32_t query = 0; query < chunk->count; query++) {
        const nf_probe *list = chunk->probes + (size_t)query * probes;
        chunk->limits[query] = nf_top_limit(&chunk->tops[query]);
        for (uint32_t place = wave->first_probe; place < wave->end_probe; place++) {
            scanner->turns[count++] = turn_of(list[place].list, query, place);
        }
    }
    const uint64_t *turns = sort_turns(scanner->turns, scanner->spare, count);
    for (uint64_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && turn_list(turns[next]) == turn_list(turns[i]);) next++;
        if (next < count) {
            const uint64_t block = chunk->view->block_start[turn_list(turns[next])] + wave->first_block;
            __builtin_prefetch(chunk->view->blocks + block * nf_ivf_block_bytes(chunk->view->padded));
        }
        scan_list(chunk, scanner, wave, turns + i, next - i);
    }
    flush_bunch(chunk, scanner);
}

/* The most blocks of any list that is nearest to a query of the chunk. */
static uint64_t blocks_of_nearest(const nf_query_chunk *chunk)
{
    const nf_ivf_view *view = chunk->view;
    uint64_t           most = 0;
    for (uint32_t query = 0; query < chunk->count; query++) {
        const uint32_t list = chunk->probes[(size_t)query * chunk->question->probes].list;
        const uint64_t blocks = view->block_start[list + 1] - view->block_start[list];
        if (blocks > most) most = blocks;
    }
    return most;
}

void nf_scan_lists(nf_query_chunk *chunk, nf_scanner *scanner)
{
    const uint32_t probes = chunk->question->probes;
    const uint64_t blocks = blocks_of_nearest(chunk);

    for (uint64_t first = 0, next; first < blocks; first = next) {
        next = 4 * first + 1;
        run_wave(chunk, scanner, &(scan_wave){0, 1, first, next});
    }
    for (uint32_t first = 1, next; first < probes; first = next) {
        next = 4 * first < probes ? 4 * first : probes;
        run_wave(chunk, scanner, &(scan_wave){first, next, 0, UINT64_MAX});
    }
}
