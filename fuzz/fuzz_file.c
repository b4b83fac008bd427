/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed files as bytes: docs/formats.md has the layout. */
#include "fuzz_file.h"

#include <stdlib.h>
#include <string.h>

#include "store/store_checksum.h"

/* Entries of the table that can be looked at; 0: none. */
static uint32_t entries_inside(const uint8_t *file, size_t bytes)
{
    if (bytes < NF_SEALED_HEADER_BYTES + NF_SEALED_FOOTER_BYTES) return 0;
    const uint32_t count = (uint32_t)nf_sealed_get(file + NF_SEALED_AT_COUNT, 4);
    if (count < 1 || count > NF_SEALED_MAX_ENTRIES || nf_sealed_head_bytes(count) > bytes) return 0;
    return count;
}

static int lies_inside(const nf_sealed_entry *entry, size_t bytes)
{
    return entry->offset <= bytes && entry->bytes <= bytes - entry->offset;
}

/* The content of the section of checksums, as far as it has room. */
static void fill_sums(uint8_t *file, size_t bytes, const nf_sealed_layout *layout)
{
    const nf_sealed_entry *last = &layout->entries[layout->count - 1];
    uint64_t               at = 0;
    if (!lies_inside(last, bytes)) return;
    for (uint32_t i = 0; i + 1 < layout->count; i++) {
        const nf_sealed_entry *entry = &layout->entries[i];
        if (!lies_inside(entry, bytes)) return;
        for (uint64_t done = 0; done < entry->bytes; done += NF_SEALED_CHUNK) {
            const uint64_t left = entry->bytes - done;
            if (at + NF_SEALED_CHECKSUM_BYTES > last->bytes) return;
            nf_sealed_put(file + last->offset + at, NF_SEALED_CHECKSUM_BYTES,
                          nf_sealed_hash(file + entry->offset + done, left < NF_SEALED_CHUNK ? left : NF_SEALED_CHUNK));
            at += NF_SEALED_CHECKSUM_BYTES;
        }
    }
}

void fuzz_reseal(uint8_t *file, size_t bytes)
{
    nf_sealed_layout layout = {.count = entries_inside(file, bytes)};
    if (layout.count == 0) return;
    uint8_t *footer = file + bytes - NF_SEALED_FOOTER_BYTES;

    nf_sealed_decode_table(file + NF_SEALED_HEADER_BYTES, &layout);
    fill_sums(file, bytes, &layout);
    for (uint32_t i = 0; i < layout.count; i++) {
        nf_sealed_entry *entry = &layout.entries[i];
        if (!lies_inside(entry, bytes)) continue;
        entry->checksum = nf_sealed_hash(file + entry->offset, entry->bytes);
        nf_sealed_put(file + nf_sealed_head_bytes(i) + NF_SEALED_ENTRY_CHECKSUM, 8, entry->checksum);
    }
    const uint64_t id = nf_sealed_content_id(&layout);
    nf_sealed_put(file + NF_SEALED_AT_FILE_ID, 8, id);
    nf_sealed_put(footer + NF_SEALED_FOOTER_AT_FILE_ID, 8, id);
    nf_sealed_put(footer + NF_SEALED_FOOTER_AT_HASH, 8, nf_sealed_footer_hash(&layout));
    nf_sealed_put(file + NF_SEALED_AT_HEAD_HASH, 8, nf_sealed_head_hash(file, nf_sealed_head_bytes(layout.count)));
}

void fuzz_take(const uint8_t *file, size_t bytes, fuzz_file *parts)
{
    nf_sealed_layout layout = {.count = entries_inside(file, bytes)};

    parts->count = 0;
    if (layout.count == 0) return;
    nf_sealed_decode_table(file + NF_SEALED_HEADER_BYTES, &layout);
    for (uint32_t i = 0; i + 1 < layout.count; i++) {
        const nf_sealed_entry *entry = &layout.entries[i];
        if (!lies_inside(entry, bytes)) continue;
        fuzz_section *section = &parts->sections[parts->count++];
        *section = (fuzz_section){.type = entry->type, .flags = entry->flags};
        fuzz_resize(section, (size_t)entry->bytes);
        memcpy(section->data, file + entry->offset, section->bytes);
    }
}

/* Copies the sections to their places and fills the table's checksums. The layout is arranged. */
static void place_sections(const fuzz_file *parts, nf_sealed_layout *layout, uint8_t *out)
{
    for (uint32_t i = 0; i < parts->count; i++) {
        nf_sealed_entry *entry = &layout->entries[i];
        memcpy(out + entry->offset, parts->sections[i].data, parts->sections[i].bytes);
        entry->checksum = nf_sealed_hash(out + entry->offset, entry->bytes);
    }
    nf_sealed_entry *last = &layout->entries[parts->count];
    fill_sums(out, (size_t)layout->bytes, layout);
    last->checksum = nf_sealed_hash(out + last->offset, last->bytes);
}

size_t fuzz_write(const fuzz_file *parts, uint8_t *out, size_t room)
{
    nf_sealed_layout layout = {.major = NF_SEALED_MAJOR, .minor = NF_SEALED_MINOR, .count = parts->count + 1};

    for (uint32_t i = 0; i < parts->count; i++) {
        const fuzz_section *section = &parts->sections[i];
        layout.entries[i] = (nf_sealed_entry){.type = section->type, .flags = section->flags, .bytes = section->bytes};
    }
    layout.entries[parts->count] = (nf_sealed_entry){.type = NF_SEALED_CHECKSUMS, .flags = NF_SEALED_REQUIRED};
    layout.entries[parts->count].bytes = nf_sealed_all_chunks(&layout) * NF_SEALED_CHECKSUM_BYTES;
    if (!nf_sealed_arrange(&layout) || layout.bytes > room) return 0;
    memset(out, 0, (size_t)layout.bytes);
    place_sections(parts, &layout, out);
    layout.file_id = nf_sealed_content_id(&layout);
    nf_sealed_encode_head(&layout, out);
    nf_sealed_encode_footer(&layout, out + layout.bytes - NF_SEALED_FOOTER_BYTES);
    return (size_t)layout.bytes;
}

fuzz_section *fuzz_find(fuzz_file *parts, uint32_t type)
{
    for (uint32_t i = 0; i < parts->count; i++) {
        if (parts->sections[i].type == type) return &parts->sections[i];
    }
    return NULL;
}

void fuzz_resize(fuzz_section *section, size_t bytes)
{
    uint8_t *data = calloc(1, bytes + 8);
    if (data == NULL) abort();
    for (size_t i = 0; i < bytes && section->bytes > 0; i++) data[i] = section->data[i % section->bytes];
    free(section->data);
    section->data = data;
    section->bytes = bytes;
}

void fuzz_free(fuzz_file *parts)
{
    for (uint32_t i = 0; i < parts->count; i++) free(parts->sections[i].data);
    parts->count = 0;
}
