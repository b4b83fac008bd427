/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress. The library calls about ten times a second at most, so every call on a terminal is drawn. Rate and time
 * left are of the step that runs: its units (rows, candidate pairs, bytes) are work, and steps differ in what they
 * count.
 */
#include "cli_progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_clock.h"
#include "cli_settings.h"
#include "cli_text.h"

#define SECONDS_BEFORE_DRAWING 0.3 /* what is over at once only flickers */
#define SECONDS_BEFORE_RATE 0.5
#define SECONDS_BETWEEN_LINES 30.0

void cli_progress_init(cli_progress *progress, uint32_t mode, bool quiet)
{
    const char *terminal = getenv("TERM");
    const bool  draws = isatty(STDERR_FILENO) && !(terminal != NULL && strcmp(terminal, "dumb") == 0);

    memset(progress, 0, sizeof *progress);
    progress->opened = cli_now();
    if (quiet || mode == CLI_PROGRESS_NEVER) return;
    if (draws) progress->style = CLI_REDRAW;
    else if (mode == CLI_PROGRESS_ALWAYS) progress->style = CLI_LINES;
}

static void format_line(const cli_progress *progress, uint64_t done, uint64_t total, char *line, size_t size)
{
    const double elapsed = cli_now() - progress->started;
    const double rate = elapsed > SECONDS_BEFORE_RATE ? (double)done / elapsed : 0.0;
    size_t       length;

    if (total > 0) snprintf(line, size, "%s %.0f %%", progress->step, 100.0 * (double)done / (double)total);
    else snprintf(line, size, "%s %s", progress->step, cli_count(done).text);
    length = strlen(line);
    if (rate <= 0.0) return;
    snprintf(line + length, size - length, ", %s", cli_rate(rate).text);
    length = strlen(line);
    if (total > done) {
        snprintf(line + length, size - length, ", %s left", cli_clock((double)(total - done) / rate).text);
    }
}

/* A line at the start of a step, at each tenth of it, and every 30 seconds. */
static bool line_is_due(cli_progress *progress, uint64_t done, uint64_t total, bool new_step)
{
    const uint64_t tenths = total > 0 ? (uint64_t)(10.0 * (double)done / (double)total) : 0;
    const bool     late = cli_now() - progress->reported >= SECONDS_BETWEEN_LINES;
    const bool     due = new_step || tenths > progress->tenths || late;
    if (due) progress->tenths = tenths;
    return due;
}

int cli_progress_report(void *user, const char *step, uint64_t done, uint64_t total)
{
    cli_progress *progress = user;
    char          line[160];
    const bool    new_step = progress->step == NULL || strcmp(progress->step, step) != 0;

    if (progress->style == CLI_SILENT) return 0;
    if (new_step) {
        progress->step = step;
        progress->started = cli_now();
    }
    if (progress->style == CLI_REDRAW && cli_now() - progress->opened < SECONDS_BEFORE_DRAWING) return 0;
    if (progress->style == CLI_LINES && !line_is_due(progress, done, total, new_step)) return 0;
    format_line(progress, done, total, line, sizeof line);
    progress->reported = cli_now();
    if (progress->style == CLI_LINES) {
        fprintf(stderr, "%s\n", line);
    } else {
        fprintf(stderr, "\r%.78s\033[K", line);
        progress->drawn = true;
    }
    fflush(stderr);
    return 0;
}

void cli_progress_clear(cli_progress *progress)
{
    if (!progress->drawn) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->drawn = false;
}
