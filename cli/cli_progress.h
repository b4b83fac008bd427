/* SPDX-License-Identifier: Apache-2.0 */
/* Progress on stderr: one line that is drawn over on a terminal, single lines now and then elsewhere. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum cli_progress_style { CLI_SILENT = 0, CLI_REDRAW = 1, CLI_LINES = 2 } cli_progress_style;

typedef struct cli_progress {
    cli_progress_style style;
    bool               drawn;    /* a line stands on the terminal */
    const char        *step;     /* the step that was reported last */
    double             opened;   /* when the run began */
    double             started;  /* when the step began */
    double             reported; /* when a line was printed last */
    uint64_t           tenths;   /* CLI_LINES: tenths of the step printed so far */
} cli_progress;

/* Chooses the style from the mode (cli_progress_mode) and from what stderr is. */
void cli_progress_init(cli_progress *progress, uint32_t mode, bool quiet);

/* An nf_progress_fn; user is a cli_progress. */
int cli_progress_report(void *user, const char *step, uint64_t done, uint64_t total);

/* Takes the line off the terminal. */
void cli_progress_clear(cli_progress *progress);

#endif
