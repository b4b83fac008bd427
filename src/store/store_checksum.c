/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums on all threads. XXH3-64 of a section is one chain and cannot be cut into tasks, so each section of more
 * than a MiB is a task of its own; these come first, since they take longest. Then each MiB is a task. A section of at
 * most a MiB is its only chunk, and hashed once.
 */
#include "store_checksum.h"

#include <stddef.h>

#include <xxhash.h>

#include "core/core_pool.h"
#include "store_layout.h"

typedef struct checksum_job {
    nf_context              *ctx;
    const nf_sealed_section *sections;
    uint32_t                 count;
    uint32_t                 long_count;
    uint32_t                 longs[NF_SEALED_MAX_SECTIONS]; /* sections of more than one chunk */
    uint64_t                *section_sums, *chunk_sums;
} checksum_job;

uint64_t nf_sealed_hash(const void *data, uint64_t bytes)
{
    return XXH3_64bits(bytes > 0 ? data : "", (size_t)bytes);
}

static void hash_chunk(const checksum_job *job, uint64_t chunk)
{
    uint64_t index = chunk;
    uint32_t i = 0;

    while (index >= nf_sealed_chunks(job->sections[i].bytes)) index -= nf_sealed_chunks(job->sections[i++].bytes);
    const nf_sealed_section *section = &job->sections[i];
    const uint64_t           left = section->bytes - index * NF_SEALED_CHUNK;
    const uint64_t           bytes = left < NF_SEALED_CHUNK ? left : NF_SEALED_CHUNK;
    job->chunk_sums[chunk] = nf_sealed_hash((const uint8_t *)section->data + index * NF_SEALED_CHUNK, bytes);
    if (bytes == section->bytes) job->section_sums[i] = job->chunk_sums[chunk];
    nf_progress_add(job->ctx, bytes);
}

static nf_status hash_task(void *arg, uint64_t task, uint32_t worker)
{
    const checksum_job *job = arg;
    (void)worker;
    if (task < job->long_count) {
        const uint32_t i = job->longs[task];
        job->section_sums[i] = nf_sealed_hash(job->sections[i].data, job->sections[i].bytes);
    } else {
        hash_chunk(job, task - job->long_count);
    }
    return NF_OK;
}

nf_status nf_sealed_checksums(nf_context *ctx, const nf_sealed_section *sections, uint32_t count,
                              uint64_t *section_sums, uint64_t *chunk_sums)
{
    checksum_job job = {.ctx = ctx, .sections = sections, .count = count, .section_sums = section_sums,
                        .chunk_sums = chunk_sums};
    uint64_t     chunks = 0;

    for (uint32_t i = 0; i < count; i++) {
        chunks += nf_sealed_chunks(sections[i].bytes);
        if (sections[i].bytes == 0) section_sums[i] = nf_sealed_hash(NULL, 0);
        if (sections[i].bytes > NF_SEALED_CHUNK) job.longs[job.long_count++] = i;
    }
    return nf_pool_run(ctx, hash_task, &job, job.long_count + chunks);
}
