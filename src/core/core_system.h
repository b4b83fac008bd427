/* SPDX-License-Identifier: Apache-2.0 */
/* What machine this is: processors, memory, instruction sets. */
#ifndef NF_CORE_SYSTEM_H
#define NF_CORE_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "nearfield/context.h"

#define NF_MAX_THREADS 1024

/* Processors this process may run on: at least 1, at most NF_MAX_THREADS. */
uint32_t nf_system_processors(void);

/* Bytes of memory this process may use: RAM, or the container's limit (cgroup v2 or v1) where that is smaller. */
uint64_t nf_system_memory(void);

/* Instruction sets: has = compiled in, in the CPU, and its registers saved by the operating system. */
bool nf_system_has_isa(nf_isa isa);
nf_isa nf_system_best_isa(void);

/* Why an instruction set cannot be used here: "not part of this build", "this CPU or operating system lacks it". */
const char *nf_system_isa_reason(nf_isa isa);
const char *nf_isa_name(nf_isa isa);

#endif
