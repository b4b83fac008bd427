/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times joins as RT-HiSS (section V-A) counts them: everything but reading the file, all results in host memory. Reads or
 * generates the data once, then builds the index and answers the join --repeat times in one process, each time from the
 * matrix in host memory to results in fresh host memory, and prints one line of JSON per run.
 *
 * Usage: bench_radius FILE|KIND:ROWS:DIMS[:CLUSTERS:INTRINSIC:SPREAD] RADIUS|- [--NAME VALUE]...
 *   names of nf_context_params and nf_radius_params ("engine", "gpu-memory", "candidates", "distances", ...), and
 *   repeat N (default 1), counts 0|1, height H, group-size N, first-queries M (a semi-join of the first M rows as queries),
 *   share 0..3, result 0..4, bounds 0|1, early-exit 0|1,
 *   stream 0|1 (results come to the host in batches, each given back when the next one comes: for results that the host's
 *   memory does not hold), keep-index 0|1 (an index is built once and used again; seconds are then those of the query)
 *
 * With - questions come from standard input, one a line: RADIUS [--NAME VALUE]..., on top of the command line's options.
 * Every line is answered by the runs' lines and {"answered": true} or {"answered": false, "error": TEXT}. The line
 * "save FILE" writes the values of the data, row by row, as they lie in memory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nearfield/nearfield.h>

#define LONGEST_LINE 1024
#define MOST_WORDS 64

typedef struct setting {
    nf_context_params      context;
    nf_radius_params       radius;
    nf_radius_index_params index;
    uint64_t               repeat, first_queries;
    int                    counts, stream, keep_index;
} setting;

/* The data: a file that was read, or memory that was filled. */
typedef struct source {
    nf_dataset *file;
    nf_matrix   matrix;
    void       *memory;
} source;

/* What lives from one question to the next. */
typedef struct session {
    nf_context            *ctx;
    nf_context_params      context; /* that ctx was made with */
    source                 data;
    uint64_t              *counts;
    nf_radius_index       *index;   /* kept */
    nf_radius_index_params index_params;
    char                   error[1024];
} session;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int take_option(setting *to, const char *name, const char *value, nf_error *error)
{
    const uint64_t number = strtoull(value, NULL, 10);
    if (strcmp(name, "repeat") == 0) to->repeat = number;
    else if (strcmp(name, "counts") == 0) to->counts = number != 0;
    else if (strcmp(name, "height") == 0) to->index.height = (uint32_t)number;
    else if (strcmp(name, "group-size") == 0) to->index.group_size = (uint32_t)number;
    else if (strcmp(name, "first-queries") == 0) to->first_queries = number;
    else if (strcmp(name, "share") == 0) to->radius.share = (uint32_t)number;
    else if (strcmp(name, "result") == 0) to->radius.result = (uint32_t)number;
    else if (strcmp(name, "bounds") == 0) to->radius.group_bounds = (uint32_t)number;
    else if (strcmp(name, "early-exit") == 0) to->radius.no_early_exit = number == 0;
    else if (strcmp(name, "stream") == 0) to->stream = number != 0;
    else if (strcmp(name, "keep-index") == 0) to->keep_index = number != 0;
    else if (nf_context_params_set(&to->context, name, value, NULL) != NF_OK) {
        return nf_radius_params_set(&to->radius, name, value, error) == NF_OK;
    }
    return 1;
}

/* RADIUS [--NAME VALUE]... */
static int take_question(setting *to, int count, char **words, nf_error *error)
{
    char *end;
    to->radius.radius = strtod(words[0], &end);
    if (*end != '\0' || count % 2 == 0) {
        snprintf(error->text, sizeof error->text, "expected RADIUS [--NAME VALUE]...");
        return 0;
    }
    for (int i = 1; i < count; i += 2) {
        if (strncmp(words[i], "--", 2) != 0) {
            snprintf(error->text, sizeof error->text, "%s is no option", words[i]);
            return 0;
        }
        if (!take_option(to, words[i] + 2, words[i + 1], error)) return 0;
    }
    return 1;
}

/* ---- one run ---- */

static int fail(session *of, const char *text)
{
    snprintf(of->error, sizeof of->error, "%s", text);
    return 1;
}

static int fail_context(session *of)
{
    return fail(of, nf_context_error(of->ctx)->text);
}

/* Variance of the queries' counts: what the mean of a sample of queries is worth. */
static double variance(const uint64_t *counts, uint64_t queries)
{
    double sum = 0.0, squares = 0.0;
    for (uint64_t i = 0; i < queries; i++) sum += (double)counts[i];
    const double mean = sum / (double)queries;
    for (uint64_t i = 0; i < queries; i++) squares += ((double)counts[i] - mean) * ((double)counts[i] - mean);
    return queries > 1 ? squares / (double)(queries - 1) : 0.0;
}

