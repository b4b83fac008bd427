/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building an index: sample, cluster, rotate, assign, encode, calibrate.
 *
 * Data may be a mapped file larger than memory: after the sample, rows are read in ascending order in blocks, once to
 * find their lists and once to encode them, and once more by the exact search of step calibrate. What depends on
 * several rows (means, lists, places) is computed in the order of rows, so that neither threads nor the size of blocks
 * change a byte.
 */
#include "ivf_build.h"

#include <math.h>
#include <string.h>

#include "core/core_pool.h"
#include "ivf_cluster.h"
#include "ivf_random.h"
#include "ivf_rotation.h"

#define LISTS_PER_ROOT 4.0         /* lists by default: this times sqrt(rows), but */
#define ROWS_PER_LIST NF_IVF_BLOCK /* no fewer rows per list than fill a block */
#define CLEAR_BYTES ((uint64_t)4 << 20)

static void end_step(nf_ivf_build_job *job, nf_ivf_build_step step, double *started)
{
    const double now = nf_now();
    job->stats.step_seconds[step] = now - *started;
    *started = now;
}

/* ---- sample, cluster ---- */

/* train_rows per list, but no more than there are, nor than a quarter of the memory left holds; one per list at least. */
static uint64_t sample_rows(const nf_ivf_build_job *job)
{
    const nf_memory *memory = nf_context_memory(job->ctx);
    const uint64_t   lists = job->index->view.lists, limit = nf_memory_limit(memory), used = nf_memory_used(memory);
    uint64_t         count = (uint64_t)job->params.train_rows * lists;
    if (limit != 0) {
        const uint64_t fit = (limit > used ? limit - used : 0) / 4 / (job->data->dims * sizeof(float) + 16);
        if (count > fit) count = fit;
    }
    if (count < lists) count = lists;
    return count < job->data->rows ? count : job->data->rows;
}

static nf_status sample_step(nf_ivf_build_job *job)
{
    nf_context       *ctx = job->ctx;
    const nf_ivf_ops *ops = job->index->engine->ivf;
    const uint64_t    n = job->data->rows;
    uint64_t          count = sample_rows(job), *numbers;

    nf_progress_begin(ctx, "sample", count);
    NF_TRY(ops->source_open(ctx, job->data, job->params.metric, &job->source));
    const uint64_t room = ops->set_room(ctx, job->source);
    if (count > room) count = room > job->index->view.lists ? room : job->index->view.lists;
    job->sample_count = count;
    numbers = nf_alloc(ctx, count, sizeof *numbers);
    if (numbers == NULL) return nf_alloc_status(ctx);
    for (uint64_t i = 0; i < count; i++) {
        numbers[i] = nf_ivf_random_spread(job->params.seed, NF_IVF_STREAM_SAMPLE, i, count, n);
    }
    const nf_status status = ops->sample(ctx, job->source, numbers, count, job->index->owned.mean, &job->sample);
    nf_progress_add(ctx, count);
    nf_free(numbers);
    return status;
}

static nf_status cluster_step(nf_ivf_build_job *job)
{
    const nf_ivf_view    *view = &job->index->view;
    const nf_ivf_ops     *ops = job->index->engine->ivf;
    const nf_ivf_training training = {
        .set = job->sample,
        .count = job->sample_count,
        .dims = view->dims,
        .lists = view->lists,
        .iterations = job->params.iterations,
        .seed = job->params.seed,
    };
    job->centroids = nf_alloc(job->ctx, view->lists, view->dims * sizeof *job->centroids);
    if (job->centroids == NULL) return nf_alloc_status(job->ctx);
    const nf_status status = nf_ivf_cluster(job->ctx, ops, &training, job->centroids);
    ops->set_close(job->sample);
    job->sample = NULL;
    return status;
}

/* ---- rotate ---- */

static nf_status make_rotation(nf_ivf_build_job *job)
{
    nf_ivf_index  *index = job->index;
    nf_ivf_view   *view = &index->view;
    const uint32_t padded = view->padded;

    view->rotation = (nf_rotation_map){.kind = job->params.rotation, .dims = view->dims, .padded = padded};
    if (job->params.rotation == NF_ROTATION_FAST) {
        index->owned.signs = nf_alloc_in(job->ctx, index->memory, nf_ivf_sign_bytes(padded), 1);
        if (index->owned.signs == NULL) return nf_alloc_status(job->ctx);
        nf_ivf_make_signs(job->params.seed, padded, index->owned.signs);
        view->rotation.signs = index->owned.signs;
        return NF_OK;
    }
    index->owned.matrix = nf_alloc_in(job->ctx, index->memory, (uint64_t)padded * padded, sizeof(float));
    if (index->owned.matrix == NULL) return nf_alloc_status(job->ctx);
    view->rotation.matrix = index->owned.matrix;
    return nf_ivf_make_matrix(job->ctx, job->params.seed, padded, index->owned.matrix);
}

