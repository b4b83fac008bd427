/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies through pinned memory.
 *
 * A copy is cut into chunks. Each of several lanes, one per thread, has a stream and two pinned buffers of a chunk, and
 * takes chunk after chunk from a shared counter: while one buffer is on its way over the bus, the thread empties (or fills)
 * the other. The lanes' chunks keep the bus busy, and their threads share the work of the operating system, which clears
 * fresh memory of the caller page by page. Large pages make that cheaper, where there are any; asking for them is a hint.
 *
 * Pinning memory is slow, so lanes are kept in the process for the next copy. They are small: a chunk stays in the cache of
 * the processor between the bus and the copy.
 */
#include "cuda_staging.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK (4ull << 20)
#define SMALL (1ull << 20)           /* copied without lanes */
#define CHUNKS_PER_LANE 3u           /* a lane is not worth its pinning for less */
#define MOST_LANES 16u
#define LARGE_PAGE (2ull << 20)
#define WORTH_LARGE_PAGES (16ull << 20)

/* ---- lanes ---- */

typedef struct lane {
    struct lane *next;
    int          ordinal;    /* the device */
    cudaStream_t stream;
    void        *buffer[2];  /* CHUNK bytes each */
    cudaEvent_t  done[2];    /* what was last put on stream for the buffer */
} lane;

static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;
static lane            lanes[2 * MOST_LANES]; /* those in use or kept are taken from here */
static lane           *kept_lanes, *empty_lanes;
static bool            lanes_listed;

static void push(lane **list, lane *one)
{
    one->next = *list;
    *list = one;
}

/* Takes the first lane of a device from a list; of any device where ordinal is negative. */
static lane *take_from(lane **list, int ordinal)
{
    for (lane **at = list; *at != NULL; at = &(*at)->next) {
        if (ordinal >= 0 && (*at)->ordinal != ordinal) continue;
        lane *one = *at;
        *at = one->next;
        return one;
    }
    return NULL;
}

static void destroy_lane(lane *one)
{
    for (unsigned i = 0; i < 2; i++) {
        if (one->done[i] != NULL) (void)cudaEventDestroy(one->done[i]);
        if (one->buffer[i] != NULL) (void)cudaFreeHost(one->buffer[i]);
        one->done[i] = NULL;
        one->buffer[i] = NULL;
    }
    if (one->stream != NULL) (void)cudaStreamDestroy(one->stream);
    one->stream = NULL;
}

static cudaError_t make_lane(lane *one)
{
    cudaError_t error = cudaStreamCreateWithFlags(&one->stream, cudaStreamNonBlocking);
    for (unsigned i = 0; error == cudaSuccess && i < 2; i++) {
        error = cudaHostAlloc(&one->buffer[i], CHUNK, cudaHostAllocDefault);
        if (error == cudaSuccess) error = cudaEventCreateWithFlags(&one->done[i], cudaEventDisableTiming);
    }
    return error;
}

static void put_lane(lane *one, bool keep)
{
    if (!keep) destroy_lane(one);
    pthread_mutex_lock(&lanes_lock);
    push(keep ? &kept_lanes : &empty_lanes, one);
    pthread_mutex_unlock(&lanes_lock);
}

/* A lane that was kept, or a new one, in place of one kept for another device if need be. NULL when all are taken or no
 * more memory can be pinned: other lanes do the work, or it is done without. */
static lane *take_lane(int ordinal)
{
    pthread_mutex_lock(&lanes_lock);
    for (unsigned i = 0; !lanes_listed && i < 2 * MOST_LANES; i++) push(&empty_lanes, &lanes[i]);
    lanes_listed = true;
    lane *one = take_from(&kept_lanes, ordinal);
    if (one == NULL) one = take_from(&empty_lanes, -1);
    if (one == NULL) one = take_from(&kept_lanes, -1);
    pthread_mutex_unlock(&lanes_lock);

    if (one == NULL || (one->stream != NULL && one->ordinal == ordinal)) return one;
    destroy_lane(one);
    one->ordinal = ordinal;
    if (make_lane(one) == cudaSuccess) return one;
    (void)cudaGetLastError();
    put_lane(one, false);
    return NULL;
}

void nf_staging_trim(void)
{
    pthread_mutex_lock(&lanes_lock);
    for (lane *one = take_from(&kept_lanes, -1); one != NULL; one = take_from(&kept_lanes, -1)) {
        destroy_lane(one);
        push(&empty_lanes, one);
    }
    pthread_mutex_unlock(&lanes_lock);
}

/* ---- a copy by several lanes ---- */

typedef struct staged_copy {
    nf_context      *ctx;
    const nf_device *device;
    cudaStream_t     stream;       /* the caller's */
    bool             download;
    unsigned char   *to;           /* download: host; upload: device */
    const unsigned char *from;
    uint64_t         bytes;        /* in all, rows side by side */
    uint64_t         row_bytes, stride_bytes; /* upload: of the rows on the host */
    uint64_t         chunks;
    atomic_uint_fast64_t next;     /* chunk */
} staged_copy;

