/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotation of rows. The fast one makes the additions of k_rotate_scalar.c in the same pairs and stages, so bits are equal.
 *
 * A team of threads takes a row and holds it in shared memory. Stages of the Hadamard transform are made in registers, up to
 * five at a time: a thread reads the 2^w values whose numbers differ in w neighbouring bits, combines them and writes them
 * back, so that a transform of 2^9 values passes through shared memory twice. Signs are applied where values are read first,
 * the factor where they are written last; values outside the transform get their signs when the halves are mixed. Four
 * floats are left free after every 32: neighbouring threads then meet different banks in every pass.
 *
 * A dense rotation is a product of matrices, tile by tile.
 */
#include "k_encode.h"
#include "k_launch.h"

namespace {

/* ---- fast ---- */

/* How a transform of 2^LOG_P values is made. */
template <int LOG_P>
struct shape {
    static constexpr int stages = LOG_P <= 3   ? 3 /* of one pass */
                                  : LOG_P == 4 ? 4
                                  : LOG_P <= 6 ? 3
                                  : LOG_P <= 8 ? 4
                                  : LOG_P <= 10 ? 5
                                  : LOG_P <= 12 ? 4
                                                : 5;
    static constexpr int team = 1 << (LOG_P - stages); /* threads of a row */
    static constexpr int block = team < 128 ? 128 : team;
};

struct fast_rotation {
    const uint8_t *signs;
    const float   *in;
    float         *out;
    uint32_t       dims, padded, in_stride, out_stride, count, pitch; /* pitch: of a row in shared memory */
    float          scale;
    uint32_t       wide_in, wide_out; /* rows may be read or written four values at a time */
};

__device__ inline uint32_t place(uint32_t i)
{
    return i + i / 32 * 4;
}

template <int TEAM>
__device__ inline void wait_for_team()
{
    if (TEAM <= 32) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

__device__ inline float negated_if(float value, uint32_t negate)
{
    return __uint_as_float(__float_as_uint(value) ^ (negate & 1u) << 31);
}

__device__ inline float4 four_at(const float *row, uint32_t i)
{
    return *reinterpret_cast<const float4 *>(row + place(i));
}

__device__ inline void put_four(float *row, uint32_t i, float4 v)
{
    *reinterpret_cast<float4 *>(row + place(i)) = v;
}

/* The stages of SIZE values that a thread holds. */
template <int SIZE>
__device__ inline void butterflies(float *v)
{
    NF_UNROLL
    for (int half = 1; half < SIZE; half *= 2) {
        NF_UNROLL
        for (int j = 0; j < SIZE; j++) {
            if ((j & half) != 0) continue;
            const float a = v[j], b = v[j + half];
            v[j] = a + b;
            v[j + half] = a - b;
        }
    }
}

/* The first pass: neighbouring values, with their signs. */
template <int STAGES, bool LAST>
__device__ inline void first_pass(float *row, const uint8_t *signs, uint32_t offset, uint32_t member, float scale)
{
    constexpr int  SIZE = 1 << STAGES;
    const uint32_t begin = offset + member * SIZE;
    float          v[SIZE];

    NF_UNROLL
    for (int j = 0; j < SIZE; j += 4) {
        const uint32_t negate = (uint32_t)signs[(begin + (uint32_t)j) / 8] >> (j % 8);
        const float4   four = four_at(row, begin + (uint32_t)j);
        v[j] = negated_if(four.x, negate);
        v[j + 1] = negated_if(four.y, negate >> 1);
        v[j + 2] = negated_if(four.z, negate >> 2);
        v[j + 3] = negated_if(four.w, negate >> 3);
    }
    butterflies<SIZE>(v);
    NF_UNROLL
    for (int j = 0; j < SIZE; j += 4) {
        float4 four = make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]);
        if (LAST) four = make_float4(four.x * scale, four.y * scale, four.z * scale, four.w * scale);
        put_four(row, begin + (uint32_t)j, four);
    }
}

