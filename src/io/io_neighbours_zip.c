/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of zip files, as NumPy writes them: stored or deflated, with or without zip64 fields (PKWARE's APPNOTE 6.3).
 *
 *     end record (last 22 to 65557 bytes) -> directory -> entry of the name -> local header -> values
 *
 * Each place and size is checked against the file before it is used, and the CRC-32 of the values is compared. Sizes
 * are those of the directory, since a local header may leave them open. Deflate makes at most 1032 bytes of one, which
 * bounds what a member can claim before memory is taken for it.
 */
#include <inttypes.h>
#include <string.h>

#define ZLIB_CONST 1
#include <zlib.h>

#include "core/core_context.h"
#include "io_neighbours.h"

#define END_BYTES 22u
#define END_REACH (END_BYTES + 65535u) /* with the longest comment */
#define LOCATOR_BYTES 20u
#define END64_BYTES 56u
#define ENTRY_BYTES 46u
#define LOCAL_BYTES 30u
#define IN_ZIP64 0xffffffffu
#define ENTRIES_MAX 65536u
#define DEFLATE_MOST 1032u
#define STORED 0u
#define DEFLATED 8u

/* The directory's place, and an entry of it. */
typedef struct directory {
    uint64_t begin, end, entries;
} directory;

typedef struct entry {
    uint32_t flags, method, crc;
    uint64_t packed, bytes, local;
} entry;

static uint32_t load_u16(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static nf_status broken(nf_context *ctx, const nf_mapping *file, const char *what, uint64_t place)
{
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: %s at byte %" PRIu64 " of %" PRIu64, file->path, what, place, file->bytes);
}

/* Whether bytes begin .. begin + count - 1 are in the file. */
static bool inside(const nf_mapping *file, uint64_t begin, uint64_t count)
{
    return begin <= file->bytes && count <= file->bytes - begin;
}

/* The end record is the last one whose comment reaches exactly to the end of the file. */
static nf_status find_end(nf_context *ctx, const nf_mapping *file, uint64_t *place)
{
    const uint64_t reach = file->bytes < END_REACH ? file->bytes : END_REACH;
    for (uint64_t back = END_BYTES; back <= reach; back++) {
        const uint8_t *at = file->data + (file->bytes - back);
        if (nf_load_u32(at) != 0x06054b50u || END_BYTES + load_u16(at + 20) != back) continue;
        *place = file->bytes - back;
        return NF_OK;
    }
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: has no end of a zip file (%" PRIu64 " bytes)", file->path, file->bytes);
}

/* Where the end record leaves a number to zip64: the record in front of it. */
static nf_status read_end64(nf_context *ctx, const nf_mapping *file, uint64_t end, directory *out)
{
    if (end < LOCATOR_BYTES || nf_load_u32(file->data + end - LOCATOR_BYTES) != 0x07064b50u) {
        return broken(ctx, file, "no zip64 locator before the end record", end);
    }
    const uint64_t place = nf_load_u64(file->data + end - LOCATOR_BYTES + 8);
    if (!inside(file, place, END64_BYTES) || nf_load_u32(file->data + place) != 0x06064b50u) {
        return broken(ctx, file, "no zip64 end record", place);
    }
    out->entries = nf_load_u64(file->data + place + 32);
    out->end = nf_load_u64(file->data + place + 40); /* bytes, for now */
    out->begin = nf_load_u64(file->data + place + 48);
    return NF_OK;
}

static nf_status find_directory(nf_context *ctx, const nf_mapping *file, directory *out)
{
    uint64_t end = 0;
    NF_TRY(find_end(ctx, file, &end));
    const uint8_t *at = file->data + end;
    out->entries = load_u16(at + 10);
    out->end = nf_load_u32(at + 12);
    out->begin = nf_load_u32(at + 16);
    const bool large = out->entries == 0xffffu || out->end == IN_ZIP64 || out->begin == IN_ZIP64;
    if (large) NF_TRY(read_end64(ctx, file, end, out));
    if (out->begin > end || out->end > end - out->begin) {
        return broken(ctx, file, "directory of the zip file does not fit before its end record", out->begin);
    }
    out->end += out->begin;
    if (out->entries <= ENTRIES_MAX) return NF_OK;
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: zip file of %" PRIu64 " members; at most %u can be read", file->path,
                   out->entries, ENTRIES_MAX);
}

/* Takes from an entry's zip64 field the numbers that the entry leaves to it, which stand there in this order. */
static bool take_zip64(entry *out, const uint8_t *extra, uint32_t bytes)
{
    uint64_t *wanted[] = {&out->bytes, &out->packed, &out->local};
    while (bytes >= 4) {
        const uint32_t tag = load_u16(extra);
        uint32_t       left = load_u16(extra + 2);
        extra += 4;
        bytes -= 4;
        if (left > bytes) return false;
        const uint8_t *at = extra;
        for (size_t i = 0; tag == 1 && i < 3; i++) {
            if (*wanted[i] != IN_ZIP64) continue;
            if (left < 8) return false;
            *wanted[i] = nf_load_u64(at);
            at += 8;
            left -= 8;
        }
        if (tag == 1) return true;
        extra += left;
        bytes -= left;
    }
    return out->bytes != IN_ZIP64 && out->packed != IN_ZIP64 && out->local != IN_ZIP64;
}

static nf_status find_entry(nf_context *ctx, const nf_mapping *file, const directory *zip, const char *name, entry *out,
                            bool *found)
{
    const size_t length = strlen(name);
    uint64_t     at = zip->begin;
    *found = false;
    for (uint64_t i = 0; i < zip->entries; i++) {
        const uint8_t *record = file->data + at;
        if (zip->end - at < ENTRY_BYTES || nf_load_u32(record) != 0x02014b50u) {
            return broken(ctx, file, "no entry of the zip directory", at);
        }
        const uint64_t name_bytes = load_u16(record + 28), extra = load_u16(record + 30);
        const uint64_t all = ENTRY_BYTES + name_bytes + extra + load_u16(record + 32);
        if (zip->end - at < all) return broken(ctx, file, "entry beyond the zip directory", at);
        if (name_bytes == length && memcmp(record + ENTRY_BYTES, name, length) == 0) {
            if (*found) return broken(ctx, file, "a second member of the same name", at);
            *found = true;
            *out = (entry){.flags = load_u16(record + 8),
                           .method = load_u16(record + 10),
                           .crc = nf_load_u32(record + 16),
                           .packed = nf_load_u32(record + 20),
                           .bytes = nf_load_u32(record + 24),
                           .local = nf_load_u32(record + 42)};
            if (!take_zip64(out, record + ENTRY_BYTES + name_bytes, (uint32_t)extra)) {
                return broken(ctx, file, "zip64 sizes are missing in the entry", at);
            }
        }
        at += all;
    }
    return NF_OK;
}

/* The member's packed bytes, behind its local header. */
static nf_status find_packed(nf_context *ctx, const nf_mapping *file, const directory *zip, const entry *found,
                             const char *name, const uint8_t **packed)
{
    const uint8_t *local = file->data + found->local;
    if (found->local > zip->begin || zip->begin - found->local < LOCAL_BYTES || nf_load_u32(local) != 0x04034b50u) {
        return broken(ctx, file, "no zip member", found->local);
    }
    const uint64_t name_bytes = load_u16(local + 26);
    const uint64_t begin = found->local + LOCAL_BYTES + name_bytes + load_u16(local + 28);
    if (begin > zip->begin || found->packed > zip->begin - begin) {
        return broken(ctx, file, "zip member goes beyond the directory", found->local);
    }
    if (name_bytes != strlen(name) || memcmp(local + LOCAL_BYTES, name, name_bytes) != 0) {
        return broken(ctx, file, "zip member has another name than its entry", found->local);
    }
    *packed = file->data + begin;
    return NF_OK;
}

static voidpf inflate_take(voidpf ctx, uInt count, uInt size)
{
    return nf_alloc(ctx, count, size);
}

static void inflate_give(voidpf ctx, voidpf block)
{
    (void)ctx;
    nf_free(block);
}

/* Unpacks exactly bytes bytes. zlib counts in 32 bits, so long members pass in parts. Returns zlib's verdict. */
static int inflate_all(z_stream *stream, const uint8_t *packed, uint64_t packed_bytes, uint8_t *to, uint64_t bytes)
{
    const uint64_t most = (uint64_t)1 << 30;
    int            verdict = Z_OK;
    stream->next_in = packed;
    stream->next_out = to;
    while (verdict == Z_OK) {
        const uint64_t in = packed_bytes < most ? packed_bytes : most, out = bytes < most ? bytes : most;
        stream->avail_in = (uInt)in;
        stream->avail_out = (uInt)out;
        verdict = inflate(stream, Z_NO_FLUSH);
        packed_bytes -= in - stream->avail_in;
        bytes -= out - stream->avail_out;
    }
    if (verdict == Z_MEM_ERROR) return verdict;
    return verdict == Z_STREAM_END && packed_bytes == 0 && bytes == 0 ? Z_OK : Z_DATA_ERROR;
}

static nf_status unpack(nf_context *ctx, const nf_mapping *file, const char *name, const entry *found,
                        const uint8_t *packed, nf_zip_member *member)
{
    z_stream stream = {.zalloc = inflate_take, .zfree = inflate_give, .opaque = ctx};

    if (found->bytes / DEFLATE_MOST > found->packed) {
        return nf_fail(ctx, NF_ERR_FORMAT,
                       "%s: %s says %" PRIu64 " bytes from %" PRIu64 " packed ones, more than can be", file->path, name,
                       found->bytes, found->packed);
    }
    member->unpacked = nf_alloc(ctx, found->bytes, 1);
    if (member->unpacked == NULL) return nf_alloc_status(ctx);
    member->data = member->unpacked;
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return nf_alloc_status(ctx);
    const int verdict = inflate_all(&stream, packed, found->packed, member->unpacked, found->bytes);
    (void)inflateEnd(&stream);
    if (verdict == Z_OK) return NF_OK;
    if (verdict == Z_MEM_ERROR) return nf_alloc_status(ctx);
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: %s cannot be unpacked to the %" PRIu64 " bytes that the zip file says",
                   file->path, name, found->bytes);
}

