/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each kind of data offers: one generate_<kind>.c per kind defines one nf_generate_ops. generate.c owns checking
 * of what all kinds share, threads, and the conversion to the type asked for.
 */
#ifndef NF_GENERATE_KINDS_H
#define NF_GENERATE_KINDS_H

#include "nearfield/generate.h"

/* What a kind needs for all rows. */
typedef struct nf_generator {
    const nf_generate_params *params;   /* of full size, checked */
    uint32_t                  side;     /* lattice: the side in use */
    uint32_t                  subspace; /* mixture: dims of the subspaces in use */
    double                   *centres;  /* mixture: clusters x dims */
    double                   *bases;    /* mixture: clusters x subspace x dims; NULL: the whole space */
} nf_generator;

typedef struct nf_generate_ops {
    const char *name;

    /* Checks the kind's own parameters and makes what all rows share. On failure nothing is held. */
    nf_status (*prepare)(nf_context *ctx, nf_generator *generator);

    /* Writes one row as binary64. scratch holds dims values. */
    void (*row)(const nf_generator *generator, uint64_t row, double *scratch, double *out);

    /* u8: 1 where values are integers that are stored as they are, 0 where [0, 1] is scaled to 0..255. */
    int integers;
} nf_generate_ops;

extern const nf_generate_ops nf_generate_uniform;
extern const nf_generate_ops nf_generate_exponential;
extern const nf_generate_ops nf_generate_mixture;
extern const nf_generate_ops nf_generate_lattice;

#endif
