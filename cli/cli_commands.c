/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands: names, texts, examples and options. Parser, help, man page and docs/command.md are made
 * from it. */
#include <stddef.h>
#include <string.h>

#include "cli_command.h"

#define AT(member) (uint32_t) offsetof(cli_settings, member)
#define OWN(title, table) {title, CLI_OWN, NULL, table, sizeof(table) / sizeof((table)[0])}
#define LIBRARY(title, group, only) {title, group, only, NULL, 0}
#define END_OF_SETS {NULL, 0, NULL, NULL, 0}

/* Options of the command itself. */

static const nf_param talking[] = {
    {"progress", NF_PARAM_CHOICE, AT(progress), "WHEN", "auto|always|never", "auto", 0, 0,
     "Show progress on stderr; auto means only on a terminal."},
    {"quiet", NF_PARAM_FLAG, AT(quiet), NULL, NULL, "", 0, 0, "No summary and no progress."},
    {"json", NF_PARAM_FLAG, AT(json), "FILE", NULL, "", 0, 0,
     "Give the summary as one JSON object, on standard output or in FILE; errors too, on stderr."},
    {"help", NF_PARAM_FLAG, AT(help), NULL, NULL, "", 0, 0, "Show this help."},
};

static const nf_param only_help[] = {
    {"help", NF_PARAM_FLAG, AT(help), NULL, NULL, "", 0, 0, "Show this help."},
};

static const nf_param several_radii[] = {
    {"radii", NF_PARAM_TEXT, AT(radii), "FILE", NULL, "", 0, 0,
     "One radius per query, in place of --radius: a file of n x 1 numbers, in any format that is read; cpu engine."},
    {"histogram", NF_PARAM_TEXT, AT(histogram), "R1,R2,...", NULL, "", 0, 0,
     "In place of --radius: count the pairs within each of these radii, which ascend; -o writes radius and pairs."},
};

static const nf_param output[] = {
    {"output", NF_PARAM_TEXT, AT(output), "FILE", NULL, "", 0, 0,
     "Where the result goes; the name appears only when the file is complete. '-' is standard output."},
};

static const nf_param query_reading[] = {
    {"query-rows", NF_PARAM_TEXT, AT(query_rows), "A:B", NULL, "all", 0, 0,
     "Take rows A to B-1 only of QUERIES; --rows is for DATA."},
};

static const nf_param sampling[] = {
    {"selectivity", NF_PARAM_F64, AT(selectivity), "Z", NULL, "", 0, 0,
     "In place of --radius: the radius that gives Z neighbours per row on average, as a sample says."},
    {"sample-rows", NF_PARAM_U64, AT(sample.rows), "N", NULL, "1000", 1, 2147483647, "Rows in the sample."},
    {"seed", NF_PARAM_U64, AT(sample.seed), "N", NULL, "1", 0, 0, "The same seed takes the same sample."},
};

static const nf_param estimating[] = {
    {"estimate", NF_PARAM_FLAG, AT(estimate), NULL, NULL, "", 0, 0,
     "Make no result: say from a sample how many pairs, bytes and seconds it would be."},
};

static const nf_param building[] = {
    {"ids", NF_PARAM_TEXT, AT(ids), "FILE", NULL, "row numbers", 0, 0,
     "Ids of the rows: a file of n x 1 whole numbers, in any format that is read."},
};

static const nf_param index_output[] = {
    {"output", NF_PARAM_TEXT, AT(output), "INDEX", NULL, "", 0, 0,
     "Where the index goes; the name appears only when the file is complete."},
};

static const nf_param searching[] = {
    {"probes", NF_PARAM_TEXT, AT(probes), "P[,P...]", NULL, "by --recall", 0, 0,
     "Lists looked at per query; several numbers make a table of recall and speed."},
    {"filter", NF_PARAM_TEXT, AT(filter), "FILE", NULL, "", 0, 0,
     "Find only rows whose id is in the file (n x 1 whole numbers)."},
    {"exclude", NF_PARAM_TEXT, AT(exclude), "FILE", NULL, "", 0, 0, "Find no row whose id is in the file."},
};

