/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output files: temporary name, positioned or buffered writes, fsync, rename, fsync of the folder.
 *
 * Every step that can lose data is checked, close included (quotas and network file systems report there). After a
 * failed fsync nothing is tried again: the kernel may have dropped the pages. A link is followed, so that the file
 * behind it is replaced and the link stays. The temporary name holds the process id and 64 random bits and is created
 * exclusively.
 */
#include "io_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core_context.h"
#include "core/core_error.h"
#include "core/core_memory.h"

#define BUFFER_BYTES ((size_t)256 << 10)
#define WRITE_MAX ((size_t)1 << 30) /* Linux writes less than 2 GiB at a time */
#define RESERVE_MIN ((uint64_t)1 << 20)
#define NAME_KEPT 180 /* of 255 bytes that a name may have, what the temporary one keeps */
#define TRIES 16

/* Length of the folder part with its slash: 4 for "out/a.npz", 0 for "a.npz". */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

static char *copy_text(nf_context *ctx, const char *text, size_t length)
{
    char *copy = nf_alloc(ctx, length + 1, 1);
    if (copy == NULL) return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

/* The file that the path leads to: links followed where there is a file behind them. */
static nf_status resolve_target(nf_output *out, const char *path, bool exists)
{
    char       *real = exists ? realpath(path, NULL) : NULL;
    const char *use = real != NULL ? real : path;
    out->target = copy_text(out->ctx, use, strlen(use));
    free(real);
    return out->target != NULL ? NF_OK : nf_alloc_status(out->ctx);
}

static nf_status name_temporary(nf_output *out)
{
    const size_t folder = folder_length(out->target);
    const char  *name = out->target + folder;
    const size_t room = folder + NAME_KEPT + 64;
    uint64_t     random = 0;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) random = (uint64_t)(nf_now() * 1e9);
    if (out->temporary == NULL) out->temporary = nf_alloc(out->ctx, room, 1);
    if (out->temporary == NULL) return nf_alloc_status(out->ctx);
    snprintf(out->temporary, room, "%.*s.%.*s.%ld-%016" PRIx64 ".tmp", (int)folder, out->target, NAME_KEPT, name,
             (long)getpid(), random);
    return NF_OK;
}

/* Creates the temporary file. It gets the mode of the file that it will replace. */
static nf_status open_temporary(nf_output *out, const struct stat *old)
{
    for (int i = 0; i < TRIES && out->fd < 0; i++) {
        NF_TRY(name_temporary(out));
        out->fd = open(out->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out->fd < 0 && errno != EEXIST && errno != EINTR) break;
    }
    if (out->fd < 0) {
        const int reason = errno;
        nf_free(out->temporary);
        out->temporary = NULL;
        return nf_fail_errno(out->ctx, NF_ERR_IO, reason, "%s: cannot create a file in its folder", out->name);
    }
    if (old != NULL) (void)fchmod(out->fd, old->st_mode & 0777); /* file systems without modes refuse */
    return NF_OK;
}

static nf_status open_directly(nf_output *out, const char *path)
{
    do {
        out->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    } while (out->fd < 0 && errno == EINTR);
    if (out->fd < 0) return nf_fail_errno(out->ctx, NF_ERR_IO, errno, "%s: cannot open for writing", out->name);
    return NF_OK;
}

static nf_status open_path(nf_output *out, const char *path)
{
    struct stat old;
    const bool  exists = stat(path, &old) == 0;
    const size_t length = strlen(path);

    if (length == 0) return nf_fail(out->ctx, NF_ERR_ARGUMENT, "the output needs a name");
    if ((exists && S_ISDIR(old.st_mode)) || (!exists && path[length - 1] == '/')) {
        return nf_fail(out->ctx, NF_ERR_IO, "%s: is a folder, not a file", path);
    }
    if (exists && !S_ISREG(old.st_mode)) return open_directly(out, path);
    if (exists && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0) {
        return nf_fail_errno(out->ctx, NF_ERR_IO, errno, "%s: cannot be replaced", path);
    }
    NF_TRY(resolve_target(out, path, exists));
    return open_temporary(out, exists ? &old : NULL);
}

