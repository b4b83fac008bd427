/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield doctor: what this machine offers, what would be used, and a self-test. */
#include "cli_doctor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli_command.h"
#include "cli_error.h"
#include "cli_report.h"
#include "cli_text.h"

#define TEST_COUNT 5

/* What is tested, each by itself. */
static const struct {
    const char    *name;
    nf_engine_kind engine;
    nf_isa         isa;
} tests[TEST_COUNT] = {
    {"scalar", NF_ENGINE_CPU, NF_ISA_SCALAR},
    {"avx2", NF_ENGINE_CPU, NF_ISA_AVX2},
    {"avx512", NF_ENGINE_CPU, NF_ISA_AVX512},
    {"neon", NF_ENGINE_CPU, NF_ISA_NEON},
    {"cuda", NF_ENGINE_CUDA, NF_ISA_AUTO},
};
static const char *const result_names[] = {"passed", "left out", "FAILED"};

/* What the kernels use or may use, as the operating system names it. */
static const char *const flags_of_interest[] = {"sse4_2",      "avx",         "f16c",     "fma",      "avx2",
                                                "bmi2",        "avx512f",     "avx512bw", "avx512vl", "avx512dq",
                                                "avx512_vnni", "avx512_fp16", "amx_int8", "asimd",    "asimddp",  "sve"};

typedef struct doctor {
    nf_context_info     info;
    nf_engine_info      cuda, choice;
    uint64_t            ram;
    char                cpu[128];
    char                flags[256];
    cli_selftest_result results[TEST_COUNT];
    char                texts[TEST_COUNT][CLI_SELFTEST_TEXT];
} doctor;

/* The value of a line "name : value", or NULL. */
static const char *line_value(const char *line, const char *name)
{
    const size_t length = strlen(name);
    const char  *colon = strchr(line, ':');
    if (strncmp(line, name, length) != 0 || colon == NULL) return NULL;
    if (line[length] != ' ' && line[length] != '\t' && line[length] != ':') return NULL;
    return colon + 1 + strspn(colon + 1, " \t");
}

/* Whether a list separated by spaces holds a word. */
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
        const bool begins = at == list || at[-1] == ' ';
        if (begins && (at[length] == ' ' || at[length] == '\n' || at[length] == '\0')) return true;
    }
    return false;
}

static void take_flags(doctor *d, const char *list)
{
    for (size_t i = 0; i < sizeof flags_of_interest / sizeof flags_of_interest[0]; i++) {
        const size_t used = strlen(d->flags);
        if (!has_word(list, flags_of_interest[i])) continue;
        snprintf(d->flags + used, sizeof d->flags - used, "%s%s", used > 0 ? " " : "", flags_of_interest[i]);
    }
}

static void read_cpu(doctor *d)
{
    char  line[8192];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(d->cpu, sizeof d->cpu, "unknown");
    if (file == NULL) return;
    while (fgets(line, sizeof line, file) != NULL && d->flags[0] == '\0') {
        const char *name = line_value(line, "model name");
        const char *flags = line_value(line, "flags");
        if (flags == NULL) flags = line_value(line, "Features");
        if (name != NULL) snprintf(d->cpu, sizeof d->cpu, "%.*s", (int)strcspn(name, "\n"), name);
        if (flags != NULL) take_flags(d, flags);
    }
    fclose(file);
}

