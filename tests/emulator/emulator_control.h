/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test and the emulated device of its process share: the test says what is to fail, the device what is alive. The
 * test puts the struct's address into the environment variable NF_EMULATED_CONTROL, in hexadecimal; the module, which
 * exports nothing, finds it there.
 */
#ifndef NF_EMULATOR_CONTROL_H
#define NF_EMULATOR_CONTROL_H

#include <stdint.h>

typedef struct nf_emulated_control {
    /* set by the test, as numbers in the counts below; 0: none */
    uint64_t fail_allocation; /* this allocation fails, cudaErrorMemoryAllocation */
    uint64_t fail_from;       /* this one and all later ones */
    uint64_t fail_call;       /* this call fails, cudaErrorLaunchFailure */

    /* set by the device */
    uint64_t allocations;     /* so far, of device and pinned memory */
    uint64_t calls;           /* so far: launches, copies, events, streams, waiting */
    uint64_t live_bytes;      /* of device memory */
    uint64_t live_objects;    /* blocks of device and pinned memory, streams, events */
} nf_emulated_control;

#endif
