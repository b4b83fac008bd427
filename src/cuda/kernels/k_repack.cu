/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the layout of the file (engine_ivf.h) to that of the device (k_ivf.h).
 *
 * Blocks: a warp takes a block. Lane 4g + t reads the four bytes of slots 4g .. 4g + 3 in each of the four rows of bytes
 * that make a word, transposes 4 x 4 bytes and writes its four words at once, so that the warp reads and writes 512 bytes in
 * a row.
 *
 * Rows: a thread takes 32 dims of a row, a group: a word of signs, `ex_bits` words of ex codes, `bits` words of the result.
 * Records have no alignment; where it happens to be that of words, they are read as words.
 */
#include "k_encode.h"
#include "k_launch.h"

namespace {

constexpr unsigned BLOCK = 256, WARPS = BLOCK / 32;

/* The four bytes at an address; fewer than four: zeros in place of the others. */
template <bool WORDS>
__device__ inline uint32_t load_word(const uint8_t *at, uint32_t bytes)
{
    if (WORDS) return bytes == 0 ? 0 : *reinterpret_cast<const uint32_t *>(at);
    uint32_t word = 0;
    NF_UNROLL
    for (uint32_t byte = 0; byte < 4; byte++) {
        if (byte < bytes) word |= (uint32_t)at[byte] << (8 * byte);
    }
    return word;
}

/* ---- blocks ---- */

struct block_job {
    const uint8_t *from;
    uint32_t       count, padded, chunks;
    size_t         block_bytes;
    uint32_t      *codes; /* of the first block, as the others */
    float         *add, *rescale, *error;
};

/* Byte i of each of the four rows. */
__device__ inline uint32_t column_of(const uint32_t rows[4], int i)
{
    return (rows[0] >> (8 * i) & 255u) | (rows[1] >> (8 * i) & 255u) << 8 | (rows[2] >> (8 * i) & 255u) << 16 |
           (rows[3] >> (8 * i) & 255u) << 24;
}

template <bool WORDS>
__global__ void __launch_bounds__(BLOCK) repack_blocks(const __grid_constant__ block_job job)
{
    const uint64_t block = (uint64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (block >= job.count) return;
    const uint32_t lane = threadIdx.x % 32, slot = lane / 4 * 4, byte_rows = job.padded / 8;
    const uint8_t *from = job.from + block * job.block_bytes;
    uint4         *to = reinterpret_cast<uint4 *>(job.codes + block * job.chunks * NF_K_CHUNK_WORDS) + lane;

    NF_UNROLL
    for (uint32_t chunk = 0; chunk < job.chunks; chunk++) {
        const uint32_t first = chunk * (NF_K_CHUNK_DIMS / 8) + lane % 4 * 4;
        uint32_t       rows[4];
        NF_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            rows[i] = load_word<WORDS>(from + (size_t)(first + i) * NF_IVF_BLOCK + slot, first + i < byte_rows ? 4 : 0);
        }
        to[chunk * (NF_K_CHUNK_WORDS / 4)] =
            make_uint4(column_of(rows, 0), column_of(rows, 1), column_of(rows, 2), column_of(rows, 3));
    }
    const uint8_t *factors = from + (size_t)byte_rows * NF_IVF_BLOCK, *error = factors + 8 * NF_IVF_BLOCK + 2 * lane;
    const uint64_t at = block * NF_IVF_BLOCK + lane;
    job.add[at] = __uint_as_float(load_word<WORDS>(factors + 4 * lane, 4));
    job.rescale[at] = __uint_as_float(load_word<WORDS>(factors + 4 * (NF_IVF_BLOCK + lane), 4));
    job.error[at] = __uint_as_float((uint32_t)error[0] << 16 | (uint32_t)error[1] << 24);
}

/* ---- rows ---- */

struct row_job {
    const uint32_t *codes;
    const float    *add, *rescale; /* of short codes */
    const uint8_t  *from;
    const uint32_t *row_slot;
    uint32_t        count, padded, chunks, groups;
    size_t          record_bytes;
    uint32_t       *whole; /* of the first row, as the others */
    float          *whole_add, *whole_rescale;
};

/* The widest store for groups of that many words. */
template <int BITS>
struct words_of {
    static constexpr int width = BITS % 4 == 0 ? 4 : BITS % 2 == 0 ? 2 : 1;
};

template <int BITS>
__device__ inline void store_group(uint32_t *to, const uint32_t *words)
{
    NF_UNROLL
    for (int i = 0; i < BITS; i += words_of<BITS>::width) {
        if constexpr (words_of<BITS>::width == 4) {
            *reinterpret_cast<uint4 *>(to + i) = make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]);
        } else if constexpr (words_of<BITS>::width == 2) {
            *reinterpret_cast<uint2 *>(to + i) = make_uint2(words[i], words[i + 1]);
        } else {
            to[i] = words[i];
        }
    }
}

