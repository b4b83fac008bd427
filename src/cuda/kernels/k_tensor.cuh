/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows a product on tensor cores: which pairs of a slab are results, and where these go. A slab is 16 rows times 256
 * columns, held by a warp: with lane = 4g + t, value j of a lane is of row g + 8 (j / 2 % 2) and column 8 (j / 4) + 2t + j % 2.
 * In words of bits value j is bit 31 - j % 32 of word j / 32.
 */
#ifndef NF_K_TENSOR_CUH
#define NF_K_TENSOR_CUH

#include "k_emit.cuh"
#include "k_tensor.h"

namespace {

constexpr int      slab_values = 128, slab_words = slab_values / 32;
constexpr uint32_t FEW_RESULTS = 4; /* of a lane */
constexpr uint32_t slab_row_bits = 0xccccccccu; /* values of row g; the others are of row g + 8 */

/* What decides a pair of tiles. */
struct tile_limits {
    float start; /* T / 2, rounded up */
    float sure;  /* accumulators from here on are certainly in */
};

/* The bound is docs/numerics.md's, section 12; everything is rounded against certainty. */
__device__ inline tile_limits limits_of(const nf_k_tensor &job, uint32_t query_tile, uint32_t tile)
{
    const double rest = (double)job.x.rest[query_tile] + (double)job.y.rest[tile];
    const double a = job.x.length[query_tile], b = job.y.length[tile];
    const double outer = (job.radius + rest) * (job.radius + rest), inner = job.radius - rest;
    const double factor = 2.0 * (job.accumulation + 0x1p-21); /* the start: three roundings of terms of at most S */
    const double error = factor * (a * b + 0.5 * (a * a + b * b) + 0.5 * outer) * (1.0 + factor) * (1.0 + 0x1p-30);
    const double whole = (outer + error) * (1.0 + 0x1p-20);
    tile_limits  limits;
    limits.start = __double2float_ru(0.5 * whole);
    limits.sure = __int_as_float(0x7f800000);
    if (inner > 0.0) limits.sure = __double2float_ru(((double)limits.start - 0.5 * (inner * inner - error)) * (1.0 + 0x1p-20));
    return limits;
}

/* Where a slab lies, and whether all of its pairs are asked for. */
struct slab_place {
    uint32_t row, column; /* position of its first row and column */
    bool     whole;
};

__device__ inline slab_place place_slab(const nf_k_tensor &job, uint32_t row, uint32_t column)
{
    const nf_k_refine &refine = job.refine;
    slab_place         place = {row, column, false};
    const bool rows = row >= job.query_begin && row + 16 <= job.query_end;
    const bool columns = column + NF_K_TENSOR_TILE <= job.y.rows;
    const bool outside = refine.self_join == 0 || column >= refine.last || column + NF_K_TENSOR_TILE <= refine.first;
    const bool above = column >= row + 16;
    place.whole = rows && columns && (outside || above);
    return place;
}

__device__ inline uint32_t value_row(const slab_place &place, int j)
{
    return place.row + (threadIdx.x % 32) / 4 + (uint32_t)(j & 2) * 4;
}

__device__ inline uint32_t value_column(const slab_place &place, int j)
{
    return place.column + (uint32_t)(j / 4) * 8 + threadIdx.x % 4 * 2 + (uint32_t)(j & 1);
}

/* Takes out of bits what the batch does not ask for here. */
__device__ inline uint32_t asked_for(const nf_k_tensor &job, const slab_place &place, int word, uint32_t bits)
{
    uint32_t kept = 0;
    for (uint32_t left = bits; left != 0; left &= left - 1) {
        const int      bit = __ffs((int)left) - 1, j = word * 32 + 31 - bit;
        const uint32_t query = value_row(place, j), point = value_column(place, j);
        if (query < job.query_begin || query >= job.query_end || point >= job.y.rows) continue;
        if (nf_k_inside(job.refine, point) && point <= query) continue;
        kept |= 1u << bit;
    }
    return kept;
}

/* Open pairs go to the list that the recheck decides, or are decided here. Returns those that are in. */
__device__ inline uint32_t settle_open(const nf_k_refine &job, const slab_place &place, int word, uint32_t open)
{
    uint32_t in = 0;
    uint64_t at = nf_k_add(&job.counters->open, (uint64_t)__popc(open));
    nf_k_add(&job.counters->rechecked, (uint64_t)__popc(open));
    for (uint32_t left = open; left != 0; left &= left - 1, at++) {
        const int      bit = __ffs((int)left) - 1, j = word * 32 + 31 - bit;
        const uint32_t query = value_row(place, j), point = value_column(place, j);
        if (at < job.open_capacity) {
            job.open[at] = nf_k_open{query, point, 0, 0};
        } else if (nf_k_decide(job, query, point)) {
            in |= 1u << bit;
        }
    }
    return in;
}

/* Bytes: sums of 0 or 1 (those in one), whose norms' last bits tell whether they are out, ties, or in (settle_sums). */
__device__ inline uint32_t settle_close(const nf_k_tensor &job, const slab_place &place, int word, uint32_t close, uint32_t one)
{
    const int32_t *x_norms = static_cast<const int32_t *>(job.x.norms), *y_norms = static_cast<const int32_t *>(job.y.norms);
    uint32_t       in = 0;
    for (uint32_t left = close; left != 0; left &= left - 1) {
        const int      bit = __ffs((int)left) - 1, j = word * 32 + 31 - bit;
        const uint32_t query = value_row(place, j), point = value_column(place, j);
        const int32_t  value = ((one >> bit & 1u) != 0 ? 0 : -2) + ((job.whole - x_norms[query]) & 1) + (y_norms[point] & 1);
        const bool     tie = value >= 0 && value < job.sure_from;
        if (tie) nf_k_add(&job.refine.counters->ties, nf_k_weight(job.refine, query, point));
        if (value >= 0 && (!tie || job.refine.strict == 0)) in |= 1u << bit;
    }
    return in;
}

/* Results are added to the counts of their rows, and, inside the batch, of their columns. All lanes. */
__device__ inline void count_slab(const nf_k_refine &job, const slab_place &place, const uint32_t in[slab_words])
{
    uint32_t found = 0;
    for (int w = 0; w < slab_words; w++) found += (uint32_t)__popc(in[w]);
    if (job.half != 0 || !__any_sync(NF_ALL_LANES, found > FEW_RESULTS)) { /* one by one */
        for (int w = 0; w < slab_words; w++) {
            for (uint32_t left = in[w]; left != 0; left &= left - 1) {
                const int j = w * 32 + 32 - __ffs((int)left);
                nf_k_count_pair(job, value_row(place, j), value_column(place, j));
            }
        }
        return;
    }
    for (int half = 0; half < 2; half++) {
        uint32_t count = 0;
        for (int w = 0; w < slab_words; w++) count += (uint32_t)__popc(in[w] & (half == 0 ? slab_row_bits : ~slab_row_bits));
        count += __shfl_xor_sync(NF_ALL_LANES, count, 1);
        count += __shfl_xor_sync(NF_ALL_LANES, count, 2);
        if (count > 0 && threadIdx.x % 4 == 0) atomicAdd(&job.counts[value_row(place, half * 2)], count);
    }
    if (job.self_join == 0) return;
    for (int w = 0; w < slab_words; w++) {
        for (uint32_t left = in[w]; left != 0; left &= left - 1) {
            const uint32_t point = value_column(place, w * 32 + 32 - __ffs((int)left));
            if (nf_k_inside(job, point)) atomicAdd(&job.counts[point], 1u);
        }
    }
}

/* Results go to the store; a warp takes room for all of its own at once. All lanes. */
__device__ inline void store_slab(const nf_k_refine &job, const slab_place &place, const uint32_t in[slab_words])
{
    const unsigned lane = threadIdx.x % 32;
    uint32_t       count = 0;
    for (int w = 0; w < slab_words; w++) count += (uint32_t)__popc(in[w]);
    uint32_t sum = count;
    for (unsigned by = 1; by < 32; by *= 2) {
        const uint32_t other = __shfl_up_sync(NF_ALL_LANES, sum, by);
        if (lane >= by) sum += other;
    }
    const uint32_t total = __shfl_sync(NF_ALL_LANES, sum, 31);
    uint64_t       base = 0;
    if (total == 0) return;
    if (lane == 31) base = nf_k_add(&job.counters->pairs, total);
    base = __shfl_sync(NF_ALL_LANES, base, 31);
    if (base + total > job.store_capacity) return;
    base += sum - count;
    for (int w = 0; w < slab_words; w++) {
        for (uint32_t left = in[w]; left != 0; left &= left - 1) {
            const int j = w * 32 + 32 - __ffs((int)left);
            job.store[base++] = nf_pair{value_row(place, j), value_column(place, j)};
        }
    }
}

/* Bits of what may be a result and of what certainly is one (bytes: of sums above 0, too), to where they go. All lanes of a
 * warp. */
struct slab_bits {
    uint32_t maybe[slab_words], sure[slab_words], one[slab_words];
};

__device__ __noinline__ void settle_slab(const nf_k_tensor &job, slab_place place, slab_bits bits)
{
    uint32_t in[slab_words];
    NF_UNROLL
    for (int w = 0; w < slab_words; w++) {
        if (!place.whole) bits.maybe[w] = asked_for(job, place, w, bits.maybe[w]);
        in[w] = bits.sure[w] & bits.maybe[w];
        const uint32_t open = bits.maybe[w] & ~in[w];
        if (open == 0) continue;
        in[w] |= job.bytes ? settle_close(job, place, w, open, bits.one[w]) : settle_open(job.refine, place, w, open);
    }
    __syncwarp();
    if (job.refine.emit == NF_K_COUNT) {
        count_slab(job.refine, place, in);
    } else {
        store_slab(job.refine, place, in);
    }
}

/* The sign bits of 32 values from `first` on, that of the first one leftmost. */
template <typename GET>
__device__ inline uint32_t signs_of(const GET &get, int first)
{
    uint32_t word = 0;
    NF_UNROLL
    for (int j = 0; j < 32; j++) word = __funnelshift_l(get(first + j), word, 1);
    return word;
}

/* Bit w: some lane has a value in word w whose sign is not set. sign(j): value j. Few slabs hold any: this is the common way. */
template <typename GET>
__device__ inline uint32_t words_with_results(const GET &sign)
{
    uint32_t all[slab_words];
    NF_UNROLL
    for (int w = 0; w < slab_words; w++) {
        all[w] = sign(w * 32);
        NF_UNROLL
        for (int j = 1; j < 32; j++) all[w] &= sign(w * 32 + j);
    }
    if (!__any_sync(NF_ALL_LANES, (int32_t)(all[0] & all[1] & all[2] & all[3]) >= 0)) return 0;
    uint32_t words = 0;
    NF_UNROLL
    for (int w = 0; w < slab_words; w++) words |= (uint32_t)(__any_sync(NF_ALL_LANES, (int32_t)all[w] >= 0) != 0) << w;
    return words;
}

/* Sums of a slab that started at limits.start less the norms. */
__device__ inline void settle_sums(const nf_k_tensor &job, const slab_place &place, const tile_limits &limits,
                                   const float (&sums)[slab_values])
{
    const uint32_t words = words_with_results([&](int j) { return __float_as_uint(sums[j]); });
    slab_bits      bits = {};
    if (words == 0) return;
    NF_UNROLL
    for (int w = 0; w < slab_words; w++) {
        if ((words >> w & 1u) == 0) continue;
        bits.maybe[w] = ~signs_of([&](int j) { return __float_as_uint(sums[j]); }, w * 32);
        bits.sure[w] = ~signs_of([&](int j) { return __float_as_uint(sums[j] - limits.sure); }, w * 32);
    }
    settle_slab(job, place, bits);
}

/* Bytes. What decides a pair is v = 2 x.y + rest, rest = (floor(radius^2) - |x|^2) + (-|y|^2). Sums start at half of either
 * part, rounded down, and 1: a sum s is (v + 2 - the parts' last bits) / 2. So v < 0 where s < 0, v > 0 where s > 1, and the
 * last bits tell about the few in between. */
__device__ inline int32_t half_start(int32_t part)
{
    return part >> 1;
}

__device__ inline void settle_sums(const nf_k_tensor &job, const slab_place &place, const tile_limits &,
                                   const int32_t (&sums)[slab_values])
{
    const uint32_t words = words_with_results([&](int j) { return (uint32_t)sums[j]; });
    slab_bits      bits = {};
    if (words == 0) return;
    NF_UNROLL
    for (int w = 0; w < slab_words; w++) {
        if ((words >> w & 1u) == 0) continue;
        bits.maybe[w] = ~signs_of([&](int j) { return (uint32_t)sums[j]; }, w * 32);
        bits.sure[w] = ~signs_of([&](int j) { return (uint32_t)(sums[j] - 2); }, w * 32);
        bits.one[w] = ~signs_of([&](int j) { return (uint32_t)(sums[j] - 1); }, w * 32);
    }
    settle_slab(job, place, bits);
}

/* ---- units of work: a query tile and a segment of the data's tiles ---- */

struct unit {
    uint32_t query_tile, first, last; /* data tiles [first, last) */
};

__device__ inline uint64_t unit_count(const nf_k_tensor &job)
{
    const uint32_t segments = (job.y.tiles + job.segment - 1) / job.segment;
    return (uint64_t)segments * (job.tile_end - job.tile_begin);
}

/* Segment by segment, so that blocks that run at a time read the same tiles. */
__device__ inline unit unit_of(const nf_k_tensor &job, uint64_t number)
{
    const uint32_t queries = job.tile_end - job.tile_begin, from = (uint32_t)(number / queries) * job.segment;
    unit           own = {job.tile_begin + (uint32_t)(number % queries), from, min(from + job.segment, job.y.tiles)};
    return own;
}

/* Whether a pair of tiles is decided: near, and not one whose pairs the batch decides from the other side. */
__device__ inline bool tile_is_near(const nf_k_tensor &job, uint32_t query_tile, uint32_t tile)
{
    const nf_k_refine &refine = job.refine;
    if (refine.self_join != 0 && tile < query_tile && tile * NF_K_TENSOR_TILE >= refine.first &&
        (tile + 1) * NF_K_TENSOR_TILE <= refine.last) {
        return false;
    }
    if (job.near == nullptr) return true;
    return job.near[(uint64_t)(query_tile - job.tile_begin) * job.near_words + tile / 32] >> (tile % 32) & 1u;
}

__device__ inline uint32_t overlap(uint32_t from, uint32_t to, uint32_t first, uint32_t last)
{
    const uint32_t begin = max(from, first), end = min(to, last);
    return end > begin ? end - begin : 0;
}

/* What a pair of tiles adds to the counters: rows that are asked about times points; both ways where pairs count for both. */
__device__ inline void tally_tile(const nf_k_tensor &job, uint32_t query_tile, uint32_t tile, uint64_t *hits, uint64_t *compared)
{
    const nf_k_refine &refine = job.refine;
    const uint32_t     first = max(query_tile * NF_K_TENSOR_TILE, job.query_begin);
    const uint64_t     rows = overlap(query_tile * NF_K_TENSOR_TILE, (query_tile + 1) * NF_K_TENSOR_TILE, job.query_begin, job.query_end);
    const uint32_t     from = tile * NF_K_TENSOR_TILE, to = min(from + NF_K_TENSOR_TILE, job.y.rows);
    const uint32_t     inside = refine.self_join != 0 ? overlap(from, to, refine.first, refine.last) : 0;
    uint32_t           outside = to - from - inside;
    for (uint32_t i = 0; i < refine.cut_count; i++) { /* counted from the other side before */
        if (first >= refine.cuts[i].cut && first < refine.cuts[i].last) {
            outside -= overlap(from, to, refine.cuts[i].first, refine.cuts[i].cut);
        }
    }
    const uint64_t both = tile > query_tile ? rows * inside : 0, once = tile == query_tile ? rows * inside : 0;
    *compared += rows * outside + 2 * both + once;
    *hits += (outside > 0 || once > 0 ? rows : 0) + (both > 0 ? rows + inside : 0);
}

} // namespace

#endif
