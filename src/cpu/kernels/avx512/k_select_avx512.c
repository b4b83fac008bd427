/* SPDX-License-Identifier: Apache-2.0 */
/* Masks to positions, rows in a box, and the table's overrides, with AVX-512. What is not here is inherited from AVX2. */
#include "cpu/kernels/avx512/k_avx512.h"

uint32_t nf_k_mask_positions_avx512(uint64_t mask, uint32_t base, uint32_t *out)
{
    const uint32_t total = (uint32_t)_mm_popcnt_u64(mask);
    const __m512i  count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (; mask != 0; mask >>= 16, base += 16) {
        const __mmask16 bits = (__mmask16)mask;
        const uint32_t  here = (uint32_t)_mm_popcnt_u32(bits);
        const __m512i   places = _mm512_maskz_compress_epi32(bits, _mm512_add_epi32(count, _mm512_set1_epi32((int)base)));
        _mm512_mask_storeu_epi32(out, (__mmask16)((1u << here) - 1u), places);
        out += here;
    }
    return total;
}

uint64_t nf_k_rows_in_box_avx512(const float *columns, const float *low, const float *high, uint32_t dims)
{
    uint64_t inside = 0;
    for (uint32_t row = 0; row < NF_TILE; row += 16) {
        __mmask16 in = 0xffff;
        for (uint32_t k = 0; k < dims; k++) {
            const __m512 value = _mm512_loadu_ps(columns + k * NF_TILE + row);
            in = _mm512_mask_cmp_ps_mask(in, value, _mm512_set1_ps(low[k]), _CMP_GE_OQ);
            in = _mm512_mask_cmp_ps_mask(in, value, _mm512_set1_ps(high[k]), _CMP_LE_OQ);
        }
        inside |= (uint64_t)in << row;
    }
    return inside;
}

uint64_t nf_k_rows_near_box_avx512(const float *columns, const float *low, const float *high, uint32_t dims,
                                   const float *most)
{
    uint64_t near = 0;
    for (uint32_t row = 0; row < NF_TILE; row += 16) {
        __m512 sum = _mm512_setzero_ps();
        for (uint32_t k = 0; k < dims; k++) { /* max gives its second operand where either is not a number */
            const __m512 value = _mm512_loadu_ps(columns + k * NF_TILE + row);
            const __m512 below = _mm512_sub_ps(_mm512_set1_ps(low[k]), value);
            const __m512 above = _mm512_sub_ps(value, _mm512_set1_ps(high[k]));
            const __m512 gap = _mm512_max_ps(_mm512_max_ps(below, above), _mm512_setzero_ps());
            sum = _mm512_fmadd_ps(gap, gap, sum);
        }
        const __mmask16 far = _mm512_cmp_ps_mask(sum, _mm512_loadu_ps(most + row), _CMP_GT_OQ);
        near |= (uint64_t)(uint16_t)~far << row;
    }
    return near;
}

void nf_k_ranks_avx512(const double *values, uint32_t *ranks)
{
    const __m512d low = _mm512_loadu_pd(values), high = _mm512_loadu_pd(values + 8);
    const __m512i one = _mm512_set1_epi64(1);
    __m512i       low_rank = _mm512_setzero_si512(), high_rank = low_rank;
    for (uint32_t j = 0; j < 16; j++) {
        const __m512d value = _mm512_set1_pd(values[j]);
        low_rank = _mm512_mask_add_epi64(low_rank, _mm512_cmp_pd_mask(value, low, _CMP_LT_OQ), low_rank, one);
        high_rank = _mm512_mask_add_epi64(high_rank, _mm512_cmp_pd_mask(value, high, _CMP_LT_OQ), high_rank, one);
    }
    _mm256_storeu_si256((__m256i *)(void *)ranks, _mm512_cvtepi64_epi32(low_rank));
    _mm256_storeu_si256((__m256i *)(void *)(ranks + 8), _mm512_cvtepi64_epi32(high_rank));
}

uint32_t nf_k_pick_avx512(const double *values, const uint32_t *at, uint32_t count, double most, double *picked,
                          uint32_t *picked_at)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i += 8) {
        const __mmask8 lanes = count - i < 8 ? (__mmask8)((1u << (count - i)) - 1u) : 0xff;
        const __m512d  eight = _mm512_maskz_loadu_pd(lanes, values + i);
        const __m256i  places = _mm256_maskz_loadu_epi32(lanes, at + i);
        const __mmask8 take = _mm512_mask_cmp_pd_mask(lanes, eight, _mm512_set1_pd(most), _CMP_LE_OQ);
        const uint32_t here = (uint32_t)_mm_popcnt_u32(take);
        const __mmask8 first = (__mmask8)((1u << here) - 1u);
        _mm512_mask_storeu_pd(picked + found, first, _mm512_maskz_compress_pd(take, eight));
        _mm256_mask_storeu_epi32(picked_at + found, first, _mm256_maskz_compress_epi32(take, places));
        found += here;
    }
    return found;
}

void nf_kernels_override_avx512(nf_kernels *table)
{
    table->isa = "avx512";
    table->u8_per_step = 4;
    table->pack_u8_x = nf_k_pack_u8_x_avx512;
    table->pack_u8_y = nf_k_pack_u8_y_avx512;
    table->refine_f32_product = nf_k_refine_f32_product_avx512;
    table->refine_f32_difference = nf_k_refine_f32_difference_avx512;
    table->refine_f64_difference = nf_k_refine_f64_difference_avx512;
    table->refine_u8 = nf_k_refine_u8_avx512;
    table->mask_positions = nf_k_mask_positions_avx512;
    table->rows_in_box = nf_k_rows_in_box_avx512;
    table->rows_near_box = nf_k_rows_near_box_avx512;
    table->ranks = nf_k_ranks_avx512;
    table->pick = nf_k_pick_avx512;
}
