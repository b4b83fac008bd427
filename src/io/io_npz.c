/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored zip files, with the fields of PKWARE's APPNOTE 6.3:
 *
 *     member:     local header | name | [zip64: sizes] | .npy header | values
 *     directory:  one entry per member | name | [zip64: sizes, offset]
 *     end:        [zip64 end | zip64 locator] | end
 *
 * The zip64 parts are there only where a number does not fit into 32 bits, so small files are plain zip files. The time
 * stamp is zip's first day, as NumPy writes it: the same result gives the same bytes.
 */
#include "io_npz.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/core_error.h"

#define LOCAL_BYTES 30u
#define ENTRY_BYTES 46u
#define END_BYTES 22u
#define END64_BYTES 56u
#define LOCATOR_BYTES 20u
#define SIZES64_BYTES 20u /* extra field of a local header: head and both sizes */
#define ENTRY64_BYTES 28u /* extra field of an entry: head, both sizes and the offset */

#define VERSION_PLAIN 20u
#define VERSION_ZIP64 45u
#define MADE_ON_UNIX (3u << 8)
#define FIRST_DAY 0x21u /* 1980-01-01 */
#define FILE_MODE (0100644u << 16)
#define IN_ZIP64 0xffffffffu

/* All of one record; the longest is an entry with its name and extra field. */
typedef struct record {
    uint8_t  bytes[ENTRY_BYTES + ENTRY64_BYTES + 64];
    uint32_t count;
} record;

static void put_number(record *to, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) to->bytes[to->count++] = (uint8_t)(value >> (8 * i));
}

static void put_u16(record *to, uint32_t value)
{
    put_number(to, value, 2);
}

static void put_u32(record *to, uint32_t value)
{
    put_number(to, value, 4);
}

static void put_u64(record *to, uint64_t value)
{
    put_number(to, value, 8);
}

static void put_name(record *to, const char *name)
{
    for (; *name != '\0'; name++) to->bytes[to->count++] = (uint8_t)*name;
}

static uint64_t member_bytes(const nf_npz_member *member)
{
    return member->header_bytes + member->bytes;
}

static bool large_member(const nf_npz *npz, const nf_npz_member *member)
{
    return member_bytes(member) >= npz->zip64_limit;
}

static bool large_entry(const nf_npz *npz, const nf_npz_member *member)
{
    return large_member(npz, member) || member->offset >= npz->zip64_limit;
}

static uint32_t entry_bytes(const nf_npz *npz, const nf_npz_member *member)
{
    return ENTRY_BYTES + (uint32_t)strlen(member->name) + (large_entry(npz, member) ? ENTRY64_BYTES : 0);
}

static uint64_t directory_bytes(const nf_npz *npz)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < npz->count; i++) bytes += entry_bytes(npz, &npz->member[i]);
    return bytes;
}

void nf_npz_init(nf_npz *npz, uint64_t zip64_limit)
{
    memset(npz, 0, sizeof *npz);
    npz->zip64_limit = zip64_limit;
}

nf_npz_member *nf_npz_add(nf_npz *npz, const char *name, const char *descr, uint32_t item_bytes, const uint64_t *shape,
                          uint32_t axes)
{
    nf_npz_member *member = &npz->member[npz->count++];

    snprintf(member->name, sizeof member->name, "%s.npy", name);
    member->header_bytes = (uint32_t)nf_npy_header(member->header, descr, shape, axes);
    member->bytes = item_bytes;
    for (uint32_t i = 0; i < axes; i++) member->bytes *= shape[i];
    member->offset = npz->end;
    member->data_offset = npz->end + LOCAL_BYTES + strlen(member->name) + member->header_bytes +
                          (large_member(npz, member) ? SIZES64_BYTES : 0);
    npz->end = member->data_offset + member->bytes;
    return member;
}

uint64_t nf_npz_bytes(const nf_npz *npz)
{
    const uint64_t tail = npz->end >= npz->zip64_limit ? END64_BYTES + LOCATOR_BYTES : 0;
    return npz->end + directory_bytes(npz) + tail + END_BYTES;
}

