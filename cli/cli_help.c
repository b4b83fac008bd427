/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield help: which form to print, and what the forms share. */
#include "cli_help.h"

#include <stdio.h>
#include <string.h>

#include "cli_error.h"
#include "cli_options.h"

const char cli_help_about[] = "find the neighbours of vectors, exactly or by an index";

const char *const cli_help_text[] = {
    "Files are read by their suffix: .npy, .fvecs, .bvecs, .ivecs, .fbin, .u8bin, .i8bin, .f16bin, .ibin, "
    ".csv, .tsv, .txt, and raw values with --dtype and --dims. Ids are row numbers of the file, counted from 0.",
    "An output file appears under its name only when it is complete; after an error or Ctrl-C an old file is "
    "still there. Results go to files or, with '-o -', to standard output; everything else goes to stderr then.",
    NULL,
};

const cli_entry cli_variables[] = {
    {"NEARFIELD_ENGINE", "Engine where --engine is not given: cpu or cuda. Work that cuda does not do goes to the CPU then."},
    {"NEARFIELD_MODULE_DIR", "Folder of libnearfield-cuda.so, an absolute path, in place of where it is looked for."},
    {"NEARFIELD_ISA", "Instruction set of the CPU engine where --isa is not given: scalar, avx2, avx512 or neon."},
    {"TERM", "With the value dumb, no progress is drawn."},
    {NULL, NULL},
};

static const cli_entry estimate_keys[] = {
    {"command, version, engine, isa", "As of join."},
    {"estimate", "True."},
    {"rows, queries, dims, metric, radius, similarity, wanted_selectivity", "As of join."},
    {"sampled_rows", "Queries in the sample."},
    {"pairs, pairs_low, pairs_high", "Pairs that would be delivered, and an interval of 95 %."},
    {"selectivity, standard_error", "Mean number of neighbours per query, itself not counted."},
    {"result_bytes, npz_bytes, npy_bytes", "Of a result in memory, and of files."},
    {"peak_bytes", "Memory at most: index and result, within --memory."},
    {"seconds, seconds_low, seconds_high", "Time of the search, and an interval of 95 %."},
    {"build_seconds, read_seconds", "Wall time of building the index and of reading, as measured."},
    {NULL, NULL},
};

static const cli_entry join_keys[] = {
    {"command, version", "The command and the version of the library."},
    {"engine, isa", "What did the work. For the GPU, device in place of isa."},
    {"rows, queries, dims", "Rows of DATA, queries (the rows themselves without QUERIES), values in a row."},
    {"seconds", "Wall time without reading and writing."},
    {"steps", "An object: wall time of each step; steps may overlap."},
    {"metric", "As given."},
    {"radius", "As given; null for infinity, with --radii, and where a similarity is given; with --histogram the largest."},
    {"similarity", "As given; null where a radius is given."},
    {"wanted_selectivity", "As given with --selectivity; else null."},
    {"estimated_selectivity, standard_error", "What the sample says of the radius found for it; else null."},
    {"sampled_rows", "Rows in that sample; else 0."},
    {"zero_rows, zero_queries", "Cosine: rows of zeros in DATA and among the queries, which are in no pair; else 0."},
    {"histogram", "With --histogram, an array: objects of radius, pairs and selectivity."},
    {"pairs", "Pairs as delivered."},
    {"selectivity", "Mean number of neighbours per query, itself not counted."},
    {"candidates, why", "The method that found candidates, and why it was chosen."},
    {"refine", "The arithmetic that decided."},
    {"hits", "Pairs of a query and a group of rows that were looked into."},
    {"compared", "Pairs of a query and a row that were decided one by one; one for both directions counts twice."},
    {"pruned_share", "1 - compared / (queries * rows)."},
    {"rechecked", "Pairs that fast arithmetic left open."},
    {"ties", "Pairs at a distance of exactly the radius."},
    {"batches", "Parts in which results were delivered."},
    {"device_batches", "Parts in which a GPU worked."},
    {"skipped", "Rows left out by --skip-invalid."},
    {"read_seconds, write_seconds", "Wall time of reading and writing."},
    {"output", "The file of the result, or null."},
    {NULL, NULL},
};

static const cli_entry knn_keys[] = {
    {"command, version, engine, isa", "As of join."},
    {"rows, queries, dims", "Rows of DATA, rows of QUERIES, values in a row."},
    {"seconds, qps", "Wall time without reading and writing; queries per second of it."},
    {"k, metric", "As asked for."},
    {"compared", "Pairs of a query and a row that were looked at."},
    {"rechecked", "Pairs that fast arithmetic left open."},
    {"skipped, read_seconds, write_seconds, output", "As of join."},
    {NULL, NULL},
};

