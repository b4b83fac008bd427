/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading text files on all threads, in memory for the result alone.
 *
 * Each worker parses the lines of its chunk one by one into binary64 and stores a row at once in the type of the
 * matrix. That type is not known before the last value was read. So it is guessed from the first rows, and every chunk
 * notes which types its values do not fit; when the guess was too narrow, the file is parsed a second time with the
 * right one. A guess can only be too narrow, and after a full pass the type is certain, so there are two passes at
 * most, and nearly always one.
 */
#include "io_csv.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/core_context.h"
#include "core/core_pool.h"
#include "io_dataset.h"

#define SAMPLE_ROWS 256

typedef struct csv_job {
    nf_context          *ctx;
    const nf_csv_table  *table;
    nf_csv_chunk        *chunks;
    uint64_t             chunk_count;
    uint64_t             first; /* rows first .. first + count - 1 are read */
    uint64_t             count;
    double              *scratch; /* for each worker one line, and one row of wanted columns */
    nf_dtype             dtype;   /* of values */
    uint8_t             *values;  /* NULL: the type is found, nothing is stored */
    uint8_t             *keep;    /* with skip_invalid, when values are stored: whether a row is valid; else NULL */
    atomic_uint_fast64_t bad;     /* the lowest chunk with a line that cannot be read */
} csv_job;

static uint64_t file_rows(const csv_job *job)
{
    const nf_csv_chunk *last = &job->chunks[job->chunk_count - 1];
    return last->first_row + last->rows;
}

static uint64_t row_bytes(const csv_job *job)
{
    return (uint64_t)job->table->dims * nf_dtype_bytes(job->dtype);
}

static bool all_finite(const double *values, uint32_t count)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < count; i++) others += !isfinite(values[i]);
    return others == 0;
}

/* The wanted values in the order asked for. */
static const double *pick_values(const nf_csv_table *table, double *line)
{
    if (table->picked == NULL) return line;
    double *row = line + table->columns;
    for (uint32_t i = 0; i < table->dims; i++) row[i] = line[table->picked[i]];
    return row;
}

/* Whether values with these misfits fit the type: nf_csv_type_of goes from narrow to wide. */
static bool fits(uint32_t misfit, nf_dtype dtype)
{
    switch (dtype) {
    case NF_DTYPE_U8: return !(misfit & NF_MISFIT_U8);
    case NF_DTYPE_I8: return !(misfit & NF_MISFIT_I8);
    case NF_DTYPE_I16: return !(misfit & NF_MISFIT_I16);
    case NF_DTYPE_F32: return !(misfit & NF_MISFIT_F32);
    default: return true;
    }
}

/* Reads one row, number index of those asked for. */
static bool read_row(const csv_job *job, nf_text line, uint64_t index, double *scratch, uint32_t *misfit)
{
    bool missing;
    if (!nf_csv_row_read(job->table, line, scratch, &missing)) return false;
    const double *values = pick_values(job->table, scratch);
    if (job->table->skip_invalid) {
        const bool valid = !missing && all_finite(values, job->table->dims);
        if (job->keep) job->keep[index] = valid;
        if (!valid) return true;
    }
    const uint32_t row_misfit = nf_csv_row_misfit(values, job->table->dims);
    *misfit |= row_misfit;
    if (job->values && fits(row_misfit, job->dtype)) {
        nf_csv_row_store(values, job->table->dims, job->dtype, job->values + index * row_bytes(job));
    }
    return true;
}

/* Reads the rows of a chunk below the row number end. */
static void read_rows(const csv_job *job, nf_csv_chunk *chunk, uint64_t end, double *scratch)
{
    const char *at = chunk->text.begin;
    uint64_t    row = chunk->first_row;
    uint32_t    misfit = 0;
    chunk->bad_line = NULL;
    if (row + chunk->rows <= job->first) return;
    while (at < chunk->text.end && row < end) {
        const nf_text line = nf_csv_line(&at, chunk->text.end);
        if (!nf_csv_line_is_row(job->table, line)) continue;
        if (row >= job->first && !read_row(job, line, row - job->first, scratch, &misfit)) {
            chunk->bad_line = line.begin;
            break;
        }
        row++;
    }
    chunk->misfit = misfit;
}

