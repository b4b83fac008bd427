/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes of rows: the device's cpu_ivf_encode.c, which says what they are (RaBitQ, arXiv:2405.12497; more bits,
 * arXiv:2409.09913; on GPUs, arXiv:2602.23999).
 *
 * A team of TEAM warps takes a row; a thread keeps VALUES values of the residual in registers, neighbouring dims in
 * neighbouring lanes. Factors come from sums in binary64, added up in a fixed order: the values of a lane, lanes by a tree,
 * warps in their order. The search for the rescaling factor tries four candidates per pass over the registers; a candidate
 * costs five instructions per value. Its sums are binary32 in a lane and over lanes: a lane has VALUES of them, and the
 * candidates are only compared. The row is put together in shared memory and leaves as it will lie in memory.
 */
#include "k_encode.h"
#include "k_launch.h"
#include "nearfield/neighbours.h"

namespace {

constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr unsigned BLOCK = 128;
constexpr int      COARSE_PASSES = 3; /* of four candidates, as on the host */
constexpr float    NUDGE = 1e-5f;     /* NF_LEVEL_NUDGE of the host's kernels */
constexpr double   TOO_FAR = 1e37;

struct encoding {
    nf_k_encode job;
    uint32_t    fine_passes;
    float       mean_factor; /* times |r|^-1: the candidate that is best on average */
    uint32_t    flat_bytes;
    uint32_t    code_bytes, row_bytes; /* in shared memory: of ex codes, a byte each, and of a team */
};

/* ---- sums of a team ---- */

/* Where the warps of a large team exchange sums. */
struct exchange {
    double  *values; /* TEAM */
    uint32_t warp;   /* of this thread in its team */
};

template <int TEAM>
__device__ inline void wait_for_team()
{
    if (TEAM == 1) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

template <int TEAM>
__device__ inline double sum_of_team(double value, const exchange &with)
{
    for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(ALL_LANES, value, lane);
    if (TEAM == 1) return value;
    wait_for_team<TEAM>();
    with.values[with.warp] = value;
    wait_for_team<TEAM>();
    value = 0.0;
    for (int warp = 0; warp < TEAM; warp++) value += with.values[warp];
    return value;
}

template <int TEAM>
__device__ inline float largest_of_team(float value, const exchange &with)
{
    for (int lane = 16; lane > 0; lane /= 2) value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, lane));
    if (TEAM == 1) return value;
    wait_for_team<TEAM>();
    with.values[with.warp] = (double)value;
    wait_for_team<TEAM>();
    for (int warp = 0; warp < TEAM; warp++) value = fmaxf(value, (float)with.values[warp]);
    return value;
}

/* Adds eight values over the lanes of a warp; lane l gets the sum of value l % 8. In three steps a lane hands over half of
 * what it has, so that 9 exchanges do the work of 40. */
__device__ inline float sum_eight(const float v[8])
{
    const uint32_t lane = threadIdx.x % 32;
    float          four[4], two[2];
    NF_UNROLL
    for (int j = 0; j < 4; j++) {
        const float keep = (lane & 4u) != 0 ? v[j + 4] : v[j], give = (lane & 4u) != 0 ? v[j] : v[j + 4];
        four[j] = keep + __shfl_xor_sync(ALL_LANES, give, 4);
    }
    NF_UNROLL
    for (int j = 0; j < 2; j++) {
        const float keep = (lane & 2u) != 0 ? four[j + 2] : four[j], give = (lane & 2u) != 0 ? four[j] : four[j + 2];
        two[j] = keep + __shfl_xor_sync(ALL_LANES, give, 2);
    }
    const float keep = (lane & 1u) != 0 ? two[1] : two[0], give = (lane & 1u) != 0 ? two[0] : two[1];
    float       sum = keep + __shfl_xor_sync(ALL_LANES, give, 1);
    sum += __shfl_xor_sync(ALL_LANES, sum, 8);
    return sum + __shfl_xor_sync(ALL_LANES, sum, 16);
}

