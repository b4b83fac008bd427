/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The narrowest type that holds the values of a text file. Distances do not change: every value is kept exactly, except
 * that -0 may become 0.
 */
#include <math.h>
#include <string.h>

#include "io_csv.h"

/* What the values of a row have in common. */
typedef struct row_range {
    int32_t low;
    int32_t high;
    bool    integers; /* all between INT16_MIN and INT16_MAX */
} row_range;

static row_range find_range(const double *values, uint32_t count)
{
    row_range range = {.low = 0, .high = 0, .integers = true};
    uint32_t  others = 0;
    for (uint32_t i = 0; i < count; i++) {
        const bool    inside = values[i] >= INT16_MIN && values[i] <= INT16_MAX;
        const int32_t integer = inside ? (int32_t)values[i] : 0;
        others += !inside || (double)integer != values[i];
        range.low = integer < range.low ? integer : range.low;
        range.high = integer > range.high ? integer : range.high;
    }
    range.integers = others == 0;
    return range;
}

static bool all_fit_f32(const double *values, uint32_t count)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < count; i++) {
        const float narrow = (float)values[i];
        const bool  same = (double)narrow == values[i] || isnan(values[i]);
        others += !same;
    }
    return others == 0;
}

uint32_t nf_csv_row_misfit(const double *values, uint32_t count)
{
    const row_range range = find_range(values, count);
    if (!range.integers) {
        const uint32_t misfit = NF_MISFIT_U8 | NF_MISFIT_I8 | NF_MISFIT_I16;
        return all_fit_f32(values, count) ? misfit : misfit | NF_MISFIT_F32;
    }
    uint32_t misfit = 0;
    if (range.low < 0 || range.high > UINT8_MAX) misfit |= NF_MISFIT_U8;
    if (range.low < INT8_MIN || range.high > INT8_MAX) misfit |= NF_MISFIT_I8;
    return misfit;
}

nf_dtype nf_csv_type_of(uint32_t misfit)
{
    if (!(misfit & NF_MISFIT_U8)) return NF_DTYPE_U8;
    if (!(misfit & NF_MISFIT_I8)) return NF_DTYPE_I8;
    if (!(misfit & NF_MISFIT_I16)) return NF_DTYPE_I16;
    if (!(misfit & NF_MISFIT_F32)) return NF_DTYPE_F32;
    return NF_DTYPE_F64;
}

void nf_csv_row_store(const double *values, uint32_t count, nf_dtype dtype, void *target)
{
    switch (dtype) {
    case NF_DTYPE_U8:
        for (uint32_t i = 0; i < count; i++) ((uint8_t *)target)[i] = (uint8_t)values[i];
        break;
    case NF_DTYPE_I8:
        for (uint32_t i = 0; i < count; i++) ((int8_t *)target)[i] = (int8_t)values[i];
        break;
    case NF_DTYPE_I16:
        for (uint32_t i = 0; i < count; i++) ((int16_t *)target)[i] = (int16_t)values[i];
        break;
    case NF_DTYPE_F32:
        for (uint32_t i = 0; i < count; i++) ((float *)target)[i] = (float)values[i];
        break;
    default: memcpy(target, values, count * sizeof *values); break;
    }
}