static const cli_entry build_keys[] = {
    {"command, version, engine, isa", "As of join."},
    {"seconds", "Wall time without reading and writing."},
    {"steps", "An object: wall time of each step."},
    {"rows, dims, padded_dims", "Rows, values in a row, values in a code."},
    {"lists, bits, metric, rotation, seed", "Of the index."},
    {"keep_vectors, user_ids", "Whether the index holds the rows too, and ids that are no row numbers."},
    {"bytes, file_id", "Length of the index file; XXH3-64 of its content, 16 hexadecimal digits."},
    {"largest_list, empty_lists", "Rows of the largest list; how many lists have none."},
    {"recall_table", "An array of objects: probes, and the recall@10 measured with them."},
    {"code_error", "Mean error of a code, as a share of the residual's length."},
    {"skipped, read_seconds, write_seconds, output", "As of join."},
    {NULL, NULL},
};

static const cli_entry search_keys[] = {
    {"command, version, engine, isa", "As of join."},
    {"rows, lists, bits, metric, file_id", "Of the index."},
    {"queries, dims, k, epsilon0, rerank, batch, repeat", "As asked for; null for infinity."},
    {"probes", "Lists looked at per query."},
    {"recall", "Share of the true neighbours that were found; null without --truth."},
    {"qps, seconds", "Queries per second; wall time of the calls of the search alone, the median of the repetitions."},
    {"scanned, refined", "Rows per query whose short code, and whose whole code, was looked at."},
    {"latency_ms", "With --batch, an object: p50, p95, p99 of the calls; else null."},
    {"steps", "An object: time of each step, added up over threads; of rerank, wall time of making the results."},
    {"sweep", "With several --probes an array of objects with the keys from probes to steps, in their place."},
    {"truth_cut",
     "Queries whose truth ends inside a tie with the k-th, so that recall may be larger; null: not known."},
    {"skipped, read_seconds, write_seconds, output", "As of join; reading includes the index."},
    {NULL, NULL},
};

static const cli_entry info_keys[] = {
    {"command, version, file", "As asked for."},
    {"format", "Of the file; index for an index."},
    {"rows, dims, bytes", "Rows, values in a row, size of the file."},
    {"dtype, header_lines, detail", "Vectors: type of the values, lines before them in text, one more fact."},
    {"columns, pairs", "A graph."},
    {"padded_dims, lists, bits, metric, rotation, seed, keep_vectors, user_ids", "An index: how it was built."},
    {"file_id, format_major, format_minor", "An index: its content in 64 bits, the version of its format."},
    {"largest_list, empty_lists, recall_table", "An index: as of build."},
    {NULL, NULL},
};

static const cli_entry verify_keys[] = {
    {"command, version, file", "As asked for."},
    {"sound", "True; a damaged index is an error."},
    {"bytes, file_id, seconds", "Of the index; time of the verification."},
    {NULL, NULL},
};

const cli_json_object cli_json_objects[] = {
    {"info", info_keys}, {"verify", verify_keys}, {"join --estimate", estimate_keys},
    {"join", join_keys}, {"knn", knn_keys}, {"build", build_keys}, {"search", search_keys}, {NULL, NULL}};

void cli_help_term(const nf_param *param, char term[CLI_TERM_SIZE])
{
    const char  letter = cli_option_letter(param->name);
    const char  shorter[] = {'-', letter, ',', ' ', '\0'};
    const char *value = param->value != NULL ? param->value : "";
    const bool  optional = param->value != NULL && !cli_option_needs_value(param);
    const char *before = optional ? "[=" : " ";
    snprintf(term, CLI_TERM_SIZE, "%s--%s%s%s%s", letter != 0 ? shorter : "", param->name,
             param->value != NULL ? before : "", value, optional ? "]" : "");
}

/* Appends to a text of CLI_DESCRIPTION_SIZE. */
static void append(char *text, const char *before, const char *middle, size_t length, const char *after)
{
    const size_t used = strlen(text);
    snprintf(text + used, CLI_DESCRIPTION_SIZE - used, "%s%.*s%s", before, (int)length, middle, after);
}

static void append_choices(const nf_param *param, char *description)
{
    const char *before = " One of ";
    for (const char *at = param->choices; *at != '\0';) {
        const size_t span = strcspn(at, "|");
        append(description, before, at, span, "");
        before = ", ";
        at += span + (at[span] == '|');
    }
    append(description, "; default ", param->default_text, strlen(param->default_text), ".");
}

void cli_help_description(const nf_param *param, char description[CLI_DESCRIPTION_SIZE])
{
    snprintf(description, CLI_DESCRIPTION_SIZE, "%s", param->help);
    if (param->kind == NF_PARAM_CHOICE) append_choices(param, description);
    else if (param->default_text != NULL && param->default_text[0] != '\0') {
        append(description, " Default: ", param->default_text, strlen(param->default_text), ".");
    }
}

int cli_run_help(cli_run *run)
{
    const cli_settings *settings = &run->settings;
    if (settings->man) {
        cli_help_print_man();
    } else if (settings->markdown) {
        cli_help_print_markdown();
    } else if (settings->bash) {
        cli_help_print_bash();
    } else if (settings->argument_count == 0) {
        cli_help_print_overview();
    } else {
        const cli_command *command = cli_command_find(settings->arguments[0]);
        if (command == NULL) return cli_fail_usage(run, "there is no command '%s'", settings->arguments[0]);
        cli_help_print_command(command);
    }
    return 0;
}