/* ---- the rescaling factor ---- */

struct best_factor {
    double cosine; /* squared, times |r|^2 */
    float  t;
};

/* Tries four candidates; all threads of the team get the same answer. missing: values of this thread beyond padded: their
 * levels are zero, and what they add to the squares is taken off. */
template <int VALUES, int TEAM>
__device__ inline void try_four(const float *residual, float missing, const float t[4], float most, const exchange &with,
                                best_factor *best)
{
    constexpr float SHIFT = 0x1p23f; /* rounding a sum with it downwards gives the integer below */
    const float     top = SHIFT + most;
    float           sums[8];         /* products, then squares */
    NF_UNROLL
    for (int j = 0; j < 4; j++) {
        sums[j] = 0.0f;
        sums[j + 4] = -0.25f * missing;
    }
    NF_UNROLL
    for (int i = 0; i < VALUES; i++) {
        const float magnitude = fabsf(residual[i]);
        NF_UNROLL
        for (int j = 0; j < 4; j++) {
            const float y = fminf(__fmaf_rd(t[j], magnitude, SHIFT), top) - (SHIFT - 0.5f);
            sums[j] = __fmaf_rn(y, magnitude, sums[j]);
            sums[j + 4] = __fmaf_rn(y, y, sums[j + 4]);
        }
    }
    float sum = sum_eight(sums);
    if (TEAM > 1) {
        float *values = reinterpret_cast<float *>(with.values);
        const uint32_t lane = threadIdx.x % 32;
        wait_for_team<TEAM>();
        if (lane < 8) values[with.warp * 8 + lane] = sum;
        wait_for_team<TEAM>();
        sum = 0.0f;
        for (uint32_t warp = 0; warp < TEAM; warp++) sum += values[warp * 8 + lane % 8];
    }
    const double square = (double)__shfl_xor_sync(ALL_LANES, sum, 4);
    const double cosine = (double)sum * (double)sum / square; /* of candidate lane % 4, in lanes whose bit 2 is not set */
    NF_UNROLL
    for (int j = 0; j < 4; j++) {
        const double candidate = __shfl_sync(ALL_LANES, cosine, j);
        if (candidate > best->cosine) *best = {candidate, t[j]};
    }
}

/* The best t on the host's grid (cpu_ivf_encode.c); powers are binary32 here. */
template <int VALUES, int TEAM>
__device__ inline float rescale_factor(const encoding &of, const float *residual, float missing, float norm, float largest,
                                       const exchange &with)
{
    const float most = (float)((1u << (of.job.bits - 1)) - 1);
    const float by_mean = of.mean_factor / norm, by_largest = (most + 1.0f) / largest;
    const float low = 0.8f * fminf(by_mean, by_largest), high = 1.12f * fmaxf(by_mean, by_largest);
    const float ratio = log2f(high / low) / (4 * COARSE_PASSES - 1);
    best_factor best = {0.0, by_largest};
    float       t[4];
    for (int pass = 0; pass < COARSE_PASSES; pass++) {
        NF_UNROLL
        for (int j = 0; j < 4; j++) t[j] = low * exp2f((float)(4 * pass + j) * ratio);
        try_four<VALUES, TEAM>(residual, missing, t, most, with, &best);
    }
    const float middle = best.t, step = ratio / (float)(2 * of.fine_passes + 1);
    for (uint32_t pass = 0; pass < of.fine_passes; pass++) {
        NF_UNROLL
        for (int j = 0; j < 4; j += 2) {
            const float power = (float)(2 * pass + 1 + (uint32_t)j / 2) * step;
            t[j] = middle * exp2f(power);
            t[j + 1] = middle * exp2f(-power);
        }
        try_four<VALUES, TEAM>(residual, missing, t, most, with, &best);
    }
    return best.t;
}

/* ---- factors ---- */

/* What a code says about its residual (docs/ivf.md). */
struct code_sums {
    double ratio, cy, constant;
};

