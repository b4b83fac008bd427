/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Into which of several radii pairs fall. The sum of squared differences in binary64 places nearly every pair: it is
 * off by at most (dims + 3) 2^-53 of itself. A pair whose sum is that near to the square of a radius is compared with
 * that radius exactly (matrix_exact.h), and so is one whose sum may have over- or underflowed. docs/numerics.md.
 */
#include "cpu_bins.h"

#include <math.h>

#include "matrix/matrix_exact.h"

nf_status nf_bins_open(nf_context *ctx, const nf_search *search, const double *radii, uint32_t count, nf_bins *bins)
{
    const nf_points *data = search->data, *queries = search->queries;
    *bins = (nf_bins){.search = search, .radii = radii, .count = count};
    bins->same_store = data->store == queries->store && data->bias == queries->bias;
    bins->slack = ((double)data->dims + 16.0) * 0x1p-52;
    bins->sure = nf_alloc(ctx, count, sizeof *bins->sure);
    bins->never = nf_alloc(ctx, count, sizeof *bins->never);
    if (bins->sure == NULL || bins->never == NULL) return nf_alloc_status(ctx);
    for (uint32_t i = 0; i < count; i++) {
        const double square = radii[i] * radii[i];
        const bool   vanishes = radii[i] < 0x1p-450;
        bins->sure[i] = vanishes ? -1.0 : isinf(radii[i]) ? radii[i] : fmin(square * (1.0 - bins->slack), 0x1p1000);
        bins->never[i] = vanishes ? 0x1p-899 : square * (1.0 + bins->slack);
    }
    return NF_OK;
}

void nf_bins_close(nf_bins *bins)
{
    nf_free(bins->sure);
    nf_free(bins->never);
}

nf_status nf_binner_open(nf_context *ctx, const nf_bins *bins, nf_binner *binner)
{
    binner->pairs = nf_alloc_zero(ctx, bins->count, sizeof *binner->pairs);
    binner->row_x = nf_alloc(ctx, bins->search->data->dims, sizeof(double));
    binner->row_y = nf_alloc(ctx, bins->search->data->dims, sizeof(double));
    return binner->pairs != NULL && binner->row_x != NULL && binner->row_y != NULL ? NF_OK : nf_alloc_status(ctx);
}

void nf_binner_close(nf_binner *binner)
{
    nf_free(binner->pairs);
    nf_free(binner->row_x);
    nf_free(binner->row_y);
}

/* The first of values[0, count) that is above sum; count where none is. Without branches: where a pair falls cannot be
 * foreseen. */
static uint32_t first_above(const double *values, uint32_t count, double sum)
{
    uint32_t low = 0;
    if (count == 0) return 0;
    while (count > 1) {
        const uint32_t half = count / 2;
        low += half * (uint32_t)(values[low + half - 1] <= sum);
        count -= half;
    }
    return low + (uint32_t)(values[low] <= sum);
}

/* The first radius from low on that the pair is within, at most high, by exact comparison. */
static uint32_t exact_bin(const nf_bins *bins, nf_binner *binner, uint32_t query, uint32_t point, uint32_t low,
                          uint32_t high)
{
    const nf_search *search = bins->search;
    binner->rechecked++;
    nf_cpu_row_f64(search->queries, query, binner->row_x);
    nf_cpu_row_f64(search->data, point, binner->row_y);
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int side = nf_exact_compare_fast(binner->row_x, binner->row_y, search->data->dims, bins->radii[middle]);
        if (side < 0 || (side == 0 && !search->spec.strict)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return high;
}

void nf_bins_count(const nf_bins *bins, nf_binner *binner, uint32_t query, uint32_t first, uint64_t mask,
                   uint32_t weight)
{
    const nf_points *data = bins->search->data, *queries = bins->search->queries;
    const uint32_t   last = bins->count - 1; /* every pair is within that one */
    uint32_t         at[NF_TILE + 8];
    double           sums[NF_TILE];
    const uint32_t   count = bins->search->kernels->mask_positions(mask, first, at);

    if (bins->same_store) {
        bins->search->kernels->sums(data->store, (const char *)queries->rows + query * queries->row_bytes, data->rows,
                                    data->row_bytes, data->dims, at, count, sums);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t low = 0, high = last;
        if (bins->same_store && (data->store != NF_STORE_F64 || (sums[i] >= NF_SUM_SMALL && sums[i] <= NF_SUM_LARGE))) {
            high = first_above(bins->sure, last, sums[i]);
            for (low = high; low > 0 && bins->never[low - 1] >= sums[i]; low--) {
            }
        }
        if (low < high) high = exact_bin(bins, binner, query, at[i], low, high);
        binner->pairs[high] += weight;
    }
}
