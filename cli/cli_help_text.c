/* SPDX-License-Identifier: Apache-2.0 */
/* The help as plain text, 80 columns wide, examples first. */
#include <stdio.h>
#include <string.h>

#include "cli_error.h"
#include "cli_help.h"
#include "cli_options.h"

#define WIDTH 80
#define TERM_INDENT 2
#define TEXT_INDENT 26

/* Prints words from column on, going to a new line at indent before WIDTH is passed; ends the line. */
static void print_wrapped(const char *text, int column, int indent)
{
    bool first = true;
    while (*text != '\0') {
        const int length = (int)strcspn(text, " ");
        if (!first && column + 1 + length > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
            first = true;
        }
        printf("%s%.*s", first ? "" : " ", length, text);
        column += length + !first;
        first = false;
        text += length;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_term(const char *term, const char *description)
{
    const int length = TERM_INDENT + (int)strlen(term);
    printf("%*s%s", TERM_INDENT, "", term);
    if (length + 2 > TEXT_INDENT) printf("\n%*s", TEXT_INDENT, "");
    else printf("%*s", TEXT_INDENT - length, "");
    print_wrapped(description, TEXT_INDENT, TEXT_INDENT);
}

static void print_examples(const cli_command *command)
{
    printf("Examples:\n");
    for (const cli_example *example = command->examples; example->line != NULL; example++) {
        printf("  %s\n      %s\n", example->line, example->what);
    }
}

static void print_set(const cli_option_set *set)
{
    size_t          count;
    const nf_param *params = cli_set_params(set, &count);
    if (set->title[0] != '\0') printf("\n%s:\n", set->title);
    for (size_t i = 0; i < count; i++) {
        char term[CLI_TERM_SIZE], description[CLI_DESCRIPTION_SIZE];
        if (!cli_set_takes(set, &params[i])) continue;
        cli_help_term(&params[i], term);
        cli_help_description(&params[i], description);
        print_term(term, description);
    }
}

void cli_help_print_command(const cli_command *command)
{
    printf("nearfield %s: %s\n\nUsage: nearfield %s %s\n\n", command->name, command->summary, command->name,
           command->synopsis);
    print_examples(command);
    for (const char *const *paragraph = command->text; *paragraph != NULL; paragraph++) {
        putchar('\n');
        print_wrapped(*paragraph, 0, 0);
    }
    for (const cli_option_set *set = command->sets; set->title != NULL; set++) print_set(set);
}

void cli_help_print_overview(void)
{
    char code[CLI_TERM_SIZE];
    printf("nearfield: %s\n\nUsage: nearfield COMMAND ...\n\n", cli_help_about);
    print_examples(&cli_commands[0]);
    printf("\nCommands:\n");
    for (const cli_command *command = cli_commands; command->name != NULL; command++) {
        print_term(command->name, command->summary);
    }
    for (const char *const *paragraph = cli_help_text; *paragraph != NULL; paragraph++) {
        putchar('\n');
        print_wrapped(*paragraph, 0, 0);
    }
    printf("\nExit codes:\n");
    for (const cli_exit_text *exit = cli_exit_texts; exit->text != NULL; exit++) {
        snprintf(code, sizeof code, "%d", exit->code);
        print_term(code, exit->text);
    }
    printf("\n'nearfield help COMMAND' explains a command.\n");
}
