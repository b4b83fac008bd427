/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The refinement kernel (k_refine.h). A block of 256 threads, 16 x 16, decides tile x tile pairs; a thread M x M of them,
 * M = tile / 16: rows ty * M .. + M - 1, columns in groups of four, 64 apart, so that threads of a warp read shared memory
 * side by side. While a chunk of dims is worked on, the next one is on its way from global memory to registers.
 */
#include "k_emit.cuh"

namespace {

constexpr int threads = 256;

/* Blocks that a multiprocessor is to hold: the compiler fits its registers to it. */
template <typename T>
constexpr int blocks_wanted(int tile)
{
    return tile == 64 && sizeof(T) == 4 ? 3 : 2;
}

/* Four values of a row from a multiple of four on, as T; zeros beyond the row. */
template <typename T>
struct quad {
    T v[4];
};

__device__ inline quad<float> fetch(const nf_k_rows &rows, uint64_t position, uint32_t k, float)
{
    if (k >= rows.stride) return {{0.0f, 0.0f, 0.0f, 0.0f}};
    const float4 from = *reinterpret_cast<const float4 *>(static_cast<const float *>(rows.values) + position * rows.stride + k);
    return {{from.x, from.y, from.z, from.w}};
}

__device__ inline quad<double> fetch(const nf_k_rows &rows, uint64_t position, uint32_t k, double scale)
{
    if (k >= rows.stride) return {{0.0, 0.0, 0.0, 0.0}};
    if (rows.wide == 0) {
        const quad<float> from = fetch(rows, position, k, 0.0f);
        return {{from.v[0] * scale, from.v[1] * scale, from.v[2] * scale, from.v[3] * scale}};
    }
    const double *at = static_cast<const double *>(rows.values) + position * rows.stride + k;
    return {{at[0] * scale, at[1] * scale, at[2] * scale, at[3] * scale}};
}

/* Four neighbours in shared memory, from a multiple of four on. */
__device__ inline quad<float> near_four(const float *at)
{
    const float4 from = *reinterpret_cast<const float4 *>(at);
    return {{from.x, from.y, from.z, from.w}};
}

__device__ inline quad<double> near_four(const double *at)
{
    const double2 low = *reinterpret_cast<const double2 *>(at), high = *reinterpret_cast<const double2 *>(at + 2);
    return {{low.x, low.y, high.x, high.y}};
}

__device__ inline float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline double fused(double a, double b, double c) { return __fma_rn(a, b, c); }

/* One side of a tile: which rows, and their chunk of dims in shared memory, [dim][row]. */
template <typename T, int TILE, int DIMS, bool SHARED>
struct side {
    static constexpr int pitch = TILE + 16 / (int)sizeof(T); /* 16 bytes more: the transposing stores meet fewer banks twice */
    static constexpr int size = SHARED ? 2 * DIMS * pitch : 1; /* two chunks */
    static constexpr int quads = TILE * DIMS / 4;            /* of a chunk */
    static constexpr int mine = (quads + threads - 1) / threads; /* of a thread */
    T *values;
    quad<T> next[SHARED ? mine : 1];

    __device__ inline const T *chunk(int buffer) const { return values + buffer * DIMS * pitch; }

    /* at[row]: position of a row. */
    __device__ inline void prefetch(const nf_k_rows &rows, const uint32_t *at, uint32_t k, T scale)
    {
        if constexpr (SHARED) {
            NF_UNROLL
            for (int i = 0; i < mine; i++) {
                const int n = (int)threadIdx.x + i * threads;
                if (quads % threads == 0 || n < quads) {
                    next[i] = fetch(rows, at[n / (DIMS / 4)], k + 4u * (unsigned)(n % (DIMS / 4)), scale);
                }
            }
        }
    }

