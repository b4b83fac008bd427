/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of parameters, and setting a member by name. One row here is one option of the command line, one line of
 * its help and of the man page, and one name for the setters. */
#include "core_params.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core_error.h"
#include "nearfield/cluster.h"
#include "nearfield/io.h"
#include "nearfield/ivf.h"
#include "nearfield/neighbours.h"
#include "nearfield/radius.h"

#define AT(type, member) (uint32_t) offsetof(type, member)
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const nf_param context_params[] = {
    {"engine", NF_PARAM_CHOICE, AT(nf_context_params, engine), "NAME", "auto|cpu|cuda", "auto", 0, 0,
     "What does the work."},
    {"isa", NF_PARAM_CHOICE, AT(nf_context_params, isa), "NAME", "auto|scalar|avx2|avx512|neon", "auto", 0, 0,
     "Instruction set of the CPU engine; exact answers are the same for all."},
    {"device", NF_PARAM_I32, AT(nf_context_params, device), "N", NULL, "0", 0, 1024, "Number of the GPU."},
    {"threads", NF_PARAM_U32, AT(nf_context_params, threads), "N", NULL, "all processors", 0, 1024,
     "Threads to use; 0 stands for all processors."},
    {"memory", NF_PARAM_SIZE, AT(nf_context_params, memory), "SIZE", NULL, "80 % of RAM", 0, 0,
     "Most host memory to allocate, such as 512M or 8G; larger results go to disk."},
    {"gpu-memory", NF_PARAM_SIZE, AT(nf_context_params, gpu_memory), "SIZE", NULL, "what is free", 0, 0,
     "Most device memory to allocate."},
};

static const nf_param radius_params[] = {
    {"radius", NF_PARAM_F64, AT(nf_radius_params, radius), "R", NULL, "", 0, HUGE_VAL,
     "Greatest distance of a pair: plain distance, not squared; with --metric cosine 1 - cosine, below 1. R1:R2 also sets "
     "--inner-radius R1."},
    {"inner-radius", NF_PARAM_F64, AT(nf_radius_params, inner_radius), "R", NULL, "none", 0, HUGE_VAL,
     "Leave out the pairs within this radius, which is at most --radius."},
    {"similarity", NF_PARAM_F64, AT(nf_radius_params, similarity), "T", NULL, "", -1, 1,
     "Least cosine of a pair, with --metric cosine and in place of --radius: above 0, at most 1."},
    {"candidates", NF_PARAM_CHOICE, AT(nf_radius_params, candidates), "NAME", "auto|rt|bvh|boxes|none", "auto", 0, 0,
     "How candidate groups are found."},
    {"refine", NF_PARAM_CHOICE, AT(nf_radius_params, refine), "NAME", "auto|fp32|fp64|tensor|int8", "auto", 0, 0,
     "Arithmetic that decides the clear cases; the answer is the same for all."},
    {"distances", NF_PARAM_CHOICE, AT(nf_radius_params, distances), "TYPE", "f64|f32|none", "f64", 0, 0,
     "Type of the distances delivered."},
    {"sort", NF_PARAM_CHOICE, AT(nf_radius_params, sort), "KEY", "id|distance", "id", 0, 0,
     "Order inside a row; by distance means by distance, then id."},
    {"self", NF_PARAM_FLAG, AT(nf_radius_params, self), NULL, NULL, "", 0, 0,
     "Self-join: keep the pairs (i, i)."},
    {"half", NF_PARAM_FLAG, AT(nf_radius_params, half), NULL, NULL, "", 0, 0,
     "Self-join: deliver only pairs with i < j."},
    {"strict", NF_PARAM_FLAG, AT(nf_radius_params, strict), NULL, NULL, "", 0, 0,
     "Pairs nearer than the radius only (<), not those at it (<=)."},
    {"max-results", NF_PARAM_U64, AT(nf_radius_params, max_results), "N", NULL, "no limit", 0, 0,
     "Stop with an error when there are more pairs than that."},
    {"stop-at", NF_PARAM_U64, AT(nf_radius_params, stop_at), "M", NULL, "all are counted", 0, 0,
     "Counts only: count no more than M neighbours of a query."},
    {"tile", NF_PARAM_CHOICE, AT(nf_radius_params, share), "NAME", "both|points|queries|none", "both", 0, 0,
     "What refinement stages in shared memory: rows of DATA, queries, both; needs the cuda engine."},
    {"result", NF_PARAM_CHOICE, AT(nf_radius_params, result), "NAME", "auto|mask|mask-raw|pairs|append", "auto", 0, 0,
     "How results are kept on the device; needs the cuda engine."},
    {"group-bounds", NF_PARAM_CHOICE, AT(nf_radius_params, group_bounds), "NAME", "box|sphere", "box", 0, 0,
     "What bounds a group for candidates rt and bvh; needs the cuda engine."},
    {"no-early-exit", NF_PARAM_FLAG, AT(nf_radius_params, no_early_exit), NULL, NULL, "", 0, 0,
     "Let every comparison take all dims."},
};

