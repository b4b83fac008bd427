/* SPDX-License-Identifier: Apache-2.0 */
/* Small kernels around refinement, the specification (kernels.h): masks to positions, sorting, rows in a box,
 * delivered sums. */
#include <math.h>
#include <string.h>

#include "cpu/kernels/scalar/k_scalar.h"
#include "matrix/matrix_convert.h"

uint32_t nf_k_mask_positions_scalar(uint64_t mask, uint32_t base, uint32_t *out)
{
    uint32_t count = 0;
    for (; mask != 0; mask &= mask - 1) out[count++] = base + (uint32_t)__builtin_ctzll(mask);
    return count;
}

uint64_t nf_k_ids_above_scalar(const uint32_t *ids, uint32_t id)
{
    uint64_t above = 0;
    for (uint32_t p = 0; p < NF_TILE; p++) above |= (uint64_t)(ids[p] > id) << p;
    return above;
}

static void insertion_sort(uint32_t *ids, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++) {
        const uint32_t id = ids[i];
        uint64_t       at = i;
        for (; at > 0 && ids[at - 1] > id; at--) ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

/* Radix sort by bytes, least significant first, without the bytes that all ids share. */
static void radix_sort(uint32_t *ids, uint32_t *spare, uint64_t count)
{
    uint32_t *from = ids, *to = spare;
    for (uint32_t shift = 0; shift < 32; shift += 8) {
        uint64_t start[256] = {0}, sum = 0;
        for (uint64_t i = 0; i < count; i++) start[from[i] >> shift & 255]++;
        if (start[from[0] >> shift & 255] == count) continue;
        for (uint32_t b = 0; b < 256; b++) {
            const uint64_t here = start[b];
            start[b] = sum;
            sum += here;
        }
        for (uint64_t i = 0; i < count; i++) to[start[from[i] >> shift & 255]++] = from[i];
        uint32_t *held = from;
        from = to;
        to = held;
    }
    if (from != ids) memcpy(ids, from, count * sizeof *ids);
}

void nf_k_sort_ids_scalar(uint32_t *ids, uint64_t count, uint32_t *spare)
{
    if (count <= 32) {
        insertion_sort(ids, count);
    } else {
        radix_sort(ids, spare, count);
    }
}

void nf_k_roots_scalar(double *sums, uint32_t count, double most)
{
    for (uint32_t i = 0; i < count; i++) {
        const double root = sqrt(sums[i]);
        sums[i] = root > most ? most : root;
    }
}

uint64_t nf_k_rows_in_box_scalar(const float *columns, const float *low, const float *high, uint32_t dims)
{
    uint64_t inside = 0;
    for (uint32_t row = 0; row < NF_TILE; row++) {
        uint64_t in = 1;
        for (uint32_t k = 0; k < dims; k++) {
            const float value = columns[k * NF_TILE + row];
            in &= (uint64_t)(value >= low[k]) & (uint64_t)(value <= high[k]);
        }
        inside |= in << row;
    }
    return inside;
}

uint64_t nf_k_rows_near_box_scalar(const float *columns, const float *low, const float *high, uint32_t dims,
                                   const float *most)
{
    uint64_t near = 0;
    for (uint32_t row = 0; row < NF_TILE; row++) {
        float sum = 0.0f;
        for (uint32_t k = 0; k < dims; k++) {
            const float value = columns[k * NF_TILE + row], below = low[k] - value, above = value - high[k];
            const float gap = below > above ? below : above;
            sum += gap > 0.0f ? gap * gap : 0.0f;
        }
        near |= (uint64_t) !(sum > most[row]) << row;
    }
    return near;
}

/* Counts in binary64, as the values are, so that compilers make vectors of it. */
void nf_k_ranks_scalar(const double *values, uint32_t *ranks)
{
    double counts[16] = {0.0};
    for (uint32_t j = 0; j < 16; j++) {
        const double value = values[j];
        for (uint32_t l = 0; l < 16; l++) counts[l] += value < values[l] ? 1.0 : 0.0;
    }
    for (uint32_t l = 0; l < 16; l++) ranks[l] = (uint32_t)counts[l];
}

uint32_t nf_k_pick_scalar(const double *values, const uint32_t *at, uint32_t count, double most, double *picked,
                          uint32_t *picked_at)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        picked[found] = values[i];
        picked_at[found] = at[i];
        found += values[i] <= most;
    }
    return found;
}

