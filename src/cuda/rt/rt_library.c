/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening libnvoptix.so.1, a part of the driver (not of every installation of it: containers get it with the driver
 * capability "graphics").
 *
 * The name alone is looked up as the dynamic loader does; where its cache does not know the driver's folder, the usual
 * folders are tried. Only absolute names of folders that belong to the system, so that no file of a user is loaded.
 */
#include "rt_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "core/core_error.h"

static struct {
    pthread_mutex_t    lock;
    bool               tried, usable;
    nf_optix_functions functions;
    nf_rt_fault        fault;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *open_library(nf_rt_fault *fault)
{
    static const char *const names[] = {
        "libnvoptix.so.1",
        "/usr/lib/x86_64-linux-gnu/libnvoptix.so.1",
        "/usr/lib/aarch64-linux-gnu/libnvoptix.so.1",
        "/usr/lib64/libnvoptix.so.1",
        "/usr/local/nvidia/lib64/libnvoptix.so.1",
        "/usr/lib/wsl/lib/libnvoptix.so.1",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (handle != NULL) return handle;
        const char *reason = dlerror();
        /* the first reason is the one to tell */
        if (i == 0) nf_rt_fault_set(fault, NF_ERR_ENGINE, "no OptiX in this driver: %s", reason != NULL ? reason : names[i]);
    }
    return NULL;
}

static bool query_functions(void *handle, nf_optix_functions *functions, nf_rt_fault *fault)
{
    nf_optix_query_fn query;
    void             *symbol = dlsym(handle, NF_OPTIX_ENTRY);

    if (symbol == NULL) {
        nf_rt_fault_set(fault, NF_ERR_ENGINE, "the driver's libnvoptix.so.1 has no %s", NF_OPTIX_ENTRY);
        return false;
    }
    memcpy(&query, &symbol, sizeof query); /* C has no conversion of an object's to a function's address */

    const int result = query(NF_OPTIX_ABI, 0, NULL, NULL, functions, sizeof *functions);
    if (result == NF_OPTIX_OK && functions->launch != NULL) return true;
    if (result == NF_OPTIX_ABI_REFUSED) {
        nf_rt_fault_set(fault, NF_ERR_ENGINE,
                        "the driver's OptiX refuses binary interface %d (OptiX 8.0; drivers from 535 on have it)",
                        NF_OPTIX_ABI);
    } else {
        nf_rt_fault_set(fault, NF_ERR_ENGINE, "the driver's OptiX cannot be used: error %d", result);
    }
    return false;
}

const nf_optix_functions *nf_rt_library_open(nf_rt_fault *fault)
{
    pthread_mutex_lock(&library.lock);
    if (!library.tried) {
        library.tried = true;
        void *handle = open_library(&library.fault);
        if (handle != NULL) {
            library.usable = query_functions(handle, &library.functions, &library.fault);
            if (!library.usable) dlclose(handle);
        }
    }
    if (!library.usable) *fault = library.fault;
    pthread_mutex_unlock(&library.lock);
    return library.usable ? &library.functions : NULL;
}

nf_status nf_rt_fault_optix(nf_rt_fault *fault, const nf_optix_functions *optix, int result, const char *what,
                            const char *log)
{
    if (result == NF_OPTIX_OK) return NF_OK;
    const nf_status status = result == NF_OPTIX_OUT_OF_DEVICE_MEMORY ? NF_ERR_DEVICE_MEMORY
                             : result == NF_OPTIX_OUT_OF_HOST_MEMORY ? NF_ERR_MEMORY
                                                                     : NF_ERR_DEVICE;
    const char *name = optix->result_name(result);
    const char *text = optix->result_text(result);
    return nf_rt_fault_set(fault, status, "OptiX: %s: %s (%s, %d)%s%s", what, text != NULL ? text : "",
                           name != NULL ? name : "", result, log[0] != '\0' ? ": " : "", log);
}