__device__ inline code_sums sums_of(double ry, double cy, double yy, double square)
{
    if (!(ry > 0.0)) return {0.0, 0.0, 0.0}; /* the residual is zero */
    return {square / ry, cy, sqrt(fmax(0.0, square * yy / (ry * ry) - 1.0))};
}

/* rc: <r, c> + <r, mean>, for inner products. */
__device__ inline void factors_of(const code_sums &sums, uint32_t metric, double square, double rc, float *add,
                                  float *rescale)
{
    if (metric == NF_METRIC_L2) {
        *add = (float)(square + 2.0 * sums.ratio * sums.cy);
        *rescale = (float)(-2.0 * sums.ratio);
    } else {
        *add = (float)(-rc + sums.ratio * sums.cy);
        *rescale = (float)-sums.ratio;
    }
}

__device__ inline void put_bytes(uint8_t *to, uint64_t bits, uint32_t count)
{
    for (uint32_t byte = 0; byte < count; byte++) to[byte] = (uint8_t)(bits >> (8 * byte));
}

/* ---- a row ---- */

/* A thread's part of a row: value i belongs to dim (i * TEAM * 32) + member. */
template <int VALUES>
struct row_part {
    float    residual[VALUES];
    uint32_t member; /* of this thread in its team */
    float    missing;
    double   square, rc;
    float    largest;
};

/* The residual and the sums over it; returns the sum of +-c by the residual's signs and, in *length, that of |r|. */
template <int VALUES, int TEAM>
__device__ inline double read_row(const nf_k_encode &job, uint64_t number, const exchange &with, row_part<VALUES> *part,
                                  double *length)
{
    const float *row = job.rotated + number * job.stride;
    const float *centroid = job.centroids + (uint64_t)job.labels[number] * job.padded;
    double       square = 0.0, rc = 0.0, absolute = 0.0, signed_c = 0.0;
    float        largest = 0.0f;

    part->missing = 0.0f;
    NF_UNROLL
    for (int i = 0; i < VALUES; i++) {
        const uint32_t dim = (uint32_t)(i * TEAM * 32) + part->member;
        float          c = 0.0f, r = 0.0f, mean = 0.0f;
        if (dim < job.padded) {
            c = centroid[dim];
            r = row[dim] - c;
            if (job.metric != NF_METRIC_L2) mean = job.mean[dim];
        } else {
            part->missing += 1.0f;
        }
        part->residual[i] = r;
        largest = fmaxf(largest, fabsf(r));
        square = __fma_rn((double)r, (double)r, square);
        absolute += (double)fabsf(r);
        signed_c += (double)(r > 0.0f ? c : -c);
        if (job.metric != NF_METRIC_L2) rc = __fma_rn((double)r, (double)c + (double)mean, rc);
    }
    part->square = sum_of_team<TEAM>(square, with);
    part->rc = job.metric != NF_METRIC_L2 ? sum_of_team<TEAM>(rc, with) : 0.0;
    part->largest = largest_of_team<TEAM>(largest, with);
    *length = sum_of_team<TEAM>(absolute, with);
    return sum_of_team<TEAM>(signed_c, with);
}

/* The short code and its factors, to the first padded / 8 + 10 bytes; returns the constant of its error. */
template <int VALUES, int TEAM>
__device__ inline double encode_short(const nf_k_encode &job, const row_part<VALUES> &part, double length, double signed_c,
                                      uint8_t *flat)
{
    const uint32_t lane = part.member % 32, bytes = job.padded / 8;
    NF_UNROLL
    for (int i = 0; i < VALUES; i++) {
        const uint32_t signs = __ballot_sync(ALL_LANES, part.residual[i] > 0.0f);
        const uint32_t at = ((uint32_t)(i * TEAM * 32) + part.member - lane) / 8 + lane;
        if (lane < 4 && at < bytes) flat[at] = (uint8_t)(signs >> (8 * lane));
    }
    const code_sums sums = sums_of(0.5 * length, 0.5 * signed_c, 0.25 * job.padded, part.square);
    const double    error = (job.metric == NF_METRIC_L2 ? 2.0 : 1.0) * sqrt(part.square) * sums.constant /
                         sqrt((double)(job.padded - 1));
    if (part.member == 0) {
        float add, rescale;
        factors_of(sums, job.metric, part.square, part.rc, &add, &rescale);
        put_bytes(flat + bytes, (uint64_t)__float_as_uint(rescale) << 32 | __float_as_uint(add), 8);
        put_bytes(flat + bytes + 8, (__float_as_uint(__double2float_ru(error)) + 0xffffu) >> 16, 2);
    }
    return sums.constant;
}

