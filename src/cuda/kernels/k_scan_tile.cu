/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan of short codes for up to 16 queries with the same list at once, as a matrix product on tensor cores: the
 * sums, and so the survivors, are those of the bitwise scan with 4 planes (k_scan.cu). A block takes a segment of a
 * list, its warps take blocks of 32 rows: two matrices of 16 rows, of which row (half, g) of matrix m is slot 4g + 2m +
 * half. So the words that lane 4g + t loads, 16 bytes of a chunk, are the registers of both matrices as they are. The
 * order of dims in a product is free as long as both sides have the same.
 *
 * TILE: bits times bits, one product for each plane of 8 queries, planes added with weights 1, 2, 4, -8. Two chunks go
 * into one instruction.
 * TILE8: codes unpacked to bytes 0 and 1; register j of a word has the dims j, j + 8, j + 16, j + 24, and the queries'
 * integers are laid out likewise.
 *
 * The queries' side lies in shared memory by units of 16 bytes, [unit][query]: what lane 4g + t loads of queries g + 8n
 * is unit 4u + t. A pitch of 18 queries puts the 8 lanes that load together on all banks.
 */
#include "k_mma_bits.cuh"
#include "k_scan_common.cuh"

namespace {

constexpr int      threads = 128, warps = threads / 32;
constexpr uint32_t tile = NF_K_TILE_QUERIES, eight = 8, pitch = tile + 2;

static_assert(tile == 2 * eight, "a warp takes two groups of eight queries");

/* The queries of a unit of work, in shared memory. */
struct tile_queries {
    float4   factors[tile]; /* step, base, add, width */
    float    limit[tile];
    uint64_t masks[tile];   /* the pair's first mask */
    uint32_t query[tile];
};

__device__ inline uint32_t word_of(const uint4 &words, int i)
{
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

/* ---- the queries' side ---- */

/* Of a word's 32 integers those of dims j, j + 8, j + 16, j + 24, for j = 4h .. 4h + 3: byte i of every second 4 bytes, from
 * the h-th on, makes the bytes of value i. */
__device__ inline uint4 every_eighth(const uint32_t *words)
{
    uint32_t out[4] = {0, 0, 0, 0};
    NF_UNROLL
    for (int from = 0; from < 4; from++) {
        const uint32_t word = words[2 * from];
        NF_UNROLL
        for (int i = 0; i < 4; i++) out[i] |= (word >> 8 * i & 0xffu) << 8 * from;
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}

/* Planes: unit w is word w of a code, its four planes. */
struct plane_units {
    static constexpr uint32_t per_chunk = 4;
    __device__ static uint4 load(const scan_args &args, uint32_t query, uint32_t unit)
    {
        return reinterpret_cast<const uint4 *>(args.queries.plane)[(uint64_t)query * args.index.chunks * 4 + unit];
    }
};

/* Integers: unit 4 (2 chunk + h) + t has the dims j, j + 8, j + 16, j + 24 of word t, j = 4h .. 4h + 3. */
struct byte_units {
    static constexpr uint32_t per_chunk = 8;
    __device__ static uint4 load(const scan_args &args, uint32_t query, uint32_t unit)
    {
        const uint32_t word = unit / 8 * 4 + unit % 4, h = unit / 4 % 2;
        return every_eighth(reinterpret_cast<const uint32_t *>(args.queries.values) +
                            ((uint64_t)query * args.index.chunks * 4 + word) * 8 + h);
    }
};

/* What a lane reads of them: units of query g of a group of eight; without room in shared memory, from where they are. */
template <typename UNITS, bool STAGED>
struct query_side {
    const scan_args &args;
    const uint4     *shared;
    uint32_t         query[2];

    __device__ inline query_side(const scan_args &from, const uint4 *units, const tile_queries &queries)
        : args(from), shared(units)
    {
        const uint32_t g = threadIdx.x >> 2 & 7;
        if (STAGED) {
            shared += g;
        } else {
            query[0] = queries.query[g];
            query[1] = queries.query[eight + g];
        }
    }

    __device__ inline uint4 load(uint32_t unit, int group) const
    {
        return STAGED ? shared[unit * pitch + eight * (unsigned)group] : UNITS::load(args, query[group], unit);
    }
};

/* ---- products: sums of 32 rows and GROUPS x 8 queries, (group, m, i) in a lane: register i of matrix m ---- */

template <int GROUPS>
struct bit_product {
    typedef plane_units units;
    int sums[GROUPS][4][2][4];

    template <typename SIDE>
    __device__ inline void add_two(const SIDE &side, uint32_t c, const uint4 &low, const uint4 &high)
    {
        const uint32_t unit = 4 * c + (threadIdx.x & 3);
        NF_UNROLL
        for (int n = 0; n < GROUPS; n++) {
            const uint4 first = side.load(unit, n), second = side.load(unit + 4, n);
            NF_UNROLL
            for (int p = 0; p < 4; p++) {
                NF_UNROLL
                for (int m = 0; m < 2; m++) {
                    mma_bits_256(sums[n][p][m], word_of(low, 2 * m), word_of(low, 2 * m + 1), word_of(high, 2 * m),
                                 word_of(high, 2 * m + 1), word_of(first, p), word_of(second, p));
                }
            }
        }
    }

    template <typename SIDE>
    __device__ inline void add_one(const SIDE &side, uint32_t c, const uint4 &codes)
    {
        NF_UNROLL
        for (int n = 0; n < GROUPS; n++) {
            const uint4 first = side.load(4 * c + (threadIdx.x & 3), n);
            NF_UNROLL
            for (int p = 0; p < 4; p++) {
                NF_UNROLL
                for (int m = 0; m < 2; m++) {
                    mma_bits_128(sums[n][p][m], word_of(codes, 2 * m), word_of(codes, 2 * m + 1), word_of(first, p));
                }
            }
        }
    }

    __device__ inline void clear()
    {
        NF_UNROLL
        for (int i = 0; i < GROUPS * 32; i++) sums[i / 32][i / 8 % 4][i / 4 % 2][i % 4] = 0;
    }

    __device__ inline int sum(int n, int m, int i) const
    {
        return sums[n][0][m][i] + 2 * sums[n][1][m][i] + 4 * sums[n][2][m][i] - 8 * sums[n][3][m][i];
    }
};

template <int GROUPS>
struct byte_product {
    typedef byte_units units;
    int sums[GROUPS][2][4];

    template <typename SIDE>
    __device__ inline void add_one(const SIDE &side, uint32_t c, const uint4 &codes)
    {
        constexpr uint32_t ones = 0x01010101u;
        NF_UNROLL
        for (int h = 0; h < 2; h++) {
            uint4 values[GROUPS];
            NF_UNROLL
            for (int n = 0; n < GROUPS; n++) values[n] = side.load(4 * (2 * c + (unsigned)h) + (threadIdx.x & 3), n);
            NF_UNROLL
            for (int j = 0; j < 4; j += 2) {
                NF_UNROLL
                for (int m = 0; m < 2; m++) {
                    const uint32_t row = word_of(codes, 2 * m) >> (4 * h + j);
                    const uint32_t other = word_of(codes, 2 * m + 1) >> (4 * h + j);
                    NF_UNROLL
                    for (int n = 0; n < GROUPS; n++) {
                        mma_bytes_32(sums[n][m], row & ones, other & ones, row >> 1 & ones, other >> 1 & ones,
                                     word_of(values[n], j), word_of(values[n], j + 1));
                    }
                }
            }
        }
    }

    template <typename SIDE>
    __device__ inline void add_two(const SIDE &side, uint32_t c, const uint4 &low, const uint4 &high)
    {
        add_one(side, c, low);
        add_one(side, c + 1, high);
    }

    __device__ inline void clear()
    {
        NF_UNROLL
        for (int i = 0; i < GROUPS * 8; i++) sums[i / 8][i / 4 % 2][i % 4] = 0;
    }

    __device__ inline int sum(int n, int m, int i) const { return sums[n][m][i]; }
};

/* ---- the scan ---- */

/* The codes of two chunks of a block, on their way. */
struct chunk_pair {
    uint4 low, high;

    __device__ inline void fetch(const uint4 *codes, uint32_t c, uint32_t chunks)
    {
        if (c < chunks) low = codes[c * 32];
        if (c + 1 < chunks) high = codes[(c + 1) * 32];
    }
};

__device__ inline const uint4 *codes_of(const scan_args &args, uint32_t block)
{
    return reinterpret_cast<const uint4 *>(args.index.codes) + (uint64_t)block * args.index.chunks * 32 + (threadIdx.x & 31);
}

/* A block's factors: a lane loads those of its slot before the product, few registers, and gets those of slots 4g .. 4g + 3
 * after it, by way of shared memory. */
struct row_factors {
    float add, rescale, error;

    __device__ inline row_factors(const nf_k_index &index, uint32_t block)
    {
        const uint64_t at = (uint64_t)block * NF_IVF_BLOCK + (threadIdx.x & 31);
        add = index.add[at];
        rescale = index.rescale[at];
        error = index.error[at];
    }
};

struct warp_rows {
    float4 add[NF_IVF_BLOCK / 4], rescale[NF_IVF_BLOCK / 4], error[NF_IVF_BLOCK / 4];
};

struct four_rows {
    float add[4], rescale[4], error[4];

    __device__ inline four_rows(const row_factors &mine, warp_rows *warp)
    {
        const uint32_t lane = threadIdx.x & 31, g = lane >> 2;
        __syncwarp(); /* the last block's have been read */
        reinterpret_cast<float *>(warp->add)[lane] = mine.add;
        reinterpret_cast<float *>(warp->rescale)[lane] = mine.rescale;
        reinterpret_cast<float *>(warp->error)[lane] = mine.error;
        __syncwarp();
        take(warp->add[g], add);
        take(warp->rescale[g], rescale);
        take(warp->error[g], error);
    }

    __device__ static inline void take(const float4 &four, float out[4])
    {
        out[0] = four.x;
        out[1] = four.y;
        out[2] = four.z;
        out[3] = four.w;
    }
};

/* The bounds of a block: lane 4 (2n + e) + t, below 16, gets the survivors of query 8n + 2t + e. */
template <int GROUPS, typename PRODUCT>
__device__ inline uint32_t survivors_of(const PRODUCT &product, const four_rows &rows, const tile_queries &queries)
{
    const uint32_t lane = threadIdx.x & 31, t = lane & 3;
    uint32_t       mine[4] = {0, 0, 0, 0};
    NF_UNROLL
    for (int n = 0; n < GROUPS; n++) {
        NF_UNROLL
        for (int e = 0; e < 2; e++) {
            const unsigned   q = eight * (unsigned)n + (unsigned)e + 2 * t;
            const float4     factors = queries.factors[q];
            const query_line line = {factors.x, factors.y, factors.z, factors.w, queries.limit[q]};
            NF_UNROLL
            for (int i = 0; i < 4; i++) {
                const float    sum = (float)product.sum(n, i / 2, i % 2 * 2 + e);
                const bool     stays = survives(rows.add[i], rows.rescale[i], rows.error[i], line, sum);
                const uint32_t ballot = __ballot_sync(whole_warp, stays);
                if (lane >> 2 == (unsigned)(2 * n + e)) mine[i] = ballot;
            }
        }
    }
    uint32_t word = 0;
    NF_UNROLL
    for (int i = 0; i < 4; i++) word |= (mine[i] >> t & 0x11111111u) << i;
    return word;
}

/* What a warp does of a unit of work; next: the first codes of its first block. */
template <int GROUPS, typename PRODUCT, typename SIDE>
__device__ inline void scan_segment(const scan_args &args, const segment_blocks &segment, const SIDE &side,
                                    const tile_queries &queries, warp_rows *warp_room, uint32_t count, chunk_pair next)
{
    const uint32_t chunks = args.index.chunks, lane = threadIdx.x & 31;
    const uint32_t query = eight * (lane >> 3) + 2 * (lane & 3) + (lane >> 2 & 1); /* whose mask this lane writes */
    for (uint32_t b = threadIdx.x >> 5; b < segment.count; b += warps) {
        const uint32_t    block = segment.block + b;
        const uint4      *codes = codes_of(args, block);
        const row_factors rows(args.index, block);
        PRODUCT           product;
        product.clear();
        for (uint32_t c = 0; c + 1 < chunks; c += 2) {
            const chunk_pair now = next;
            next.fetch(codes, c + 2, chunks);
            product.add_two(side, c, now.low, now.high);
        }
        if (chunks % 2 != 0) product.add_one(side, chunks - 1, next.low);
        if (b + warps < segment.count) next.fetch(codes_of(args, block + warps), 0, chunks);
        const four_rows four(rows, warp_room);
        const uint32_t  word = survivors_of<GROUPS>(product, four, queries) & slots_of(args, segment, b);
        if (lane < 16 && query < count) args.masks[queries.masks[query] + segment.first + b] = word;
    }
}

/* Brings a unit of work's queries to shared memory: a thread some units of one of them. Beyond count: those of the first, so
 * that no product is of chance bits. */
template <typename UNITS, bool STAGED>
__device__ inline void stage(const scan_args &args, const nf_k_tile_item &item, uint4 *units, tile_queries *queries)
{
    constexpr uint32_t ahead = 4; /* units on their way together */
    const uint32_t     used = item.count <= eight ? eight : tile, q = threadIdx.x % used, apart = threads / used;
    const uint32_t     pair = args.by_list[item.first + (q < item.count ? q : 0)];
    const turn         turn = turn_of(args, pair);
    if constexpr (STAGED) {
        const uint32_t all = args.index.chunks * UNITS::per_chunk;
        for (uint32_t first = threadIdx.x / used; first < all; first += ahead * apart) {
            uint4 loaded[ahead];
            NF_UNROLL
            for (uint32_t i = 0; i < ahead; i++) {
                if (first + i * apart < all) loaded[i] = UNITS::load(args, turn.query, first + i * apart);
            }
            NF_UNROLL
            for (uint32_t i = 0; i < ahead; i++) {
                if (first + i * apart < all) units[(first + i * apart) * pitch + q] = loaded[i];
            }
        }
    }
    if (threadIdx.x >= used) return;
    const query_line line = line_of(args, turn);
    queries->factors[q] = make_float4(line.step, line.base, line.add, line.width);
    queries->limit[q] = line.limit;
    queries->masks[q] = args.mask_start[pair];
    queries->query[q] = turn.query;
}

template <template <int> class PRODUCT, bool STAGED>
__global__ void __launch_bounds__(threads, 4) scan_tiles(const __grid_constant__ scan_args args)
{
    typedef typename PRODUCT<1>::units units;
    NF_SHARED_BYTES(shared);
    __shared__ tile_queries queries;
    __shared__ warp_rows    rows[warps];
    uint4 *const            near = reinterpret_cast<uint4 *>(shared);
    const uint64_t          at = *args.first_item + blockIdx.x;
    if (at >= *args.end_item) return;
    const nf_k_tile_item item = static_cast<const nf_k_tile_item *>(args.items)[at];
    const segment_blocks segment = segment_of(args.index, item.list, item.segment);
    chunk_pair           next = {};
    const uint32_t       warp = threadIdx.x >> 5;
    if (warp < segment.count) next.fetch(codes_of(args, segment.block + warp), 0, args.index.chunks);
    stage<units, STAGED>(args, item, near, &queries);
    __syncthreads();
    const query_side<units, STAGED> side(args, near, queries);
    if (item.count <= eight) {
        scan_segment<1, PRODUCT<1>>(args, segment, side, queries, rows + warp, item.count, next);
    } else {
        scan_segment<2, PRODUCT<2>>(args, segment, side, queries, rows + warp, item.count, next);
    }
}

template <template <int> class PRODUCT>
cudaError_t launch(const nf_k_scan *job, cudaStream_t stream)
{
    const uint64_t  bytes = (uint64_t)job->index->chunks * PRODUCT<1>::units::per_chunk * pitch * sizeof(uint4);
    const scan_args args = scan_args_of(job);
    const unsigned  blocks = (unsigned)job->most_items;
    if (job->most_items > 0x7fffffff) return cudaErrorInvalidValue;
    cudaError_t error = cudaErrorInvalidConfiguration;
    if (bytes <= 96u << 10) error = reserve_shared(scan_tiles<PRODUCT, true>, bytes);
    if (error == cudaErrorInvalidConfiguration) {
        NF_LAUNCH((scan_tiles<PRODUCT, false>), blocks, threads, 0, stream)(args);
        return nf_k_launched();
    }
    if (error != cudaSuccess) return error;
    NF_LAUNCH((scan_tiles<PRODUCT, true>), blocks, threads, bytes, stream)(args);
    return nf_k_launched();
}

} // namespace

cudaError_t nf_k_scan_tiles(const nf_k_scan *job, cudaStream_t stream)
{
    if (job->most_items == 0) return cudaSuccess;
    switch (job->precision) {
    case NF_K_TILE: return launch<bit_product>(job, stream);
    case NF_K_TILE8: return launch<byte_product>(job, stream);
    default: return cudaErrorInvalidValue;
    }
}