/* A later pass: values whose numbers differ in bits BIT .. BIT + STAGES - 1. */
template <int LOG_P, int BIT, int STAGES>
__device__ inline void later_pass(float *row, uint32_t offset, uint32_t member, float scale)
{
    constexpr int      SIZE = 1 << STAGES, SETS = (1 << (LOG_P - STAGES)) / shape<LOG_P>::team;
    constexpr uint32_t below = (1u << BIT) - 1;
    NF_UNROLL
    for (int set = 0; set < SETS; set++) {
        const uint32_t n = member + (uint32_t)set * shape<LOG_P>::team;
        const uint32_t begin = offset + ((n & ~below) << STAGES) + (n & below);
        float          v[SIZE];
        NF_UNROLL
        for (int j = 0; j < SIZE; j++) v[j] = row[place(begin + ((uint32_t)j << BIT))];
        butterflies<SIZE>(v);
        NF_UNROLL
        for (int j = 0; j < SIZE; j++) {
            row[place(begin + ((uint32_t)j << BIT))] = BIT + STAGES == LOG_P ? v[j] * scale : v[j];
        }
    }
}

template <int LOG_P, int BIT>
__device__ inline void later_passes(float *row, uint32_t offset, uint32_t member, float scale)
{
    if constexpr (BIT < LOG_P) {
        constexpr int STAGES = LOG_P - BIT < shape<LOG_P>::stages ? LOG_P - BIT : shape<LOG_P>::stages;
        wait_for_team<shape<LOG_P>::team>();
        later_pass<LOG_P, BIT, STAGES>(row, offset, member, scale);
        later_passes<LOG_P, BIT + STAGES>(row, offset, member, scale);
    }
}

/* Four values with their signs where they are outside [from, to), which the transform took care of. */
__device__ inline float4 signed_outside(float4 v, uint32_t i, uint32_t from, uint32_t to, const uint8_t *signs)
{
    if (i >= from && i < to) return v;
    const uint32_t negate = (uint32_t)signs[i / 8] >> (i % 8);
    return make_float4(negated_if(v.x, negate), negated_if(v.y, negate >> 1), negated_if(v.z, negate >> 2),
                       negated_if(v.w, negate >> 3));
}

/* Kac's mixing of halves; half a row is a multiple of four. */
template <int TEAM>
__device__ inline void mix(float *row, const uint8_t *signs, uint32_t padded, uint32_t from, uint32_t to, uint32_t member)
{
    const uint32_t half = padded / 2;
    for (uint32_t i = member * 4; i < half; i += TEAM * 4) {
        const float4 a = signed_outside(four_at(row, i), i, from, to, signs);
        const float4 b = signed_outside(four_at(row, half + i), half + i, from, to, signs);
        put_four(row, i, make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w));
        put_four(row, half + i, make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w));
    }
}

template <int TEAM>
__device__ inline void load_row(const fast_rotation &job, uint64_t number, uint32_t member, float *row)
{
    const float *from = job.in + number * job.in_stride;
    NF_UNROLL
    for (uint32_t i = member * 4; i < job.padded; i += TEAM * 4) {
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (job.wide_in != 0 && i + 4 <= job.dims) {
            v = *reinterpret_cast<const float4 *>(from + i);
        } else {
            if (i < job.dims) v.x = from[i];
            if (i + 1 < job.dims) v.y = from[i + 1];
            if (i + 2 < job.dims) v.z = from[i + 2];
            if (i + 3 < job.dims) v.w = from[i + 3];
        }
        put_four(row, i, v);
    }
}

/* With a last factor of 1/4, exact, where halves were mixed. */
template <int TEAM>
__device__ inline void store_row(const fast_rotation &job, uint64_t number, uint32_t member, float factor, const float *row)
{
    float *to = job.out + number * job.out_stride;
    for (uint32_t i = member * 4; i < job.out_stride; i += TEAM * 4) {
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i < job.padded) {
            v = four_at(row, i);
            v = make_float4(v.x * factor, v.y * factor, v.z * factor, v.w * factor);
        }
        if (job.wide_out != 0) {
            *reinterpret_cast<float4 *>(to + i) = v;
        } else {
            to[i] = v.x;
            if (i + 1 < job.out_stride) to[i + 1] = v.y;
            if (i + 2 < job.out_stride) to[i + 2] = v.z;
            if (i + 3 < job.out_stride) to[i + 3] = v.w;
        }
    }
}

