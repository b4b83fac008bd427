/* SPDX-License-Identifier: Apache-2.0 */
/* Packing rows into panels: the specification (kernels.h), one value at a time. */
#include <string.h>

#include "cpu/kernels/scalar/k_scalar.h"
#include "matrix/matrix_convert.h"

/* One stored value, with the bias added: exact, since bias is 0 for everything but small integers. */
static double value_at(const nf_rows *rows, uint32_t row, uint32_t column)
{
    const char *at = (const char *)rows->base + row * rows->row_bytes;
    switch (rows->store) {
    case NF_STORE_U8: return (double)((const uint8_t *)at)[column] + rows->bias;
    case NF_STORE_I16: return (double)((const int16_t *)(const void *)at)[column] + rows->bias;
    case NF_STORE_F16: return (double)nf_f16_to_f32(((const uint16_t *)(const void *)at)[column]);
    case NF_STORE_F32: return (double)((const float *)(const void *)at)[column];
    case NF_STORE_F64: return ((const double *)(const void *)at)[column];
    }
    return 0.0;
}

static uint32_t place_of(const nf_rows *rows, uint32_t column)
{
    return rows->dim_place != NULL ? rows->dim_place[column] : column;
}

static uint32_t padded(uint32_t count)
{
    return (count + NF_LANES - 1) / NF_LANES * NF_LANES;
}

void nf_k_squares_f32_scalar(const float *panel, uint32_t steps, const uint32_t *stops, uint32_t stop_count,
                             float *squares)
{
    for (uint32_t row = 0; row < NF_TILE; row++) {
        float    sum = 0.0f;
        uint32_t step = 0;
        for (uint32_t stop = 0; stop < stop_count; stop++) {
            for (; step < stops[stop]; step++) {
                const float value = panel[nf_panel_at(steps, row, step)];
                sum += value * value;
            }
            squares[stop * NF_TILE + row] = sum;
        }
    }
}

void nf_k_pack_f32_scalar(const nf_rows *rows, float *panel, const uint32_t *stops, uint32_t stop_count, float *squares)
{
    memset(panel, 0, (size_t)NF_TILE * rows->dims * sizeof *panel);
    for (uint32_t row = 0; row < rows->count; row++) {
        for (uint32_t column = 0; column < rows->dims; column++) {
            panel[nf_panel_at(rows->dims, row, place_of(rows, column))] = (float)value_at(rows, row, column);
        }
    }
    nf_k_squares_f32_scalar(panel, rows->dims, stops, stop_count, squares);
}

void nf_k_pack_f64_scalar(const nf_rows *rows, double *panel)
{
    memset(panel, 0, (size_t)padded(rows->count) * rows->dims * sizeof *panel);
    for (uint32_t row = 0; row < rows->count; row++) {
        for (uint32_t column = 0; column < rows->dims; column++) {
            panel[nf_panel_at(rows->dims, row, place_of(rows, column))] = value_at(rows, row, column) * rows->scale;
        }
    }
}

/* Two dims to a step, each as int16: the form that multiply-and-add-pairs instructions take. */
void nf_k_pack_u8_scalar(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums)
{
    const uint32_t steps = (rows->dims + 1) / 2;
    int16_t       *out = panel;

    memset(out, 0, (size_t)NF_TILE * steps * 2 * sizeof *out);
    for (uint32_t row = 0; row < rows->count; row++) {
        const uint8_t *from = (const uint8_t *)rows->base + row * rows->row_bytes;
        for (uint32_t column = 0; column < rows->dims; column++) {
            const uint32_t place = place_of(rows, column);
            out[nf_panel_at(steps, row, place / 2) * 2 + place % 2] = from[column];
        }
    }
    for (uint32_t row = 0; row < NF_TILE; row++) {
        uint32_t sum = 0, step = 0;
        for (uint32_t stop = 0; stop < stop_count; stop++) {
            for (; step < stops[stop]; step++) {
                const int16_t *pair = out + nf_panel_at(steps, row, step) * 2;
                sum += (uint32_t)(pair[0] * pair[0] + pair[1] * pair[1]);
            }
            sums[stop * NF_TILE + row] = (int32_t)sum;
        }
    }
}
