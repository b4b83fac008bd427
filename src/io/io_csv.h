/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text files, step by step:
 *
 *   io_csv_table.c    looks at the first two lines: separator, number of columns, header or not
 *   io_csv_columns.c  which columns are wanted
 *   io_csv_chunk.c    cuts the file at line ends and counts the rows of every chunk
 *   io_csv_row.c      one line into binary64 values; io_csv_number.c one number
 *   io_csv_type.c     the narrowest type that holds the values, and rows stored in it
 *   io_csv.c          runs these over all threads
 *   io_csv_error.c    says what is wrong with a line that could not be read
 *
 * A line is blank, a comment ('#' in .txt) or a row. Line ends are LF or CR LF; the last may be missing.
 */
#ifndef NF_IO_CSV_H
#define NF_IO_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io_read.h"

/* Text from begin to end - 1. */
typedef struct nf_text {
    const char *begin;
    const char *end;
} nf_text;

/* How the lines of a file are made, and which columns are wanted. */
typedef struct nf_csv_table {
    const char *path;
    nf_text     text;         /* the whole file without a byte order mark */
    char        separator;    /* ',', ';', '\t', or ' ' for any run of blanks */
    char        comment;      /* '#', or 0 */
    uint32_t    columns;      /* in every line */
    nf_text     header;       /* the line with the names; empty when there is none */
    const char *body;         /* where the rows begin */
    uint32_t   *picked;       /* wanted columns in the order asked for; NULL: all */
    uint8_t    *wanted;       /* columns flags; NULL: all */
    uint32_t    dims;         /* wanted columns */
    bool        skip_invalid; /* empty cells and '?' are allowed and make a row invalid */
} nf_csv_table;

/* A cell: its text without blanks and quotes. */
typedef struct nf_csv_cell {
    nf_text text;
    bool    quoted;
    bool    open; /* the closing quote is missing */
    bool    junk; /* text follows the closing quote */
} nf_csv_cell;

/* A part of the file that begins and ends at line ends. */
typedef struct nf_csv_chunk {
    nf_text     text;
    uint64_t    rows;
    uint64_t    first_row; /* rows in the chunks before */
    const char *bad_line;  /* the first line that could not be read, or NULL */
    uint32_t    misfit;    /* NF_MISFIT_ bits of the values */
} nf_csv_chunk;

/* The types that text is stored in, from narrow to wide, and for each a bit that says "some value does not fit". */
enum { NF_MISFIT_U8 = 1, NF_MISFIT_I8 = 2, NF_MISFIT_I16 = 4, NF_MISFIT_F32 = 8 };

/* --- io_csv_number.c --- */

/* Reads a number at *at (sign, digits, '.', exponent, or nan, inf, infinity), correctly rounded, independent of the
 * locale, and moves *at behind it. False when there is none; *at is then anywhere. */
bool nf_number_read(const char **at, const char *end, double *value);

/* --- io_csv_row.c --- */

/* The next line of text: without its end, without blanks around it. Moves *at behind the line end. */
nf_text nf_csv_line(const char **at, const char *end);

/* Whether a line holds a row: it is not blank and no comment. */
bool nf_csv_line_is_row(const nf_csv_table *table, nf_text line);

/* Splits the next cell off a line; false at its end. *at must start as the line's begin. */
bool nf_csv_cell_next(const char **at, const char *end, char separator, nf_csv_cell *cell);

/* Whether the whole text is a number, blanks around it allowed. */
bool nf_csv_text_is_number(nf_text text, double *value);

/* Whether a cell says "no value": empty or '?'. */
bool nf_csv_cell_is_missing(const nf_csv_cell *cell);

/* Reads a row: columns values, those not wanted undefined. *missing: some wanted cell is empty or '?' (only with
 * skip_invalid). False when the line is not as the table says. */
bool nf_csv_row_read(const nf_csv_table *table, nf_text line, double *values, bool *missing);

/* --- io_csv_table.c, io_csv_columns.c --- */

/* Finds out how the file is made. format: "csv", "tsv", "txt". NF_ERR_FORMAT: no row. On success, and on failure, the
 * table's memory is the caller's to free (nf_csv_table_free). */
nf_status nf_csv_table_find(nf_context *ctx, const nf_mapping *file, const char *format, const nf_read_params *params,
                            nf_csv_table *table);
void      nf_csv_table_free(nf_csv_table *table);

/* Whether columns (the parameter) holds a name, so that the first line must be a header. */
bool nf_csv_columns_named(const char *columns);

/* Fills picked, wanted and dims. header: the line with the names or, without any, empty. */
nf_status nf_csv_columns_pick(nf_context *ctx, const char *columns, nf_csv_table *table);

/* --- io_csv_chunk.c --- */

/* Cuts the body into chunks and counts their rows on all threads. *chunks is freed by the caller with nf_free. */
nf_status nf_csv_chunks_make(nf_context *ctx, const nf_csv_table *table, nf_csv_chunk **chunks, uint64_t *count);

/* --- io_csv_type.c --- */

/* Which of the types do not hold all the values. NaN fits f32. */
uint32_t nf_csv_row_misfit(const double *values, uint32_t count);

/* The narrowest type without its bit in misfit. */
nf_dtype nf_csv_type_of(uint32_t misfit);

/* Stores values that fit. */
void nf_csv_row_store(const double *values, uint32_t count, nf_dtype dtype, void *target);

/* --- io_csv_error.c --- */

/* Fails with what is wrong in a line that nf_csv_row_read refused. */
nf_status nf_csv_line_explain(nf_context *ctx, const nf_csv_table *table, nf_text line);

#endif
