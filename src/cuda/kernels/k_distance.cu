/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delivered distances (matrix/matrix_exact_inline.h): a lane per entry, since a sum must run column by column.
 *
 * Rows lie on the device in the order of variance, but sums run in the caller's order of columns. A short row is a few
 * sectors of memory and is read where it lies. Of longer rows a copy in the order of columns is made: then a warp reads 32
 * columns of the 32 rows that its lanes want side by side, and hands them to the lanes by way of shared memory.
 *
 * Warps take rows in the order of positions, so that rows that are done at the same time have the same neighbours, which
 * then come out of the caches. The few rows that are much longer than the others are shared by many warps.
 */
#include "k_launch.h"
#include "k_rows.h"
#include "matrix/matrix_exact_inline.h"

#define WARPS 4u
#define THREADS 256u
#define TILE 32u            /* columns at once */
#define MOST_IN_PLACE 16u   /* dims up to which rows are read where they lie */
#define LONG_ROW 4096u      /* rows of more entries are in long_rows: what NF_K_ROW_4096 holds */
#define MOST_SHARES 128u    /* warps on one long row, in units of WARPS */

static __device__ inline nf_exact_row exact_row(const nf_k_rows &rows, uint32_t position)
{
    const uint64_t at = (uint64_t)position * rows.stride;
    nf_exact_row   row;
    row.wide = rows.wide ? (const double *)rows.values + at : NULL;
    row.narrow = rows.wide ? NULL : (const float *)rows.values + at;
    row.place = rows.dim_place;
    return row;
}

static __device__ inline float narrow_distance(double distance, double radius)
{
    const float nearest = (float)distance;
    return (double)nearest > radius ? nextafterf(nearest, 0.0f) : nearest;
}

static __device__ inline void put_distance(const nf_k_distances &to, uint64_t at, double distance)
{
    const double within = distance > to.radius ? to.radius : distance;
    if (to.wide != NULL) {
        to.wide[at] = within;
    } else {
        to.narrow[at] = narrow_distance(within, to.radius);
    }
}

/* Root of a sum of 32 or fewer columns at a time; a sum that left the safe range is taken again, scaled. */
static __device__ inline double root_of(const nf_k_distances &of, double sum, uint32_t query, uint32_t point)
{
    if (sum >= NF_SUM_SMALL && sum <= NF_SUM_LARGE) return sqrt(sum);
    const nf_exact_row x = exact_row(of.queries, query), y = exact_row(of.data, point);
    return nf_exact_scaled_distance_rows(&x, &y, of.data.dims);
}

/* Four values of a row of the copy, or two where they are binary64. */
static __device__ inline void load_values(const float *from, float *value)
{
    const float4 four = *(const float4 *)from;
    value[0] = four.x;
    value[1] = four.y;
    value[2] = four.z;
    value[3] = four.w;
}

static __device__ inline void load_values(const double *from, double *value)
{
    const double2 two = *(const double2 *)from;
    value[0] = two.x;
    value[1] = two.y;
}

/* What a warp keeps in shared memory: a tile of the query, and of 32 rows. */
template <typename Value>
struct warp_tile {
    double query[TILE];
    Value  rows[32][TILE + 1];
};

/* Columns from .. from + TILE - 1 of the rows at the lanes' points; those beyond stride are left as they are. */
template <typename Value>
static __device__ inline void fill_tile(const nf_k_distances &of, warp_tile<Value> *tile, uint32_t query, uint32_t point,
                                        uint32_t from, uint32_t lane)
{
    constexpr uint32_t at_once = 16 / sizeof(Value), lanes = TILE / at_once, step = 32 / lanes;
    const uint32_t     column = lane % lanes * at_once, own = from + lane;
    if (own < of.data.dims) {
        const nf_exact_row row = exact_row(of.queries, query);
        tile->query[lane] = nf_exact_at(&row, own);
    }
    for (uint32_t r = 0; r < 32; r += step) {
        const uint32_t row = r + lane / lanes;
        const uint32_t position = __shfl_sync(0xffffffffu, point, (int)row);
        if (from + column >= of.data.stride) continue;
        Value value[at_once];
        load_values((const Value *)of.data_by_column + (uint64_t)position * of.data.stride + from + column, value);
        for (uint32_t i = 0; i < at_once; i++) tile->rows[row][column + i] = value[i];
    }
}