static const nf_param measuring[] = {
    {"truth", NF_PARAM_TEXT, AT(truth), "FILE", NULL, "", 0, 0,
     "The true neighbours (.npz, .bin, .ivecs, .npy), as knn writes them: recall is measured."},
    {"batch", NF_PARAM_U32, AT(batch), "N", NULL, "0", 0, 2147483647,
     "Queries per call; 0: all in one; with 1 each query is timed alone."},
    {"repeat", NF_PARAM_U32, AT(repeat), "N", NULL, "1", 1, 1000, "Search so often, and report the median time."},
};

static const nf_param search_reading[] = {
    {"query-rows", NF_PARAM_TEXT, AT(query_rows), "A:B", NULL, "all", 0, 0, "Take rows A to B-1 only of QUERIES."},
};

static const nf_param generating[] = {
    {"rows", NF_PARAM_U64, AT(generate.rows), "N", NULL, "1000", 0, 2147483647, "Number of rows."},
    {"dims", NF_PARAM_U32, AT(generate.dims), "D", NULL, "3", 1, 1048576, "Values in a row."},
    {"dtype", NF_PARAM_TEXT, AT(dtype), "TYPE", NULL, "f32", 0, 0,
     "Type of the values: f32, f64 or u8 (0 to 1 is scaled to 0 to 255, and clamped; a lattice stays as it is)."},
    {"seed", NF_PARAM_U64, AT(generate.seed), "N", NULL, "1", 0, 0, "The same seed gives the same data everywhere."},
    {"rate", NF_PARAM_F64, AT(generate.rate), "X", NULL, "40", 0, 1e30, "exponential: the rate; the mean is 1 / X."},
    {"clusters", NF_PARAM_U32, AT(generate.clusters), "N", NULL, "100", 1, 4294967295.0,
     "mixture: number of clusters."},
    {"spread", NF_PARAM_F64, AT(generate.spread), "X", NULL, "0.05", 0, 1e30,
     "mixture: standard deviation inside a cluster."},
    {"intrinsic", NF_PARAM_U32, AT(generate.intrinsic), "M", NULL, "all dims", 0, 1048576,
     "mixture: dims of the random subspace that a cluster lies on."},
    {"side", NF_PARAM_U32, AT(generate.side), "N", NULL, "the least that fits", 0, 4294967295.0,
     "lattice: coordinates are 0 to N-1."},
};

static const nf_param helping[] = {
    {"man", NF_PARAM_FLAG, AT(man), NULL, NULL, "", 0, 0, "Print the manual page, in troff."},
    {"markdown", NF_PARAM_FLAG, AT(markdown), NULL, NULL, "", 0, 0, "Print all of the help as Markdown."},
    {"bash", NF_PARAM_FLAG, AT(bash), NULL, NULL, "", 0, 0, "Print completions for bash."},
    {"help", NF_PARAM_FLAG, AT(help), NULL, NULL, "", 0, 0, "Show this help."},
};

/* Option sets of each command. */

static const cli_option_set join_sets[] = {
    LIBRARY("Pairs", NF_PARAMS_RADIUS, "radius inner-radius"),
    LIBRARY("", NF_PARAMS_RADIUS_INDEX, "metric"),
    LIBRARY("", NF_PARAMS_RADIUS, "similarity"),
    OWN("", several_radii),
    OWN("", sampling),
    OWN("", estimating),
    LIBRARY("", NF_PARAMS_RADIUS, "candidates refine distances sort self half strict max-results stop-at"),
    OWN("Output", output),
    LIBRARY("", NF_PARAMS_WRITE, NULL),
    LIBRARY("Reading", NF_PARAMS_READ, NULL),
    OWN("", query_reading),
    LIBRARY("Engine and limits", NF_PARAMS_CONTEXT, NULL),
    LIBRARY("Variants for measuring, with the same answer", NF_PARAMS_RADIUS, "tile result group-bounds no-early-exit"),
    LIBRARY("", NF_PARAMS_RADIUS_INDEX, "height group-size no-grouping"),
    OWN("Talking", talking),
    END_OF_SETS,
};

