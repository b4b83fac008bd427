/* SPDX-License-Identifier: Apache-2.0 */
/* Masks to positions, rows in a box, and the table's overrides, with AVX2. */
#include "cpu/kernels/avx2/k_avx2.h"

/* places[byte]: the numbers of the set bits of byte, ascending, one to a byte. */
static uint64_t places[256];

void nf_k_mask_positions_prepare(void)
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
uint32_t nf_k_mask_positions_avx2(uint64_t mask, uint32_t base, uint32_t *out)
{
    const uint32_t total = (uint32_t)_mm_popcnt_u64(mask);
    if (total <= 8) {
        for (uint32_t *at = out; mask != 0; mask &= mask - 1) *at++ = base + (uint32_t)__builtin_ctzll(mask);
        return total;
    }
    for (; mask != 0; mask >>= 8, base += 8) {
        const uint32_t byte = (uint32_t)mask & 255;
        const __m256i  place = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)places[byte]));
        _mm256_storeu_si256((__m256i *)(void *)out, _mm256_add_epi32(place, _mm256_set1_epi32((int)base)));
        out += _mm_popcnt_u32(byte);
    }
    return total;
}

uint64_t nf_k_ids_above_avx2(const uint32_t *ids, uint32_t id)
{
    const __m256i limit = _mm256_set1_epi32((int)id); /* ids are below 2^31: signed comparison is right */
    uint64_t      above = 0;
    for (uint32_t p = 0; p < NF_TILE; p += 8) {
        const __m256i eight = _mm256_loadu_si256((const __m256i *)(const void *)(ids + p));
        above |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(eight, limit))) << p;
    }
    return above;
}

void nf_k_roots_avx2(double *sums, uint32_t count, double most)
{
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        const __m256d root = _mm256_sqrt_pd(_mm256_loadu_pd(sums + i));
        _mm256_storeu_pd(sums + i, _mm256_min_pd(root, _mm256_set1_pd(most)));
    }
    for (; i < count; i++) {
        const __m128d root = _mm_sqrt_pd(_mm_set1_pd(sums[i]));
        sums[i] = _mm_cvtsd_f64(_mm_min_pd(root, _mm_set1_pd(most)));
    }
}

uint64_t nf_k_rows_in_box_avx2(const float *columns, const float *low, const float *high, uint32_t dims)
{
    uint64_t inside = 0;
    for (uint32_t row = 0; row < NF_TILE; row += 8) {
        __m256 in = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
        for (uint32_t k = 0; k < dims; k++) {
            const __m256 value = _mm256_loadu_ps(columns + k * NF_TILE + row);
            in = _mm256_and_ps(in, _mm256_cmp_ps(value, _mm256_set1_ps(low[k]), _CMP_GE_OQ));
            in = _mm256_and_ps(in, _mm256_cmp_ps(value, _mm256_set1_ps(high[k]), _CMP_LE_OQ));
        }
        inside |= (uint64_t)(uint32_t)_mm256_movemask_ps(in) << row;
    }
    return inside;
}

uint64_t nf_k_rows_near_box_avx2(const float *columns, const float *low, const float *high, uint32_t dims,
                                 const float *most)
{
    uint64_t near = 0;
    for (uint32_t row = 0; row < NF_TILE; row += 8) {
        __m256 sum = _mm256_setzero_ps();
        for (uint32_t k = 0; k < dims; k++) { /* max gives its second operand where either is not a number */
            const __m256 value = _mm256_loadu_ps(columns + k * NF_TILE + row);
            const __m256 below = _mm256_sub_ps(_mm256_set1_ps(low[k]), value);
            const __m256 above = _mm256_sub_ps(value, _mm256_set1_ps(high[k]));
            const __m256 gap = _mm256_max_ps(_mm256_max_ps(below, above), _mm256_setzero_ps());
            sum = _mm256_fmadd_ps(gap, gap, sum);
        }
        const __m256 far = _mm256_cmp_ps(sum, _mm256_loadu_ps(most + row), _CMP_GT_OQ);
        near |= (uint64_t)(~(uint32_t)_mm256_movemask_ps(far) & 255u) << row;
    }
    return near;
}

static inline float add_lanes(__m256 sum)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

float nf_k_gap_square_avx2(const float *a, const float *b, uint32_t dims)
{
    __m256   sum = _mm256_setzero_ps();
    uint32_t k = 0;
    for (; k + 8 <= dims; k += 8) {
        const __m256 above = _mm256_sub_ps(_mm256_loadu_ps(b + k), _mm256_loadu_ps(a + dims + k));
        const __m256 below = _mm256_sub_ps(_mm256_loadu_ps(a + k), _mm256_loadu_ps(b + dims + k));
        const __m256 gap = _mm256_max_ps(_mm256_max_ps(above, below), _mm256_setzero_ps());
        sum = _mm256_fmadd_ps(gap, gap, sum);
    }
    float total = add_lanes(sum);
    for (; k < dims; k++) {
        const float above = b[k] - a[dims + k], below = a[k] - b[dims + k];
        const float gap = above > below ? above : below;
        total += gap > 0.0f ? gap * gap : 0.0f;
    }
    return total;
}

float nf_k_distance_square_avx2(const float *a, const float *b, uint32_t dims)
{
    __m256   sum = _mm256_setzero_ps();
    uint32_t k = 0;
    for (; k + 8 <= dims; k += 8) {
        const __m256 difference = _mm256_sub_ps(_mm256_loadu_ps(a + k), _mm256_loadu_ps(b + k));
        sum = _mm256_fmadd_ps(difference, difference, sum);
    }
    float total = add_lanes(sum);
    for (; k < dims; k++) total += (a[k] - b[k]) * (a[k] - b[k]);
    return total;
}

void nf_kernels_override_avx2(nf_kernels *table)
{
    nf_k_mask_positions_prepare();
    table->isa = "avx2";
    table->pack_f32 = nf_k_pack_f32_avx2;
    table->pack_u8_x = nf_k_pack_u8_avx2;
    table->pack_u8_y = nf_k_pack_u8_avx2;
    table->refine_f32_product = nf_k_refine_f32_product_avx2;
    table->refine_f32_difference = nf_k_refine_f32_difference_avx2;
    table->refine_f64_difference = nf_k_refine_f64_difference_avx2;
    table->refine_u8 = nf_k_refine_u8_avx2;
    table->mask_positions = nf_k_mask_positions_avx2;
    table->ids_above = nf_k_ids_above_avx2;
    table->sort_ids = nf_k_sort_ids_avx2;
    table->roots = nf_k_roots_avx2;
    table->rows_in_box = nf_k_rows_in_box_avx2;
    table->rows_near_box = nf_k_rows_near_box_avx2;
    table->gap_square = nf_k_gap_square_avx2;
    table->distance_square = nf_k_distance_square_avx2;
    table->sums = nf_k_sums_avx2;
}