static double *worker_scratch(const csv_job *job, uint32_t worker)
{
    return job->scratch + (uint64_t)worker * ((uint64_t)job->table->columns + job->table->dims);
}

static void lower_bad(csv_job *job, uint64_t chunk)
{
    uint_fast64_t bad = atomic_load(&job->bad);
    while (chunk < bad && !atomic_compare_exchange_weak(&job->bad, &bad, chunk)) {
    }
}

/* Chunks behind one with a bad line are not read: the first bad line of the file is the one that is reported. */
static nf_status read_chunk(void *arg, uint64_t task, uint32_t worker)
{
    csv_job      *job = arg;
    nf_csv_chunk *chunk = &job->chunks[task];
    if (task > atomic_load(&job->bad)) return NF_OK;
    read_rows(job, chunk, job->first + job->count, worker_scratch(job, worker));
    if (chunk->bad_line) lower_bad(job, task);
    nf_progress_add(job->ctx, (uint64_t)(chunk->text.end - chunk->text.begin));
    return NF_OK;
}

/* Parses all rows once; *misfit: of all values. */
static nf_status run_pass(csv_job *job, uint32_t *misfit)
{
    atomic_store(&job->bad, UINT64_MAX);
    nf_progress_begin(job->ctx, "read", (uint64_t)(job->table->text.end - job->table->body));
    NF_TRY(nf_pool_run(job->ctx, read_chunk, job, job->chunk_count));
    const uint64_t bad = atomic_load(&job->bad);
    if (bad != UINT64_MAX) {
        const char *at = job->chunks[bad].bad_line;
        return nf_csv_line_explain(job->ctx, job->table, nf_csv_line(&at, job->table->text.end));
    }
    *misfit = 0;
    for (uint64_t i = 0; i < job->chunk_count; i++) *misfit |= job->chunks[i].misfit;
    return NF_OK;
}

/* A type for the first pass, from the first rows asked for. A line that cannot be read is left to the pass. */
static nf_dtype guess_type(csv_job *job)
{
    uint64_t i = 0;
    while (i + 1 < job->chunk_count && job->chunks[i].first_row + job->chunks[i].rows <= job->first) i++;
    const uint64_t rows = job->count < SAMPLE_ROWS ? job->count : SAMPLE_ROWS;
    read_rows(job, &job->chunks[i], job->first + rows, job->scratch);
    return nf_csv_type_of(job->chunks[i].misfit);
}

/* Every value takes a byte and, but for the last of the file, a separator or line end. Where the rows times the columns
 * of the first are more than that, some row is shorter: it is found before memory is asked for. */
static nf_status check_room(csv_job *job)
{
    const uint64_t bytes = (uint64_t)(job->table->text.end - job->table->body);
    uint64_t       cells;
    uint32_t       misfit;
    if (nf_multiply(job->count, job->table->columns, &cells) && cells <= bytes + 1) return NF_OK;
    NF_TRY(run_pass(job, &misfit));
    return nf_fail(job->ctx, NF_ERR_INTERNAL, "%s: more cells than bytes", job->table->path);
}

static nf_status allocate_values(csv_job *job, nf_dtype dtype)
{
    nf_free(job->values);
    job->dtype = dtype;
    job->values = nf_alloc(job->ctx, job->count, (size_t)row_bytes(job));
    return job->values ? NF_OK : nf_alloc_status(job->ctx);
}

static nf_status read_values(csv_job *job)
{
    uint32_t misfit;
    NF_TRY(check_room(job));
    if (job->table->skip_invalid) {
        job->keep = nf_alloc(job->ctx, job->count, 1);
        if (job->keep == NULL) return nf_alloc_status(job->ctx);
    }
    NF_TRY(allocate_values(job, guess_type(job)));
    NF_TRY(run_pass(job, &misfit));
    if (fits(misfit, job->dtype)) return NF_OK;
    NF_TRY(allocate_values(job, nf_csv_type_of(misfit)));
    return run_pass(job, &misfit);
}

