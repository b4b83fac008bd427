/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the cuda module, and choosing an engine: with modules made to be wrong (tests/modules), each in a folder of its
 * own. A process opens the module once, so what goes through a context runs in a process per case.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core_context.h"
#include "engine/engine.h"
#include "engine/engine_loader.h"
#include "nearfield/nearfield.h"

#define MANY 50000u /* rows from which on AUTO looks for a GPU */

/* ---- folders and processes ---- */

static char work[] = "/tmp/nearfield-loader-XXXXXX";

static const char *kind_folder(const char *kind)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/modules/%s", getenv("BUILD_DIR"), kind);
    return path;
}

static void set_folder(const char *path)
{
    assert_int_equal(setenv("NEARFIELD_MODULE_DIR", path, 1), 0);
}

static void copy_file(const char *from, const char *to)
{
    char   buffer[65536];
    FILE  *in = fopen(from, "rbe"), *out = fopen(to, "wbe");
    size_t count;
    if (in == NULL || out == NULL) fail_msg("cannot copy %s to %s", from, to);
    while ((count = fread(buffer, 1, sizeof buffer, in)) > 0) assert_int_equal(fwrite(buffer, 1, count, out), count);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(to, 0755), 0);
}

/* A folder inside the folder of this run. */
static const char *make_folder(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", work, name);
    assert_int_equal(mkdir(path, 0755), 0);
    return path;
}

/* What a case found; in memory that the process that runs it shares with the test. */
typedef struct outcome {
    int       done; /* the case ran to its end */
    nf_status status, second;
    int       native;
    char      text[1024];
    char      engine[16], device[64], why[NF_ENGINE_WHY];
} outcome;

typedef void case_fn(outcome *out);

/* Runs a case with a folder of modules, and NEARFIELD_ENGINE (NULL: not set), in a process of its own. */
static outcome in_process(case_fn *fn, const char *folder, const char *engine)
{
    outcome *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        setenv("NEARFIELD_MODULE_DIR", folder, 1);
        if (engine != NULL) setenv("NEARFIELD_ENGINE", engine, 1);
        fn(shared);
        shared->done = 1;
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(process, &how, 0), process);
    const outcome result = *shared;
    munmap(shared, sizeof *shared);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_int_equal(result.done, 1);
    return result;
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("'%s' is not in '%s'", part, text);
}

/* ---- opening a file ---- */

static void refuses(const char *folder, const char *part)
{
    nf_loaded_module loaded;
    set_folder(folder);
    nf_engine_load_module("cuda", &loaded);
    assert_null(loaded.module);
    has(loaded.reason, part);
}

static void test_reasons(void **state)
{
    (void)state;
    const char *empty = make_folder("empty");
    refuses(empty, "is not there: no libnearfield-cuda.so in /tmp/nearfield-loader-");
    refuses("/nonexistent", "in /nonexistent");
    refuses("modules", "NEARFIELD_MODULE_DIR is 'modules', an absolute path is needed");
    refuses(kind_folder("no_entry"), "has no entry point nf_engine_module");
    refuses(kind_folder("null"), "does not work with this library, version " NF_VERSION);
    refuses(kind_folder("other_version"), "is version 0.0.77, this library " NF_VERSION);
    refuses(kind_folder("other_abi"), "has interface ");
    refuses(kind_folder("other_name"), "calls itself coda");

    char        path[2 * PATH_MAX];
    const char *folder = make_folder("text");
    snprintf(path, sizeof path, "%s/libnearfield-cuda.so", folder);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs("no object\n", file);
    fclose(file);
    refuses(folder, "cannot be loaded: ");
}

static void test_opens(void **state)
{
    (void)state;
    nf_loaded_module loaded, again;
    set_folder(kind_folder("healthy"));
    nf_engine_load_module("cuda", &loaded);
    assert_string_equal(loaded.reason, "");
    assert_non_null(loaded.module);
    assert_string_equal(loaded.module->version, NF_VERSION);
    nf_engine_load_module("cuda", &again);
    assert_ptr_equal(again.module, loaded.module);
    nf_engine_load_module("other", &again);
    assert_null(again.module);
    has(again.reason, "the other module is not there: no libnearfield-other.so in ");
}