template <typename Value>
static __device__ inline double tiled_sum(const nf_k_distances &of, warp_tile<Value> *tile, uint32_t query, uint32_t point,
                                          uint32_t lane)
{
    double sum = 0.0;
    for (uint32_t from = 0; from < of.data.dims; from += TILE) {
        __syncwarp();
        fill_tile(of, tile, query, point, from, lane);
        __syncwarp();
        const uint32_t count = of.data.dims - from < TILE ? of.data.dims - from : TILE;
        for (uint32_t i = 0; i < count; i++) {
            const double difference = tile->query[i] - (double)tile->rows[lane][i];
            sum = fma(difference, difference, sum);
        }
    }
    return sum;
}

static __device__ inline double sum_in_place(const nf_k_distances &of, uint32_t query, uint32_t point)
{
    const nf_exact_row x = exact_row(of.queries, query), y = exact_row(of.data, point);
    double             sum = 0.0;
    for (uint32_t i = 0; i < of.data.dims; i++) {
        const double difference = nf_exact_at(&x, i) - nf_exact_at(&y, i);
        sum = fma(difference, difference, sum);
    }
    return sum;
}

/* Rows that are read in place have no tile. */
struct in_place {
    static __device__ inline double sum(const nf_k_distances &of, void *, uint32_t query, uint32_t point, uint32_t)
    {
        return sum_in_place(of, query, point);
    }
    typedef unsigned char tile;
};

template <typename Value>
struct by_column {
    typedef warp_tile<Value> tile;
    static __device__ inline double sum(const nf_k_distances &of, tile *shared, uint32_t query, uint32_t point,
                                        uint32_t lane)
    {
        return tiled_sum(of, shared, query, point, lane);
    }
};

/* Entries of one row, 32 at a time: those from round `round` on, every `rounds`-th. */
template <typename Method>
static __device__ inline void row_distances(const nf_k_piece &piece, const nf_k_distances &of, typename Method::tile *tile,
                                            uint32_t query, uint64_t begin, uint64_t length, uint32_t round, uint32_t rounds)
{
    const uint32_t lane = threadIdx.x % 32;
    for (uint64_t at = (uint64_t)round * 32; at < length; at += (uint64_t)rounds * 32) {
        const bool     inside = at + lane < length;
        const uint64_t entry = begin + (inside ? at + lane : at);
        const uint32_t point = of.positions[piece.ids[entry]];
        const double   sum = Method::sum(of, tile, query, point, lane);
        if (inside) put_distance(of, entry, root_of(of, sum, query, point));
    }
}

template <typename Method>
static __global__ void __launch_bounds__(WARPS * 32) rows_kernel(nf_k_piece piece, nf_k_distances of)
{
    __shared__ typename Method::tile tiles[WARPS];
    const uint32_t local = blockIdx.x * WARPS + threadIdx.x / 32;
    if (local >= piece.rows) return;
    const uint32_t rank = piece.rank[local];
    if (rank < piece.begin || rank >= piece.end) return;
    const uint64_t begin = piece.offsets[rank], length = piece.offsets[rank + 1] - begin;
    if (length > LONG_ROW) return;
    row_distances<Method>(piece, of, &tiles[threadIdx.x / 32], piece.first + local, begin - piece.base, length, 0, 1);
}

template <typename Method>
static __global__ void __launch_bounds__(WARPS * 32) long_rows_kernel(nf_k_piece piece, nf_k_distances of,
                                                                      const uint32_t *rows)
{
    __shared__ typename Method::tile tiles[WARPS];
    const uint32_t rank = rows[blockIdx.x], warp = threadIdx.x / 32;
    const uint64_t begin = piece.offsets[rank], length = piece.offsets[rank + 1] - begin;
    row_distances<Method>(piece, of, &tiles[warp], piece.order[rank], begin - piece.base, length,
                          blockIdx.y * WARPS + warp, gridDim.y * WARPS);
}