static void print_run(const session *of, const setting *with, const nf_radius_stats *stats, double seconds)
{
    nf_context_info info;
    nf_context_describe(of->ctx, &info);
    printf("{\"device\": \"%s\", \"rows\": %" PRIu64 ", \"queries\": %" PRIu64 ", \"dims\": %u, \"radius\": %.17g, ",
           info.device, stats->rows, stats->queries, stats->dims, with->radius.radius);
    printf("\"results\": \"%s\", \"seconds\": %.6f, \"build_seconds\": %.6f, \"index_kept\": %s, ",
           with->counts ? "counts" : with->stream ? "stream" : "csr", seconds, stats->build_seconds,
           with->keep_index ? "true" : "false");
    printf("\"pairs\": %" PRIu64 ", \"selectivity\": %.3f, ", stats->pairs,
           stats->queries > 0 ? (double)stats->pairs / (double)stats->queries : 0.0);
    if (with->counts) printf("\"count_variance\": %.3f, ", variance(of->counts, stats->queries));
    printf("\"candidates\": \"%s\", \"refine\": \"%s\", \"hits\": %" PRIu64 ", \"compared\": %" PRIu64 ", ",
           nf_candidates_name(stats->candidates), stats->refine, stats->hits, stats->compared);
    printf("\"pruned_share\": %.6f, \"rechecked\": %" PRIu64 ", \"ties\": %" PRIu64 ", ",
           1.0 - (double)stats->compared / ((double)stats->rows * (double)stats->queries), stats->rechecked, stats->ties);
    printf("\"batches\": %" PRIu64 ", \"device_batches\": %" PRIu64 ", \"steps\": {", stats->batches, stats->device_batches);
    for (uint32_t step = 0; step < NF_STEP_COUNT; step++) {
        printf("%s\"%s\": %.6f", step > 0 ? ", " : "", nf_radius_step_name(step), stats->step_seconds[step]);
    }
    printf("}}\n");
    fflush(stdout);
}

static nf_status run_stream(session *of, const nf_radius_index *index, const nf_matrix *asked, const setting *with,
                            nf_radius_stats *stats)
{
    nf_radius_stream *stream = NULL;
    nf_radius_batch   batch;
    nf_status         status = nf_radius_open(of->ctx, index, asked, &with->radius, &stream);
    if (status != NF_OK) return status;
    while ((status = nf_radius_next(stream, &batch)) == NF_MORE) {}
    nf_radius_stream_stats(stream, stats);
    nf_radius_close(stream);
    return status;
}

static int make_index(session *of, const setting *with)
{
    const int same = of->index != NULL && memcmp(&of->index_params, &with->index, sizeof with->index) == 0;
    if (with->keep_index && same) return 0;
    nf_radius_index_release(of->index);
    of->index = NULL;
    of->index_params = with->index;
    return nf_radius_index_create(of->ctx, &of->data.matrix, &with->index, &of->index) == NF_OK ? 0 : fail_context(of);
}

static int run_once(session *of, const setting *with)
{
    nf_csr          *csr = NULL;
    nf_radius_stats  stats = {.struct_size = sizeof stats};
    nf_matrix        queries = of->data.matrix;
    const nf_matrix *asked = NULL;
    nf_status        status;

    if (with->first_queries > 0) {
        if (with->first_queries < queries.rows) queries.rows = with->first_queries;
        asked = &queries;
    }
    if (with->keep_index && make_index(of, with)) return 1;
    const double started = now();
    if (!with->keep_index && make_index(of, with)) return 1;
    if (with->counts) status = nf_radius_counts(of->ctx, of->index, asked, &with->radius, of->counts, &stats);
    else if (with->stream) status = run_stream(of, of->index, asked, with, &stats);
    else status = nf_radius_csr(of->ctx, of->index, asked, &with->radius, &csr, &stats);
    const double seconds = now() - started;
    const int    failed = status == NF_OK ? 0 : fail_context(of);
    if (!failed) print_run(of, with, &stats, seconds);
    nf_csr_release(csr);
    return failed;
}

/* A context lives as long as its parameters stay: a process that asks many questions starts its device once. */
static int make_context(session *of, const setting *with)
{
    nf_error error;
    if (of->ctx != NULL && memcmp(&of->context, &with->context, sizeof with->context) == 0) return 0;
    nf_radius_index_release(of->index);
    of->index = NULL;
    nf_context_destroy(of->ctx);
    of->ctx = NULL;
    of->context = with->context;
    return nf_context_create(&with->context, &of->ctx, &error) == NF_OK ? 0 : fail(of, error.text);
}