nf_status nf_output_open(nf_context *ctx, const char *path, nf_output *out)
{
    nf_status status = NF_OK;

    *out = (nf_output){.ctx = ctx, .name = path, .fd = -1, .spool_for = -1};
    if (strcmp(path, "-") == 0) {
        out->name = "standard output";
        out->fd = STDOUT_FILENO;
        out->borrowed = true;
    } else {
        status = open_path(out, path);
    }
    if (status == NF_OK) {
        out->buffer = nf_alloc(ctx, BUFFER_BYTES, 1);
        if (out->buffer == NULL) status = nf_alloc_status(ctx);
    }
    if (status < 0) nf_output_discard(out);
    return status;
}

bool nf_output_is_regular(const nf_output *out)
{
    return out->temporary != NULL;
}

static nf_status fail_write(const nf_output *out, int reason)
{
    if (out->spool_for >= 0) {
        return nf_fail_errno(out->ctx, NF_ERR_IO, reason, "%s: cannot write to a temporary file in TMPDIR", out->name);
    }
    return nf_fail_errno(out->ctx, NF_ERR_IO, reason, "%s: cannot write", out->name);
}

nf_status nf_output_positioned(nf_output *out)
{
    if (nf_output_is_regular(out) || out->spool_for >= 0) return NF_OK;

    const char  *folder = getenv("TMPDIR");
    if (folder == NULL || folder[0] == '\0') folder = "/tmp";
    const size_t room = strlen(folder) + 32;
    char        *name = nf_alloc(out->ctx, room, 1);
    if (name == NULL) return nf_alloc_status(out->ctx);
    snprintf(name, room, "%s/nearfield-XXXXXX", folder);
    const int fd = mkostemp(name, O_CLOEXEC);
    const int reason = errno;
    if (fd >= 0) (void)unlink(name);
    nf_free(name);
    if (fd < 0) {
        return nf_fail_errno(out->ctx, NF_ERR_IO, reason, "%s: cannot create a temporary file in '%s'", out->name,
                             folder);
    }
    out->spool_for = out->fd;
    out->fd = fd;
    return NF_OK;
}

nf_status nf_output_reserve(nf_output *out, uint64_t bytes)
{
    if (bytes < RESERVE_MIN || (!nf_output_is_regular(out) && out->spool_for < 0)) return NF_OK;
    if (bytes > INT64_MAX) return fail_write(out, EFBIG);
    int result;
    do { /* not posix_fallocate, which writes a byte per block where the file system cannot */
        result = fallocate(out->fd, 0, 0, (off_t)bytes);
    } while (result != 0 && errno == EINTR);
    if (result == 0 || errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS) return NF_OK;
    return fail_write(out, errno);
}

/* Writes all bytes at offset, or at the current place when offset is negative. Returns 0 or an errno value. */
static int write_all(int fd, const char *data, size_t bytes, int64_t offset)
{
    while (bytes > 0) {
        const size_t  part = bytes < WRITE_MAX ? bytes : WRITE_MAX;
        const ssize_t done = offset < 0 ? write(fd, data, part) : pwrite(fd, data, part, (off_t)offset);
        if (done < 0 && errno != EINTR) return errno;
        if (done == 0) return EIO;
        if (done < 0) continue;
        data += done;
        bytes -= (size_t)done;
        if (offset >= 0) offset += done;
    }
    return 0;
}

static nf_status write_here(const nf_output *out, const char *data, size_t bytes)
{
    const int reason = write_all(out->fd, data, bytes, -1);
    return reason == 0 ? NF_OK : fail_write(out, reason);
}

static nf_status flush(nf_output *out)
{
    const size_t bytes = out->fill;
    out->fill = 0;
    return write_here(out, out->buffer, bytes);
}

nf_status nf_output_append(nf_output *out, const void *data, size_t bytes)
{
    if (bytes > BUFFER_BYTES - out->fill) NF_TRY(flush(out));
    if (bytes >= BUFFER_BYTES) return write_here(out, data, bytes);
    memcpy(out->buffer + out->fill, data, bytes);
    out->fill += bytes;
    return NF_OK;
}

nf_status nf_output_write_at(nf_output *out, uint64_t offset, const void *data, size_t bytes)
{
    const int reason = offset <= INT64_MAX ? write_all(out->fd, data, bytes, (int64_t)offset) : EFBIG;
    return reason == 0 ? NF_OK : fail_write(out, reason);
}

