/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a sealed file.
 *
 * Header, table and footer are read into memory of our own and checked there, so that nothing can change between the
 * check and the use, also where the file is mapped. The order: regular file, long enough for a header, magic, word
 * mark, version, length, size of the table, hash over header and table, then the table's numbers, then the footer. Only
 * then is memory for the file taken, or the file mapped; sizes are by then known to agree with the length that the
 * system gives.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core_context.h"
#include "core/core_pool.h"
#include "core/core_system.h"
#include "store_layout.h"
#include "store_verify.h"

#define READ_PIECE ((uint64_t)8 << 20) /* a task of reading: large enough for the disk, small enough to stop soon */

struct nf_sealed_file {
    nf_sealed_info    info;
    void             *block;  /* the file in memory, or NULL */
    void             *mapped; /* the mapped file, or NULL */
    uint32_t          count;
    nf_sealed_section sections[NF_SEALED_MAX_SECTIONS];
};

/* A file that is being opened. */
typedef struct reading {
    nf_context      *ctx;
    const char      *path;
    int              fd;
    uint64_t         bytes; /* of the file, as the system says */
    uint8_t         *block; /* what read_task fills */
    nf_sealed_layout layout;
} reading;

static nf_status read_at(const reading *in, void *to, uint64_t offset, uint64_t bytes)
{
    uint8_t *at = to;

    while (bytes > 0) {
        const ssize_t got = pread(in->fd, at, (size_t)(bytes < READ_PIECE ? bytes : READ_PIECE), (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return nf_fail_errno(in->ctx, NF_ERR_IO, errno, "%s: cannot read", in->path);
        if (got == 0) {
            return nf_fail(in->ctx, NF_ERR_IO, "%s: became shorter while it was read, at byte %" PRIu64, in->path,
                           offset);
        }
        at += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return NF_OK;
}

static nf_status open_regular(reading *in)
{
    struct stat status;

    do { /* O_NONBLOCK: opening a FIFO must not wait for a writer; it changes nothing for regular files */
        in->fd = open(in->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (in->fd < 0 && errno == EINTR);
    if (in->fd < 0) return nf_fail_errno(in->ctx, NF_ERR_IO, errno, "%s: cannot open", in->path);
    if (fstat(in->fd, &status) != 0) return nf_fail_errno(in->ctx, NF_ERR_IO, errno, "%s: cannot read", in->path);
    if (S_ISDIR(status.st_mode)) return nf_fail(in->ctx, NF_ERR_IO, "%s: is a directory, not a file", in->path);
    if (!S_ISREG(status.st_mode)) return nf_fail(in->ctx, NF_ERR_IO, "%s: is not a regular file", in->path);
    in->bytes = (uint64_t)status.st_size;
    return NF_OK;
}

/* The first bytes say what the file is; what they cannot be blamed for is damage. */
static nf_status read_header(const reading *in, uint8_t header[NF_SEALED_HEADER_BYTES])
{
    const uint64_t bytes = in->bytes < NF_SEALED_HEADER_BYTES ? in->bytes : NF_SEALED_HEADER_BYTES;

    memset(header, 0, NF_SEALED_HEADER_BYTES);
    NF_TRY(read_at(in, header, 0, bytes));
    if (memcmp(header, NF_SEALED_MAGIC, NF_SEALED_NAME_BYTES) != 0) {
        return nf_fail(in->ctx, NF_ERR_FORMAT, "%s: is not an index file of Nearfield", in->path);
    }
    if (bytes < NF_SEALED_HEADER_BYTES) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED, "%s: is cut short: it has %" PRIu64 " bytes, a header alone has %u",
                       in->path, in->bytes, NF_SEALED_HEADER_BYTES);
    }
    if (memcmp(header, NF_SEALED_MAGIC, NF_SEALED_MAGIC_BYTES) != 0) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED,
                       "%s: the ends of lines in its first bytes are changed, as by a transfer as text",
                       in->path);
    }
    return NF_OK;
}

static nf_status check_version(reading *in, const uint8_t *header)
{
    const uint64_t mark = nf_sealed_get(header + NF_SEALED_AT_WORD_MARK, 8);
    const unsigned major = (unsigned)nf_sealed_get(header + NF_SEALED_AT_MAJOR, 2);
    const unsigned minor = (unsigned)nf_sealed_get(header + NF_SEALED_AT_MINOR, 2);
    const unsigned least_major = (unsigned)nf_sealed_get(header + NF_SEALED_AT_READER_MAJOR, 2);
    const unsigned least_minor = (unsigned)nf_sealed_get(header + NF_SEALED_AT_READER_MINOR, 2);

    if (mark == NF_SEALED_WORD_MARK_SWAPPED) {
        return nf_fail(in->ctx, NF_ERR_FORMAT, "%s: its bytes are in the other order (big-endian)", in->path);
    }
    if (mark != NF_SEALED_WORD_MARK) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED, "%s: its mark of the byte order is %016" PRIx64, in->path, mark);
    }
    if (least_major > NF_SEALED_MAJOR || (least_major == NF_SEALED_MAJOR && least_minor > NF_SEALED_MINOR)) {
        return nf_fail(in->ctx, NF_ERR_VERSION,
                       "%s: was made by a newer version: format %u.%u needs a reader of %u.%u, "
                       "this one reads up to %u.%u",
                       in->path, major, minor, least_major, least_minor, NF_SEALED_MAJOR, NF_SEALED_MINOR);
    }
    if (least_major < 1 || major < least_major || (major == least_major && minor < least_minor)) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED,
                       "%s: says that it is of format %u.%u and needs a reader of %u.%u; there is no "
                       "such version",
                       in->path, major, minor, least_major, least_minor);
    }
    in->layout.major = (uint16_t)major;
    in->layout.minor = (uint16_t)minor;
    return NF_OK;
}

