/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipeline: a module of the compiled programs, three program groups (ray generation; hit, with an intersection program
 * alone; miss, without a program), their records of the binding table, and the stacks' sizes.
 *
 * The driver compiles the module for the device when it first sees it and keeps the result in its own cache on disk (its
 * environment variables OPTIX_CACHE_PATH and OPTIX_CACHE_MAXSIZE govern that), so later processes start faster.
 */
#include "rt_pipeline.h"

#include <stdio.h>
#include <string.h>

#include "core/core_error.h"
#include "rt_library.h"
#include "rt_programs.h"

enum { RAYGEN, HIT, MISS };

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static nf_rt_pipeline  cache[NF_RT_DEVICES];

/* The last message of OptiX at warnings and above. It may come from any thread of the driver: a lock of its own. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char            log_text[256];

static void keep_message(unsigned level, const char *tag, const char *message, void *data)
{
    (void)level;
    (void)data;
    pthread_mutex_lock(&log_lock);
    snprintf(log_text, sizeof log_text, "%s: %s", tag != NULL ? tag : "", message != NULL ? message : "");
    pthread_mutex_unlock(&log_lock);
}

static void take_message(char *out, size_t size)
{
    pthread_mutex_lock(&log_lock);
    snprintf(out, size, "%s", log_text);
    log_text[0] = '\0';
    pthread_mutex_unlock(&log_lock);
}

/* Checks a result; the fault tells log, or where that is empty what was logged since the last call. */
static nf_status check(const nf_rt_pipeline *at, int result, const char *what, const char *log, nf_rt_fault *fault)
{
    char message[sizeof log_text];
    take_message(message, sizeof message);
    return nf_rt_fault_optix(fault, at->optix, result, what, log[0] != '\0' ? log : message);
}

static nf_status make_context(nf_rt_pipeline *at, nf_rt_fault *fault)
{
    at->optix = nf_rt_library_open(fault);
    if (at->optix == NULL) return fault->status;

    const nf_optix_context_options options = {.log = keep_message, .log_level = NF_OPTIX_LOG_WARNINGS};
    nf_optix_context               context = NULL;
    NF_TRY(check(at, at->optix->context_create(NULL, &options, &context), "context_create", "", fault));
    at->context = context;

    unsigned  value = 0;
    const int known = at->optix->context_property(at->context, NF_OPTIX_PROPERTY_RT_CORE_VERSION, &value, sizeof value);
    at->rt_core_version = known == NF_OPTIX_OK ? (int32_t)value : -1;
    const int limit = at->optix->context_property(at->context, NF_OPTIX_PROPERTY_MAX_PRIMITIVES, &value, sizeof value);
    at->max_boxes = limit == NF_OPTIX_OK ? value : 1u << 29;
    return NF_OK;
}

static nf_optix_pipeline_options pipeline_options(void)
{
    return (nf_optix_pipeline_options){
        .graph_flags = NF_OPTIX_GRAPH_ONE_SCENE,
        .payload_values = NF_RT_PAYLOAD_VALUES,
        .attribute_values = 2, /* the least that is allowed everywhere */
        .params_name = NF_RT_PARAMS_NAME,
        .primitive_flags = NF_OPTIX_PRIMITIVES_CUSTOM,
    };
}

static nf_status make_module(nf_rt_pipeline *at, nf_rt_fault *fault)
{
    const nf_optix_module_options   options = {.optimisation = NF_OPTIX_OPTIMISE_MOST, .debug = NF_OPTIX_DEBUG_NONE};
    const nf_optix_pipeline_options pipeline = pipeline_options();
    char                            log[1024] = "";
    size_t                          log_size = sizeof log;

    const int result = at->optix->module_create(at->context, &options, &pipeline, (const char *)nf_rt_programs,
                                                nf_rt_programs_size, log, &log_size, &at->module);
    return check(at, result, "module_create", log, fault);
}

