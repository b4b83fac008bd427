/* SPDX-License-Identifier: Apache-2.0 */
/* IVF-RaBitQ with AVX-512: what is overridden of AVX2. */
#include "cpu/kernels/avx512/k_avx512.h"
#include "cpu/kernels/avx512/k_ivf_avx512.h"

void nf_ivf_kernels_override_avx512(nf_ivf_kernels *table)
{
    table->products = nf_k_products_avx512;
    table->below = nf_k_below_avx512;
    table->scan = nf_k_scan_avx512;
    table->dots = nf_k_dots_avx512;
}