static nf_status check_header(reading *in, const uint8_t *header)
{
    const uint64_t bytes = nf_sealed_get(header + NF_SEALED_AT_BYTES, 8);
    const uint64_t reserved = nf_sealed_get(header + NF_SEALED_AT_RESERVED, 8);
    const uint32_t count = (uint32_t)nf_sealed_get(header + NF_SEALED_AT_COUNT, 4);
    const uint32_t head_bytes = (uint32_t)nf_sealed_get(header + NF_SEALED_AT_HEAD_BYTES, 4);

    if (bytes != in->bytes) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED, "%s: has %" PRIu64 " bytes, but its header says %" PRIu64, in->path,
                       in->bytes, bytes);
    }
    if (count < 1 || count > NF_SEALED_MAX_ENTRIES) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED, "%s: its header says %" PRIu32 " sections, allowed are 1 to %u",
                       in->path, count, NF_SEALED_MAX_ENTRIES);
    }
    if (head_bytes != nf_sealed_head_bytes(count) || head_bytes > bytes) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED, "%s: its header says that header and table have %" PRIu32
                       " bytes, but with %" PRIu32 " sections they have %" PRIu32, in->path, head_bytes, count,
                       nf_sealed_head_bytes(count));
    }
    if (reserved != 0) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED, "%s: a field that must be 0 is %" PRIu64, in->path, reserved);
    }
    in->layout.count = count;
    in->layout.file_id = nf_sealed_get(header + NF_SEALED_AT_FILE_ID, 8);
    return NF_OK;
}

/* Header and table, checked against each other and against the length of the file. */
static nf_status read_head(reading *in)
{
    uint8_t head[NF_SEALED_MAX_HEAD_BYTES];

    NF_TRY(read_header(in, head));
    NF_TRY(check_version(in, head));
    NF_TRY(check_header(in, head));
    const uint32_t bytes = nf_sealed_head_bytes(in->layout.count);
    NF_TRY(read_at(in, head + NF_SEALED_HEADER_BYTES, NF_SEALED_HEADER_BYTES, bytes - NF_SEALED_HEADER_BYTES));
    if (nf_sealed_get(head + NF_SEALED_AT_HEAD_HASH, 8) != nf_sealed_head_hash(head, bytes)) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED,
                       "%s: header and table are damaged, in bytes 0 to %" PRIu32 " of the file", in->path, bytes - 1);
    }
    nf_sealed_decode_table(head + NF_SEALED_HEADER_BYTES, &in->layout);
    return NF_OK;
}

