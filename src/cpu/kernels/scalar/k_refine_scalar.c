/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement, the specification (kernels.h): one query against a block of 16 points, plain loops that a compiler for the
 * baseline can turn into vectors.
 */
#include <stdbool.h>

#include "cpu/kernels/scalar/k_scalar.h"

static uint64_t lanes_inside(uint32_t block, uint32_t point_count)
{
    const uint32_t left = point_count - block * NF_LANES;
    return left >= NF_LANES ? 0xffffu : (1u << left) - 1u;
}

static uint32_t blocks(const nf_tile *tile)
{
    return (tile->point_count + NF_LANES - 1) / NF_LANES;
}

static void clear_masks(const nf_tile *tile)
{
    for (uint32_t i = 0; i < tile->query_count; i++) {
        tile->maybe[tile->queries[i]] = 0;
        tile->sure[tile->queries[i]] = 0;
    }
}

static void put_masks(const nf_tile *tile, uint32_t query, uint32_t block, uint64_t maybe, uint64_t sure)
{
    const uint64_t inside = lanes_inside(block, tile->point_count);
    tile->maybe[query] |= (maybe & inside) << (block * NF_LANES);
    tile->sure[query] |= (maybe & sure & inside) << (block * NF_LANES);
}

/* The product kernel's test at one stop: which lanes are not certainly out. */
static uint32_t product_maybe(const nf_tile *tile, const float *sum, uint32_t query, uint32_t block, uint32_t stop)
{
    const float  x_out = tile->x_out[stop * NF_TILE + query];
    const float *y_out = tile->y_out + stop * NF_TILE + block * NF_LANES;
    uint32_t     maybe = 0;
    for (uint32_t lane = 0; lane < NF_LANES; lane++) maybe |= (uint32_t) !(sum[lane] < x_out + y_out[lane]) << lane;
    return maybe;
}

static void product_block(const nf_tile *tile, uint32_t query, uint32_t block)
{
    const float *x = (const float *)tile->x + nf_panel_at(tile->steps, query, 0);
    const float *y = (const float *)tile->y + nf_panel_at(tile->steps, block * NF_LANES, 0);
    float        sum[NF_LANES] = {0};
    uint32_t     step = 0, maybe = 0, sure = 0;

    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            for (uint32_t lane = 0; lane < NF_LANES; lane++) sum[lane] += x[step * NF_LANES] * y[step * NF_LANES + lane];
        }
        maybe = product_maybe(tile, sum, query, block, stop);
        if (maybe == 0) return;
    }
    for (uint32_t lane = 0; lane < NF_LANES; lane++) {
        sure |= (uint32_t)(sum[lane] >= tile->x_in[query] + tile->y_in[block * NF_LANES + lane]) << lane;
    }
    put_masks(tile, query, block, maybe, sure);
}

void nf_k_refine_f32_product_scalar(const nf_tile *tile)
{
    clear_masks(tile);
    for (uint32_t block = 0; block < blocks(tile); block++) {
        for (uint32_t i = 0; i < tile->query_count; i++) product_block(tile, tile->queries[i], block);
    }
}

/* The two difference kernels differ in the type alone. */
#define DIFFERENCE_BLOCK(name, type)                                                                    \
    static void name(const nf_tile *tile, uint32_t query, uint32_t block)                               \
    {                                                                                                   \
        const type *x = (const type *)tile->x + nf_panel_at(tile->steps, query, 0);                     \
        const type *y = (const type *)tile->y + nf_panel_at(tile->steps, block * NF_LANES, 0);          \
        const type  out_above = ((const type *)tile->out_above)[query];                                 \
        const type  sure_upto = ((const type *)tile->sure_upto)[query];                                 \
        type        sum[NF_LANES] = {0};                                                                \
        uint32_t    step = 0, maybe = 0, sure = 0;                                                      \
        for (uint32_t stop = 0; stop < tile->stop_count; stop++) {                                      \
            for (; step < tile->stops[stop]; step++) {                                                  \
                for (uint32_t lane = 0; lane < NF_LANES; lane++) {                                      \
                    const type difference = x[step * NF_LANES] - y[step * NF_LANES + lane];             \
                    sum[lane] += difference * difference;                                               \
                }                                                                                       \
            }                                                                                           \
            maybe = 0;                                                                                  \
            for (uint32_t lane = 0; lane < NF_LANES; lane++) {                                          \
                maybe |= (uint32_t) !(sum[lane] > out_above) << lane;                                   \
            }                                                                                           \
            if (maybe == 0) return;                                                                     \
        }                                                                                               \
        for (uint32_t lane = 0; lane < NF_LANES; lane++) sure |= (uint32_t)(sum[lane] <= sure_upto) << lane; \
        put_masks(tile, query, block, maybe, sure);                                                     \
    }

DIFFERENCE_BLOCK(difference_block_f32, float)
DIFFERENCE_BLOCK(difference_block_f64, double)

void nf_k_refine_f32_difference_scalar(const nf_tile *tile)
{
    clear_masks(tile);
    for (uint32_t block = 0; block < blocks(tile); block++) {
        for (uint32_t i = 0; i < tile->query_count; i++) difference_block_f32(tile, tile->queries[i], block);
    }
}

void nf_k_refine_f64_difference_scalar(const nf_tile *tile)
{
    clear_masks(tile);
    for (uint32_t block = 0; block < blocks(tile); block++) {
        for (uint32_t i = 0; i < tile->query_count; i++) difference_block_f64(tile, tile->queries[i], block);
    }
}

static void u8_block(const nf_tile *tile, uint32_t query, uint32_t block)
{
    const int16_t *x = (const int16_t *)tile->x + nf_panel_at(tile->steps, query, 0) * 2;
    const int16_t *y = (const int16_t *)tile->y + nf_panel_at(tile->steps, block * NF_LANES, 0) * 2;
    uint32_t       product[NF_LANES] = {0};
    uint32_t       step = 0, maybe = 0, sure = 0;

    for (uint32_t stop = 0; stop < tile->stop_count; stop++) {
        for (; step < tile->stops[stop]; step++) {
            const int32_t  x0 = x[step * NF_LANES * 2], x1 = x[step * NF_LANES * 2 + 1];
            const int16_t *y_step = y + step * NF_LANES * 2;
            for (uint32_t lane = 0; lane < NF_LANES; lane++) {
                product[lane] += (uint32_t)(x0 * y_step[lane * 2] + x1 * y_step[lane * 2 + 1]);
            }
        }
        const uint32_t x_sum = (uint32_t)tile->x_sum[stop * NF_TILE + query];
        const int32_t *y_sum = tile->y_sum + stop * NF_TILE + block * NF_LANES;
        maybe = sure = 0;
        for (uint32_t lane = 0; lane < NF_LANES; lane++) {
            const int32_t value = (int32_t)(2 * product[lane] - x_sum - (uint32_t)y_sum[lane]);
            maybe |= (uint32_t)(value >= 0) << lane;
            sure |= (uint32_t)(value >= tile->sure_from[query]) << lane;
        }
        if (maybe == 0) return;
    }
    put_masks(tile, query, block, maybe, sure);
}

void nf_k_refine_u8_scalar(const nf_tile *tile)
{
    clear_masks(tile);
    for (uint32_t block = 0; block < blocks(tile); block++) {
        for (uint32_t i = 0; i < tile->query_count; i++) u8_block(tile, tile->queries[i], block);
    }
}