static uint64_t read_ram(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

/* Size and free part of a GPU's memory are those of the moment. */
static void print_cuda(FILE *to, const nf_engine_info *cuda)
{
    fprintf(to, "cuda       %s%s\n", cuda->usable != 0 ? "available" : "cannot be used: ", cuda->reason);
    if (cuda->device[0] != '\0') fprintf(to, "  device   %s\n", cuda->device);
    if (cuda->driver[0] != '\0') fprintf(to, "  driver   %s\n", cuda->driver);
    if (cuda->memory_total != 0) {
        fprintf(to, "  memory   %s, free %s\n", cli_bytes(cuda->memory_total).text, cli_bytes(cuda->memory_free).text);
    }
    if (cuda->usable != 0 && cuda->rt_core_version > 0) {
        fprintf(to, "  RT cores version %d.%d\n", cuda->rt_core_version / 10, cuda->rt_core_version % 10);
    } else if (cuda->usable != 0) {
        fprintf(to, "  RT cores %s\n", cuda->rt_core_version == 0 ? "none" : "not known");
    }
    if (cuda->ray_tracing[0] != '\0') fprintf(to, "  tracing  %s\n", cuda->ray_tracing);
}

static void fill_cuda(cli_json *json, const nf_engine_info *cuda)
{
    cli_json_open(json, "gpu");
    cli_json_flag(json, "usable", cuda->usable != 0);
    if (cuda->device[0] != '\0') cli_json_text(json, "device", cuda->device);
    if (cuda->driver[0] != '\0') cli_json_text(json, "driver", cuda->driver);
    if (cuda->memory_total != 0) {
        cli_json_count(json, "memory_total", cuda->memory_total);
        cli_json_count(json, "memory_free", cuda->memory_free);
    }
    if (cuda->rt_core_version >= 0) cli_json_count(json, "rt_core_version", (uint64_t)cuda->rt_core_version);
    if (cuda->ray_tracing[0] != '\0') cli_json_text(json, "ray_tracing", cuda->ray_tracing);
    cli_json_close(json);
}

static void print_text(FILE *to, const doctor *d)
{
    fprintf(to, "version    nearfield %s\n", nf_version());
    fprintf(to, "processor  %s\n", d->cpu);
    fprintf(to, "flags      %s\n", d->flags);
    fprintf(to, "memory     %s, limit %s\n", cli_bytes(d->ram).text, cli_bytes(d->info.memory_limit).text);
    fprintf(to, "cpu        available with %s, %u thread%s\n", d->info.isa, d->info.threads,
            d->info.threads == 1 ? "" : "s");
    print_cuda(to, &d->cuda);
    fprintf(to, "auto       %s\n", d->choice.reason);
    fprintf(to, "self-test\n");
    for (uint32_t i = 0; i < TEST_COUNT; i++) {
        fprintf(to, "  %-8s %s%s%s\n", tests[i].name, result_names[d->results[i]], d->texts[i][0] != '\0' ? ": " : "",
                d->texts[i]);
    }
}

static void fill_object(cli_json *json, const cli_run *run, const doctor *d)
{
    cli_report_begin(run, json);
    cli_json_text(json, "processor", d->cpu);
    cli_json_text(json, "flags", d->flags);
    cli_json_count(json, "ram", d->ram);
    cli_json_count(json, "memory_limit", d->info.memory_limit);
    cli_json_text(json, "engine", d->info.engine);
    cli_json_text(json, "isa", d->info.isa);
    cli_json_count(json, "threads", d->info.threads);
    cli_json_open(json, "engines");
    cli_json_text(json, "cpu", "available");
    cli_json_text(json, "cuda", d->cuda.usable != 0 ? "available" : d->cuda.reason);
    cli_json_text(json, "auto", d->choice.reason);
    cli_json_close(json);
    fill_cuda(json, &d->cuda);
    cli_json_open(json, "self_test");
    for (uint32_t i = 0; i < TEST_COUNT; i++) {
        cli_json_text(json, tests[i].name, d->texts[i][0] != '\0' ? d->texts[i] : result_names[d->results[i]]);
    }
    cli_json_close(json);
}

/* An engine that cannot be described is one that cannot be used. */
static void read_engines(const cli_run *run, doctor *d)
{
    const int32_t device = run->settings.context.device;
    d->cuda.struct_size = sizeof d->cuda;
    d->choice.struct_size = sizeof d->choice;
    if (nf_engine_describe(NF_ENGINE_CUDA, device, &d->cuda) != NF_OK) d->cuda.usable = 0;
    if (nf_engine_describe(NF_ENGINE_AUTO, device, &d->choice) != NF_OK) d->choice.usable = 0;
}

int cli_run_doctor(cli_run *run)
{
    doctor   d = {.ram = read_ram()};
    FILE    *to = cli_report_stream(run);
    cli_json json = {0};
    bool     failed = false;
    int      code = cli_open_context(run);

    if (code != 0) return code;
    nf_context_describe(run->ctx, &d.info);
    read_engines(run, &d);
    read_cpu(&d);
    for (uint32_t i = 0; i < TEST_COUNT; i++) {
        d.results[i] = cli_selftest(tests[i].engine, tests[i].isa, run->settings.context.device, d.texts[i]);
        failed = failed || d.results[i] == CLI_TEST_FAILED;
    }
    if (to != NULL) print_text(to, &d);
    fill_object(&json, run, &d);
    cli_json_flag(&json, "passed", !failed);
    cli_json_close(&json);
    code = cli_report_json(run, &json);
    if (code == 0 && failed) code = cli_fail(run, CLI_FAILED, NF_ERR_INTERNAL, "the self-test failed");
    return code;
}