template <int LOG_P>
__global__ void __launch_bounds__(shape<LOG_P>::block) rotate_fast(const __grid_constant__ fast_rotation job)
{
    constexpr int      TEAM = shape<LOG_P>::team, STAGES = shape<LOG_P>::stages, ROWS = shape<LOG_P>::block / TEAM;
    constexpr uint32_t P = 1u << LOG_P;
    NF_SHARED_BYTES(shared);
    const uint32_t team = threadIdx.x / TEAM, member = threadIdx.x % TEAM;
    const uint64_t number = (uint64_t)blockIdx.x * ROWS + team;
    const bool     here = number < job.count, mixed = P < job.padded;
    float         *row = reinterpret_cast<float *>(shared) + (size_t)team * job.pitch;

    if (here) load_row<TEAM>(job, number, member, row);
    for (uint32_t round = 0; round < NF_IVF_ROUNDS; round++) {
        const uint32_t offset = round % 2 == 0 ? 0 : job.padded - P;
        const uint8_t *signs = job.signs + round * (job.padded / 8);
        wait_for_team<TEAM>();
        first_pass<STAGES, STAGES == LOG_P>(row, signs, offset, member, job.scale);
        later_passes<LOG_P, STAGES>(row, offset, member, job.scale);
        if (!mixed) continue;
        wait_for_team<TEAM>();
        mix<TEAM>(row, signs, job.padded, offset, offset + P, member);
    }
    wait_for_team<TEAM>();
    if (here) store_row<TEAM>(job, number, member, mixed ? 0.25f : 1.0f, row);
}

/* Floats of a row in shared memory. Rows of teams in the same warp lie as far apart, in banks, as their threads. */
uint32_t pitch_of(uint32_t padded, uint32_t team)
{
    uint32_t pitch = padded + (padded + 31) / 32 * 4;
    if (team < 4 || team >= 32) return pitch;
    while (pitch % 32 != team) pitch += 4;
    return pitch;
}

template <int LOG_P>
cudaError_t launch_fast(fast_rotation job, cudaStream_t stream)
{
    constexpr uint32_t TEAM = shape<LOG_P>::team, THREADS = shape<LOG_P>::block, ROWS = THREADS / TEAM;
    job.pitch = pitch_of(job.padded, TEAM);
    NF_LAUNCH(rotate_fast<LOG_P>, nf_k_blocks(job.count, ROWS), THREADS, ROWS * job.pitch * sizeof(float), stream)(job);
    return nf_k_launched();
}

bool aligned_rows(const float *rows, uint32_t stride)
{
    return (uintptr_t)rows % 16 == 0 && stride % 4 == 0;
}

/* ---- dense ---- */

constexpr uint32_t TILE = 64, DEPTH = 16, DENSE_BLOCK = 256;

struct dense_rotation {
    const float *matrix, *in;
    float       *out;
    uint32_t     dims, padded, in_stride, out_stride, count;
};

/* Up to TILE rows of DEPTH values from k on, transposed; zeros beyond rows and dims. */
__device__ inline void load_tile(const float *from, uint32_t stride, uint64_t first, uint64_t rows, uint32_t k,
                                 uint32_t dims, float (*tile)[TILE + 4])
{
    NF_UNROLL
    for (uint32_t n = threadIdx.x; n < TILE * DEPTH; n += DENSE_BLOCK) {
        const uint32_t row = n / DEPTH, dim = n % DEPTH;
        const bool     inside = first + row < rows && k + dim < dims;
        tile[dim][row] = inside ? from[(first + row) * stride + k + dim] : 0.0f;
    }
}