/* Types ascending and the checksum section, and no other, last; lengths that fit. */
static nf_status check_entries(const reading *in)
{
    const nf_sealed_layout *layout = &in->layout;
    const uint64_t          sums = nf_sealed_all_chunks(layout) * NF_SEALED_CHECKSUM_BYTES;
    uint32_t                before = 0;

    for (uint32_t i = 0; i < layout->count; i++) {
        const nf_sealed_entry *entry = &layout->entries[i];
        if (entry->type <= before || (entry->type == NF_SEALED_CHECKSUMS) != (i + 1 == layout->count)) {
            return nf_fail(in->ctx, NF_ERR_DAMAGED, "%s: entry %" PRIu32 " of the table has type %" PRIu32
                           "; types ascend, and the last is %" PRIu32, in->path, i, entry->type, NF_SEALED_CHECKSUMS);
        }
        if (entry->bytes > in->bytes) {
            return nf_fail(in->ctx, NF_ERR_DAMAGED, "%s: section %" PRIu32 " is said to have %" PRIu64
                           " bytes, but the file has %" PRIu64, in->path, entry->type, entry->bytes, in->bytes);
        }
        before = entry->type;
    }
    if (layout->entries[layout->count - 1].bytes != sums) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED,
                       "%s: the section of checksums has %" PRIu64 " bytes, but the sections need %" PRIu64,
                       in->path, layout->entries[layout->count - 1].bytes, sums);
    }
    return NF_OK;
}

/* Each section lies where the lengths put it, and all of them fill the file: none overlaps, none reaches outside. */
static nf_status check_places(reading *in)
{
    nf_sealed_layout should = in->layout;

    if (!nf_sealed_arrange(&should) || should.bytes != in->bytes) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED, "%s: its sections do not take the %" PRIu64 " bytes of the file",
                       in->path, in->bytes);
    }
    for (uint32_t i = 0; i < should.count; i++) {
        if (in->layout.entries[i].offset != should.entries[i].offset) {
            return nf_fail(in->ctx, NF_ERR_DAMAGED,
                           "%s: section %" PRIu32 " is said to begin at byte %" PRIu64 ", but must begin at %" PRIu64,
                           in->path, should.entries[i].type, in->layout.entries[i].offset, should.entries[i].offset);
        }
    }
    in->layout.bytes = should.bytes;
    return NF_OK;
}

static nf_status check_footer(const reading *in)
{
    uint8_t        footer[NF_SEALED_FOOTER_BYTES], should[NF_SEALED_FOOTER_BYTES];
    const uint64_t begin = in->bytes - sizeof footer;

    if (in->layout.file_id != nf_sealed_content_id(&in->layout)) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED, "%s: its id is %016" PRIx64 ", but its sections give %016" PRIx64,
                       in->path, in->layout.file_id, nf_sealed_content_id(&in->layout));
    }
    NF_TRY(read_at(in, footer, begin, sizeof footer));
    nf_sealed_encode_footer(&in->layout, should);
    if (memcmp(footer, should, sizeof footer) != 0) {
        return nf_fail(in->ctx, NF_ERR_DAMAGED, "%s: the footer is damaged, in bytes %" PRIu64 " to %" PRIu64
                       " of the file", in->path, begin, in->bytes - 1);
    }
    return NF_OK;
}

static nf_status check_structure(reading *in)
{
    NF_TRY(open_regular(in));
    NF_TRY(read_head(in));
    NF_TRY(check_entries(in));
    NF_TRY(check_places(in));
    return check_footer(in);
}

static nf_status read_task(void *arg, uint64_t task, uint32_t worker)
{
    const reading *in = arg;
    const uint64_t begin = task * READ_PIECE;
    const uint64_t left = in->bytes - begin;
    const uint64_t bytes = left < READ_PIECE ? left : READ_PIECE;
    (void)worker;

    NF_TRY(read_at(in, in->block + begin, begin, bytes));
    nf_progress_add(in->ctx, bytes);
    return NF_OK;
}

