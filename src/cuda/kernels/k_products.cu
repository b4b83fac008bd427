/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many products of rows with vectors on tensor cores (k_products.h). A block makes tiles of rows x columns of them, one
 * after another; chunks of 32 dims of both sides come through a ring of buffers in shared memory, and the ring goes on into
 * the next tile while the last one's values are looked at. A warp's part is (16 MT) x (8 NT) products in registers.
 *
 * Large tiles are for many products: what is read from the second-level cache and from shared memory grows with 1/rows +
 * 1/columns of a tile and of a warp's part. Small ones spread little work over the device. A value is the same in all: its
 * products are added up by the same instructions in ascending order of dims, zeros beyond the last.
 *
 * Nearest vectors: a thread keeps the least value of each of its rows and where it was; threads meet at the end. Where there
 * are too few rows for all processors, several blocks share a row's vectors and meet in (value, number) keys in memory:
 * their least does not depend on their order.
 */
#include "k_mma_f32.cuh"
#include "k_products.h"

namespace {

/* Tiles: WM x WN warps, a warp makes 16 MT x 8 NT products; STAGES buffers in the ring. KEPT: 0, or up to how many dims rows
 * of x are read once for all tiles of a block, and stay in a panel beside the ring. */
template <int WM, int WN, int MT, int NT, int STAGES, int KEPT = 0>
struct tiling {
    static constexpr int threads = 32 * WM * WN, rows = WM * MT * 16, columns = WN * NT * 8;
    static constexpr int warps_n = WN, mt = MT, nt = NT, stages = STAGES;
    static constexpr int kept = KEPT, x_pitch = KEPT > 0 ? KEPT + 4 : NF_K_TILE_PITCH;
    static constexpr int panel_values = KEPT > 0 ? rows * x_pitch : 0;
    static constexpr int y_at = KEPT > 0 ? 0 : rows * x_pitch;         /* in a buffer: x first, unless it is kept, */
    static constexpr int offset_at = y_at + columns * NF_K_TILE_PITCH; /* offsets last */
    static constexpr int stage_values = offset_at + columns;
    static constexpr int bytes = (panel_values + STAGES * stage_values) * 4;
    static constexpr int blocks = bytes > (113 << 10) ? 1 : 2; /* at least, of a processor with 228 KB */
    static_assert(stages >= 2, "a chunk is on its way while another is in use");
    static_assert(rows * warps_n * 8 <= bytes, "keys fit where the ring was");
};
using wide = tiling<2, 4, 4, 8, 4>;          /* 128 x 256, 220 KB */
using wide_kept = tiling<2, 4, 4, 8, 3, 192>; /* 128 x 256, 209 KB */
using square = tiling<2, 2, 4, 8, 2>;        /* 128 x 128,  73 KB */
using square_kept = tiling<2, 2, 4, 8, 2, 128>; /* 128 x 128, 103 KB */
using low = tiling<2, 2, 2, 4, 3>;           /*  64 x  64,  55 KB */
using flat = tiling<1, 4, 1, 1, 8>;          /*  16 x  32,  55 KB */

/* What the host decides: y tiles per block, and where values or labels go. */
struct output {
    uint32_t            tiles;    /* columns of tiles that a block makes, one after the other */
    uint32_t            x_tiles;
    float              *values;   /* values: */
    unsigned long long  stride;
    uint32_t           *labels;   /* nearest: */
    float              *least;    /* or NULL */
    unsigned long long *keys;     /* or NULL: blocks do not share rows */
};

/* ---- least values ---- */

constexpr unsigned long long no_key = ~0ull; /* of a row whose values are all NaN */

/* Orders as (value, number) do; 0 and -0 are equal. */
__device__ inline unsigned long long key_of(float value, uint32_t number)
{
    const uint32_t bits = __float_as_uint(value + 0.0f);
    const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return (unsigned long long)ordered << 32 | number;
}

__device__ inline void deliver_key(unsigned long long key, uint32_t row, uint32_t *labels, float *least)
{
    const uint32_t ordered = (uint32_t)(key >> 32);
    const uint32_t bits = (ordered >> 31) != 0 ? ordered & 0x7fffffffu : ~ordered;
    labels[row] = key == no_key ? 0 : (uint32_t)key;
    if (least != nullptr) least[row] = __uint_as_float(key == no_key ? 0x7fffffffu : bits);
}

/* The least value so far of a row, and the lowest number that has it; a thread's own. */
struct candidate {
    float    value;
    uint32_t number; /* ~0: none yet */
};

/* ---- the ring ---- */

/* Brings chunks of dims into the ring, tile after tile. A thread copies 16 bytes of every (threads / 8)-th row. */
template <typename T>
struct feeder {
    static constexpr int step = T::threads / 8;
    static_assert(T::rows % step == 0 && T::columns % step == 0, "all threads copy the same");
    const float *x, *y;    /* this thread's first row, at its own dims */
    uint32_t     x_row, y_row, k, column;
    bool         x_there; /* the panel holds all of x's rows */

