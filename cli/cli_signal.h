/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM: the first cancels the work, so that no partial file stays; the second ends the process at
 * once. */
#ifndef CLI_SIGNAL_H
#define CLI_SIGNAL_H

#include "nearfield/context.h"

/* Ignores SIGPIPE and SIGXFSZ: writing then fails with an error code instead. */
void cli_signal_ignore(void);

/* Makes the two signals cancel the context, NULL: none. */
void cli_signal_install(nf_context *ctx);

/* The signal that came, or 0. */
int cli_signal_caught(void);

#endif
