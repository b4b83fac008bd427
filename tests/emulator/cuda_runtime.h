/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels use of CUDA C, for a C++ compiler: an emulated device. A launch runs block after block; the threads of a block
 * are fibers, switched at barriers and warp-wide operations only. A barrier that not all threads reach, or a warp-wide
 * operation that lacks some of its lanes, ends the program with a message: on a device it would be undefined.
 *
 * Races between barriers are not found here (threads run one after another): that is compute-sanitizer's work, on a device.
 */
#ifndef NF_EMULATED_CUDA_RUNTIME_H
#define NF_EMULATED_CUDA_RUNTIME_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

struct uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
struct uint2 { unsigned x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; };
struct float3 { float x, y, z; };
struct __attribute__((aligned(16))) float4 { float x, y, z, w; };
struct __attribute__((aligned(16))) double2 { double x, y; };
struct __attribute__((aligned(16))) ulonglong2 { unsigned long long x, y; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return uint2{x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return uint4{x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return float2{x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }
static inline double2 make_double2(double x, double y) { return double2{x, y}; }

using std::max;
using std::min;

/* ---- the running thread ---- */

struct nf_emulated_thread;
extern uint3 threadIdx, blockIdx;
extern dim3  blockDim, gridDim;
enum { warpSize = 32 };

typedef void (*nf_emulated_body)(void *kernel_and_arguments);
void nf_emulated_run(dim3 grid, dim3 block, size_t shared_bytes, nf_emulated_body body, void *arg);
unsigned char *nf_emulated_shared();

/* kind: 0 wait, 1 or, 2 and, 3 count */
int nf_emulated_barrier(int kind, int predicate);
/* Collects 64 bits from every lane of mask; returns the 32 values of the warp. */
const uint64_t *nf_emulated_exchange(unsigned mask, uint64_t value, unsigned *arrived);

template <typename... Parameters>
struct nf_emulated_launcher {
    void (*kernel)(Parameters...);
    dim3   grid, block;
    size_t shared_bytes;
    template <typename... Arguments>
    void operator()(Arguments... arguments)
    {
        auto call = [&]() { kernel(static_cast<Parameters>(arguments)...); };
        nf_emulated_run(grid, block, shared_bytes, [](void *arg) { (*static_cast<decltype(call) *>(arg))(); }, &call);
    }
};

template <typename... Parameters>
static inline nf_emulated_launcher<Parameters...> nf_emulated_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                                                     size_t shared_bytes)
{
    return {kernel, grid, block, shared_bytes};
}

template <typename Function>
static inline cudaError_t cudaFuncSetAttribute(Function *, cudaFuncAttribute, int)
{
    return cudaSuccess;
}

/* ---- barriers and warps ---- */

static inline void __syncthreads() { nf_emulated_barrier(0, 0); }
static inline int __syncthreads_or(int predicate) { return nf_emulated_barrier(1, predicate); }
static inline int __syncthreads_and(int predicate) { return nf_emulated_barrier(2, predicate); }
static inline int __syncthreads_count(int predicate) { return nf_emulated_barrier(3, predicate); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { nf_emulated_exchange(mask, 0, nullptr); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}

template <typename T>
static inline T nf_emulated_shuffle(unsigned mask, T value, unsigned from)
{
    static_assert(sizeof(T) <= 8, "a lane passes 8 bytes at most");
    uint64_t bits = 0;
    unsigned arrived;
    std::memcpy(&bits, &value, sizeof value);
    const uint64_t *lanes = nf_emulated_exchange(mask, bits, &arrived);
    if (from < 32 && (arrived >> from & 1u)) std::memcpy(&value, &lanes[from], sizeof value);
    return value;
}
unsigned nf_emulated_lane();
template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32)
{
    const unsigned lane = nf_emulated_lane();
    return nf_emulated_shuffle(mask, value, (lane & ~(unsigned)(width - 1)) + ((unsigned)from & (unsigned)(width - 1)));
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32)
{
    (void)width;
    return nf_emulated_shuffle(mask, value, nf_emulated_lane() ^ (unsigned)with);
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32)
{
    const unsigned lane = nf_emulated_lane(), end = (lane & ~(unsigned)(width - 1)) + (unsigned)width;
    return nf_emulated_shuffle(mask, value, lane + by < end ? lane + by : lane);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32)
{
    const unsigned lane = nf_emulated_lane(), begin = lane & ~(unsigned)(width - 1);
    return nf_emulated_shuffle(mask, value, lane >= begin + by ? lane - by : lane);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    unsigned        arrived, bits = 0;
    const uint64_t *lanes = nf_emulated_exchange(mask, predicate != 0, &arrived);
    for (unsigned lane = 0; lane < 32; lane++) {
        if ((arrived >> lane & 1u) && lanes[lane] != 0) bits |= 1u << lane;
    }
    return bits;
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
static inline unsigned __activemask() { return 0xffffffffu; }

/* ---- bits and conversions ---- */

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
static inline unsigned __brev(unsigned x)
{
    unsigned out = 0;
    for (int i = 0; i < 32; i++) out |= (x >> i & 1u) << (31 - i);
    return out;
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31));
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)(((unsigned long long)high << 32 | low) << (by & 31) >> 32);
}
template <typename To, typename From>
static inline To nf_emulated_bits(From from)
{
    To to;
    static_assert(sizeof to == sizeof from, "bits of the same size");
    std::memcpy(&to, &from, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float x) { return nf_emulated_bits<unsigned>(x); }
static inline int __float_as_int(float x) { return nf_emulated_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return nf_emulated_bits<float>(x); }
static inline float __int_as_float(int x) { return nf_emulated_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return nf_emulated_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return nf_emulated_bits<double>(x); }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __dsqrt_rn(double a) { return std::sqrt(a); }
static inline float __double2float_rn(double x) { return (float)x; }
static inline float __double2float_ru(double x)
{
    const float near = (float)x;
    return (double)near < x ? std::nextafterf(near, INFINITY) : near;
}
static inline float __double2float_rd(double x)
{
    const float near = (float)x;
    return (double)near > x ? std::nextafterf(near, -INFINITY) : near;
}
static inline float __fadd_ru(float a, float b) { return __double2float_ru((double)a + (double)b); }
static inline float __fadd_rd(float a, float b) { return __double2float_rd((double)a + (double)b); }
static inline float __fmul_ru(float a, float b) { return __double2float_ru((double)a * (double)b); }
static inline float __fmul_rd(float a, float b) { return __double2float_rd((double)a * (double)b); }
static inline float __fmaf_rd(float a, float b, float c)
{
    const double product = (double)a * (double)b, sum = product + (double)c; /* the product is exact, the sum may not be */
    const double part = sum - product, error = (product - (sum - part)) + ((double)c - part);
    return __double2float_rd(error < 0.0 ? std::nextafter(sum, -INFINITY) : sum);
}
template <typename T>
static inline T __ldg(const T *from) { return *from; }
template <typename T>
static inline T __ldcs(const T *from) { return *from; }
template <typename T>
static inline void __stcs(T *to, T value) { *to = value; }

/* ---- atomics ---- */

template <typename T, typename V>
static inline T atomicAdd(T *at, V by) { const T old = *at; *at = (T)(old + (T)by); return old; }
template <typename T, typename V>
static inline T atomicSub(T *at, V by) { const T old = *at; *at = (T)(old - (T)by); return old; }
template <typename T, typename V>
static inline T atomicOr(T *at, V by) { const T old = *at; *at = old | (T)by; return old; }
template <typename T, typename V>
static inline T atomicMin(T *at, V by) { const T old = *at; *at = (T)by < old ? (T)by : old; return old; }
template <typename T, typename V>
static inline T atomicMax(T *at, V by) { const T old = *at; *at = (T)by > old ? (T)by : old; return old; }
template <typename T, typename V>
static inline T atomicExch(T *at, V by) { const T old = *at; *at = (T)by; return old; }
template <typename T, typename V>
static inline T atomicCAS(T *at, V compare, V by) { const T old = *at; if (old == (T)compare) *at = (T)by; return old; }

#endif
