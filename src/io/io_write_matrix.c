/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a matrix. The values are seen as one long row-major sequence, which is cut into tasks that fit a buffer;
 * tasks are encoded in parallel and appended in order (io_ordered.c), so narrow and very wide rows cost the same.
 *
 * No value is changed. Where a format has its own type, each value is converted and compared with the original; the
 * first that differs ends the work. Text has the shortest decimal that reads back as binary64 to the same value, also
 * for f32 and f16 (0.1f is 0.10000000149011612), since that is how text is read.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/core_context.h"
#include "core/core_error.h"
#include "core/core_memory.h"
#include "core/core_pool.h"
#include "io_file.h"
#include "io_npy_header.h"
#include "io_ordered.h"
#include "io_text.h"
#include "io_write_format.h"
#include "matrix/matrix_convert.h"

#define BLOCK 256
#define DIMS_MAX ((uint32_t)1 << 20)
#define MATRIX_FORMATS                                                                                           \
    (NF_WRITE_NPY | NF_WRITE_TEXT | NF_WRITE_FVECS | NF_WRITE_BVECS | NF_WRITE_IVECS | NF_WRITE_FBIN |          \
     NF_WRITE_U8BIN | NF_WRITE_I8BIN | NF_WRITE_F16BIN | NF_WRITE_IBIN | NF_WRITE_RAW)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "values of .fvecs and .fbin are little-endian, and written as they are");

typedef struct matrix_job {
    const char      *path;
    const nf_matrix *matrix;
    nf_write_format  format;
    bool             vector;     /* one column, of which .npy makes an array of one dimension */
    nf_dtype         to;         /* type in the file; the matrix's own for .npy, .raw and text */
    bool             row_prefix; /* each row begins with its length */
    bool             text;
    char             separator;
    uint64_t         task_values;
    uint64_t         values;
} matrix_job;

static nf_dtype format_type(nf_write_format format, nf_dtype own)
{
    switch (format) {
    case NF_WRITE_FVECS:
    case NF_WRITE_FBIN: return NF_DTYPE_F32;
    case NF_WRITE_BVECS:
    case NF_WRITE_U8BIN: return NF_DTYPE_U8;
    case NF_WRITE_IVECS:
    case NF_WRITE_IBIN: return NF_DTYPE_I32;
    case NF_WRITE_I8BIN: return NF_DTYPE_I8;
    case NF_WRITE_F16BIN: return NF_DTYPE_F16;
    default: return own;
    }
}

static nf_status check_matrix(nf_context *ctx, const nf_matrix *matrix)
{
    const size_t bytes = nf_dtype_bytes((nf_dtype)matrix->dtype);

    if (bytes == 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "matrix has the unknown type %u", matrix->dtype);
    if (matrix->dims == 0 || matrix->dims > DIMS_MAX) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "matrix has %u dims, allowed are 1 to %u", matrix->dims, DIMS_MAX);
    }
    if (matrix->rows > INT32_MAX) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "matrix has %" PRIu64 " rows, at most %d are allowed", matrix->rows,
                       INT32_MAX);
    }
    if (matrix->place != NF_PLACE_HOST) return nf_fail(ctx, NF_ERR_ARGUMENT, "matrix is not in host memory");
    if (matrix->data == NULL && matrix->rows > 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "matrix has rows but no data");
    if (matrix->stride_bytes != 0 && matrix->stride_bytes < matrix->dims * bytes) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "matrix has a stride of %" PRIu64 " bytes, its rows take %" PRIu64,
                       matrix->stride_bytes, (uint64_t)(matrix->dims * bytes));
    }
    return NF_OK;
}

/* count values of a row from column on, as a matrix of one row. */
static nf_matrix part_of(const nf_matrix *matrix, uint64_t row, uint32_t column, uint32_t count)
{
    nf_matrix part = *matrix;
    part.data = (const char *)nf_matrix_row(matrix, row) + column * nf_dtype_bytes((nf_dtype)matrix->dtype);
    part.rows = 1;
    part.dims = count;
    part.stride_bytes = 0;
    return part;
}

static bool is_wide_integer(const nf_matrix *matrix)
{
    return matrix->dtype == NF_DTYPE_I64 || matrix->dtype == NF_DTYPE_U64;
}

/* One value as text; integers of 64 bits exactly. */
static char *put_value(char *out, const nf_matrix *part, const double *values, uint32_t index)
{
    uint64_t whole;

    if (!is_wide_integer(part)) return nf_text_f64(out, values[index]);
    memcpy(&whole, (const char *)part->data + index * sizeof whole, sizeof whole);
    return part->dtype == NF_DTYPE_I64 ? nf_text_i64(out, (int64_t)whole) : nf_text_u64(out, whole);
}