static nf_status rotate_step(nf_ivf_build_job *job)
{
    nf_ivf_index *index = job->index;
    nf_ivf_view  *view = &index->view;

    nf_progress_begin(job->ctx, "rotate", view->lists);
    NF_TRY(make_rotation(job));
    index->owned.centroids = nf_alloc_in(job->ctx, index->memory, view->lists, view->padded * sizeof(float));
    index->owned.mean_rotated = nf_alloc_in(job->ctx, index->memory, view->padded, sizeof(float));
    if (index->owned.centroids == NULL || index->owned.mean_rotated == NULL) return nf_alloc_status(job->ctx);
    view->centroids = index->owned.centroids;
    view->mean_rotated = index->owned.mean_rotated;
    NF_TRY(index->engine->ivf->rotate(job->ctx, &view->rotation, view->mean, 1, index->owned.mean_rotated));
    NF_TRY(index->engine->ivf->rotate(job->ctx, &view->rotation, job->centroids, view->lists, index->owned.centroids));
    nf_progress_add(job->ctx, view->lists);
    return NF_OK;
}

/* ---- assign ---- */

static nf_status open_block(nf_ivf_build_job *job)
{
    uint64_t most;
    NF_TRY(job->index->engine->ivf->block_rows(job->ctx, job->source, &most));
    job->slots = nf_alloc(job->ctx, most, sizeof *job->slots);
    job->code_errors = nf_alloc(job->ctx, most, sizeof *job->code_errors);
    return job->slots == NULL || job->code_errors == NULL ? nf_alloc_status(job->ctx) : NF_OK;
}

static nf_status finish_block(nf_ivf_build_job *job, uint64_t count)
{
    nf_progress_add(job->ctx, count);
    return nf_progress_poll(job->ctx);
}

static nf_status place_lists(nf_ivf_build_job *job)
{
    nf_ivf_index *index = job->index;
    nf_ivf_view  *view = &index->view;
    uint64_t     *starts = nf_alloc_zero_in(job->ctx, index->memory, (uint64_t)view->lists + 1, sizeof *starts);

    index->owned.list_start = starts;
    index->owned.block_start = nf_alloc_in(job->ctx, index->memory, (uint64_t)view->lists + 1, sizeof *starts);
    if (starts == NULL || index->owned.block_start == NULL) return nf_alloc_status(job->ctx);
    for (uint64_t i = 0; i < view->rows; i++) starts[job->labels[i] + 1]++;
    for (uint32_t list = 0; list < view->lists; list++) {
        if (starts[list + 1] > job->stats.largest_list) job->stats.largest_list = starts[list + 1];
        job->stats.empty_lists += starts[list + 1] == 0;
        starts[list + 1] += starts[list];
    }
    nf_ivf_block_starts(starts, view->lists, index->owned.block_start);
    view->list_start = starts;
    view->block_start = index->owned.block_start;
    return NF_OK;
}

static nf_status assign_step(nf_ivf_build_job *job)
{
    const nf_ivf_view *view = &job->index->view;
    const nf_ivf_ops  *ops = job->index->engine->ivf;
    uint64_t           count;

    nf_progress_begin(job->ctx, "assign", view->rows);
    job->labels = nf_alloc(job->ctx, view->rows, sizeof *job->labels);
    if (job->labels == NULL) return nf_alloc_status(job->ctx);
    NF_TRY(open_block(job));
    NF_TRY(ops->use_centroids(job->ctx, job->source, job->centroids, view->lists));
    for (uint64_t first = 0; first < view->rows; first += count) {
        NF_TRY(ops->load(job->ctx, job->source, view->mean, first, &count));
        NF_TRY(ops->assign(job->ctx, job->source, job->labels + first));
        NF_TRY(finish_block(job, count));
    }
    nf_free(job->centroids);
    job->centroids = NULL;
    return place_lists(job);
}

/* ---- encode ---- */

typedef struct clearing {
    uint8_t *bytes;
    uint64_t count;
} clearing;

static nf_status clear_task(void *arg, uint64_t task, uint32_t worker)
{
    const clearing *at = arg;
    const uint64_t  begin = task * CLEAR_BYTES, left = at->count - begin;
    (void)worker;
    memset(at->bytes + begin, 0, left < CLEAR_BYTES ? left : CLEAR_BYTES);
    return NF_OK;
}

