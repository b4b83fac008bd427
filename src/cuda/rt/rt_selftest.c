/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The self-test: that no box containing a query's origin is left out by traversal is the one property that ray tracing
 * here needs and that nothing documents. So it is tried, on the device at hand, before ray tracing is used: boxes without
 * extent, with common faces, huge, tiny, infinite, far from the origin; queries on faces, one place of binary32 inside and
 * outside. A scene is walked twice as in a search (counts, then lists), in every second scene with groups left out. Counts
 * must be those of a plain loop; lists are compared, whatever their order, by sums of 64-bit scrambled numbers.
 */
#include "rt_selftest.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/core_error.h"
#include "core/core_memory.h"
#include "rt_kernels.h"
#include "rt_library.h"
#include "rt_parts.h"
#include "rt_pipeline.h"

#define START_GROUPS 2048u /* at start-up: a scene of each kind, 2^17 queries in all */
#define START_QUERIES (131072u / NF_RT_TRIAL_KINDS)
#define TRIAL_GROUPS 1024u
#define TRIAL_QUERIES (1u << 20)

/* Device memory of the trials, parts of one block. */
typedef struct trials {
    nf_context  *ctx;
    nf_device   *device;
    cudaStream_t stream;
    nf_rt_fault *fault;
    void        *block;
    uint64_t    *starts;     /* on the host: groups + 1 */
    uint32_t    *counts;     /* on the host: groups */

    nf_rt_trial wanted;
    uint32_t   *query_hits, *group_hits;
    uint64_t   *list_starts, *cursors, *list_sums, *differences;
    uint32_t   *lists;       /* a block of its own, of list_room queries */
    uint64_t    list_room;
} trials;

/* Gives the next bytes of a block; with base NULL, only their place counts. */
static void *part(char *base, size_t *used, uint64_t count, size_t size)
{
    void *at = base == NULL ? NULL : base + *used;
    *used += (count * size + 255) / 256 * 256;
    return at;
}

/* Sets the parts of the block at base and returns its size. */
static size_t lay_out(trials *at, char *base)
{
    const uint32_t groups = at->wanted.groups, queries = at->wanted.queries;
    size_t         used = 0;

    at->wanted.boxes = part(base, &used, groups, 6 * sizeof(float));
    at->wanted.points = part(base, &used, queries, 3 * sizeof(float));
    at->wanted.least_group = part(base, &used, queries, sizeof(uint32_t));
    at->wanted.skip_from = part(base, &used, 1, sizeof(uint32_t));
    at->wanted.query_hits = part(base, &used, queries, sizeof(uint32_t));
    at->wanted.group_hits = part(base, &used, groups, sizeof(uint32_t));
    at->wanted.group_sums = part(base, &used, groups, sizeof(uint64_t));
    at->query_hits = part(base, &used, queries, sizeof(uint32_t));
    at->group_hits = part(base, &used, groups, sizeof(uint32_t));
    at->list_starts = part(base, &used, groups + 1ull, sizeof(uint64_t));
    at->cursors = part(base, &used, groups, sizeof(uint64_t));
    at->list_sums = part(base, &used, groups, sizeof(uint64_t));
    at->differences = part(base, &used, 1, sizeof(uint64_t));
    return used;
}

static nf_status open_trials(trials *at)
{
    const size_t size = lay_out(at, NULL);

    NF_RT_CUDA(at->fault, cudaStreamCreateWithFlags(&at->stream, cudaStreamNonBlocking));
    NF_TRY(nf_rt_block(at->ctx, at->device, at->stream, size, &at->block, at->fault));
    lay_out(at, at->block);
    at->starts = nf_try_alloc(at->ctx, at->wanted.groups + 1ull, sizeof *at->starts);
    at->counts = nf_try_alloc(at->ctx, at->wanted.groups, sizeof *at->counts);
    if (at->starts == NULL || at->counts == NULL) {
        return nf_rt_fault_set(at->fault, NF_ERR_MEMORY, "ray tracing: no memory for the self-test");
    }
    NF_RT_CUDA(at->fault, cudaMemsetAsync(at->differences, 0, sizeof *at->differences, at->stream));
    return NF_OK;
}

static void close_trials(trials *at)
{
    nf_free(at->starts);
    nf_free(at->counts);
    if (at->stream == NULL) return;
    nf_device_free(at->device, at->stream, at->lists);
    nf_device_free(at->device, at->stream, at->block);
    (void)cudaStreamSynchronize(at->stream); /* an error of the stream has been told by the call that made it */
    (void)cudaStreamDestroy(at->stream);
}

