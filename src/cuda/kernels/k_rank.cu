/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Survivors by their whole codes (arXiv:2602.23999, section 3). A block has a query. It makes a list of a wave's survivors
 * from their masks, as many at a time as there is room for; a few lanes each take a row, and of its groups of 32 dims every
 * n-th, two rows at a time, so that both share what is read of the query. What is below the query's k-th key so
 * far is sorted and merged with the query's k best.
 *
 * A field of a code, masked where it stands in the lower bits of a word, is the binary32 number u 2^(shift - 149): a
 * denormal one, which fused multiply-adds take at full speed and without rounding. The query is scaled by powers of two to
 * meet it, by its largest value and by the shifts; so a dim costs a mask and a multiply-add, and no conversion.
 */
#include "k_keys.cuh"
#include "k_turns.cuh"

namespace {

constexpr uint32_t most_threads = 512, many_queries_threads = 128;
constexpr uint32_t room = 1024;        /* survivors at a time */
constexpr uint32_t few_queries = 264;  /* get larger blocks */
constexpr uint32_t group_pitch = 36;   /* floats: lanes that read different groups use different banks */
constexpr uint32_t lane_logs_most = 3; /* of the lanes of a row */

struct rank_job {
    const uint32_t *list_start, *whole, *masks;
    const float    *whole_add, *whole_rescale, *rotated, *sum;
    uint32_t        groups, wave, lane_logs; /* 1 << lane_logs lanes have a row */
    nf_k_turns      turns;
    nf_k_tops       tops;
    nf_k_key       *scratch; /* NULL, or k keys for each block */
};

/* Shared memory: words of all kinds, and behind them, at places that the compiler knows, what the launch has room for. */
struct rank_words {
    uint32_t sums[32], words[2], fill, found, largest;
};

struct rank_shared {
    rank_words &words;
    nf_k_key   *keys;  /* of survivors below the k-th key */
    nf_k_key   *fewer; /* those that leave_fewer leaves: where rows and adds were, which are done with then */
    uint32_t   *rows;  /* survivors, */
    float      *adds;  /* the query's part of their values */
    float      *q;
};

__device__ inline rank_shared lay_out(unsigned char *bytes, rank_words &words)
{
    nf_k_key *const keys = (nf_k_key *)bytes, *const fewer = keys + room;
    uint32_t *const rows = (uint32_t *)fewer;
    return {words, keys, fewer, rows, (float *)(rows + room), (float *)(fewer + room)};
}

inline size_t shared_bytes(uint32_t groups, uint32_t k)
{
    const size_t tops = k <= NF_K_NEAR_BEST ? 2 * (size_t)k : 0;
    return groups * group_pitch * sizeof(float) + (2 * (size_t)room + tops) * sizeof(nf_k_key);
}

/* ---- a list of survivors ---- */

/* The last place whose words do not begin after word. */
__device__ inline uint32_t place_of(const uint64_t *starts, uint32_t places, uint64_t word)
{
    uint32_t low = 0, high = places;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (starts[middle] <= word) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

__device__ inline void put_rows(const rank_job &job, const uint64_t *starts, uint32_t places, uint64_t turn, uint64_t word,
                                uint32_t mask, uint32_t at, const rank_shared &shared)
{
    const uint32_t place = place_of(starts, places, word);
    const uint32_t first = job.list_start[job.turns.list[turn + place]] + (uint32_t)(word - starts[place]) * NF_IVF_BLOCK;
    const float    add = job.turns.add[turn + place];
    for (; mask != 0; mask &= mask - 1) {
        shared.rows[at] = first + (uint32_t)__ffs((int)mask) - 1;
        shared.adds[at++] = add;
    }
}

/* Words *next, ... of a query, one per thread, as long as there is room for their survivors. Whether there was for all. */
__device__ inline bool gather(const rank_job &job, const uint64_t *starts, uint32_t places, uint64_t turn, uint32_t words,
                              uint32_t *next, uint32_t *fill, const rank_shared &shared)
{
    const uint32_t own = *next + threadIdx.x, mask = own < words ? job.masks[starts[0] + own] : 0;
    const uint32_t count = (uint32_t)__popc(mask);
    uint32_t       total;
    const uint32_t at = *fill + nf_k_block_sum_before(count, shared.words.sums, &total);
    const uint32_t taken = (uint32_t)__syncthreads_count(own < words && at + count <= room);

    if (threadIdx.x < taken && mask != 0) put_rows(job, starts, places, turn, starts[0] + own, mask, at, shared);
    if (threadIdx.x == taken) shared.words.fill = at; /* behind the last word taken */
    __syncthreads();
    *fill = taken == blockDim.x ? *fill + total : shared.words.fill;
    *next += taken;
    return taken == blockDim.x;
}

/* ---- whole codes ---- */

template <int BITS>
__device__ inline void load_group(const uint32_t *from, uint32_t (&word)[BITS])
{
    if constexpr (BITS % 4 == 0) {
        NF_UNROLL
        for (int i = 0; i < BITS / 4; i++) {
            const uint4 four = __ldg((const uint4 *)from + i);
            word[4 * i] = four.x, word[4 * i + 1] = four.y, word[4 * i + 2] = four.z, word[4 * i + 3] = four.w;
        }
    } else if constexpr (BITS % 2 == 0) {
        NF_UNROLL
        for (int i = 0; i < BITS / 2; i++) {
            const uint2 two = __ldg((const uint2 *)from + i);
            word[2 * i] = two.x, word[2 * i + 1] = two.y;
        }
    } else {
        NF_UNROLL
        for (int i = 0; i < BITS; i++) word[i] = __ldg(from + i);
    }
}

/* So many fields are taken from a word shifted once; with them below bit 23, they are denormal numbers. */
template <int BITS>
constexpr int fields_at_once = 32 % BITS == 0 ? 16 / BITS : 23 / BITS;

/* Field i of a group times 2^(its shift - 149). i is known when this is compiled for a device. */
template <int BITS>
__device__ inline float field_of(const uint32_t (&word)[BITS], int i)
{
    constexpr int  fields = fields_at_once<BITS>;
    const int      begin = i / fields * fields * BITS, w = begin / 32, by = begin % 32, shift = i % fields * BITS;
    const bool     in_word = by + shift + BITS <= 32;
    const uint32_t from = in_word ? word[w] >> by : word[w] >> by | word[(w + 1) % BITS] << (32 - by);
    return __uint_as_float(from & ((1u << BITS) - 1u) << shift);
}

/* The exponent of the query's largest value, as its bits have it: 1 to 254. */
__device__ inline uint32_t exponent_of(uint32_t largest)
{
    return min(max(largest >> 23, 1u), 254u);
}

/* 2^(e - 127), with e from 0 to 254. */
__device__ inline float power_of_two(uint32_t e)
{
    return __uint_as_float(e == 0 ? 0x00400000u : e << 23);
}

/* The query in shared memory, as it is, and the bits of its largest magnitude. A thread scales what it has loaded. */
__device__ inline void load_query(const rank_job &job, const float *rotated, const rank_shared &shared)
{
    uint32_t largest = 0;
    if (threadIdx.x == 0) shared.words.largest = 0;
    for (uint32_t i = threadIdx.x; i < job.groups * 8; i += blockDim.x) {
        const float4 four = *(const float4 *)(rotated + 4 * i);
        *(float4 *)(shared.q + i / 8 * group_pitch + i % 8 * 4) = four;
        const float most = fmaxf(fmaxf(fabsf(four.x), fabsf(four.y)), fmaxf(fabsf(four.z), fabsf(four.w)));
        largest = max(largest, __float_as_uint(most));
    }
    for (uint32_t by = 16; by > 0; by /= 2) largest = max(largest, __shfl_xor_sync(NF_K_EVERY_LANE, largest, (int)by));
    __syncthreads();
    if (threadIdx.x % 32 == 0) atomicMax(&shared.words.largest, largest);
}

/* Every value times 2^(253 - exponent - shift): below 2^127. */
template <int BITS>
__device__ inline void scale_query(const rank_job &job, const rank_shared &shared)
{
    const float scale = power_of_two(254 - exponent_of(shared.words.largest));
    for (uint32_t i = threadIdx.x; i < job.groups * 8; i += blockDim.x) {
        float *const q = shared.q + i / 8 * group_pitch + i % 8 * 4;
        NF_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t shift = (i % 8 * 4 + j) % fields_at_once<BITS> * BITS;
            q[j] = q[j] * scale * power_of_two(253 - shift);
        }
    }
}

/* Products of ROWS records with the scaled query: the sums over groups `of`, of + lanes, ... */
template <int BITS, int ROWS>
__device__ inline void dot_groups(const uint32_t *const (&record)[ROWS], const float *q, uint32_t groups, uint32_t of,
                                  uint32_t lanes, float (&sum)[ROWS])
{
    float4 part[ROWS] = {};
    for (uint32_t group = of; group < groups; group += lanes) {
        uint32_t word[ROWS][BITS];
        NF_UNROLL
        for (int r = 0; r < ROWS; r++) load_group<BITS>(record[r] + group * BITS, word[r]);
        NF_UNROLL
        for (int i = 0; i < 32; i += 4) {
            const float4 value = *(const float4 *)(q + group * group_pitch + i);
            NF_UNROLL
            for (int r = 0; r < ROWS; r++) {
                part[r].x = fmaf(field_of<BITS>(word[r], i), value.x, part[r].x);
                part[r].y = fmaf(field_of<BITS>(word[r], i + 1), value.y, part[r].y);
                part[r].z = fmaf(field_of<BITS>(word[r], i + 2), value.z, part[r].z);
                part[r].w = fmaf(field_of<BITS>(word[r], i + 3), value.w, part[r].w);
            }
        }
    }
    NF_UNROLL
    for (int r = 0; r < ROWS; r++) sum[r] = (part[r].x + part[r].y) + (part[r].z + part[r].w);
}

/* Survivor `first` of this lane's team, and for ROWS 2 also the one `teams` behind it. Whole warps. */
template <int BITS, int ROWS>
__device__ inline void rank_rows(const rank_job &job, uint32_t first, uint32_t teams, uint32_t fill, float offset,
                                 nf_k_key limit, const rank_shared &shared)
{
    const uint32_t  lanes = 1u << job.lane_logs, of = threadIdx.x & (lanes - 1);
    uint32_t        row[ROWS];
    const uint32_t *record[ROWS];
    const float     scale = power_of_two(exponent_of(shared.words.largest)); /* with 2^23: undoes scale_query */
    float           dot[ROWS], add[ROWS], rescale[ROWS];
    NF_UNROLL
    for (int r = 0; r < ROWS; r++) {
        const uint32_t at = min(first + (uint32_t)r * teams, fill - 1);
        row[r] = shared.rows[at];
        record[r] = job.whole + (uint64_t)row[r] * job.groups * BITS;
        add[r] = __ldg(&job.whole_add[row[r]]) + shared.adds[at];
        rescale[r] = __ldg(&job.whole_rescale[row[r]]);
    }
    dot_groups<BITS, ROWS>(record, shared.q, job.groups, of, lanes, dot);
    NF_UNROLL
    for (int r = 0; r < ROWS; r++) {
        for (uint32_t by = lanes / 2; by > 0; by /= 2) dot[r] += __shfl_xor_sync(NF_K_EVERY_LANE, dot[r], (int)by);
        const float    product = fmaf(dot[r] * 8388608.0f, scale, offset);
        const nf_k_key key = nf_k_make_key(nf_k_order_of(fmaf(rescale[r], product, add[r])), row[r]);
        if (of == 0 && first + (uint32_t)r * teams < fill && key < limit) {
            shared.keys[atomicAdd(&shared.words.found, 1u)] = key;
        }
    }
}

/* ---- the k best ---- */

/* Where there are many more keys than k, those that can be among the k least, and some more. */
__device__ inline nf_k_key *leave_fewer(uint32_t k, uint32_t *count, const rank_shared &shared)
{
    const uint32_t all = *count, slack = k / 4 + 4;
    uint32_t       least = NF_K_NO_ORDER;

    if (k > blockDim.x / 2 || all <= k + 2 * slack || all <= 32) return shared.keys;
    for (uint32_t i = threadIdx.x; i < all; i += blockDim.x) least = min(least, (uint32_t)(shared.keys[i] >> 32));
    const uint32_t threshold = nf_k_block_threshold(least, k, slack, shared.words.words);
    if (threadIdx.x == 0) shared.words.found = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < all; i += blockDim.x) {
        const nf_k_key key = shared.keys[i];
        if (key >> 32 <= threshold) shared.fewer[atomicAdd(&shared.words.found, 1u)] = key;
    }
    __syncthreads();
    *count = shared.words.found;
    return shared.fewer;
}

