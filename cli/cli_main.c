/* SPDX-License-Identifier: Apache-2.0 */
/* The command `nearfield`: finds the command asked for, parses its options, runs it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli_command.h"
#include "cli_error.h"
#include "cli_options.h"
#include "cli_report.h"
#include "cli_signal.h"
#include "cli_text.h"

/* A standard stream that the caller closed leaves its number to the next file that is opened, and what is meant for the
 * stream would go into that file. So the number is taken, by a descriptor that fails as a closed one does. */
static void hold_streams(void)
{
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++) {
        if (fcntl(file, F_GETFD) >= 0 || errno != EBADF) continue;
        (void)open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* the lowest free number: this one */
    }
}

/* Whether errors are to be given as an object too, even those of the command line itself. */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0 || strncmp(argv[i], "--json=", 7) == 0) return true;
    }
    return false;
}

/* --help and --version stand for commands. */
static const char *command_name(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) return "version";
    return word;
}

static int unknown_command(cli_run *run, const char *word)
{
    const char *nearest = NULL;
    unsigned    distance = 3;
    if (word[0] == '-') return cli_fail_usage(run, "a command must come before the option '%s'", word);
    for (const cli_command *command = cli_commands; command->name != NULL; command++) {
        const unsigned edits = cli_edit_distance(word, command->name);
        if (edits < distance) {
            distance = edits;
            nearest = command->name;
        }
    }
    if (nearest == NULL) return cli_fail_usage(run, "there is no command '%s'", word);
    return cli_fail_usage(run, "there is no command '%s', did you mean '%s'?", word, nearest);
}

static int run_command(cli_run *run, int argc, char **argv)
{
    int code = cli_parse(run, argc, argv);
    if (code != 0) return code;
    if (run->settings.help) {
        run->settings.arguments[0] = run->command->name;
        run->settings.argument_count = 1;
        return cli_run_help(run);
    }
    code = cli_report_check(run);
    return code != 0 ? code : run->command->run(run);
}

int main(int argc, char **argv)
{
    cli_run run = {0};
    int     code;

    hold_streams();
    cli_signal_ignore();
    cli_settings_init(&run.settings);
    run.json_errors = asks_for_json(argc, argv);
    if (argc < 2) return cli_fail_usage(&run, "a command is missing");
    run.command = cli_command_find(command_name(argv[1]));
    if (run.command == NULL) return unknown_command(&run, argv[1]);
    code = run_command(&run, argc - 2, argv + 2);
    cli_progress_clear(&run.progress);
    code = cli_report_end(&run, code);
    cli_signal_install(NULL);
    nf_context_destroy(run.ctx);
    return code;
}
