/* SPDX-License-Identifier: Apache-2.0 */
/* The random rotation of an index: its signs or its matrix, a function of (seed, kind, dims) alone. */
#ifndef NF_IVF_ROTATION_H
#define NF_IVF_ROTATION_H

#include "core/core_context.h"
#include "engine/engine_ivf.h"

/* dims rounded up to a multiple of 8. */
uint32_t nf_ivf_padded(uint32_t dims);

static inline uint64_t nf_ivf_sign_bytes(uint32_t padded)
{
    return (uint64_t)NF_IVF_ROUNDS * (padded / 8);
}

/* Fills the signs of the fast rotation: nf_ivf_sign_bytes(padded) bytes. */
void nf_ivf_make_signs(uint64_t seed, uint32_t padded, uint8_t *signs);

/* Fills the orthogonal matrix of the dense rotation: padded x padded. */
nf_status nf_ivf_make_matrix(nf_context *ctx, uint64_t seed, uint32_t padded, float *matrix);

#endif
