/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a matrix as they came to rows of an index: the device's engine_ivf_rows.c. A value is read, scaled under COSINE or
 * to a given length in binary64, less the mean, and rounded once to binary32.
 *
 * Without scaling a value does not depend on its row, so threads take values, or four neighbours where all is aligned.
 * Types that binary32 holds exactly are then subtracted in binary32: the difference of two binary32 numbers, rounded to
 * binary64 and then to binary32, is the one that is rounded once (53 bits are not less than twice 24 and two more). With
 * scaling a warp takes a row and reads it two to five times, from caches but for the first.
 *
 * The mean is that of engine_ivf_rows.c to the bit where rows are not scaled: the same parts, each in the order of its rows.
 */
#include "k_encode.h"
#include "k_launch.h"
#include "matrix/matrix_exact_inline.h"
#include "nearfield/matrix.h"
#include "nearfield/neighbours.h"

namespace {

constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr unsigned BLOCK = 256, WARPS = BLOCK / 32;
constexpr unsigned BLOCK_UNITS = 4096; /* of a block that takes values, about */
constexpr unsigned MEAN_PARTS = 64;    /* as on the host */
constexpr unsigned MEAN_ROWS = 32;     /* whose lengths are known at a time */
constexpr double   LARGEST = 0x1p53;
constexpr unsigned long long LARGEST_INTEGER = 1ull << 53;

struct half_bits {
    uint16_t bits;
};

/* Binary32 for types that it holds exactly. */
template <typename From>
struct exact_in {
    typedef float type;
};
template <>
struct exact_in<uint32_t> {
    typedef double type;
};
template <>
struct exact_in<int32_t> {
    typedef double type;
};
template <>
struct exact_in<unsigned long long> {
    typedef double type;
};
template <>
struct exact_in<long long> {
    typedef double type;
};
template <>
struct exact_in<double> {
    typedef double type;
};

template <typename From>
__device__ inline typename exact_in<From>::type convert(From value)
{
    return (typename exact_in<From>::type)value;
}
__device__ inline float convert(half_bits value)
{
    const unsigned sign = (value.bits & 0x8000u) << 16, exponent = value.bits >> 10 & 31u, fraction = value.bits & 0x3ffu;
    if (exponent == 0) {
        const float magnitude = (float)fraction * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    return __uint_as_float(sign | (exponent + 112u) << 23 | fraction << 13);
}

/* Whether a value is allowed: far: any finite value is. Integers beyond 2^53 never are. */
template <typename From>
__device__ inline bool allowed(From, bool)
{
    return true;
}
__device__ inline bool allowed(unsigned long long value, bool) { return value <= LARGEST_INTEGER; }
__device__ inline bool allowed(long long value, bool)
{
    return value <= (long long)LARGEST_INTEGER && value >= -(long long)LARGEST_INTEGER;
}
__device__ inline bool allowed(half_bits value, bool) { return (value.bits & 0x7c00u) != 0x7c00u; }
__device__ inline bool allowed(float value, bool far)
{
    return far ? fabsf(value) < INFINITY : fabsf(value) <= (float)LARGEST;
}
__device__ inline bool allowed(double value, bool far)
{
    return far ? fabs(value) < (double)INFINITY : fabs(value) <= LARGEST;
}

/* Which rows, what is taken off, and where they go. */
struct conversion {
    nf_k_raw_rows       raw;
    const uint32_t     *numbers;
    uint64_t            first;
    uint32_t            count, stride;
    const float        *mean;
    double              length;
    float              *out;
    double             *factors;
    unsigned long long *first_invalid;
};

template <typename From>
__device__ inline const From *row_at(const nf_k_raw_rows &raw, const uint32_t *numbers, uint64_t first, uint32_t i)
{
    const uint64_t row = numbers != nullptr ? numbers[i] : first + i;
    return reinterpret_cast<const From *>(static_cast<const char *>(raw.data) + row * raw.stride_bytes);
}

/* ---- values alone ---- */

/* Neighbouring values in memory. */
template <typename T, int WIDTH>
struct alignas(sizeof(T) * WIDTH < 16 ? sizeof(T) * WIDTH : 16) unit {
    T v[WIDTH];
};

template <typename T, int WIDTH>
__device__ inline void load_unit(const T *from, T *values)
{
    const unit<T, WIDTH> loaded = *reinterpret_cast<const unit<T, WIDTH> *>(from);
    NF_UNROLL
    for (int k = 0; k < WIDTH; k++) values[k] = loaded.v[k];
}

/* Units of WIDTH values: a block takes block_rows rows; quotient: 2^32 / units of a row, and one more. */
template <typename From, int WIDTH>
__global__ void __launch_bounds__(BLOCK) convert_values(const __grid_constant__ conversion of, uint32_t block_rows,
                                                        uint64_t quotient)
{
    typedef typename exact_in<From>::type exact;
    constexpr uint32_t LOADS = 4; /* in flight */
    const uint64_t     begin = (uint64_t)blockIdx.x * block_rows;
    const uint32_t     units = of.stride / WIDTH;
    const uint32_t     rows = begin >= of.count ? 0 : (uint32_t)min((uint64_t)block_rows, of.count - begin);
    const bool         far = of.raw.metric == NF_METRIC_COSINE;

    for (uint32_t base = threadIdx.x; base < rows * units; base += LOADS * BLOCK) {
        From values[LOADS][WIDTH];
        NF_UNROLL
        for (uint32_t n = 0; n < LOADS; n++) {
            const uint32_t at = base + n * BLOCK, row = (uint32_t)(at * quotient >> 32), column = (at - row * units) * WIDTH;
            if (at < rows * units && column < of.raw.dims) {
                const From *from = row_at<From>(of.raw, of.numbers, of.first, (uint32_t)begin + row);
                load_unit<From, WIDTH>(from + column, values[n]);
            }
        }
        NF_UNROLL
        for (uint32_t n = 0; n < LOADS; n++) {
            const uint32_t at = base + n * BLOCK, row = (uint32_t)(at * quotient >> 32), column = (at - row * units) * WIDTH;
            if (at >= rows * units) break;
            float mean[WIDTH] = {};
            unit<float, WIDTH> result;
            const bool         inside = column < of.raw.dims; /* then the whole unit is */
            bool               fine = true;
            if (of.mean != nullptr && inside) load_unit<float, WIDTH>(of.mean + column, mean);
            NF_UNROLL
            for (int k = 0; k < WIDTH; k++) {
                fine = fine && (!inside || allowed(values[n][k], far));
                result.v[k] = inside ? (float)(convert(values[n][k]) - (exact)mean[k]) : 0.0f;
            }
            *reinterpret_cast<unit<float, WIDTH> *>(of.out + (begin + row) * of.stride + column) = result;
            if (!fine) atomicMin(of.first_invalid, (unsigned long long)(begin + row));
        }
    }
}

template <typename From, int WIDTH>
cudaError_t launch_values(const conversion &of, cudaStream_t stream)
{
    const uint32_t units = of.stride / WIDTH, block_rows = units < BLOCK_UNITS ? BLOCK_UNITS / units : 1;
    NF_LAUNCH((convert_values<From, WIDTH>), nf_k_blocks(of.count, block_rows), BLOCK, 0, stream)
    (of, block_rows, (1ull << 32) / units + 1);
    return nf_k_launched();
}

bool aligned_to(const void *address, uint64_t stride_bytes, size_t bytes)
{
    return (uintptr_t)address % bytes == 0 && stride_bytes % bytes == 0;
}

template <typename From>
cudaError_t convert_unscaled(const conversion &of, cudaStream_t stream)
{
    const size_t bytes = alignof(unit<From, 4>);
    if (of.raw.dims % 4 == 0 && of.stride % 4 == 0 && aligned_to(of.raw.data, of.raw.stride_bytes, bytes) &&
        aligned_to(of.out, 0, 16) && aligned_to(of.mean, 0, 16)) {
        return launch_values<From, 4>(of, stream);
    }
    return launch_values<From, 1>(of, stream);
}

/* ---- rows with their lengths ---- */

__device__ inline double sum_of_lanes(double value)
{
    for (int with = 16; with > 0; with /= 2) value += __shfl_xor_sync(ALL_LANES, value, with);
    return value;
}

__device__ inline double largest_of_lanes(double value)
{
    for (int with = 16; with > 0; with /= 2) value = fmax(value, __shfl_xor_sync(ALL_LANES, value, with));
    return value;
}

/* A value times 2^-power, divided by length; 0 and 1 change nothing. */
struct unit_scale {
    int    power;
    double length;
};

/* A value times 2^-power, times factor. */
struct fit_scale {
    int    power;
    double factor;
};

__device__ inline double scaled(double value, const unit_scale &unit)
{
    if (unit.power != 0) value = scalbn(value, -unit.power);
    return unit.length != 1.0 ? value / unit.length : value;
}

__device__ inline double scaled(double value, const unit_scale &unit, const fit_scale &fit)
{
    value = scaled(value, unit);
    if (fit.power != 0) value = scalbn(value, -fit.power);
    return value * fit.factor;
}

/* All lanes: the sum of squares of a row's values, the largest of them, and whether all are allowed. */
template <typename From>
__device__ inline double square_of(const From *row, uint32_t dims, const unit_scale &unit, const fit_scale &fit,
                                   double *largest, bool *fine)
{
    double sum = 0.0, most = 0.0;
    bool   good = true;
    NF_UNROLL
    for (uint32_t k = threadIdx.x % 32; k < dims; k += 32) {
        const From   from = row[k];
        const double value = scaled((double)convert(from), unit, fit);
        good = good && allowed(from, true);
        most = fmax(most, fabs(value));
        sum = __fma_rn(value, value, sum);
    }
    *largest = largest_of_lanes(most);
    *fine = __all_sync(ALL_LANES, good) != 0;
    return sum_of_lanes(sum);
}

/* As nf_cosine_length on the host: a row whose squares would overflow or vanish is first scaled by a power of two. */
template <typename From>
__device__ inline unit_scale unit_length(const From *row, uint32_t dims, bool *fine)
{
    unit_scale unit = {0, 1.0};
    double     largest, square = square_of(row, dims, unit, {0, 1.0}, &largest, fine);
    if (!*fine || largest == 0.0) return unit;
    if (!(square >= NF_SUM_SMALL && square <= NF_SUM_LARGE)) {
        bool again;
        unit.power = ilogb(largest);
        square = square_of(row, dims, unit, {0, 1.0}, &largest, &again);
    }
    unit.length = sqrt(square);
    return unit;
}

/* From a row, scaled by unit, to a length. The power goes first, for the same reason. */
template <typename From>
__device__ inline fit_scale fit_length(const From *row, uint32_t dims, const unit_scale &unit, double length)
{
    fit_scale fit = {0, 1.0};
    double    largest;
    bool      fine;
    square_of(row, dims, unit, fit, &largest, &fine);
    if (!fine || largest == 0.0) return fit;
    fit.power = ilogb(largest);
    fit.factor = length / sqrt(square_of(row, dims, unit, fit, &largest, &fine));
    return fit;
}

template <typename From>
__global__ void __launch_bounds__(BLOCK) convert_rows(const __grid_constant__ conversion of)
{
    const uint64_t i = (uint64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (i >= of.count) return;
    const uint32_t lane = threadIdx.x % 32, dims = of.raw.dims;
    const From    *row = row_at<From>(of.raw, of.numbers, of.first, (uint32_t)i);
    const bool     cosine = of.raw.metric == NF_METRIC_COSINE;
    bool           fine = true;
    unit_scale     unit = {0, 1.0};
    fit_scale      fit = {0, 1.0};

    if (cosine) unit = unit_length(row, dims, &fine);
    if (of.length > 0.0) {
        fit = fit_length(row, dims, unit, of.length);
        if (of.factors != nullptr && lane == 0) of.factors[i] = scalbn(fit.factor, -fit.power);
    }
    for (uint32_t k = lane; k < of.stride; k += 32) {
        float value = 0.0f;
        if (k < dims) {
            const From from = row[k];
            fine = fine && allowed(from, cosine);
            value = (float)(scaled((double)convert(from), unit, fit) - (of.mean != nullptr ? (double)of.mean[k] : 0.0));
        }
        of.out[i * of.stride + k] = value;
    }
    if (!fine) atomicMin(of.first_invalid, (unsigned long long)i);
}

template <typename From>
cudaError_t convert_any(const conversion &of, cudaStream_t stream)
{
    if (of.raw.metric != NF_METRIC_COSINE && !(of.length > 0.0)) return convert_unscaled<From>(of, stream);
    NF_LAUNCH(convert_rows<From>, nf_k_blocks(of.count, WARPS), BLOCK, 0, stream)(of);
    return nf_k_launched();
}

/* ---- the mean ---- */

/* Sums of a part's rows, a thread per column; blockIdx.y counts blocks of columns. */
template <typename From>
__global__ void __launch_bounds__(BLOCK) sum_rows(const __grid_constant__ nf_k_raw_rows raw, const uint32_t *numbers,
                                                  uint32_t count, double *parts, unsigned long long *first_invalid)
{
    __shared__ unit_scale scales[MEAN_ROWS];
    const uint64_t part = blockIdx.x;
    const uint32_t begin = (uint32_t)(part * count / MEAN_PARTS), end = (uint32_t)((part + 1) * count / MEAN_PARTS);
    const uint32_t column = blockIdx.y * BLOCK + threadIdx.x, dims = raw.dims;
    const bool     cosine = raw.metric == NF_METRIC_COSINE;
    double         sum = 0.0;

    for (uint32_t from = begin; from < end; from += MEAN_ROWS) {
        const uint32_t rows = min(MEAN_ROWS, end - from);
        if (cosine) {
            __syncthreads();
            for (uint32_t i = threadIdx.x / 32; i < rows; i += WARPS) {
                bool             fine;
                const unit_scale scale = unit_length(row_at<From>(raw, numbers, 0, from + i), dims, &fine);
                if (threadIdx.x % 32 == 0) scales[i] = scale;
            }
            __syncthreads();
        }
        if (column >= dims) continue;
        for (uint32_t base = 0; base < rows; base += 8) {
            From values[8];
            NF_UNROLL
            for (uint32_t n = 0; n < 8; n++) {
                if (base + n < rows) values[n] = row_at<From>(raw, numbers, 0, from + base + n)[column];
            }
            NF_UNROLL
            for (uint32_t n = 0; n < 8; n++) {
                if (base + n >= rows) break;
                const double value = (double)convert(values[n]);
                if (!allowed(values[n], cosine)) atomicMin(first_invalid, (unsigned long long)(from + base + n));
                sum += cosine ? scaled(value, scales[base + n]) : value;
            }
        }
    }
    if (column < dims) parts[part * dims + column] = sum;
}

__global__ void __launch_bounds__(BLOCK) add_parts(const double *parts, uint32_t dims, uint32_t count, float *mean)
{
    const uint32_t column = blockIdx.x * BLOCK + threadIdx.x;
    if (column >= dims) return;
    double sum = 0.0;
    for (uint32_t part = 0; part < MEAN_PARTS; part++) sum += parts[(size_t)part * dims + column];
    mean[column] = (float)(sum / (double)count);
}

struct mean_job {
    nf_k_raw_rows       raw;
    const uint32_t     *numbers;
    uint32_t            count;
    double             *parts;
    unsigned long long *first_invalid;
};

template <typename From>
cudaError_t sum_any(const mean_job &of, cudaStream_t stream)
{
    const dim3 grid(MEAN_PARTS, nf_k_blocks(of.raw.dims, BLOCK));
    NF_LAUNCH(sum_rows<From>, grid, BLOCK, 0, stream)(of.raw, of.numbers, of.count, of.parts, of.first_invalid);
    return nf_k_launched();
}

} // namespace

/* Calls function<type>(arguments) for the type of a matrix's values. */
#define FOR_DTYPE(dtype, function, ...)                                  \
    switch (dtype) {                                                     \
    case NF_DTYPE_U8: return function<uint8_t>(__VA_ARGS__);             \
    case NF_DTYPE_I8: return function<int8_t>(__VA_ARGS__);              \
    case NF_DTYPE_U16: return function<uint16_t>(__VA_ARGS__);           \
    case NF_DTYPE_I16: return function<int16_t>(__VA_ARGS__);            \
    case NF_DTYPE_U32: return function<uint32_t>(__VA_ARGS__);           \
    case NF_DTYPE_I32: return function<int32_t>(__VA_ARGS__);            \
    case NF_DTYPE_U64: return function<unsigned long long>(__VA_ARGS__); \
    case NF_DTYPE_I64: return function<long long>(__VA_ARGS__);          \
    case NF_DTYPE_F16: return function<half_bits>(__VA_ARGS__);          \
    case NF_DTYPE_F32: return function<float>(__VA_ARGS__);              \
    case NF_DTYPE_F64: return function<double>(__VA_ARGS__);             \
    default: return cudaErrorInvalidValue;                               \
    }

extern "C" cudaError_t nf_k_index_rows(nf_k_raw_rows raw, const uint32_t *numbers, uint64_t first, uint32_t count,
                                       const float *mean, double length, float *out, uint32_t stride, double *factors,
                                       unsigned long long *first_invalid, cudaStream_t stream)
{
    const conversion of = {raw, numbers, first, count, stride, mean, length, out, factors, first_invalid};
    if (count == 0) return cudaSuccess;
    FOR_DTYPE(raw.dtype, convert_any, of, stream)
}

extern "C" uint32_t nf_k_mean_parts(void)
{
    return MEAN_PARTS;
}

static cudaError_t sum_parts(const mean_job &of, cudaStream_t stream)
{
    FOR_DTYPE(of.raw.dtype, sum_any, of, stream)
}

extern "C" cudaError_t nf_k_rows_mean(nf_k_raw_rows raw, const uint32_t *numbers, uint32_t count, double *parts, float *mean,
                                      unsigned long long *first_invalid, cudaStream_t stream)
{
    const cudaError_t error = sum_parts({raw, numbers, count, parts, first_invalid}, stream);
    if (error != cudaSuccess) return error;
    NF_LAUNCH(add_parts, nf_k_blocks(raw.dims, BLOCK), BLOCK, 0, stream)(parts, raw.dims, count, mean);
    return nf_k_launched();
}