/* Ex codes, a byte each, to a bit stream: eight of them are ex_bits bytes. */
template <int TEAM>
__device__ inline void pack_codes(const uint8_t *codes, uint32_t padded, uint32_t ex_bits, uint32_t member, uint8_t *to)
{
    for (uint32_t group = member; group < padded / 8; group += TEAM * 32) {
        const uint2 eight = *reinterpret_cast<const uint2 *>(codes + group * 8);
        uint64_t    bits = 0;
        NF_UNROLL
        for (uint32_t j = 0; j < 8; j++) {
            const uint32_t four = j < 4 ? eight.x : eight.y;
            bits |= (uint64_t)(four >> (j % 4 * 8) & 255u) << (j * ex_bits);
        }
        put_bytes(to + group * ex_bits, bits, ex_bits);
    }
}

/* The whole code and its factors, to a record; returns the constant of its error. */
template <int VALUES, int TEAM>
__device__ inline double encode_whole(const encoding &of, uint64_t number, row_part<VALUES> &part, const exchange &with,
                                      uint8_t *codes, uint8_t *record)
{
    const nf_k_encode &job = of.job;
    const float       *centroid = job.centroids + (uint64_t)job.labels[number] * job.padded;
    const uint32_t     most = (1u << (job.bits - 1)) - 1;
    /* Tiny residuals are lifted, or factors would overflow. */
    const float        lift = part.largest < 0x1p-60f ? 0x1p64f : 1.0f;
    double             ry = 0.0, cy = 0.0;
    uint32_t           level_squares = 0; /* sum of (m + 1/2)^2 - 1/4 = m (m + 1) */
    float              t = 1.0f;

    NF_UNROLL
    for (int i = 0; i < VALUES; i++) part.residual[i] *= lift;
    if (part.square > 0.0) {
        t = rescale_factor<VALUES, TEAM>(of, part.residual, part.missing, (float)(sqrt(part.square) * lift),
                                         part.largest * lift, with);
    }
    NF_UNROLL
    for (int i = 0; i < VALUES; i++) {
        const uint32_t dim = (uint32_t)(i * TEAM * 32) + part.member;
        if (dim >= job.padded) continue;
        const float    r = part.residual[i], c = centroid[dim];
        const uint32_t m = (uint32_t)fminf(floorf(t * fabsf(r) + NUDGE), (float)most);
        const float    y = r > 0.0f ? (float)m + 0.5f : -(float)m - 0.5f;
        codes[dim] = (uint8_t)(r > 0.0f ? m : most - m);
        ry = __fma_rn((double)r, (double)y, ry);
        cy = __fma_rn((double)c, (double)y, cy);
        level_squares += m * (m + 1);
    }
    const double levels = sum_of_team<TEAM>((double)level_squares, with);
    ry = sum_of_team<TEAM>(ry, with) / lift;
    cy = sum_of_team<TEAM>(cy, with);
    const code_sums sums = sums_of(ry, cy, levels + 0.25 * job.padded, part.square);
    if (part.member == 0) {
        float add, rescale;
        factors_of(sums, job.metric, part.square, part.rc, &add, &rescale);
        put_bytes(record, (uint64_t)__float_as_uint(rescale) << 32 | __float_as_uint(add), 8);
    }
    wait_for_team<TEAM>();
    pack_codes<TEAM>(codes, job.padded, job.bits - 1, part.member, record + 8);
    return sums.constant;
}