float nf_k_gap_square_scalar(const float *a, const float *b, uint32_t dims)
{
    float sum = 0.0f;
    for (uint32_t k = 0; k < dims; k++) {
        const float above = b[k] - a[dims + k], below = a[k] - b[dims + k];
        const float gap = above > below ? above : below;
        sum += gap > 0.0f ? gap * gap : 0.0f;
    }
    return sum;
}

float nf_k_distance_square_scalar(const float *a, const float *b, uint32_t dims)
{
    float sum = 0.0f;
    for (uint32_t k = 0; k < dims; k++) sum += (a[k] - b[k]) * (a[k] - b[k]);
    return sum;
}

/* The integer sums: exact in 64 bits, and in binary64 for every allowed number of dims. */
#define SUM_INTEGERS(type)                                                             \
    do {                                                                               \
        uint64_t sum = 0;                                                              \
        for (uint32_t k = 0; k < dims; k++) {                                          \
            const int64_t difference = (int64_t)((const type *)x)[k] - ((const type *)y)[k]; \
            sum += (uint64_t)(difference * difference);                                \
        }                                                                              \
        return (double)sum;                                                            \
    } while (0)

#define SUM_REALS(value)                                         \
    do {                                                         \
        double sum = 0.0;                                        \
        for (uint32_t k = 0; k < dims; k++) {                    \
            const double difference = value(x, k) - value(y, k); \
            sum = fma(difference, difference, sum);              \
        }                                                        \
        return sum;                                              \
    } while (0)

#define VALUE_F16(row, k) ((double)nf_f16_to_f32(((const uint16_t *)(row))[k]))
#define VALUE_F32(row, k) ((double)((const float *)(row))[k])
#define VALUE_F64(row, k) (((const double *)(row))[k])

static double one_sum(nf_store store, const void *x, const void *y, uint32_t dims)
{
    switch (store) {
    case NF_STORE_U8: SUM_INTEGERS(uint8_t);
    case NF_STORE_I16: SUM_INTEGERS(int16_t);
    case NF_STORE_F16: SUM_REALS(VALUE_F16);
    case NF_STORE_F32: SUM_REALS(VALUE_F32);
    case NF_STORE_F64: SUM_REALS(VALUE_F64);
    }
    return 0.0;
}

void nf_k_sums_scalar(nf_store store, const void *x, const void *base, size_t row_bytes, uint32_t dims,
                      const uint32_t *at, uint32_t count, double *sums)
{
    for (uint32_t i = 0; i < count; i++) sums[i] = one_sum(store, x, (const char *)base + at[i] * row_bytes, dims);
}

void nf_kernels_fill_scalar(nf_kernels *table)
{
    *table = (nf_kernels){
        .isa = "scalar",
        .u8_per_step = 2,
        .pack_f32 = nf_k_pack_f32_scalar,
        .pack_f64 = nf_k_pack_f64_scalar,
        .pack_u8_x = nf_k_pack_u8_scalar,
        .pack_u8_y = nf_k_pack_u8_scalar,
        .refine_f32_product = nf_k_refine_f32_product_scalar,
        .refine_f32_difference = nf_k_refine_f32_difference_scalar,
        .refine_f64_difference = nf_k_refine_f64_difference_scalar,
        .refine_u8 = nf_k_refine_u8_scalar,
        .mask_positions = nf_k_mask_positions_scalar,
        .ids_above = nf_k_ids_above_scalar,
        .sort_ids = nf_k_sort_ids_scalar,
        .rows_in_box = nf_k_rows_in_box_scalar,
        .rows_near_box = nf_k_rows_near_box_scalar,
        .gap_square = nf_k_gap_square_scalar,
        .distance_square = nf_k_distance_square_scalar,
        .sums = nf_k_sums_scalar,
        .roots = nf_k_roots_scalar,
        .ranks = nf_k_ranks_scalar,
        .pick = nf_k_pick_scalar,
    };
}
