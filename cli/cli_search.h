/* SPDX-License-Identifier: Apache-2.0 */
/* What a search did, for its summary. */
#ifndef CLI_SEARCH_H
#define CLI_SEARCH_H

#include "cli_recall.h"

#define CLI_MAX_POINTS 64

/* One number of probes: what it cost and found. Seconds and statistics are those of the median repetition. */
typedef struct cli_search_point {
    double              seconds; /* of the calls of nf_ivf_search alone */
    nf_ivf_search_stats stats;
    double              recall;     /* NaN without a truth */
    double              latency[3]; /* of a call, over all repetitions: p50, p95, p99 in seconds; NaN without --batch */
} cli_search_point;

typedef struct cli_search {
    cli_input        queries;
    nf_ivf_index    *index;
    nf_ivf_info      info;
    nf_ivf_filter   *filter;
    cli_truth        truth;
    cli_neighbours   found;
    uint32_t         probes[CLI_MAX_POINTS]; /* as asked for; 0: by recall */
    cli_search_point points[CLI_MAX_POINTS];
    uint32_t         point_count;
    double           read_seconds, write_seconds;
} cli_search;

/* Prints the summary and delivers the object. Returns 0 or the exit code. */
int cli_search_report(cli_run *run, const cli_search *search);

#endif
