/* SPDX-License-Identifier: Apache-2.0 */
/* Recall: how many of the true neighbours were found. */
#ifndef CLI_RECALL_H
#define CLI_RECALL_H

#include "cli_neighbours.h"

/* The true neighbours, read from a file, and which of its rows belongs to a query. */
typedef struct cli_truth {
    nf_neighbour_set *set;         /* NULL: none */
    bool              by_file_row; /* one row per row of the queries' file, not per query read */
    bool              no_more;     /* it holds k neighbours and no more, so that no tie with the k-th can be seen */
    uint64_t          cut;         /* else: queries whose row ends with a tie with the k-th, which may go on */
} cli_truth;

/* Reads --truth, if it is given, and checks that it is about these queries and holds k neighbours of each. Returns 0 or
 * the exit code. */
int cli_truth_read(cli_run *run, const cli_input *queries, uint32_t k, cli_truth *truth);

/*
 * recall@k: the share of the k true neighbours that were found, over all queries. A returned id counts once, when its
 * true distance is at most that of the k-th true neighbour: any entry of the file that ties with the k-th will do.
 * Without distances in the file: when it is one of the first k. Stores it; returns 0 or the exit code.
 */
int cli_recall(cli_run *run, const cli_truth *truth, const cli_input *queries, const cli_neighbours *found,
               double *recall);

#endif