/* Copies the spool to where it belongs, and takes that descriptor back. */
static nf_status unspool(nf_output *out)
{
    const int spool = out->fd;
    nf_status status = NF_OK;
    int64_t   offset = 0;

    out->fd = out->spool_for;
    out->spool_for = -1;
    while (status == NF_OK) {
        const ssize_t got = pread(spool, out->buffer, BUFFER_BYTES, (off_t)offset);
        if (got == 0) break;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            status = nf_fail_errno(out->ctx, NF_ERR_IO, errno, "%s: cannot read back the temporary file", out->name);
            break;
        }
        status = write_here(out, out->buffer, (size_t)got);
        if (status == NF_OK) status = nf_progress_poll(out->ctx);
        offset += got;
    }
    (void)close(spool); /* nameless, read only since: nothing to lose */
    return status;
}

static nf_status sync_file(const nf_output *out)
{
    while (fsync(out->fd) != 0) {
        if (errno != EINTR) return nf_fail_errno(out->ctx, NF_ERR_IO, errno, "%s: cannot sync to disk", out->name);
    }
    return NF_OK;
}

/* Opens the target's folder, for fsync after the rename; -1 where it may not be read. Before the rename, so that
 * nothing but the disk can fail after it. */
static nf_status open_folder(const nf_output *out, int *fd)
{
    const size_t length = folder_length(out->target);
    char        *folder = copy_text(out->ctx, length > 0 ? out->target : ".", length > 0 ? length : 1);
    if (folder == NULL) return nf_alloc_status(out->ctx);
    *fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    nf_free(folder);
    return NF_OK;
}

/* Makes the rename last. A folder that does not know fsync is left to the system. */
static nf_status sync_folder(const nf_output *out, int fd)
{
    if (fsync(fd) == 0 || errno == EINVAL || errno == ENOSYS) return NF_OK;
    return nf_fail_errno(out->ctx, NF_ERR_IO, errno, "%s: cannot sync its folder to disk", out->name);
}

static nf_status close_file(nf_output *out)
{
    const int fd = out->fd;
    out->fd = -1;
    /* Linux has closed the descriptor even after EINTR. */
    if (!out->borrowed && close(fd) != 0 && errno != EINTR) return fail_write(out, errno);
    return NF_OK;
}

static nf_status rename_file(nf_output *out)
{
    if (rename(out->temporary, out->target) != 0) {
        return nf_fail_errno(out->ctx, NF_ERR_IO, errno, "%s: cannot rename the temporary file to it", out->name);
    }
    nf_free(out->temporary);
    out->temporary = NULL;
    return NF_OK;
}

/* The file's bytes are all written and closed: gives them their name. */
static nf_status publish(nf_output *out, bool sync)
{
    int folder = -1;

    if (sync) NF_TRY(open_folder(out, &folder));
    nf_status status = nf_progress_poll(out->ctx); /* the last moment to stop without a trace */
    if (status == NF_OK) status = rename_file(out);
    if (status == NF_OK && folder >= 0) status = sync_folder(out, folder);
    if (folder >= 0) (void)close(folder);
    return status;
}

static nf_status finish(nf_output *out, bool sync)
{
    const bool regular = nf_output_is_regular(out);

    NF_TRY(flush(out));
    if (out->spool_for >= 0) NF_TRY(unspool(out));
    if (regular && sync) NF_TRY(sync_file(out));
    NF_TRY(close_file(out));
    return regular ? publish(out, sync) : NF_OK;
}

nf_status nf_output_commit(nf_output *out, bool sync)
{
    const nf_status status = finish(out, sync);
    nf_output_discard(out);
    return status;
}

void nf_output_discard(nf_output *out)
{
    if (out->spool_for >= 0) {
        (void)close(out->fd);
        out->fd = out->spool_for;
    }
    if (out->fd >= 0 && !out->borrowed) (void)close(out->fd);
    if (out->temporary != NULL) (void)unlink(out->temporary);
    nf_free(out->temporary);
    nf_free(out->target);
    nf_free(out->buffer);
    *out = (nf_output){.ctx = out->ctx, .name = out->name, .fd = -1, .spool_for = -1};
}
