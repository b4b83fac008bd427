/* SPDX-License-Identifier: Apache-2.0 */
/* Header, table and footer of a sealed file as numbers and as bytes; the hashes over them. */
#include "store_layout.h"

#include <string.h>

#include "store_checksum.h"

#define ID_ENTRY_BYTES 24u /* what the id takes of an entry: all but the offset, which follows from the lengths */

uint64_t nf_sealed_all_chunks(const nf_sealed_layout *layout)
{
    uint64_t chunks = 0;
    for (uint32_t i = 0; i + 1 < layout->count; i++) chunks += nf_sealed_chunks(layout->entries[i].bytes);
    return chunks;
}

bool nf_sealed_arrange(nf_sealed_layout *layout)
{
    uint64_t end = nf_sealed_head_bytes(layout->count);

    for (uint32_t i = 0; i < layout->count; i++) {
        nf_sealed_entry *entry = &layout->entries[i];
        entry->offset = nf_sealed_place(end, entry->bytes);
        if (__builtin_add_overflow(entry->offset, entry->bytes, &end) || end > NF_SEALED_BYTES_MAX) return false;
    }
    layout->bytes = nf_sealed_footer_place(end) + NF_SEALED_FOOTER_BYTES;
    return true;
}

uint64_t nf_sealed_content_id(const nf_sealed_layout *layout)
{
    uint8_t  bytes[NF_SEALED_MAX_SECTIONS * ID_ENTRY_BYTES];
    uint32_t used = 0;

    for (uint32_t i = 0; i + 1 < layout->count; i++) {
        const nf_sealed_entry *entry = &layout->entries[i];
        nf_sealed_put(bytes + used, 4, entry->type);
        nf_sealed_put(bytes + used + 4, 4, entry->flags);
        nf_sealed_put(bytes + used + 8, 8, entry->bytes);
        nf_sealed_put(bytes + used + 16, 8, entry->checksum);
        used += ID_ENTRY_BYTES;
    }
    return nf_sealed_hash(bytes, used);
}

uint64_t nf_sealed_footer_hash(const nf_sealed_layout *layout)
{
    uint8_t bytes[NF_SEALED_MAX_ENTRIES * NF_SEALED_CHECKSUM_BYTES];

    for (uint32_t i = 0; i < layout->count; i++) {
        nf_sealed_put(bytes + i * NF_SEALED_CHECKSUM_BYTES, 8, layout->entries[i].checksum);
    }
    return nf_sealed_hash(bytes, layout->count * NF_SEALED_CHECKSUM_BYTES);
}

uint64_t nf_sealed_head_hash(const uint8_t *head, uint32_t bytes)
{
    uint8_t copy[NF_SEALED_MAX_HEAD_BYTES];

    memcpy(copy, head, bytes);
    nf_sealed_put(copy + NF_SEALED_AT_HEAD_HASH, 8, 0);
    return nf_sealed_hash(copy, bytes);
}

static void encode_entry(const nf_sealed_entry *entry, uint8_t *at)
{
    nf_sealed_put(at + NF_SEALED_ENTRY_TYPE, 4, entry->type);
    nf_sealed_put(at + NF_SEALED_ENTRY_FLAGS, 4, entry->flags);
    nf_sealed_put(at + NF_SEALED_ENTRY_OFFSET, 8, entry->offset);
    nf_sealed_put(at + NF_SEALED_ENTRY_LENGTH, 8, entry->bytes);
    nf_sealed_put(at + NF_SEALED_ENTRY_CHECKSUM, 8, entry->checksum);
}

void nf_sealed_encode_head(const nf_sealed_layout *layout, uint8_t *head)
{
    const uint32_t bytes = nf_sealed_head_bytes(layout->count);

    memcpy(head, NF_SEALED_MAGIC, NF_SEALED_MAGIC_BYTES);
    nf_sealed_put(head + NF_SEALED_AT_MAJOR, 2, layout->major);
    nf_sealed_put(head + NF_SEALED_AT_MINOR, 2, layout->minor);
    nf_sealed_put(head + NF_SEALED_AT_READER_MAJOR, 2, NF_SEALED_MAJOR);
    nf_sealed_put(head + NF_SEALED_AT_READER_MINOR, 2, 0); /* nothing in a file needs more than 1.0 yet */
    nf_sealed_put(head + NF_SEALED_AT_WORD_MARK, 8, NF_SEALED_WORD_MARK);
    nf_sealed_put(head + NF_SEALED_AT_BYTES, 8, layout->bytes);
    nf_sealed_put(head + NF_SEALED_AT_FILE_ID, 8, layout->file_id);
    nf_sealed_put(head + NF_SEALED_AT_RESERVED, 8, 0);
    nf_sealed_put(head + NF_SEALED_AT_COUNT, 4, layout->count);
    nf_sealed_put(head + NF_SEALED_AT_HEAD_BYTES, 4, bytes);
    nf_sealed_put(head + NF_SEALED_AT_HEAD_HASH, 8, 0);
    for (uint32_t i = 0; i < layout->count; i++) {
        encode_entry(&layout->entries[i], head + nf_sealed_head_bytes(i));
    }
    nf_sealed_put(head + NF_SEALED_AT_HEAD_HASH, 8, nf_sealed_head_hash(head, bytes));
}

void nf_sealed_encode_footer(const nf_sealed_layout *layout, uint8_t footer[NF_SEALED_FOOTER_BYTES])
{
    memcpy(footer, NF_SEALED_MAGIC, NF_SEALED_MAGIC_BYTES);
    nf_sealed_put(footer + NF_SEALED_FOOTER_AT_BYTES, 8, layout->bytes);
    nf_sealed_put(footer + NF_SEALED_FOOTER_AT_FILE_ID, 8, layout->file_id);
    nf_sealed_put(footer + NF_SEALED_FOOTER_AT_HASH, 8, nf_sealed_footer_hash(layout));
}

void nf_sealed_decode_table(const uint8_t *table, nf_sealed_layout *layout)
{
    for (uint32_t i = 0; i < layout->count; i++) {
        const uint8_t *at = table + i * NF_SEALED_ENTRY_BYTES;
        layout->entries[i] = (nf_sealed_entry){
            .type = (uint32_t)nf_sealed_get(at + NF_SEALED_ENTRY_TYPE, 4),
            .flags = (uint32_t)nf_sealed_get(at + NF_SEALED_ENTRY_FLAGS, 4),
            .offset = nf_sealed_get(at + NF_SEALED_ENTRY_OFFSET, 8),
            .bytes = nf_sealed_get(at + NF_SEALED_ENTRY_LENGTH, 8),
            .checksum = nf_sealed_get(at + NF_SEALED_ENTRY_CHECKSUM, 8),
        };
    }
}
