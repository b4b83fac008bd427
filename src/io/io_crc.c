/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving a CRC over n bytes is multiplication by x^(8n) modulo the polynomial: a linear map on 32 bits. The maps for
 * n = 1, 2, 4, ... are kept as tables, each from the one before applied twice, so a move costs four look-ups per set
 * bit of n: tens of nanoseconds, where millions of short rows would make the general multiplication felt.
 */
#include "io_crc.h"

#include <zlib.h>

#define POLYNOMIAL 0xedb88320u /* of zip, bit-reversed */

static uint32_t apply(const uint32_t map[4][256], uint32_t crc)
{
    return map[0][crc & 0xff] ^ map[1][crc >> 8 & 0xff] ^ map[2][crc >> 16 & 0xff] ^ map[3][crc >> 24];
}

/* Fills the tables of a map from the images of the 32 single bits. */
static void fill_map(uint32_t map[4][256], const uint32_t images[32])
{
    for (uint32_t byte = 0; byte < 4; byte++) {
        map[byte][0] = 0;
        for (uint32_t value = 1; value < 256; value++) {
            const uint32_t lowest = (uint32_t)__builtin_ctz(value);
            map[byte][value] = map[byte][value & (value - 1)] ^ images[8 * byte + lowest];
        }
    }
}

void nf_crc_table_fill(nf_crc_table *table)
{
    uint32_t images[32];

    for (uint32_t bit = 0; bit < 32; bit++) {
        uint32_t crc = (uint32_t)1 << bit;
        for (uint32_t step = 0; step < 8; step++) crc = crc >> 1 ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        images[bit] = crc;
    }
    fill_map(table->map[0], images);
    for (uint32_t power = 1; power < NF_CRC_BITS; power++) {
        const uint32_t(*half)[256] = (const uint32_t(*)[256])table->map[power - 1];
        for (uint32_t bit = 0; bit < 32; bit++) images[bit] = apply(half, apply(half, (uint32_t)1 << bit));
        fill_map(table->map[power], images);
    }
}

uint32_t nf_crc_bytes(const void *data, size_t bytes)
{
    return (uint32_t)crc32_z(0, data, bytes);
}

uint32_t nf_crc_move(const nf_crc_table *table, uint32_t crc, uint64_t bytes_after)
{
    for (; bytes_after != 0; bytes_after &= bytes_after - 1) {
        crc = apply((const uint32_t(*)[256])table->map[__builtin_ctzll(bytes_after)], crc);
    }
    return crc;
}
