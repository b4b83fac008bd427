/* SPDX-License-Identifier: Apache-2.0 */
/* Says what is wrong with a line: the number of its cells, or the first wanted cell that is no number. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/core_context.h"
#include "io_csv.h"
#include "io_csv_text.h"

/* Lines count from 1, with blank lines and comments, as editors show them. */
static uint64_t line_number(const nf_csv_table *table, const char *line)
{
    uint64_t    number = 1;
    const char *at = table->text.begin;
    while ((at = memchr(at, '\n', (size_t)(line - at))) != NULL) {
        at++;
        number++;
    }
    return number;
}

static uint64_t count_cells(const nf_csv_table *table, nf_text line)
{
    const char *at = line.begin;
    nf_csv_cell cell;
    uint64_t    count = 0;
    while (nf_csv_cell_next(&at, line.end, table->separator, &cell)) count++;
    return count;
}

/* " (width)" when the header names the column, else "". */
static void show_column_name(const nf_csv_table *table, uint32_t column, char shown[NF_TEXT_SHOWN + 3])
{
    const char *at = table->header.begin;
    nf_csv_cell cell;
    bool        more = at < table->header.end;
    shown[0] = '\0';
    for (uint32_t i = 0; more && i <= column; i++) {
        more = nf_csv_cell_next(&at, table->header.end, table->separator, &cell);
    }
    if (!more) return;
    char name[NF_TEXT_SHOWN];
    nf_text_show(cell.text, name);
    snprintf(shown, NF_TEXT_SHOWN + 3, " (%s)", name);
}

static bool cell_is_fine(const nf_csv_table *table, const nf_csv_cell *cell)
{
    double value;
    if (nf_csv_cell_is_missing(cell)) return table->skip_invalid;
    return !cell->open && !cell->junk && nf_csv_text_is_number(cell->text, &value);
}

static nf_status explain_cell(nf_context *ctx, const nf_csv_table *table, uint64_t number, uint32_t column,
                              const nf_csv_cell *cell)
{
    char name[NF_TEXT_SHOWN + 3], text[NF_TEXT_SHOWN];
    show_column_name(table, column, name);
    nf_text_show(cell->text, text);
    if (cell->open) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: line %" PRIu64 ", column %" PRIu32 "%s: the closing quote is missing",
                       table->path, number, column + 1, name);
    }
    if (nf_csv_cell_is_missing(cell)) {
        return nf_fail(ctx, NF_ERR_VALUE,
                       "%s: line %" PRIu64 ", column %" PRIu32 "%s: %s; such rows can be left out "
                       "(skip-invalid)",
                       table->path, number, column + 1, name, *text ? "'?' is no value" : "empty cell");
    }
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: line %" PRIu64 ", column %" PRIu32 "%s: '%s' %s", table->path, number,
                   column + 1, name, text, cell->junk ? "is followed by more text" : "is not a number");
}

nf_status nf_csv_line_explain(nf_context *ctx, const nf_csv_table *table, nf_text line)
{
    const uint64_t number = line_number(table, line.begin);
    const uint64_t count = count_cells(table, line);
    const char    *at = line.begin;
    nf_csv_cell    cell;
    for (uint32_t column = 0; nf_csv_cell_next(&at, line.end, table->separator, &cell); column++) {
        const bool read = table->wanted == NULL || (column < table->columns && table->wanted[column]);
        if (cell.open || (count == table->columns && read && !cell_is_fine(table, &cell))) {
            return explain_cell(ctx, table, number, column, &cell);
        }
    }
    const bool header = table->header.begin < table->header.end;
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: line %" PRIu64 " has %" PRIu64 " value%s, the %s has %" PRIu32, table->path,
                   number, count, count == 1 ? "" : "s", header ? "header" : "first row", table->columns);
}
