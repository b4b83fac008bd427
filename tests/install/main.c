/* SPDX-License-Identifier: Apache-2.0 */
/* A user of the installed library: joins four points on a line and expects the pairs that can be counted by hand. */
#include <stdio.h>
#include <string.h>

#include <nearfield/nearfield.h>

int main(void)
{
    const float      line[] = {0.0F, 1.0F, 2.0F, 10.0F}; /* within 1: (0,1), (1,0), (1,2), (2,1) */
    const nf_matrix  data = {.data = line, .rows = 4, .dims = 1, .dtype = NF_DTYPE_F32};
    nf_context      *ctx = NULL;
    nf_radius_index *index = NULL;
    nf_radius_params params;
    nf_csr          *csr = NULL;
    nf_error         error = {0};

    if (strcmp(nf_version(), NF_VERSION) != 0) return 2;
    if (nf_context_create(NULL, &ctx, &error) != NF_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 3;
    }
    nf_radius_params_init(&params);
    params.radius = 1.0;
    int result = 1;
    if (nf_radius_index_create(ctx, &data, NULL, &index) == NF_OK &&
        nf_radius_csr(ctx, index, NULL, &params, &csr, NULL) == NF_OK) {
        printf("nearfield %s: %d pairs\n", nf_version(), (int)csr->pairs);
        result = csr->pairs == 4 ? 0 : 4;
    } else {
        fprintf(stderr, "%s\n", nf_context_error(ctx)->text);
    }
    nf_csr_release(csr);
    nf_radius_index_release(index);
    nf_context_destroy(ctx);
    return result;
}