static const cli_option_set knn_sets[] = {
    LIBRARY("Neighbours", NF_PARAMS_KNN, NULL),
    OWN("Output", output),
    LIBRARY("", NF_PARAMS_WRITE, "format"),
    LIBRARY("Reading", NF_PARAMS_READ, NULL),
    OWN("", query_reading),
    LIBRARY("Engine and limits", NF_PARAMS_CONTEXT, NULL),
    OWN("Talking", talking),
    END_OF_SETS,
};

static const cli_option_set dbscan_sets[] = {
    LIBRARY("Clusters", NF_PARAMS_DBSCAN, "radius"),
    LIBRARY("", NF_PARAMS_RADIUS_INDEX, "metric"),
    LIBRARY("", NF_PARAMS_DBSCAN, "similarity"),
    OWN("", sampling),
    LIBRARY("", NF_PARAMS_DBSCAN, "min-samples strict"),
    OWN("Output", output),
    LIBRARY("", NF_PARAMS_WRITE, "format"),
    LIBRARY("Reading", NF_PARAMS_READ, NULL),
    LIBRARY("Engine and limits", NF_PARAMS_CONTEXT, NULL),
    OWN("Talking", talking),
    END_OF_SETS,
};

static const cli_option_set components_sets[] = {
    LIBRARY("Components", NF_PARAMS_DBSCAN, "radius strict"),
    OWN("Output", output),
    LIBRARY("", NF_PARAMS_WRITE, "format"),
    LIBRARY("Reading", NF_PARAMS_READ, NULL),
    LIBRARY("Engine and limits", NF_PARAMS_CONTEXT, NULL),
    OWN("Talking", talking),
    END_OF_SETS,
};

static const cli_option_set build_sets[] = {
    LIBRARY("Index", NF_PARAMS_IVF, NULL),
    OWN("", building),
    OWN("Output", index_output),
    LIBRARY("Reading", NF_PARAMS_READ, NULL),
    LIBRARY("Engine and limits", NF_PARAMS_CONTEXT, NULL),
    OWN("Talking", talking),
    END_OF_SETS,
};

static const cli_option_set search_sets[] = {
    LIBRARY("Neighbours", NF_PARAMS_IVF_SEARCH, "k"),
    OWN("", searching),
    LIBRARY("", NF_PARAMS_IVF_SEARCH, "recall epsilon0 precision rerank"),
    OWN("Measuring", measuring),
    OWN("Output", output),
    LIBRARY("", NF_PARAMS_WRITE, "format"),
    LIBRARY("Reading", NF_PARAMS_IVF_OPEN, NULL),
    OWN("", search_reading),
    LIBRARY("", NF_PARAMS_READ, "columns input-format dtype dims skip-invalid"),
    LIBRARY("Engine and limits", NF_PARAMS_CONTEXT, NULL),
    OWN("Talking", talking),
    END_OF_SETS,
};

static const cli_option_set verify_sets[] = {
    LIBRARY("Limits", NF_PARAMS_CONTEXT, "threads memory"),
    OWN("Talking", talking),
    END_OF_SETS,
};

static const cli_option_set info_sets[] = {
    LIBRARY("Reading", NF_PARAMS_READ, "columns input-format dtype dims skip-invalid"),
    LIBRARY("Limits", NF_PARAMS_CONTEXT, "threads memory"),
    OWN("Talking", talking),
    END_OF_SETS,
};

static const cli_option_set convert_sets[] = {
    LIBRARY("Output", NF_PARAMS_WRITE, "format"),
    LIBRARY("Reading", NF_PARAMS_READ, NULL),
    LIBRARY("Limits", NF_PARAMS_CONTEXT, "threads memory"),
    OWN("Talking", talking),
    END_OF_SETS,
};

static const cli_option_set generate_sets[] = {
    OWN("Data", generating),
    OWN("Output", output),
    LIBRARY("", NF_PARAMS_WRITE, "format"),
    LIBRARY("Limits", NF_PARAMS_CONTEXT, "threads memory"),
    OWN("Talking", talking),
    END_OF_SETS,
};

static const cli_option_set doctor_sets[] = {
    LIBRARY("Engine and limits", NF_PARAMS_CONTEXT, NULL),
    OWN("Talking", talking),
    END_OF_SETS,
};