/* The flag is another name for a group size of 1. */
static const nf_param radius_index_params[] = {
    {"metric", NF_PARAM_CHOICE, AT(nf_radius_index_params, metric), "NAME", "l2|ip|cosine", "l2", 0, 0,
     "What near means: Euclidean distance, or cosine of rows; inner products (ip) have no radius and are refused."},
    {"height", NF_PARAM_U32, AT(nf_radius_index_params, height), "H", NULL, "by --group-size", 0, NF_MAX_HEIGHT,
     "Height of the kd-tree: groups of rows / 2^H points."},
    {"group-size", NF_PARAM_U32, AT(nf_radius_index_params, group_size), "N", NULL, "fitted to the engine", 0, INT32_MAX,
     "Points in a group, in place of --height; the cpu engine takes at most 64."},
    {"no-grouping", NF_PARAM_FLAG, AT(nf_radius_index_params, group_size), NULL, NULL, "", 0, 0,
     "One box per point, as with --group-size 1."},
};

static const nf_param read_params[] = {
    {"rows", NF_PARAM_RANGE, AT(nf_read_params, rows), "A:B", NULL, "all", 0, 0,
     "Take rows A to B-1 only, counted from 0; ids stay those of the file."},
    {"columns", NF_PARAM_TEXT, AT(nf_read_params, columns), "LIST", NULL, "all", 0, 0,
     "Text files: columns to take, counted from 1 or by name, such as 1,3,5-8."},
    {"input-format", NF_PARAM_TEXT, AT(nf_read_params, format), "NAME", NULL, "by suffix", 0, 0,
     "Format of the input: npy, csv, tsv, txt, fvecs, bvecs, ivecs, fbin, u8bin, i8bin, f16bin, ibin, raw."},
    {"dtype", NF_PARAM_TEXT, AT(nf_read_params, dtype), "TYPE", NULL, "f32", 0, 0,
     "Raw files: type of the values, such as f32 or u8."},
    {"dims", NF_PARAM_U32, AT(nf_read_params, dims), "D", NULL, "", 0, 1048576, "Raw files: values in a row."},
    {"skip-invalid", NF_PARAM_FLAG, AT(nf_read_params, skip_invalid), NULL, NULL, "", 0, 0,
     "Leave out rows with NaN, infinity or (in text) missing values, and say how many."},
};

static const nf_param write_params[] = {
    {"format", NF_PARAM_TEXT, AT(nf_write_params, format), "NAME", NULL, "by suffix", 0, 0,
     "Format of the output; needed with '-o -'."},
    {"counts", NF_PARAM_FLAG, AT(nf_write_params, counts), NULL, NULL, "", 0, 0,
     "Write one number of neighbours per query instead of pairs."},
};

static const nf_param knn_params[] = {
    {"k", NF_PARAM_U32, AT(nf_knn_params, k), "K", NULL, "10", 1, NF_MAX_K, "Neighbours per query."},
    {"metric", NF_PARAM_CHOICE, AT(nf_knn_params, metric), "NAME", "l2|ip|cosine", "l2", 0, 0,
     "What near means: Euclidean distance, largest inner product, largest cosine."},
};

