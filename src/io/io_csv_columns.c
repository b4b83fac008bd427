/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameter columns: a list of numbers from 1 ("3"), ranges ("5-8") and names from the header line, in the order in
 * which the values are to stand in a row. A name in quotes may hold commas, or be a number.
 */
#include <inttypes.h>

#include "core/core_context.h"
#include "io_csv.h"
#include "io_csv_text.h"

/* Columns from begin to end - 1, counted from 0. */
typedef struct column_range {
    uint64_t begin;
    uint64_t end;
} column_range;

/* A number at *at, moved behind it; false when there is none. Saturates. */
static bool take_number(const char **at, const char *end, uint64_t *value)
{
    const char *begin = *at;
    *value = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        if (*value <= UINT32_MAX) *value = *value * 10 + (uint64_t)(**at - '0');
    }
    return *at > begin;
}

/* "3" or "5-8". */
static bool parse_range(const nf_csv_cell *item, uint64_t *low, uint64_t *high)
{
    const char *at = item->text.begin;
    if (item->quoted || !take_number(&at, item->text.end, low)) return false;
    *high = *low;
    if (at < item->text.end && *at == '-') {
        at++;
        if (!take_number(&at, item->text.end, high)) return false;
    }
    return at == item->text.end;
}

bool nf_csv_columns_named(const char *columns)
{
    const nf_text list = nf_text_of(columns);
    const char   *at = list.begin;
    nf_csv_cell   item;
    uint64_t      low, high;
    while (nf_csv_cell_next(&at, list.end, ',', &item)) {
        if (!parse_range(&item, &low, &high) && item.text.begin < item.text.end) return true;
    }
    return false;
}

static nf_status check_range(nf_context *ctx, const nf_csv_table *table, uint64_t low, uint64_t high)
{
    if (low == 0) return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: column 0 was asked for; columns count from 1", table->path);
    if (high < low) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: columns %" PRIu64 "-%" PRIu64 " end before they begin", table->path,
                       low, high);
    }
    if (high <= table->columns) return NF_OK;
    return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: column %" PRIu64 " was asked for, the file has %" PRIu32, table->path,
                   low > table->columns ? low : high, table->columns);
}

static nf_status find_name(nf_context *ctx, const nf_csv_table *table, nf_text name, column_range *range)
{
    const char *at = table->header.begin;
    nf_csv_cell cell;
    uint64_t    found = 0;
    for (uint64_t column = 0; nf_csv_cell_next(&at, table->header.end, table->separator, &cell); column++) {
        if (!nf_text_equal(cell.text, name)) continue;
        *range = (column_range){column, column + 1};
        found++;
    }
    if (found == 1) return NF_OK;
    char shown[NF_TEXT_SHOWN];
    nf_text_show(name, shown);
    if (found == 0) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: no column is named '%s' in the first line", table->path, shown);
    }
    return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: %" PRIu64 " columns are named '%s'; ask by number", table->path, found,
                   shown);
}

static nf_status resolve_item(nf_context *ctx, const nf_csv_table *table, const nf_csv_cell *item, column_range *range)
{
    uint64_t low, high;
    if (item->open || item->junk || item->text.begin == item->text.end) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: the list of columns has an empty or wrongly quoted item",
                       table->path);
    }
    if (!parse_range(item, &low, &high)) return find_name(ctx, table, item->text, range);
    NF_TRY(check_range(ctx, table, low, high));
    *range = (column_range){low - 1, high};
    return NF_OK;
}

/* Goes through the list; counts the columns, and writes them where picked is given. */
static nf_status walk_list(nf_context *ctx, const nf_csv_table *table, const char *columns, uint64_t *count,
                           uint32_t *picked, uint8_t *wanted)
{
    const nf_text list = nf_text_of(columns);
    const char   *at = list.begin;
    nf_csv_cell   item;
    *count = 0;
    while (nf_csv_cell_next(&at, list.end, ',', &item)) {
        column_range range = {0, 0};
        NF_TRY(resolve_item(ctx, table, &item, &range));
        for (uint64_t column = range.begin; picked && column < range.end; column++) {
            picked[*count + column - range.begin] = (uint32_t)column;
            wanted[column] = 1;
        }
        *count += range.end - range.begin;
    }
    return NF_OK;
}

nf_status nf_csv_columns_pick(nf_context *ctx, const char *columns, nf_csv_table *table)
{
    uint64_t count;
    NF_TRY(walk_list(ctx, table, columns, &count, NULL, NULL));
    if (count > NF_IO_DIMS_MAX) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: %" PRIu64 " columns were asked for; 1 to %" PRIu64 " are allowed",
                       table->path, count, NF_IO_DIMS_MAX);
    }
    table->picked = nf_alloc(ctx, count, sizeof *table->picked);
    table->wanted = nf_alloc_zero(ctx, table->columns, sizeof *table->wanted);
    if (table->picked == NULL || table->wanted == NULL) return nf_alloc_status(ctx);
    table->dims = (uint32_t)count;
    return walk_list(ctx, table, columns, &count, table->picked, table->wanted);
}
