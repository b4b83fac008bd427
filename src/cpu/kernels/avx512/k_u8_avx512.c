/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes with AVX-512 VNNI, exactly. VPDPBUSD multiplies four unsigned bytes with four signed ones and adds the products to
 * a 32-bit lane without saturation: 4 dims a step.
 *
 * The points' bytes become signed by taking 128 off: x . (y - 128) = x . y - 128 S, S the sum of the x. So
 *     2 x.y - |x|^2 - |y|^2 = 2 (x . (y - 128)) - (|x|^2 - 256 S) - |y|^2,
 * and the x sums carry -256 S. All of it is modulo 2^32, and the value itself fits.
 */
#include <string.h>

#include "cpu/kernels/avx512/k_avx512.h"

#define STEP 4u
#define QUERIES 8
#define FEW_QUERIES 2

/* Writes the panel, with flip applied to every byte; padding of dims is 0 before the flip, so that it adds nothing. */
static void pack_bytes(const nf_rows *rows, uint8_t *panel, uint32_t steps, uint8_t flip)
{
    memset(panel, flip, (size_t)NF_TILE * steps * STEP);
    for (uint32_t row = 0; row < rows->count; row++) {
        const uint8_t *from = (const uint8_t *)rows->base + row * rows->row_bytes;
        if (rows->dim_place != NULL) {
            for (uint32_t column = 0; column < rows->dims; column++) {
                const uint32_t place = rows->dim_place[column];
                panel[nf_panel_at(steps, row, place / STEP) * STEP + place % STEP] = from[column] ^ flip;
            }
            continue;
        }
        const uint32_t whole = rows->dims / STEP, flips = 0x01010101u * flip;
        for (uint32_t step = 0; step < whole; step++) {
            uint32_t word;
            memcpy(&word, from + step * STEP, STEP);
            word ^= flips;
            memcpy(panel + nf_panel_at(steps, row, step) * STEP, &word, STEP);
        }
        for (uint32_t column = whole * STEP; column < rows->dims; column++) {
            panel[nf_panel_at(steps, row, whole) * STEP + column % STEP] = from[column] ^ flip;
        }
    }
}

/* Sums of squares of the unflipped bytes, minus by_sum times their sum, at every stop. */
static void sums_at_stops(const uint8_t *panel, uint32_t steps, uint8_t flip, uint32_t by_sum, const uint32_t *stops,
                          uint32_t stop_count, int32_t *sums)
{
    const __m512i flips = _mm512_set1_epi8((char)flip), low_bytes = _mm512_set1_epi16(0x00ff);
    const __m512i ones = _mm512_set1_epi8(1), factor = _mm512_set1_epi32((int)by_sum);
    for (uint32_t row = 0; row < NF_TILE; row += NF_LANES) {
        const uint8_t *from = panel + nf_panel_at(steps, row, 0) * STEP;
        __m512i        square = _mm512_setzero_si512(), sum = _mm512_setzero_si512();
        uint32_t       step = 0;
        for (uint32_t stop = 0; stop < stop_count; stop++) {
            for (; step < stops[stop]; step++) {
                const __m512i bytes = _mm512_xor_si512(_mm512_loadu_si512(from + step * NF_LANES * STEP), flips);
                const __m512i even = _mm512_and_si512(bytes, low_bytes), odd = _mm512_srli_epi16(bytes, 8);
                square = _mm512_add_epi32(square, _mm512_madd_epi16(even, even));
                square = _mm512_add_epi32(square, _mm512_madd_epi16(odd, odd));
                sum = _mm512_dpbusd_epi32(sum, bytes, ones);
            }
            _mm512_storeu_si512(sums + stop * NF_TILE + row,
                                _mm512_sub_epi32(square, _mm512_mullo_epi32(sum, factor)));
        }
    }
}

void nf_k_pack_u8_x_avx512(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums)
{
    const uint32_t steps = (rows->dims + STEP - 1) / STEP;
    pack_bytes(rows, panel, steps, 0);
    sums_at_stops(panel, steps, 0, 256, stops, stop_count, sums);
}

