/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_common.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LIMIT ((uint64_t)32 << 20)

static size_t live, peak;
static char   folder[64], output[96];

static void *heap_alloc(void *user, size_t size, size_t align)
{
    void *block = NULL;
    (void)user;
    if (posix_memalign(&block, align, size) != 0) return NULL;
    live += size;
    if (live > peak) peak = live;
    return block;
}

static void heap_release(void *user, void *block, size_t size, size_t align)
{
    (void)user;
    (void)align;
    live -= size;
    free(block);
}

void fuzz_demand(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "fuzz: does not hold: %s\n", what);
    abort();
}

nf_context *fuzz_context(void)
{
    static nf_context *ctx;
    nf_context_params  params;
    if (ctx != NULL) return ctx;
    nf_context_params_init(&params);
    params.threads = 1;
    params.memory = LIMIT;
    params.allocator = (nf_allocator){.alloc = heap_alloc, .release = heap_release};
    fuzz_demand(nf_context_create(&params, &ctx, NULL) == NF_OK, "a context");
    return ctx;
}

size_t fuzz_live(void)
{
    fuzz_demand(peak <= LIMIT, "the memory limit is kept");
    return live;
}

void fuzz_demand_error(nf_status status)
{
    fuzz_demand(status == NF_ERR_FORMAT || status == NF_ERR_VALUE || status == NF_ERR_ARGUMENT ||
                    status == NF_ERR_MEMORY || status == NF_ERR_LIMIT || status == NF_ERR_VERSION ||
                    status == NF_ERR_IO,
                "a status that the header lists");
    fuzz_demand(strlen(nf_context_error(fuzz_context())->text) > 0, "a failure has a text");
}

const char *fuzz_input_path(const uint8_t *data, size_t size)
{
    static int  file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    fuzz_demand(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size,
                "a file in memory");
    return path;
}

static void remove_output(void)
{
    (void)unlink(output);
    fuzz_demand(rmdir(folder) == 0, "no temporary file is left");
}

const char *fuzz_output_path(void)
{
    if (folder[0] == 0) {
        const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(folder, sizeof folder, "%s/nearfield_fuzz_XXXXXX", base);
        fuzz_demand(mkdtemp(folder) != NULL, "a folder for output");
        snprintf(output, sizeof output, "%s/out", folder);
        (void)atexit(remove_output);
    }
    return output;
}