    __device__ inline void start(const nf_k_products &job, uint32_t first_row, uint32_t first_column)
    {
        const uint32_t row = threadIdx.x / 8, quad = threadIdx.x % 8;
        x_row = first_row + row;
        y_row = first_column + row;
        column = first_column;
        k = 0;
        x_there = false;
        x = job.x + (uint64_t)x_row * job.x_stride + 4 * quad;
        y = job.y + (uint64_t)y_row * job.y_stride + 4 * quad;
    }

    /* Every step-th row, from this thread's first on. */
    template <int ROWS, int PITCH>
    static __device__ inline void copy(const float *from, uint32_t stride, uint32_t row, uint32_t rows, bool inside,
                                       float *to)
    {
        to += (threadIdx.x / 8) * PITCH + 4 * (threadIdx.x % 8);
        NF_UNROLL
        for (int i = 0; i < ROWS / step; i++) {
            const bool here = inside && row + (uint32_t)(i * step) < rows;
            nf_k_copy_16(to + i * step * PITCH, from + (uint64_t)(i * step) * stride, here);
        }
    }

    /* The next chunk, into a buffer. */
    __device__ inline void bring(const nf_k_products &job, float *panel, float *buffer)
    {
        const bool inside = k + 4 * (threadIdx.x % 8) < job.dims;
        if (T::kept == 0 || !x_there) {
            copy<T::rows, T::x_pitch>(x + k, job.x_stride, x_row, job.x_rows, inside, T::kept > 0 ? panel + k : buffer);
        }
        copy<T::columns, NF_K_TILE_PITCH>(y + k, job.y_stride, y_row, job.y_rows, inside, buffer + T::y_at);
        k += NF_K_TILE_DIMS;
        if (k >= job.dims) next_tile(job, buffer);
    }

    /* Offsets come with the last chunk of a tile. */
    __device__ inline void next_tile(const nf_k_products &job, float *buffer)
    {
        for (uint32_t i = threadIdx.x; i < (uint32_t)T::columns; i += T::threads) {
            const bool here = job.offset != nullptr && column + i < job.y_rows;
            nf_k_copy_4(buffer + T::offset_at + i, here ? job.offset + column + i : job.x, here);
        }
        k = 0;
        x_there = true;
        column += T::columns;
        y_row += T::columns;
        y += (uint64_t)T::columns * job.y_stride;
    }
};

/* ---- a warp's part of a tile ---- */

template <typename T, bool PRECISE>
struct products {
    float acc[T::mt][T::nt][4];

    __device__ inline void clear()
    {
        NF_UNROLL
        for (int m = 0; m < T::mt; m++) {
            NF_UNROLL
            for (int n = 0; n < T::nt; n++) {
                NF_UNROLL
                for (int c = 0; c < 4; c++) acc[m][n][c] = 0.0f;
            }
        }
    }

    /* Eight dims. x, y: this warp's rows in a buffer. */
    __device__ inline void add_step(const float *x, const float *y)
    {
        uint32_t b[T::nt][2], b_low[PRECISE ? T::nt : 1][2];
        load_columns(y, b, b_low);
        NF_UNROLL
        for (int m = 0; m < T::mt; m++) {
            float    raw[4];
            uint32_t a[4], a_low[4];
            nf_k_load_a<T::x_pitch>(x + m * 16 * T::x_pitch, raw);
            NF_UNROLL
            for (int c = 0; c < 4; c++) {
                if constexpr (PRECISE) {
                    a_low[c] = nf_k_split_tf32(raw[c], &a[c]);
                } else {
                    a[c] = nf_k_to_tf32(raw[c]);
                }
            }
            if constexpr (PRECISE) { /* a low part times a low part is below what the sum can hold */
                NF_UNROLL
                for (int n = 0; n < T::nt; n++) nf_k_mma_tf32(acc[m][n], a_low, b[n]);
                NF_UNROLL
                for (int n = 0; n < T::nt; n++) nf_k_mma_tf32(acc[m][n], a, b_low[n]);
            }
            NF_UNROLL
            for (int n = 0; n < T::nt; n++) nf_k_mma_tf32(acc[m][n], a, b[n]);
        }
    }

