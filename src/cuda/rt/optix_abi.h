/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of OptiX that ray tracing here calls, as binary interface 87 (OptiX 8.0, drivers from 535 on).
 *
 * OptiX is a part of NVIDIA's driver: one function of libnvoptix.so.1 fills a table of 48 functions. Its headers may not be
 * passed on, so this file states numbers, order and layouts in its own names. What is never called is a plain pointer.
 * Facts of: the OptiX 8.0 API reference (raytracing-docs.nvidia.com), compared with the table that Dr.Jit declares for the
 * same number. A table, enum or struct of another number differs in places: never change a part of this file alone.
 */
#ifndef NF_OPTIX_ABI_H
#define NF_OPTIX_ABI_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#define NF_OPTIX_ABI 87
#define NF_OPTIX_ENTRY "optixQueryFunctionTable"

/* Results: 0 is success, everything else a failure with a name and a sentence. */
#define NF_OPTIX_OK 0
#define NF_OPTIX_OUT_OF_HOST_MEMORY 7002
#define NF_OPTIX_ABI_REFUSED 7801
#define NF_OPTIX_OUT_OF_DEVICE_MEMORY 7807

#define NF_OPTIX_RECORD_BYTES 32u /* a record of the binding table without data of its own */
#define NF_OPTIX_ACCEL_ALIGNMENT 128u
#define NF_OPTIX_MAX_LAUNCH (1u << 30)

/* Handles. Device addresses and traversables are 64-bit numbers. */
typedef struct nf_optix_context_s *nf_optix_context;
typedef struct nf_optix_module_s *nf_optix_module;
typedef struct nf_optix_group_s *nf_optix_group;
typedef struct nf_optix_pipeline_s *nf_optix_pipeline;
typedef uint64_t nf_optix_address;
typedef uint64_t nf_optix_traversable;

enum {
    /* properties of a device */
    NF_OPTIX_PROPERTY_MAX_PRIMITIVES = 0x2003,
    NF_OPTIX_PROPERTY_RT_CORE_VERSION = 0x2005,
    /* log levels */
    NF_OPTIX_LOG_WARNINGS = 3,
    /* options of a module */
    NF_OPTIX_OPTIMISE_MOST = 0x2343,
    NF_OPTIX_DEBUG_NONE = 0x2350,
    /* options of a pipeline */
    NF_OPTIX_GRAPH_ONE_SCENE = 1,    /* rays start in a geometry structure, without instances */
    NF_OPTIX_PRIMITIVES_CUSTOM = 1,
    /* kinds of program groups */
    NF_OPTIX_GROUP_RAYGEN = 0x2421,
    NF_OPTIX_GROUP_MISS = 0x2422,
    NF_OPTIX_GROUP_HIT = 0x2424,
    /* building a geometry structure */
    NF_OPTIX_INPUT_BOXES = 0x2142,
    NF_OPTIX_BUILD = 0x2161,
    NF_OPTIX_BUILD_FAST_TRACE = 4,
    NF_OPTIX_GEOMETRY_NO_ANYHIT = 1, /* no any-hit program */
    NF_OPTIX_GEOMETRY_ONE_CALL = 2   /* a primitive is not split into several entries */
};

typedef void (*nf_optix_log_fn)(unsigned level, const char *tag, const char *message, void *data);

typedef struct nf_optix_context_options {
    nf_optix_log_fn log;
    void           *log_data;
    int             log_level;
    int             validation; /* 0: off */
} nf_optix_context_options;

typedef struct nf_optix_module_options {
    int         max_registers;  /* 0: as the compiler likes */
    int         optimisation;
    int         debug;
    const void *bound_values;
    unsigned    bound_value_count;
    unsigned    payload_type_count;
    const void *payload_types;
} nf_optix_module_options;

typedef struct nf_optix_pipeline_options {
    int         motion_blur;
    unsigned    graph_flags;
    int         payload_values;
    int         attribute_values;
    unsigned    exception_flags;
    const char *params_name;    /* of the constant that holds the launch's parameters */
    unsigned    primitive_flags;
    int         opacity_micromaps;
} nf_optix_pipeline_options;

typedef struct nf_optix_link_options {
    unsigned max_trace_depth;
} nf_optix_link_options;

typedef struct nf_optix_program {
    nf_optix_module module;     /* NULL: no program */
    const char     *entry;
} nf_optix_program;

typedef struct nf_optix_group_input {
    int      kind;
    unsigned flags;
    union {
        nf_optix_program single; /* raygen, miss */
        struct {
            nf_optix_program closest, any, intersection;
        } hit;
    } of;
} nf_optix_group_input;

typedef struct nf_optix_group_options {
    const void *payload_type;
} nf_optix_group_options;

typedef struct nf_optix_stack_sizes {
    unsigned raygen, miss, closest, any, intersection, continuation_callable; /* continuation stack, bytes */
    unsigned direct_callable;                                                 /* direct stack, bytes */
} nf_optix_stack_sizes;

typedef struct nf_optix_build_options {
    unsigned flags;
    int      operation;
    struct {
        unsigned short keys, flags;
        float          begin, end;
    } motion;
} nf_optix_build_options;

typedef struct nf_optix_build_sizes {
    size_t output, temporary, temporary_update;
} nf_optix_build_sizes;

/* Boxes: six floats each, low x, y, z, high x, y, z; buffers aligned to 8 bytes. */
typedef struct nf_optix_box_input {
    const nf_optix_address *buffers;      /* one per motion key */
    unsigned                count;
    unsigned                stride;       /* bytes; 0: packed */
    const unsigned         *flags;        /* one per record of the binding table */
    unsigned                record_count;
    nf_optix_address        record_index; /* 0: all boxes use the first record */
    unsigned                record_index_size, record_index_stride;
    unsigned                first_index;
} nf_optix_box_input;

