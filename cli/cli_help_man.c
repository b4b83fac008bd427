/* SPDX-License-Identifier: Apache-2.0 */
/* The manual page, in troff with the man macros. It bears no date, so that equal sources give equal pages. */
#include <stdio.h>

#include "cli_error.h"
#include "cli_help.h"
#include "cli_options.h"

/* Prints text with what troff would take for its own made harmless. */
static void print_escaped(const char *text)
{
    if (*text == '.' || *text == '\'') fputs("\\&", stdout);
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '\\': fputs("\\e", stdout); break;
        case '-': fputs("\\-", stdout); break;
        case '\'': fputs("\\(aq", stdout); break;
        case '~': fputs("\\(ti", stdout); break;
        case '^': fputs("\\(ha", stdout); break;
        case '`': fputs("\\(ga", stdout); break;
        default: putchar(*text);
        }
    }
}

static void print_line(const char *text)
{
    print_escaped(text);
    putchar('\n');
}

static void print_paragraphs(const char *const *paragraphs)
{
    for (; *paragraphs != NULL; paragraphs++) {
        printf(".PP\n");
        print_line(*paragraphs);
    }
}

static void print_term(const char *term, const char *description)
{
    printf(".TP\n\\fB");
    print_escaped(term);
    printf("\\fR\n");
    print_line(description);
}

static void print_set(const cli_option_set *set)
{
    size_t          count;
    const nf_param *params = cli_set_params(set, &count);
    if (set->title[0] != '\0') printf(".PP\n%s:\n", set->title);
    for (size_t i = 0; i < count; i++) {
        char term[CLI_TERM_SIZE], description[CLI_DESCRIPTION_SIZE];
        if (!cli_set_takes(set, &params[i])) continue;
        cli_help_term(&params[i], term);
        cli_help_description(&params[i], description);
        print_term(term, description);
    }
}

static void print_command(const cli_command *command)
{
    printf(".SS nearfield %s\n", command->name);
    printf("\\fBnearfield %s\\fR ", command->name);
    print_line(command->synopsis);
    print_paragraphs(command->text);
    for (const cli_option_set *set = command->sets; set->title != NULL; set++) print_set(set);
}

static void print_examples(const cli_command *command)
{
    for (const cli_example *example = command->examples; example->line != NULL; example++) {
        print_term(example->line, example->what);
    }
}

static void print_texts(const cli_entry *texts)
{
    for (; texts->name != NULL; texts++) print_term(texts->name, texts->text);
}

void cli_help_print_man(void)
{
    char code[CLI_TERM_SIZE];
    printf(".\\\" SPDX-License-Identifier: Apache-2.0\n.\\\" Printed by: nearfield help --man\n");
    printf(".TH NEARFIELD 1 \"\" \"nearfield %s\" \"User Commands\"\n", nf_version());
    printf(".SH NAME\nnearfield \\- %s\n.SH SYNOPSIS\n\\fBnearfield\\fR COMMAND ...\n", cli_help_about);
    printf(".SH DESCRIPTION\n");
    print_paragraphs(cli_help_text);
    printf(".SH COMMANDS\n");
    for (const cli_command *command = cli_commands; command->name != NULL; command++) print_command(command);
    printf(".SH EXIT STATUS\n");
    for (const cli_exit_text *exit = cli_exit_texts; exit->text != NULL; exit++) {
        snprintf(code, sizeof code, "%d", exit->code);
        print_term(code, exit->text);
    }
    printf(".SH ENVIRONMENT\n");
    print_texts(cli_variables);
    printf(".SH JSON\n");
    for (const cli_json_object *object = cli_json_objects; object->command != NULL; object++) {
        printf(".PP\nKeys of the object that \\fB%s \\-\\-json\\fR gives:\n", object->command);
        print_texts(object->keys);
    }
    printf(".SH EXAMPLES\n");
    for (const cli_command *command = cli_commands; command->name != NULL; command++) print_examples(command);
}