/* The k least of two sorted arrays without equal keys but NF_K_NO_KEY, which only `best` has: k keys. */
__device__ inline void merge(const nf_k_key *best, uint32_t k, const nf_k_key *keys, uint32_t count, nf_k_key *out)
{
    for (uint32_t i = threadIdx.x; i < min(count, k); i += blockDim.x) {
        const uint32_t at = i + nf_k_below(best, k, keys[i]);
        if (at < k) out[at] = keys[i];
    }
    for (uint32_t i = threadIdx.x; i < k; i += blockDim.x) {
        const uint32_t at = i + nf_k_below(keys, count, best[i]);
        if (at < k) out[at] = best[i];
    }
    __syncthreads();
}

/* Survivors so far: ranked, and those below the k-th key merged into *best; *other is room for as many. */
template <int BITS>
__device__ inline void rank_survivors(const rank_job &job, uint32_t fill, float offset, nf_k_key **best, nf_k_key **other,
                                      const rank_shared &shared)
{
    const uint32_t k = job.tops.k, teams = blockDim.x >> job.lane_logs;
    const uint32_t team = threadIdx.x >> job.lane_logs;
    const uint32_t first_of_warp = threadIdx.x / 32 << (5 - job.lane_logs);
    const nf_k_key limit = (*best)[k - 1];

    if (threadIdx.x == 0) shared.words.found = 0;
    __syncthreads();
    for (uint32_t first = 0; first < fill; first += 2 * teams) {
        if (first + first_of_warp + teams < fill) {
            rank_rows<BITS, 2>(job, first + team, teams, fill, offset, limit, shared);
        } else if (first + first_of_warp < fill) {
            rank_rows<BITS, 1>(job, first + team, teams, fill, offset, limit, shared);
        }
    }
    __syncthreads();
    uint32_t count = shared.words.found;
    if (count == 0) return;
    __syncthreads();
    nf_k_key *const keys = leave_fewer(k, &count, shared);
    nf_k_block_sort(keys, count);
    merge(*best, k, keys, count, *other);
    nf_k_key *const swapped = *best;
    *best = *other;
    *other = swapped;
}

