/* SPDX-License-Identifier: Apache-2.0 */
/* Delivery of summaries. The JSON file is written under a temporary name in the same folder and renamed when
 * complete. */
#include "cli_report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli_error.h"

static bool is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

const char *cli_output_name(const char *path)
{
    return is_stdout(path) ? "standard output" : path;
}

int cli_report_check(cli_run *run)
{
    const char *output = run->settings.output, *json = run->settings.json;
    if (output == NULL || json == NULL || strcmp(output, json) != 0) return 0;
    if (!is_stdout(json)) return cli_fail_usage(run, "--json and --output name the same file, '%s'", json);
    return cli_fail_usage(run, "--json needs a file (--json=FILE) when the result goes to standard output");
}

FILE *cli_report_stream(const cli_run *run)
{
    if (run->settings.quiet || is_stdout(run->settings.json)) return NULL;
    return is_stdout(run->settings.output) ? stderr : stdout;
}

void cli_report_begin(const cli_run *run, cli_json *json)
{
    cli_json_open(json, NULL);
    cli_json_text(json, "command", run->command->name);
    cli_json_text(json, "version", nf_version());
}

void cli_report_engine(const cli_run *run, cli_json *json)
{
    nf_context_info info;
    nf_context_describe(run->ctx, &info);
    cli_json_text(json, "engine", info.engine);
    if (info.device[0] != '\0') cli_json_text(json, "device", info.device);
    else cli_json_text(json, "isa", info.isa);
}

/* Writes the object and a line feed. Returns 0 or an errno value. */
static int write_all(int file, const cli_json *json)
{
    for (size_t done = 0; done < json->length + 1;) {
        const bool    last = done == json->length;
        const ssize_t count = write(file, last ? "\n" : json->text + done, last ? 1 : json->length - done);
        if (count > 0) done += (size_t)count;
        else if (errno != EINTR) return errno;
    }
    return 0;
}

/* Writes and closes; the first error counts. */
static int write_and_close(int file, const cli_json *json)
{
    int error = write_all(file, json);
    if (close(file) != 0 && error == 0) error = errno;
    return error;
}

/* mkstemp makes files for the owner alone; the final file gets what any new file gets. */
static void set_usual_mode(int file)
{
    const mode_t mask = umask(0);
    umask(mask);
    (void)fchmod(file, (mode_t)(0666 & ~mask)); /* the mode is a courtesy */
}

static int replace_file(const char *path, const cli_json *json)
{
    const size_t size = strlen(path) + sizeof ".XXXXXX";
    char        *name = malloc(size);
    if (name == NULL) return ENOMEM;
    snprintf(name, size, "%s.XXXXXX", path);
    const int file = mkstemp(name);
    int       error = file < 0 ? errno : 0;
    if (file >= 0) {
        set_usual_mode(file);
        error = write_and_close(file, json);
        if (error == 0 && rename(name, path) != 0) error = errno;
        if (error != 0) unlink(name);
    }
    free(name);
    return error;
}

/* A pipe or a device is written to, never replaced. */
static int write_file(const char *path, const cli_json *json)
{
    struct stat about;
    if (stat(path, &about) != 0 || S_ISREG(about.st_mode)) return replace_file(path, json);
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    return file < 0 ? errno : write_and_close(file, json);
}

static int deliver(cli_run *run, const cli_json *json)
{
    const char *path = run->settings.json;
    if (json->failed) return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for the summary");
    if (is_stdout(path)) {
        printf("%s\n", json->text);
        return 0;
    }
    const int error = write_file(path, json);
    if (error == 0 || error == EPIPE) return error == 0 ? CLI_DONE : CLI_FAILED;
    return cli_fail(run, CLI_FAILED, NF_ERR_IO, "%s: cannot write: %s", path, strerror(error));
}

int cli_report_json(cli_run *run, cli_json *json)
{
    const int code = run->settings.json != NULL ? deliver(run, json) : 0;
    cli_json_free(json);
    return code;
}

int cli_report_end(cli_run *run, int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    const int error = errno != 0 ? errno : EIO;
    if (error == EPIPE || code != 0) return code != 0 ? code : CLI_FAILED;
    return cli_fail(run, CLI_FAILED, NF_ERR_IO, "standard output: cannot write: %s", strerror(error));
}