/* Whether binary64 holds a 64-bit integer: not 53 significant bits apart from trailing zeros, or fewer. */
static bool fits_f64(const nf_matrix *part, uint32_t index)
{
    uint64_t whole;
    memcpy(&whole, (const char *)part->data + index * sizeof whole, sizeof whole);
    if (part->dtype == NF_DTYPE_I64 && (int64_t)whole < 0) whole = 0 - whole;
    return whole == 0 || (whole >> __builtin_ctzll(whole)) >> 53 == 0;
}

static bool store_f32(char *out, double value)
{
    const float narrow = (float)value;
    memcpy(out, &narrow, sizeof narrow);
    return (double)narrow == value || isnan(value);
}

static bool store_f16(char *out, double value)
{
    const uint16_t half = nf_f32_to_f16((float)value);
    memcpy(out, &half, sizeof half);
    return (double)nf_f16_to_f32(half) == value || isnan(value);
}

/* minimum to maximum, whole numbers only; two's complement in so many bytes. */
static bool store_integer(char *out, double value, double minimum, double maximum, size_t bytes)
{
    if (!(value >= minimum && value <= maximum)) return false;
    const int64_t whole = (int64_t)value;
    memcpy(out, &whole, bytes); /* the low bytes come first */
    return (double)whole == value;
}

/* Stores a value in the file's type; false when it would change. */
static bool store(char *out, nf_dtype to, double value)
{
    switch (to) {
    case NF_DTYPE_F32: return store_f32(out, value);
    case NF_DTYPE_F16: return store_f16(out, value);
    case NF_DTYPE_U8: return store_integer(out, value, 0, UINT8_MAX, 1);
    case NF_DTYPE_I8: return store_integer(out, value, INT8_MIN, INT8_MAX, 1);
    case NF_DTYPE_I32: return store_integer(out, value, INT32_MIN, INT32_MAX, 4);
    default: return false;
    }
}

static nf_status refuse_value(const matrix_job *job, const nf_matrix *part, const double *values, uint64_t row,
                              uint32_t column, uint32_t index, nf_error *error)
{
    char text[NF_TEXT_NUMBER_MAX + 1];
    *put_value(text, part, values, index) = '\0';
    return nf_error_set(error, NF_ERR_VALUE,
                        "%s: row %" PRIu64 ", column %u (both from 0) is %s, which %s cannot hold exactly", job->path, row,
                        column + index, text, nf_dtype_name(job->to));
}

/* Converts up to BLOCK values of a row. */
static nf_status convert_block(const matrix_job *job, uint64_t row, uint32_t column, uint32_t count, char *out,
                               nf_error *error)
{
    const nf_matrix part = part_of(job->matrix, row, column, count);
    const bool      wide = is_wide_integer(&part);
    const size_t    bytes = nf_dtype_bytes(job->to);
    double          values[BLOCK];

    nf_matrix_row_f64(&part, 0, values);
    for (uint32_t i = 0; i < count; i++) {
        const bool exact = store(out + i * bytes, job->to, values[i]) && (!wide || fits_f64(&part, i));
        if (!exact) return refuse_value(job, &part, values, row, column, i, error);
    }
    return NF_OK;
}

static char *text_block(const matrix_job *job, uint64_t row, uint32_t column, uint32_t count, char *out)
{
    const nf_matrix part = part_of(job->matrix, row, column, count);
    double          values[BLOCK];

    nf_matrix_row_f64(&part, 0, values);
    for (uint32_t i = 0; i < count; i++) {
        out = put_value(out, &part, values, i);
        *out++ = column + i + 1 == job->matrix->dims ? '\n' : job->separator;
    }
    return out;
}

/* Encodes count values of one row from column on. */
static nf_status encode_part(const matrix_job *job, uint64_t row, uint32_t column, uint32_t count, char **out,
                             nf_error *error)
{
    const size_t bytes = nf_dtype_bytes(job->to);

    if (job->row_prefix && column == 0) {
        memcpy(*out, &job->matrix->dims, sizeof job->matrix->dims);
        *out += sizeof job->matrix->dims;
    }
    if (!job->text && job->to == (nf_dtype)job->matrix->dtype) {
        memcpy(*out, part_of(job->matrix, row, column, count).data, count * bytes);
        *out += count * bytes;
        return NF_OK;
    }
    for (uint32_t done = 0; done < count; done += BLOCK) {
        const uint32_t block = count - done < BLOCK ? count - done : BLOCK;
        if (job->text) {
            *out = text_block(job, row, column + done, block, *out);
        } else {
            NF_TRY(convert_block(job, row, column + done, block, *out, error));
            *out += block * bytes;
        }
    }
    return NF_OK;
}

