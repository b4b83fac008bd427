/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries in the forms that a search needs (docs/ivf.md, section 5): rotated; as look-up tables for short codes; and as 16-bit
 * integers for whole codes.
 *
 * Tables. Table g holds for each nibble b the sum of q over the set bits' dims 4g .. 4g + 3, less the least such sum (that of
 * the negative values alone), in units of step, rounded to nearest. The least sums of all tables go into the base.
 *
 * 16 bits. q is scaled so that its largest value is 32,767, or less where the product with a code could pass 2^31.
 */
#include "cpu_ivf_query.h"

#include <math.h>
#include <string.h>

#define LEAST 0x1p-100f /* queries with no larger value are zero: their inverse may be no number */

size_t nf_query_bytes(const nf_ivf_view *view, const nf_ivf_question *question)
{
    return (size_t)view->padded * (4 + 4 + 2) + 32 + 7 * sizeof(float) + sizeof(int64_t) + sizeof(nf_top) +
           (size_t)question->probes * (sizeof(nf_probe) + 2 * sizeof(uint64_t)) + (size_t)question->k * sizeof(nf_neighbour);
}

static void lay_out(nf_query_chunk *chunk, nf_arena *arena)
{
    const uint64_t most = chunk->most, padded = chunk->view->padded;

    chunk->rotated = nf_carve(arena, most * padded, sizeof(float));
    chunk->luts = nf_carve(arena, most * padded, 4);
    chunk->wholes = nf_carve(arena, most * chunk->whole, sizeof(int16_t));
    chunk->square = nf_carve(arena, most, sizeof(float));
    chunk->mean_dot = nf_carve(arena, most, sizeof(float));
    chunk->lut_step = nf_carve(arena, most, sizeof(float));
    chunk->lut_base = nf_carve(arena, most, sizeof(float));
    chunk->lut_noise = nf_carve(arena, most, sizeof(float));
    chunk->whole_step = nf_carve(arena, most, sizeof(float));
    chunk->limits = nf_carve(arena, most, sizeof(float));
    chunk->whole_sum = nf_carve(arena, most, sizeof(int64_t));
    chunk->probes = nf_carve(arena, most * chunk->question->probes, sizeof(nf_probe));
    chunk->tops = nf_carve(arena, most, sizeof(nf_top));
    chunk->kept = nf_carve(arena, most * chunk->question->k, sizeof(nf_neighbour));
}

nf_status nf_query_chunk_open(nf_context *ctx, const nf_ivf_view *view, const nf_ivf_prepared *prepared,
                              const nf_ivf_question *question, uint32_t most, nf_query_chunk *chunk)
{
    nf_arena arena = {0};

    *chunk = (nf_query_chunk){
        .view = view,
        .prepared = prepared,
        .kernels = nf_cpu_ivf_kernels(nf_context_isa(ctx)),
        .question = question,
        .most = most,
        .whole = (view->padded + 15) / 16 * 16,
    };
    lay_out(chunk, &arena);
    arena.block = nf_alloc(ctx, arena.bytes, 1);
    if (arena.block == NULL) return nf_alloc_status(ctx);
    chunk->block = arena.block;
    arena.bytes = 0;
    lay_out(chunk, &arena);
    return NF_OK;
}

void nf_query_chunk_close(nf_query_chunk *chunk)
{
    nf_free(chunk->block);
    memset(chunk, 0, sizeof *chunk);
}

/* The sums of four values over all subsets, less the least, in units, rounded: 16 entries. Written so that a compiler makes
 * vector code of it; products with 0 and 1 are exact. */
