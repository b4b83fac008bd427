/* SPDX-License-Identifier: Apache-2.0 */
/* What a join did, for its summary. */
#ifndef CLI_JOIN_H
#define CLI_JOIN_H

#include "cli_command.h"

/* One input. After the index is built the values are released; what is needed for ids and the summary stays. */
typedef struct cli_join_side {
    const char *path;
    nf_dataset *dataset; /* NULL when released */
    uint64_t    rows;
    uint32_t    dims;
    nf_dtype    dtype;
    int64_t     first; /* id of row 0 where ids is NULL */
    int64_t    *ids;   /* a copy, or NULL */
    uint64_t    file_rows;
    uint64_t    skipped;
} cli_join_side;

typedef struct cli_join {
    cli_join_side    data, queries; /* queries.path NULL: self-join */
    nf_radius_index *index;
    nf_radius_stats  stats;
    double           read_seconds, write_seconds;
} cli_join;

/* Prints the summary and delivers the object. Returns 0 or the exit code. */
int cli_join_report(cli_run *run, const cli_join *join);

#endif
