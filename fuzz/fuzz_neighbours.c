/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours that anyone may have written. The first byte chooses the format of FUZZ_FORMATS ("npz", or the ones
 * without checksums), the rest is the file. A .npz is read as it is and with its CRCs made right, since they would stop
 * nearly every changed file. What was read is written as .npz and must read back as the same.
 */
#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST 1
#include <zlib.h>

#include "fuzz_common.h"

#define MOST_UNPACKED ((uLong)1 << 20)

static uint32_t load(const uint8_t *at, size_t bytes)
{
    uint32_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | at[i];
    return value;
}

/* CRC-32 of what a deflated member unpacks to; false where it does not. */
static int crc_of_packed(const uint8_t *packed, uint32_t bytes, uint32_t *crc)
{
    z_stream stream = {.next_in = packed, .avail_in = bytes};
    uint8_t  part[4096];
    int      verdict = Z_OK;
    uLong    sum = crc32(0, NULL, 0);
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return 0;
    while (verdict == Z_OK && stream.total_out < MOST_UNPACKED) {
        stream.next_out = part;
        stream.avail_out = sizeof part;
        verdict = inflate(&stream, Z_NO_FLUSH);
        sum = crc32(sum, part, (uInt)(sizeof part - stream.avail_out));
    }
    *crc = (uint32_t)sum;
    (void)inflateEnd(&stream);
    return verdict == Z_STREAM_END;
}

/* Every entry of a directory, wherever it lies: the CRC of the bytes that it points to. */
static void repair_crcs(uint8_t *file, size_t size)
{
    for (size_t at = 0; at + 46 <= size; at++) {
        if (load(file + at, 4) != 0x02014b50u) continue;
        const size_t   local = load(file + at + 42, 4);
        const uint32_t packed = load(file + at + 20, 4), method = load(file + at + 10, 2);
        if (local > size || size - local < 30) continue;
        const size_t begin = local + 30 + load(file + local + 26, 2) + load(file + local + 28, 2);
        if (begin > size || packed > size - begin) continue;
        uint32_t crc = (uint32_t)crc32(crc32(0, NULL, 0), file + begin, packed);
        if (method == 8 && !crc_of_packed(file + begin, packed, &crc)) continue;
        for (size_t i = 0; i < 4; i++) file[at + 16 + i] = (uint8_t)(crc >> 8 * i);
    }
}

static void demand_same(const nf_neighbour_set *a, const nf_neighbour_set *b)
{
    const uint64_t queries = nf_neighbour_set_queries(a);
    const uint32_t k = nf_neighbour_set_k(a);
    fuzz_demand(nf_neighbour_set_queries(b) == queries && nf_neighbour_set_k(b) == k, "the same shape when read back");
    const size_t count = queries * k;
    if (count == 0) return;
    fuzz_demand(memcmp(nf_neighbour_set_ids(a), nf_neighbour_set_ids(b), count * sizeof(int64_t)) == 0,
                "the same ids when read back");
    fuzz_demand(memcmp(nf_neighbour_set_counts(a), nf_neighbour_set_counts(b), queries * sizeof(uint32_t)) == 0,
                "the same counts when read back");
    const double *left = nf_neighbour_set_distances(a), *right = nf_neighbour_set_distances(b);
    fuzz_demand((left == NULL) == (right == NULL), "distances stay, or stay away");
    for (size_t i = 0; left != NULL && i < count; i++) fuzz_demand(!(left[i] != right[i]), "the same distances");
}

static void use(const nf_neighbour_set *set)
{
    const uint64_t  queries = nf_neighbour_set_queries(set);
    const uint32_t  k = nf_neighbour_set_k(set);
    const uint32_t *counts = nf_neighbour_set_counts(set);
    const int64_t  *ids = nf_neighbour_set_ids(set);
    for (uint64_t row = 0; row < queries; row++) {
        fuzz_demand(counts[row] <= k, "counts are at most k");
        for (uint32_t j = 0; j < counts[row]; j++) fuzz_demand(ids[row * k + j] >= -1, "ids are from -1 on");
    }
    const nf_neighbours neighbours = {.struct_size = sizeof neighbours,
                                      .queries = queries,
                                      .k = k,
                                      .ids = ids,
                                      .distances = nf_neighbour_set_distances(set),
                                      .distances_dtype = NF_DTYPE_F64,
                                      .counts = counts};
    nf_write_params     write;
    nf_neighbour_set   *again = NULL;
    nf_write_params_init(&write);
    write.format = "npz";
    write.sync = 0;
    const nf_status written = nf_write_neighbours(fuzz_context(), &neighbours, fuzz_output_path(), &write);
    if (written != NF_OK) {
        fuzz_demand_error(written);
        fuzz_demand(written == NF_ERR_VALUE || queries == 0 || k == 0, "what was read is refused for its values only");
        return;
    }
    fuzz_demand(nf_read_neighbours(fuzz_context(), fuzz_output_path(), "npz", &again) == NF_OK, "it reads back");
    demand_same(set, again);
    nf_neighbour_set_release(again);
}

static void read_once(const uint8_t *data, size_t size, const char *format)
{
    nf_context       *ctx = fuzz_context();
    const size_t      before = fuzz_live();
    nf_neighbour_set *set = NULL;
    const nf_status   status = nf_read_neighbours(ctx, fuzz_input_path(data, size), format, &set);
    fuzz_demand((status == NF_OK) == (set != NULL), "a set exactly where the status is OK");
    if (status == NF_OK) {
        use(set);
    } else {
        fuzz_demand_error(status);
    }
    nf_neighbour_set_release(set);
    fuzz_demand(fuzz_live() == before, "all memory is given back");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const formats[] = {FUZZ_FORMATS};
    if (size < 1) return 0;
    const char *format = formats[data[0] % (sizeof formats / sizeof *formats)];
    read_once(data + 1, size - 1, format);
    if (strcmp(format, "npz") != 0) return 0;
    uint8_t *copy = malloc(size);
    fuzz_demand(copy != NULL, "memory for the input");
    memcpy(copy, data, size);
    repair_crcs(copy + 1, size - 1);
    if (memcmp(copy, data, size) != 0) read_once(copy + 1, size - 1, format);
    free(copy);
    return 0;
}
