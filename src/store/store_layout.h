/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a sealed file: where each field lies, and where each section must lie. docs/formats.md has the same in
 * words.
 *
 * Numbers are little-endian and are read and written byte by byte, so no struct of the compiler's ever reaches a file.
 * Types and lengths of the sections fix every offset and the length of the file: writer and reader compute them by the
 * same function (nf_sealed_arrange), and the reader refuses a table that says otherwise. So no two sections can
 * overlap, and a content has one file.
 */
#ifndef NF_STORE_LAYOUT_H
#define NF_STORE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "store_sealed.h"

/* A byte that is no ASCII, a name, CR LF and Ctrl-Z: a transfer as text changes one of them. */
#define NF_SEALED_MAGIC "\x8eNEAR\r\n\x1a"
#define NF_SEALED_MAGIC_BYTES 8u
#define NF_SEALED_NAME_BYTES 5u /* of the magic, what a transfer as text leaves as it is */

#define NF_SEALED_MAJOR 1u
#define NF_SEALED_MINOR 0u
#define NF_SEALED_WORD_MARK UINT64_C(0x0102030405060708)
#define NF_SEALED_WORD_MARK_SWAPPED UINT64_C(0x0807060504030201)

/* Header: offsets of its fields. */
#define NF_SEALED_HEADER_BYTES 64u
#define NF_SEALED_AT_MAJOR 8u        /* u16 */
#define NF_SEALED_AT_MINOR 10u       /* u16 */
#define NF_SEALED_AT_READER_MAJOR 12u /* u16: the lowest version that can read the file */
#define NF_SEALED_AT_READER_MINOR 14u /* u16 */
#define NF_SEALED_AT_WORD_MARK 16u   /* u64 */
#define NF_SEALED_AT_BYTES 24u       /* u64: length of the file */
#define NF_SEALED_AT_FILE_ID 32u     /* u64 */
#define NF_SEALED_AT_RESERVED 40u    /* u64, 0 */
#define NF_SEALED_AT_COUNT 48u       /* u32: entries of the table */
#define NF_SEALED_AT_HEAD_BYTES 52u  /* u32: header and table */
#define NF_SEALED_AT_HEAD_HASH 56u   /* u64: XXH3-64 of header and table, this field 0 */

/* Table: one entry per section, the checksum section last. */
#define NF_SEALED_ENTRY_BYTES 32u
#define NF_SEALED_ENTRY_TYPE 0u      /* u32 */
#define NF_SEALED_ENTRY_FLAGS 4u     /* u32 */
#define NF_SEALED_ENTRY_OFFSET 8u    /* u64 */
#define NF_SEALED_ENTRY_LENGTH 16u   /* u64 */
#define NF_SEALED_ENTRY_CHECKSUM 24u /* u64: XXH3-64 of the section */
#define NF_SEALED_MAX_ENTRIES (NF_SEALED_MAX_SECTIONS + 1u)
#define NF_SEALED_MAX_HEAD_BYTES (NF_SEALED_HEADER_BYTES + NF_SEALED_MAX_ENTRIES * NF_SEALED_ENTRY_BYTES)
#define NF_SEALED_CHECKSUMS UINT32_C(0xffffffff) /* type of the checksum section */

/* Sections. Large ones begin on a page, so that a map can be advised and dropped section by section. */
#define NF_SEALED_ALIGN 64u
#define NF_SEALED_PAGE 4096u
#define NF_SEALED_LARGE UINT64_C(65536) /* longer sections begin at a multiple of NF_SEALED_PAGE */
#define NF_SEALED_CHUNK (UINT64_C(1) << 20)
#define NF_SEALED_CHECKSUM_BYTES 8u

/* Footer. 32 zero bytes stand before it, so that 64 bytes can be read behind the last section. */
#define NF_SEALED_FOOTER_BYTES 32u
#define NF_SEALED_FOOTER_GAP 32u
#define NF_SEALED_FOOTER_AT_BYTES 8u     /* u64, after the magic */
#define NF_SEALED_FOOTER_AT_FILE_ID 16u  /* u64 */
#define NF_SEALED_FOOTER_AT_HASH 24u     /* u64: XXH3-64 of the checksums of all sections */

#define NF_SEALED_BYTES_MAX ((uint64_t)INT64_MAX - 2 * NF_SEALED_PAGE) /* so that rounding up cannot overflow */

typedef struct nf_sealed_entry {
    uint32_t type, flags;
    uint64_t offset, bytes, checksum;
} nf_sealed_entry;

/* What header, table and footer say. */
typedef struct nf_sealed_layout {
    uint64_t        bytes, file_id;
    uint16_t        major, minor;
    uint32_t        count; /* entries; the last one is the checksum section */
    nf_sealed_entry entries[NF_SEALED_MAX_ENTRIES];
} nf_sealed_layout;

static inline uint64_t nf_sealed_get(const uint8_t *at, uint32_t bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static inline void nf_sealed_put(uint8_t *at, uint32_t bytes, uint64_t value)
{
    for (uint32_t i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t nf_sealed_round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* Where a section of so many bytes begins when the one before it ends at end. */
static inline uint64_t nf_sealed_place(uint64_t end, uint64_t bytes)
{
    return nf_sealed_round_up(end, bytes > NF_SEALED_LARGE ? NF_SEALED_PAGE : NF_SEALED_ALIGN);
}

/* Where the footer begins when the checksum section ends at end. */
static inline uint64_t nf_sealed_footer_place(uint64_t end)
{
    return nf_sealed_round_up(end, NF_SEALED_ALIGN) + NF_SEALED_FOOTER_GAP;
}

/* Bytes of header and table. */
static inline uint32_t nf_sealed_head_bytes(uint32_t count)
{
    return NF_SEALED_HEADER_BYTES + count * NF_SEALED_ENTRY_BYTES;
}

/* Checksums of a section: one per MiB, the last of which may be shorter. */
static inline uint64_t nf_sealed_chunks(uint64_t bytes)
{
    return bytes / NF_SEALED_CHUNK + (bytes % NF_SEALED_CHUNK != 0 ? 1 : 0);
}

/* Checksums of all sections but the checksum section itself. */
uint64_t nf_sealed_all_chunks(const nf_sealed_layout *layout);

/* Fills the offsets and the length of the file from the lengths of the sections; false: longer than a file can be. */
bool nf_sealed_arrange(nf_sealed_layout *layout);

/* The id: XXH3-64 over type, flags, length and checksum of each section but the checksum section. */
uint64_t nf_sealed_content_id(const nf_sealed_layout *layout);

/* XXH3-64 of the checksums of all sections. */
uint64_t nf_sealed_footer_hash(const nf_sealed_layout *layout);

/* XXH3-64 of header and table with the field of the hash taken as 0. */
uint64_t nf_sealed_head_hash(const uint8_t *head, uint32_t bytes);

/* Header and table as bytes, hash included; head has room for NF_SEALED_MAX_HEAD_BYTES. Footer as bytes. */
void nf_sealed_encode_head(const nf_sealed_layout *layout, uint8_t *head);
void nf_sealed_encode_footer(const nf_sealed_layout *layout, uint8_t footer[NF_SEALED_FOOTER_BYTES]);

/* The entries of a table of layout->count entries. */
void nf_sealed_decode_table(const uint8_t *table, nf_sealed_layout *layout);

#endif