/* ---- a query ---- */

template <int BITS>
__device__ inline uint32_t rank_query(const rank_job &job, uint32_t query, const uint64_t *starts, uint32_t places,
                                      uint32_t words, nf_k_key *spare, const rank_shared &shared)
{
    const uint32_t  k = job.tops.k;
    const uint64_t  turn = (uint64_t)query * job.turns.probes + nf_k_wave_first(job.turns, job.wave);
    const float    *rotated = job.rotated + (uint64_t)query * job.groups * 32;
    const float     offset = -0.5f * (float)((1u << BITS) - 1u) * job.sum[query]; /* -kappa sum q */
    nf_k_key *const tops = job.tops.keys + (uint64_t)query * k;
    nf_k_key       *best = tops, *other = spare;
    uint32_t        next = 0, fill = 0, ranked = 0;

    if (words == 0) return 0;
    load_query(job, rotated, shared);
    if (job.scratch == nullptr) { /* spare has room for twice as many */
        best = spare + k;
        for (uint32_t i = threadIdx.x; i < k; i += blockDim.x) best[i] = tops[i];
    }
    while (next < words) { /* there is a barrier in gather */
        const bool all = gather(job, starts, places, turn, words, &next, &fill, shared);
        if ((all && next < words) || fill == 0) continue;
        if (ranked == 0) scale_query<BITS>(job, shared);
        rank_survivors<BITS>(job, fill, offset, &best, &other, shared);
        ranked += fill;
        fill = 0;
        __syncthreads();
    }
    if (ranked == 0) return 0;
    if (best != tops) {
        for (uint32_t i = threadIdx.x; i < k; i += blockDim.x) tops[i] = best[i];
    }
    if (threadIdx.x == 0) {
        const nf_k_key last = best[k - 1];
        job.tops.limit[query] = last == NF_K_NO_KEY ? __uint_as_float(0x7f800000u) : nf_k_value_of((uint32_t)(last >> 32));
    }
    return ranked;
}

