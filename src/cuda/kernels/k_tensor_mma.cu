/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement on tensor cores by products of warps, for compute capability 8.0 and later (k_tensor.h). A block of 8 warps takes
 * 128 rows of a query tile through the near tiles of its segment: chunk after chunk of both sides in shared memory, two at a
 * time; each warp makes a slab of 16 rows times 256 columns in registers.
 */
#include <type_traits>

#include "k_tensor.cuh" /* first: half is a name in it, and a type in the next one */
#include "k_half.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define NF_K_HAS_HALF_MMA 1
#else
#define NF_K_HAS_HALF_MMA 0
#endif

namespace {

constexpr int      warps = 8, threads = 32 * warps;
constexpr uint32_t rows_at_once = 16 * warps;
constexpr uint32_t chunk_bytes_x = rows_at_once * NF_K_TENSOR_CHUNK, chunk_bytes_y = NF_K_TENSOR_TILE * NF_K_TENSOR_CHUNK;
constexpr uint32_t stage_bytes = chunk_bytes_x + chunk_bytes_y;

/* The four bytes at a byte of a row of a chunk. */
__device__ inline uint32_t word_at(const unsigned char *chunk, uint32_t row, uint32_t byte)
{
    return *reinterpret_cast<const uint32_t *>(chunk + row * NF_K_TENSOR_CHUNK + ((byte / 16 ^ row % 8) * 16 + byte % 16));
}

#if !NF_K_HAS_HALF_MMA

__device__ inline float half_dot(float c, uint32_t a, uint32_t b)
{
    for (int i = 0; i < 2; i++) {
        const float x = value_of((uint16_t)(a >> 16 * i));
        const float y = value_of((uint16_t)(b >> 16 * i));
        c = __fmaf_rn(x, y, c);
    }
    return c;
}

__device__ inline int32_t byte_dot(int32_t c, uint32_t a, uint32_t b)
{
    for (int i = 0; i < 4; i++) c += (int32_t)(a >> 8 * i & 255u) * (int32_t)(b >> 8 * i & 255u);
    return c;
}

__device__ inline void dot(float &c, uint32_t a, uint32_t b) { c = half_dot(c, a, b); }
__device__ inline void dot(int32_t &c, uint32_t a, uint32_t b) { c = byte_dot(c, a, b); }

#endif

__device__ inline void multiply(float *c, const uint32_t a[4], uint32_t b0, uint32_t b1)
{
#if NF_K_HAS_HALF_MMA
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

__device__ inline void multiply(int32_t *c, const uint32_t a[4], uint32_t b0, uint32_t b1)
{
#if NF_K_HAS_HALF_MMA
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* Adds the products of a chunk to a warp's slab, 32 bytes of dims at a time. */
template <typename T>
__device__ inline void add_chunk(T (&slab)[slab_values], const unsigned char *x, const unsigned char *y)
{
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, row = threadIdx.x / 32 * 16 + g;
#if NF_K_HAS_HALF_MMA
    NF_UNROLL
    for (uint32_t byte = 0; byte < NF_K_TENSOR_CHUNK; byte += 32) {
        const uint32_t a[4] = {word_at(x, row, byte + 4 * t), word_at(x, row + 8, byte + 4 * t),
                               word_at(x, row, byte + 16 + 4 * t), word_at(x, row + 8, byte + 16 + 4 * t)};
        NF_UNROLL
        for (uint32_t n = 0; n < 32; n++) {
            multiply(slab + 4 * n, a, word_at(y, n * 8 + g, byte + 4 * t), word_at(y, n * 8 + g, byte + 16 + 4 * t));
        }
    }
#else /* the emulated device: each lane its own values */
    for (uint32_t byte = 0; byte < NF_K_TENSOR_CHUNK; byte += 4) {
        const uint32_t a[2] = {word_at(x, row, byte), word_at(x, row + 8, byte)};
        for (uint32_t n = 0; n < 32; n++) {
            for (uint32_t j = 0; j < 4; j++) dot(slab[4 * n + j], a[j / 2], word_at(y, n * 8 + t * 2 + j % 2, byte));
        }
    }
#endif
}

/* Both sides of a chunk to shared memory. */
__device__ inline void fetch(unsigned char *stage, const nf_k_tensor &job, uint32_t query_tile, uint32_t part, uint32_t tile,
                             uint32_t chunk)
{
    const uint64_t x_chunk = (uint64_t)query_tile * job.x.chunks + chunk, y_chunk = (uint64_t)tile * job.y.chunks + chunk;
    const uint4   *x = reinterpret_cast<const uint4 *>(job.x.image + x_chunk * chunk_bytes_y + part * chunk_bytes_x);
    const uint4   *y = reinterpret_cast<const uint4 *>(job.y.image + y_chunk * chunk_bytes_y);
    uint4         *to = reinterpret_cast<uint4 *>(stage);
    for (uint32_t i = threadIdx.x; i < stage_bytes / 16; i += threads) {
        const uint4 *from = i < chunk_bytes_x / 16 ? x + i : y + (i - chunk_bytes_x / 16);
#if NF_K_HAS_HALF_MMA
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to + i)), "l"(from));
#else
        to[i] = *from;
#endif
    }
#if NF_K_HAS_HALF_MMA
    asm volatile("cp.async.commit_group;");
#endif
}

