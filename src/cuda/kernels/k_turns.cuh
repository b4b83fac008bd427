/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of pairs (k_scan.h): wave by wave, a wave's by query, a query's by place. */
#ifndef NF_K_TURNS_CUH
#define NF_K_TURNS_CUH

#include "k_launch.h"
#include "k_scan.h"

typedef struct nf_k_turn {
    uint32_t wave, query, place;
} nf_k_turn;

static __device__ inline uint32_t nf_k_wave_first(const nf_k_turns &turns, uint32_t wave)
{
    return wave == 0 ? 0 : turns.wave_end[wave - 1];
}

static __device__ inline uint64_t nf_k_pair_of(const nf_k_turns &turns, uint32_t wave, uint32_t query, uint32_t place)
{
    const uint32_t first = nf_k_wave_first(turns, wave), end = turns.wave_end[wave];
    return (uint64_t)turns.count * first + (uint64_t)query * (end - first) + (place - first);
}

static __device__ inline nf_k_turn nf_k_turn_of(const nf_k_turns &turns, uint64_t pair)
{
    uint32_t wave = 0, first = 0;
    while (wave + 1 < turns.waves && pair >= (uint64_t)turns.count * turns.wave_end[wave]) first = turns.wave_end[wave++];
    const uint32_t wide = turns.wave_end[wave] - first;
    const uint32_t within = (uint32_t)(pair - (uint64_t)turns.count * first); /* pairs have 32-bit numbers */
    return {wave, within / wide, first + within % wide};
}

static __device__ inline uint32_t nf_k_list_of(const nf_k_turns &turns, const nf_k_turn &turn)
{
    return turns.list[(uint64_t)turn.query * turns.probes + turn.place];
}

#endif