static nf_status job_open(nf_context *ctx, const nf_csv_table *table, csv_job *job)
{
    *job = (csv_job){.ctx = ctx, .table = table};
    NF_TRY(nf_csv_chunks_make(ctx, table, &job->chunks, &job->chunk_count));
    const uint64_t line = (uint64_t)table->columns + table->dims;
    job->scratch = nf_alloc(ctx, nf_pool_workers(ctx, job->chunk_count) * line, sizeof *job->scratch);
    return job->scratch ? NF_OK : nf_alloc_status(ctx);
}

static void job_close(csv_job *job)
{
    nf_free(job->chunks);
    nf_free(job->scratch);
    nf_free(job->values);
    nf_free(job->keep);
}

/* Moves the kept rows together, at the front. */
static uint64_t compact(csv_job *job)
{
    const uint64_t bytes = row_bytes(job);
    uint64_t       used = 0;
    for (uint64_t i = 0; i < job->count; i++) {
        if (!job->keep[i]) continue;
        if (used != i) memcpy(job->values + used * bytes, job->values + i * bytes, (size_t)bytes);
        used++;
    }
    return used;
}

/* Gives the values to the dataset. */
static nf_status deliver(csv_job *job, nf_dataset *dataset)
{
    uint64_t rows = job->count;
    dataset->first = job->first;
    dataset->file_rows = file_rows(job);
    if (job->keep) {
        NF_TRY(nf_dataset_set_kept(job->ctx, dataset, job->keep, job->count));
        rows = compact(job);
    }
    dataset->matrix =
        (nf_matrix){.data = job->values, .rows = rows, .dims = job->table->dims, .dtype = (uint32_t)job->dtype};
    dataset->values = job->values;
    job->values = NULL;
    return NF_OK;
}

static nf_status read_table(nf_context *ctx, const nf_csv_table *table, const nf_read_params *params,
                            nf_dataset *dataset)
{
    csv_job   job;
    nf_status status = job_open(ctx, table, &job);
    if (status < 0) goto cleanup;
    status = nf_rows_resolve(ctx, table->path, params, file_rows(&job), &job.first, &job.count);
    if (status < 0) goto cleanup;
    status = read_values(&job);
    if (status < 0) goto cleanup;
    status = deliver(&job, dataset);
cleanup:
    job_close(&job);
    return status;
}

nf_status nf_csv_read(nf_context *ctx, nf_mapping *file, const char *format, const nf_read_params *params,
                      nf_dataset *dataset)
{
    nf_csv_table table;
    nf_mapping_advise(file, 0, file->bytes, true);
    nf_status status = nf_csv_table_find(ctx, file, format, params, &table);
    if (status >= 0) status = read_table(ctx, &table, params, dataset);
    nf_csv_table_free(&table);
    return status;
}

static const char *separator_name(const nf_csv_table *table)
{
    if (table->columns == 1) return "one column";
    switch (table->separator) {
    case ',': return "comma";
    case ';': return "semicolon";
    case '\t': return "tab";
    default: return "blanks";
    }
}

/* The whole file is parsed, since only that tells the type. */
static nf_status describe_table(nf_context *ctx, const nf_csv_table *table, nf_file_info *info)
{
    csv_job   job;
    uint32_t  misfit;
    nf_status status = job_open(ctx, table, &job);
    if (status < 0) goto cleanup;
    job.count = file_rows(&job);
    status = run_pass(&job, &misfit);
    if (status < 0) goto cleanup;
    info->rows = job.count;
    info->dims = table->dims;
    info->dtype = (uint32_t)nf_csv_type_of(misfit);
    info->header_lines = table->header.begin < table->header.end;
    snprintf(info->detail, sizeof info->detail, "%s", separator_name(table));
cleanup:
    job_close(&job);
    return status;
}

nf_status nf_csv_info(nf_context *ctx, const nf_mapping *file, const char *format, const nf_read_params *params,
                      nf_file_info *info)
{
    nf_csv_table table;
    nf_mapping_advise(file, 0, file->bytes, true);
    nf_status status = nf_csv_table_find(ctx, file, format, params, &table);
    if (status >= 0) status = describe_table(ctx, &table, info);
    nf_csv_table_free(&table);
    return status;
}
