/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening points and step select_dims: the rows go to the device in chunks and are converted and checked there; variance of
 * every coordinate in binary64 by two passes (a one-pass formula loses everything on data far from the origin), coordinates
 * ordered by decreasing variance (RT-HiSS, section IV-A).
 */
#include "cuda_points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_staging.h"
#include "kernels/k_points.h"
#include "kernels/k_rows.h"
#include "matrix/matrix_convert.h"
#include "engine/engine_dims.h"

#define READ_BYTES ((uint64_t)64 << 20) /* of rows that go back; at least the longest row */
#define CHUNK_BYTES ((uint64_t)256 << 20) /* of rows as they come; the longest row takes a 32nd part of it */

static bool is_wide(nf_dtype dtype)
{
    switch (dtype) {
    case NF_DTYPE_U8:
    case NF_DTYPE_I8:
    case NF_DTYPE_U16:
    case NF_DTYPE_I16:
    case NF_DTYPE_F16:
    case NF_DTYPE_F32: return false;
    default: return true;
    }
}

static nf_status open_device(nf_context *ctx, nf_points *points)
{
    NF_TRY(nf_device_open(ctx, &points->device));
    NF_CUDA(ctx, cudaStreamCreateWithFlags(&points->stream, cudaStreamNonBlocking));
    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, points->dims, sizeof(uint32_t),
                           (void **)&points->device_dim_place));
    points->dim_order = nf_alloc_in(ctx, points->memory, points->dims, sizeof(uint32_t));
    points->dim_place = nf_alloc_in(ctx, points->memory, points->dims, sizeof(uint32_t));
    return points->dim_order != NULL && points->dim_place != NULL ? NF_OK : nf_alloc_status(ctx);
}

nf_status nf_cuda_points_open(nf_context *ctx, const nf_matrix *matrix, nf_memory *memory, nf_points **out)
{
    const nf_dtype dtype = (nf_dtype)matrix->dtype;

    *out = NULL;
    nf_points *points = nf_alloc_zero_in(ctx, memory, 1, sizeof *points);
    if (points == NULL) return nf_alloc_status(ctx);
    points->memory = memory;
    points->matrix = *matrix;
    points->rows = matrix->rows;
    points->dims = matrix->dims;
    points->stride = (matrix->dims + 3) / 4 * 4;
    points->wide = is_wide(dtype);
    points->integers = dtype <= NF_DTYPE_I64;
    points->bytes = dtype == NF_DTYPE_U8 || dtype == NF_DTYPE_I8;
    points->signed_bytes = dtype == NF_DTYPE_I8;

    const nf_status status = open_device(ctx, points);
    if (status < 0) {
        nf_cuda_points_close(points);
        return status;
    }
    *out = points;
    return NF_OK;
}

void nf_cuda_points_close(nf_points *points)
{
    if (points == NULL) return;
    void *const blocks[] = {
        points->device_dim_place, points->raw,         points->values, points->ids,      points->positions,
        points->group_start,      points->boxes,       points->centroid, points->spread,
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) nf_device_free(points->device, points->stream, blocks[i]);
    if (points->stream != NULL) (void)cudaStreamDestroy(points->stream);
    nf_device_release(points->device);
    nf_free(points->dim_order);
    nf_free(points->dim_place);
    nf_free(points->host_ids);
    nf_free(points->host_group_start);
    nf_free(points);
}

void nf_cuda_points_describe(const nf_points *points, nf_points_info *info)
{
    const uint64_t value = points->wide ? sizeof(double) : sizeof(float), groups = points->group_count;
    uint64_t       bytes = points->dims * sizeof(uint32_t);
    if (points->raw != NULL) bytes += points->rows * points->stride * value;
    if (points->values != NULL) bytes += points->rows * (points->stride * value + 2 * sizeof(uint32_t));
    if (points->boxes != NULL) bytes += groups * (2ull * points->dims + points->stride + 2) * sizeof(float);
    *info = (nf_points_info){
        .rows = points->rows,
        .dims = points->dims,
        .groups = points->group_count,
        .bytes = nf_memory_used(points->memory) + bytes,
    };
}

/* ---- rows to the device ---- */

static nf_status check_values(nf_context *ctx, const nf_points *points, uint64_t first_invalid)
{
    if (first_invalid == UINT64_MAX) return NF_OK;
    const unsigned long long row = first_invalid / points->dims;
    const uint32_t           column = (uint32_t)(first_invalid % points->dims);
    if (points->matrix.dtype == NF_DTYPE_U64 || points->matrix.dtype == NF_DTYPE_I64) {
        return nf_fail(ctx, NF_ERR_VALUE, "row %llu, column %u (counted from 0) holds an integer beyond 2^53", row, column);
    }
    return nf_fail(ctx, NF_ERR_VALUE, "row %llu, column %u (counted from 0) is NaN or infinite", row, column);
}

