/* SPDX-License-Identifier: Apache-2.0 */
/* A small reader of stored zip files with .npy members, by the public description of zip, for checking what is written.
 * It goes the reader's way: end record, directory, local headers; zip64 fields where 32 bits say so. */
#ifndef IO_WRITE_ZIP_H
#define IO_WRITE_ZIP_H

#include <zlib.h>

#include "io_write_helper.h"

typedef struct zip_member {
    char           name[32];
    const uint8_t *data; /* of the array */
    uint64_t       size;
    char           header[256]; /* the dictionary */
    bool           zip64;
} zip_member;

typedef struct zip_file {
    contents   file;
    zip_member member[8];
    uint32_t   count;
    bool       zip64; /* has the 64-bit end record */
} zip_file;

static inline void parse_npy(zip_member *member, const uint8_t *data, uint64_t size)
{
    assert_true(size >= 10);
    assert_memory_equal(data, "\x93NUMPY\x01\x00", 8);
    const uint64_t length = number_at(data + 8, 2);
    assert_true(length < sizeof member->header && 10 + length <= size);
    assert_int_equal((10 + length) % 64, 0);
    assert_int_equal(data[10 + length - 1], '\n');
    memcpy(member->header, data + 10, length);
    member->header[length] = '\0';
    member->header[strcspn(member->header, "}") + 1] = '\0';
    member->data = data + 10 + length;
    member->size = size - 10 - length;
}

/* One directory entry; returns where the next one begins. */
static inline const uint8_t *parse_member(zip_file *zip, const uint8_t *entry)
{
    zip_member    *member = &zip->member[zip->count++];
    const uint8_t *extra = entry + 46 + number_at(entry + 28, 2);
    uint64_t       packed = number_at(entry + 20, 4), size = number_at(entry + 24, 4);
    uint64_t       offset = number_at(entry + 42, 4);

    assert_int_equal(number_at(entry, 4), 0x02014b50);
    assert_int_equal(number_at(entry + 10, 2), 0);     /* stored */
    assert_int_equal(number_at(entry + 12, 4), 0x210000); /* 1980-01-01 00:00 */
    assert_true(number_at(entry + 28, 2) < sizeof member->name);
    memcpy(member->name, entry + 46, number_at(entry + 28, 2));
    member->zip64 = number_at(entry + 30, 2) != 0;
    if (member->zip64) {
        assert_int_equal(number_at(extra, 2), 1);
        assert_int_equal(number_at(extra + 2, 2) + 4, number_at(entry + 30, 2));
        assert_int_equal(number_at(entry + 6, 2), 45);
        const uint8_t *at = extra + 4;
        if (size == 0xffffffff) size = number_at(at, 8), at += 8;
        if (packed == 0xffffffff) packed = number_at(at, 8), at += 8;
        if (offset == 0xffffffff) offset = number_at(at, 8), at += 8;
        assert_ptr_equal(at, extra + number_at(entry + 30, 2));
    }
    assert_int_equal(packed, size);
    const uint8_t *local = zip->file.data + offset;
    const uint8_t *data = local + 30 + number_at(local + 26, 2) + number_at(local + 28, 2);
    assert_int_equal(number_at(local, 4), 0x04034b50);
    assert_memory_equal(local + 30, entry + 46, number_at(entry + 28, 2));
    assert_int_equal(number_at(local + 14, 4), number_at(entry + 16, 4));
    if (number_at(local + 28, 2) == 0) {
        assert_int_equal(number_at(local + 18, 4), size);
        assert_int_equal(number_at(local + 22, 4), size);
    } else {
        assert_int_equal(number_at(data - 20, 4), 0x00100001);
        assert_int_equal(number_at(data - 16, 8), size);
        assert_int_equal(number_at(data - 8, 8), size);
    }
    assert_true(data + size <= zip->file.data + zip->file.size);
    assert_int_equal(crc32_z(0, data, size), number_at(entry + 16, 4));
    parse_npy(member, data, size);
    return extra + number_at(entry + 30, 2) + number_at(entry + 32, 2);
}

static inline zip_file open_zip(const char *path)
{
    zip_file       zip = {.file = read_file(path)};
    const uint8_t *end = zip.file.data + zip.file.size - 22;

    assert_true(zip.file.size >= 22);
    assert_int_equal(number_at(end, 4), 0x06054b50);
    uint64_t count = number_at(end + 10, 2), bytes = number_at(end + 12, 4), offset = number_at(end + 16, 4);
    const uint8_t *directory_end = end;
    if (offset == 0xffffffff) {
        zip.zip64 = true;
        assert_int_equal(number_at(end - 20, 4), 0x07064b50);
        const uint8_t *end64 = zip.file.data + number_at(end - 20 + 8, 8);
        assert_int_equal(number_at(end64, 4), 0x06064b50);
        assert_int_equal(number_at(end64 + 4, 8), 44);
        count = number_at(end64 + 32, 8);
        bytes = number_at(end64 + 40, 8);
        offset = number_at(end64 + 48, 8);
        directory_end = end64;
    }
    const uint8_t *entry = zip.file.data + offset;
    assert_ptr_equal(entry + bytes, directory_end);
    assert_true(count <= 8);
    for (uint64_t i = 0; i < count; i++) entry = parse_member(&zip, entry);
    assert_ptr_equal(entry, directory_end);
    return zip;
}

static inline const zip_member *find_member(const zip_file *zip, const char *name)
{
    for (uint32_t i = 0; i < zip->count; i++) {
        if (strcmp(zip->member[i].name, name) == 0) return &zip->member[i];
    }
    fail_msg("no member %s", name);
    return NULL;
}

#endif
