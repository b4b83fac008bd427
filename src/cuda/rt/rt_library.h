/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's OptiX library: opened once per process, never closed. */
#ifndef NF_RT_LIBRARY_H
#define NF_RT_LIBRARY_H

#include "optix_abi.h"
#include "rt_fault.h"

/* The functions, or NULL and a fault (NF_ERR_ENGINE): no library, or one that refuses the binary interface. */
const nf_optix_functions *nf_rt_library_open(nf_rt_fault *fault);

/* Fills the fault unless result is NF_OPTIX_OK. log: more about it, or "". */
nf_status nf_rt_fault_optix(nf_rt_fault *fault, const nf_optix_functions *optix, int result, const char *what,
                            const char *log);
#define NF_RT_OPTIX(fault, optix, function, ...) \
    NF_TRY(nf_rt_fault_optix((fault), (optix), (optix)->function(__VA_ARGS__), #function, ""))

#endif