/* Uploads and converts chunk by chunk. One chunk's conversion is done before the next one overwrites it: it takes a small
 * part of the time that the copy over the bus takes. */
static nf_status convert_rows(nf_context *ctx, nf_points *points, void *chunk, uint64_t rows_per_chunk,
                              uint64_t *first_invalid)
{
    const nf_matrix *matrix = &points->matrix;
    const uint64_t   row_bytes = points->dims * nf_dtype_bytes((nf_dtype)matrix->dtype);
    const uint64_t   stride_bytes = nf_matrix_stride(matrix);

    for (uint64_t row = 0; row < points->rows; row += rows_per_chunk) {
        const uint64_t left = points->rows - row, rows = left < rows_per_chunk ? left : rows_per_chunk;
        NF_TRY(nf_progress_poll(ctx));
        NF_CUDA(ctx, cudaStreamSynchronize(points->stream));
        NF_TRY(nf_upload_rows(ctx, points->device, points->stream, chunk, (const char *)matrix->data + row * stride_bytes,
                              rows, row_bytes, stride_bytes));
        NF_CUDA(ctx, nf_k_convert(chunk, matrix->dtype, row, (uint32_t)rows, points->dims, points->stride, points->wide,
                                  points->raw, first_invalid, points->stream));
        nf_progress_add(ctx, rows);
    }
    return NF_OK;
}

static nf_status take_rows(nf_context *ctx, nf_points *points, uint64_t *first_invalid)
{
    const uint64_t row_bytes = points->dims * nf_dtype_bytes((nf_dtype)points->matrix.dtype);
    const uint64_t most = CHUNK_BYTES / row_bytes, rows_per_chunk = points->rows < most ? points->rows : most;
    void          *chunk = NULL;

    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, points->rows * points->stride,
                           points->wide ? sizeof(double) : sizeof(float), &points->raw));
    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, rows_per_chunk, row_bytes, &chunk));
    const nf_status status = convert_rows(ctx, points, chunk, rows_per_chunk, first_invalid);
    nf_device_free(points->device, points->stream, chunk);
    return status;
}

/* ---- sums ---- */

/* What the device finds out about the values, and where it works. Facts: where the first invalid value is, and the bits of
 * two doubles, the largest value and the largest sum of squares. */
typedef struct dims_work {
    uint64_t *facts;    /* on the device, as all up to variance */
    double   *scratch;  /* of the column sums */
    double   *mean;     /* by column */
    double   *variance; /* the same */
    double   *host_variance;
    uint64_t  host_facts[3];
} dims_work;

static nf_status allocate_work(nf_context *ctx, const nf_points *points, dims_work *work)
{
    const uint64_t scratch = points->rows > 0 ? nf_k_column_scratch((uint32_t)points->rows, points->dims) : 0;
    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, 3, sizeof(uint64_t), (void **)&work->facts));
    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, scratch, sizeof(double), (void **)&work->scratch));
    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, points->dims, sizeof(double), (void **)&work->mean));
    NF_TRY(nf_device_alloc(ctx, points->device, points->stream, points->dims, sizeof(double), (void **)&work->variance));
    work->host_variance = nf_alloc_zero(ctx, points->dims, sizeof(double));
    return work->host_variance != NULL ? NF_OK : nf_alloc_status(ctx);
}

static void free_work(const nf_points *points, dims_work *work)
{
    nf_device_free(points->device, points->stream, work->facts);
    nf_device_free(points->device, points->stream, work->scratch);
    nf_device_free(points->device, points->stream, work->mean);
    nf_device_free(points->device, points->stream, work->variance);
    nf_free(work->host_variance);
}

static nf_status find_sums(nf_context *ctx, nf_points *points, dims_work *work, bool with_variance)
{
    const nf_k_raw raw = {points->raw, (uint32_t)points->rows, points->dims, points->stride, points->wide};

    NF_CUDA(ctx, nf_k_row_bounds(raw, (double *)(void *)(work->facts + 1), points->stream));
    if (with_variance) {
        NF_CUDA(ctx, nf_k_column_means(raw, NULL, work->scratch, work->mean, points->stream));
        NF_CUDA(ctx, nf_k_column_means(raw, work->mean, work->scratch, work->variance, points->stream));
        NF_CUDA(ctx, cudaMemcpyAsync(work->host_variance, work->variance, points->dims * sizeof(double),
                                     cudaMemcpyDeviceToHost, points->stream));
    }
    NF_CUDA(ctx, cudaMemcpyAsync(work->host_facts, work->facts, sizeof work->host_facts, cudaMemcpyDeviceToHost,
                                 points->stream));
    NF_CUDA(ctx, cudaStreamSynchronize(points->stream));
    NF_TRY(check_values(ctx, points, work->host_facts[0]));
    memcpy(&points->largest, &work->host_facts[1], sizeof points->largest);
    memcpy(&points->largest_square, &work->host_facts[2], sizeof points->largest_square);
    nf_progress_add(ctx, points->rows);
    return nf_progress_poll(ctx);
}

