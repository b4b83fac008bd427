/* SPDX-License-Identifier: Apache-2.0 */
/* The table of IVF-RaBitQ kernels of each instruction set; filled like the one of refinement (cpu_search.c). */
#include <pthread.h>

#include "core/core_system.h"
#include "cpu/kernels/ivf_kernels.h"

static nf_ivf_kernels tables[NF_ISA_NEON + 1];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    nf_ivf_kernels_fill_scalar(&tables[NF_ISA_SCALAR]);
    tables[NF_ISA_AVX2] = tables[NF_ISA_SCALAR];
#if defined(NF_HAVE_AVX2)
    if (nf_system_has_isa(NF_ISA_AVX2)) nf_ivf_kernels_override_avx2(&tables[NF_ISA_AVX2]);
#endif
    tables[NF_ISA_AVX512] = tables[NF_ISA_AVX2];
#if defined(NF_HAVE_AVX512)
    if (nf_system_has_isa(NF_ISA_AVX512)) nf_ivf_kernels_override_avx512(&tables[NF_ISA_AVX512]);
#endif
    tables[NF_ISA_NEON] = tables[NF_ISA_SCALAR];
#if defined(NF_HAVE_NEON)
    if (nf_system_has_isa(NF_ISA_NEON)) nf_ivf_kernels_override_neon(&tables[NF_ISA_NEON]);
#endif
}

const nf_ivf_kernels *nf_cpu_ivf_kernels(nf_isa isa)
{
    pthread_once(&tables_once, fill_tables);
    return &tables[isa == NF_ISA_AUTO ? NF_ISA_SCALAR : isa];
}
