/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a sealed file. All checksums are computed first, from memory, so that the bytes can be written in one pass
 * from front to back: also into a pipe. The file appears under its name complete or not at all (src/io/io_file.h).
 */
#include <inttypes.h>
#include <string.h>

#include "core/core_context.h"
#include "io/io_file.h"
#include "store_checksum.h"
#include "store_layout.h"

#define PIECE ((uint64_t)8 << 20) /* bytes between two looks at whether to stop */

static nf_status check_sections(nf_context *ctx, const char *path, const nf_sealed_section *sections, uint32_t count)
{
    if (count > NF_SEALED_MAX_SECTIONS) {
        return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: %" PRIu32 " sections, at most %u are allowed", path, count,
                       NF_SEALED_MAX_SECTIONS);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t type = sections[i].type;
        const uint32_t least = i > 0 ? sections[i - 1].type + 1 : 1;
        if (type < least || type >= NF_SEALED_CHECKSUMS) {
            return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: section type %" PRIu32 " in place %" PRIu32
                           ", allowed are %" PRIu32 " to %" PRIu32, path, type, i, least, NF_SEALED_CHECKSUMS - 1);
        }
        if ((sections[i].flags & ~NF_SEALED_REQUIRED) != 0) {
            return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: section %" PRIu32 " has flags %#" PRIx32 ", allowed are 0 and %u",
                           path, type, sections[i].flags, NF_SEALED_REQUIRED);
        }
        if (sections[i].data == NULL && sections[i].bytes > 0) {
            return nf_fail(ctx, NF_ERR_ARGUMENT, "%s: section %" PRIu32 " has no data", path, type);
        }
    }
    return NF_OK;
}

/* Table and length of the file; checksums and id are still missing. False: longer than a file can be. */
static bool lay_out(const nf_sealed_section *sections, uint32_t count, nf_sealed_layout *layout)
{
    *layout = (nf_sealed_layout){.major = NF_SEALED_MAJOR, .minor = NF_SEALED_MINOR, .count = count + 1};
    for (uint32_t i = 0; i < count; i++) {
        layout->entries[i] = (nf_sealed_entry){
            .type = sections[i].type, .flags = sections[i].flags, .bytes = sections[i].bytes};
    }
    layout->entries[count] = (nf_sealed_entry){.type = NF_SEALED_CHECKSUMS, .flags = NF_SEALED_REQUIRED};
    layout->entries[count].bytes = nf_sealed_all_chunks(layout) * NF_SEALED_CHECKSUM_BYTES;
    return nf_sealed_arrange(layout);
}

/* Fills checksums and id; the content of the checksum section goes to sums. */
static nf_status fill_checksums(nf_context *ctx, const nf_sealed_section *sections, nf_sealed_layout *layout,
                                uint64_t *sums)
{
    const uint32_t   count = layout->count - 1;
    nf_sealed_entry *last = &layout->entries[count];
    uint64_t         section_sums[NF_SEALED_MAX_SECTIONS];

    nf_progress_begin(ctx, "checksum", layout->bytes);
    NF_TRY(nf_sealed_checksums(ctx, sections, count, section_sums, sums));
    for (uint32_t i = 0; i < count; i++) layout->entries[i].checksum = section_sums[i];
    for (uint64_t i = 0; i < last->bytes / NF_SEALED_CHECKSUM_BYTES; i++) {
        nf_sealed_put((uint8_t *)&sums[i], NF_SEALED_CHECKSUM_BYTES, sums[i]);
    }
    last->checksum = nf_sealed_hash(sums, last->bytes);
    layout->file_id = nf_sealed_content_id(layout);
    return NF_OK;
}

static nf_status append_zeros(nf_output *out, uint64_t bytes)
{
    static const uint8_t zeros[NF_SEALED_PAGE];
    return nf_output_append(out, zeros, (size_t)bytes); /* less than a page always */
}

static nf_status append_section(nf_output *out, const void *data, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t left = bytes - done;
        const uint64_t piece = left < PIECE ? left : PIECE;
        NF_TRY(nf_output_append(out, (const uint8_t *)data + done, (size_t)piece));
        nf_progress_add(out->ctx, piece);
        NF_TRY(nf_progress_poll(out->ctx));
        done += piece;
    }
    return NF_OK;
}

static nf_status append_all(nf_output *out, const nf_sealed_layout *layout, const nf_sealed_section *sections,
                            const uint64_t *sums)
{
    uint8_t  head[NF_SEALED_MAX_HEAD_BYTES];
    uint8_t  footer[NF_SEALED_FOOTER_BYTES];
    uint64_t end = nf_sealed_head_bytes(layout->count);

    nf_progress_begin(out->ctx, "write", layout->bytes);
    nf_sealed_encode_head(layout, head);
    NF_TRY(nf_output_append(out, head, (size_t)end));
    for (uint32_t i = 0; i < layout->count; i++) {
        const nf_sealed_entry *entry = &layout->entries[i];
        NF_TRY(append_zeros(out, entry->offset - end));
        NF_TRY(append_section(out, i + 1 < layout->count ? sections[i].data : sums, entry->bytes));
        end = entry->offset + entry->bytes;
    }
    NF_TRY(append_zeros(out, nf_sealed_footer_place(end) - end));
    nf_sealed_encode_footer(layout, footer);
    return nf_output_append(out, footer, sizeof footer);
}

static nf_status write_file(nf_context *ctx, const char *path, const nf_sealed_layout *layout,
                            const nf_sealed_section *sections, const uint64_t *sums, bool sync)
{
    nf_output out;

    NF_TRY(nf_output_open(ctx, path, &out));
    nf_status status = nf_output_reserve(&out, layout->bytes);
    if (status == NF_OK) status = append_all(&out, layout, sections, sums);
    if (status == NF_OK) status = nf_output_commit(&out, sync);
    nf_output_discard(&out);
    return status;
}

static void describe(const nf_sealed_layout *layout, nf_sealed_info *info)
{
    *info = (nf_sealed_info){
        .bytes = layout->bytes, .file_id = layout->file_id, .major = layout->major, .minor = layout->minor};
}

nf_status nf_sealed_write(nf_context *ctx, const char *path, const nf_sealed_section *sections, uint32_t count,
                          bool sync, nf_sealed_info *info)
{
    nf_sealed_layout layout;

    NF_TRY(check_sections(ctx, path, sections, count));
    if (!lay_out(sections, count, &layout)) {
        return nf_fail(ctx, NF_ERR_ARGUMENT,
                       "%s: the sections are more than the %" PRIu64 " bytes that a file may have", path,
                       NF_SEALED_BYTES_MAX);
    }
    uint64_t *sums = nf_alloc(ctx, layout.entries[count].bytes, 1);
    if (sums == NULL) return nf_alloc_status(ctx);
    nf_status status = fill_checksums(ctx, sections, &layout, sums);
    if (status == NF_OK) status = write_file(ctx, path, &layout, sections, sums, sync);
    if (status == NF_OK && info != NULL) describe(&layout, info);
    nf_free(sums);
    return status;
}

void nf_sealed_measure(const nf_sealed_section *sections, uint32_t count, nf_sealed_info *info)
{
    nf_sealed_layout layout;

    *info = (nf_sealed_info){.bytes = 0};
    if (count > NF_SEALED_MAX_SECTIONS || !lay_out(sections, count, &layout)) return;
    for (uint32_t i = 0; i < count; i++) {
        layout.entries[i].checksum = nf_sealed_hash(sections[i].data, sections[i].bytes);
    }
    layout.file_id = nf_sealed_content_id(&layout);
    describe(&layout, info);
}