/* Pass 1: hits per query and per group; the lists' starts from the latter. */
static nf_status count_hits(trials *at, nf_rt_scene *scene, nf_rt_walk walk)
{
    const uint32_t groups = at->wanted.groups;

    walk.query_hits = at->query_hits;
    walk.group_hits = at->group_hits;
    NF_RT_CUDA(at->fault, cudaMemsetAsync(at->group_hits, 0, groups * sizeof(uint32_t), at->stream));
    /* another number than any count: a query whose hits are not written differs */
    NF_RT_CUDA(at->fault, cudaMemsetAsync(at->query_hits, 0xff, at->wanted.queries * sizeof(uint32_t), at->stream));
    NF_TRY(nf_rt_scene_launch(scene, at->stream, &walk, at->fault));
    NF_RT_CUDA(at->fault, cudaMemcpyAsync(at->counts, at->group_hits, groups * sizeof(uint32_t), cudaMemcpyDeviceToHost,
                                          at->stream));
    NF_RT_CUDA(at->fault, cudaStreamSynchronize(at->stream));
    at->starts[0] = 0;
    for (uint32_t group = 0; group < groups; group++) at->starts[group + 1] = at->starts[group] + at->counts[group];
    return NF_OK;
}

/* Pass 2: the lists, and the sums of each. */
static nf_status list_hits(trials *at, nf_rt_scene *scene, nf_rt_walk walk)
{
    const uint32_t groups = at->wanted.groups;
    const size_t   bytes = groups * sizeof(uint64_t);

    if (at->list_room < at->starts[groups]) {
        void *lists = NULL;
        nf_device_free(at->device, at->stream, at->lists);
        at->lists = NULL;
        at->list_room = at->starts[groups] + at->starts[groups] / 8;
        NF_TRY(nf_rt_block(at->ctx, at->device, at->stream, at->list_room * sizeof(uint32_t), &lists, at->fault));
        at->lists = lists;
    }
    walk.lists = at->lists;
    walk.cursors = at->cursors;
    NF_RT_CUDA(at->fault, cudaMemcpyAsync(at->list_starts, at->starts, bytes + sizeof(uint64_t), cudaMemcpyHostToDevice,
                                          at->stream));
    NF_RT_CUDA(at->fault, cudaMemcpyAsync(at->cursors, at->list_starts, bytes, cudaMemcpyDeviceToDevice, at->stream));
    NF_RT_CUDA(at->fault, cudaMemsetAsync(at->list_sums, 0, bytes, at->stream));
    if (at->lists != NULL) NF_TRY(nf_rt_scene_launch(scene, at->stream, &walk, at->fault));
    NF_RT_CUDA(at->fault, nf_rt_k_trial_sums(at->stream, at->lists, at->list_starts, groups, at->list_sums));
    return NF_OK;
}

/* Adds what differs between the walks and the plain loop. */
static nf_status compare_hits(trials *at, bool leave_out)
{
    const nf_rt_trial *wanted = &at->wanted;

    NF_RT_CUDA(at->fault, cudaMemsetAsync(wanted->group_hits, 0, wanted->groups * sizeof(uint32_t), at->stream));
    NF_RT_CUDA(at->fault, cudaMemsetAsync(wanted->group_sums, 0, wanted->groups * sizeof(uint64_t), at->stream));
    NF_RT_CUDA(at->fault, nf_rt_k_trial_expect(at->stream, wanted, leave_out));
    NF_RT_CUDA(at->fault, nf_rt_k_trial_compare(at->stream, wanted->query_hits, at->query_hits, wanted->queries,
                                                at->differences));
    NF_RT_CUDA(at->fault, nf_rt_k_trial_compare(at->stream, wanted->group_hits, at->group_hits, wanted->groups,
                                                at->differences));
    NF_RT_CUDA(at->fault, nf_rt_k_trial_compare_sums(at->stream, wanted->group_sums, at->list_sums, wanted->groups,
                                                     at->differences));
    return NF_OK;
}

/* One scene: at->wanted says what of. */
static nf_status try_scene(trials *at, bool leave_out)
{
    nf_rt_scene *scene;
    nf_rt_walk   walk = {.queries = at->wanted.points, .count = at->wanted.queries};

    if (leave_out) {
        walk.least_group = at->wanted.least_group;
        walk.skip_from = at->wanted.skip_from;
    }
    NF_RT_CUDA(at->fault, nf_rt_k_trial_make(at->stream, &at->wanted));
    NF_TRY(nf_rt_scene_make(at->ctx, at->device, at->stream, at->wanted.boxes, at->wanted.groups, &scene, at->fault));
    nf_status status = count_hits(at, scene, walk);
    if (status == NF_OK) status = list_hits(at, scene, walk);
    if (status == NF_OK) status = compare_hits(at, leave_out);
    nf_rt_scene_release(scene);
    return status;
}

static nf_status take_differences(trials *at, uint64_t *differences)
{
    NF_RT_CUDA(at->fault, cudaMemcpyAsync(differences, at->differences, sizeof *differences, cudaMemcpyDeviceToHost,
                                          at->stream));
    NF_RT_CUDA(at->fault, cudaStreamSynchronize(at->stream));
    return NF_OK;
}