/* Zeroes fresh memory by all threads, since the system gives it page by page. */
static nf_status clear(nf_context *ctx, uint8_t *bytes, uint64_t count)
{
    clearing at = {bytes, count};
    return nf_pool_run(ctx, clear_task, &at, (count + CLEAR_BYTES - 1) / CLEAR_BYTES);
}

static nf_status open_codes(nf_ivf_build_job *job)
{
    nf_context    *ctx = job->ctx;
    nf_ivf_index  *index = job->index;
    nf_ivf_view   *view = &index->view;
    nf_ivf_arrays *owned = &index->owned;
    const size_t   record = nf_ivf_record_bytes(view->padded, view->bits);
    const size_t   row = view->dims * nf_dtype_bytes((nf_dtype)view->vectors_dtype);

    job->cursor = nf_alloc_zero(ctx, view->lists, sizeof *job->cursor);
    owned->blocks = nf_alloc_in(ctx, index->memory, view->block_start[view->lists], nf_ivf_block_bytes(view->padded));
    owned->ids = nf_alloc_in(ctx, index->memory, view->rows, view->wide_ids != 0 ? 8 : 4);
    if (job->cursor == NULL || owned->blocks == NULL || owned->ids == NULL) return nf_alloc_status(ctx);
    view->blocks = owned->blocks;
    view->ids = owned->ids;
    NF_TRY(clear(ctx, owned->blocks, view->block_start[view->lists] * nf_ivf_block_bytes(view->padded)));
    if (record != 0) { /* 8 bytes more, because kernels read whole words */
        owned->records = nf_alloc_in(ctx, index->memory, view->rows * record + 8, 1);
        if (owned->records == NULL) return nf_alloc_status(ctx);
        NF_TRY(clear(ctx, owned->records, view->rows * record + 8));
        view->records = owned->records;
    }
    if (job->params.keep_vectors != 0) {
        owned->vectors = nf_alloc_in(ctx, index->memory, view->rows, row);
        if (owned->vectors == NULL) return nf_alloc_status(ctx);
        view->vectors = owned->vectors;
    }
    return NF_OK;
}

static void set_id(nf_ivf_index *index, uint64_t at, uint64_t id)
{
    if (index->view.wide_ids != 0) {
        ((uint64_t *)index->owned.ids)[at] = id;
    } else {
        ((uint32_t *)index->owned.ids)[at] = (uint32_t)id;
    }
}

/* Gives the rows of a block their places: the next free slots of their lists. */
static void place_rows(nf_ivf_build_job *job, uint64_t first, uint64_t count)
{
    nf_ivf_index *index = job->index;
    nf_ivf_view  *view = &index->view;
    const size_t  row_bytes = view->dims * nf_dtype_bytes((nf_dtype)view->vectors_dtype);
    const size_t  stride = job->data->stride_bytes != 0 ? (size_t)job->data->stride_bytes : row_bytes;

    for (uint64_t i = 0; i < count; i++) {
        const uint32_t list = job->labels[first + i];
        job->slots[i] = job->cursor[list]++;
        const uint64_t at = view->list_start[list] + job->slots[i];
        set_id(index, at, first + i);
        if (index->owned.vectors != NULL) {
            memcpy(index->owned.vectors + at * row_bytes, (const char *)job->data->data + (first + i) * stride,
                   row_bytes);
        }
    }
}

static nf_status encode_step(nf_ivf_build_job *job)
{
    nf_ivf_index     *index = job->index;
    const nf_ivf_ops *ops = index->engine->ivf;
    double            sum = 0.0;
    uint64_t          count;

    nf_progress_begin(job->ctx, "encode", index->view.rows);
    NF_TRY(open_codes(job));
    for (uint64_t first = 0; first < index->view.rows; first += count) {
        NF_TRY(ops->load(job->ctx, job->source, index->view.mean, first, &count));
        place_rows(job, first, count);
        const nf_ivf_encode_job encode = {
            .view = &index->view,
            .labels = job->labels + first,
            .slots = job->slots,
            .blocks = index->owned.blocks,
            .records = index->owned.records,
            .code_errors = job->code_errors,
        };
        NF_TRY(ops->encode(job->ctx, job->source, &encode));
        for (uint64_t i = 0; i < count; i++) sum += job->code_errors[i];
        NF_TRY(finish_block(job, count));
    }
    NF_TRY(ops->encode_end(job->ctx, job->source));
    job->stats.code_error = sum / (double)index->view.rows;
    return NF_OK;
}

/* ---- the whole ---- */

void nf_ivf_close_source(nf_ivf_build_job *job)
{
    if (job->source != NULL) job->index->engine->ivf->source_close(job->source);
    job->source = NULL;
}