static void subset_sums(const float q[4], float least, float units, uint8_t entries[16])
{
    static const float bit0[16] = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
    static const float bit1[16] = {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1};
    static const float bit2[16] = {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1};
    static const float bit3[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    int32_t            whole[16];
    for (uint32_t b = 0; b < 16; b++) {
        const float sum = q[0] * bit0[b] + q[1] * bit1[b] + q[2] * bit2[b] + q[3] * bit3[b] - least;
        whole[b] = (int32_t)(sum * units + 0.5f);
    }
    for (uint32_t b = 0; b < 16; b++) {
        const int32_t entry = whole[b] < NF_LUT_LEVELS ? whole[b] : NF_LUT_LEVELS;
        entries[b] = (uint8_t)(entry > 0 ? entry : 0);
    }
}

static inline float negative_part(float value)
{
    return value < 0 ? value : 0;
}

static void make_tables(nf_query_chunk *chunk, uint32_t query)
{
    const uint32_t padded = chunk->view->padded;
    const float   *q = chunk->rotated + (size_t)query * padded;
    uint8_t       *lut = chunk->luts + (size_t)query * padded * 4;
    float          widest = 0;
    double         least = 0, sum = 0;

    for (uint32_t k = 0; k < padded; k += 4) {
        const float width = fabsf(q[k]) + fabsf(q[k + 1]) + fabsf(q[k + 2]) + fabsf(q[k + 3]);
        if (width > widest) widest = width;
    }
    const float step = widest / NF_LUT_LEVELS, units = widest > LEAST ? NF_LUT_LEVELS / widest : 0;
    for (uint32_t k = 0; k < padded; k += 4) {
        const float low = negative_part(q[k]) + negative_part(q[k + 1]) + negative_part(q[k + 2]) + negative_part(q[k + 3]);
        subset_sums(q + k, low, units, lut + (size_t)k * 4);
        least += low;
        sum += (double)q[k] + q[k + 1] + q[k + 2] + q[k + 3];
    }
    chunk->lut_step[query] = step;
    chunk->lut_base[query] = (float)(least - 0.5 * sum);
    chunk->lut_noise[query] = (float)padded / 4 * step * step / 12;
}

static void make_whole(nf_query_chunk *chunk, uint32_t query)
{
    const uint32_t padded = chunk->view->padded;
    const float   *q = chunk->rotated + (size_t)query * padded;
    int16_t       *whole = chunk->wholes + (size_t)query * chunk->whole;
    float          largest = 0;
    double         sum = 0;
    int64_t        whole_sum = 0;

    for (uint32_t k = 0; k < padded; k++) {
        const float magnitude = fabsf(q[k]);
        if (magnitude > largest) largest = magnitude; /* fmaxf would be a call */
        sum += magnitude;
    }
    /* Rounding adds at most padded / 2 to the sum of magnitudes. */
    const double most = (double)((1u << chunk->view->bits) - 1), room = 2147483647.0 / most - padded;
    const float  scale = largest > LEAST ? (float)fmin(32767.0 / largest, room / sum) : 0;
    for (uint32_t k = 0; k < padded; k++) {
        whole[k] = (int16_t)lrintf(q[k] * scale);
        whole_sum += whole[k];
    }
    for (uint32_t k = padded; k < chunk->whole; k++) whole[k] = 0;
    chunk->whole_step[query] = scale > 0 ? 1 / scale : 0;
    chunk->whole_sum[query] = whole_sum;
}

void nf_query_chunk_fill(nf_query_chunk *chunk, const float *queries, uint32_t count)
{
    const nf_ivf_view *view = chunk->view;

    chunk->count = count;
    for (uint32_t i = 0; i < count; i++) {
        float *rotated = chunk->rotated + (size_t)i * view->padded;
        double square = 0, dot = 0;
        nf_cpu_ivf_rotate_row(chunk->kernels, &view->rotation, queries + (size_t)i * view->dims, rotated);
        for (uint32_t k = 0; k < view->padded; k++) {
            square += (double)rotated[k] * rotated[k];
            dot += (double)rotated[k] * view->mean_rotated[k];
        }
        chunk->square[i] = (float)square;
        chunk->mean_dot[i] = (float)dot;
        make_tables(chunk, i);
        make_whole(chunk, i);
        chunk->tops[i] = (nf_top){chunk->kept + (size_t)i * chunk->question->k, 0, chunk->question->k};
    }
}
