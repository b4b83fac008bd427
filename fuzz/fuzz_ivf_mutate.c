/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutations of index files that keep their structure, so that most inputs get past the sizes: inside a section, of
 * whole numbers, of the parameters with all sections made to fit, of the list starts. One in eight is of plain bytes.
 */
#include <string.h>

#include "fuzz_file.h"
#include "ivf/ivf_file.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* xorshift; never 0. */
static uint32_t next(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static uint32_t below(uint32_t *state, uint64_t bound)
{
    return bound > 0 ? (uint32_t)(next(state) % bound) : 0;
}

/* Numbers that are likely to hurt: as integers and as binary32. */
static uint64_t hostile_number(uint32_t *state)
{
    static const uint64_t numbers[] = {
        0, 1, 7, 8, 31, 32, 33, 64, 255, 4096, 65535, 65536, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX,
        (uint64_t)1 << 63, (uint64_t)1 << 56, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 0xff7fffff, 0x00000001,
        0x80000000, 0x00800000, 0x7e967699, 0x3f800000, 0x5d5e0b6b, 0x7f7f7f7f7f7f7f7f,
    };
    return numbers[below(state, sizeof numbers / sizeof numbers[0])];
}

static void put_number(fuzz_section *section, uint32_t *state)
{
    const uint32_t width = 1u << below(state, 4);
    if (section->bytes < width) return;
    for (uint32_t i = 1 + below(state, 4); i > 0; i--) {
        const uint32_t at = below(state, section->bytes / width) * width;
        nf_sealed_put(section->data + at, width, hostile_number(state));
    }
}

/* Bytes of a section change; its length stays, but for one in sixteen. */
static void change_bytes(fuzz_section *section, uint32_t *state)
{
    const size_t bytes = section->bytes, room = bytes + 64;
    fuzz_resize(section, room);
    size_t after = LLVMFuzzerMutate(section->data, bytes, room);
    if (below(state, 16) != 0) after = bytes;
    section->bytes = after;
}

static void change_section(fuzz_file *parts, fuzz_section *section, uint32_t *state)
{
    switch (below(state, 4)) {
    case 0: section->flags = next(state); break;
    case 1: section->type += below(state, 3) - 1; break; /* order and uniqueness may break: that too */
    case 2: fuzz_resize(section, below(state, 2 * section->bytes + 2)); break;
    default: { /* taken out */
        fuzz_section *last = &parts->sections[parts->count - 1];
        fuzz_resize(section, 0);
        const fuzz_section empty = *section;
        memmove(section, section + 1, (size_t)((char *)last - (char *)section));
        *last = empty;
        last->type = NF_SEALED_CHECKSUMS - 1;
        last->flags = 0;
    }
    }
}

/* ---- the parameters, and everything that follows from them ---- */

static uint32_t get_field(const fuzz_section *params, uint32_t field)
{
    return (uint32_t)nf_sealed_get(params->data + 16 + 4 * field, 4);
}

static void put_field(fuzz_section *params, uint32_t field, uint32_t value)
{
    nf_sealed_put(params->data + 16 + 4 * field, 4, value);
}

/* Fields of the section in its order, after rows and seed. */
enum { DIMS, PADDED, LISTS, BITS, METRIC, ROTATION, WIDE, USER, KEEP, DTYPE, POINTS };

static void change_params(fuzz_section *params, uint32_t *state)
{
    const uint32_t dims = 1 + below(state, below(state, 4) == 0 ? 300 : 40);
    switch (below(state, 8)) {
    case 0: nf_sealed_put(params->data, 8, 1 + below(state, 200)); break;
    case 1: put_field(params, DIMS, dims); break;
    case 2: put_field(params, LISTS, 1 + below(state, 20)); break;
    case 3: put_field(params, BITS, 1 + below(state, 9)); break;
    case 4: put_field(params, METRIC, below(state, 3)); break;
    case 5: put_field(params, ROTATION, below(state, 2)); break;
    case 6: put_field(params, WIDE + below(state, 3), below(state, 2)); break;
    default: put_field(params, DTYPE, 1 + below(state, 11)); break;
    }
}

static void fit(fuzz_file *parts, uint32_t type, uint64_t bytes)
{
    fuzz_section *section = fuzz_find(parts, type);
    uint32_t      at = 0;
    if (section == NULL) {
        if (bytes == 0 || parts->count == NF_SEALED_MAX_SECTIONS) return;
        while (at < parts->count && parts->sections[at].type < type) at++;
        section = &parts->sections[at];
        memmove(section + 1, section, (parts->count - at) * sizeof *section);
        *section = (fuzz_section){.type = type, .flags = NF_SEALED_REQUIRED};
        parts->count++;
    }
    fuzz_resize(section, (size_t)bytes);
}

/* List starts that ascend to rows; returns the number of blocks. */
static uint64_t fit_lists(fuzz_file *parts, uint64_t rows, uint32_t lists, uint32_t *state)
{
    fit(parts, NF_IVF_SECTION_LISTS, 8 * ((uint64_t)lists + 1));
    fuzz_section *section = fuzz_find(parts, NF_IVF_SECTION_LISTS);
    uint64_t      before = 0, blocks = 0;
    if (section == NULL) return 0;
    nf_sealed_put(section->data, 8, 0);
    for (uint32_t list = 1; list <= lists; list++) {
        uint64_t start = nf_sealed_get(section->data + 8 * list, 8);
        if (below(state, 4) == 0) start = before + below(state, 70);
        if (start < before) start = before;
        if (start > rows || list == lists) start = rows;
        nf_sealed_put(section->data + 8 * list, 8, start);
        blocks += (start - before + NF_IVF_BLOCK - 1) / NF_IVF_BLOCK;
        before = start;
    }
    return blocks;
}

/* Numbers below rows, as full verification wants them. */
static void fit_ids(fuzz_file *parts, uint64_t rows, uint32_t bytes)
{
    fit(parts, NF_IVF_SECTION_IDS, rows * bytes);
    fuzz_section *section = fuzz_find(parts, NF_IVF_SECTION_IDS);
    for (uint64_t i = 0; section != NULL && i < rows; i++) {
        uint8_t *at = section->data + i * bytes;
        nf_sealed_put(at, bytes, nf_sealed_get(at, bytes) % rows);
    }
}

/* Slots behind the last row of each list: zeros. */
static void clear_filling(fuzz_file *parts, uint32_t padded, uint32_t lists)
{
    const fuzz_section *starts = fuzz_find(parts, NF_IVF_SECTION_LISTS);
    const fuzz_section *blocks = fuzz_find(parts, NF_IVF_SECTION_BLOCKS);
    if (starts == NULL || blocks == NULL) return;
    uint8_t *block = blocks->data;
    for (uint32_t list = 0; list < lists; list++) {
        uint64_t rows = nf_sealed_get(starts->data + 8 * (list + 1), 8) - nf_sealed_get(starts->data + 8 * list, 8);
        for (; rows > 0; block += nf_ivf_block_bytes(padded)) {
            const uint32_t used = rows < NF_IVF_BLOCK ? (uint32_t)rows : NF_IVF_BLOCK;
            uint8_t       *factors = block + (size_t)padded * (NF_IVF_BLOCK / 8);
            for (uint32_t row = 0; row < padded / 8; row++) memset(block + row * 32 + used, 0, 32 - used);
            memset(factors + 4 * used, 0, 4 * (32 - used));
            memset(factors + 128 + 4 * used, 0, 4 * (32 - used));
            memset(factors + 256 + 2 * used, 0, 2 * (32 - used));
            rows -= used;
        }
    }
}

/* Makes all sections as long as the parameters say, as long as that is little. */
static void fit_all(fuzz_file *parts, uint32_t *state, size_t room)
{
    static const uint8_t dtype_bytes[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8};
    fuzz_section        *params = fuzz_find(parts, NF_IVF_SECTION_PARAMS);
    const uint64_t       rows = nf_sealed_get(params->data, 8), dims = get_field(params, DIMS);
    const uint32_t       lists = get_field(params, LISTS), bits = get_field(params, BITS);
    const uint32_t       dtype = get_field(params, DTYPE), wide = get_field(params, WIDE) != 0 ? 8 : 4;
    if (rows == 0 || rows > 5000 || dims == 0 || dims > 1000 || lists == 0 || lists > 500 || dtype > 11) return;
    if (bits == 0 || bits > 9) return;
    const uint32_t padded = (uint32_t)(dims + 7) / 8 * 8, dense = get_field(params, ROTATION);
    const uint64_t matrix = dense != 0 ? 4ull * padded * padded : padded / 2;
    const uint64_t vectors = get_field(params, KEEP) != 0 ? rows * dims * dtype_bytes[dtype] : 0;
    const uint64_t record = nf_ivf_record_bytes(padded, bits);
    if (matrix + vectors + rows * record + (uint64_t)lists * padded * 4 + rows * padded > room) return;

    put_field(params, PADDED, padded);
    if (get_field(params, POINTS) > lists) put_field(params, POINTS, 0);
    const uint32_t points = get_field(params, POINTS);
    fit(parts, NF_IVF_SECTION_MEAN, 4 * dims);
    fit(parts, NF_IVF_SECTION_ROTATION, matrix);
    fit(parts, NF_IVF_SECTION_CENTROIDS, (uint64_t)lists * padded * 4);
    const uint64_t blocks = fit_lists(parts, rows, lists, state);
    fit(parts, NF_IVF_SECTION_BLOCKS, blocks * nf_ivf_block_bytes(padded));
    fit(parts, NF_IVF_SECTION_RECORDS, rows * record);
    fit_ids(parts, rows, wide);
    fit(parts, NF_IVF_SECTION_RECALL, 16ull * points);
    fit(parts, NF_IVF_SECTION_VECTORS, vectors);
    clear_filling(parts, padded, lists);
}

static void mutate(fuzz_file *parts, uint32_t *state, size_t room)
{
    fuzz_section *section = &parts->sections[below(state, parts->count)];
    fuzz_section *params = fuzz_find(parts, NF_IVF_SECTION_PARAMS);
    switch (below(state, 8)) {
    case 0: change_section(parts, section, state); break;
    case 1:
    case 2: change_bytes(section, state); break;
    case 3:
    case 4: put_number(section, state); break;
    default:
        if (params == NULL || params->bytes != NF_IVF_PARAMS_BYTES) break;
        change_params(params, state);
        if (below(state, 2) == 0) change_params(params, state);
        fit_all(parts, state, room);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    uint32_t  state = seed * 2654435761u + 1;
    fuzz_file parts;

    if (state == 0) state = 1;
    (void)next(&state);
    if (below(&state, 8) == 0) return LLVMFuzzerMutate(data, size, max_size);
    fuzz_take(data, size, &parts);
    if (parts.count == 0) return LLVMFuzzerMutate(data, size, max_size);
    for (uint32_t i = 1 + below(&state, 3); i > 0; i--) mutate(&parts, &state, max_size);
    const size_t bytes = fuzz_write(&parts, data, max_size);
    fuzz_free(&parts);
    return bytes > 0 ? bytes : size;
}