__device__ inline void wait_for_all_but(bool one)
{
#if NF_K_HAS_HALF_MMA
    if (one) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
#else
    (void)one;
#endif
}

__device__ inline void begin_slab(const nf_k_tensor &job, uint32_t row, uint32_t column, const tile_limits &limits,
                                  float (&slab)[slab_values])
{
    const float *x = static_cast<const float *>(job.x.norms) + row, *y = static_cast<const float *>(job.y.norms) + column;
    NF_UNROLL
    for (int j = 0; j < slab_values; j++) slab[j] = (limits.start - x[(j & 2) * 4]) - y[j / 4 * 8 + j % 2];
}

__device__ inline void begin_slab(const nf_k_tensor &job, uint32_t row, uint32_t column, const tile_limits &,
                                  int32_t (&slab)[slab_values])
{
    const int32_t *x = static_cast<const int32_t *>(job.x.norms) + row, *y = static_cast<const int32_t *>(job.y.norms) + column;
    NF_UNROLL
    for (int j = 0; j < slab_values; j++) {
        slab[j] = half_start(job.whole - x[(j & 2) * 4]) + half_start(-y[j / 4 * 8 + j % 2]) + 1;
    }
}

template <typename T>
__device__ inline void decide_tile(const nf_k_tensor &job, unsigned char *shared, uint32_t query_tile, uint32_t part, uint32_t tile)
{
    const uint32_t lane = threadIdx.x % 32, base = query_tile * NF_K_TENSOR_TILE + part * rows_at_once + threadIdx.x / 32 * 16;
    const uint32_t row = base + lane / 4, column = tile * NF_K_TENSOR_TILE + lane % 4 * 2;
    tile_limits    limits = {0.0f, 0.0f};
    T              slab[slab_values];

    if (job.x.rest != nullptr) limits = limits_of(job, query_tile, tile);
    begin_slab(job, row, column, limits, slab);
    fetch(shared, job, query_tile, part, tile, 0);
    for (uint32_t chunk = 0; chunk < job.y.chunks; chunk++) {
        const bool more = chunk + 1 < job.y.chunks;
        if (more) fetch(shared + (chunk + 1) % 2 * stage_bytes, job, query_tile, part, tile, chunk + 1);
        wait_for_all_but(more);
        __syncthreads();
        const unsigned char *stage = shared + chunk % 2 * stage_bytes;
        add_chunk(slab, stage, stage + chunk_bytes_x);
        __syncthreads();
    }
    settle_sums(job, place_slab(job, base, tile * NF_K_TENSOR_TILE), limits, slab);
}

template <typename T>
__global__ __launch_bounds__(threads, 1) void tensor_kernel(const __grid_constant__ nf_k_tensor job)
{
    NF_SHARED_BYTES(shared);
    __shared__ uint32_t number;
    uint64_t            hits = 0, compared = 0;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) number = atomicAdd(job.next, 1u);
        __syncthreads();
        if (number >= unit_count(job)) break;
        const unit own = unit_of(job, number);
        for (uint32_t tile = own.first; tile < own.last; tile++) {
            if (!tile_is_near(job, own.query_tile, tile)) continue;
            if (threadIdx.x == 0) tally_tile(job, own.query_tile, tile, &hits, &compared);
            for (uint32_t part = 0; part < NF_K_TENSOR_TILE / rows_at_once; part++) {
                decide_tile<T>(job, shared, own.query_tile, part, tile);
            }
        }
    }
    if (threadIdx.x != 0) return;
    nf_k_add(&job.refine.counters->hits, hits);
    nf_k_add(&job.refine.counters->compared, compared);
}

template <typename T>
cudaError_t launch(cudaStream_t stream, const nf_k_tensor &job, uint32_t processors)
{
    void (*const kernel)(const nf_k_tensor) = tensor_kernel<T>;
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(2 * stage_bytes));
    (void)stream;
    if (error != cudaSuccess) return error;
    NF_LAUNCH(kernel, processors, threads, 2 * stage_bytes, stream)(job);
    return nf_k_launched();
}

} // namespace

extern "C" cudaError_t nf_k_tensor_mma_run(cudaStream_t stream, const nf_k_tensor *job, uint32_t processors)
{
    return job->bytes ? launch<int32_t>(stream, *job, processors) : launch<float>(stream, *job, processors);
}
