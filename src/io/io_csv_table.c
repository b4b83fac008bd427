/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a text file is made, from its first two rows.
 *
 * Separator: the first candidate that cuts both rows into the same number of cells, more than one; else the first that
 * cuts the first row. Header: the first row is one when a cell that is wanted is no number, or when a cell that is not
 * wanted is no number but the one below it is. (So a file without header whose label column is not asked for keeps its
 * first row.)
 */
#include <inttypes.h>
#include <string.h>

#include "core/core_context.h"
#include "io_csv.h"

/* The first two lines that are rows. second is empty where there is one row. */
typedef struct first_rows {
    nf_text     first;
    nf_text     second;
    const char *after_first;
} first_rows;

static uint64_t count_cells(nf_text line, char separator)
{
    const char *at = line.begin;
    nf_csv_cell cell;
    uint64_t    count = 0;
    while (nf_csv_cell_next(&at, line.end, separator, &cell)) count++;
    return count;
}

static bool next_row(const nf_csv_table *table, const char **at, nf_text *row)
{
    while (*at < table->text.end) {
        *row = nf_csv_line(at, table->text.end);
        if (nf_csv_line_is_row(table, *row)) return true;
    }
    return false;
}

static bool find_first_rows(const nf_csv_table *table, first_rows *rows)
{
    const char *at = table->text.begin;
    if (!next_row(table, &at, &rows->first)) return false;
    rows->after_first = at;
    if (!next_row(table, &at, &rows->second)) rows->second = (nf_text){at, at};
    return true;
}

static bool is_number(const nf_csv_cell *cell)
{
    double value;
    return !cell->open && !cell->junk && nf_csv_text_is_number(cell->text, &value);
}

/* Neither a number nor a cell without value. */
static bool is_name(const nf_csv_cell *cell)
{
    return !is_number(cell) && !nf_csv_cell_is_missing(cell);
}

/* One column under a name of several words: blanks are no separator then. */
static bool is_named_column(const first_rows *rows)
{
    const char *at = rows->first.begin;
    nf_csv_cell cell;
    double      value;
    return nf_csv_cell_next(&at, rows->first.end, ' ', &cell) && is_name(&cell) &&
           nf_csv_text_is_number(rows->second, &value);
}

static char find_separator(const first_rows *rows, const char *candidates)
{
    for (const char *c = candidates; *c; c++) {
        const uint64_t cells = count_cells(rows->first, *c);
        if (cells > 1 && count_cells(rows->second, *c) == cells) return *c;
    }
    for (const char *c = candidates; *c; c++) {
        if (*c == ' ' && is_named_column(rows)) continue;
        if (count_cells(rows->first, *c) > 1) return *c;
    }
    return candidates[0];
}

static bool first_is_header(const nf_csv_table *table, const first_rows *rows)
{
    const char *upper = rows->first.begin;
    const char *lower = rows->second.begin < rows->second.end ? rows->second.begin : NULL;
    nf_csv_cell name, value;
    for (uint32_t column = 0; nf_csv_cell_next(&upper, rows->first.end, table->separator, &name); column++) {
        const bool below = nf_csv_cell_next(&lower, rows->second.end, table->separator, &value);
        if (!is_name(&name)) continue;
        if (table->wanted == NULL || table->wanted[column] || (below && is_number(&value))) return true;
    }
    return false;
}

/* A header holds anything but these: lines that end with CR alone would all be taken for one header, and a file that is
 * no text for one without rows. */
static nf_status check_header(nf_context *ctx, const nf_csv_table *table)
{
    const size_t bytes = (size_t)(table->header.end - table->header.begin);
    if (memchr(table->header.begin, '\r', bytes) != NULL) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: the first line holds a carriage return; lines end with LF or CR LF",
                       table->path);
    }
    if (memchr(table->header.begin, '\0', bytes) == NULL) return NF_OK;
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: the first line holds a NUL byte; this is no text", table->path);
}

static void skip_byte_order_mark(nf_text *text)
{
    if (text->end - text->begin >= 3 && memcmp(text->begin, "\xEF\xBB\xBF", 3) == 0) text->begin += 3;
}

static nf_status find_shape(nf_context *ctx, const char *format, const nf_read_params *params, nf_csv_table *table)
{
    first_rows rows;
    if (!find_first_rows(table, &rows)) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: file has no line with values", table->path);
    }
    table->separator = find_separator(&rows, strcmp(format, "tsv") == 0 ? "\t,; " : ",;\t ");
    const uint64_t columns = count_cells(rows.first, table->separator);
    NF_TRY(nf_dims_check(ctx, table->path, columns));
    table->columns = (uint32_t)columns;
    table->dims = table->columns;
    const bool named = params->columns && nf_csv_columns_named(params->columns);
    if (named) table->header = rows.first;
    if (params->columns) NF_TRY(nf_csv_columns_pick(ctx, params->columns, table));
    const bool header = named || first_is_header(table, &rows);
    if (header) table->header = rows.first;
    if (header) NF_TRY(check_header(ctx, table));
    table->body = header ? rows.after_first : rows.first.begin;
    return NF_OK;
}

nf_status nf_csv_table_find(nf_context *ctx, const nf_mapping *file, const char *format, const nf_read_params *params,
                            nf_csv_table *table)
{
    *table = (nf_csv_table){
        .path = file->path,
        .comment = strcmp(format, "txt") == 0 ? '#' : '\0',
        .skip_invalid = params->skip_invalid != 0,
    };
    if (file->bytes == 0) return nf_fail(ctx, NF_ERR_FORMAT, "%s: file is empty", file->path);
    table->text.begin = (const char *)file->data;
    table->text.end = table->text.begin + file->bytes;
    skip_byte_order_mark(&table->text);
    return find_shape(ctx, format, params, table);
}

void nf_csv_table_free(nf_csv_table *table)
{
    nf_free(table->picked);
    nf_free(table->wanted);
    table->picked = NULL;
    table->wanted = NULL;
}