typedef struct nf_optix_build_input {
    int type;
    union {
        nf_optix_box_input boxes;
        char               pad[1024];
    } of;
} nf_optix_build_input;

/* The binding table: device addresses of the records; rows of the same kind have a stride and a count. */
typedef struct nf_optix_record_rows {
    nf_optix_address base;
    unsigned         stride, count;
} nf_optix_record_rows;

typedef struct nf_optix_binding_table {
    nf_optix_address     raygen, exception;
    nf_optix_record_rows miss, hit, callable;
} nf_optix_binding_table;

typedef struct nf_optix_functions {
    const char *(*result_name)(int result);
    const char *(*result_text)(int result);

    /* from NULL: the calling thread's CUDA context */
    int (*context_create)(void *from, const nf_optix_context_options *options, nf_optix_context *out);
    int (*context_destroy)(nf_optix_context context);
    int (*context_property)(nf_optix_context context, int property, void *value, size_t size);
    void *context_log_and_cache[7];

    /* log_size: in the room, out the length of the whole text */
    int (*module_create)(nf_optix_context context, const nf_optix_module_options *module_options,
                         const nf_optix_pipeline_options *options, const char *programs, size_t size, char *log,
                         size_t *log_size, nf_optix_module *out);
    void *module_tasks[2];
    int (*module_destroy)(nf_optix_module module);
    void *builtin_module;
    void *task_execute;

    int (*group_create)(nf_optix_context context, const nf_optix_group_input *inputs, unsigned count,
                        const nf_optix_group_options *options, char *log, size_t *log_size, nf_optix_group *out);
    int (*group_destroy)(nf_optix_group group);
    int (*group_stack_sizes)(nf_optix_group group, nf_optix_stack_sizes *out, nf_optix_pipeline pipeline);

    int (*pipeline_create)(nf_optix_context context, const nf_optix_pipeline_options *options,
                           const nf_optix_link_options *link, const nf_optix_group *groups, unsigned count, char *log,
                           size_t *log_size, nf_optix_pipeline *out);
    int (*pipeline_destroy)(nf_optix_pipeline pipeline);
    int (*pipeline_set_stack)(nf_optix_pipeline pipeline, unsigned direct_from_traversal, unsigned direct_from_state,
                              unsigned continuation, unsigned graph_depth);

    int (*accel_sizes)(nf_optix_context context, const nf_optix_build_options *options, const nf_optix_build_input *inputs,
                       unsigned count, nf_optix_build_sizes *out);
    int (*accel_build)(nf_optix_context context, cudaStream_t stream, const nf_optix_build_options *options,
                       const nf_optix_build_input *inputs, unsigned count, nf_optix_address temporary,
                       size_t temporary_size, nf_optix_address output, size_t output_size, nf_optix_traversable *out,
                       const void *emitted, unsigned emitted_count);
    void *accel_other[6];
    void *micromaps[6];

    int (*record_pack)(nf_optix_group group, void *record); /* record: NF_OPTIX_RECORD_BYTES on the host */
    int (*launch)(nf_optix_pipeline pipeline, cudaStream_t stream, nf_optix_address params, size_t params_size,
                  const nf_optix_binding_table *table, unsigned width, unsigned height, unsigned depth);

    void *denoiser[8];
} nf_optix_functions;

/* The one function that the library exports for this. Options: 0, NULL, NULL. */
typedef int (*nf_optix_query_fn)(int abi, unsigned options, void *option_keys, const void **option_values, void *table,
                                 size_t table_size);

/* Layouts, for machines with 64-bit addresses (the only ones with this library). */
_Static_assert(sizeof(void *) == 8 && sizeof(int) == 4, "OptiX needs 64-bit addresses");
_Static_assert(sizeof(nf_optix_functions) == 48 * 8, "48 functions");
_Static_assert(offsetof(nf_optix_functions, module_create) == 12 * 8, "order of the functions");
_Static_assert(offsetof(nf_optix_functions, module_destroy) == 15 * 8, "order of the functions");
_Static_assert(offsetof(nf_optix_functions, group_create) == 18 * 8, "order of the functions");
_Static_assert(offsetof(nf_optix_functions, pipeline_create) == 21 * 8, "order of the functions");
_Static_assert(offsetof(nf_optix_functions, accel_sizes) == 24 * 8, "order of the functions");
_Static_assert(offsetof(nf_optix_functions, record_pack) == 38 * 8, "order of the functions");
_Static_assert(offsetof(nf_optix_functions, launch) == 39 * 8, "order of the functions");
_Static_assert(sizeof(nf_optix_context_options) == 24, "layout");
_Static_assert(sizeof(nf_optix_module_options) == 40, "layout");
_Static_assert(sizeof(nf_optix_pipeline_options) == 40, "layout");
_Static_assert(offsetof(nf_optix_pipeline_options, params_name) == 24, "layout");
_Static_assert(sizeof(nf_optix_group_input) == 56, "layout");
_Static_assert(offsetof(nf_optix_group_input, of.hit.intersection) == 40, "layout");
_Static_assert(sizeof(nf_optix_stack_sizes) == 28, "layout");
_Static_assert(sizeof(nf_optix_build_options) == 20, "layout");
_Static_assert(sizeof(nf_optix_build_sizes) == 24, "layout");
_Static_assert(sizeof(nf_optix_box_input) == 56, "layout");
_Static_assert(offsetof(nf_optix_box_input, record_index) == 32, "layout");
_Static_assert(sizeof(nf_optix_build_input) == 8 + 1024, "layout");
_Static_assert(sizeof(nf_optix_binding_table) == 64, "layout");

#endif