static const nf_param ivf_params[] = {
    {"lists", NF_PARAM_U32, AT(nf_ivf_params, lists), "N", NULL, "4 sqrt(rows)", 0, 1u << 24,
     "Clusters of rows; by default at most rows / 32 + 1."},
    {"bits", NF_PARAM_U32, AT(nf_ivf_params, bits), "B", NULL, "5", 1, 9, "Bits of a code per dimension."},
    {"metric", NF_PARAM_CHOICE, AT(nf_ivf_params, metric), "NAME", "l2|ip|cosine", "l2", 0, 0,
     "What near means: Euclidean distance, largest inner product, largest cosine."},
    {"rotation", NF_PARAM_CHOICE, AT(nf_ivf_params, rotation), "NAME", "fast|dense", "fast", 0, 0,
     "Random rotation: Hadamard with Kac's mixing, or a dense orthogonal matrix."},
    {"seed", NF_PARAM_U64, AT(nf_ivf_params, seed), "N", NULL, "1", 0, 0, "The same seed gives the same index."},
    {"iterations", NF_PARAM_U32, AT(nf_ivf_params, iterations), "N", NULL, "8", 0, 1000,
     "Rounds of k-means over all lists, after the hierarchical start."},
    {"train-rows", NF_PARAM_U32, AT(nf_ivf_params, train_rows), "N", NULL, "128", 1, 1000000,
     "Rows per list that k-means looks at."},
    {"keep-vectors", NF_PARAM_FLAG, AT(nf_ivf_params, keep_vectors), NULL, NULL, "", 0, 0,
     "Keep the rows as they came too, so that a search can rank its best candidates exactly."},
    {"recall-rows", NF_PARAM_U32, AT(nf_ivf_params, recall_rows), "N", NULL, "256", 0, 100000,
     "Rows on which recall by probes is measured after the build; 0: none."},
};

static const nf_param ivf_open_params[] = {
    {"mmap", NF_PARAM_FLAG, AT(nf_ivf_open_params, map), NULL, NULL, "", 0, 0,
     "Map the index file instead of reading it; it must not be changed meanwhile."},
    {"verify", NF_PARAM_CHOICE, AT(nf_ivf_open_params, verify), "HOW", "full|structure", "full", 0, 0,
     "Check every byte of the index, or only what a search relies on: header, sizes, lists."},
};

static const nf_param ivf_search_params[] = {
    {"k", NF_PARAM_U32, AT(nf_ivf_search_params, k), "K", NULL, "10", 1, NF_MAX_K, "Neighbours per query."},
    {"probes", NF_PARAM_U32, AT(nf_ivf_search_params, probes), "P", NULL, "by --recall", 0, 1u << 24,
     "Lists looked at per query."},
    {"recall", NF_PARAM_F64, AT(nf_ivf_search_params, recall), "X", NULL, "0.95", 0, 1,
     "Without --probes: as few lists as gave this recall@10 when the index was built."},
    {"epsilon0", NF_PARAM_F64, AT(nf_ivf_search_params, epsilon0), "E", NULL, "1.9", 0, HUGE_VAL,
     "Width of the lower bound that prunes, in standard deviations; inf prunes nothing."},
    {"precision", NF_PARAM_CHOICE, AT(nf_ivf_search_params, precision), "NAME",
     "auto|lut16|lut32|bitwise4|bitwise8|tile", "auto", 0, 0,
     "How queries are seen while short codes are scanned; all but auto need the cuda engine."},
    {"rerank", NF_PARAM_U32, AT(nf_ivf_search_params, rerank), "N", NULL, "0", 0, 1000000,
     "Rank the best N candidates by exact distance; the index must have been built with --keep-vectors."},
};