static nf_status encode_task(const void *arg, uint64_t task, char *buffer, size_t *length, nf_error *error)
{
    const matrix_job *job = arg;
    const uint32_t    dims = job->matrix->dims;
    const uint64_t    first = task * job->task_values;
    const uint64_t    left = job->values - first;
    const uint64_t    last = first + (left < job->task_values ? left : job->task_values);
    char             *out = buffer;

    for (uint64_t at = first; at < last;) {
        const uint32_t column = (uint32_t)(at % dims);
        const uint64_t count = last - at < dims - column ? last - at : dims - column;
        NF_TRY(encode_part(job, at / dims, column, (uint32_t)count, &out, error));
        at += count;
    }
    *length = (size_t)(out - buffer);
    return NF_OK;
}

/* What comes before the first row. */
static size_t file_header(const matrix_job *job, char header[NF_NPY_HEADER_MAX])
{
    const nf_matrix *matrix = job->matrix;

    if (job->format == NF_WRITE_NPY) {
        return nf_npy_header(header, nf_npy_descr(job->to), (const uint64_t[]){matrix->rows, matrix->dims},
                             job->vector ? 1 : 2);
    }
    if ((job->format & (NF_WRITE_FBIN | NF_WRITE_U8BIN | NF_WRITE_I8BIN | NF_WRITE_F16BIN | NF_WRITE_IBIN)) != 0) {
        const uint32_t counts[2] = {(uint32_t)matrix->rows, matrix->dims};
        memcpy(header, counts, sizeof counts);
        return sizeof counts;
    }
    return 0;
}

static matrix_job plan_job(const nf_matrix *matrix, const char *path, nf_write_format format)
{
    matrix_job job = {.path = path, .matrix = matrix, .format = format};

    job.text = (format & NF_WRITE_TEXT) != 0;
    job.separator = nf_write_separator(format);
    job.to = format_type(format, (nf_dtype)matrix->dtype);
    job.row_prefix = (format & (NF_WRITE_FVECS | NF_WRITE_BVECS | NF_WRITE_IVECS)) != 0;
    job.values = matrix->rows * matrix->dims;
    const size_t longest = job.text ? NF_TEXT_NUMBER_MAX + 1 : nf_dtype_bytes(job.to) + (job.row_prefix ? 4 : 0);
    job.task_values = NF_IO_BUFFER_BYTES / longest;
    return job;
}

static nf_status write_job(const matrix_job *job, nf_output *out)
{
    nf_context    *ctx = out->ctx;
    const uint64_t tasks = (job->values + job->task_values - 1) / job->task_values;
    char           header[NF_NPY_HEADER_MAX];
    const size_t   header_bytes = file_header(job, header);
    const uint64_t row_bytes = job->matrix->dims * nf_dtype_bytes(job->to) + (job->row_prefix ? 4 : 0);

    if (!job->text) NF_TRY(nf_output_reserve(out, header_bytes + job->matrix->rows * row_bytes));
    char *buffers = nf_alloc(ctx, nf_pool_workers(ctx, tasks), NF_IO_BUFFER_BYTES);
    if (buffers == NULL) return nf_alloc_status(ctx);
    nf_progress_begin(ctx, "write", job->values);
    nf_status status = nf_output_append(out, header, header_bytes);
    if (status == NF_OK) status = nf_ordered_append(out, encode_task, job, tasks, buffers, job->values);
    nf_free(buffers);
    return status;
}

nf_status nf_write_matrix(nf_context *ctx, const nf_matrix *matrix, const char *path, const nf_write_params *params)
{
    nf_write_params use;
    nf_write_format format = NF_WRITE_NPY;
    nf_output       out;

    if (ctx == NULL) return NF_ERR_ARGUMENT;
    nf_context_begin(ctx);
    if (matrix == NULL || path == NULL) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "nf_write_matrix needs a matrix and a path");
    }
    NF_TRY(check_matrix(ctx, matrix));
    NF_TRY(nf_write_params_take(ctx, params, &use));
    NF_TRY(nf_write_format_choose(ctx, path, &use, MATRIX_FORMATS, &format));

    matrix_job job = plan_job(matrix, path, format);
    job.vector = use.counts != 0 && matrix->dims == 1;
    NF_TRY(nf_output_open(ctx, path, &out));
    nf_status status = write_job(&job, &out);
    if (status == NF_OK) status = nf_output_commit(&out, use.sync != 0);
    nf_output_discard(&out);
    return status;
}
