/* SPDX-License-Identifier: Apache-2.0 */
/* Completion for bash: commands, each command's options, and the choices of an option. Other words are file names. */
#include <stdio.h>
#include <string.h>

#include "cli_help.h"
#include "cli_options.h"

/* Prints each option of a command that is taken: its name, or (choices) a case that offers its choices. */
static void print_options(const cli_command *command, bool choices)
{
    for (const cli_option_set *set = command->sets; set->title != NULL; set++) {
        size_t          count;
        const nf_param *params = cli_set_params(set, &count);
        for (size_t i = 0; i < count; i++) {
            if (!cli_set_takes(set, &params[i])) continue;
            if (!choices) printf(" --%s", params[i].name);
            else if (params[i].kind == NF_PARAM_CHOICE) {
                printf("    %s:--%s) words='", command->name, params[i].name);
                for (const char *at = params[i].choices; *at != '\0'; at++) putchar(*at == '|' ? ' ' : *at);
                printf("' ;;\n");
            }
        }
    }
}

static void print_commands(void)
{
    for (const cli_command *command = cli_commands; command->name != NULL; command++) printf(" %s", command->name);
}

void cli_help_print_bash(void)
{
    printf("# SPDX-License-Identifier: Apache-2.0\n# Printed by: nearfield help --bash\n");
    printf("_nearfield() {\n    local words='' word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n");
    printf("    if [[ $COMP_CWORD == 1 ]]; then command=''; fi\n");
    printf("    case $command:${COMP_WORDS[COMP_CWORD-1]} in\n    :*) words='");
    print_commands();
    printf("' ;;\n    help:help) words='");
    print_commands();
    printf("' ;;\n");
    for (const cli_command *command = cli_commands; command->name != NULL; command++) print_options(command, true);
    for (const cli_command *command = cli_commands; command->name != NULL; command++) {
        printf("    %s:*) [[ $word == -* ]] && words='", command->name);
        print_options(command, false);
        printf("' ;;\n");
    }
    printf("    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n");
    printf("complete -o default -F _nearfield nearfield\n");
}
