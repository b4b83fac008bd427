/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32 of data that is written in pieces, in any order and from several threads.
 *
 * The CRC of A followed by B is the CRC of A, moved over the length of B, xor the CRC of B; so the CRC of a whole is
 * the xor of its pieces' CRCs, each moved over the bytes that come after the piece.
 */
#ifndef NF_IO_CRC_H
#define NF_IO_CRC_H

#include <stddef.h>
#include <stdint.h>

#define NF_CRC_BITS 48 /* lengths below 2^48 bytes */

/* For each power of two the linear map "moved over 2^k bytes", as one table per byte of the CRC. */
typedef struct nf_crc_table {
    uint32_t map[NF_CRC_BITS][4][256];
} nf_crc_table;

void nf_crc_table_fill(nf_crc_table *table);

/* CRC-32 (the one of zip) of a piece. */
uint32_t nf_crc_bytes(const void *data, size_t bytes);

/* The CRC moved over the bytes that follow. */
uint32_t nf_crc_move(const nf_crc_table *table, uint32_t crc, uint64_t bytes_after);

#endif
