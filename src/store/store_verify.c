/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Full verification: padding, then the checksum section against the table, then each MiB against the checksum section,
 * then each section against the table. In this order, because a MiB can only be blamed by a checksum that is itself
 * known to be right. All checksums are computed before any is compared, so that what is reported does not depend on the
 * threads.
 */
#include "store_verify.h"

#include <inttypes.h>

#include "core/core_context.h"
#include "store_checksum.h"

static nf_status check_padding(nf_context *ctx, const char *path, const uint8_t *file, uint64_t begin, uint64_t end)
{
    for (uint64_t at = begin; at < end; at++) {
        if (file[at] != 0) {
            return nf_fail(ctx, NF_ERR_DAMAGED,
                           "%s: byte %" PRIu64 " of the file is damaged: it is padding and must be 0, not %u",
                           path, at, (unsigned)file[at]);
        }
    }
    return NF_OK;
}

static nf_status check_all_padding(nf_context *ctx, const char *path, const nf_sealed_layout *layout,
                                   const uint8_t *file)
{
    uint64_t end = nf_sealed_head_bytes(layout->count);

    for (uint32_t i = 0; i < layout->count; i++) {
        NF_TRY(check_padding(ctx, path, file, end, layout->entries[i].offset));
        end = layout->entries[i].offset + layout->entries[i].bytes;
    }
    return check_padding(ctx, path, file, end, layout->bytes - NF_SEALED_FOOTER_BYTES);
}

static nf_status fail_chunk(nf_context *ctx, const char *path, const nf_sealed_entry *entry, uint64_t chunk)
{
    const uint64_t begin = chunk * NF_SEALED_CHUNK;
    const uint64_t left = entry->bytes - begin;
    const uint64_t bytes = left < NF_SEALED_CHUNK ? left : NF_SEALED_CHUNK;

    return nf_fail(ctx, NF_ERR_DAMAGED, "%s: section %" PRIu32 " is damaged, in bytes %" PRIu64 " to %" PRIu64
                   " of the file (%" PRIu64 " to %" PRIu64 " of the section)", path, entry->type, entry->offset + begin,
                   entry->offset + begin + bytes - 1, begin, begin + bytes - 1);
}

/* Computed checksums against those of the checksum section (stored) and of the table. */
static nf_status compare(nf_context *ctx, const char *path, const nf_sealed_layout *layout, const uint8_t *stored,
                         const uint64_t *section_sums, const uint64_t *chunk_sums)
{
    for (uint32_t i = 0; i + 1 < layout->count; i++) {
        const uint64_t chunks = nf_sealed_chunks(layout->entries[i].bytes);
        for (uint64_t chunk = 0; chunk < chunks; chunk++, chunk_sums++, stored += NF_SEALED_CHECKSUM_BYTES) {
            if (*chunk_sums != nf_sealed_get(stored, NF_SEALED_CHECKSUM_BYTES)) {
                return fail_chunk(ctx, path, &layout->entries[i], chunk);
            }
        }
    }
    for (uint32_t i = 0; i + 1 < layout->count; i++) {
        if (section_sums[i] != layout->entries[i].checksum) {
            return nf_fail(ctx, NF_ERR_DAMAGED, "%s: the checksum of section %" PRIu32 " in the table is %016" PRIx64
                           ", but that of its bytes is %016" PRIx64, path, layout->entries[i].type,
                           layout->entries[i].checksum, section_sums[i]);
        }
    }
    return NF_OK;
}

nf_status nf_sealed_verify(nf_context *ctx, const char *path, const nf_sealed_layout *layout, const uint8_t *file)
{
    const uint32_t         count = layout->count - 1;
    const nf_sealed_entry *last = &layout->entries[count];
    nf_sealed_section      sections[NF_SEALED_MAX_SECTIONS];
    uint64_t               section_sums[NF_SEALED_MAX_SECTIONS];

    NF_TRY(check_all_padding(ctx, path, layout, file));
    if (nf_sealed_hash(file + last->offset, last->bytes) != last->checksum) {
        return nf_fail(ctx, NF_ERR_DAMAGED, "%s: the section of checksums is damaged, in bytes %" PRIu64 " to %" PRIu64
                       " of the file", path, last->offset, last->offset + last->bytes - 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        sections[i] = (nf_sealed_section){.data = file + layout->entries[i].offset, .bytes = layout->entries[i].bytes};
    }
    uint64_t *chunk_sums = nf_alloc(ctx, last->bytes, 1);
    if (chunk_sums == NULL) return nf_alloc_status(ctx);
    nf_progress_begin(ctx, "verify", layout->bytes);
    nf_status status = nf_sealed_checksums(ctx, sections, count, section_sums, chunk_sums);
    if (status == NF_OK) status = compare(ctx, path, layout, file + last->offset, section_sums, chunk_sums);
    nf_free(chunk_sums);
    return status;
}