/* A block computes TILE outputs of TILE rows, a thread 4 x 4. */
__global__ void __launch_bounds__(DENSE_BLOCK) rotate_dense(const __grid_constant__ dense_rotation job)
{
    __shared__ __align__(16) float rows[DEPTH][TILE + 4];
    __shared__ __align__(16) float lines[DEPTH][TILE + 4];
    const uint64_t first_row = (uint64_t)blockIdx.x * TILE;
    const uint32_t first_line = blockIdx.y * TILE, x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
    float          sum[4][4] = {};

    for (uint32_t k = 0; k < job.dims; k += DEPTH) {
        load_tile(job.in, job.in_stride, first_row, job.count, k, job.dims, rows);
        load_tile(job.matrix, job.padded, first_line, job.padded, k, job.dims, lines);
        __syncthreads();
        NF_UNROLL
        for (uint32_t d = 0; d < DEPTH; d++) {
            const float4 a4 = *reinterpret_cast<const float4 *>(&rows[d][y]);
            const float4 b4 = *reinterpret_cast<const float4 *>(&lines[d][x]);
            const float  a[4] = {a4.x, a4.y, a4.z, a4.w}, b[4] = {b4.x, b4.y, b4.z, b4.w};
            NF_UNROLL
            for (int i = 0; i < 4; i++) {
                NF_UNROLL
                for (int j = 0; j < 4; j++) sum[i][j] = __fmaf_rn(a[i], b[j], sum[i][j]);
            }
        }
        __syncthreads();
    }
    NF_UNROLL
    for (int i = 0; i < 4; i++) {
        if (first_row + y + (uint32_t)i >= job.count) break;
        NF_UNROLL
        for (int j = 0; j < 4; j++) { /* beyond padded the sums are zero */
            const uint32_t line = first_line + x + (uint32_t)j;
            if (line < job.out_stride) job.out[(first_row + y + (uint32_t)i) * job.out_stride + line] = sum[i][j];
        }
    }
}

cudaError_t launch_dense(const dense_rotation &job, cudaStream_t stream)
{
    if (job.in == job.out) return cudaErrorInvalidValue;
    const dim3 grid(nf_k_blocks(job.count, TILE), nf_k_blocks(job.out_stride, TILE));
    NF_LAUNCH(rotate_dense, grid, DENSE_BLOCK, 0, stream)(job);
    return nf_k_launched();
}

} // namespace

extern "C" cudaError_t nf_k_rotate(const nf_rotation_map *map, const uint8_t *signs, const float *matrix, const float *in,
                                   uint32_t in_stride, uint32_t count, float *out, uint32_t out_stride, cudaStream_t stream)
{
    if (count == 0) return cudaSuccess;
    if (map->kind != NF_ROTATION_FAST) {
        return launch_dense({matrix, in, out, map->dims, map->padded, in_stride, out_stride, count}, stream);
    }
    uint32_t log_p = 3;
    while (2u << log_p <= map->padded) log_p++;
    const fast_rotation job = {signs,
                               in,
                               out,
                               map->dims,
                               map->padded,
                               in_stride,
                               out_stride,
                               count,
                               0,
                               1.0f / sqrtf((float)(1u << log_p)),
                               aligned_rows(in, in_stride),
                               aligned_rows(out, out_stride)};
    switch (log_p) {
    case 3: return launch_fast<3>(job, stream);
    case 4: return launch_fast<4>(job, stream);
    case 5: return launch_fast<5>(job, stream);
    case 6: return launch_fast<6>(job, stream);
    case 7: return launch_fast<7>(job, stream);
    case 8: return launch_fast<8>(job, stream);
    case 9: return launch_fast<9>(job, stream);
    case 10: return launch_fast<10>(job, stream);
    case 11: return launch_fast<11>(job, stream);
    case 12: return launch_fast<12>(job, stream);
    case 13: return launch_fast<13>(job, stream);
    default: return cudaErrorInvalidValue;
    }
}