/* Numbers of BITS bits: the ex codes with the signs on top. */
template <int BITS>
__device__ inline void join(uint32_t signs, const uint32_t *ex, uint32_t *out)
{
    constexpr int      EX = BITS - 1;
    constexpr uint32_t MASK = (1u << EX) - 1;
    NF_UNROLL
    for (int i = 0; i < BITS; i++) out[i] = 0;
    NF_UNROLL
    for (int dim = 0; dim < 32; dim++) {
        const int from = dim * EX, to = dim * BITS;
        uint32_t  u = ex[from / 32] >> (from % 32);
        if (from % 32 + EX > 32) u |= ex[from / 32 + 1] << (32 - from % 32);
        u = (u & MASK) | (signs >> dim & 1u) << EX;
        out[to / 32] |= u << (to % 32);
        if (to % 32 + BITS > 32) out[to / 32 + 1] |= u >> (32 - to % 32);
    }
}

template <int BITS, bool WORDS>
__global__ void __launch_bounds__(BLOCK) repack_rows(const __grid_constant__ row_job job)
{
    const uint64_t at = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (at >= (uint64_t)job.count * job.groups) return;
    const uint64_t i = at / job.groups;
    const uint32_t group = (uint32_t)(at - i * job.groups), slot = job.row_slot[i], inside = slot % NF_IVF_BLOCK;
    const uint64_t chunk = (uint64_t)(slot / NF_IVF_BLOCK) * job.chunks + group / 4;
    const uint32_t signs = job.codes[chunk * NF_K_CHUNK_WORDS + inside / 4 * 16 + group % 4 * 4 + inside % 4];
    uint32_t       out[BITS];

    if constexpr (BITS == 1) {
        out[0] = signs;
        if (group == 0) {
            job.whole_add[i] = job.add[slot];
            job.whole_rescale[i] = job.rescale[slot];
        }
    } else {
        constexpr uint32_t EX = BITS - 1;
        const uint8_t     *record = job.from + i * job.record_bytes;
        const uint32_t     bytes = (uint32_t)job.record_bytes, begin = 8 + group * 4 * EX;
        uint32_t           ex[EX];
        NF_UNROLL
        for (uint32_t word = 0; word < EX; word++) {
            const uint32_t from = begin + 4 * word;
            ex[word] = load_word<WORDS>(record + from, from < bytes ? min(4u, bytes - from) : 0);
        }
        join<BITS>(signs, ex, out);
        if (group == 0) {
            job.whole_add[i] = __uint_as_float(load_word<WORDS>(record, 4));
            job.whole_rescale[i] = __uint_as_float(load_word<WORDS>(record + 4, 4));
        }
    }
    store_group<BITS>(job.whole + at * BITS, out);
}

template <int BITS>
cudaError_t launch_rows(const row_job &job, cudaStream_t stream)
{
    const bool     words = (uintptr_t)job.from % 4 == 0 && job.record_bytes % 4 == 0;
    const unsigned blocks = nf_k_blocks((uint64_t)job.count * job.groups, BLOCK);
    if (words) {
        NF_LAUNCH((repack_rows<BITS, true>), blocks, BLOCK, 0, stream)(job);
    } else {
        NF_LAUNCH((repack_rows<BITS, false>), blocks, BLOCK, 0, stream)(job);
    }
    return nf_k_launched();
}

} // namespace

extern "C" cudaError_t nf_k_repack_blocks(const uint8_t *from, uint32_t first, uint32_t count, uint32_t padded,
                                          uint32_t *codes, float *add, float *rescale, float *error, cudaStream_t stream)
{
    const uint32_t  chunks = nf_k_chunks(padded);
    const uint64_t  slots = (uint64_t)first * NF_IVF_BLOCK;
    uint32_t *const to = codes + (size_t)first * chunks * NF_K_CHUNK_WORDS;
    const block_job job = {from, count,       padded,          chunks,       nf_ivf_block_bytes(padded),
                           to,   add + slots, rescale + slots, error + slots};
    const unsigned  blocks = nf_k_blocks(count, WARPS);
    if ((uintptr_t)from % 4 == 0) {
        NF_LAUNCH(repack_blocks<true>, blocks, BLOCK, 0, stream)(job);
    } else {
        NF_LAUNCH(repack_blocks<false>, blocks, BLOCK, 0, stream)(job);
    }
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_repack_rows(const nf_k_index *index, const uint8_t *from, const uint32_t *row_slot,
                                        uint32_t first, uint32_t count, uint32_t *whole, float *whole_add,
                                        float *whole_rescale, cudaStream_t stream)
{
    row_job job = {};
    job.codes = index->codes;
    job.add = index->add;
    job.rescale = index->rescale;
    job.from = from;
    job.row_slot = row_slot;
    job.count = count;
    job.padded = index->padded;
    job.chunks = index->chunks;
    job.groups = index->groups;
    job.record_bytes = nf_ivf_record_bytes(index->padded, index->bits);
    job.whole = whole + (size_t)first * index->groups * index->bits;
    job.whole_add = whole_add + first;
    job.whole_rescale = whole_rescale + first;
    switch (index->bits) {
    case 1: return launch_rows<1>(job, stream);
    case 2: return launch_rows<2>(job, stream);
    case 3: return launch_rows<3>(job, stream);
    case 4: return launch_rows<4>(job, stream);
    case 5: return launch_rows<5>(job, stream);
    case 6: return launch_rows<6>(job, stream);
    case 7: return launch_rows<7>(job, stream);
    case 8: return launch_rows<8>(job, stream);
    case 9: return launch_rows<9>(job, stream);
    default: return cudaErrorInvalidValue;
    }
}