template <int BITS>
__global__ __launch_bounds__(most_threads) void rank_kernel(const __grid_constant__ rank_job job)
{
    NF_SHARED_BYTES(bytes);
    __shared__ rank_words words;
    const rank_shared     shared = lay_out(bytes, words);
    const uint32_t        places = job.turns.wave_end[job.wave] - nf_k_wave_first(job.turns, job.wave);
    nf_k_key *const       spare = job.scratch != nullptr ? job.scratch + (uint64_t)blockIdx.x * job.tops.k
                                                         : (nf_k_key *)(shared.q + job.groups * group_pitch);
    unsigned long long    refined = 0;

    for (uint32_t query = blockIdx.x; query < job.turns.count; query += gridDim.x) {
        const uint64_t *starts =
            job.turns.mask_start + nf_k_pair_of(job.turns, job.wave, query, nf_k_wave_first(job.turns, job.wave));
        refined += rank_query<BITS>(job, query, starts, places, (uint32_t)(starts[places] - starts[0]), spare, shared);
        __syncthreads();
    }
    if (threadIdx.x == 0 && refined != 0) atomicAdd(job.tops.refined, refined);
}

template <int BITS>
cudaError_t launch(const rank_job &job, cudaStream_t stream)
{
    const auto        kernel = rank_kernel<BITS>;
    const uint32_t    count = job.turns.count, k = job.tops.k;
    const size_t      bytes = shared_bytes(job.groups, k);
    const bool        far = job.scratch != nullptr;
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    (void)stream;
    if (error != cudaSuccess) return error;
    const uint32_t blocks = far && count > NF_K_FAR_BLOCKS ? NF_K_FAR_BLOCKS : count;
    NF_LAUNCH(kernel, blocks, count <= few_queries || far ? most_threads : many_queries_threads, bytes, stream)(job);
    return nf_k_launched();
}