/* Traces count queries in scenes of all kinds in turn; *differences as nf_rt_boundary_trials has them. */
static nf_status try_scenes(nf_context *ctx, nf_device *device, uint32_t groups, uint32_t queries, uint64_t count,
                            uint64_t seed, uint64_t *differences, nf_rt_fault *fault)
{
    trials    at = {.ctx = ctx, .device = device, .fault = fault, .wanted = {.groups = groups, .queries = queries}};
    nf_status status = open_trials(&at);

    *differences = 0;
    for (uint64_t done = 0, scene = 0; status == NF_OK && done < count; scene++) {
        at.wanted.seed = seed + 2 * scene;
        at.wanted.kind = (int)(scene % NF_RT_TRIAL_KINDS);
        if (count - done < queries) at.wanted.queries = (uint32_t)(count - done);
        status = try_scene(&at, scene / NF_RT_TRIAL_KINDS % 2 != scene % 2);
        done += at.wanted.queries;
    }
    if (status == NF_OK) status = take_differences(&at, differences);
    close_trials(&at);
    return status;
}

nf_status nf_rt_boundary_trials(nf_context *ctx, nf_device *device, uint64_t count, uint64_t seed, uint64_t *missed)
{
    nf_rt_fault    fault;
    const uint64_t each = count / NF_RT_TRIAL_KINDS + 1; /* so that few queries try all kinds too */
    const uint32_t queries = each < TRIAL_QUERIES ? (uint32_t)each : TRIAL_QUERIES;

    *missed = 0;
    if (count == 0) return NF_OK;
    const nf_status status = try_scenes(ctx, device, TRIAL_GROUPS, queries, count, seed, missed, &fault);
    return status < 0 ? nf_fail(ctx, status, "%s", fault.text) : NF_OK;
}

/* "OptiX (ABI 87), RT cores version 2.0" */
static void describe(int32_t rt_core_version, char *text, size_t size)
{
    if (rt_core_version > 0) {
        snprintf(text, size, "OptiX (ABI %d), RT cores version %d.%d", NF_OPTIX_ABI, rt_core_version / 10,
                 rt_core_version % 10);
    } else if (rt_core_version == 0) {
        snprintf(text, size, "OptiX (ABI %d), no RT cores: software", NF_OPTIX_ABI);
    } else {
        snprintf(text, size, "OptiX (ABI %d), RT cores not known", NF_OPTIX_ABI);
    }
}

/* What is known of a device. */
typedef struct verdict {
    bool tried, works;
    char text[400];
} verdict;

static pthread_mutex_t verdict_lock = PTHREAD_MUTEX_INITIALIZER;
static verdict         verdicts[NF_RT_DEVICES];

/* Tries a device; false where nothing is to be remembered, since memory was short. */
static bool judge(nf_context *ctx, nf_device *device, int ordinal, verdict *out)
{
    nf_rt_pipeline *pipeline;
    nf_rt_fault     fault;
    char            what[96];
    uint64_t        differences;

    out->works = false;
    nf_status status = nf_rt_pipeline_get(ordinal, &pipeline, &fault);
    if (status == NF_OK) {
        status = try_scenes(ctx, device, START_GROUPS, START_QUERIES, (uint64_t)START_QUERIES * NF_RT_TRIAL_KINDS, 87,
                            &differences, &fault);
    }
    if (status < 0) {
        snprintf(out->text, sizeof out->text, "%s", fault.text);
        return status != NF_ERR_MEMORY && status != NF_ERR_LIMIT && status != NF_ERR_DEVICE_MEMORY;
    }
    describe(pipeline->rt_core_version, what, sizeof what);
    out->works = differences == 0;
    if (out->works) {
        snprintf(out->text, sizeof out->text, "%s; self-test passed", what);
    } else {
        snprintf(out->text, sizeof out->text, "%s; not used: self-test found %llu wrong hits", what,
                 (unsigned long long)differences);
    }
    return true;
}

bool nf_rt_available(nf_context *ctx, nf_device *device, char *text, size_t size)
{
    const int ordinal = nf_device_get_traits(device)->ordinal;
    verdict   now = {0};

    if (ordinal < 0 || ordinal >= NF_RT_DEVICES) {
        snprintf(text, size, "ray tracing knows devices 0 to %d", NF_RT_DEVICES - 1);
        return false;
    }
    pthread_mutex_lock(&verdict_lock);
    if (verdicts[ordinal].tried) {
        now = verdicts[ordinal];
    } else {
        now.tried = judge(ctx, device, ordinal, &now);
        verdicts[ordinal] = now;
    }
    pthread_mutex_unlock(&verdict_lock);
    snprintf(text, size, "%s", now.text);
    return now.works;
}

bool nf_rt_describe(int ordinal, int32_t *rt_core_version, char *text, size_t size)
{
    nf_rt_pipeline *pipeline;
    nf_rt_fault     fault;
    int             before = 0;

    *rt_core_version = -1;
    const bool      known = cudaGetDevice(&before) == cudaSuccess;
    const nf_status status = nf_rt_pipeline_context(ordinal, &pipeline, &fault);
    if (known) (void)cudaSetDevice(before); /* was the thread's device: an error of it is its next user's to see */
    if (status < 0) {
        snprintf(text, size, "%s", fault.text);
        return false;
    }
    *rt_core_version = pipeline->rt_core_version;
    describe(pipeline->rt_core_version, text, size);
    return true;
}