    __device__ inline void put(int buffer)
    {
        if constexpr (SHARED) {
            NF_UNROLL
            for (int i = 0; i < mine; i++) {
                const int n = (int)threadIdx.x + i * threads;
                if (quads % threads == 0 || n < quads) {
                    const int row = n / (DIMS / 4), dim = 4 * (n % (DIMS / 4));
                    NF_UNROLL
                    for (int c = 0; c < 4; c++) values[(buffer * DIMS + dim + c) * pitch + row] = next[i].v[c];
                }
            }
        }
    }
};

/* The column of a thread's j-th pair: groups of four columns, a half tile apart where a thread has eight. */
__device__ inline int column_of(int tx, int j)
{
    return (j / 4) * 64 + tx * 4 + j % 4;
}

template <typename T, int TILE, int DIMS, bool PRODUCT, int SHARE>
struct tile_sums {
    static constexpr int M = TILE / 16;
    T acc[M][M];

    __device__ inline void clear()
    {
        NF_UNROLL
        for (int i = 0; i < M; i++) {
            NF_UNROLL
            for (int j = 0; j < M; j++) acc[i][j] = T(0);
        }
    }

    __device__ inline void add(const T *a, const T *b)
    {
        NF_UNROLL
        for (int i = 0; i < M; i++) {
            NF_UNROLL
            for (int j = 0; j < M; j++) {
                if (PRODUCT) {
                    acc[i][j] = fused(a[i], b[j], acc[i][j]);
                } else {
                    const T difference = a[i] - b[j];
                    acc[i][j] = fused(difference, difference, acc[i][j]);
                }
            }
        }
    }

    /* Adds a chunk of dims whose sides both lie in shared memory. */
    __device__ inline void add_shared(const T *xs, int x_pitch, const T *ys, int y_pitch, int tx, int ty)
    {
        NF_UNROLL
        for (int k = 0; k < DIMS; k++) {
            T a[M], b[M];
            NF_UNROLL
            for (int part = 0; part < M; part += 4) {
                const quad<T> x = near_four(xs + k * x_pitch + ty * M + part);
                const quad<T> y = near_four(ys + k * y_pitch + column_of(tx, part));
                NF_UNROLL
                for (int c = 0; c < 4; c++) {
                    a[part + c] = x.v[c];
                    b[part + c] = y.v[c];
                }
            }
            add(a, b);
        }
    }

    /* The same where one side or both are read from global memory, four dims at a time: the paper's ablation. */
    __device__ inline void add_mixed(const nf_k_refine &job, const uint32_t *x_at, const uint32_t *y_at, uint32_t k0, T scale,
                                     const T *xs, int x_pitch, const T *ys, int y_pitch, int tx, int ty)
    {
        for (int k = 0; k < DIMS; k += 4) {
            quad<T> a[M];
            NF_UNROLL
            for (int i = 0; i < M; i++) {
                if (SHARE & 1) {
                    NF_UNROLL
                    for (int c = 0; c < 4; c++) a[i].v[c] = xs[(k + c) * x_pitch + ty * M + i];
                } else {
                    a[i] = fetch(job.x, x_at[ty * M + i], k0 + (unsigned)k, scale);
                }
            }
            NF_UNROLL
            for (int j = 0; j < M; j++) {
                quad<T> b;
                if (SHARE & 2) {
                    NF_UNROLL
                    for (int c = 0; c < 4; c++) b.v[c] = ys[(k + c) * y_pitch + column_of(tx, j)];
                } else {
                    b = fetch(job.y, y_at[column_of(tx, j)], k0 + (unsigned)k, scale);
                }
                NF_UNROLL
                for (int i = 0; i < M; i++) {
                    NF_UNROLL
                    for (int c = 0; c < 4; c++) {
                        if (PRODUCT) {
                            acc[i][j] = fused(a[i].v[c], b.v[c], acc[i][j]);
                        } else {
                            const T difference = a[i].v[c] - b.v[c];
                            acc[i][j] = fused(difference, difference, acc[i][j]);
                        }
                    }
                }
            }
        }
    }

    /* Whether a pair may be a result, by the sums so far. */
    __device__ inline bool any_maybe(const nf_k_refine &job, const uint32_t *x_at, const uint32_t *y_at, uint32_t stop, int tx,
                                     int ty) const
    {
        bool any = false;
        if constexpr (PRODUCT) {
            float y_limit[M];
            NF_UNROLL
            for (int j = 0; j < M; j++) y_limit[j] = job.y_out[stop * job.y_rows + y_at[column_of(tx, j)]];
            NF_UNROLL
            for (int i = 0; i < M; i++) {
                const float x_limit = job.x_out[stop * job.x_rows + x_at[ty * M + i]];
                NF_UNROLL
                for (int j = 0; j < M; j++) any = any || !(acc[i][j] < x_limit + y_limit[j]);
            }
        } else {
            const T limit = (T)job.out_above;
            NF_UNROLL
            for (int i = 0; i < M; i++) {
                NF_UNROLL
                for (int j = 0; j < M; j++) any = any || !(acc[i][j] > limit);
            }
        }
        return any;
    }