/* What a copy of this program says that lies in a folder and runs in another; see main. */
static void ask_copy(const char *program, const char *directory, char answer[2048])
{
    char command[4 * PATH_MAX];
    snprintf(command, sizeof command, "cd '%s' && env -u NEARFIELD_MODULE_DIR PATH='%s':\"$PATH\" '%s' probe", directory,
             directory, program);
    FILE        *pipe = popen(command, "re");
    const size_t length = pipe != NULL ? fread(answer, 1, 2047, pipe) : 0;
    answer[length] = '\0';
    assert_non_null(pipe);
    assert_int_equal(pclose(pipe), 0);
}

/* Without the variable: beside the program, never in the current directory. */
static void test_own_folder(void **state)
{
    (void)state;
    char module[2 * PATH_MAX], own[PATH_MAX], program[2 * PATH_MAX], to[2 * PATH_MAX], answer[2048];
    snprintf(own, sizeof own, "%s", make_folder("own"));
    snprintf(program, sizeof program, "%s/program", own);
    copy_file("/proc/self/exe", program);

    snprintf(module, sizeof module, "%s/libnearfield-cuda.so", kind_folder("null"));
    ask_copy(program, kind_folder("null"), answer);
    assert_null(strstr(answer, kind_folder("null")));
    if (strstr(answer, "is not there") != NULL) has(answer, own);

    snprintf(to, sizeof to, "%s/libnearfield-cuda.so", own);
    copy_file(module, to);
    ask_copy(program, "/", answer);
    has(answer, "does not work with this library");
    has(answer, own);
}

/* ---- contexts ---- */

static void note(const nf_context *ctx, outcome *out)
{
    nf_context_info info;
    nf_context_describe(ctx, &info);
    snprintf(out->engine, sizeof out->engine, "%s", info.engine);
    snprintf(out->device, sizeof out->device, "%s", info.device);
    snprintf(out->why, sizeof out->why, "%s", info.why);
}

/* Makes a context and asks it for an engine for some work. */
static void choose(nf_engine_kind engine, nf_isa isa, nf_work kind, uint64_t rows, outcome *out)
{
    nf_context_params    params;
    nf_context          *ctx = NULL;
    nf_error             error = {0};
    const nf_engine_ops *ops = NULL;
    nf_context_params_init(&params);
    params.engine = engine;
    params.isa = isa;
    params.device = 3;
    out->status = nf_context_create(&params, &ctx, &error);
    snprintf(out->text, sizeof out->text, "%s", error.text);
    if (ctx == NULL) return;
    out->second = nf_engine_for(ctx, kind, rows, 8, &ops);
    if (ops != NULL && out->second == NF_OK) note(ctx, out);
    if (ops != NULL && strcmp(ops->name, out->engine) != 0) out->second = NF_ERR_INTERNAL;
    out->native = nf_context_error(ctx)->native;
    snprintf(out->text, sizeof out->text, "%s", nf_context_error(ctx)->text);
    nf_context_destroy(ctx);
}

#define CASE(name, engine, isa, kind, rows)                \
    static void name(outcome *out)                         \
    {                                                      \
        choose((engine), (isa), (kind), (rows), out);      \
    }
CASE(named_radius, NF_ENGINE_CUDA, NF_ISA_AUTO, NF_WORK_RADIUS, 1)
CASE(named_knn, NF_ENGINE_CUDA, NF_ISA_AUTO, NF_WORK_KNN, MANY)
CASE(named_ivf, NF_ENGINE_CUDA, NF_ISA_AUTO, NF_WORK_IVF, 0)
CASE(cpu_radius, NF_ENGINE_CPU, NF_ISA_AUTO, NF_WORK_RADIUS, MANY)
CASE(auto_few, NF_ENGINE_AUTO, NF_ISA_AUTO, NF_WORK_RADIUS, MANY - 1)
CASE(auto_many, NF_ENGINE_AUTO, NF_ISA_AUTO, NF_WORK_RADIUS, MANY)
CASE(auto_huge, NF_ENGINE_AUTO, NF_ISA_AUTO, NF_WORK_RADIUS, 2000000000u)
CASE(auto_isa, NF_ENGINE_AUTO, NF_ISA_SCALAR, NF_WORK_RADIUS, MANY)
CASE(auto_knn, NF_ENGINE_AUTO, NF_ISA_AUTO, NF_WORK_KNN, MANY)
CASE(auto_ivf, NF_ENGINE_AUTO, NF_ISA_AUTO, NF_WORK_IVF, MANY)

