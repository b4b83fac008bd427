/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that the command line can set. Options write here by offset; see cli_options.h. */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include <stdint.h>

#include "nearfield/nearfield.h"

#define CLI_MAX_ARGUMENTS 2

typedef enum cli_progress_mode {
    CLI_PROGRESS_AUTO = 0,
    CLI_PROGRESS_ALWAYS = 1,
    CLI_PROGRESS_NEVER = 2
} cli_progress_mode;

typedef struct cli_settings {
    nf_context_params      context;
    nf_radius_params       radius; /* radius is NaN until it is given */
    nf_radius_index_params radius_index;
    nf_read_params         read;
    nf_write_params        write;
    nf_generate_params     generate;
    nf_knn_params          knn;
    nf_dbscan_params       dbscan; /* radius is NaN until it is given */
    nf_ivf_params          ivf;
    nf_ivf_search_params   ivf_search; /* recall is NaN until it is given; probes stand below */
    nf_ivf_open_params     ivf_open;
    nf_sample_params       sample;
    double                 selectivity;              /* join, dbscan: NaN until it is given */
    uint32_t               estimate;                 /* join: only say what it would give and take */
    const char            *query_rows;               /* as given, or NULL */
    const char            *histogram, *radii;        /* join: as given, or NULL */
    const char            *probes;                   /* search: "P" or "P1,P2,...", or NULL */
    const char            *truth, *filter, *exclude; /* search: files, or NULL */
    const char            *ids;                      /* build: a file, or NULL */
    uint32_t               batch;                    /* search: queries per call; 0: all */
    uint32_t               repeat;                   /* search: how often */
    const char            *dtype;                    /* generate: as given, or NULL */
    const char            *output;                   /* a path, "-", or NULL */
    const char            *json;                     /* NULL: not asked for; "-": standard output; else a path */
    uint32_t               progress;                 /* cli_progress_mode */
    uint32_t               quiet;
    uint32_t               help;
    uint32_t               man, markdown, bash; /* help: its form */
    int                    argument_count;
    const char            *arguments[CLI_MAX_ARGUMENTS];
} cli_settings;

#endif