static nf_status make_groups(nf_rt_pipeline *at, nf_rt_fault *fault)
{
    const nf_optix_group_input inputs[3] = {
        [RAYGEN] = {.kind = NF_OPTIX_GROUP_RAYGEN, .of.single = {at->module, NF_RT_RAYGEN_NAME}},
        [HIT] = {.kind = NF_OPTIX_GROUP_HIT, .of.hit.intersection = {at->module, NF_RT_INTERSECTION_NAME}},
        [MISS] = {.kind = NF_OPTIX_GROUP_MISS},
    };
    void *const records[3] = {[RAYGEN] = at->block.raygen, [HIT] = at->block.hit, [MISS] = at->block.miss};

    for (int i = 0; i < 3; i++) {
        const nf_optix_group_options options = {NULL};
        char                         log[1024] = "";
        size_t                       log_size = sizeof log;

        const int result = at->optix->group_create(at->context, &inputs[i], 1, &options, log, &log_size, &at->groups[i]);
        NF_TRY(check(at, result, "group_create", log, fault));
        NF_TRY(check(at, at->optix->record_pack(at->groups[i], records[i]), "record_pack", "", fault));
    }
    return NF_OK;
}

/* The stack that a ray needs at most: ray generation, then one of the programs that traversal may call. */
static nf_status set_stack(nf_rt_pipeline *at, nf_rt_fault *fault)
{
    nf_optix_stack_sizes of[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        NF_TRY(check(at, at->optix->group_stack_sizes(at->groups[i], &of[i], at->pipeline), "group_stack_sizes", "", fault));
    }
    unsigned called = of[HIT].intersection + of[HIT].any;
    if (called < of[HIT].closest) called = of[HIT].closest;
    if (called < of[MISS].miss) called = of[MISS].miss;
    const int result = at->optix->pipeline_set_stack(at->pipeline, 0, 0, of[RAYGEN].raygen + called, 1);
    return check(at, result, "pipeline_set_stack", "", fault);
}

static nf_status make_pipeline(nf_rt_pipeline *at, nf_rt_fault *fault)
{
    const nf_optix_pipeline_options options = pipeline_options();
    const nf_optix_link_options     link = {.max_trace_depth = 1};
    char                            log[1024] = "";
    size_t                          log_size = sizeof log;

    NF_TRY(make_module(at, fault));
    NF_TRY(make_groups(at, fault));
    const int result = at->optix->pipeline_create(at->context, &options, &link, at->groups, 3, log, &log_size,
                                                  &at->pipeline);
    NF_TRY(check(at, result, "pipeline_create", log, fault));
    NF_TRY(set_stack(at, fault));
    NF_RT_CUDA(fault, cudaEventCreateWithFlags(&at->last, cudaEventDisableTiming));
    return NF_OK;
}

/* Back to a context alone, after a failure. */
static void unmake_pipeline(nf_rt_pipeline *at)
{
    if (at->pipeline != NULL) at->optix->pipeline_destroy(at->pipeline);
    for (int i = 0; i < 3; i++) {
        if (at->groups[i] != NULL) at->optix->group_destroy(at->groups[i]);
        at->groups[i] = NULL;
    }
    if (at->module != NULL) at->optix->module_destroy(at->module);
    at->pipeline = NULL;
    at->module = NULL;
}

static nf_status enter(int ordinal, nf_rt_pipeline **out, nf_rt_fault *fault)
{
    *out = NULL;
    if (ordinal < 0 || ordinal >= NF_RT_DEVICES) {
        return nf_rt_fault_set(fault, NF_ERR_ENGINE, "ray tracing knows devices 0 to %d", NF_RT_DEVICES - 1);
    }
    NF_RT_CUDA(fault, cudaSetDevice(ordinal));
    NF_RT_CUDA(fault, cudaFree(NULL)); /* makes the device's CUDA context where this is the first call */

    nf_rt_pipeline *at = &cache[ordinal];
    if (at->context == NULL) {
        at->ordinal = ordinal;
        NF_TRY(make_context(at, fault));
        pthread_mutex_init(&at->launching, NULL);
    }
    *out = at;
    return NF_OK;
}

nf_status nf_rt_pipeline_context(int ordinal, nf_rt_pipeline **out, nf_rt_fault *fault)
{
    pthread_mutex_lock(&cache_lock);
    const nf_status status = enter(ordinal, out, fault);
    pthread_mutex_unlock(&cache_lock);
    return status;
}

nf_status nf_rt_pipeline_get(int ordinal, nf_rt_pipeline **out, nf_rt_fault *fault)
{
    pthread_mutex_lock(&cache_lock);
    nf_status status = enter(ordinal, out, fault);
    if (status == NF_OK && (*out)->pipeline == NULL) {
        status = make_pipeline(*out, fault);
        if (status < 0) unmake_pipeline(*out);
    }
    pthread_mutex_unlock(&cache_lock);
    return status;
}
