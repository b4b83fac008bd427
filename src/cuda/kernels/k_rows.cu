/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From pairs to rows: lengths, then every id at a place of its row.
 *
 * Rows take entries through counters that are moved atomically; the order in which entries arrive does not matter, since
 * rows are sorted afterwards. Neighbouring pairs mostly have the same query, so a warp moves a counter once for a run of
 * pairs that go to one row, and writes the run side by side.
 */
#include "k_launch.h"
#include "k_rows.h"

#define THREADS 256u
#define NOWHERE 0xffffffffu
#define WHOLE_WARP 0xffffffffu

/* Where the two directions of a pair go: local row numbers, or NOWHERE; and which ids. */
typedef struct pair_targets {
    uint32_t row, id;
    uint32_t other_row, other_id;
} pair_targets;

static __device__ inline uint32_t local_row(const nf_k_found &found, uint32_t position)
{
    const uint32_t local = position - found.first;
    return local < found.rows ? local : NOWHERE;
}

static __device__ inline pair_targets targets_of(const nf_k_found &found, uint64_t at)
{
    pair_targets to = {NOWHERE, 0, NOWHERE, 0};
    if (at >= found.count) return to;
    const uint2    words = __ldcs((const uint2 *)found.pairs + at);
    const uint32_t query = words.x, point = words.y;
    to.id = found.point_ids[point];
    if (found.half) {
        const uint32_t query_id = found.query_ids[query];
        const bool     own = query_id < to.id;
        to.row = local_row(found, own ? query : point);
        if (!own) to.id = query_id;
        return to;
    }
    to.row = local_row(found, query);
    if (found.both) {
        to.other_row = local_row(found, point);
        to.other_id = found.query_ids[query];
    }
    return to;
}

/* A lane's run: lanes beside each other that go to the same row. */
typedef struct warp_run {
    uint32_t lane, head, length;
} warp_run;

static __device__ inline warp_run run_of(uint32_t row)
{
    warp_run       run;
    const uint32_t before = __shfl_up_sync(WHOLE_WARP, row, 1);
    run.lane = threadIdx.x % 32;
    const uint32_t heads = __ballot_sync(WHOLE_WARP, run.lane == 0 || before != row);
    const uint32_t up_to = heads & (WHOLE_WARP >> (31 - run.lane));
    const uint32_t after = run.lane == 31 ? 0u : heads & (WHOLE_WARP << (run.lane + 1));
    run.head = 31u - (uint32_t)__clz((int)up_to);
    run.length = (after != 0 ? (uint32_t)__ffs((int)after) - 1u : 32u) - run.head;
    return run;
}

static __device__ inline void count_entry(uint32_t row, uint32_t *lengths)
{
    const warp_run run = run_of(row);
    if (row != NOWHERE && run.lane == run.head) atomicAdd(&lengths[row], run.length);
}

static __device__ inline void place_entry(uint32_t row, uint32_t id, unsigned long long *cursors, uint32_t *ids)
{
    const warp_run     run = run_of(row);
    unsigned long long at = 0;
    if (row != NOWHERE && run.lane == run.head) at = atomicAdd(&cursors[row], (unsigned long long)run.length);
    at = __shfl_sync(WHOLE_WARP, at, (int)run.head);
    if (row != NOWHERE) ids[at + (run.lane - run.head)] = id;
}

static __global__ void lengths_kernel(nf_k_found found, uint32_t *lengths)
{
    const uint64_t     at = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    const pair_targets to = targets_of(found, at);
    count_entry(to.row, lengths);
    if (found.both) count_entry(to.other_row, lengths);
}

static __device__ inline uint32_t in_piece(const nf_k_piece &piece, uint32_t row)
{
    if (row == NOWHERE) return NOWHERE;
    const uint32_t rank = piece.rank[row];
    return rank >= piece.begin && rank < piece.end ? row : NOWHERE;
}

/* Part: the piece is not the whole batch. */
template <bool Part>
static __global__ void place_kernel(nf_k_found found, nf_k_piece piece, unsigned long long *cursors)
{
    const uint64_t at = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    pair_targets   to = targets_of(found, at);
    if (Part) {
        to.row = in_piece(piece, to.row);
        to.other_row = in_piece(piece, to.other_row);
    }
    place_entry(to.row, to.id, cursors, piece.ids);
    if (found.both) place_entry(to.other_row, to.other_id, cursors, piece.ids);
}

static __global__ void ids_kernel(const uint32_t *of, uint32_t first, uint32_t rows, uint32_t *ids, uint32_t *positions)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= rows) return;
    ids[i] = of[first + i];
    positions[i] = first + i;
}

static __global__ void ranks_kernel(const uint32_t *order, uint32_t first, uint32_t rows, uint32_t *rank)
{
    const uint32_t r = blockIdx.x * THREADS + threadIdx.x;
    if (r < rows) rank[order[r] - first] = r;
}