    static __device__ inline void load_columns(const float *y, uint32_t b[][2], uint32_t b_low[][2])
    {
        constexpr int at_once = T::nt == 1 ? 1 : 2;
        NF_UNROLL
        for (int n = 0; n < T::nt; n += at_once) {
            float raw[2 * at_once];
            if constexpr (at_once == 1) {
                nf_k_load_b(y + n * 8 * NF_K_TILE_PITCH, raw);
            } else {
                nf_k_load_b_pair(y + n * 8 * NF_K_TILE_PITCH, raw);
            }
            NF_UNROLL
            for (int c = 0; c < 2 * at_once; c++) {
                if constexpr (PRECISE) {
                    b_low[n + c / 2][c % 2] = nf_k_split_tf32(raw[c], &b[n + c / 2][c % 2]);
                } else {
                    b[n + c / 2][c % 2] = nf_k_to_tf32(raw[c]);
                }
            }
        }
    }

    /* From sums to values; columns from limit on (from this thread's first) become NaN, which is never the least. */
    __device__ inline void finish(const float *offset, uint32_t limit)
    {
        NF_UNROLL
        for (int n = 0; n < T::nt; n++) {
            NF_UNROLL
            for (int c = 0; c < 2; c++) {
                const float from = (uint32_t)(8 * n + c) < limit ? offset[8 * n + c] : __uint_as_float(0x7fffffffu);
                NF_UNROLL
                for (int m = 0; m < T::mt; m++) {
                    acc[m][n][c] = from - acc[m][n][c];
                    acc[m][n][c + 2] = from - acc[m][n][c + 2];
                }
            }
        }
    }

    /* half 0: rows g of the row tiles of 16, 1: g + 8. first: number of this thread's first column. */
    __device__ inline void keep_least(int m, int half, uint32_t first, candidate *best) const
    {
        float value = acc[m][0][2 * half];
        NF_UNROLL
        for (int n = 0; n < T::nt; n++) value = fminf(value, fminf(acc[m][n][2 * half], acc[m][n][2 * half + 1]));
        if (value < best->value || (best->number == ~0u && value == value)) {
            uint32_t at = 0;
            NF_UNROLL
            for (int n = T::nt - 1; n >= 0; n--) {
                if (acc[m][n][2 * half + 1] == value) at = (uint32_t)(8 * n + 1);
                if (acc[m][n][2 * half] == value) at = (uint32_t)(8 * n);
            }
            *best = candidate{value, first + at};
        }
    }
};

/* Where a thread stands in its block's tile. */
template <typename T>
struct place {
    int row, column; /* of the warp's part */
    int g, t;        /* of the lane in fragments */