static void close_job(nf_ivf_build_job *job)
{
    if (job->index != NULL && job->index->engine != NULL) job->index->engine->ivf->set_close(job->sample);
    nf_ivf_close_source(job);
    nf_free(job->centroids);
    nf_free(job->labels);
    nf_free(job->cursor);
    nf_free(job->slots);
    nf_free(job->code_errors);
}

/* From row numbers to the caller's ids. */
static void take_ids(nf_ivf_build_job *job)
{
    if (job->params.ids == NULL) return;
    for (uint64_t at = 0; at < job->index->view.rows; at++) {
        set_id(job->index, at, (uint64_t)job->params.ids[nf_ivf_id(&job->index->view, at)]);
    }
}

static nf_status check_ids(nf_context *ctx, const int64_t *ids, uint64_t rows, uint32_t *wide)
{
    for (uint64_t i = 0; ids != NULL && i < rows; i++) {
        if (ids[i] < 0) {
            return nf_fail(ctx, NF_ERR_ARGUMENT, "the id of row %llu is %lld; ids must not be negative",
                           (unsigned long long)i, (long long)ids[i]);
        }
        if (ids[i] > UINT32_MAX) *wide = 1;
    }
    return NF_OK;
}

static uint32_t choose_lists(uint32_t asked, uint64_t rows)
{
    double lists = asked;
    if (asked == 0) lists = fmin(floor(LISTS_PER_ROOT * sqrt((double)rows)), (double)(rows / ROWS_PER_LIST + 1));
    return lists < (double)rows ? (uint32_t)lists : (uint32_t)rows;
}

static nf_status begin(nf_ivf_build_job *job)
{
    nf_context      *ctx = job->ctx;
    const nf_matrix *data = job->data;
    uint32_t         wide = 0;

    NF_TRY(nf_ivf_check_matrix(ctx, data, "data"));
    if (data->rows == 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "data: 0 rows, at least 1 is needed");
    if (data->place != NF_PLACE_HOST) return nf_fail(ctx, NF_ERR_UNSUPPORTED, "data: a build reads host memory");
    NF_TRY(check_ids(ctx, job->params.ids, data->rows, &wide));
    if (job->params.rotation == NF_ROTATION_DENSE && data->dims > NF_IVF_MOST_DENSE_DIMS) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "data: %u dims, a dense rotation allows at most %u; use the fast one",
                       data->dims, NF_IVF_MOST_DENSE_DIMS);
    }
    NF_TRY(nf_ivf_index_new(ctx, &job->index));
    nf_ivf_index *index = job->index;
    index->seed = job->params.seed;
    index->user_ids = job->params.ids != NULL;
    index->view = (nf_ivf_view){
        .rows = data->rows,
        .dims = data->dims,
        .padded = nf_ivf_padded(data->dims),
        .lists = choose_lists(job->params.lists, data->rows),
        .bits = job->params.bits,
        .metric = job->params.metric,
        .wide_ids = wide,
        .vectors_dtype = data->dtype,
    };
    NF_TRY(nf_ivf_index_choose_engine(ctx, index));
    index->owned.mean = nf_alloc_in(ctx, index->memory, data->dims, sizeof(float));
    if (index->owned.mean == NULL) return nf_alloc_status(ctx);
    index->view.mean = index->owned.mean;
    return NF_OK;
}

static nf_status run_steps(nf_ivf_build_job *job)
{
    static nf_status (*const steps[NF_IVF_BUILD_STEPS])(nf_ivf_build_job *) = {
        sample_step, cluster_step, rotate_step, assign_step, encode_step, nf_ivf_calibrate,
    };
    double started = nf_now();
    for (uint32_t step = 0; step < NF_IVF_BUILD_STEPS; step++) {
        NF_TRY(steps[step](job));
        end_step(job, (nf_ivf_build_step)step, &started);
    }
    take_ids(job);
    nf_ivf_index_measure(job->index);
    return NF_OK;
}

nf_status nf_ivf_build(nf_context *ctx, const nf_matrix *data, const nf_ivf_params *params, nf_ivf_index **out,
                       nf_ivf_build_stats *stats)
{
    if (ctx == NULL || out == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    *out = NULL;
    nf_ivf_build_job job = {.ctx = ctx, .data = data};
    const double     started = nf_now();

    NF_TRY(nf_ivf_params_take(ctx, params, &job.params));
    nf_status status = begin(&job);
    if (status >= 0) status = run_steps(&job);
    close_job(&job);
    if (status < 0) {
        nf_ivf_release(job.index);
        return status;
    }
    job.stats.seconds = nf_now() - started;
    if (stats != NULL) {
        job.stats.struct_size = stats->struct_size;
        memcpy(stats, &job.stats, stats->struct_size < sizeof *stats ? stats->struct_size : sizeof *stats);
    }
    *out = job.index;
    return NF_OK;
}