static const nf_param dbscan_params[] = {
    {"radius", NF_PARAM_F64, AT(nf_dbscan_params, radius), "R", NULL, "", 0, HUGE_VAL,
     "Greatest distance of neighbours: plain distance, not squared; with --metric cosine 1 - cosine, below 1."},
    {"similarity", NF_PARAM_F64, AT(nf_dbscan_params, similarity), "T", NULL, "", -1, 1,
     "Least cosine of neighbours, with --metric cosine and in place of --radius: above 0, at most 1."},
    {"min-samples", NF_PARAM_U32, AT(nf_dbscan_params, min_samples), "M", NULL, "5", 1, 4294967295.0,
     "Rows within the radius, the row itself counted, that make it a core row; 1: connected components."},
    {"strict", NF_PARAM_FLAG, AT(nf_dbscan_params, strict), NULL, NULL, "", 0, 0,
     "Distances must be smaller than the radius, not equal to it."},
};

const nf_param *nf_params(nf_param_group group, size_t *count)
{
    switch (group) {
    case NF_PARAMS_CONTEXT: *count = COUNT_OF(context_params); return context_params;
    case NF_PARAMS_RADIUS: *count = COUNT_OF(radius_params); return radius_params;
    case NF_PARAMS_READ: *count = COUNT_OF(read_params); return read_params;
    case NF_PARAMS_WRITE: *count = COUNT_OF(write_params); return write_params;
    case NF_PARAMS_KNN: *count = COUNT_OF(knn_params); return knn_params;
    case NF_PARAMS_IVF: *count = COUNT_OF(ivf_params); return ivf_params;
    case NF_PARAMS_IVF_OPEN: *count = COUNT_OF(ivf_open_params); return ivf_open_params;
    case NF_PARAMS_IVF_SEARCH: *count = COUNT_OF(ivf_search_params); return ivf_search_params;
    case NF_PARAMS_RADIUS_INDEX: *count = COUNT_OF(radius_index_params); return radius_index_params;
    case NF_PARAMS_DBSCAN: *count = COUNT_OF(dbscan_params); return dbscan_params;
    }
    *count = 0;
    return NULL;
}

/* Digits only: no sign, no spaces. */
static int parse_u64(const char *text, uint64_t *out)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') return -1;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0') return -1;
    *out = value;
    return 0;
}

/* Plain decimal or hexadecimal floating point, "inf" too. The decimal point is '.', whatever the locale: the text is
 * refused where the locale's strtod stops early. */
static int parse_f64(const char *text, double *out)
{
    char *end = NULL;
    if (text[0] == '\0' || text[0] == ' ' || text[0] == '\t') return -1;
    errno = 0;
    *out = strtod(text, &end);
    const bool overflow = errno == ERANGE && (*out > 1.0 || *out < -1.0); /* tiny values are rounded, not refused */
    return *end == '\0' && !overflow ? 0 : -1;
}

static int size_factor(const char *unit, double *factor)
{
    static const char letters[] = "KMGT";
    *factor = 1.0;
    if (unit[0] == '\0' || strcasecmp(unit, "B") == 0) return 0;
    const char *at = strchr(letters, unit[0] >= 'a' ? unit[0] - 'a' + 'A' : unit[0]);
    if (at == NULL || *at == '\0') return -1;
    for (long i = 0; i <= at - letters; i++) *factor *= 1024.0;
    return unit[1] == '\0' || strcasecmp(unit + 1, "B") == 0 || strcasecmp(unit + 1, "iB") == 0 ? 0 : -1;
}

int nf_parse_size(const char *text, uint64_t *bytes)
{
    char  *end = NULL;
    double factor;
    if (text[0] < '0' || text[0] > '9') return -1;
    const double number = strtod(text, &end);
    if (size_factor(end, &factor) != 0) return -1;
    if (!(number * factor < 9.0e18)) return -1;
    *bytes = (uint64_t)(number * factor);
    return 0;
}