    /* The bits of row i: bit j of maybe and sure. */
    __device__ inline void row_bits(const nf_k_refine &job, const uint32_t *x_at, const uint32_t *y_at, int i, int tx, int ty,
                                    uint32_t *maybe, uint32_t *sure) const
    {
        *maybe = *sure = 0;
        if constexpr (PRODUCT) {
            const uint64_t last = job.stop_count - 1, x_row = x_at[ty * M + i];
            const float    x_out = job.x_out[last * job.x_rows + x_row], x_in = job.x_in[x_row];
            NF_UNROLL
            for (int j = 0; j < M; j++) {
                const uint64_t y_row = y_at[column_of(tx, j)];
                *maybe |= (uint32_t)!(acc[i][j] < x_out + job.y_out[last * job.y_rows + y_row]) << j;
                *sure |= (uint32_t)(acc[i][j] >= x_in + job.y_in[y_row]) << j;
            }
        } else {
            const T out_above = (T)job.out_above, sure_upto = (T)job.sure_upto;
            NF_UNROLL
            for (int j = 0; j < M; j++) {
                *maybe |= (uint32_t)!(acc[i][j] > out_above) << j;
                *sure |= (uint32_t)(acc[i][j] <= sure_upto) << j;
            }
        }
        *sure &= *maybe;
    }
};

/* The masks of a tile in shared memory, a row of words per query, and the way from threads' bits to them. */
template <int TILE>
struct tile_masks {
    static constexpr int M = TILE / 16, words = TILE / 32;
    uint32_t row[TILE][words];