static uint64_t chunk_bytes(const staged_copy *copy, uint64_t chunk)
{
    const uint64_t begin = chunk * CHUNK;
    return copy->bytes - begin < CHUNK ? copy->bytes - begin : CHUNK;
}

/* Bytes begin .. begin + count - 1 of rows that lie stride_bytes apart, side by side to `to`. */
static void gather(const staged_copy *copy, uint64_t begin, uint64_t count, unsigned char *to)
{
    uint64_t row = begin / copy->row_bytes, within = begin % copy->row_bytes;
    while (count > 0) {
        const uint64_t left = copy->row_bytes - within, now = left < count ? left : count;
        memcpy(to, copy->from + row * copy->stride_bytes + within, now);
        to += now;
        count -= now;
        row++;
        within = 0;
    }
}

/* Takes the next chunk; false when there is none, or the call is to stop (nf_pool_run then says why). */
static bool next_chunk(staged_copy *copy, uint64_t *chunk)
{
    if (nf_context_stopping(copy->ctx)) return false;
    *chunk = atomic_fetch_add_explicit(&copy->next, 1, memory_order_relaxed);
    return *chunk < copy->chunks;
}

static nf_status download_chunks(staged_copy *copy, lane *own, bool caller)
{
    uint64_t chunk[2];
    bool     busy[2] = {next_chunk(copy, &chunk[0]), false};
    unsigned now = 0;

    if (busy[0]) {
        NF_CUDA(copy->ctx, cudaMemcpyAsync(own->buffer[0], copy->from + chunk[0] * CHUNK, chunk_bytes(copy, chunk[0]),
                                           cudaMemcpyDeviceToHost, own->stream));
        NF_CUDA(copy->ctx, cudaEventRecord(own->done[0], own->stream));
    }
    while (busy[now]) {
        const unsigned other = 1 - now;
        busy[other] = next_chunk(copy, &chunk[other]);
        if (busy[other]) {
            NF_CUDA(copy->ctx, cudaMemcpyAsync(own->buffer[other], copy->from + chunk[other] * CHUNK,
                                               chunk_bytes(copy, chunk[other]), cudaMemcpyDeviceToHost, own->stream));
            NF_CUDA(copy->ctx, cudaEventRecord(own->done[other], own->stream));
        }
        NF_CUDA(copy->ctx, cudaEventSynchronize(own->done[now]));
        memcpy(copy->to + chunk[now] * CHUNK, own->buffer[now], chunk_bytes(copy, chunk[now]));
        if (caller) NF_TRY(nf_progress_poll(copy->ctx));
        now = other;
    }
    return NF_OK;
}

static nf_status upload_chunks(staged_copy *copy, lane *own, bool caller)
{
    uint64_t chunk;
    for (unsigned now = 0; next_chunk(copy, &chunk); now = 1 - now) {
        const uint64_t bytes = chunk_bytes(copy, chunk);
        NF_CUDA(copy->ctx, cudaEventSynchronize(own->done[now])); /* one that was never recorded is done */
        gather(copy, chunk * CHUNK, bytes, own->buffer[now]);
        NF_CUDA(copy->ctx, cudaMemcpyAsync(copy->to + chunk * CHUNK, own->buffer[now], bytes, cudaMemcpyHostToDevice,
                                           own->stream));
        NF_CUDA(copy->ctx, cudaEventRecord(own->done[now], own->stream));
        if (caller) NF_TRY(nf_progress_poll(copy->ctx));
    }
    return NF_OK;
}

/* A task is a lane's whole work. Nothing of it is in flight when it returns, whatever has failed. */
static nf_status lane_task(void *arg, uint64_t task, uint32_t worker)
{
    (void)task;
    staged_copy *copy = arg;
    if (atomic_load_explicit(&copy->next, memory_order_relaxed) >= copy->chunks) return NF_OK;
    NF_TRY(nf_device_enter(copy->ctx, copy->device));
    lane *own = take_lane(nf_device_get_traits(copy->device)->ordinal);
    if (own == NULL) return NF_OK;
    nf_status status = (copy->download ? download_chunks : upload_chunks)(copy, own, worker == 0);
    const nf_status last = nf_cuda_check(copy->ctx, cudaStreamSynchronize(own->stream), "cudaStreamSynchronize");
    if (status >= 0) status = last;
    put_lane(own, status >= 0);
    return status;
}

/* ---- a copy without lanes: a small one, or what no lane could take ---- */

