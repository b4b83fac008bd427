/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of CPU kernels: what an instruction set must offer, and the numeric contract of each entry.
 *
 * scalar fills every entry and is the specification; avx2, avx512 and neon start from it and override what they do better,
 * so the table is always full. One test source (tests/test_kernels.c) runs on every instruction set.
 *
 * Tiles. Refinement decides up to 64 queries x 64 points at a time. Both sides are first packed into panels, in which a
 * block of 16 rows is stored dimension by dimension, so that a vector register holds one dimension of 16 (or 8) points:
 *
 *     panel[(block * steps + step) * 16 + lane]      block = row / 16, lane = row % 16
 *
 * A step is one dimension (f32, f64) or a few small integers (u8: the table's u8_per_step). Missing rows and dimensions
 * are zero. Dimensions come in the order of decreasing variance (dim_place), so that sums grow early.
 *
 * Refine kernels test the partial sums at "stops"; when every pair of a register block is certainly out, the rest of
 * its dimensions is skipped (the paper's early exit, section IV-E).
 *
 * Kernels allocate nothing, have no state, and read rows and panels only inside the counts they are given.
 */
#ifndef NF_CPU_KERNELS_H
#define NF_CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define NF_TILE 64u        /* rows of a panel */
#define NF_LANES 16u       /* rows of a block inside a panel */
#define NF_MAX_STOPS 8u    /* early exits per tile, the last one included */

/* How rows are stored in the index. U8 holds i8 data with 128 added, I16 holds u16 data with 32768 taken off: distances
 * do not change. */
typedef enum nf_store { NF_STORE_U8, NF_STORE_I16, NF_STORE_F16, NF_STORE_F32, NF_STORE_F64 } nf_store;

/* Rows to be packed: row i begins at base + i * row_bytes. dim_place[c] is the step of column c; NULL: c itself. */
typedef struct nf_rows {
    const void     *base;
    size_t          row_bytes;
    uint32_t        count;     /* at most NF_TILE */
    uint32_t        dims;
    nf_store        store;
    double          bias;      /* added to every value */
    double          scale;     /* then multiplied; a power of two; 1 but for extreme binary64 data */
    const uint32_t *dim_place;
} nf_rows;

/* One tile's work. Of the x panel only the rows in queries[] are taken. Results are one 64-bit mask per query, indexed by
 * the query's row in the panel: bit p of maybe[q] is 0 only when pair (q, p) is certainly out; bit p of sure[q], a subset,
 * is 1 only when it is certainly in. Masks of rows that are not in queries[] are left alone; bits at and beyond
 * point_count are 0. */
typedef struct nf_tile {
    const void    *x, *y;
    const uint8_t *queries;      /* query_count row numbers, ascending; padded by repetition to NF_QUERY_PAD more */
    uint32_t       query_count;  /* at least 1 */
    uint32_t       point_count;
    uint32_t       steps;
    uint32_t       stop_count;   /* at least 1 */
    uint32_t       stops[NF_MAX_STOPS]; /* steps done at each stop, ascending; the last is steps */

    /* f32 by product: pair is certainly out when product < x_out + y_out, certainly in when product >= x_in + y_in. */
    const float *x_out, *y_out;  /* [stop][64] */
    const float *x_in, *y_in;    /* [64], at the last stop */

    /* u8: value = 2 * product - x_sum - y_sum, modulo 2^32, is floor(radius^2) minus the partial sum; out when negative;
     * sure when value >= sure_from (0, or 1 when radius^2 is an integer: then value 0 is a tie). */
    const int32_t *x_sum, *y_sum; /* [stop][64]; floor(radius^2) is taken off x_sum */
    const int32_t *sure_from;     /* [64] */

    /* by difference: out when sum > out_above, sure when sum <= sure_upto. A sum that is not a number is maybe. */
    const void *out_above, *sure_upto; /* [64] of the panels' type */

    uint64_t *maybe, *sure;      /* [64] */
} nf_tile;

#define NF_QUERY_PAD 8u

typedef struct nf_kernels {
    const char *isa;
    uint32_t    u8_per_step;

    /* Packing. squares[stop][64] (f32, may be NULL with stop_count 0) gets each row's sum of squares of the first
     * stops[stop] steps, computed in binary32 with at most stops[stop] roundings per term. */
    void (*pack_f32)(const nf_rows *rows, float *panel, const uint32_t *stops, uint32_t stop_count, float *squares);
    void (*pack_f64)(const nf_rows *rows, double *panel);
    /* u8: sums[stop][64] such that 2 * product - x_sum - y_sum is minus the partial sum of squared differences. x and y
     * panels may differ in form. */
    void (*pack_u8_x)(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums);
    void (*pack_u8_y)(const nf_rows *rows, void *panel, const uint32_t *stops, uint32_t stop_count, int32_t *sums);

    /* Refinement. f32 difference and f64: every sum is of nonnegative terms, each with at most steps + 2 roundings.
     * f32 product: one fused or unfused multiply-add per step, in ascending order. */
    void (*refine_f32_product)(const nf_tile *tile);
    void (*refine_f32_difference)(const nf_tile *tile);
    void (*refine_f64_difference)(const nf_tile *tile);
    void (*refine_u8)(const nf_tile *tile);

    /* Writes base + the number of each set bit, ascending; returns how many. out has room for 64 + 8 whatever the mask. */
    uint32_t (*mask_positions)(uint64_t mask, uint32_t base, uint32_t *out);

    /* Bit p of the result is set when ids[p] > id; 64 ids are read, all below 2^31. */
    uint64_t (*ids_above)(const uint32_t *ids, uint32_t id);

    /* Sorts ids ascending. spare: as long. */
    void (*sort_ids)(uint32_t *ids, uint64_t count, uint32_t *spare);

    /* Bit q of the result is set when rows q < NF_TILE of columns (columns[k * 64 + q]) lies in low..high in all dims. */
    uint64_t (*rows_in_box)(const float *columns, const float *low, const float *high, uint32_t dims);

    /* Bit q of the result is 0 only when the squared gap between row q of such columns and the box exceeds most[q]; computed
     * in binary32 like gap_square. A gap that is not a number is none. */
    uint64_t (*rows_near_box)(const float *columns, const float *low, const float *high, uint32_t dims, const float *most);

    /* Squared gap between two boxes (low[dims], high[dims]; 0 where they overlap), and squared distance of two vectors, in
     * binary32: the relative error is at most (dims + 3) 2^-24 unless the result over- or underflows. */
    float (*gap_square)(const float *a, const float *b, uint32_t dims);
    float (*distance_square)(const float *a, const float *b, uint32_t dims);

    /* Sums of squared differences between the row x and rows base + at[i] * row_bytes of the same store (and bias), as the
     * delivered distance defines them: binary64, one fused multiply-add per column in order (integers: exact, any order). */
    void (*sums)(nf_store store, const void *x, const void *base, size_t row_bytes, uint32_t dims, const uint32_t *at,
                 uint32_t count, double *sums);

    /* How many of 16 values (no NaN) are less than each. */
    void (*ranks)(const double *values, uint32_t *ranks);

    /* Copies the values that are at most most, and what stands beside them in at, in order; returns how many. Both outputs
     * have room for count values. */
    uint32_t (*pick)(const double *values, const uint32_t *at, uint32_t count, double most, double *picked,
                     uint32_t *picked_at);

    /* Square roots, in place, none above most. */
    void (*roots)(double *sums, uint32_t count, double most);
} nf_kernels;

/* Fills every entry. */
void nf_kernels_fill_scalar(nf_kernels *table);

/* Override entries; each exists only where its instruction set is compiled. */
void nf_kernels_override_avx2(nf_kernels *table);
void nf_kernels_override_avx512(nf_kernels *table);
void nf_kernels_override_neon(nf_kernels *table);

/* Steps of a u8 panel for that many dims. */
static inline uint32_t nf_u8_steps(const nf_kernels *table, uint32_t dims)
{
    return (dims + table->u8_per_step - 1) / table->u8_per_step;
}

/* Index of an element in a panel. */
static inline size_t nf_panel_at(uint32_t steps, uint32_t row, uint32_t step)
{
    return ((size_t)(row / NF_LANES) * steps + step) * NF_LANES + row % NF_LANES;
}

#endif