static nf_status open_entry(nf_context *ctx, const nf_mapping *file, const directory *zip, const char *name,
                            const entry *found, nf_zip_member *member)
{
    const uint8_t *packed = NULL;

    if ((found->flags & 1) != 0) return nf_fail(ctx, NF_ERR_FORMAT, "%s: %s is encrypted", file->path, name);
    if (found->method != STORED && found->method != DEFLATED) {
        return nf_fail(ctx, NF_ERR_FORMAT, "%s: %s is packed by method %u; stored and deflated can be read", file->path,
                       name, found->method);
    }
    NF_TRY(find_packed(ctx, file, zip, found, name, &packed));
    member->data = packed;
    member->bytes = found->bytes;
    if (found->method == DEFLATED) NF_TRY(unpack(ctx, file, name, found, packed, member));
    else if (found->bytes != found->packed) return broken(ctx, file, "stored member of two sizes", found->local);
    if ((uint32_t)crc32_z(0, member->data, (size_t)member->bytes) == found->crc) return NF_OK;
    return nf_fail(ctx, NF_ERR_FORMAT, "%s: %s is not what its CRC-32 says", file->path, name);
}

nf_status nf_zip_member_open(nf_context *ctx, const nf_mapping *file, const char *name, nf_zip_member *member,
                             bool *found)
{
    directory zip = {0};
    entry     at = {0};

    *member = (nf_zip_member){.data = NULL};
    NF_TRY(find_directory(ctx, file, &zip));
    NF_TRY(find_entry(ctx, file, &zip, name, &at, found));
    if (!*found) return NF_OK;
    const nf_status status = open_entry(ctx, file, &zip, name, &at, member);
    if (status < 0) nf_zip_member_close(member);
    return status;
}

void nf_zip_member_close(nf_zip_member *member)
{
    nf_free(member->unpacked);
    *member = (nf_zip_member){.data = NULL};
}
