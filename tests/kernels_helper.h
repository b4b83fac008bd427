/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of packing and refinement share: the tables of this machine, and rows at forbidden pages. */
#ifndef NF_TESTS_KERNELS_HELPER_H
#define NF_TESTS_KERNELS_HELPER_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/core_system.h"
#include "cpu/cpu_search.h"
#include "guard_helper.h"
#include "matrix/matrix_convert.h"
#include "random_helper.h"

static const uint32_t all_dims[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 128, 130};
#define DIMS_COUNT (sizeof all_dims / sizeof all_dims[0])

static inline const nf_kernels *kernels_at(uint32_t i)
{
    for (nf_isa isa = NF_ISA_SCALAR; isa <= NF_ISA_NEON; isa = (nf_isa)(isa + 1)) {
        if (nf_system_has_isa(isa) && i-- == 0) return nf_cpu_kernels(isa);
    }
    return NULL;
}

/* ---- rows ---- */

static inline size_t store_bytes(nf_store store)
{
    static const size_t bytes[] = {1, 2, 2, 4, 8};
    return bytes[store];
}

/* Rows of a store with their values, bias included. */
typedef struct sample {
    guarded   memory;
    nf_rows   rows;
    uint32_t *place;
    double   *values; /* [row * dims + column] */
} sample;

static inline void put_value(nf_store store, void *to, double value)
{
    const float narrow = (float)value;
    switch (store) {
    case NF_STORE_U8: *(uint8_t *)to = (uint8_t)value; break;
    case NF_STORE_I16: memcpy(to, &(int16_t){(int16_t)value}, 2); break;
    case NF_STORE_F16: memcpy(to, &(uint16_t){nf_f32_to_f16(narrow)}, 2); break;
    case NF_STORE_F32: memcpy(to, &narrow, 4); break;
    case NF_STORE_F64: memcpy(to, &value, 8); break;
    }
}

static inline double get_value(nf_store store, const void *from)
{
    int16_t  i16;
    uint16_t f16;
    float    f32;
    double   f64;
    switch (store) {
    case NF_STORE_U8: return *(const uint8_t *)from;
    case NF_STORE_I16: memcpy(&i16, from, 2); return i16;
    case NF_STORE_F16: memcpy(&f16, from, 2); return (double)nf_f16_to_f32(f16);
    case NF_STORE_F32: memcpy(&f32, from, 4); return (double)f32;
    case NF_STORE_F64: memcpy(&f64, from, 8); return f64;
    }
    return 0.0;
}

/* A value that a store can hold, of a size that puts many pairs near one radius. */
static inline double random_value(nf_store store, uint64_t *seed)
{
    switch (store) {
    case NF_STORE_U8: return (double)random_below(seed, 256);
    case NF_STORE_I16: return (double)random_below(seed, 65536) - 32768.0;
    default: return random_below(seed, 16) == 0 ? 0.0 : (random_unit(seed) - 0.3) * 4.0;
    }
}

/* Rows are tight: row i + 1 begins where row i ends. permute: the columns' places are a rotation. */
static inline sample make_sample(nf_store store, uint32_t count, uint32_t dims, double bias, double scale, int permute, int at_end,
                          uint64_t seed)
{
    const size_t bytes = store_bytes(store);
    sample       out = {.memory = guard_open(count * dims * bytes, at_end)};
    out.place = malloc(dims * sizeof *out.place);
    out.values = malloc((size_t)count * dims * sizeof *out.values);
    for (uint32_t c = 0; c < dims; c++) out.place[c] = permute ? (c + dims / 2) % dims : c;
    for (uint32_t i = 0; i < count * dims; i++) {
        char *to = (char *)out.memory.data + i * bytes;
        put_value(store, to, random_value(store, &seed));
        out.values[i] = get_value(store, to) + bias;
    }
    guard_seal(&out.memory);
    out.rows = (nf_rows){
        .base = out.memory.data, .row_bytes = dims * bytes, .count = count, .dims = dims, .store = store,
        .bias = bias, .scale = scale, .dim_place = permute ? out.place : NULL,
    };
    return out;
}

static inline void free_sample(sample *at)
{
    guard_close(&at->memory);
    free(at->place);
    free(at->values);
}

/* Early exits after 5, 8 and 32 dims where there are so many. */
static inline uint32_t make_stops(uint32_t dims, uint32_t per_step, uint32_t stops[NF_MAX_STOPS])
{
    static const uint32_t at[] = {8, 32, 64, 96};
    const uint32_t        steps = (dims + per_step - 1) / per_step;
    uint32_t              count = 0;
    for (size_t i = 0; i < 4; i++) {
        if (at[i] / per_step < steps) stops[count++] = at[i] / per_step;
    }
    stops[count++] = steps;
    return count;
}

#endif