/* Lanes of a row: as many as leave few idle. */
uint32_t lane_logs_for(uint32_t groups)
{
    uint32_t best = 0;
    for (uint32_t logs = 1; logs <= lane_logs_most; logs++) {
        const uint32_t slots = (groups + (1u << logs) - 1) >> logs << logs;
        const uint32_t slots_best = (groups + (1u << best) - 1) >> best << best;
        if (slots <= slots_best + groups / 8) best = logs;
    }
    return best;
}

} // namespace

extern "C" uint64_t nf_k_rank_scratch(uint32_t count, uint32_t k)
{
    const uint64_t blocks = count < NF_K_FAR_BLOCKS ? count : NF_K_FAR_BLOCKS;
    return k > NF_K_NEAR_BEST ? blocks * k * sizeof(nf_k_key) : 0;
}

extern "C" cudaError_t nf_k_rank(const nf_k_index *index, const nf_k_queries *queries, const nf_k_turns *turns,
                                 uint32_t wave, const uint32_t *masks, nf_k_tops tops, void *scratch, cudaStream_t stream)
{
    const rank_job job = {index->list_start, index->whole,     masks,         index->whole_add, index->whole_rescale,
                          queries->rotated,  queries->sum,     index->groups, wave,             lane_logs_for(index->groups),
                          *turns,            tops,             tops.k > NF_K_NEAR_BEST ? (nf_k_key *)scratch : nullptr};

    if (turns->count == 0 || tops.k == 0 || wave >= turns->waves) return cudaSuccess;
    switch (index->bits) {
    case 1: return launch<1>(job, stream);
    case 2: return launch<2>(job, stream);
    case 3: return launch<3>(job, stream);
    case 4: return launch<4>(job, stream);
    case 5: return launch<5>(job, stream);
    case 6: return launch<6>(job, stream);
    case 7: return launch<7>(job, stream);
    case 8: return launch<8>(job, stream);
    case 9: return launch<9>(job, stream);
    default: return cudaErrorInvalidValue;
    }
}