static const cli_option_set help_sets[] = {OWN("Form", helping), END_OF_SETS};
static const cli_option_set version_sets[] = {OWN("Talking", only_help), END_OF_SETS};

/* Texts. */

static const char *const join_text[] = {
    "Finds every pair of rows within a distance of each other, exactly: between the rows of DATA, or from QUERIES "
    "to DATA. A pair is a result when the sum of squared differences is at most the square of the radius over the "
    "real numbers, so there is one right answer, whatever the engine, the number of threads or the memory.",
    "With --metric cosine rows are first divided by their lengths and rounded to binary32, and a distance is 1 - cosine. "
    "The cosine of a row of zeros is 0 to everything, so such a row is in no pair.",
    "The suffix of the output says its format: .npz (SciPy's compressed sparse rows), .bin (big-ann range "
    "truth), .npy (two columns: query "
    "and row), .csv, .tsv or .txt (query, row, distance). Without -o the pairs are only counted.",
    NULL,
};
static const cli_example join_examples[] = {
    {"nearfield join points.npy --radius 0.5 -o pairs.npz", "all pairs of points nearer than 0.5 or as near as that"},
    {"nearfield join data.csv queries.csv --radius 3 -o near.csv", "for each query the rows of data.csv near it"},
    {"nearfield join data.fvecs --radius 200", "only count the pairs"},
    {"nearfield join data.npy --selectivity 64 -o pairs.npz", "the radius that gives about 64 neighbours per row"},
    {"nearfield join data.npy --radius 1 --estimate", "how many pairs and how long, before the work"},
    {"nearfield join texts.npy --metric cosine --similarity 0.9 -o near.csv", "pairs with a cosine of 0.9 or more"},
    {"nearfield join data.npy --radius 1 --counts -o counts.npy", "one number of neighbours per row"},
    {"nearfield join data.npy --histogram 0.5,1,2,4", "how many pairs there are within each radius"},
    {"nearfield join data.npy --radius 1 --format csv -o - | head", "pairs to standard output"},
    {NULL, NULL},
};

static const char *const knn_text[] = {
    "Finds the k nearest rows of DATA for each row of QUERIES, exactly, or without QUERIES for each row of DATA, which is "
    "not its own neighbour. Near is the smallest Euclidean distance, the largest inner product (ip) or the largest cosine; "
    "equal distances are ordered by id.",
    "The suffix of the output says its format: .npz (arrays ids, distances, counts), .bin (big-ann ground truth), "
    ".ivecs (ids alone), .csv, .tsv or .txt (query, rank, id, distance).",
    NULL,
};
static const cli_example knn_examples[] = {
    {"nearfield knn base.fvecs query.fvecs -k 100 -o truth.npz", "the true neighbours, to measure recall with"},
    {"nearfield knn data.npy -k 15 -o graph.npz", "the 15 nearest other rows of every row"},
    {"nearfield knn data.npy data.npy --query-rows 0:5 -k 3 --format csv -o -", "the nearest of the first five rows"},
    {"nearfield knn texts.npy question.npy -k 10 --metric cosine -o near.csv", "the largest cosines"},
    {NULL, NULL},
};

static const char *const dbscan_text[] = {
    "Clusters rows by density (DBSCAN): a row with enough others within the radius is a core row, core rows within the "
    "radius of each other are of one cluster, rows near a core row belong to its cluster, all others are noise. Pairs are "
    "never stored, so that memory does not grow with the radius.",
    "The output has one whole number per row: -1 for noise, else the cluster, numbered in the order of their first core "
    "rows; a row near several clusters belongs to the first of them. These are scikit-learn's labels. With --min-samples 1 "
    "the clusters are the connected components. DATA may be a stored self-join (.npz): its entries within the radius "
    "are then the pairs.",
    NULL,
};
static const cli_example dbscan_examples[] = {
    {"nearfield dbscan points.npy --radius 0.5 -o labels.npy", "a cluster for every row"},
    {"nearfield dbscan data.csv --radius 3 --min-samples 20", "only how many clusters, and how much noise"},
    {"nearfield dbscan texts.npy --metric cosine --similarity 0.9 -o topics.npy", "clusters by cosine"},
    {"nearfield dbscan texts.npy --radius 0.1 --min-samples 1 -o groups.csv", "connected components: near duplicates"},
    {NULL, NULL},
};