static nf_status plain_chunk(const staged_copy *copy, uint64_t begin, uint64_t count)
{
    while (count > 0) {
        const uint64_t row = begin / copy->row_bytes, within = begin % copy->row_bytes;
        const uint64_t left = copy->row_bytes - within, now = left < count ? left : count;
        const uint64_t host = row * copy->stride_bytes + within;
        NF_CUDA(copy->ctx, copy->download ? cudaMemcpyAsync(copy->to + host, copy->from + begin, now, cudaMemcpyDeviceToHost,
                                                            copy->stream)
                                          : cudaMemcpyAsync(copy->to + begin, copy->from + host, now, cudaMemcpyHostToDevice,
                                                            copy->stream));
        begin += now;
        count -= now;
    }
    return nf_cuda_check(copy->ctx, cudaStreamSynchronize(copy->stream), "cudaStreamSynchronize");
}

static nf_status plain_chunks(staged_copy *copy)
{
    for (uint64_t chunk = atomic_load(&copy->next); chunk < copy->chunks; chunk++) {
        NF_TRY(plain_chunk(copy, chunk * CHUNK, chunk_bytes(copy, chunk)));
        NF_TRY(nf_progress_poll(copy->ctx));
    }
    return NF_OK;
}

/* A small upload of many rows: put side by side first, since each copy costs as much as many bytes. */
static nf_status small_upload(staged_copy *copy)
{
    unsigned char *rows = nf_alloc(copy->ctx, copy->bytes, 1);
    if (rows == NULL) return nf_alloc_status(copy->ctx);
    gather(copy, 0, copy->bytes, rows);
    const staged_copy packed = {
        .ctx = copy->ctx,
        .stream = copy->stream,
        .to = copy->to,
        .from = rows,
        .row_bytes = copy->bytes,
        .stride_bytes = copy->bytes,
    };
    const nf_status status = plain_chunk(&packed, 0, copy->bytes);
    nf_free(rows);
    return status;
}

/* Memory that the caller has pinned needs no staging. */
static bool is_pinned(const void *memory)
{
    struct cudaPointerAttributes attributes;
    const cudaError_t error = cudaPointerGetAttributes(&attributes, memory);
    if (error != cudaSuccess) (void)cudaGetLastError();
    return error == cudaSuccess && attributes.type == cudaMemoryTypeHost;
}

static nf_status run_copy(staged_copy *copy)
{
    copy->chunks = (copy->bytes + CHUNK - 1) / CHUNK;
    atomic_init(&copy->next, 0);
    if (copy->row_bytes == copy->bytes && is_pinned(copy->download ? copy->to : copy->from)) {
        return plain_chunk(copy, 0, copy->bytes);
    }
    if (copy->bytes <= SMALL) {
        return copy->row_bytes < copy->bytes ? small_upload(copy) : plain_chunk(copy, 0, copy->bytes);
    }
    /* What is on stream may still make the memory that lanes copy from, or be using what they copy to. */
    NF_CUDA(copy->ctx, cudaStreamSynchronize(copy->stream));
    const uint64_t worth = (copy->chunks + CHUNKS_PER_LANE - 1) / CHUNKS_PER_LANE;
    NF_TRY(nf_pool_run(copy->ctx, lane_task, copy, worth < MOST_LANES ? worth : MOST_LANES));
    return plain_chunks(copy);
}

/* A hint to use large pages for the inside of fresh memory. */
static void hint_large_pages(void *to, uint64_t bytes)
{
    const uintptr_t begin = ((uintptr_t)to + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    const uintptr_t end = ((uintptr_t)to + bytes) / LARGE_PAGE * LARGE_PAGE;
    if (bytes < WORTH_LARGE_PAGES || begin >= end) return;
    (void)madvise((unsigned char *)to + (begin - (uintptr_t)to), end - begin, MADV_HUGEPAGE);
}

nf_status nf_upload_rows(nf_context *ctx, nf_device *device, cudaStream_t stream, void *to, const void *from, uint64_t rows,
                         uint64_t row_bytes, uint64_t stride_bytes)
{
    staged_copy copy = {.ctx = ctx, .device = device, .stream = stream, .to = to, .from = from};
    if (rows == 0 || row_bytes == 0) return NF_OK;
    if (!nf_multiply(rows, row_bytes, &copy.bytes)) {
        return nf_fail(ctx, NF_ERR_LIMIT, "%llu rows of %llu bytes are more than memory can hold", (unsigned long long)rows,
                       (unsigned long long)row_bytes);
    }
    const bool packed = rows == 1 || row_bytes == stride_bytes;
    copy.row_bytes = packed ? copy.bytes : row_bytes;
    copy.stride_bytes = packed ? copy.bytes : stride_bytes;
    return run_copy(&copy);
}

nf_status nf_download(nf_context *ctx, nf_device *device, cudaStream_t stream, void *to, const void *from, uint64_t bytes)
{
    staged_copy copy = {
        .ctx = ctx,
        .device = device,
        .stream = stream,
        .download = true,
        .to = to,
        .from = from,
        .bytes = bytes,
        .row_bytes = bytes,
        .stride_bytes = bytes,
    };
    if (bytes == 0) return nf_cuda_check(ctx, cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    hint_large_pages(to, bytes);
    return run_copy(&copy);
}