/* ---- order of the dims ---- */

static nf_status select_with(nf_context *ctx, nf_points *points, const nf_points *like, dims_work *work)
{
    NF_TRY(allocate_work(ctx, points, work));
    NF_CUDA(ctx, cudaMemsetAsync(work->facts, 0xff, sizeof(uint64_t), points->stream));
    NF_CUDA(ctx, cudaMemsetAsync(work->facts + 1, 0, 2 * sizeof(uint64_t), points->stream));
    NF_TRY(take_rows(ctx, points, work->facts));
    if (points->rows > 0) NF_TRY(find_sums(ctx, points, work, like == NULL));
    if (like == NULL) return nf_dims_by_variance(ctx, work->host_variance, points->dims, points->dim_order, points->dim_place);
    memcpy(points->dim_order, like->dim_order, points->dims * sizeof(uint32_t));
    memcpy(points->dim_place, like->dim_place, points->dims * sizeof(uint32_t));
    return NF_OK;
}

nf_status nf_cuda_select_dims(nf_context *ctx, nf_points *points, const nf_points *like)
{
    dims_work work = {0};
    NF_TRY(nf_device_enter(ctx, points->device));
    const nf_status status = select_with(ctx, points, like, &work);
    if (status < 0) (void)cudaStreamSynchronize(points->stream); /* copies to the host may be under way */
    free_work(points, &work);
    NF_TRY(status);
    NF_CUDA(ctx, cudaMemcpyAsync(points->device_dim_place, points->dim_place, points->dims * sizeof(uint32_t),
                                 cudaMemcpyHostToDevice, points->stream));
    NF_CUDA(ctx, cudaStreamSynchronize(points->stream));
    return NF_OK;
}

/* ---- rows back to the host ---- */

static nf_status read_chunk(nf_context *ctx, const nf_points *points, cudaStream_t stream, const uint32_t *rows,
                            uint64_t count, uint32_t *device_rows, double *device_values, double *values)
{
    const nf_k_rows from = {points->values, points->device_dim_place, points->dims, points->stride, points->wide};
    NF_TRY(nf_progress_poll(ctx));
    NF_TRY(nf_upload_rows(ctx, points->device, stream, device_rows, rows, 1, count * sizeof *rows, count * sizeof *rows));
    NF_CUDA(ctx, nf_k_rows_by_id(&from, points->positions, device_rows, count, device_values, stream));
    return nf_download(ctx, points->device, stream, values, device_values, count * points->dims * sizeof *values);
}

static nf_status read_chunks(nf_context *ctx, const nf_points *points, cudaStream_t stream, const uint32_t *rows,
                             uint64_t count, double *values)
{
    const uint64_t fit = READ_BYTES / (points->dims * sizeof *values), most = fit < count ? fit : count;
    void          *device_rows = NULL, *device_values = NULL;
    nf_status      status = nf_device_alloc(ctx, points->device, stream, most, sizeof *rows, &device_rows);

    if (status >= 0) {
        status = nf_device_alloc(ctx, points->device, stream, most * points->dims, sizeof *values, &device_values);
    }
    for (uint64_t done = 0; status >= 0 && done < count; done += most) {
        const uint64_t now = count - done < most ? count - done : most;
        status = read_chunk(ctx, points, stream, rows + done, now, device_rows, device_values, values + done * points->dims);
    }
    (void)cudaStreamSynchronize(stream);
    nf_device_free(points->device, stream, device_values);
    nf_device_free(points->device, stream, device_rows);
    return status;
}

/* On a stream of its own: other contexts may use the points at the same time. */
nf_status nf_cuda_points_read(nf_context *ctx, const nf_points *points, const uint32_t *rows, uint64_t count,
                              double *values)
{
    cudaStream_t stream = NULL;
    if (count == 0) return NF_OK;
    NF_TRY(nf_device_enter(ctx, points->device));
    NF_CUDA(ctx, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const nf_status status = read_chunks(ctx, points, stream, rows, count, values);
    (void)cudaStreamSynchronize(stream);
    (void)cudaStreamDestroy(stream);
    return status;
}