/* "A:B" with either side missing; "A" alone is row A. */
static int parse_range(const char *text, uint64_t range[2])
{
    char        first[32];
    const char *colon = strchr(text, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);

    range[0] = 0;
    range[1] = UINT64_MAX;
    if (length >= sizeof first) return -1;
    memcpy(first, text, length);
    first[length] = '\0';
    if (length > 0 && parse_u64(first, &range[0]) != 0) return -1;
    if (colon == NULL) {
        if (length == 0 || range[0] == UINT64_MAX) return -1;
        range[1] = range[0] + 1;
    } else if (colon[1] != '\0' && parse_u64(colon + 1, &range[1]) != 0) {
        return -1;
    }
    return range[0] <= range[1] ? 0 : -1;
}

/* The position of value in "a|b|c", or -1. */
static int choice_index(const char *choices, const char *value)
{
    const size_t length = strlen(value);
    int          index = 0;
    for (const char *at = choices;; index++) {
        const size_t span = strcspn(at, "|");
        if (span == length && length > 0 && strncmp(at, value, length) == 0) return index;
        if (at[span] == '\0') return -1;
        at += span + 1;
    }
}

static const nf_param *find(nf_param_group group, const char *name)
{
    size_t          count;
    const nf_param *list = nf_params(group, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].name, name) == 0) return &list[i];
    }
    return NULL;
}

static bool in_range(const nf_param *param, double value)
{
    return (param->minimum == 0 && param->maximum == 0) || (value >= param->minimum && value <= param->maximum);
}

static nf_status set_number(const nf_param *param, char *member, const char *value, nf_error *error)
{
    uint64_t whole = 0;
    double   real = 0;
    int      bad = param->kind == NF_PARAM_F64 ? parse_f64(value, &real) : parse_u64(value, &whole);

    if (param->kind != NF_PARAM_F64) real = (double)whole;
    if (param->kind == NF_PARAM_U32 && whole > UINT32_MAX) bad = -1;
    if (param->kind == NF_PARAM_I32 && whole > INT32_MAX) bad = -1;
    if (bad != 0 || !in_range(param, real)) {
        if (param->maximum > 0 && param->maximum < HUGE_VAL) {
            return nf_error_set(error, NF_ERR_ARGUMENT, "%s is '%s', allowed are numbers from %.17g to %.17g", param->name,
                                value, param->minimum, param->maximum);
        }
        return nf_error_set(error, NF_ERR_ARGUMENT, "%s is '%s', a number of at least 0 is needed", param->name, value);
    }
    if (param->kind == NF_PARAM_F64) memcpy(member, &real, sizeof real);
    if (param->kind == NF_PARAM_U64) memcpy(member, &whole, sizeof whole);
    if (param->kind == NF_PARAM_U32 || param->kind == NF_PARAM_I32) {
        const uint32_t narrow = (uint32_t)whole;
        memcpy(member, &narrow, sizeof narrow);
    }
    return NF_OK;
}

static nf_status set_choice(const nf_param *param, char *member, const char *value, nf_error *error)
{
    const int index = choice_index(param->choices, value);
    if (index < 0) {
        return nf_error_set(error, NF_ERR_ARGUMENT, "%s is '%s', allowed are %s", param->name, value, param->choices);
    }
    const uint32_t stored = (uint32_t)index;
    memcpy(member, &stored, sizeof stored);
    return NF_OK;
}

static nf_status set_flag(const nf_param *param, char *member, const char *value, nf_error *error)
{
    uint32_t stored = 1;
    if (value != NULL && strcmp(value, "0") == 0) {
        stored = 0;
    } else if (value != NULL && strcmp(value, "1") != 0) {
        return nf_error_set(error, NF_ERR_ARGUMENT, "%s is '%s', allowed are 0 and 1", param->name, value);
    }
    memcpy(member, &stored, sizeof stored);
    return NF_OK;
}

/* "R1:R2" as a radius: the inner one and the outer one. Both are set, or none. */
static nf_status set_ring(nf_radius_params *params, const char *value, const char *colon, nf_error *error)
{
    nf_radius_params both = *params;
    char             inner[64];
    const size_t     length = (size_t)(colon - value);

    if (length >= sizeof inner) return nf_error_set(error, NF_ERR_ARGUMENT, "radius is '%s', R or R1:R2 is needed", value);
    memcpy(inner, value, length);
    inner[length] = '\0';
    NF_TRY(nf_params_set(NF_PARAMS_RADIUS, &both, "inner-radius", inner, error));
    NF_TRY(nf_params_set(NF_PARAMS_RADIUS, &both, "radius", colon + 1, error));
    *params = both;
    return NF_OK;
}