static void ran_on(const outcome *out, const char *engine, const char *device, const char *why)
{
    if (out->status != NF_OK || out->second != NF_OK) fail_msg("%d, %d: %s", out->status, out->second, out->text);
    assert_string_equal(out->engine, engine);
    assert_string_equal(out->device, device);
    has(out->why, why);
    assert_string_equal(out->text, "");
}

static void no_context(const outcome *out, const char *part)
{
    assert_int_equal(out->status, NF_ERR_ENGINE);
    has(out->text, "the cuda engine cannot be used: ");
    has(out->text, part);
}

static void test_by_name(void **state)
{
    (void)state;
    outcome out = in_process(named_radius, kind_folder("healthy"), NULL);
    ran_on(&out, "cuda", "Fake 3", "");
    out = in_process(named_knn, kind_folder("healthy"), NULL);
    assert_int_equal(out.status, NF_OK);
    assert_int_equal(out.second, NF_ERR_UNSUPPORTED);
    has(out.text, "the cuda engine does no exact k nearest neighbours by inner product or cosine in this version");
    out = in_process(named_ivf, kind_folder("healthy"), NULL);
    assert_int_equal(out.second, NF_ERR_UNSUPPORTED);
    has(out.text, "the cuda engine does no approximate search in this version");

    out = in_process(named_radius, "/nonexistent", NULL);
    no_context(&out, "the cuda module is not there");
    out = in_process(named_radius, kind_folder("no_device"), NULL);
    no_context(&out, "there is no device 3");
    out = in_process(named_radius, kind_folder("other_version"), NULL);
    no_context(&out, "is version 0.0.77");

    out = in_process(named_radius, kind_folder("open_fails"), NULL);
    assert_int_equal(out.status, NF_OK);
    assert_int_equal(out.second, NF_ERR_ENGINE);
    assert_int_equal(out.native, 7);
    assert_string_equal(out.text, "device 3 is lost");
    out = in_process(named_radius, kind_folder("other_operations"), NULL);
    assert_int_equal(out.second, NF_ERR_ENGINE);
    has(out.text, "its operations are not those of this library");
}

/* The variable speaks where the parameter does not. */
static void test_by_environment(void **state)
{
    (void)state;
    outcome out = in_process(auto_few, kind_folder("healthy"), "cuda");
    ran_on(&out, "cuda", "Fake 3", "");
    out = in_process(auto_isa, kind_folder("healthy"), "cuda");
    ran_on(&out, "cuda", "Fake 3", "");
    out = in_process(auto_knn, kind_folder("healthy"), "cuda");
    ran_on(&out, "cpu", "", "does not do this work");
    out = in_process(auto_ivf, kind_folder("healthy"), "cuda");
    ran_on(&out, "cpu", "", "does not do this work");
    out = in_process(cpu_radius, kind_folder("healthy"), "cuda");
    ran_on(&out, "cpu", "", "");
    out = in_process(auto_few, kind_folder("no_device"), "cuda");
    no_context(&out, "there is no device 3");
    out = in_process(auto_many, kind_folder("healthy"), "cpu");
    ran_on(&out, "cpu", "", "");
    out = in_process(named_radius, kind_folder("healthy"), "cpu");
    ran_on(&out, "cuda", "Fake 3", "");
    out = in_process(auto_few, kind_folder("healthy"), "");
    ran_on(&out, "cpu", "", "fewer than 50000 rows");
    out = in_process(auto_few, kind_folder("healthy"), "gpu");
    assert_int_equal(out.status, NF_ERR_ARGUMENT);
    has(out.text, "NEARFIELD_ENGINE is 'gpu', allowed are auto, cpu, cuda");
}