static const char *const components_text[] = {
    "Finds the connected components of rows: two rows are of one component when steps of at most the radius lead from one "
    "to the other. That is single linkage, cut at the radius; groups of near duplicates are such components.",
    "The output has one whole number per row, components numbered in the order of their first rows. "
    "DATA may be a stored self-join (.npz): its entries within the radius are then the steps.",
    NULL,
};
static const cli_example components_examples[] = {
    {"nearfield components texts.npy --radius 0.1 -o groups.npy", "groups of near duplicates"},
    {"nearfield components points.csv --radius 2", "how many components, and how large the largest is"},
    {NULL, NULL},
};

static const char *const build_text[] = {
    "Builds an index for approximate search: the rows are divided into lists around centres, and each row is kept as "
    "a code of a few bits per dimension (IVF-RaBitQ). More bits give better answers and a larger file. At the end, "
    "recall is measured on a sample, so that a search can ask for a recall.",
    "The same data, options, engine and instruction set give the same file, byte for byte, on any number of threads.",
    NULL,
};
static const cli_example build_examples[] = {
    {"nearfield build base.fvecs -o base.nf", "an index with the usual settings"},
    {"nearfield build base.fbin -o base.nf --bits 3 --lists 4096", "a smaller one with lists of your choice"},
    {"nearfield build texts.npy -o texts.nf --metric cosine --keep-vectors", "cosines; rows kept for exact ranking"},
    {NULL, NULL},
};

static const char *const search_text[] = {
    "Finds about the k nearest rows of an index for each row of QUERIES. More probes find more of them and take "
    "longer; without --probes the index's own table says how many reach --recall.",
    "With --truth, recall is printed: the share of the true neighbours that were found; a row as near as the k-th "
    "true one counts too, so a truth with more than k neighbours a query is best where distances tie. Only the search "
    "itself is timed, not the reading of files.",
    NULL,
};
static const cli_example search_examples[] = {
    {"nearfield search base.nf query.fvecs -k 10 -o near.npz", "ten neighbours each, recall about 0.95"},
    {"nearfield search base.nf query.fvecs -k 10 --probes 8,16,32 --truth truth.npz", "a table of recall and speed"},
    {"nearfield search base.nf query.fvecs -k 10 --probes 16 --batch 1", "query by query, with latencies"},
    {"nearfield search base.nf query.fvecs -k 10 --exclude seen.npy -o new.csv", "without some rows"},
    {NULL, NULL},
};

static const char *const verify_text[] = {
    "Reads every byte of an index file and compares it with the checksums and with the rules of the format. What is "
    "wrong is said in one line that names the part and its bytes, with exit code 4.",
    NULL,
};
static const cli_example verify_examples[] = {{"nearfield verify base.nf", "sound, or what is wrong"}, {NULL, NULL}};

static const char *const info_text[] = {
    "Says what a file holds. Of vectors: format, rows, values in a row, type; the options say how to read the file "
    "where it does not say so itself. Of a graph (.npz of compressed sparse rows, or "
    ".bin, big-ann range truth): rows, columns, pairs. Of an index, which is known by how it begins: lists, "
    "bits, metric, recall.",
    NULL,
};
static const cli_example info_examples[] = {
    {"nearfield info points.npy", "format, rows, dims and type"},
    {"nearfield info base.nf", "an index"},
    {"nearfield info dump.raw --dtype f32 --dims 128", "a file without a header"},
    {NULL, NULL},
};

static const char *const convert_text[] = {
    "Reads vectors in one format and writes them in another. Nothing is rounded: a value that the output's type "
    "does not hold is an error that names its row and column.",
    NULL,
};
static const cli_example convert_examples[] = {
    {"nearfield convert points.csv points.npy", "text to NumPy"},
    {"nearfield convert base.fvecs part.fbin --rows 0:1000", "the first thousand rows"},
    {"nearfield convert table.csv xyz.npy --columns x,y,z", "three columns by name"},
    {NULL, NULL},
};

