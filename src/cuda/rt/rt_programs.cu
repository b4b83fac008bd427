/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ray tracing programs (RT-HiSS, section III-A): a ray of next to no length starts at each query; traversal reports the
 * boxes that it meets, and the intersection program decides each of them.
 *
 * Traversal only proposes. A hit is counted when low <= query <= high in all three dims, compared with the box as the exact
 * test takes it and the query as it is: no arithmetic, no rounding. OptiX compiles comparisons of binary32 so that they take
 * subnormal numbers for 0 (seen on a device; the PTX does not ask for it), so the numbers are compared as integers.
 *
 * No intersection is ever reported, so traversal goes on to every box. Everything rests on no box being left out; so rays
 * and boxes are in a scene's own coordinates (rt_map.h), the boxes are larger (rt_boxes.cu), and the direction is (1, 1, 1):
 * its reciprocals are exact, so a slab test computes bound - origin, whose
 * sign rounding cannot change; a box that contains the origin has an interval around 0 in every dim.
 *
 * OptiX resolves calls of functions whose names begin with _optix_. They are no functions of CUDA, so they are called from
 * inline assembly; their signatures are those of binary interface 87 (see optix_abi.h).
 */
#include <cuda_runtime.h>

#include "cuda/rt/rt_map.h"
#include "cuda/rt/rt_params.h"

#define RAY_LENGTH 0x1p-53f
#define RAY_NO_ANYHIT 1u
#define RAY_NO_CLOSESTHIT 8u
#define EVERY_BOX 255u /* visibility mask */

static_assert(sizeof(nf_rt_params) == 88, "the host's layout");

extern "C" {
__constant__ nf_rt_params nf_rt_launch_params;
}

static __forceinline__ __device__ unsigned launch_index()
{
    unsigned index;
    asm("call (%0), _optix_get_launch_index_x, ();" : "=r"(index));
    return index;
}

static __forceinline__ __device__ unsigned primitive_index()
{
    unsigned index;
    asm("call (%0), _optix_read_primitive_idx, ();" : "=r"(index));
    return index;
}

/* number: a constant */
static __forceinline__ __device__ unsigned payload(int number)
{
    unsigned value;
    asm volatile("call (%0), _optix_get_payload, (%1);" : "=r"(value) : "r"(number));
    return value;
}

static __forceinline__ __device__ void set_payload(int number, unsigned value)
{
    asm volatile("call _optix_set_payload, (%0, %1);" : : "r"(number), "r"(value));
}

/* Traces a ray with NF_RT_PAYLOAD_VALUES of 32 payload values, and returns the first of them afterwards. The call takes and
 * gives all 32. */
static __forceinline__ __device__ unsigned trace(const float *at, const unsigned (&in)[NF_RT_PAYLOAD_VALUES])
{
    const nf_rt_map *map = nf_rt_launch_params.map;
    const float x = nf_rt_place(map, 0, at[0]), y = nf_rt_place(map, 1, at[1]), z = nf_rt_place(map, 2, at[2]);
    const float start = 0.0f, length = RAY_LENGTH, time = 0.0f, along = 1.0f;
    const unsigned unused = 0, type = 0, record_offset = 0, record_stride = 1, miss_record = 0;
    unsigned out[32];

    asm volatile(
        "call (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
        "%23, %24, %25, %26, %27, %28, %29, %30, %31), _optix_trace_typed_32, "
        /* type, scene, origin, direction, start, end, time, mask, flags, offset, stride, miss, payload values */
        "(%32, %33, %34, %35, %36, %37, %37, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "
        /* payload */
        "%47, %48, %49, %50, %51, %52, %53, %53, %53, %53, %53, %53, %53, %53, %53, %53, %53, %53, %53, %53, %53, %53, "
        "%53, %53, %53, %53, %53, %53, %53, %53, %53, %53);"
        : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]), "=r"(out[4]), "=r"(out[5]), "=r"(out[6]), "=r"(out[7]),
          "=r"(out[8]), "=r"(out[9]), "=r"(out[10]), "=r"(out[11]), "=r"(out[12]), "=r"(out[13]), "=r"(out[14]),
          "=r"(out[15]), "=r"(out[16]), "=r"(out[17]), "=r"(out[18]), "=r"(out[19]), "=r"(out[20]), "=r"(out[21]),
          "=r"(out[22]), "=r"(out[23]), "=r"(out[24]), "=r"(out[25]), "=r"(out[26]), "=r"(out[27]), "=r"(out[28]),
          "=r"(out[29]), "=r"(out[30]), "=r"(out[31])
        : "r"(type), "l"(nf_rt_launch_params.scene), "f"(x), "f"(y), "f"(z), "f"(along), "f"(start), "f"(length), "f"(time),
          "r"(EVERY_BOX), "r"(RAY_NO_ANYHIT | RAY_NO_CLOSESTHIT), "r"(record_offset), "r"(record_stride), "r"(miss_record),
          "r"(NF_RT_PAYLOAD_VALUES), "r"(in[0]), "r"(in[1]), "r"(in[2]), "r"(in[3]), "r"(in[4]), "r"(in[5]), "r"(unused));
    return out[0];
}

/* low <= value <= high, for any value but NaN. The comparison of the ends as floats leaves out boxes with NaN. */
static __forceinline__ __device__ bool within(float low, float value, float high)
{
    const int ordered = nf_rt_ordered(value);
    return low <= high && nf_rt_ordered(low) <= ordered && ordered <= nf_rt_ordered(high);
}

extern "C" __global__ void __raygen__nf_rt_walk()
{
    const nf_rt_params &params = nf_rt_launch_params;
    const unsigned query = params.first + launch_index();
    const float *at = params.queries + 3ull * query;
    const unsigned from = params.skip_from ? *params.skip_from : 0;
    const unsigned least = params.least_group ? params.least_group[query] : 0;
    const unsigned in[NF_RT_PAYLOAD_VALUES] = {
        0, __float_as_uint(at[0]), __float_as_uint(at[1]), __float_as_uint(at[2]), from, least > from ? least - from : 0,
    };
    const unsigned hits = trace(at, in);

    if (params.query_hits) params.query_hits[query - params.first_hits] = hits;
}

extern "C" __global__ void __intersection__nf_rt_box()
{
    const nf_rt_params &params = nf_rt_launch_params;
    const unsigned group = primitive_index();
    const float *box = params.boxes + 6ull * group;
    const float x = __uint_as_float(payload(1)), y = __uint_as_float(payload(2)), z = __uint_as_float(payload(3));

    if (!(within(box[0], x, box[3]) && within(box[1], y, box[4]) && within(box[2], z, box[5]))) return;
    if (group - payload(4) < payload(5)) return;

    set_payload(0, payload(0) + 1);
    if (params.group_hits) atomicAdd(params.group_hits + group, 1u);
    if (params.lists) {
        unsigned long long *cursor = reinterpret_cast<unsigned long long *>(params.cursors) + group;
        params.lists[atomicAdd(cursor, 1ull)] = params.first + launch_index();
    }
}