template <typename Method>
static cudaError_t launch(const nf_k_piece *piece, const nf_k_distances *distances, const uint32_t *long_rows,
                          uint32_t long_count, uint64_t longest, cudaStream_t stream)
{
    const auto kernel = rows_kernel<Method>;
    const auto long_kernel = long_rows_kernel<Method>;
    NF_LAUNCH(kernel, nf_k_blocks(piece->rows, WARPS), WARPS * 32, 0, stream)(*piece, *distances);
    const cudaError_t error = nf_k_launched();
    if (error != cudaSuccess || long_count == 0) return error;
    const unsigned shares = nf_k_blocks(longest, LONG_ROW);
    const dim3     grid(long_count, shares < MOST_SHARES ? shares : MOST_SHARES);
    NF_LAUNCH(long_kernel, grid, WARPS * 32, 0, stream)(*piece, *distances, long_rows);
    return nf_k_launched();
}

extern "C" bool nf_k_distances_by_column(uint32_t dims)
{
    return dims > MOST_IN_PLACE;
}

extern "C" cudaError_t nf_k_row_distances(const nf_k_piece *piece, const nf_k_distances *distances,
                                          const uint32_t *long_rows, uint32_t long_count, uint64_t longest,
                                          cudaStream_t stream)
{
    if (distances->data_by_column == NULL) {
        return launch<in_place>(piece, distances, long_rows, long_count, longest, stream);
    }
    if (distances->data.wide) return launch<by_column<double>>(piece, distances, long_rows, long_count, longest, stream);
    return launch<by_column<float>>(piece, distances, long_rows, long_count, longest, stream);
}

/* ---- the copy, and narrow distances ---- */

/* A block per row at a time: the row goes through the cache, where the order of reading costs little. */
template <typename Value>
static __global__ void by_column_kernel(nf_k_rows from, uint64_t rows, Value *to)
{
    for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const Value *values = (const Value *)from.values + row * from.stride;
        for (uint32_t i = threadIdx.x; i < from.stride; i += blockDim.x) {
            to[row * from.stride + i] = i < from.dims ? values[from.dim_place[i]] : (Value)0;
        }
    }
}

extern "C" cudaError_t nf_k_rows_by_column(const nf_k_rows *from, uint64_t rows, void *to, cudaStream_t stream)
{
    const unsigned most = 1u << 20, blocks = rows == 0 ? 1u : rows < most ? (unsigned)rows : most;
    const unsigned threads = from->dims <= 32 ? 32u : from->dims <= 128 ? 128u : THREADS;
    if (from->wide) {
        NF_LAUNCH(by_column_kernel<double>, blocks, threads, 0, stream)(*from, rows, (double *)to);
    } else {
        NF_LAUNCH(by_column_kernel<float>, blocks, threads, 0, stream)(*from, rows, (float *)to);
    }
    return nf_k_launched();
}

template <typename Value>
static __global__ void by_id_kernel(nf_k_rows from, const uint32_t *positions, const uint32_t *ids, uint64_t count,
                                    double *to)
{
    for (uint64_t i = blockIdx.x; i < count; i += gridDim.x) {
        const Value *values = (const Value *)from.values + (uint64_t)positions[ids[i]] * from.stride;
        for (uint32_t k = threadIdx.x; k < from.dims; k += blockDim.x) {
            to[i * from.dims + k] = (double)values[from.dim_place[k]];
        }
    }
}

extern "C" cudaError_t nf_k_rows_by_id(const nf_k_rows *from, const uint32_t *positions, const uint32_t *ids,
                                       uint64_t count, double *to, cudaStream_t stream)
{
    const unsigned most = 1u << 20, blocks = count == 0 ? 1u : count < most ? (unsigned)count : most;
    const unsigned threads = from->dims <= 32 ? 32u : THREADS;
    if (from->wide) {
        NF_LAUNCH(by_id_kernel<double>, blocks, threads, 0, stream)(*from, positions, ids, count, to);
    } else {
        NF_LAUNCH(by_id_kernel<float>, blocks, threads, 0, stream)(*from, positions, ids, count, to);
    }
    return nf_k_launched();
}

static __global__ void narrow_kernel(const double *from, uint64_t count, double radius, float *to)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) to[i] = narrow_distance(from[i], radius);
}

extern "C" cudaError_t nf_k_narrow_distances(const double *from, uint64_t count, double radius, float *to,
                                             cudaStream_t stream)
{
    NF_LAUNCH(narrow_kernel, nf_k_blocks(count, THREADS), THREADS, 0, stream)(from, count, radius, to);
    return nf_k_launched();
}