static const char *const generate_text[] = {
    "Makes data to try things on. KIND is uniform (in [0, 1)), exponential, mixture (Gaussian clusters, each on a "
    "random subspace) or lattice (integers). A row depends on the seed and its number alone, and is the same on "
    "every machine.",
    NULL,
};
static const cli_example generate_examples[] = {
    {"nearfield generate uniform -o cube.npy --rows 100000 --dims 3", "points in a cube"},
    {"nearfield generate mixture -o base.fbin --rows 1000000 --dims 128 --intrinsic 16",
     "vectors of low intrinsic dimension"},
    {"nearfield generate lattice -o grid.npy --rows 1000 --dims 3", "a grid of 10 x 10 x 10 points"},
    {NULL, NULL},
};

static const char *const doctor_text[] = {
    "Says what this machine offers and what the command would use, and joins a small set with each instruction "
    "set and each method to see that all give the right answer. Please add its output to a report of a problem.",
    NULL,
};
static const cli_example doctor_examples[] = {
    {"nearfield doctor", "processor, engines, limits, self-test"},
    {"nearfield doctor --json", "the same for programs"},
    {NULL, NULL},
};

static const char *const help_text[] = {"Explains a command, or lists them all.", NULL};
static const cli_example help_examples[] = {
    {"nearfield help join", "examples and options of join"},
    {"nearfield help --man > nearfield.1", "the manual page"},
    {NULL, NULL},
};

static const char *const version_text[] = {"Prints the version and what this build can use on this machine.", NULL};
static const cli_example version_examples[] = {{"nearfield version", "version and instruction sets"}, {NULL, NULL}};

const cli_command cli_commands[] = {
    {"join", "find all pairs of rows within a radius", "DATA [QUERIES] --radius R [-o FILE] [options]", join_text,
     join_examples, join_sets, 1, 2, cli_run_join},
    {"knn", "find the k nearest rows, exactly", "DATA [QUERIES] -k K [-o FILE] [options]", knn_text, knn_examples,
     knn_sets, 1, 2, cli_run_knn},
    {"dbscan", "cluster rows by density", "DATA --radius R [--min-samples M] [-o FILE] [options]", dbscan_text,
     dbscan_examples, dbscan_sets, 1, 1, cli_run_dbscan},
    {"components", "find connected components of rows", "DATA --radius R [-o FILE] [options]", components_text,
     components_examples, components_sets, 1, 1, cli_run_components},
    {"build", "make an index for approximate search", "DATA -o INDEX [options]", build_text, build_examples, build_sets,
     1, 1, cli_run_build},
    {"search", "find about the k nearest rows by an index",
     "INDEX QUERIES -k K [--probes P | --recall X] [-o FILE] [options]", search_text, search_examples, search_sets, 2,
     2, cli_run_search},
    {"verify", "check an index file", "INDEX [options]", verify_text, verify_examples, verify_sets, 1, 1,
     cli_run_verify},
    {"info", "say what a file holds", "FILE [options]", info_text, info_examples, info_sets, 1, 1, cli_run_info},
    {"convert", "change the format of a file of vectors", "IN OUT [options]", convert_text, convert_examples,
     convert_sets, 2, 2, cli_run_convert},
    {"generate", "make synthetic data", "KIND -o FILE [options]", generate_text, generate_examples, generate_sets, 1, 1,
     cli_run_generate},
    {"doctor", "look at this machine and test the library on it", "[options]", doctor_text, doctor_examples,
     doctor_sets, 0, 0, cli_run_doctor},
    {"help", "explain a command", "[COMMAND] [options]", help_text, help_examples, help_sets, 0, 1, cli_run_help},
    {"version", "print the version", "[options]", version_text, version_examples, version_sets, 0, 0, cli_run_version},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL},
};

const cli_command *cli_command_find(const char *name)
{
    for (const cli_command *command = cli_commands; command->name != NULL; command++) {
        if (strcmp(command->name, name) == 0) return command;
    }
    return NULL;
}