static void test_auto(void **state)
{
    (void)state;
    outcome out = in_process(auto_many, kind_folder("healthy"), NULL);
    ran_on(&out, "cuda", "Fake 3", "50000 rows or more");
    out = in_process(auto_huge, kind_folder("healthy"), NULL); /* 48 GiB are free there */
    ran_on(&out, "cpu", "", "free memory is too small");
    out = in_process(auto_few, kind_folder("healthy"), NULL);
    ran_on(&out, "cpu", "", "fewer than 50000 rows");
    out = in_process(auto_isa, kind_folder("healthy"), NULL);
    ran_on(&out, "cpu", "", "an instruction set was asked for");
    out = in_process(auto_knn, kind_folder("healthy"), NULL);
    ran_on(&out, "cpu", "", "joins by radius");
    out = in_process(auto_ivf, kind_folder("healthy"), NULL);
    ran_on(&out, "cpu", "", "does not do this work");

    out = in_process(auto_many, "/nonexistent", NULL);
    ran_on(&out, "cpu", "", "the cuda module is not there");
    out = in_process(auto_many, kind_folder("other_abi"), NULL);
    ran_on(&out, "cpu", "", "has interface ");
    out = in_process(auto_many, kind_folder("no_device"), NULL);
    ran_on(&out, "cpu", "", "there is no device 3");
    out = in_process(auto_many, kind_folder("open_fails"), NULL);
    ran_on(&out, "cpu", "", "device 3 is lost");
    out = in_process(auto_many, kind_folder("other_operations"), NULL);
    ran_on(&out, "cpu", "", "its operations are not those of this library");
}

/* The answer of the first time stays, whatever becomes of the folder. */
static void twice(outcome *out)
{
    outcome first = {0};
    named_radius(&first);
    setenv("NEARFIELD_MODULE_DIR", kind_folder("healthy"), 1);
    named_radius(out);
    out->second = first.status;
    if (strcmp(first.text, out->text) != 0) out->status = NF_ERR_INTERNAL;
}

static void test_once(void **state)
{
    (void)state;
    const outcome out = in_process(twice, kind_folder("no_entry"), NULL);
    no_context(&out, "has no entry point");
    assert_int_equal(out.second, NF_ERR_ENGINE);
}

/* ---- describing ---- */

static void describe_cuda(outcome *out)
{
    nf_engine_info info = {.struct_size = sizeof info};
    out->status = nf_engine_describe(NF_ENGINE_CUDA, 5, &info);
    out->second = (nf_status)info.usable;
    out->native = info.rt_core_version;
    snprintf(out->text, sizeof out->text, "%s|%s|%s|%llu|%llu|%s", info.device, info.driver, info.ray_tracing,
             (unsigned long long)info.memory_total, (unsigned long long)info.memory_free, info.reason);
}

static void describe_auto(outcome *out)
{
    nf_engine_info info = {.struct_size = sizeof info};
    out->status = nf_engine_describe(NF_ENGINE_AUTO, 0, &info);
    out->second = (nf_status)info.usable;
    snprintf(out->text, sizeof out->text, "%s", info.reason);
}

static void test_describe(void **state)
{
    (void)state;
    outcome out = in_process(describe_cuda, kind_folder("healthy"), NULL);
    assert_int_equal(out.status, NF_OK);
    assert_int_equal(out.second, 1);
    assert_int_equal(out.native, 30);
    assert_string_equal(out.text, "Fake 5|CUDA 13.0|none: a fake|68719476736|51539607552|");
    out = in_process(describe_cuda, kind_folder("no_device"), NULL);
    assert_int_equal(out.second, 0);
    assert_string_equal(out.text, "|||0|0|there is no device 5");
    out = in_process(describe_cuda, "/nonexistent", NULL);
    assert_int_equal(out.second, 0);
    assert_int_equal(out.native, -1);
    has(out.text, "the cuda module is not there");
    out = in_process(describe_auto, kind_folder("healthy"), NULL);
    assert_int_equal(out.second, 1);
    has(out.text, "cuda for joins by radius and approximate search of 50000 rows or more");
    out = in_process(describe_auto, kind_folder("no_device"), NULL);
    assert_int_equal(out.second, 1);
    has(out.text, "cpu for all work");
}