static int answer(session *of, const setting *with)
{
    int failed = make_context(of, with);
    for (uint64_t i = 0; i < with->repeat && !failed; i++) failed = run_once(of, with);
    if (!with->keep_index) {
        nf_radius_index_release(of->index);
        of->index = NULL;
    }
    return failed;
}

/* ---- data ---- */

/* KIND:ROWS:DIMS[:CLUSTERS:INTRINSIC:SPREAD] is generated (binary32, seed 1), anything else is a file. */
static int load(session *of, const char *what)
{
    nf_generate_params params;
    char               kind[32];
    source            *out = &of->data;
    nf_generate_params_init(&params);
    const int found = sscanf(what, "%31[a-z]:%" SCNu64 ":%u:%u:%u:%lf", kind, &params.rows, &params.dims, &params.clusters,
                             &params.intrinsic, &params.spread);
    if (found < 3 || nf_generate_kind_from_name(kind) < 0) {
        if (nf_read_matrix(of->ctx, what, NULL, &out->file) != NF_OK) return fail_context(of);
        out->matrix = *nf_dataset_matrix(out->file);
        return 0;
    }
    params.kind = (uint32_t)nf_generate_kind_from_name(kind);
    out->memory = malloc(params.rows * params.dims * sizeof(float));
    out->matrix = (nf_matrix){.data = out->memory, .rows = params.rows, .dims = params.dims, .dtype = NF_DTYPE_F32};
    if (out->memory == NULL) return fail(of, "not enough memory for the data");
    return nf_generate(of->ctx, &params, 0, params.rows, out->memory) == NF_OK ? 0 : fail_context(of);
}

static int save(session *of, const char *path)
{
    const nf_matrix *matrix = &of->data.matrix;
    const size_t     count = (size_t)matrix->rows * matrix->dims;
    if (of->data.memory == NULL) return fail(of, "only generated data can be saved");
    FILE *file = fopen(path, "wb");
    if (file == NULL) return fail(of, "cannot open the file to save");
    const size_t written = fwrite(of->data.memory, sizeof(float), count, file);
    return fclose(file) == 0 && written == count ? 0 : fail(of, "cannot write the file to save");
}

/* ---- questions ---- */

static void print_answered(const session *of, int failed)
{
    printf("{\"answered\": %s", failed ? "false" : "true");
    if (failed) printf(", \"error\": \"");
    for (const char *c = of->error; failed && *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') putchar('\\');
        putchar(*c == '\n' ? ' ' : *c);
    }
    printf(failed ? "\"}\n" : "}\n");
    fflush(stdout);
}

static int answer_line(session *of, const setting *defaults, char *line)
{
    char    *words[MOST_WORDS];
    int      count = 0;
    setting  with = *defaults;
    nf_error error = {0};
    for (char *word = strtok(line, " \n"); word != NULL && count < MOST_WORDS; word = strtok(NULL, " \n")) {
        words[count++] = word;
    }
    if (count == 0) return fail(of, "empty line");
    if (count == 2 && strcmp(words[0], "save") == 0) return save(of, words[1]);
    return take_question(&with, count, words, &error) ? answer(of, &with) : fail(of, error.text);
}

static int converse(session *of, const setting *defaults)
{
    char line[LONGEST_LINE];
    while (fgets(line, sizeof line, stdin) != NULL) print_answered(of, answer_line(of, defaults, line));
    return 0;
}

static void close_session(session *of)
{
    free(of->counts);
    nf_radius_index_release(of->index);
    nf_dataset_release(of->data.file);
    free(of->data.memory);
    nf_context_destroy(of->ctx);
}

int main(int argc, char **argv)
{
    setting  with = {.repeat = 1};
    session  of = {0};
    nf_error error = {0};
    char     zero[] = "0";

    if (argc < 3 || argc % 2 == 0) {
        fprintf(stderr, "usage: bench_radius FILE|KIND:ROWS:DIMS[:CLUSTERS:INTRINSIC:SPREAD] RADIUS|- [--NAME VALUE]...\n");
        return 2;
    }
    const int asks = strcmp(argv[2], "-") == 0;
    if (asks) argv[2] = zero;
    memset(&with.context, 0, sizeof with.context); /* padding too: settings are compared as bytes */
    nf_context_params_init(&with.context);
    nf_radius_params_init(&with.radius);
    nf_radius_index_params_init(&with.index);
    if (!take_question(&with, argc - 2, argv + 2, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    int failed = make_context(&of, &with) || load(&of, argv[1]);
    if (!failed) {
        of.counts = calloc(of.data.matrix.rows + 1, sizeof *of.counts);
        if (of.counts == NULL) failed = fail(&of, "not enough memory for the counts");
        else failed = asks ? converse(&of, &with) : answer(&of, &with);
    }
    if (failed) fprintf(stderr, "%s\n", of.error);
    close_session(&of);
    return failed;
}