    __device__ inline place()
    {
        const int warp = (int)(threadIdx.x / 32), lane = (int)(threadIdx.x % 32);
        row = warp / T::warps_n * T::mt * 16;
        column = warp % T::warps_n * T::nt * 8;
        g = lane / 4;
        t = lane % 4;
    }
};

/* Candidates of a block's threads to labels, or to the keys that blocks share. */
template <typename T>
__device__ inline void settle(const nf_k_products &job, const output &out, uint32_t first_row, const place<T> &at,
                              const candidate best[T::mt][2], unsigned long long *keys)
{
    __syncthreads(); /* the ring is free */
    NF_UNROLL
    for (int m = 0; m < T::mt; m++) {
        NF_UNROLL
        for (int half = 0; half < 2; half++) {
            const candidate    mine = best[m][half];
            unsigned long long key = mine.number == ~0u ? no_key : key_of(mine.value, mine.number);
            key = min(key, __shfl_xor_sync(0xffffffffu, key, 1));
            key = min(key, __shfl_xor_sync(0xffffffffu, key, 2));
            if (at.t == 0) keys[(at.row + 16 * m + 8 * half + at.g) * T::warps_n + at.column / (T::nt * 8)] = key;
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < (uint32_t)T::rows && first_row + i < job.x_rows; i += T::threads) {
        unsigned long long key = keys[i * T::warps_n];
        for (int w = 1; w < T::warps_n; w++) key = min(key, keys[i * T::warps_n + (uint32_t)w]);
        if (out.keys != nullptr) {
            atomicMin(&out.keys[first_row + i], key);
        } else {
            deliver_key(key, first_row + i, out.labels, out.least);
        }
    }
}

/* A tile's values to memory. row, column: this thread's first. */
template <typename T, bool PRECISE>
__device__ inline void store(const products<T, PRECISE> &sums, const nf_k_products &job, const output &out, uint32_t row,
                             uint32_t column)
{
    const bool paired = out.stride % 2 == 0 && reinterpret_cast<uintptr_t>(out.values) % 8 == 0;
    NF_UNROLL
    for (int m = 0; m < T::mt; m++) {
        NF_UNROLL
        for (int half = 0; half < 2; half++) {
            const uint32_t i = row + (uint32_t)(16 * m + 8 * half);
            float         *to = out.values + (uint64_t)i * out.stride + column;
            if (i >= job.x_rows) continue;
            NF_UNROLL
            for (int n = 0; n < T::nt; n++) {
                const uint32_t j = column + (uint32_t)(8 * n);
                const float    first = sums.acc[m][n][2 * half], second = sums.acc[m][n][2 * half + 1];
                if (paired && j + 1 < job.y_rows) {
                    *reinterpret_cast<float2 *>(to + 8 * n) = make_float2(first, second);
                } else {
                    if (j < job.y_rows) to[8 * n] = first;
                    if (j + 1 < job.y_rows) to[8 * n + 1] = second;
                }
            }
        }
    }
}

/* Blocks go over row tiles first, so that those at work share columns. */
template <typename T, bool PRECISE, bool NEAREST>
__device__ inline void make_tiles(const nf_k_products &job, const output &out, unsigned char *shared)
{
    float *const   panel = reinterpret_cast<float *>(shared), *const ring = panel + T::panel_values;
    const place<T> at;
    const uint32_t first_row = blockIdx.x % out.x_tiles * T::rows, tile = blockIdx.x / out.x_tiles * out.tiles;
    const uint32_t tiles = min(out.tiles, (job.y_rows - 1) / T::columns + 1 - tile);
    const uint32_t chunks = max((job.dims + NF_K_TILE_DIMS - 1) / NF_K_TILE_DIMS, 1u);
    const bool     in_use = first_row + (uint32_t)at.row < job.x_rows; /* this warp's rows */

    products<T, PRECISE> sums;
    feeder<T>            feed;
    candidate            best[NEAREST ? T::mt : 1][2];
    uint32_t             column = tile * T::columns + (uint32_t)(at.column + 2 * at.t), left = tiles * chunks, chunk = 0;
    int                  read = 0, write = T::stages - 1;

    NF_UNROLL
    for (int m = 0; m < (NEAREST ? T::mt : 1); m++) best[m][0] = best[m][1] = candidate{INFINITY, ~0u};
    sums.clear();
    feed.start(job, first_row, tile * T::columns);
    NF_UNROLL
    for (int s = 0; s < T::stages - 1; s++) {
        if ((uint32_t)s < left) feed.bring(job, panel, ring + s * T::stage_values);
        nf_k_copies_end();
    }
    for (; left > 0; left--) {
        nf_k_copies_wait<T::stages - 2>();
        __syncthreads(); /* a chunk is there, and the buffer before it has been read by all */
        if (left >= (uint32_t)T::stages) feed.bring(job, panel, ring + write * T::stage_values);
        nf_k_copies_end();
        write = write + 1 == T::stages ? 0 : write + 1;
        const float *buffer = ring + read * T::stage_values;
        read = read + 1 == T::stages ? 0 : read + 1;
        if (in_use && column - 2 * (uint32_t)at.t < job.y_rows) {
            const float *x = (T::kept > 0 ? panel + chunk * NF_K_TILE_DIMS : buffer) + at.row * T::x_pitch;
            const float *y = buffer + T::y_at + at.column * NF_K_TILE_PITCH;
            NF_K_UNROLL_MMA
            for (int k = 0; k < NF_K_TILE_DIMS; k += 8) sums.add_step(x + k, y + k);
        }
        if (++chunk < chunks) continue;
        sums.finish(buffer + T::offset_at + at.column + 2 * at.t, job.y_rows > column ? job.y_rows - column : 0);
        if constexpr (NEAREST) {
            NF_UNROLL
            for (int m = 0; m < T::mt; m++) {
                sums.keep_least(m, 0, column, &best[m][0]);
                sums.keep_least(m, 1, column, &best[m][1]);
            }
        } else {
            store(sums, job, out, first_row + (uint32_t)(at.row + at.g), column);
        }
        sums.clear();
        chunk = 0;
        column += T::columns;
    }
    if constexpr (NEAREST) settle(job, out, first_row, at, best, reinterpret_cast<unsigned long long *>(shared));
}

/* Whether code without tensor cores is made for a tiling: passing values around takes so many instructions that the large
 * ones would take minutes to compile. */
template <typename T>
constexpr bool small_tiling = T::mt * T::nt <= 8;

template <typename T, bool PRECISE, bool NEAREST>
__global__ void __launch_bounds__(T::threads, T::blocks)
    make_products(const __grid_constant__ nf_k_products job, const __grid_constant__ output out)
{
    NF_SHARED_BYTES(shared);
#if defined(__CUDA_ARCH__) && !defined(NF_K_HAS_TF32)
    if constexpr (small_tiling<T>) make_tiles<T, PRECISE, NEAREST>(job, out, shared);
#else
    make_tiles<T, PRECISE, NEAREST>(job, out, shared);
#endif
}

__global__ void deliver_keys(const unsigned long long *keys, uint32_t rows, uint32_t *labels, float *least)
{
    const uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) deliver_key(keys[row], row, labels, least);
}

/* A warp per row. */
__global__ void half_squares(const float *y, uint32_t rows, uint32_t dims, uint32_t stride, float *halves)
{
    const uint64_t row = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    double         sum = 0.0;
    if (row >= rows) return;
    for (uint32_t k = threadIdx.x % 32; k < dims; k += 32) {
        const double value = (double)y[row * stride + k];
        sum = __fma_rn(value, value, sum);
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) halves[row] = (float)(sum / 2);
}

/* ---- which tiles ---- */

constexpr int per_block = 1 << 10; /* shared memory that the system takes for itself */

struct device_limits {
    int processors, shared_bytes, major;
};

cudaError_t limits_of_device(device_limits *limits)
{
    int         device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&limits->processors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&limits->major, cudaDevAttrComputeCapabilityMajor, device);
    if (error != cudaSuccess) return error;
    return cudaDeviceGetAttribute(&limits->shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
}

uint64_t over(uint64_t count, uint64_t by)
{
    return (count + by - 1) / by;
}

/* How a job is cut, and about how long that takes. */
struct plan {
    uint64_t x_tiles, tiles, parts; /* tiles: of columns, in a part; parts of the columns: blocks are x_tiles * parts */
    double   cost;
};

/* speed: of a tiling when all processors work, relative to wide. spread: tiles of columns may go to blocks of their own. */
template <typename T>
plan plan_of(const nf_k_products &job, const device_limits &limits, double speed, bool spread)
{
    const uint64_t processors = (uint64_t)max(limits.processors, 1), y_tiles = over(job.y_rows, T::columns);
    plan           out = {over(job.x_rows, T::rows), y_tiles, 1, 0.0};

    if (spread && out.x_tiles < 4 * processors) { /* with more blocks than that the ring would start anew more often */
        out.tiles = over(y_tiles, min(over(8 * processors, out.x_tiles), y_tiles));
        out.parts = over(y_tiles, out.tiles);
    }
    out.cost = (double)(over(out.x_tiles * out.parts, processors) * out.tiles) * T::rows * T::columns / speed;
    const int in_use = T::kept > 0 ? T::blocks * (T::bytes + per_block) - per_block : T::bytes;
    if (in_use > limits.shared_bytes || (T::kept > 0 && job.dims > (uint32_t)T::kept)) out.cost = INFINITY;
    if (limits.major < 8 && !small_tiling<T>) out.cost = INFINITY;
    return out;
}

template <typename T, bool PRECISE, bool NEAREST>
cudaError_t launch_as(const nf_k_products &job, const plan &as, output out, cudaStream_t stream)
{
    const cudaError_t error = cudaFuncSetAttribute(make_products<T, PRECISE, NEAREST>,
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, T::bytes);
    if (error != cudaSuccess) return error;
    out.x_tiles = (uint32_t)as.x_tiles;
    out.tiles = (uint32_t)as.tiles;
    NF_LAUNCH((make_products<T, PRECISE, NEAREST>), (unsigned)(as.x_tiles * as.parts), T::threads, T::bytes, stream)
    (job, out);
    return nf_k_launched();
}

template <typename T, bool NEAREST>
cudaError_t launch(const nf_k_products &job, const plan &as, output out, cudaStream_t stream)
{
    if (!NEAREST || as.parts == 1) out.keys = nullptr;
    if (NEAREST && as.parts > 1) {
        const cudaError_t error = cudaMemsetAsync(out.keys, 0xff, sizeof *out.keys * job.x_rows, stream);
        if (error != cudaSuccess) return error;
    }
    const cudaError_t error = job.precise ? launch_as<T, true, NEAREST>(job, as, out, stream)
                                          : launch_as<T, false, NEAREST>(job, as, out, stream);
    if (error != cudaSuccess || out.keys == nullptr) return error;
    NF_LAUNCH(deliver_keys, nf_k_blocks(job.x_rows, 256), 256, 0, stream)(out.keys, job.x_rows, out.labels, out.least);
    return nf_k_launched();
}

template <bool NEAREST>
cudaError_t launch_best(const nf_k_products &job, const output &out, cudaStream_t stream)
{
    device_limits     limits;
    const bool        spread = !NEAREST || out.keys != nullptr;
    const cudaError_t error = limits_of_device(&limits);
    if (error != cudaSuccess) return error;

    const plan square_kepts = plan_of<square_kept>(job, limits, 1.15, spread);
    const plan wide_kepts = plan_of<wide_kept>(job, limits, 1.1, spread);
    const plan wides = plan_of<wide>(job, limits, 1.0, spread);
    const plan squares = plan_of<square>(job, limits, 0.75, spread);
    const plan lows = plan_of<low>(job, limits, 0.5, spread);
    const plan flats = plan_of<flat>(job, limits, 0.15, spread);
    const double least = min(min(min(square_kepts.cost, wide_kepts.cost), min(wides.cost, squares.cost)),
                             min(lows.cost, flats.cost));
    if (square_kepts.cost <= least) return launch<square_kept, NEAREST>(job, square_kepts, out, stream);
    if (wide_kepts.cost <= least) return launch<wide_kept, NEAREST>(job, wide_kepts, out, stream);
    if (wides.cost <= least) return launch<wide, NEAREST>(job, wides, out, stream);
    if (squares.cost <= least) return launch<square, NEAREST>(job, squares, out, stream);
    if (lows.cost <= least) return launch<low, NEAREST>(job, lows, out, stream);
    return launch<flat, NEAREST>(job, flats, out, stream);
}

} // namespace

extern "C" cudaError_t nf_k_nearest(const nf_k_products *job, uint32_t *labels, float *least, cudaStream_t stream)
{
    output out = {};
    if (job->x_rows == 0) return cudaSuccess;
    out.labels = labels;
    out.least = least;
    out.keys = reinterpret_cast<unsigned long long *>(job->keys);
    return launch_best<true>(*job, out, stream);
}

extern "C" cudaError_t nf_k_values(const nf_k_products *job, float *values, uint64_t out_stride, cudaStream_t stream)
{
    output out = {};
    if (job->x_rows == 0 || job->y_rows == 0) return cudaSuccess;
    out.values = values;
    out.stride = out_stride;
    return launch_best<false>(*job, out, stream);
}

extern "C" cudaError_t nf_k_half_squares(const float *y, uint32_t rows, uint32_t dims, uint32_t stride, float *halves,
                                         cudaStream_t stream)
{
    NF_LAUNCH(half_squares, nf_k_blocks(32ull * rows, 256), 256, 0, stream)(y, rows, dims, stride, halves);
    return nf_k_launched();
}
