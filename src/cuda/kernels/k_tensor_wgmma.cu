/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refinement on tensor cores of compute capability 9.0 (k_tensor.h): wgmma, tiles brought by bulk copies.
 *
 * A block has two groups of four warps that multiply and one warp that fetches. Chunks of the data's tiles go through a ring
 * of stages in shared memory. With few chunks the whole query tile stays there, and each group makes two slabs of 64 rows
 * from every data tile; with many, 128 rows of the query tile are fetched again beside every chunk. While one group looks at
 * its sums, the other multiplies.
 */
#include <type_traits>

#include "k_tensor.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define NF_K_HAS_WGMMA 1
#else
#define NF_K_HAS_WGMMA 0
#endif

#ifdef __CUDACC__

namespace {

constexpr int      groups = 2, threads = 128 * groups + 128; /* the fetching warp has its register share to itself */
constexpr uint32_t chunk_bytes = NF_K_TENSOR_TILE * NF_K_TENSOR_CHUNK, half_chunk = chunk_bytes / 2;
constexpr uint32_t norm_bytes = NF_K_TENSOR_TILE * 4;
constexpr uint32_t most_shared = 227u << 10, barrier_bytes = 1024;

/* How a block works: which rows at a time, and its ring. */
struct plan {
    bool     resident; /* the query tile stays: 256 rows; else 128 rows, fetched beside the data */
    uint32_t chunks, stages, stage_bytes;
    uint32_t shared;
};

#if NF_K_HAS_WGMMA

__device__ inline uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

__device__ inline void barrier_open(uint64_t *barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}

__device__ inline void barrier_expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ inline void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ inline void barrier_wait(uint64_t *barrier, uint32_t phase)
{
    asm volatile("{.reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; @!done bra again;}" ::"r"(
                     shared_address(barrier)),
                 "r"(phase)
                 : "memory");
}

__device__ inline void bulk_copy(unsigned char *to, const void *from, uint32_t bytes, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

/* Rows of 128 bytes whose 16-byte units are permuted, eight rows to 1,024 bytes. */
__device__ inline uint64_t matrix_at(uint32_t address)
{
    return (uint64_t)((address & 0x3ffffu) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

#define NF_EIGHT(list, at) list(at), list(at + 1), list(at + 2), list(at + 3), list(at + 4), list(at + 5), list(at + 6), list(at + 7)
#define NF_ALL(list)                                                                                               \
    NF_EIGHT(list, 0), NF_EIGHT(list, 8), NF_EIGHT(list, 16), NF_EIGHT(list, 24), NF_EIGHT(list, 32),              \
        NF_EIGHT(list, 40), NF_EIGHT(list, 48), NF_EIGHT(list, 56), NF_EIGHT(list, 64), NF_EIGHT(list, 72),        \
        NF_EIGHT(list, 80), NF_EIGHT(list, 88), NF_EIGHT(list, 96), NF_EIGHT(list, 104), NF_EIGHT(list, 112),      \
        NF_EIGHT(list, 120)
#define NF_SUMS                                                                                                    \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
    "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57," \
    "%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85," \
    "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110," \
    "%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}"

__device__ inline void multiply(float (&sums)[slab_values], uint64_t x, uint64_t y)
{
#define NF_ONE(i) "+f"(sums[i])
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 " NF_SUMS ", %128, %129, 1, 1, 1, 0, 0;"
                 : NF_ALL(NF_ONE)
                 : "l"(x), "l"(y));
#undef NF_ONE
}

__device__ inline void multiply(int32_t (&sums)[slab_values], uint64_t x, uint64_t y)
{
#define NF_ONE(i) "+r"(sums[i])
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.u8 " NF_SUMS ", %128, %129, 1;"
                 : NF_ALL(NF_ONE)
                 : "l"(x), "l"(y));
#undef NF_ONE
}

/* Keeps the compiler from moving what touches the sums across here. */
__device__ inline void pin(float (&sums)[slab_values])
{
    NF_UNROLL
    for (int j = 0; j < slab_values; j++) asm volatile("" : "+f"(sums[j])::"memory");
}

__device__ inline void pin(int32_t (&sums)[slab_values])
{
    NF_UNROLL
    for (int j = 0; j < slab_values; j++) asm volatile("" : "+r"(sums[j])::"memory");
}

/* What the fetching thread says of a stage that begins a tile. */
struct note {
    uint32_t    tile; /* or NO_TILE: the unit ends, there is nothing in the stage */
    tile_limits limits;
    uint32_t    unused;
};

constexpr uint32_t NO_TILE = 0xffffffffu;

/* Shared memory: the query tile where it stays, the ring, the barriers. */
struct ring {
    unsigned char *query, *stages;
    uint64_t      *full, *empty, *query_full;
    note          *notes;
    uint32_t       stage, phase; /* of whoever holds this */

    __device__ inline void open(unsigned char *shared, const plan &how)
    {
        query = shared;
        stages = shared + (how.resident ? how.chunks * chunk_bytes : 0);
        full = reinterpret_cast<uint64_t *>(stages + how.stages * how.stage_bytes);
        empty = full + how.stages;
        query_full = empty + how.stages;
        notes = reinterpret_cast<note *>(query_full + 1 + how.stages % 2);
        stage = phase = 0;
    }

    __device__ inline void next(const plan &how)
    {
        if (++stage < how.stages) return;
        stage = 0;
        phase ^= 1;
    }

    __device__ inline unsigned char *data(const plan &how) const { return stages + stage * how.stage_bytes; }
};

/* A chunk of both sides, or of the data alone where the query tile stays, into the stage at the ring. */
__device__ inline void fetch_chunk(const nf_k_tensor &job, const plan &how, ring &at, uint32_t tile, uint32_t chunk,
                                   const uint8_t *query, const note *begin)
{
    unsigned char *to = at.data(how);
    uint64_t      *full = at.full + at.stage;
    barrier_wait(at.empty + at.stage, at.phase ^ 1);
    if (begin != nullptr) at.notes[at.stage] = *begin;
    barrier_expect(full, chunk_bytes + norm_bytes + (how.resident ? 0 : half_chunk));
    bulk_copy(to, job.y.image + ((uint64_t)tile * how.chunks + chunk) * chunk_bytes, chunk_bytes, full);
    bulk_copy(to + chunk_bytes, static_cast<const uint32_t *>(job.y.norms) + (uint64_t)tile * NF_K_TENSOR_TILE, norm_bytes, full);
    if (!how.resident) bulk_copy(to + chunk_bytes + norm_bytes, query + chunk * chunk_bytes, half_chunk, full);
    at.next(how);
}

/* The fetching thread: the query tile where it stays, then the near tiles, chunk by chunk, and the end. */
__device__ inline void fetch_unit(const nf_k_tensor &job, const plan &how, ring &at, const unit &own, uint64_t *hits,
                                  uint64_t *compared)
{
    const uint8_t *query = job.x.image + (uint64_t)own.query_tile * how.chunks * chunk_bytes;
    const note     end = {NO_TILE, {0.0f, 0.0f}, 0};
    if (how.resident) {
        barrier_expect(at.query_full, how.chunks * chunk_bytes);
        bulk_copy(at.query, query, how.chunks * chunk_bytes, at.query_full);
    }
    for (uint32_t part = 0; part < (how.resident ? 1u : 2u); part++) {
        for (uint32_t tile = own.first; tile < own.last; tile++) {
            if (!tile_is_near(job, own.query_tile, tile)) continue;
            note begin = {tile, {0.0f, 0.0f}, 0};
            if (!job.bytes) begin.limits = limits_of(job, own.query_tile, tile);
            if (part == 0) tally_tile(job, own.query_tile, tile, hits, compared);
            for (uint32_t chunk = 0; chunk < how.chunks; chunk++) {
                fetch_chunk(job, how, at, tile, chunk, query + part * half_chunk, chunk == 0 ? &begin : nullptr);
            }
        }
        barrier_wait(at.empty + at.stage, at.phase ^ 1);
        at.notes[at.stage] = end;
        barrier_arrive(at.full + at.stage);
        at.next(how);
    }
}

/* Sums at the start: T / 2 less both norms. norms: of the tile, in shared memory. */
__device__ inline void begin_slab(const nf_k_tensor &, const float (&x)[2], const unsigned char *norms, const tile_limits &limits,
                                  float (&sums)[slab_values])
{
    const float   a = limits.start - x[0], b = limits.start - x[1];
    const float2 *y = reinterpret_cast<const float2 *>(norms) + threadIdx.x % 4;
    NF_UNROLL
    for (int n = 0; n < slab_values / 4; n++) {
        const float2 both = y[n * 4];
        sums[4 * n] = a - both.x;
        sums[4 * n + 1] = a - both.y;
        sums[4 * n + 2] = b - both.x;
        sums[4 * n + 3] = b - both.y;
    }
}

/* The same for bytes (settle_sums). */
__device__ inline void begin_slab(const nf_k_tensor &job, const int32_t (&x)[2], const unsigned char *norms, const tile_limits &,
                                  int32_t (&sums)[slab_values])
{
    const int32_t  a = half_start(job.whole - x[0]) + 1, b = half_start(job.whole - x[1]) + 1;
    const int2    *y = reinterpret_cast<const int2 *>(norms) + threadIdx.x % 4;
    NF_UNROLL
    for (int n = 0; n < slab_values / 4; n++) {
        const int2 both = y[n * 4];
        sums[4 * n] = a + half_start(-both.x);
        sums[4 * n + 1] = a + half_start(-both.y);
        sums[4 * n + 2] = b + half_start(-both.x);
        sums[4 * n + 3] = b + half_start(-both.y);
    }
}

template <typename T>
__device__ inline void add_chunk(T (&sums)[slab_values], uint32_t x, uint32_t y)
{
    NF_UNROLL
    for (uint32_t byte = 0; byte < NF_K_TENSOR_CHUNK; byte += 32) multiply(sums, matrix_at(x + byte), matrix_at(y + byte));
}

/* Takes the products of the chunks at the ring, which is moved on. again: another pass over the same chunks follows, so they
 * stay; the first of two passes waits for them. */
template <typename T, int CHUNKS>
__device__ inline void add_resident(const plan &how, ring &at, T (&sums)[slab_values], uint32_t from, bool again)
{
    const uint32_t x = shared_address(at.query) + from * NF_K_TENSOR_CHUNK;
    uint64_t      *done[CHUNKS];
    if (again) {
        ring ahead = at;
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            barrier_wait(ahead.full + ahead.stage, ahead.phase);
            ahead.next(how);
        }
    }
    pin(sums);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    NF_UNROLL
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        add_chunk(sums, x + (uint32_t)chunk * chunk_bytes, shared_address(at.data(how)));
        done[chunk] = at.empty + at.stage;
        at.next(how);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    pin(sums);
    if (again || threadIdx.x % 128 != 0) return;
    NF_UNROLL
    for (int chunk = 0; chunk < CHUNKS; chunk++) barrier_arrive(done[chunk]);
}

template <typename T>
__device__ inline void add_streamed(const plan &how, ring &at, T (&sums)[slab_values], uint32_t from)
{
    uint64_t *before = nullptr;
    pin(sums);
    for (uint32_t chunk = 0; chunk < how.chunks; chunk++) {
        barrier_wait(at.full + at.stage, at.phase);
        const uint32_t data = shared_address(at.data(how));
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        add_chunk(sums, data + chunk_bytes + norm_bytes + from % 128 * NF_K_TENSOR_CHUNK, data);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (before != nullptr && threadIdx.x % 128 == 0) barrier_arrive(before);
        before = at.empty + at.stage;
        at.next(how);
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    pin(sums);
    if (threadIdx.x % 128 == 0) barrier_arrive(before);
}

/* A group of four warps: the tile at the ring, 64 rows from `from` on in the query tile; x: norms of this thread's two rows. */
template <typename T, int CHUNKS>
__device__ inline void decide_rows(const nf_k_tensor &job, const plan &how, ring &at, uint32_t query_tile, const note &begin,
                                   uint32_t from, const T (&x)[2], bool again)
{
    const uint32_t base = query_tile * NF_K_TENSOR_TILE + from + threadIdx.x / 32 % 4 * 16;
    T              sums[slab_values];

    begin_slab(job, x, at.data(how) + chunk_bytes, begin.limits, sums);
    if constexpr (CHUNKS > 0) {
        add_resident<T, CHUNKS>(how, at, sums, from, again);
    } else {
        add_streamed(how, at, sums, from);
    }
    settle_sums(job, place_slab(job, base, begin.tile * NF_K_TENSOR_TILE), begin.limits, sums);
}

/* The tiles of a unit, as the fetching thread brings them. With the query tile there, each group of warps makes two slabs of
 * 64 rows; else the unit comes twice, for one half of the query tile and the other. */
template <typename T, int CHUNKS>
__device__ inline void multiply_unit(const nf_k_tensor &job, const plan &how, ring &at, const unit &own, uint32_t query_phase)
{
    const uint32_t group = threadIdx.x / 128;
    const T       *norms = static_cast<const T *>(job.x.norms) + (uint64_t)own.query_tile * NF_K_TENSOR_TILE + group * 64 +
                     threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    const T x[2][2] = {{norms[0], norms[8]}, {norms[128], norms[136]}};
    if (CHUNKS > 0) barrier_wait(at.query_full, query_phase);
    for (uint32_t part = 0; part < (CHUNKS > 0 ? 1u : 2u);) {
        barrier_wait(at.full + at.stage, at.phase);
        const note begin = at.notes[at.stage];
        if (begin.tile == NO_TILE) {
            asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory"); /* all warps have seen it */
            if (threadIdx.x % 128 == 0) barrier_arrive(at.empty + at.stage);
            at.next(how);
            part++;
        } else if (CHUNKS > 0) {
            ring again = at;
            decide_rows<T, CHUNKS>(job, how, again, own.query_tile, begin, group * 64, x[0], true);
            decide_rows<T, CHUNKS>(job, how, at, own.query_tile, begin, 128 + group * 64, x[1], false);
        } else {
            decide_rows<T, CHUNKS>(job, how, at, own.query_tile, begin, part * 128 + group * 64, x[part], false);
        }
    }
}

/* The next unit of work of the block. All threads. */
__device__ inline uint32_t take_unit(const nf_k_tensor &job, uint32_t *number)
{
    if (threadIdx.x == 0) *number = atomicAdd(job.next, 1u);
    asm volatile("bar.sync 0, %0;" ::"n"(threads) : "memory");
    const uint32_t mine = *number;
    asm volatile("bar.sync 0, %0;" ::"n"(threads) : "memory"); /* also: nobody reads the query tile any more */
    return mine;
}

template <typename T, int CHUNKS>
__device__ inline void work(const nf_k_tensor &job, const plan &how, unsigned char *shared)
{
    __shared__ uint32_t number;
    ring                at;
    const uint64_t      units = unit_count(job);

    at.open(shared, how);
    if (threadIdx.x == 0) {
        for (uint32_t stage = 0; stage < how.stages; stage++) {
            barrier_open(at.full + stage, 1);
            barrier_open(at.empty + stage, groups);
        }
        barrier_open(at.query_full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= 128 * groups) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        uint64_t hits = 0, compared = 0;
        for (;;) {
            const uint32_t mine = take_unit(job, &number);
            if (mine >= units) break;
            if (threadIdx.x == 128 * groups) fetch_unit(job, how, at, unit_of(job, mine), &hits, &compared);
        }
        if (threadIdx.x == 128 * groups) nf_k_add(&job.refine.counters->hits, hits);
        if (threadIdx.x == 128 * groups) nf_k_add(&job.refine.counters->compared, compared);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        for (uint32_t round = 0;; round++) {
            const uint32_t mine = take_unit(job, &number);
            if (mine >= units) break;
            multiply_unit<T, CHUNKS>(job, how, at, unit_of(job, mine), round & 1);
        }
    }
}

#endif

/* CHUNKS 0: any number of them, the query tile does not stay. */
template <typename T, int CHUNKS>
__global__ __launch_bounds__(threads, 1) void hopper_kernel(const __grid_constant__ nf_k_tensor job, const __grid_constant__ plan how)
{
#if NF_K_HAS_WGMMA
    extern __shared__ __align__(1024) unsigned char shared[];
    work<T, CHUNKS>(job, how, shared);
#else
    (void)job;
    (void)how;
#endif
}

plan make_plan(uint32_t chunks)
{
    plan how = {};
    how.resident = chunks <= 2;
    how.chunks = chunks;
    how.stage_bytes = chunk_bytes + norm_bytes + (how.resident ? 0 : half_chunk);
    const uint32_t fixed = barrier_bytes + (how.resident ? chunks * chunk_bytes : 0);
    how.stages = (most_shared - fixed) / how.stage_bytes;
    how.shared = fixed + how.stages * how.stage_bytes;
    return how;
}

template <typename T, int CHUNKS>
cudaError_t launch(cudaStream_t stream, const nf_k_tensor &job, uint32_t processors)
{
    const plan how = make_plan(job.y.chunks);
    void (*const kernel)(const nf_k_tensor, const plan) = hopper_kernel<T, CHUNKS>;
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)how.shared);
    if (error != cudaSuccess) return error;
    NF_LAUNCH(kernel, processors, threads, how.shared, stream)(job, how);
    return nf_k_launched();
}

template <typename T>
cudaError_t launch_any(cudaStream_t stream, const nf_k_tensor &job, uint32_t processors)
{
    switch (job.y.chunks) {
    case 1: return launch<T, 1>(stream, job, processors);
    case 2: return launch<T, 2>(stream, job, processors);
    default: return launch<T, 0>(stream, job, processors);
    }
}

} // namespace

extern "C" bool nf_k_tensor_has_hopper(void)
{
#ifdef NF_BUILT_FOR_HOPPER
    return true;
#else
    return false;
#endif
}

extern "C" cudaError_t nf_k_tensor_hopper_run(cudaStream_t stream, const nf_k_tensor *job, uint32_t processors)
{
    return job->bytes ? launch_any<int32_t>(stream, *job, processors) : launch_any<float>(stream, *job, processors);
}

#else /* the emulated device has no such cores */

extern "C" bool nf_k_tensor_has_hopper(void)
{
    return false;
}

extern "C" cudaError_t nf_k_tensor_hopper_run(cudaStream_t stream, const nf_k_tensor *job, uint32_t processors)
{
    return nf_k_tensor_mma_run(stream, job, processors);
}

#endif
