/* SPDX-License-Identifier: Apache-2.0 */
/* All of the help as Markdown: docs/command.md is this output. */
#include <stdio.h>

#include "cli_error.h"
#include "cli_help.h"
#include "cli_options.h"

/* Prints text for a cell of a table, where '|' would end it. */
static void print_cell(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|') putchar('\\');
        putchar(*text);
    }
}

static void print_row(const char *term, const char *description)
{
    printf("| `");
    print_cell(term);
    printf("` | ");
    print_cell(description);
    printf(" |\n");
}

static void print_set(const cli_option_set *set)
{
    size_t          count;
    const nf_param *params = cli_set_params(set, &count);
    if (set->title[0] != '\0') printf("\n| %s | |\n|---|---|\n", set->title);
    for (size_t i = 0; i < count; i++) {
        char term[CLI_TERM_SIZE], description[CLI_DESCRIPTION_SIZE];
        if (!cli_set_takes(set, &params[i])) continue;
        cli_help_term(&params[i], term);
        cli_help_description(&params[i], description);
        print_row(term, description);
    }
}

static void print_command(const cli_command *command)
{
    printf("\n## nearfield %s\n\n    nearfield %s %s\n", command->name, command->name, command->synopsis);
    for (const char *const *paragraph = command->text; *paragraph != NULL; paragraph++) printf("\n%s\n", *paragraph);
    printf("\n| example | what it does |\n|---|---|\n");
    for (const cli_example *example = command->examples; example->line != NULL; example++) {
        print_row(example->line, example->what);
    }
    for (const cli_option_set *set = command->sets; set->title != NULL; set++) print_set(set);
}

static void print_texts(const cli_entry *texts)
{
    for (; texts->name != NULL; texts++) print_row(texts->name, texts->text);
}

void cli_help_print_markdown(void)
{
    printf("# The command `nearfield`\n\nnearfield: %s. This page is printed by `nearfield help --markdown`.\n",
           cli_help_about);
    for (const char *const *paragraph = cli_help_text; *paragraph != NULL; paragraph++) printf("\n%s\n", *paragraph);
    for (const cli_command *command = cli_commands; command->name != NULL; command++) print_command(command);
    printf("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (const cli_exit_text *exit = cli_exit_texts; exit->text != NULL; exit++) {
        printf("| %d | %s |\n", exit->code, exit->text);
    }
    printf("\n## Environment\n\n| variable | meaning |\n|---|---|\n");
    print_texts(cli_variables);
    printf("\n## JSON\n\nThe object that `--json` gives is one line. Keys stay; new ones may come.\n");
    for (const cli_json_object *object = cli_json_objects; object->command != NULL; object++) {
        printf("\n### %s\n\n| key | meaning |\n|---|---|\n", object->command);
        print_texts(object->keys);
    }
}
