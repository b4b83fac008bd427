/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines, cells and rows of text.
 *
 * A row is read in one pass: numbers are parsed where they stand, and where a number ends the separator must follow.
 * Only a cell that does not begin with a plain number is looked at as a cell (quotes, empty, '?'). What a refused line
 * should have been is found out later, by io_csv_error.c, so that this path carries no texts.
 */
#include <string.h>

#include "io_csv.h"

static inline bool is_blank(char c, char separator)
{
    return c == ' ' || (c == '\t' && separator != '\t');
}

static inline const char *skip_blanks(const char *at, const char *end, char separator)
{
    while (at < end && is_blank(*at, separator)) at++;
    return at;
}

static inline const char *trim_blanks(const char *begin, const char *end, char separator)
{
    while (end > begin && is_blank(end[-1], separator)) end--;
    return end;
}

nf_text nf_csv_line(const char **at, const char *end)
{
    nf_text     line = {.begin = *at};
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    line.end = stop ? stop : end;
    *at = stop ? stop + 1 : end;
    while (line.begin < line.end && *line.begin == ' ') line.begin++;
    while (line.end > line.begin && (line.end[-1] == ' ' || line.end[-1] == '\r')) line.end--;
    return line;
}

bool nf_csv_line_is_row(const nf_csv_table *table, nf_text line)
{
    const char *at = skip_blanks(line.begin, line.end, table->separator);
    return at < line.end && (table->comment == 0 || *at != table->comment);
}

static inline bool ends_cell(char c, char separator)
{
    return c == separator || (separator == ' ' && c == '\t');
}

/* The text inside quotes, a doubled quote being part of it, and what follows up to the separator. Returns the cell's
 * end. */
static const char *scan_quoted(const char *at, const char *end, char separator, nf_csv_cell *cell)
{
    const char quote = *at++;
    cell->quoted = true;
    cell->text.begin = at;
    while (at < end && (*at != quote || (at + 1 < end && at[1] == quote))) at += *at == quote ? 2 : 1;
    cell->text.end = at;
    cell->open = at >= end;
    if (cell->open) return end;
    at++;
    if (separator != ' ') at = skip_blanks(at, end, separator);
    const char *stop = at;
    while (stop < end && !ends_cell(*stop, separator)) stop++;
    cell->junk = stop > at;
    return stop;
}

static const char *scan_plain(const char *at, const char *end, char separator, nf_csv_cell *cell)
{
    cell->text.begin = at;
    while (at < end && !ends_cell(*at, separator)) at++;
    cell->text.end = trim_blanks(cell->text.begin, at, separator);
    return at;
}

/* The cell at a position; returns its end: the separator or the line's end. */
static const char *scan_cell(const char *at, const char *end, char separator, nf_csv_cell *cell)
{
    *cell = (nf_csv_cell){.quoted = false};
    at = skip_blanks(at, end, separator);
    if (at < end && (*at == '"' || *at == '\'')) return scan_quoted(at, end, separator, cell);
    return scan_plain(at, end, separator, cell);
}

bool nf_csv_cell_next(const char **at, const char *end, char separator, nf_csv_cell *cell)
{
    if (*at == NULL) return false;
    const char *stop = scan_cell(*at, end, separator, cell);
    if (separator == ' ') {
        stop = skip_blanks(stop, end, separator);
        *at = stop < end ? stop : NULL;
    } else {
        *at = stop < end ? stop + 1 : NULL;
    }
    return true;
}

bool nf_csv_text_is_number(nf_text text, double *value)
{
    const char *at = skip_blanks(text.begin, text.end, ',');
    return nf_number_read(&at, text.end, value) && skip_blanks(at, text.end, ',') == text.end;
}

bool nf_csv_cell_is_missing(const nf_csv_cell *cell)
{
    const char *begin = skip_blanks(cell->text.begin, cell->text.end, ',');
    const char *end = trim_blanks(begin, cell->text.end, ',');
    return !cell->open && !cell->junk && (begin == end || (end - begin == 1 && *begin == '?'));
}

/* A cell that is no plain number: quoted, or without a value. */
static bool read_odd_cell(const nf_csv_table *table, const char **at, const char *end, double *value, bool *missing)
{
    nf_csv_cell cell;
    *at = scan_cell(*at, end, table->separator, &cell);
    if (nf_csv_cell_is_missing(&cell)) {
        *missing = true;
        *value = __builtin_nan("");
        return table->skip_invalid;
    }
    return cell.quoted && !cell.open && !cell.junk && nf_csv_text_is_number(cell.text, value);
}

/* Digits in the text order of eight bytes (the first in the lowest byte), as a number. Neighbours are joined three
 * times: digits to pairs, pairs to fours, fours to eight. */
static inline uint32_t join_digits(uint64_t digits)
{
    digits = digits * 10 + (digits >> 8);
    const uint64_t even = digits & 0x000000ff000000ffu, odd = (digits >> 16) & 0x000000ff000000ffu;
    return (uint32_t)((even * (100 + ((uint64_t)1000000 << 32)) + odd * (1 + ((uint64_t)10000 << 32))) >> 32);
}

/* Up to seven digits and nothing else: most cells of integer tables. Eight bytes are looked at at once, since a loop
 * over one, two or three digits costs a wrong guess of the processor in every other cell. Moves *at only on success. */
static inline bool read_short_integer(const char **at, const char *end, double *value)
{
    if (end - *at < 8) return false;
    const uint64_t bytes = nf_load_u64((const uint8_t *)*at) ^ 0x3030303030303030u;
    const uint64_t others = ((bytes + 0x7676767676767676u) | bytes) & 0x8080808080808080u; /* exact up to the first */
    if (others == 0) return false;
    const int  count = __builtin_ctzll(others) / 8;
    const char next = (*at)[count];
    if (count == 0 || next == '.' || (next | 0x20) == 'e') return false;
    *value = (double)(int32_t)join_digits(bytes << (64 - 8 * count));
    *at += count;
    return true;
}

static inline bool read_cell(const nf_csv_table *table, const char **at, const char *end, double *value, bool *missing)
{
    const char *begin = skip_blanks(*at, end, table->separator);
    *at = begin;
    if (read_short_integer(at, end, value) || nf_number_read(at, end, value)) return true;
    *at = begin;
    return read_odd_cell(table, at, end, value, missing);
}

/* Moves behind a separator; false when something else, or nothing, follows. */
static inline bool take_separator(const char **at, const char *end, char separator)
{
    const char *p = skip_blanks(*at, end, separator);
    const char *begin = *at;
    if (separator == ' ') {
        *at = p;
        return p > begin && p < end;
    }
    *at = p + 1;
    return p < end && *p == separator;
}

bool nf_csv_row_read(const nf_csv_table *table, nf_text line, double *values, bool *missing)
{
    const char *at = line.begin;
    *missing = false;
    for (uint32_t column = 0; column < table->columns; column++) {
        if (column > 0 && !take_separator(&at, line.end, table->separator)) return false;
        if (table->wanted && !table->wanted[column]) {
            nf_csv_cell unwanted;
            at = scan_cell(at, line.end, table->separator, &unwanted);
        } else if (!read_cell(table, &at, line.end, &values[column], missing)) {
            return false;
        }
    }
    return skip_blanks(at, line.end, table->separator) == line.end;
}
