/* SPDX-License-Identifier: Apache-2.0 */
/* A clock for durations. */
#ifndef CLI_CLOCK_H
#define CLI_CLOCK_H

#include <time.h>

/* Seconds since some moment, never jumping. */
static inline double cli_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