/* The whole file into one block: offsets are multiples of 64 and so is the block's address. */
static nf_status load(reading *in, nf_memory *memory, nf_sealed_file *file)
{
    /* A sparse file may claim any length: with memory overcommitted it would be read until the system ends the process. */
    if (in->bytes > nf_system_memory()) {
        return nf_fail(in->ctx, NF_ERR_LIMIT, "%s: %llu bytes are more than the memory of this machine; it can be mapped",
                       in->path, (unsigned long long)in->bytes);
    }
    file->block = nf_alloc_in(in->ctx, memory, in->bytes, 1);
    if (file->block == NULL) return nf_alloc_status(in->ctx);
    in->block = file->block;
    nf_progress_begin(in->ctx, "read", in->bytes);
    return nf_pool_run(in->ctx, read_task, in, in->bytes / READ_PIECE + 1);
}

static nf_status map_file(const reading *in, nf_sealed_file *file)
{
    if (in->bytes > SIZE_MAX) return nf_fail(in->ctx, NF_ERR_IO, "%s: is too large for this machine", in->path);
    void *data = mmap(NULL, (size_t)in->bytes, PROT_READ, MAP_SHARED, in->fd, 0);
    if (data == MAP_FAILED) return nf_fail_errno(in->ctx, NF_ERR_IO, errno, "%s: cannot map", in->path);
    file->mapped = data;
    return NF_OK;
}

static void fill_file(const nf_sealed_layout *layout, nf_sealed_file *file)
{
    const uint8_t *data = file->mapped != NULL ? file->mapped : file->block;

    file->info = (nf_sealed_info){
        .bytes = layout->bytes, .file_id = layout->file_id, .major = layout->major, .minor = layout->minor};
    file->count = layout->count - 1;
    for (uint32_t i = 0; i < file->count; i++) {
        const nf_sealed_entry *entry = &layout->entries[i];
        file->sections[i] = (nf_sealed_section){
            .type = entry->type, .flags = entry->flags, .data = data + entry->offset, .bytes = entry->bytes};
    }
}

static nf_status take_file(reading *in, nf_memory *memory, bool map, nf_verify verify, nf_sealed_file *file)
{
    NF_TRY(map ? map_file(in, file) : load(in, memory, file));
    fill_file(&in->layout, file);
    if (verify == NF_VERIFY_STRUCTURE) return NF_OK;
    return nf_sealed_verify(in->ctx, in->path, &in->layout, file->mapped != NULL ? file->mapped : file->block);
}

static nf_status open_checked(reading *in, nf_memory *memory, bool map, nf_verify verify, nf_sealed_file **out)
{
    NF_TRY(check_structure(in));
    nf_sealed_file *file = nf_alloc_zero_in(in->ctx, memory, 1, sizeof *file);
    if (file == NULL) return nf_alloc_status(in->ctx);
    const nf_status status = take_file(in, memory, map, verify, file);
    if (status == NF_OK) {
        *out = file;
    } else {
        nf_sealed_close(file);
    }
    return status;
}

nf_status nf_sealed_open(nf_context *ctx, nf_memory *memory, const char *path, bool map, nf_verify verify,
                         nf_sealed_file **out)
{
    reading in = {.ctx = ctx, .path = path, .fd = -1};

    *out = NULL;
    const nf_status status = open_checked(&in, memory, map, verify, out);
    if (in.fd >= 0) (void)close(in.fd); /* read only: nothing to lose; a map stays */
    return status;
}

const nf_sealed_section *nf_sealed_find(const nf_sealed_file *file, uint32_t type)
{
    for (uint32_t i = 0; i < file->count; i++) {
        if (file->sections[i].type == type) return &file->sections[i];
    }
    return NULL;
}

const nf_sealed_section *nf_sealed_unknown(const nf_sealed_file *file, const uint32_t *known, uint32_t count)
{
    for (uint32_t i = 0; i < file->count; i++) {
        const nf_sealed_section *section = &file->sections[i];
        bool                     found = (section->flags & NF_SEALED_REQUIRED) == 0;
        for (uint32_t k = 0; k < count && !found; k++) found = known[k] == section->type;
        if (!found) return section;
    }
    return NULL;
}

void nf_sealed_describe(const nf_sealed_file *file, nf_sealed_info *info)
{
    *info = file->info;
}

void nf_sealed_close(nf_sealed_file *file)
{
    if (file == NULL) return;
    if (file->mapped != NULL) (void)munmap(file->mapped, (size_t)file->info.bytes);
    nf_free(file->block);
    nf_free(file);
}
