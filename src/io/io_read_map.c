/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and mapping files. A file is mapped whole and read-only: no byte is copied to look at a header. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core_context.h"
#include "io_read.h"

static nf_status check_regular(nf_context *ctx, const char *path, const struct stat *status)
{
    if (S_ISDIR(status->st_mode)) return nf_fail(ctx, NF_ERR_IO, "%s: is a directory, not a file", path);
    if (!S_ISREG(status->st_mode)) return nf_fail(ctx, NF_ERR_IO, "%s: is not a regular file", path);
    return NF_OK;
}

static nf_status map_descriptor(nf_context *ctx, int descriptor, nf_mapping *file)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0) return nf_fail_errno(ctx, NF_ERR_IO, errno, "%s: cannot read", file->path);
    NF_TRY(check_regular(ctx, file->path, &status));
    file->bytes = (uint64_t)status.st_size;
    if (file->bytes == 0) return NF_OK;
    if (file->bytes > SIZE_MAX) return nf_fail(ctx, NF_ERR_IO, "%s: is too large for this machine", file->path);
    void *data = mmap(NULL, (size_t)file->bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) return nf_fail_errno(ctx, NF_ERR_IO, errno, "%s: cannot map", file->path);
    file->data = data;
    file->mapped = true;
    return NF_OK;
}

nf_status nf_mapping_open(nf_context *ctx, const char *path, nf_mapping *file)
{
    *file = (nf_mapping){.path = path};
    /* O_NONBLOCK: opening a FIFO must not wait for a writer; it changes nothing for regular files. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) return nf_fail_errno(ctx, NF_ERR_IO, errno, "%s: cannot open", path);
    const nf_status status = map_descriptor(ctx, descriptor, file);
    close(descriptor);
    return status;
}

void nf_mapping_close(nf_mapping *file)
{
    if (file->mapped) munmap((void *)(uintptr_t)file->data, (size_t)file->bytes);
    *file = (nf_mapping){.path = NULL};
}

void nf_mapping_advise(const nf_mapping *file, uint64_t offset, uint64_t bytes, bool once)
{
    if (!file->mapped || bytes == 0) return;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t begin = offset / page * page;
    void          *address = (void *)(uintptr_t)(file->data + begin);
    const size_t   length = (size_t)(offset + bytes - begin);
    const int      saved = errno;
    if (once) (void)madvise(address, length, MADV_SEQUENTIAL);
    (void)madvise(address, length, MADV_WILLNEED);
    errno = saved; /* hints may be refused; nothing depends on them */
}