static __global__ void lengths_by_rank_kernel(const uint32_t *lengths, const uint32_t *order, uint32_t first, uint32_t rows,
                                              uint32_t self, uint32_t *by_rank)
{
    const uint32_t r = blockIdx.x * THREADS + threadIdx.x;
    if (r < rows) by_rank[r] = lengths[order[r] - first] + self;
    if (r == rows) by_rank[r] = 0;
}

static __global__ void cursors_kernel(nf_k_piece piece, const uint32_t *query_ids, uint32_t self,
                                      unsigned long long *cursors)
{
    const uint32_t local = blockIdx.x * THREADS + threadIdx.x;
    if (local >= piece.rows) return;
    const uint32_t rank = piece.rank[local];
    if (rank < piece.begin || rank >= piece.end) return;
    const uint64_t at = piece.offsets[rank] - piece.base;
    if (self) piece.ids[at] = query_ids[piece.first + local];
    cursors[local] = at + self;
}

static __device__ inline uint32_t class_of(uint64_t length)
{
    if (length <= 1) return NF_K_ROW_DONE;
    if (length <= 32) return NF_K_ROW_32;
    if (length > 16384) return NF_K_ROW_LONG;
    if (length > 4096) return NF_K_ROW_16384;
    if (length > 1024) return NF_K_ROW_4096;
    return NF_K_ROW_32 + (27u - (uint32_t)__clz((int)(length - 1))); /* 33 .. 64: 5 leading bits + 1 */
}

/* Each block counts in shared memory, so that the counters of all rows are touched a few times per block only. */
static __global__ void classes_kernel(nf_k_piece piece, uint32_t *counts, uint32_t *rows)
{
    __shared__ uint32_t own[NF_K_ROW_CLASSES], start[NF_K_ROW_CLASSES];
    const uint32_t      rank = piece.begin + blockIdx.x * THREADS + threadIdx.x;
    uint32_t            row_class = NF_K_ROW_DONE, place = 0;

    if (threadIdx.x < NF_K_ROW_CLASSES) own[threadIdx.x] = 0;
    __syncthreads();
    if (rank < piece.end) {
        row_class = class_of(piece.offsets[rank + 1] - piece.offsets[rank]);
        place = atomicAdd(&own[row_class], 1u);
    }
    __syncthreads();
    if (threadIdx.x < NF_K_ROW_CLASSES && own[threadIdx.x] > 0) {
        start[threadIdx.x] = atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
    }
    __syncthreads();
    if (rows != NULL && rank < piece.end) rows[start[row_class] + place] = rank;
}

extern "C" cudaError_t nf_k_row_ids(const uint32_t *of, uint32_t first, uint32_t rows, uint32_t *ids, uint32_t *positions,
                                    cudaStream_t stream)
{
    NF_LAUNCH(ids_kernel, nf_k_blocks(rows, THREADS), THREADS, 0, stream)(of, first, rows, ids, positions);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_row_ranks(const uint32_t *order, uint32_t first, uint32_t rows, uint32_t *rank,
                                      cudaStream_t stream)
{
    NF_LAUNCH(ranks_kernel, nf_k_blocks(rows, THREADS), THREADS, 0, stream)(order, first, rows, rank);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_row_lengths(const nf_k_found *found, uint32_t *lengths, cudaStream_t stream)
{
    NF_LAUNCH(lengths_kernel, nf_k_blocks(found->count, THREADS), THREADS, 0, stream)(*found, lengths);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_row_lengths_by_rank(const uint32_t *lengths, const uint32_t *order, uint32_t first,
                                                uint32_t rows, uint32_t self, uint32_t *by_rank, cudaStream_t stream)
{
    NF_LAUNCH(lengths_by_rank_kernel, nf_k_blocks((uint64_t)rows + 1, THREADS), THREADS, 0, stream)
    (lengths, order, first, rows, self, by_rank);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_row_cursors(const nf_k_piece *piece, const uint32_t *query_ids, uint32_t self,
                                        uint64_t *cursors, cudaStream_t stream)
{
    NF_LAUNCH(cursors_kernel, nf_k_blocks(piece->rows, THREADS), THREADS, 0, stream)
    (*piece, query_ids, self, (unsigned long long *)cursors);
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_row_place(const nf_k_found *found, const nf_k_piece *piece, uint64_t *cursors,
                                      cudaStream_t stream)
{
    const unsigned            blocks = nf_k_blocks(found->count, THREADS);
    unsigned long long *const at = (unsigned long long *)cursors;
    if (piece->begin == 0 && piece->end == piece->rows) {
        NF_LAUNCH(place_kernel<false>, blocks, THREADS, 0, stream)(*found, *piece, at);
    } else {
        NF_LAUNCH(place_kernel<true>, blocks, THREADS, 0, stream)(*found, *piece, at);
    }
    return nf_k_launched();
}

extern "C" cudaError_t nf_k_row_classes(const nf_k_piece *piece, uint32_t *counts, uint32_t *rows, cudaStream_t stream)
{
    NF_LAUNCH(classes_kernel, nf_k_blocks(piece->end - piece->begin, THREADS), THREADS, 0, stream)(*piece, counts, rows);
    return nf_k_launched();
}
