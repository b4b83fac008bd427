/* SPDX-License-Identifier: Apache-2.0 */
/* What the forms of the help (text, manual page, Markdown, completion) share. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli_command.h"

#define CLI_TERM_SIZE 96
#define CLI_DESCRIPTION_SIZE 512

typedef struct cli_entry {
    const char *name; /* NULL ends the list */
    const char *text;
} cli_entry;

extern const char              cli_help_about[]; /* the whole in one line */
extern const char *const       cli_help_text[];  /* paragraphs on what holds for all commands; NULL at the end */
extern const cli_entry cli_variables[];  /* environment */

/* Keys of the objects that commands give. */
typedef struct cli_json_object {
    const char      *command; /* NULL ends the list */
    const cli_entry *keys;
} cli_json_object;

extern const cli_json_object cli_json_objects[];

/* "-o, --output FILE". */
void cli_help_term(const nf_param *param, char term[CLI_TERM_SIZE]);

/* The sentence of the table, the choices, the default. */
void cli_help_description(const nf_param *param, char description[CLI_DESCRIPTION_SIZE]);

/* The forms, on standard output. */
void cli_help_print_overview(void);
void cli_help_print_command(const cli_command *command);
void cli_help_print_man(void);
void cli_help_print_markdown(void);
void cli_help_print_bash(void);

#endif