/* What local headers and entries share: from the version needed to the length of the name. */
static void put_common(record *to, const nf_npz_member *member, uint32_t crc, bool large)
{
    const uint32_t bytes = large ? IN_ZIP64 : (uint32_t)member_bytes(member);

    put_u16(to, large ? VERSION_ZIP64 : VERSION_PLAIN);
    put_u16(to, 0); /* flags */
    put_u16(to, 0); /* stored */
    put_u16(to, 0); /* time */
    put_u16(to, FIRST_DAY);
    put_u32(to, crc);
    put_u32(to, bytes);
    put_u32(to, bytes);
    put_u16(to, (uint32_t)strlen(member->name));
}

/* The head and the two sizes of an extra field of so many bytes. */
static void put_sizes64(record *to, const nf_npz_member *member, uint32_t extra_bytes)
{
    put_u16(to, 1);
    put_u16(to, extra_bytes - 4);
    put_u64(to, member_bytes(member));
    put_u64(to, member_bytes(member));
}

static nf_status write_local(const nf_npz *npz, const nf_npz_member *member, uint32_t crc, nf_output *out)
{
    const bool large = large_member(npz, member);
    record     local = {.count = 0};

    put_u32(&local, 0x04034b50u);
    put_common(&local, member, crc, large);
    put_u16(&local, large ? SIZES64_BYTES : 0);
    put_name(&local, member->name);
    if (large) put_sizes64(&local, member, SIZES64_BYTES);
    NF_TRY(nf_output_write_at(out, member->offset, local.bytes, local.count));
    return nf_output_write_at(out, member->offset + local.count, member->header, member->header_bytes);
}

static void put_entry(record *entry, const nf_npz *npz, const nf_npz_member *member, uint32_t crc)
{
    const bool large = large_entry(npz, member);

    put_u32(entry, 0x02014b50u);
    put_u16(entry, MADE_ON_UNIX | (large ? VERSION_ZIP64 : VERSION_PLAIN));
    put_common(entry, member, crc, large);
    put_u16(entry, large ? ENTRY64_BYTES : 0);
    put_u16(entry, 0); /* comment */
    put_u16(entry, 0); /* disk */
    put_u16(entry, 0); /* internal attributes */
    put_u32(entry, FILE_MODE);
    put_u32(entry, large ? IN_ZIP64 : (uint32_t)member->offset);
    put_name(entry, member->name);
    if (!large) return;
    put_sizes64(entry, member, ENTRY64_BYTES);
    put_u64(entry, member->offset);
}

static void put_end64(record *end, const nf_npz *npz)
{
    const uint64_t bytes = directory_bytes(npz);

    put_u32(end, 0x06064b50u);
    put_u64(end, END64_BYTES - 12); /* what follows */
    put_u16(end, MADE_ON_UNIX | VERSION_ZIP64);
    put_u16(end, VERSION_ZIP64);
    put_u32(end, 0); /* disk */
    put_u32(end, 0); /* disk of the directory */
    put_u64(end, npz->count);
    put_u64(end, npz->count);
    put_u64(end, bytes);
    put_u64(end, npz->end);

    put_u32(end, 0x07064b50u); /* locator */
    put_u32(end, 0);
    put_u64(end, npz->end + bytes);
    put_u32(end, 1); /* disks */
}

static void put_end(record *end, const nf_npz *npz)
{
    const bool large = npz->end >= npz->zip64_limit;

    if (large) put_end64(end, npz);
    put_u32(end, 0x06054b50u);
    put_u16(end, 0); /* disk */
    put_u16(end, 0); /* disk of the directory */
    put_u16(end, npz->count);
    put_u16(end, npz->count);
    put_u32(end, (uint32_t)directory_bytes(npz));
    put_u32(end, large ? IN_ZIP64 : (uint32_t)npz->end);
    put_u16(end, 0); /* comment */
}

nf_status nf_npz_finish(const nf_npz *npz, nf_output *out, const nf_crc_table *crc)
{
    uint64_t at = npz->end;

    for (uint32_t i = 0; i < npz->count; i++) {
        const nf_npz_member *member = &npz->member[i];
        const uint32_t       head = nf_crc_bytes(member->header, member->header_bytes);
        const uint32_t       whole = nf_crc_move(crc, head, member->bytes) ^ member->crc;
        record               entry = {.count = 0};

        NF_TRY(write_local(npz, member, whole, out));
        put_entry(&entry, npz, member, whole);
        NF_TRY(nf_output_write_at(out, at, entry.bytes, entry.count));
        at += entry.count;
    }
    record end = {.count = 0};
    put_end(&end, npz);
    return nf_output_write_at(out, at, end.bytes, end.count);
}