nf_status nf_params_set(nf_param_group group, void *params, const char *name, const char *value, nf_error *error)
{
    if (params == NULL || name == NULL) return nf_error_set(error, NF_ERR_ARGUMENT, "parameters or name are NULL");
    const nf_param *param = find(group, name);
    if (param == NULL) return nf_error_set(error, NF_ERR_ARGUMENT, "there is no parameter '%s'", name);
    char *member = (char *)params + param->offset;
    if (param->kind == NF_PARAM_FLAG) return set_flag(param, member, value, error);
    if (value == NULL) return nf_error_set(error, NF_ERR_ARGUMENT, "%s needs a value", name);
    const char *colon = group == NF_PARAMS_RADIUS && strcmp(name, "radius") == 0 ? strchr(value, ':') : NULL;
    if (colon != NULL) return set_ring(params, value, colon, error);

    uint64_t bytes, range[2];
    switch (param->kind) {
    case NF_PARAM_CHOICE: return set_choice(param, member, value, error);
    case NF_PARAM_TEXT: memcpy(member, &value, sizeof value); return NF_OK;
    case NF_PARAM_SIZE:
        if (nf_parse_size(value, &bytes) != 0) {
            return nf_error_set(error, NF_ERR_ARGUMENT, "%s is '%s', a size such as 512M or 8G is needed", name, value);
        }
        memcpy(member, &bytes, sizeof bytes);
        return NF_OK;
    case NF_PARAM_RANGE:
        if (parse_range(value, range) != 0) {
            return nf_error_set(error, NF_ERR_ARGUMENT, "%s is '%s', rows A:B with A <= B are needed", name, value);
        }
        memcpy(member, range, sizeof range);
        return NF_OK;
    default: return set_number(param, member, value, error);
    }
}

nf_status nf_radius_params_set(nf_radius_params *params, const char *name, const char *value, nf_error *error)
{
    return nf_params_set(NF_PARAMS_RADIUS, params, name, value, error);
}

nf_status nf_radius_index_params_set(nf_radius_index_params *params, const char *name, const char *value,
                                     nf_error *error)
{
    return nf_params_set(NF_PARAMS_RADIUS_INDEX, params, name, value, error);
}

nf_status nf_read_params_set(nf_read_params *params, const char *name, const char *value, nf_error *error)
{
    return nf_params_set(NF_PARAMS_READ, params, name, value, error);
}

nf_status nf_write_params_set(nf_write_params *params, const char *name, const char *value, nf_error *error)
{
    return nf_params_set(NF_PARAMS_WRITE, params, name, value, error);
}

nf_status nf_knn_params_set(nf_knn_params *params, const char *name, const char *value, nf_error *error)
{
    return nf_params_set(NF_PARAMS_KNN, params, name, value, error);
}

nf_status nf_dbscan_params_set(nf_dbscan_params *params, const char *name, const char *value, nf_error *error)
{
    return nf_params_set(NF_PARAMS_DBSCAN, params, name, value, error);
}

nf_status nf_ivf_params_set(nf_ivf_params *params, const char *name, const char *value, nf_error *error)
{
    return nf_params_set(NF_PARAMS_IVF, params, name, value, error);
}

nf_status nf_ivf_open_params_set(nf_ivf_open_params *params, const char *name, const char *value, nf_error *error)
{
    return nf_params_set(NF_PARAMS_IVF_OPEN, params, name, value, error);
}

nf_status nf_ivf_search_params_set(nf_ivf_search_params *params, const char *name, const char *value, nf_error *error)
{
    return nf_params_set(NF_PARAMS_IVF_SEARCH, params, name, value, error);
}
