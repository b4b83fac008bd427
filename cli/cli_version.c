/* SPDX-License-Identifier: Apache-2.0 */
/* nearfield version: the version, and what this build uses here. Works even where no context can be made. */
#include <stdio.h>
#include <string.h>

#include "cli_command.h"

int cli_run_version(cli_run *run)
{
    nf_context_info info;
    nf_error        error = {0};

    printf("nearfield %s", NF_VERSION);
    if (strcmp(NF_VERSION, nf_version()) != 0) printf(" with library %s", nf_version());
    if (nf_context_create(NULL, &run->ctx, &error) != NF_OK) {
        printf("\nno engine: %s\n", error.text);
        return 0;
    }
    nf_context_describe(run->ctx, &info);
    printf("\nengine %s, %s%s\n", info.engine, info.device[0] != '\0' ? "" : "instruction set ",
           info.device[0] != '\0' ? info.device : info.isa);
    return 0;
}
