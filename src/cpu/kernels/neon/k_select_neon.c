/* SPDX-License-Identifier: Apache-2.0 */
/* Masks to positions, rows in a box, and the table's overrides, with NEON. Roots stay as they are: FSQRT of two lanes
 * is what the compiler makes of the scalar loop. Sorting stays the radix sort. */
#include <sys/auxv.h>

#include "cpu/kernels/neon/k_neon.h"

#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1ul << 20)
#endif

/* places[byte]: the numbers of the set bits of byte, ascending, one to a byte; filled before any kernel runs. */
static uint64_t places[256];

static void fill_places(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint64_t entry = 0;
        uint32_t count = 0;
        for (uint32_t bit = 0; bit < 8; bit++) {
            if (byte >> bit & 1) entry |= (uint64_t)bit << (8 * count++);
        }
        places[byte] = entry;
    }
}

/* A few bits: one by one. Many: a byte at a time through the table, all 8 places stored, as many counted as are set. */
uint32_t nf_k_mask_positions_neon(uint64_t mask, uint32_t base, uint32_t *out)
{
    const uint8x8_t counts = vcnt_u8(vcreate_u8(mask));
    const uint32_t  total = vaddv_u8(counts);
    if (total <= 8) {
        for (uint32_t *at = out; mask != 0; mask &= mask - 1) *at++ = base + (uint32_t)__builtin_ctzll(mask);
        return total;
    }
    uint64_t each = vget_lane_u64(vreinterpret_u64_u8(counts), 0);
    for (; mask != 0; mask >>= 8, each >>= 8, base += 8) {
        const uint16x8_t place = vmovl_u8(vcreate_u8(places[mask & 255]));
        const uint32x4_t first = vdupq_n_u32(base);
        vst1q_u32(out, vaddw_u16(first, vget_low_u16(place)));
        vst1q_u32(out + 4, vaddw_high_u16(first, place));
        out += each & 255;
    }
    return total;
}

uint64_t nf_k_ids_above_neon(const uint32_t *ids, uint32_t id)
{
    const uint32x4_t limit = vdupq_n_u32(id);
    uint64_t         above = 0;
    for (uint32_t p = 0; p < NF_TILE; p += NF_LANES) {
        uint32x4_t lanes[4];
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) lanes[j] = vcgtq_u32(vld1q_u32(ids + p + 4 * j), limit);
        above |= (uint64_t)nf_mask_of(lanes) << p;
    }
    return above;
}

uint64_t nf_k_rows_in_box_neon(const float *columns, const float *low, const float *high, uint32_t dims)
{
    uint64_t inside = 0;
    for (uint32_t row = 0; row < NF_TILE; row += NF_LANES) {
        const uint32x4_t yes = vdupq_n_u32(UINT32_MAX);
        uint32x4_t       in[4] = {yes, yes, yes, yes};
        for (uint32_t k = 0; k < dims; k++) {
            const float32x4_t least = vld1q_dup_f32(low + k), most = vld1q_dup_f32(high + k);
#pragma GCC unroll 4
            for (uint32_t j = 0; j < 4; j++) {
                const float32x4_t value = vld1q_f32(columns + k * NF_TILE + row + 4 * j);
                in[j] = vandq_u32(in[j], vandq_u32(vcgeq_f32(value, least), vcleq_f32(value, most)));
            }
        }
        inside |= (uint64_t)nf_mask_of(in) << row;
    }
    return inside;
}

/* 0 where a gap is negative or not a number, as in the scalar kernel. */
NF_INLINE float32x4_t gap_of(const float *a, const float *b, uint32_t dims)
{
    const float32x4_t above = vsubq_f32(vld1q_f32(b), vld1q_f32(a + dims));
    const float32x4_t below = vsubq_f32(vld1q_f32(a), vld1q_f32(b + dims));
    return vmaxnmq_f32(vbslq_f32(vcgtq_f32(above, below), above, below), vdupq_n_f32(0.0f));
}

float nf_k_gap_square_neon(const float *a, const float *b, uint32_t dims)
{
    float32x4_t sum[2] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    uint32_t    k = 0;
    for (; k + 8 <= dims; k += 8) {
        const float32x4_t first = gap_of(a + k, b + k, dims), second = gap_of(a + k + 4, b + k + 4, dims);
        sum[0] = vfmaq_f32(sum[0], first, first);
        sum[1] = vfmaq_f32(sum[1], second, second);
    }
    float total = vaddvq_f32(vaddq_f32(sum[0], sum[1]));
    for (; k < dims; k++) {
        const float above = b[k] - a[dims + k], below = a[k] - b[dims + k];
        const float gap = above > below ? above : below;
        total += gap > 0.0f ? gap * gap : 0.0f;
    }
    return total;
}

float nf_k_distance_square_neon(const float *a, const float *b, uint32_t dims)
{
    float32x4_t sum[2] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    uint32_t    k = 0;
    for (; k + 8 <= dims; k += 8) {
        const float32x4_t first = vsubq_f32(vld1q_f32(a + k), vld1q_f32(b + k));
        const float32x4_t second = vsubq_f32(vld1q_f32(a + k + 4), vld1q_f32(b + k + 4));
        sum[0] = vfmaq_f32(sum[0], first, first);
        sum[1] = vfmaq_f32(sum[1], second, second);
    }
    float total = vaddvq_f32(vaddq_f32(sum[0], sum[1]));
    for (; k < dims; k++) total += (a[k] - b[k]) * (a[k] - b[k]);
    return total;
}

void nf_kernels_override_neon(nf_kernels *table)
{
    fill_places();
    table->isa = "neon";
    table->u8_per_step = NF_U8_STEP;
    table->pack_f32 = nf_k_pack_f32_neon;
    table->pack_u8_x = nf_k_pack_u8_neon;
    table->pack_u8_y = nf_k_pack_u8_neon;
    table->refine_f32_product = nf_k_refine_f32_product_neon;
    table->refine_f32_difference = nf_k_refine_f32_difference_neon;
    table->refine_f64_difference = nf_k_refine_f64_difference_neon;
    table->refine_u8 = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 ? nf_k_refine_u8_dot_neon : nf_k_refine_u8_neon;
    table->mask_positions = nf_k_mask_positions_neon;
    table->ids_above = nf_k_ids_above_neon;
    table->rows_in_box = nf_k_rows_in_box_neon;
    table->gap_square = nf_k_gap_square_neon;
    table->distance_square = nf_k_distance_square_neon;
    table->sums = nf_k_sums_neon;
}