/* Blocks of a multiprocessor that registers are to suffice for. */
template <int VALUES, int TEAM>
struct blocks_wanted {
    static constexpr int threads = TEAM == 1 ? (int)BLOCK : TEAM * 32;
    /* 0: what the compiler likes */
    static constexpr int value = VALUES <= 4 ? 1024 / threads : VALUES <= 12 ? 640 / threads : 0;
};

template <int VALUES, int TEAM>
__global__ void __launch_bounds__(blocks_wanted<VALUES, TEAM>::threads, blocks_wanted<VALUES, TEAM>::value)
    encode_kernel(const __grid_constant__ encoding of)
{
    constexpr uint32_t ROWS = TEAM == 1 ? BLOCK / 32 : 1;
    NF_SHARED_BYTES(shared);
    __shared__ double exchanged[TEAM == 1 ? 1 : TEAM * 4]; /* eight floats of each warp */
    const nf_k_encode &job = of.job;
    const uint32_t     team = threadIdx.x / (TEAM * 32);
    const uint64_t     number = (uint64_t)blockIdx.x * ROWS + team;
    if (number >= job.count) return; /* the whole team */

    const exchange   with = {exchanged, threadIdx.x / 32 % TEAM};
    uint8_t         *codes = shared + (size_t)team * of.row_bytes, *flat = codes + of.code_bytes;
    row_part<VALUES> part;
    double           length;
    part.member = threadIdx.x % (TEAM * 32);
    const double signed_c = read_row<VALUES, TEAM>(job, number, with, &part, &length);
    if (!(part.square < TOO_FAR)) {
        if (part.member == 0) atomicMin(job.first_too_far, (unsigned long long)number);
        return;
    }
    double constant = encode_short<VALUES, TEAM>(job, part, length, signed_c, flat);
    if (job.bits > 1) {
        constant = encode_whole<VALUES, TEAM>(of, number, part, with, codes, flat + job.padded / 8 + 10);
    }
    wait_for_team<TEAM>();
    uint8_t *to = job.flat + number * of.flat_bytes;
    for (uint32_t byte = part.member; byte < of.flat_bytes; byte += TEAM * 32) to[byte] = flat[byte];
    if (part.member == 0) job.code_errors[number] = constant;
}

template <int VALUES, int TEAM>
cudaError_t launch(const encoding &of, cudaStream_t stream)
{
    const uint32_t rows = TEAM == 1 ? BLOCK / 32 : 1;
    NF_LAUNCH((encode_kernel<VALUES, TEAM>), nf_k_blocks(of.job.count, rows), TEAM == 1 ? BLOCK : TEAM * 32,
              rows * of.row_bytes, stream)
    (of);
    return nf_k_launched();
}

/* Step of the best uniform quantiser of a Gaussian with that many ex bits, in inverse standard deviations. */
double gaussian_step(uint32_t ex_bits)
{
    static const double few[] = {0.0, 1.01, 1.71, 3.03, 5.45};
    return ex_bits <= 4 ? few[ex_bits] : 5.45 * pow(1.8, ex_bits - 4.0);
}

/* Passes of the finer grid, as on the host. */
uint32_t fine_passes(uint32_t padded, uint32_t ex_bits)
{
    if (ex_bits < 6) return 2;
    const uint32_t passes = 2 + (ex_bits - 4) * 1024 / padded;
    return passes < 40 ? passes : 40;
}

/* ---- to the file's layout ---- */

struct placement {
    const uint8_t  *flat;
    uint32_t        count, signs;                        /* signs: bytes of a short code */
    size_t          flat_bytes, block_bytes, record_bytes;
    const uint32_t *labels, *slots;
    const uint64_t *list_start, *block_start;
    uint8_t        *blocks, *records;
};

