/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace of a search on the device: arrays for a number of queries, kept with the index for the next search. */
#ifndef NF_CUDA_IVF_ROOM_H
#define NF_CUDA_IVF_ROOM_H

#include "cuda_ivf_index.h"

#define NF_ROOM_EVENTS (2 * NF_K_MOST_WAVES + 6)

/* What an array's length depends on. */
typedef struct nf_room_size {
    uint64_t queries; /* at a time */
    uint32_t probes, k;
    uint32_t planes;    /* of the bitwise form; 0: none */
    bool     bytes;     /* the queries as int8, too */
    bool     tiles;     /* units of work by list */
    uint64_t raw_bytes; /* of a query as it comes; 0: none */
    bool     allowed;   /* a filter's words */
} nf_room_size;

/* Numbers of a batch that go back to the host together. */
typedef struct nf_room_report {
    unsigned long long scanned, refined, first_invalid;
} nf_room_report;

typedef struct nf_search_room {
    struct nf_search_room *next;
    nf_blocks              blocks;
    nf_room_size           size;
    cudaEvent_t            events[NF_ROOM_EVENTS];

    uint8_t        *raw;
    float          *rows; /* queries x stride of dims */
    double         *factors;
    nf_k_queries    queries;
    nf_k_turns      turns;
    float          *values;  /* queries x lists, rounded up */
    void           *scratch; /* of selections and ranking */
    uint32_t       *counts;  /* per pair, or per wave and list, and one more */
    uint64_t       *starts, *tile_starts;
    uint32_t       *by_list, *cursor, *tiles;
    void           *items;
    uint64_t        most_items;
    uint32_t       *masks;
    uint32_t       *allowed;
    void           *scan_scratch;
    size_t          scan_bytes; /* of prefix sums */
    nf_k_tops       tops;
    uint64_t       *slots; /* of results */
    float          *found;
    int64_t        *ids;
    uint32_t       *found_counts;
    nf_room_report *report;
} nf_search_room;

/* Bytes of device memory that a query takes, about. */
uint64_t nf_room_query_bytes(const nf_ivf_prepared *prepared, const nf_room_size *size);

/* And what all lists take in precision tile. */
uint64_t nf_room_list_bytes(const nf_ivf_prepared *prepared);

/* Queries of the largest kept workspace of that size but for its queries; 0: none. */
uint64_t nf_room_kept_queries(nf_ivf_prepared *prepared, const nf_room_size *size);

/* A workspace of at least that size; it goes back with nf_room_keep. */
nf_status nf_room_take(nf_context *ctx, nf_ivf_prepared *prepared, const nf_room_size *size, nf_search_room **out);
void      nf_room_keep(nf_ivf_prepared *prepared, nf_search_room *room);

/* Frees a workspace. */
void nf_room_close(nf_search_room *room);

#endif