    /* All 32 lanes: lanes of equal ty hold one row. Four bits of eight lanes make a word. */
    __device__ inline void put(int query, int tx, uint32_t bits)
    {
        NF_UNROLL
        for (int part = 0; part < M / 4; part++) {
            uint32_t word = (bits >> (4 * part) & 15u) << (4 * (tx % 8));
            word |= __shfl_xor_sync(NF_ALL_LANES, word, 1);
            word |= __shfl_xor_sync(NF_ALL_LANES, word, 2);
            word |= __shfl_xor_sync(NF_ALL_LANES, word, 4);
            if (tx % 8 == 0) row[query][part * 2 + tx / 8] = word;
        }
    }
};

/* Sums over the items of a block, in shared memory, added to the counters at the end. */
struct tally {
    uint64_t hits, compared, rechecked, ties;
};

/* One row of a tile: leaves out what the batch decides elsewhere, sends open pairs to their list, and leaves in sure what
 * is to be delivered. */
template <int TILE>
__device__ inline void settle_row(const nf_k_refine &job, const nf_k_item &item, uint64_t item_number, uint32_t row,
                                  uint32_t query, uint32_t *maybe, uint32_t *sure, tally *sums)
{
    constexpr int  words = TILE / 32;
    const bool     inside = nf_k_inside(job, item.point_from);
    const uint32_t cut = inside && query >= item.point_from ? query - item.point_from + 1 : 0; /* columns up to the query's own */
    NF_UNROLL
    for (int w = 0; w < words; w++) {
        const uint32_t from = (uint32_t)w * 32;
        if (cut >= from + 32) {
            maybe[w] = sure[w] = 0;
        } else if (cut > from) {
            maybe[w] &= ~0u << (cut - from);
            sure[w] &= ~0u << (cut - from);
        }
        uint32_t open = maybe[w] & ~sure[w];
        if (open == 0) continue;
        if (job.exact != 0) {
            nf_k_add(&sums->ties, (uint64_t)__popc(open) * nf_k_weight(job, query, item.point_from));
            if (job.strict == 0) sure[w] |= open;
            continue;
        }
        nf_k_add(&sums->rechecked, (uint64_t)__popc(open));
        uint64_t at = nf_k_add(&job.counters->open, (uint64_t)__popc(open));
        for (; open != 0; open &= open - 1, at++) {
            const uint32_t bit = (uint32_t)__ffs((int)open) - 1, column = from + bit;
            if (at < job.open_capacity) {
                job.open[at] = nf_k_open{query, item.point_from + column, (uint32_t)item_number, row * TILE + column};
            } else if (nf_k_decide(job, query, item.point_from + column)) {
                sure[w] |= 1u << bit;
            }
        }
    }
}

/* Neighbours of the points of a tile, added to their counts: a thread per column. */
template <int TILE>
__device__ inline void count_columns(const nf_k_refine &job, const nf_k_item &item, const tile_masks<TILE> &sure)
{
    if (threadIdx.x >= TILE || threadIdx.x >= item.point_count) return;
    uint32_t count = 0;
    for (uint32_t row = 0; row < item.query_count; row++) {
        count += sure.row[row][threadIdx.x / 32] >> (threadIdx.x % 32) & 1u;
    }
    if (count > 0) atomicAdd(&job.counts[item.point_from + threadIdx.x], count);
}

/* Sends the results of a tile where they go. All threads of the block. */
template <int TILE>
__device__ inline void emit_tile(const nf_k_refine &job, const nf_k_item &item, uint64_t item_number, const uint32_t *x_at,
                                 tile_masks<TILE> &maybe, tile_masks<TILE> &sure, tally *sums)
{
    constexpr int  words = TILE / 32;
    const uint32_t row = threadIdx.x;
    if (row < TILE) { /* whole warps */
        uint32_t       open[words], in[words];
        const uint32_t query = x_at[row];
        NF_UNROLL
        for (int w = 0; w < words; w++) {
            open[w] = row < item.query_count ? maybe.row[row][w] : 0;
            in[w] = row < item.query_count ? sure.row[row][w] : 0;
        }
        settle_row<TILE>(job, item, item_number, row, query, open, in, sums);
        uint32_t count = 0;
        NF_UNROLL
        for (int w = 0; w < words; w++) {
            count += (uint32_t)__popc(in[w]);
            sure.row[row][w] = in[w];
        }
        if (job.emit == NF_K_APPEND) {
            nf_k_store_rows(job, in, words, query, item.point_from);
        } else if (job.emit == NF_K_MASK) {
            for (int w = 0; w < words; w++) {
                if (in[w] != 0) job.mask[(item_number * TILE + row) * words + (uint32_t)w] = in[w];
            }
        } else if (job.emit == NF_K_COUNT && job.half == 0) {
            if (count > 0) atomicAdd(&job.counts[query], count);
        } else if (count > 0) {
            for (int w = 0; w < words; w++) {
                for (uint32_t bits = in[w]; bits != 0; bits &= bits - 1) {
                    const uint32_t point = item.point_from + (uint32_t)w * 32 + (uint32_t)__ffs((int)bits) - 1;
                    if (job.emit == NF_K_COUNT) {
                        nf_k_count_pair(job, query, point);
                    } else {
                        nf_k_store_pair(job, query, point);
                    }
                }
            }
        }
    }
    if (job.emit == NF_K_COUNT && job.half == 0 && nf_k_inside(job, item.point_from)) {
        __syncthreads();
        count_columns<TILE>(job, item, sure);
    }
}

/* What an item of consecutive queries adds to hits and compared (nf_search_counters). A tile of a slice with itself decides
 * half its pairs, for both directions. */
__device__ inline void tally_item(const nf_k_refine &job, const nf_k_item &item, const nf_k_item &flagged, tally *sums)
{
    const uint32_t weight = nf_k_weight(job, item.query_from, item.point_from);
    const uint64_t pairs = (uint64_t)item.query_count * item.point_count;
    const bool     own = weight == 2 && item.query_from == item.point_from;
    if (weight > 0 && flagged.point_count == item.point_count) sums->hits += item.query_count;
    if (weight == 2 && flagged.query_count == item.query_count) sums->hits += item.point_count;
    sums->compared += own ? pairs - item.query_count : weight * pairs;
}

/* The same for listed queries: a row per thread. A query meets only the points behind it where they are of its own group. */
template <int TILE>
__device__ inline void tally_listed(const nf_k_refine &job, const nf_k_item &item, const nf_k_item &flagged,
                                    const uint32_t *x_at, tally *sums)
{
    uint32_t hits = 0, compared = 0;
    if (threadIdx.x < item.query_count) {
        const uint32_t query = x_at[threadIdx.x], weight = nf_k_weight(job, query, item.point_from);
        const uint32_t ahead = query - item.point_from; /* wraps where the query comes before the points */
        const bool     among = weight == 2 && ahead < item.point_count;
        const bool before = weight == 2 && !among && query > item.point_from; /* a slice of its group that lies before it */
        hits = among || before ? 1 : weight;
        compared = among ? 2 * (item.point_count - 1 - ahead) : before ? 0 : weight * item.point_count;
        if (flagged.point_count != item.point_count) hits = 0;
    }
    if (threadIdx.x < TILE) {
        for (unsigned by = 16; by > 0; by /= 2) {
            hits += __shfl_down_sync(NF_ALL_LANES, hits, by);
            compared += __shfl_down_sync(NF_ALL_LANES, compared, by);
        }
        if (threadIdx.x % 32 == 0) {
            nf_k_add(&sums->hits, hits);
            nf_k_add(&sums->compared, compared);
        }
    }
}

/* The masks of a tile's pairs, from the threads' sums. All threads. any: this warp has pairs that may be results. */
template <typename Sums, int TILE>
__device__ inline void make_masks(const nf_k_refine &job, const nf_k_item &item, const Sums &tile, bool any,
                                  const uint32_t *x_at, const uint32_t *y_at, int tx, int ty, tile_masks<TILE> &maybe,
                                  tile_masks<TILE> &sure)
{
    constexpr int M = TILE / 16;
    NF_UNROLL
    for (int i = 0; i < M; i++) {
        uint32_t maybe_bits = 0, sure_bits = 0;
        if (any) tile.row_bits(job, x_at, y_at, i, tx, ty, &maybe_bits, &sure_bits);
        NF_UNROLL
        for (int part = 0; part < M; part += 4) { /* columns beyond the points */
            const int      inside = (int)item.point_count - column_of(tx, part);
            const uint32_t keep = inside >= 4 ? 15u : inside <= 0 ? 0u : (1u << inside) - 1u;
            maybe_bits &= ~(15u << part) | keep << part;
        }
        maybe.put(ty * M + i, tx, maybe_bits);
        sure.put(ty * M + i, tx, sure_bits & maybe_bits);
    }
}

template <typename T, int TILE, int DIMS, bool PRODUCT, int SHARE>
__global__ __launch_bounds__(threads, blocks_wanted<T>(TILE)) void refine_kernel(const __grid_constant__ nf_k_refine job)
{
    using x_side = side<T, TILE, DIMS, (SHARE & 1) != 0>;
    using y_side = side<T, TILE, DIMS, (SHARE & 2) != 0>;
    __shared__ __align__(16) T  x_values[x_side::size];
    __shared__ __align__(16) T  y_values[y_side::size];
    __shared__ uint32_t         x_at[TILE], y_at[TILE];
    __shared__ tile_masks<TILE> maybe, sure;
    __shared__ tally            sums;

    const int      tx = (int)threadIdx.x % 16, ty = (int)threadIdx.x / 16;
    const uint64_t item_count = *job.item_count;
    const T        scale = (T)job.scale;
    const uint32_t dims = job.x.stride;
    if (threadIdx.x == 0) sums = {0, 0, 0, 0};

    for (uint64_t number = blockIdx.x; number < item_count; number += gridDim.x) {
        const nf_k_item flagged = job.items[number], item = nf_k_plain(flagged);
        for (uint32_t row = threadIdx.x; row < TILE; row += threads) { /* missing rows repeat the last one */
            const uint32_t query = item.query_from + min(row, item.query_count - 1);
            x_at[row] = job.list != nullptr ? job.list[query] : query;
            y_at[row] = item.point_from + min(row, item.point_count - 1);
        }
        __syncthreads();

        tile_sums<T, TILE, DIMS, PRODUCT, SHARE> tile;
        x_side                                   x;
        y_side                                   y;
        uint32_t                                 stop = 0;
        int                                      buffer = 0;
        bool                                     alive = true; /* the same for all lanes of a warp */
        x.values = x_values;
        y.values = y_values;
        tile.clear();
        x.prefetch(job.x, x_at, 0, scale);
        y.prefetch(job.y, y_at, 0, scale);
        x.put(0);
        y.put(0);
        __syncthreads();
        for (uint32_t k = 0; k < dims; k += DIMS) {
            const bool more = k + DIMS < dims;
            if (more) {
                x.prefetch(job.x, x_at, k + DIMS, scale);
                y.prefetch(job.y, y_at, k + DIMS, scale);
            }
            if (alive) {
                if constexpr (SHARE == 3) {
                    tile.add_shared(x.chunk(buffer), x_side::pitch, y.chunk(buffer), y_side::pitch, tx, ty);
                } else {
                    tile.add_mixed(job, x_at, y_at, k, scale, x.chunk(buffer), x_side::pitch, y.chunk(buffer), y_side::pitch,
                                   tx, ty);
                }
            }
            buffer ^= 1;
            if (more) {
                x.put(buffer);
                y.put(buffer);
            }
            if (k + DIMS == job.stops[stop] && stop + 1 < job.stop_count) { /* early exit */
                alive = alive && __any_sync(NF_ALL_LANES, tile.any_maybe(job, x_at, y_at, stop, tx, ty));
                stop++;
                if (__syncthreads_or(alive) == 0) break;
            } else {
                __syncthreads();
            }
        }
        const bool any = alive && __any_sync(NF_ALL_LANES, tile.any_maybe(job, x_at, y_at, job.stop_count - 1, tx, ty));
        if (__syncthreads_or(any) != 0) {
            make_masks(job, item, tile, any, x_at, y_at, tx, ty, maybe, sure);
            __syncthreads();
            emit_tile<TILE>(job, item, number, x_at, maybe, sure, &sums);
        }
        if (job.list != nullptr) {
            tally_listed<TILE>(job, item, flagged, x_at, &sums);
        } else if (threadIdx.x == 0) {
            tally_item(job, item, flagged, &sums);
        }
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    nf_k_add(&job.counters->hits, sums.hits);
    nf_k_add(&job.counters->compared, sums.compared);
    nf_k_add(&job.counters->rechecked, sums.rechecked);
    nf_k_add(&job.counters->ties, sums.ties);
}

template <typename T, int TILE, int DIMS, bool PRODUCT, int SHARE>
cudaError_t launch(cudaStream_t stream, const nf_k_refine &job)
{
    void (*const kernel)(const nf_k_refine) = refine_kernel<T, TILE, DIMS, PRODUCT, SHARE>;
    (void)stream;
    NF_LAUNCH(kernel, job.blocks, threads, 0, stream)(job);
    return nf_k_launched();
}

/* The paper's tiling variants (section V-F). */
template <int TILE>
cudaError_t launch_difference(cudaStream_t stream, const nf_k_refine &job)
{
    switch (job.share) {
    case 0: return launch<float, TILE, 8, false, 0>(stream, job);
    case 1: return launch<float, TILE, 8, false, 1>(stream, job);
    case 2: return launch<float, TILE, 8, false, 2>(stream, job);
    default: break;
    }
    return job.x.stride <= 4 ? launch<float, TILE, 4, false, 3>(stream, job) : launch<float, TILE, 8, false, 3>(stream, job);
}

} // namespace

extern "C" cudaError_t nf_k_refine_run(cudaStream_t stream, const nf_k_refine *job)
{
    const bool small = job->tile == 64;
    switch (job->form) {
    case NF_K_WIDE: return launch<double, 64, 8, false, 3>(stream, *job);
    case NF_K_PRODUCT:
        return small ? launch<float, 64, 8, true, 3>(stream, *job) : launch<float, 128, 8, true, 3>(stream, *job);
    default: return small ? launch_difference<64>(stream, *job) : launch_difference<128>(stream, *job);
    }
}