/* A warp takes a row. */
__global__ void __launch_bounds__(BLOCK) place_rows(const __grid_constant__ placement of)
{
    const uint64_t i = (uint64_t)blockIdx.x * (BLOCK / 32) + threadIdx.x / 32;
    if (i >= of.count) return;
    const uint32_t lane = threadIdx.x % 32, list = of.labels[i], slot = of.slots[i], inside = slot % NF_IVF_BLOCK;
    const uint8_t *from = of.flat + i * of.flat_bytes;
    uint8_t       *block = of.blocks + (of.block_start[list] + slot / NF_IVF_BLOCK) * of.block_bytes;
    uint8_t       *record = of.records + (of.list_start[list] + slot) * of.record_bytes;

    for (uint32_t byte = lane; byte < of.signs; byte += 32) block[byte * NF_IVF_BLOCK + inside] = from[byte];
    if (lane < 10) { /* add, rescale, error */
        const uint32_t at = lane < 4   ? 4 * inside + lane
                            : lane < 8 ? 4 * (NF_IVF_BLOCK + inside) + lane - 4
                                       : 8 * NF_IVF_BLOCK + 2 * inside + lane - 8;
        block[of.signs * NF_IVF_BLOCK + at] = from[of.signs + lane];
    }
    for (uint32_t byte = lane; byte < of.record_bytes; byte += 32) record[byte] = from[of.signs + 10 + byte];
}

} // namespace

extern "C" cudaError_t nf_k_encode_rows(const nf_k_encode *job, cudaStream_t stream)
{
    const uint32_t padded = job->padded, ex_bits = job->bits - 1;
    if (job->count == 0) return cudaSuccess;
    encoding of = {};
    of.job = *job;
    if (ex_bits > 0) {
        of.fine_passes = fine_passes(padded, ex_bits);
        of.mean_factor = (float)(gaussian_step(ex_bits) * sqrt((double)padded));
    }
    of.flat_bytes = (uint32_t)nf_k_flat_bytes(padded, job->bits);
    of.code_bytes = ex_bits > 0 ? padded : 0;
    of.row_bytes = (of.code_bytes + of.flat_bytes + 15) / 16 * 16;
    if (padded <= 32) return launch<1, 1>(of, stream);
    if (padded <= 64) return launch<2, 1>(of, stream);
    if (padded <= 96) return launch<3, 1>(of, stream);
    if (padded <= 128) return launch<4, 1>(of, stream);
    if (padded <= 192) return launch<6, 1>(of, stream);
    if (padded <= 256) return launch<8, 1>(of, stream);
    if (padded <= 384) return launch<12, 1>(of, stream);
    if (padded <= 512) return launch<16, 1>(of, stream);
    if (padded <= 768) return launch<24, 1>(of, stream);
    if (padded <= 1024) return launch<32, 1>(of, stream);
    if (padded <= 1536) return launch<24, 2>(of, stream);
    if (padded <= 2048) return launch<32, 2>(of, stream);
    if (padded <= 4096) return launch<32, 4>(of, stream);
    if (padded <= 8192) return launch<32, 8>(of, stream);
    return cudaErrorInvalidValue;
}

extern "C" cudaError_t nf_k_place_rows_in_lists(const uint8_t *flat, uint32_t count, uint32_t padded, uint32_t bits,
                                                const uint32_t *labels, const uint32_t *slots, const uint64_t *list_start,
                                                const uint64_t *block_start, uint8_t *blocks, uint8_t *records,
                                                cudaStream_t stream)
{
    const placement of = {flat,        count,
                          padded / 8,  nf_k_flat_bytes(padded, bits),
                          nf_ivf_block_bytes(padded), nf_ivf_record_bytes(padded, bits),
                          labels,      slots,
                          list_start,  block_start,
                          blocks,      records};
    NF_LAUNCH(place_rows, nf_k_blocks(count, BLOCK / 32), BLOCK, 0, stream)(of);
    return nf_k_launched();
}