void nf_k_pack_u8_y_avx512(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums)
{
    const uint32_t steps = (rows->dims + STEP - 1) / STEP;
    pack_bytes(rows, panel, steps, 0x80); /* flipping the top bit takes 128 off, read as signed */
    sums_at_stops(panel, steps, 0x80, 0, stops, stop_count, sums);
}

static inline __m512i value_of(__m512i product, __m512i x_sum, __m512i y_sum)
{
    return _mm512_sub_epi32(_mm512_sub_epi32(_mm512_add_epi32(product, product), x_sum), y_sum);
}

static inline __attribute__((always_inline)) void u8_block(const nf_tile *tile, const uint8_t *query, uint32_t first,
                                                           const int queries)
{
    const int32_t *y_low = (const int32_t *)tile->y + nf_panel_at(tile->steps, first, 0);
    const int32_t *y_high = (const int32_t *)tile->y + nf_panel_at(tile->steps, first + NF_LANES, 0);
    const int32_t *x[QUERIES];
    __m512i        product[QUERIES][2];
    uint32_t       maybe[QUERIES] = {0}, sure[QUERIES] = {0}, step = 0;

#pragma GCC unroll 8
    for (int i = 0; i < queries; i++) {
        x[i] = (const int32_t *)tile->x + nf_panel_at(tile->steps, query[i], 0);
        product[i][0] = product[i][1] = _mm512_setzero_si512();
    }
    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            const __m512i low = _mm512_loadu_si512(y_low + step * NF_LANES), high = _mm512_loadu_si512(y_high + step * NF_LANES);
#pragma GCC unroll 8
            for (int i = 0; i < queries; i++) {
                const __m512i four = _mm512_set1_epi32(x[i][step * NF_LANES]);
                product[i][0] = _mm512_dpbusd_epi32(product[i][0], four, low);
                product[i][1] = _mm512_dpbusd_epi32(product[i][1], four, high);
                NF_PIN512(product[i][0]);
                NF_PIN512(product[i][1]);
            }
        }
        const int32_t *y_sums = tile->y_sum + stop * NF_TILE + first;
        const __m512i  y_sum_low = _mm512_loadu_si512(y_sums), y_sum_high = _mm512_loadu_si512(y_sums + NF_LANES);
        uint32_t       any = 0;
#pragma GCC unroll 8
        for (int i = 0; i < queries; i++) {
            const __m512i x_sum = _mm512_set1_epi32(tile->x_sum[stop * NF_TILE + query[i]]);
            const __m512i low = value_of(product[i][0], x_sum, y_sum_low), high = value_of(product[i][1], x_sum, y_sum_high);
            const __m512i from = _mm512_set1_epi32(tile->sure_from[query[i]]);
            maybe[i] = (uint32_t)_mm512_cmpge_epi32_mask(low, _mm512_setzero_si512()) |
                       (uint32_t)_mm512_cmpge_epi32_mask(high, _mm512_setzero_si512()) << 16;
            sure[i] = (uint32_t)_mm512_cmpge_epi32_mask(low, from) | (uint32_t)_mm512_cmpge_epi32_mask(high, from) << 16;
            any |= maybe[i];
        }
        if (any == 0) return;
    }
#pragma GCC unroll 8
    for (int i = 0; i < queries; i++) nf_put_masks_512(tile, query[i], first, maybe[i], sure[i]);
}

void nf_k_refine_u8_avx512(const nf_tile *tile)
{
    nf_clear_masks_512(tile);
    for (uint32_t first = 0; first < tile->point_count; first += NF_PAIR_LANES) {
        uint32_t at = 0;
        for (; at + FEW_QUERIES < tile->query_count; at += QUERIES) u8_block(tile, tile->queries + at, first, QUERIES);
        if (at < tile->query_count) u8_block(tile, tile->queries + at, first, FEW_QUERIES);
    }
}