static void test_describe_arguments(void **state)
{
    (void)state;
    nf_engine_info info = {.struct_size = sizeof info};
    memset(info.device, 'x', sizeof info.device);
    assert_int_equal(nf_engine_describe(NF_ENGINE_CPU, 0, &info), NF_OK);
    assert_int_equal(info.usable, 1);
    assert_string_equal(info.reason, "");
    assert_string_equal(info.device, "");
    assert_int_equal(nf_engine_describe(NF_ENGINE_CPU, 0, NULL), NF_ERR_ARGUMENT);
    assert_int_equal(nf_engine_describe((nf_engine_kind)3, 0, &info), NF_ERR_ARGUMENT);
    info.struct_size = 0;
    assert_int_equal(nf_engine_describe(NF_ENGINE_CPU, 0, &info), NF_ERR_ARGUMENT);

    /* A caller with a shorter struct gets what it has room for. */
    memset(&info, 0x55, sizeof info);
    info.struct_size = offsetof(nf_engine_info, reason);
    assert_int_equal(nf_engine_describe(NF_ENGINE_CPU, 0, &info), NF_OK);
    assert_int_equal(info.memory_total, 0);
    assert_int_equal(info.reason[0], 0x55);
}

/* ---- services ---- */

static nf_status service_fail(nf_context *ctx, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const nf_status status = (nf_engine_services()->fail)(ctx, NF_ERR_VALUE, 42, format, arguments);
    va_end(arguments);
    return status;
}

static nf_status count_task(void *arg, uint64_t task, uint32_t worker)
{
    uint8_t *seen = arg;
    (void)worker;
    seen[task]++;
    return NF_OK;
}

static void test_services(void **state)
{
    (void)state;
    const nf_core_services *services = nf_engine_services();
    nf_context             *ctx = NULL;
    uint8_t                 seen[100] = {0};
    assert_int_equal(services->struct_size, sizeof *services);
    assert_int_equal(services->abi, NF_MODULE_ABI);
    assert_string_equal(services->version, NF_VERSION);

    assert_int_equal(nf_context_create(NULL, &ctx, NULL), NF_OK);
    const uint64_t before = services->memory_used(services->context_memory(ctx));
    uint8_t       *block = services->alloc_zero(ctx, 1000, 3);
    assert_non_null(block);
    assert_int_equal(block[2999], 0);
    assert_true(services->memory_used(services->context_memory(ctx)) >= before + 3000);
    services->release(block);
    assert_int_equal(services->memory_used(services->context_memory(ctx)), before);
    assert_int_equal(services->memory_limit(services->context_memory(ctx)), nf_memory_limit(nf_context_memory(ctx)));
    assert_null(services->try_alloc(ctx, UINT64_MAX, 8));
    assert_int_equal(nf_context_error(ctx)->status, NF_OK);

    assert_int_equal(services->pool_run(ctx, count_task, seen, sizeof seen), NF_OK);
    for (size_t i = 0; i < sizeof seen; i++) assert_int_equal(seen[i], 1);
    assert_int_equal(services->context_threads(ctx), nf_context_threads(ctx));
    assert_ptr_equal(services->context_settings(ctx), nf_context_settings(ctx));
    assert_false(services->context_stopping(ctx));
    services->progress_begin(ctx, "step", 3);
    services->progress_add(ctx, 1);
    assert_int_equal(services->progress_poll(ctx), NF_OK);
    assert_true(services->now() > 0.0);

    assert_int_equal(service_fail(ctx, "%s %d", "row", 7), NF_ERR_VALUE);
    assert_int_equal(nf_context_error(ctx)->native, 42);
    assert_string_equal(nf_context_error(ctx)->text, "row 7");
    assert_true(services->context_stopping(ctx));
    nf_context_destroy(ctx);
}

/* "probe": says where the module is looked for by default. */
static int probe(void)
{
    nf_loaded_module loaded;
    nf_engine_load_module("cuda", &loaded);
    printf("%s\n", loaded.reason);
    return 0;
}

static int remove_work(void **state)
{
    (void)state;
    char command[sizeof work + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", work);
    return system(command);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),        cmocka_unit_test(test_opens),
        cmocka_unit_test(test_own_folder),     cmocka_unit_test(test_by_name),
        cmocka_unit_test(test_by_environment), cmocka_unit_test(test_auto),
        cmocka_unit_test(test_once),           cmocka_unit_test(test_describe),
        cmocka_unit_test(test_describe_arguments), cmocka_unit_test(test_services),
    };
    if (argc == 2 && strcmp(argv[1], "probe") == 0) return probe();
    /* These say what the cases are about. */
    unsetenv("NEARFIELD_ISA");
    unsetenv("NEARFIELD_ENGINE");
    if (getenv("BUILD_DIR") == NULL || mkdtemp(work) == NULL) return 77;
    return cmocka_run_group_tests(tests, NULL, remove_work);
}
