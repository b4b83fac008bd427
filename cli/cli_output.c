/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the output before the work begins. What changes meanwhile is found when the file is written. */
#include "cli_output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli_error.h"

static bool same_file(const char *a, const struct stat *b)
{
    struct stat status;
    return a != NULL && stat(a, &status) == 0 && status.st_dev == b->st_dev && status.st_ino == b->st_ino;
}

/* Whether an existing output is one of the files that are read. */
static const char *input_of(const cli_settings *settings, const struct stat *output)
{
    const char *const others[] = {settings->ids, settings->truth, settings->filter, settings->exclude};
    for (int i = 0; i < settings->argument_count; i++) {
        if (settings->arguments[i] != settings->output && same_file(settings->arguments[i], output)) {
            return settings->arguments[i];
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (same_file(others[i], output)) return others[i];
    }
    return NULL;
}

static int check_folder(cli_run *run, const char *path)
{
    const char *slash = strrchr(path, '/');
    char       *folder = slash == NULL ? strdup(".") : slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
    if (folder == NULL) return cli_fail(run, CLI_LIMIT, NF_ERR_MEMORY, "no memory for a path");
    int code = 0;
    if (access(folder, W_OK | X_OK) != 0) {
        code = cli_fail(run, CLI_FAILED, NF_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    }
    free(folder);
    return code;
}

int cli_output_check(cli_run *run)
{
    const char *path = run->settings.output;
    struct stat status;
    if (path == NULL || strcmp(path, "-") == 0) return 0;
    if (stat(path, &status) == 0) {
        if (!S_ISREG(status.st_mode)) return 0; /* a pipe or a device; a folder is refused when it is opened */
        const char *input = input_of(&run->settings, &status);
        if (input != NULL) return cli_fail_usage(run, "the output '%s' is the input '%s'", path, input);
    }
    if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode)) return 0; /* the file lies in another folder */
    return check_folder(run, path);
}
